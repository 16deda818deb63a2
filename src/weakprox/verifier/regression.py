"""Least squares of several responses on the same features.

With a free intercept for each response, G(B) = 1/(2n) |Y - X B - 1 c'|^2 at the best c. If the
residuals of some c have the mean d, then G(B) is 1/2 |d|^2 less than this, and the gradient
changes by 1/n X'1 d'. So any c near the best one is sufficient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from weakprox.verifier.measurements import GRAM_BELOW, norms
from weakprox.verifier.sums import Matrix, Model, Near, Point, U, added, norm, total


@dataclass(frozen=True)
class Regression:
    """G = 1/(2n) |Y - X B|^2; `read()` gives rows of X and Y in blocks.

    With an intercept, G is the minimum over one for each response.
    """

    read: Callable[[], Iterator[tuple[Any, Any]]]
    count: int
    shape: tuple[int, int]
    intercept: bool = False
    infimum: ClassVar[float | None] = 0.0

    def _parts(self) -> Iterator[tuple[Matrix, Matrix]]:
        for F, Y in self.read():
            yield np.asarray(F, dtype=np.float64), np.asarray(Y, dtype=np.float64)

    def _at(self, B: Matrix, error: float) -> tuple[Near, Matrix, float]:
        """G, its gradient and a bound on the gradient's error; B is within `error` as well."""
        n, c = self.count, np.zeros(self.shape[1])
        if self.intercept:
            c = np.sum([(Y - F @ B).sum(axis=0) for F, Y in self._parts()], axis=0) / n
        g, lost, halves = np.zeros(self.shape), 0.0, []
        left, apart, rows = np.zeros(self.shape[1]), 0.0, 0.0
        for F, Y in self._parts():
            R = Y - F @ B - c
            sizes, lengths = norms(R), norms(F)
            far = (self.shape[0] + 4) * U * norms(np.abs(F) @ np.abs(B))
            far += lengths * error + 4 * U * (sizes + norm(c))  # row by row
            half = 0.5 * total(R * R)
            halves.append(Near(half, float(sizes @ far + far @ far) + 4 * U * half))
            g -= F.T @ (R / n)
            lost += float((far + (len(F) + 4) * U * sizes) @ lengths) / n + U * norm(g)
            left += R.sum(axis=0)
            apart += float(far.sum()) + n * U * float(sizes.sum())
            rows += float(lengths.sum())
        mean = (norm(left) + apart) / n if self.intercept else 0.0  # at least |d|
        value = added(halves).times(1.0 / n)
        return Near(value.value, value.error + mean**2), g, lost + mean * rows / n

    def value(self, X: Point) -> Near:
        """Return G at X, the coefficients."""
        return self._at(X.rows(0, self.shape[0]), X.error)[0]

    def model(self, X0: Point, claimed: float, symmetric: bool) -> Model:
        """Strong convexity by the smallest eigenvalue of the Gram matrix."""
        B = X0.rows(0, self.shape[0])
        if symmetric:
            B = (B + B.T) / 2  # then X0 is this matrix
        a, trusted = self.convexity(claimed, symmetric)
        value, g, error = self._at(B, 0.0)
        return Model.at(B, value, g, error, a, trusted)

    def convexity(
        self, claimed: float, symmetric: bool, safety: float = 1.0
    ) -> tuple[float, tuple[str, ...]]:
        """The claimed strong convexity, or that of the data if it is smaller.

        `safety` multiplies the allowance for rounding.
        """
        p, n = self.shape[0], self.count
        if claimed <= 0.0 or p > n - self.intercept:
            return 0.0, ()
        if p > GRAM_BELOW:
            return claimed, ("the strong convexity of the loss",)
        c = np.zeros(p)
        if self.intercept:
            c = np.sum([F.sum(axis=0) for F, _ in self._parts()], axis=0) / n
        gram, left, sizes, lengths = np.zeros((p, p)), np.zeros(p), 0.0, 0.0
        for F, _ in self._parts():
            Z = F - c
            gram += Z.T @ Z
            left += Z.sum(axis=0)
            sizes += float(norms(Z).sum())
            lengths += float(np.sum(F * F)) + float(np.sum(Z * Z))
        lost = safety * (2 * n + 10 * p + 4) * U * lengths
        if self.intercept:  # the exact mean of the rows of Z, times n
            off = norm(left) + (n + 4) * U * (sizes + n * norm(c))
            lost += off**2 / n
        least = float(np.linalg.eigvalsh(gram)[0])
        return max(0.0, min(claimed, (least - lost) / n * (1 - 4 * U))), ()
