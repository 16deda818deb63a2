"""Sums whose rounding errors are known: numbers with the error they may have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Matrix: TypeAlias = np.ndarray[Any, np.dtype[Any]]

U = 2.0**-53  # unit roundoff of float64
SHORT = 256  # entries that are left to math.fsum


@dataclass(frozen=True)
class Near:
    """A number within `error` of the exact one."""

    value: float
    error: float = 0.0

    def __add__(self, other: Near) -> Near:
        value = self.value + other.value
        return Near(value, self.error + other.error + U * abs(value))

    def times(self, factor: float) -> Near:
        """The product with an exact number."""
        value = factor * self.value
        return Near(value, abs(factor) * self.error + U * abs(value))

    @property
    def upper(self) -> float:
        """At least the exact number."""
        return self.value + self.error * (1 + 4 * U) + 4 * U * abs(self.value)

    @property
    def lower(self) -> float:
        """At most the exact number."""
        return self.value - self.error * (1 + 4 * U) - 4 * U * abs(self.value)


def total(x: Matrix) -> float:
    """Sum of the entries, as if in twice the precision.

    Halves are added by TwoSum, whose errors are summed as well: the result is exact up to
    one rounding and a share of about n u^2 of the sum of sizes.
    """
    x = np.ravel(x)
    errors = []
    while x.size > SHORT:
        half = x.size // 2
        a, b = x[:half], x[half : 2 * half]
        s = a + b
        z = s - a
        errors.append(float(((a - (s - z)) + (b - z)).sum()))
        x = s if x.size == 2 * half else np.append(s, x[-1])
    return math.fsum([*x.tolist(), *errors])


def dot(x: Matrix, y: Matrix) -> Near:
    """<x, y>: each product is off by u of its size at most, and their sum rounds once."""
    products = x * y
    value = total(products)
    size = value if x is y else float(np.abs(products).sum())
    return Near(value, 1.001 * U * (size + abs(value)))


def added(parts: list[Near]) -> Near:
    """The sum of many."""
    value = math.fsum(part.value for part in parts)
    error = math.fsum(part.error for part in parts)
    return Near(value, error + U * abs(value))


def norm(x: Matrix) -> float:
    """Frobenius norm, never below the exact one."""
    return math.sqrt(float(np.vdot(x, x))) * (1 + x.size * U) + 1e-300


def blocks(rows: int, columns: int, *, entries: int = 1 << 18) -> list[tuple[int, int]]:
    """First and last row of blocks of about so many entries."""
    step = max(1, entries // max(1, columns))
    return [(i, min(rows, i + step)) for i in range(0, rows, step)]
