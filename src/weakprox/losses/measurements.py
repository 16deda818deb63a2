"""Linear measurements <A_i, X> in their various forms: each exploits its structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from weakprox.linalg.arrays import Array, is_floating, itemsize, namespace
from weakprox.losses.inputs import floating


class Measurements(Protocol):
    """n linear functionals of X: apply them, and take weighted sums of them."""

    @property
    def count(self) -> int:
        """Number of measurements."""

    @property
    def bytes_each(self) -> int:
        """Bytes of one of them."""

    def apply(self, X: Array) -> Array:
        """The vector of <A_i, X>."""

    def adjoint(self, weights: Array) -> Array:
        """Sum of weights_i A_i."""

    def sqnorms(self) -> Array:
        """|A_i|_F^2."""

    def take(self, indices: Any) -> Measurements:
        """A selection, in order."""

    def flat(self) -> Any:
        """The n x md matrix, where products with it are wanted."""


@dataclass(frozen=True)
class DenseMeasurements:
    """A as an (n, m, d) array or memory map; integers become floats chunk by chunk."""

    A: Array

    @property
    def count(self) -> int:
        """Number of measurements."""
        return int(self.A.shape[0])

    @property
    def bytes_each(self) -> int:
        """Bytes of one A_i, as floats."""
        width = itemsize(self.A) if is_floating(self.A) else 8
        return int(self.A.shape[1] * self.A.shape[2]) * width

    def flat(self) -> Array:
        """View as n x md (a copy for integers)."""
        return namespace(self.A).reshape(floating(self.A), (self.count, -1))

    def apply(self, X: Array) -> Array:
        """One matrix-vector product."""
        return self.flat() @ namespace(X).reshape(X, (-1,))

    def adjoint(self, weights: Array) -> Array:
        """One vector-matrix product."""
        return namespace(weights).reshape(
            weights @ self.flat(), (self.A.shape[1], self.A.shape[2])
        )

    def sqnorms(self) -> Array:
        """Row norms of the flat matrix."""
        flat = self.flat()
        return namespace(flat).sum(flat * flat, axis=1)

    def take(self, indices: Any) -> DenseMeasurements:
        """Rows of A."""
        return DenseMeasurements(self.A[indices])


@dataclass(frozen=True)
class RankOneMeasurements:
    """A_i = u_i v_i' kept as the rows of U (n, m) and V (n, d): O(n(m+d)) memory."""

    U: Array
    V: Array

    @property
    def count(self) -> int:
        """Number of measurements."""
        return int(self.U.shape[0])

    @property
    def bytes_each(self) -> int:
        """Bytes of one pair."""
        return int(self.U.shape[1] + self.V.shape[1]) * itemsize(self.U)

    def flat(self) -> Array:
        """Rows u_i kron v_i."""
        xp = namespace(self.U)
        full = xp.expand_dims(self.U, axis=2) * xp.expand_dims(self.V, axis=1)
        return xp.reshape(full, (self.count, -1))

    def apply(self, X: Array) -> Array:
        """u_i' X v_i for all i by one product."""
        return namespace(X).sum((self.U @ X) * self.V, axis=1)

    def adjoint(self, weights: Array) -> Array:
        """U' diag(weights) V by one product."""
        return (self.U.T * weights) @ self.V

    def sqnorms(self) -> Array:
        """|u|^2 |v|^2."""
        xp = namespace(self.U)
        return xp.sum(self.U * self.U, axis=1) * xp.sum(self.V * self.V, axis=1)

    def take(self, indices: Any) -> RankOneMeasurements:
        """Selected pairs."""
        return RankOneMeasurements(self.U[indices], self.V[indices])


@dataclass(frozen=True)
class SparseMeasurements:
    """A as a SciPy CSR matrix of shape (n, m d), rows in C order of X."""

    A: csr_array
    shape: tuple[int, int]

    @property
    def count(self) -> int:
        """Number of measurements."""
        return int(self.A.shape[0])

    @property
    def bytes_each(self) -> int:
        """Bytes of an average row."""
        return max(16, 16 * int(self.A.nnz) // max(1, self.count))

    def flat(self) -> csr_array:
        """The matrix itself."""
        return self.A

    def apply(self, X: Array) -> Array:
        """Sparse matrix times vector."""
        return self.A @ np.reshape(X, (-1,))

    def adjoint(self, weights: Array) -> Array:
        """Transposed product."""
        return np.reshape(self.A.T @ weights, self.shape)

    def sqnorms(self) -> Array:
        """Row sums of squares."""
        return np.asarray(self.A.multiply(self.A).sum(axis=1)).ravel()

    def take(self, indices: Any) -> SparseMeasurements:
        """Selected rows."""
        return SparseMeasurements(self.A[indices], self.shape)
