"""Alternating ridge regressions on strong factors, between proximal steps on an array.

With X = A B' the nuclear norm is the least (|A|^2 + |B|^2) / 2 over such factors. Given B, each
row of A and the intercept of that row solve a small ridge regression on the observed entries of
the row, and the same holds for columns. A proximal step corrects only a share of the error of
an unobserved entry, so a row that lacks most of its entries (in a panel, a unit that is treated
early) takes many steps to learn its strong factors. A regression finds them at once. A sweep
regresses all rows on the strong factors, then all columns, and leaves weak factors as they are.

At a solution U diag(s) V' with residuals R the regressions change nothing, as R V = lam U and
R' U = lam V. So sweeps may follow proximal steps, whatever their accuracy. They also provide
the first point.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import gram
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.filled import Filled, Matrix

FIRST = 2  # sweeps for the first point; one more if sweeps follow the steps
ROWS = 256  # rows whose observed entries are multiplied at once
RANK = 16  # largest number of factors of a sweep, whose cost grows with its square
# extra columns of the block that searches for factors, and its power steps
SPARE, POWERS = 4, 2
# multiple of the cut-off above which singular values of the target count as factors
STRONG = 2.0
REAL = 1.4  # the same after a regression on them, which removes more of the noise
FREE = 1e-6  # ridge of intercepts, over the number of their observations
# share of observed entries of a row or column below which steps alone find its factors slowly
SPARSE = 1 / 3


class Side(NamedTuple):
    """The regressions of rows, or of columns.

    Rows with the same observed entries have the same regression matrix. In a panel these are
    units that are treated from the same period on. Matrices are in float32: they affect how
    much a sweep gains, not the solution.
    """

    seen: Any  # which entries of each kind of row are observed
    kind: Any  # index of the kind of each row; None if there are about as many as rows
    free: bool  # whether rows have an intercept

    @classmethod
    def of(cls, seen: Any, *, free: bool) -> Side:
        """Find rows with the same entries."""
        # rows are identified by a hash: random numbers whose sums wrap around
        packed = np.packbits(seen, axis=1).astype(np.uint64)
        numbers = np.random.default_rng(0).integers(0, 1 << 64, packed.shape[1], np.uint64)
        _, first, kind = np.unique(packed @ numbers, return_index=True, return_inverse=True)
        return (
            cls(seen, None, free)
            if 2 * len(first) > len(seen)
            else cls(seen[first], kind, free)
        )

    def regressed(
        self, R: Matrix, A: Matrix, B: Matrix, ridge: float
    ) -> tuple[Matrix, Matrix, Matrix]:
        """Return A after the regressions, its change and the intercepts', and the regressors.

        Each row of R, which contains the residuals and zeros for unobserved entries, is
        regressed on B.
        """
        rank = A.shape[1]
        Z = np.hstack([B, np.ones((len(B), 1), B.dtype)]) if self.free else B
        width = Z.shape[1]
        i, j = np.tril_indices(width)
        low = np.ascontiguousarray(Z.T, np.float32)
        G = np.empty((width, width, len(self.seen)), np.float32)
        G[i, j] = self._sums(low[i] * low[j])  # the lower triangle
        k = np.arange(rank)
        G[k, k] += ridge
        if self.free:
            G[rank, rank] = np.maximum(G[rank, rank] * (1.0 + FREE), FREE)
        along = R @ Z
        along[:, :rank] -= ridge * A
        step = _solved(G, along.T.astype(np.float32), self.kind).T
        if not np.isfinite(step).all():
            raise np.linalg.LinAlgError("regressions are singular to rounding")
        return A + step[:, :rank], step, Z

    def _sums(self, products: Any) -> Any:
        """Sums of products over the observed entries of each kind of row, in blocks."""
        seen = self.seen
        if seen.flags.c_contiguous:
            starts = range(0, len(seen), ROWS)
            others = np.ascontiguousarray(products.T)
            parts = [seen[i : i + ROWS].astype(np.float32) @ others for i in starts]
            return np.concatenate(parts).T
        columns = seen.T  # the transpose of an array
        starts = range(0, len(columns), ROWS)
        parts = [
            products[:, i : i + ROWS] @ columns[i : i + ROWS].astype(np.float32) for i in starts
        ]
        return np.sum(parts, axis=0)


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
        seen = self.filled.seen
        rows = Side.of(seen, free=self.filled.by_rows)
        return rows, Side.of(seen.T, free=self.filled.by_columns)

    @property
    def needed(self) -> bool:
        """Return True if a row or column has so few entries that sweeps should follow steps."""
        (m, d), (long, short) = self.filled.shape, self.filled.lengths
        least = min(float(long.min()) ** 2 / d, float(short.min()) ** 2 / m)
        return bool(least < SPARSE)

    def strong(self, s: Matrix, level: float = STRONG) -> int:
        """Return how many of these singular values of targets belong to factors of a sweep."""
        return min(RANK, self.cap or RANK, int((s > level * self.cut).sum()))

    def swept(
        self, A: Matrix, B: Matrix, R: Matrix, unit: float = 1.0
    ) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """Return the factors after a sweep, and the steps of intercepts of rows and columns.

        R contains the residuals over the unit, and is overwritten by those after the sweep.
        """
        rows, columns = self.sides
        rank, ridge = A.shape[1], self.cut / unit
        A, step, Z = rows.regressed(R, A, B, ridge)
        self._moved(R, step, Z)
        B, other, Z = columns.regressed(R.T, B, A, ridge)
        self._moved(R, Z, other)
        a, b = (x[:, rank] if x.shape[1] > rank else np.zeros(len(x)) for x in (step, other))
        return A, B, a, b

    def _moved(self, R: Matrix, left: Matrix, right: Matrix) -> None:
        """Subtract the entries of left right' at the observed positions."""
        kind, filled = R.dtype, self.filled
        left, right = (F.astype(kind, copy=False) for F in (left, right))
        for strip in filled.strips:  # they stay in cache
            part = R[strip.rows]
            part -= left[strip.rows] @ right.T
            part.reshape(-1)[filled.gaps(strip)] = 0.0

    def first_point(self) -> LowRank | None:
        """Return strong factors of the observations, in the orientation of the array.

        None if no factor is strong, or if the regressions are singular to rounding.
        """
        unit, size = self.filled.unit, 0.0
        R: Any = np.empty(self.filled.shape, np.float32)
        for part, values in self.filled.blocks():
            # divided in float64, since the numbers may be out of the range of float32
            np.divide(values, unit, out=R[part], casting="same_kind")
            size += float(np.vdot(values, values))
        B, s = _leading(R)
        edge = _edge(R.shape, max(0.0, size - float(unit * s @ (unit * s))))
        rank = min(self.strong(unit * s), max(1, int((unit * s > edge).sum())))
        if rank == 0:
            return None
        A: Any = np.zeros((len(R), rank), np.float32)
        B = (B[:, :rank] * np.sqrt(s[:rank])).astype(np.float32)
        try:
            for _ in range(FIRST + self.needed):
                A, B, *_ = self.swept(A, B, R, unit)
                V = _factored(A, B)
                # some factors of an array with zeros for unobserved entries are due to them
                rank = self.strong(unit * V.s + self.cut, REAL)
                roots = np.sqrt(V.s)
                A, B = (V.U * roots).astype(np.float32), (V.Vt.T * roots).astype(np.float32)
                if rank < V.rank:
                    self._moved(R, -A[:, rank:], B[:, rank:])
                    A, B, V = A[:, :rank], B[:, :rank], V.leading(rank)
        except np.linalg.LinAlgError:
            return None
        return LowRank(V.U, unit * V.s, V.Vt) if rank else None


def _factored(A: Matrix, B: Matrix) -> LowRank:
    """The product A B' as a `LowRank`."""
    (Q, left), (P, right) = (np.linalg.qr(F.astype(float)) for F in (A, B))
    U, s, Vt = decompositions.svd(left @ right.T)
    return LowRank(Q @ U, s, Vt @ P.T)


def _leading(Y: Matrix) -> tuple[Matrix, Matrix]:
    """Columns near the leading right singular vectors of Y in float32, and its values."""
    width = min(RANK + SPARE, Y.shape[1])
    # any block is enough: its product with Y separates strong factors from weak ones
    B = np.random.default_rng(0).standard_normal((Y.shape[1], width), np.float32)
    for _ in range(POWERS):
        B = np.linalg.qr(Y.T @ (Y @ B))[0]
    squares, turn = decompositions.eigh(gram(Y @ B))
    return B @ turn[:, ::-1], np.sqrt(np.maximum(squares[::-1], 0.0))


def _edge(shape: tuple[int, int], rest: float) -> float:
    """The largest singular value of noise whose entries have this sum of squares."""
    m, d = shape
    return float(np.sqrt(rest / (m * d)) * (np.sqrt(m) + np.sqrt(d)))


def _solved(G: Any, right: Any, kind: Any) -> Any:
    """Solve a small definite system for each row, all at once, by elimination.

    G has the lower triangles of the matrices of each kind of row, which are overwritten, and
    `right` a column for each row. Both have the entries of all rows next to each other:
    there are many more rows than equations. If a matrix is singular to rounding, the result
    is not finite.
    """
    width, x = len(G), right
    with np.errstate(all="ignore"):
        for k in range(width):
            G[k + 1 :, k] /= G[k, k]
            for i in range(k + 1, width):
                G[i, k + 1 : i + 1] -= (G[i, k] * G[k, k]) * G[k + 1 : i + 1, k]
        L = G if kind is None else G[:, :, kind]
        for k in range(width):
            x[k + 1 :] -= L[k + 1 :, k] * x[k]
        for k in reversed(range(width)):
            x[k] /= L[k, k]
            x[k] -= np.einsum("in,in->n", L[k + 1 :, k], x[k + 1 :])
    return x
