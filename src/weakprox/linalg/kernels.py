"""Passes over m x d arrays, each written to move as few bytes as its namespace allows.

Memory traffic is what an inner step costs, so the handful of dense formulas of a step
live here: in place, row block by row block on the CPU (temporaries stay in cache), and
through BLAS or torch where those fuse a product with the update.
"""

from __future__ import annotations

import array_api_compat as compat
import numpy as np
from scipy.linalg.blas import dgemm, sgemm

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


def blend_into(X: Array, V: LowRank, step: float) -> None:
    """Overwrite X by (1 - step) X + step V, V never formed."""
    left = V.U * (step * V.s)
    if is_numpy(X) and X.flags.c_contiguous and X.dtype in (np.float32, np.float64):
        gemm = dgemm if X.dtype == np.float64 else sgemm
        # X' = (1-step) X' + V' (U s)': BLAS sees the transposes as column-major
        gemm(1.0, V.Vt.T, left.T, beta=1.0 - step, c=X.T, overwrite_c=True)
    elif compat.is_torch_array(X):
        X.addmm_(left, V.Vt, beta=1.0 - step)
    else:
        X *= 1.0 - step
        X += left @ V.Vt


def _multiply(X: Array, scale: float, out: Array) -> None:
    if is_numpy(X):
        np.multiply(X, X.dtype.type(scale), out=out)
    else:
        out[...] = scale * X


def _clip(X: Array, bound: float) -> None:
    if is_numpy(X):
        np.clip(X, -bound, bound, out=X)
    else:
        X[...] = namespace(X).clip(X, -bound, bound)
