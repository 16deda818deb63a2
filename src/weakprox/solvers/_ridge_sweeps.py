"""Alternating ridge regressions at a low rank: a first point for proximal steps on an array.

With X = A B' of rank r, the nuclear norm is the least (|A|^2 + |B|^2) / 2 over such factors.
Given B and the intercepts of columns, each row of A and its intercept solve a small ridge
regression on the observed entries of that row, and the same holds for the columns. So two
sweeps complete the strong factors of the data, where proximal steps fill a hole by a share at
a time: they replace ten steps if 30 % of the entries are missing at random. This is a first
point only; nothing about it is assumed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.filled import Filled

RANK, SWEEPS = 8, 2  # of the first point: more of either save few steps
SPARE, POWERS = 4, 2  # further columns of the block that looks for factors, and its power steps
STRONG = 2.0  # factors have singular values above so many cut-offs
FREE = 1e-9  # ridge of intercepts, over the number of their observations

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def strong_factors(filled: Filled, cut: float, cap: int | None = None) -> LowRank | None:
    """Return a first point in the orientation of the array; None if no factor is strong.

    `cut` is the weight of the nuclear norm, in units of the weight of a squared error, and
    `cap` the largest rank. None also if the regressions are singular to rounding.
    """
    Y = filled.values
    B = _block(Y)
    Z = Y @ B
    _, s, Vt = decompositions.svd(Z)
    rank = min(RANK, cap or RANK, int((s > STRONG * cut).sum()))
    if rank == 0:
        return None
    seen = filled.seen()
    B = (B @ Vt[:rank].T) * np.sqrt(s[:rank])
    b = np.zeros(Y.shape[1])
    try:
        for _ in range(SWEEPS):
            A, a = _regressed(seen, Y, B, b, cut, free=filled.by_rows)
            B, b = _regressed(seen.T, Y.T, A, a, cut, free=filled.by_columns)
    except np.linalg.LinAlgError:
        return None
    if not (np.isfinite(A).all() and np.isfinite(B).all()):
        return None
    (Q, left), (P, right) = np.linalg.qr(A), np.linalg.qr(B)
    U, s, Vt = decompositions.svd(left @ right.T)
    return LowRank(Q @ U, s, Vt @ P.T)


def _block(Y: Matrix) -> Matrix:
    """Orthonormal columns near the leading right singular vectors of Y."""
    width = min(RANK + SPARE, Y.shape[1])
    # any block does: its product with Y tells strong factors from weak ones
    B = np.random.default_rng(0).standard_normal((Y.shape[1], width))
    for _ in range(POWERS):
        B = np.linalg.qr(Y.T @ (Y @ B))[0]
    return B


def _regressed(
    seen: Matrix, Y: Matrix, B: Matrix, b: Matrix, ridge: float, *, free: bool
) -> tuple[Matrix, Matrix]:
    """Return coefficients of each row of Y on B at its seen entries, and intercepts.

    Y is zero at other entries, and `b` are the intercepts of its columns. The intercepts of
    rows are zero if they are not `free`.
    """
    rank, rows = B.shape[1], Y.shape[0]
    Z = np.hstack([B, np.ones((len(B), 1))]) if free else B
    i, j = np.triu_indices(Z.shape[1])
    squares = seen @ (Z[:, i] * Z[:, j])
    G = np.empty((rows, Z.shape[1], Z.shape[1]))
    G[:, i, j] = G[:, j, i] = squares
    k = np.arange(rank)
    G[:, k, k] += ridge
    if free:
        G[:, rank, rank] = np.maximum(G[:, rank, rank] * (1.0 + FREE), FREE)
    along = Y @ Z - seen @ (Z * b[:, None])
    found: Any = np.linalg.solve(G, along[:, :, None])[:, :, 0]
    a = found[:, rank] if free else np.zeros(rows)
    return np.ascontiguousarray(found[:, :rank]), a
