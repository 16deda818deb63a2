"""Smooth losses: values, and lower models <slope, V> + a/2 |V|^2 + constant of them.

By strong convexity a, G(V) >= G(X0) + <g, V - X0> + a/2 |V - X0|^2 for every V, where g is
the gradient at X0. So the slope is g - a X0 and the constant G(X0) - <g, X0> + a/2 |X0|^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from weakprox.verifier import sums
from weakprox.verifier.entries import Entries
from weakprox.verifier.sums import Matrix, Model, Near, Point, U, added, norm, total

GRAM_BELOW = 2000  # entries of X up to which a smallest eigenvalue is computed


@dataclass(frozen=True)
class Squares:
    """G = 1/2 |X - M|^2; `read(first, last)` gives rows of M, `relative` their accuracy.

    Its model does not depend on X0: the slope is -M and the constant 1/2 |M|^2.
    """

    read: Callable[[int, int], Any]
    shape: tuple[int, int]
    relative: float = 0.0
    infimum: ClassVar[float | None] = 0.0

    def _rows(self, first: int, last: int) -> Matrix:
        return np.asarray(self.read(first, last), dtype=np.float64)

    def value(self, X: Point) -> Near:
        squares, size, apart = [], 0.0, 0.0
        for first, last in sums.blocks(*self.shape):
            M = self._rows(first, last)
            D = X.rows(first, last) - M
            squares.append(0.5 * total(D * D))
            size, apart = math.hypot(size, norm(M)), math.hypot(apart, norm(D))
        value = math.fsum(squares)
        far = U * apart + X.error + self.relative * size  # of the entries of D
        return Near(value, far * apart + far**2 + 4 * U * value)

    def model(self, X0: Point | None, claimed: float, symmetric: bool) -> Model:
        """Strong convexity 1, whatever is claimed."""
        squares, size = [], 0.0
        for first, last in sums.blocks(*self.shape):
            M = self._rows(first, last)
            squares.append(0.5 * total(M * M))
            size = math.hypot(size, norm(M))
        value = math.fsum(squares)
        constant = Near(value, 4 * U * value + self.relative * size * size)
        rows = lambda first, last: -self._rows(first, last)  # noqa: E731
        return Model(rows, self.relative * size, constant, 1.0)


@dataclass(frozen=True)
class Measurements:
    """G = 1/(2n) sum (<A_i, X> - b_i)^2; `read()` gives (rows of vec(A_i)', b) in blocks."""

    read: Callable[[], Iterator[tuple[Any, Any]]]
    count: int
    shape: tuple[int, int]
    relative: float = 0.0  # accuracy of their entries
    infimum: ClassVar[float | None] = 0.0

    def _parts(self) -> Iterator[tuple[Matrix, Matrix]]:
        for F, b in self.read():
            yield np.asarray(F, dtype=np.float64), np.asarray(b, dtype=np.float64)

    def _residual(
        self, F: Matrix, b: Matrix, x: Matrix, error: float
    ) -> tuple[Matrix, Matrix, Near]:
        """Residuals at x, bounds on their errors, and half the sum of their squares."""
        r = F @ x - b
        far = ((x.size + 2) * U + self.relative) * (np.abs(F) @ np.abs(x))
        far = far + norms(F) * error + 2 * U * np.abs(r)
        value = 0.5 * total(r * r)
        return r, far, Near(value, float(np.abs(r) @ far + far @ far) + 4 * U * value)

    def value(self, X: Point) -> Near:
        x = X.rows(0, self.shape[0]).reshape(-1)
        parts = [self._residual(F, b, x, X.error)[2] for F, b in self._parts()]
        return added(parts).times(1.0 / self.count)

    def model(self, X0: Point | None, claimed: float, symmetric: bool) -> Model:
        """Strong convexity by the smallest eigenvalue of the mean Gram matrix."""
        assert X0 is not None
        (m, d), n = self.shape, self.count
        X = X0.rows(0, m)
        if symmetric:
            X = (X + X.T) / 2  # then X0 is this matrix
        x = X.reshape(-1)
        a, trusted = self.convexity(claimed, symmetric)
        g, values, error = np.zeros(m * d), [], 0.0
        for F, b in self._parts():
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
        """The claimed strong convexity, or that of the data if it is less.

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
        for F, _ in self._parts():
            if symmetric:
                F = vectors(F.reshape(-1, m, m))
            gram += F.T @ F
            lengths += float(np.sum(F * F))
        least = float(np.linalg.eigvalsh(gram)[0])
        allowance = safety * ((2 * n + 10 * size) * U + 2 * self.relative) * lengths
        return max(0.0, min(claimed, (least - allowance) / n * (1 - 4 * U))), ()


@dataclass(frozen=True)
class OwnLoss:
    """A loss given by the user's functions, which are trusted."""

    function: Callable[[Matrix], float]
    grad: Callable[[Matrix], Any]
    shape: tuple[int, int]
    strong: float
    eps: float
    infimum: float | None = None

    def value(self, X: Point) -> Near:
        return sums.trusted_value(self.function(X.rows(0, self.shape[0])), self.eps)

    def model(self, X0: Point | None, claimed: float, symmetric: bool) -> Model:
        """By the user's functions and constant."""
        assert X0 is not None
        X = X0.rows(0, self.shape[0])
        a = min(claimed, self.strong)
        value = sums.trusted_value(self.function(X), self.eps)
        g = np.asarray(self.grad(X), dtype=np.float64)
        trusted: tuple[str, ...] = ("the functions of the loss",)
        trusted += ("its strong convexity",) if a else ()
        trusted += ("its infimum",) if self.infimum is not None else ()
        return Model.at(X, value, g, 16 * self.eps * norm(g), a, trusted)


def vectors(F: Matrix) -> Matrix:
    """Symmetric parts as vectors with the same inner products with symmetric matrices."""
    i, j = np.triu_indices(F.shape[1])
    S = (F + F.transpose(0, 2, 1)) / 2
    return np.asarray(S[:, i, j] * np.where(i == j, 1.0, math.sqrt(2.0)))


def norms(F: Matrix) -> Matrix:
    """Norms of the rows, never below the exact ones."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", F, F)) * (1 + F.shape[1] * U))


Loss: TypeAlias = Squares | Entries | Measurements | OwnLoss
