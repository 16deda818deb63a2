"""Clusters of graphs: their normalised cut, their stability, and their number."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.sparse.csgraph import connected_components, laplacian
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from weakprox.estimators._affinities import Affinities
from weakprox.linalg import decompositions, sparse_eigh
from weakprox.selection.noise import Values
from weakprox.selection.search import Deadline, Search, near

CONNECTED = 1e-9  # added to the affinities of small graphs, so that they are connected
SMALL = 1e-3  # eigenvalues of a Laplacian, and cuts, that count as zero
FEW, DENSE = 400, 0.1  # samples, and share of nonzero affinities, up to which LAPACK is faster
SHARE = 0.8  # share of the samples in a subsample
REPEATS, MOST_REPEATS = 12, 48  # subsamples; more than 12 only if no number is clearly best
FEWEST_SAMPLES = 12  # with fewer samples, subsamples are not informative
# Numbers of affinities per sample to which a search for the number of clusters rounds down, so
# that the candidates share few graphs, each of which is decomposed once.
STEPS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20)
STARTS = 50  # starts of k-means; with ten, it may miss the best clusters
# Weights of the gap and of the logarithm of the number of clusters relative to stability:
# coarse clusterings are often stable, too. Chosen on the sets of
# benchmarks/data/cluster_tuning.py.
GAP, MORE = 0.1, 0.1


def eigenpairs(W: Any, count: int) -> tuple[Values, Values]:
    """The lowest eigenvalues of the normalised Laplacian, and vectors scaled by degrees."""
    n = W.shape[0]
    parts = connected_components(W, directed=False)[0]
    if n <= FEW or W.nnz > DENSE * n**2 or parts + count > DENSE * n:
        L, scale = laplacian(W.toarray() + CONNECTED, normed=True, return_diag=True)
        values, V = decompositions.lowest_eigenpairs(L, count)
    else:
        L, scale = laplacian(W, normed=True, return_diag=True)
        values, V = sparse_eigh.lowest_eigenpairs(L, count, null=parts)
    return values, V / scale[:, None]


def growth(values: Values) -> Values:
    """Relative growth of ascending eigenvalues from each to the next.

    Relative, since overlaps between clusters raise all of them.
    """
    return np.asarray(np.diff(values) / (values[1:] + SMALL))


def eigengap(W: Any, counts: Sequence[int]) -> int:
    """The number of clusters, among some, after which the Laplacian's eigenvalues grow most."""
    grown = growth(eigenpairs(W, min(max(counts) + 1, W.shape[0]))[0])
    return max(counts, key=lambda k: grown[k - 1] if k <= len(grown) else 0.0)


def assigned(E: Values) -> Any:
    """Labels of the rows of an embedding, with as many clusters as it has columns.

    Pivoted QR (Damle, Minden & Ying 2019): no random start, so that clusterings differ only
    if their graphs do.
    """
    count = E.shape[1]
    pivots = qr(E.T, pivoting=True, mode="r")[1][:count]
    U, _, Vt = decompositions.svd(E[pivots].T)
    return np.argmax(np.abs(E @ (U @ Vt)), axis=1)


def clustered(W: Any, count: int, seed: int) -> Any:
    """Labels of spectral clustering: k-means of the embedding (Shi & Malik 2000)."""
    if count in (1, W.shape[0]):  # nothing to find
        return np.arange(W.shape[0], dtype=np.int32) % count
    model, points = KMeans(count, n_init=STARTS, random_state=seed), eigenpairs(W, count)[1]
    with threadpool_limits(
        1, user_api="openmp"
    ):  # each start is short, and threads would wait for each other
        return model.fit_predict(points)


def normalized_cut(W: Any, labels: Any) -> float:
    """Mean share of a cluster's affinities that connect it with other clusters."""
    member = np.eye(int(labels.max()) + 1)[labels]
    joined = W @ member
    volume = np.sum(joined, axis=0)
    inside = np.sum(member * joined, axis=0)
    return float(np.mean(1.0 - inside / np.where(volume > 0.0, volume, 1.0)))


def rand_index(first: Any, second: Any) -> float:
    """Adjusted Rand index of two clusterings: 1 if they are equal, about 0 if unrelated.

    Computed as in scikit-learn, whose checks would take most of the time for many small
    clusterings.
    """
    rows, columns = int(first.max()) + 1, int(second.max()) + 1
    table = np.bincount(first * columns + second, minlength=rows * columns).astype(float)
    table = table.reshape(rows, columns)
    sizes = (table, table.sum(axis=1), table.sum(axis=0))
    both, one, other = (float(np.sum(n * (n - 1.0))) for n in sizes)
    chance = one * other / (len(first) * (len(first) - 1.0))
    most = 0.5 * (one + other)
    return (both - chance) / (most - chance) if most > chance else 1.0


def measurable(size: int, count: int | None) -> bool:
    """Return True if subsamples can show the stability of this number, None for any number."""
    return size >= FEWEST_SAMPLES and count != 1 and (count or 0) < int(SHARE * size)


class Clusters(NamedTuple):
    """A number of clusters."""

    n_clusters: int


@dataclass(frozen=True)
class Embedded:
    """Some samples of a graph, embedded for each number of clusters."""

    members: Any
    kept: dict[int, int]  # affinities per sample, of each number of clusters
    pairs: dict[int, tuple[Values, Values]]  # eigenvalues and vectors, by affinities kept

    @classmethod
    def of(cls, graph: Affinities, counts: Sequence[int], members: Any) -> Embedded:
        """The embedding of these samples, one for each number of affinities."""
        size = len(members)
        kept = {count: graph.kept(size, count) for count in counts}
        if len(set(kept.values())) > 1:
            kept = {n: max((s for s in STEPS if s <= k), default=k) for n, k in kept.items()}
        most = min(max(counts) + 1, size)
        found = {k: eigenpairs(graph.affinity(members, k), most) for k in set(kept.values())}
        return cls(members, kept, found)

    def labels(self, count: int) -> Any:
        """The labels of so many clusters."""
        return assigned(self.pairs[self.kept[count]][1][:, :count])

    def gap(self, count: int) -> float:
        """The growth of eigenvalues after this number."""
        return float(growth(self.pairs[self.kept[count]][0])[count - 1])


def stability(
    graph: Affinities, size: int, counts: Sequence[int], seed: int, deadline: Deadline
) -> Search[Clusters] | None:
    """Compare numbers of clusters by subsamples, the folds of a search.

    The score is the agreement of the clusters of a subsample with those of all `size` samples,
    plus weighted terms for the gap after the number and for its logarithm; the second loss
    is minus the agreement alone. That is the adjusted Rand index: 1 for equal clusterings, 0
    for unrelated ones. None if there is no time, as far as that of the whole graph shows.
    """
    if deadline.passed:
        return None
    begun = time.monotonic()
    whole = Embedded.of(graph, counts, np.arange(size))
    taken = time.monotonic() - begun  # a subsample takes about its share
    if deadline.left is not None and deadline.left < REPEATS * SHARE * taken:
        return None
    bonus = {n: GAP * whole.gap(n) + MORE * float(np.log(n)) for n in counts}
    labels = {n: whole.labels(n) for n in counts}

    def trial(part: Embedded, candidate: Clusters, start: Any) -> tuple[Any, None]:
        n = candidate.n_clusters
        agreement = rand_index(labels[n][part.members], part.labels(n))
        return (-agreement - bonus[n], -agreement), None

    rng = np.random.default_rng([seed, 1])
    parts = [np.sort(rng.permutation(size)[: int(SHARE * size)]) for _ in range(MOST_REPEATS)]
    prepare = partial(Embedded.of, graph, counts)
    search: Search[Clusters] = Search(parts, trial, prepare=prepare, deadline=deadline)
    search.grid([Clusters(n) for n in counts], settled)
    tried = len(search.losses) == len(counts) and len(search.scores().losses) >= REPEATS
    return search if tried else None


def settled(losses: Values) -> bool:
    """Whether subsamples are many, and one number is better by two standard errors."""
    return len(losses) >= REPEATS and int(np.sum(near(losses, 2.0))) == 1
