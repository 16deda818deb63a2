"""Penalties: values, and dual points that are feasible by construction.

R(X) = curvature/2 |X|^2 + sum of max over y of <y, K X> - phi(y). Stored duals of entrywise
and group penalties are numbers q, a share of the largest slope: integers count in units of
1/Q, Q the largest integer of their type, which makes the ends of the range exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np

from weakprox.verifier import sums
from weakprox.verifier.sums import Dense, Matrix, Near, Point, U, added, dot, norm, total


def shares(q: Any) -> Matrix:
    """Stored numbers as shares in [-1, 1]."""
    scale = float(np.iinfo(q.dtype).max) if q.dtype.kind == "i" else 1.0
    return np.clip(np.asarray(q, dtype=np.float64) / scale, -1.0, 1.0)


@dataclass(frozen=True)
class Pull:
    """K'y by rows, within `error` (Frobenius), and phi(y)."""

    rows: sums.Reader
    error: float = 0.0
    phi: Near = field(default_factory=lambda: Near(0.0))


@dataclass(frozen=True)
class Box:
    """Slopes in [-below, above] for every entry, and curvature/2 |X|^2."""

    above: float
    below: float
    curvature: float = 0.0
    infimum: ClassVar[float | None] = 0.0  # a lower bound on R

    @property
    def steepest(self) -> float:
        """The largest slope of an entry or a group."""
        return max(self.above, self.below)

    def value(self, X: Point) -> Near:
        parts = []
        for first, last in sums.blocks(*X.shape):
            x = X.rows(first, last)
            parts.append(Near(total(np.maximum(x, 0.0))).times(self.above))
            parts.append(Near(total(np.maximum(-x, 0.0))).times(self.below))
            if self.curvature:
                parts.append(dot(x, x).times(0.5 * self.curvature))
                parts.append(Near(0.0, self.curvature * (X.error * (norm(x) + X.error))))
        return added([*parts, Near(0.0, self.steepest * X.spread)])

    def pull(self, y: Any, shape: tuple[int, int]) -> Pull:
        """Shares of the ends of the range, which they reach exactly."""

        def rows(first: int, last: int) -> Any:
            q = shares(y[first:last])
            return np.where(q > 0.0, self.above, self.below) * q

        return Pull(rows)


@dataclass(frozen=True, eq=False)
class Range:
    """Slopes times the distances of entries from [low, high]; all broadcast to X's shape.

    Slopes may be products that were rounded once. A weighted l1 norm has ends of zero.
    """

    slopes: Any
    low: Any
    high: Any
    curvature: ClassVar[float] = 0.0
    infimum: ClassVar[float | None] = 0.0

    @property
    def steepest(self) -> float:
        return float(np.max(self.slopes))

    def _rows(self, first: int, last: int) -> tuple[Any, ...]:
        """Slopes and ends of some rows."""
        parts = (np.asarray(x, dtype=np.float64) for x in (self.slopes, self.low, self.high))
        return tuple(x[first:last] if len(x) > 1 else x for x in parts)

    def value(self, X: Point) -> Near:
        parts = []
        for first, last in sums.blocks(*X.shape):
            x, (slopes, low, high) = X.rows(first, last), self._rows(first, last)
            found = total(slopes * np.maximum(np.maximum(low - x, x - high), 0.0))
            parts.append(Near(found, 8 * U * found))
        return added([*parts, Near(0.0, self.steepest * X.spread * (1 + 8 * U))])

    def pull(self, y: Any, shape: tuple[int, int]) -> Pull:
        """Slopes within their limits, with room for rounding; none towards an infinite end."""

        def rows(first: int, last: int) -> Any:
            slopes, low, high = self._rows(first, last)
            limits = slopes * (1 - 4 * U)
            found = np.clip(np.asarray(y[first:last], np.float64), -limits, limits)
            free = ((found > 0.0) & np.isinf(high)) | ((found < 0.0) & np.isinf(low))
            return np.where(free, 0.0, found)

        parts = []
        for first, last in sums.blocks(*shape):
            pulled, (_, low, high) = rows(first, last), self._rows(first, last)
            end = np.where(pulled > 0.0, high, np.where(pulled < 0.0, low, 0.0))
            parts.append(dot(pulled, end))
        return Pull(rows, phi=added(parts))


@dataclass(frozen=True)
class Groups:
    """lam times the sum of the norms of rows (axis 1) or columns (axis 0)."""

    lam: float
    axis: int
    curvature: ClassVar[float] = 0.0
    infimum: ClassVar[float | None] = 0.0

    @property
    def steepest(self) -> float:
        return self.lam

    def value(self, X: Point) -> Near:
        """Sum of the norms; computed in one piece for columns."""
        along = "ij,ij->i" if self.axis else "ij,ij->j"
        parts = (X.rows(first, last) for first, last in sums.blocks(*X.shape))
        squares = [np.einsum(along, x, x) for x in parts]
        lengths = np.sqrt(np.concatenate(squares) if self.axis else np.sum(squares, axis=0))
        value = self.lam * total(lengths)
        long = X.shape[self.axis] + len(squares) + 4
        return Near(value, long * U * value + self.lam * X.spread)

    def pull(self, y: Any, shape: tuple[int, int]) -> Pull:
        """Groups longer than lam are scaled into the ball, with room for rounding."""
        room = 1 + (shape[self.axis] + 16) * U
        lengths: Any = None
        if not self.axis:
            squares = [np.square(shares(y[i:j])).sum(axis=0) for i, j in sums.blocks(*shape)]
            lengths = np.sqrt(np.sum(squares, axis=0)) * room

        def rows(first: int, last: int) -> Any:
            q = shares(y[first:last])
            by_row = lengths is None
            sizes = np.linalg.norm(q, axis=1, keepdims=True) * room if by_row else lengths
            return self.lam * (q / np.maximum(1.0, sizes))

        return Pull(rows)


class Largest:
    """The largest of <A_i, X> - b_i; A is read as an array of shape (n, m, d)."""

    curvature = 0.0
    steepest = math.inf  # unknown
    infimum: float | None = None

    def __init__(self, A: Any, b: Any) -> None:
        self._A, self._b = A, np.asarray(b, dtype=np.float64)

    def _pieces(self) -> Any:
        for i in range(len(self._b)):
            yield np.asarray(self._A[i], dtype=np.float64)

    def value(self, X: Point) -> Near:
        """The largest piece; the error is that of the worst."""
        whole = X.rows(0, X.shape[0])
        found = [
            added([dot(A, whole), Near(-float(b)), Near(0.0, norm(A) * X.error)])
            for A, b in zip(self._pieces(), self._b, strict=True)
        ]
        return Near(max(x.value for x in found), max(x.error for x in found))

    def pull(self, y: Any, shape: tuple[int, int]) -> Pull:
        """Weights clipped at zero and divided by their sum."""
        p = np.maximum(np.asarray(y, dtype=np.float64), 0.0)
        p = p / total(p)
        n, sizes = len(p), [norm(A) for A in self._pieces()]
        whole = np.zeros(shape)
        for weight, A in zip(p, self._pieces(), strict=True):
            whole += weight * A
        error = (2 * n + 8) * U * max(sizes)
        phi = dot(p, self._b)
        lost = (2 * n + 8) * U * float(np.abs(self._b).max())
        return Pull(Dense(whole).rows, error, Near(phi.value, phi.error + lost))


@dataclass(frozen=True)
class OwnPenalty:
    """A penalty given by the user's functions, which are trusted."""

    function: Callable[[Matrix], float]
    pulled: Callable[[Any], tuple[Any, float]]
    curvature: float
    eps: float
    infimum: float | None = None
    steepest: ClassVar[float] = math.inf  # unknown

    def value(self, X: Point) -> Near:
        return sums.trusted_value(self.function(X.rows(0, X.shape[0])), self.eps)

    def pull(self, y: Any, shape: tuple[int, int]) -> Pull:
        """K'y and phi of the nearest feasible point, by the user's functions."""
        pulled, phi = self.pulled(y)
        whole = np.asarray(pulled, dtype=np.float64)
        if whole.shape != shape or not math.isfinite(phi):
            return Pull(lambda first, last: whole[first:last], math.inf)
        error = 16 * self.eps * norm(whole)
        return Pull(Dense(whole).rows, error, sums.trusted_value(phi, self.eps))


Penalty: TypeAlias = Box | Range | Groups | Largest | OwnPenalty
