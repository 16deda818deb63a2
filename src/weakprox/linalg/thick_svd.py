"""Leading triplets that are a large share of all, from those of a nearby matrix.

Proximal points often have a rank of a tenth to a half of the size. Then the values beside the
cut-off are close together, single triplets converge slowly, and a full decomposition takes ten
times as long as a few products. But a proximal step does not need single triplets, only the
span of those above the cut-off, and errors near the cut-off hardly count. So from a good start,
one or two power steps and a small eigenproblem are enough for a block whose last values are
clearly below the cut-off.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weakprox.errors import DecompositionError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import (
    DOUBLE,
    Array,
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
from weakprox.linalg.thin_svd import OVERSAMPLE, ThinSVD, Vector
from weakprox.linalg.threads import all_threads

SMALLEST = 400  # size from which a block pays (benchmarks/thin_svd.py)
# Shares of all columns from which a full decomposition is as fast: on a CPU by the same
# benchmark, and on an H200, where eigenvectors take longer relative to products.
LARGEST, ON_DEVICE = 0.42, 0.6
SPARE = 0.4  # columns beyond the rank, as a share of it, if no more is known
# Values of a block, as shares of the cut-off: the block is to reach down to the first, and is
# accepted if a tenth of it is below the second. With 0.85 for the first many proofs fail.
DEEP, ACCEPTED, TENTH = 0.75, 0.9, 10
INDEPENDENT = 1e-6  # least pivot of unit columns that two rounds make orthonormal
SKEW = 1e-11  # loss of orthogonality of vectors that come from squares
# On devices, columns cost little and failed proofs much: factor for a narrow block. On an H200,
# d = 8,000, .97 of the radius: .99, .16 and .18 s with factors 1, 2 and 4 at rank 1, and .53,
# .46 and .38 s at rank 10.
SPACIOUS = 4
FRESH = 32  # one column in so many is random, for directions that the others lack


def thick_width(kept: int) -> int:
    """Width of the block for this many triplets."""
    return kept + max(OVERSAMPLE, int(SPARE * kept))


def columns_for(s: Vector, cut: float) -> int:
    """Width of a block for a matrix with about these values, of which those above `cut` count.

    Some columns more than values that it is to show, since the last ones are inaccurate.
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
    least = min(int(A.shape[0]), int(A.shape[1]))
    if start is None or least < SMALLEST:
        return None
    A64, Q, passes = wide(A), wide(start), 0
    xp, columns = namespace(A64), int(A.shape[1])

    def widened(Q: Array, width: int) -> Array:
        more = gaussian(rng, (columns, width - int(Q.shape[1])), A64)
        return xp.concat([Q, more * (1.0 / columns**0.5)], axis=1)

    width, largest = int(Q.shape[1]), (LARGEST if on_cpu(A) else ON_DEVICE) * least
    with all_threads(least), np.errstate(over="ignore", invalid="ignore"):  # refused below
        while True:
            width += max(1, width // FRESH)
            if width > largest:
                return None
            Q = widened(Q, width)
            B = A64 @ Q
            for _ in range(powers):
                B = _unit(B)
                turn = _whitening(B.T @ B)  # small columns lie along large directions
                if turn is None:
                    return None
                Y = _unit(A64.T @ (B @ turn))
                B = A64 @ Y
            passes += 1 + 2 * powers
            found = _turned(B.T @ B, Y.T @ Y)
            if found is None:
                return None
            s, W = found
            kept = max(1, min(active(s), most))
            if not s[kept - 1] ** 2 > DIGITS_LEFT * DOUBLE * s[0] ** 2:
                return None  # squaring has lost these values
            cut = level(s)
            if not cut > 0.0:
                return None  # nothing is cut off
            if s[-1 - width // TENTH] <= ACCEPTED * cut or kept == most:
                break
            Q, width = Y @ W, 2 * width if kept == width else width + width // 2
        following = min(columns_for(s, cut), least)
        if not on_cpu(A):
            following = max(following, min(SPACIOUS * following, least // 8))
        wanted = min(width, max(kept, following))
        values = like(np.maximum(s, DOUBLE * s[0])[:wanted], Q)
        V, U = Y @ W[:, :wanted], (B @ W[:, :wanted]) / values
        Z = A64.T @ U  # the residuals, and most of the next block
        left, right, top = upright(U[:, :kept]), upright(V[:, :kept]), values[:kept]
        R = xp.linalg.vector_norm(Z[:, :kept] - right * top, axis=0)
    # Newton's step has moved the vectors by their loss of orthogonality
    R = R + max(8 * eps_of(A), SKEW) * float(s[0])
    left, top, right, R = (xp.astype(x, A.dtype, copy=False) for x in (left, top, right, R))
    basis = widened(Z / values, max(wanted, following))
    return ThinSVD(
        triplets=LowRank(left, top, right.T),
        residuals=R,
        next_value=float(s[kept]) if kept < s.size else 0.0,
        basis=xp.astype(basis, A.dtype, copy=False),
        passes=passes + 1,
        exact=False,
    )


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


def _turned(squares: Array, norms: Array) -> tuple[Vector, Array] | None:
    """Values s and W with (Y W)'(Y W) = I and (A Y W)'(A Y W) = s^2, from (AY)'(AY) and Y'Y."""
    turn = _whitening(norms)
    if turn is None:
        return None
    try:
        values, W = decompositions.eigh(turn.T @ squares @ turn)
    except DecompositionError:  # squares overflow or underflow
        return None
    s = np.sqrt(np.maximum(np.asarray(to_numpy(values), dtype=float)[::-1], 0.0))
    return s, turn @ namespace(norms).flip(W, axis=1)
