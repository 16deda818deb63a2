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
from typing import Any

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.filled import Filled, Matrix

FIRST = 2  # sweeps for the first point: more save few steps
RANK = 16  # most factors of a sweep, whose cost grows with the square
SPARE, POWERS = 4, 2  # further columns of the block that looks for factors, and its power steps
STRONG = 2.0  # factors have singular values of the target above so many cut-offs
FREE = 1e-6  # ridge of intercepts, over the number of their observations
SPARSE = 1 / 3  # share of a row or column below which steps alone learn its factors slowly


@dataclass(frozen=True, eq=False)
class RidgeSweeps:
    """Sweeps on one problem.

    `cut` is the weight of the nuclear norm, in units of the weight of a squared error.
    """

    filled: Filled
    cut: float
    cap: int | None  # largest rank
    seen: Any  # ones at the observed entries; float32, as only the regressions' matrices use it

    @classmethod
    def of(cls, filled: Filled, cut: float, cap: int | None) -> RidgeSweeps:
        """Prepare sweeps over the observations."""
        return cls(filled, cut, cap, filled.seen(np.float32))

    @property
    def needed(self) -> bool:
        """Whether some row or column has so few entries that sweeps pay after each step."""
        (m, d), (long, short) = self.filled.values.shape, self.filled.lengths
        least = min(float(long.min()) ** 2 / d, float(short.min()) ** 2 / m)
        return least < SPARSE

    def strong(self, s: Matrix) -> int:
        """How many of these singular values of targets belong to factors of a sweep."""
        return min(RANK, self.cap or RANK, int((s > STRONG * self.cut).sum()))

    def swept(self, A: Matrix, B: Matrix, R: Matrix) -> tuple[Matrix, Matrix]:
        """Return the factors after a sweep. R has their residuals, and is updated."""
        step, Z = self._regressed(self.seen, R, A, B, free=self.filled.by_rows)
        A = A + step[:, : A.shape[1]]
        self._moved(R, step, Z)
        step, Z = self._regressed(self.seen.T, R.T, B, A, free=self.filled.by_columns)
        B = B + step[:, : B.shape[1]]
        self._moved(R, Z, step)
        return A, B

    def _moved(self, R: Matrix, left: Matrix, right: Matrix) -> None:
        moved = left @ right.T
        moved *= self.seen
        R -= moved

    def _regressed(
        self, seen: Any, R: Matrix, A: Matrix, B: Matrix, *, free: bool
    ) -> tuple[Matrix, Matrix]:
        """Return steps of the rows of A and of intercepts, if those are free, and regressors.

        Each row of R is regressed on B at its seen entries; R is zero at the others.
        """
        rank = A.shape[1]
        Z = np.hstack([B, np.ones((len(B), 1))]) if free else B
        i, j = np.triu_indices(Z.shape[1])
        G = np.empty((len(A), Z.shape[1], Z.shape[1]))
        G[:, i, j] = G[:, j, i] = seen @ (Z[:, i] * Z[:, j]).astype(np.float32)
        k = np.arange(rank)
        G[:, k, k] += self.cut
        if free:
            G[:, rank, rank] = np.maximum(G[:, rank, rank] * (1.0 + FREE), FREE)
        along = R @ Z
        along[:, :rank] -= self.cut * A
        step: Any = np.linalg.solve(G, along[:, :, None])[:, :, 0]
        if not np.isfinite(step).all():
            raise np.linalg.LinAlgError("regressions are singular to rounding")
        return step, Z

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
                A, B = self.swept(A, B, R)
        except np.linalg.LinAlgError:
            return None
        (Q, left), (P, right) = np.linalg.qr(A), np.linalg.qr(B)
        U, s, Vt = decompositions.svd(left @ right.T)
        return LowRank(Q @ U, s, Vt @ P.T)


def _block(Y: Matrix) -> Matrix:
    """Orthonormal columns near the leading right singular vectors of Y."""
    width = min(RANK + SPARE, Y.shape[1])
    # any block does: its product with Y tells strong factors from weak ones
    B = np.random.default_rng(0).standard_normal((Y.shape[1], width))
    for _ in range(POWERS):
        B = np.linalg.qr(Y.T @ (Y @ B))[0]
    return B
