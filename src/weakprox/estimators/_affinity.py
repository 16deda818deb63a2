"""Graphs of samples from self-expressive coefficients, and how many clusters they show."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import laplacian

from weakprox.linalg import decompositions
from weakprox.linalg.lowrank import LowRank
from weakprox.selection.noise import Values

DIRECT = 0.3  # weight of coefficients beside cosines
CONNECTED = 1e-9  # added to affinities, so that no part of the graph stands alone
MOST_CLUSTERS = 20  # that a gap is looked for among
SMALL = 1e-3  # eigenvalues of a Laplacian that count as zero


def cosines(C: LowRank, power: float) -> Values:
    """Powers of |cosine| between the rows of U sqrt(s), without the diagonal."""
    rows = np.asarray(C.U * np.sqrt(C.s), dtype=float)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(length > 0.0, length, 1.0)
    A: Values = np.minimum(np.abs(rows @ rows.T), 1.0) ** power
    np.fill_diagonal(A, 0.0)
    return A


def leading(A: Values, count: int | None) -> Values:
    """The `count` largest entries of each column, relative to the largest."""
    n = len(A)
    if count is not None and count < n - 1:
        least = np.partition(A, n - count, axis=0)[n - count]
        A = np.where(least > A, 0.0, A)
    largest = A.max(axis=0)
    found: Values = A / np.where(largest > 0.0, largest, 1.0)
    return found


def affinity(C: LowRank, power: float, n_neighbors: int | None) -> Values:
    """Cosines, and coefficients at a smaller weight, of both ends."""
    sizes = np.abs(np.asarray(C.dense(), dtype=float))
    np.fill_diagonal(sizes, 0.0)
    A = leading(cosines(C, power), n_neighbors) + DIRECT * leading(sizes, n_neighbors)
    found: Values = 0.5 * (A + A.T)
    return found


def eigengap(W: Values) -> int:
    """How many clusters a graph has: where eigenvalues of its Laplacian grow the most.

    Growth is relative, as clusters that are not quite apart make all of them larger.
    """
    most = min(MOST_CLUSTERS, len(W) - 1)
    if most < 2:
        return len(W)
    values = decompositions.eigvalsh(laplacian(W + CONNECTED, normed=True))[: most + 1]
    growth = np.diff(values) / (values[1:] + SMALL)
    return int(np.argmax(growth[1:])) + 2
