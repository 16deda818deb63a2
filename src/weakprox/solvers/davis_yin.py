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

import numpy as np

from weakprox.arguments import optional_counts
from weakprox.certificates.split import FixedDual, SplitDual
from weakprox.errors import InputError
from weakprox.linalg.arrays import (
    Array,
    eps_of,
    gaussian,
    inner,
    namespace,
    rough_inner,
    row_blocks,
    zeros,
)
from weakprox.linalg.kernels import dense
from weakprox.linalg.lowrank import LowRank
from weakprox.penalties.proximal import proximal_dual
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Dual, DualPoint
from weakprox.solvers._curvature import Curvature
from weakprox.solvers._extrapolation import History
from weakprox.solvers._gap_driven import STRETCH, GapDriven, Plan, allowed, start_at
from weakprox.solvers._prox import FIRST_RANK, SPARE, adaptive_prox, capped
from weakprox.solvers._splitting import split
from weakprox.solvers.tools import Tools
from weakprox.solvers.warm import Warmth

APART = 4.0  # how many times one half of the gap may be the other
FASTEST = 4.0  # largest change of gamma in one iteration
STEADY = 0.01  # relative change of a move that counts as none
LONGEST = 2.0**16  # stride, in moves
ROUNDING = 1e3  # units of rounding below which a move is none
FLAT_VECTORS = 4  # random ones, beside those of X, that show the norm of a dual point


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
    curvature: Curvature | None = None  # of G, where it is not known exactly
    y: Dual | None = None  # dual point of R, where an iteration for it goes on from
    stride: float = 1.0  # length of the last step, in moves
    last: float | None = None  # f at X
    cut: bool = False  # whether the cap on the rank left out more than allowed
    value: float = math.inf  # best value seen
    bound: float = -math.inf  # best estimate of a lower bound seen
    dual: SplitDual | None = None  # what that rests on
    progress: int = 0  # iteration that last improved the gap by a hundredth
    gap: float = math.inf  # the gap then


@dataclass(frozen=True)
class DavisYin(GapDriven):
    """Deterministic splitting for every penalty and spectral term; nothing to tune.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the decompositions; as large as the proximal points turn out to
        need if not given.
    memory : int
        Earlier iterates that the acceleration combines, 0 for none. Each costs two
        arrays of the size of X.
    first_rank : int
        Rank of the first decomposition; a guess, which the run corrects.
    """

    rank: int | None = None
    memory: int = 2
    first_rank: int = FIRST_RANK

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        self.check_rank(problem)
        optional_counts(first_rank=self.first_rank)
        whole = isinstance(self.memory, (int, np.integer)) and not isinstance(self.memory, bool)
        if not whole or self.memory < 0:
            raise InputError("memory", repr(self.memory), "an integer >= 0")
        problem.check_finite_sum("DavisYin", "SVRGCG")
        problem.check_provable()

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Constants, and z where the first point is its own proximal point."""
        beta = problem.loss.smoothness + problem.penalty.curvature or 1.0  # any, if linear
        plan = Plan(tools.eps, problem.strong_convexity(needed=False), beta)
        first = start_at(problem, X)
        given, h = self.first(problem, X, first, tools)
        gamma = 1.0 / plan.beta
        z = tools.arena.like(first)
        if X is None:  # from zero: one proximal gradient step on G + R alone
            _first_target(tools, gamma, z)
        else:
            z[...] = first
        return Memory(
            X=first,
            V=given,
            h=h,
            z=z,
            gamma=gamma,
            history=History(),
            epoch=0,
            done=0,
            rank=capped(self.first_rank, problem.shape, self.rank),
            basis=None,
            parameters=plan,
        )

    def warm(self, problem: Problem, past: Warmth, tools: Tools) -> Memory:
        """The same from where a neighbouring problem's run ended.

        X and the dual point of R give u = -(grad G + dual point) and z = X + gamma u. A
        gamma between the first and the last one: the last is for errors that are small. If R
        vanishes, the first one it is: a quadratic G is then solved at once.
        """
        cold = self.first(problem, None, problem.loss.reference, tools)
        beta = problem.loss.smoothness + problem.penalty.curvature or 1.0  # any, if linear
        gamma = math.sqrt(1.0 / (beta * max(beta, past.weight))) if past.size else 1.0 / beta
        X = past.point
        z = tools.loss.grad(X, tools.loss.everything(), out=tools.arena.like(X))
        z += past.pull
        z *= -gamma
        z += (1.0 - gamma * problem.penalty.curvature) * X
        return Memory(
            X=start_at(problem, None),
            V=cold[0],
            h=cold[1],
            z=z,
            gamma=gamma,
            history=History(),
            epoch=0,
            done=0,
            rank=capped(past.rank + SPARE, problem.shape, self.rank),
            basis=past.basis,
            parameters=Plan(tools.eps, problem.strong_convexity(needed=False), beta),
        )

    def candidate(self, memory: Memory) -> Candidate:
        """The last proximal point, and the best dual point."""
        estimate = memory.value - memory.bound
        return Candidate(
            memory.X,
            memory.V,
            memory.h,
            memory.epoch,
            0,
            gap=estimate,
            dual=memory.dual,
            value=memory.last,
        )

    def dual(self, problem: Problem, memory: Memory) -> DualPoint:
        """The dual points of the best bound."""
        if memory.dual is None:
            y = proximal_dual(problem.penalty, memory.X, memory.gamma)
            return FixedDual(problem.penalty, y)
        return memory.dual

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """A stretch of iterations."""
        state = memory
        for k in range(memory.done + 1, memory.done + STRETCH + 1):
            z, gamma = state.z, state.gamma
            guess = rough_inner(z, z) / (2 * gamma) if math.isinf(state.value) else 0.0
            prox, rank, cut = adaptive_prox(
                tools,
                z,
                weight=1.0 / gamma,
                allowed=allowed(tools, state.value, state.bound, guess),
                rank=state.rank,
                cap=self.rank,
                start=state.basis,
                rng=tools.rng(k),
            )
            X, h = dense(prox.V, tools.arena.like(z)), problem.spectral.value(prox.V)
            gradient = tools.loss.grad(X, tools.loss.everything(), out=tools.arena.like(z))
            state = _watched(problem, state, X, gradient)
            smooth = _value(problem, X, gradient)
            parts = split(problem.penalty, X, z, gradient, gamma, state.y)
            near = max(0.0, parts.near)
            value = smooth + parts.value + h
            if state.parameters.alpha > 0.0:
                far = parts.length / (2 * state.parameters.alpha * gamma**2)
            else:
                reached, rng = min(value, state.value), tools.rng(k, 1)
                far = _flat_half(problem, prox.V, X, z, parts.move, gamma, reached, rng)
            state = replace(
                state,
                X=X,
                V=prox.V,
                h=h,
                basis=prox.basis,
                rank=rank,
                cut=cut,
                y=parts.y,
                last=value,
            )
            dual = SplitDual(problem.penalty, z, 1.0 / gamma, prox, parts.y)
            lost = near + far + prox.delta_estimate / (2 * gamma)
            state = _judged(state, value, lost, dual, k)

            change = balanced(near, far, gamma * state.parameters.beta)
            stride = _stride(state, parts.move)
            if change == 1.0 and stride > 1.0:
                after = tools.arena.like(z)
                for rows in row_blocks(z):
                    after[rows] = z[rows] + stride * parts.move[rows]
                history = History((parts.move,), (after,))
                state = replace(state, z=after, history=history, stride=stride)
            elif change == 1.0:
                history, z = state.history.extended(z, parts.move, self.memory, tools.arena)
                state = replace(state, z=z, history=history, stride=1.0)
            else:  # keep u, and go on from Y, which X is about to become
                after = tools.arena.like(z)
                for rows in row_blocks(z):
                    after[rows] = change * z[rows] + (1.0 - change) * X[rows]
                    after[rows] += parts.move[rows]
                z = after
                gamma *= change
                state = replace(state, z=z, gamma=gamma, history=History(), stride=1.0)
            tools.tick(replace(self.candidate(state), epoch=memory.epoch + 1, step=k))
        return replace(state, epoch=memory.epoch + 1, done=memory.done + STRETCH)


def _stride(state: Memory, move: Array) -> float:
    """Length of the next step: twice the last one while moves repeat and alpha = 0.

    Where G is flat, z drifts by the same small move for thousands of iterations, which the
    acceleration cannot see: it combines differences of moves.
    """
    if state.parameters.alpha > 0.0 or not state.history.moves:
        return 1.0
    last = state.history.moves[-1]
    apart = size = length = 0.0
    for rows in row_blocks(move):
        turn, z = move[rows] - last[rows], state.z[rows]
        apart += rough_inner(turn, turn)
        size += rough_inner(move[rows], move[rows])
        length += rough_inner(z, z)
    visible = size > (ROUNDING * eps_of(move)) ** 2 * length
    steady = visible and apart <= STEADY**2 * size
    return min(2.0 * state.stride, LONGEST) if steady else 1.0


def _first_target(tools: Tools, gamma: float, z: Array) -> None:
    """Overwrite z by prox_{gamma R}(-gamma grad G(0))."""
    loss, R = tools.loss, tools.problem.penalty
    batch = loss.everything()
    if loss.has_centre:  # spares a pass over a matrix of zeros
        C = loss.centre(batch, counted=True)
        for rows in row_blocks(z):
            z[rows] = (gamma * loss.smoothness) * C[rows]
    else:
        z[...] = loss.grad(zeros(tools.problem.shape, z), batch)
        z *= -gamma
    for rows in row_blocks(z) if R.rowwise and R.separable else [slice(None)]:
        part = z[rows]
        part -= gamma * R.pull(proximal_dual(R, part, gamma))


def _watched(problem: Problem, state: Memory, X: Array, gradient: Array) -> Memory:
    """The memory with constants that the gradients so far do not contradict."""
    if hasattr(problem.loss, "centre"):  # its constants are what they are
        return state
    gradient = gradient * 1.0  # the step will overwrite it
    if state.curvature is None:
        return replace(state, curvature=Curvature(X, gradient))
    seen = state.curvature.then(X, gradient)
    seen.check(problem.loss.strong_convexity)
    beta = seen.smoothness(problem.loss.smoothness) + problem.penalty.curvature or 1.0
    return replace(state, curvature=seen, parameters=replace(state.parameters, beta=beta))


def _value(problem: Problem, X: Array, gradient: Array) -> float:
    """G(X), from its gradient where a quadratic loss offers the way to do so."""
    origin = getattr(problem.loss, "origin", None)
    if origin is None:
        return problem.loss.value(X, problem.loss.everything())
    value, slope = origin
    return float(value) + 0.5 * (inner(X, gradient) + inner(X, slope))


def _flat_half(
    problem: Problem,
    V: LowRank,
    X: Array,
    z: Array,
    move: Array,
    gamma: float,
    reached: float,
    rng: np.random.Generator,
) -> float:
    """Estimate of h(X) + h*(U) - <U, X>, U = -(grad G + s): what `far` is if alpha = 0."""
    U = z - X
    U += move
    U *= 1.0 / gamma
    h, rough = problem.spectral, getattr(problem.spectral, "rough_conjugate", None)
    if rough is None:
        dual = h.conjugate(U, rng)
    else:
        random = gaussian(rng, (int(U.shape[1]), FLAT_VECTORS), U)
        block = namespace(U).concat([V.Vt.T, random], axis=1)
        dual = rough(U, block, problem.radius(reached))
    return max(0.0, h.value(V) + dual - inner(U, X))


def _judged(state: Memory, value: float, lost: float, dual: SplitDual, k: int) -> Memory:
    """Best value, best estimated bound and its dual point, and whether they still move."""
    best, bound = min(value, state.value), value - lost
    if state.bound < bound < math.inf:  # infinite where a term of the user's is
        state = replace(state, bound=bound, dual=dual)
    gap = max(0.0, best - state.bound)  # rounding may take it below zero
    if gap < 0.99 * state.gap:
        state = replace(state, progress=k, gap=gap)
    return replace(state, value=best)


def balanced(near: float, far: float, relative: float) -> float:
    """Factor for gamma (given as gamma times smoothness) that balances the halves.

    Theory asks for gamma < 2 / smoothness.
    """
    most = 1.8 / relative
    if most < 0.5:
        return most  # the smoothness turned out larger than it was declared to be
    if near <= APART * far and far <= APART * near:
        return 1.0
    factor = math.sqrt(far / near) if near > 0 else FASTEST
    factor = min(FASTEST, max(1.0 / FASTEST, factor))
    return min(factor, max(1.0, most))
