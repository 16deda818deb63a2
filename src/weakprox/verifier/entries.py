"""Losses of observed entries: values, and lower models of them.

    G(X) = min over mu, a, b of  sum of w l(v, c_i X_ij e_j + mu + a_i + b_j)
                                 + ridge/2 (|a|^2 + |b|^2)

Any intercepts give an upper bound on G(X). Any numbers q, one for each observation, give the
lower model

    G(V) >= -<S, V> - sum of w l*(v, -q/w) - sum of (sums of q)^2 / (2 ridge),

with S the sparse matrix of the entries c_i q e_j, l* the conjugate in the second argument,
and sums of q over the observations of a row or column that has an intercept. Those of free
intercepts have to be zero: q are multiples of a power of two, so that this can be tested in
integers. With a ridge, the mean mu is still free.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from weakprox.verifier import sums
from weakprox.verifier.sums import Matrix, Model, Near, Point, U, added, dot, norm, total

LARGEST = 1 << 40  # integers of a dual point
LARGEST_SUM = 1 << 62  # of their sizes, so that no sum of them overflows


@dataclass(frozen=True)
class Terms:
    """Losses of all observations, with sizes that rounding is relative to.

    `slopes` bound the first derivatives and `bends` the second ones near these points.
    """

    values: Matrix
    sizes: Matrix
    slopes: Matrix
    bends: Matrix | float


@dataclass(frozen=True)
class SquaredEntry:
    """(z - v)^2 / 2."""

    square: ClassVar[bool] = True
    trusted: ClassVar[tuple[str, ...]] = ()

    def at(self, v: Matrix, z: Matrix) -> Terms:
        """Losses at the predictions z."""
        r = z - v
        return Terms(0.5 * r * r, 0.5 * r * r, np.abs(r), 1.0)

    def limits(self, v: Matrix, w: Any) -> tuple[Any, Any]:
        """Numbers q for which the conjugate is finite."""
        return -math.inf, math.inf

    def conjugate(self, v: Matrix, q: Matrix, w: Any) -> tuple[Matrix, Matrix]:
        """w l*(v, -q/w), and the sizes of its parts."""
        square, along = q * q / (2 * w), q * v
        return square - along, square + np.abs(along)


@dataclass(frozen=True)
class HuberEntry:
    """r^2/2 for |r| <= k, else k |r| - k^2/2, with r = z - v."""

    k: float
    square: ClassVar[bool] = False
    trusted: ClassVar[tuple[str, ...]] = ()

    def at(self, v: Matrix, z: Matrix) -> Terms:
        r = z - v
        inside = np.clip(r, -self.k, self.k)
        found = inside * (r - 0.5 * inside)
        return Terms(found, found + np.abs(inside * r), np.abs(inside), 1.0)

    def limits(self, v: Matrix, w: Any) -> tuple[Any, Any]:
        """|q| <= w k, less what rounding may have added to the product."""
        most = self.k if np.all(w == 1.0) else w * self.k * (1 - 4 * U)
        return -most, most

    def conjugate(self, v: Matrix, q: Matrix, w: Any) -> tuple[Matrix, Matrix]:
        """w l*(v, -q/w), as for the squares."""
        return SquaredEntry().conjugate(v, q, w)


@dataclass(frozen=True)
class LogisticEntry:
    """log(1 + e^z) - v z for v = 0 or 1."""

    square: ClassVar[bool] = False
    trusted: ClassVar[tuple[str, ...]] = ()

    def at(self, v: Matrix, z: Matrix) -> Terms:
        t = np.where(v == 1.0, -z, z)
        found = np.logaddexp(0.0, t)
        with np.errstate(over="ignore"):
            slopes = 1.0 / (1.0 + np.exp(-t))
        return Terms(found, found, slopes, 0.25)

    def limits(self, v: Matrix, w: Any) -> tuple[Any, Any]:
        """v - q/w is a probability."""
        return np.where(v == 1.0, 0.0, -w), np.where(v == 1.0, w, 0.0)

    def conjugate(self, v: Matrix, q: Matrix, w: Any) -> tuple[Matrix, Matrix]:
        """w times the negative entropy of |q|/w."""
        a = np.abs(q) / w
        rest = np.maximum(1.0 - a, 0.0)
        parts = xlogx(a), rest * np.log1p(-np.where(rest > 0.0, a, 0.0))
        # an error u of a moves the second part by at most 40 u
        return w * (parts[0] + parts[1]), w * (np.abs(parts[0]) + np.abs(parts[1]) + 40 * a)


@dataclass(frozen=True)
class PoissonEntry:
    """e^z - v z + v log v - v for counts v."""

    square: ClassVar[bool] = False
    trusted: ClassVar[tuple[str, ...]] = ()

    def at(self, v: Matrix, z: Matrix) -> Terms:
        mean, along, fixed = np.exp(z), v * z, xlogx(v)
        sizes = mean * (1 + np.abs(z)) + np.abs(along) + np.abs(fixed) + v
        return Terms(mean - along + fixed - v, sizes, np.abs(mean - v), 4.0 * mean)

    def limits(self, v: Matrix, w: Any) -> tuple[Any, Any]:
        """v - q/w is a mean."""
        return -math.inf, v if np.all(w == 1.0) else w * v * (1 - 4 * U)

    def conjugate(self, v: Matrix, q: Matrix, w: Any) -> tuple[Matrix, Matrix]:
        """w (p log p - p - v log v + v) for p = v - q/w."""
        share = q / w
        p = np.maximum(v - share, 0.0)
        parts = xlogx(p), xlogx(v)
        steep = np.abs(np.log(np.where(p > 0.0, p, 1.0)))
        sizes = np.abs(parts[0]) + np.abs(parts[1]) + p + v + (1 + steep) * (np.abs(share) + p)
        return w * (parts[0] - p - parts[1] + v), w * sizes


@dataclass(frozen=True)
class OwnEntry:
    """A loss given by the user's functions, which are trusted."""

    function: Callable[[Matrix, Matrix], Any]
    slope: Callable[[Matrix, Matrix], Any]
    bend: Callable[[Matrix, Matrix], Any]
    conjugate_of: Callable[[Matrix, Matrix], Any]
    square: ClassVar[bool] = False
    trusted: ClassVar[tuple[str, ...]] = ("the functions of the loss of an entry",)

    def at(self, v: Matrix, z: Matrix) -> Terms:
        found = np.asarray(self.function(v, z), dtype=np.float64)
        slopes = np.abs(np.asarray(self.slope(v, z), dtype=np.float64))
        bends = 4.0 * np.asarray(self.bend(v, z), dtype=np.float64)
        return Terms(found, 16 * (np.abs(found) + slopes * np.abs(z)), slopes, bends)

    def limits(self, v: Matrix, w: Any) -> tuple[Any, Any]:
        """Unknown: the conjugate is infinite beyond them."""
        return -math.inf, math.inf

    def conjugate(self, v: Matrix, q: Matrix, w: Any) -> tuple[Matrix, Matrix]:
        """The conjugate, by the user's function."""
        found = w * np.asarray(self.conjugate_of(v, -q / w), dtype=np.float64)
        return found, 16 * (np.abs(found) + np.abs(q * v))


Entry: TypeAlias = SquaredEntry | HuberEntry | LogisticEntry | PoissonEntry | OwnEntry


@dataclass(frozen=True)
class OnEntries:
    """A dual point on the observations: integers times 2^exponent."""

    integers: Any
    exponent: int


@dataclass(frozen=True)
class Intercepts:
    """Intercepts of a claimed answer."""

    mean: float
    rows: Matrix
    columns: Matrix


class Entries:
    """The loss of observed entries, ordered by rows and then by columns, perhaps repeated.

    `weight` is that of all observations, or of each. `intercepts`, "none", "rows", "columns" or
    "both", are fitted with this `ridge`. `left` and `right` are the scalings c and e.
    """

    infimum: float | None = 0.0  # a lower bound on G

    def __init__(
        self,
        rows: Any,
        cols: Any,
        values: Any,
        shape: tuple[int, int],
        weight: Any,
        entry: Entry | None = None,
        *,
        intercepts: str = "none",
        ridge: float = 0.0,
        left: Any = None,
        right: Any = None,
    ) -> None:
        self.rows, self.cols = (np.asarray(x, dtype=np.int64) for x in (rows, cols))
        self._values = np.asarray(values, dtype=np.float64)
        self.shape, self.weight = shape, weight
        self.entry = SquaredEntry() if entry is None else entry
        self.intercepts, self.ridge = intercepts, ridge
        self._left, self._right = left, right
        keys = self.rows * shape[1] + self.cols
        if np.any(keys[1:] < keys[:-1]):
            raise ValueError("observations that are not ordered")
        self._first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))  # of each cell
        counts = np.diff(np.append(self._first, len(keys)))
        self._most = int(counts.max())
        self._complete = len(self._first) == shape[0] * shape[1]

    @property
    def quadratic(self) -> bool:
        """True if G is a sum of squares, which is linearised at a point instead."""
        return self.entry.square and self.intercepts == "none"

    @property
    def limits(self) -> tuple[Any, Any]:
        """Smallest and largest q of each observation with a finite conjugate."""
        return self.entry.limits(self._values, self.weight)

    @property
    def widest(self) -> float:
        """The largest product of scalings."""
        return float(np.max(self._factors))

    @property
    def _factors(self) -> Any:
        """c_i e_j at the observations."""
        if self._left is None:
            return 1.0
        return self._left[self.rows] * self._right[self.cols]

    def _seen(self, X: Point) -> tuple[Matrix, float]:
        """c_i X_ij e_j at the observations, and a bound on the norm of their errors."""
        seen = X.at(self.rows, self.cols) * self._factors
        far = math.sqrt(self._most) * self.widest * X.error * (1 + 4 * U)
        return seen, far + 3 * U * norm(seen)

    def value(self, X: Point, intercepts: Intercepts | None = None) -> Near:
        """Sum of the losses, and the ridge, at X and these intercepts."""
        z, far = self._seen(X)
        parts = []
        if intercepts is not None:
            kind, mean = self.intercepts, intercepts.mean if self.intercepts != "none" else 0.0
            a = intercepts.rows * float(kind in ("rows", "both"))  # others are not fitted
            b = intercepts.columns * float(kind in ("columns", "both"))
            shift = a[self.rows] + b[self.cols] + mean
            sizes = np.abs(a)[self.rows] + np.abs(b)[self.cols] + (abs(mean) + np.abs(z))
            z, far = z + shift, far + 4 * U * norm(sizes)
            if self.ridge:
                parts += [dot(x, x).times(0.5 * self.ridge) for x in (a, b)]
        terms, w = self.entry.at(self._values, z), self.weight
        error = 8 * U * total(w * terms.sizes) + far * norm(w * terms.slopes)
        error += far * far * float(np.max(w * terms.bends))
        return added([Near(total(w * terms.values), error), *parts])

    def model(self, at: Point | OnEntries, claimed: float, symmetric: bool) -> Model:
        """The lower model of a dual point on the observations, or at a point X0."""
        return self._dual(at) if isinstance(at, OnEntries) else self._linear(at)

    def _linear(self, X0: Point) -> Model:
        """The sum of squares, strongly convex by the entry with the least weight."""
        assert self.quadratic
        m, d = self.shape
        w, factors = self.weight + 0.0 * self._values, self._factors
        cells = np.add.reduceat(w * factors * factors, self._first)
        a = float(cells.min()) * (1 - (self._most + 8) * U) if self._complete else 0.0
        seen, far = self._seen(X0)
        r = seen - self._values
        # twice, since rows of X0 (below) and entries of X0 may round in different directions
        far = 2 * far + U * norm(r)
        constants = [dot(w * r, 0.5 * r - seen)]
        heavy = float(w.max())
        lost = heavy * far * (2 * norm(r) + norm(seen) + far) + 2 * U * heavy * norm(r) ** 2
        slopes = w * factors * r
        error = (self._most + 6) * U * math.sqrt(self._most) * norm(slopes)
        error += heavy * self.widest * math.sqrt(self._most) * far
        if a > 0.0:
            for first, last in sums.blocks(m, d):
                block = X0.rows(first, last)
                constants.append(dot(block, block).times(0.5 * a))
                error += 4 * U * a * norm(block)
        sparse = self._matrix(slopes)

        def rows(first: int, last: int) -> Matrix:
            slope: Matrix = sparse[first:last].toarray()
            return slope - a * X0.rows(first, last) if a > 0.0 else slope

        constant = added([*constants, Near(0.0, lost)])
        return Model(rows, error, constant, a, sparse=None if a > 0.0 else sparse)

    def _matrix(self, values: Matrix) -> Any:
        """The sparse matrix of these numbers, those of repeated observations added up."""
        summed = np.add.reduceat(values, self._first)
        pointers = np.searchsorted(self.rows[self._first], np.arange(self.shape[0] + 1))
        return csr_array((summed, self.cols[self._first], pointers), shape=self.shape)

    def _dual(self, at: OnEntries) -> Model:
        """The model by conjugates; the constant is minus infinity unless q is feasible."""
        q = np.ldexp(np.asarray(at.integers, dtype=np.float64), at.exponent)
        w, v = self.weight, self._values
        low, high = self.limits
        feasible = bool(np.all((q >= low) & (q <= high))) and self._balanced(at.integers)
        values, sizes = self.entry.conjugate(v, q, w)
        parts = [Near(-total(values), 8 * U * total(sizes))]
        if self.ridge:
            for part in self._sums(at.integers):
                exact = np.ldexp(part.astype(np.float64), at.exponent)
                parts.append(dot(exact, exact).times(-0.5 / self.ridge))
                parts.append(Near(0.0, 4 * U * abs(parts[-1].value)))
        constant = added(parts) if feasible else Near(-math.inf)
        slopes = -self._factors * q
        sparse = self._matrix(slopes)
        error = (self._most + 4) * U * math.sqrt(self._most) * norm(slopes)
        rows = lambda first, last: sparse[first:last].toarray()  # noqa: E731
        return Model(rows, error, constant, 0.0, self.entry.trusted, sparse)

    def _sums(self, integers: Any) -> list[Any]:
        """Exact sums over rows and columns, of those that have intercepts."""
        k, found = np.asarray(integers, dtype=np.int64), []
        for size, index, names in (
            (self.shape[0], self.rows, ("rows", "both")),
            (self.shape[1], self.cols, ("columns", "both")),
        ):
            if self.intercepts in names:
                found.append(np.zeros(size, np.int64))
                np.add.at(found[-1], index, k)
        return found

    def _balanced(self, integers: Any) -> bool:
        """Return True if the sums over observations with a common free intercept are zero."""
        if self.intercepts == "none":
            return True
        if not summable(integers):
            return False
        k = np.asarray(integers, dtype=np.int64)
        return not any(np.any(part) for part in ([k.sum()] if self.ridge else self._sums(k)))


def summable(integers: Any) -> bool:
    """Return True if these are integers, and no sum of them can overflow."""
    k = np.asarray(integers)
    if k.dtype.kind != "i" or k.size == 0:
        return False
    most = max(-int(k.min()), int(k.max()))  # the absolute value of the least would overflow
    return most <= LARGEST and most * k.size <= LARGEST_SUM


def xlogx(p: Matrix) -> Matrix:
    """p log p, zero at p = 0."""
    return np.asarray(p * np.log(np.where(p > 0.0, p, 1.0)))
