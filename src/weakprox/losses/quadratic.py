"""Proximal maps of quadratic losses, from the eigenvectors of their Hessian."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, like, namespace, to_numpy

LARGEST = 2000  # size up to which Hessians, or Gram matrices of terms, are decomposed
MANY = 8  # the inverse is stored if X has at least this share (1/MANY) of columns per row
FLAT = 1 << 25  # entries of the basis up to which it is stored


@dataclass(frozen=True, eq=False)
class QuadraticProx:
    """The map (A, weight) to the minimiser of G(X) + weight/2 |X - A|^2, for quadratic G.

    The gradient of G is H X + slope, where H acts on the columns of X, or on X as one column.
    The columns of `basis` are eigenvectors of H with these `values`; H vanishes on their
    complement.
    """

    basis: Array  # orthonormal columns
    values: Array
    slope: Array
    _last: dict[float, Array] = field(default_factory=dict, repr=False)

    def __call__(self, A: Array, weight: float) -> Array:
        xp, Q = namespace(A), self.basis
        rows, k = (int(n) for n in Q.shape)
        R = xp.reshape(weight * A - self.slope, (rows, -1))
        if k == rows and int(R.shape[1]) * MANY >= rows:
            found = self._inverse(weight) @ R
        else:
            inside = 1.0 / (self.values + weight)
            rest = 0.0 if k == rows else 1.0 / weight
            found = Q @ ((inside - rest)[:, None] * (Q.T @ R))
            if k < rows:
                found += rest * R
        return xp.reshape(found, tuple(A.shape))

    def _inverse(self, weight: float) -> Array:
        """Inverse of H + weight, which is kept until the weight changes."""
        if weight not in self._last:
            self._last.clear()
            half = self.basis / namespace(self.basis).sqrt(self.values + weight)
            self._last[weight] = half @ half.T
        return self._last[weight]


def of_hessian(H: Any, slope: Array) -> QuadraticProx:
    """The map for a Hessian in float64."""
    values, Q = decompositions.eigh(np.asarray(to_numpy(H), dtype=float))
    return QuadraticProx(like(Q, slope), like(np.maximum(values, 0.0), slope), slope)


def of_terms(A: Any, slope: Array) -> QuadraticProx:
    """The map for the Hessian A'A / n, from the n rows of A, which must be few."""
    A = np.asarray(A, dtype=float)
    n = len(A)
    values, P = decompositions.eigh(A @ A.T / n)
    kept = values > len(values) * np.finfo(float).eps * values[-1]
    values, P = values[kept], P[:, kept]
    Q = (A.T @ P) / np.sqrt(n * values)
    return QuadraticProx(like(Q, slope), like(values, slope), slope)
