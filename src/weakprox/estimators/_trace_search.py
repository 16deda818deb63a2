"""Weights and radius of a trace regression, by folds with warm starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import issparse

from weakprox.linalg import decompositions
from weakprox.losses import Sensing
from weakprox.result import Result

LAMS = (0.0, 1e-2, 3e-2, 1e-1, 3e-1)  # tried prices, relative to the largest useful
TAUS = (0.1, 0.2, 0.4, 0.7, 1.0)  # tried radii, relative to the ridge solution's
RIDGE = 5e-3  # least weight of squares, relative to the mean curvature
RIDGES = RIDGE * 2.0 ** np.arange(1, 13)  # larger ones that a plain ridge regression tries
MOST = 2000  # rows or columns up to which it does
TINY = 1e-12
Matrix: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Solve: TypeAlias = Callable[..., Result]


@dataclass(frozen=True)
class Design:
    """Measurements and answers, centred where there is an intercept."""

    A: Any  # (n, m d), dense or CSR
    b: Matrix
    shape: tuple[int, int]
    centre: Matrix
    level: float

    @classmethod
    def of(cls, A: Any, b: Matrix, shape: tuple[int, int], intercept: bool) -> Design:
        """Centred data; a sparse A that has to be centred becomes dense."""
        if not intercept:
            return cls(A, b, shape, np.zeros(A.shape[1]), 0.0)
        A = A.toarray() if issparse(A) else A
        centre, level = A.mean(axis=0), float(b.mean())
        return cls(A - centre, b - level, shape, centre, level)

    @property
    def loss(self) -> Sensing:
        """Mean of half the squared residuals."""
        if issparse(self.A):
            return Sensing(self.A, self.b, shape=self.shape)
        return Sensing(self.A.reshape(-1, *self.shape), self.b)

    @property
    def curvature(self) -> float:
        """Mean eigenvalue of the Hessian."""
        squares = self.A.multiply(self.A).sum() if issparse(self.A) else np.sum(self.A**2)
        mean = float(squares) / (len(self.b) * int(self.A.shape[1]))
        return max(mean, float(TINY))

    @property
    def size(self) -> float:
        """The loss at zero."""
        return max(0.5 * float(np.mean(self.b**2)), TINY**2)

    @property
    def largest_lam(self) -> float:
        """The price at which all entries are zero."""
        return float(np.max(np.abs(self.A.T @ self.b))) / len(self.b)

    def ridges(self) -> list[float]:
        """Weights of squares to try: the least, and a plain ridge regression's own.

        The latter has the smallest generalised cross-validation error.
        """
        least = RIDGE * self.curvature
        if min(self.A.shape) > MOST:
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

    def intercept(self, coef: Matrix) -> float:
        """What makes the mean of the residuals zero."""
        return self.level - float(self.centre @ coef.ravel())


class Setting(NamedTuple):
    """Price of sizes, price of squares, bound on the nuclear norm."""

    lam1: float
    lam2: float
    tau: float


@dataclass(frozen=True)
class Tried:
    """Mean squared errors on the rows left out, (fold, setting)."""

    settings: Sequence[Setting]
    errors: Matrix

    def best(self, rule: Literal["best", "one_se"]) -> Setting:
        """The smallest mean error; or the simplest model within one standard error of it.

        Simpler is a smaller radius and, among equal ones, a larger price.
        """
        means = self.errors.mean(axis=0)
        first = int(np.argmin(means))
        if rule == "best":
            return self.settings[first]
        spread = float(self.errors[:, first].std(ddof=1)) / np.sqrt(len(self.errors))
        close = np.flatnonzero(means <= means[first] + spread).tolist()
        near = [self.settings[int(i)] for i in close]
        return min(near, key=lambda found: (found.tau, -found.lam1))

    def results(self) -> dict[str, Matrix]:
        """As scikit-learn names such things."""
        lam1, lam2, tau = np.array(self.settings, dtype=float).T
        return {
            "param_lam1": lam1,
            "param_lam2": lam2,
            "param_tau": tau,
            "mean_test_error": self.errors.mean(axis=0),
            "std_test_error": self.errors.std(axis=0),
            "split_test_error": self.errors,
        }


def tried(
    A: Any,
    b: Matrix,
    shape: tuple[int, int],
    intercept: bool,
    settings: Sequence[Setting],
    folds: Sequence[tuple[Any, Any]],
    solve: Solve,
) -> Tried:
    """Fit every setting to every fold; radii ascend within equal prices.

    The measurements of a fold are decomposed once, and each solution starts from the one
    before if the prices are the same.
    """
    errors = np.zeros((len(folds), len(settings)))
    for k, (kept, left) in enumerate(folds):
        design = Design.of(A[kept], b[kept], shape, intercept)
        loss = design.loss
        previous, X = None, None
        for i, setting in enumerate(settings):
            X = solve(design, loss, setting, X if setting[:2] == previous else None).X
            previous = setting[:2]
            found = A[left] @ X.ravel() + design.intercept(X)
            errors[k, i] = float(np.mean((found - b[left]) ** 2))
    return Tried(settings, errors)
