"""Squared errors of observed entries, as an array, if few entries are unobserved (holes).

With the best intercepts a, b at each X, the target X - grad G / L of a proximal step is

    y_ij - a_i - b_j  where an entry is observed,    x_ij  in the holes.

So a step is a function of the *fill*: the entries of X in the holes and the intercepts at X. A
fill is one vector. Intercepts are multiplied by the root of the number of their observations:
the distance of two fills is then about that of their targets.

G does not change if means of rows (or columns) of X are subtracted and the intercepts of rows
(or columns) take their place, and no spectral norm grows. So some solution has zero means, and
the target is restricted to such points by subtracting its means. Otherwise only the threshold
would shrink them, a little in each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weakprox.linalg.arrays import SHARED
from weakprox.linalg.gram_svd import gram_norm
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.entry_losses import is_squared
from weakprox.losses.observed import Effects, Observed
from weakprox.passes.pattern import Pattern
from weakprox.resources.memory import give_back

SHORT = 2000  # length of the shorter side up to which all eigenvectors are affordable
CUBES = 15  # multiplications for all eigenvectors of a small matrix, over the cube of its rows
SPARSE = 250  # multiplications by an array in the time of one by a sparse matrix
ROWS = 256  # rows of a product that are computed at once
STEPS = 6  # steps without the array that replace one with it; far more in staggered panels
CLEARED = 1 << 25  # bytes of an array up to which fresh memory takes longer than writing to it
SINGLE = 2.0**-24  # rounding of float32
RANGE = 1e12  # sizes up to which, and down to whose inverse, float32 has squares
NARROW = 16  # width of the narrowest blocks that are multiplied with sparse matrices

Matrix = np.ndarray[Any, np.dtype[np.float64]]


class Strip(NamedTuple):
    """A block of rows, and the positions of its holes in a fill."""

    rows: slice
    holes: slice


@dataclass(frozen=True, eq=False)
class Filled:
    """Observations as an array that has at least as many rows as columns.

    The intercepts `base` at X = 0 are subtracted from the observations, since sums of squares
    would lose digits otherwise. An array of the differences is kept only if it is small.
    """

    data: Observed
    kept: Matrix | None  # zeros in the holes
    holes: Any  # positions of the holes in the flattened array
    base: Effects
    lengths: tuple[Matrix, Matrix]  # roots of the numbers of observations of rows and columns
    turned: bool

    @staticmethod
    def fits(data: Observed) -> bool:
        """Return True if the loss has the required form and all eigenvectors are affordable."""
        plain = is_squared(data.loss) and isinstance(data.weights, float)
        plain = plain and data.left is None and not data.ridge and min(data.shape) <= SHORT
        if not plain or not data.is_full() or data.smoothness != data.weights:
            return False
        return data.intercepts != "both" or data.eliminates

    @staticmethod
    def pays(data: Observed) -> bool:
        """Return True if it `fits`, and a run with the array costs less than without it.

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
        """Build the array of these observations."""
        P: Any = data.pattern
        assert isinstance(P, Pattern)
        turned = P.shape[0] < P.shape[1]
        counts = np.sqrt(P.row_counts), np.sqrt(P.column_counts)
        lengths = (counts[1], counts[0]) if turned else counts
        small = 8 * math.prod(P.shape) <= CLEARED
        values = data.full(data.values) if turned or small else None
        seen = P.mask
        if turned:
            assert values is not None
            values, seen = np.ascontiguousarray(values.T), np.ascontiguousarray(seen.T)
        found = cls(data, values, _holes(seen), data.zero(), lengths, turned)
        for _ in range(2):  # the second one removes rounding errors
            base, (m, d) = found.base, found.shape
            sums = np.empty(m), np.zeros(d)
            for rows, part in found.blocks():
                sums[0][rows] = part.sum(axis=1)
                sums[1][...] += part.sum(axis=0)
            a, b = data.balanced(*(sums[::-1] if turned else sums))
            base = Effects(0.0, base.rows + a, base.columns + b)
            if values is not None:
                long, short = (b, a) if turned else (a, b)
                for strip in found.strips:
                    part = values[strip.rows]
                    part -= short
                    part -= long[strip.rows, None]
                    part.reshape(-1)[found.gaps(strip)] = 0.0
            found = replace(found, base=base)
        give_back(found.nbytes)
        return found

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

    @cached_property
    def strips(self) -> list[Strip]:
        """Blocks of rows that stay in cache, and the positions of their holes in a fill."""
        (m, width), found = self.shape, []
        cuts = np.searchsorted(self.holes, np.arange(0, m + ROWS, ROWS) * width)
        for k, low in enumerate(range(0, m, ROWS)):
            rows = slice(low, min(low + ROWS, m))
            found.append(Strip(rows, slice(int(cuts[k]), int(cuts[k + 1]))))
        return found

    def gaps(self, strip: Strip) -> Any:
        """Positions of the holes in a flattened block of rows."""
        return self.holes[strip.holes].astype(np.intp) - strip.rows.start * self.shape[1]

    def blocks(self) -> Iterator[tuple[slice, Matrix]]:
        """Row slices and blocks of the values: all at once, or blocks that stay in cache."""
        if self.kept is not None:
            yield slice(None), self.kept
            return
        for strip in self.strips:
            yield strip.rows, self.block(strip)

    def block(self, strip: Strip, dtype: Any = np.float64) -> Matrix:
        """A block of rows of the values; not to be changed."""
        if self.kept is not None:
            return (self.kept if dtype == np.float64 else self._single)[strip.rows]
        P: Any = self.data.pattern
        rows, starts = strip.rows, P.pointers
        seen = P.mask[rows]
        found = np.zeros(seen.shape)
        found.reshape(-1)[np.flatnonzero(seen)] = self.data.values[
            starts[rows.start] : starts[rows.stop]
        ]
        found -= self.base.columns
        found -= self.base.rows[rows, None]
        found.reshape(-1)[self.gaps(strip)] = 0.0
        return found

    @cached_property
    def _single(self) -> Any:
        """The values in float32, if an array of them is kept."""
        assert self.kept is not None
        return self.kept.astype(np.float32)

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
        return self._sizes[0] or 1.0

    @cached_property
    def _sizes(self) -> tuple[float, float]:
        """The largest absolute value, and the sum of squares in units of it."""
        most = max(max(float(x.max()), -float(x.min())) for _, x in self.blocks())
        unit = most or 1.0
        if self.kept is not None and 1.0 / RANGE < unit < RANGE:
            return most, float(np.vdot(self.kept, self.kept)) / unit**2
        parts = (np.divide(x, unit) for _, x in self.blocks())
        return most, sum(float(np.vdot(x, x)) for x in parts)

    @property
    def rough(self) -> float:
        """Approximate change of a target's norm by rounding to float32; infinite if too large.

        Squares of numbers far from one are out of the range of float32.
        """
        if not 1.0 / RANGE < self.unit < RANGE:
            return math.inf
        m, d = self.shape
        mean = math.sqrt(self._sizes[1] / max(1, self.data.size))
        return SINGLE * self.unit * mean * (math.sqrt(m) + math.sqrt(d))

    def point(self, V: LowRank) -> LowRank:
        """X in the orientation of the array, or a point of the array in that of X."""
        return LowRank(V.Vt.T, V.s, V.U.T) if self.turned else V

    @property
    def by_rows(self) -> bool:
        """True if there is an intercept for each row of the array."""
        return self.data.by_columns if self.turned else self.data.by_rows

    @property
    def by_columns(self) -> bool:
        """True if there is an intercept for each column of the array."""
        return self.data.by_rows if self.turned else self.data.by_columns

    @property
    def seen(self) -> Any:
        """The observed entries of the array, as booleans."""
        P: Any = self.data.pattern
        return np.ascontiguousarray(P.mask.T) if self.turned else P.mask

    def empty(self) -> Matrix:
        """The fill of X = 0."""
        return np.zeros(len(self.holes) + sum(self.shape))

    def _parts(self, fill: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Entries in the holes, and intercepts of rows and columns."""
        return fill[: len(self.holes)], *self._intercepts(fill, fill.dtype)

    def _intercepts(self, fill: Matrix, kind: Any = np.float64) -> tuple[Matrix, Matrix]:
        """Intercepts of rows and columns, in float64 unless another type is given."""
        both = fill[len(self.holes) :].astype(kind, copy=False)
        rows, columns = np.split(both, [self.shape[0]])
        long, short = self.lengths
        return _over(rows, long), _over(columns, short)

    def target(self, fill: Matrix) -> Matrix:
        """The target of a proximal step among points without means, in the fill's dtype."""
        hidden, rows, columns = self._parts(fill)
        small = self.kept is not None and self.nbytes <= CLEARED
        shape, kind = self.shape, fill.dtype
        T = SHARED.like(fill, shape) if small else np.empty(shape, kind)
        sums = np.zeros(shape[1])
        for strip in self.strips:
            part = T[strip.rows]
            np.subtract(self.block(strip, kind), columns, out=part, casting="same_kind")
            part -= rows[strip.rows, None]
            part.reshape(-1)[self.gaps(strip)] = hidden[strip.holes]
            if self.by_rows:
                part -= part.mean(axis=1, keepdims=True)
            if self.by_columns:
                sums += np.ones(len(part), kind) @ part
        if self.by_columns:
            T -= (sums / shape[0]).astype(kind)
        return T

    def after(self, X: Matrix) -> tuple[Matrix, float]:
        """Return the fill of X, and G(X). X is overwritten by residuals."""
        (m, d), count, kind = self.shape, len(self.holes), X.dtype
        fill, sums, square = np.empty(count + m + d, kind), (np.empty(m), np.zeros(d)), 0.0
        for strip in self.strips:
            part, at = X[strip.rows], self.gaps(strip)
            fill[strip.holes] = part.reshape(-1)[at]
            np.subtract(self.block(strip, kind), part, out=part, casting="same_kind")
            part.reshape(-1)[at] = 0.0
            sums[0][strip.rows] = part @ np.ones(d, kind)
            sums[1][...] += np.ones(len(part), kind) @ part
            square += float(np.vdot(part, part))
        rows, columns = self._solved(*sums)
        square -= float(sums[0] @ rows) + float(sums[1] @ columns)
        long, short = self.lengths
        fill[count : count + m], fill[count + m :] = rows * long, columns * short
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
        for strip in self.strips:
            change = left[strip.rows] @ right.T
            found[strip.holes] += change.reshape(-1)[self.gaps(strip)]
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
        """Residuals of X and its intercepts, from the array R left by `after`, in place."""
        _, rows, columns = self._parts(fill)
        for strip in self.strips:
            part = R[strip.rows]
            part -= columns
            part -= rows[strip.rows, None]
            part.reshape(-1)[self.gaps(strip)] = 0.0
        return R

    def dual(self, R: Matrix, fill: Matrix) -> Dual:
        """The dual point of the array that `after` left in X, given its fill, in float64."""
        rows, columns = self._intercepts(fill)
        found, sums = Dual(self, R, rows, columns), (np.empty(len(R)), np.zeros(R.shape[1]))
        for strip in self.strips:  # rounding errors of zero sums
            part = found.block(strip)
            sums[0][strip.rows] = part @ np.ones(part.shape[1])
            sums[1][...] += np.ones(len(part)) @ part
        more, others = self._solved(*sums)
        return replace(found, rows=rows + more, columns=columns + others)

    def effects(self, fill: Matrix) -> Effects:
        """The intercepts of a fill, as `Observed.fitted` returns them."""
        rows, columns = self._intercepts(fill)
        rows, columns = (columns, rows) if self.turned else (rows, columns)
        base = self.base
        return self.data.normal(Effects(base.mean, base.rows + rows, base.columns + columns))


@dataclass(frozen=True, eq=False)
class Dual:
    """Residuals minus intercepts, with zero sums: a dual point, computed in blocks."""

    filled: Filled
    R: Matrix  # in float32 or float64; zeros in the holes
    rows: Matrix
    columns: Matrix

    def block(self, strip: Strip) -> Matrix:
        """A block of rows of the residuals in float64, as a new array."""
        found = self.R[strip.rows].astype(np.float64)
        found -= self.columns
        found -= self.rows[strip.rows, None]
        found.reshape(-1)[self.filled.gaps(strip)] = 0.0
        return found

    def sums(self) -> tuple[float, float, float]:
        """Products with the values and with itself, and an upper bound on its norm."""
        along, square, filled = 0.0, 0.0, self.filled
        scale = 1.0 if 1.0 / RANGE < filled.unit < RANGE else filled.unit
        G = np.zeros((self.R.shape[1],) * 2)
        for strip in filled.strips:
            part = self.block(strip)
            along += float(np.vdot(part, filled.block(strip)))
            square += float(np.vdot(part, part))
            if scale != 1.0:
                part /= scale
            G += part.T @ part
        w = filled.weight
        return w * along, w * w * square, w * scale * gram_norm(G, len(self.R), ROWS)

    def entries(self) -> Matrix:
        """The observed entries, in the order of the observations."""
        filled = self.filled
        data, w = filled.data, filled.weight
        if filled.turned:
            whole = np.concatenate([self.block(strip) for strip in filled.strips])
            return np.asarray(data.picked(np.ascontiguousarray(whole.T))) * w
        P: Any = data.pattern
        found = np.empty(data.size)
        for strip in filled.strips:
            out = found[P.pointers[strip.rows.start] : P.pointers[strip.rows.stop]]
            at = np.flatnonzero(P.mask[strip.rows])
            np.take(self.block(strip).reshape(-1), at, out=out, mode="clip")
        found *= w
        return found


def _holes(seen: Any) -> Any:
    """Positions of the False entries of an array, in the smallest sufficient integer type."""
    kind: Any = np.uint32 if seen.size < 1 << 32 else np.int64
    width = seen.shape[1]
    found = np.empty(seen.size - int(np.count_nonzero(seen)), kind)
    start = 0
    for low in range(0, len(seen), ROWS):
        part = np.flatnonzero(~seen[low : low + ROWS])
        part += low * width
        found[start : start + len(part)] = part
        start += len(part)
    return found


def _over(x: Matrix, lengths: Matrix) -> Matrix:
    """x over the lengths, zero where these are zero."""
    return np.divide(x, lengths, out=np.zeros_like(x), where=lengths > 0.0)
