"""How the shrinkage of a convex fit is undone, for all models that do so.

A fit X is multiplied by a factor, or moved towards its refit R: the matrix with the singular
vectors of X (or with its support, if X is sparse only) that is nearest to the data. The
relaxed fit X + w (R - X) has one number to choose, as the factor has (Meinshausen, "Relaxed
Lasso", 2007). Both are chosen by data that the fit has not seen.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from weakprox.arguments import flag, is_auto
from weakprox.errors import InputError
from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.observed import Effects, Observed

Debias = bool | Literal["auto"]
Values = np.ndarray[Any, np.dtype[np.float64]]

NEWTON = 20  # steps of a refit to observed entries
STILL = 1e-8  # change of the values, relative to the largest, at which they end
SHORTEST = 1e-3  # of a full step
FLAT = 1e-10  # ridge of their equations, relative to the mean of the diagonal
PIECE = 1 << 22  # entries of the arrays that the equations are summed by


def debiasing(argument: str, value: Any) -> Debias:
    """True, False or "auto"."""
    if isinstance(value, str):
        if is_auto(value):
            return "auto"
        raise InputError(argument, repr(value), 'True, False or "auto"')
    return flag(argument, value)


def undone_by(scale: float, share: float) -> str:
    """What undid the shrinkage of scale X + share R: "none", "scale" or "refit"."""
    if share:
        return "refit"
    return "none" if scale == 1.0 else "scale"


def refit_values(X: LowRank, M: Any) -> Values:
    """Values t >= 0 for which U diag(t) V' is nearest to M, U and V being those of X."""
    return np.where(X.s > 0.0, np.maximum(along_triplets(X, M), 0.0), 0.0)


def along_triplets(X: LowRank, M: Any) -> Values:
    """u' M v for each pair of singular vectors of X."""
    found: Values = np.einsum("ij,ij->j", X.U, M @ X.Vt.T).astype(float)
    return found


def relaxed(towards: Values, length: Values) -> Values:
    """The share w of a refit that is best for unseen data Z, from 0 to 1.

    `towards` is <R - X, Z - X> and `length` is |R - X|^2, both summed over unseen data.
    """
    share = np.divide(towards, length, out=np.zeros_like(towards), where=length > 0.0)
    return np.clip(share, 0.0, 1.0)


def refit_observed(data: Observed, X: LowRank, effects: Effects) -> Values:
    """Values t >= 0 for which U diag(t) V' fits the observed entries best.

    U and V are the singular vectors of X. The intercepts are kept. Newton's method has one
    equation for each value; for squared errors one step is exact.
    """
    full, X = np.zeros(len(X.s)), X.leading(X.rank)
    if not X.rank:
        return full
    U, V, t = X.U, X.Vt.T, np.asarray(X.s, dtype=float)
    x = data.sampled(U * t, V)
    value = data.value(x, effects)
    for _ in range(NEWTON):
        q = data.dual(x, effects)
        slope = np.einsum("ij,ij->j", U, data.times(q, V))
        H = _curvatures(data, X, data.curvature(x, effects))
        ridge = FLAT * float(np.trace(H)) / len(t)
        if not ridge > 0.0:
            break
        step = np.linalg.solve(H + ridge * np.eye(len(t)), slope)
        length, before, last = 1.0, value, t
        while length >= SHORTEST:  # a full step, unless the loss rises
            t = np.maximum(last + length * step, 0.0)
            x = data.sampled(U * t, V)
            value = data.value(x, effects)
            if value <= before:
                break
            length *= 0.25
        else:
            t = last
        if np.abs(t - last).max() <= STILL * np.abs(t).max():
            break
    full[: len(t)] = t
    return full


def _curvatures(data: Observed, X: LowRank, h: Any) -> Values:
    """Second derivatives of the loss by the values of X, h being those by its entries."""
    P: Any = data.pattern
    U, V = X.U, X.Vt.T
    if data.left is not None and data.right is not None:
        U, V = U * data.left[:, None], V * data.right[:, None]
    rows, columns = to_numpy(P.rows), to_numpy(P.columns)
    h = np.broadcast_to(h, rows.shape)
    found, step = np.zeros((len(X.s), len(X.s))), max(1, PIECE // len(X.s))
    for k in range(0, len(rows), step):
        part = slice(k, k + step)
        products = U[rows[part]] * V[columns[part]]
        found += products.T @ (h[part, None] * products)
    return found
