"""Clusters that are subspaces: each sample is a combination of others of its own kind."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.cluster import spectral_clustering
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
from weakprox.estimators._base import Certified
from weakprox.estimators._stability import (
    CONNECTED,
    FEWEST_SAMPLES,
    NEAR,
    Graph,
    Neighbors,
    eigengap,
    stabilities,
    subsample,
)
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, namespace, sqnorm, total
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Custom
from weakprox.penalties import ElasticNet
from weakprox.penalties.separable import Separable
from weakprox.problem import Problem
from weakprox.protocols import Geometry, LossCapabilities, Penalty
from weakprox.selection.noise import Values, noise_edge, noise_level
from weakprox.spectral import NuclearNorm

# Weights refer to data whose leading singular value is 1.
RIDGE = 0.1
NUCLEAR = (1e-3, 1e-2)  # limits of the automatic weight, which follows the noise between them
DIRECT = 0.3  # weight of coefficients relative to cosines
NEIGHBORS, FEWEST = 20, 2  # affinities kept per sample, at most and at least
MOST_CLUSTERS = 20  # largest number that "auto" tries
STABLE = 0.95  # agreement below which another graph is tried
CLEAR = 0.9  # least agreement of that graph, and of an automatic number of clusters


@dataclass(frozen=True)
class Prepared:
    """Samples as rows of coordinates, leading singular value 1, and the noise in them."""

    Z: Values
    noise: float

    @classmethod
    def of(cls, X: Values) -> Prepared:
        """Scale samples to unit length, centre them, and add a constant coordinate.

        The constant coordinate draws the sum of every sample's coefficients to one, as
        affine subspaces require. Its length is that of the mean, but at most that of the
        leading direction: a longer one would slow the solver down and change nothing.
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
    r"""How well samples are combinations of each other, :math:`\tfrac12\|X - XC\|_F^2`.

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


@dataclass(frozen=True)
class WeightedDiagonal(Separable):
    r"""Elastic net with a separate weight for the diagonal.

    :math:`\lambda_1\sum_{i\ne j}|x_{ij}| + \delta\sum_i|x_{ii}| + \lambda_2\|X\|_F^2`: with
    :math:`\delta` large enough, an exact penalty for a diagonal of zeros that is finite at
    low-rank points, where the diagonal is only nearly zero.
    """

    lam1: float
    lam2: float
    diagonal: float
    _weights = ("lam1", "lam2", "diagonal")
    rowwise = False  # a row has its own column

    def value(self, X: Array) -> float:
        """Both weighted sums and the squares."""
        xp = namespace(X)
        diagonal = total(xp.abs(xp.linalg.diagonal(X)))
        found = self.lam1 * (total(xp.abs(X)) - diagonal) + self.diagonal * diagonal
        return found + self.lam2 * sqnorm(X)

    def feasible(self, y: Array) -> Array:
        """Clip entries to their box."""
        xp = namespace(y)
        at = xp.arange(y.shape[0])
        own = xp.clip(y[at, at], -self.diagonal, self.diagonal)
        y = xp.clip(y, -self.lam1, self.lam1)
        y[at, at] = own
        return y

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """clip(y + t X) to the box."""
        return self.feasible(t * X if y is None else y + t * X)


def self_expression(
    Z: Values, nuclear: float, lam: float, ridge: float, *, zero_diagonal: bool
) -> Problem:
    """Minimise 1/2 |X - XC|^2 + nuclear |C|_* + lam |C|_1 + ridge/2 |C|^2."""
    loss: Any = SelfExpression(Z)
    penalty: Penalty = ElasticNet(lam, 0.5 * ridge)
    if zero_diagonal:  # larger than any slope that would move the diagonal off zero
        large = nuclear + float(np.max(np.sum(Z * Z, axis=1)))
        penalty = WeightedDiagonal(lam, 0.5 * ridge, large)
    return Problem(loss, penalty, NuclearNorm(nuclear))


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
    return A / np.where(largest > 0.0, largest, 1.0)


@dataclass(frozen=True)
class Coefficients:
    """The graph of a solution: cosines and, with a smaller weight, sizes of coefficients."""

    cosines: Values
    sizes: Values
    n_neighbors: int | str | None = "auto"

    @classmethod
    def of(
        cls, C: LowRank, power: float, n_neighbors: int | str | None = "auto"
    ) -> Coefficients:
        """The graph of C."""
        sizes = np.abs(np.asarray(C.dense(), dtype=float))
        np.fill_diagonal(sizes, 0.0)
        return cls(cosines(C, power), sizes, n_neighbors)

    def kept(self, size: int, count: int) -> Any:
        """Affinities to keep per sample."""
        if is_auto(self.n_neighbors):
            return max(FEWEST, min(NEIGHBORS, size // count))
        return self.n_neighbors

    def affinity(self, members: Any, kept: Any) -> Values:
        """Symmetric sum of both."""
        part = np.ix_(members, members)
        A = leading(self.cosines[part], kept) + DIRECT * leading(self.sizes[part], kept)
        return np.asarray(0.5 * (A + A.T))


@dataclass(eq=False, repr=False)
class SubspaceClustering(ClusterMixin, Certified):
    r"""Low-rank sparse subspace clustering (Wang, Xu & Leng 2013, LRSSC).

    Samples that lie near a union of subspaces are combinations of samples of their own
    subspace. With the samples as columns of X, solves

    .. math:: \min_C\ \tfrac12\|X - XC\|_F^2 + \beta_1\|C\|_* + \beta_2\|C\|_1
              + \tfrac{\rho}{2}\|C\|_F^2 ,

    which is convex, and clusters a graph of the samples made from C. The nuclear norm keeps
    the samples of a subspace connected, the l1 norm separates subspaces, and the squares
    make the answer unique. The certificate is about this problem.

    Before, samples are scaled to unit length and centred, and get one constant coordinate,
    so that coefficients sum to about one: the subspaces may be affine. X is then scaled to
    leading singular value 1, to which the weights below refer.

    The graph is the sum of two. One has the sizes of coefficients,
    :math:`|C| + |C|^\top`, as in sparse subspace clustering (Elhamifar & Vidal 2013). The
    other, which counts three times as much, has the cosines between rows of
    :math:`U\Sigma^{1/2}`, :math:`C = U\Sigma V^\top`, raised to a power, as in low-rank
    representation (Liu et al. 2013). In both, each sample keeps its `n_neighbors` largest
    affinities, divided by the largest. Spectral clustering of the sum gives the labels.

    How stable a clustering is, is measured by the agreement (adjusted Rand index) of the
    clusterings of twelve random subsamples of the graph with that of the whole graph. If the
    graph of C is not stable (below 0.95) and that of nearest neighbours is (0.9 or more, and
    0.05 more than that of C), the latter is clustered: then the data are no union of subspaces.

    "auto" estimates the noise in X from its median singular value (Gavish & Donoho 2014)
    and takes the weights at which pure noise of that size is removed: its largest squared
    singular value for `nuclear`, limited to 0.001 to 0.01, and sqrt(2 log n) standard
    deviations of its product with a sample for `lam`.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters. "auto" compares 2 to 20 by their stability. Of those within 0.05
        of the best, less those below half of the largest, it takes the one with the largest
        relative gap of the eigenvalues of the Laplacian of the neighbours, or of the cosines
        (to half the power). Give the number if you know it: see the figures in the manual.
        A warning asks for the number if none has a stability of 0.9.
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
        Affinities kept per sample; None for all. "auto" keeps 20, but no more than there are
        samples in a cluster on average, and 2 at least.
    graph : {"auto", "coefficients", "neighbors"}
        The graph to cluster: that of C, that of at most ten nearest neighbours (by
        direction), or by stability as above.
    power : float
        Power of the cosines. Larger powers separate clusters that are near each other.
    tol : float
        Accuracy of C, relative to the value; proved by `certificate_`. Clusters need no
        high accuracy.
    {max_seconds, random_state, verbose}

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
        Cluster of each sample.
    n_clusters_ : int
        Their number.
    stability_ : float
        Agreement of clusterings of subsamples with `labels_`'s graph; NaN with fewer than 12
        samples, with as many clusters as a subsample has samples (four fifths of all, at most
        500), or if there was no time.
    graph_ : {"coefficients", "neighbors"}
        The graph that was clustered.
    n_neighbors_ : int or None
        Affinities of C kept per sample.
    affinity_matrix_ : array of shape (n_samples, n_samples)
        Symmetric, non-negative.
    coefficients_ : array of shape (n_samples, n_samples)
        C; column j says how sample j is made of the others.
    nuclear_, lam_ : float
        The values used.
    noise_ : float
        Standard deviation of the noise in the entries of X, scaled as above.
    {result_, certificate_}

    Notes
    -----
    C has n_samples squared entries. 2000 samples take about 15 seconds on one core.

    Samples are compared by direction alone. For clusters that differ by their distance from
    the origin, such as round clouds, other methods are better.

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
        count = or_auto("n_clusters", self.n_clusters, lambda n, x: integer(n, x, 1, len(X)))
        data = Prepared.of(np.asarray(X, dtype=float))
        self.noise_, automatic = data.noise, data.weights(X.shape)
        self.nuclear_ = automatic[0] if nuclear is None else nuclear
        self.lam_ = automatic[1] if lam is None else lam
        problem = self_expression(
            data.Z, self.nuclear_, self.lam_, self.ridge, zero_diagonal=self.zero_diagonal
        )
        result = self._solve(problem)
        self.result_ = replace(result, checkpoint=None)  # many matrices of the size of C
        self.coefficients_ = self.result_.X
        C = self.result_.low_rank
        own = Coefficients.of(C, self.power, self.n_neighbors)
        directions = Neighbors(data.Z)
        graphs: dict[str, Graph] = {"coefficients": own, "neighbors": directions}
        if self.graph != "auto":
            graphs = {self.graph: graphs[self.graph]}
        smooth = cosines(C, 0.5 * self.power)  # gaps show in a smoother graph
        self._set_best(graphs, smooth, count)
        self.n_neighbors_ = own.kept(len(X), self.n_clusters_)
        graph = graphs[self.graph_]
        W = graph.affinity(np.arange(len(X)), graph.kept(len(X), self.n_clusters_))
        self.affinity_matrix_ = W
        if self.n_clusters_ in (1, len(W)):  # nothing to find
            self.labels_ = np.arange(len(W), dtype=np.int32) % self.n_clusters_
        else:
            self.labels_ = spectral_clustering(
                W + CONNECTED, n_clusters=self.n_clusters_, random_state=self._seed
            )
        return self

    def _set_best(self, graphs: dict[str, Graph], smooth: Values, count: int | None) -> None:
        """The first graph that is stable, if any is, and its number of clusters."""
        size = len(smooth)
        most = min(MOST_CLUSTERS, size - 1)
        first = next(iter(graphs))
        few = count is not None and count >= subsample(size)  # samples in a subsample
        if size < FEWEST_SAMPLES or count == 1 or few:
            if count is None:
                count = eigengap(smooth, range(2, most + 1)) if most >= 2 else size
            self.n_clusters_, self.graph_, self.stability_ = count, first, math.nan
            return
        counts = range(2, min(most, size // 3) + 1) if count is None else [count]
        found: dict[str, tuple[int, float]] = {}
        for name, graph in graphs.items():
            agreed = stabilities(graph, size, counts, self._seed, self._deadline)
            if agreed is None:  # no time
                break
            near = [k for k, x in zip(counts, agreed, strict=True) if x >= max(agreed) - NEAR]
            fine = [k for k in near if 2 * k >= near[-1]]  # coarse ones are often stable, too
            best = fine[0]
            if len(fine) > 1:
                W = smooth
                if isinstance(graph, Neighbors):
                    W = graph.affinity(np.arange(size), graph.kept(size, fine[-1]))
                best = eigengap(W, fine)
            found[name] = best, float(agreed[list(counts).index(best)])
            if found[name][1] >= STABLE:
                break
        name = first
        if len(found) > 1 and found["neighbors"][1] >= max(CLEAR, found[first][1] + NEAR):
            name = "neighbors"
        known = found.get(name)
        if known is None:
            known = eigengap(smooth, counts) if count is None else count, math.nan
        self.graph_, (self.n_clusters_, self.stability_) = name, known
        if count is None and self.stability_ < CLEAR:
            text = (
                "SubspaceClustering: no number of clusters is stable; give n_clusters. "
                f"{self.n_clusters_} clusters are used, with which subsamples agree by "
                f"{self.stability_:.2f} only."
            )
            warnings.warn(text, UserWarning, stacklevel=5)
