"""Effects of a treatment in a panel, by completion of the untreated outcomes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from weakprox._minimize import minimize
from weakprox.arguments import accuracy, integer, number, one_of, or_auto, positive
from weakprox.display import counted
from weakprox.errors import InputError
from weakprox.estimators._base import Certified, drawn_seed
from weakprox.estimators._entries import Vector
from weakprox.estimators._panel_data import PanelData, WideData, read_panel
from weakprox.estimators._persistence import (
    GROUPS,
    UNITS,
    chosen_share,
    last_residuals,
    placebos,
)
from weakprox.linalg.decompositions import svd
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Completion
from weakprox.losses.observed import Effects
from weakprox.problem import Problem
from weakprox.selection._observed_path import (
    MANY,
    ROUGH,
    automatic_cv,
    folds_or_share,
    observed_path,
    path_point,
)
from weakprox.selection.search import stream
from weakprox.spectral import NuclearNorm

INTERCEPTS: Any = {"both": "both", "unit": "rows", "time": "columns", "none": "none"}
FEWEST = 20  # with fewer observations nothing can be held out
REPLICATES, PLACEBOS = 0x9A7E, 0x9A7F  # names of random streams


class Averages(NamedTuple):
    """Mean effects: of all treated cells, by period, and by period since adoption."""

    att: float
    by_period: Vector
    by_event_time: Vector


class Paths(NamedTuple):
    """Mean outcomes of the treated units by period, and the index of the first adoption."""

    observed: Vector
    counterfactual: Vector
    adoption: int


@dataclass(frozen=True)
class PanelInterval:
    """Normal confidence intervals of mean effects, from `MatrixCompletionPanel.interval`.

    Attributes
    ----------
    method : str
        "placebo" or "jackknife".
    level : float
        Level of confidence.
    standard_error, low, high : float
        Of the mean effect on the treated.
    p_value : float
        For placebos, the share with an effect at least as large, counting the fit itself; NaN
        for the jackknife.
    by_period, by_event_time : arrays of shape (2, k)
        Lower and upper ends for `att_by_period_` and `att_by_event_time_`.
    estimates : array of shape (replicates,)
        Mean effects of the replicates.
    """

    method: str
    level: float
    standard_error: float
    low: float
    high: float
    p_value: float
    by_period: Vector
    by_event_time: Vector
    estimates: Vector

    def __str__(self) -> str:
        count = len(self.estimates)
        head = f"{100 * self.level:g} % interval {self.low:.4g} to {self.high:.4g}"
        p_value = "" if np.isnan(self.p_value) else f", p = {self.p_value:.2g}"
        error = f"standard error {self.standard_error:.3g}{p_value}"
        return f"{head} ({self.method}, {counted(count, 'replicate')}, {error})"


@dataclass(eq=False, repr=False)
class MatrixCompletionPanel(Certified):
    r"""Effects of a treatment on units over time, by matrix completion.

    The outcome of unit i in period j without treatment is modelled by a low-rank matrix L
    and effects of units and periods, learnt from the untreated cells:

    .. math::
        \min_{L, \mu, a, b} \tfrac12 \sum_{(i,j)\ \text{untreated}}
        (y_{ij} - L_{ij} - \mu - a_i - b_j)^2 + \lambda \|L\|_* .

    The effect on a treated cell is its outcome minus that of the model. This is the estimator
    of Athey, Bayati, Doudchenko, Imbens and Khosravi (2021). With L = 0 it is a regression on
    unit and time effects (difference in differences).

    Outcomes of one unit are often above or below the model for several periods. After
    adoption, a share of the unit's last residual before it may therefore be added to the model,
    see `persistence`. With L = 0 and a share of 1,
    changes since the last period before adoption are compared.

    Parameters
    ----------
    lam : float or "auto"
        Weight of the nuclear norm. "auto" holds out untreated cells and chooses the weight that
        predicts them best, along a path that starts at L = 0. In packages that divide the
        squared errors by the number n of untreated cells, the same weight is 2 lam / n.
    effects : {"both", "unit", "time", "none"}
        The effects that are added, without a penalty.
    persistence : float or "auto"
        The share, from 0 to 1, of a unit's last residual before adoption that is added to the
        model after it. By default it is 0, as in the estimator of Athey et al. "auto" treats
        five groups of never-treated units in the periods of treated ones, and chooses the share
        and lam that predict their outcomes best, if they gain more than a standard error over a
        share of 0 with the lam of held-out cells. It is 0 if lam is given, with fewer than ten
        never-treated units, or from 20,000 untreated outcomes on.
    {cv, one_standard_error}
    {tol, max_seconds, random_state, verbose}

    Attributes
    ----------
    att_ : float
        Mean effect on the treated: over all treated cells with an outcome.
    att_by_period_ : array of shape (periods,)
        The same for each period, NaN where no cell is treated.
    event_times_, att_by_event_time_ : arrays of shape (k,)
        Periods since adoption (0 for the first treated period of a unit), and the mean
        effects. Before adoption these are mean residuals of the fit.
    units_, times_ : arrays
        Labels of units and periods.
    low_rank_ : LowRank
        L.
    rank_ : int
        Its rank.
    intercept_ : float
        The mean :math:`\mu`.
    unit_effects_, time_effects_ : arrays
        a and b, with mean zero.
    lam_, persistence_ : float
        The weight and the share used.
    {cv_results_}
        Scores are minus mean squared errors of held-out cells. L = 0 at the first candidate.
    result_ : Result
        The solution of the problem above, with its certificate.
    certificate_ : Certificate
        How far from the optimum the solution can be.

    Notes
    -----
    Cells may be treated at different times (staggered adoption). Missing outcomes are NaN.
    A treated unit without any untreated outcome, or a period without any, has no comparison:
    its cells are left out of all means, with a warning. The certificate is that of the problem
    above, to which `persistence` adds nothing.

    See Also
    --------
    MatrixCompletion : Completion with ridge, scaling and other losses, for predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import MatrixCompletionPanel
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.standard_normal((30, 1)) @ rng.standard_normal((1, 20))
    >>> Y += 0.1 * rng.standard_normal(Y.shape)
    >>> treated = np.zeros(Y.shape, dtype=bool)
    >>> treated[:5, 15:] = True
    >>> model = MatrixCompletionPanel(random_state=0).fit(Y + 2 * treated, treated)
    >>> bool(abs(model.att_ - 2) < 0.2)
    True
    """

    lam: float | Literal["auto"] = "auto"
    _: KW_ONLY
    effects: Literal["both", "unit", "time", "none"] = "both"
    persistence: float | Literal["auto"] = 0.0
    cv: int | float | Literal["auto"] = "auto"
    one_standard_error: bool | Literal["auto"] = "auto"
    tol: float = 1e-6
    _accepts = ("allow_nan",)
    _reads_masks = True

    def fit(
        self,
        Y: Any,
        treated: Any = None,
        *,
        unit: Any = None,
        time: Any = None,
        outcome: Any = None,
        treatment: Any = None,
    ) -> MatrixCompletionPanel:
        """Learn the untreated outcomes, and estimate effects.

        Parameters
        ----------
        Y : array or frame of shape (units, periods), or long table
            Outcomes, with periods in order and NaN for missing ones; or a table (pandas,
            polars or a dict of arrays) with one row for each unit and period.
        treated : array or frame of shape (units, periods)
            Treated cells: booleans, or 0 and 1.
        unit, time, outcome, treatment : optional
            Names of the columns of a long table.
        """
        lam = or_auto("lam", self.lam, positive)
        intercepts = INTERCEPTS[one_of("effects", self.effects, tuple(INTERCEPTS))]
        simplest = self._one_standard_error(automatic=False)
        cv = or_auto("cv", self.cv, folds_or_share)
        accuracy("tol", self.tol)
        share = or_auto("persistence", self.persistence, proportion)
        data = read_panel(Y, treated, (unit, time, outcome, treatment))
        known = _comparable(data)
        loss = data.loss(intercepts)
        data = replace(data, free=loss.observed().values)  # one copy for both
        self.cv_results_, start = {}, None
        if lam is None:
            if loss.n_terms < FEWEST:
                given = f"{loss.n_terms} untreated outcomes, with lam='auto'"
                raise InputError("Y", given, f"{FEWEST} at least, or a number for lam")
            path = observed_path(
                loss,
                cv=cv or automatic_cv(loss.n_terms),
                one_standard_error=simplest,
                seed=self._seed,
                max_seconds=self._search_end.left,
                progress=bool(self.verbose),
            )
            lam, start, self.cv_results_ = path.lam, path.start, path.cv_results
            if share is None:
                lam, share = self._persistent(data, loss, known[0], lam)
        self.lam_, self.persistence_ = lam, share or 0.0
        self.result_ = self._solve(Problem(loss, None, NuclearNorm(lam)), start=start)
        self._keep(data, loss, known)
        return self

    def _persistent(
        self, data: PanelData | WideData, loss: Completion, units: Vector, lam: float
    ) -> tuple[float, float]:
        """The weight and the share of residuals that predict placebo treatments best."""
        first, free = data.adoption(), ~data.treated
        never = np.flatnonzero((first == data.shape[1]) & units)
        if len(never) < UNITS or len(data.free) >= MANY or self._search_end.passed:
            return lam, 0.0
        periods = data.treatments
        others = np.flatnonzero(first < data.shape[1])
        treated = [periods.columns[periods.of_row(unit)] for unit in others.tolist()]
        cells = data.rows[free], data.columns[free], data.free
        parts = placebos(loss, cells, never, treated, stream(self._seed, PLACEBOS))
        if len(parts) < GROUPS:  # no outcomes to compare
            return lam, 0.0
        settings: Any = {"rank": None, "seed": self._seed, "deadline": self._search_end}
        solve = partial(path_point, tol=ROUGH, **settings)
        return chosen_share(parts, solve, self._search, lam, self._seed)

    def _keep(
        self, data: PanelData | WideData, loss: Completion, known: tuple[Vector, Vector]
    ) -> None:
        """Store the parts of the model, and the effects."""
        self._data, self._loss = data, loss
        self.units_, self.times_ = data.units, data.times
        self.low_rank_ = self.result_.low_rank
        self.rank_ = self.low_rank_.rank
        self._effects = loss.effects(self.low_rank_)
        self.intercept_ = self._effects.mean
        self.unit_effects_ = self._effects.rows
        self.time_effects_ = self._effects.columns
        first, tally = data.adoption(), Tally(data.shape[1])
        until = np.where(first < data.shape[1], first, 0)
        whole = all(bool(part.all()) for part in known)
        self._cells = np.empty(len(data.free) + len(data.affected), dtype=bool)
        self._lasting, self._first = np.zeros(data.shape[0]), first
        for part, rows, columns, treated, values in data.blocks():
            # cells that are untreated again after adoption belong to neither group
            used = treated | (columns < until[rows])
            if not whole:
                used &= known[0][rows] & known[1][columns]
            self._cells[part] = used
            at = np.flatnonzero(used)
            cells = rows[at], columns[at]
            off = values[at] - self._predicted(self.low_rank_, self._effects, *cells)
            since = cells[1] - first[cells[0]]
            early = since < 0
            lasting = last_residuals(off[early], cells[0][early], data.shape[0])
            self._lasting += self.persistence_ * lasting
            tally.add(off - np.where(early, 0.0, self._lasting[cells[0]]), cells[1], since)
        self.event_times_ = tally.event_times()
        found = tally.averages(self.event_times_)
        self.att_, self.att_by_period_, self.att_by_event_time_ = found

    def _predicted(self, L: LowRank, effects: Effects, rows: Vector, columns: Vector) -> Vector:
        """Untreated outcomes of the model at these cells."""
        return np.asarray(self._loss.observed().predicted(L, effects, rows, columns))

    def _without(self, rows: Vector, columns: Vector) -> Vector:
        """Untreated outcomes, with residuals that last after adoption."""
        model = self._predicted(self.low_rank_, self._effects, rows, columns)
        after = columns >= self._first[rows]
        return np.asarray(model + np.where(after, self._lasting[rows], 0.0))

    @property
    def counterfactual_(self) -> Any:
        """Outcomes without treatment by the model, of shape (units, periods).

        NaN for units and periods without untreated outcomes; a frame if the data were one.
        """
        check_is_fitted(self)
        found = self.low_rank_.dense() + self.intercept_
        found += self.unit_effects_[:, None] + self.time_effects_
        after = np.arange(found.shape[1]) >= self._first[:, None]
        found += np.where(after, self._lasting[:, None], 0.0)
        units, times = self._data.comparable()
        found[~units], found[:, ~times] = np.nan, np.nan
        return self._framed(found)

    @property
    def effects_(self) -> Any:
        """Effects on treated cells, of shape (units, periods), NaN elsewhere."""
        check_is_fitted(self)
        data = self._data
        found = np.full(data.shape, np.nan)
        at = self._cells & data.treated
        cells = data.rows[at], data.columns[at]
        found[cells] = data.values[at] - self._without(*cells)
        return self._framed(found)

    def mean_paths(self) -> Paths:
        """Return mean outcomes of the treated units by period, as observed and by the model.

        Returns
        -------
        Paths
            `observed` and `counterfactual`, of shape (periods,), over the same cells, and
            the index `adoption` of the first treated period.
        """
        check_is_fitted(self)
        data = self._data
        at = self._cells
        cells = data.rows[at], data.columns[at]
        model = self._without(*cells)
        both = (data.values[at], model)
        observed, without = (_means(values, cells[1], data.shape[1]) for values in both)
        return Paths(observed, without, int(data.adoption().min()))

    def _framed(self, found: Vector) -> Any:
        """The array as a frame, if the data were one."""
        if not self._data.framed:
            return found
        from pandas import DataFrame

        return DataFrame(found, index=self.units_, columns=self.times_)

    def interval(
        self,
        method: Literal["auto", "placebo", "jackknife"] = "auto",
        *,
        level: float = 0.95,
        replicates: int = 100,
    ) -> PanelInterval:
        """Return confidence intervals, by fits to other choices of units.

        Parameters
        ----------
        method : {"auto", "placebo", "jackknife"}
            "placebo" fits the never-treated units, some of which are assigned the treatment
            times of the treated ones; the spread of these effects is the standard error. It
            needs more never-treated units than treated ones. "jackknife" leaves out one unit,
            or one group of units, at a time. It needs two treated units. "auto" uses the
            jackknife if there are at least ten treated units.
        level : float
            Level of confidence, between 0 and 1.
        replicates : int
            Largest number of fits.

        Returns
        -------
        PanelInterval

        Notes
        -----
        All fits have the weight `lam_` and start from the solution. Intervals are normal:
        the mean effect plus and minus a multiple of the standard error.
        """
        check_is_fitted(self)
        one_of("method", method, ("auto", "placebo", "jackknife"))
        level = number("level", level, "a number between 0 and 1")
        if not 0.0 < level < 1.0:
            raise InputError("level", repr(level), "a number between 0 and 1")
        replicates = integer("replicates", replicates, 2)
        treated = np.unique(self._data.rows[self._cells & self._data.treated])
        if method == "auto":
            method = "placebo" if len(treated) < 10 else "jackknife"
        rng = stream(drawn_seed(self.random_state), REPLICATES)
        other = self._placebos if method == "placebo" else self._jackknife
        # units may lack the outcomes that an effect needs
        found = [one for one in other(treated, replicates, rng) if not np.isnan(one.att)]
        count = len(found)
        if count < 2:
            given = f"{method!r}, {counted(count, 'replicate')} with an effect"
            raise InputError("method", given, "at least two: outcomes are missing")
        scale = 1.0 if method == "placebo" else (count - 1.0) / np.sqrt(count)
        att, by_period, by_event = (np.array(part) for part in zip(*found, strict=True))
        width = scale * NormalDist().inv_cdf(0.5 + 0.5 * level)
        error = scale * float(att.std(ddof=1))
        p_value = np.nan
        if method == "placebo":
            larger = int((np.abs(att) >= abs(self.att_)).sum())
            p_value = (1 + larger) / (1 + len(att))
        half = width / scale * error
        return PanelInterval(
            method=method,
            level=level,
            standard_error=error,
            low=self.att_ - half,
            high=self.att_ + half,
            p_value=p_value,
            by_period=_band(self.att_by_period_, width, by_period),
            by_event_time=_band(self.att_by_event_time_, width, by_event),
            estimates=att,
        )

    def _placebos(
        self, treated: Vector, replicates: int, rng: np.random.Generator
    ) -> Iterator[Averages]:
        """Mean effects of placebo treatments on never-treated units."""
        data = self._data
        first = data.adoption()
        never = np.flatnonzero((first == data.shape[1]) & data.comparable()[0])
        count = len(treated)
        if len(never) <= count + 1:
            given = f"'placebo', {count} treated units and {len(never)} never-treated ones"
            raise InputError("method", given, "at least two more never-treated units")
        if count == 1:
            drawn = [never[[i]] for i in rng.permutation(len(never))[:replicates]]
        else:
            drawn = [rng.permutation(never)[:count] for _ in range(replicates)]
        outside, places, treatments = ~np.isin(data.rows, never), data.places, data.treatments
        for chosen in drawn:
            hidden, starts = np.zeros_like(outside), np.full(data.shape[0], data.shape[1])
            for unit, like in zip(chosen, treated, strict=True):
                own = places.of_row(unit)
                periods = treatments.columns[treatments.of_row(like)]
                hidden[own] = np.isin(places.columns[own], periods)
                starts[unit] = first[like]
            yield self._refitted(outside | hidden, hidden, starts)

    def _jackknife(
        self, treated: Vector, replicates: int, rng: np.random.Generator
    ) -> Iterator[Averages]:
        """Mean effects without one group of units."""
        data, count, rows = self._data, len(treated), self._data.rows
        if count < 2:
            raise InputError("method", "'jackknife', with one treated unit", "'placebo'")
        # treated units come first, so that groups have about equally many of them
        others = np.setdiff1d(np.arange(data.shape[0]), treated)
        units = np.concatenate([rng.permutation(treated), rng.permutation(others)])
        groups = min(replicates, len(units))
        starts = data.adoption()
        for k in range(groups):
            gone = np.isin(rows, units[k::groups])
            yield self._refitted(gone, data.treated & ~gone, starts)

    def _refitted(self, gone: Vector, treated: Vector, starts: Vector) -> Averages:
        """Mean effects of a fit without some cells and with other treated cells."""
        data, places = self._data, self._data.places
        rows, columns, free = places.rows(), places.columns, ~self._data.treated
        loss = self._loss.part(~gone[free])
        kept = np.bincount(rows[free & ~gone], minlength=data.shape[0]) > 0
        problem = Problem(loss, None, NuclearNorm(self.lam_))
        start = _restricted(self.low_rank_, kept)
        L = minimize(problem, tol=self.tol, start=start, progress=False).low_rank
        since = columns - starts[rows]
        before = free & ~gone & (since < 0) & (starts < data.shape[1])[rows]
        times = np.bincount(columns[free & ~gone], minlength=data.shape[1]) > 0
        known = kept[rows] & times[columns]
        used = (treated & (since >= 0) | before) & known
        rows, columns, since = rows[used], columns[used], since[used]
        off = data.values[used] - self._predicted(L, loss.effects(L), rows, columns)
        early = since < 0
        lasting = last_residuals(off[early], rows[early], data.shape[0])
        off -= self.persistence_ * np.where(early, 0.0, lasting[rows])
        some, tally = np.isin(since, self.event_times_), Tally(data.shape[1])
        tally.add(off[some], columns[some], since[some])
        return tally.averages(self.event_times_)

    def summary(self) -> str:
        """Return the main figures as text, with the certificate of the fit."""
        check_is_fitted(self)
        data = self._data
        at = self._cells & data.treated
        periods = self.times_[np.unique(data.columns[at])]
        chosen = "chosen by held-out cells" if self.cv_results_ else "given"
        count = len(np.unique(data.rows[at]))
        lines = [
            f"Mean effect on the treated: {self.att_:.5g}",
            f"Treated: {counted(int(at.sum()), 'cell')} of {counted(count, 'unit')}, "
            f"periods {periods[0]} to {periods[-1]}",
            f"Untreated: {counted(self._loss.n_terms, 'cell')} of {data.shape[0]} units "
            f"in {counted(data.shape[1], 'period')}",
            f"Model: rank {self.rank_}, effects: {self.effects}, "
            f"lam = {self.lam_:.4g}, {chosen}, persistence {self.persistence_:.2g}",
            f"Certificate: {self.certificate_}",
        ]
        return "\n".join(lines)


class Tally:
    """Sums of effects on cells of treated units, including those before adoption."""

    def __init__(self, periods: int) -> None:
        self.periods = periods
        self.by_period, self.by_event = np.zeros((2, periods)), np.zeros((2, 2 * periods))

    def add(self, off: Vector, columns: Vector, since: Vector) -> None:
        """Add effects, given their periods and the periods since adoption."""
        after = np.flatnonzero(since >= 0)
        self.by_period += _sums(off[after], columns[after], self.periods)
        self.by_event += _sums(off, since + self.periods, 2 * self.periods)

    def event_times(self) -> Vector:
        """Periods since adoption that some cell has."""
        return np.flatnonzero(self.by_event[1]) - self.periods

    def averages(self, event_times: Vector) -> Averages:
        """Mean effects, NaN where there are no cells."""
        with np.errstate(invalid="ignore"):
            by_period, by_event = (x[0] / x[1] for x in (self.by_period, self.by_event))
            whole, count = self.by_period.sum(axis=1)
        att = float(whole / count) if count else np.nan
        return Averages(att, by_period, by_event[event_times + self.periods])


def proportion(argument: str, value: Any) -> float:
    """A number from 0 to 1."""
    wanted = "a number from 0 to 1"
    share = number(argument, value, wanted)
    if not 0.0 <= share <= 1.0:
        raise InputError(argument, repr(value), wanted)
    return share


def _comparable(data: PanelData | WideData) -> tuple[Vector, Vector]:
    """The units and periods that have untreated outcomes."""
    units, times = data.comparable()
    if units.all() and times.all() and len(data.affected):
        return units, times
    known = units[data.rows] & times[data.columns]
    lost = int((data.treated & ~known).sum())
    if lost == int(data.treated.sum()):
        given = "no treated outcome with untreated ones of its unit and of its period"
        raise InputError("treated", given, "one at least")
    if lost:
        text = (
            f"{lost} treated cells have no effect: no untreated outcome of their unit "
            "or their period is known. They are left out."
        )
        warnings.warn(text, UserWarning, stacklevel=5)
    return units, times


def _means(values: Vector, place: Vector, count: int) -> Vector:
    """Means of the values at each place, NaN where there are none."""
    found, number = _sums(values, place, count)
    with np.errstate(invalid="ignore"):
        return np.asarray(found / number)


def _sums(values: Vector, place: Vector, count: int) -> Vector:
    """Sums of the values at each place, and their numbers."""
    sums = np.bincount(place, weights=values, minlength=count)
    return np.stack([sums, np.bincount(place, minlength=count)])


def _band(centre: Vector, width: float, replicates: Vector) -> Vector:
    """Lower and upper ends; NaN where a replicate has no effect."""
    half = width * replicates.std(axis=0, ddof=1)
    return np.stack([centre - half, centre + half])


def _restricted(L: LowRank, kept: Vector) -> LowRank:
    """L with zeros in the rows that are not kept."""
    left, core = np.linalg.qr((L.U * L.s) * kept[:, None])
    U, s, Vt = svd(core)
    return LowRank(left @ U, s, Vt @ L.Vt)
