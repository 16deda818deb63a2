"""Algebraically largest eigenpairs of a symmetric matrix, warm-started, residual-checked.

The block spans the last Ritz vectors and their residuals (thick-restarted block Lanczos).
Unlike a plain power iteration, it is not misled by large negative eigenvalues. Residuals
need no extra product, since A V is a combination of known products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weakprox.errors import DecompositionError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, eps_of, namespace, to_numpy
from weakprox.linalg.blocks import new_directions, starting_block
from weakprox.linalg.operators import products
from weakprox.linalg.thin_svd import (
    FULL_BELOW,
    MAX_BLOCKS,
    OVERSAMPLE,
    Accept,
    wants_full,
)
from weakprox.linalg.threads import all_threads


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
        residuals = xp.linalg.vector_norm(A @ top - top * w[:rank], axis=0)
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
        # restarting a space that could hold everything loses more than it saves
        return thin_eigh(A, rank, full=True)
    if strict and worst > 5 * limit:
        raise DecompositionError(
            f"eigen-decomposition of rank {rank} ended with residual {worst:.1e}, "
            f"above {limit:.1e}; allow more sweeps or use full=True."
        )
    return ThinEigh(w[:rank], V[:, :rank], residuals, after, V, ops.passes, False, sweep)
