"""Who excites whom: low-rank and sparse infectivity from event times and node labels."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import validate_data

from weakprox.arguments import flag, nonnegative, positive
from weakprox.errors import InputError
from weakprox.estimators._base import Certified
from weakprox.estimators._hawkes_choice import (
    FEW,
    LAMS,
    SHARES,
    Record,
    choose,
    first_factors,
    unscaled,
)
from weakprox.estimators._hawkes_contrast import Contrast, Reduced, contrasts
from weakprox.estimators._hawkes_events import Events, excitation
from weakprox.estimators._hawkes_likelihood import POLISH, Pilot, pilot
from weakprox.estimators._hawkes_process import ProcessMixin
from weakprox.estimators._hawkes_records import decays_of, record
from weakprox.linalg import decompositions
from weakprox.penalties import SignedL1
from weakprox.problem import Problem
from weakprox.result import Result
from weakprox.spectral import NuclearBall

LEAST = 10  # events per fold needed for a choice
SCARCE = 5  # events per node needed for it, on average
LOOSE = 20.0  # how much less accurate solutions may be that only choices rest on
FLOOR = 1e-6  # smallest radius, and smallest value that counts


class HawkesInfectivity(ProcessMixin, Certified):
    """Low-rank, sparse, non-negative infectivity of a multivariate Hawkes process.

    Events of node v raise the rate of events of node u for a while:

        rate of u at t = baseline_u + sum over past events j of A[u, node_j] g(t - t_j),

    g a mixture of exponentials with integral 1, so that A[u, v] is the expected number of
    events of u that one event of v triggers directly.

    `fit` goes in three steps. (1) A pilot, in which every node reacts to its own past and
    to everyone's alike, is fitted by EM; it gives the mixture g and weights for what
    follows. (2) The infectivity minimises the least-squares contrast, weighted by the
    pilot's intensity, plus an l1 price and a high price on negative entries, within a
    nuclear norm ball: a certified problem (`result_`). It is stated in
    X = A sqrt(N_v / N_u), N the numbers of events, which makes the noise of all entries
    alike. (3) Entries below zero by the solver's accuracy are set to zero, and baselines,
    the diagonal and one factor per row are refined by EM steps on the likelihood; they
    keep the rank and the zeros of X.

    Parameters
    ----------
    lam : float or "auto"
        Price of an entry, in standard deviations of the contrast's gradient.
    tau : float, None or "auto"
        Bound on the nuclear norm of X; None for no bound.
    decays : float, sequence of float or "auto"
        Rates w of the exponentials w exp(-w t) that g mixes, per unit of time. "auto"
        takes up to six in geometric progression, from ten over the length of the period
        to one over the 5 % quantile of the gaps between events; those with a share
        below 0.001 are dropped.
    self_excitation : bool
        Whether how much nodes excite themselves stays free of penalties. A is then a
        diagonal plus the low-rank and sparse matrix, of which `rank_` is the rank.
    folds : int
        Pieces of time for the automatic choice of `lam` and `tau`: every piece is left out
        in turn, and the pair with the largest likelihood on the pieces left out, given
        all that happened before, is taken. With fewer than 10 events a piece or 5 a node,
        lam = 2 and tau = a quarter of the nuclear norm without a bound.
    tol : float
        Accuracy of the certified problem, relative to how far its value can fall.
    max_seconds : float, optional
        Limit for one solution.
    random_state : int, RandomState or None
        Seed of the solver, and of `simulate` unless it is given another.
    verbose : bool
        Show progress of the last solution.

    Attributes
    ----------
    infectivity_ : array of shape (nodes, nodes)
        A; row u, column v: how much v excites u.
    baseline_ : array of shape (nodes,)
        Events per unit of time that nothing triggered.
    decay_, mixture_ : arrays
        Rates of the exponentials and their shares of g.
    spectral_radius_ : float
        Largest eigenvalue of A in size; the process is stable below 1.
    rank_ : int
        Rank of X.
    nodes_ : array
        Labels of the nodes, in the order of rows and columns.
    lam_, tau_ : float
        What was used; `tau_` is infinite where there is no bound.
    cv_results_ : dict
        Tried `lam` and `tau`, `log_likelihood` per event left out, and the pieces' shares
        of it as `folds`; empty without a choice.
    log_likelihood_ : float
        Per event, on the training period.
    period_ : (float, float)
        The training period.
    result_ : Result
        The certified solution X.
    n_features_in_, feature_names_in_
        As in scikit-learn.

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

    def __init__(
        self,
        lam: float | Literal["auto"] = "auto",
        tau: float | Literal["auto"] | None = "auto",
        *,
        decays: Any = "auto",
        self_excitation: bool = True,
        folds: int = 5,
        tol: float = 1e-4,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.tau = tau
        self.decays = decays
        self.self_excitation = self_excitation
        self.folds = folds
        self.tol = tol
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, period: tuple[float, float] | None = None) -> Self:
        """Learn from a record of events.

        Parameters
        ----------
        X : array or frame of shape (events, 1 + label columns)
            The first column is the time. The others say which node the event belongs to:
            a label (a number or, in a frame, a string), or several that make up one. With
            no other column, all events belong to one node. Rows may come in any order.
        y : ignored
        period : (float, float), optional
            When the observation began and ended; first and last event if not given.
        """
        self._check()
        data = validate_data(self, X, dtype=None, ensure_min_samples=2)
        events, self.nodes_ = record(data, None, period)
        first = self._pilot(events)
        edges = np.quantile(events.times, np.linspace(0.0, 1.0, self._folds(events) + 1))
        edges[0], edges[-1] = events.start, events.stop
        parts = contrasts(events, first, edges)
        whole = reduce(add, parts)
        pulls = excitation(events, first.kernel, events.times)
        kept = Record(events, first.kernel, pulls, edges)
        self._events, self._kernel = events, first.kernel
        reduced = Reduced.of(whole, self.self_excitation)
        self.lam_, self.tau_ = self._choose(kept, reduced, parts, whole, first)
        self.result_ = self._solution(reduced, self.lam_, self.tau_, progress=self.verbose)
        self._finish(kept, first)
        return self

    def _choose(
        self,
        kept: Record,
        reduced: Reduced,
        parts: list[Contrast],
        whole: Contrast,
        first: Pilot,
    ) -> tuple[float, float]:
        """Both as given, or by the pieces of time left out."""
        self.cv_results_: dict[str, Any] = {}
        few = len(parts) == 1
        lams = ([FEW[0]] if few else list(LAMS)) if _is_auto(self.lam) else [float(self.lam)]
        grid = []
        for lam in lams:
            taus = [np.inf if self.tau is None else self.tau]
            if _is_auto(self.tau):
                free = self._solution(reduced, lam, np.inf, loose=True).low_rank.nuclear_norm
                shares = [FEW[1]] if few else SHARES
                taus = [max(share * free, FLOOR) for share in shares]
            grid.append((lam, [float(tau) for tau in taus]))
        if len(grid) == 1 and len(grid[0][1]) == 1:
            return grid[0][0], grid[0][1][0]

        def solve(reduced: Reduced, lam: float, tau: float, start: Any) -> Result:
            return self._solution(reduced, lam, tau, loose=True, start=start)

        self.cv_results_ = choose(kept, parts, whole, first, self.self_excitation, grid, solve)
        best = int(np.argmax(self.cv_results_["log_likelihood"]))
        return float(self.cv_results_["lam"][best]), float(self.cv_results_["tau"][best])

    def _finish(self, kept: Record, first: Pilot) -> None:
        """Refine what has one number per node, and set what was learnt."""
        A = unscaled(np.asarray(self.result_.X), kept.events)
        sources = kept.whole(A)
        factors = sources.improved(first_factors(first, self.self_excitation), POLISH)
        self.baseline_ = factors[0]
        self.infectivity_ = factors[2][:, None] * A + np.diag(factors[1])
        self.decay_, self.mixture_ = first.kernel.decays, first.kernel.shares
        self.spectral_radius_ = float(np.abs(decompositions.eigvals(self.infectivity_)).max())
        self.rank_ = self.result_.rank
        self.log_likelihood_ = sources.log_likelihood(factors) / len(kept.events.times)
        self.period_ = (kept.events.start, kept.events.stop)

    def _check(self) -> None:
        """Raise on settings that cannot work, before any work."""
        if not _is_auto(self.lam):
            nonnegative("lam", self.lam)
        if self.tau is not None and not _is_auto(self.tau):
            positive("tau", self.tau)
        flag("self_excitation", self.self_excitation)
        whole = isinstance(self.folds, (int, np.integer)) and not isinstance(self.folds, bool)
        if not whole or self.folds < 2:
            raise InputError("folds", repr(self.folds), "an integer >= 2")
        positive("tol", self.tol)

    def _folds(self, events: Events) -> int:
        """Pieces of time; one where nothing is to be chosen or there is too little."""
        chosen = not (_is_auto(self.lam) or _is_auto(self.tau))
        few = len(events.times) < max(LEAST * self.folds, SCARCE * events.count)
        return 1 if chosen or few or events.count == 1 else int(self.folds)

    def _pilot(self, events: Events) -> Pilot:
        """The pilot, with the decays that count."""
        decays = decays_of(self.decays, events)
        first = pilot(events, decays)
        used = first.kernel.shares >= 1e-3
        if not _is_auto(self.decays) or used.all() or not used.any():
            return first
        return pilot(events, decays[used])

    def _solution(
        self, reduced: Reduced, lam: float, tau: float, *, loose: bool = False, **settings: Any
    ) -> Result:
        """Of the certified problem at a price in units of noise, and a radius."""
        accuracy = self.tol * (LOOSE if loose else 1.0)
        price = lam * reduced.noise(len(self._events.times))
        below = max(float(np.abs(reduced.slopes).max()), price, FLOOR)
        penalty = SignedL1(price, below, reduced.ridge)
        ball = NuclearBall(max(tau, FLOOR) if np.isfinite(tau) else reduced.reach)
        settings = {"progress": False, **settings, "tol": None}
        eps = accuracy * max(reduced.size, FLOOR**2)
        return self._solve(Problem(reduced.loss(), penalty, ball), eps=eps, **settings)


def _is_auto(setting: Any) -> bool:
    return isinstance(setting, str) and setting == "auto"
