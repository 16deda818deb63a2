"""Davis-Yin splitting with a step that balances the two halves of its own duality gap.

Davis & Yin, "A Three-Operator Splitting Scheme and its Optimization Applications", 2017:
with X = prox_{gamma h}(z) and Y = prox_{gamma R}(2X - z - gamma grad G(X)), z moves by
Y - X. The proximal steps hand over dual points, u = (z - X)/gamma for h and
s = (2X - z - gamma grad G(X) - Y)/gamma for R, and with them a lower bound on f:

    f(X) - bound = [R(X) - <s, X> + phi(s)] + |X - Y|^2 / (2 w gamma^2),

w the strong convexity. A small gamma makes the first half small and the second large, a
large one the reverse. So gamma is changed whenever one half is several times the other,
and nobody has to choose it. Anderson acceleration of z (Walker & Ni 2011) does the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, inner, sqnorm
from weakprox.linalg.kernels import add_scaled
from weakprox.linalg.lowrank import LowRank
from weakprox.oracles.certificate import FixedDual
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Tolerance, WeakProx
from weakprox.solvers._conditional import checked_count, first_point, need_finite_sum
from weakprox.solvers._extrapolation import History
from weakprox.solvers.tools import Tools

STRETCH = 16  # iterations of one outer step
APART = 4.0  # how many times one half of the gap may be the other
FASTEST = 2.0  # largest change of gamma in one iteration
SHARE = 1e-3  # of the gap, what an inexact decomposition may cost
PATIENCE = 150  # iterations without progress after which rounding has the last word
FIRST_RANK = 8
ARRAYS = 24  # of the size of X held at once at most: history, and full decompositions


@dataclass(frozen=True)
class Plan:
    """Constants of a run: accuracy, strong convexity, smoothness of the smooth part."""

    eps: float
    alpha: float
    beta: float


@dataclass(frozen=True)
class Memory:
    """Everything the next iterations read; copied at the start of an outer step."""

    X: Array
    V: LowRank | None
    h: float
    z: Array
    gamma: float
    history: History
    epoch: int
    done: int
    rank: int
    basis: Array | None
    parameters: Plan
    value: float = math.inf  # best value seen
    bound: float = -math.inf  # best estimate of a lower bound seen
    dual: FixedDual | None = None  # what that rests on
    progress: int = 0  # iteration that last improved the gap by a hundredth
    gap: float = math.inf  # the gap then


@dataclass(frozen=True)
class DavisYin:
    """Deterministic splitting for separable penalties; nothing to tune.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the decompositions; as large as the proximal points turn out to
        need if not given.
    memory : int
        Earlier iterates that the acceleration combines, 0 for none. Each costs two
        arrays of the size of X.
    """

    rank: int | None = None
    memory: int = 2

    answer: ClassVar[Literal["low_rank"]] = "low_rank"

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        checked_count("rank", self.rank)
        most = min(problem.shape)
        if self.rank is not None and self.rank > most:
            raise InputError("rank", repr(self.rank), f"an integer from 1 to {most}, or None")
        whole = isinstance(self.memory, (int, np.integer)) and not isinstance(self.memory, bool)
        if not whole or self.memory < 0:
            raise InputError("memory", repr(self.memory), "an integer >= 0")
        if not problem.penalty.separable:
            wanted = "a penalty with a proximal map of its own (not MaxAffine, not a sum)"
            raise InputError("penalty", repr(problem.penalty), wanted)
        need_finite_sum("DavisYin", problem, "SVRGCG")
        problem.constants()

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Constants, and z where the first point is its own proximal point."""
        c = problem.constants()
        plan = Plan(tools.eps, c.alpha, c.beta_G + problem.penalty.curvature)
        first = first_point(problem, X)
        whole = tools.compressed(first)
        given = None  # a point of the user's is an answer, too
        if X is not None:
            cut = tools.compressed(first, self._capped(min(problem.shape), problem))
            given = cut.trimmed(1e-14 * float(cut.s[0]))
        gamma = 1.0 / plan.beta
        z = first * 1.0
        if X is None:  # from zero: one proximal gradient step on G + R alone
            g = tools.loss.grad(first, tools.loss.everything())
            add_scaled(z, -gamma, g)
            y = problem.penalty.ascend(None, z, 1 / gamma)
            add_scaled(z, -gamma, problem.penalty.pull(y))
        return Memory(
            X=first,
            V=given,
            h=problem.spectral.value(whole),
            z=z,
            gamma=gamma,
            history=History(),
            epoch=0,
            done=0,
            rank=self._capped(FIRST_RANK, problem),
            basis=None,
            parameters=plan,
        )

    def finished(self, memory: Memory) -> bool:
        """Whether the gap has stopped shrinking: what is left is rounding."""
        return memory.done - memory.progress >= PATIENCE

    def promised(self, memory: Memory) -> float:
        """Nothing beyond the certificate."""
        return math.inf

    def oracle_excess(self, memory: Memory) -> float:
        """Nothing is promised, so nothing is exceeded."""
        return 0.0

    def candidate(self, memory: Memory) -> Candidate:
        """The last proximal point, and the best dual point."""
        estimate = memory.value - memory.bound
        return Candidate(
            memory.X, memory.V, memory.h, memory.epoch, 0, gap=estimate, dual=memory.dual
        )

    def dual(self, problem: Problem, memory: Memory) -> FixedDual:
        """The dual point of the best bound."""
        if memory.dual is None:
            y = problem.penalty.ascend(None, memory.X, 1.0 / memory.gamma)
            return FixedDual(problem.penalty, y)
        return memory.dual

    def _capped(self, rank: int, problem: Problem) -> int:
        return max(1, min(rank, *problem.shape, self.rank or rank))

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """A stretch of iterations."""
        z, state = memory.z * 1.0, memory
        for k in range(memory.done + 1, memory.done + STRETCH + 1):
            gamma, R = state.gamma, problem.penalty
            prox, rank = self._prox(problem, z, state, tools, tools.rng(k))
            X, h = prox.V.dense(), problem.spectral.value(prox.V)
            move = tools.loss.grad(X, tools.loss.everything())
            if R.curvature:
                add_scaled(move, R.curvature, X)
            move *= -gamma
            move += X
            move += X - z  # now 2X - z - gamma grad
            y = R.ascend(None, move, 1.0 / gamma)
            s = R.pull(y)
            add_scaled(move, -gamma, s)  # now Y
            move -= X

            smooth = R.value(X) - 0.5 * R.curvature * sqnorm(X)
            near = max(0.0, smooth - inner(s, X) + R.dual_value(y))
            far = sqnorm(move) / (2 * state.parameters.alpha * gamma**2)
            state = replace(state, X=X, V=prox.V, h=h, basis=prox.basis, rank=rank)
            lost = near + far + prox.delta_estimate / (2 * gamma)
            state = _judged(state, problem, lost, FixedDual(R, y, prox.V), k)

            change = _change(near, far, gamma * state.parameters.beta)
            if change == 1.0:
                history, z = state.history.extended(z, move, self.memory)
                state = replace(state, history=history)
            else:  # keep u, and go on from Y, which X is about to become
                z -= X
                z *= change
                z += X
                z += move
                state = replace(state, gamma=gamma * change, history=History())
            tools.tick(replace(self.candidate(state), epoch=memory.epoch + 1, step=k))
        return replace(state, z=z, epoch=memory.epoch + 1, done=memory.done + STRETCH)

    def _prox(
        self, problem: Problem, z: Array, state: Memory, tools: Tools, rng: Any
    ) -> tuple[WeakProx, int]:
        """Proximal point of h at z, of a rank that grows until it is exact enough."""
        gap = state.value - state.bound
        allowed = SHARE * max(state.parameters.eps, gap if math.isfinite(gap) else 0.0)
        tolerance = Tolerance(2 * state.gamma * allowed)
        rank, basis = state.rank, state.basis
        while True:
            prox = tools.spectral.weak_prox(
                z,
                weight=1.0 / state.gamma,
                rank=rank,
                tolerance=tolerance,
                start=basis,
                rng=rng,
            )
            enough = prox.V.rank < rank or prox.delta_estimate <= tolerance.delta1
            larger = self._capped(max(2 * rank, rank + 8), problem)
            if enough or larger <= rank:
                # a few triplets to spare, so that the next one need not be done twice
                return prox, self._capped(max(prox.V.rank + 3, (3 * rank) // 4), problem)
            rank, basis = larger, prox.basis


def _judged(state: Memory, problem: Problem, lost: float, dual: FixedDual, k: int) -> Memory:
    """Best value, best estimated bound and its dual point, and whether they still move."""
    value = problem.smooth_value(state.X) + state.h
    best, bound = min(value, state.value), value - lost
    if state.bound < bound < math.inf:  # infinite where a term of the user's is
        state = replace(state, bound=bound, dual=dual)
    gap = max(0.0, best - state.bound)  # rounding may take it below zero
    if gap < 0.99 * state.gap:
        state = replace(state, progress=k, gap=gap)
    return replace(state, value=best)


def _change(near: float, far: float, relative: float) -> float:
    """Factor for gamma (given as gamma times smoothness) that balances the halves."""
    if near <= APART * far and far <= APART * near:
        return 1.0
    factor = math.sqrt(far / near) if near > 0 else FASTEST
    factor = min(FASTEST, max(1.0 / FASTEST, factor))
    return min(factor, max(1.0, 1.8 / relative))  # theory asks for gamma < 2 / smoothness
