"""Sums and matrices whose rounding errors are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Matrix: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Reader: TypeAlias = Callable[[int, int], Matrix]  # rows from a first to before a last one

U = 2.0**-53  # unit roundoff of float64
SHORT = 256  # largest number of entries for math.fsum


@dataclass(frozen=True)
class Near:
    """A number within `error` of the exact one."""

    value: float
    error: float = 0.0

    def times(self, factor: float) -> Near:
        """The product with an exact number."""
        value = factor * self.value
        return Near(value, abs(factor) * self.error + U * abs(value))

    @property
    def upper(self) -> float:
        """Upper bound on the exact number."""
        return self.value + self.error * (1 + 4 * U) + 4 * U * abs(self.value)

    @property
    def lower(self) -> float:
        """Lower bound on the exact number."""
        return self.value - self.error * (1 + 4 * U) - 4 * U * abs(self.value)


def total(x: Matrix) -> float:
    """Sum of the entries, as accurate as in twice the precision.

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
    """<x, y>: each product has relative error at most u, and their sum rounds once."""
    products = x * y
    value = total(products)
    size = value if x is y else float(np.abs(products).sum())
    return Near(value, 1.001 * U * (size + abs(value)))


def added(parts: list[Near]) -> Near:
    value = math.fsum(part.value for part in parts)
    return Near(value, math.fsum(part.error for part in parts) + U * abs(value))


def trusted_value(value: float, eps: float) -> Near:
    """A value that a user function computed with unit roundoff eps."""
    return Near(float(value), 64 * eps * abs(float(value)))


def norm(x: Matrix) -> float:
    """Frobenius norm, never below the exact one."""
    return math.sqrt(float(np.vdot(x, x))) * (1 + x.size * U) + 1e-300


def blocks(rows: int, columns: int, *, entries: int = 1 << 18) -> list[tuple[int, int]]:
    """Ranges of rows, each with about this many entries."""
    step = max(1, entries // max(1, columns))
    return [(i, min(rows, i + step)) for i in range(0, rows, step)]


def size_of(rows: Reader, shape: tuple[int, int]) -> float:
    """Frobenius norm of a matrix that is read by rows, never below the exact one."""
    size = 0.0
    for first, last in blocks(*shape):
        size = math.hypot(size, norm(rows(first, last)))
    return size


class Dense:
    """A matrix as an array.

    Rows are within `error` (Frobenius) of the exact matrix in all, and the sizes of their
    errors sum to at most `spread`.
    """

    def __init__(self, X: Any) -> None:
        self._X = X
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.error = self.spread = 0.0

    def rows(self, first: int, last: int) -> Matrix:
        """These rows in float64."""
        return np.asarray(self._X[first:last], dtype=np.float64)

    def at(self, rows: Any, cols: Any) -> Matrix:
        """These entries in float64."""
        return np.asarray(self._X[rows, cols], dtype=np.float64)


class Factors:
    """U diag(s) Vt, the exact product of these numbers."""

    def __init__(self, U_: Any, s: Any, Vt: Any) -> None:
        self.U, self.s, self.Vt = (np.asarray(x, dtype=np.float64) for x in (U_, s, Vt))
        self.shape = (int(self.U.shape[0]), int(self.Vt.shape[1]))
        self._left = self.U * self.s
        r = self.s.shape[0]
        size, far = np.abs(self.s), (r + 2) * U
        columns = [np.linalg.norm(x, axis=0) for x in (self.U, self.Vt.T)]
        sums = [np.abs(x).sum(axis=0) for x in (self.U, self.Vt.T)]
        self.size = float(size @ (columns[0] * columns[1]))  # sum of the norms of the terms
        self.error = far * self.size * (1 + 1e-9)
        self.spread = far * float(size @ (sums[0] * sums[1])) * (1 + 1e-9)

    def rows(self, first: int, last: int) -> Matrix:
        """These rows; each entry is a sum of r products of three numbers."""
        return np.asarray(self._left[first:last] @ self.Vt)

    def at(self, rows: Any, cols: Any) -> Matrix:
        """These entries, in the same way."""
        found, right = np.empty(len(rows)), self.Vt.T
        for first, last in blocks(len(rows), len(self.s)):
            part = slice(first, last)
            found[part] = np.einsum("ij,ij->i", self._left[rows[part]], right[cols[part]])
        return found

    def singular_values(self) -> tuple[Matrix, float]:
        """Singular values, by two QR factorisations, and a bound on their errors."""
        R1, R2 = (np.linalg.qr(factor)[1] for factor in (self.U, self.Vt.T))
        values = np.linalg.svd((R1 * self.s) @ R2.T, compute_uv=False)
        return values, 10 * max(self.shape) * U * self.size

    def nuclear_norm(self) -> Near:
        """Sum of the singular values."""
        values, error = self.singular_values()
        return Near(total(values), len(values) * error)


Point: TypeAlias = Dense | Factors


@dataclass(frozen=True)
class Model:
    """The lower model of a loss: slope by rows, within `error` (Frobenius)."""

    rows: Reader
    error: float
    constant: Near
    strong: float  # the strong convexity it uses
    trusted: tuple[str, ...] = ()
    sparse: Any = None  # the slope as a sparse matrix

    @classmethod
    def at(
        cls, X: Matrix, value: Near, g: Matrix, error: float, a: float, trusted: tuple[str, ...]
    ) -> Model:
        """The model from the value and the gradient g at X, which is exact within `error`."""
        lost = Near(0.0, error * norm(X))
        parts = [value, dot(g, X).times(-1.0), dot(X, X).times(0.5 * a), lost]
        error += 4 * U * (norm(g) + a * norm(X))
        return cls(Dense(g - a * X).rows, error, added(parts), a, trusted)
