"""Full decompositions through the small Gram matrix: less than half the time of an SVD.

The eigenvectors of A'A are the right singular vectors of A. Squaring costs half of the
digits of small singular values, but a proximal step only keeps values above a threshold,
and where that is not far below the largest value nothing that matters is lost. Where it
is, the answer is None and LAPACK's SVD has to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import DOUBLE, Array, eps_of, like, namespace, to_numpy, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thin_svd import OVERSAMPLE, ThinSVD, Vector
from weakprox.linalg.threads import all_threads

DIGITS_LEFT = 1e5  # kept squares are at least this many roundings of the largest
ROWS = 512  # squared at once


def gram_svd(A: Array, active: Callable[[Vector], int], most: int) -> ThinSVD | None:
    """The triplets that `active` counts, at most `most`; None where squaring is unsafe.

    Everything is done in float64. Singular values carry an error of `square_error` in their
    squares (before they are rounded to the dtype of A), which the bounds built on them take
    into account.
    """
    xp = namespace(A)
    flat = int(A.shape[0]) < int(A.shape[1])
    B = wide(A.T if flat else A)
    n = int(B.shape[1])
    with all_threads(n):
        G, rounding = squared(B)
        if not math.isfinite(rounding):  # squares have left the range of floats
            return None
        squares, W = decompositions.eigh(G)
    s = np.sqrt(np.maximum(np.asarray(to_numpy(squares), dtype=float)[::-1], 0.0))
    error = rounding + decompositions.eigh_error(n) * DOUBLE * float(s[0]) ** 2
    kept = max(1, min(active(s), most))
    if not s[kept - 1] ** 2 > max(DIGITS_LEFT * DOUBLE * s[0] ** 2, 8 * error):
        return None
    W = xp.flip(W[:, -(kept + OVERSAMPLE) :], axis=1)
    V = W[:, :kept]
    U = B @ (V / like(s[:kept], B))
    # one Newton step towards the nearest orthonormal block squares what squaring lost
    U = 1.5 * U - U @ (0.5 * (U.T @ U))
    U, V, basis = (xp.astype(x, A.dtype, copy=False) for x in (U, V, U if flat else W))
    top = like(s[:kept], A)
    return ThinSVD(
        triplets=LowRank(V, top, U.T) if flat else LowRank(U, top, V.T),
        residuals=like((error + 8 * eps_of(A) * s[0] ** 2) / s[:kept], A),
        next_value=float(s[kept]) if kept < s.size else 0.0,
        basis=basis,
        passes=0,
        exact=True,
        square_error=error,
    )


def squared(B: Array) -> tuple[Array, float]:
    """B'B in float64, and a bound on the norm of its error in whatever order BLAS adds.

    A sum of k products is off by at most k units of rounding of the sum of their absolute
    values, and the norm of |B|'|B| is at most the squared Frobenius norm of B, the trace.
    Blocks of rows keep k small.
    """
    xp = namespace(B)
    m = int(B.shape[0])
    blocks = [B[i : i + ROWS] for i in range(0, m, ROWS)]
    G = blocks[0].T @ blocks[0]
    for block in blocks[1:]:
        G += block.T @ block
    chain = min(m, ROWS) + len(blocks)
    square = float(xp.linalg.trace(G))
    return G, 0.5 * chain * DOUBLE * square * (1.0 + chain * DOUBLE)
