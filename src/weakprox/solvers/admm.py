"""The alternating direction method of multipliers, with a proximal step for every term.

Boyd et al., "Distributed Optimization and Statistical Learning via the Alternating Direction
Method of Multipliers", 2011, on min G(X) + R(Y) + h(W) subject to X = Y = W:

    X  = argmin G(X) + rho/2 |X - W + u/rho|^2 + rho/2 |X - Y + s/rho|^2,
    W  = prox_{h/rho}(X + u/rho),    u <- u + rho (X - W),
    Y  = prox_{R/rho}(X + s/rho),    s <- s + rho (X - Y),

with over-relaxed X in the last two lines, and without Y if there is no R. Gradient steps take
many iterations if the curvature of G differs much between directions; proximal steps do not.
They need the proximal map of G, which losses declare.

u is a subgradient of h at W and s one of R at Y. With g the gradient at X they give the bound

    f* >= G(X) - <g, X> - phi(s) + min over Z of <g + s, Z> + alpha/2 |Z - X|^2 + h(Z),

alpha being the strong convexity, which is estimated in each iteration. The squares in R belong
to G here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from weakprox.certificates.split import FixedDual
from weakprox.linalg.arrays import Array, inner, is_numpy, norm, sqnorm
from weakprox.linalg.lowrank import LowRank, dense
from weakprox.linalg.whole_prox import whole_prox
from weakprox.penalties.proximal import proximal_dual
from weakprox.problem import Problem
from weakprox.protocols import DualPoint, LossProx
from weakprox.solvers._gap_driven import (
    FIRST_RANK,
    SPARE,
    GapDriven,
    GapMemory,
    GapParameters,
    adaptive_prox,
    capped,
    judged,
    rough_conjugate,
    smooth_value,
)
from weakprox.solvers.base import Tools, Warmth, first_point, replace
from weakprox.spectral.singular import gram_is_cheaper

FIRST = 0.03  # first rho, as a share of the smoothness
UNEVEN = 100.0  # smoothness over strong convexity from which gradient steps take longer
RELAXED = 1.6  # over-relaxation
WAIT = 5  # iterations between changes of rho
LONG = 200  # iterations after which they are rarer
APART = 1.5  # ratio of relative residuals that changes rho
FASTEST = 10.0  # largest change of rho at once
LEAST, MOST = 1e-4, 1e4  # rho, as shares of the smoothness: dual points may tend to zero


@dataclass(frozen=True, kw_only=True)
class Memory(GapMemory):
    """State of the iteration; X is the point W of h."""

    rho: float
    u: Array  # dual point of h
    Y: Array | None = None  # point of R, if there is one
    s: Array | None = None  # its dual point, K'y


@dataclass(frozen=True)
class ADMM(GapDriven):
    """Alternating directions, for losses with a proximal map: few iterations at any curvature.

    These are `Denoising` of a matrix in memory, also with a `loss` or `weights`, `Completion`
    without intercepts, and `Regression` and `Sensing` unless they are too large to decompose
    their Hessian or the Gram matrix of their terms (2000 rows). It is the default for the last
    two if their curvature is uneven, and for other losses with uneven curvature and without
    a penalty.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the decompositions; by default as large as the proximal points need.
    """

    rank: int | None = None

    warm_starts: ClassVar[bool] = True
    coarse: ClassVar[float] = 1e-3  # dual points are differences times rho
    matrices: ClassVar[tuple[str, ...]] = ("X", "V", "u", "Y", "s")
    suits: ClassVar[str] = "a loss with a proximal map, such as Sensing (or DavisYin)"
    needs: ClassVar[tuple[str, ...]] = ("loss.prox",)

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Whether the loss has a proximal map."""
        return problem.loss.is_finite_sum and problem.of_loss.prox is not None

    @classmethod
    def pays(cls, problem: Problem) -> bool:
        """Whether it is expected to take fewer iterations than gradient steps.

        The curvature of G + R must differ much between directions. Losses of single entries
        with a penalty gain nothing.
        """
        if not cls.applies(problem) or (problem.penalised and problem.of_loss.origin is None):
            return False
        beta = problem.loss.smoothness + problem.penalty.curvature
        return beta > UNEVEN * problem.strong_convexity(needed=False)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        problem.check_provable()

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Start from the given point or zero, with dual points zero."""
        first = first_point(problem, X)
        given, h = self.first(problem, X, first, tools)
        beta = problem.loss.smoothness + problem.penalty.curvature or 1.0
        plan = GapParameters(tools.eps, problem.strong_convexity(needed=False), beta)
        rank = capped(FIRST_RANK, problem.shape, self.rank)
        none = first * 0.0
        memory = Memory(
            X=first, V=given, h=h, rank=rank, parameters=plan, rho=FIRST * beta, u=none
        )
        return replace(memory, Y=first, s=none) if problem.penalised else memory

    def warm(self, problem: Problem, past: Warmth, tools: Tools) -> Memory:
        """Start from the answer of a neighbouring problem and its dual points."""
        memory = self.start(problem, past.point, tools)
        u = -tools.loss.grad(memory.X, tools.loss.everything()) - past.pull
        rank = capped(past.rank, problem.shape, self.rank)
        memory = replace(memory, u=u, rank=rank, basis=past.basis)
        return memory if memory.Y is None else replace(memory, s=past.pull)

    def dual(self, problem: Problem, memory: Memory) -> DualPoint:
        if memory.dual is None:
            y = proximal_dual(problem.penalty, memory.X, 1.0 / memory.rho)
            return FixedDual(problem.penalty, y)
        return memory.dual

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        if "prox" not in tools.kept:
            assert problem.of_loss.prox is not None
            tools.kept["prox"] = problem.of_loss.prox()
        prox: LossProx = tools.kept["prox"]
        return self.stretch(memory, tools, lambda state, k: self._once(prox, state, tools, k))

    def _once(self, prox: LossProx, state: Memory, tools: Tools, k: int) -> Memory:
        """One iteration, and its estimate of the gap."""
        problem, R = tools.problem, tools.problem.penalty
        rho, W, u, Y = state.rho, state.X, state.u, state.Y
        s: Any = state.s
        pulled = rho * W - u
        if Y is not None:
            pulled += rho * Y - s
        share = (1 if Y is None else 2) * rho
        weight = share + R.curvature
        tools.loss.counted(1)
        X = prox(pulled / weight, weight)
        gradient = pulled - share * X  # of G, with the squares in R
        A = RELAXED * X + (1.0 - RELAXED) * W + u / rho
        V, state = self._projected(A, state, tools, k)
        W, before = dense(V, tools.arena.like(A)), W
        u, moved = rho * (A - W), norm(W - before)
        if Y is not None:
            B = RELAXED * X + (1.0 - RELAXED) * Y + s / rho
            y = proximal_dual(R, B, 1.0 / rho, state.y)
            s = R.pull(y)
            Y, before = B - s / rho, Y
            moved = math.hypot(moved, norm(Y - before))
        else:
            y = proximal_dual(R, W, 1.0)
        h = problem.spectral.value(V)
        after = replace(state, X=W, V=V, h=h, u=u, Y=Y, s=s, y=y)
        after = _evaluated(problem, after, X, gradient, k, tools.rng(k, 1))
        return _balanced(after, X, moved, k)

    def _projected(
        self, A: Array, state: Memory, tools: Tools, k: int
    ) -> tuple[LowRank, Memory]:
        """Proximal point of h at A, and the state with the rank and basis to start with."""
        form, shape, rho = tools.problem.of_spectral.form, tools.problem.shape, state.rho
        full = gram_is_cheaper(shape, state.rank, state.basis is not None)
        plain = is_numpy(A) and A.dtype == np.float64 and self.rank is None
        found = whole_prox(A, form, rho) if full and plain and form is not None else None
        if found is not None:
            V, basis = found
            tools.spectral.counted(min(shape), 2)
            rank = capped(max(V.rank + SPARE, (3 * state.rank) // 4), shape, None)
            return V, replace(state, rank=rank, basis=basis)
        guess = 0.5 * rho * sqnorm(A) if math.isinf(state.value) else 0.0
        # errors add up in the dual points: shares of a gap that these make large do not shrink
        how: Any = {"weight": rho, "guess": guess, "cap": self.rank, "careful": True}
        prox, state = adaptive_prox(tools, A, state, rng=tools.rng(k), **how)
        return prox.V, state


def _evaluated(
    problem: Problem, state: Memory, X: Array, gradient: Array, k: int, rng: np.random.Generator
) -> Memory:
    """The state with f at W, and the bound from X and the dual point of R.

    The gradient is that of G at X, with the squares in R.
    """
    loss, R, W, u = problem.loss, problem.penalty, state.X, state.u
    assert state.V is not None
    quadratic = problem.of_loss.origin is not None
    slope = loss.grad(W, loss.everything()) if quadratic else None
    value = smooth_value(problem, W, slope) + R.value(W) + state.h
    at, c = smooth_value(problem, X, gradient), gradient
    if not quadratic:
        at += 0.5 * R.curvature * sqnorm(X)
    if state.s is not None:
        at += inner(state.s, X) - R.dual_value(state.y)
        c = gradient + state.s
    along = inner(c, X)
    bound = at - along - rough_conjugate(problem, -c, state.V, min(value, state.value), rng)
    alpha = state.parameters.alpha
    if alpha > 0.0:
        q = c + u
        other = at + inner(u, X) - sqnorm(q) / (2 * alpha) - inner(u, W) + state.h
        bound = max(bound, other)
    dual = FixedDual(R, state.y, X)
    return judged(replace(state, last=value), value, bound, dual, k)


def _balanced(state: Memory, X: Array, moved: float, k: int) -> Memory:
    """Change rho if one of the relative residuals is much larger than the other.

    Wohlberg, "ADMM Penalty Parameter Selection by Residual Balancing", 2017. The changes
    become rare, since a fixed rho converges.
    """
    if k % WAIT or (k > LONG and (k // WAIT).bit_count() > 1):
        return state
    W, Y, rho = state.X, state.Y, state.rho
    apart, size = norm(X - W), max(norm(X), norm(W))
    duals = norm(state.u)
    if Y is not None:
        apart, duals = math.hypot(apart, norm(X - Y)), duals + norm(state.s)
    if not (apart > 0.0 and moved > 0.0 and size > 0.0 and duals > 0.0):
        return state
    factor = math.sqrt((apart / size) / (rho * moved / duals))
    if 1.0 / APART <= factor <= APART:
        return state
    after = rho * min(FASTEST, max(1.0 / FASTEST, factor))
    beta = state.parameters.beta
    return replace(state, rho=min(MOST * beta, max(LEAST * beta, after)))
