"""The pass of a proximal step over all cells of a matrix, compiled by numba, in threads.

For a residual loss, the square up to k and linear beyond it, one pass computes X, the dual
point, the target of the step and its products with a block, tile by tile. Sums are added up
within pieces of the matrix that do not depend on the number of threads, so neither do their
bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.linalg.threads import share
from weakprox.passes.compiled import PIECES, compiled, inlined

TILE_BYTES = 1 << 18  # bytes of X in a tile, which stays in cache for its products

Matrix = np.ndarray[Any, np.dtype[Any]]


@inlined
def _targets(M, x, k, scale, sums):  # type: ignore[no-untyped-def]
    # X becomes the target of the step; missing cells (NaN) keep x
    for i in range(x.shape[0]):
        m_row, x_row = M[i], x[i]
        value = along = square = 0.0
        for j in range(x.shape[1]):
            at = x_row[j]
            r = np.float64(m_row[j]) - at
            seen = r == r
            r = r if seen else 0.0
            q = min(max(r, -k), k)
            value += q * (r - 0.5 * q)
            along += q * at
            square += q * q
            x_row[j] = at + scale * q
        sums[0] += value
        sums[1] += along
        sums[2] += square


@compiled
def _piece(M, left, right, block, k, scale, rows, low, high, Z, W, sums):  # type: ignore[no-untyped-def]
    for first in range(low, high, rows):
        last = min(high, first + rows)
        x = np.dot(left[first:last], right)
        _targets(M[first:last], x, k, scale, sums)
        part = np.dot(x, block)
        Z[first:last] = part
        W += np.dot(x.T, part)


def stepped(
    M: Matrix, left: Matrix, right: Matrix, block: Matrix, k: float, steep: float
) -> tuple[Matrix, Matrix, Matrix]:
    """Return T B, T' T B and the sums of losses, of q x and of q^2 for X = left right.

    q is the residual M - X cut off at k, and T = X + q / steep.
    """
    (m, d), width = M.shape, block.shape[1]
    left, right, block = (np.ascontiguousarray(F, float) for F in (left, right, block))
    Z = np.empty((m, width))
    W, sums = np.zeros((PIECES, d, width)), np.zeros((PIECES, 3))
    rows = max(1, TILE_BYTES // (8 * d))
    edges = [m * piece // PIECES for piece in range(PIECES + 1)]

    def work(low: int, high: int) -> None:
        for piece in range(low, high):
            ends = edges[piece], edges[piece + 1]
            out = Z, W[piece], sums[piece]
            _piece(M, left, right, block, k, 1.0 / steep, rows, *ends, *out)

    share(np.arange(PIECES + 1), work)
    return Z, W.sum(axis=0), sums.sum(axis=0)
