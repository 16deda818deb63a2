"""Regression of several responses with coefficients of low rank."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox import arguments
from weakprox.display import counted
from weakprox.errors import InputError
from weakprox.estimators._base import Certified, at_most, cut
from weakprox.linalg.decompositions import eigh, svd
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Custom, Regression
from weakprox.penalties import L1, ElasticNet, GroupL2
from weakprox.problem import Problem
from weakprox.result import Result
from weakprox.selection.search import Search, clearly_positive
from weakprox.spectral import NuclearBall, NuclearNorm

Matrix: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Ridge: TypeAlias = float | tuple[float, ...]  # the same for all responses, or one for each
READ: Any = {"accept_sparse": "csr", "dtype": np.float64}
RIDGES = 10.0 ** np.linspace(-5.0, 3.0, 17)  # tried weights, relative to the mean curvature
FEWER = (1.0, 0.0)  # shares of the best ridge that are tried with a nuclear norm
STEP, WEIGHTS, PATIENCE = 0.5, 9, 2  # falling weights of the nuclear norm
NEAR = (2.0**0.5, 2.0**-0.5)  # factors of the best of them that are tried last
SHARES = (0.01, 0.03, 0.1, 0.3)  # shares of the weight at which all coefficients are zero
# standard errors that must be gained by a low rank, by a sparse penalty, which was asked for,
# and by a response with a ridge weight of its own
LOW_RANK, SPARSE, OWN = 1.0, 0.5, 2.0
ROUGH = 1e-3  # relative accuracy of trials
FLAT = 1e-12  # spread of a column, relative to its size, below which it is rounding error
TINY = 1e-8  # least share of a residual that belongs to its row
DENSE = 4_000_000  # entries up to which a sparse X may be made dense
ROOM = 1.01  # factor for the radius of a ball that should not bind


class Setting(NamedTuple):
    """A candidate: weights of the nuclear norm, of squares and of the sparse penalty."""

    lam: float
    ridge: Ridge
    sparsity_weight: float = 0.0

    @property
    def common(self) -> float:
        """The weight of squares that a penalty states; the rest is part of the loss."""
        return 0.0 if isinstance(self.ridge, tuple) else self.ridge

    @property
    def simplicity(self) -> tuple[float, ...]:
        """A key that is smaller for simpler candidates: larger weights."""
        return -self.lam, -self.sparsity_weight, -float(np.mean(self.ridge))


class OwnRidges(Custom):
    r"""Least squares, and squares of the coefficients with a weight for each response.

    .. math:: G(B) = \tfrac1{2n} \|Y - X B\|_F^2 + \tfrac12 \sum_k \rho_k \|b_k\|^2
    """

    _trusted = True

    def __init__(self, loss: Regression, ridges: tuple[float, ...]) -> None:
        self._loss, self._ridges = loss, np.array(ridges)
        largest = loss.smoothness + max(ridges)
        constants: Any = {"smoothness": largest, "term_smoothness": largest, "infimum": 0.0}
        constants["strong_convexity"] = loss.strong_convexity + min(ridges)
        super().__init__(loss.shape, value=self._half_squares, grad=self._slope, **constants)

    def __repr__(self) -> str:
        return f"OwnRidges({self._loss!r})"

    def _half_squares(self, B: Matrix) -> float:
        squares = float(np.sum(B * B, axis=0) @ self._ridges)
        return self._loss.value(B, slice(None)) + 0.5 * squares

    def _slope(self, B: Matrix) -> Matrix:
        return np.asarray(self._loss.grad(B, slice(None)) + B * self._ridges)


@dataclass(frozen=True, eq=False)
class Design:
    """Scaled features and responses, with their loss."""

    loss: Regression
    features: int  # before a change of basis

    @cached_property
    def _spectrum(self) -> tuple[Matrix, Matrix]:
        gram = self.loss.gram
        assert gram is not None
        values, vectors = eigh(gram)
        return np.maximum(values, 0.0), vectors

    def stated(self, setting: Setting) -> Regression | OwnRidges:
        """The loss of a candidate."""
        ridge = setting.ridge
        return OwnRidges(self.loss, ridge) if isinstance(ridge, tuple) else self.loss

    @property
    def slope(self) -> Matrix:
        """Negative gradient at zero."""
        return np.asarray(-self.loss.origin[1])

    @property
    def curvature(self) -> float:
        """Mean eigenvalue of the Gram matrix of the features."""
        return float(np.sum(self._spectrum[0])) / self.features or 1.0

    def ridge(self, weight: Ridge) -> Matrix:
        """The solution with squares only; the one of least norm if the weight is zero."""
        values, vectors = self._spectrum
        least = values[-1] * len(values) * np.finfo(float).eps
        total = values[:, None] + np.atleast_1d(weight)
        inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > least)
        return np.asarray(vectors @ (inverse * (vectors.T @ self.slope)))

    def limited(self, B: Matrix, setting: Setting, rank: int | None) -> Matrix:
        """The best B P of at most this rank, P a projection of the responses.

        Best for the squares of a candidate, without its other penalties, if B is the solution.
        """
        if rank is None or rank >= min(B.shape):
            return B
        image = self.loss.centred(B) / math.sqrt(self.loss.n_terms)
        V = svd(np.vstack([image, math.sqrt(np.mean(setting.ridge)) * B]))[2][:rank]
        return np.asarray(B @ V.T @ V)

    @cached_property
    def best_ridges(self) -> tuple[float, Ridge]:
        """The weight of squares with the least leave-one-out error without other penalties.

        Also returns weights in which responses have another one where it is clearly better, or
        the same weight if none has.
        """
        loss, (values, vectors) = self.loss, self._spectrum
        along = loss.centred(vectors) ** 2 / loss.n_terms
        weights = self.curvature * RIDGES
        leverages = along @ (1.0 / (values[:, None] + weights))
        leverages += 1.0 / loss.n_terms if loss.intercept else 0.0

        def squares(each: Any) -> Matrix:
            """Squared errors of rows left out, with the weights of these indices."""
            away = loss.residuals(self.ridge(weights[each]))
            rest = np.maximum(1.0 - leverages[:, each], TINY)
            return np.asarray((away / rest.reshape(len(away), -1)) ** 2)

        errors = np.array([squares(k).mean(axis=0) for k in range(len(weights))])
        common, own = int(np.argmin(errors.mean(axis=1))), np.argmin(errors, axis=0)
        best = np.full(len(own), common)
        if (own != common).any():
            better = clearly_positive(squares(best) - squares(own), OWN)
            best = np.where(better, own, common)
        weight, same = float(weights[common]), bool((best == common).all())
        return weight, weight if same else tuple(weights[best].tolist())


@dataclass(eq=False, repr=False)
class ReducedRankRegressor(MultiOutputMixin, RegressorMixin, Certified):
    r"""Linear regression of several responses with coefficients of low rank.

    Minimises, over matrices B of shape (features, responses) and intercepts c,

    .. math::
        \frac1{2n} \|Y - X B - 1 c^\top\|_F^2 + \lambda \|B\|_* + \tfrac{\rho}{2} \|B\|_F^2
        + \alpha\, R(B)

    for features and responses that are divided by their standard deviations, if `scale` is
    set. R is zero, the sum of the norms of rows, or the sum of absolute values. Responses whose
    noise differs may have different weights :math:`\rho_k` of the squares of their
    coefficients, see `ridge`.

    Parameters
    ----------
    lam : float or "auto"
        :math:`\lambda`, the weight of the nuclear norm. "auto" chooses it by cross-validation,
        along a path that starts at B = 0. Ridge regression (lam = 0) is a candidate, and is
        chosen unless a low rank predicts better.
    ridge : float or "auto"
        :math:`\rho`. "auto" uses the best one for ridge regression, by leave-one-out
        cross-validation, and also tries 0 with a nuclear norm. Without one, a response for
        which another weight is better by more than two standard errors gets that one.
    sparsity : {None, "rows", "entries"}
        The penalty R: none, one that removes features, or one that removes single
        coefficients.
    sparsity_weight : float or "auto"
        :math:`\alpha`, if there is a penalty. "auto" chooses it by cross-validation, after the
        others.
    {rank}
        It is kept by a projection of the responses: of the solution without a nuclear norm, it
        gives reduced-rank (ridge) regression.
    fit_intercept : bool
        Whether there are intercepts.
    scale : bool
        Whether features and responses are divided by their standard deviations (root mean
        squares without intercepts).
    cv : int, splitter or iterable
        Folds for "auto", as in scikit-learn.
    one_standard_error : bool or "auto"
        Whether to take the simplest candidate (largest lam, then sparsest) whose error exceeds
        the least by at most one standard error of their difference. "auto" replaces ridge
        regression if the gain exceeds one standard error, and takes the best of the other
        candidates.
    {tol, max_seconds, random_state, verbose}

    Attributes
    ----------
    coef_ : array of shape (responses, features)
        Coefficients of the data as given; of shape (features,) if y has one axis.
    sparse_coef_ : csr_array of shape (responses, features) or None
        The same with exact zeros, and therefore not exactly low-rank; ``result_.sparse`` has
        the value and certificate. None if `sparsity_weight_` is 0 or nothing is proved.
    intercept_ : array of shape (responses,) or float
        c.
    rank_ : int
        Rank of the coefficients.
    lam_, sparsity_weight_ : float
        The weights used.
    ridge_ : float or tuple of floats
        The weight of the squares, or one for each response.
    {cv_results_}
        Scores are minus mean squared errors, in variances of the responses. "param_ridge" is
        the mean weight.
    {result_, certificate_}

    Notes
    -----
    With lam = 0 the problem that is certified has a bound on the nuclear norm that does not
    change its optimum. If `ridge_` has several weights, a proof file does not contain the data,
    and its checker trusts the values of the loss. With more features than rows and without
    `sparsity` (if X is sparse, up to four million entries in all), the problem is solved, and
    certified, in an orthonormal basis of the rows of X, which does not change the optimum;
    `result_` refers to that basis. Otherwise a sparse X stays sparse. Fits of one fold share
    one Gram matrix. With `sparsity`, more than 2000 features and fewer rows, no Gram matrix is
    formed, and ridge regression is not tried.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import ReducedRankRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 12))
    >>> B = rng.standard_normal((12, 1)) @ rng.standard_normal((1, 6))
    >>> Y = X @ B + rng.standard_normal((80, 6))
    >>> model = ReducedRankRegressor().fit(X, Y)
    >>> bool(np.linalg.norm(model.coef_.T - B) < 0.3 * np.linalg.norm(B))
    True
    """

    lam: float | Literal["auto"] = "auto"
    _: KW_ONLY
    ridge: float | Literal["auto"] = "auto"
    sparsity: Literal["rows", "entries"] | None = None
    sparsity_weight: float | Literal["auto"] = "auto"
    rank: int | None = None
    fit_intercept: bool = True
    scale: bool = True
    cv: Any = 5
    one_standard_error: bool | Literal["auto"] = "auto"
    tol: float = 1e-4
    _accepts = ("sparse",)

    def fit(self, X: Any, y: Any) -> ReducedRankRegressor:
        """Learn the coefficients.

        Parameters
        ----------
        X : array or frame of shape (n, features), or SciPy sparse
            Features.
        y : array or frame of shape (n, responses) or (n,)
            Responses.
        """
        check = arguments.nonnegative
        given = {name: arguments.or_auto(name, getattr(self, name), check) for name in
                 ("lam", "ridge", "sparsity_weight")}  # fmt: skip
        arguments.one_of("sparsity", self.sparsity, (None, "rows", "entries"))
        arguments.optional_counts(rank=self.rank)
        arguments.flag("fit_intercept", self.fit_intercept)
        arguments.flag("scale", self.scale)
        arguments.accuracy("tol", self.tol)
        if issparse(y):
            raise InputError("y", "a sparse matrix", "an array; y.toarray() makes one")
        options: Any = {"multi_output": True, "y_numeric": True, "ensure_min_samples": 2}
        X, y = validate_data(self, X, y, **READ, **options)
        Y = np.asarray(y, dtype=float).reshape(len(y), -1)
        over_x, over_y = self._scales(X), self._scales(Y)
        X = csr_array(X) if issparse(X) else X  # of which `*` is the product of entries
        X, Y = csr_array(X * (1.0 / over_x)) if issparse(X) else X / over_x, Y / over_y
        n, p = X.shape
        few = not issparse(X) or n * p <= DENSE
        wide = self.sparsity is None and n < p and few
        X, lifted = _rotated(X) if wide else (X, np.asarray)
        design = Design(Regression(X, Y, intercept=self.fit_intercept), p)
        self.cv_results_ = {}
        chosen = self._choose(X, Y, design, **given)
        self.lam_, self.ridge_, self.sparsity_weight_ = chosen
        problem, start = self._stated(design, chosen)

        def nearest(found: LowRank, rank: int) -> LowRank:
            return LowRank(*svd(design.limited(found.dense(), chosen, rank))).leading(rank)

        self.result_ = cut(self._solve(problem, start=start), problem, self.rank, nearest)
        B = np.asarray(self.result_.X)
        self.rank_ = self.result_.low_rank.rank
        exact = self._with_zeros() if chosen.sparsity_weight else None
        per_response = np.outer(over_y, 1.0 / over_x)
        self.sparse_coef_ = None if exact is None else csr_array(exact.T * per_response)
        loss = design.loss
        level = (loss.response_means - loss.feature_means @ B) * over_y
        coef = (lifted(B) * over_y / over_x[:, None]).T
        self.coef_ = coef if y.ndim == 2 else coef[0]
        self.intercept_ = level if y.ndim == 2 else float(level[0])
        return self

    def predict(self, X: Any) -> Matrix:
        """Predict responses.

        Parameters
        ----------
        X : array or frame of shape (k, features), or SciPy sparse
            Features.

        Returns
        -------
        array of shape (k, responses) or (k,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **READ)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def _scales(self, X: Any) -> Matrix:
        """Standard deviations of columns, or root mean squares; one for constant columns."""
        if not self.scale:
            return np.ones(X.shape[1])
        if not issparse(X):
            mean = np.mean(X, axis=0) if self.fit_intercept else np.zeros(X.shape[1])
            spread, size = np.mean((X - mean) ** 2, axis=0), np.mean(X * X, axis=0)
            flat = spread <= FLAT**2 * size  # the differences are rounded, not the squares
        else:
            size, mean = np.asarray(X.multiply(X).mean(axis=0)), np.asarray(X.mean(axis=0))
            size = size.ravel()
            spread = size - mean.ravel() ** 2 if self.fit_intercept else size
            flat = spread <= FLAT * size
        return np.asarray(np.where(flat, 1.0, np.sqrt(np.abs(spread))))

    def _choose(
        self,
        X: Any,
        Y: Matrix,
        design: Design,
        lam: float | None,
        ridge: float | None,
        sparsity_weight: float | None,
    ) -> Setting:
        """Choose missing settings by folds: ridge, nuclear norm, sparse penalty."""
        rule = arguments.or_auto("one_standard_error", self.one_standard_error, arguments.flag)
        weight = 0.0 if self.sparsity is None else sparsity_weight
        if lam is not None and ridge is not None and weight is not None:
            return Setting(lam, ridge, weight)

        def prepare(fold: tuple[Any, Any]) -> tuple[Design, Any, Matrix]:
            kept, left = fold
            loss = Regression(X[kept], Y[kept], intercept=self.fit_intercept)
            return Design(loss, design.features), X[left], Y[left]

        def trial(
            data: tuple[Design, Any, Matrix], setting: Setting, start: Any
        ) -> tuple[float, Matrix]:
            part, unseen, answers = data
            if setting.lam == setting.sparsity_weight == 0.0 and part.loss.gram is not None:
                B = part.ridge(setting.ridge)
            else:
                B = np.asarray(self._solution(part, setting, trial=True, start=start).X)
            loss, answer = part.loss, part.limited(B, setting, self.rank)
            found = loss.response_means + unseen @ answer - loss.feature_means @ answer
            return float(np.mean((found - answers) ** 2)), B

        search: Search[Setting] = self._search(self._folds(X, Y), trial, prepare=prepare)
        best = self._simplest(search, design, lam, ridge, weight or 0.0)
        if lam is None:
            best = self._path(search, design, best, ridge)
        if weight is None:
            top = self._largest(design)
            line = [best, *(best._replace(sparsity_weight=share * top) for share in SHARES)]
            found = search.best_of(line, start="best")
            best = _better(search, best, found, SPARSE)
        scores = search.scores()
        told = [c._replace(ridge=float(np.mean(c.ridge))) for c in scores.candidates]
        self.cv_results_ = replace(scores, candidates=told).table()
        if rule is not None:
            best = scores.best(attrgetter("simplicity") if rule else None)
        return best

    def _folds(self, X: Any, Y: Matrix) -> list[Any]:
        folds = list(check_cv(at_most(self.cv, len(Y))).split(X, Y))
        return folds if min(len(kept) for kept, _ in folds) > 1 else folds[:1]

    def _simplest(
        self,
        search: Search[Setting],
        design: Design,
        lam: float | None,
        ridge: float | None,
        weight: float,
    ) -> Setting:
        """Ridge regression, or B = 0 if that is too large; other weights as given or zero."""
        squares: Ridge = 0.0 if ridge is None else ridge
        if ridge is None and design.loss.gram is not None:
            squares = design.best_ridges[0 if lam else 1]
        if lam is None and design.loss.gram is None:
            lam = float(np.linalg.norm(design.slope, 2)) or 1.0
        return search.best_of([Setting(lam or 0.0, squares, weight)])

    def _path(
        self, search: Search[Setting], design: Design, simple: Setting, ridge: float | None
    ) -> Setting:
        """The best candidate along falling weights of the nuclear norm, or the simple one."""
        top = float(np.linalg.norm(design.slope, 2))
        if not top > 0.0:
            return simple
        best, squares = simple, ridge
        if squares is None:
            squares = 0.0 if design.loss.gram is None else design.best_ridges[0]
        for share in FEWER if ridge is None and squares else (1.0,):
            there = simple._replace(ridge=share * squares)
            line = [there._replace(lam=top * STEP**k) for k in range(1, WEIGHTS + 1)]
            found = search.best_of(line, start="before", patience=PATIENCE)
            if found in search.losses:
                best = min(best, found, key=search.mean)
        if best is not simple:
            line = [best, *(best._replace(lam=factor * best.lam) for factor in NEAR)]
            best = search.best_of(line, start="best")
        return _better(search, simple, best, LOW_RANK)

    def _largest(self, design: Design) -> float:
        """The least weight of the sparse penalty at which all coefficients are zero."""
        sizes = np.abs(design.slope)
        if self.sparsity == "rows":
            sizes = np.linalg.norm(design.slope, axis=1)
        return float(sizes.max()) or 1.0

    def _penalty(self, setting: Setting) -> Any:
        """Squares and the sparse penalty; None if both weights are zero."""
        if self.sparsity == "rows" and setting.sparsity_weight > 0.0:
            group = GroupL2(setting.sparsity_weight, "rows")
            return group + ElasticNet(0.0, 0.5 * setting.common) if setting.common else group
        if setting.common > 0.0:
            return ElasticNet(setting.sparsity_weight, 0.5 * setting.common)
        return L1(setting.sparsity_weight) if setting.sparsity_weight > 0.0 else None

    def _solution(
        self, design: Design, setting: Setting, *, trial: bool = False, start: Any = None
    ) -> Result:
        """Solve the certified problem, less accurately in trials."""
        problem, start = self._stated(design, setting, start)
        settings = {"tol": ROUGH} if trial else {}
        return self._solve(problem, trial=trial, start=start, **settings)

    def _stated(
        self, design: Design, setting: Setting, start: Any = None
    ) -> tuple[Problem, Any]:
        """The certified problem, and a point to start from."""
        spectral: Any = NuclearNorm(setting.lam) if setting.lam > 0.0 else None
        if spectral is None:
            radius, first = self._radius(design, setting)
            start = first if start is None else start
            if start is not None:  # inside the ball, so that a larger one does not bind either
                radius = max(radius, ROOM * float(np.linalg.norm(start, "nuc")))
            spectral = NuclearBall(radius)
        return Problem(design.stated(setting), self._penalty(setting), spectral), start

    def _radius(self, design: Design, setting: Setting) -> tuple[float, Any]:
        """A bound on the nuclear norm that some solution does not reach, and a first point."""
        loss = design.stated(setting)
        first = None if design.loss.gram is None else design.ridge(setting.ridge)
        if first is not None and setting.sparsity_weight == 0.0:  # it is a solution
            return ROOM * float(np.linalg.norm(first, "nuc")) or 1.0, first
        # f at zero, which f at a solution does not exceed,
        most, bounds = design.loss.origin[0], []
        if first is not None:  # or at the first point
            value = loss.value(first, slice(None)) + self._penalty(setting).value(first)
            most = min(most, value)
        if setting.sparsity_weight > 0.0:  # the penalty is at least the nuclear norm
            bounds.append(most / setting.sparsity_weight)
        convexity = loss.strong_convexity + setting.common
        if convexity > 0.0:
            bounds.append(math.sqrt(min(loss.shape) * 2.0 * most / convexity))
        if not bounds:
            given = f"{self.ridge!r}, with lam = 0 and {counted(loss.shape[0], 'feature')}"
            raise InputError("ridge", given, "a number > 0 with this many features")
        return ROOM * min(bounds) or 1.0, first


def _rotated(X: Any) -> tuple[Matrix, Callable[[Matrix], Matrix]]:
    """X in an orthonormal basis of its rows, and the map from its coefficients to those of X.

    With fewer rows than features, the coefficients of least norms are combinations of the
    rows, and their norms do not depend on the basis.
    """
    Q, R = np.linalg.qr((X.toarray() if issparse(X) else X).T)
    return np.ascontiguousarray(R.T), lambda B: np.asarray(Q @ B)


def _better(search: Search[Setting], simple: Setting, other: Setting, errors: float) -> Setting:
    """The other candidate, if it gains so many standard errors of the difference."""
    gains = np.subtract(search.losses[simple], search.losses[other])
    return other if clearly_positive(gains, errors) else simple
