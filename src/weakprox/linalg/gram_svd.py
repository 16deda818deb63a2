"""Full decompositions through the small Gram matrix, in less than half the time of an SVD.

The eigenvectors of A'A are the right singular vectors of A. Squaring costs half of the
digits of small singular values, but a proximal step only keeps values above a threshold.
If the threshold is not far below the largest value, nothing relevant is lost. Otherwise the
result is None and the caller uses LAPACK's SVD.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weakprox.errors import DecompositionError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import DOUBLE, Array, eps_of, like, namespace, to_numpy, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thin_svd import OVERSAMPLE, ThinSVD, Vector, both_residuals
from weakprox.linalg.threads import all_threads

DIGITS_LEFT = 1e5  # kept squares are at least this many roundings of the largest
ROWS = 512  # rows multiplied at once


def gram_svd(A: Array, active: Callable[[Vector], int], most: int) -> ThinSVD | None:
    """The triplets that `active` counts, at most `most`; None if squaring is unsafe.

    All computation is in float64. The squares of the singular values (before rounding to the
    dtype of A) have an error of at most `square_error`, which bounds based on them take into
    account.
    """
    xp = namespace(A)
    flat = int(A.shape[0]) < int(A.shape[1])
    B = wide(A.T if flat else A)
    n = int(B.shape[1])
    with all_threads(n):
        try:
            squares, W = decompositions.eigh(squared(B))
        except DecompositionError:  # squares overflow or underflow
            return None
    square = np.maximum(np.asarray(to_numpy(squares), dtype=float)[::-1], 0.0)
    s, error = np.sqrt(square), gram_error(int(B.shape[0]), square)
    kept = max(1, min(active(s), most))
    if not s[kept - 1] ** 2 > max(DIGITS_LEFT * DOUBLE * s[0] ** 2, 8 * error):
        return None
    W = xp.flip(W[:, -(kept + OVERSAMPLE) :], axis=1)
    V = W[:, :kept]
    top, BV = like(s[:kept], B), B @ V
    U = BV / top
    # one Newton step towards the nearest orthonormal block squares the loss of orthogonality
    U = 1.5 * U - U @ (0.5 * (U.T @ U))
    residuals = both_residuals(LowRank(U, top, V.T), BV, B.T @ U)
    U, V, basis = (xp.astype(x, A.dtype, copy=False) for x in (U, V, U if flat else W))
    top = xp.astype(top, A.dtype, copy=False)
    return ThinSVD(
        triplets=LowRank(V, top, U.T) if flat else LowRank(U, top, V.T),
        # the remaining terms are rounding errors, including rounding to the dtype of A
        residuals=xp.astype(residuals + 8 * eps_of(A) * float(s[0]), A.dtype, copy=False),
        next_value=float(s[kept]) if kept < s.size else 0.0,
        basis=basis,
        passes=0,
        exact=True,
        square_error=error,
    )


def squared(B: Array) -> Array:
    """B'B, summed over blocks of rows so that each sum has few terms."""
    if B.shape[0] <= ROWS:
        return B.T @ B
    return sum(B[i : i + ROWS].T @ B[i : i + ROWS] for i in range(0, int(B.shape[0]), ROWS))


def gram_error(m: int, squares: Vector) -> float:
    """Bound on the error of the eigenvalues of `squared` B of m rows, for any summation order.

    A sum of k products has an error of at most k units of rounding of the sum of their
    absolute values. The norm of |B|'|B| is at most the squared Frobenius norm of B, which is
    the sum of all eigenvalues. The error of the eigenvalue routine is added to this.
    """
    chain = min(m, ROWS) + -(-m // ROWS)
    own = decompositions.eigh_error(len(squares)) * float(squares[0])
    return DOUBLE * (0.5 * chain * float(squares.sum()) * (1 + 1e-9) + own)
