"""What trace regressions share: inputs, folds, the certified problem, predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import RegressorMixin
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox.arguments import flag, nonnegative, positive
from weakprox.errors import InputError, ShapeError
from weakprox.estimators._base import Certified
from weakprox.estimators._trace_search import TINY, Design, Matrix, Setting, tried
from weakprox.losses import Sensing
from weakprox.losses.inputs import as_shape
from weakprox.penalties import ElasticNet
from weakprox.problem import Problem
from weakprox.result import Result
from weakprox.spectral import NuclearBall

LOOSE = 10.0  # how much less accurate solutions may be that only choices rest on


class TraceModel(RegressorMixin, Certified, ABC):
    """Subclasses say which prices and radii to try, and by which rule to pick."""

    lam2: float | Literal["auto"]
    shape: tuple[int, int] | None
    fit_intercept: bool
    cv: Any
    tol: float

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the coefficients.

        Parameters
        ----------
        X : array of shape (n, m, d) or (n, m d), frame, or SciPy sparse (n, m d)
            The A_i. A sparse one stays so only without an intercept.
        y : array of shape (n,)
            The b_i.
        """
        self._check()
        rows, shape = self._flat(X)
        A, b = validate_data(
            self,
            rows,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            y_numeric=True,
            ensure_min_samples=2,
        )
        b = np.asarray(b, dtype=float)
        self._shape = shape or (int(A.shape[1]), 1)
        if self._shape[0] * self._shape[1] != A.shape[1]:
            wanted = f"(m, d) with m d = {A.shape[1]} features"
            raise ShapeError("shape", self._shape, wanted)
        design = Design.of(A, b, self._shape, self.fit_intercept)
        loss = design.loss
        chosen = self._choose(A, b, design, loss)
        self.lam1_, self.lam2_, self.tau_ = chosen
        self.result_ = self._solution(design, loss, chosen)
        self.coef_ = np.asarray(self.result_.X)
        self.intercept_ = design.intercept(self.coef_)
        return self

    def predict(self, X: Any) -> Matrix:
        """<A_i, B> + c for every A_i, given as in `fit`."""
        check_is_fitted(self, "coef_")
        rows, _ = self._flat(X)
        A = validate_data(self, rows, accept_sparse="csr", dtype=np.float64, reset=False)
        found: Matrix = A @ self.coef_.ravel() + self.intercept_
        return found

    def __sklearn_tags__(self) -> Any:
        """Sparse data are welcome; stacks of matrices too."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags

    @abstractmethod
    def _lams(self, design: Design) -> Sequence[float]:
        """Prices to try."""

    @abstractmethod
    def _taus(self, free: Callable[[], float]) -> Sequence[float]:
        """Radii to try, ascending; `free` finds the nuclear norm without a bound."""

    def _rule(self) -> Literal["best", "one_se"]:
        """How to pick."""
        return "best"

    def _check(self) -> None:
        """Raise on settings that cannot work, before any work."""
        if not is_auto(self.lam2):
            nonnegative("lam2", self.lam2)
        flag("fit_intercept", self.fit_intercept)
        positive("tol", self.tol)

    def _flat(self, X: Any) -> tuple[Any, tuple[int, int] | None]:
        """The A_i as rows, and the shape they have or were said to have."""
        given = None if self.shape is None else as_shape(self.shape)
        if issparse(X) or getattr(X, "ndim", 2) != 3:
            return X, given
        X = np.asarray(X)
        shape = (int(X.shape[1]), int(X.shape[2]))
        if given is not None and given != shape:
            raise ShapeError("shape", given, f"{shape}, that of the matrices in X")
        return X.reshape(len(X), -1), shape

    def _grid(self, design: Design, loss: Sensing) -> list[Setting]:
        """All settings to try, radii ascending within equal prices."""
        squares = design.ridges() if is_auto(self.lam2) else [float(self.lam2)]
        found = []
        for lam2 in squares:

            def free(lam2: float = lam2) -> float:
                ridge = self._quick(design, loss, Setting(0.0, lam2, np.inf), None)
                return ridge.low_rank.nuclear_norm

            taus = self._taus(free)
            found += [Setting(lam1, lam2, tau) for lam1 in self._lams(design) for tau in taus]
        return found

    def _choose(self, A: Any, b: Matrix, design: Design, loss: Sensing) -> Setting:
        """What was given, or what does best on the folds."""
        self.cv_results_: dict[str, Matrix] = {}
        settings = self._grid(design, loss)
        if len(settings) == 1:
            return settings[0]
        folds = list(self._folds(len(b)).split(A, b))
        found = tried(A, b, self._shape, self.fit_intercept, settings, folds, self._quick)
        self.cv_results_ = found.results()
        return found.best(self._rule())

    def _folds(self, n: int) -> Any:
        """The splitter, with no more folds than rows."""
        cv = self.cv
        if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
            if cv < 2:
                raise InputError("cv", repr(cv), "an integer >= 2, a splitter or an iterable")
            cv = min(int(cv), n)
        return check_cv(cv)

    def _quick(self, design: Design, loss: Sensing, setting: Setting, start: Any) -> Result:
        """A solution that only choices rest on."""
        accuracy = LOOSE * self.tol
        return self._solution(
            design, loss, setting, accuracy=accuracy, start=start, progress=False
        )

    def _solution(
        self,
        design: Design,
        loss: Sensing,
        setting: Setting,
        *,
        accuracy: float | None = None,
        **settings: Any,
    ) -> Result:
        """Of the certified problem."""
        penalty, tau = ElasticNet(setting.lam1, setting.lam2), setting.tau
        radius = tau if np.isfinite(tau) else _reach(design, loss, penalty)
        eps = (self.tol if accuracy is None else accuracy) * design.size
        problem = Problem(loss, penalty, NuclearBall(max(radius, TINY)))
        return self._solve(problem, tol=None, eps=eps, **settings)


def _reach(design: Design, loss: Sensing, penalty: ElasticNet) -> float:
    """A nuclear norm above that of every solution, whose value is at most that of zero."""
    curvature = max(loss.strong_convexity + penalty.curvature, TINY)
    return 2 * float(np.sqrt(2 * min(design.shape) * design.size / curvature)) + TINY


def is_auto(setting: Any) -> bool:
    """Whether a setting is to be chosen."""
    return isinstance(setting, str) and setting == "auto"
