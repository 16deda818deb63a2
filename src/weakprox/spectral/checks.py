"""Helpers of the spectral terms: feasible rounding of values, and random low-rank matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, eps_of, itemsize, like
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thin_svd import Vector

UNSEEN = 2.0**-46  # relative accuracy of norms of long vectors in float64


def excess(norm: float, tau: float) -> float:
    """Relative excess of a computed norm over tau, 0 if it may be rounding."""
    over = norm / tau - 1.0
    return over if over > UNSEEN else 0.0


def rounded_inside(p: Vector, tau: float, ref: Array) -> Array:
    """Round the values to the dtype of ref so that their sum does not exceed tau."""
    return like(rounded_on_host(p, tau, ref), ref)


def rounded_on_host(p: Any, tau: float, ref: Array) -> np.ndarray[Any, Any]:
    """As `rounded_inside`, as a NumPy array: transfers to a device would take longer."""
    kind = np.float32 if itemsize(ref) == 4 else np.float64
    exact = np.asarray(p, dtype=float)
    values: np.ndarray[Any, Any] = exact.astype(kind)
    shorter = 0.5 * eps_of(ref)  # as small as possible, since proofs lose this much
    while max(float(values.sum()), float(values.sum(dtype=float))) > tau:  # for any summation
        inside = tau / max(tau, float(exact.sum()))
        values = (exact * (inside * (1.0 - shorter))).astype(kind)
        shorter *= 2
    return values


def random_lowrank(
    rng: np.random.Generator,
    shape: tuple[int, int],
    values: Vector,
    ref: Array,
    *,
    symmetric: bool = False,
) -> LowRank:
    """Low-rank matrix with random orthonormal factors and the given values."""
    r = len(values)
    U = np.linalg.qr(rng.standard_normal((shape[0], r)))[0]
    V = U if symmetric else np.linalg.qr(rng.standard_normal((shape[1], r)))[0]
    return LowRank(like(U, ref), like(values, ref), like(V.T, ref))
