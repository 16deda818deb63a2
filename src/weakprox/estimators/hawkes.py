"""Who excites whom: low-rank and sparse infectivity from event times and node labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, reduce
from itertools import pairwise
from operator import add
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox import arguments
from weakprox.errors import InputError
from weakprox.estimators import _hawkes_process as process
from weakprox.estimators._base import DEPRECATED, Certified
from weakprox.estimators._hawkes_process import Matrix, Pilot, Record, Reduced, Vector
from weakprox.linalg import decompositions
from weakprox.linalg.threads import one_thread
from weakprox.penalties import SignedL1
from weakprox.problem import Problem
from weakprox.result import Result
from weakprox.selection.search import Search, Weights
from weakprox.spectral import NuclearBall

LAMS = (0.0, 0.5, 1.0, 2.0, 4.0)  # tried weights, in units of the noise
SHARES = (0.05, 0.12, 0.25, 0.5, 1.0)  # tried radii, relative to the norm without a bound
FEW = (2.0, 0.25)  # weight and share if there are too few events for a search
PATIENCE = 2  # consecutive weights without a gain that end the search
LEAST = 10  # events per fold needed for a search
SCARCE = 5  # events per node needed for it, on average
FIRST = 2  # pieces left out that show if a candidate is clearly worse
# factor by which the solves of the search are less accurate; 1 gives the same choices
LOOSE = 200.0
ZERO = 1e-3  # entries of X up to this share of the largest count as zero
FLOOR = 1e-6  # smallest radius, and smallest value that counts


@dataclass(frozen=True)
class Pieces:
    """Events with the kernel sums at them, and the pieces of time between edges."""

    events: Record
    kernel: process.Kernel
    pulls: Matrix  # (node, event)
    edges: Vector

    @cached_property
    def exposures(self) -> Matrix:
        """Exposure of each node in each piece: (piece, node)."""
        ends = pairwise(self.edges.tolist())
        return np.array([process.exposure(self.events, self.kernel, *pair) for pair in ends])

    def piece(self, k: int) -> np.ndarray[Any, Any]:
        """Indices of the events in piece k."""
        times, last = self.events.times, k == len(self.edges) - 2
        inside = times >= self.edges[k]
        return np.asarray(inside & ((times < self.edges[k + 1]) | last))

    @cached_property
    def own(self) -> Vector:
        """The sum over the past of its own node at each event."""
        return self.pulls[self.events.nodes, np.arange(len(self.events.nodes))]

    @cached_property
    def _of_nodes(self) -> list[tuple[np.ndarray[Any, Any], Matrix]]:
        """The events of each node, and the kernel sums at them."""
        found = (np.flatnonzero(self.events.nodes == node) for node in range(len(self.pulls)))
        return [(at, np.ascontiguousarray(self.pulls[:, at].T)) for at in found]

    def mutual(self, A: Matrix) -> Vector:
        """The contribution of A to the intensity at each event."""
        found = np.empty(len(self.events.nodes))
        for row, (at, pulls) in zip(A, self._of_nodes, strict=True):
            found[at] = pulls @ row
        return found

    def sources(
        self, A: Matrix, mutual: Vector, chosen: Any, due: Vector, length: float
    ) -> process.Sources:
        """Baseline, own past and contribution of A at some events; `due` is the exposure."""
        nodes = self.events.nodes[chosen]
        at = np.array([np.ones(len(nodes)), self.own[chosen], mutual[chosen]])
        exposures = np.array([np.full(len(A), length), due, A @ due])
        return process.Sources(at, exposures, nodes, length)


def unscaled(X: Matrix, events: Record) -> Matrix:
    """A from X = A sqrt(N_v / N_u), without negative and negligible entries."""
    scale = np.sqrt(np.maximum(events.totals, 1.0))
    kept = np.where(ZERO * np.abs(X).max() < X, X, 0.0)
    return kept * scale[:, None] / scale


def first_factors(first: Pilot, free: bool) -> Matrix:
    """Start of EM: the pilot's baseline and self-excitation, and A unchanged."""
    own = np.maximum(first.own, 1e-3) if free else np.zeros_like(first.own)
    return np.array([first.baseline, own, np.ones_like(own)])


@dataclass(eq=False, repr=False)
class HawkesInfectivity(Certified):
    """Low-rank, sparse, non-negative infectivity of a multivariate Hawkes process.

    Events of node v raise the rate of events of node u for a while:

        rate of u at t = baseline_u + sum over past events j of A[u, node_j] g(t - t_j),

    where g is a mixture of exponentials with integral 1, so that A[u, v] is the expected number
    of events of u that one event of v triggers directly.

    `fit` has three steps. (1) A pilot, in which every node reacts to its own past and equally
    to the past of all nodes, is fitted by EM. It gives the mixture g and the weights of the
    next step. (2) The infectivity minimises the least-squares contrast, weighted by the pilot's
    intensity, plus an l1 norm and a large penalty on negative entries, over a nuclear norm
    ball: a certified problem (`result_`). Its variable is X = A sqrt(N_v / N_u), N the numbers
    of events, so that all entries have about the same noise. (3) Entries that are negative
    within the solver's accuracy are set to zero, and baselines, the diagonal and one factor per
    row are refined by EM steps on the likelihood, which keep the rank and the zeros of X.

    Parameters
    ----------
    lam : float or "auto"
        Weight of the l1 norm, in standard deviations of the contrast's gradient.
    tau : float, None or "auto"
        Bound on the nuclear norm of X; None for no bound.
    decays : float, sequence of float or "auto"
        Rates w of the exponentials w exp(-w t) that g mixes, per unit of time. "auto" uses up
        to six in geometric progression, from ten over the length of the period to one over the
        5 % quantile of the gaps between events; those with a share below 0.001 are dropped.
    self_excitation : bool
        Whether self-excitation is free of penalties. A is then a diagonal plus the low-rank
        and sparse matrix, whose rank is `rank_`.
    cv : int
        Number of intervals of time for "auto". Each is left out in turn, and the pair with the
        largest likelihood on the intervals left out, given their past, is chosen. With fewer
        than 10 events per interval or 5 per node, lam is 2 and tau is a quarter of the nuclear
        norm without a bound.
    one_standard_error : bool or "auto"
        Whether to take the simplest pair (smallest tau, then largest lam) that is worse than
        the best by at most one standard error of their difference. "auto" is False here.
    tol : float
        Accuracy of the certified problem, relative to the largest decrease of its value.
    {max_seconds, random_state, verbose}
    folds : deprecated
        Use `cv`.

    Attributes
    ----------
    infectivity_ : array of shape (nodes, nodes)
        A; the entry in row u and column v is the effect of v on u.
    baseline_ : array of shape (nodes,)
        Events per unit of time that no event triggered.
    decay_, mixture_ : arrays
        Rates of the exponentials and their shares of g.
    spectral_radius_ : float
        Largest eigenvalue of A in size; the process is stable below 1.
    rank_ : int
        Rank of X.
    nodes_ : array
        Labels of the nodes, in the order of rows and columns.
    lam_, tau_ : float
        The values used; `tau_` is infinite if there is no bound.
    tau_edge_ : {"smallest", "largest"} or None
        The end of the range of radii at which tau lies, if it was searched; None if it lies at
        neither. "largest" is a radius without effect: low rank does not help. "smallest" means,
        for lam = 0, no excitation between nodes; for other lam, a smaller tau may be better.
    {cv_results_}
        Scores are log-likelihoods on the intervals left out; their mean is per event.
        Candidates that are clearly worse on the first two intervals are not listed.
    log_likelihood_ : float
        Per event, on the training period.
    period_ : (float, float)
        The training period.
    {result_, certificate_}

    Notes
    -----
    For `cross_val_score` and `GridSearchCV`, use folds in the order of time
    (``cv=TimeSeriesSplit()``): other folds cut events out of the past of those that remain.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import HawkesInfectivity
    >>> times = np.array([0.0, 0.1, 1.0, 1.2, 3.0, 3.1, 3.2, 5.0, 7.5, 7.6])
    >>> nodes = np.array([0, 1, 0, 1, 0, 1, 1, 0, 0, 1])
    >>> model = HawkesInfectivity(decays=2.0).fit(np.column_stack([times, nodes]))
    >>> model.infectivity_.shape
    (2, 2)
    """

    lam: float | Literal["auto"] = "auto"
    tau: float | Literal["auto"] | None = "auto"
    _: KW_ONLY
    decays: Any = "auto"
    self_excitation: bool = True
    cv: int = 5
    one_standard_error: bool | Literal["auto"] = "auto"
    tol: float = 1e-4
    folds: Any = DEPRECATED

    def fit(self, X: Any, y: Any = None, *, period: tuple[float, float] | None = None) -> Self:
        """Learn from a record of events.

        Parameters
        ----------
        X : array or frame of shape (events, 1 + label columns)
            The first column is the time. The others identify the node of the event, by one
            label (a number or, in a frame, a string) or by several that form one. Without other
            columns, all events belong to one node. Rows may be in any order.
        y : ignored
        period : (float, float), optional
            Start and end of the observation; first and last event if not given.
        """
        lam = arguments.or_auto("lam", self.lam, arguments.nonnegative)
        tau = arguments.or_auto("tau", self.tau, arguments.bound)
        arguments.flag("self_excitation", self.self_excitation)
        arguments.accuracy("tol", self.tol)
        simplest = self._one_standard_error(automatic=False)
        cv = arguments.integer("cv", self._renamed("folds", "cv"), least=2)
        process.refuse_lists(X)
        data = validate_data(self, X, dtype=None, ensure_min_samples=2)
        events, self.nodes_ = process.record(data, None, period)
        few = len(events.times) < max(LEAST * cv, SCARCE * events.count)
        if few or events.count == 1 or (lam is not None and tau is not None):
            cv = 1  # nothing to choose, or too few events for a choice
        first = self._pilot(events)
        edges = np.quantile(events.times, np.linspace(0.0, 1.0, cv + 1))
        edges[0], edges[-1] = events.start, events.stop
        pulls = process.excitation(events, first.kernel, events.times)
        parts = process.contrasts(events, first, edges, pulls)
        whole = reduce(add, parts)
        kept = Pieces(events, first.kernel, pulls, edges)
        self._events, self._kernel = events, first.kernel
        reduced = Reduced.of(whole, self.self_excitation)
        lines = self._lines(reduced, lam, tau, few=cv == 1)
        self.cv_results_, self.tau_edge_ = {}, None
        if cv > 1:
            with one_thread(pulls.size):  # many short calls of BLAS
                best, line = self._choose(kept, parts, whole, first, lines, simplest=simplest)
            if tau is None:
                ends = {line[0]: "smallest", line[-1]: "largest"} if len(line) > 1 else {}
                self.tau_edge_ = ends.get(best)
        else:
            best = next(lines)[0]
        self.lam_, self.tau_ = best
        problem, eps = self._stated(reduced, best)
        self.result_ = self._solve(problem, tol=None, eps=eps)
        self._finish(kept, first)
        return self

    def _lines(
        self, reduced: Reduced, lam: float | None, tau: float | None, *, few: bool
    ) -> Iterator[list[Weights]]:
        """Radii to try for each weight in turn, ascending; one candidate if there are few."""
        lams = [lam] if lam is not None else [FEW[0]] if few else LAMS
        simplest = not few  # every node separately
        for weight in lams:
            if tau is not None:
                taus = [tau]
            else:
                problem, eps = self._stated(reduced, Weights(weight, np.inf), LOOSE)
                norm = self._unproved(problem, eps=eps).low_rank.nuclear_norm
                taus = [max(x * norm, FLOOR) for x in ([FEW[1]] if few else SHARES)]
                taus = list(dict.fromkeys([FLOOR, *taus])) if simplest else taus
            simplest = False
            yield [Weights(weight, radius) for radius in taus]

    def _choose(
        self,
        kept: Pieces,
        parts: list[process.Contrast],
        whole: process.Contrast,
        first: Pilot,
        lines: Iterator[list[Weights]],
        *,
        simplest: bool,
    ) -> tuple[Weights, list[Weights]]:
        """The candidate of largest likelihood on the pieces of time left out, and its line.

        Weights are tried from 0 upwards until two bring no gain. The radii of a weight are
        searched from the best one of the previous weight; for the first weight, both ends are
        tried as well, since these are the simplest models.
        """
        events, free = kept.events, self.self_excitation
        every = np.sum(kept.exposures, axis=0)
        start = first_factors(first, free)

        def prepare(k: int) -> tuple[int, Reduced]:
            share = float(kept.piece(k).mean())
            return k, Reduced.of(whole.without(parts[k], share), free)

        def trial(
            data: tuple[int, Reduced], candidate: Weights, before: Result | None
        ) -> tuple[float, Result]:
            k, reduced = data
            inside, due = kept.piece(k), kept.exposures[k]
            length = float(kept.edges[k + 1] - kept.edges[k])
            problem, eps = self._stated(reduced, candidate, LOOSE)
            result = self._unproved(problem, before, eps=eps)
            A = unscaled(result.X, events)
            mutual = kept.mutual(A)
            rest = kept.sources(A, mutual, ~inside, every - due, events.length - length)
            factors = rest.improved(start, process.POLISH)
            found = kept.sources(A, mutual, inside, due, length).log_likelihood(factors)
            return -found * len(parts) / len(events.times), result

        data = [prepare(k) for k in range(len(parts))]
        search: Search[Weights] = self._search(data, trial, first=FIRST)
        line = next(lines)
        tried = [line]
        best = search.along(line, line[len(line) // 2])
        best = search.best_of([best, line[0], line[-1]])
        waited, own, place = 0, line, line.index(best) - len(line)
        while waited < PATIENCE and not self._search_end.passed:
            line = next(lines, [])
            if not line:
                break
            place = max(place, -len(line))
            tried.append(line)
            found = search.along(line, line[place])
            place, waited = line.index(found) - len(line), waited + 1
            if search.best_of([best, found]) == found:
                best, own, waited = found, line, 0
        compared = search.scores().finite()
        self.cv_results_ = compared.table()
        if simplest:
            best = compared.best(lambda weights: (weights.tau, -weights.lam))
            own = next(line for line in tried if best in line)
        return best, own

    def _finish(self, kept: Pieces, first: Pilot) -> None:
        """Refine baselines, diagonal and row factors, and set what was learnt."""
        events = kept.events
        A = unscaled(np.asarray(self.result_.X), events)
        due = process.exposure(events, kept.kernel, events.start, events.stop)
        sources = kept.sources(A, kept.mutual(A), slice(None), due, events.length)
        factors = sources.improved(first_factors(first, self.self_excitation), process.POLISH)
        self.baseline_ = factors[0]
        self.infectivity_ = factors[2][:, None] * A + np.diag(factors[1])
        self.decay_, self.mixture_ = first.kernel.decays, first.kernel.shares
        self.spectral_radius_ = float(np.abs(decompositions.eigvals(self.infectivity_)).max())
        self.rank_ = self.result_.rank
        self.log_likelihood_ = sources.log_likelihood(factors) / len(events.times)
        self.period_ = (events.start, events.stop)

    def _pilot(self, events: Record) -> Pilot:
        """The pilot, without decays of a negligible share."""
        decays = process.decays_of(self.decays, events)
        first = process.pilot(events, decays)
        used = first.kernel.shares >= 1e-3
        if not arguments.is_auto(self.decays) or used.all() or not used.any():
            return first
        return process.pilot(events, decays[used])

    def _stated(
        self, reduced: Reduced, weights: Weights, loose: float = 1.0
    ) -> tuple[Problem, float]:
        """The certified problem, lam in units of the noise, and the accuracy to solve it to."""
        lam, tau = weights
        price = lam * reduced.noise(len(self._events.times))
        below = max(float(np.abs(reduced.slopes).max()), price, FLOOR)
        penalty = SignedL1(price, below, reduced.ridge)
        ball = NuclearBall(max(tau, FLOOR) if np.isfinite(tau) else reduced.reach)
        eps = loose * self.tol * max(reduced.size, FLOOR**2)
        return Problem(reduced.loss, penalty, ball), eps

    def intensity(self, times: Any) -> np.ndarray[Any, Any]:
        """Rates of all nodes at these times, given the training events: (times, nodes)."""
        check_is_fitted(self, "infectivity_")
        at = np.asarray(times, dtype=float)
        if at.ndim > 1 or not np.all(np.isfinite(at)):
            raise InputError("times", f"shape {at.shape}", "a number or a list of numbers")
        pulls = process.excitation(self._events, self._kernel, np.atleast_1d(at))
        rates: Matrix = self.baseline_ + pulls.T @ self.infectivity_.T
        return rates[0] if at.ndim == 0 else rates

    def score(
        self, X: Any, y: Any = None, *, period: tuple[float, float] | None = None
    ) -> float:
        """Log-likelihood per event, in the units of time of the data.

        Parameters
        ----------
        X : array or frame, as in `fit`
            Events of a later period, or of another record.
        y : ignored
        period : (float, float), optional
            The period that X covers: by default from the end of the training period, or from
            the first event if that is earlier, to the last event. If the period begins at the
            end of training or later, the training events are its past; otherwise it has no
            past.
        """
        check_is_fitted(self, "infectivity_")
        data = validate_data(self, X, dtype=None, reset=False)
        before = self._events
        later = float(np.asarray(data[:, 0], dtype=float).min()) >= before.stop
        start = before.stop if later else None
        events, _ = process.record(data, self.nodes_, period, start=start)
        together = before.then(events) if events.start >= before.stop else events
        pulls = process.excitation(together, self._kernel, events.times)
        due = process.exposure(together, self._kernel, events.start, events.stop)
        rates = self.baseline_[events.nodes]
        rates = rates + np.einsum("vn,nv->n", pulls, self.infectivity_[events.nodes])
        expected = self.baseline_.sum() * events.length + float((self.infectivity_ @ due).sum())
        return float((np.log(rates).sum() - expected) / len(events.times))

    def simulate(self, horizon: float, random_state: Any = None) -> np.ndarray[Any, Any]:
        """A record over [0, horizon] that begins with an empty past: columns as in `fit`."""
        check_is_fitted(self, "infectivity_")
        horizon = arguments.positive("horizon", horizon)
        rng = self.random_state if random_state is None else random_state
        if not isinstance(rng, np.random.Generator):
            rng = np.random.default_rng(check_random_state(rng).randint(2**31 - 1))
        drawn = process.simulate(self.baseline_, self.infectivity_, self._kernel, horizon, rng)
        if self.n_features_in_ == 1:
            return drawn.times[:, None]
        labels = self.nodes_[drawn.nodes].reshape(len(drawn.times), -1)
        kind = object if labels.dtype.kind not in "biuf" else float
        return np.column_stack([drawn.times.astype(kind), labels.astype(kind)])
