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
from typing import Any

from weakprox.certificates.split import FixedDual, lower_bound
from weakprox.linalg.arrays import Array, add_scaled, inner, sqnorm
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Dual, WeakProx
from weakprox.solvers._gap_driven import (
    FIRST_RANK,
    GapDriven,
    GapMemory,
    GapParameters,
    adaptive_prox,
    capped,
    judged,
)
from weakprox.solvers.base import Tools, first_point

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

    @property
    def lost(self) -> float:
        """The gap at (Z, w), as estimated from exact proximal points."""
        return self.near + self.far


@dataclass(frozen=True, kw_only=True)
class Memory(GapMemory):
    """State of the iteration; V and h are those of the user's first point."""

    balance: float  # t
    mean: tuple[Array, Dual] | None = None  # of the trial points since the last change
    count: int = 0  # of points in the mean
    changes: int = 0  # of t
    origin: tuple[Array, Dual] | None = None  # point of the last change
    trial: Trial | None = None  # the last one, or that of the average


@dataclass(frozen=True)
class Extragradient(GapDriven):
    """Deterministic extragradient method for every penalty, without smoothing.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the decompositions; by default as large as the proximal points need.
    """

    rank: int | None = None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        problem.check_finite_sum("Extragradient", "SVRGCG")
        problem.constants(strongly_convex=False)
        problem.check_provable()

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Constants, the first point, and its dual point."""
        c = problem.constants(strongly_convex=False)
        beta = c.beta_G + problem.penalty.curvature
        first = first_point(problem, X)
        given, h = self.first(problem, X, first, tools)
        rank = capped(FIRST_RANK, problem.shape, self.rank)
        parameters = GapParameters(tools.eps, c.alpha, beta)
        t = beta if beta > 0.0 else 1.0
        y = problem.penalty.ascend(None, first, t, geometry="euclidean")
        return Memory(X=first, y=y, V=given, h=h, balance=t, rank=rank, parameters=parameters)

    def candidate(self, memory: Memory) -> Candidate:
        """Return the last trial point, or that of the average, and the best dual point."""
        found, trial = super().candidate(memory), memory.trial
        if trial is None:
            return found
        return replace(found, X=trial.Z, V=trial.prox.V, h_bound=trial.h)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """Run a stretch of iterations, and a trial from their average, which may be better."""

        def iteration(state: Memory, k: int) -> Memory:
            return self._iteration(problem, state, tools, k)

        state = self.stretch(memory, tools, iteration)
        assert state.mean is not None
        (X, y), last, k = state.mean, state.trial, state.done
        assert last is not None
        trial, _ = self._trial(problem, replace(state, X=X, y=y), tools, tools.rng(k, 1))
        state = _judged(state, problem, trial, k)
        if trial.lost < last.lost or (trial.lost == math.inf and trial.value < last.value):
            state = replace(state, X=X, y=y, count=0)  # continue from the average
        if last.value < trial.value:
            state = replace(state, trial=last)
        if state.parameters.alpha:
            return state
        # without strong convexity, the bound needs a decomposition of its own
        dual, rng = FixedDual(problem.penalty, y, trial.prox.V), tools.rng(k, 2)
        bound, _ = lower_bound(
            problem, trial.Z, dual, rank=state.rank, rng=rng, reached=state.value
        )
        return judged(state, state.value, bound, dual, k)

    def _iteration(self, problem: Problem, state: Memory, tools: Tools, k: int) -> Memory:
        """Take the trial step, and the actual step with the gradients found there."""
        rng, R = tools.rng(k), problem.penalty
        trial, after = self._trial(problem, state, tools, rng)
        length = 1.0 / (state.parameters.beta + state.balance)
        A = state.X * 1.0
        add_scaled(A, -length, trial.slope)
        y = R.ascend(state.y, trial.Z, state.balance, geometry="euclidean")
        cut = after.cut
        prox, after = self._prox(A, after, tools, rng)
        state = _judged(after, problem, trial, k)
        mean: tuple[Array, Dual] = (trial.Z, trial.w)
        if state.count and state.mean is not None:
            share = 1.0 / (state.count + 1)
            mean = _blend(state.mean, mean, share)
        state = replace(state, mean=mean, count=state.count + 1, cut=cut or after.cut)
        state = replace(state, X=prox.V.dense(), y=y)
        if state.count >= SETTLED * SLOWER**state.changes:
            state = _balanced(state, problem)
        return replace(state, origin=state.origin or (state.X, state.y))

    def _trial(
        self, problem: Problem, state: Memory, tools: Tools, rng: Any
    ) -> tuple[Trial, Memory]:
        """Return the trial point (Z, w) from (X, y), and the state after its decomposition."""
        p, R, everything = state.parameters, problem.penalty, tools.loss.everything
        length = 1.0 / (p.beta + state.balance)
        slope = _slope(problem, state.X, tools.loss.grad(state.X, everything()), state.y)
        A = state.X * 1.0
        add_scaled(A, -length, slope)
        prox, state = self._prox(A, state, tools, rng)
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
        return Trial(prox, Z, w, slope, value, h, near, far), state

    def _prox(self, A: Array, state: Memory, tools: Tools, rng: Any) -> tuple[WeakProx, Memory]:
        """Return the proximal point of h at A; its rank grows until it is accurate enough."""
        weight = state.parameters.beta + state.balance
        guess = 0.5 * weight * sqnorm(A) if math.isinf(state.value) else 0.0
        return adaptive_prox(
            tools, A, state, weight=weight, guess=guess, cap=self.rank, rng=rng
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


def _judged(state: Memory, problem: Problem, trial: Trial, k: int) -> Memory:
    """Update the best value and the best bound with those of the trial point."""
    dual = FixedDual(problem.penalty, trial.w, trial.prox.V)
    bound = trial.value - trial.lost
    return judged(replace(state, trial=trial), trial.value, bound, dual, k)


def _balanced(state: Memory, problem: Problem) -> Memory:
    """Change t to balance the halves of the gap.

    Without strong convexity there are no halves. The distances travelled since the last
    change then replace those of the theory's bound (as for the primal weight of PDLP).
    """
    assert state.trial is not None
    assert state.origin is not None
    near, far = state.trial.near, state.trial.far
    if not state.parameters.alpha:
        X, y = state.origin
        pull = problem.penalty.pull
        near, far = sqnorm(pull(state.y) - pull(y)), state.balance**2 * sqnorm(state.X - X)
    if near <= APART * far and far <= APART * near:
        return state
    factor = math.sqrt(near / far) if far > 0.0 else FASTEST
    balance = min(FASTEST, max(1.0 / FASTEST, factor)) * state.balance
    # points for different values of t are not averaged
    return replace(state, balance=balance, count=0, changes=state.changes + 1, origin=None)
