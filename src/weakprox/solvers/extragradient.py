"""Low-rank extragradient on the saddle point form of the problem.

Garber & Kaplan, "Low-Rank Extragradient Method for Nonsmooth and Low-Rank Matrix
Optimization Problems", NeurIPS 2021 (arXiv 2202.04026), for any h with a proximal map:

    min over X, max over y in Y of G(X) + curvature/2 |X|^2 + <y, K X> - phi(y) + h(X).

A trial step leads from (X, y) to (Z, w). The actual step starts from (X, y) again, with the
gradients at (Z, w). Nothing is smoothed, every penalty is allowed, and near the optimum the
proximal points have its rank. If K'y is t-Lipschitz in X after the dual step, the primal
step 1/(smoothness + t) is the largest that the theory allows. The proximal steps provide
u in dh(Z) = (X - Z)/step - gradient, and with it a lower bound on f:

    f(Z) - bound = [R(Z) - <w, K Z> + phi(w)] + |gradient at (Z, w) + u|^2 / (2 alpha),

alpha being the strong convexity. t is changed if one half is many times the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from weakprox.certificates.split import FixedDual, lower_bound
from weakprox.linalg.arrays import Array, add_scaled, inner, sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Dual, WeakProx
from weakprox.solvers._conditional import first_point
from weakprox.solvers._gap_driven import STRETCH, GapDriven, Plan, allowed
from weakprox.solvers._prox import FIRST_RANK, Found, adaptive_prox, capped
from weakprox.solvers.tools import Tools

SETTLED = 8  # iterations before t is changed for the first time
SLOWER = 2.0  # factor by which the wait grows after each change
APART = 4.0  # largest ratio of the halves of the gap
FASTEST = 4.0  # largest change of t at once


@dataclass(frozen=True)
class Trial:
    """A trial point (Z, w) with the gradient there and the halves of its gap."""

    prox: WeakProx
    Z: Array
    w: Dual
    slope: Array  # gradient in X of the smooth part at (Z, w)
    value: float
    h: float
    near: float
    far: float
    rank: int  # for the next decomposition
    cut: bool = False  # whether the cap on the rank cut Z

    @property
    def lost(self) -> float:
        """The gap at (Z, w), as estimated from exact proximal points."""
        return self.near + self.far


@dataclass(frozen=True)
class Memory:
    """State of the iteration."""

    X: Array
    y: Dual
    V: LowRank | None  # of the user's first point
    h: float
    balance: float  # t
    epoch: int
    done: int
    rank: int
    basis: Array | None
    parameters: Plan
    mean: tuple[Array, Dual] | None = None  # of the trial points since the last change
    count: int = 0  # of points in the mean
    changes: int = 0  # of t
    origin: tuple[Array, Dual] | None = None  # point of the last change
    value: float = math.inf  # best value seen
    bound: float = -math.inf  # best estimate of a lower bound seen
    dual: FixedDual | None = None  # dual point of that bound
    last: Trial | None = None
    cut: bool = False  # whether the cap on the rank discarded more than allowed
    progress: int = 0  # iteration that last improved the gap by a hundredth
    gap: float = math.inf  # the gap then


@dataclass(frozen=True)
class Extragradient(GapDriven):
    """Deterministic extragradient method for every penalty, without smoothing.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the decompositions; by default as large as the proximal points need.
    """

    rank: int | None = None

    patience: ClassVar[int] = 400

    def check(self, problem: Problem) -> None:
        """Raise on invalid settings before any work."""
        self.check_rank(problem)
        problem.check_finite_sum("Extragradient", "SVRGCG")
        problem.constants(strongly_convex=False)
        problem.check_provable()

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Constants, the first point, and its dual point."""
        c = problem.constants(strongly_convex=False)
        beta = c.beta_G + problem.penalty.curvature
        first = first_point(problem, X)
        given, h = self.first(problem, X, first, tools)
        balance = beta if beta > 0.0 else 1.0
        return Memory(
            X=first,
            y=problem.penalty.ascend(None, first, balance, geometry="euclidean"),
            V=given,
            h=h,
            balance=balance,
            epoch=0,
            done=0,
            rank=capped(FIRST_RANK, problem.shape, self.rank),
            basis=None,
            parameters=Plan(tools.eps, c.alpha, beta),
        )

    def candidate(self, memory: Memory) -> Candidate:
        """Return the last trial point, or that of the average, and the best dual point."""
        X, V, h = memory.X, memory.V, memory.h
        if memory.last is not None:
            X, V, h = memory.last.Z, memory.last.prox.V, memory.last.h
        gap = memory.value - memory.bound
        return Candidate(X, V, h, memory.epoch, 0, gap=gap, dual=memory.dual)

    def dual(self, problem: Problem, memory: Memory) -> FixedDual:
        """Return the dual point of the best bound."""
        return memory.dual or FixedDual(problem.penalty, memory.y)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """Run a stretch of iterations, and a trial from their average, which may be better."""
        state = replace(memory, epoch=memory.epoch + 1)
        for k in range(memory.done + 1, memory.done + STRETCH + 1):
            state = self._iteration(problem, replace(state, done=k), tools)
            tools.tick(replace(self.candidate(state), step=k))
        assert state.mean is not None
        (X, y), last, rng = state.mean, state.last, tools.rng(state.done, 1)
        assert last is not None
        trial = self._trial(problem, replace(state, X=X, y=y), tools, rng)
        state = _judged(state, problem, trial)
        if trial.lost < last.lost or (trial.lost == math.inf and trial.value < last.value):
            state = replace(state, X=X, y=y, count=0)  # continue from the average
        if last.value < trial.value:
            state = replace(state, last=last)
        if not state.parameters.alpha:
            state = _bounded(state, problem, replace(trial, w=y), tools)
        return state

    def _iteration(self, problem: Problem, state: Memory, tools: Tools) -> Memory:
        """Take the trial step, and the actual step with the gradients found there."""
        rng, R = tools.rng(state.done), problem.penalty
        trial = self._trial(problem, state, tools, rng)
        length = 1.0 / (state.parameters.beta + state.balance)
        A = state.X * 1.0
        add_scaled(A, -length, trial.slope)
        y = R.ascend(state.y, trial.Z, state.balance, geometry="euclidean")
        after = replace(state, rank=trial.rank, basis=trial.prox.basis)
        prox, rank, cut = self._prox(A, after, tools, rng)
        state = _judged(after, problem, trial)
        mean: tuple[Array, Dual] = (trial.Z, trial.w)
        if state.count and state.mean is not None:
            share = 1.0 / (state.count + 1)
            mean = _blend(state.mean, mean, share)
        state = replace(state, mean=mean, count=state.count + 1, cut=cut or trial.cut)
        moved = {"X": prox.V.dense(), "y": y, "basis": prox.basis, "rank": rank}
        state = replace(state, **moved)
        if state.count >= SETTLED * SLOWER**state.changes:
            state = _balanced(state, problem)
        return replace(state, origin=state.origin or (state.X, state.y))

    def _trial(self, problem: Problem, state: Memory, tools: Tools, rng: Any) -> Trial:
        """Return the trial point (Z, w) from (X, y), with the halves of its gap."""
        p, R, everything = state.parameters, problem.penalty, tools.loss.everything
        length = 1.0 / (p.beta + state.balance)
        slope = _slope(problem, state.X, tools.loss.grad(state.X, everything()), state.y)
        A = state.X * 1.0
        add_scaled(A, -length, slope)
        prox, rank, cut = self._prox(A, state, tools, rng)
        Z = prox.V.dense()
        w = R.ascend(state.y, state.X, state.balance, geometry="euclidean")
        slope = _slope(problem, Z, tools.loss.grad(Z, everything()), w)
        A -= Z
        A *= 1.0 / length  # now u, in dh(Z)
        A += slope
        top = R.value(Z)
        linear = inner(R.pull(w), Z) - R.dual_value(w)
        near = max(0.0, top - 0.5 * R.curvature * sqnorm(Z) - linear)
        far = sqnorm(A) / (2 * p.alpha) if p.alpha > 0.0 else math.inf
        far += prox.delta_estimate / (2 * length)
        h = problem.spectral.value(prox.V)
        value = problem.loss.value(Z, problem.loss.everything()) + top + h
        return Trial(prox, Z, w, slope, value, h, near, far, rank, cut)

    def _prox(self, A: Array, state: Memory, tools: Tools, rng: Any) -> Found:
        """Return the proximal point of h at A; its rank grows until it is accurate enough."""
        weight = state.parameters.beta + state.balance
        guess = 0.5 * weight * sqnorm(A) if math.isinf(state.value) else 0.0
        return adaptive_prox(
            tools,
            A,
            weight=weight,
            allowed=allowed(tools, state.value, state.bound, guess),
            rank=state.rank,
            cap=self.rank,
            start=state.basis,
            rng=rng,
        )


def _slope(problem: Problem, X: Array, gradient: Array, y: Dual) -> Array:
    """Return the gradient in X of G + curvature/2 |X|^2 + <y, K X>; overwrites that of G."""
    add_scaled(gradient, 1.0, problem.penalty.pull(y))
    if problem.penalty.curvature:
        add_scaled(gradient, problem.penalty.curvature, X)
    return gradient


def _blend(old: Dual, new: Dual, share: float) -> Dual:
    """Return (1 - share) old + share new, also for tuples of arrays."""
    if isinstance(old, tuple):
        return tuple(_blend(a, b, share) for a, b in zip(old, new, strict=True))
    return old + share * (new - old)


def _judged(state: Memory, problem: Problem, trial: Trial) -> Memory:
    """Update the best value, the best estimated bound with its dual point, and the progress."""
    state = replace(state, last=trial, value=min(trial.value, state.value))
    if state.bound < trial.value - trial.lost < math.inf:
        dual = FixedDual(problem.penalty, trial.w, trial.prox.V)
        state = replace(state, bound=trial.value - trial.lost, dual=dual)
    return _progressed(state)


def _bounded(state: Memory, problem: Problem, trial: Trial, tools: Tools) -> Memory:
    """Update the bound without strong convexity, by a separate decomposition."""
    dual, rng = FixedDual(problem.penalty, trial.w, trial.prox.V), tools.rng(state.done, 2)
    bound, _ = lower_bound(
        problem, trial.Z, dual, rank=state.rank, rng=rng, reached=state.value
    )
    if state.bound < bound < math.inf:
        state = replace(state, bound=bound, dual=dual)
    return _progressed(state)


def _progressed(state: Memory) -> Memory:
    """Record the iteration if the gap has shrunk by 1 %; rounding may make it negative."""
    gap = max(0.0, state.value - state.bound)
    return replace(state, progress=state.done, gap=gap) if gap < 0.99 * state.gap else state


def _balanced(state: Memory, problem: Problem) -> Memory:
    """Change t to balance the halves of the gap.

    Without strong convexity there are no halves. The distances travelled since the last
    change then replace those of the theory's bound (as for the primal weight of PDLP).
    """
    assert state.last is not None
    assert state.origin is not None
    near, far = state.last.near, state.last.far
    if not state.parameters.alpha:
        X, y = state.origin
        pull = problem.penalty.pull
        near, far = sqnorm(pull(state.y) - pull(y)), state.balance**2 * sqnorm(state.X - X)
    if near <= APART * far and far <= APART * near:
        return state
    factor = math.sqrt(near / far) if far > 0.0 else FASTEST
    balance = min(FASTEST, max(1.0 / FASTEST, factor)) * state.balance
    # points of different balances are not averaged
    return replace(state, balance=balance, count=0, changes=state.changes + 1, origin=None)
