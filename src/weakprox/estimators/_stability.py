"""Clusters of graphs, and how stable they are when samples are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.linalg import qr
from scipy.sparse.csgraph import laplacian
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

from weakprox.linalg import decompositions
from weakprox.selection.noise import Values
from weakprox.selection.search import Deadline

CONNECTED = 1e-9  # added to affinities, so that a graph is connected
SMALL = 1e-3  # eigenvalues of a Laplacian that count as zero
REPEATS, SHARE, MOST = 12, 0.8, 500  # subsamples, their share of the samples, and size at most
NEAR = 0.05  # agreements that differ by less are about equal
FEWEST_SAMPLES = 12  # with fewer, leaving some out says nothing


class Graph(Protocol):
    """Affinities of samples, to be computed for any part of them."""

    def kept(self, size: int, count: int) -> Any:
        """Affinities to keep per sample, for `count` clusters of `size` samples."""

    def affinity(self, members: Any, kept: Any) -> Values:
        """Symmetric affinities of some samples."""


@dataclass(frozen=True)
class Neighbors:
    """Nearest neighbours of the rows of Z."""

    Z: Values
    most: int = 10

    def kept(self, size: int, count: int) -> int:
        """At most `most`, and no more than there are samples in a cluster on average."""
        return min(max(2, min(self.most, size // count)), size - 1)

    def affinity(self, members: Any, kept: int) -> Values:
        """One for neighbours of each other, a half if only one is the other's."""
        A = kneighbors_graph(self.Z[members], kept).toarray()
        return np.asarray(0.5 * (A + A.T))


def eigengap(W: Values, counts: Sequence[int]) -> int:
    """The number of clusters, among some, after which the Laplacian's eigenvalues grow most."""
    values = decompositions.eigvalsh(laplacian(W + CONNECTED, normed=True))
    values = np.append(values, values[-1])
    growth = {k: (values[k] - values[k - 1]) / (values[k] + SMALL) for k in counts}
    return max(growth, key=lambda k: growth[k])  # relative: overlaps raise all of them


def embedding(W: Values, size: int) -> Values:
    """The first eigenvectors of the normalised Laplacian, scaled by degrees."""
    L, scale = laplacian(W + CONNECTED, normed=True, return_diag=True)
    return np.asarray(decompositions.lowest_eigenvectors(L, size) / scale[:, None])


def assigned(E: Values) -> Any:
    """Labels of the rows of an embedding, as many as it has columns.

    Pivoted QR (Damle, Minden & Ying 2019): no random start, so that clusterings differ only
    if their graphs do.
    """
    count = E.shape[1]
    pivots = qr(E.T, pivoting=True, mode="r")[1][:count]
    U, _, Vt = decompositions.svd(E[pivots].T)
    return np.argmax(np.abs(E @ (U @ Vt)), axis=1)


def clusterings(graph: Graph, members: Any, counts: Sequence[int]) -> list[Any]:
    """Labels of some samples for each number of clusters; equal graphs are embedded once."""
    kept = [graph.kept(len(members), count) for count in counts]
    embedded = {k: embedding(graph.affinity(members, k), max(counts)) for k in set(kept)}
    return [assigned(embedded[k][:, :count]) for k, count in zip(kept, counts, strict=True)]


def subsample(size: int) -> int:
    """Number of samples in a subsample."""
    return min(MOST, int(SHARE * size))


def stabilities(
    graph: Graph, size: int, counts: Sequence[int], seed: int, deadline: Deadline
) -> Values | None:
    """Mean agreement of clusterings of subsamples with that of all `size` samples.

    The agreement is the adjusted Rand index: 1 for equal clusterings, 0 for unrelated ones.
    None if there is no time.
    """
    if deadline.passed:
        return None
    rng = np.random.default_rng([seed, 1])
    every = clusterings(graph, np.arange(size), counts)
    found = []
    for _ in range(REPEATS):
        if deadline.passed:
            return None
        part = np.sort(rng.permutation(size)[: subsample(size)])
        some = clusterings(graph, part, counts)
        pairs = zip(every, some, strict=True)
        found.append([adjusted_rand_score(whole[part], few) for whole, few in pairs])
    return np.asarray(np.mean(found, axis=0))
