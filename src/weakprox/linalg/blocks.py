"""Tall thin blocks: orthonormal bases, small SVDs and new search directions."""

from __future__ import annotations

import math

import numpy as np

from weakprox.linalg.arrays import Array, device_of, eps_of, gaussian, namespace, to_numpy

FRESH = 2  # random columns in every starting block


def small_svd(B: Array, count: int) -> tuple[Array, Array, Array]:
    """Leading triplets of a tall thin block: the SVD itself sees a small square."""
    xp = namespace(B)
    Q = orthonormal(B)
    U, s, Wt = xp.linalg.svd(Q.T @ B, full_matrices=False)
    return Q @ U[:, :count], s[:count], Wt[:count, :]


def orthonormal(B: Array) -> Array:
    """Orthonormal basis of the columns of B, of the same width.

    Two rounds through the small Gram matrix: products only, which threads and
    accelerators do well. Householder QR where the columns are too close to dependent.
    """
    xp = namespace(B)
    sizes = xp.linalg.vector_norm(B, axis=0)
    if float(xp.min(sizes)) > 0.0:
        Q = B / sizes
        for _ in range(2):
            w, W = xp.linalg.eigh(Q.T @ Q)
            if not float(w[0]) > math.sqrt(eps_of(B)) * float(w[-1]):
                break
            Q = Q @ (W / xp.sqrt(w))
        else:
            return Q
    return xp.linalg.qr(B)[0]


def new_directions(R: Array, sizes: Array, scale: float, K: Array) -> Array | None:
    """Orthonormal basis of the residuals worth following, orthogonal to the basis K.

    Converged columns are rounding noise that lies mostly in the span of K; normalising
    them would destroy the orthogonality of the space within a few sweeps, so they are
    left out. None if nothing is left to follow.
    """
    live = np.flatnonzero(to_numpy(sizes) > 100 * eps_of(R) * scale)
    live = live[: int(K.shape[0] - K.shape[1])]
    if live.size == 0:
        return None
    xp = namespace(R)
    B = R / xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    B = xp.take(B, xp.asarray(live, device=device_of(R)), axis=1)
    for _ in range(3):
        B = orthonormal(B - K @ (K.T @ B))
    return B


def starting_block(
    start: Array | None, rows: int, width: int, rng: np.random.Generator, ref: Array
) -> Array:
    """Orthonormal rows x width block: the given start, filled up by Gaussians.

    At least FRESH columns are new. A basis that A maps into itself (as sparse or block
    structure easily brings about) has no residuals, so without them the iteration would
    never learn of larger values elsewhere.
    """
    xp = namespace(ref)
    have = 0 if start is None else min(int(start.shape[1]), max(1, width - FRESH))
    if start is None or have == 0:
        return orthonormal(gaussian(rng, (rows, width), ref))
    fresh = gaussian(rng, (rows, width - have), ref)
    return orthonormal(xp.concat([start[:, :have], fresh], axis=1))
