"""Matrices of which some entries are observed: ratings, votes, counts, panels."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from weakprox.arguments import flag, integer, is_auto, nonnegative, one_of, or_auto, positive
from weakprox.errors import InputError
from weakprox.estimators._base import Certified
from weakprox.estimators._entries import Observations, Vector, read_observations, read_pairs
from weakprox.linalg import decompositions
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Completion, EntryLoss, Huber
from weakprox.losses.completion import INTERCEPTS
from weakprox.losses.entry_losses import entry_loss, kind_of, threshold_of
from weakprox.problem import Problem
from weakprox.selection._observed_path import (
    EXACT,
    PATIENCE,
    ROUGH,
    WEIGHTS,
    automatic_cv,
    folds_or_share,
    held_out_entries,
    path_point,
    path_trial,
    zero_weight,
)
from weakprox.selection.debias import Debias, debiasing
from weakprox.selection.noise import GAUSSIAN
from weakprox.selection.search import Search
from weakprox.spectral import NuclearNorm

Scaling = Literal["none", "counts"]
SCALINGS: tuple[Scaling, ...] = ("none", "counts")
RIDGES = (64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.0)  # for the intercepts
RIDGE = 2.0  # ridge if there are too few observations to choose one
FEWEST = 20  # with fewer observations nothing is held out
HALF, SMALL = 0.5, 0.5**0.5  # ratios of neighbouring lam
STEEP = 0.05  # gain, relative to the error, from which lam is halved
LOW, SPARE = 30, 8  # the search ends at this rank, or at this number of factors per observation
GAIN = 2e-4  # gain that a smaller lam must bring
# standard deviation of counts, relative to their mean, below which they need no scaling
EVEN = 0.1
DENSE = 0.25  # share of observed entries from which counts need no scaling either
TUNING = 1.345  # Huber's threshold, in standard deviations: 95 % efficient for normal errors
PIECE = 1 << 22  # entries of the temporaries of predictions
# largest number of steps for a row that is folded in, and the tolerance
NEWTON, STILL = 50, 1e-10


class Candidate(NamedTuple):
    """Settings that are chosen by held-out observations; X = 0 if lam is infinite."""

    lam: float
    intercept_ridge: float = 0.0
    scaling: Scaling = "none"


@dataclass(eq=False, repr=False)
class MatrixCompletion(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Certified):
    r"""Completion of a matrix from some of its entries, such as ratings of films by people.

    Solves, over the observed entries,

    .. math::
        \min_{L, \mu, a, b} \sum_{(i,j)} \ell(y_{ij}, L_{ij} + \mu + a_i + b_j)
        + \lambda \|D_r L D_c\|_* + \tfrac{\rho}{2} (\|a\|^2 + \|b\|^2) .

    L is kept in factors: the memory grows with the number of observations.

    Parameters
    ----------
    lam : float or "auto"
        Weight of the nuclear norm. "auto" holds out some observations and chooses the weight
        that predicts them best, along a path that starts at L = 0. If intercepts alone predict
        best, L is 0.
    loss : {"squared", "huber", "logistic", "poisson"} or EntryLoss
        Half the squared error, Huber's loss with its threshold at 1.345 standard deviations
        (estimated by the median deviation from intercepts), the logistic loss of two
        classes, half the deviance of counts, `losses.Huber(k)`, or your own.
    intercepts : {"both", "rows", "columns", "none"}
        The intercepts that are added; with any of them also the mean :math:`\mu`.
    intercept_ridge : float or "auto"
        The weight :math:`\rho`. "auto" chooses the one that predicts held-out observations
        best.
    scaling : {"auto", "none", "counts"}
        The diagonals :math:`D_r, D_c`: ones, or growing with the number of observations of
        rows and columns, see `losses.Completion`. "auto" tries both.
    rank : int, optional
        Largest rank of L.
    debias : bool or "auto"
        Whether to undo the shrinkage of L with the factor, from 1 to 4, that predicts
        held-out observations best. "auto" is the same as True, since the factor is 1 if no
        other is better.
    clip : bool
        Whether predictions are clipped to the range of the observed values; for the squared
        loss and Huber's loss only.
    {cv, one_standard_error}
    {tol, max_seconds, random_state, verbose}

    Attributes
    ----------
    lam_, intercept_ridge_, scaling_, loss_
        The values used.
    {cv_results_}
        "param_lam" is infinite for intercepts alone. Scores are minus mean losses; minus
        mean squared errors for the squared loss.
    row_ids_, column_ids_ : arrays
        Ids of rows and columns, in the order of factors and intercepts.
    user_factors_, item_factors_ : arrays of shape (rows, rank) and (columns, rank)
        Their product is L times `factor_`.
    factor_ : float
        Factor that undoes the shrinkage of L; 1 without `debias`.
    intercept_ : float
        The mean :math:`\mu`.
    row_intercepts_, column_intercepts_ : arrays of shape (rows,) and (columns,)
        Zero if there are none.
    rank_ : int
        Rank of L.
    classes_ : array of shape (2,)
        For the logistic loss, the two classes.
    {result_, certificate_}

    Notes
    -----
    Repeated pairs count as separate observations. Rows and columns without any
    observation, and ids that `fit` has not seen, are predicted by intercepts alone.

    See Also
    --------
    SparseLowRankImputer : For tables whose columns are features of different units.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import MatrixCompletion
    >>> rng = np.random.default_rng(0)
    >>> L = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))
    >>> rows, cols = np.nonzero(rng.random(L.shape) < 0.5)
    >>> model = MatrixCompletion(random_state=0).fit(rows, cols, 3 + L[rows, cols])
    >>> others = np.argwhere(~np.isin(np.arange(2400), 40 * rows + cols).reshape(60, 40))
    >>> error = model.predict(others) - 3 - L[tuple(others.T)]
    >>> bool(np.mean(error**2) < 0.1 * np.var(L))
    True
    """

    lam: float | Literal["auto"] = "auto"
    _: KW_ONLY
    loss: Literal["squared", "huber", "logistic", "poisson"] | EntryLoss = "squared"
    intercepts: Literal["both", "rows", "columns", "none"] = "both"
    intercept_ridge: float | Literal["auto"] = "auto"
    scaling: Literal["auto", "none", "counts"] = "auto"
    rank: int | None = None
    debias: Debias = True
    clip: bool = True
    cv: int | float | Literal["auto"] = "auto"
    one_standard_error: bool | Literal["auto"] = "auto"
    tol: float = 1e-3
    _accepts = ("sparse", "allow_nan")
    _reads_masks = True

    def fit(
        self,
        rows: Any,
        cols: Any = None,
        values: Any = None,
        *,
        row: Any = None,
        col: Any = None,
        value: Any = None,
    ) -> MatrixCompletion:
        """Learn from observed entries.

        Parameters
        ----------
        rows : array of shape (n,), matrix or frame
            Ids of rows, of any hashable kind. Alternatively a SciPy sparse matrix, whose stored
            entries are the observations; an array, masked array or frame of shape (rows,
            columns) with NaN for missing entries; or a long table, with `row`, `col` and
            `value`.
        cols, values : arrays of shape (n,), optional
            Ids of columns, and the values; ignored with a matrix.
        row, col, value : optional
            Names of the columns of a long table (pandas, polars or a dict of arrays).
        """
        lam = or_auto("lam", self.lam, positive)
        ridge = or_auto("intercept_ridge", self.intercept_ridge, nonnegative)
        one_of("scaling", self.scaling, ("auto", *SCALINGS))
        one_of("intercepts", self.intercepts, INTERCEPTS)
        self._rank = None if self.rank is None else integer("rank", self.rank, 1)
        simplest = self._one_standard_error(automatic=False)
        flag("clip", self.clip)
        debias = bool(debiasing("debias", self.debias))
        cv = or_auto("cv", self.cv, folds_or_share)
        found = read_observations(self, rows, cols, values, (row, col, value))
        self.n_features_in_ = len(found.column_ids)
        self._pair_names = (row, col)
        base = self._base(found)
        best, start = self._choose(base, lam, ridge, cv, debias=debias, simplest=simplest)
        loss = base.part(intercept_ridge=best.intercept_ridge, scaling=best.scaling)
        if math.isinf(best.lam):
            best = best._replace(lam=zero_weight(loss, self._seed) or 1.0)
        self.lam_, self.intercept_ridge_, self.scaling_ = best
        problem = Problem(loss, None, NuclearNorm(best.lam))
        self.result_ = self._solve(problem, start=start, rank=self._rank)
        self._keep(found, loss)
        return self

    def _base(self, found: Observations) -> Completion:
        """The loss of all observations, without ridge and scaling."""
        loss: Any = self.loss
        shape = len(found.row_ids), len(found.column_ids)
        triplets = found.rows, found.columns, found.values, shape
        if isinstance(loss, str):
            one_of("loss", loss, ("squared", "huber", "logistic", "poisson"))
        if isinstance(loss, str) and loss == "huber":
            loss = Huber(_threshold(Completion(*triplets, intercepts=self.intercepts)))
        self.loss_ = entry_loss(loss)
        if kind_of(self.loss_) == "logistic":
            self.classes_ = np.unique(found.values)
            if len(self.classes_) == 1:
                given = f"one class, {self.classes_[0]:g}, with loss='logistic'"
                raise InputError("values", given, "two classes")
        if kind_of(self.loss_) == "poisson" and not found.values.any():
            raise InputError("values", "zeros only, with loss='poisson'", "a positive count")
        return Completion(*triplets, loss=self.loss_, intercepts=self.intercepts)

    def _choose(
        self,
        base: Completion,
        lam: float | None,
        ridge: float | None,
        cv: int | float | None,
        *,
        debias: bool,
        simplest: bool,
    ) -> tuple[Candidate, LowRank | None]:
        """Choose missing settings by held-out observations; also return a first point.

        First the ridge is chosen with intercepts alone, which suits other values of lam as
        well, then lam and the scaling.
        """
        self.cv_results_: dict[str, Any] = {}
        if self.intercepts == "none":
            ridge = 0.0
        scalings: tuple[Any, ...] = (self.scaling,)
        if is_auto(self.scaling):
            scalings = SCALINGS[:1] if _even(base) else SCALINGS
        count = base.observed().size
        first = Candidate(lam or math.inf, RIDGE if ridge is None else ridge, scalings[0])
        self.factor_ = 1.0
        given = lam is not None and ridge is not None and len(scalings) == 1
        if (given and not debias) or count < FEWEST:
            return first, None
        self._range = self._bounds(base)
        parts = held_out_entries(base, cv or automatic_cv(count), self._seed, self._range)
        most = max(LOW, int(SPARE * count / sum(base.shape)))
        cap = min(most, self._rank or most, *base.shape)
        limits: dict[str, Any] = {"seed": self._seed, "deadline": self._search_end}
        trial = path_trial(
            partial(path_point, tol=ROUGH, rank=cap, **limits),
            lambda part, c: part.kept(c.intercept_ridge, c.scaling),
            debias=debias,
        )
        search: Search[Candidate] = self._search(parts, trial)
        alone = first._replace(lam=math.inf)
        ridges = [alone]
        if ridge is None:
            ridges = [alone._replace(intercept_ridge=r) for r in RIDGES]
        best = search.best_of(ridges, patience=PATIENCE)
        if lam is None:
            best = self._path(search, base, best, scalings, cap)
        else:
            there = best._replace(lam=lam)
            best = search.best_of([there._replace(scaling=each) for each in scalings])
        scores = search.scores()
        self.cv_results_ = scores.table(rank=search.scores(1).losses.mean(axis=0))
        if simplest and lam is None:
            alike = [best[1:] == c[1:] or math.isinf(c.lam) for c in scores.candidates]
            best = scores.best(lambda c: (not alike[scores.candidates.index(c)], -c.lam))
        answers = search.answers.get(best)
        self.factor_ = search.mean(best, 2) if best in search.losses else 1.0
        if lam is None and not simplest:
            best, self.factor_ = _between(search, best)
        return best, answers[0] if answers else None

    def _path(
        self,
        search: Search[Candidate],
        base: Completion,
        alone: Candidate,
        scalings: tuple[Scaling, ...],
        cap: int,
    ) -> Candidate:
        """The best candidate along falling weights, given that of intercepts alone.

        The weight falls from the one at which L = 0 until the error rises. The other
        scaling is tried from near the same share of its own first weight.
        """
        best, share = alone, SMALL
        for scaling in scalings:
            there = alone._replace(scaling=scaling)
            loss = base.part(intercept_ridge=there.intercept_ridge, scaling=scaling)
            top = zero_weight(loss, self._seed)
            if not top > 0.0:
                return alone  # there is nothing left to explain
            found = self._descended(search, alone, there._replace(lam=share * top), cap)
            share = min(SMALL, found.lam / top / SMALL)
            best = min(best, found, key=search.mean)
        return best

    @staticmethod
    def _descended(
        search: Search[Candidate], alone: Candidate, first: Candidate, cap: int
    ) -> Candidate:
        """The best candidate along falling weights, in steps that depend on their gain."""
        best, following, waited = alone, first, 0
        for _ in range(WEIGHTS):
            if following in search.losses:
                break
            before = search.mean(best)
            pair = [best, following]
            found = search.best_of(pair, start="best", gain=0.0 if best is alone else GAIN)
            if following not in search.losses:
                break  # no time
            gained = before - search.mean(following)
            waited = 0 if found is following else waited + 1
            if waited and (best is not alone or waited > 1):
                break
            best = found
            if search.mean(following, 1) >= cap:
                break
            step = HALF if gained > STEEP * before else SMALL
            following = following._replace(lam=step * following.lam)
        return best

    def _bounds(self, loss: Completion) -> tuple[float, float] | None:
        """The range of predictions, if there is one."""
        if not self.clip or threshold_of(self.loss_) is None:
            return None
        values = loss.observed().values
        return float(values.min()), float(values.max())

    def _keep(self, found: Observations, loss: Completion) -> None:
        """Factors, intercepts and ids of the fit."""
        data, X = loss.observed(), self.result_.low_rank
        effects = data.fitted(data.entries(X))
        kept = X.s > 0.0
        root = np.sqrt(self.factor_ * X.s[kept])
        self.user_factors_, self.item_factors_ = X.U[:, kept] * root, X.Vt[kept].T * root
        if data.left is not None and data.right is not None:
            self.user_factors_ *= data.left[:, None]
            self.item_factors_ *= data.right[:, None]
        if kept.any() and (data.left is not None or self.factor_ != 1.0):
            estimate = _product(self.user_factors_, self.item_factors_)
            self.result_ = replace(self.result_, estimate=estimate)
        self.intercept_ = effects.mean
        self.row_intercepts_, self.column_intercepts_ = effects.rows, effects.columns
        self.rank_ = self._n_features_out = int(kept.sum())
        self._row_ids, self._column_ids = found.row_ids, found.column_ids
        self._range = self._bounds(loss)
        self._counts = float(data.pattern.row_counts.mean())
        self._seen = data.pattern.pointers, data.pattern.columns

    @property
    def row_ids_(self) -> Vector:
        """Ids of rows."""
        check_is_fitted(self)
        return self._row_ids.names

    @property
    def column_ids_(self) -> Vector:
        """Ids of columns."""
        check_is_fitted(self)
        return self._column_ids.names

    def predict(self, rows: Any, cols: Any = None) -> Vector:
        """Predict entries.

        Parameters
        ----------
        rows : array or frame of shape (k, 2), or array of shape (k,)
            Pairs of a row id and a column id, or row ids. Or a frame with the columns `row` and
            `col` that were passed to `fit`, in any order and possibly with others.
        cols : array of shape (k,), optional
            Column ids.

        Returns
        -------
        array of shape (k,)
            Expected observations: for the logistic loss probabilities of the second of
            `classes_`, for the Poisson loss means. Clipped to the range of the observed
            values if `clip` is set.
        """
        check_is_fitted(self)
        names = getattr(rows, "column_names", getattr(rows, "columns", ()))  # Arrow's, pandas'
        if cols is None and set(self._pair_names) <= set(names):
            rows, cols = (rows[name].to_numpy() for name in self._pair_names)
        row, column = read_pairs(rows, cols, self._row_ids, self._column_ids)
        known = (row >= 0) & (column >= 0)
        x = np.full(row.shape, self.intercept_)
        x[row >= 0] += self.row_intercepts_[row[row >= 0]]
        x[column >= 0] += self.column_intercepts_[column[column >= 0]]
        left, right = self.user_factors_, self.item_factors_
        at = np.flatnonzero(known)
        step = max(1, PIECE // max(1, self.rank_))
        for part in (at[k : k + step] for k in range(0, at.size, step)):
            x[part] += np.einsum("ij,ij->i", left[row[part]], right[column[part]])
        return self._expected(x)

    def _expected(self, x: Vector) -> Vector:
        found: Vector = np.asarray(self.loss_.mean(x))
        return found if self._range is None else np.clip(found, *self._range)

    def recommend(
        self, row: Any, n: int = 10, *, exclude_seen: bool = True
    ) -> tuple[Vector, Vector]:
        """Return the columns with the largest predictions for a row.

        Parameters
        ----------
        row : id
            The row, such as a person. For an unknown row, the columns with the largest
            intercepts are returned.
        n : int
            Largest number of columns.
        exclude_seen : bool
            Whether to leave out columns that were observed for this row.

        Returns
        -------
        columns, predictions : arrays of shape (n,)
            Ids of columns, the best first, and their predictions.
        """
        check_is_fitted(self)
        n, flagged = integer("n", n, least=0), flag("exclude_seen", exclude_seen)
        if not isinstance(row, Hashable):  # such as a list of rows
            raise InputError("row", type(row).__name__, "one id")
        at = int(self._row_ids.find("row", [row])[0])
        x = self.intercept_ + self.column_intercepts_
        open_ = np.ones(len(x), dtype=bool)
        if at >= 0:
            x = x + self.row_intercepts_[at] + self.item_factors_ @ self.user_factors_[at]
            pointers, columns = self._seen
            if flagged:
                open_[columns[pointers[at] : pointers[at + 1]]] = False
        free = np.flatnonzero(open_)
        best = free[np.argsort(-x[free], kind="stable")[:n]]
        return self._column_ids.names[best], self._expected(x[best])

    def transform(
        self,
        rows: Any,
        cols: Any = None,
        values: Any = None,
        *,
        row: Any = None,
        col: Any = None,
        value: Any = None,
    ) -> Vector:
        """Return the factors of known or new rows from their observations, without a new fit.

        Each row solves its own part of the problem with the factors of columns held fixed,
        so that rows of the fit get their factors back, up to `tol`.

        Parameters
        ----------
        rows, cols, values, row, col, value
            Observations as in `fit`. Columns that `fit` has not seen are left out.

        Returns
        -------
        array of shape (rows, rank)
            In the order of the rows of a matrix, otherwise in the order of the sorted ids.
        """
        return self._folded(rows, cols, values, (row, col, value))[1]

    def fold_in(
        self,
        rows: Any,
        cols: Any = None,
        values: Any = None,
        *,
        row: Any = None,
        col: Any = None,
        value: Any = None,
    ) -> MatrixCompletion:
        """Return a copy of the model with these rows added, without a new fit.

        Rows that the model already has are replaced. The certificate remains that of the
        fit.

        Parameters
        ----------
        rows, cols, values, row, col, value
            Observations as in `fit`. Columns that `fit` has not seen are left out.
        """
        found, factors, intercepts = self._folded(rows, cols, values, (row, col, value))
        other = copy.copy(self)
        other._row_ids, at = self._row_ids.joined(found.row_ids)
        size = len(other._row_ids)
        new = size - len(self._row_ids)
        other.user_factors_ = np.pad(self.user_factors_, ((0, new), (0, 0)))
        other.user_factors_[at] = factors
        other.row_intercepts_ = np.pad(self.row_intercepts_, (0, new))
        other.row_intercepts_[at] = intercepts
        pointers, columns = self._seen
        old = np.repeat(np.arange(len(self._row_ids)), np.diff(pointers))
        stays = ~np.isin(old, at)
        new_rows = np.concatenate([old[stays], at[found.rows]])
        new_columns = np.concatenate([columns[stays], found.columns])
        order = np.argsort(new_rows, kind="stable")
        counts = np.bincount(new_rows, minlength=size)
        other._seen = np.concatenate([[0], np.cumsum(counts)]), new_columns[order]
        return other

    def _folded(
        self, rows: Any, cols: Any, values: Any, names: tuple[Any, Any, Any]
    ) -> tuple[Observations, Vector, Vector]:
        """Observations in known columns, and the factors and intercepts of their rows."""
        check_is_fitted(self)
        found = read_observations(self, rows, cols, values, names, fitted=self._column_ids)
        column = found.columns
        if found.column_ids is not self._column_ids:
            column = self._column_ids.find("cols", found.column_ids.names)[column]
        y = found.values
        if kind_of(self.loss_) == "logistic":
            y = _recoded(y, self.classes_)
        else:
            y = self.loss_.check(y) if len(y) else y
        order = np.argsort(found.rows, kind="stable")
        order = order[column[order] >= 0]
        row, column, y = found.rows[order], column[order], np.asarray(y)[order]
        found = found._replace(rows=row, columns=column, values=y)
        size = len(found.row_ids)
        factors, intercepts = np.zeros((size, self.rank_)), np.zeros(size)
        edges = np.searchsorted(row, np.arange(size + 1))
        for i in np.flatnonzero(np.diff(edges)):
            part = slice(edges[i], edges[i + 1])
            factors[i], intercepts[i] = self._row(column[part], y[part])
        return found, factors, intercepts

    def _row(self, columns: Vector, y: Vector) -> tuple[Vector, float]:
        """Factors and intercept of one row, by Newton's method.

        The nuclear norm is the least mean of the squared norms of both factors, so each row
        has the ridge lam, times the square of its scaling.
        """
        loss, k = self.loss_, self.rank_
        weight = self.lam_
        if self.scaling_ == "counts":
            weight *= 0.5 * (1.0 + len(y) / self._counts)
        own = self.intercepts in ("rows", "both")
        items = self.item_factors_[columns] / math.sqrt(self.factor_)
        F = np.hstack([items, np.ones((len(y), int(own)))])
        ridge = np.r_[np.full(k, weight), np.full(int(own), self.intercept_ridge_)]
        fixed = self.intercept_ + self.column_intercepts_[columns]
        if not F.shape[1]:
            return np.zeros(k), 0.0
        z = np.zeros(F.shape[1])

        def objective(z: Vector) -> float:
            return float(np.sum(loss.value(y, fixed + F @ z)) + 0.5 * np.sum(ridge * z * z))

        value = objective(z)
        for _ in range(NEWTON):
            x = fixed + F @ z
            slope = F.T @ np.asarray(loss.derivative(y, x)) + ridge * z
            bend = np.asarray(loss.curvature(y, x))
            H = (F.T * bend) @ F + np.diag(ridge)
            H[np.diag_indices_from(H)] += 1e-12 * max(float(np.trace(H)), 1e-300)
            step, length = np.linalg.solve(H, -slope), 1.0
            gain = -float(slope @ step)
            after = objective(z + step)
            while not after <= value - 1e-4 * length * gain and length > 1e-9:
                length *= 0.5
                after = objective(z + length * step)
            if not after < value:
                break
            z, before, value = z + length * step, value, after
            if before - value <= STILL * abs(value):
                break
        return math.sqrt(self.factor_) * z[:k], float(z[k]) if own else 0.0


def _product(left: Vector, right: Vector) -> LowRank:
    """The singular value decomposition of the product of two thin factors."""
    (Q1, R1), (Q2, R2) = np.linalg.qr(left), np.linalg.qr(right)
    U, s, Vt = decompositions.svd(R1 @ R2.T)
    return LowRank(Q1 @ U, s, Vt @ Q2.T)


def _between(search: Search[Candidate], best: Candidate) -> tuple[Candidate, float]:
    """Refine lam and the factor between three neighbours, of which the middle one is the best.

    A parabola is fitted to their errors as a function of the logarithm of lam. The result is
    the largest lam whose error on it is within `GAIN` of the least.
    """
    alike = [c for c in search.losses if c[1:] == best[1:] and math.isfinite(c.lam)]
    alike.sort(key=lambda c: c.lam)
    place = alike.index(best) if best in alike else 0
    factor = search.mean(best, 2)
    if not 0 < place < len(alike) - 1:
        return best, factor
    three = alike[place - 1 : place + 2]
    x = np.log([c.lam for c in three])
    curve = np.polyfit(x - x[1], [search.mean(c) for c in three], 2)
    if not curve[0] > 0.0:
        return best, factor
    least = -0.5 * curve[1] / curve[0]
    allowed = GAIN * abs(float(np.polyval(curve, least)))
    least = x[1] + min(least + math.sqrt(allowed / curve[0]), x[2] - x[1])
    factor = float(np.interp(least, x, [search.mean(c, 2) for c in three]))
    return best._replace(lam=math.exp(least)), factor


def _even(loss: Completion) -> bool:
    """Return True if rows, and columns, have many observations or about equally many each."""
    P = loss.observed().pattern
    if P.size >= DENSE * math.prod(P.shape):
        return True
    return all(c.std() <= EVEN * c.mean() for c in (P.row_counts, P.column_counts))


def _threshold(loss: Completion) -> float:
    """Threshold of Huber's loss: from the median deviation from intercepts."""
    data = loss.observed()
    x = data.values * 0.0
    size = np.abs(np.asarray(data.dual(x, data.fitted(x))))
    if loss.intercepts == "none":
        size = np.abs(size - np.median(size))
    largest = float(np.abs(data.values).max())
    for typical in (GAUSSIAN * float(np.median(size)), float(size.std())):
        if typical > EXACT * largest:
            return TUNING * typical
    return largest or 1.0  # intercepts explain all data: no residual is large


def _recoded(y: Vector, classes: Vector) -> Vector:
    """Two classes as 0 and 1."""
    unknown = ~np.isin(y, classes)
    if unknown.any():
        raise InputError("values", f"the class {y[unknown][0]:g}", "the classes of the fit")
    return np.where(y == classes[1], 1.0, 0.0)
