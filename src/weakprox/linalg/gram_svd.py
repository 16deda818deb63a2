"""Full decompositions through the small Gram matrix, in less than half the time of an SVD.

The eigenvectors of A'A are the right singular vectors of A. Squaring costs half of the
digits of small singular values, but a proximal step only keeps values above a threshold.
If the threshold is not far below the largest value, nothing relevant is lost. Otherwise the
result is None and the caller uses LAPACK's SVD.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weakprox.errors import DecompositionError
from weakprox.linalg import decompositions
from weakprox.linalg._thin_svd import OVERSAMPLE, ThinSVD, Vector, both_residuals
from weakprox.linalg.arrays import (
    DOUBLE,
    Array,
    device_of,
    eps_of,
    is_numpy,
    like,
    namespace,
    to_numpy,
    wide,
)
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import all_threads

Active = Callable[[Vector], int]  # number of leading values that a proximal step keeps

DIGITS_LEFT = 1e5  # kept squares are at least this many roundings of the largest
SINGLE = float(np.finfo(np.float32).eps)
SINGLE_LEFT = 1e3  # the same in single precision
SINGLE_ERROR = 16  # error of its eigenvectors, in units of rounding
ROUGH = 900  # columns from which single precision is faster
LOST = 0.05  # share of all values that squaring may lose if no value is truncated
NULL = 4.0  # length of a column that counts as zero, in units of n roundings of the longest
ROWS = 512  # rows multiplied at once


def gram_svd(
    A: Array,
    active: Active,
    most: int,
    width: Callable[[Vector], int] | None = None,
    *,
    rough: bool = False,
    near: Array | None = None,
    level: Callable[[Vector], float] | None = None,
) -> ThinSVD | None:
    """The triplets that `active` counts, at most `most`; None if squaring is unsafe.

    `width(values)` is the number of columns of the basis. If the cut-off, `level` of the
    values, is zero, all columns are returned, as described in `_whole`.

    All computation is in float64. The squares of the singular values (before rounding to the
    dtype of A) have an error of at most `square_error`, which bounds based on them take into
    account. `rough` triplets have estimated residuals, and on the host they are computed from
    eigenvectors in single precision if that is faster; `near` is a right basis of a nearby
    matrix, in descending order of its values.
    """
    flat = int(A.shape[0]) < int(A.shape[1])
    B = wide(A.T if flat else A)
    n = int(B.shape[1])
    with all_threads(n):
        G = squared(B)
        single = rough and is_numpy(B) and n >= ROUGH
        solved = _single(G, A, near) if single else None
        found = None if solved is None else _triplets(A, B, solved, active, most, width)
        if found is not None:
            return found
        try:
            solved = _double(G)
        except DecompositionError:  # squares overflow or underflow
            return None
        found = _triplets(A, B, solved, active, most, width, rough=rough)
        if found is None and level is not None and most >= n:
            found = _whole(A, B, solved, level)
        return found


@dataclass(frozen=True)
class _Solved:
    """Eigenpairs of a Gram matrix, in descending order."""

    squares: Vector
    columns: Callable[[int], Array]  # the first vectors
    left: float  # least share of the reference value that a kept square must have
    reference: int = 0  # index of the value that rounding errors are relative to
    exact: bool = True


def _double(G: Array) -> _Solved:
    squares, W = decompositions.eigh(G)
    values = np.maximum(np.asarray(to_numpy(squares), dtype=float)[::-1], 0.0)
    xp = namespace(W)
    return _Solved(values, lambda k: xp.flip(W[:, -k:], axis=1), DIGITS_LEFT * DOUBLE)


def _single(G: Array, A: Array, near: Array | None) -> _Solved | None:
    most = int(decompositions.FAR_SHARE * min(A.shape))
    if near is None or int(near.shape[1]) < most or most == 0:
        found = decompositions.rough_eigh(G)
    else:
        Q, flat = near, int(A.shape[0]) < int(A.shape[1])
        vectors = (lambda k: A @ Q[:, :k]) if flat else (lambda k: Q[:, :k])
        found = decompositions.rough_eigh(G, vectors, _far_width(A, Q[:, :most]))
    if found is None:
        return None
    squares, first, others = found
    far = int(first.shape[1])

    def columns(k: int) -> Array:
        more = others[:, : max(0, k - far)].astype(float)
        return np.hstack([first, more - first @ (first.T @ more)])[:, :k]

    return _Solved(np.maximum(squares, 0.0), columns, SINGLE_LEFT * SINGLE, far, exact=False)


def _far_width(A: Array, near: Array) -> int:
    """Columns of a block whose last value is probably not far above that of all columns."""
    most, width, widths = int(near.shape[1]), decompositions.FAR_COLUMNS, list[int]()
    while width < most:
        widths.append(width)
        width *= 2
    some = near[:, [*(w - 1 for w in widths), most - 1]]
    squares = (np.linalg.norm(A @ some, axis=0) / np.linalg.norm(some, axis=0)) ** 2
    level = decompositions.FAR * squares[-1]
    return next((w for w, x in zip(widths, squares, strict=False) if x <= level), most)


def _triplets(
    A: Array,
    B: Array,
    solved: _Solved,
    active: Active,
    most: int,
    width: Callable[[Vector], int] | None,
    *,
    rough: bool = False,
) -> ThinSVD | None:
    """Triplets of A from the eigenvectors of B'B, B being A or its transpose in float64."""
    xp, flat, exact = namespace(A), int(A.shape[0]) < int(A.shape[1]), solved.exact
    s, error = np.sqrt(solved.squares), gram_error(int(B.shape[0]), solved.squares)
    kept = max(1, min(active(s), most))
    reference = float(s[min(solved.reference, kept - 1)]) ** 2
    if not s[kept - 1] ** 2 > max(solved.left * reference, 8 * error):
        return None
    wide_as = kept + OVERSAMPLE if width is None else max(kept, width(s))
    W = solved.columns(wide_as)
    BW = B @ W if flat else None
    if exact:
        V, top = W[:, :kept], like(s[:kept], B)
        BV = B @ V if BW is None else BW[:, :kept]
        U = upright(BV / top)
        # those of eigenvectors of the Gram matrix are at most its error
        found = None if rough else LowRank(U, top, V.T)
        residuals = error / top if found is None else both_residuals(found, BV, B.T @ U)
    else:
        V = upright(W[:, :kept])
        BV = B @ V
        top = np.linalg.norm(BV, axis=0)
        order = np.argsort(-top, kind="stable")
        V, top = V[:, order], top[order]
        U = upright(BV[:, order] / top)
        # an estimate, since another product would take a tenth of the time
        residuals = SINGLE_ERROR * SINGLE * reference / np.minimum(top, math.sqrt(reference))
    # a basis need not be orthonormal
    scale = like(np.maximum(s[:wide_as], DOUBLE * s[0]), B)
    basis = W if BW is None else BW / scale
    U, V, basis = (xp.astype(x, A.dtype, copy=False) for x in (U, V, basis))
    top = xp.astype(top, A.dtype, copy=False)
    return ThinSVD(
        triplets=LowRank(V, top, U.T) if flat else LowRank(U, top, V.T),
        # the remaining terms are rounding errors, including rounding to the dtype of A
        residuals=xp.astype(residuals + 8 * eps_of(A) * float(s[0]), A.dtype, copy=False),
        next_value=float(s[kept]) if kept < s.size else 0.0,
        basis=basis,
        passes=0,
        exact=exact,
        square_error=error if exact else 0.0,
    )


def _whole(
    A: Array, B: Array, solved: _Solved, level: Callable[[Vector], float]
) -> ThinSVD | None:
    """All of A as B V, for eigenvectors V of B'B, if its cut-off is zero; else None.

    The columns of B V are not orthogonal where squaring has lost their values, but their
    product with V' is A, and the sum of their lengths is not less than the nuclear norm.
    None also if so many values are lost that A may have a lower rank.
    """
    xp, flat = namespace(A), int(A.shape[0]) < int(A.shape[1])
    n, error = int(B.shape[1]), gram_error(int(B.shape[0]), solved.squares)
    if level(np.sqrt(solved.squares)) > 0.0:
        return None
    V = solved.columns(n)
    U = B @ V
    lengths = xp.linalg.vector_norm(U, axis=0)
    s = np.asarray(to_numpy(lengths), dtype=float)
    order = np.argsort(-s, kind="stable")
    # B maps the other vectors to rounding errors, since its rank is lower
    order = order[s[order] > NULL * n * DOUBLE * s.max()]
    lost = int((s[order] ** 2 <= 8 * error).sum())
    if not order.size or lost > LOST * n or level(s) > 0.0:
        return None  # the rank would be overestimated, or values are truncated
    if len(order) < n or np.any(np.diff(order) != 1):
        index = xp.asarray(order, device=device_of(B))
        U, V, lengths = (xp.take(x, index, axis=-1) for x in (U, V, lengths))
    top = float(s[order[0]])
    U = U / xp.where(lengths > 0.0, lengths, 1.0)
    U, V, lengths = (xp.astype(x, A.dtype, copy=False) for x in (U, V, lengths))
    return ThinSVD(
        triplets=LowRank(V, lengths, U.T) if flat else LowRank(U, lengths, V.T),
        residuals=xp.zeros_like(lengths) + 8 * eps_of(A) * top,
        next_value=0.0,
        basis=U if flat else V,
        passes=0,
        exact=True,
        # that of the eigenvalues, and that of the lengths, which are Rayleigh quotients
        square_error=2 * error,
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


def gram_norm(G: Array, m: int, rows: int) -> float:
    """Upper bound on the norm of B of m rows, from B'B summed over blocks of `rows` rows."""
    with all_threads(int(G.shape[0])):
        squares = np.maximum(decompositions.eigvalsh(G)[::-1], 0.0)
    own = DOUBLE * decompositions.eigh_error(len(squares)) * float(squares[0])
    largest = float(squares[0]) + own + product_error(m, float(squares.sum()), rows)
    return math.sqrt(largest) * (1 + 8 * DOUBLE)


def product_error(m: int, size: float, rows: int = ROWS) -> float:
    """Bound on the norm of the error of `squared` B of m rows, for any summation order.

    A sum of k products has an error of at most k units of rounding of the sum of their
    absolute values. The norm of |B|'|B| is at most the squared Frobenius norm of B, `size`.
    """
    chain = min(m, rows) + -(-m // rows)
    return DOUBLE * 0.5 * chain * size * (1 + 1e-9)
