"""Losses of observed entries as a function of the low-rank part, intercepts fitted.

    G(X) = min over mu, a, b of  sum over (i, j) of w_ij l(y_ij, c_i X_ij e_j + mu + a_i + b_j)
                                 + ridge/2 (|a|^2 + |b|^2)

The minimum over intercepts of a convex function is convex, and at most as curved. Its gradient
is that of the sum at the best intercepts. The dual of G has one number q for each observation,
with zero sums for each free intercept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast
from weakref import ref

import numpy as np

from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, inner, namespace, to_numpy, total
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.entry_losses import EntryLoss, is_squared
from weakprox.losses.two_way import TwoWay
from weakprox.passes.blocks import Positions, entrywise, stored
from weakprox.passes.pattern import Pattern, Plain

Intercepts = Literal["none", "rows", "columns", "both"]
NEWTON, CONJUGATE = 60, 400  # largest numbers of steps of the fit of intercepts
LOOSE, TIGHT = 1e-3, 1e-13  # relative accuracy of that fit: for steps, for values and proofs
DAMPED = 1e-2  # largest share of the curvature that is added to it far from the best intercepts
STRAIGHT = 1e-6  # the same where a dual point is made feasible
SIGNS = 20  # rounds in which rows and columns of one sign are searched for
FEW = 2_000_000  # positions up to which SciPy's products with one vector are fastest
SHORTEST = 1e-9  # share of a step of that fit below which no decrease is searched for
# curvature, relative to that of the preconditioner, below which it is a rounding error
FLAT = 1e-12
DOUBLE = 2.0**-52
THIN = 8  # columns up to which products at the observations cost less than all of them
FULL = 0.25  # share of entries from which a product of all costs less than those alone
FEWER = 0.02  # the same if arrays of the size of X take little memory beside the data
ROWS = 256  # rows of a product of which the observed entries are taken
SMALL = 1 << 22  # number of entries of X up to which an array costs less than vectors
CACHED = 1 << 14  # number of observations whose terms are summed at once
PIECE = 1 << 20  # entries of factors that are gathered at once
REFINED = 1e-10  # accuracy of intercepts, from which a factorisation needs a second solve


class Effects(NamedTuple):
    """Intercepts: the mean, those of rows and those of columns."""

    mean: float
    rows: Array
    columns: Array


@dataclass(frozen=True, eq=False)
class Observed:
    """Observations with their loss, weights, intercepts and scalings.

    `weights` multiply losses. `left` and `right` are the scalings c and e, None for ones.
    """

    pattern: Positions
    values: Array
    loss: EntryLoss
    weights: Array | float = 1.0
    intercepts: Intercepts = "none"
    ridge: float = 0.0
    left: Array | None = None
    right: Array | None = None
    smoothness: float | None = field(default=None)  # of G; None if it is unbounded

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the intercepts of the last point, which a copy does not have."""
        return {name: part for name, part in vars(self).items() if name != "_last"}

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of X."""
        return self.pattern.shape

    @property
    def size(self) -> int:
        """Number of observations."""
        return self.pattern.size

    @property
    def by_rows(self) -> bool:
        """True if there is an intercept for each row."""
        return self.intercepts in ("rows", "both")

    @property
    def by_columns(self) -> bool:
        """True if there is an intercept for each column."""
        return self.intercepts in ("columns", "both")

    def zero(self) -> Effects:
        """Intercepts that are zero."""
        xp = namespace(self.values)
        m, d = self.shape
        where: Any = {"dtype": xp.float64, "device": self.values.device}
        return Effects(0.0, xp.zeros(m, **where), xp.zeros(d, **where))

    # products: S has the entries c_i q_ij e_j

    def entries(self, X: LowRank) -> Array:
        """Entries of X at the observations, with the scalings."""
        if int(X.Vt.shape[1]) < int(X.U.shape[0]):  # the shorter one takes the values
            return self.sampled(X.U, X.Vt.T * X.s)
        return self.sampled(X.U * X.s, X.Vt.T)

    def sampled(self, U: Array, V: Array) -> Array:
        """Entries of U V' at the observations, with the scalings."""
        U, V = self._scaled(U, 0), self._scaled(V, 1)
        P: Any = self.pattern
        thin = int(U.shape[1]) <= THIN and P.listed is not None if self.is_full() else True
        if thin:
            return P.sampled(U, V)
        found, starts = np.empty(P.size), P.pointers
        for low in range(0, P.shape[0], ROWS):  # blocks of rows of the product stay in cache
            high = min(low + ROWS, P.shape[0])
            part = U[low:high] @ V.T
            found[starts[low] : starts[high]] = self.picked(part, low)
        return found

    def picked(self, A: Array, first: int = 0) -> Array:
        """The observed entries of an array of rows of X, from this one on."""
        P: Any = self.pattern
        if P.repeats:
            part = slice(P.pointers[first], P.pointers[first + len(A)])
            return entries_of(A, P.rows[part] - first, P.columns[part])
        starts = P.pointers[first : first + len(A) + 1] - P.pointers[first]
        found = np.empty(int(starts[-1]), A.dtype)
        for low in range(0, len(A), ROWS):
            part = A[low : low + ROWS]
            at = np.flatnonzero(P.mask[first + low : first + low + len(part)])
            out = found[starts[low] : starts[low + len(part)]]
            np.take(part, at, out=out, mode="clip")
        return found

    def times(self, q: Array, B: Array) -> Array:
        """S B."""
        return self._scaled(self.pattern.times(q, self._scaled(B, 1)), 0)

    def transpose_times(self, q: Array, B: Array) -> Array:
        """S' B."""
        return self._scaled(self.pattern.transpose_times(q, self._scaled(B, 0)), 1)

    def is_full(self) -> bool:
        """True if so many entries are observed that arrays take little more than vectors."""
        P = self.pattern
        return type(P) is Pattern and arrays.is_numpy(P.reference) and P.is_dense

    def full(self, q: Array) -> Array:
        """S as an array."""
        P: Any = self.pattern  # a Pattern
        S = P.full(q)
        return S if self.left is None else S * self.left[:, None] * self.right

    def _scaled(self, B: Array, side: int) -> Array:
        factor = (self.left, self.right)[side]
        return B if factor is None else B * factor[:, None]

    # values

    def at(self, x: Array, effects: Effects) -> Array:
        """Predictions, given the entries of X."""
        if self.intercepts == "none":
            return x
        added: Array = self.pattern.effects(effects.rows + effects.mean, effects.columns)
        return np.add(x, added, out=added) if arrays.is_numpy(added) else x + added

    def value(self, x: Array, effects: Effects) -> float:
        """Sum of the losses, and the ridge."""
        found, _ = self._summed(self.loss.value, self.at(x, effects), sized=False)
        return found + self._ridge(effects)

    def _summed(self, term: Any, x: Array, *, sized: bool = True) -> tuple[float, float]:
        """Sum of weighted terms at the observations and at x, and that of absolute values.

        The latter only if `sized`, since on workers each sum is a pass.
        """
        y, w, xp = self.values, self.weights, namespace(self.values)
        if not arrays.is_numpy(y):
            terms = w * entrywise(term, y, x)
            return total(terms), total(xp.abs(terms)) if sized else 0.0
        return self._in_parts(lambda part, w: term(y[part], x[part]))

    def _conjugates(self, q: Array, length: float = 1.0) -> tuple[float, float]:
        """Sum of the weighted conjugates at -length q / w, and that of absolute values."""
        y, conjugate = self.values, self.loss.conjugate
        if not arrays.is_numpy(y):
            return self._summed(conjugate, (length * q) / (-1.0 * self.weights))
        return self._in_parts(
            lambda part, w: conjugate(y[part], (length * q[part]) / (-1.0 * w))
        )

    def _in_parts(self, term: Any) -> tuple[float, float]:
        """Sums of w term(part, w) over parts of the observations and their weights w."""
        sums, sizes, weights = [], [], self.weights
        for low in range(0, self.size, CACHED):  # temporaries stay in cache
            part = slice(low, low + CACHED)
            w = weights if isinstance(weights, float) else weights[part]
            terms = term(part, w) * w
            sums.append(float(terms.sum()))
            sizes.append(float(np.abs(terms).sum()))
        return float(np.sum(sums)), float(np.sum(sizes))  # pairwise, as within a part

    def rounding(self, X: LowRank, unit: float) -> float:
        """Bound on the change of G if each entry of X changes by this share of it."""
        x, xp = self.entries(X), namespace(self.values)
        effects = self.fitted(x)
        moved, bends = unit * xp.abs(x), self.curvature(x, effects)
        return total(moved * (xp.abs(self.dual(x, effects)) + moved * bends)) * (1 + 1e-3)

    def dual(self, x: Array, effects: Effects) -> Array:
        """Negative derivative of each term: the dual point q of these predictions."""
        slopes = entrywise(self.loss.derivative, self.values, self.at(x, effects))
        return -1.0 * self.weights * slopes

    def curvature(self, x: Array, effects: Effects) -> Array:
        """Second derivative of each term."""
        bends = entrywise(self.loss.curvature, self.values, self.at(x, effects))
        return self.weights * bends

    def _ridge(self, effects: Effects) -> float:
        if not self.ridge:
            return 0.0
        squares = inner(effects.rows, effects.rows) + inner(effects.columns, effects.columns)
        return 0.5 * self.ridge * squares

    # intercepts

    def valued(self, X: LowRank) -> float:
        """G(X). The best intercepts are cached as long as X exists."""
        P: Any = self.pattern
        if self._two_way is not None and isinstance(self.weights, float):
            if P.listed is None and math.prod(self.shape) <= SMALL:
                effects, found = self._in_array(X)
            else:
                effects, q = self._less_all(self.entries(X))
                found = float(np.sum([float(np.vdot(q[i], q[i])) for i in self._parts()]))
                found *= 0.5 / self.weights
            effects = self.normal(effects)
        else:
            x = self.entries(X)
            effects = self.fitted(x)
            found = self.value(x, effects)
        vars(self)["_last"] = ref(X), effects
        return found

    def _in_array(self, X: LowRank) -> tuple[Effects, float]:
        """Best free intercepts and G(X), from an array of the size of X, which is small."""
        P: Any = self.pattern
        R = P.full(self.values)
        R -= X.dense()
        R *= P.mask
        effects = self.zero()
        for _ in range(2):  # the second one removes rounding errors
            step = Effects(0.0, *self.balanced(R.sum(axis=1), R.sum(axis=0)))
            R -= step.columns
            R -= step.rows[:, None]
            R *= P.mask
            effects = _moved(effects, step, 1.0)
        starts = range(0, len(R), ROWS)
        squares = [float(np.vdot(R[i : i + ROWS], R[i : i + ROWS])) for i in starts]
        assert isinstance(self.weights, float)
        return effects, 0.5 * self.weights * float(np.sum(squares))

    def _parts(self) -> list[slice]:
        """Ranges of observations that are summed at once."""
        return [slice(low, low + CACHED) for low in range(0, self.size, CACHED)]

    def _less_all(self, x: Array) -> tuple[Effects, Any]:
        """Best free intercepts, and the weighted residuals, which overwrite x."""
        two_way = self._two_way
        assert two_way is not None
        q = np.subtract(self.values, x, out=x)
        q *= self.weights
        effects = self.zero()
        for _ in range(2):  # the second one removes rounding errors
            _, rows, columns = self.pattern.margins(q, whole=False)
            step = Effects(0.0, *two_way.solved(rows, columns))
            self._less(q, step)
            effects = _moved(effects, step, 1.0)
        return effects, q

    def effects(self, X: LowRank) -> Effects:
        """Return the best intercepts at X."""
        point, found = vars(self).get("_last", (None, None))
        if point is not None and point() is X:
            return cast(Effects, found)
        return self.fitted(self.entries(X))

    def fitted(
        self, x: Array, start: Effects | None = None, accuracy: float = TIGHT
    ) -> Effects:
        """Return the best intercepts, given the entries of X, by Newton's method.

        `accuracy` is that of the sums of q that must vanish, relative to the sums of |q|.
        """
        effects = self.zero() if start is None else start
        if self.intercepts == "none":
            return effects
        if self._two_way is not None:
            return self.normal(self._eliminated(x, accuracy))
        quadratic = is_squared(self.loss)
        value = math.nan if quadratic else self.value(x, effects)
        for _ in range(NEWTON):
            q = self.dual(x, effects)
            rest = self._margins(q, effects, -self.ridge)  # negative derivatives of G
            far = self._relative(rest, q)
            if far <= accuracy:
                break
            within = max(0.1 * accuracy, 1e-15) if quadratic else max(1e-3, 0.1 * accuracy)
            h = self.curvature(x, effects)
            if not quadratic:  # damped far from the solution, and where terms are linear
                # the square, since curvatures may differ by more than the steps have converged
                h = h + min(DAMPED, far * far) * _steepest(h)
            step = self._solved(h, rest, within)
            if quadratic:
                after = _moved(effects, step, 1.0)
            else:
                after, found = self._searched(x, effects, step, value)
                if found == math.inf:  # where all terms are linear, such steps are too long
                    step = self._solved(self._secants(x, effects, h), rest, within)
                    after, found = self._searched(x, effects, step, value)
                value = min(value, found)
            if _same(after, effects):
                break
            effects = after
        return self.normal(effects)

    def _searched(
        self, x: Array, effects: Effects, step: Effects, value: float
    ) -> tuple[Effects, float]:
        """The intercepts along a step whose value is not larger, and that value.

        The given intercepts and infinity if there are none.
        """
        length = 1.0
        while length > SHORTEST:
            after = _moved(effects, step, length)
            found = self.value(x, after)
            if found <= value + 1e-12 * abs(value):
                return after, found
            length *= 0.25
        return effects, math.inf

    def _secants(self, x: Array, effects: Effects, h: Array) -> Array:
        """Curvatures of parabolas with the slopes of each term at its prediction and at 0.

        Those of logistic losses are nowhere below them. They are at least h.
        """
        at = self.at(x, effects)
        xp, y = namespace(at), self.values
        slope, first = (entrywise(self.loss.derivative, y, part) for part in (at, 0.0 * at))
        apart = xp.where(at == 0.0, 1.0, at)
        bends = self.weights * ((slope - first) / apart)
        return xp.where(bends > h, bends, h)

    def off(self, q: Array, effects: Effects) -> float:
        """Distance of intercepts with the dual point q from the best ones, as in `fitted`."""
        return self._relative(self._margins(q, effects, -self.ridge), q)

    def _relative(self, rest: Effects, q: Array) -> float:
        """Largest norm of the sums `rest` of q, relative to those of |q|."""
        return _largest(rest, Effects(*self.pattern.margins(namespace(q).abs(q))))

    @property
    def eliminates(self) -> bool:
        """Return True if intercepts of both sides follow from one factorisation."""
        return self._two_way is not None

    def balanced(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """Best free intercepts for residuals with these sums, if all weights are the same.

        The loss is the squared error, and `eliminates` holds if there are both intercepts.
        """
        if self.intercepts == "both":
            two_way = self._two_way
            assert two_way is not None
            return two_way.solved(self.weights * rows, self.weights * columns)
        counts = (self.pattern.row_counts, self.pattern.column_counts)
        a, b = (
            part / np.maximum(n, 1) for part, n in zip((rows, columns), counts, strict=True)
        )
        return a if self.by_rows else 0.0 * a, b if self.by_columns else 0.0 * b

    @cached_property
    def _two_way(self) -> TwoWay | None:
        """The factorised equations of free intercepts of squared errors; None if it is slow."""
        P: Any = self.pattern
        free = self.intercepts == "both" and not self.ridge and is_squared(self.loss)
        plain = type(P) is Pattern and arrays.is_numpy(P.reference)
        if not (free and plain and TwoWay.pays(P.shape, P.size)):
            return None
        if isinstance(self.weights, float) and P.is_dense and not P.repeats:
            return TwoWay.of(P.mask, self.weights)
        return TwoWay.of(Plain.matrix(P, np.broadcast_to(self.weights, (P.size,))))

    def _eliminated(self, x: Array, accuracy: float) -> Effects:
        """The best intercepts by that factorisation; a second solve removes rounding errors."""
        two_way = self._two_way
        assert two_way is not None
        q = np.subtract(self.values, x)
        q *= self.weights
        _, rows, columns = self.pattern.margins(q, whole=False)
        effects = Effects(0.0, *two_way.solved(rows, columns))
        if accuracy >= REFINED:
            return effects
        self._less(q, effects)
        rest = self._margins(q, effects)
        return _moved(effects, Effects(0.0, *two_way.solved(rest.rows, rest.columns)), 1.0)

    def _less(self, q: Any, effects: Effects) -> None:
        """Subtract the contribution of intercepts to q, a NumPy array, in blocks of rows."""
        P: Any = self.pattern
        if P.listed is None:
            for rows, part, cells in P.strips():
                both = np.add.outer(effects.rows[rows], effects.columns)
                both *= self.weights if isinstance(self.weights, float) else 1.0
                added = np.take(both.reshape(-1), cells, mode="clip")
                if not isinstance(self.weights, float):
                    added *= self.weights[part]
                q[part] -= added
            return
        for low in range(0, P.shape[0], ROWS):
            starts = P.pointers[low : low + ROWS + 1]
            part = slice(starts[0], starts[-1])
            added = np.take(effects.columns, P.columns[part])
            added += np.repeat(effects.rows[low : low + ROWS], np.diff(starts))
            added *= self.weights if isinstance(self.weights, float) else self.weights[part]
            q[part] -= added

    def normal(self, effects: Effects) -> Effects:
        """The same predictions with the mean of intercepts in `mean`; empty rows get 0."""
        if self.ridge:
            return effects
        mean, parts = effects.mean, []
        for vector, counts in (
            (effects.rows, self.pattern.row_counts),
            (effects.columns, self.pattern.column_counts),
        ):
            seen = arrays.like(counts > 0, vector)
            shift = total(vector * seen) / max(1.0, total(seen))
            mean += shift
            parts.append((vector - shift) * seen)
        if not self.by_rows:
            parts[0] = effects.rows
        if not self.by_columns:
            parts[1] = effects.columns
        return Effects(mean, parts[0], parts[1])

    def _margins(self, q: Array, effects: Effects, ridge: float = 0.0) -> Effects:
        """Sums of q for each intercept, plus the ridge times it; zeros for those not fitted."""
        kinds = {"rows": self.by_rows, "columns": self.by_columns, "whole": bool(self.ridge)}
        whole, rows, columns = self.pattern.margins(q, **kinds)
        return Effects(
            whole,
            effects.rows * 0.0 if rows is None else rows + ridge * effects.rows,
            effects.columns * 0.0 if columns is None else columns + ridge * effects.columns,
        )

    def _solved(self, h: Array, rest: Effects, accuracy: float) -> Effects:
        """Solve the Newton system by conjugate gradients, with a diagonal preconditioner."""
        xp, h = namespace(rest.rows), stored(h)
        whole, *sums = self.pattern.margins(h)
        ridged = [part + self.ridge for part in sums]
        diagonal = [xp.where(part > 0.0, part, 1.0) for part in ridged]
        whole = max(whole, 1e-300)

        def scaled(r: Effects) -> Effects:
            return Effects(r.mean / whole, r.rows / diagonal[0], r.columns / diagonal[1])

        def unscaled(r: Effects) -> Effects:
            return Effects(0.0, r.rows * diagonal[0], r.columns * diagonal[1])

        P, matrix = self.pattern, None
        if isinstance(P, Pattern) and P.size < FEW and arrays.is_numpy(h):
            matrix = Plain.matrix(P, h)
        step, r = _moved(rest, rest, -1.0), rest
        z = scaled(r)
        p, product = z, _inner(r, z)
        least = accuracy * accuracy * product
        for _ in range(CONJUGATE):
            if not product > least:
                break
            Hp = self._curved(h, p, sums, matrix)
            bend = _inner(p, Hp)
            straight = whole * p.mean**2 + _inner(unscaled(p), p)
            if not bend > FLAT * straight:  # rounding: a shift between rows and columns
                break
            step, r = _moved(step, p, product / bend), _moved(r, Hp, -product / bend)
            z = scaled(r)
            before, product = product, _inner(r, z)
            p = _moved(z, p, product / before)
        return step

    def _curved(self, h: Array, p: Effects, sums: list[Array], matrix: Any) -> Effects:
        """Product of the Newton matrix of curvatures h, with these sums, and p."""
        left = p.rows + p.mean
        if matrix is None:
            return self._margins(h * self.pattern.effects(left, p.columns), p, self.ridge)
        rows = sums[0] * left + matrix @ p.columns
        columns = sums[1] * p.columns + left @ matrix
        return Effects(
            total(rows) if self.ridge else 0.0,
            rows + self.ridge * p.rows if self.by_rows else p.rows * 0.0,
            columns + self.ridge * p.columns if self.by_columns else p.columns * 0.0,
        )

    # the dual function

    def feasible(self, q: Array, h: Array) -> Array:
        """Return a dual point near q whose sums vanish where intercepts are free.

        It moves along the curvature h of the terms, like a Newton step, and leaves the domain
        of the conjugates only if q is near its boundary.
        """
        if self.intercepts == "none":
            return q
        if not is_squared(self.loss) and not self.ridge:
            q, h = self._two_signed(q, h)
        if self._two_way is not None:
            for _ in range(2):
                rest = self._margins(q, self.zero())
                q = q - h * self.pattern.effects(*self._two_way.solved(*rest[1:]))
            return q
        moving = namespace(q).where(q != 0.0, 1.0, 0.0)
        h = h + STRAIGHT * _steepest(h) * moving
        for _ in range(2):  # the second one removes rounding errors
            if self.ridge:  # only the mean is free
                q = q - h * (total(q) / max(total(h), 1e-300))
                continue
            step = self._solved(h, self._margins(q, self.zero()), 1e-15)
            q = q - h * self.pattern.effects(step.rows + step.mean, step.columns)
        return q

    def _two_signed(self, q: Array, h: Array) -> tuple[Array, Array]:
        """Return q and h with zeros in rows and columns where all of q has one sign.

        Such a sum vanishes only if all its terms do. The best intercept of such a row is
        infinite.
        """
        P, xp = self.pattern, namespace(q)
        for _ in range(SIGNS):
            size, count = xp.abs(q), 0
            flags = []
            for sums, used in ((P.row_sums, self.by_rows), (P.column_sums, self.by_columns)):
                whole = sums(size)
                one = (whole - xp.abs(sums(q)) <= 1e-9 * whole) & (whole > 0.0) & used
                count += int(xp.sum(one))
                flags.append(xp.where(one, 1.0, 0.0))
            if not count:
                break
            kept = xp.where(P.effects(*flags) > 0.0, 0.0, 1.0)
            q, h = q * kept, h * kept
        return q, h

    def bound(self, q: Array, effects: Effects, length: float = 1.0) -> tuple[float, float]:
        """Return min over X of G(X) + length <S, X>, and an allowance for rounding.

        S is the matrix with the entries c_i q_ij e_j, q being `feasible`. `effects` are
        intercepts near the best ones, which determine the size of the rounding errors of sums.
        """
        found, size = self._conjugates(q, length)
        found *= -1.0
        if not math.isfinite(found):
            return -math.inf, 0.0
        if self.intercepts == "none":
            return found, 64 * DOUBLE * size
        sums = self._margins(q, self.zero())
        sums = Effects(sums.mean, length * sums.rows, length * sums.columns)
        if self.ridge:
            squares = inner(sums.rows, sums.rows) + inner(sums.columns, sums.columns)
            found -= squares / (2 * self.ridge)
            size += squares / (2 * self.ridge)
            left = length * abs(total(q))
        else:
            xp = namespace(q)
            left = total(xp.abs(sums.rows)) + total(xp.abs(sums.columns))
        extent = abs(effects.mean) + sum(arrays.largest(part) for part in effects[1:])
        plain = arrays.is_numpy(q)
        size_y = arrays.largest(self.values) if plain else namespace(q).max(abs(self.values))
        reach = 16.0 * (1.0 + extent + float(size_y))
        return found, 64 * DOUBLE * size + reach * left

    def predicted(self, X: LowRank, effects: Effects, rows: Any, columns: Any) -> Array:
        """Predictions at any positions, in host memory."""
        U, V, given = to_numpy(X.U), to_numpy(self._scaled(X.Vt.T * X.s, 1)), rows
        count, rank = len(rows), int(U.shape[1])
        low, high = (int(rows.min()), int(rows.max()) + 1) if count else (0, 0)
        if self.left is not None:
            U = U[low:high] * to_numpy(self.left)[low:high, None]
            rows, low, high = rows - low, 0, high - low
        least = FEWER if self.is_full() else FULL  # an array of all takes little more memory
        found = np.empty(count)
        if rank > THIN and count >= least * (high - low) * self.shape[1]:
            edges, cuts = [low, high], [0, count]
            if bool((rows[1:] >= rows[:-1]).all()):  # blocks of rows of the product
                edges = [*range(low, high, ROWS), high]
                cuts = np.searchsorted(rows, edges).tolist()
            for k in range(len(edges) - 1):
                part, at = U[edges[k] : edges[k + 1]] @ V.T, slice(cuts[k], cuts[k + 1])
                found[at] = entries_of(part, rows[at] - edges[k], columns[at])
        else:
            piece = max(1, PIECE // max(1, rank))
            for low in range(0, count, piece):
                at = slice(low, low + piece)
                found[at] = np.einsum("ij,ij->i", U[rows[at]], V[columns[at]], dtype=float)
        if self.intercepts != "none":
            found += effects.mean
            found += to_numpy(effects.rows)[given] + to_numpy(effects.columns)[columns]
        return found


def entries_of(A: Any, rows: Any, columns: Any) -> Any:
    """Entries of a NumPy array in row-major order; two indices would take twice the time."""
    return A.reshape(-1)[rows.astype(np.int64) * A.shape[1] + columns]


def _steepest(h: Array) -> float:
    """Largest curvature, or one if all terms are linear."""
    return float(namespace(h).max(h)) or 1.0


def _moved(x: Effects, step: Effects, length: float) -> Effects:
    return Effects(*(part + length * along for part, along in zip(x, step, strict=True)))


def _inner(x: Effects, y: Effects) -> float:
    return x.mean * y.mean + inner(x.rows, y.rows) + inner(x.columns, y.columns)


def _largest(rest: Effects, scale: Effects) -> float:
    """Largest norm of a group of sums, relative to that of the sizes of their terms."""
    found = abs(rest.mean) / max(scale.mean, 1e-300)
    for part, size in ((rest.rows, scale.rows), (rest.columns, scale.columns)):
        found = max(found, arrays.norm(part) / max(arrays.norm(size), 1e-300))
    return found


def _same(x: Effects, y: Effects) -> bool:
    moved = _moved(x, y, -1.0)
    return math.sqrt(_inner(moved, moved)) <= 4 * DOUBLE * math.sqrt(_inner(x, x))
