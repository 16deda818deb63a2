"""Leading singular triplets and eigenpairs by a warm-started block Krylov method.

One sweep computes A Q, a small Rayleigh-Ritz problem, and A'U. The second product gives the
residual of every triplet and, at no extra cost, the next block. With a good start (the last
call's basis), one sweep is usually enough. From a random start the blocks form a Krylov
space, which is restarted when it grows too wide (see Musco & Musco 2015 for the rate).

The block for the algebraically largest eigenpairs spans the last Ritz vectors and their
residuals (thick-restarted block Lanczos). Unlike a plain power iteration, it is not misled by
large negative eigenvalues. Residuals need no extra product, since A V is a combination of known
products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse.linalg import svds

from weakprox.errors import DecompositionError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import (
    Array,
    device_of,
    eps_of,
    gaussian,
    is_numpy,
    like,
    namespace,
    to_numpy,
)
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.operators import Products, products
from weakprox.linalg.threads import all_threads

Method = Literal["auto", "block", "lapack", "arpack", "propack"]
Vector = np.ndarray[Any, np.dtype[np.floating[Any]]]
Accept = Callable[[Vector, Vector, float], bool]

OVERSAMPLE = 6  # extra columns, FRESH of them random: they speed up convergence,
# give the next value, and find directions that the others miss
MAX_BLOCKS = 4  # width of the Krylov space in blocks before it is restarted
# When LAPACK's full decomposition is faster (benchmarks/thin_svd.py): on narrow matrices,
# on wider ones without a starting basis, and for a large share of the triplets.
FULL_BELOW = 48
MEASURED = 600  # size up to which residuals of all eigenvectors are computed
FULL_BELOW_COLD = 128
FULL_SHARE = 0.25
FRESH = 2  # random columns in every starting block


@dataclass(frozen=True)
class ThinSVD:
    """Leading triplets of A with their quality."""

    triplets: LowRank
    residuals: Array  # per triplet, the larger of |A v - s u| and |A'u - s v|
    next_value: float  # Ritz value after the last triplet, at most the next singular value
    basis: Array  # right basis to start the next, nearby decomposition from
    passes: int  # products with A or A' computed; 0 for LAPACK
    exact: bool  # whether this is a full decomposition
    sweeps: int = 1
    square_error: float = 0.0  # of the squared values if they come from a Gram matrix
    value_error: float = 0.0  # of the values if they come from LAPACK


def wants_full(shape: tuple[int, int], rank: int, warm: bool) -> bool:
    """Return True if a full decomposition is the cheaper way to compute `rank` triplets."""
    narrow = FULL_BELOW if warm else FULL_BELOW_COLD
    return min(shape) <= narrow or rank >= FULL_SHARE * min(shape)


def thin_svd(
    A: Any,
    rank: int,
    *,
    start: Array | None = None,
    tol: float = 1e-8,
    method: Method = "auto",
    rng: np.random.Generator | None = None,
    max_sweeps: int = 60,
    strict: bool = True,
    accept: Accept | None = None,
) -> ThinSVD:
    """Leading `rank` singular triplets of a matrix, each residual-checked.

    A is an array, a SciPy sparse matrix or a LinearOperator; iterative methods only use its
    products. `start` is a right basis, such as that of an earlier result, and `tol` the largest
    residual allowed, relative to the largest singular value. If it is not met, `strict` raises
    `DecompositionError`; otherwise the last triplets are returned with their residuals.
    `accept(values, residuals, next_value)` on NumPy vectors ends the block method early.

    "auto" uses LAPACK if a full decomposition is cheaper (see `wants_full`), else the block
    method. ARPACK and PROPACK can be faster from a cold start on a flat spectrum, but they may
    miss repeated values.
    """
    ops = products(A)
    rank = min(rank, min(ops.shape))
    if method == "auto":
        full = ops.is_dense and wants_full(ops.shape, rank, start is not None)
        method = "lapack" if full else "block"
    if rng is None:
        rng = np.random.default_rng(0)
    if method == "lapack":
        return _lapack(ops, rank)
    if method == "block":
        found = _block_krylov(ops, rank, start, tol, rng, max_sweeps, accept)
    else:
        found = _scipy(ops, rank, tol, method, rng)
        largest = float(found.triplets.s[0])
        if largest == 0.0 or float(found.residuals.max()) > tol * largest:
            # ties, rank deficiency or zero: single-vector Lanczos fails, so use blocks
            found = _block_krylov(ops, rank, found.basis, tol, rng, max_sweeps)
    worst = float(found.residuals.max())
    scale = float(found.triplets.s[0])
    if strict and worst > max(tol, 200 * eps_of(found.residuals)) * scale:
        raise DecompositionError(
            f"{method} SVD of rank {rank} ended with residual {worst:.1e}, above "
            f"{tol:.1e} of the largest singular value {scale:.1e}; allow more sweeps "
            "or use method='lapack'."
        )
    return found


def _block_krylov(
    ops: Products,
    rank: int,
    start: Array | None,
    tol: float,
    rng: np.random.Generator,
    max_sweeps: int,
    accept: Accept | None = None,
) -> ThinSVD:
    xp = namespace(ops.reference)
    width = min(rank + OVERSAMPLE, min(ops.shape))
    K = starting_block(start, ops.shape[1], width, rng, ops.reference)
    AK = ops.times(K)
    for sweep in range(1, max_sweeps + 1):
        U, s, Wt = small_svd(AK, width)
        V = K @ Wt.T
        Z = ops.transpose_times(U)
        R = Z - V * s
        sizes = xp.linalg.vector_norm(R, axis=0)
        residuals = sizes[:rank]
        floor = 100 * eps_of(s) * float(s[0])
        worst = float(xp.max(residuals))
        spanned = int(K.shape[1]) >= ops.shape[1]
        after = float(s[rank]) if width > rank else 0.0
        if accept is not None and accept(to_numpy(s[:rank]), to_numpy(residuals), after):
            break
        if worst <= max(tol * float(s[0]), floor) or spanned or sweep == max_sweeps:
            break
        if K.shape[1] + width > min(MAX_BLOCKS * width, ops.shape[1]):
            K, AK = V, U * s  # thick restart: A V = U s holds to rounding
        fresh = new_directions(R, sizes, float(s[0]), K)
        if fresh is None:
            break
        K = xp.concat([K, fresh], axis=1)
        AK = xp.concat([AK, ops.times(fresh)], axis=1)
    return ThinSVD(
        triplets=LowRank(U[:, :rank], s[:rank], V[:, :rank].T),
        residuals=residuals,
        next_value=after,
        basis=Z,
        passes=ops.passes,
        exact=False,
        sweeps=sweep,
    )


def _lapack(ops: Products, rank: int) -> ThinSVD:
    A = ops.source
    if not ops.is_dense:
        eye = like(np.eye(ops.shape[1]), ops.reference)
        A = ops.times(eye)
    with all_threads(min(ops.shape)):
        U, s, Vt = decompositions.svd(A)
    top = LowRank(U[:, :rank], s[:rank], Vt[:rank, :])
    return ThinSVD(
        triplets=top,
        residuals=both_residuals(top, A @ top.Vt.T, A.T @ top.U),
        next_value=float(s[rank]) if s.shape[0] > rank else 0.0,
        basis=Vt[: rank + OVERSAMPLE, :].T,
        passes=0,
        exact=True,
        value_error=decompositions.svd_error(s.shape[0]) * eps_of(s) * float(s[0]),
    )


def _scipy(
    ops: Products, rank: int, tol: float, method: Method, rng: np.random.Generator
) -> ThinSVD:
    if not (is_numpy(ops.source) or not ops.is_dense):
        raise DecompositionError(f"method={method!r} requires NumPy or SciPy inputs.")
    m, d = ops.shape
    # ARPACK and PROPACK cannot return all triplets; a full decomposition can.
    if rank + 1 >= min(m, d):
        return _lapack(ops, rank)
    v0 = rng.standard_normal(min(m, d) if method == "arpack" else m)
    try:
        U, s, Vt = svds(
            ops.source, k=rank + 1, tol=tol / 10, solver=method, v0=v0, maxiter=50 * m
        )
    except (RuntimeError, np.linalg.LinAlgError):  # zero or defective start space
        return _block_krylov(ops, rank, None, tol, rng, max_sweeps=60)
    order = np.argsort(-s)
    U, s, Vt = U[:, order], s[order], Vt[order, :]
    top = LowRank(U[:, :rank], s[:rank], Vt[:rank, :])
    residuals = both_residuals(top, ops.times(top.Vt.T), ops.transpose_times(top.U))
    return ThinSVD(top, residuals, float(s[rank]), Vt.T, ops.passes, exact=False)


def both_residuals(top: LowRank, AV: Array, AtU: Array) -> Array:
    """Per triplet, the larger of |A v - s u| and |A'u - s v|."""
    xp = namespace(AV)
    right = xp.linalg.vector_norm(AV - top.U * top.s, axis=0)
    left = xp.linalg.vector_norm(AtU - top.Vt.T * top.s, axis=0)
    return xp.maximum(right, left)


@dataclass(frozen=True)
class ThinEigh:
    """Largest eigenpairs A v = w v, descending, with residual norms and the next Ritz value."""

    values: Array
    vectors: Array
    residuals: Array
    next_value: float
    basis: Array
    passes: int
    exact: bool
    sweeps: int = 1


def thin_eigh(
    A: Array,
    rank: int,
    *,
    start: Array | None = None,
    tol: float = 1e-8,
    rng: np.random.Generator | None = None,
    max_sweeps: int = 100,
    strict: bool = True,
    full: bool | None = None,
    accept: Accept | None = None,
) -> ThinEigh:
    """Largest `rank` eigenpairs of a symmetric matrix; arguments as in `thin_svd`."""
    ops = products(A)
    n = ops.shape[0]
    rank = min(rank, n)
    xp = namespace(ops.reference)
    if full is None:
        full = ops.is_dense and wants_full(ops.shape, rank, start is not None)
    if full:
        with all_threads(n):
            w, V = decompositions.eigh(A)
        w, V = xp.flip(w), xp.flip(V, axis=1)
        top = V[:, :rank]
        if n <= MEASURED:
            residuals = xp.linalg.vector_norm(A @ top - top * w[:rank], axis=0)
        else:  # a bound on them: a product with all vectors would take a third of the time
            error = decompositions.eigh_error(n) * eps_of(w) * float(xp.max(xp.abs(w)))
            residuals = xp.zeros_like(w[:rank]) + error
        after = float(w[rank]) if rank < n else -np.inf
        return ThinEigh(
            w[:rank], top, residuals, after, V[:, : rank + OVERSAMPLE], 0, exact=True
        )
    if rng is None:
        rng = np.random.default_rng(0)
    width = min(rank + OVERSAMPLE, n)
    K = starting_block(start, n, width, rng, ops.reference)
    AK = ops.times(K)
    for sweep in range(1, max_sweeps + 1):
        H = K.T @ AK
        w, W = decompositions.eigh((H + H.T) / 2)
        w, W = xp.flip(w)[:width], xp.flip(W, axis=1)[:, :width]
        V, AV = K @ W, AK @ W
        R = AV - V * w
        sizes = xp.linalg.vector_norm(R, axis=0)
        residuals = sizes[:rank]
        worst = float(xp.max(residuals))
        scale = max(float(xp.max(xp.abs(w))), float(xp.linalg.vector_norm(H)) / n)
        limit = max(tol, 100 * eps_of(w)) * scale
        after = float(w[rank]) if width > rank else -np.inf
        if accept is not None and accept(to_numpy(w[:rank]), to_numpy(residuals), after):
            break
        if worst <= limit or K.shape[1] >= n or sweep == max_sweeps:
            break
        if K.shape[1] + width > min(MAX_BLOCKS * width, n):
            K, AK = V, AV
        fresh = new_directions(R, sizes, scale, K)
        if fresh is None:
            break
        K = xp.concat([K, fresh], axis=1)
        AK = xp.concat([AK, ops.times(fresh)], axis=1)
    if strict and worst > 5 * limit and ops.is_dense and n <= FULL_BELOW:
        # restarting a space that could contain everything loses more than it saves
        return thin_eigh(A, rank, full=True)
    if strict and worst > 5 * limit:
        raise DecompositionError(
            f"eigen-decomposition of rank {rank} ended with residual {worst:.1e}, "
            f"above {limit:.1e}; allow more sweeps or use full=True."
        )
    return ThinEigh(w[:rank], V[:, :rank], residuals, after, V, ops.passes, False, sweep)


def small_svd(B: Array, count: int) -> tuple[Array, Array, Array]:
    """Leading triplets of a tall thin block, from the SVD of a small square matrix."""
    Q, R = tall_qr(B)
    U, s, Wt = decompositions.svd(R)
    return Q @ U[:, :count], s[:count], Wt[:count, :]


def orthonormal(B: Array) -> Array:
    """Orthonormal basis of the columns of B, of the same width."""
    return tall_qr(B)[0]


def tall_qr(B: Array) -> tuple[Array, Array]:
    """Q and R of a tall thin block by two rounds of Cholesky QR.

    It uses only products and small factorisations, which run well on threads and
    accelerators. It falls back to Householder QR if the columns are nearly dependent.
    """
    xp = namespace(B)
    Q, R = B, None
    for _ in range(2):
        gram = Q.T @ Q
        root = _cholesky(gram)
        if root is None:
            Q, R = xp.linalg.qr(B)
            return Q, R
        Q = Q @ xp.linalg.inv(root).T
        R = root.T if R is None else root.T @ R
    return Q, R


def _cholesky(gram: Array) -> Array | None:
    """Lower Cholesky factor, or None if the matrix is too close to singular."""
    xp = namespace(gram)
    sizes = xp.sqrt(xp.linalg.diagonal(gram))
    if not float(xp.min(sizes)) > 0.0:
        return None
    root = decompositions.cholesky(gram / (sizes[:, None] * sizes[None, :]))
    if root is None or not float(xp.min(xp.linalg.diagonal(root))) > eps_of(gram) ** 0.25:
        return None
    return root * sizes[:, None]


def new_directions(R: Array, sizes: Array, scale: float, K: Array) -> Array | None:
    """Orthonormal basis of the residuals that have not converged, orthogonal to the basis K.

    Converged columns are rounding noise that lies mostly in the span of K. Normalising them
    would destroy the orthogonality of the space within a few sweeps, so they are left out.
    Return None if no column is left.
    """
    live = np.flatnonzero(to_numpy(sizes) > 100 * eps_of(R) * scale)
    live = live[: int(K.shape[0] - K.shape[1])]
    if live.size == 0:
        return None
    xp = namespace(R)
    B = R / xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    B = xp.take(B, xp.asarray(live, device=device_of(R)), axis=1)
    B = independent(B - K @ (K.T @ B))
    return orthonormal(B - K @ (K.T @ B))


def independent(B: Array) -> Array:
    """Orthonormal basis of the directions that the columns of B clearly span.

    After A has changed by a matrix of low rank, the residuals of a previously exact basis
    are linearly dependent. The extra columns of a full-width basis would be rounding noise
    and differ between machines.
    """
    xp = namespace(B)
    root = _cholesky(B.T @ B)
    if root is not None:
        return B @ xp.linalg.inv(root).T
    squares, W = decompositions.eigh(B.T @ B)
    values = to_numpy(squares)
    few = int((values <= 1000 * eps_of(B) * values[-1]).sum())
    return B @ (W[:, few:] / xp.sqrt(squares[few:]))


def starting_block(
    start: Array | None, rows: int, width: int, rng: np.random.Generator, ref: Array
) -> Array:
    """Orthonormal rows x width block: the given start, completed by Gaussian columns.

    At least FRESH columns are random. A basis that A maps into itself (common for sparse or
    block structure) has no residuals, so without random columns the iteration would never
    find larger values elsewhere.
    """
    xp = namespace(ref)
    have = 0 if start is None else min(int(start.shape[1]), max(1, width - FRESH))
    if start is None or have == 0:
        return orthonormal(gaussian(rng, (rows, width), ref))
    fresh = gaussian(rng, (rows, width - have), ref)
    return orthonormal(xp.concat([start[:, :have], fresh], axis=1))
