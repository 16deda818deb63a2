"""Simple covariances: the sample covariance, shrunk towards a target with few parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weakprox.selection.noise import Values

TARGETS = ("constant correlation", "identity")
AMOUNTS = (0.02, *(round(0.05 * k, 2) for k in range(1, 21)))


class Shrinkage(NamedTuple):
    """(1 - amount) S + amount F, F the target."""

    target: str
    amount: float


def candidates() -> list[Shrinkage]:
    """All targets and amounts to try."""
    return [Shrinkage(target, amount) for target in TARGETS for amount in AMOUNTS]


def target_parts(S: Values, target: str) -> tuple[Values, Values]:
    """v and d of the target v v' + diag(d).

    "constant correlation" keeps the variances of S and gives every pair the mean correlation
    (Ledoit & Wolf, "Honey, I shrunk the sample covariance matrix", 2004), if that is not
    negative. "identity" gives every variable the mean variance and no correlation.
    """
    variances = np.diag(S)
    size = len(variances)
    if target == "identity":
        return np.zeros(size), np.full(size, float(variances.mean()))
    scale = np.sqrt(variances)
    inverse = np.divide(1.0, scale, out=np.zeros(size), where=scale > 0.0)
    varying = int(np.count_nonzero(scale))
    pairs = float(inverse @ S @ inverse) - varying
    mean = max(0.0, pairs / max(1, varying * (varying - 1)))
    return np.sqrt(mean) * scale, (1.0 - mean) * variances


def losses(S: Values, unseen: Values) -> list[float]:
    """Squared distances of all candidates to another covariance."""
    away = S - unseen
    first = float(np.vdot(away, away))
    found = []
    for target in TARGETS:
        v, d = target_parts(S, target)
        move = np.outer(v, v) + np.diag(d) - S
        across, second = float(np.vdot(away, move)), float(np.vdot(move, move))
        found += [first + 2.0 * a * across + a * a * second for a in AMOUNTS]
    return found


def shrunk_parts(Z: Values, S: Values, chosen: Shrinkage) -> tuple[Values, Values]:
    """Factors A and diagonal d of the shrunk covariance A'A + diag(d); Z are the samples."""
    v, d = target_parts(S, chosen.target)
    share = chosen.amount
    rows: list[Any] = [np.sqrt((1.0 - share) / len(Z)) * Z, np.sqrt(share) * v[None]]
    A = np.vstack([part for part in rows if part.any()] or [np.zeros((0, len(v)))])
    return A, share * d
