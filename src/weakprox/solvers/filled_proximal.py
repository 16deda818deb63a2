"""Proximal gradient steps on a completed array, for squared errors of most entries.

If most entries are observed, the target of a proximal step fits in an array that takes little
more memory than the observations (`losses/filled.py`). Its decomposition comes from the Gram
matrix of its shorter side, or from one power step with a warm block if the singular values
beyond the block are small, or if the target changes slowly.

The *holes* are the unobserved entries; a *fill* is their values and the intercepts. A step maps
a fill to that of the proximal point, or to that after a sweep of ridge regressions on its
strong factors if some row or column has few entries (`_ridge_sweeps.py`). From a first point
near the solution the rank hardly changes, the map is smooth, and steps use Anderson's
acceleration (Walker & Ni, 2011): the next fill is the combination of the last ones that
minimises the residual, at a sample of the entries if there are many. Steps are lengthened by
the inverse of the share of observed entries, since a step corrects about that share of the
error in the holes. If f rises, the step is repeated from the last image. The first steps from X
= 0 use momentum instead (Beck & Teboulle, 2009), with restarts by the gradient (O'Donoghue &
Candes, 2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weakprox.certificates.cells import estimate
from weakprox.certificates.observed import ObservedDual
from weakprox.linalg.arrays import DOUBLE, Array, multiply, wide
from weakprox.linalg.decompositions import eigh, lstsq, orthonormaliser, svd
from weakprox.linalg.gram_svd import squared
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import all_threads
from weakprox.losses.cells import Sums
from weakprox.losses.filled import ROWS, SINGLE, Dual, Filled
from weakprox.losses.observed import Effects
from weakprox.passes import ValueForm
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.resources.memory import give_back
from weakprox.solvers._gap_driven import STRETCH, GapDriven, GapParameters, InFactors, TooWide
from weakprox.solvers._ridge_sweeps import RidgeSweeps
from weakprox.solvers.base import Tools
from weakprox.solvers.factored_proximal import FactoredProximal

WITH_MOMENTUM = 10  # steps from X = 0 before Anderson's acceleration, until the rank settles
HISTORY = 10  # earlier steps that are combined: 5 take a quarter more steps, 20 save a tenth
LONGEST = 2.0  # largest factor for the length of a step: longer ones need not converge
# regularisation, relative to the squared residuals: keeps the combination unique
DAMPED = 1e-10
# columns of a block in addition to the rank: least number, and share of the rank
SPARE, QUARTER = 16, 4
# share of the cut-off: larger values beyond a block need more than one power step
CROWDED = 0.75
# While other errors are larger, blocks suffice beside large values: up to step EARLY if the
# relative accuracy is at least COARSE, otherwise up to step EARLIEST.
COARSE, EARLY, EARLIEST = 5e-4, 6, 2
BLURRED = 16.0 * SINGLE  # relative change of f that rounding to float32 may cause
FINE, FINER = 32.0, 4096.0  # factors by which the accuracy, or the gap, must exceed it
# steps after which the target changes so little that one power step is always enough
SETTLED = 20
BLOCK = 0.5  # share of the columns: wider blocks cost as much as all eigenvectors
DIGITS = 1e6  # squares of values that are kept, in units of rounding of the largest
# steps without an estimate of the gap, or without a smaller one, after which the method ends
SLOW = 150
LATEST = 16  # most steps between estimates of the gap
REACH, SWEPT = 0.1, 0.05  # first guesses of `Memory.reach`: without sweeps, and with them
EAGER = 0.25  # smallest ratio of a reach to the last one
PIECE = 1 << 15  # entries of a fill that are processed at once
LONG = 1 << 20  # entries of a fill from which differences of images are in float16
SAMPLED = 1 << 15  # entries of a fill that determine how steps are combined
ROUNDING = 1e-9  # relative increase of f that rounding may cause in a sweep


@dataclass(frozen=True)
class Memory(InFactors):
    """State between two steps; the arrays of a step are remade from the fill."""

    V: LowRank
    fill: Array  # fill from which the next step is made
    image: Array  # image of the last step: the fill of V, or that after a sweep
    parameters: GapParameters
    rank: int = 0
    momentum: float = 1.0  # zero if the first point was near the solution
    residuals: tuple[Array, ...] = ()  # differences of `rest`, over `Filled.unit`
    images: tuple[Array, ...] = ()  # differences of images, over these scales
    scales: tuple[float, ...] = ()
    squares: Array | None = None  # inner products of the former
    rest: Array | None = None  # residual of the last step, at some entries if there are many
    block: Array | None = None  # block of the next decomposition; None if it must be complete
    strict: bool = False  # whether blocks beside large values have failed to help
    epoch: int = 0
    done: int = 0
    last: float = math.inf  # f at V
    size: float = 0.0  # norm of the last step times the nuclear norm of V; zero if unknown
    value: float = math.inf  # best value seen
    gap: float = math.inf
    tried: int = 0  # step of the last estimate
    reach: float | None = None  # that gap over the norms of the point and of the step
    progress: int = 0  # step that last improved the gap by a hundredth
    cut: bool = False  # whether the cap on the rank omitted triplets
    single: bool = False  # whether arrays of the next step are in float32
    coarse: bool = False  # whether the accuracy to aim at is coarse

    def forgotten(self) -> Memory:
        """The state without its earlier steps."""
        return replace(self, residuals=(), images=(), scales=(), squares=None, rest=None)


@dataclass(frozen=True)
class FilledProximal(GapDriven):
    """Proximal gradient steps on a completed array, for squared errors of most entries.

    G is a `Completion` with squared errors, without weights, scaling or ridge; at least a
    quarter of the entries are observed, and none more than once. R is zero, and h is
    `NuclearNorm` or `NuclearBall`. The shorter side of X has at most 2000 entries. It takes the
    memory of at most about 12 arrays of the size of X. It is the default for such problems
    unless the shorter side is so long that a few decompositions of an array cost more than many
    products with a sparse matrix. `FactoredProximal` takes over if the gap falls slowly.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the solution.
    """

    rank: int | None = None

    factored: ClassVar[bool] = True  # X is a LowRank
    double: ClassVar[bool] = True
    suits: ClassVar[str] = (
        "squared errors of most entries, a side of at most 2000 entries, no penalty, "
        "NuclearNorm or NuclearBall"
    )
    needs: ClassVar[tuple[str, ...]] = ("loss.observed", "spectral.form")

    @property
    def fallback(self) -> FactoredProximal:
        """The method for weights that are tiny relative to the data, where steps are short."""
        return FactoredProximal(rank=self.rank)

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Return True if the problem has the required form."""
        return problem.observed is not None and Filled.fits(problem.observed)

    @staticmethod
    def pays(problem: Problem) -> bool:
        """Return True if it applies and is expected to be faster than `FactoredProximal`."""
        return problem.observed is not None and Filled.pays(problem.observed)

    def start(self, problem: Problem, X: Array | LowRank | None, tools: Tools) -> Memory:
        """Start from the user's first point, from strong factors, or from zero."""
        parameters = GapParameters(tools.eps, 0.0, problem.loss.smoothness)
        first = None if X is None else tools.compressed(X, self.rank or min(problem.shape))
        return self._steps(problem, tools).begun(first, parameters, tools.accuracy)

    def _steps(self, problem: Problem, tools: Tools) -> Steps:
        """The steps of this run; their array is made once."""
        found: Steps | None = tools.kept.get("filled")
        if found is None:
            tools.kept["filled"] = found = Steps.of(problem, self.rank)
        return found

    def candidate(self, memory: Memory) -> Candidate:
        """The last point."""
        return _candidate(memory, memory.done)

    def dual(self, problem: Problem, memory: Memory) -> ObservedDual:
        """The dual point at X."""
        data, form = problem.observed, problem.of_spectral.form
        assert data is not None
        assert form is not None
        x = data.entries(memory.V)
        effects = data.fitted(x)
        q = data.feasible(data.dual(x, effects), np.broadcast_to(data.weights, x.shape))
        return ObservedDual(data, q, form, None, effects)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """Make a stretch of steps."""
        steps, state = self._steps(problem, tools), memory
        for k in range(memory.done + 1, memory.done + STRETCH + 1):
            width = min(problem.shape) if state.block is None else int(state.block.shape[1])
            tools.spectral.counted(width, 2)
            tools.loss.counted(1)
            before = state.last
            state, residuals = steps.step(state, k)
            aim = tools.accuracy(state.value)
            dual = None
            accepted, still = residuals is not None, before - state.last <= aim
            if residuals is not None and still and steps.due(state, k, aim):
                state, point, norm = steps.judged(state, residuals, k, aim)
                if norm is not None:
                    state = state.forgotten()  # room for the proof
                    give_back(steps.filled.nbytes)
                    dual = steps.dual(point, residuals.fill, norm)
                    residuals = None
                del point
            gap = state.gap if state.tried == k else math.nan
            tools.tick(_candidate(state, k, dual, gap))
            if accepted:
                image = steps.image(state, residuals or steps.residuals(state))
                residuals = None  # room for the next fill
                state = steps.advanced(state, image, k, aim)
                del image
        if self.stalled(state) >= SLOW and not state.cut:
            del tools.kept["filled"]
            raise TooWide
        return replace(state, epoch=memory.epoch + 1)


class Residuals(NamedTuple):
    """Residuals of a point without intercepts, and its fill."""

    R: Array
    fill: Array


@dataclass(frozen=True)
class Steps:
    """Steps on one problem."""

    filled: Filled
    form: ValueForm
    cap: int | None
    sweeps: RidgeSweeps | None  # for a nuclear norm

    @classmethod
    def of(cls, problem: Problem, cap: int | None) -> Steps:
        """Make the array of a problem."""
        data, form = problem.observed, problem.of_spectral.form
        assert data is not None
        assert form is not None
        filled, sweeps = Filled.of(data), None
        if 0.0 < form.lam < math.inf and math.isinf(form.tau):
            sweeps = RidgeSweeps(filled, form.lam / filled.weight, cap)
        return cls(filled, form, cap, sweeps)

    def begun(self, X: LowRank | None, parameters: GapParameters, accuracy: Any) -> Memory:
        """The state at X, or at a first point of its own; `accuracy` is that at a value."""
        filled = self.filled
        V = None if X is None else filled.point(LowRank(wide(X.U), wide(X.s), wide(X.Vt)))
        if V is None and self.sweeps is not None:
            V = self.sweeps.first_point()
        if V is None:
            zero = LowRank.zero(filled.data.shape, filled.data.values)
            short = filled.empty().astype(np.float32 if math.isfinite(filled.rough) else float)
            return Memory(zero, short, short, parameters, single=math.isfinite(filled.rough))
        kind: Any = np.float32 if math.isfinite(filled.rough) else np.float64
        fill, smooth = filled.after(_product(V.U * V.s, V.Vt, kind))
        f, V = self._value(smooth, V.s, kind), filled.point(V)
        state = Memory(V, fill, fill, parameters, rank=V.rank, momentum=0.0, last=f, value=f)
        # a user's first point may be near the solution
        rough = X is None and kind == np.float32
        if rough or self._in_single(replace(state, single=True), accuracy(f)):
            coarse = accuracy(f) >= COARSE * abs(f)
            return replace(state, single=True, coarse=coarse)
        if kind == np.float64:
            return state
        fill, smooth = filled.after(filled.point(V).dense())
        f = smooth + self._h(V.s)
        return replace(state, fill=fill, image=fill, last=f, value=f)

    def _in_single(self, state: Memory, aim: float) -> bool:
        """Return True if float32 is accurate enough for the next step, given the gap.

        The gap is at least the accuracy to aim at, and may be far smaller after the step.
        Once a step is in float64, all later ones are.
        """
        if not state.single:
            return False
        rough = max(self.filled.rough * float(np.sum(state.V.s)), BLURRED * abs(state.last))
        guess = REACH if state.reach is None else state.reach
        return bool(aim >= FINE * rough or guess * state.size >= FINER * rough)

    def residuals(self, state: Memory) -> Residuals:
        """The residuals of the point."""
        V = self.filled.point(state.V)
        X = np.asarray(_product(V.U * V.s, V.Vt, state.fill.dtype))
        return Residuals(X, self.filled.after(X)[0])

    def _h(self, s: Any) -> float:
        return float(self.form.lam * s.sum())

    def _value(self, smooth: float, s: Any, kind: Any) -> float:
        """The value of f, or an upper bound on it if sums were rounded to float32.

        A value below the true one could never be improved by another point.
        """
        return (smooth + self._h(s)) * (1.0 if kind == np.float64 else 1.0 + BLURRED)

    def step(self, state: Memory, k: int) -> tuple[Memory, Residuals | None]:
        """Return the state at the next point, and residuals there; None if it was rejected.

        The next fill is left to `image` and `advanced`, unless the point was rejected.
        """
        filled = self.filled
        give_back(filled.nbytes)
        T = filled.target(state.fill)
        early = k < (EARLY if state.coarse else EARLIEST)
        left, s, right, block, cut = self.proximal(T, state, early)
        give_back(filled.nbytes)
        kind = T.dtype
        thin = left.astype(kind, copy=False), right.T.astype(kind, copy=False)
        fill, smooth = filled.after(multiply(*thin, T))  # the target is no longer needed
        del thin
        left /= np.where(s > 0.0, s, 1.0)
        V = filled.point(LowRank(left, s, right.T))
        f = self._value(smooth, s, kind)
        found: dict[str, Any] = {"block": block, "rank": V.rank, "done": k, "cut": cut}
        noise = 4.0 * DOUBLE if kind == np.float64 else BLURRED
        if state.rest is not None and f > state.last * (1.0 + noise):
            # the combination was bad: make the next step from the last image
            return replace(state.forgotten(), **found, fill=state.image), None
        size = 0.0
        if not self._rises(state, k):
            size = _distance(fill, state.fill) * float(s.sum())
        found |= {"V": V, "last": f, "value": min(f, state.value), "size": size}
        return replace(state, **found), Residuals(T, fill)

    @staticmethod
    def _rises(state: Memory, k: int) -> bool:
        """Return True if the steps use momentum."""
        return bool(state.momentum) and k <= WITH_MOMENTUM

    def image(self, state: Memory, residuals: Residuals) -> Array:
        """The fill of the point, or that after a sweep; the residuals are overwritten."""
        V = self.filled.point(state.V)
        strong = self._strong(V.s)
        return self._swept(V, strong, residuals) if strong else residuals.fill

    def advanced(self, state: Memory, image: Any, k: int, aim: float) -> Memory:
        """The state with the fill at which the next step is made."""
        single = self._in_single(state, aim)
        if single != state.single:
            image = wide(image)
        next_fill = self._with_momentum if self._rises(state, k) else self._combined
        coarse = aim >= COARSE * abs(state.last)
        return replace(state, **next_fill(state, image), single=single, coarse=coarse)

    def _strong(self, s: Any) -> int:
        """Number of factors that a sweep moves after a step, given the values of the point."""
        if self.sweeps is None or not self.sweeps.needed:
            return 0
        return self.sweeps.strong(s + self.sweeps.cut)

    def _swept(self, V: LowRank, strong: int, residuals: Residuals) -> Any:
        """The fill after a sweep over the strong factors of X, or that of X if f does not fall.

        The latter can happen because of rounding. The residuals are overwritten.
        """
        assert self.sweeps is not None
        filled, s, R = self.filled, np.asarray(V.s), residuals.R
        # scaled, so that the result does not depend on the units of the data
        unit = filled.unit
        roots = np.sqrt(s[:strong] / unit)
        A, B = (
            (F * roots).astype(R.dtype, copy=False) for F in (V.U[:, :strong], V.Vt[:strong].T)
        )
        R = filled.residual(R, residuals.fill)
        before = 0.5 * filled.weight * float(np.vdot(R, R)) + self._h(s)
        R /= unit
        try:
            left, right, rows, columns = self.sweeps.swept(A, B, R, unit)
        except np.linalg.LinAlgError:
            return residuals.fill
        R *= unit
        change = np.hstack([left, -A]), unit * np.hstack([right, B])
        fill, smooth = filled.moved(residuals.fill, *change, unit * rows, unit * columns, R)
        norms = unit * (float(np.vdot(left, left)) + float(np.vdot(right, right)))
        # a bound on f, as half of the squared norms of factors is at least a nuclear norm
        after = smooth + self.form.lam * (0.5 * norms + float(s[strong:].sum()))
        rounding = ROUNDING if R.dtype == np.float64 else BLURRED
        return fill if after <= before * (1.0 + rounding) else residuals.fill

    def _with_momentum(self, state: Memory, image: Any) -> dict[str, Any]:
        """The next fill, extrapolated beyond the image; restart if momentum led uphill."""
        ahead = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.momentum**2))
        moved = image - state.image
        if float(np.vdot(state.fill - image, moved)) > 0.0:
            ahead = 1.0
        b = (ahead - 1.0) / (0.5 * (1.0 + math.sqrt(1.0 + 4.0 * ahead**2)))
        return {"fill": image + b * moved, "image": image, "momentum": ahead}

    def _combined(self, state: Memory, image: Any) -> dict[str, Any]:
        """The combination of the last images with the smallest residual."""
        unit, moved = self.filled.unit, image - state.fill
        rest = moved[self.sample]
        moved *= self._relaxation - 1.0
        moved += image
        found = {"fill": moved, "image": moved, "rest": rest}
        if state.rest is None:
            return found
        residuals = (*state.residuals, _short(unit, rest, state.rest))[-HISTORY:]
        scale, last = _packed(unit, moved, state.image)
        images, scales = (*state.images, last)[-HISTORY:], (*state.scales, scale)[-HISTORY:]
        n = len(residuals)
        G = np.zeros((n, n))
        if state.squares is not None:
            G[: n - 1, : n - 1] = state.squares[1 - n :, 1 - n :] if n > 1 else 0.0
        G[n - 1] = G[:, n - 1] = [float(np.vdot(one, residuals[-1])) for one in residuals]
        short = np.divide(rest, unit).astype(np.float32)
        across = np.array([float(np.vdot(one, short)) for one in residuals])
        weights = lstsq(G + DAMPED * np.trace(G) * np.eye(n), across) * np.array(scales)
        fill = moved.copy()
        for part in _pieces(fill):
            for weight, one in zip(weights.tolist(), images, strict=True):
                fill[part] -= weight * one[part].astype(np.float32, copy=False)
        after = {"fill": fill, "residuals": residuals, "images": images, "scales": scales}
        return found | after | {"squares": G}

    @cached_property
    def sample(self) -> Any:
        """The entries of a fill whose residuals determine the few weights of a combination."""
        size = len(self.filled.holes) + sum(self.filled.shape)
        if size <= 2 * SAMPLED:
            return np.arange(size)
        return np.sort(np.random.default_rng(0).integers(0, size, SAMPLED))

    @property
    def _relaxation(self) -> float:
        """Factor for the length of a step.

        A proximal step corrects a share of the error in the holes that is about the share of
        observed entries, if those are spread evenly.
        """
        return min(LONGEST, 1.0 / self.filled.share)

    # decompositions

    def proximal(
        self, T: Any, state: Memory, early: bool = False
    ) -> tuple[Any, Any, Any, Any, bool]:
        """Return U diag(s), s and V of the proximal point, the next block, and if it is cut.

        In `early` steps, blocks suffice beside large values.
        """
        shown = None if state.block is None else _power_step(T, state.block)
        U, s, V = shown or self._whole(T)
        kept = self.form.prox(s, 1.0 / self.filled.weight)
        cut = self.cap is not None and bool((kept[self.cap :] > 0.0).any())
        if self.cap is not None:
            kept[self.cap :] = 0.0
        rank = int((kept > 0.0).sum())
        count = max(rank, 1)
        level = float(np.max(s - kept))  # the cut-off
        width = rank + max(SPARE, rank // QUARTER)
        block = None
        if width <= min(BLOCK * T.shape[1], len(s)):
            slow = (state.done >= SETTLED and not state.strict) or early
            block = V[:, :width] if slow or s[width - 1] <= CROWDED * level else None
        return U(kept, count), kept[:count], V[:, :count], block, cut

    def _whole(self, T: Any) -> tuple[Any, Any, Any]:
        """All singular values and right vectors; the function for left ones times values."""
        with all_threads(int(T.shape[1])):
            squares, turn = eigh(_squared(T))
            s = np.sqrt(np.maximum(squares[::-1], 0.0))
            kept = self.form.prox(s, 1.0 / self.filled.weight)
            least = float(s[max(0, int((kept > 0.0).sum()) - 1)])
            # squares lose too many digits
            if least * least < DIGITS * DOUBLE * float(s[0]) ** 2:
                left, s, Vt = svd(wide(T))
                return lambda p, n: left[:, :n] * p[:n], s, Vt.T
        V = np.ascontiguousarray(turn[:, ::-1])
        return lambda p, n: _times(T, V[:, :n] * (p[:n] / np.maximum(s[:n], _least(s)))), s, V

    # the gap

    def judged(
        self, state: Memory, residuals: Residuals, k: int, aim: float
    ) -> tuple[Memory, Dual, float | None]:
        """Return the state with its gap, its dual point, and that point's norm if known."""
        filled = self.filled
        point = filled.dual(residuals.R, residuals.fill)
        along, square, norm = point.sums()
        square /= filled.weight
        sums = Sums(0.5 * square, along - square, square)
        gap = max(0.0, state.last - estimate(self.form, sums, norm))
        reach = gap / state.size if state.size > 0.0 else state.reach
        progress = k if gap < 0.99 * state.gap else state.progress
        least, strict = min(gap, state.gap), state.strict or (k > SETTLED and gap >= state.gap)
        after: dict[str, Any] = {"reach": reach, "progress": progress, "strict": strict}
        after["single"] = state.single and progress == k
        done = replace(state, gap=least, tried=k, **after)
        return done, point, norm if gap <= aim else None

    def dual(self, point: Dual, fill: Array, norm: float) -> ObservedDual:
        """The dual point, whose norm is known, at the observations."""
        effects = self.filled.effects(fill)
        return ObservedDual(self.filled.data, point.entries(), self.form, None, effects, norm)

    def due(self, state: Memory, k: int, aim: float) -> bool:
        """Return True if the gap has probably reached its target, or its estimate is old.

        The dual point of a proximal point exceeds its norm limit by the change of the step in
        the holes. So the gap is proportional to `Memory.size`, with a factor that changes
        little between steps.
        """
        if state.reach is not None:
            guess = EAGER * state.reach
        else:
            guess = SWEPT if self.sweeps is not None and self.sweeps.needed else REACH
        late = k - state.tried >= LATEST
        return late or state.size == 0.0 or guess * state.size <= aim

    def effects(self, V: LowRank) -> Effects:
        """The best intercepts at a point."""
        return self.filled.effects(self.filled.after(self.filled.point(V).dense())[0])


def _squared(T: Any) -> Any:
    """T'T in float64."""
    if T.dtype == np.float64:
        return squared(T)
    parts = (T[low : low + ROWS].astype(np.float64) for low in range(0, len(T), ROWS))
    return sum(part.T @ part for part in parts)


def _times(T: Any, B: Any) -> Any:
    """T B in float64: the columns of a factor are orthogonal to rounding."""
    if T.dtype == np.float64:
        return T @ B
    found = np.empty((len(T), B.shape[1]))
    for low in range(0, len(T), ROWS):
        np.matmul(T[low : low + ROWS].astype(np.float64), B, out=found[low : low + ROWS])
    return found


def _product(A: Any, B: Any, kind: Any) -> Any:
    """A B in this dtype."""
    return A.astype(kind, copy=False) @ B.astype(kind, copy=False)


def _power_step(T: Any, block: Any) -> tuple[Any, Any, Any] | None:
    """Like `Steps._whole`, by a power step from a block; None if its columns are dependent."""
    block = block.astype(T.dtype, copy=False)
    Z = T @ block
    W = wide(T.T @ Z)
    # in float64, so that columns are orthonormal to its rounding
    turn = orthonormaliser(_squared(Z))
    if turn is None:
        return None
    B = W @ turn  # T'Q, where Q = Z turn has orthonormal columns
    squares, left = eigh(B.T @ B)
    s, left = np.sqrt(np.maximum(squares[::-1], 0.0)), left[:, ::-1]
    V = B @ (left / np.maximum(s, _least(s)))
    return lambda p, n: _times(Z, turn @ (left[:, :n] * p[:n])), s, V


def _pieces(x: Any) -> list[slice]:
    """Parts of a long vector that stay in cache."""
    return [slice(low, low + PIECE) for low in range(0, len(x), PIECE)]


def _short(unit: float, x: Any, y: Any) -> Any:
    """The difference of two vectors over a unit, in float32, which takes half of the memory."""
    found = np.empty(len(x), np.float32)
    for part in _pieces(x):
        found[part] = np.divide(x[part] - y[part], unit)  # in float64: any size is allowed
    return found


def _packed(unit: float, x: Any, y: Any) -> tuple[float, Any]:
    """The difference of two vectors over a scale, in float16 if they are long, and that scale.

    Combinations of steps need little accuracy, since the next step corrects their errors.
    """
    if len(x) < LONG:
        return unit, _short(unit, x, y)
    most = max(float(np.abs(x[part] - y[part]).max()) for part in _pieces(x)) or 1.0
    found = np.empty(len(x), np.float16)
    for part in _pieces(x):
        found[part] = np.divide(x[part] - y[part], most)
    return most, found


def _distance(x: Any, y: Any) -> float:
    """Norm of the difference of two vectors."""
    return math.sqrt(sum(float(np.vdot(d, d)) for d in (x[p] - y[p] for p in _pieces(x))))


def _least(s: Any) -> float:
    """A divisor for values that are zero up to rounding."""
    return max(float(s[0]) * 1e-14, 1e-300)


def _candidate(state: Memory, k: int, shown: Any = None, gap: float = math.nan) -> Candidate:
    V: Any = state.V
    return Candidate(V, V, 0.0, state.epoch, k, gap=gap, dual=shown, value=state.last)
