"""Passes over m x d arrays, each written to move as few bytes as its namespace allows.

An inner step is limited by memory traffic, so the few dense formulas of a step are here.
They work in place, by blocks of rows on the CPU (temporaries stay in cache), and through
BLAS or torch if those fuse a product with the update.
"""

from __future__ import annotations

import array_api_compat as compat
import numpy as np

from weakprox.linalg.arrays import Array, empty, is_numpy, namespace, row_blocks
from weakprox.linalg.lowrank import LowRank


def clipped(X: Array, scale: float, bound: float, shift: Array | None = None) -> Array:
    """clip(shift + scale X, -bound, bound) as a new array."""
    out = empty(X.shape, X)
    for rows in row_blocks(X):
        part = out[rows]
        _multiply(X[rows], scale, part)
        if shift is not None:
            part += shift[rows]
        _clip(part, bound)
    return out


def add_scaled(Y: Array, scale: float, X: Array) -> None:
    """Y += scale X."""
    if is_numpy(Y):
        for rows in row_blocks(Y):
            Y[rows] += X[rows] if scale == 1.0 else scale * X[rows]
    else:
        Y += scale * X


def subtract(X: Array, Y: Array, out: Array) -> Array:
    """X - Y written over `out`."""
    if is_numpy(out):
        return np.subtract(X, Y, out=out)
    out[...] = X - Y
    return out


def dense(V: LowRank, out: Array | None) -> Array:
    """V as a dense matrix, written to `out` if given."""
    if out is None:
        return V.dense()
    if is_numpy(out):
        return np.matmul(V.U * V.s, V.Vt, out=out)
    out[...] = V.dense()
    return out


def difference(X: Array, a: float, Y: Array, b: float, out: Array) -> None:
    """a X - b Y, written over `out`."""
    X = X if a == 1.0 else a * X
    Y = Y if b == 1.0 else b * Y
    subtract(X, Y, out)


def reflect(Y: Array, scale: float, X: Array, keep: float) -> None:
    """Overwrite Y by keep X - scale Y."""
    if scale != 1.0:
        Y *= scale
    if not is_numpy(Y):
        Y *= -1.0
        Y += X if keep == 1.0 else keep * X
    else:
        np.subtract(X if keep == 1.0 else keep * X, Y, out=Y)


def blend_into(X: Array, V: LowRank, step: float, scratch: Array | None = None) -> None:
    """Overwrite X by (1 - step) X + step V; `scratch`, like X, may be overwritten too."""
    left = V.U * (step * V.s)
    if compat.is_torch_array(X):
        X.addmm_(left, V.Vt, beta=1.0 - step)
        return
    if scratch is not None and is_numpy(X):
        np.matmul(left, V.Vt, out=scratch)
    else:
        scratch = None
    for rows in row_blocks(X):
        part = X[rows]
        part *= 1.0 - step
        part += left[rows] @ V.Vt if scratch is None else scratch[rows]


def times(X: Array, scale: float) -> Array:
    """Return scale X as a new array, for any step size; overflow gives infinity."""
    out = empty(X.shape, X)
    _multiply(X, scale, out)
    return out


def _multiply(X: Array, scale: float, out: Array) -> None:
    scale = min(scale, float(namespace(X).finfo(X.dtype).max))  # infinity times 0 is NaN
    if is_numpy(X):
        with np.errstate(over="ignore"):
            np.multiply(X, X.dtype.type(scale), out=out)
    else:
        out[...] = scale * X


def _clip(X: Array, bound: float) -> None:
    if is_numpy(X):
        np.clip(X, -bound, bound, out=X)
    else:
        X[...] = namespace(X).clip(X, -bound, bound)
