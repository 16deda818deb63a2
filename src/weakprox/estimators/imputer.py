"""Missing entries filled in by a low-rank and sparse matrix, or by simpler models."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox.arguments import (
    flag,
    is_auto,
    nonnegative,
    one_of,
    optional_counts,
    or_auto,
    positive,
)
from weakprox.errors import InputError
from weakprox.estimators._base import Certified, cut, times_hidden
from weakprox.estimators._gaussian_columns import Filled, GaussianColumns, some_rows
from weakprox.estimators._nearest_rows import NearestRows
from weakprox.estimators._row_space import RowSpace
from weakprox.linalg import decompositions
from weakprox.linalg.gram_svd import squared
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import one_thread
from weakprox.losses import Completion
from weakprox.penalties import ElasticNet
from weakprox.problem import Problem
from weakprox.protocols import spectral_capabilities
from weakprox.result import Result
from weakprox.selection._observed_path import path_point
from weakprox.selection.search import Deadline, Search, least, limit, stream
from weakprox.solvers import DavisYin
from weakprox.spectral import NuclearBall, NuclearNorm

Vector = np.ndarray[Any, np.dtype[Any]]
Scaling = Literal["none", "center", "standard"]
SCALINGS: tuple[Scaling, ...] = ("none", "center", "standard")
HIDDEN = 0.1  # share of the observed entries that is hidden at a time
# approximate total of hidden entries, and largest number of times that some are hidden
ENOUGH, ROUNDS = 2000, 4
MEMBERS = 4  # with fewer entries left in a column, its standard deviation is unknown
FEWEST = 20  # with fewer observed entries nothing is hidden
WIDEST = 1000  # largest number of columns for which their covariance is learnt
SHRINKAGES = (0.5, 0.25, 0.12, 0.06, 0.03, 0.015, 0.007, 0.003, 0.001)  # of correlations
FOLDS = 5  # folds of the hidden entries that judge the weights of models
FEW = 40  # with fewer hidden entries, all models have the same weight
MODELS = ("low-rank", "conditional", "neighbours")  # parts that the answer may have
HALVINGS = 12  # halvings of the nuclear weight, from the one at which X is zero
PATIENCE = 2  # halvings without a gain after which the search ends
SHARES = (1 / 16, 1 / 4, 1.0)  # shares of the largest lam, tried as long as they help
RIDGE = 3e-4  # ridge if lam is positive
GAIN = 1e-3  # relative decrease of the error that a candidate must bring
ROUGH = 1e-2  # relative accuracy of the fits of the search
STEADY = 1e-2  # relative accuracy without lam, where nothing is proved
FULL = 4000  # size up to which all singular values are computed: fewer and more reliable steps
# time reserved for scaling, evaluating and filling, relative to that of hiding entries
FINISH = 2
AFTER = 4  # times that guesses by columns take which their use needs after the search
KEPT = 1 << 20  # largest number of entries of a table that is kept, filled, for a report
LEAST = 1e-3  # least bound, relative to the largest singular value
FLOOR = 1e-9  # least multiplier of the bound, relative to the largest value of the answer


class Candidate(NamedTuple):
    """Settings in units that are valid for a part of the entries and for all of them.

    `nuclear` is the weight of the nuclear norm relative to the largest singular value of
    the data. `share` is lam in units of nuclear / (sqrt m + sqrt d): noise of that size in
    each entry has about the spectral norm `nuclear`. The defaults apply if there is too
    little to learn from. On simulated tables of up to 19 observed entries, this weight lost
    5 % to column means if columns were independent and gained 26 % with one factor; 0.1 lost
    9 % and gained 28 %.
    """

    scaling: Scaling = "standard"
    nuclear: float = 0.35
    share: float = 1 / 16


@dataclass(frozen=True)
class Scale:
    """Columns less `centre`, divided by `unit`."""

    centre: Vector
    unit: Vector

    @classmethod
    def of(cls, X: Vector, scaling: Scaling) -> Scale:
        """Compute the scale of observed entries; empty and constant columns are not scaled."""
        seen = ~np.isnan(X)
        count = np.maximum(seen.sum(axis=0), 1)
        plain = cls(np.zeros(X.shape[1]), np.ones(X.shape[1]))
        if scaling == "none":
            return plain
        mean = np.where(seen, X, 0.0).sum(axis=0) / count
        if scaling == "center":
            return replace(plain, centre=mean)
        off = np.where(seen, X - mean, 0.0)
        unit = np.sqrt((off**2).sum(axis=0) / count)
        flat = unit <= 1e-12 * np.maximum(np.abs(mean), 1e-300)  # constant up to rounding
        return cls(mean, np.where(flat, 1.0, unit))

    def apply(self, X: Vector) -> Vector:
        return np.asarray((X - self.centre) / self.unit)

    def undo(self, Z: Vector) -> Vector:
        return np.asarray(Z * self.unit + self.centre)


class Shrinkage(NamedTuple):
    """Share by which correlations of columns are reduced."""

    shrinkage: float


@dataclass(frozen=True)
class Columns:
    """Standardised columns: conditional means, and means over near rows."""

    scale: Scale
    gaussian: GaussianColumns
    rows: NearestRows | None = None

    def near(self, X: Vector, seed: int) -> tuple[Columns, list[Vector]]:
        """Add near rows from a table; also return both guesses for that table."""
        filled = self.gaussian.complete(self.scale.apply(X))
        rows = NearestRows.of(filled, ~np.isnan(X), stream(seed, 3))
        found = replace(self, rows=rows)
        return found, found._smoothed(filled)

    def guesses(self, X: Vector) -> list[Vector]:
        """Both guesses for all entries of rows, or only the first without near rows."""
        return self._smoothed(self.gaussian.complete(self.scale.apply(X)))

    def _smoothed(self, filled: Vector) -> list[Vector]:
        guesses = [filled] if self.rows is None else [filled, self.rows.smoothed(filled)]
        return [self.scale.undo(each) for each in guesses]


class Scaled:
    """Data on one scale: the loss, and the largest singular value of the observed part."""

    def __init__(self, X: Vector, scaling: Scaling) -> None:
        self.scale = Scale.of(X, scaling)
        self.Z = self.scale.apply(X)
        self.top = largest_value(np.nan_to_num(self.Z))
        self.loss = Completion.from_dense(self.Z)

    def weights(
        self, candidate: Candidate, lam: float | None, tau: float | None
    ) -> tuple[float, NuclearBall | NuclearNorm]:
        """The weight lam and the spectral term of a candidate, or the given ones."""
        weight = candidate.nuclear * self.top or 1.0  # any weight suits zeros
        noise = float(np.sum(np.sqrt(self.Z.shape)))
        lam = candidate.share * weight / noise if lam is None else lam
        return lam, NuclearNorm(weight) if tau is None else NuclearBall(tau)


def largest_value(Z: Vector) -> float:
    """The largest singular value, from the smaller Gram matrix."""
    unit = float(np.abs(Z).max(initial=0.0)) or 1.0  # squares must not overflow
    tall = (Z if Z.shape[0] >= Z.shape[1] else Z.T) / unit
    return unit * math.sqrt(max(0.0, float(decompositions.eigvalsh(squared(tall))[-1])))


def has_spread(X: Vector) -> Vector:
    """The columns with enough entries for a standard deviation, the unit of errors."""
    seen = ~np.isnan(X)
    low = np.where(seen, X, np.inf).min(axis=0)
    high = np.where(seen, X, -np.inf).max(axis=0)
    return np.asarray((high > low) & (seen.sum(axis=0) >= MEMBERS))


class HiddenEntries:
    """Data with some of the observed entries hidden.

    Hidden entries of columns that are left without a standard deviation are not scored, since
    in other units they could outweigh all others.
    """

    def __init__(self, X: Vector, place: tuple[Vector, Vector], seed: int) -> None:
        self.left = X.copy()
        self.left[place] = np.nan
        scored = has_spread(self.left)[place[1]]
        if scored.any():
            place = place[0][scored], place[1][scored]
        self.place = place
        self.truth = X[self.place]
        self.standard = Scale.of(self.left, "standard")
        self.unit = self.standard.unit[self.place[1]]
        self._scaled: dict[Scaling, Scaled] = {}
        self.sample = some_rows(X.shape, stream(seed, 2))  # to learn a covariance from
        self.inside = np.isin(place[0], self.sample)
        self.at = np.searchsorted(self.sample, place[0][self.inside]), place[1][self.inside]
        self.table = self.standard.apply(self.left[self.sample])

    @classmethod
    def several(cls, X: Vector, seed: int, times: int | None = None) -> list[HiddenEntries]:
        """Disjoint random tenths of the observed entries: several of a small table.

        Their number is `times`, if given; they are smaller if there are more than ten.
        """
        rows, cols = np.nonzero(~np.isnan(X))
        order = stream(seed, 1).permutation(rows.size)
        size = round(HIDDEN * rows.size)
        count = min(ROUNDS, -(-ENOUGH // size)) if times is None else min(times, rows.size)
        size = min(size, rows.size // count)
        cuts = [order[k * size : (k + 1) * size] for k in range(count)]
        return [cls(X, (rows[cut], cols[cut]), seed) for cut in cuts]

    def scaled(self, scaling: Scaling) -> Scaled:
        """The data on one scale, computed once."""
        if scaling not in self._scaled:
            self._scaled[scaling] = Scaled(self.left, scaling)
        return self._scaled[scaling]

    def errors(self, data: Scaled, X: Vector) -> tuple[float, float]:
        """Mean squared errors: on the scale of the fit, and in deviations of the columns."""
        own, centre = data.scale.unit[self.place[1]], data.scale.centre[self.place[1]]
        off = X[self.place] * own + centre - self.truth
        return float(np.mean((off / own) ** 2)), float(np.mean((off / self.unit) ** 2))

    def filled_error(self, table: Vector) -> float:
        """Mean squared error of a standardised table of the sampled rows."""
        truth = (self.truth - self.standard.centre[self.place[1]]) / self.unit
        return float(np.mean((table[self.at] - truth[self.inside]) ** 2))

    def away(self, values: Vector) -> Vector:
        """Values of the hidden entries as deviations from the columns' means."""
        found: Vector = (values - self.standard.centre[self.place[1]]) / self.unit
        return found


def multiplier(Z: Vector, X: LowRank, lam: float, ridge: float) -> float:
    """The multiplier of the bound on the nuclear norm, from data with NaN and the answer."""
    dense = X.dense()
    pull = float(np.nansum((Z - dense) * dense))
    pull -= ridge * X.sqnorm + lam * float(np.abs(dense).sum())
    # at least a little, for rows with fewer entries than the rank
    floor = FLOOR * float(X.s.max(initial=0.0)) or 1.0  # any value suits zeros
    return max(pull / max(X.nuclear_norm, np.finfo(float).tiny), floor)


@dataclass(eq=False, repr=False)
class SparseLowRankImputer(OneToOneFeatureMixin, TransformerMixin, Certified):
    r"""Imputation of missing entries by a low-rank and sparse matrix, or by simpler models.

    Solves, over the observed entries of the data on the scale below,

    .. math::
        \min_X \tfrac12 \sum_{(i,j)\ \text{observed}} (x_{ij} - z_{ij})^2
        + \lambda \|X\|_1 + \tfrac{\rho}{2} \|X\|_F^2
        \quad\text{subject to}\quad \|X\|_* \le \tau .

    With automatic settings, two other models predict the same hidden entries: conditional means
    under a covariance of the columns, and means over the nearest rows. The answer is the
    combination of the three that predicts best, see `weights_`.

    Parameters
    ----------
    lam : float or "auto"
        Weight of the l1 norm. "auto" hides a tenth of the observed entries (up to four times if
        the table is small) and chooses the weight that predicts them best.
    tau : float or "auto"
        Bound on the nuclear norm of X. "auto" chooses a weight of the nuclear norm by the same
        hidden entries and uses the norm of its solution.
    ridge : float or "auto"
        :math:`\rho`, positive. It makes the problem strongly convex, which the certificate
        needs if lam is positive. The squared error of an observed entry has the weight 1.
        "auto" is 3e-4, and no ridge if lam is zero: X is then kept in factors, which is
        faster.
    scaling : {"auto", "none", "center", "standard"}
        Preparation of the columns: none, subtract the mean, or also divide by the standard
        deviation. "auto" chooses the one that predicts hidden entries best.
    {rank}
        It limits X, and not the other models.
    blend : bool
        Whether the other models may be used. They are not used if lam or tau is given, or for
        more than 1000 columns.
    missing_values : float
        The value that marks a missing entry, NaN by default.
    {cv, times hidden}
    one_standard_error : bool or "auto"
        Whether to take the largest weights of the low-rank model whose error exceeds the least
        by at most one standard error of their difference. "auto" is False here.
    {tol, max_seconds, random_state, verbose}

    Attributes
    ----------
    lam_, tau_, scaling_
        The values used.
    weights_ : dict
        The weights of "low-rank" (X above), "conditional" and "neighbours" in the answer, which
        is the weighted sum of their deviations from the column means. All are 0 if means
        predict best.
    shrinkage_ : float or None
        Share by which correlations of the columns are reduced; None if no covariance was
        learnt.
    hidden_scores_ : dict
        Minus mean squared errors of hidden entries, in standard deviations of the columns:
        of column means ("mean"), of each model, and of their combination ("blend"), whose
        weights are fitted and scored on different hidden entries. Empty without a search.
    {cv_results_}
        "nuclear" is the weight of the nuclear norm, relative to the largest singular
        value, and "share" is lam relative to that weight. Scores are minus mean
        squared errors in standard deviations of the columns.
    components_ : array of shape (rank, columns)
        Orthonormal basis of the rows of X.
    mean_, scale_ : arrays of shape (columns,)
        Centre and scale of the columns.
    {result_, certificate_}

    Notes
    -----
    `transform` keeps observed entries. It completes each row by the same problem with the
    row space held fixed, so that rows of the training data get the values of the fit, to
    its accuracy. A column without any observed entry is filled with 0.

    The certificate refers to the problem above. It covers the filled entries only if
    ``weights_["low-rank"]`` is 1 and the other weights are 0. Conditional means solve linear
    equations, to a relative residual of 1e-6. Their covariance, found by EM, is not certified.

    The combination is used if it predicts hidden entries better than each model alone;
    otherwise the best model is used. With fewer than 40 hidden entries (tables of up to about a
    hundred), all three have the same weight: their mean is used, times a factor from 0 to 1
    that is smaller the less clearly hidden entries are predicted. With fewer than 20 observed
    entries nothing is hidden, and the low-rank model is strongly shrunk. If columns are
    independent, column means are better on such small tables.

    With `max_seconds`, the other models are left out if there is no time to fill the table by
    them, and `fit_transform` takes the low-rank values of the fit as they are.

    ``result_.report("r.html", data=X)`` shows the filled table (`result_.estimate`). It is kept
    for at most 2**20 entries; for larger tables, the report shows the solution of the problem
    above, on the scale of the fit.

    The scaling is chosen by errors in standard deviations of the columns, since columns may
    have different units, and the other settings by errors on that scale.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import SparseLowRankImputer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 30))
    >>> seen = np.where(rng.random(X.shape) < 0.7, X, np.nan)
    >>> filled = SparseLowRankImputer(random_state=0).fit_transform(seen)
    >>> bool(np.mean((filled - X) ** 2) < 0.05 * np.mean(X**2))
    True
    """

    lam: float | Literal["auto"] = "auto"
    tau: float | Literal["auto"] = "auto"
    _: KW_ONLY
    ridge: float | Literal["auto"] = "auto"
    scaling: Literal["auto", "none", "center", "standard"] = "auto"
    rank: int | None = None
    blend: bool = True
    missing_values: float = np.nan
    cv: int | Literal["auto"] = "auto"
    one_standard_error: bool | Literal["auto"] = "auto"
    tol: float = 1e-3

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = _is_nan(self.missing_values)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> SparseLowRankImputer:
        """Learn from rows with missing entries.

        Parameters
        ----------
        X : array or frame of shape (rows, columns)
            The data.
        y : ignored
        """
        lam, tau = or_auto("lam", self.lam, nonnegative), or_auto("tau", self.tau, positive)
        one_of("scaling", self.scaling, ("auto", *SCALINGS))
        or_auto("ridge", self.ridge, positive)
        flag("blend", self.blend)
        optional_counts(rank=self.rank)
        times_hidden(self.cv)
        X = self._read(X, reset=True)[1]
        if np.isnan(X).all():
            raise InputError("X", "no observed entry", "at least one")
        with one_thread(X.size):  # many short calls of BLAS
            best, start = self._choose(X, lam, tau)
        data = Scaled(X, best.scaling)
        self.scaling_, self._scale = best.scaling, data.scale
        self._means = Scale.of(X, "center").centre
        self.mean_, self.scale_ = data.scale.centre, data.scale.unit
        self.lam_, spectral = data.weights(best, lam, tau)
        if tau is None:
            if start is None or not self._search_end.passed:
                # proved, since a point that is not optimal may have a far larger norm
                settings: dict[str, Any] = {"trial": True, "tol": ROUGH, "start": start}
                start = self._fitted(data.loss, self.lam_, spectral, **settings).low_rank
            tau = max(start.nuclear_norm, LEAST * (data.top or 1.0))
        self.tau_ = tau
        self.result_ = self._fitted(data.loss, self.lam_, NuclearBall(tau), start=start)
        weights = {"lam": self.lam_, "ridge": self._ridge(self.lam_)}
        L = self.result_.low_rank
        self._rows = RowSpace.of(L, multiplier(data.Z, L, **weights), **weights)
        self.components_ = L.Vt
        self._columns = self._learnt_columns(X)
        if X.size <= KEPT:
            # solving for each row again takes time, which may be limited
            own = None if self.max_seconds is None else self._scale.undo(L.dense())
            self.result_ = replace(self.result_, estimate=self._filled(X, X, own))
        return self

    def _learnt_columns(self, X: Vector) -> Columns | None:
        """The models other than the low-rank one, if the answer contains them."""
        if not (self.weights_["conditional"] or self.weights_["neighbours"]):
            return None
        scale, some = Scale.of(X, "standard"), some_rows(X.shape, stream(self._seed, 2))
        assert self.shrinkage_ is not None
        found = Filled.of(scale.apply(X[some]), self.shrinkage_, None, self._deadline)
        columns = Columns(scale, found.model)
        return columns.near(X, self._seed)[0] if self.weights_["neighbours"] else columns

    def _choose(
        self, X: Vector, lam: float | None, tau: float | None
    ) -> tuple[Candidate, LowRank | None]:
        """Choose missing settings by hidden entries; also return a starting point.

        First the scaling and the nuclear weight at lam = 0 are chosen, then the nuclear weight
        in smaller steps, then lam, until it no longer helps.
        """
        simplest = self._one_standard_error(automatic=False)
        self.cv_results_: dict[str, Any] = {}
        self.hidden_scores_: dict[str, float] = {}
        self.weights_ = dict.fromkeys(MODELS, 0.0) | {"low-rank": 1.0}
        self.shrinkage_: float | None = None
        scalings = SCALINGS if self.scaling == "auto" else (self.scaling,)
        given = lam is not None and tau is not None and len(scalings) == 1
        if given or int((~np.isnan(X)).sum()) < FEWEST:
            return (Candidate() if len(scalings) > 1 else Candidate(scalings[0])), None

        def trial(
            hidden: HiddenEntries, candidate: Candidate, start: LowRank | None
        ) -> tuple[tuple[float, float], LowRank]:
            data = hidden.scaled(candidate.scaling)
            lam_, spectral = data.weights(candidate, lam, tau)
            found = self._rough(data.loss, lam_, spectral, start)
            return hidden.errors(data, found.dense()), found

        begun = time.monotonic()
        rounds = HiddenEntries.several(X, self._seed, times_hidden(self.cv))
        if self._deadline.end is not None and self._search_end.end is not None:
            last = self._deadline.end - FINISH * (time.monotonic() - begun)
            self._search_end = Deadline(min(self._search_end.end, last))
        search: Search[Candidate] = self._search(rounds, trial)
        paths: list[Candidate] = []

        def loses(tried: Sequence[Candidate]) -> bool:
            """Return True if a scaling tends to a larger error than another one has reached."""
            others = [search.mean(each, 1) for each in paths if each in search.losses]
            return limit([search.mean(each, 1) for each in tried]) > min(others, default=np.inf)

        how: Any = {"start": "before", "patience": PATIENCE, "gain": GAIN, "until": loses}
        for scaling in scalings:
            first = Candidate(scaling, share=0.0)
            halved = [first._replace(nuclear=2.0**-k) for k in range(1, HALVINGS + 1)]
            paths.append(search.best_of(halved if tau is None else [first], **how))
        tried = [each for each in paths if each in search.losses]
        best = min(tried, key=lambda each: search.mean(each, 1))
        if tau is None:
            finer = [best._replace(nuclear=f * best.nuclear) for f in (2**0.5, 0.5**0.5)]
            best = search.best_of([best, *finer], start="best", last_of_equals=True)
        if lam is None:
            larger = [best._replace(share=share) for share in SHARES]
            best = search.best_of([best, *larger], start="best", patience=1, gain=GAIN)
        scores = search.scores(1)
        self.cv_results_ = scores.table("nuclear", "share")
        if simplest:
            best = scores.best(lambda c: (c.scaling != best.scaling, -c.nuclear, -c.share))
            if best not in search.answers:  # the search drops those that were not the best
                search = self._search(rounds, trial)
                search.best_of([best])
        answers = search.answers.get(best)
        if self.blend and lam is None and tau is None and 1 < X.shape[1] <= WIDEST:
            self._weigh(rounds, best, answers)
        # With more entries the largest singular value of the data grows like their number,
        # that of the noise like the square root of it.
        whole = best._replace(nuclear=best.nuclear * float(np.sqrt(1.0 - HIDDEN)))
        return whole, answers[0] if answers and tau is None else None

    def _weigh(
        self, rounds: list[HiddenEntries], best: Candidate, answers: list[LowRank] | None
    ) -> None:
        """Choose the shrinkage of correlations, then the weights of the models."""

        def trial(
            hidden: HiddenEntries, candidate: Shrinkage, start: Filled | None
        ) -> tuple[float, Filled]:
            found = Filled.of(hidden.table, candidate.shrinkage, start, self._search_end)
            return hidden.filled_error(found.table), found

        if answers is None or self._search_end.passed:
            return
        search: Search[Shrinkage] = self._search(rounds, trial)
        line = [Shrinkage(each) for each in SHRINKAGES]
        chosen = search.best_of(line, start="before", patience=1)
        guesses, truth, begun = [], [], time.monotonic()
        for hidden, low_rank, filled in zip(
            rounds, answers, search.answers[chosen], strict=False
        ):
            own = hidden.scaled(best.scaling).scale
            columns = Columns(hidden.standard, filled.model)
            found = [own.undo(low_rank.dense()), *columns.near(hidden.left, self._seed)[1]]
            guesses.append(np.stack([hidden.away(each[hidden.place]) for each in found], 1))
            truth.append(hidden.away(hidden.truth))
        each_takes = (time.monotonic() - begun) / len(truth)
        if self._deadline.left is not None and self._deadline.left < AFTER * each_takes:
            return  # no time to fill the table by other models
        weights, scores = weighed(np.concatenate(guesses), np.concatenate(truth))
        self.weights_ = dict(zip(MODELS, weights, strict=True))
        names = ("mean", *MODELS, "blend")
        self.hidden_scores_ = dict(zip(names, scores, strict=True))
        self.shrinkage_ = chosen.shrinkage

    def transform(self, X: Any) -> Vector:
        """Return rows with their missing entries filled.

        Parameters
        ----------
        X : array or frame of shape (rows, columns)
            Rows, those of `fit` or new ones.

        Returns
        -------
        array of shape (rows, columns)
            Observed entries unchanged, the others predicted.
        """
        check_is_fitted(self)
        return self._filled(*self._read(X, reset=False))

    def _filled(self, given: Vector, X: Vector, low_rank: Vector | None = None) -> Vector:
        """Return the given rows, with predictions where the same rows have NaN in X.

        `low_rank` is the low-rank model of these rows, if it is known.
        """
        missing = np.isnan(X)
        rows = missing.any(axis=1)
        filled: Vector = given.copy()
        if rows.any():
            known = None if low_rank is None else low_rank[rows]
            filled[missing] = self._guess(X[rows], known)[missing[rows]]
        return filled

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Vector:
        """Learn from rows and return them with their missing entries filled.

        Parameters
        ----------
        X : array or frame of shape (rows, columns)
            The data.
        y : ignored
        **fit_params
            Passed to `fit`.

        Returns
        -------
        array of shape (rows, columns)
            Observed entries unchanged, the others predicted.
        """
        table: Any = self.fit(X, y, **fit_params).result_.estimate
        if table is None:
            return self.transform(X)
        given, X = self._read(X, reset=False)
        filled: Vector = given.copy()
        filled[np.isnan(X)] = table[np.isnan(X)]
        return filled

    def _guess(self, X: Vector, low_rank: Vector | None = None) -> Vector:
        """All entries of rows, as the weighted models predict them."""
        if low_rank is None:
            low_rank = self._scale.undo(self._rows.complete(self._scale.apply(X)))
        if self._columns is None and self.weights_["low-rank"] == 1.0:
            return low_rank
        others = [] if self._columns is None else self._columns.guesses(X)
        guess = np.tile(self._means, (len(X), 1))
        for weight, each in zip(self.weights_.values(), (low_rank, *others), strict=False):
            guess += weight * (each - self._means)
        return guess

    def _read(self, X: Any, *, reset: bool) -> tuple[Vector, Vector]:
        """The given data, and a copy in double precision with NaN for missing entries."""
        finite = "allow-nan" if _is_nan(self.missing_values) else True
        read: Any = {"dtype": [np.float64, np.float32], "ensure_all_finite": finite}
        X = validate_data(self, X, reset=reset, **read)
        work = X.astype(np.float64, order="C")  # the order of sums must not depend on frames
        if not _is_nan(self.missing_values):
            work[np.equal(X, self.missing_values)] = np.nan
        return X, work

    def _ridge(self, lam: float) -> float:
        if is_auto(self.ridge):
            return RIDGE if lam > 0.0 else 0.0
        return float(self.ridge)

    def _rough(
        self,
        loss: Completion,
        lam: float,
        spectral: NuclearBall | NuclearNorm,
        start: LowRank | None,
    ) -> LowRank:
        bounded = spectral_capabilities(spectral).tau is not None
        if self._ridge(lam) == 0.0 and not bounded:
            limits: dict[str, Any] = {"rank": self._most(loss), "deadline": self._search_end}
            problem = Problem(loss, None, spectral)
            return path_point(problem, start, tol=STEADY, seed=self._seed, **limits)[0]
        if bounded and start is not None:
            start = start if spectral.violation(start) <= 0.0 else None
        found = self._fitted(loss, lam, spectral, trial=True, tol=ROUGH, start=start)
        return found.low_rank

    def _fitted(
        self, loss: Completion, lam: float, spectral: NuclearBall | NuclearNorm, **settings: Any
    ) -> Result:
        """Solve the problem, in factors if the nuclear norm is the only penalty."""
        ridge = self._ridge(lam)
        if ridge == 0.0:
            return self._solve(Problem(loss, None, spectral), rank=self._most(loss), **settings)
        if min(loss.shape) <= FULL:
            settings["solver"] = DavisYin(first_rank=min(loss.shape))
        problem = Problem(loss, ElasticNet(lam, 0.5 * ridge), spectral)
        return cut(self._solve(problem, **settings), problem, self.rank)

    def _most(self, loss: Completion) -> int | None:
        """The largest rank of X; None without a limit."""
        return None if self.rank is None else min(self.rank, *loss.shape)


def weighed(guesses: Vector, truth: Vector) -> tuple[list[float], list[float]]:
    """The weights of models that predict the truth best, and the scores of all choices.

    The choices are no model, one model, or all with the best nonnegative weights.
    Weights are scored on entries to which they were not fitted. Few entries do not determine
    weights: then all models have the same weight, see `shrunken_mean`.
    """
    from scipy.optimize import nnls

    few = len(truth) < FEW
    fold = np.arange(len(truth)) % min(FOLDS, len(truth))
    alone = [np.zeros(guesses.shape[1]), *np.eye(guesses.shape[1])]
    blend = shrunken_mean if few else lambda guesses, truth: nnls(guesses, truth)[0]
    losses = []
    for k in range(int(fold.max()) + 1):
        here = fold == k
        tried = [*alone, blend(guesses[~here], truth[~here])]
        losses.append([np.mean((guesses[here] @ w - truth[here]) ** 2) for w in tried])
    best = len(alone) if few else least(losses)
    weights = alone[best] if best < len(alone) else blend(guesses, truth)
    return [float(w) for w in weights], [-float(x) for x in np.mean(losses, axis=0)]


def shrunken_mean(guesses: Vector, truth: Vector) -> Vector:
    """Equal weights, times a factor from 0 to 1.

    It is the factor by which the mean of the guesses is nearest to the truth, shrunk by its
    own uncertainty (the positive-part rule of James and Stein), so that it tends to 0, the
    means of the columns, if nothing predicts. The best model of a few entries is often not the
    best one: the mean of all loses less.
    """
    count = guesses.shape[1]
    mean = guesses.mean(axis=1)
    size = float(mean @ mean)
    if not size:
        return np.zeros(count)
    factor = max(0.0, float(mean @ truth) / size)
    rest = truth - factor * mean
    spread = float(rest @ rest) / max(1, len(truth) - 1) / size
    factor = max(0.0, factor - spread / factor) if factor else 0.0
    return np.full(count, min(1.0, factor) / count)


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
