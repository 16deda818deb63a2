"""Full decompositions through the small Gram matrix: less than half the time of an SVD.

The eigenvectors of A'A are the right singular vectors of A. Squaring costs half of the
digits of small singular values, but a proximal step only keeps values above a threshold,
and where that is not far below the largest value nothing that matters is lost. Where it
is, the answer is None and LAPACK's SVD has to do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weakprox.linalg.arrays import Array, eps_of, like, namespace, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thin_svd import OVERSAMPLE, ThinSVD, Vector
from weakprox.linalg.threads import all_threads

DIGITS_LEFT = 1e5  # kept squares are at least this many roundings of the largest


def gram_svd(A: Array, active: Callable[[Vector], int], most: int) -> ThinSVD | None:
    """The triplets that `active` counts, at most `most`; None where squaring is unsafe.

    Singular values carry an error of `square_error` in their squares, which the bounds
    built on them take into account.
    """
    xp = namespace(A)
    wide = int(A.shape[0]) < int(A.shape[1])
    B = A.T if wide else A
    with all_threads(int(B.shape[1])):
        squares, W = xp.linalg.eigh(B.T @ B)
    s = np.sqrt(np.maximum(np.asarray(to_numpy(squares), dtype=float)[::-1], 0.0))
    kept = max(1, min(active(s), most))
    if not s[kept - 1] ** 2 > DIGITS_LEFT * eps_of(A) * s[0] ** 2:
        return None
    W = xp.flip(W[:, -(kept + OVERSAMPLE) :], axis=1)
    V, top = W[:, :kept], like(s[:kept], A)
    U = B @ (V / top)
    # one Newton step towards the nearest orthonormal block squares what squaring lost
    U = 1.5 * U - U @ (0.5 * (U.T @ U))
    error = 8 * eps_of(A) * s[0] ** 2
    triplets = LowRank(V, top, U.T) if wide else LowRank(U, top, V.T)
    return ThinSVD(
        triplets=triplets,
        residuals=like(error / s[:kept], A),
        next_value=float(s[kept]) if kept < s.size else 0.0,
        basis=U if wide else W,
        passes=0,
        exact=True,
        square_error=max(A.shape) * error / 8,
    )
