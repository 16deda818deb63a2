"""Which nodes of a graph are likely to be joined, and the graph without its noise."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox.arguments import positive
from weakprox.estimators._base import Certified
from weakprox.estimators._graphs import (
    Calibration,
    Degrees,
    Vector,
    checked_pairs,
    read_graph,
    unshrunk,
)
from weakprox.estimators._link_choice import FULL, Given, choose, decomposed, resolved
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.protocols import SpectralTerm
from weakprox.result import Result
from weakprox.solvers import DavisYin

ROUGH = 1e-2  # relative accuracy of the fits that only serve to choose
LEAST = 1e-3  # a radius that leaves nothing, beside the spectral norm of N, which is 1
ZERO = 1e-3  # entries of X below this share of the largest count as zero


def _calibrated(model: LinkPredictor) -> bool:
    """Whether probabilities can be told; always before `fit`, so that it says what is amiss."""
    return not hasattr(model, "result_") or model.calibration_ is not None


class LinkPredictor(Certified):
    r"""Link prediction and graph denoising by a low-rank and sparse matrix.

    With :math:`N = D_r^{-1/2} (A + a) D_c^{-1/2}`, the adjacency matrix raised by a
    constant a and normalised by its degrees, solves

    .. math::
        \min_X \tfrac12 \|X - N\|_F^2 + \lambda \|X\|_1
        \quad\text{subject to}\quad \|X\|_* \le \tau

    and takes :math:`f D_r^{1/2} X D_c^{1/2}` as the graph that the noisy one stands for.
    Communities and hubs make it low rank; most pairs being far apart makes it sparse. Both
    terms shrink what they keep, so f brings X as near to N as one factor can.

    Parameters
    ----------
    lam : float or "auto"
        Price of an entry of X, at least 0. "auto" hides a tenth of the edges, up to three
        times, and takes the price at which they are found best among pairs without an edge,
        by the area under the ROC curve. It tries quantiles of the entries at lam = 0.
    tau : float or "auto"
        Bound on the nuclear norm of X; the largest singular value of N is 1. `inf` is no
        bound. "auto" finds by the same hidden edges how much to take off the singular
        values of N, and takes the nuclear norm that this leads to.
    smoothing : float
        The constant a, as a multiple of the mean entry of A: by how much nodes with few
        edges are held back. A quarter is what Amini et al. use.
    kind : {"auto", "undirected", "directed", "bipartite"}
        What rows and columns are. In a bipartite graph they are different nodes; otherwise
        the same, and the diagonal is ignored. "auto" takes a symmetric matrix for an
        undirected graph, another square one for a directed graph.
    tol : float
        Accuracy to prove, relative to the value of the problem.
    max_seconds : float, optional
        Limit for the last fit; the best point so far is kept.
    random_state : int, RandomState or None
        Fixes which edges are hidden; None is the same as 0.
    verbose : bool
        Whether to show progress.

    Attributes
    ----------
    result_ : Result
        Of the problem above, with `result_.X` and its certificate.
    lam_, tau_, kind_
        What was used.
    adjacency_ : sparse array
        The graph, without the diagonal unless it is bipartite.
    denoised_ : sparse array
        The graph without its noise.
    calibration_ : object or None
        Probability of an edge as a growing function of its score; None if there are fewer
        than 10 edges, or fewer than 10 pairs without one.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of str
        Names of the columns, where the data have any.

    Notes
    -----
    Sparse matrices are taken as they are, but the problem is solved on dense ones: the
    memory needed grows with the square of the number of nodes.

    References
    ----------
    Richard, Savalle and Vayatis, "Estimation of simultaneously sparse and low rank
    matrices", 2012. Amini, Chen, Bickel and Levina, "Pseudo-likelihood methods for
    community detection in large sparse networks", 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import LinkPredictor
    >>> groups = np.arange(60) // 20  # three groups of friends, who know 60 % of each other
    >>> friends = np.random.default_rng(0).random((60, 60)) < 0.6
    >>> A = np.triu(friends & (groups[:, None] == groups), 1)
    >>> model = LinkPredictor().fit(A + A.T)
    >>> same, other = model.score_pairs([[0, 5], [0, 45]])
    >>> bool(same > 2 * other)
    True
    """

    def __init__(
        self,
        *,
        lam: float | Literal["auto"] = "auto",
        tau: float | Literal["auto"] = "auto",
        smoothing: float = 0.25,
        kind: Literal["auto", "undirected", "directed", "bipartite"] = "auto",
        tol: float = 1e-3,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.tau = tau
        self.smoothing = smoothing
        self.kind = kind
        self.tol = tol
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """Sparse input, weights that are not negative."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: Any = None) -> LinkPredictor:
        """Learn from a graph.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (rows, columns)
            Adjacency matrix: weights of edges, 0 where there is none.
        y : ignored
            For scikit-learn's sake.

        Returns
        -------
        LinkPredictor
            The model itself.
        """
        given = Given.checked(self.lam, self.tau)
        smoothing = positive("smoothing", self.smoothing)
        X = validate_data(
            self, X, accept_sparse="csr", dtype=np.float64, ensure_non_negative=True
        )
        graph, self.kind_ = read_graph(X, self.kind)
        degrees_of = partial(Degrees.of, smoothing=smoothing)
        seed = self._seed()
        learnt = choose(graph, degrees_of, given, self._rough, seed)
        self._degrees = degrees_of(graph)
        N = self._degrees.normalised(graph)
        triplets = decomposed(N, graph.symmetric)
        point, cut, self.lam_ = resolved(triplets, learnt.settings, given, seed)
        if given.tau is None and self.lam_ > 0.0:
            point = self._rough(N, self.lam_, given.spectral(N, cut))
        self.tau_ = given.tau or max(point.nuclear_norm, LEAST)
        ball = Given(self.lam_, self.tau_).spectral(N, cut)
        self.result_ = self._fitted(N, self.lam_, ball)
        self._clean = unshrunk(self.result_.low_rank, N)
        self.adjacency_ = graph.A
        edges = graph.edges()[0].size
        self.calibration_ = None
        if learnt.hidden.size:
            rest = graph.pairs - edges
            self.calibration_ = Calibration.of(learnt.hidden, learnt.others, edges, rest)
        return self

    def _rough(self, N: Vector, lam: float, spectral: SpectralTerm) -> LowRank:
        """The answer, roughly."""
        settings: dict[str, Any] = {"tol": ROUGH, "max_seconds": None, "progress": False}
        return self._fitted(N, lam, spectral, **settings).low_rank

    def _fitted(self, N: Vector, lam: float, spectral: SpectralTerm, **settings: Any) -> Result:
        """The problem solved."""
        if min(N.shape) <= FULL:  # full decompositions: few steps, and sharper bounds
            settings["solver"] = DavisYin(first_rank=min(N.shape))
        return self._solve(Problem(Denoising(N), L1(lam), spectral), **settings)

    def score_pairs(self, pairs: Any) -> Vector:
        """How likely pairs of nodes are to be joined: the larger, the likelier.

        The score is the entry of the denoised matrix, in units of the weights of A, plus a
        hundredth of what the degrees alone suggest. That orders pairs for which the entry
        is zero.

        Parameters
        ----------
        pairs : integers of shape (k, 2)
            Row and column of each pair.

        Returns
        -------
        array of shape (k,)
            Scores, positive. Those of (i, j) and (j, i) agree in an undirected graph.
        """
        check_is_fitted(self)
        ends = checked_pairs(pairs, self.adjacency_.shape)
        scores = self._degrees.scores(self._clean, ends)
        if self.kind_ == "undirected":  # alike up to the accuracy of the answer
            return 0.5 * (scores + self._degrees.scores(self._clean, ends[:, ::-1]))
        return scores

    @available_if(_calibrated)
    def predict_proba(self, pairs: Any) -> Vector:
        """Probability that pairs of nodes are joined in the graph as it was given.

        Calibrated on edges that were hidden and on pairs without one: of pairs that get
        0.3, not knowing whether they are edges, about three in ten are. Where the graph
        lacks some edges, so do the probabilities. For pairs that it was given as edges,
        they only say how typical those are. This method is missing where nothing could be
        hidden, see `calibration_`.

        Parameters
        ----------
        pairs : integers of shape (k, 2)
            Row and column of each pair.

        Returns
        -------
        array of shape (k, 2)
            Probabilities of no edge and of an edge.
        """
        check_is_fitted(self)
        assert self.calibration_ is not None  # or this method would not be there
        edge = self.calibration_.probability(self.score_pairs(pairs))
        return np.stack([1.0 - edge, edge], axis=1)

    def recommend(self, node: int, n: int = 10) -> tuple[Vector, Vector]:
        """Columns that a row is likeliest to be joined to and is not yet.

        Parameters
        ----------
        node : int
            The row.
        n : int
            How many columns, fewer if there are not so many.

        Returns
        -------
        columns, scores : arrays of shape (n,)
            The best first.
        """
        check_is_fitted(self)
        shape = self.adjacency_.shape
        checked_pairs([[node, 0]], shape)
        open_ = np.ones(shape[1], dtype=bool)
        open_[self.adjacency_[[node]].indices] = False
        if self.kind_ != "bipartite":
            open_[node] = False
        cols = np.nonzero(open_)[0]
        scores = self.score_pairs(np.stack([np.full(cols.size, node), cols], axis=1))
        best = np.argsort(-scores, kind="stable")[: max(0, int(n))]
        return cols[best], scores[best]

    @property
    def denoised_(self) -> csr_array:
        """The graph without noise: the sparse, low-rank matrix on the scale of A.

        Entries of X below a thousandth of the largest count as zero, and the constant that
        smoothing added is taken off again. The diagonal of a graph is left out.
        """
        check_is_fitted(self)
        X, degrees = self._clean.dense(), self._degrees
        A = X * degrees.left[:, None] * degrees.right - degrees.level
        if self.kind_ == "undirected":
            X, A = 0.5 * (X + X.T), 0.5 * (A + A.T)
        A[(A < 0.0) | (np.abs(X) <= ZERO * np.abs(X).max())] = 0.0
        if self.kind_ != "bipartite":
            np.fill_diagonal(A, 0.0)
        return csr_array(A)
