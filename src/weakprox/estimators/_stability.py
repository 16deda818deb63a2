"""Clusters of graphs: their normalised cut, their stability, and their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr
from scipy.sparse.csgraph import connected_components, laplacian
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from weakprox.estimators._affinities import Graph
from weakprox.linalg import decompositions, sparse_eigh
from weakprox.selection.noise import Values
from weakprox.selection.search import Deadline

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


def _clusterings(
    graph: Graph, members: Any, counts: Sequence[int]
) -> tuple[list[Any], list[float]]:
    """Labels of some samples for each number of clusters, and the gap after it."""
    size = len(members)
    kept = [graph.kept(size, count) for count in counts]
    if len(set(kept)) > 1:
        kept = [max((step for step in STEPS if step <= k), default=k) for k in kept]
    found = {
        k: eigenpairs(graph.affinity(members, k), min(max(counts) + 1, size)) for k in set(kept)
    }
    labels, gaps = [], []
    for k, count in zip(kept, counts, strict=True):
        values, V = found[k]
        labels.append(assigned(V[:, :count]))
        gaps.append(float(growth(values)[count - 1]))
    return labels, gaps


@dataclass(frozen=True)
class Stability:
    """The numbers of clusters of a graph, the stability of each, and the gap after it.

    `agreement` has a row for each subsample and a column for each number.
    """

    counts: Sequence[int]
    agreement: Values
    gaps: Values

    @classmethod
    def of(
        cls, graph: Graph, size: int, counts: Sequence[int], seed: int, deadline: Deadline
    ) -> Stability | None:
        """Agreement of clusterings of subsamples with that of all `size` samples.

        The agreement is the adjusted Rand index: 1 for equal clusterings, 0 for unrelated
        ones. None if there is no time.
        """
        if deadline.passed:
            return None
        rng = np.random.default_rng([seed, 1])
        every, gaps = _clusterings(graph, np.arange(size), counts)
        found: list[list[float]] = []
        known = cls(counts, np.empty((0, len(counts))), np.asarray(gaps))
        while len(found) < REPEATS or (len(found) < MOST_REPEATS and not known.settled):
            if deadline.passed:
                return None
            part = np.sort(rng.permutation(size)[: int(SHARE * size)])
            some, _ = _clusterings(graph, part, counts)
            pairs = zip(every, some, strict=True)
            found.append([rand_index(whole[part], few) for whole, few in pairs])
            known = cls(counts, np.asarray(found), known.gaps)
        return known

    @property
    def scores(self) -> Values:
        """Agreement of each subsample, gap and logarithm of each number, weighted."""
        return self.agreement + GAP * self.gaps + MORE * np.log(self.counts)

    @property
    def settled(self) -> bool:
        """Return True if one number exceeds all others by more than two standard errors."""
        behind = self.scores[:, [np.argmax(self.scores.mean(axis=0))]] - self.scores
        error = behind.std(axis=0, ddof=1) / np.sqrt(len(behind))
        return int(np.sum(behind.mean(axis=0) <= 2.0 * error)) == 1  # itself

    @property
    def best(self) -> tuple[int, float]:
        """The number of clusters that is stable, large and followed by a gap; its agreement."""
        at = int(np.argmax(self.scores.mean(axis=0)))
        return self.counts[at], float(self.agreement[:, at].mean())
