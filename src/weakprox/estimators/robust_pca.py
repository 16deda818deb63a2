"""Robust principal components: a low-rank matrix, outliers, and perhaps noise and gaps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox.arguments import integer, is_auto, nonnegative, one_of, or_auto, positive
from weakprox.errors import InputError, ShapeError
from weakprox.estimators._base import Certified, labeller
from weakprox.estimators._pursuit import pursued
from weakprox.estimators._row_space import RowSpace
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import like, namespace, row_blocks, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Denoising, Huber
from weakprox.losses.inputs import check_size
from weakprox.problem import Problem
from weakprox.result import Certificate, Result
from weakprox.selection.debias import WORTH, Debias, debiasing
from weakprox.selection.noise import GAUSSIAN
from weakprox.selection.search import Search, clearly_positive, least
from weakprox.spectral import NuclearNorm
from weakprox.storage.layout import is_torch

Values = np.ndarray[Any, np.dtype[Any]]
FLOATS = [np.float64, np.float32]
ROUGH = 1e-2  # accuracy of fits that are only used for a choice
STEPS = 100  # largest number of steps of such a fit
SAMPLE = 200_000  # cells that show the noise
# threshold of squared residuals, and number of steps of the root search
PROPOSAL, BISECTIONS = 1.345, 40
LEVELS = 8  # largest number of fits that estimate the noise
STEADY = 0.9  # ratio to the last estimate from which the next one is accepted
# Least noise: relative to the spread of the data, and to the step of values on a grid
LEAST, GRID = 0.01, 1.0 / math.sqrt(12.0)
FEW = 0.05  # share of distinct values up to which the data count as lying on a grid
MULTIPLES = tuple(2.0 ** (0.5 * j) for j in range(4, -9, -1))  # multiples of the automatic lam
SEARCH, HIDDEN = 3, 0.1  # name of a random stream, and the share of cells that is hidden
PATIENCE = 2  # weights without a gain after which the search ends
Shares = tuple[float, ...]
NONE: Shares = (0.0,)  # share of the refit if there is none
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the refit, that are compared on hidden cells
PASSES, SETTLED = 60, 1e-4  # steps of a refit at most, and the relative change at which it ends
CUT = 3.5  # standard deviations from which a residual is an outlier
FEWEST = 20  # least number of observed cells for hiding some


class Candidate(NamedTuple):
    """A multiple of the automatic weight."""

    multiple: float


@dataclass(eq=False, repr=False)
class RobustPCA(OneToOneFeatureMixin, TransformerMixin, Certified):
    r"""Decomposition of noisy data into a low-rank matrix and sparse outliers.

    Solves, over the observed entries of the data M,

    .. math::
        \min_{L, S} \tfrac12 \|M - L - S\|_F^2 + k \|S\|_1 + \lambda \|L\|_*
        = \min_L \sum_{ij} H_k(m_{ij} - l_{ij}) + \lambda \|L\|_* ,

    with the Huber loss :math:`H_k`, or, if the noise is 0, principal component pursuit,
    :math:`\min \|L\|_* + \rho \|S\|_1` over :math:`L + S = M`.

    Parameters
    ----------
    lam : float, "auto" or "cv"
        Weight of the nuclear norm. "auto" is :math:`\sigma (\sqrt{m} + \sqrt{d})`, about the
        largest singular value of noise with the standard deviation :math:`\sigma`. "cv" tries
        multiples of that, k being unchanged: it hides a tenth of the observed entries `cv`
        times, and compares mean absolute errors on them, cut off at :math:`3.5\,\sigma`, see
        `one_standard_error`. Missing entries
        reduce m and d by their share. "cv" shrinks less than "auto" and is nearer to the
        signal, but includes components of noise: its rank is larger than that of the
        signal for every rule of choice, since smaller weights have smaller errors. Use
        "auto" if the number of components matters, with ``debias="auto"`` to be nearer still.
    ratio : float or "auto"
        :math:`\rho = k / \lambda`, :math:`\lambda` being the automatic weight with "cv".
        "auto" is the usual :math:`1/\sqrt{\max(m, d)}`.
    noise : float or "auto"
        Standard deviation :math:`\sigma` of the noise in the entries of M; 0 if there is
        none. "auto" computes a robust standard deviation of the residuals of a fit (Huber's
        second proposal), and repeats the fit with it until it no longer changes. Not used if
        lam is a number.
    column_weights : array of shape (columns,), "scale" or None
        Factors by which columns are multiplied before the fit, for columns of different
        units; results are in the units of the data. "scale" divides by the robust standard
        deviation of each column.
    rank : int, optional
        Largest rank of L.
    debias : bool or "auto"
        Whether to undo the shrinkage of L. True replaces L by its refit: the singular vectors
        of L with the values that fit the data best, in the same Huber loss. "auto" compares
        mixtures of L and its refit.
        The mixture with the least error on cells that are hidden `cv` times, as with "cv", is
        used if it gains more than half a standard error; with lam="cv", for every weight
        that is tried. A fit with lam="auto" then takes two to three times as long. Nothing is
        refitted if the noise is 0. The certificate is that of L without a refit.
    cv : int
        How many times a tenth of the cells is hidden, with ``lam="cv"`` or ``debias="auto"``.
        The default is less than the five folds of other models, since each time takes as many
        fits as there are weights to compare.
    one_standard_error : bool or "auto"
        Whether ``lam="cv"`` takes the largest weight whose error exceeds the least by at most
        one standard error of their difference. "auto" is True here.
    {tol, max_seconds, random_state, verbose}

    Attributes
    ----------
    low_rank_ : array or frame of shape (rows, columns)
        L. Frames keep their labels.
    sparse_ : array or frame of shape (rows, columns)
        S, which is zero at unobserved entries.
    outliers_ : array or frame of bool of shape (rows, columns)
        Whether an entry is an outlier: the absolute value of its residual m - l is larger than
        k and than 3.5 standard deviations of the noise. (S is nonzero for all residuals larger
        than k.)
    components_ : array of shape (rank, columns)
        Right singular vectors of L.
    singular_values_ : array of shape (rank,)
        Singular values of L.
    rank_ : int
        Rank of L.
    refit_ : float
        The share of the refit in L, see `debias`; 0 without one.
    lam_, k_, noise_ : float
        The values used. If lam was given, `noise_` is the robust standard deviation of the
        residuals. It is on the scale of the data times `column_weights`.
    column_weights_ : array of shape (columns,)
        The factors used.
    {cv_results_}
        "multiple" is lam relative to its automatic value. Scores are minus mean
        absolute errors.
    {result_, certificate_}

    Notes
    -----
    L and S are computed from factors and from a sparse matrix whenever they are accessed.
    The data are read in blocks of rows, and the fit holds no other array of their size (one
    with `column_weights`, and one while cells are hidden). The data are not centred: their
    mean is part of L.

    With noise 0, the certificate is that of principal component pursuit, and `result_` that of
    the last problem with a Huber loss in the sequence that leads to it.

    See Also
    --------
    SparseLowRank : A matrix that is low rank and sparse at the same time.
    MatrixCompletion : For tables of which few entries are known.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> L = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 40))
    >>> hit = rng.random(L.shape) < 0.05
    >>> M = L + 0.1 * rng.standard_normal(L.shape) + 10.0 * hit
    >>> model = RobustPCA(random_state=0).fit(M)
    >>> model.rank_
    2
    >>> bool((model.outliers_ & hit).sum() > 0.98 * hit.sum())
    True
    >>> refitted = RobustPCA(debias="auto", random_state=0).fit(M)
    >>> bool(np.linalg.norm(refitted.low_rank_ - L) < np.linalg.norm(model.low_rank_ - L))
    True
    """

    lam: float | Literal["auto", "cv"] = "auto"
    _: KW_ONLY
    ratio: float | Literal["auto"] = "auto"
    noise: float | Literal["auto"] = "auto"
    column_weights: Any = None
    rank: int | None = None
    debias: Debias = False
    cv: int = 3
    one_standard_error: bool | Literal["auto"] = "auto"
    tol: float = 1e-4
    _accepts = ("allow_nan",)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> RobustPCA:
        """Split the data into a low-rank part and outliers.

        Parameters
        ----------
        X : array, frame or torch tensor of shape (rows, columns)
            The data; NaN marks missing entries. A tensor is decomposed on its device.
        y : ignored
        """
        searched = isinstance(self.lam, str) and self.lam == "cv"
        integer("cv", self.cv, 2)
        simplest = self._one_standard_error(automatic=True)
        lam = None if searched else or_auto("lam", self.lam, positive)
        ratio = or_auto("ratio", self.ratio, positive)
        noise = or_auto("noise", self.noise, nonnegative)
        rank = None if self.rank is None else integer("rank", self.rank, 1, instead="None")
        shares = _shares(debiasing("debias", self.debias)) if noise != 0.0 else NONE
        if noise == 0.0 and (lam is not None or searched):
            raise InputError("lam", repr(self.lam), "'auto', with noise=0")
        data = self._read(X, reset=True)
        self._labelled = labeller(X)
        scaled = _Scaled.of(data, self.column_weights)
        check_size("X", scaled.largest, data.shape, float(np.finfo(data.dtype).max))
        # solved on the device of the data; everything else is computed on the host
        if is_torch(X):
            scaled = scaled.on(X)
        self.column_weights_ = scaled.weights
        fits = _Fits(self, scaled, ratio, None if rank is None else min(rank, *data.shape))
        self.cv_results_: dict[str, Any] = {}
        self.noise_, self.refit_, start = math.nan, 0.0, None
        self._limit: Certificate | None = None
        if noise == 0.0:
            self._pursue(fits)
        else:
            if lam is None:
                self.noise_, start = fits.noise() if noise is None else (noise, None)
                lam = fits.weight(self.noise_)
            self.lam_, self.k_ = lam, fits.ratio * lam
            if searched:
                multiple, self.refit_ = self._searched(fits, shares, simplest=simplest)
                self.lam_ *= multiple
            self.result_ = fits.solved(self.lam_, self.k_, start, trial=False)
        L = on_host(self.result_.low_rank)
        if math.isnan(self.noise_):
            places, z = scaled.sample(np.random.default_rng([self._seed, 0]))
            self.noise_ = _deviation(z - _at(L, *places))
        if not searched:
            self.refit_ = self._best_share(fits, shares)
        self._rows = RowSpace.of(L, self.lam_, k=self.k_)
        shrunk = L.trimmed()
        self._low_rank = fits.mixture(shrunk, self.k_, self.refit_) if self.refit_ else shrunk
        # what a refit multiplies the coefficients of rows by
        factors = self._low_rank.s / np.where(shrunk.s > 0.0, shrunk.s, 1.0)
        self._factors = shrunk.Vt, factors.astype(float)
        L = self._low_rank
        self._S, self._outliers = fits.outliers(L, self.k_, exact=self._limit is not None)
        s, Vt = _components(L, scaled.weights)
        order = np.argsort(-s, kind="stable")  # a refit may change it
        s, Vt = s[order], Vt[order]
        self.singular_values_, self.components_ = s, Vt
        self.rank_ = len(s)
        return self

    def _pursue(self, fits: _Fits) -> None:
        """Solve the form without noise."""

        def solve(weight: float, tol: float, start: Any) -> tuple[Problem, Result]:
            problem = fits.problem(weight, fits.ratio * weight)
            settings: dict[str, Any] = {"tol": tol, "rank": fits.rank, "start": start}
            return problem, self._solve(problem, **settings)

        rng = np.random.default_rng([self._seed, SEARCH])
        found = pursued(solve, fits.norm(), self.tol, fits.ratio, rng)
        self.result_, self.lam_, self._limit = found
        self.k_, self.noise_ = fits.ratio * self.lam_, 0.0

    def _searched(self, fits: _Fits, shares: Shares, *, simplest: bool) -> tuple[float, float]:
        """The multiple of the automatic weight that predicts hidden entries best.

        The second number is the share of the refit that is best with it.
        """
        if fits.data.count < FEWEST:
            return 1.0, shares[0]
        candidates = [Candidate(multiple) for multiple in MULTIPLES]
        search = self._hiding(fits, lambda left: left.weight(self.noise_), shares)
        # large weights that all give zero are equal, and the search must continue
        search.best_of(candidates, start="before", patience=PATIENCE, last_of_equals=True)
        found = search.scores()
        multiples = np.array([candidate.multiple for candidate in found.candidates])
        self.cv_results_ = found.table("multiple", param_lam=self.lam_ * multiples)
        plain = found.best((lambda candidate: -candidate.multiple) if simplest else None)
        best, share = _mixed(search, plain, shares)
        return float(best.multiple), share

    def _best_share(self, fits: _Fits, shares: Shares) -> float:
        """The share of the refit that predicts hidden cells best, at the weight given."""
        if len(shares) == 1 or fits.data.count < FEWEST or self._search_end.passed:
            return shares[0]
        lam, whole = self.lam_, sum(math.sqrt(side) for side in fits.sides)
        search = self._hiding(
            fits, lambda left: lam * left.weight(1.0) / whole, shares, ratio=self.k_ / lam
        )
        plain = search.best_of([Candidate(1.0)])
        return _mixed(search, plain, shares)[1] if plain in search.losses else 0.0

    def _hiding(
        self,
        fits: _Fits,
        weight: Callable[[_Fits], float],
        shares: Shares,
        *,
        ratio: float | None = None,
    ) -> Search[Candidate]:
        """A search by hidden cells, with a loss for every share of the refit."""
        folds = [fits.data.hidden([self._seed, 1, fold]) for fold in range(self.cv)]

        def trial(
            places: Any, candidate: Candidate, start: Any
        ) -> tuple[tuple[float, ...], LowRank]:
            left = fits.without(places)
            lam = weight(left)
            k = (left.ratio if ratio is None else ratio) * lam
            result = left.solved(candidate.multiple * lam, k, start, trial=True)
            found = on_host(result.low_rank)
            refits = shares != NONE
            both = [found, left.mixture(found.trimmed(), k, 1.0)] if refits else [found]
            offs = [_at(one, *places) - fits.data.Z[places] for one in both]
            # beyond the cut a cell is an outlier, which the low-rank part should not predict
            losses = (
                np.mean(np.minimum(np.abs(offs[0] + w * (offs[-1] - offs[0])), cut))
                for w in shares
            )
            return tuple(float(loss) for loss in losses), found

        cut = CUT * self.noise_
        search: Search[Candidate] = self._search(folds, trial)
        return search

    def transform(self, X: Any) -> Any:
        """Return the low-rank part of known or new rows, without outliers, noise and gaps.

        Parameters
        ----------
        X : array or frame of shape (any, columns)
            Rows like those of the data; NaN marks missing entries.

        Returns
        -------
        array of the shape of X
            Each row is fitted by the components alone, with the same loss and weights as in
            `fit`. For rows of the data these are the rows of `low_rank_`, to the accuracy of
            the fit.
        """
        check_is_fitted(self, "result_")
        rows = self._read(X, reset=False)
        found = self._rows.complete(np.asarray(rows * self.column_weights_, dtype=float))
        if self.refit_:
            Vt, factors = self._factors
            found = ((found @ Vt.T) * factors) @ Vt
        return (found / self.column_weights_).astype(rows.dtype, copy=False)

    @property
    def low_rank_(self) -> Any:
        """The low-rank part L of the data."""
        check_is_fitted(self, "result_")
        found = self._low_rank.rounded()
        found /= self.column_weights_.astype(found.dtype)
        return self._labelled(found)

    @property
    def sparse_(self) -> Any:
        """The outliers S of the data."""
        check_is_fitted(self, "result_")
        return self._labelled(self._S.toarray())

    @property
    def outliers_(self) -> Any:
        """True for each entry of the data that is an outlier."""
        check_is_fitted(self, "result_")
        return self._labelled(self._outliers.toarray())

    @property
    def certificate_(self) -> Certificate:
        """Bound on the distance of the fitted model from the optimum of its problem."""
        check_is_fitted(self, "result_")
        return self.result_.certificate if self._limit is None else self._limit

    def _read(self, X: Any, *, reset: bool) -> Values:
        X = to_numpy(X) if is_torch(X) else X
        read: Any = {"dtype": FLOATS, "ensure_all_finite": "allow-nan"}
        found: Values = validate_data(self, X, reset=reset, **read)
        return found


@dataclass(frozen=True)
class _Scaled:
    """Data times column weights, with the number of observed entries."""

    Z: Values
    weights: Values
    count: int
    there: Any = None  # the same on the device of the data, if they are a tensor

    @classmethod
    def of(cls, X: Values, weights: Any) -> _Scaled:
        count = sum(int((~np.isnan(X[rows])).sum()) for rows in row_blocks(X))
        if not count:
            raise InputError("X", "no observed entry", "at least one entry that is not NaN")
        if weights is None:
            return cls(X, np.ones(X.shape[1]), count)
        if isinstance(weights, str):
            one_of("column_weights", weights, ("scale",))
            return cls.of(X, _spreads(X) ** -1.0)
        try:
            found = np.asarray(weights, dtype=float)
        except (TypeError, ValueError):
            given = type(weights).__name__
            raise InputError("column_weights", given, "numbers, 'scale' or None") from None
        if found.shape != (X.shape[1],):
            raise ShapeError("column_weights", f"shape {found.shape}", f"({X.shape[1]},)")
        if not (np.isfinite(found).all() and (found > 0.0).all()):
            raise InputError("column_weights", "numbers <= 0 or not finite", "numbers > 0")
        return cls(X * found.astype(X.dtype), found, count)

    @property
    def largest(self) -> float:
        """The size of the largest entry."""
        Z = self.Z
        return max(float(np.nanmax(np.abs(Z[rows]), initial=0.0)) for rows in row_blocks(Z))

    def on(self, X: Any) -> _Scaled:
        """These data with a copy that is a tensor like X, or X itself."""
        plain = X.dtype in (namespace(X).float32, namespace(X).float64)
        if plain and (self.weights == 1.0).all():
            return replace(self, there=X)
        reference = X if plain else namespace(X).astype(X[:0], namespace(X).float64)
        return replace(self, there=like(self.Z, reference))

    def hidden(self, seed: Any) -> tuple[Values, Values]:
        """Positions of a tenth of the observed entries."""
        cells = np.flatnonzero(~np.isnan(self.Z))
        rng = np.random.default_rng(seed)
        chosen = rng.choice(cells, round(HIDDEN * len(cells)), replace=False)
        rows, cols = np.divmod(chosen, self.Z.shape[1])
        return rows, cols

    def sample(self, rng: np.random.Generator) -> tuple[tuple[Values, Values], Values]:
        """Positions of some observed entries, and the entries."""
        size = self.Z.size
        if size <= SAMPLE:
            rows, cols = np.nonzero(~np.isnan(self.Z))
        else:
            rows, cols = np.divmod(rng.integers(0, size, SAMPLE), self.Z.shape[1])
            seen = ~np.isnan(self.Z[rows, cols])
            rows, cols = rows[seen], cols[seen]
        return (rows, cols), self.Z[rows, cols].astype(float)


@dataclass(frozen=True)
class _Fits:
    """Fits of one model to the same data with various weights."""

    model: Any
    data: _Scaled
    given: float | None  # ratio k / lam
    rank: int | None

    @property
    def sides(self) -> tuple[float, float]:
        """Rows and columns, reduced by the share of missing entries."""
        share = self.data.count / self.data.Z.size
        m, d = self.data.Z.shape
        return share * m, share * d

    @property
    def ratio(self) -> float:
        """The weight of outliers relative to that of the nuclear norm."""
        return 1.0 / math.sqrt(max(self.sides)) if self.given is None else self.given

    def weight(self, noise: float) -> float:
        """The weight of the nuclear norm for noise of this size."""
        return noise * sum(math.sqrt(side) for side in self.sides)

    def problem(self, lam: float, k: float) -> Problem:
        """The problem with these weights."""
        data = self.data.Z if self.data.there is None else self.data.there
        return Problem(Denoising(data, loss=Huber(k)), None, NuclearNorm(lam))

    def solved(self, lam: float, k: float, start: LowRank | None, *, trial: bool) -> Result:
        """Its solution; a rough one for a trial."""
        there = self.data.there
        if there is not None and start is not None:
            start = LowRank(*(like(part, there) for part in (start.U, start.s, start.Vt)))
        settings: dict[str, Any] = {"rank": self.rank, "start": start, "trial": trial}
        if trial:
            settings |= {"tol": max(ROUGH, self.model.tol), "proof": False, "max_svds": STEPS}
        result: Result = self.model._solve(self.problem(lam, k), **settings)
        return result

    def norm(self) -> float:
        """Root of the sum of squares of the observed entries; 1 if all are zero."""
        Z = self.data.Z
        squares = (np.nansum(Z[rows].astype(float) ** 2) for rows in row_blocks(Z))
        return math.sqrt(math.fsum(squares)) or 1.0

    def noise(self) -> tuple[float, LowRank | None]:
        """The noise level that the residuals of its own fit reproduce, and the last fit."""
        rng = np.random.default_rng([self.model._seed, 0])
        places, z = self.data.sample(rng)
        least = _least(z)
        middle, order = np.zeros(self.data.Z.shape[1]), np.argsort(places[1], kind="stable")
        for column in np.split(order, np.flatnonzero(np.diff(places[1][order])) + 1):
            middle[places[1][column[0]]] = np.median(z[column])
        level, start = max(_deviation(z - middle[places[1]]), least), None
        if not level > 0.0:  # constant data
            return LEAST * float(np.abs(z).max()) or 1.0, None
        for _ in range(LEVELS):
            lam = self.weight(level)
            start = on_host(self.solved(lam, self.ratio * lam, start, trial=True).low_rank)
            m, d = self.data.Z.shape
            fitted = start.rank * (m + d - start.rank) / self.data.count
            found = _deviation(z - _at(start, *places)) / math.sqrt(max(0.1, 1.0 - fitted))
            before, level = level, min(level, max(found, least))
            if level >= STEADY * before:
                break
        return level, start

    def mixture(self, L: LowRank, k: float, share: float) -> LowRank:
        """L moved towards its refit by this share: the same vectors, with other values.

        The refit has the nonnegative values of least Huber loss, found by accelerated steps
        that each read the data once.
        """
        Z, U, Vt = self.data.Z, L.U.astype(float), L.Vt.astype(float)
        values = ahead = np.asarray(L.s, dtype=float)
        pace = 1.0
        for _ in range(PASSES):
            pull = np.zeros_like(values)
            for rows in row_blocks(Z):
                r = np.nan_to_num(Z[rows] - (U[rows] * ahead) @ Vt, nan=0.0)
                pull += np.einsum("ij,ij->j", U[rows], np.clip(r, -k, k, out=r) @ Vt.T)
            last, values = values, np.where(L.s > 0.0, np.maximum(ahead + pull, 0.0), 0.0)
            step = values - last
            if np.abs(step).max(initial=0.0) <= SETTLED * values.max(initial=0.0):
                break
            if (ahead - values) @ step > 0.0:  # it overshot
                pace = 1.0
            before, pace = pace, 0.5 + math.sqrt(0.25 + pace * pace)
            ahead = values + (before - 1.0) / pace * step
        values = (1.0 - share) * L.s + share * values
        return LowRank(L.U, values.astype(L.s.dtype), L.Vt)

    def without(self, places: Any) -> _Fits:
        """These fits with the entries at these positions hidden."""
        Z = self.data.Z.copy()
        Z[places] = np.nan
        there = None if self.data.there is None else like(Z, self.data.there)
        left = _Scaled(Z, self.data.weights, self.data.count - len(places[0]), there)
        return _Fits(self.model, left, self.given, self.rank)

    def outliers(self, L: LowRank, k: float, *, exact: bool) -> tuple[csr_array, csr_array]:
        """S in the units of the data, and the outliers as booleans, computed block by block."""
        Z, weights, cut = self.data.Z, self.data.weights, max(k, CUT * self.model.noise_)
        left, right = L.U.astype(float) * L.s, L.Vt.astype(float)
        parts = []
        for rows in row_blocks(Z):
            r = np.nan_to_num(Z[rows] - left[rows] @ right, nan=0.0)
            size = np.abs(r)
            S = np.sign(r) * (size if exact else size - k) * (size > k) / weights
            parts.append((csr_array(S.astype(Z.dtype, copy=False)), csr_array(size > cut)))
        S, hit = (vstack(column, format="csr") for column in zip(*parts, strict=True))
        return S, hit


def _shares(debias: Debias) -> Shares:
    """The shares of the refit that are compared, the simplest one first."""
    return SHARES if is_auto(debias) else (1.0,) if debias else NONE


def _mixed(
    search: Search[Candidate], plain: Candidate, shares: Shares
) -> tuple[Candidate, float]:
    """The candidate and the share of the refit that predict hidden cells best.

    If several are compared, the share is 0, with the candidate `plain`, unless a refit gains
    more than half a standard error. Of those within one standard error of the best, the
    largest weight is taken.
    """
    if len(shares) == 1:
        return plain, shares[0]
    columns = [search.scores(k) for k in range(len(shares))]
    candidates = columns[0].candidates
    options = [(one, share) for share in shares for one in candidates]
    losses = np.concatenate([column.losses for column in columns], axis=1)
    keys = [-one.multiple for one, _ in options] if len(losses) > 1 else None
    best = least(losses, keys)
    gain = losses[:, candidates.index(plain)] - losses[:, best]
    return options[best] if clearly_positive(gain, WORTH) else (plain, 0.0)


def on_host(L: LowRank) -> LowRank:
    """The factors in host memory."""
    return LowRank(to_numpy(L.U), to_numpy(L.s), to_numpy(L.Vt))


def _at(L: LowRank, rows: Values, cols: Values) -> Values:
    """Entries of L at some positions."""
    left, right = L.U.astype(float) * L.s, L.Vt.T.astype(float)
    return np.asarray(np.einsum("ij,ij->i", left[rows], right[cols]))


def _deviation(r: Values) -> float:
    """Robust standard deviation of residuals: Huber's second proposal.

    The s with mean min(r^2/s^2, c^2) = E min(g^2, c^2), g standard normal. Unlike the median,
    it accounts for a minority of residuals that are much larger than the others.
    """
    squares = np.asarray(r, dtype=float) ** 2
    tail = math.erfc(PROPOSAL / math.sqrt(2.0))
    density = math.exp(-0.5 * PROPOSAL**2) / math.sqrt(2.0 * math.pi)
    wanted = 1.0 - tail - 2.0 * PROPOSAL * density + PROPOSAL**2 * tail
    low, high = 0.0, float(squares.mean()) / wanted
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if not middle > 0.0:
            break
        inside = float(np.minimum(squares / middle, PROPOSAL**2).mean())
        low, high = (middle, high) if inside > wanted else (low, middle)
    return math.sqrt(high)


def _least(z: Values) -> float:
    """Least noise of data: a share of their spread, or the rounding of values on a grid."""
    spread = LEAST * float(np.sqrt(np.mean((z - np.median(z)) ** 2)))
    values = np.unique(z)
    if 1 < len(values) <= FEW * len(z):
        return max(spread, GRID * float(np.diff(values).min()))
    return spread


def _spreads(X: Values) -> Values:
    """Robust standard deviations of columns; plain ones, or 1, where they vanish."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns without entries
        middle = np.nanmedian(X, axis=0)
        robust = GAUSSIAN * np.nanmedian(np.abs(X - middle), axis=0)
        plain = np.nanstd(X, axis=0)
    found = np.where(robust > 0.0, robust, plain)
    return np.where(np.isfinite(found) & (found > 0.0), found, 1.0).astype(float)


def _components(L: LowRank, weights: Values) -> tuple[Values, Values]:
    """Singular values and right vectors of L in the units of the data."""
    kept = L.s > 0.0
    U, s, Vt = L.U[:, kept], L.s[kept], L.Vt[kept]
    if len(s) and not (weights == 1.0).all():
        _, s, Vt = decompositions.svd(s[:, None] * (Vt / weights))
        kept = s > max(U.shape[0], Vt.shape[1]) * np.finfo(s.dtype).eps * s[0]
        s, Vt = s[kept].astype(U.dtype), Vt[kept].astype(U.dtype)
    return s, Vt
