"""Chebyshev filters, which improve singular vectors by products only.

T_q(2 C'C / a^2 - I) does not amplify directions with singular values below a. It amplifies the
others, the more the larger their values are. A block of approximate singular vectors becomes
more accurate by such a filter (Zhou, Saad, Tiago & Chelikowsky 2006). It needs no products of
blocks with each other, which dominate the time of a Krylov method with many vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg._thin_svd import orthonormal, small_svd
from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.operators import Products
from weakprox.linalg.tiled import Tile

DEGREE = 4  # degree of the polynomial in C'C: two products each
WELL = 0.03  # least share of the norm that is left of a vector, or of a singular value
RANGE = 20.0  # logarithm of the largest amplification


def filtered(ops: Products, V: Tile, edge: float, largest: float) -> Tile:
    """Return T_q(2 C'C / edge^2 - I) V, for a matrix C whose norm is about `largest`."""
    growth = 2.0 * math.acosh(max(1.0 + 1e-9, largest / edge))
    degree = max(1, min(DEGREE, int(RANGE / growth)))
    found: Tile = chebyshev(lambda B: ops.transpose_times(ops.times(B)), V, edge, degree)
    return found


def chebyshev(square: Callable[[Array], Array], V: Array, edge: float, degree: int) -> Array:
    """Return T_q(2 C'C / edge^2 - I) V, with products of C'C that may be overwritten."""
    before, found = V, V
    for q in range(degree):
        product = square(found)
        product *= 2.0 / edge**2
        product -= found
        if q:
            product *= 2.0
            product -= before
        before, found = found, product
    return found


def ritz(ops: Products, V: Tile, *, quick: bool = False) -> LowRank:
    """Ritz triplets C V = U diag(s) in the span of V, in descending order.

    With `quick`, from Gram matrices, in less than half of the time. The triplets are then less
    accurate by the condition numbers of V, after scaling, and of the triplets. If these are
    large, the slower method is used.
    """
    found = _from_grams(ops, V) if quick else None
    if found is not None:
        return found
    V = orthonormal(V)
    U, s, Wt = small_svd(ops.times(V), int(V.shape[1]))
    return LowRank(U, s, (V @ Wt.T).T)


def _from_grams(ops: Products, V: Tile) -> LowRank | None:
    """Ritz triplets from Gram matrices, or None if they would not be accurate."""
    sizes = np.linalg.norm(V, axis=0)
    if not sizes.min() > 0.0:
        return None
    V = V / sizes
    try:
        root = np.linalg.cholesky(V.T @ V)
    except np.linalg.LinAlgError:
        return None
    if not root.diagonal().min() > WELL:
        return None
    CV = ops.times(V)
    inverse = np.linalg.inv(root)
    H = inverse @ (CV.T @ CV) @ inverse.T
    squares, W = decompositions.eigh(0.5 * (H + H.T))
    squares, W = squares[::-1], inverse.T @ W[:, ::-1]
    if not squares[-1] > WELL**2 * squares[0]:
        return None
    s = np.sqrt(squares)
    return LowRank(CV @ (W / s), s, (V @ W).T)
