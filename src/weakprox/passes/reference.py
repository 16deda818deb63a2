"""The formulas of a splitting step, and its passes in any namespace, by blocks of rows.

G = beta/2 |X - C|^2, R in separable form, h a function of singular values. With
X = prox_{gamma h}(z), a step takes the target t = 2X - z - gamma (beta (X - C) + curvature X)
to Y = prox_{gamma R}(t) and moves z by Y - X. s = (t - Y)/gamma is a dual point of R. Passes
for other arithmetic are tested against those here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from weakprox.linalg.arrays import (
    DOUBLE,
    SHARED,
    Array,
    clip_into,
    in_file,
    multiply,
    namespace,
    rough_inner,
    row_blocks,
    scaled_into,
    slopes,
    sqnorm,
    subtract,
    total,
    wide,
)
from weakprox.linalg.arrays import quick_times as quick_times
from weakprox.linalg.arrays import quick_transpose_times as quick_transpose_times
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.lowrank import blend_into as blend_into
from weakprox.passes.beside import beside as beside
from weakprox.passes.beside import halves

COMPILED, IN_FLOAT64 = False, False  # as in `interface`
TERMS = 6  # fields of Sums that are sums over entries; the last follows from factors
Vector = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class SeparableForm:
    """R(X) = sum above (x - high)_+ + below (low - x)_+ + rows |row| + columns |column|.

    The norms are Euclidean, and low <= high are finite: a side without a bound has the slope
    0. Each of the `weights` is a number a and an array W on the host that broadcasts to the
    shape of X, and adds the sum of a W |x|. The `bounds`, two arrays that broadcast as well,
    take the place of low and high; infinite ones have no slope. The penalty's quadratic is not
    part of the form but its `curvature`. Passes support one of these at a time: groups of
    rows, groups of columns, bounds other than zero. There may be weights unless there are such
    bounds. Entries are thresholded, then groups are scaled.
    """

    above: float = 0.0
    below: float = 0.0
    rows: float = 0.0
    columns: float = 0.0
    low: float = 0.0
    high: float = 0.0
    weights: tuple[tuple[float, Any], ...] = field(default=(), compare=False)
    bounds: tuple[Any, Any] | None = field(default=None, compare=False)

    def __add__(self, other: SeparableForm) -> SeparableForm | None:
        """The form of a sum of penalties; None if slopes begin at different entries."""
        both = (self, other)
        highs = {x.high for x in both if x.above or x.weights}
        lows = {x.low for x in both if x.below or x.weights}
        ends = min(lows or highs or {0.0}), min(highs or lows or {0.0})
        if len(highs) > 1 or len(lows) > 1 or ends[0] > ends[1]:
            return None
        bounded = [x.bounds for x in both if x.bounds is not None]
        if bounded and any(x.above or x.below or x.weights for x in both if x.bounds is None):
            return None
        if len(bounded) > 1:
            return None
        return SeparableForm(
            self.above + other.above,
            self.below + other.below,
            self.rows + other.rows,
            self.columns + other.columns,
            *ends,
            self.weights + other.weights,
            bounded[0] if bounded else None,
        )


class Step(NamedTuple):
    """Constants of a step: its size gamma, those of G, the curvature and form of R.

    An array `beside` C has weights w, so that an entry has the slopes above + factor w and
    below + factor w. If the step is `bounded`, it has twice as many columns, which are the
    bounds where the slopes of entries begin: the lower ones, then the upper ones; one row of
    them may stand for all.
    """

    gamma: float
    beta: float
    curvature: float
    above: float
    below: float
    rows: float = 0.0
    columns: float = 0.0
    low: float = 0.0
    high: float = 0.0
    factor: float = 0.0
    beside: Any = None
    steepness: float = 0.0  # bound on the Frobenius norm of factor times the weights
    bounded: bool = False
    extent: float = 0.0  # sum of the sizes of the finite bounds, the larger one of each entry
    inner: float = 0.0  # sum of the distances of the ranges between bounds from zero
    widened: float = 0.0  # sum of the distances by which bounds were rounded outwards

    @property
    def numbers(self) -> tuple[float, ...]:
        """The constants that passes need, without arrays."""
        return self[:NUMBERS]

    @property
    def weighted(self) -> bool:
        """Whether slopes differ between entries; then they begin at zero."""
        return self.beside is not None and not self.bounded

    @property
    def bare(self) -> Step:
        """The step without its array."""
        return self if self.beside is None else self._replace(beside=None)

    def within(self, rows: slice) -> Step:
        """The step for these rows."""
        if self.beside is None or (self.bounded and self.beside.shape[0] == 1):
            return self
        return self._replace(beside=self.beside[rows])

    def more(self, like: Any) -> Any:
        """The slopes that weights add to entries, in the dtype of an array."""
        weights = namespace(like).astype(self.beside, like.dtype, copy=False)
        return self.factor * weights

    def ends(self, like: Any) -> tuple[Any, Any]:
        """Where the slopes below and above begin, in the dtype of an array if they differ."""
        if not self.bounded:
            return self.low, self.high
        return halves(namespace(like).astype(self.beside, like.dtype, copy=False))

    def slopes(self, like: Any) -> tuple[Any, Any]:
        """The least and the largest dual point of entries."""
        if not self.weighted:
            return -self.below, self.above
        more = self.more(like)
        return -(more + self.below), more + self.above

    @property
    def free(self) -> bool:
        """Whether R is zero."""
        slopes = self.above or self.below or self.grouped or self.weighted
        return not (slopes or self.curvature)

    @property
    def shifted(self) -> bool:
        """Whether slopes begin elsewhere than at zero; then there are no groups."""
        return bool(self.low or self.high or self.bounded)

    @property
    def plain(self) -> bool:
        """Whether all entries have the same slopes, which begin at zero, without groups."""
        return not (self.grouped or self.shifted or self.weighted)

    @property
    def grouped(self) -> bool:
        """Whether R has a part that acts on whole rows or columns."""
        return bool(self.rows or self.columns)

    @property
    def has_kernel(self) -> bool:
        """Whether there are kernels for the step on devices."""
        return not (self.bounded or (self.weighted and self.grouped))

    @property
    def groups(self) -> int:
        """Code for kernels: 0 for entries, 1 and 2 for rows and columns, 3 if `shifted`.

        It is 4 if `weighted`.
        """
        if self.weighted:
            return 4
        return 1 if self.rows else 2 if self.columns else 3 if self.shifted else 0

    @property
    def weight(self) -> float:
        """Weight of the groups."""
        return self.rows or self.columns

    def reach(self, shape: Any) -> float:
        """Bound on the Frobenius norm of s."""
        m, n = (int(size) for size in shape)
        entries = max(self.above, self.below) * math.sqrt(m * n) + self.steepness
        return entries + self.rows * math.sqrt(m) + self.columns * math.sqrt(n)

    def offset(self, shape: Any) -> float:
        """Bound on the sum of |s| times the sizes of the bounds where slopes begin."""
        if self.bounded:
            return max(self.above, self.below) * self.extent
        m, n = (int(size) for size in shape)
        return max(self.above * abs(self.high), self.below * abs(self.low)) * m * n

    def opposed(self, shape: Any) -> float:
        """As `offset`, for the bounds of the other sign than s: those between zero and X."""
        if self.bounded:
            return max(self.above, self.below) * self.inner
        m, n = (int(size) for size in shape)
        return max(-self.above * self.high, self.below * self.low, 0.0) * m * n


NUMBERS = Step._fields.index("beside")


class Replayed:
    """A target z that is a function of C, of an array beside it and of earlier moves."""

    beside: Any = None


class Sums(NamedTuple):
    """Sums over all entries at X, in float64, with u = (z - X)/gamma."""

    distance: float  # (X - C)^2
    price: float  # of entries: slopes times distances from where they begin
    along: float  # s X - R*(s), R*(s) = high s_+ - low s_-
    across: float  # u X; NaN if it is computed from the triplets of z instead
    rest: float  # (beta (X - C) + curvature X + s + u)^2, zero at a solution
    square: float  # X^2, from the factors
    groups: float = 0.0  # weighted norms of rows or columns of X, from the factors
    error: float = 0.0  # bound on that of `distance` and of `across` / beta, if not summed

    @property
    def penalty(self) -> float:
        """R(X) without its curvature."""
        return self.price + self.groups

    def value(self, k: Step) -> float:
        """G(X) + R(X)."""
        smooth = k.beta * self.distance + k.curvature * self.square
        return 0.5 * smooth + self.penalty

    def rounding(self, k: Step, eps: float, shape: Any) -> float:
        """Bound on the increase of the value if each entry of X is rounded, eps the dtype's.

        In float64, the precision of these sums, only their `error` counts.
        """
        error = 0.5 * k.beta * self.error
        if eps <= DOUBLE:
            return error
        slope = k.beta * math.sqrt(self.distance * self.square)
        price = self.penalty
        if k.shifted:  # entries may leave their bounds, whose sizes they have there
            whole = k.reach(shape) * math.sqrt(self.square)
            price = min(whole, price + (1.0 + eps) * k.offset(shape))
        if k.weighted:  # they may have been rounded down as well
            price *= 3.0 + 2.0 * eps
        terms = slope + price + k.curvature * self.square
        widened = max(k.above, k.below) * k.widened
        squares = 0.125 * k.beta * eps * eps * self.square
        return error + widened + 0.5 * eps * (1.0 + eps) * terms + squares

    def offset(self, k: Step, shape: Any) -> float:
        """A bound as `k.offset`, which does not grow with bounds that are never reached.

        Terms of the conjugate are positive where a bound has the sign of s.
        """
        conjugate = k.reach(shape) * math.sqrt(self.square) + abs(self.along)
        return min(k.offset(shape), conjugate + 2.0 * k.opposed(shape))

    def halves(self, k: Step) -> tuple[float, float]:
        """The two halves of the step's gap: R(X) + R*(s) - <s, X>, and the smooth part's."""
        near = max(0.0, self.penalty - self.along)
        return near, self.rest / (2 * (k.beta + k.curvature))


def group_norms(X: Any, k: Step) -> float:
    """Weighted sum of the norms of the rows or columns of X, from its factors in float64."""
    if not k.grouped:
        return 0.0
    left, right = wide(X.U) * wide(X.s), wide(X.Vt)
    if k.rows:
        squares = ((left @ (right @ right.T)) * left).sum(1)
    else:
        squares = (((left.T @ left) @ right) * right).sum(0)
    xp = namespace(squares)
    return k.weight * total(xp.sqrt(xp.clip(squares, 0.0, None)))


def cut(norms: Array, k: Step, length: int) -> Array:
    """Share of each group that its penalty removes, given the norms after thresholding.

    `length` is the number of entries in a group. Shares are reduced by the rounding errors
    of such norms, so that s is a dual point in spite of them.
    """
    xp = namespace(norms)
    level = k.gamma * k.weight * (1.0 - (length + 16) * 0.5 * DOUBLE)
    return xp.where(norms > level, level / xp.clip(norms, level, None), xp.ones_like(norms))


def target(C: Any, z: Any, X: Any, k: Step) -> Any:
    """The target t of a step, for arrays or tiles."""
    return (2.0 - k.gamma * (k.beta + k.curvature)) * X + (k.gamma * k.beta) * C - z


def thresholded(t: Any, k: Step, clip: Any) -> tuple[Any, Any]:
    """The dual point of the entrywise part of R at t, and the remainder of t."""
    beyond = t - clip(t, *k.ends(t)) if k.shifted else t
    y = clip(beyond * (1.0 / k.gamma), *k.slopes(t))
    return y, t - k.gamma * y


def split(C: Any, z: Any, X: Any, k: Step, clip: Any, cuts: Any = 0.0) -> tuple[Any, Any]:
    """The dual point s and the move Y - X of a step, given the cuts of groups."""
    t = target(C, z, X, k)
    y, left = thresholded(t, k, clip)
    s = y + (cuts * left) * (1.0 / k.gamma)
    return s, t - k.gamma * s - X


def first(C: Array, z: Array, k: Step, Q: Array | None = None) -> Array | None:
    """Overwrite z by prox_{gamma R}(gamma beta C); return z Q if a block Q is given."""
    grouped, plain = k.grouped, isinstance(z, np.ndarray) and k.plain
    cuts = _column_cuts(C, z, None, k) if k.columns else None
    clip, room = namespace(z).clip, None
    for rows in row_blocks(C, z, k.beside):
        if plain:
            t = z[rows]
            room = SHARED.like(z, t.shape) if room is None else room
            np.multiply(C[rows], z.dtype.type(k.gamma * k.beta), out=t)
            bounds = -k.gamma * k.below, k.gamma * k.above
            t -= np.clip(t, *bounds, out=room[: t.shape[0]])
        else:
            _, t = thresholded((k.gamma * k.beta) * C[rows], k.within(rows), clip)
            if grouped:
                t *= 1.0 - (_row_cuts(t, k) if cuts is None else cuts)
            z[rows] = t
    return None if Q is None else quick_times(z, Q)


def _row_cuts(left: Array, k: Step) -> Array:
    """Shares by which the groups of these rows shrink, as a column in the rows' dtype."""
    xp = namespace(left)
    norms = xp.linalg.vector_norm(wide(left), axis=1, keepdims=True)
    return xp.astype(cut(norms, k, int(left.shape[1])), left.dtype, copy=False)


def _column_cuts(
    C: Array, z: Array, X: LowRank | None, k: Step, *, exact: bool = False
) -> Array:
    """Shares by which columns shrink at the step from z, or at the first step if X is None.

    This takes an extra pass, since the norm of a column depends on all rows.
    """
    squares: Any = 0.0
    as_is: Any = wide if exact else (lambda x: x)
    for rows in row_blocks(C, z, k.beside):
        c = as_is(C[rows])
        if X is None:
            t = (k.gamma * k.beta) * c
        else:
            t = target(c, as_is(z[rows]), as_is((X.U * X.s)[rows]) @ as_is(X.Vt), k)
        _, left = thresholded(t, k.within(rows), namespace(t).clip)
        left = wide(left)
        squares = squares + (left * left).sum(0)
    xp = namespace(squares)
    return xp.astype(cut(xp.sqrt(squares), k, int(z.shape[0])), as_is(z[:1]).dtype, copy=False)


def look(C: Array, z: Array | None, X: LowRank, k: Step) -> Sums:
    """The sums at X in float64; without z, only those that depend on X alone."""
    found: list[Vector] = []
    plain, groups = k.plain, group_norms(X, k)
    factors = LowRank(wide(X.U), wide(X.s), wide(X.Vt))
    left, right = factors.U * factors.s, factors.Vt
    cuts = None if z is None or not k.columns else _column_cuts(C, z, factors, k, exact=True)
    room = None
    for rows in row_blocks(C, z, k.beside):
        c = wide(C[rows])
        at = c if z is None else wide(z[rows])
        if isinstance(c, np.ndarray) and plain:
            if room is None:  # the first block is the largest
                room = SHARED.like(c, (4, *c.shape))
            parts = room[:, : c.shape[0]]
            np.matmul(left[rows], right, out=parts[0])
            found.append(_sums_within(c, at, parts, k))
        else:
            found.append(_sums(c, at, left[rows] @ right, k.within(rows), cuts))
    return Sums._make([*map(math.fsum, zip(*found, strict=True)), groups, 0.0])


def advance_from(
    old: Array, C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """`advance` from a target that must not change; z is overwritten by the next one."""
    z[...] = old
    return advance(C, z, X, k, change, Q)


def advance(
    C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """Return estimates of the sums at X (without `across`); overwrite z by the next target.

    Also return z Q if a block Q is given. `change` is the factor by which gamma will change.
    """
    distance = price = along = rest = 0.0
    grouped, groups, shifted, weighted = k.grouped, group_norms(X, k), k.shifted, k.weighted
    columns = _column_cuts(C, z, X, k) if k.columns else None
    left, square, room = X.U * X.s, sqnorm(X.s), None
    # products with a file are computed here, so that it is not read again
    parts: list[Array] | None = [] if Q is not None and in_file(z) else None
    Q = None if Q is None else namespace(Q).astype(Q, z.dtype, copy=False)
    for rows in row_blocks(C, z, k.beside):
        if room is None:  # the first block is the largest
            room = SHARED.like(z, (3, rows.stop, int(z.shape[1])))
        c, at, here = C[rows], z[rows], k if k.beside is None else k.within(rows)
        point, s, move = room[:, : c.shape[0]]
        multiply(left[rows], X.Vt, point)
        subtract(point, c, s)
        distance += rough_inner(s, s)
        scaled_into(c, k.gamma * k.beta, move)
        move -= at
        scaled_into(point, 2.0 - k.gamma * (k.beta + k.curvature), s)
        move += s
        if shifted:
            subtract(move, namespace(z).clip(move, *here.ends(move)), s)
            s *= 1.0 / k.gamma
        else:
            scaled_into(move, 1.0 / k.gamma, s)
        clip_into(s, *(here.slopes(s) if weighted else (-k.below, k.above)))
        if grouped:
            after = move - k.gamma * s
            s += (_row_cuts(after, k) if columns is None else columns) * after / k.gamma
        along += rough_inner(s, point)
        if shifted:
            along -= _conjugate(s, here)
        s *= k.gamma
        move -= s
        move -= point
        rest += rough_inner(move, move)
        if change != 1.0:
            at *= change
            at += (1.0 - change) * point
        at += move
        if parts is not None:
            parts.append(at @ Q)
        if shifted or weighted:
            price += _price(point, here)
        else:
            price += slopes(point, k.above, k.below)
    found = Sums(distance, price, along, 0.0, rest / k.gamma**2, square, groups)
    if parts is not None:
        return found, np.concatenate(parts)
    return found, None if Q is None else quick_times(z, Q)


def _sums(C: Array, z: Array, X: Array, k: Step, cuts: Array | None) -> Vector:
    clip = namespace(C).clip
    shares: Any = 0.0
    if k.grouped:
        shares = cuts
        if cuts is None:
            shares = _row_cuts(thresholded(target(C, z, X, k), k, clip)[1], k)
    s, _ = split(C, z, X, k, clip, shares)
    u, far = (z - X) / k.gamma, X - C
    rest = k.beta * far + k.curvature * X + s + u
    found = [total(term) for term in (far * far, s * X, u * X, rest * rest, X * X)]
    if k.shifted:
        found[1] -= _conjugate(s, k)
    price = _price(X, k) if k.shifted or k.weighted else slopes(X, k.above, k.below)
    return np.array([found[0], price, *found[1:]])


def _conjugate(s: Array, k: Step) -> float:
    """R*(s) of the entrywise part of R, at its dual point s."""
    clip = namespace(s).clip
    over, under = clip(s, 0.0, None), clip(s, None, 0.0)
    if k.bounded:
        low, high = k.ends(s)
        return total(high * over) + total(low * under)
    return k.high * total(over) + k.low * total(under)


def _price(X: Array, k: Step) -> float:
    """Sum of above (x - high)_+ + below (low - x)_+ over the entries, and of weights."""
    clip, (low, high) = namespace(X).clip, k.ends(X)
    over, under = clip(X - high, 0.0, None), clip(low - X, 0.0, None)
    found = k.above * total(over) + k.below * total(under)
    return found + total(k.more(X) * namespace(X).abs(X)) if k.weighted else found


def _sums_within(C: Any, z: Any, room: Any, k: Step) -> Vector:
    """The sums at X = room[0] without groups, in place: allocation costs more than the sums."""
    X, s, rest, part = room
    np.multiply(C, k.gamma * k.beta, out=s)
    s -= z
    np.multiply(X, 2.0 - k.gamma * (k.beta + k.curvature), out=part)
    s += part
    s *= 1.0 / k.gamma
    np.clip(s, -k.below, k.above, out=s)
    along = np.multiply(s, X, out=part).sum()
    np.subtract(z, X, out=rest)
    rest /= k.gamma
    across = np.multiply(rest, X, out=part).sum()
    rest += s
    np.subtract(X, C, out=part)
    distance = np.multiply(part, part, out=s).sum()
    part *= k.beta
    rest += part
    np.multiply(X, X, out=s)
    square = s.sum()
    if k.curvature:
        rest += np.multiply(X, k.curvature, out=s)
    rest *= rest
    price = slopes(X, k.above, k.below)
    return np.array([distance, price, along, across, rest.sum(), square])


def times(z: Array, V: Array) -> Array:
    """z V for a narrow block in float64, summed in float64."""
    parts = [wide(z[rows]) @ V for rows in row_blocks(z)]
    return parts[0] if len(parts) == 1 else namespace(V).concat(parts, axis=0)


def transpose_times(z: Array, U: Array) -> Array:
    """z' U for a narrow block in float64, summed in float64."""
    found = None
    for rows in row_blocks(z):
        part = wide(z[rows]).T @ U[rows]
        found = part if found is None else found + part
    return found
