"""Davis-Yin steps with X in factors, on two arrays: the data C and the target z.

Each step is one pass that reads both arrays, overwrites z by the next target and multiplies
it with the block of the next decomposition, followed by two more products. The passes are in
`weakprox.passes`, for squared distances, separable penalties and functions of singular values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weakprox.certificates.factored import WITHIN, FactoredDual
from weakprox.linalg.arrays import (
    DOUBLE,
    Array,
    copied,
    gaussian,
    namespace,
    on_cpu,
    sqnorm,
)
from weakprox.linalg.bounds import EXACT_BELOW
from weakprox.linalg.lowrank import noise_share
from weakprox.linalg.simplex import rounded_on_host
from weakprox.linalg.thick_svd import thick_width
from weakprox.passes import Step, ValueForm
from weakprox.passes.engine import Engine
from weakprox.passes.ritz import Ritz, Vector
from weakprox.problem import Problem
from weakprox.solvers._gap_driven import MANY, SOON, TooWide
from weakprox.solvers.base import Tools, replace

if TYPE_CHECKING:
    from weakprox.solvers.davis_yin import Memory

SPARE = 2  # columns of the block beyond the rank
POWERS = 4  # limit on the power steps of a decomposition
COLD = 2  # power steps from a random block
WIDER = 2  # factor for the block if the rank does not fit
THIN, WIDEST = 64, 0.1  # columns, and share of all columns, up to which a block may grow
# The same share in the first iterations. A rank that grows later is not low, and DavisYin
# needs fewer iterations then.
EARLY, WIDE = 2, 0.3
# share of all columns from which a block is given up if all of its triplets are kept
FULL = 0.2
SEVERAL = 16  # columns beyond the rank
STUCK = 5  # iterations without progress
ON_DEVICE = 384  # columns on a device, where eigenproblems take longer relative to products
SMALL_STEP = 0.1  # step size times smoothness
CLEAR = 4.0  # multiple of the cut-off from which values are not noise
NEAR = 0.5  # share of the cut-off from which a discarded value counts as near it
BURIED = 0.5  # share of the largest eigenvalue of noise below which a cut-off keeps many
NOISE = 0.85  # nuclear norm of square noise, over the largest one for its size and norm
FAR = 5.0  # multiple of that eigenvalue from which an eigenvalue is not noise
DENSE = 0.8  # share of the cut-off from which a step hardly separates a discarded value
LEFT = 3e-5  # relative excess of a norm that a proof by factorisation should allow
# Factors by which steps are expected to reduce the gap: the first one, and relative to the step
# before, the first step with another gamma and the one after it. Up to the last multiple of the
# accuracy the expected gap is worth a look, which takes less time than a step.
SHARPLY, OTHER, AFTER, NEARLY = 0.1, 1.5, 0.7, 1.1


class Factored:
    """Steps of one problem on the arrays of an engine."""

    def __init__(
        self,
        problem: Problem,
        engine: Engine,
        tools: Tools,
        *,
        rank: int | None = None,
        thin: Callable[[], bool] = lambda: False,
        step: Step | None = None,
    ) -> None:
        form, step = problem.values_form, step or problem.entrywise()
        assert form is not None
        assert step is not None
        self._step = step
        self.problem, self.engine, self.tools = problem, engine, tools
        self.form: ValueForm = form
        self.cap, self.thin = rank, thin
        # shares of the largest value below which others are noise: above a cut-off, and without
        self._noise = [noise_share(problem.shape, eps) for eps in (DOUBLE, engine.eps)]
        self._follow: Callable[[], Ritz] | None = None  # computes the triplets of z
        self._aim = 0.0  # the accuracy to reach, at the last projection
        self._rough = False  # whether its triplets may miss values above the cut-off

    def step(self, gamma: float) -> Step:
        """The constants of a step."""
        return self._step._replace(gamma=gamma)

    def resumed(self, memory: Memory) -> Memory:
        """Copy a checkpoint to the engine's arrays; the checkpoint keeps its own."""
        assert memory.ritz is not None
        copied(memory.z, self.engine.z)
        return replace(memory, ritz=self.engine.adopt(memory.ritz))

    def settle(self, state: Memory) -> Memory:
        """Add the triplets of z to the state."""
        return replace(state, ritz=self._settled(state))

    def _settled(self, state: Memory) -> Ritz | None:
        """The triplets of z."""
        follow, self._follow = self._follow, None
        return state.ritz if follow is None else follow()

    def project(self, state: Memory, k: int) -> Memory:
        """The proximal point of z, from a block that is wide enough."""
        engine, shape, tools = self.engine, self.problem.shape, self.tools
        z, found, powers = engine.z, self._settled(state), max(COLD, state.powers)
        if found is None:
            step, rng = self.step(state.gamma), tools.rng(k)
            tools.spectral.counted(state.width, 2 * powers)
            found = engine.begin(step, _block(state, self.problem, rng), powers)
        while True:
            p = self.form.prox(found.s, state.gamma)
            shift = float(found.s[0] - p[0])
            kept = max(1, int((p > self._noise[shift <= 0.0] * p[0]).sum()))
            width = len(found.s)
            # Discarded values must be visible, also at the lower end of a symmetric z. If they
            # are close to the cut-off, single triplets converge slowly. Then only a wider block
            # shows all that are kept, and DavisYin may take less time.
            seen = int((np.abs(found.s) >= found.s[kept - 1]).sum())
            crowded = bool(np.abs(found.s).min() > NEAR * shift)
            beside = int((found.s[kept:] > DENSE * shift).sum())
            stuck = k - state.progress > STUCK
            slow = (kept >= MANY and beside >= kept // 4) or stuck
            doubtful = k <= EARLY and seen < width if engine.symmetric else shift <= 0.0
            if doubtful and self.thin() and self._buried(found, shift):
                raise self.handed_over(replace(state, ritz=found), early=True)
            # Without a penalty this is the solution, and one full decomposition proves it.
            small = seen < width and min(shape) <= EXACT_BELOW
            if small and crowded and self._step.free and self.thin():
                raise self.handed_over(replace(state, ritz=found))
            lost = stuck or (slow and crowded and not self._outweighed(found, shift))
            wide = kept > WIDEST * min(shape) and not engine.symmetric
            if lost and (k > EARLY or wide) and self.thin():
                raise self.handed_over(replace(state, ritz=found))
            spare = SPARE
            if crowded:  # without the fallback, wide blocks take too long
                most = min(shape) if self.thin() else SEVERAL
                spare = min(most, thick_width(kept) - kept) << (state.powers - 1)
            if seen <= width - spare or width >= min(shape):
                break
            most = max(THIN, int((WIDE if k <= EARLY else WIDEST) * min(shape)))
            most = most if on_cpu(z) else min(most, ON_DEVICE)
            # if all of a wide block is kept, or many values lie near the cut-off, a slightly
            # wider one is rarely enough
            full = seen == width or (wide and crowded and k > 1)
            full = full and width >= max(THIN, FULL * min(shape))
            if (width >= most or full) and self.thin():
                raise self.handed_over(replace(state, ritz=found))
            wider = WIDER * width
            if seen == width:  # a block that was far too narrow only starts the next one
                powers = 1
                wider = max(wider, _rounded_up(width + self._missing(found, shift) + SPARE))
            width = min(wider, most if width < most else wider, *shape)
            block = _wider(found.V, gaussian(tools.rng(k, width), (shape[1], width), z))
            tools.spectral.counted(width, 2 * powers)
            found = engine.ritz(block, None, powers)
        cap = kept if self.cap is None else min(kept, self.cap)
        if cap < kept:
            p = self.form.prox(found.s[:cap], state.gamma)
        values = rounded_on_host(p[:cap], self.form.tau, z)
        h = self.form.lam * float(values.sum())
        powers, size = state.powers, 0.5 * self.problem.loss.smoothness * float(values @ values)
        self._aim = tools.accuracy(state.value, self._guess(found, values, h), size)
        self._rough = crowded and state.powers < COLD
        if crowded and state.gap <= SOON * self._aim:
            powers = max(powers, COLD)  # a proof needs all triplets above the cut-off
        about: dict[str, Any] = {"powers": powers, "cut": cap < kept, "rank": cap}
        return replace(state, values=values, h=h, ritz=found, **about)

    def _guess(self, found: Ritz, values: Vector, h: float) -> float:
        """Estimate of f at the first point if there is no penalty; else 0."""
        whole = self.engine.whole
        if whole is None:
            return 0.0
        s = found.s[: len(values)]
        distance = whole[0] - float(s @ s) + float((s - values) @ (s - values))
        return h + 0.5 * self._step.beta * max(0.0, distance)

    def _outweighed(self, found: Ritz, shift: float) -> bool:
        """Return True if power steps favour the lower end of a symmetric z over the cut-off."""
        return self.engine.symmetric and float(found.s[-1]) < -shift

    def _buried(self, found: Ritz, shift: float) -> bool:
        """Return True if many values of z beyond the block are kept.

        The ball may hold all of z, whose nuclear norm beyond the block is estimated as that of
        noise with the same norm. For a symmetric z, the largest eigenvalue beyond the block is
        estimated in this way (Wigner's semicircle), or by the lower end of the spectrum unless
        that is far from noise.
        """
        if math.isinf(self.form.tau) or self.form.lam:
            return False
        least, rest = min(self.problem.shape), self._rest(found)
        if self.engine.symmetric:
            edge, lowest = 2.0 * math.sqrt(rest / least), -float(found.s[-1])
            return shift < BURIED * (lowest if edge < lowest < FAR * edge else edge)
        about = NOISE * math.sqrt((least - len(found.s)) * rest)
        return float(found.s.sum()) + about <= self.form.tau

    def _rest(self, found: Ritz) -> float:
        """Sum of the squares of the values of z beyond the block."""
        return max(0.0, sqnorm(self.engine.z) - float(found.s @ found.s))

    def _missing(self, found: Ritz, shift: float) -> int:
        """Least number of values of z beyond the block, if its own are far above the cut-off.

        None of them is larger than the last one of the block.
        """
        last = float(found.s[-1])
        if not last > CLEAR * shift or self.problem.elsewhere:
            return 0
        return int(self._rest(found) / last**2)

    def handed_over(self, state: Memory, *, early: bool = False) -> TooWide:
        """Signal to continue with the fallback from here."""
        assert state.ritz is not None
        # A block that contains both ends of a spectrum misses values at the cut-off, and if no
        # value is cut off, all vectors are needed: then start with a full decomposition.
        # It takes long on a device, and in the first iterations the rank is still moderate.
        symmetric = self.engine.symmetric
        whole = not self.form.lam and float(state.ritz.s.sum()) <= self.form.tau
        moderate = symmetric and early and not on_cpu(self.engine.z)
        full = (symmetric or whole) and not moderate
        basis = None if full else self.engine.own(state.ritz).V
        inside = early and whole and not symmetric
        return TooWide(self.engine.kept(), state.gamma, basis, inside=inside)

    def prove(self, state: Memory, k: int) -> tuple[Memory, FactoredDual | None]:
        """A dual point at z, before it moves, if the gap is expected to be small enough."""
        gap = state.gap
        if math.isinf(gap):
            if k > 1 or not self._step.free:
                return state, None
            gap = 0.0  # the first target is already that of the solution
        if not gap * state.ratio <= NEARLY * self._aim or (self._rough and self.thin()):
            return state, None
        if state.gamma * state.parameters.beta < SMALL_STEP:
            # a proof divides the residuals by gamma, so they must be more accurate
            assert state.ritz is not None
            state = replace(state, ritz=self.engine.ritz(state.ritz.V))
        state, dual = self.provable(state, k)
        if dual.thorough and self._too_close(state):
            return state, dual
        self.tools.tick(state.candidate(k, gap=state.gap, dual=dual))
        if state.gap <= self._aim:  # but the proof did not succeed
            assert state.ritz is not None
            shift = float(state.ritz.s[0] - state.values[0])
            most = COLD if self._outweighed(state.ritz, shift) else POWERS
            if state.powers >= most and self.thin():
                raise self.handed_over(state)
            state = replace(state, powers=min(POWERS, state.powers + 1))
        return state, dual

    def _too_close(self, state: Memory) -> bool:
        """Return True if the gap leaves too little room for a bound on the norm.

        A failed factorisation costs more than a few steps, which would widen that room.
        """
        assert state.ritz is not None
        shift = max(0.0, float(state.ritz.s[0] - state.values[0]))
        tau = self.form.tau
        reach = tau if math.isfinite(tau) else float(state.values.sum())
        price = reach * shift / state.gamma
        left = WITHIN * self._aim - state.gap
        return 0.0 < left < min(LEFT * price, 0.5 * self._aim)

    def provable(self, state: Memory, k: int) -> tuple[Memory, FactoredDual]:
        """The state with a proximal point in float64, rounded, and its dual point."""
        found, r, engine = state.ritz, state.rank, self.engine
        step = self.step(state.gamma)
        assert found is not None
        if not found.exact and engine.products.exact:  # its vectors are not orthonormal
            found = engine.in_float64(found)
        # a long lower end of a symmetric z is not part of the remainder
        shift = max(0.0, float(found.s[0] - state.values[0]))
        last = int((found.s[r:] < -0.9 * shift).sum()) if engine.symmetric else 0
        near = r + int((found.s[r : len(found.s) - SPARE - last] > NEAR * shift).sum())
        more = found.with_last(near, last) if near > r and not last else None
        # a factorisation costs more than many steps, so the block must be accurate first
        thorough = state.powers > 1 and self.thin()
        kept = found.with_last(r, last)
        rest = np.abs(found.s[r : len(found.s) - last])
        beside = tuple(float(rest[count:].max(initial=0.0)) for count in (0, near - r))
        how: Any = {"more": more, "beside": beside, "thorough": thorough, "aim": self._aim}
        dual = FactoredDual(engine, kept, step, self.form, r, **how)
        value, values = dual.value, dual.kept
        h = self.form.lam * float(values.sum())
        point: dict[str, Any] = {"V": dual.point, "values": values, "h": h, "last": value}
        return self._judged(state, value, dual.halves, k, dual.rounding, **point), dual

    def advance(
        self, state: Memory, k: int, dual: FactoredDual | None
    ) -> tuple[Memory, float, float]:
        """Move z; return the state at X and the two halves of its gap."""
        step, near = self.step(state.gamma), state.ritz
        assert near is not None
        self.tools.spectral.counted(int(near.V.shape[1]), 2 * state.powers)
        self.tools.loss.counted(1)
        known = None if dual is None else state.V
        V, sums, self._follow = self.engine.advance(
            known, state.values, step, state.change, near, state.powers
        )
        halves = sums.halves(step)
        if dual is not None:
            return replace(state, V=V), *halves
        value = sums.value(step) + state.h
        # estimates do not count as the best value
        last = value + 64 * self.engine.eps * abs(value)
        return self._judged(state, value, halves, k, V=V, last=last), *halves

    def _judged(
        self,
        state: Memory,
        value: float,
        halves: tuple[float, float],
        k: int,
        rounding: float = 0.0,
        **point: Any,
    ) -> Memory:
        """The state at another point: best value, gap, its rate of decrease, and progress."""
        gap, found, values = sum(halves), state.ritz, point.get("values", state.values)
        if found is not None and found.residuals is not None:
            shift = max(0.0, float(found.s[0] - values[0]))
            reach = min(self.form.tau, float(values.sum()))
            gap += reach / state.gamma * found.excess(len(values), shift)
        ratio = gap / state.gap if 0.0 < state.gap < math.inf else SHARPLY
        if state.turned:
            ratio *= AFTER
        return replace(
            state,
            value=min(state.value, value),
            gap=gap + rounding,  # a proof needs the current z
            least=min(state.least, gap),
            ratio=min(1.0, max(ratio, 0.02)),
            turned=False,
            progress=k if gap < 0.99 * state.least else state.progress,
            **point,
        )


def _rounded_up(width: int) -> int:
    """The next power of two, for which kernels are compiled."""
    return 1 << (width - 1).bit_length()


def _block(state: Memory, problem: Problem, rng: np.random.Generator) -> Array:
    """A random block that starts with the row space of the user's first point."""
    Q = gaussian(rng, (problem.shape[1], state.width), problem.loss.reference)
    keep = min(np.count_nonzero(state.values), max(1, state.width - SPARE))
    if keep and state.V is not None:
        Q[:, :keep] = state.V.Vt[:keep].T * math.sqrt(problem.shape[1])
    return Q


def _wider(V: Array, more: Array) -> Array:
    """The block V with as many random columns as `more` has in addition.

    They are orthogonal to V, so that products with them are not dominated by large triplets.
    """
    xp, V = namespace(more), namespace(more).astype(V, more.dtype)
    more = more[:, V.shape[1] :]
    return xp.concat([V, more - V @ (V.T @ more)], axis=1)
