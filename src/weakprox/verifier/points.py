"""Matrices in factors or dense, read by rows, with the rounding error of the product."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from weakprox.verifier.sums import Matrix, Near, U, blocks, norm, total


class Point(Protocol):
    """A matrix that is read by rows; rows are within `error` (Frobenius) of it in all."""

    shape: tuple[int, int]
    error: float  # Frobenius norm of the rounding error of all rows together
    spread: float  # sum of the sizes of these errors

    def rows(self, first: int, last: int) -> Matrix:
        """These rows."""


class Dense:
    """A matrix as an array."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.error = self.spread = 0.0

    def rows(self, first: int, last: int) -> Matrix:
        """These rows in float64."""
        return np.asarray(self._X[first:last], dtype=np.float64)


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
        self.error = far * float(size @ (columns[0] * columns[1])) * (1 + 1e-9)
        self.spread = far * float(size @ (sums[0] * sums[1])) * (1 + 1e-9)

    def rows(self, first: int, last: int) -> Matrix:
        """These rows; each entry is a sum of r products of three numbers."""
        found: Matrix = self._left[first:last] @ self.Vt
        return found

    def singular_values(self) -> tuple[Matrix, float]:
        """Those of the product, by two QR factorisations, and a bound on their errors."""
        R1: Matrix = np.linalg.qr(self.U)[1]
        R2: Matrix = np.linalg.qr(self.Vt.T)[1]
        small = (R1 * self.s) @ R2.T
        values = np.linalg.svd(small, compute_uv=False)
        size = float(np.abs(self.s) @ (norms(self.U) * norms(self.Vt.T)))
        return values, 10 * max(self.shape) * U * size

    def nuclear_norm(self) -> Near:
        """Sum of the singular values."""
        values, error = self.singular_values()
        return Near(total(values), len(values) * error)


def norms(x: Matrix) -> Matrix:
    """Of the columns."""
    found: Matrix = np.linalg.norm(x, axis=0)
    return found


def square(X: Point) -> Near:
    """|X|_F^2."""
    value, size = 0.0, 0.0
    for first, last in blocks(*X.shape):
        part = X.rows(first, last)
        value += total(part * part)
        size = np.hypot(size, norm(part))
    far = X.error * (2 * size + X.error)
    return Near(value, far + 4 * U * value + len(blocks(*X.shape)) * U * value)
