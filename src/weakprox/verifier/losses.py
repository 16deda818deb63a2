"""Smooth losses: values, and lower models <slope, V> + a/2 |V|^2 + constant of them.

By strong convexity a, G(V) >= G(X0) + <g, V - X0> + a/2 |V - X0|^2 for every V, where g is
the gradient at X0. So the slope is g - a X0 and the constant G(X0) - <g, X0> + a/2 |X0|^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from weakprox.verifier import sums
from weakprox.verifier.entries import Entries
from weakprox.verifier.measurements import Measurements, Outcomes
from weakprox.verifier.regression import Regression
from weakprox.verifier.sums import Matrix, Model, Near, Point, U, norm, total


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

    def model(self, X0: Point, claimed: float, symmetric: bool) -> Model:
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

    def model(self, X0: Point, claimed: float, symmetric: bool) -> Model:
        """The model by the user's functions and constant."""
        X = X0.rows(0, self.shape[0])
        a = min(claimed, self.strong)
        value = sums.trusted_value(self.function(X), self.eps)
        g = np.asarray(self.grad(X), dtype=np.float64)
        trusted: tuple[str, ...] = ("the functions of the loss",)
        trusted += ("its strong convexity",) if a else ()
        trusted += ("its infimum",) if self.infimum is not None else ()
        return Model.at(X, value, g, 16 * self.eps * norm(g), a, trusted)


Loss: TypeAlias = Squares | Entries | Measurements | Outcomes | Regression | OwnLoss
