"""Passes for smoothed penalties whose gradient clips entries, compiled by numba.

For a target around a centre, a thread computes a tile, the squares of its rows and its product
with a block before it reads the next tile.
"""

from __future__ import annotations

import math

import numpy as np

from weakprox.linalg.arrays import Array, square_error
from weakprox.passes.compiled import _block, _spread, compiled, inlined


@inlined
def _target_tile(X, C, A, numbers, squares):  # type: ignore[no-untyped-def]
    toward, away, steep, above, below, keep = numbers
    for i in range(X.shape[0]):
        x_row, c_row, a_row, square = X[i], C[i], A[i], 0.0
        for j in range(X.shape[1]):
            x = x_row[j]
            a = toward * c_row[j] - away * min(max(steep * x, -below), above) + keep * x
            a_row[j] = a
            square += np.float64(a) * np.float64(a)
        squares[i] = square


@compiled
def _target(X, C, A, Q, B, numbers, squares, low, high, rows):  # type: ignore[no-untyped-def]
    for i in range(low, high, rows):
        end = min(i + rows, high)
        _target_tile(X[i:end], C[i:end], A[i:end], numbers, squares[i:end])
        if Q.shape[1] > 0:
            np.dot(A[i:end], Q, B[i:end])


@compiled
def _slope(X, D, numbers, sums, low, high, rows):  # type: ignore[no-untyped-def]
    eta, steep, above, below, curvature = numbers
    for i in range(low, high):
        x_row, d_row, along = X[i], D[i], 0.0
        for j in range(X.shape[1]):
            at = x_row[j] + eta * d_row[j]
            pull = min(max(steep * at, -below), above) + curvature * at
            along += np.float64(pull) * np.float64(d_row[j])
        sums[i] = along


def target(
    X: Array, C: Array, A: Array, Q: Array | None, numbers: tuple[float, ...]
) -> tuple[Array, tuple[float, float]]:
    """Overwrite A by a C - b clip(t X, -below, above) + k X; return A Q, |A|^2 and its error.

    The numbers are (a, b, t, above, below, k).
    """
    block, B = _block(A, Q)
    squares = np.empty(X.shape[0])
    given = tuple(X.dtype.type(x) for x in numbers)
    _spread(A, _target, X, C, A, block, B, given, squares)
    square = math.fsum(squares.tolist())
    return B, (square, square_error(int(X.shape[1])) * square)


def slope(X: Array, D: Array, numbers: tuple[float, ...]) -> float:
    """Return <clip(t Z, -below, above) + k Z, D> at Z = X + eta D.

    The numbers are (eta, t, above, below, k).
    """
    sums = np.empty(X.shape[0])
    _spread(X, _slope, X, D, tuple(X.dtype.type(x) for x in numbers), sums)
    return math.fsum(sums.tolist())
