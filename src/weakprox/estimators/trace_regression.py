"""Regression and classification of matrices: coefficients that are low rank and sparse."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox import arguments
from weakprox.errors import InputError, ShapeError
from weakprox.estimators._base import DEPRECATED, Certified, at_most, check_size, cut
from weakprox.linalg import LowRank, decompositions
from weakprox.linalg.threads import one_thread
from weakprox.losses import Logistic, Sensing
from weakprox.losses.entry_losses import Logistic as LogisticEntry
from weakprox.losses.inputs import as_shape
from weakprox.penalties import ElasticNet
from weakprox.problem import Problem
from weakprox.result import Result
from weakprox.selection.debias import Debias, Unseen, best_refit, debiasing, refit_to
from weakprox.selection.search import Deadline, Search
from weakprox.spectral import NuclearBall

LAMS = (0.0, 1e-2, 3e-2, 1e-1, 3e-1)  # tried weights, relative to the largest useful one
TAUS = (0.1, 0.2, 0.4, 0.7, 1.0)  # tried radii, relative to the ridge solution's norm
RIDGE = 5e-3  # least weight of squares, relative to the mean curvature
RIDGES = RIDGE * 2.0 ** np.arange(1, 13)  # larger weights that a plain ridge regression tries
# The same for classes. Separable ones would need no squares, but such runs would be slow.
CLASS_LAMS, CLASS_TAUS = (0.0, 0.03, 0.1), (0.1, 0.25, 0.5, 1.0)
CLASS_RIDGES = 2.0 ** np.arange(-11, 6, 2)  # relative to the curvature
LESS = 0.1  # factor of a smaller weight that is tried as well
CLASS_FOLDS = 5
MOST = 2000  # largest number of rows or columns for which it is tried
LOOSE = 30.0  # factor by which the solves of the search are less accurate
TINY = 1e-12
READ: Any = {"accept_sparse": "csr", "dtype": np.float64}  # forms of X
Matrix: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Grid: TypeAlias = tuple[Sequence[float] | None, Sequence[float] | None]  # weights and radii


class Setting(NamedTuple):
    """A candidate: weight of sizes, weight of squares, bound on the nuclear norm."""

    lam: float
    lam2: float
    tau: float

    def complexity(self) -> tuple[float, float]:
        """Smaller for simpler models: a smaller radius and, at equal ones, a larger weight."""
        return self.tau, -self.lam


@dataclass(frozen=True)
class Design:
    """Measurements and responses, centred if there is an intercept."""

    A: Any  # (n, m d), dense or CSR
    b: Matrix
    shape: tuple[int, int]
    centre: Matrix
    level: float
    lams: ClassVar[tuple[float, ...]] = LAMS
    taus: ClassVar[tuple[float, ...]] = TAUS

    @classmethod
    def of(cls, A: Any, b: Matrix, shape: tuple[int, int], intercept: bool) -> Design:
        """Centre the data; a sparse A that has to be centred becomes dense."""
        if not intercept:
            return cls(A, b, shape, np.zeros(A.shape[1]), 0.0)
        A = A.toarray() if issparse(A) else A
        centre, level = A.mean(axis=0), float(b.mean())
        return cls(A - centre, b - level, shape, centre, level)

    @cached_property
    def loss(self) -> Sensing:
        """Mean of half the squared residuals."""
        if issparse(self.A):
            return Sensing(self.A, self.b, shape=self.shape)
        return Sensing(self.A.reshape(-1, *self.shape), self.b)

    @property
    def curvature(self) -> float:
        """Mean eigenvalue of the Hessian."""
        squares = self.A.multiply(self.A).sum() if issparse(self.A) else np.sum(self.A**2)
        return float(squares) / (len(self.b) * int(self.A.shape[1])) or 1.0

    @property
    def size(self) -> float:
        """The loss at zero, or that of rounding errors."""
        return max(0.5 * float(np.mean(self.b**2)), (TINY * self.level) ** 2) or 1.0

    def ridges(self, deadline: Deadline) -> list[float]:
        """Weights of squares to try: the least, and the best of ridge regressions (GCV)."""
        least = RIDGE * self.curvature
        if min(self.A.shape) > MOST or deadline.passed:
            return [least]
        A = self.A.toarray() if issparse(self.A) else self.A
        U, s, _ = decompositions.svd(A)
        n, along = len(self.b), U.T @ self.b
        errors = []
        for weight in self.curvature * RIDGES:
            kept = s**2 / (s**2 + 2 * n * weight)
            left = self.b @ self.b - float(np.sum((2 - kept) * kept * along**2))
            errors.append(left / max(n - 1 - float(kept.sum()), 1e-3) ** 2)
        return [least, float(self.curvature * RIDGES[int(np.argmin(errors))])]

    def ridge_solution(self, weight: float) -> Matrix | None:
        """Coefficients of a plain ridge regression; None if it would take long."""
        n, size = self.A.shape
        if min(n, size) > MOST or not weight:
            return None
        A = self.A.toarray() if issparse(self.A) else self.A
        values, Q = decompositions.eigh(A @ A.T if n < size else A.T @ A)
        # others are rounding errors
        seen = values > len(values) * np.finfo(float).eps * values[-1]
        inverse = np.where(seen, 1.0 / (np.maximum(values, 0.0) + 2 * n * weight), 0.0)
        if n < size:
            return np.asarray(A.T @ (Q @ (inverse * (Q.T @ self.b))))
        return np.asarray(Q @ (inverse * (Q.T @ (A.T @ self.b))))

    @property
    def largest(self) -> float:
        """The weight of sizes from which on all coefficients are zero."""
        return float(np.max(np.abs(self.A.T @ self.b))) / len(self.b)

    def intercept(self, coef: Matrix) -> float:
        """The intercept that makes the mean of the residuals zero."""
        return self.level - float(self.centre @ coef.ravel())

    def refit(self, coef: LowRank) -> Matrix:
        """Coefficients with the same singular vectors, whose values fit the data best."""
        coef = coef.trimmed()
        each = np.einsum("ik,kj->kij", coef.U, coef.Vt).reshape(len(coef.s), -1)
        values = np.where(coef.s > 0.0, refit_to(self.A @ each.T, self.b), 0.0)
        return np.asarray((coef.U * values) @ coef.Vt)

    @staticmethod
    def miss(answers: Matrix, found: Matrix) -> float:
        """Mean squared error."""
        return float(np.mean((found - answers) ** 2))


@dataclass(frozen=True)
class Classes(Design):
    """Measurements and classes 0 and 1; the loss contains the intercept."""

    with_intercept: bool = False
    lams = CLASS_LAMS
    taus = CLASS_TAUS

    @classmethod
    def of(cls, A: Any, b: Matrix, shape: tuple[int, int], intercept: bool) -> Classes:
        """Centre dense measurements if there is an intercept, which undoes it."""
        centre = np.zeros(A.shape[1])
        if intercept and not issparse(A):
            centre = A.mean(axis=0)
            A = A - centre
        return cls(A, b, shape, centre, 0.0, intercept)

    @cached_property
    def loss(self) -> Logistic:  # type: ignore[override]
        """Mean of the logistic losses."""
        if issparse(self.A):
            A, shape = self.A, self.shape
            return Logistic(A, self.b, shape=shape, intercept=self.with_intercept)
        return Logistic(self.A.reshape(-1, *self.shape), self.b, intercept=self.with_intercept)

    @cached_property
    def _at_zero(self) -> tuple[float, Matrix]:
        loss, zero = self.loss, np.zeros(self.shape)
        return loss.value(zero, loss.everything()), loss.grad(zero, loss.everything())

    @property
    def curvature(self) -> float:
        """Largest mean eigenvalue of the Hessian."""
        mean = super().curvature
        if self.with_intercept and issparse(self.A):  # which is not centred
            mean = max(mean - float(np.mean(np.square(self.A.mean(axis=0)))), TINY * mean)
        return 0.25 * mean

    @cached_property
    def _plain(self) -> tuple[Any, float]:
        """Measurements whose mean square is 1, as a plain regression needs, and their unit."""
        unit = 2.0 * float(np.sqrt(self.curvature))
        return self.A / unit, unit

    @property
    def size(self) -> float:
        """The loss at zero."""
        return max(self._at_zero[0], float(TINY**2))

    @property
    def largest(self) -> float:
        """The weight of sizes from which on all coefficients are zero."""
        return float(np.max(np.abs(self._at_zero[1])))

    def ridges(self, deadline: Deadline) -> list[float]:
        """Weights of squares to try: that of plain ridge logistic regression, and smaller ones.

        Weights are compared on the folds that are completed before the deadline. If there are
        none, only the least weight is returned.
        """
        weights = self.curvature * CLASS_RIDGES
        least, fewest = RIDGE * self.curvature, int(np.bincount(self.b.astype(int)).min())
        if fewest < 2:
            return [least]
        A, unit = self._plain
        Cs = unit**2 / (2.0 * len(self.b) * weights)
        folds = StratifiedKFold(min(CLASS_FOLDS, fewest)).split(A, self.b)
        losses: list[float] = []
        with warnings.catch_warnings():  # rough solutions are enough to compare weights
            warnings.simplefilter("ignore", ConvergenceWarning)
            for kept, left in folds:
                plain = LogisticRegression(fit_intercept=self.with_intercept, warm_start=True)
                for C in Cs:  # neighbours have similar solutions
                    if deadline.passed:
                        break
                    plain.set_params(C=C).fit(A[kept], self.b[kept])
                    odds = plain.decision_function(A[left])
                    losses.append(self.miss(self.b[left], odds))
        whole = len(losses) // len(Cs)  # folds with all weights
        if not whole:
            return [least]
        mean = np.reshape(losses[: whole * len(Cs)], (whole, -1)).mean(axis=0)
        best = float(weights[int(np.argmin(mean))])
        return sorted({max(LESS * best, float(weights[0])), best})

    def ridge_solution(self, weight: float) -> Matrix | None:
        """Coefficients of a plain ridge logistic regression; None if there is no weight."""
        if not weight:
            return None
        A, unit = self._plain
        C = unit**2 / (2.0 * len(self.b) * weight)
        with warnings.catch_warnings():  # a rough solution is enough for its norm
            warnings.simplefilter("ignore", ConvergenceWarning)
            plain = LogisticRegression(C=C, fit_intercept=self.with_intercept)
            return np.asarray(plain.fit(A, self.b).coef_[0]) / unit

    def intercept(self, coef: Matrix) -> float:
        """The best intercept."""
        return self.loss.intercept(coef) - float(self.centre @ coef.ravel())

    @staticmethod
    def miss(answers: Matrix, found: Matrix) -> float:
        """Mean log-loss."""
        return float(np.mean(LogisticEntry().value(answers, found)))


@dataclass(eq=False, repr=False, kw_only=True)
class _TraceModel(Certified, ABC):
    """Base of the trace models; subclasses choose the weights and radii to try."""

    lam2: float | Literal["auto"] = "auto"
    shape: tuple[int, int] | None = None
    rank: int | None = None
    fit_intercept: bool = True
    cv: Any = 5
    one_standard_error: bool | Literal["auto"] = "auto"
    tol: float = 1e-4
    _accepts = ("sparse", "three_d_array")
    _refits: ClassVar[Debias] = False  # whether coefficients are refitted
    _share = 0.0  # of the refit in the coefficients
    _by_class = False  # whether folds are stratified
    _design: ClassVar[type[Design]] = Design

    @property
    def _simplest(self) -> bool:
        """Whether the one-standard-error rule applies."""
        return self._one_standard_error(automatic=False)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the coefficients.

        Parameters
        ----------
        X : array of shape (n, m, d) or (n, m d), frame, or SciPy sparse (n, m d)
            The A_i. Sparse data stay sparse only without an intercept.
        y : array of shape (n,)
            The b_i.
        """
        return self._fit(X, y, y_numeric=True)

    def _fit(self, X: Any, y: Any, **checks: Any) -> Self:
        arguments.or_auto("lam2", self.lam2, arguments.nonnegative)
        arguments.optional_counts(rank=self.rank)
        arguments.flag("fit_intercept", self.fit_intercept)
        arguments.accuracy("tol", self.tol)
        lams, taus = self._given()
        if arguments.is_auto(self._refits) and self._simplest:
            wanted = "False or True, with one_standard_error"
            raise InputError("debias", repr(self.debias), wanted)
        rows, shape = self._flat(X)
        A, b = validate_data(self, rows, y, ensure_min_samples=2, **checks, **READ)
        b = np.asarray(self._numbers(b), dtype=float)
        self._shape = shape or (int(A.shape[1]), 1)
        if self._shape[0] * self._shape[1] != A.shape[1]:
            wanted = f"(m, d) with m d = {A.shape[1]} features"
            raise ShapeError("shape", self._shape, wanted)
        design = self._design.of(A, b, self._shape, self.fit_intercept)
        for name, values in (("X", design.A), ("y", design.b)):
            check_size(name, float(np.abs(values).max()))
        with one_thread(A.shape[0] * A.shape[1]):  # many short calls of BLAS
            chosen = self._choose(A, b, design, lams, taus)
        self.lam_, self.lam2_, self.tau_ = chosen
        problem = self._problem(design, chosen)
        solved = self._solve(problem, tol=None, eps=self.tol * design.size)
        self.result_ = cut(solved, problem, self.rank)
        self.sparse_coef_ = self._with_zeros() if chosen.lam else None
        self.coef_ = np.asarray(self.result_.X)
        if self._share:
            refit = design.refit(self.result_.low_rank)
            self.coef_ = self.coef_ + self._share * (refit - self.coef_)
        self.intercept_ = design.intercept(self.coef_)
        return self

    def _numbers(self, y: Any) -> Any:
        """The responses as numbers."""
        return y

    def _linear(self, X: Any) -> Matrix:
        """<A_i, B> + c for every A_i, given as in `fit`."""
        check_is_fitted(self, "coef_")
        rows, _ = self._flat(X)
        A = validate_data(self, rows, reset=False, **READ)
        return np.asarray(A @ self.coef_.ravel() + self.intercept_)

    def _flat(self, X: Any) -> tuple[Any, tuple[int, int] | None]:
        """The A_i as rows, and their shape as given or found."""
        given = None if self.shape is None else as_shape(self.shape)
        if issparse(X) or getattr(X, "ndim", 2) != 3:
            return X, given
        X = np.asarray(X)
        shape = (int(X.shape[1]), int(X.shape[2]))
        if given is not None and given != shape:
            raise ShapeError("shape", given, f"{shape}, that of the matrices in X")
        return X.reshape(len(X), -1), shape

    def __getattr__(self, name: str) -> Any:
        """`lam1_` is the deprecated name of `lam_`."""
        if name != "lam1_" or "lam_" not in vars(self):
            return super().__getattr__(name)
        warnings.warn("lam1_ is now called lam_", DeprecationWarning, stacklevel=2)
        return self.lam_

    @abstractmethod
    def _given(self) -> Grid:
        """Weights and radii to try, checked; None for those chosen from the data."""

    def _choose(
        self,
        A: Any,
        b: Matrix,
        design: Design,
        lams: Sequence[float] | None,
        taus: Sequence[float] | None,
    ) -> Setting:
        """The candidate of least error on the folds, or the only candidate.

        All combinations of given weights and radii are tried, and all automatic ones for the
        one-standard-error rule. Otherwise only those on a path are tried.
        """
        whole = lams is not None or taus is not None or self._simplest
        mixed = arguments.is_auto(self._refits)
        self._share = 0.0 if mixed else float(self._refits)
        if lams is None:
            lams = [share * design.largest for share in design.lams]
        lam2 = arguments.or_auto("lam2", self.lam2, arguments.nonnegative)
        settings = []
        for squares in design.ridges(self._search_end) if lam2 is None else [lam2]:
            radii = taus
            if radii is None:
                norm = self._free_norm(design, squares) or 1.0
                radii = [share * norm for share in design.taus]
            settings += [Setting(lam, squares, tau) for lam in lams for tau in radii]

        def prepare(fold: tuple[Any, Any]) -> tuple[Design, Any, Matrix]:
            kept, left = fold
            part = self._design.of(A[kept], b[kept], self._shape, self.fit_intercept)
            return part, A[left], b[left]

        def trial(
            data: tuple[Design, Any, Matrix], setting: Setting, start: Any
        ) -> tuple[Any, Result]:
            part, unseen, answers = data
            result = self._rough(part, setting, start)
            limited = cut(result, self._problem(part, setting), self.rank)

            def predicted(B: Matrix) -> Matrix:
                return np.asarray(unseen @ B.ravel() + part.intercept(B))

            if not self._refits:
                return part.miss(answers, predicted(limited.X)), result
            refitted = predicted(part.refit(limited.low_rank))
            if not mixed:
                return part.miss(answers, refitted), result
            return Unseen.of(predicted(limited.X), refitted, answers), result

        if len(settings) == 1 and not mixed:
            self.cv_results_ = {}
            return settings[0]
        # no more folds than rows, or than rows of a class
        most = int(np.bincount(b.astype(int)).max()) if self._by_class else len(b)
        if most < 2 and arguments.is_integer(self.cv):
            few = "two rows of one class at least, or numbers for lam, lam2 and tau"
            raise InputError("y", "one row of each class", few)
        cv = check_cv(at_most(self.cv, most), b, classifier=self._by_class)
        folds = list(cv.split(A, b))
        search: Search[Setting] = self._search(folds, trial, prepare=prepare)
        if whole:  # radii of the same weights start from each other's answers
            for weights in dict.fromkeys(one[:-1] for one in settings):
                row = [one for one in settings if one[:-1] == weights]
                search.best_of(row, start="before")
        else:
            _walk(search, settings)
        found = search.scores()
        self.cv_results_ = found.table()
        best: Setting = found.best(Setting.complexity if self._simplest else None)
        if mixed:
            best, self._share = best_refit(search, best)
        return best

    def _free_norm(self, design: Design, squares: float) -> float:
        """Nuclear norm of the solution without a bound and with lam = 0."""
        plain = design.ridge_solution(squares)
        if plain is None:
            return self._rough(design, Setting(0.0, squares, np.inf)).low_rank.nuclear_norm
        return float(np.sum(decompositions.svdvals(plain.reshape(design.shape))))

    def _rough(self, design: Design, setting: Setting, start: Any = None) -> Result:
        """Solve the certified problem less accurately, for the search."""
        problem, eps = self._problem(design, setting), LOOSE * self.tol * design.size
        return self._unproved(problem, start, eps=eps)

    def _problem(self, design: Design, setting: Setting) -> Problem:
        """The certified problem."""
        penalty, radius = ElasticNet(setting.lam, setting.lam2), setting.tau
        if not np.isfinite(radius):  # above every solution, whose value is at most that of zero
            curvature = design.loss.strong_convexity + penalty.curvature
            curvature = max(curvature, TINY * design.curvature)
            radius = 2 * float(np.sqrt(2 * min(design.shape) * design.size / curvature))
        return Problem(design.loss, penalty, NuclearBall(radius))


@dataclass(eq=False, repr=False, kw_only=True)
class _Regression(RegressorMixin, _TraceModel):
    """Trace models for numeric responses."""

    debias: Debias = False

    @property
    def _refits(self) -> Debias:  # type: ignore[override]
        return debiasing("debias", self.debias)

    @property
    def refit_(self) -> float:
        """The share of the refit in `coef_`; 0 without one."""
        check_is_fitted(self, "coef_")
        return self._share

    def predict(self, X: Any) -> Matrix:
        """<A_i, B> + c for every A_i, given as in `fit`."""
        return self._linear(X)


@dataclass(eq=False, repr=False)
class TraceRegression(_Regression):
    r"""Linear regression with a low-rank, sparse matrix of coefficients.

    Minimises, over matrices B of nuclear norm at most `tau` and an intercept c,

    .. math::
       \frac1n \sum_i \tfrac12 (\langle A_i, B\rangle + c - b_i)^2
       + \lambda_1 \|B\|_1 + \lambda_2 \|B\|_F^2 ,

    the paper's Example 3. Features are not scaled, and centred only by the intercept.

    Parameters
    ----------
    lam : float or "auto"
        :math:`\lambda_1`, the weight of the l1 norm.
    tau : float, None or "auto"
        Bound on the nuclear norm; None for no bound.
    lam2 : float or "auto"
        :math:`\lambda_2`, the weight of the squares. "auto" tries two: 0.005 times the mean
        curvature of the loss, enough for strong convexity and little otherwise, and the
        weight of a plain ridge regression (by generalised cross-validation; not if both
        sides of the design exceed 2000).
    shape : (int, int), optional
        Shape of B, if the A_i are rows of m d numbers (in C order). Without it B is one column:
        an elastic net, whose nuclear norm is the Euclidean norm.
    {rank}
    fit_intercept : bool
        Whether to include the intercept c.
    cv : int, splitter or iterable
        Folds for "auto", as in scikit-learn. The candidates are 0 and 0.01 to 0.3 times the
        weight at which B is zero for lam, and 0.1 to 1 times the nuclear norm of the solution
        with lam2 alone for tau. If lam and tau are automatic, one path with warm starts goes
        through them: tau at lam = 0, lam at the best tau, tau at the best lam. Otherwise all
        of them are tried. Those with the smallest mean squared error are chosen, and only their
        solution is certified.
    one_standard_error : bool or "auto"
        Whether to take the simplest candidate (smallest tau, then largest lam) whose error
        exceeds the least by at most one standard error of their difference; all
        combinations are tried then. "auto" is False here.
    debias : bool or "auto"
        Whether to undo the shrinkage of B. True replaces B by its refit: the singular vectors
        of B with the values that fit the data best. "auto" compares, for every candidate,
        mixtures of B and its refit; `one_standard_error` is not available with it.
        The mixture with the least error on the folds is used if it gains more than half a
        standard error. The certificate refers to B.
    tol : float
        Accuracy of the certified problem, relative to the loss at zero.
    {max_seconds, random_state, verbose}
    lam1 : deprecated
        Use `lam`.

    Attributes
    ----------
    coef_ : array of shape (m, d)
        B, or its mixture with a refit, see `debias`.
    refit_ : float
        The share of the refit in `coef_`.
    sparse_coef_ : csr_array or None
        B with exact zeros, and therefore not exactly low-rank; ``result_.sparse`` has
        its value and certificate. None if lam is 0 or nothing is proved.
    intercept_ : float
        c.
    lam_, lam2_, tau_ : float
        The values used; `tau_` is infinite if there is no bound.
    {cv_results_}
        Scores are minus mean squared errors.
    {result_, certificate_}

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import TraceRegression
    >>> rng = np.random.default_rng(0)
    >>> B = np.outer([1.0, 1.0, 0.0, 0.0], [0.0, 2.0, 2.0])
    >>> A = rng.standard_normal((80, 4, 3))
    >>> b = np.tensordot(A, B, 2) + 0.1 * rng.standard_normal(80)
    >>> model = TraceRegression().fit(A, b)
    >>> model.coef_.shape, bool(model.score(A, b) > 0.95)
    ((4, 3), True)
    """

    lam: float | Literal["auto"] = "auto"
    tau: float | Literal["auto"] | None = "auto"
    _: KW_ONLY
    lam1: Any = DEPRECATED

    def _given(self) -> Grid:
        return _lists(self._renamed("lam1", "lam"), self.tau)


@dataclass(eq=False, repr=False)
class TraceRegressionCV(_Regression):
    """`TraceRegression` with weight and radius chosen from a grid by cross-validation.

    Parameters
    ----------
    lams : "auto" or sequence of float
        Weights to try; by default those of `TraceRegression`. All combinations with `taus` are
        tried, unless both are automatic and `one_standard_error` is not True: then the path of
        `TraceRegression` is used.
    taus : "auto" or sequence of float
        Bounds on the nuclear norm to try, infinity for none; by default those of
        `TraceRegression`.
    lam2, shape, rank, fit_intercept, cv, one_standard_error, debias
        As in `TraceRegression`.
    tol, max_seconds, random_state, verbose
        As in `TraceRegression`.
    lam1s, rule : deprecated
        Use `lams` and `one_standard_error`.

    Attributes
    ----------
    coef_, refit_, sparse_coef_, intercept_, lam_, lam2_, tau_, cv_results_, result_
        As in `TraceRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import TraceRegressionCV
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((60, 4, 3))
    >>> b = A[:, 1, 1] + A[:, 1, 2] + 0.1 * rng.standard_normal(60)
    >>> model = TraceRegressionCV(lams=[0.01, 0.1], taus=[0.5, 1.5]).fit(A, b)
    >>> model.lam_, model.tau_
    (0.01, 1.5)
    """

    lams: Any = "auto"
    taus: Any = "auto"
    _: KW_ONLY
    lam1s: Any = DEPRECATED
    rule: Any = DEPRECATED

    @property
    def _simplest(self) -> bool:
        rule = self._renamed("rule", "one_standard_error")
        return rule == "one_se" if rule in ("one_se", "best") else super()._simplest

    def _given(self) -> Grid:
        if self.rule != DEPRECATED:
            arguments.one_of("rule", self.rule, ("one_se", "best"))
        lams = _listed("lams", self._renamed("lam1s", "lams"), arguments.nonnegative)
        taus = _listed("taus", self.taus, arguments.bound)
        return lams, None if taus is None else sorted(taus)


@dataclass(eq=False, repr=False)
class TraceClassifier(ClassifierMixin, _TraceModel):
    r"""Logistic regression with a low-rank, sparse matrix of coefficients.

    Two classes of matrices (images, tables, signals of several channels). Minimises, over
    matrices B of nuclear norm at most `tau` and an intercept c,

    .. math::
       \frac1n \sum_i \bigl(\log(1 + e^{t_i}) - y_i t_i\bigr)
       + \lambda_1 \|B\|_1 + \lambda_2 \|B\|_F^2, \qquad t_i = \langle A_i, B\rangle + c ,

    where :math:`y_i` is 1 for the second of the sorted classes. Features are not scaled.

    Parameters
    ----------
    lam : float or "auto"
        :math:`\lambda_1`, the weight of the l1 norm.
    tau : float, None or "auto"
        Bound on the nuclear norm; None for no bound.
    lam2 : float or "auto"
        :math:`\lambda_2`, the weight of the squares. "auto" tries that of a plain ridge
        logistic regression, which is found by five folds (but at least 0.0005 times the
        mean curvature), and a tenth of it.
    shape : (int, int), optional
        Shape of B, if the A_i are rows of m d numbers (in C order). Without it B is one
        column.
    {rank}
    fit_intercept : bool
        Whether to include the intercept c.
    cv : int, splitter or iterable
        Folds for "auto", stratified if a number is given. It tries 0, 0.03 and 0.1 times the
        weight at which B is zero for lam, and 0.1 to 1 times the nuclear norm of the solution
        with lam2 alone for tau, along a path as in `TraceRegression`, and chooses those with
        the smallest log-loss. The solution with lam2 alone is a plain ridge logistic
        regression.
    one_standard_error : bool or "auto"
        Whether to take the simplest candidate (smallest tau, then largest lam) whose error
        exceeds the least by at most one standard error of their difference; all
        combinations are tried then. "auto" is False here.
    tol : float
        Accuracy of the certified problem, relative to the loss at zero.
    {max_seconds, random_state, verbose}

    Attributes
    ----------
    classes_ : array of shape (2,)
        The classes.
    coef_ : array of shape (m, d)
        B.
    sparse_coef_ : csr_array or None
        B with exact zeros; None if lam is 0 or nothing is proved.
    intercept_ : float
        c.
    lam_, lam2_, tau_ : float
        The values used; `tau_` is infinite if there is no bound.
    {cv_results_}
        Scores are minus mean log-losses.
    {result_, certificate_}

    See Also
    --------
    TraceRegression : For numeric responses.
    weakprox.losses.Logistic : The loss.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import TraceClassifier
    >>> rng = np.random.default_rng(0)
    >>> B = np.outer([2.0, 2.0, 0.0, 0.0], [0.0, 1.0, 1.0])
    >>> A = rng.standard_normal((200, 4, 3))
    >>> y = np.where(np.tensordot(A, B, 2) + rng.logistic(size=200) > 0, "yes", "no")
    >>> model = TraceClassifier(random_state=0).fit(A, y)
    >>> model.coef_.shape, bool(model.score(A, y) > 0.8)
    ((4, 3), True)
    """

    lam: float | Literal["auto"] = "auto"
    tau: float | Literal["auto"] | None = "auto"
    _design = Classes
    _by_class = True

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the coefficients.

        Parameters
        ----------
        X : array of shape (n, m, d) or (n, m d), frame, or SciPy sparse (n, m d)
            The A_i.
        y : array of shape (n,)
            The classes, two of them.
        """
        return self._fit(X, y)

    def decision_function(self, X: Any) -> Matrix:
        """Log-odds of the second class, <A_i, B> + c."""
        return self._linear(X)

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities of both classes, one row for every A_i."""
        second = LogisticEntry().mean(self._linear(X))
        return np.stack([1.0 - second, second], axis=1)

    def predict_log_proba(self, X: Any) -> Matrix:
        """Logarithms of the probabilities of both classes."""
        odds = self._linear(X)
        return -np.logaddexp(0.0, np.stack([odds, -odds], axis=1))

    def predict(self, X: Any) -> Any:
        """The more likely class of every A_i."""
        second = self._linear(X) > 0.0
        return self.classes_[second.astype(int)]

    def _numbers(self, y: Any) -> Any:
        """The classes as 0 and 1; their labels are stored."""
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if kind != "binary":
            text = f"Only binary classification is supported. The type of the target is {kind}."
            raise ValueError(text)
        if len(self.classes_) < 2:
            raise InputError("y", "one class", "two classes")
        return numbers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _given(self) -> Grid:
        return _lists(self.lam, self.tau)


def _lists(lam: Any, tau: Any) -> Grid:
    """One weight and one radius as lists, None for those that are automatic."""
    lam = arguments.or_auto("lam", lam, arguments.nonnegative)
    tau = arguments.or_auto("tau", tau, arguments.bound)
    return None if lam is None else [lam], None if tau is None else [tau]


def _walk(search: Search[Setting], settings: Sequence[Setting]) -> None:
    """Try candidates on a path through the grid, each from the previous answer.

    For each weight of squares, the path follows the radii at the first weight of sizes, which
    is 0, and then the weights of sizes at the best radius. It ends with the radii at the best
    of these weights. It may miss the best candidate of the whole grid, but needs fewer solves.
    """
    ends = []
    for squares in dict.fromkeys(one.lam2 for one in settings):
        row = [one for one in settings if one.lam2 == squares]
        radii = [one for one in row if one.lam == row[0].lam]
        best = search.best_of(radii, start="before")
        weights = [one for one in row if one.tau == best.tau]
        ends.append(search.best_of(weights, start="before"))
    ends = [one for one in ends if one in search.losses]  # there may have been no time
    best = min(ends, key=search.mean)
    search.best_of([one for one in settings if one[:2] == best[:2]], start="before")


def _listed(name: str, values: Any, check: Any) -> list[float] | None:
    """The values as a list of floats, None for "auto" or None."""
    if values is None or arguments.is_auto(values):
        return None
    try:
        found = [check(name, value) for value in values]
    except TypeError:
        raise InputError(name, repr(values), "a sequence of numbers, or 'auto'") from None
    if not found:
        raise InputError(name, "none", "at least one value")
    return found
