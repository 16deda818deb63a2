"""Squared errors of observed entries as an array with holes, for matrices with few of them.

With the best intercepts a, b at each X, the target X - grad G / L of a proximal step is

    y_ij - a_i - b_j  where an entry is observed,    x_ij  in the holes.

So a step is a function of the *fill*: the entries of X in the holes and the intercepts at X. A
fill is one vector. Intercepts are multiplied by the root of the number of their observations:
the distance of two fills is then about that of their targets.

G does not change if means of rows (or columns) of X are taken off and intercepts of rows (or
columns) take their place, and no spectral norm grows. So some solution has none, and the target
may be taken among such points: its means are taken off. Otherwise only the threshold shrinks
them, a little in each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weakprox.linalg.arrays import SHARED
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.entry_losses import Squared
from weakprox.losses.observed import Effects, Observed
from weakprox.passes.pattern import Pattern

SHORT = 2000  # length of the shorter side up to which all eigenvectors are affordable
CUBES = 15  # multiplications for all eigenvectors of a small matrix, over the cube of its rows
SPARSE = 250  # multiplications by an array in the time of one by a sparse matrix
ROWS = 256  # rows of a product that are computed at once
STEPS = 6  # steps without the array in place of one with it; far more in staggered panels
CLEARED = 1 << 25  # bytes of an array up to which fresh memory takes longer than writing to it
NARROW = 16  # width of the narrowest blocks that are multiplied with sparse matrices

Matrix = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Filled:
    """Observations as an array that has at least as many rows as columns.

    The intercepts `base` at X = 0 are taken off the observations: sums of squares would lose
    digits otherwise. An array of what is left is kept only if it is small.
    """

    data: Observed
    kept: Matrix | None  # zeros in the holes
    holes: Any  # positions of the holes in the flattened array
    base: Effects
    lengths: tuple[Matrix, Matrix]  # roots of the numbers of observations of rows and columns
    turned: bool

    @staticmethod
    def fits(data: Observed) -> bool:
        """Whether the loss has the required form, and all eigenvectors are affordable."""
        plain = isinstance(data.loss, Squared) and isinstance(data.weights, float)
        plain = plain and data.left is None and not data.ridge and min(data.shape) <= SHORT
        if not plain or not data.is_full() or data.smoothness != data.weights:
            return False
        return data.intercepts != "both" or data.eliminates

    @staticmethod
    def pays(data: Observed) -> bool:
        """Whether it `fits`, and a run with the array costs less than without it.

        A step takes the Gram matrix of the array and its eigenvectors. Without the array it
        takes products of a sparse matrix with a block at least `NARROW` wide, and there are
        more steps.
        """
        long, short = max(data.shape), min(data.shape)
        step = short + CUBES * short * short / long
        other = SPARSE * NARROW * data.size / math.prod(data.shape)
        return step <= STEPS * other and Filled.fits(data)

    @classmethod
    def of(cls, data: Observed) -> Filled:
        """Make the array of these observations."""
        P: Any = data.pattern
        assert isinstance(P, Pattern)
        values, empty = data.full(data.values), ~P.mask
        turned = P.shape[0] < P.shape[1]
        if turned:
            values, empty = np.ascontiguousarray(values.T), np.ascontiguousarray(empty.T)
        holes = np.flatnonzero(empty)
        base = data.zero()
        for _ in range(2):  # the second one removes rounding errors
            sums = values.sum(axis=1), values.sum(axis=0)
            a, b = data.balanced(*(sums[::-1] if turned else sums))
            base = Effects(0.0, base.rows + a, base.columns + b)
            long, short = (b, a) if turned else (a, b)
            values -= short
            values -= long[:, None]
            values.reshape(-1)[holes] = 0.0
        counts = np.sqrt(P.row_counts), np.sqrt(P.column_counts)
        lengths = (counts[1], counts[0]) if turned else counts
        kept = values if turned or values.nbytes <= CLEARED else None
        return cls(data, kept, holes, base, lengths, turned)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the array."""
        m, d = self.data.shape
        return (d, m) if self.turned else (m, d)

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return 8 * math.prod(self.shape)

    @property
    def values(self) -> Matrix:
        """The observations without the intercepts at X = 0, and zeros in the holes."""
        return np.concatenate([values for _, values in self.blocks()])

    def blocks(self) -> Iterator[tuple[slice, Matrix]]:
        """Blocks of rows of the values, and which: all at once, or some that stay in cache."""
        if self.kept is not None:
            yield slice(None), self.kept
            return
        P: Any = self.data.pattern
        width, starts = self.shape[1], P.pointers
        for low in range(0, self.shape[0], ROWS):
            seen = P.mask[low : low + ROWS]
            rows = slice(low, low + len(seen))
            found = np.zeros(seen.shape)
            found.reshape(-1)[np.flatnonzero(seen)] = self.data.values[
                starts[rows.start] : starts[rows.stop]
            ]
            found -= self.base.columns
            found -= self.base.rows[rows, None]
            start, stop = np.searchsorted(self.holes, [low * width, rows.stop * width])
            found.reshape(-1)[self.holes[start:stop] - low * width] = 0.0
            yield rows, found

    @property
    def weight(self) -> float:
        """Weight of each squared error, which is the smoothness of G."""
        assert isinstance(self.data.weights, float)
        return self.data.weights

    @property
    def share(self) -> float:
        """Share of the entries that are observed."""
        return 1.0 - len(self.holes) / math.prod(self.shape)

    @cached_property
    def unit(self) -> float:
        """Size of the observations without intercepts; one if all are zero."""
        return max(max(float(x.max()), -float(x.min())) for _, x in self.blocks()) or 1.0

    def point(self, V: LowRank) -> LowRank:
        """X in the orientation of the array, or that of the array as X."""
        return LowRank(V.Vt.T, V.s, V.U.T) if self.turned else V

    @property
    def by_rows(self) -> bool:
        """Whether there is an intercept for each row of the array."""
        return self.data.by_columns if self.turned else self.data.by_rows

    @property
    def by_columns(self) -> bool:
        """Whether there is an intercept for each column of the array."""
        return self.data.by_rows if self.turned else self.data.by_columns

    @property
    def seen(self) -> Any:
        """Which entries of the array are observed."""
        P: Any = self.data.pattern
        return np.ascontiguousarray(P.mask.T) if self.turned else P.mask

    def empty(self) -> Matrix:
        """The fill of X = 0."""
        return np.zeros(len(self.holes) + sum(self.shape))

    def _parts(self, fill: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Entries in the holes, and intercepts of rows and columns."""
        hidden, rows, columns = np.split(
            fill, [len(self.holes), len(self.holes) + self.shape[0]]
        )
        long, short = self.lengths
        return hidden, _over(rows, long), _over(columns, short)

    def target(self, fill: Matrix) -> Matrix:
        """The target of a proximal step among points without means."""
        hidden, rows, columns = self._parts(fill)
        small = self.kept is not None and self.nbytes <= CLEARED
        T = SHARED.like(self.kept) if small else np.empty(self.shape)
        for part, values in self.blocks():
            np.subtract(values, columns, out=T[part])
        T -= rows[:, None]
        T.reshape(-1)[self.holes] = hidden
        if self.by_rows:
            T -= T.mean(axis=1, keepdims=True)
        if self.by_columns:
            T -= T.mean(axis=0)
        return T

    def after(self, X: Matrix) -> tuple[Matrix, float]:
        """Return the fill of X, and G(X). X is overwritten by residuals."""
        hidden = X.reshape(-1)[self.holes]
        R = X
        for part, values in self.blocks():
            np.subtract(values, X[part], out=R[part])
        R.reshape(-1)[self.holes] = 0.0
        sums = R.sum(axis=1), R.sum(axis=0)
        rows, columns = self._solved(*sums)
        square = float(np.vdot(R, R)) - float(sums[0] @ rows) - float(sums[1] @ columns)
        long, short = self.lengths
        fill = np.concatenate([hidden, rows * long, columns * short])
        return fill, 0.5 * self.weight * max(square, 0.0)

    def moved(
        self,
        fill: Matrix,
        left: Matrix,
        right: Matrix,
        rows: Matrix,
        columns: Matrix,
        R: Matrix,
    ) -> tuple[Matrix, float]:
        """Return the fill after a change of X and of intercepts, and G there.

        X changes by left times right', intercepts by `rows` and `columns`, after which the
        residuals are R.
        """
        found, count = fill.copy(), len(self.holes)
        width = self.shape[1]
        for low in range(0, len(R), ROWS):
            start, stop = np.searchsorted(self.holes, [low * width, (low + ROWS) * width])
            change = left[low : low + ROWS] @ right.T
            found[start:stop] += change.reshape(-1)[self.holes[start:stop] - low * width]
        sums = R.sum(axis=1), R.sum(axis=0)
        a, b = self._solved(*sums)
        square = float(np.vdot(R, R)) - float(sums[0] @ a) - float(sums[1] @ b)
        long, short = self.lengths
        found[count : count + len(R)] += (rows + a) * long
        found[count + len(R) :] += (columns + b) * short
        return found, 0.5 * self.weight * max(square, 0.0)

    def _solved(self, rows: Matrix, columns: Matrix) -> tuple[Matrix, Matrix]:
        """Best intercepts for residuals with these sums."""
        if self.turned:
            return self.data.balanced(columns, rows)[::-1]
        return self.data.balanced(rows, columns)

    def residual(self, R: Matrix, fill: Matrix) -> Matrix:
        """Residuals of X and its intercepts, from what `after` made of X; R is overwritten."""
        _, rows, columns = self._parts(fill)
        R -= columns
        R -= rows[:, None]
        R.reshape(-1)[self.holes] = 0.0
        return R

    def dual(self, R: Matrix) -> Matrix:
        """The dual point of residuals, over R, without what rounding left of zero sums."""
        rows, columns = self._solved(R.sum(axis=1), R.sum(axis=0))
        R -= columns
        R -= rows[:, None]
        R.reshape(-1)[self.holes] = 0.0
        R *= self.weight
        return R

    def entries(self, R: Matrix) -> Matrix:
        """The observed entries of an array, in the order of the observations."""
        return np.asarray(self.data.picked(np.ascontiguousarray(R.T) if self.turned else R))

    def effects(self, fill: Matrix) -> Effects:
        """The intercepts of a fill, as `Observed.fitted` returns them."""
        _, rows, columns = self._parts(fill)
        rows, columns = (columns, rows) if self.turned else (rows, columns)
        base = self.base
        return self.data.normal(Effects(base.mean, base.rows + rows, base.columns + columns))


def _over(x: Matrix, lengths: Matrix) -> Matrix:
    """x over the lengths, zero where those are."""
    return np.divide(x, lengths, out=np.zeros_like(x), where=lengths > 0.0)
