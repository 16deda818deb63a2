"""Leading triplets or eigenpairs that are a large share of all, from those of a nearby matrix.

Proximal points often have a rank of a tenth to a half of the size. Then the values beside the
cut-off are close together, single triplets converge slowly, and a full decomposition takes ten
times as long as a few products. But a proximal step does not need single triplets, only the
span of those above the cut-off, and errors near the cut-off hardly matter. So from a good
start, one or two power steps and a small eigenproblem are enough for a block whose last values
are clearly below the cut-off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.errors import DecompositionError
from weakprox.linalg import decompositions
from weakprox.linalg._thin_svd import OVERSAMPLE, ThinEigh, ThinSVD, Vector
from weakprox.linalg.arrays import (
    DOUBLE,
    Array,
    device_of,
    eps_of,
    gaussian,
    like,
    namespace,
    on_cpu,
    to_numpy,
    wide,
)
from weakprox.linalg.gram_svd import DIGITS_LEFT, Active, upright
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import all_threads

SMALLEST = 400  # size from which a block is faster (benchmarks/thin_svd.py)
# Shares of all columns from which a full decomposition is as fast: on a CPU by the same
# benchmark, and on an H200, where eigenvectors take longer relative to products.
LARGEST, ON_DEVICE = 0.42, 0.6
SPARE = 0.4  # columns beyond the rank, as a share of it, if nothing else is known
# Values of a block, as shares of the cut-off: the block is to reach down to the first, and is
# accepted if a tenth of it is below the second. With 0.85 for the first many proofs fail.
DEEP, ACCEPTED, TENTH = 0.75, 0.9, 10
INDEPENDENT = 1e-6  # least pivot of unit columns that two rounds make orthonormal
SKEW = 1e-11  # loss of orthogonality of vectors that come from squares
# On devices, columns are cheap and failed proofs expensive: factor for a narrow block. On an
# H200, d = 8,000, .97 of the radius: .99, .16 and .18 s with factors 1, 2 and 4 at rank 1, and
# .53, .46 and .38 s at rank 10.
SPACIOUS = 4
FRESH = 32  # one column in so many is random, for directions that the others lack


def thick_width(kept: int) -> int:
    """Width of the block for this many triplets."""
    return kept + max(OVERSAMPLE, int(SPARE * kept))


def columns_for(s: Vector, cut: float) -> int:
    """Width of a block for a matrix with about these values, of which those above `cut` count.

    The block has some more columns than values to be computed, since the last ones are
    inaccurate.
    """
    shown = max(1, int((s >= DEEP * cut).sum()))
    return shown + max(OVERSAMPLE, shown // 7)


def thick_svd(
    A: Array,
    active: Active,
    level: Callable[[Vector], float],
    most: int,
    start: Array | None,
    rng: np.random.Generator,
    powers: int = 1,
) -> ThinSVD | None:
    """The triplets that `active` counts, at most `most`, from a right basis of a nearby matrix.

    `level` of the values is the cut-off. None if there is no basis, or if a full decomposition
    is as fast. The triplets are those after so many `powers` steps, whatever their residuals.
    """
    if start is None or min(A.shape) < SMALLEST:
        return None
    A64 = wide(A)
    xp = namespace(A64)
    with all_threads(min(A.shape)), np.errstate(over="ignore", invalid="ignore"):
        block = _block(A64, active, level, most, wide(start), rng, powers)
        if block is None:
            return None
        s, kept, wanted = block.values, block.kept, block.wanted
        values = like(np.maximum(s, DOUBLE * s[0])[:wanted], A64)
        V, U = block.Y @ block.W[:, :wanted], (block.B @ block.W[:, :wanted]) / values
        Z = A64.T @ U  # the residuals, and most of the next block
        left, right, top = upright(U[:, :kept]), upright(V[:, :kept]), values[:kept]
        R = xp.linalg.vector_norm(Z[:, :kept] - right * top, axis=0)
    # Newton's step has moved the vectors by their loss of orthogonality
    R = R + max(8 * eps_of(A), SKEW) * float(s[0])
    left, top, right, R = (xp.astype(x, A.dtype, copy=False) for x in (left, top, right, R))
    basis = _widened(Z / values, max(wanted, block.following), rng)
    return ThinSVD(
        triplets=LowRank(left, top, right.T),
        residuals=R,
        next_value=float(s[kept]) if kept < s.size else 0.0,
        basis=xp.astype(basis, A.dtype, copy=False),
        passes=block.passes + 1,
        exact=False,
    )


def thick_eigh(
    A: Array,
    active: Active,
    level: Callable[[Vector], float],
    start: Array | None,
    rng: np.random.Generator,
    powers: int = 1,
) -> ThinEigh | None:
    """The largest eigenpairs of a symmetric matrix, like `thick_svd`.

    Power steps do not separate both ends of a spectrum, so the block contains both.
    """
    if start is None or min(A.shape) < SMALLEST:
        return None
    A64 = wide(A)
    xp = namespace(A64)
    with all_threads(min(A.shape)), np.errstate(over="ignore", invalid="ignore"):
        how: Any = {"symmetric": True}
        block = _block(A64, active, level, min(A.shape), wide(start), rng, powers, **how)
        if block is None:
            return None
        w, wanted = block.values, block.wanted
        order = np.argsort(-w, kind="stable")
        index = xp.asarray(order[: block.kept], device=device_of(A64))
        values = like(w[:wanted], A64)
        V, Z = block.Y @ block.W, block.B @ block.W
        top, right = like(w[order[: block.kept]], A64), upright(xp.take(V, index, axis=1))
        R = xp.linalg.vector_norm(xp.take(Z, index, axis=1) - right * top, axis=0)
    R = R + max(8 * eps_of(A), SKEW) * float(abs(w[0]))
    top, right, R = (xp.astype(x, A.dtype, copy=False) for x in (top, right, R))
    tiny = DOUBLE * float(abs(w[0]))
    sizes = xp.where(xp.abs(values) > tiny, values, tiny)
    basis = _widened(Z[:, :wanted] / sizes, max(wanted, block.following), rng)
    return ThinEigh(
        values=top,
        vectors=right,
        residuals=R,
        next_value=float(w[order[block.kept]]) if block.kept < w.size else 0.0,
        basis=xp.astype(basis, A.dtype, copy=False),
        passes=block.passes,
        exact=False,
    )


@dataclass(frozen=True)
class _Block:
    """Y W is orthonormal, B = A Y, and the values are those of A in its span, by size."""

    Y: Array
    B: Array
    W: Array
    values: Vector
    kept: int  # values above the cut-off
    wanted: int  # columns for the next block, as far as this one has them
    following: int  # width of the next block
    passes: int


def _block(
    A: Array,
    active: Active,
    level: Callable[[Vector], float],
    most: int,
    Q: Array,
    rng: np.random.Generator,
    powers: int,
    *,
    symmetric: bool = False,
) -> _Block | None:
    """A block from Q after so many power steps that reaches well below the cut-off."""
    least, passes = min(int(A.shape[0]), int(A.shape[1])), 0
    width, largest = int(Q.shape[1]), (LARGEST if on_cpu(A) else ON_DEVICE) * least
    while True:
        width += max(1, width // FRESH)
        if width > largest:
            return None
        Q = _widened(Q, width, rng)
        B = A @ Q
        for _ in range(powers):
            B = _unit(B)
            turn = _whitening(B.T @ B)  # small columns lie along large directions
            if turn is None:
                return None
            Y = _unit(A.T @ (B @ turn))
            B = A @ Y
        passes += 1 + 2 * powers
        found = _turned(Y, B, symmetric=symmetric)
        if found is None:
            return None
        values, W = found
        sizes, ordered = np.abs(values), np.sort(values)[::-1]
        kept = max(1, min(active(ordered), most))
        if not ordered[kept - 1] ** 2 > DIGITS_LEFT * DOUBLE * sizes[0] ** 2:
            return None  # squaring has lost these values
        cut = level(ordered)
        if not cut > 0.0:
            return None  # no value is truncated
        if sizes[-1 - width // TENTH] <= ACCEPTED * cut or kept == most:
            break
        Q, width = Y @ W, 2 * width if kept == width else width + width // 2
    following = min(columns_for(sizes, cut), least)
    if not on_cpu(A):
        following = max(following, min(SPACIOUS * following, least // 8))
    wanted = min(width, max(kept, following))
    return _Block(Y, B, W, values, kept, wanted, following, passes)


def _widened(Q: Array, width: int, rng: np.random.Generator) -> Array:
    """Q with more random columns."""
    columns = int(Q.shape[0])
    more = gaussian(rng, (columns, width - int(Q.shape[1])), Q)
    return namespace(Q).concat([Q, more * (1.0 / columns**0.5)], axis=1)


def _unit(Y: Array) -> Array:
    """Columns of length one."""
    xp = namespace(Y)
    lengths = xp.linalg.vector_norm(Y, axis=0)
    return Y / xp.where(lengths > 0.0, lengths, 1.0)


def _whitening(norms: Array) -> Array | None:
    """The matrix that orthonormalises columns with this Gram matrix; None if dependent."""
    root = decompositions.cholesky(norms)
    xp = namespace(norms)
    if root is None or not float(xp.min(xp.linalg.diagonal(root))) > INDEPENDENT:
        return None
    return decompositions.lower_inverse(root).T


def _turned(Y: Array, B: Array, *, symmetric: bool) -> tuple[Vector, Array] | None:
    """Values s, by descending size, and W with (YW)'(YW) = I, for B = A Y.

    (BW)'(BW) = s^2, or (YW)'(BW) = s if A is symmetric.
    """
    turn = _whitening(Y.T @ Y)
    if turn is None:
        return None
    small = turn.T @ ((Y if symmetric else B).T @ B) @ turn
    try:
        values, W = decompositions.eigh(0.5 * (small + small.T) if symmetric else small)
    except DecompositionError:  # squares overflow or underflow
        return None
    s = np.asarray(to_numpy(values), dtype=float)
    xp = namespace(Y)
    if not symmetric:
        return np.sqrt(np.maximum(s[::-1], 0.0)), turn @ xp.flip(W, axis=1)
    order = np.argsort(-np.abs(s), kind="stable")
    return s[order], turn @ xp.take(W, xp.asarray(order, device=device_of(Y)), axis=1)
