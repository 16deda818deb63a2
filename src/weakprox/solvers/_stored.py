"""Davis-Yin steps on stored arrays: X, its gradient and z, for any terms.

Anderson acceleration of z (Walker & Ni 2011) combines earlier steps, which are also stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from weakprox.certificates.split import SplitDual
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
from weakprox.linalg.lowrank import LowRank, dense
from weakprox.penalties.proximal import proximal_dual
from weakprox.problem import Problem
from weakprox.protocols import Dual, Penalty, WeakProx
from weakprox.solvers._curvature import Curvature
from weakprox.solvers._extrapolation import History
from weakprox.solvers._gap_driven import allowed
from weakprox.solvers._prox import adaptive_prox
from weakprox.solvers.tools import Tools

if TYPE_CHECKING:
    from weakprox.solvers.davis_yin import Memory

STEADY = 0.01  # relative change below which two moves count as equal
LONGEST = 2.0**16  # stride, in moves
ROUNDING = 1e3  # units of rounding below which a move counts as zero
FLAT_VECTORS = 4  # random vectors, in addition to those of X, for the norm of a dual point


class Stored:
    """Steps of one problem on arrays of the size of X."""

    def __init__(
        self, problem: Problem, tools: Tools, *, rank: int | None = None, memory: int = 2
    ) -> None:
        self.problem, self.tools = problem, tools
        self.cap, self.memory = rank, memory
        self._prox: WeakProx | None = None
        self._move: Array = None

    def project(self, state: Memory, k: int) -> Memory:
        """The proximal point of z, by a decomposition of the necessary rank."""
        z, gamma, tools = state.z, state.gamma, self.tools
        guess = rough_inner(z, z) / (2 * gamma) if math.isinf(state.value) else 0.0
        prox, rank, cut = adaptive_prox(
            tools,
            z,
            weight=1.0 / gamma,
            allowed=allowed(tools, state.value, state.bound, guess),
            rank=state.rank,
            cap=self.cap,
            start=state.basis,
            rng=tools.rng(k),
        )
        self._prox = prox
        X, h = dense(prox.V, tools.arena.like(z)), self.problem.spectral.value(prox.V)
        return replace(state, X=X, V=prox.V, h=h, basis=prox.basis, rank=rank, cut=cut)

    def prove(self, state: Memory, k: int) -> tuple[Memory, None]:
        """Return the state unchanged: z is stored, so the loop may prove later."""
        return state, None

    def advance(self, state: Memory, k: int, dual: None) -> tuple[Memory, float, float]:
        """Return the state at X and the two halves of its gap; z does not move yet."""
        problem, tools, prox = self.problem, self.tools, self._prox
        assert prox is not None
        X, z, gamma = state.X, state.z, state.gamma
        gradient = tools.loss.grad(X, tools.loss.everything(), out=tools.arena.like(z))
        state = _watched(problem, state, X, gradient)
        smooth = _value(problem, X, gradient)
        parts = split(problem.penalty, X, z, gradient, gamma, state.y)
        near, self._move = max(0.0, parts.near), parts.move
        value = smooth + parts.value + state.h
        if state.parameters.alpha > 0.0:
            far = parts.length / (2 * state.parameters.alpha * gamma**2)
        else:
            reached, rng = min(value, state.value), tools.rng(k, 1)
            far = _flat_half(problem, prox.V, X, z, parts.move, gamma, reached, rng)
        point = SplitDual(problem.penalty, z, 1.0 / gamma, prox, parts.y)
        lost = near + far + prox.delta_estimate / (2 * gamma)
        state = replace(state, y=parts.y, last=value)
        return _judged(state, value, lost, point, k), near, far

    def rebalance(self, state: Memory, change: float) -> Memory:
        """Move z by an accelerated step, or by a plain step if gamma changes."""
        z: Any = state.z
        X: Any = state.X
        move, arena = self._move, self.tools.arena
        stride = _stride(state, move)
        if change == 1.0 and stride > 1.0:
            after = arena.like(z)
            for rows in row_blocks(z):
                after[rows] = z[rows] + stride * move[rows]
            history = History((move,), (after,))
            return replace(state, z=after, history=history, stride=stride)
        if change == 1.0:
            history, z = state.history.extended(z, move, self.memory, arena)
            return replace(state, z=z, history=history, stride=1.0)
        # keep u, and continue from Y, which becomes the next X
        after = arena.like(z)
        for rows in row_blocks(z):
            after[rows] = change * z[rows] + (1.0 - change) * X[rows]
            after[rows] += move[rows]
        gamma = state.gamma * change
        return replace(state, z=after, gamma=gamma, history=History(), stride=1.0)


@dataclass(frozen=True)
class Split:
    """Result of a step: its move Y - X, R(X), the halves of the gap, and a dual point.

    `near` is R(X) - <s, X> + phi and `length` is the squared norm of the move. The dual point
    is None if the penalty is separable, since recomputing it is cheaper than storing it.
    """

    move: Array
    value: float
    near: float
    length: float
    y: Dual | None


def split(
    penalty: Penalty, X: Array, z: Array, gradient: Array, gamma: float, start: Dual | None
) -> Split:
    """Compute Y = prox_{gamma R}(2X - z - gamma (gradient + curvature X)) and its `Split`.

    Penalties that act on rows are evaluated in blocks of rows that stay in cache. The
    move overwrites the gradient.
    """
    if not (penalty.rowwise and penalty.separable):
        return _part(penalty, X, z, gradient, gamma, start)
    value = near = length = 0.0
    for rows in row_blocks(X):
        part = _part(penalty, X[rows], z[rows], gradient[rows], gamma, None)
        value, near, length = value + part.value, near + part.near, length + part.length
    return Split(gradient, value, near, length, None)


def _part(penalty: Penalty, X: Array, z: Array, G: Array, gamma: float, start: Any) -> Split:
    """The split for some of the rows."""
    G *= -gamma
    G += (2.0 - gamma * penalty.curvature) * X
    G -= z
    y = proximal_dual(penalty, G, gamma, start)
    s = penalty.pull(y)
    value = penalty.value(X)
    near = value - rough_inner(s, X) + penalty.dual_value(y)
    if penalty.curvature:
        near -= 0.5 * penalty.curvature * rough_inner(X, X)
    G -= gamma * s
    G -= X
    return Split(G, value, near, rough_inner(G, G), None if penalty.separable else y)


def _stride(state: Memory, move: Array) -> float:
    """Length of the next step: twice the last one while moves repeat and alpha = 0.

    If G is flat, z drifts by the same small move for thousands of iterations. The
    acceleration does not detect this, since it combines differences of moves.
    """
    if state.parameters.alpha > 0.0 or not state.history.moves:
        return 1.0
    last, target = state.history.moves[-1], cast(Array, state.z)
    apart = size = length = 0.0
    for rows in row_blocks(move):
        turn, z = move[rows] - last[rows], target[rows]
        apart += rough_inner(turn, turn)
        size += rough_inner(move[rows], move[rows])
        length += rough_inner(z, z)
    visible = size > (ROUNDING * eps_of(move)) ** 2 * length
    steady = visible and apart <= STEADY**2 * size
    return min(2.0 * state.stride, LONGEST) if steady else 1.0


def first_target(tools: Tools, gamma: float, z: Array) -> None:
    """Overwrite z by prox_{gamma R}(-gamma grad G(0))."""
    loss, R = tools.loss, tools.problem.penalty
    batch = loss.everything()
    if loss.has_centre:  # avoids a pass over a matrix of zeros
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
    """Update the constants so that the gradients so far do not contradict them."""
    if problem.of_loss.centre is not None:  # its constants are exact
        return state
    gradient = gradient * 1.0  # the step will overwrite it
    if state.curvature is None:
        return replace(state, curvature=Curvature(X, gradient))
    seen = state.curvature.then(X, gradient)
    seen.check(problem.loss.strong_convexity)
    beta = seen.smoothness(problem.loss.smoothness) + problem.penalty.curvature or 1.0
    return replace(state, curvature=seen, parameters=replace(state.parameters, beta=beta))


def _value(problem: Problem, X: Array, gradient: Array) -> float:
    """G(X), from its gradient if the loss is quadratic and provides `origin`."""
    origin = problem.of_loss.origin
    if origin is None:
        return problem.loss.value(X, problem.loss.everything())
    value, slope = origin()
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
    """Estimate of h(X) + h*(U) - <U, X>, U = -(grad G + s), which is `far` if alpha = 0."""
    U = z - X
    U += move
    U *= 1.0 / gamma
    h, rough = problem.spectral, problem.of_spectral.rough_conjugate
    if rough is None:
        dual = h.conjugate(U, rng)
    else:
        random = gaussian(rng, (int(U.shape[1]), FLAT_VECTORS), U)
        block = namespace(U).concat([V.Vt.T, random], axis=1)
        dual = rough(U, block, problem.radius(reached))
    return max(0.0, h.value(V) + dual - inner(U, X))


def _judged(state: Memory, value: float, lost: float, dual: SplitDual, k: int) -> Memory:
    """Update the best value, the best estimated bound with its dual point, and the progress."""
    best, bound = min(value, state.value), value - lost
    if state.bound < bound < math.inf:  # infinite if a user's term is
        state = replace(state, bound=bound, dual=dual)
    gap = max(0.0, best - state.bound)  # may be negative by rounding
    if gap < 0.99 * state.gap:
        state = replace(state, progress=k, gap=gap)
    return replace(state, value=best)
