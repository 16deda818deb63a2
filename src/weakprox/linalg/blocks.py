"""Tall thin blocks: orthonormal bases, small SVDs and new search directions."""

from __future__ import annotations

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, device_of, eps_of, gaussian, namespace, to_numpy

FRESH = 2  # random columns in every starting block


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
    try:
        root = xp.linalg.cholesky(gram / (sizes[:, None] * sizes[None, :]))
    except Exception as failure:  # the exception type depends on the namespace
        if "definite" not in str(failure).lower() and "factoriz" not in str(failure).lower():
            raise
        return None
    if not float(xp.min(xp.linalg.diagonal(root))) > eps_of(gram) ** 0.25:
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
