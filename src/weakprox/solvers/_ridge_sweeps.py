"""Alternating ridge regressions on strong factors, between proximal steps on an array.

With X = A B' the nuclear norm is the least (|A|^2 + |B|^2) / 2 over such factors. Given B, each
row of A and the intercept of that row solve a small ridge regression on the observed entries of
the row, and the same holds for columns. A proximal step moves an entry in a hole by a share of
its error only, so a row that lacks most of its entries takes many steps to learn its strong
factors: in a panel, a unit that is treated early. A regression learns them at once. A sweep
regresses all rows on the strong factors, then all columns, and leaves weak factors as they are.

At a solution U diag(s) V' with residuals R the regressions change nothing, as R V = lam U and
R' U = lam V. So sweeps may follow proximal steps, whatever their accuracy. They also make the
first point.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import add_product
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.filled import Filled, Matrix

FIRST = 2  # sweeps for the first point: more save few steps
RANK = 16  # largest number of factors of a sweep, whose cost grows with its square
SPARE, POWERS = 4, 2  # further columns of the block that looks for factors, and its power steps
STRONG = 2.0  # factors have singular values of the target above so many cut-offs
FREE = 1e-6  # ridge of intercepts, over the number of their observations
SPARSE = 1 / 3  # share of a row or column below which steps alone learn its factors slowly


class Side(NamedTuple):
    """The regressions of rows, or of columns.

    Rows with the same observed entries have the same regression matrix. In a panel these are
    units that are treated from the same period on. Matrices are in float32: they determine how
    much a sweep gains, not where it ends.
    """

    seen: Any  # ones at the observed entries of each kind of row, in float32
    kind: Any  # index of the kind of each row; None if there are about as many as rows
    free: bool  # whether rows have an intercept

    @classmethod
    def of(cls, seen: Any, *, free: bool) -> Side:
        """Find rows with the same entries."""
        packed = np.packbits(seen > 0.0, axis=1)
        keys = packed.view(f"V{packed.shape[1]}")[:, 0]
        _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
        return (
            cls(seen, None, free)
            if 2 * len(first) > len(seen)
            else cls(seen[first], kind, free)
        )

    def regressed(
        self, R: Matrix, A: Matrix, B: Matrix, ridge: float
    ) -> tuple[Matrix, Matrix, Matrix]:
        """Return A after the regressions, the steps of it and of intercepts, and regressors.

        Each row of R, which has the residuals and zeros in the holes, is regressed on B.
        """
        rank = A.shape[1]
        Z = np.hstack([B, np.ones((len(B), 1))]) if self.free else B
        width = Z.shape[1]
        i, j = np.tril_indices(width)
        low = Z.astype(np.float32)
        sums = self.seen @ (low[:, i] * low[:, j])
        G = np.empty((len(sums), width, width), np.float32)
        G[:, i, j] = G[:, j, i] = sums
        k = np.arange(rank)
        G[:, k, k] += ridge
        if self.free:
            G[:, rank, rank] = np.maximum(G[:, rank, rank] * (1.0 + FREE), FREE)
        along = R @ Z
        along[:, :rank] -= ridge * A
        if self.kind is None:
            step = np.linalg.solve(G, along[:, :, None].astype(np.float32))[:, :, 0]
        else:
            step = np.einsum("nij,nj->ni", np.linalg.inv(G)[self.kind], along)
        if not np.isfinite(step).all():
            raise np.linalg.LinAlgError("regressions are singular to rounding")
        return A + step[:, :rank], step, Z


@dataclass(frozen=True, eq=False)
class RidgeSweeps:
    """Sweeps on one problem.

    `cut` is the weight of the nuclear norm, in units of the weight of a squared error, and
    `cap` the largest rank.
    """

    filled: Filled
    cut: float
    cap: int | None = None

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """Rows and columns of the array."""
        seen = self.filled.seen(np.float32)
        rows = Side.of(seen, free=self.filled.by_rows)
        return rows, Side.of(np.ascontiguousarray(seen.T), free=self.filled.by_columns)

    @property
    def needed(self) -> bool:
        """Whether some row or column has so few entries that sweeps should follow steps."""
        (m, d), (long, short) = self.filled.values.shape, self.filled.lengths
        least = min(float(long.min()) ** 2 / d, float(short.min()) ** 2 / m)
        return bool(least < SPARSE)

    def strong(self, s: Matrix) -> int:
        """How many of these singular values of targets belong to factors of a sweep."""
        return min(RANK, self.cap or RANK, int((s > STRONG * self.cut).sum()))

    def swept(
        self, A: Matrix, B: Matrix, R: Matrix, *, again: bool = False
    ) -> tuple[Matrix, Matrix]:
        """Return the factors after a sweep. R has their residuals, and is overwritten.

        With `again`, R then has the residuals of the new factors, for another sweep.
        """
        rows, columns = self.sides
        A, step, Z = rows.regressed(R, A, B, self.cut)
        self._moved(R, step, Z)
        B, step, Z = columns.regressed(R.T, B, A, self.cut)
        if again:
            self._moved(R, Z, step)
        return A, B

    def _moved(self, R: Matrix, left: Matrix, right: Matrix) -> None:
        """Subtract what left times right' has at the observed entries."""
        add_product(R, -left, right)
        R.reshape(-1)[self.filled.holes] = 0.0

    def first_point(self) -> LowRank | None:
        """Return strong factors of the observations, in the orientation of the array.

        None if no factor is strong, or if the regressions are singular to rounding.
        """
        Y = self.filled.values
        B = _block(Y)
        _, s, Vt = decompositions.svd(Y @ B)
        rank = self.strong(s)
        if rank == 0:
            return None
        A, B = np.zeros((len(Y), rank)), (B @ Vt[:rank].T) * np.sqrt(s[:rank])
        R = Y.copy()
        try:
            for _ in range(FIRST):
                A, B = self.swept(A, B, R, again=True)
        except np.linalg.LinAlgError:
            return None
        (Q, left), (P, right) = np.linalg.qr(A), np.linalg.qr(B)
        U, s, Vt = decompositions.svd(left @ right.T)
        return LowRank(Q @ U, s, Vt @ P.T)


def _block(Y: Matrix) -> Matrix:
    """Orthonormal columns near the leading right singular vectors of Y."""
    width = min(RANK + SPARE, Y.shape[1])
    # any block is enough: its product with Y separates strong factors from weak ones
    B = np.random.default_rng(0).standard_normal((Y.shape[1], width))
    for _ in range(POWERS):
        B = np.linalg.qr(Y.T @ (Y @ B))[0]
    return B
