"""Regression on matrices: coefficients that are low rank and sparse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from weakprox.arguments import nonnegative, positive
from weakprox.errors import InputError
from weakprox.estimators._trace_model import TraceModel, is_auto
from weakprox.estimators._trace_search import LAMS, TAUS, TINY, Design


class TraceRegression(TraceModel):
    r"""Linear regression with a low-rank, sparse matrix of coefficients.

    Minimises, over matrices B of nuclear norm at most `tau` and an intercept c,

    .. math::
       \frac1n \sum_i \tfrac12 (\langle A_i, B\rangle + c - b_i)^2
       + \lambda_1 \|B\|_1 + \lambda_2 \|B\|_F^2 ,

    the paper's Example 3. Features are neither centred nor scaled beforehand, apart from
    what the intercept does.

    Parameters
    ----------
    lam1 : float or "auto"
        Price of the sizes of entries.
    tau : float, None or "auto"
        Bound on the nuclear norm; None for no bound.
    lam2 : float or "auto"
        Price of the squares of entries. "auto" tries two: 0.005 times the mean curvature of
        the loss, enough for strong convexity and little otherwise, and what suits a plain
        ridge regression (by generalised cross-validation; left out where both sides of the
        design exceed 2000).
    shape : (int, int), optional
        Shape of B, where the A_i come as rows of m d numbers (in C order). Without it they
        are one column: an elastic net, whose nuclear norm is the Euclidean one.
    fit_intercept : bool
        Whether there is a c.
    cv : int, splitter or iterable
        Folds for "auto", as in scikit-learn: of lam1 (0, and 0.01 to 0.3 times the price
        at which all is zero), lam2 and tau (0.1 to 1 times the nuclear norm of the solution
        with lam2 alone), those with the smallest mean squared error are taken.
    tol : float
        Accuracy of the certified problem, relative to the loss at zero.
    max_seconds : float, optional
        Limit for one solution.
    random_state : int, RandomState or None
        Seed of the solver.
    verbose : bool
        Show progress of the last solution.

    Attributes
    ----------
    coef_ : array of shape (m, d)
        B.
    intercept_ : float
        c.
    lam1_, lam2_, tau_ : float
        What was used; `tau_` is infinite where there is no bound.
    cv_results_ : dict
        Tried `param_lam1`, `param_lam2` and `param_tau` with `mean_test_error`,
        `std_test_error` and `split_test_error` (mean squared errors); empty without a
        choice.
    result_ : Result
        The certified solution.
    n_features_in_, feature_names_in_
        As in scikit-learn.

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

    def __init__(
        self,
        lam1: float | Literal["auto"] = "auto",
        tau: float | Literal["auto"] | None = "auto",
        *,
        lam2: float | Literal["auto"] = "auto",
        shape: tuple[int, int] | None = None,
        fit_intercept: bool = True,
        cv: Any = 5,
        tol: float = 1e-4,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.lam1 = lam1
        self.tau = tau
        self.lam2 = lam2
        self.shape = shape
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.tol = tol
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    def _check(self) -> None:
        super()._check()
        if not is_auto(self.lam1):
            nonnegative("lam1", self.lam1)
        if self.tau is not None and not is_auto(self.tau):
            positive("tau", self.tau)

    def _lams(self, design: Design) -> Sequence[float]:
        return useful_lams(design) if is_auto(self.lam1) else [float(self.lam1)]

    def _taus(self, free: Callable[[], float]) -> Sequence[float]:
        if is_auto(self.tau):
            return useful_taus(free())
        return [np.inf if self.tau is None else float(self.tau)]


class TraceRegressionCV(TraceModel):
    """`TraceRegression` whose price and radius are chosen from a grid by folds.

    Parameters
    ----------
    lam1s : sequence of float, optional
        Prices to try; those that `TraceRegression` tries if not given.
    taus : sequence of float, optional
        Bounds on the nuclear norm to try, infinity among them if wanted; likewise.
    rule : {"one_se", "best"}
        "best" takes the pair with the smallest mean squared error over the folds,
        "one_se" the simplest (smallest tau, then largest lam1) within one standard error
        of it.
    lam2, shape, fit_intercept, cv, tol, max_seconds, random_state, verbose
        As in `TraceRegression`.

    Attributes
    ----------
    coef_, intercept_, lam1_, lam2_, tau_, cv_results_, result_
        As in `TraceRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import TraceRegressionCV
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((60, 4, 3))
    >>> b = A[:, 1, 1] + A[:, 1, 2] + 0.1 * rng.standard_normal(60)
    >>> model = TraceRegressionCV(lam1s=[0.01, 0.1], taus=[0.5, 1.5]).fit(A, b)
    >>> model.lam1_, model.tau_
    (0.01, 1.5)
    """

    def __init__(
        self,
        lam1s: Sequence[float] | None = None,
        taus: Sequence[float] | None = None,
        *,
        rule: Literal["one_se", "best"] = "one_se",
        lam2: float | Literal["auto"] = "auto",
        shape: tuple[int, int] | None = None,
        fit_intercept: bool = True,
        cv: Any = 5,
        tol: float = 1e-4,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.lam1s = lam1s
        self.taus = taus
        self.rule = rule
        self.lam2 = lam2
        self.shape = shape
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.tol = tol
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    def _check(self) -> None:
        super()._check()
        if self.rule not in ("one_se", "best"):
            raise InputError("rule", repr(self.rule), "'one_se' or 'best'")
        for name, least in (("lam1s", nonnegative), ("taus", _radius)):
            values = getattr(self, name)
            if values is not None and not [
                least(name, value) for value in _listed(name, values)
            ]:
                raise InputError(name, "none", "at least one value")

    def _rule(self) -> Literal["best", "one_se"]:
        return self.rule

    def _lams(self, design: Design) -> Sequence[float]:
        return useful_lams(design) if self.lam1s is None else [float(x) for x in self.lam1s]

    def _taus(self, free: Callable[[], float]) -> Sequence[float]:
        if self.taus is None:
            return useful_taus(free())
        return sorted(float(tau) for tau in self.taus)


def useful_lams(design: Design) -> list[float]:
    """Zero, and shares of the price at which all entries are zero."""
    return [share * design.largest_lam for share in LAMS]


def useful_taus(free: float) -> list[float]:
    """Shares of the nuclear norm without price and bound."""
    return [max(share * free, TINY) for share in TAUS]


def _radius(name: str, value: Any) -> float:
    """A positive number, or infinity for no bound."""
    if isinstance(value, (float, np.floating)) and value == np.inf:
        return float(value)
    return positive(name, value)


def _listed(name: str, values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise InputError(name, repr(values), "a sequence of numbers, or None") from None
