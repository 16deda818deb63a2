"""Losses of linear measurements: squares, and binary outcomes.

For outcomes, any numbers q with 0 <= q_i <= 1 where y_i = 1 and -1 <= q_i <= 0 where y_i = 0
give the lower model

    G(V) >= -<S, V> - 1/n sum of l*(y_i, -q_i),  S = 1/n sum of q_i A_i,

with l* the negative entropy of |q_i|. If the intercept is free, the sum of q has to be zero.
As in `entries`, q are multiples of a power of two, so that this can be tested in integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from weakprox.verifier.entries import Intercepts, LogisticEntry, OnEntries, summable
from weakprox.verifier.sums import Dense, Matrix, Model, Near, Point, U, added, norm, total

GRAM_BELOW = 2000  # entries of X up to which a smallest eigenvalue is computed


@dataclass(frozen=True)
class Measurements:
    """G = 1/(2n) sum (<A_i, X> - b_i)^2; `read()` gives (rows of vec(A_i)', b) in blocks."""

    read: Callable[[], Iterator[tuple[Any, Any]]]
    count: int
    shape: tuple[int, int]
    relative: float = 0.0  # accuracy of their entries
    infimum: ClassVar[float | None] = 0.0

    def parts(self) -> Iterator[tuple[Matrix, Matrix]]:
        """The blocks in float64."""
        for F, b in self.read():
            yield np.asarray(F, dtype=np.float64), np.asarray(b, dtype=np.float64)

    def products(self, F: Matrix, x: Matrix, error: float) -> tuple[Matrix, Matrix]:
        """<A_i, x>, and bounds on their errors; x is within `error` of the exact one."""
        far = ((x.size + 2) * U + self.relative) * (np.abs(F) @ np.abs(x))
        return F @ x, far + norms(F) * error

    def _residual(
        self, F: Matrix, b: Matrix, x: Matrix, error: float
    ) -> tuple[Matrix, Matrix, Near]:
        """Residuals at x, bounds on their errors, and half the sum of their squares."""
        t, far = self.products(F, x, error)
        r = t - b
        far = far + 2 * U * np.abs(r)
        value = 0.5 * total(r * r)
        return r, far, Near(value, float(np.abs(r) @ far + far @ far) + 4 * U * value)

    def value(self, X: Point) -> Near:
        x = X.rows(0, self.shape[0]).reshape(-1)
        parts = [self._residual(F, b, x, X.error)[2] for F, b in self.parts()]
        return added(parts).times(1.0 / self.count)

    def model(self, X0: Point, claimed: float, symmetric: bool) -> Model:
        """Strong convexity by the smallest eigenvalue of the mean Gram matrix."""
        (m, d), n = self.shape, self.count
        X = X0.rows(0, m)
        if symmetric:
            X = (X + X.T) / 2  # then X0 is this matrix
        x = X.reshape(-1)
        a, trusted = self.convexity(claimed, symmetric)
        g, values, error = np.zeros(m * d), [], 0.0
        for F, b in self.parts():
            r, far, value = self._residual(F, b, x, 0.0)
            g += F.T @ (r / n)
            values.append(value)
            lengths = norms(F)
            error += float((far + (len(b) + 4) * U * np.abs(r)) @ lengths) / n
            error += self.relative * float(np.abs(r) @ lengths) / n
            error += U * norm(g)
        value = added(values).times(1.0 / n)
        return Model.at(X, value, g.reshape(m, d), error, a, trusted)

    def convexity(
        self, claimed: float, symmetric: bool, safety: float = 1.0
    ) -> tuple[float, tuple[str, ...]]:
        """The claimed strong convexity, or that of the data if it is smaller.

        `safety` multiplies the allowance for rounding.
        """
        (m, d), n = self.shape, self.count
        size = m * (m + 1) // 2 if symmetric else m * d
        if claimed <= 0.0 or size > n:
            return 0.0, ()
        if size > GRAM_BELOW:
            return claimed, ("the strong convexity of the loss",)
        gram = np.zeros((size, size))
        lengths = 0.0
        for F, _ in self.parts():
            if symmetric:
                F = vectors(F.reshape(-1, m, m))
            gram += F.T @ F
            lengths += float(np.sum(F * F))
        least = float(np.linalg.eigvalsh(gram)[0])
        allowance = safety * ((2 * n + 10 * size) * U + 2 * self.relative) * lengths
        return max(0.0, min(claimed, (least - allowance) / n * (1 - 4 * U))), ()


@dataclass(frozen=True)
class Outcomes:
    """G = 1/n sum of log(1 + e^t) - y t with t = <A_i, X> + c; c is 0, or free.

    `measured` has the outcomes y, 0 or 1, in the place of b.
    """

    measured: Measurements
    intercepts: str = "none"  # "mean" if c is free
    infimum: ClassVar[float | None] = 0.0
    quadratic: ClassVar[bool] = False
    ridge: ClassVar[float] = 0.0
    entry: ClassVar[LogisticEntry] = LogisticEntry()

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of X."""
        return self.measured.shape

    @property
    def count(self) -> int:
        """Number of outcomes."""
        return self.measured.count

    @property
    def limits(self) -> tuple[Any, Any]:
        """Smallest and largest q of each outcome."""
        y = np.concatenate([y for _, y in self.measured.parts()])
        return self.entry.limits(y, 1.0)

    @property
    def length(self) -> float:
        """Upper bound on the norm of all A_i together, divided by their number."""
        return norm(np.concatenate([norms(F) for F, _ in self.measured.parts()])) / self.count

    def value(self, X: Point, intercepts: Intercepts | None = None) -> Near:
        """Mean of the losses at X and this intercept."""
        free = intercepts is not None and self.intercepts != "none"
        c = intercepts.mean if intercepts is not None and free else 0.0
        x, parts = X.rows(0, self.shape[0]).reshape(-1), []
        for F, y in self.measured.parts():
            t, far = self.measured.products(F, x, X.error)
            far = far + 2 * U * (np.abs(t) + abs(c))
            found = self.entry.at(y, t + c)
            error = 8 * U * total(found.sizes) + float(found.slopes @ far + far @ far)
            parts.append(Near(total(found.values), error))
        return added(parts).times(1.0 / self.count)

    def model(self, at: Any, claimed: float, symmetric: bool) -> Model:
        """The model by conjugates; the constant is minus infinity unless q is feasible."""
        assert isinstance(at, OnEntries)
        q = np.ldexp(np.asarray(at.integers, dtype=np.float64), at.exponent)
        n, relative = self.count, self.measured.relative
        feasible = self.intercepts == "none" or (
            summable(at.integers) and not np.asarray(at.integers, dtype=np.int64).sum()
        )
        g, error, parts, first = np.zeros(math.prod(self.shape)), 0.0, [], 0
        for F, y in self.measured.parts():
            some = q[first : first + len(y)]
            first += len(y)
            low, high = self.entry.limits(y, 1.0)
            feasible = feasible and bool(np.all((some >= low) & (some <= high)))
            values, sizes = self.entry.conjugate(y, some, 1.0)
            parts.append(Near(-total(values), 8 * U * total(sizes)))
            g -= F.T @ (some / n)
            error += ((len(y) + 4) * U + relative) * float(np.abs(some) @ norms(F)) / n
            error += U * norm(g)
        constant = added(parts).times(1.0 / n) if feasible else Near(-math.inf)
        return Model(Dense(g.reshape(self.shape)).rows, error, constant, 0.0)


def vectors(F: Matrix) -> Matrix:
    """Symmetric parts as vectors with the same inner products with symmetric matrices."""
    i, j = np.triu_indices(F.shape[1])
    S = (F + F.transpose(0, 2, 1)) / 2
    return np.asarray(S[:, i, j] * np.where(i == j, 1.0, math.sqrt(2.0)))


def norms(F: Matrix) -> Matrix:
    """Norms of the rows, never below the exact ones."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", F, F)) * (1 + F.shape[1] * U))
