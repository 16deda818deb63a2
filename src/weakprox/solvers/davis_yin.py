"""Davis-Yin splitting with a step size that balances the two halves of its duality gap.

Davis & Yin, "A Three-Operator Splitting Scheme and its Optimization Applications", 2017:
with X = prox_{gamma h}(z) and Y = prox_{gamma R}(2X - z - gamma grad G(X)), z moves by
Y - X. The proximal steps provide dual points, u = (z - X)/gamma for h and
s = (2X - z - gamma grad G(X) - Y)/gamma for R, and with them a lower bound on f:

    f(X) - bound = [R(X) - <s, X> + phi(s)] + |X - Y|^2 / (2 w gamma^2),

w being the strong convexity. A small gamma makes the first half small and the second large; a
large gamma does the reverse. So gamma is changed automatically whenever one half is several
times the other.

Both methods share one iteration. `DavisYin` computes it on stored arrays for any terms, with
Anderson acceleration (`_stored`). `LeanSplitting` keeps X in factors (`_factored`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from weakprox.arguments import integer, optional_counts
from weakprox.certificates.split import FixedDual
from weakprox.linalg.arrays import Array, contiguous, is_array, namespace, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.tiled import Tiled
from weakprox.passes.engine import Engine, engine_for
from weakprox.passes.reference import Replayed
from weakprox.passes.ritz import Ritz
from weakprox.penalties.proximal import proximal_dual
from weakprox.problem import Problem
from weakprox.protocols import Candidate, DualPoint, OwnBound
from weakprox.solvers._factored import COLD, OTHER, SHARPLY, Factored
from weakprox.solvers._gap_driven import (
    FIRST_RANK,
    MANY,
    SPARE,
    STRETCH,
    GapDriven,
    GapMemory,
    GapParameters,
    TooWide,
    capped,
    start_at,
)
from weakprox.solvers._stored import APART, Curvature, History, Stored, Tried, first_target
from weakprox.solvers.base import ARRAYS, Tools, Warmth, array_bytes, fits

FASTEST = 4.0  # largest change of gamma in one iteration
LARGEST = 1.8  # largest gamma times smoothness; the theory requires less than 2
SUDDEN = 0.5  # change of gamma below which the smoothness has grown
FIRST_WIDTH = 16  # width of the block of a factored step, which must hold the rank
OFTEN = 32  # iterations without progress after which gamma changes rarely
SLOW = 0.1  # factor by which a stretch of factored steps must reduce the gap
# iterations before the pace of the gap is judged, and how many times as many again are too many
PACED, PATIENT, TINY = 128, 2.0, 1e-300
NOT_LOW = 1 << 30  # more than any rank


@dataclass(frozen=True, kw_only=True)
class Memory(GapMemory):
    """State of the iteration; copied at the start of an outer step."""

    X: Array | None = None  # for stored steps only
    z: Array | Replayed | None = None
    gamma: float
    # for stored steps; an iteration for the dual point starts from the last y
    history: History = field(default_factory=History)
    curvature: Curvature | None = None  # of G, if it is not known exactly
    tried: Tried | None = None  # if that curvature is not bounded
    stride: float = 1.0  # length of the last step, in moves
    spread: float = math.nan  # (|Y|_*/|X|_* - 1) / |Y - X|; inf if f at Y is not smaller
    sparse_gap: float = math.inf  # estimate at Y
    offer_below: float = math.inf  # estimate at which Y is offered
    earlier: float = math.inf  # gap after half as many iterations, when these are a power of 2
    slow: bool = False  # whether many times as many iterations are to be expected
    inside: bool = False  # whether the ball may contain z
    # for factored steps
    values: Any = None  # of V, on the host
    ritz: Ritz | None = None
    change: float = 1.0  # factor for gamma in the next step
    width: int = 0
    least: float = math.inf  # smallest gap so far
    ratio: float = SHARPLY  # by which the next step is expected to change the gap
    turned: bool = False  # whether that step is the first one with its gamma

    def candidate(
        self, step: int, gap: float = math.nan, dual: OwnBound | None = None
    ) -> Candidate:
        """The proximal point of a factored step, as a candidate for the loop."""
        V, value = self.V, self.last
        return Candidate(V, V, self.h, self.epoch, step, gap=gap, dual=dual, value=value)


def iterate(steps: Stored | Factored, state: Memory, k: int) -> tuple[Memory, bool]:
    """Project z, attempt a proof if due, and move z; also return whether X was evaluated."""
    state = steps.project(state, k)
    state, dual = steps.prove(state, k)
    state, near, far = steps.advance(state, k, dual)
    return balance(steps, state, near, far), dual is not None


def balance(steps: Stored | Factored, state: Memory, near: float, far: float) -> Memory:
    """Change gamma if one half of the gap is much larger than the other."""
    gamma = state.gamma * state.change
    change = balanced(near, far, gamma * state.parameters.beta)
    if isinstance(steps, Stored):
        too_long = gamma * state.parameters.beta > LARGEST / SUDDEN
        return steps.rebalance(state, change if too_long or may_change(state) else 1.0)
    if state.change == change == 1.0:
        return state
    # z has moved; its next pass makes the change
    if state.change == 1.0:
        return replace(state, gamma=gamma, change=change)
    return replace(
        state, gamma=gamma, change=1.0, turned=True, ratio=min(1.0, OTHER * state.ratio)
    )


def may_change(state: Memory) -> bool:
    """Return True if gamma may change to balance the gap.

    Without strong convexity the halves of the gap depend on more than gamma, which may then
    cycle through the same values indefinitely. A fixed gamma converges. So without progress
    gamma only changes after 64, 128, 256, ... iterations.
    """
    waited = state.done - state.progress
    return waited <= OFTEN or waited.bit_count() == 1


@dataclass(frozen=True)
class DavisYin(GapDriven):
    """Deterministic splitting for every penalty and spectral term, without tuning.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the decompositions; by default as large as the proximal points need.
    memory : int
        Number of earlier iterates that the acceleration combines, 0 for none. Each costs two
        arrays of the size of X.
    first_rank : int
        Rank of the first decomposition; an initial guess.
    """

    rank: int | None = None
    memory: int = 2
    first_rank: int = FIRST_RANK

    warm_starts: ClassVar[bool] = True
    coarse: ClassVar[float] = 1e-3  # dual points are differences divided by the step size
    matrices: ClassVar[tuple[str, ...]] = ("X", "V", "z")

    def check(self, problem: Problem) -> None:
        super().check(problem)
        optional_counts(first_rank=self.first_rank)
        integer("memory", self.memory, 0)
        problem.check_finite_sum("DavisYin", "SVRGCG")
        problem.check_provable()

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Constants, and z: the given point, or a proximal gradient step on G + R from zero."""
        first = start_at(problem, X)
        given, h = self.first(problem, X, first, tools)
        parameters = _parameters(problem, tools)
        gamma = 1.0 / parameters.beta
        z = tools.arena.like(first)
        if X is None:  # start from zero: one proximal gradient step on G + R alone
            first_target(tools, gamma, z)
        else:
            z[...] = first
        rank = capped(self.first_rank, problem.shape, self.rank)
        return Memory(V=given, h=h, z=z, gamma=gamma, rank=rank, parameters=parameters, X=first)

    def continued(self, memory: Memory, signal: TooWide) -> Memory:
        """Return the first memory, moved to where another splitting ended."""
        if not is_array(signal.target):  # none, or on workers
            return memory
        z: Any = memory.z
        z[...] = signal.target
        basis = signal.basis
        inside = signal.inside and self.rank is None
        memory = replace(memory, gamma=signal.gamma, inside=inside)
        if basis is None:
            return memory
        basis = namespace(z).astype(basis, z.dtype, copy=False)
        rank = capped(max(MANY, int(basis.shape[1])), z.shape, self.rank)
        return replace(memory, basis=basis, rank=rank)

    def warm(self, problem: Problem, past: Warmth, tools: Tools) -> Memory:
        """Start from the result of a neighbouring problem.

        X and the dual point of R give u = -(grad G + dual point) and z = X + gamma u. The
        step size lies between the first and the last gamma, since the last one suits small
        errors. If R vanishes, the first gamma is used, which solves a quadratic G at once.
        """
        given, h = self.first(problem, None, problem.loss.reference, tools)
        parameters = _parameters(problem, tools)
        gamma, X = past.step(parameters.beta), past.point
        z = tools.loss.grad(X, tools.loss.everything(), out=tools.arena.like(X))
        z += past.pull
        z *= -gamma
        z += (1.0 - gamma * problem.penalty.curvature) * X
        rank = capped(past.rank + SPARE, problem.shape, self.rank)
        first = start_at(problem, None)
        cold = Memory(V=given, h=h, gamma=gamma, rank=rank, parameters=parameters, X=first)
        return replace(cold, z=z, basis=past.basis)

    def dual(self, problem: Problem, memory: Memory) -> DualPoint:
        if memory.dual is None:
            y = proximal_dual(problem.penalty, memory.X, memory.gamma)
            return FixedDual(problem.penalty, y)
        return memory.dual

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        steps = Stored(problem, tools, rank=self.rank, memory=self.memory)
        state = self.stretch(memory, tools, lambda state, k: iterate(steps, state, k)[0])
        return _paced(state, tools) if state.done.bit_count() == 1 else state


def _paced(state: Memory, tools: Tools) -> Memory:
    """Return the state with a judgement of its pace, from the gap at half the iterations.

    After 128 iterations another 256 or more are too many, and so on. Gaps are assumed to
    continue to fall by the same factor in the same number of iterations.
    """
    gap, aim = max(state.gap, TINY), max(tools.accuracy(state.value), TINY)
    fallen, left = math.log(state.earlier / gap), math.log(gap / aim)
    slow = state.done >= PACED and 2.0 * PATIENT * fallen < left
    return replace(state, earlier=gap, slow=slow)


@dataclass(frozen=True)
class LeanSplitting(GapDriven):
    """Splitting with X in factors, for squared distances with separable penalties.

    R is a sum of `L1`, `SignedL1`, `ElasticNet` and `GroupL2` of rows or of columns, or zero;
    or a `Box`, beside squares, and if its bounds are numbers beside penalties whose slopes
    begin at the same numbers. `L1` may have weights, except beside a `Box` with bounds other
    than zero. Other sums need `DavisYin`. h is `NuclearBall`, `NuclearNorm` or `TracePSD`. It
    is the default on CUDA devices, for large arrays, and if the arrays of `DavisYin` do not
    fit.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the solution.
    """

    rank: int | None = None

    elsewhere: ClassVar[bool] = True  # supports data and X outside this process
    matrices: ClassVar[tuple[str, ...]] = ("X", "V", "z")
    suits: ClassVar[str] = (
        "a squared distance, a separable penalty and a norm or ball (or DavisYin)"
    )
    needs: ClassVar[tuple[str, ...]] = ("loss.centre", "penalty.form", "spectral.form")

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Return True if the problem has the required form."""
        return problem.values_form is not None and problem.loss.is_finite_sum

    @property
    def fallback(self) -> DavisYin:
        """Fallback for proximal points that are not low-rank: full decompositions."""
        return DavisYin(rank=self.rank, first_rank=NOT_LOW)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Constants only; the row space of a given first point starts the block."""
        beta = problem.loss.smoothness + problem.penalty.curvature
        parameters = GapParameters(tools.eps, problem.strong_convexity(), beta)
        width = min(FIRST_WIDTH, *problem.shape)
        given, values = LowRank.zero(problem.shape, problem.loss.reference), np.zeros(1)
        if X is not None:
            given = tools.compressed(X, width)
            values = to_numpy(given.s)
        h = 0.0 if X is None else problem.spectral.value(given)
        return Memory(
            V=given,
            h=h,
            rank=1,
            parameters=parameters,
            gamma=1.0 / parameters.beta,
            values=values,
            width=width,
        )

    def candidate(self, memory: Memory) -> Candidate:
        """The last proximal point; it cannot be proved after its target has moved."""
        return memory.candidate(0)

    def dual(self, problem: Problem, memory: Memory) -> DualPoint | OwnBound:
        """Dual point of the last target if it is still stored, else one at the solution."""
        if memory.z is None or memory.ritz is None:
            assert memory.V is not None
            y = problem.penalty.ascend(None, memory.V.dense(), 1.0 / memory.gamma)
            return FixedDual(problem.penalty, y)
        C = contiguous(problem.centre())
        step = problem.entrywise()
        assert step is not None
        how: Any = {"symmetric": problem.spectral.symmetric, "mirrored": problem.mirrored}
        engine = Engine(C, memory.z, **how, beside=step.beside)
        state = replace(memory, ritz=engine.ritz(memory.ritz.V, powers=COLD))
        steps = Factored(problem, engine, None, step=step)  # type: ignore[arg-type]
        return steps.provable(state, memory.done)[1]

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        # whether there is room for the fallback; asking a device takes long
        other = cache(partial(self.affordable, problem))
        C, step, h = tools.loss.whole_centre(), problem.entrywise(), problem.spectral
        assert step is not None
        how: Any = {"symmetric": h.symmetric, "mirrored": problem.mirrored}
        with engine_for(C, tools.arena, memory.width, step, **how) as engine:
            steps = Factored(problem, engine, tools, rank=self.rank, thin=other, step=step)
            state = memory if memory.ritz is None else steps.resumed(memory)
            for k in range(memory.done + 1, memory.done + STRETCH + 1):
                state, shown = iterate(steps, state, k)
                if not shown:
                    tools.tick(state.candidate(k))
            if self._is_slow(state, memory, engine.z) and other():
                # acceleration or float64 is worth its memory here
                raise steps.handed_over(steps.settle(state))
            state = steps.settle(state)
            assert state.ritz is not None
            state = replace(state, z=engine.kept(), ritz=engine.own(state.ritz))
        return replace(state, epoch=memory.epoch + 1, done=memory.done + STRETCH)

    @staticmethod
    def _is_slow(state: Memory, before: Memory, z: Array) -> bool:
        """Return True if a stretch has reduced the gap too little.

        In float32, only a gap that hardly falls counts: a restart in float64 is expensive.
        """
        if z.dtype.itemsize == 4:
            return state.progress <= before.done
        return state.least > SLOW * before.least

    @staticmethod
    def affordable(problem: Problem) -> bool:
        """Return True if methods that hold many arrays fit in memory."""
        if problem.elsewhere and not isinstance(problem.of_loss.target, Tiled):
            return False
        # in float64, since float32 would not allow accurate proofs
        size = array_bytes(problem) * 8 / problem.loss.reference.dtype.itemsize
        return fits(problem, ARRAYS["DavisYin"].most * size)


def _parameters(problem: Problem, tools: Tools) -> GapParameters:
    """Constants of a run; any smoothness works if G + R is linear."""
    beta = problem.loss.smoothness + problem.penalty.curvature or 1.0
    return GapParameters(tools.eps, problem.strong_convexity(needed=False), beta)


def balanced(near: float, far: float, relative: float) -> float:
    """Factor for gamma that balances the halves; `relative` is gamma times smoothness."""
    most = LARGEST / relative
    if most < SUDDEN:
        return most  # the smoothness is larger than declared
    if near <= APART * far and far <= APART * near:
        return 1.0
    factor = math.sqrt(far / near) if near > 0 else FASTEST
    factor = min(FASTEST, max(1.0 / FASTEST, factor))
    return min(factor, max(1.0, most))
