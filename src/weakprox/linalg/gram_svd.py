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
from weakprox.linalg._thin_svd import OVERSAMPLE, ThinSVD, Vector, both_residuals
from weakprox.linalg.arrays import DOUBLE, Array, eps_of, like, namespace, to_numpy, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import all_threads

Active = Callable[[Vector], int]  # number of leading values that a proximal step keeps

DIGITS_LEFT = 1e5  # kept squares are at least this many roundings of the largest
ROWS = 512  # rows multiplied at once


def gram_svd(
    A: Array, active: Active, most: int, width: Callable[[Vector], int] | None = None
) -> ThinSVD | None:
    """The triplets that `active` counts, at most `most`; None if squaring is unsafe.

    `width` of all values is the number of columns of the basis.

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
    wide_as = kept + OVERSAMPLE if width is None else max(kept, width(s))
    W = xp.flip(W[:, -wide_as:], axis=1)
    V, BW = W[:, :kept], B @ (W if flat else W[:, :kept])
    top, BV = like(s[:kept], B), BW[:, :kept]
    U = upright(BV / top)
    residuals = both_residuals(LowRank(U, top, V.T), BV, B.T @ U)
    # a basis need not be orthonormal
    basis = BW / like(np.maximum(s[:wide_as], DOUBLE * s[0]), B) if flat else W
    U, V, basis = (xp.astype(x, A.dtype, copy=False) for x in (U, V, basis))
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


def upright(U: Array) -> Array:
    """Nearly orthonormal columns after a Newton step towards the nearest orthonormal block.

    The step squares the loss of orthogonality.
    """
    return 1.5 * U - U @ (0.5 * (U.T @ U))


def squared(B: Array) -> Array:
    """B'B, summed over blocks of rows so that each sum has few terms."""
    return product(B, B)


def product(A: Array, B: Array) -> Array:
    """A'B, summed likewise."""
    if B.shape[0] <= ROWS:
        return A.T @ B
    starts = range(0, int(B.shape[0]), ROWS)
    return sum(A[i : i + ROWS].T @ B[i : i + ROWS] for i in starts)


def gram_error(m: int, squares: Vector) -> float:
    """Bound on the error of the eigenvalues of `squared` B of m rows.

    The sum of all eigenvalues is the squared Frobenius norm of B. The error of the eigenvalue
    routine is added to that of the product.
    """
    own = decompositions.eigh_error(len(squares)) * float(squares[0])
    return product_error(m, float(squares.sum())) + DOUBLE * own


def product_error(m: int, size: float) -> float:
    """Bound on the norm of the error of `squared` B of m rows, for any summation order.

    A sum of k products has an error of at most k units of rounding of the sum of their
    absolute values. The norm of |B|'|B| is at most the squared Frobenius norm of B, `size`.
    """
    chain = min(m, ROWS) + -(-m // ROWS)
    return DOUBLE * 0.5 * chain * size * (1 + 1e-9)
