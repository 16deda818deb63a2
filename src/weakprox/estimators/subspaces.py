"""Clusters that are subspaces: each sample is a combination of others of its own kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.cluster import spectral_clustering
from sklearn.utils.validation import validate_data

from weakprox.arguments import flag, nonnegative, positive
from weakprox.errors import InputError
from weakprox.estimators._affinity import CONNECTED, affinity, cosines, eigengap
from weakprox.estimators._base import Certified
from weakprox.estimators._self_expression import RIDGE, Prepared, self_expression


class SubspaceClustering(ClusterMixin, Certified):
    r"""Low-rank sparse subspace clustering (Wang, Xu & Leng 2013, LRSSC).

    Samples that lie near a union of subspaces are combinations of samples of their own
    subspace. With the samples as columns of X, solves

    .. math:: \min_C\ \tfrac12\|X - XC\|_F^2 + \beta_1\|C\|_* + \beta_2\|C\|_1
              + \tfrac{\rho}{2}\|C\|_F^2 ,

    which is convex, and clusters the graph that C makes of the samples. The nuclear norm
    keeps the samples of a subspace connected, the l1 norm keeps subspaces apart, and the
    squares make the answer unique. The certificate speaks of this problem.

    Before, samples are scaled to unit length and centred, and get one constant coordinate,
    so that coefficients sum to about one: the subspaces may be affine. X is then scaled to
    leading singular value 1, which is what the weights below refer to.

    Afterwards two graphs are added. One has the sizes of coefficients,
    :math:`|C| + |C|^\top`, as in sparse subspace clustering (Elhamifar & Vidal 2013). The
    other, which counts three times as much, has the cosines between rows of
    :math:`U\Sigma^{1/2}`, :math:`C = U\Sigma V^\top`, raised to a power, as in low-rank
    representation (Liu et al. 2013): samples are near that are explained alike. In both,
    each sample keeps its `n_neighbors` largest affinities, divided by the largest. Spectral
    clustering of the sum gives the labels.

    "auto" measures the noise in X by its median singular value (Gavish & Donoho 2014) and
    takes the weights that pure noise would not get past: its largest squared singular value
    for `nuclear`, kept between 0.001 and 0.01, and sqrt(2 log n) standard deviations of its
    product with a sample for `lam`.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters. By default, from 2 to 20, where the eigenvalues of the Laplacian
        of the cosines (to half the power) have their largest relative gap. That finds
        clusters that are well apart; where they overlap, the number had better be known.
    nuclear : float or "auto"
        Weight of the nuclear norm, positive.
    lam : float or "auto"
        Weight of the l1 norm.
    ridge : float
        Weight of the squares, positive.
    zero_diagonal : bool
        Whether a sample must not explain itself. Needed where `nuclear` is small beside
        `lam`; else the low rank already forbids it.
    n_neighbors : int or None
        Affinities kept per sample; None for all.
    power : float
        Power of the cosines. Larger ones tell clusters apart that are near each other.
    tol : float
        Accuracy of C, relative to the value; proved by `certificate_`. Clusters do not
        need a small one.
    max_seconds : float, optional
        Limit for the solver.
    random_state : int, RandomState or None
        Fixes the spectral clustering. None means 0.
    verbose : bool
        Whether to show progress.

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
        Cluster of each sample.
    n_clusters_ : int
        Their number.
    affinity_matrix_ : array of shape (n_samples, n_samples)
        Symmetric, non-negative.
    coefficients_ : array of shape (n_samples, n_samples)
        C; column j says how sample j is made of the others.
    nuclear_, lam_ : float
        What was used.
    noise_ : float
        Standard deviation of the noise in the entries of X, scaled as above.
    result_ : Result
        The solution, with its certificate.
    certificate_ : Certificate
        How far from the optimum the solution can be.
    n_features_in_, feature_names_in_
        Features, and their names if they have any.

    Notes
    -----
    C has n_samples squared entries. 2000 samples take about 15 seconds on one core.

    Samples are compared by direction alone. Where clusters differ by their distance from
    the origin, as round clouds do, other methods are better.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import SubspaceClustering
    >>> rng = np.random.default_rng(0)
    >>> planes = [rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30)) for _ in range(3)]
    >>> X = np.vstack(planes) + 0.05 * rng.standard_normal((120, 30))
    >>> labels = SubspaceClustering(n_clusters=3).fit_predict(X)
    >>> [len(set(part)) for part in labels.reshape(3, 40)]
    [1, 1, 1]
    """

    def __init__(
        self,
        n_clusters: int | str = "auto",
        *,
        nuclear: float | str = "auto",
        lam: float | str = "auto",
        ridge: float = RIDGE,
        zero_diagonal: bool = False,
        n_neighbors: int | None = 20,
        power: float = 8.0,
        tol: float = 1e-2,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.nuclear = nuclear
        self.lam = lam
        self.ridge = ridge
        self.zero_diagonal = zero_diagonal
        self.n_neighbors = n_neighbors
        self.power = power
        self.tol = tol
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> SubspaceClustering:
        """Find the clusters of the rows of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Samples.
        y : ignored

        Returns
        -------
        self
        """
        self._check()
        X = validate_data(self, X, ensure_min_samples=2)
        wanted = self.n_clusters
        if not isinstance(wanted, str) and wanted > len(X):
            raise InputError("n_clusters", f"{wanted}, with n_samples={len(X)}", "no more")
        data = Prepared.of(np.asarray(X, dtype=float))
        nuclear, lam = data.weights(X.shape)
        self.noise_ = data.noise
        self.nuclear_ = nuclear if isinstance(self.nuclear, str) else float(self.nuclear)
        self.lam_ = lam if isinstance(self.lam, str) else float(self.lam)
        problem = self_expression(
            data.Z, self.nuclear_, self.lam_, self.ridge, zero_diagonal=self.zero_diagonal
        )
        result = self._solve(problem)
        self.result_ = replace(result, checkpoint=None)  # many matrices of the size of C
        self.coefficients_ = self.result_.X
        self.affinity_matrix_ = affinity(self.result_.low_rank, self.power, self.n_neighbors)
        self._cluster()
        return self

    def _cluster(self) -> None:
        """Number of clusters and labels, from the affinities."""
        C, W = self.result_.low_rank, self.affinity_matrix_ + CONNECTED
        if isinstance(self.n_clusters, str):  # gaps show in a smoother graph
            self.n_clusters_ = eigengap(cosines(C, 0.5 * self.power))
        else:
            self.n_clusters_ = int(self.n_clusters)
        if self.n_clusters_ in (1, len(W)):  # nothing to find
            self.labels_ = np.arange(len(W), dtype=np.int32) % self.n_clusters_
            return
        self.labels_ = spectral_clustering(
            W, n_clusters=self.n_clusters_, random_state=self._seed()
        )

    def _check(self) -> None:
        """Raise on settings that cannot work, before any work."""
        flag("zero_diagonal", self.zero_diagonal)
        positive("ridge", self.ridge)
        positive("power", self.power)
        for name, number in (("nuclear", positive), ("lam", nonnegative)):
            given = getattr(self, name)
            if isinstance(given, str):
                if given != "auto":
                    raise InputError(name, repr(given), "a number or 'auto'")
            else:
                number(name, given)
        _whole("n_clusters", self.n_clusters, instead="auto")
        _whole("n_neighbors", self.n_neighbors, instead=None)


def _whole(name: str, given: Any, *, instead: Any) -> None:
    """Raise unless it is a whole number >= 1, or the value that may stand instead."""
    if given is instead or (isinstance(given, str) and given == instead):
        return
    whole = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if not whole or given < 1:
        raise InputError(name, repr(given), f"an integer >= 1, or {instead!r}")
