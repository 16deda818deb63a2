"""Subspace clustering: each sample is a combination of others in its subspace."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import validate_data

from weakprox.arguments import (
    flag,
    integer,
    is_auto,
    nonnegative,
    one_of,
    optional_counts,
    or_auto,
    positive,
)
from weakprox.estimators._affinities import Affinities, Coefficients, Neighbors
from weakprox.estimators._base import Certified, check_size
from weakprox.estimators._mixtures import clouds
from weakprox.estimators._stability import (
    SMALL,
    clustered,
    eigengap,
    measurable,
    normalized_cut,
    stability,
)
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Custom
from weakprox.penalties import L1, ElasticNet
from weakprox.problem import Problem
from weakprox.protocols import LossCapabilities, Penalty
from weakprox.result import Result
from weakprox.selection.noise import Values, noise_edge, noise_level
from weakprox.spectral import NuclearNorm

# Weights refer to data whose leading singular value is 1.
RIDGE = 0.1
NUCLEAR = (1e-3, 1e-2)  # limits of the automatic weight, which follows the noise between them
MOST_CLUSTERS = 20  # largest number that "auto" tries
NEAR = 0.05  # stabilities that differ by less are about equal
CLEAR = 0.9  # stability below which another metric is tried, and a warning is issued
# Cut of the graph of coefficients, relative to that of neighbours, below which it is used. On
# the sets of benchmarks/data/cluster_tuning.py it was at most 0.51 where coefficients gave much
# better clusters.
CHEAPER = 0.75
# number of samples above which the l1 norm is left out if clusters are stable without it
LARGE = 1000


@dataclass(frozen=True)
class Prepared:
    """Samples as rows of coordinates, leading singular value 1, and the noise in them."""

    Z: Values
    noise: float

    @classmethod
    def of(cls, X: Values) -> Prepared:
        """Scale samples to unit length, centre them, and add a constant coordinate.

        The constant coordinate pulls the sum of every sample's coefficients towards one, as
        affine subspaces require. Its length is that of the mean, but at most that of the
        leading direction: a longer one would slow down the solver without changing the result.
        """
        n = len(X)
        length = np.linalg.norm(X, axis=1, keepdims=True)
        X = X / np.where(length > 0.0, length, 1.0)
        mean = X.mean(axis=0)
        U, s, _ = decompositions.svd(X - mean)
        if s[0] <= 1e-12 * math.sqrt(n):  # all samples have the same direction
            return cls(np.full((n, 1), 1.0 / math.sqrt(n)), 0.0)
        noise = noise_level(X - mean, "spectrum") / float(s[0])
        keep = s > 1e-9 * s[0]
        constant = min(float(np.linalg.norm(mean)), s[0] / math.sqrt(n)) / s[0]
        Z = np.column_stack([U[:, keep] * (s[keep] / s[0]), np.full(n, constant)])
        return cls(Z, noise)

    def weights(self, shape: tuple[int, int]) -> tuple[float, float]:
        """The weights (nuclear, lam) at which noise of this level is removed.

        The largest squared singular value of pure noise is noise^2 (sqrt n + sqrt d)^2. The
        product of a sample x with noise has the standard deviation noise |x|, and the
        largest of n such products is about sqrt(2 log n) times that. If subspaces fill most
        of the space, the median singular value is signal and the noise level far too large:
        hence the limits.
        """
        edge = noise_edge(shape, self.noise) ** 2
        nuclear = min(max(edge, NUCLEAR[0]), NUCLEAR[1])
        noise = math.sqrt(nuclear) / (math.sqrt(shape[0]) + math.sqrt(shape[1]))
        length = math.sqrt(sqnorm(self.Z) / len(self.Z))
        return nuclear, noise * length * math.sqrt(2.0 * math.log(max(2, len(self.Z))))


class SelfExpression(Custom):
    r"""Squared error of samples as combinations of others, :math:`\tfrac12\|X - XC\|_F^2`.

    X has the samples as columns, which are the rows of Z here. Quadratic with Hessian
    :math:`X^\top X`, so that values follow from gradients (`origin`).
    """

    _trusted = True

    def __init__(self, Z: Values) -> None:
        n = len(Z)
        self._Z, self._Zt = Z, np.ascontiguousarray(Z.T)
        self._K = Z @ self._Zt
        self.origin: tuple[float, Values] = (0.5 * sqnorm(Z), -self._K)
        largest = float(decompositions.eigvalsh(Z.T @ Z)[-1]) * (1.0 + 1e-12)
        constants: Any = {"smoothness": largest, "term_smoothness": largest}
        super().__init__((n, n), value=self._residual, grad=self._slope, **constants)

    def __repr__(self) -> str:
        return f"SelfExpression({self._Z.shape[0]} samples, {self._Z.shape[1]} coordinates)"

    @property
    def capabilities(self) -> LossCapabilities:
        """A quadratic: values follow from gradients."""
        return replace(super().capabilities, origin=lambda: self.origin)

    def _slope(self, C: Values) -> Values:
        slope: Values = self._Z @ (self._Zt @ C)
        slope -= self._K
        return slope

    def _residual(self, C: Values) -> float:
        return 0.5 * sqnorm(self._Zt - self._Zt @ C)


def self_expression(
    Z: Values, nuclear: float, lam: float, ridge: float, *, zero_diagonal: bool
) -> Problem:
    """Minimise 1/2 |X - XC|^2 + nuclear |C|_* + lam |C|_1 + ridge/2 |C|^2."""
    loss: Any = SelfExpression(Z)
    penalty: Penalty = ElasticNet(lam, 0.5 * ridge)
    if zero_diagonal:
        weights = np.full((len(Z), len(Z)), lam)
        # larger than any slope that would move the diagonal off zero
        np.fill_diagonal(weights, nuclear + float(np.max(np.sum(Z * Z, axis=1))))
        penalty = L1(1.0, weights) + ElasticNet(0.0, 0.5 * ridge)
    return Problem(loss, penalty, NuclearNorm(nuclear))


def low_rank_solution(Z: Values, nuclear: float, ridge: float) -> LowRank:
    """The solution without an l1 norm, which has a closed form."""
    U, s, _ = decompositions.svd(Z)
    values = np.maximum(s**2 - nuclear, 0.0) / (s**2 + ridge)
    left = U[:, values > 0.0]
    return LowRank(left, values[values > 0.0], left.T)


@dataclass(frozen=True)
class Candidate:
    """A graph, the number of its clusters, and their stability."""

    graph: Affinities
    count: int
    stability: float
    metric: str | None = None  # of neighbours
    table: dict[str, Any] = field(default_factory=dict)  # of the numbers compared


@dataclass(eq=False, repr=False)
class SubspaceClustering(ClusterMixin, Certified):
    r"""Low-rank sparse subspace clustering (Wang, Xu & Leng 2013, LRSSC).

    Samples that lie near a union of subspaces are combinations of samples of their own
    subspace. With the samples as columns of X, solves

    .. math:: \min_C\ \tfrac12\|X - XC\|_F^2 + \beta_1\|C\|_* + \beta_2\|C\|_1
              + \tfrac{\rho}{2}\|C\|_F^2 ,

    which is convex, and clusters a graph of the samples that is computed from C. The nuclear
    norm keeps the samples of a subspace connected, the l1 norm separates subspaces, and the
    squares make the answer unique. The certificate is about this problem.

    First, samples are scaled to unit length and centred, and one constant coordinate is added,
    so that coefficients sum to about one: the subspaces may be affine. X is then scaled to
    leading singular value 1, to which the weights below refer.

    The graph is the sum of two. The affinities of the first are the sizes of coefficients,
    :math:`|C| + |C|^\top`, as in sparse subspace clustering (Elhamifar & Vidal 2013). Those of
    the second, which has three times the weight, are the cosines between rows of
    :math:`U\Sigma^{1/2}`, :math:`C = U\Sigma V^\top`, raised to a power, as in low-rank
    representation (Liu et al. 2013). In both, each sample keeps its `n_neighbors` largest
    affinities, divided by the largest. Spectral clustering of the sum gives the labels.

    The graph of nearest neighbours is simpler and is tried first. The graph of C is clustered
    only if its normalised cut (the mean share of a cluster's affinities that connect it with
    other clusters) is less than 0.75 times that of neighbours, with as many affinities kept in
    both. Without an l1 norm C has a closed form. The cut of that graph determines whether the
    problem is solved at all, unless `nuclear`, `lam` or `zero_diagonal` is given. With more
    than 1000 samples, the l1 norm is left out (`lam_` is 0) if the clusters have a stability of
    0.95 without it.

    The stability of a clustering is the agreement (adjusted Rand index) of the clusterings of
    random subsamples of the graph with that of the whole graph. There are twelve subsamples,
    and up to 48 if no number of clusters is clearly best. Neighbours are found by Euclidean
    distance. If their clusters have a stability below 0.9, and neighbours by direction give a
    stability higher by at least 0.05, the latter are used.

    Clusters of neighbours may be round or elliptic clouds, for which a mixture of normal
    distributions gives better labels. If ``graph="auto"`` chooses neighbours, mixtures of three
    kinds are fitted by the EM algorithm from the labels of the graph, in up to 50 principal
    coordinates, and the Bayesian information criterion chooses one. Its labels are used unless
    a kernel density estimate, which describes clusters of any shape, predicts the log-density
    of held-out samples better by two standard errors (up to 500 samples are compared).

    "auto" estimates the noise in X from its median singular value (Gavish & Donoho 2014)
    and uses the weights at which pure noise of that size is removed: its largest squared
    singular value for `nuclear`, limited to 0.001 to 0.01, and sqrt(2 log n) standard
    deviations of its product with a sample for `lam`.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters. "auto" chooses the one from 2 to 20 with the largest sum of its
        stability, a tenth of its logarithm, and a tenth of the relative gap of the eigenvalues
        of the Laplacian after it. Give the number if you know it: see the figures in the
        manual. If the stability is less than 0.9, a warning is issued.
    nuclear : float or "auto"
        Weight of the nuclear norm, positive.
    lam : float or "auto"
        Weight of the l1 norm.
    ridge : float
        Weight of the squares, positive.
    zero_diagonal : bool
        Whether the diagonal of C is zero. Needed if `nuclear` is much smaller than `lam`;
        otherwise the low rank has this effect.
    n_neighbors : int, None or "auto"
        Affinities of C kept per sample; None for all. "auto" keeps 20, but no more than there
        are samples in a cluster on average, and 2 at least.
    graph : {"auto", "coefficients", "neighbors"}
        The graph to cluster: that of C, that of nearest neighbours (10, but no more than
        there are samples in a cluster on average), or the one that is cut more cheaply, as
        above. With "auto", labels may then be those of a mixture.
    power : float
        Power of the cosines. Larger powers separate neighbouring clusters.
    tol : float
        Accuracy of C, relative to the value; proved by `certificate_`. Clustering does not need
        a high accuracy.
    {max_seconds, random_state, verbose}

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
        Cluster of each sample.
    n_clusters_ : int
        Their number.
    stability_ : float
        Agreement of clusterings of subsamples with that of the whole graph; NaN with
        fewer than 12 samples, with as many clusters as a subsample has samples (four fifths of
        all), or if there was no time.
    graph_ : {"coefficients", "neighbors"}
        The graph that was clustered.
    metric_ : {"euclidean", "cosine"} or None
        Metric of the neighbours: distance or direction; None for coefficients.
    n_neighbors_ : int
        Affinities kept per sample in the graph that was clustered.
    mixture_ : {"spherical", "tied", "full"} or None
        Covariances of the mixture that gives the labels: multiples of the identity, one for all
        clusters, or one for each. None if the labels are those of the graph.
    affinity_matrix_ : array of shape (n_samples, n_samples)
        Symmetric, non-negative.
    coefficients_ : array of shape (n_samples, n_samples)
        C; column j expresses sample j as a combination of the others. This, `result_` and
        `certificate_` exist only if the problem was solved: always with
        ``graph="coefficients"``.
    nuclear_, lam_ : float
        The values used.
    noise_ : float
        Standard deviation of the noise in the entries of X, scaled as above.
    {cv_results_}
    {result_, certificate_}

    Notes
    -----
    2000 samples take one to three seconds on one core, and up to 15 if the problem is solved: C
    has n_samples squared entries.

    The graph of C compares samples by direction only. For round clouds k-means is simpler and
    faster.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import SubspaceClustering
    >>> rng = np.random.default_rng(0)
    >>> planes = [rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30)) for _ in range(3)]
    >>> X = np.vstack(planes) + 0.05 * rng.standard_normal((120, 30))
    >>> labels = SubspaceClustering(n_clusters=3, random_state=0).fit_predict(X)
    >>> [len(set(part)) for part in labels.reshape(3, 40)]
    [1, 1, 1]
    """

    n_clusters: int | str = "auto"
    _: KW_ONLY
    nuclear: float | str = "auto"
    lam: float | str = "auto"
    ridge: float = RIDGE
    zero_diagonal: bool = False
    n_neighbors: int | str | None = "auto"
    graph: str = "auto"
    power: float = 8.0
    tol: float = 1e-2

    def fit(self, X: Any, y: Any = None) -> SubspaceClustering:
        """Find the clusters of the rows of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Samples.
        y : ignored
        """
        flag("zero_diagonal", self.zero_diagonal)
        positive("ridge", self.ridge)
        positive("power", self.power)
        nuclear = or_auto("nuclear", self.nuclear, positive)
        lam = or_auto("lam", self.lam, nonnegative)
        one_of("graph", self.graph, ("auto", "coefficients", "neighbors"))
        if not is_auto(self.n_neighbors):
            optional_counts(n_neighbors=self.n_neighbors)
        X = validate_data(self, X, ensure_min_samples=2)
        check_size("X", float(np.abs(X).max()), "entries")
        count = or_auto("n_clusters", self.n_clusters, lambda n, x: integer(n, x, 1, len(X)))
        data = Prepared.of(np.asarray(X, dtype=float))
        self.noise_, automatic = data.noise, data.weights(X.shape)
        self.nuclear_ = automatic[0] if nuclear is None else nuclear
        self.lam_ = automatic[1] if lam is None else lam
        for name in ("result_", "coefficients_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        given = nuclear is not None or lam is not None or self.zero_diagonal
        found = self._chosen(np.asarray(X, dtype=float), data.Z, count, given=given)
        self.graph_ = "coefficients" if found.metric is None else "neighbors"
        self.metric_, self.n_clusters_ = found.metric, found.count
        self.stability_, self.cv_results_ = found.stability, found.table
        self.n_neighbors_ = found.graph.kept(len(X), found.count)
        W = found.graph.affinity(np.arange(len(X)), self.n_neighbors_)
        self.affinity_matrix_ = W.toarray()
        self.labels_, self.mixture_ = clustered(W, found.count, self._seed), None
        neighbors = self.graph == "auto" and self.graph_ == "neighbors"
        if neighbors and not self._search_end.passed:
            values = np.asarray(X, dtype=float)
            self.mixture_, self.labels_ = clouds(values, self.labels_, self._seed)
        if count is None and found.stability < CLEAR:
            text = (
                "SubspaceClustering: no number of clusters is stable; give n_clusters. "
                f"{found.count} clusters are used, with which subsamples agree by "
                f"{found.stability:.2f} only."
            )
            warnings.warn(text, UserWarning, stacklevel=4)
        return self

    def _chosen(self, X: Values, Z: Values, count: int | None, *, given: bool) -> Candidate:
        """The graph to cluster, with its number of clusters.

        With `given` settings of the problem, its graph is always a candidate.
        """
        size = len(X)
        if self.graph == "coefficients" or (
            self.graph == "auto" and not measurable(size, count)
        ):
            return self._by_coefficients(Z, count)
        near = self._by_neighbors(X, Z, count)
        if self.graph == "neighbors":
            return near
        if not given:
            if self._search_end.passed:
                return near
            C = low_rank_solution(Z, self.nuclear_, self.ridge)
            graph = Coefficients.of(C, self.power, self.n_neighbors)
            number = count or self._candidate(graph, size, None).count
            simple = Candidate(graph, number, math.nan)
            if not self._cheaper(simple, near, size):
                return near
            if size > LARGE:
                simple = self._candidate(graph, size, number)
                if simple.stability + NEAR >= 1.0:
                    self._solve_without_l1(Z)
                    return simple
        own = self._by_coefficients(Z, count)
        return own if self._cheaper(own, near, size) else near

    def _by_neighbors(self, X: Values, Z: Values, count: int | None) -> Candidate:
        """Neighbours by distance, or by direction if only the latter are stable."""
        near = self._candidate(Neighbors.of(X), len(X), count, metric="euclidean")
        if near.stability < CLEAR:
            turned = self._candidate(Neighbors.of(Z), len(X), count, metric="cosine")
            if turned.stability > near.stability + NEAR:
                return turned
        return near

    def _by_coefficients(self, Z: Values, count: int | None) -> Candidate:
        """Solve the problem; return the graph of its solution."""
        weights = (self.nuclear_, self.lam_, self.ridge)
        problem = self_expression(Z, *weights, zero_diagonal=self.zero_diagonal)
        result = self._solved(problem)
        self.result_ = replace(result, checkpoint=None)  # many matrices of the size of C
        self.coefficients_ = self.result_.X
        graph = Coefficients.of(self.result_.low_rank, self.power, self.n_neighbors)
        return self._candidate(graph, len(Z), count)

    def _solve_without_l1(self, Z: Values) -> None:
        """Solve the problem with lam = 0 in the coordinates of the singular vectors of Z.

        With Z = U S V' and C = U M U', it is the same problem for S instead of Z: the part of
        C outside the span of U only adds to its norms. So the certificate holds for C, too.
        """
        U, s, _ = decompositions.svd(Z)
        self.lam_ = 0.0
        weights = (self.nuclear_, self.lam_, self.ridge)
        self.result_ = self._solved(
            self_expression(np.diag(s), *weights, zero_diagonal=self.zero_diagonal)
        )
        self.coefficients_ = U @ self.result_.X @ U.T

    def _solved(self, problem: Problem) -> Result:
        """Solve a problem and leave time for clustering its solution."""
        return self._solve(problem, trial=True, progress=bool(self.verbose))

    def _candidate(
        self, graph: Affinities, size: int, count: int | None, metric: str | None = None
    ) -> Candidate:
        """A graph with its number of clusters, by the gap alone if stability is unknown."""
        most, found = min(MOST_CLUSTERS, size - 1), None
        if measurable(size, count):
            counts = range(2, min(most, size // 3) + 1) if count is None else [count]
            found = stability(graph, size, counts, self._seed, self._search_end)
        if found is not None:
            best = found.scores().best()
            table = found.scores().table()
            return Candidate(graph, best.n_clusters, -found.mean(best, 1), metric, table)
        if count is None:
            W = graph.affinity(np.arange(size), graph.kept(size, 2))
            count = eigengap(W, range(2, most + 1)) if most >= 2 else size
        return Candidate(graph, count, math.nan, metric)

    def _cheaper(self, one: Candidate, near: Candidate, size: int) -> bool:
        """Return True if the normalised cut of a graph is much less than that of neighbours.

        Each sample has as many affinities in both graphs, since with more of them more are cut.
        """
        kept = near.graph.kept(size, one.count)
        cuts = []
        for graph in (one.graph, near.graph):
            W = graph.affinity(np.arange(size), kept)
            cuts.append(normalized_cut(W, clustered(W, one.count, self._seed)) + SMALL)
        return cuts[0] < CHEAPER * cuts[1]

    def __getattr__(self, name: str) -> Any:
        """Raise an error that explains why a fitted model has no coefficients."""
        if name in ("result_", "coefficients_") and "labels_" in vars(self):
            text = (
                f"{type(self).__name__!r} object has no attribute {name!r}: neighbours were "
                "clustered and no coefficients computed; set graph='coefficients'"
            )
            raise AttributeError(text, name=name, obj=self)
        return super().__getattr__(name)
