"""Matrices stored as factors U diag(s) Vt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import (
    Array,
    each_block,
    empty,
    eps_of,
    inner,
    is_numpy,
    like,
    multiply,
    namespace,
    row_blocks,
    sqnorm,
    to_numpy,
    total,
    wide,
    zeros,
)

NOISE = (
    32.0  # units of rounding in the singular values of a small matrix, relative to the largest
)
UNSEEN = 2.0**-46  # relative accuracy of norms of long vectors in float64


@dataclass(frozen=True, repr=False)
class LowRank:
    """X = U diag(s) Vt with orthonormal columns of U and rows of Vt, and s >= 0 descending.

    For symmetric positive semidefinite matrices Vt is U transposed. In matrices of full rank,
    vectors of values below about 1e-7 of the largest need not be orthogonal.
    """

    U: Array
    s: Array
    Vt: Array

    def __repr__(self) -> str:
        m, d = self.shape
        return f"{type(self).__name__}({m} x {d}, rank {self.rank})"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix represented."""
        return int(self.U.shape[0]), int(self.Vt.shape[1])

    @property
    def reference(self) -> Array:
        """An array of the dtype, namespace and device of the matrix."""
        return self.U

    @property
    def most(self) -> int:
        """Number of triplets: an upper bound on the rank."""
        return int(self.s.shape[0])

    @property
    def rank(self) -> int:
        """Number of nonzero singular values."""
        return int((self.s > 0).sum())

    @property
    def nuclear_norm(self) -> float:
        """Sum of the singular values, each times the lengths of its vectors, in float64.

        By the triangle inequality this is at least the nuclear norm even if rounding has
        made the vectors slightly non-orthogonal. The excess is of second order in that error.
        """
        kept: dict[str, float] = vars(self)  # cached_property blocks other runs in Python 3.11
        if "_nuclear_norm" not in kept:
            xp = namespace(self.U)
            left = xp.linalg.vector_norm(wide(self.U), axis=0)
            right = xp.linalg.vector_norm(wide(self.Vt), axis=1)
            # both norms by one transfer from a device, which takes longer than the sums
            sizes = to_numpy(xp.stack([left * right, wide(self.s)]))
            kept["_nuclear_norm"] = total(sizes[0] * np.abs(sizes[1]))
            kept["_sqnorm"] = sqnorm(sizes[1])
        return kept["_nuclear_norm"]

    def excess(self, tau: float, more: float = 0.0) -> float:
        """Relative excess of the nuclear norm plus `more` over tau; 0 if it may be rounding."""
        over = (self.nuclear_norm + more) / tau - 1.0
        return over if over > UNSEEN else 0.0

    @property
    def sqnorm(self) -> float:
        """Squared Frobenius norm."""
        known: float | None = vars(self).get("_sqnorm")
        return sqnorm(self.s) if known is None else known

    def dense(self, out: Array | None = None) -> Array:
        """The dense m x d matrix, written to `out` if given."""
        if out is None:
            return (self.U * self.s) @ self.Vt
        return multiply(self.U * self.s, self.Vt, out)

    def rounded(self) -> Array:
        """The m x d matrix, computed in float64 and rounded once to the factors' dtype."""
        if self.reference.dtype.itemsize == 8:
            return self.dense()
        X = empty(self.shape, self.U)
        left, right = wide(self.U) * wide(self.s), wide(self.Vt)
        for rows in row_blocks(X):
            X[rows] = namespace(X).astype(left[rows] @ right, X.dtype)
        return X

    def inner(self, A: Array) -> float:
        """Frobenius inner product with a dense or low-rank matrix, no m x d temporary."""
        if isinstance(A, LowRank):
            return float(self.s @ ((self.U.T @ A.U) * (self.Vt @ A.Vt.T)) @ A.s)
        return inner(self.U * self.s, A @ self.Vt.T)

    def scaled(self, factor: float) -> LowRank:
        """The matrix times a positive number."""
        return LowRank(self.U, self.s * factor, self.Vt)

    def trimmed(self, tol: float = 0.0) -> LowRank:
        """Drop triplets with singular values of at most tol (at least one is kept)."""
        return self.leading(max(1, int((self.s > tol).sum())))

    def leading(self, count: int) -> LowRank:
        """The matrix of the first triplets."""
        return LowRank(self.U[:, :count], self.s[:count], self.Vt[:count, :])

    def significant(self, eps: float | None = None) -> LowRank:
        """Drop triplets that are rounding errors, which would count towards the rank.

        `eps` is the precision of the values, that of their dtype by default. Values above a
        cut-off are not rounding errors, even if little of them is left.
        """
        eps = eps_of(self.s) if eps is None else eps
        return self.trimmed(noise_share(self.shape, eps) * float(self.s[0]))

    def plus(self, other: LowRank, *, mine: float = 1.0, theirs: float = 1.0) -> LowRank:
        """Compute mine * self + theirs * other, factored, by two thin QRs and one small SVD."""
        xp = namespace(self.U)
        left, R1 = xp.linalg.qr(xp.concat([self.U, other.U], axis=1))
        right, R2 = xp.linalg.qr(xp.concat([self.Vt.T, other.Vt.T], axis=1))
        weights = xp.concat([mine * self.s, theirs * other.s])
        U, s, Vt = decompositions.svd((R1 * weights) @ R2.T)
        return LowRank(left @ U, s, Vt @ right.T)

    @classmethod
    def zero(cls, shape: tuple[int, int], reference: Array) -> LowRank:
        """The zero matrix, with one unit triplet of weight 0."""
        U = zeros((shape[0], 1), reference)
        Vt = zeros((1, shape[1]), reference)
        U[:1] = 1.0  # a slice: a scalar assignment would be a transfer to the device
        Vt[:, :1] = 1.0
        return LowRank(U, zeros((1,), reference), Vt)


@dataclass(frozen=True, repr=False)
class Projection(LowRank):
    """A point with the singular vectors of a matrix Z, whose singular values are `sizes`.

    Then Z V = U diag(sizes), so U can be recomputed from Z and V.
    """

    sizes: Array


def noise_share(shape: tuple[int, int], eps: float) -> float:
    """Share of the largest singular value below which others are rounding errors."""
    return max(NOISE, 2.0 * math.sqrt(max(shape))) * eps


def squared_norm(U: Array, s: Array, V: Array) -> float:
    """Squared norm of U diag(s) V' for leading columns of nearly orthonormal factors."""
    r = int(s.shape[0])
    left, right = wide(U[:, :r]) * wide(s), wide(V[:, :r])
    return total((left.T @ left) * (right.T @ right))


def dense(V: LowRank, out: Array | None) -> Array:
    """V as a dense matrix, written to `out` if given."""
    return V.dense(out)


def blend_into(X: Array, V: LowRank, step: float, scratch: Array | None = None) -> None:
    """Overwrite X by (1 - step) X + step V; `scratch`, like X, may be overwritten too."""
    left = V.U * (step * V.s)
    if compat.is_torch_array(X):
        X.addmm_(left, V.Vt, beta=1.0 - step)
        return
    room = scratch if is_numpy(X) else None

    def work(rows: slice) -> None:
        part = X[rows]
        part *= 1.0 - step
        if room is None:
            part += left[rows] @ V.Vt
        else:
            part += np.matmul(left[rows], V.Vt, out=room[rows])

    each_block(work, X)


def random_lowrank(
    rng: np.random.Generator,
    shape: tuple[int, int],
    values: Any,
    ref: Array,
    *,
    symmetric: bool = False,
) -> LowRank:
    """Low-rank matrix with random orthonormal factors and the given values."""
    r = len(values)
    U = np.linalg.qr(rng.standard_normal((shape[0], r)))[0]
    V = U if symmetric else np.linalg.qr(rng.standard_normal((shape[1], r)))[0]
    return LowRank(like(U, ref), like(values, ref), like(V.T, ref))
