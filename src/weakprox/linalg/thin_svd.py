"""Leading singular triplets by a warm-started block Krylov method, residual-checked.

One sweep computes A Q, a small Rayleigh-Ritz problem, and A'U. The second product gives the
residual of every triplet and, at no extra cost, the next block. With a good start (the last
call's basis), one sweep is usually enough. From a random start the blocks form a Krylov
space, which is restarted when it grows too wide (see Musco & Musco 2015 for the rate).
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
    eps_of,
    is_numpy,
    like,
    namespace,
    to_numpy,
)
from weakprox.linalg.blocks import new_directions, small_svd, starting_block
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
FULL_BELOW_COLD = 128
FULL_SHARE = 0.25


@dataclass(frozen=True)
class ThinSVD:
    """Leading triplets of A with their quality.

    Attributes
    ----------
    triplets : LowRank
        U, s, Vt of the `rank` leading triplets.
    residuals : Array
        Per triplet, the larger of |A v - s u| and |A'u - s v|.
    next_value : float
        Ritz value after the last triplet: an estimate from below of the next
        singular value (exact for LAPACK).
    basis : Array
        Right basis to start the next, nearby decomposition from.
    passes : int
        Products with A or A' spent; 0 for LAPACK.
    exact : bool
        Whether this is a full decomposition.
    sweeps : int
        Iterations spent.
    square_error : float
        Error of the squared values if they come from a Gram matrix.
    value_error : float
        Error of the values if they come from LAPACK.
    """

    triplets: LowRank
    residuals: Array
    next_value: float
    basis: Array
    passes: int
    exact: bool
    sweeps: int = 1
    square_error: float = 0.0
    value_error: float = 0.0


def wants_full(shape: tuple[int, int], rank: int, warm: bool) -> bool:
    """Whether a full decomposition is the cheaper way to compute `rank` triplets."""
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

    Parameters
    ----------
    A : array, SciPy sparse matrix or LinearOperator of shape (m, d)
        The iterative methods only use products with A and A'.
    rank : int
        Number of triplets, at most min(m, d).
    start : array of shape (d, any), optional
        Right basis to start from, such as `basis` of an earlier result.
    tol : float
        Largest residual allowed, relative to the largest singular value.
    method : {"auto", "block", "lapack", "arpack", "propack"}
        "auto" uses LAPACK if a full decomposition is cheaper (see
        `wants_full`) and the block method otherwise. ARPACK and PROPACK can be faster
        from a cold start on a flat spectrum, but they may miss repeated values.
    rng : numpy Generator, optional
        Generates the start if none is given; a fixed one by default.
    max_sweeps : int
        Largest number of sweeps of the block method.
    strict : bool
        Raise `DecompositionError` if `tol` is not met; otherwise return the
        last triplets with their residuals.
    accept : callable, optional
        `accept(values, residuals, next_value)` on NumPy vectors ends the block
        method early, for callers with their own accuracy criterion.
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
