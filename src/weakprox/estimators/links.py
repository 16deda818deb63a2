"""Link prediction and denoising of graphs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox.arguments import bound, integer, nonnegative, or_auto, positive
from weakprox.errors import InputError
from weakprox.estimators import _graphs as graphs
from weakprox.estimators._base import Certified, times_hidden
from weakprox.estimators._events import Events
from weakprox.estimators._graphs import Graph, Vector
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.simplex import threshold
from weakprox.linalg.threads import one_thread
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.protocols import SpectralTerm
from weakprox.result import Result
from weakprox.selection.path import rough
from weakprox.selection.search import Search, stream
from weakprox.solvers import DavisYin
from weakprox.solvers.base import Warmth
from weakprox.spectral import NuclearBall, NuclearNorm

HIDDEN_SHARE = 0.1  # share of the edges that is hidden at a time
HIDDEN = 1000  # approximate number of edges to hide in total, if that takes no more than ROUNDS
MOST_HIDDEN = 20_000  # largest number of edges to hide at a time
ROUNDS = 3
FEWEST = 10  # numbers of edges and of pairs without one, below which nothing is hidden
NON_EDGES = 10_000  # number of pairs that hidden edges are compared with
CUTS = 2.0 ** (-np.arange(1, 17) / 4)  # cut-offs for singular values, whose largest is 1
HIGHEST = 0.9  # largest cut, relative to the largest singular value
ZEROED = (0.95, 0.9, 0.75, 0.5, 0.25, 0.0)  # quantiles of entries that are tried as lam
SAMPLE = 20_000  # entries from which such a quantile is estimated
SMALL = 256  # size up to which N is made dense and all singular values are computed
FIRST = 128  # vectors of the Krylov space for singular values beyond that size
MOST, HELD = 256, 1 << 27  # most of these vectors, and most of their entries
FULL = 1500  # size up to which N is decomposed in full if these vectors do not suffice
NEAR = 0.5  # relative residuals of singular triplets in the search
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)  # triplets to refit
GUARD = 0.25, 8  # additional triplets for the whole graph: share and number
GAIN = 2e-3  # gain in AUC from which more triplets are computed, or more than CHEAP are used
CHEAP = 64
CLEAR = 2.0  # gain, in standard errors, from which an l1 norm or reverse links are tried
LATEST = 0.1  # share of the events by which half-lives are compared
HALF_LIVES = 2.0 ** -np.arange(6)  # candidates, in units of the span of the events
PATIENCE = 2  # consecutive half-lives without a gain after which the search ends
DAMPING = 0.85  # of walks, as usual for PageRank
# weights of walks and of common neighbours, in units of spreads of scores
ADDED = 4.0 ** np.arange(-2, 4)
ALONE = 2.0**40  # such a weight with which other scores only break ties
REVERSED = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # weights of reverse links
# gain in AUC from which a warning is issued if a graph is too large for an l1 norm
WORTH = 0.01
DENSE = 1 << 20  # entries up to which an l1 norm is tried: X becomes dense
SHOWN = 1 << 24  # entries up to which `denoised_` is computed
SPLIT = 4000  # size up to which full decompositions are fast enough for a given lam
ROUGH = 1e-2  # relative accuracy of the fits of the search
LEAST = 1e-3  # least radius; the spectral norm of N is 1
ZERO = 1e-3  # entries of X below this share of the largest count as zero


K = TypeVar("K")


class Candidate(NamedTuple):
    """Settings in units that are valid for several graphs.

    `nuclear` is the weight of the nuclear norm: at lam = 0 it is subtracted from the
    singular values of N. lam is the quantile `zeroed` of the entries of that answer; None
    stands for the lam given. `refit` takes the singular vectors of the answer with the
    singular values of N. The defaults apply if there is too little to learn from.
    """

    nuclear: float = 0.5
    zeroed: float | None = 0.5
    refit: bool = False


class Start(NamedTuple):
    """Right singular vectors of a similar graph, and the smallest of their values."""

    V: Vector
    edge: float
    rank: int  # number of vectors that was best for that graph; there are more vectors


class Simple(NamedTuple):
    """A simple score that is added, and its weight."""

    name: Literal["walks", "neighbors"] = "walks"
    weight: float = 0.0
    alone: bool = False  # whether other scores only break ties

    def scores(self, A: csr_array) -> Vector:
        """The score of all pairs, without its weight."""
        return graphs.walks(A, DAMPING) if self.name == "walks" else graphs.common_neighbors(A)

    def weight_of(self, name: str) -> float:
        """The weight of the score of this name, infinite if it ranks pairs alone."""
        return 0.0 if name != self.name else math.inf if self.alone else self.weight


class Chosen(NamedTuple):
    """Settings chosen by hidden edges, with the scores of these edges and of other pairs."""

    candidate: Candidate
    hidden: Vector = np.zeros(0)
    others: Vector = np.zeros(0)
    start: Start | None = None  # of the decomposition of the whole graph
    reverse: float = 0.0  # weight of reverse links
    simple: Simple = Simple()
    table: dict[str, Any] = {}  # noqa: RUF012 (never changed)


class Decomposed:
    """The normalised matrix N of a graph, its leading triplets, and lam and tau if given.

    The triplets of a large graph are approximate: residuals are below NEAR, and smaller after
    a start from triplets of a similar graph.
    """

    def __init__(
        self,
        graph: Graph,
        smoothing: float,
        lam: float | None,
        tau: float | None,
        seed: int,
        start: Start | None = None,
    ) -> None:
        self.degrees = graphs.Degrees.of(graph, smoothing)
        self.N = self.degrees.normalised(graph)
        self.lam, self.tau, self.seed, self._symmetric = lam, tau, seed, graph.symmetric
        self.whole = min(self.N.shape) <= SMALL
        self._at: tuple[LowRank, Vector] | None = None
        self._dense: Vector | None = None
        self._rank: int | None = None  # of an answer with refit values
        self._leading: graphs.Leading | None = None
        if self.whole:
            self.triplets = graphs.every(self.N, graph.symmetric)
        elif start is not None:
            self.triplets, self._rank = graphs.improved(self.N, start.V, start.edge), start.rank
        else:
            most = min(MOST, max(FIRST, HELD // min(self.N.shape)))
            self._leading = graphs.Leading(self.N, most)
            self.triplets = self._leading.extended(FIRST, NEAR)

    @property
    def dense(self) -> Vector:
        """N as an array; kept only if it is small, since there are several such graphs."""
        if math.prod(self.N.shape) > DENSE:
            return self.N.dense()
        if self._dense is None:
            self._dense = self.N.dense()
        return self._dense

    @property
    def least(self) -> float:
        """Smallest cut for which the triplets suffice, with a margin."""
        return 0.0 if self.whole else float(self.triplets.s[self.usable])

    @property
    def usable(self) -> int:
        """Number of triplets that an answer may have."""
        size = self.triplets.s.size
        return size if self.whole else max(1, int((size - GUARD[1]) / (1.0 + GUARD[0])))

    @property
    def capped(self) -> bool:
        """Return True if the largest number of triplets is reached."""
        large = min(self.N.shape) > FULL
        return self._leading is None or (large and self._leading.space.complete)

    def widen(self) -> None:
        """Double the Krylov space; decompose N in full if it cannot grow further."""
        if self._leading is None:
            return
        if self._leading.space.complete:
            self.triplets, self._leading = graphs.every(self.N, self._symmetric), None
        else:
            self.triplets = self._leading.extended(2 * self._leading.space.width, NEAR)

    def start(self, candidate: Candidate) -> Start | None:
        """Starting vectors for this candidate, if the graph changes slightly."""
        if self.whole:
            return None
        s, cut = self.triplets.s, max(self._cut(candidate), self.least)
        count = max(1, int((s > cut).sum()))
        width = min(s.size, count + int(GUARD[0] * count) + GUARD[1])
        V = np.array(self.triplets.Vt[:width].T)  # a view would keep all vectors
        return Start(V, float(s[width - 1]), count)

    def resolved(self, candidate: Candidate) -> tuple[LowRank, float, float]:
        """The answer at lam = 0, the cut that leads to it, and lam."""
        cut = self._cut(candidate)
        while cut < self.least and not self.capped:
            self.widen()
            cut = self._cut(candidate)
        cut = max(cut, self.least)
        point = cut_off(self.triplets, cut)
        if candidate.zeroed is None and self.lam is not None:
            return point, cut, self.lam
        if not candidate.zeroed:
            return point, cut, 0.0
        return point, cut, self.quantiles(point, [candidate.zeroed])[0]

    def at(self, point: LowRank, pairs: Vector) -> Vector:
        """Entries of a point with these triplets, always at the same pairs."""
        known, count = self._at, point.s.size
        if known is None or known[0] is not self.triplets:
            known = self._at = self.triplets, graphs.triplets_at(self.triplets, *pairs.T)
        found: Vector = known[1][:, :count] @ point.s
        return found

    def _cut(self, candidate: Candidate) -> float:
        """Cut of a candidate, or that of tau, as far as the triplets determine it."""
        s = self.triplets.s
        if self.tau is not None:
            return threshold(s, self.tau)
        rank = self._rank
        if candidate.refit and rank is not None and rank < s.size:
            return 0.5 * float(s[rank - 1] + s[rank])  # only the rank matters
        return min(candidate.nuclear, HIGHEST * float(s[0]))

    def quantiles(self, point: LowRank, shares: Sequence[float]) -> list[float]:
        """Quantiles of the entries of a point, from a sample."""
        rng = stream(self.seed, 2)
        rows, cols = (rng.integers(0, size, SAMPLE) for size in point.shape)
        found = np.quantile(np.abs(graphs.entries(point, rows, cols)), shares)
        return [float(one) for one in found]

    def spectral(self, cut: float, tau: float | None) -> NuclearBall | NuclearNorm:
        """The ball of radius tau (at most as large as useful), or the nuclear weight."""
        if tau is None:
            return NuclearNorm(cut)
        widest = math.sqrt(min(self.N.shape) * self.N.sqnorm)
        return NuclearBall(min(tau, widest))


class Round(NamedTuple):
    """A graph with hidden edges, which are to be found among pairs without an edge."""

    graph: Graph
    pairs: Vector  # the hidden edges, then the others
    hidden: int  # number of the hidden edges

    def apart(self, values: Vector) -> tuple[Vector, Vector]:
        """Values of the hidden edges, and of the others."""
        return values[: self.hidden], values[self.hidden :]


def rounds(graph: Graph, seed: int, times: int | None = None) -> list[Round]:
    """Edges hidden at random, so many times or as many as needed; none if there are too few."""
    rng = stream(seed, 1)
    if min(graph.count, graph.pairs - graph.count) < FEWEST:
        return []
    edges = rows, cols, _ = graph.edges()
    size, order = round(hidden_share(graph) * rows.size), rng.permutation(rows.size)
    found = []
    if times is None:
        times = min(ROUNDS, max(1, round(HIDDEN / size)))
    times = min(times, rows.size)
    size = min(size, rows.size // times)
    for k in range(times):
        hidden = order[k * size : (k + 1) * size]
        ends = np.stack([rows[hidden], cols[hidden]], axis=1)
        left, others = graph.without(hidden, edges), graph.some_non_edges(NON_EDGES, rng)
        found.append(Round(left, np.vstack([ends, others]), size))
    return found


def latest(events: Events, seed: int) -> tuple[Events, Vector, Vector] | None:
    """Earlier events, pairs with their first event after these, and pairs without any.

    None if there are too few of either.
    """
    early, late = events.parted(LATEST)
    if not len(late.times) or not len(early.distinct()):
        return None
    rng, pairs = stream(seed, 3), late.distinct()
    known = np.asarray(early.matrix()[pairs[:, 0], pairs[:, 1]]).ravel() > 0.0
    new = pairs[~known]
    whole, _ = graphs.read_graph(events.matrix(), events.kind)
    if min(len(new), whole.pairs - whole.count) < FEWEST:
        return None
    new = rng.permutation(new)[:MOST_HIDDEN]
    return early, new, whole.some_non_edges(NON_EDGES, rng)


def hidden_share(graph: Graph) -> float:
    """Share of the edges to hide at a time."""
    return min(HIDDEN_SHARE, MOST_HIDDEN / graph.count)


def cut_off(X: LowRank, cut: float) -> LowRank:
    """Singular values less `cut`, but not below zero."""
    keep = max(1, int((X.s > cut).sum()))
    return LowRank(X.U[:, :keep], np.maximum(X.s[:keep] - cut, 0.0), X.Vt[:keep])


def _best_cut(
    search: Search[Candidate], data: list[Decomposed], cuts: list[float], *, refit: bool
) -> tuple[Candidate, Candidate]:
    """The best cut at lam = 0 without refitted values, and the best of all.

    The number of triplets is doubled as long as the second half of the known ones improves the
    AUC. If the best candidate has many, one with fewer that is nearly as good is chosen.
    """
    soft, tried, done = [Candidate(cut, 0.0) for cut in cuts], dict[Candidate, float](), 0
    while True:
        s, least = data[0].triplets.s, max(found.least for found in data)
        usable = data[0].usable
        plain = [one for one in soft if one.nuclear >= least]
        if len(plain) < len(soft):
            plain.append(Candidate(least, 0.0))
        best = search.best_of(plain)
        counts = [*(k for k in COUNTS if done <= k < usable), usable] if refit else []
        middle = [0.5 * float(s[k - 1] + s[k]) for k in counts]
        again = [Candidate(cut, 0.0, True) for cut in middle if cut >= least]
        if again:
            search.best_of(again)
        tried |= {one: search.mean(one) for one in (*plain, *again) if one in search.losses}
        if not refit and len(plain) == len(soft):
            return best, best
        done, few = usable // 2, float(s[usable // 2])
        before = [loss for one, loss in tried.items() if one.nuclear >= few]
        slow = before and min(tried.values()) > min(before) - GAIN
        capped = not slow and any(found.capped for found in data)
        if capped:
            text = f"The last of {usable} singular triplets still improve the prediction, but "
            text += "no more are computed: a larger tau may improve it further."
            warnings.warn(text, UserWarning, stacklevel=6)
        if slow or capped or search.deadline.passed:
            return best, _fewest(tried, float(s[min(CHEAP, s.size - 1)])) if tried else best
        for found in data:
            found.widen()


def _fewest(tried: dict[Candidate, float], cheap: float) -> Candidate:
    """The candidate of least loss; if it has many triplets, a near one with the fewest.

    Cuts from `cheap` on leave few triplets.
    """
    best = min(tried, key=lambda one: tried[one])
    if best.nuclear >= cheap:
        return best
    near = [one for one in tried if tried[one] <= tried[best] + GAIN]
    return max(near, key=lambda one: min(one.nuclear, cheap))


def _needs_l1(
    parts: list[tuple[Round, Decomposed]],
    soft: Candidate,
    known: list[tuple[Vector, Vector]] | None,
    least: float,
) -> bool:
    """Return True if hidden edges rank clearly better with entries of X moved towards zero.

    That is what an l1 norm does to the entries, apart from its effect on singular values. The
    gain in AUC must be `least` or more, compared with known scores if they are given.
    """
    gains = []
    for k, (part, found) in enumerate(parts):
        X, _, _ = found.resolved(soft)
        at, shares = found.at(X, part.pairs), [share for share in ZEROED if share]
        if found.whole:
            lams = found.quantiles(X, shares)
        else:  # nearly all pairs have no edge
            lams = np.quantile(np.abs(part.apart(at)[1]), shares).tolist()
        moved = (graphs.shrunk(at, lam) for lam in (0.0, *lams))
        scores = (found.degrees.scores_of(entry, part.pairs) for entry in moved)
        placed = [graphs.placements(*part.apart(score)) for score in scores]
        before = graphs.placements(*known[k]) if known else placed[0]
        gains.append(np.stack(placed[1:]) - before)
    gain = np.concatenate(gains, axis=1)
    error = gain.std(axis=1) / math.sqrt(gain.shape[1])
    return bool(np.any(gain.mean(axis=1) > np.maximum(CLEAR * error, least)))


def _with_reverse(
    parts: list[Round], known: list[tuple[Vector, Vector]]
) -> tuple[float, list[tuple[Vector, Vector]]]:
    """The weight with which reverse links rank hidden edges best, and the scores with it.

    `known` are the scores without them. The gain in AUC must be clear; otherwise the weight
    is zero.
    """
    links = [part.apart(graphs.reverse_links(part.graph.A, part.pairs)) for part in parts]
    options = {weight: _added(known, links, weight) for weight in (0.0, *REVERSED)}
    best = _clearly_best({weight: _placed(found) for weight, found in options.items()}, 0.0)
    return best, options[best]


def _with_simple(
    parts: list[Round], known: list[tuple[Vector, Vector]]
) -> tuple[Simple, list[tuple[Vector, Vector]]]:
    """The simple score to add, with the weight that ranks hidden edges best.

    Walks alone, the simplest, are replaced only by what is clearly better.
    """

    def spread(scores: tuple[Vector, Vector]) -> float:
        return float(np.std(np.concatenate(scores)))

    options, unit = {Simple(): known}, spread(known[0])
    for name in ("walks", "neighbors"):
        found = [(part, Simple(name).scores(part.graph.A)) for part in parts]
        more = [part.apart(all_[tuple(part.pairs.T)]) for part, all_ in found]
        size = spread(more[0])
        for weight in (ALONE, *ADDED) if size > 0.0 else ():
            one = Simple(name, float(weight) * unit / size, alone=weight == ALONE)
            options[one] = _added(known, more, one.weight)
    placed = {option: _placed(scores) for option, scores in options.items()}
    best = _clearly_best(placed, next((one for one in options if one.alone), Simple()))
    return best, options[best]


def _added(
    known: list[tuple[Vector, Vector]], more: list[tuple[Vector, Vector]], weight: float
) -> list[tuple[Vector, Vector]]:
    """Scores with others added to them."""
    both = zip(known, more, strict=False)  # time may be short for some parts
    return [(h + weight * a, o + weight * b) for (h, o), (a, b) in both]


def _placed(scores: list[tuple[Vector, Vector]]) -> Vector:
    """Placements of the hidden edges of all parts."""
    return np.concatenate([graphs.placements(*pair) for pair in scores])


def _check_no_pairs(X: Any) -> None:
    """Raise if X is a list of pairs of nodes, which would be read as a two-column graph."""
    if not isinstance(X, (list, np.ndarray)) or np.ndim(X) != 2:
        return
    pairs = np.asarray(X)
    if pairs.shape[1] == 2 < len(pairs) and pairs.dtype.kind in "iu" and pairs.max() > 1:
        wanted = "a matrix with a row for each node, such as scipy.sparse.coo_array((weights, "
        wanted += "(i, j)), shape=(n, n)); if these are weights, give them as floats"
        raise InputError("X", f"{len(pairs)} pairs of integers", wanted)


def _check_one_order(X: Any) -> None:
    """Raise if a frame has the same nodes in its rows and columns, in different orders."""
    if not (hasattr(X, "iloc") and hasattr(X, "columns")) or X.index.equals(X.columns):
        return
    if len(X) == len(X.columns) and set(X.index) == set(X.columns):
        given = "a frame whose rows have the nodes of the columns in another order"
        raise InputError("X", given, "one order: X = X.loc[X.columns]")


def _clearly_better(one: Chosen, other: Chosen) -> bool:
    """Return True if the first ranks the same hidden edges clearly better."""
    if one.hidden.size == 0 or one.hidden.shape != other.hidden.shape:  # no time
        return False
    placed = [graphs.placements(each.hidden, each.others) for each in (other, one)]
    return bool(_clearly_best(dict(enumerate(placed)), 0))


def _clearly_best(placed: dict[K, Vector], plain: K) -> K:
    """The option that ranks hidden edges best, if its gain over the plain one is clear."""
    best = max(placed, key=lambda option: float(placed[option].mean()))
    gain = placed[best] - placed[plain]
    if not gain.any():
        return plain
    return best if gain.mean() > CLEAR * gain.std() / math.sqrt(gain.size) else plain


def _calibrated(model: LinkPredictor) -> bool:
    """Return True if there are probabilities, or before `fit`, whose error is then raised."""
    return not hasattr(model, "result_") or model.calibration_ is not None


@dataclass(eq=False, repr=False)
class LinkPredictor(Certified):
    r"""Link prediction and graph denoising by a low-rank and sparse matrix.

    With :math:`N = D_r^{-1/2} (A + a) D_c^{-1/2}`, the adjacency matrix raised by a
    constant a and normalised by its degrees, solves

    .. math::
        \min_X \tfrac12 \|X - N\|_F^2 + \lambda \|X\|_1
        \quad\text{subject to}\quad \|X\|_* \le \tau

    and uses :math:`f D_r^{1/2} X D_c^{1/2}` as the graph without noise. It is low-rank because
    of communities and hubs, and sparse because most pairs are far apart. The factor f undoes
    the shrinkage: it brings X as near to N as possible. In a graph of more than 256 nodes at
    lam = 0, each singular value may have its own factor (`refit`), if that ranks hidden edges
    better.

    Parameters
    ----------
    lam : float or "auto"
        Weight of the l1 norm of X. "auto" hides a tenth of the edges, up to three times, and
        chooses the weight that ranks them best among pairs without an edge, by the area under
        the ROC curve. It tries quantiles of the entries at lam = 0, if that is likely to
        improve the ranking and the graph is small.
    tau : float, None or "auto"
        Bound on the nuclear norm of X; the largest singular value of N is 1. None means no
        bound. "auto" chooses a weight of the nuclear norm by the same hidden edges and uses the
        norm of its solution.
    smoothing : float
        The constant a, as a multiple of the mean entry of A. It limits the influence of
        nodes with few edges. Amini et al. use a quarter.
    kind : {"auto", "undirected", "directed", "bipartite"}
        In a bipartite graph rows and columns are different nodes; otherwise they are the
        same, and the diagonal is ignored. "auto" treats a symmetric matrix as an undirected
        graph and any other square one as a directed graph.
    half_life : float, None or "auto"
        For events with times: an event has the weight 2^(-age / half_life), its age being the
        time from it to the last event. None gives all events the same weight. "auto" tries 1,
        1/2, ..., 1/32 times the span of the earlier nine tenths of the events, until two in
        succession are no better. It chooses the half-life with which these events rank the new
        pairs of the last tenth best, if that is clearly better than no decay.
    {cv, times hidden}
    one_standard_error : bool or "auto"
        Whether to take the simplest candidate (largest weight of the nuclear norm, no refit,
        largest lam) whose ranking is worse than the best by at most one standard error of
        their difference. "auto" is False here.
    {tol, max_seconds, random_state, verbose}

    Attributes
    ----------
    lam_, tau_, kind_
        The values used; `tau_` is infinite if there is no bound.
    {cv_results_}
        "param_lam" and "param_tau" are means over the graphs without the hidden edges.
        "nuclear" is the weight of the nuclear norm, "zeroed" the quantile of the
        entries that is used as lam (None if lam was given), and "refit" whether each
        singular value has its own factor. Scores are areas under the ROC curve.
    adjacency_ : sparse array
        The graph, without the diagonal unless it is bipartite. Weights of events with times
        are sums of `2^(-age / half_life_)`.
    denoised_ : sparse array
        The graph without its noise.
    half_life_ : float
        The half-life used; infinite if all events have the same weight, or without times.
    reverse_weight_ : float
        For directed graphs: the weight that the link (j, i) has in the score of (i, j). It
        is 0 unless reverse links clearly improve the ranking of hidden edges.
    walk_weight_, neighbor_weight_ : float
        For undirected graphs of up to 2^20 pairs: the weights that two simple scores have. They
        are the probabilities that random walks end at the other node (personalised PageRank
        with a damping of 0.85), and the common neighbours, each divided by its degree (resource
        allocation). At most one weight is positive. An infinite weight means that pairs are
        ranked by this score alone, with ties broken by the low-rank matrix. The choice starts
        from walks alone and is changed only if that clearly improves the ranking of hidden
        edges, so that walks rank the pairs of graphs with too few edges to choose. Both weights
        are 0 if lam or tau is given, or if nothing can be hidden.
    log_counts_ : bool
        Whether the weight of an edge is replaced by log(1 + weight). If lam and tau are
        automatic, this is tried for integer weights, such as numbers of events, and if pairs
        have several events with times. It is used if it clearly improves the ranking of hidden
        edges. Scores and `denoised_` are then on that scale.
    calibration_ : object or None
        Probability of an edge as an increasing function of its score; None if there are
        fewer than 10 edges, or fewer than 10 pairs without one.
    {result_, certificate_}

    Notes
    -----
    At lam = 0 the solution consists of leading singular triplets of N, which is sparse plus a
    matrix of rank one: memory and time grow with the number of edges. Triplets are computed
    from a Krylov space that is doubled as long as they improve the ranking of hidden edges, up
    to 256 vectors (fewer if a basis would have more than 2^27 entries). About half as many
    triplets result. If the last of them still improve the ranking, a graph of up to 1500 nodes
    is decomposed in full. For a larger graph a warning is issued: the solution is then that of
    a larger weight of the nuclear norm, for which the certificate is valid.

    The l1 norm is tried only if moving entries of X towards zero clearly improves the ranking.
    It makes X dense, so it is not used for a graph with more than 2^20 pairs. A warning is
    issued if the area under the ROC curve would gain about 0.01 or more.

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
    >>> model = LinkPredictor(random_state=0).fit(A + A.T)
    >>> same, other = model.score_pairs([[0, 5], [0, 45]])
    >>> bool(same > 2 * other)
    True
    """

    lam: float | Literal["auto"] = "auto"
    tau: float | Literal["auto"] | None = "auto"
    _: KW_ONLY
    smoothing: float = 0.25
    kind: Literal["auto", "undirected", "directed", "bipartite"] = "auto"
    half_life: float | Literal["auto"] | None = "auto"
    cv: int | Literal["auto"] = "auto"
    one_standard_error: bool | Literal["auto"] = "auto"
    tol: float = 1e-3
    _accepts = ("sparse", "positive_only")

    def fit(
        self, X: Any, y: Any = None, *, times: Any = None, shape: Any = None
    ) -> LinkPredictor:
        """Learn from a graph, or from events with times.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (rows, columns)
            Adjacency matrix: weights of edges, 0 where there is none. With `times`: integers
            of shape (events, 2), the row and the column of each event.
        y : ignored
        times : array of shape (events,), optional
            Times of the events, as numbers. See `half_life`.
        shape : (int, int), optional
            Numbers of rows and of columns, for events. By default the largest indices determine
            them, and kind="auto" means a directed graph.
        """
        lam, tau = or_auto("lam", self.lam, nonnegative), or_auto("tau", self.tau, bound)
        half_life = or_auto("half_life", self.half_life, bound)
        times_hidden(self.cv)
        smoothing = positive("smoothing", self.smoothing)
        prepare = partial(Decomposed, smoothing=smoothing, lam=lam, tau=tau, seed=self._seed)
        kind: str = self.kind
        events, self.half_life_ = None, math.inf
        if times is not None:
            events = Events.read(X, times, shape, kind)
            kind = self.kind_ = events.kind
            if half_life is None:
                half_life = self._best_half_life(events, prepare, lam, tau)
            self.half_life_ = half_life
            X = events.matrix(self.half_life_)
        elif shape is not None:
            raise InputError("shape", shape, "None, without times: X has the shape")
        read: Any = {"accept_sparse": "csr", "ensure_non_negative": True}
        if kind != "bipartite":
            _check_no_pairs(X)
            _check_one_order(X)
        X = validate_data(self, X, dtype=np.float64, **read)
        graph, self.kind_ = graphs.read_graph(X, kind)
        with one_thread(math.prod(graph.A.shape)):  # many short calls of BLAS
            chosen = self._choose(graph, prepare, lam, tau)
        self.adjacency_, self.log_counts_ = graph.A, False
        repeated = graphs.has_repeated(graph) or (events is not None and events.repeated)
        if lam is None and tau is None and repeated:
            logs = graphs.logs_of(graph)
            other = self._choose(logs, prepare, lam, tau)
            if _clearly_better(other, chosen):
                graph, chosen, self.log_counts_ = logs, other, True
        best, hidden, others, start, self.reverse_weight_, simple, table = chosen
        self.walk_weight_ = simple.weight_of("walks")
        self.neighbor_weight_ = simple.weight_of("neighbors")
        self._simple = simple.weight * simple.scores(graph.A) if simple.weight else None
        self.cv_results_ = dict(table)
        data = prepare(graph, start=start)
        point, cut, self.lam_ = data.resolved(best)
        if tau is None:
            if self.lam_ > 0.0:
                point = self._rough(data, self.lam_, data.spectral(cut, None), point)
            tau = max(point.nuclear_norm, LEAST)
        self.tau_ = tau
        self.result_ = self._fitted(data, self.lam_, data.spectral(cut, tau))
        self._degrees = data.degrees
        clean = graphs.refitted if best.refit else graphs.unshrunk
        self._clean = clean(self.result_.low_rank, data.N)
        self.result_ = replace(self.result_, estimate=self._clean)
        self.calibration_ = None
        if hidden.size:
            free = graph.pairs - graph.count
            self.calibration_ = graphs.Calibration.of(hidden, others, graph.count, free)
        return self

    def _best_half_life(
        self, events: Events, prepare: Any, lam: float | None, tau: float | None
    ) -> float:
        """The half-life with which earlier events rank later ones best; infinite if none is.

        Only pairs without an earlier event are ranked. The gain over no decay must be clear.
        """
        split = latest(events, self._seed)
        if split is None:
            return math.inf
        early, new, others = split
        pairs, placed = np.vstack([new, others]), dict[float, Vector]()

        def trial(early: Events, half_life: float, start: Any) -> tuple[float, None]:
            graph, _ = graphs.read_graph(early.matrix(half_life), events.kind)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # only the final choice warns
                parts = [Round(graph, pairs, len(new))]
                found = self._choose(graph, prepare, lam, tau, parts=parts)
            if not found.hidden.size:
                return math.inf, None
            placed[half_life] = graphs.placements(found.hidden, found.others)
            return -float(placed[half_life].mean()), None

        # its searches for other settings show their progress
        search: Search[float] = Search([early], trial, deadline=self._search_end)
        finite = [each for each in (early.span * HALF_LIVES).tolist() if each]
        search.best_of([math.inf, *finite], patience=PATIENCE)
        return _clearly_best(placed, math.inf) if math.inf in placed else math.inf

    def _choose(
        self,
        graph: Graph,
        prepare: Any,
        lam: float | None,
        tau: float | None,
        *,
        parts: list[Round] | None = None,
    ) -> Chosen:
        """Choose the settings that are not given, with scores of hidden edges and other pairs.

        Edges are hidden at random, unless `parts` say which are hidden.
        The AUC determines first the nuclear weight at lam = 0, where the answer has a closed
        form, then lam, if entries near zero seem to be noise, and then whether a neighbouring
        nuclear weight is better, since lam shrinks too.
        """
        simplest = self._one_standard_error(automatic=False)
        zeroed = 0.5 if lam is None else None
        hiding = rounds(graph, self._seed, times_hidden(self.cv)) if parts is None else parts
        held = [(part, prepare(part.graph)) for part in hiding]
        if not held:
            small = math.prod(graph.A.shape) <= DENSE
            return Chosen(Candidate(zeroed=zeroed if small else 0.0))

        def trial(
            data: tuple[Round, Decomposed], candidate: Candidate, start: Any
        ) -> tuple[float, tuple[Vector, Vector]]:
            part, found = data
            X, cut, price = found.resolved(candidate)
            if price > 0.0:
                X = self._rough(found, price, found.spectral(cut, tau), X)
            radius = X.nuclear_norm if tau is None else tau
            used.setdefault(candidate, []).append((price, radius))
            if price > 0.0:
                at = graphs.entries(graphs.unshrunk(X, found.N), *part.pairs.T)
            else:
                s = found.triplets.s[: X.s.size]
                unmoved = LowRank(X.U, s, X.Vt)
                X = unmoved if candidate.refit else graphs.scaled(X, float(X.s @ s))
                at = found.at(X, part.pairs)
            pair = part.apart(found.degrees.scores_of(at, part.pairs))
            return -float(graphs.placements(*pair).mean()), pair

        def scores(candidate: Candidate) -> list[tuple[Vector, Vector]]:
            """Scores of hidden edges and other pairs, recomputed if the search dropped them."""
            if candidate not in search.losses:
                return [(np.zeros(0), np.zeros(0))]
            kept = search.answers.get(candidate)
            return kept or [trial(part, candidate, None)[1] for part in held]

        used: dict[Candidate, list[tuple[float, float]]] = {}  # lam and tau
        search: Search[Candidate] = self._search(held, trial)
        data = [found for _, found in held]
        cuts = [float(cut) for cut in (CUTS if tau is None else CUTS[:1])]
        refit = not lam and not any(found.whole for found in data)
        if tau is None:
            soft, best = _best_cut(search, data, cuts, refit=refit)
        else:
            options = [Candidate(cuts[0], 0.0, again) for again in (False, True)[: 1 + refit]]
            soft, best = options[0], search.best_of(options)
        if lam is not None:
            best = search.best_of([(soft if lam else best)._replace(zeroed=None)])
        else:
            best = self._with_l1(graph, search, held, soft, best, scores(best))
        if tau is None and (lam or best.zeroed):
            near = [cut for cut in cuts if 0.8 < cut / best.nuclear < 1.25]
            beside = [best._replace(nuclear=cut) for cut in near if cut != best.nuclear]
            best = search.best_of([best, *beside])
        tried = search.scores()
        if simplest and tried.candidates:
            best = tried.best(lambda c: (-c.nuclear, c.refit, -(c.zeroed or 0.0)))
        table = {}
        if tried.candidates:
            both = np.array([np.mean(used[c], axis=0) for c in tried.candidates])
            weights = {"param_lam": both[:, 0], "param_tau": both[:, 1]}
            table = tried.table(*Candidate._fields, **weights)
        known, reverse, simple = scores(best), 0.0, Simple()
        if self.kind_ == "directed" and known[0][0].size:
            reverse, known = _with_reverse(hiding, known)
        small = self.kind_ == "undirected" and math.prod(graph.A.shape) <= DENSE
        if small and lam is None and tau is None and known[0][0].size:
            simple, known = _with_simple(hiding, known)
        hidden, others = (np.concatenate(part) for part in zip(*known, strict=True))
        # with more edges the singular values of the noise fall like the root of the degrees
        lower = best._replace(nuclear=best.nuclear * math.sqrt(1.0 - hidden_share(graph)))
        starts = [found.start(best if best.refit else lower) for found in data]
        start = max(starts, key=lambda one: 0 if one is None else one.rank)
        return Chosen(lower, hidden, others, start, reverse, simple, table)

    def _with_l1(
        self,
        graph: Graph,
        search: Search[Candidate],
        parts: list[tuple[Round, Decomposed]],
        soft: Candidate,
        best: Candidate,
        known: list[tuple[Vector, Vector]],
    ) -> Candidate:
        """The best of several weights of the l1 norm, if it helps and the graph is small.

        `known` are scores of the best candidate so far.
        """
        m, d = graph.A.shape
        large = m * d > DENSE
        compared = known if large and best.refit else None
        if not _needs_l1(parts, soft, compared, WORTH if large else 0.0):
            return best
        if large:
            text = f"An l1 norm may improve the prediction, but the graph of {m} x {d} nodes "
            text += f"is too large for it (more than {DENSE} pairs): lam = 0 is used."
            warnings.warn(text, UserWarning, stacklevel=5)
            return best
        found = search.best_of([soft._replace(zeroed=option) for option in ZEROED])
        return search.best_of([best, found]) if found in search.losses else best

    def _fitted(self, data: Decomposed, lam: float, spectral: SpectralTerm) -> Result:
        """Solve the problem."""
        if lam == 0.0 and not data.whole:
            problem = Problem(Denoising(data.N), None, spectral)
            return self._solve(problem, start=data.triplets)
        N: Any = data.N
        settings: dict[str, Any] = {}
        if min(N.shape) <= SPLIT:  # full decompositions: few steps and sharper bounds
            settings["solver"] = DavisYin(first_rank=min(N.shape))
            N = data.dense
        return self._solve(Problem(Denoising(N), L1(lam), spectral), **settings)

    def _rough(
        self, data: Decomposed, lam: float, spectral: SpectralTerm, point: LowRank
    ) -> LowRank:
        """Solve the problem of a trial, from the answer at lam = 0.

        The first target of the splitting is N with its entries cut off by lam, whose singular
        vectors are near those of N: no full decomposition is needed.
        """
        N, penalty = data.dense, L1(lam)
        size = penalty.value(point.dense())
        pull, block = np.clip(N, -lam, lam), data.triplets.Vt.T
        start = Warmth(point, pull, size, 1.0, point.rank, np.ascontiguousarray(block))
        problem = Problem(Denoising(N), penalty, spectral)
        how: Any = {"seed": self._seed, "deadline": self._search_end}
        return rough(problem, start, tol=ROUGH, not_low=True, **how).low_rank

    def score_pairs(self, pairs: Any) -> Vector:
        """Return scores of pairs of nodes; a larger score means a more likely edge.

        The score is the entry of the denoised matrix, in units of the weights of A, plus a
        hundredth of the score by degrees alone, which orders pairs whose entry is zero. In a
        directed graph the weight of the reverse link, times `reverse_weight_`, is added, and in
        an undirected one a simple score, see `walk_weight_`.

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
        ends = graphs.checked_pairs(pairs, self.adjacency_.shape)
        scores = self._degrees.scores(self._clean, ends)
        if self.kind_ == "undirected":  # equal up to the accuracy of the answer
            scores = 0.5 * (scores + self._degrees.scores(self._clean, ends[:, ::-1]))
            if self._simple is not None:
                scores += self._simple[ends[:, 0], ends[:, 1]]
            return scores
        if self.reverse_weight_:
            scores = scores + self.reverse_weight_ * graphs.reverse_links(self.adjacency_, ends)
        return scores

    @available_if(_calibrated)
    def predict_proba(self, pairs: Any) -> Vector:
        """Return the probability that pairs of nodes are joined in the given graph.

        Calibrated on hidden edges and on pairs without an edge: of unseen pairs with the
        probability 0.3, about three in ten are edges. If the graph lacks some edges, the
        probabilities are proportionally too small. For edges of the training graph they only
        measure how typical these are. This method does not exist if nothing could be hidden,
        see `calibration_`.

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
        assert self.calibration_ is not None  # otherwise this method does not exist
        edge = self.calibration_.probability(self.score_pairs(pairs))
        return np.stack([1.0 - edge, edge], axis=1)

    def recommend(self, node: int, n: int = 10) -> tuple[Vector, Vector]:
        """Return the columns most likely to be joined to a row, without those that already are.

        Parameters
        ----------
        node : int
            The row.
        n : int
            Largest number of columns.

        Returns
        -------
        columns, scores : arrays of shape (n,)
            The best first.
        """
        check_is_fitted(self)
        m, d = self.adjacency_.shape
        node = integer("node", node, 0, m - 1)
        open_ = np.ones(d, dtype=bool)
        open_[self.adjacency_[[node]].indices] = False
        if self.kind_ != "bipartite":
            open_[node] = False
        cols = np.nonzero(open_)[0]
        scores = self.score_pairs(np.stack([np.full(cols.size, node), cols], axis=1))
        best = np.argsort(-scores, kind="stable")[: integer("n", n, least=0)]
        return cols[best], scores[best]

    @property
    def denoised_(self) -> csr_array:
        """The graph without noise: the sparse, low-rank matrix on the scale of A.

        Entries of X below a thousandth of the largest count as zero, and the constant that
        smoothing added is subtracted again. The diagonal of a graph is left out. Raises
        `InputError` if the graph has more than 2^24 pairs, since few entries are zero.
        """
        check_is_fitted(self)
        m, d = self.adjacency_.shape
        if m * d > SHOWN:
            wanted = f"at most {SHOWN} pairs: use score_pairs or recommend"
            raise InputError("denoised_", f"a graph of {m} x {d} nodes", wanted)
        X, degrees = self._clean.dense(), self._degrees
        A = X * degrees.left[:, None] * degrees.right - degrees.level
        if self.kind_ == "undirected":
            X, A = 0.5 * (X + X.T), 0.5 * (A + A.T)
        A[(A < 0.0) | (np.abs(X) <= ZERO * np.abs(X).max())] = 0.0
        if self.kind_ != "bipartite":
            np.fill_diagonal(A, 0.0)
        return csr_array(A)
