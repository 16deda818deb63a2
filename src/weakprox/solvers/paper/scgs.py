"""SCGS: stochastic conditional gradient sliding, and the loop that it shares with STORC.

Lan & Zhou, "Conditional Gradient Sliding for Convex Optimization", SIAM J. Optim. 26(2),
2016: an accelerated gradient method whose projections are solved by Frank-Wolfe steps, up
to a Wolfe gap that is its own certificate. Constants of the corollaries as re-derived in
docs/theory. The second competitor in Garber & Kaplan's experiments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from weakprox.arguments import flag, optional_counts, optional_numbers
from weakprox.linalg.arrays import Array, add_scaled, inner, sqnorm
from weakprox.linalg.lowrank import blend_into
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.solvers._conditional import (
    STRETCH,
    Ground,
    Memory,
    Smoothing,
    first_point,
    ground,
    smooth_gradient,
    with_initial_gap,
)
from weakprox.solvers.tools import Tools


@dataclass(frozen=True)
class Rule:
    """Step gamma_k, weight beta_k of the proximal term, accuracy eta_k of its solution."""

    gamma: Callable[[int], float]
    beta: Callable[[int], float]
    eta: Callable[[int], float]


@dataclass(frozen=True)
class Sliding:
    """The two sequences of the accelerated method, and the last vertex's SVD basis."""

    x: Array
    y: Array
    basis: Array | None = None


Gradient = Callable[[Array, int, np.random.Generator], Array]


def slide(
    state: Sliding,
    steps: Iterable[int],
    rule: Rule,
    gradient: Gradient,
    tools: Tools,
    *,
    epoch: int,
    cap: int | None = None,
) -> Sliding:
    """Take the outer steps k of `steps`; `gradient(z, k, rng)` estimates that of f_mu at z."""
    x, y, basis = state.x, state.y * 1.0, state.basis
    for k in steps:
        rng, gamma = tools.rng(epoch, k), rule.gamma(k)
        z = y * (1 - gamma)
        add_scaled(z, gamma, x)
        G = gradient(z, k, rng)
        x, basis = prox_by_vertices(G, x, rule.beta(k), rule.eta(k), cap, tools, basis, rng)
        y *= 1 - gamma
        add_scaled(y, gamma, x)
        tools.tick(Candidate(y, None, 0.0, epoch, k, scratch=z))
    return Sliding(x, y, basis)


def prox_by_vertices(
    G: Array,
    centre: Array,
    weight: float,
    accuracy: float,
    cap: int | None,
    tools: Tools,
    basis: Array | None,
    rng: np.random.Generator,
) -> tuple[Array, Array | None]:
    """CndG: minimise <G, u> + weight/2 |u - centre|^2 over the set by Frank-Wolfe.

    Ends when the Wolfe gap is at most `accuracy`, or after `cap` vertices. Overwrites G.
    """
    add_scaled(G, -weight, centre)  # so that the gradient at u is G + weight u
    u, spent = centre * 1.0, 0
    H, slack = G * 1.0, 0.1 * accuracy  # what the vertices may miss of the gap
    while cap is None or spent < cap:
        H[:] = G[:]
        add_scaled(H, weight, u)
        vertex = tools.spectral.extreme(H, accuracy=slack, start=basis, rng=rng)
        V, basis, spent = vertex.V, vertex.basis, spent + 1
        gap = inner(H, u) - V.inner(H) + slack
        if gap <= accuracy:
            break
        distance = sqnorm(u) - 2 * V.inner(u) + V.sqnorm
        step = min(1.0, (gap - slack) / (weight * distance)) if distance > 0 else 1.0
        blend_into(u, V, step, scratch=H)
    return u, basis


@dataclass(frozen=True)
class SlidingMemory(Memory):
    """The memory of the baselines, and the sequence x_k of the convex version."""

    x: Array | None = None


@dataclass(frozen=True)
class SCGS(Smoothing):
    r"""Accelerated gradient steps whose projections are solved by Frank-Wolfe.

    Strongly convex version (default): phases :math:`s = 1, 2, \dots` of
    :math:`N = \lceil 4\sqrt{2L/\alpha} \rceil` steps, each phase halving the bound:
    :math:`\mathbb{E} f_\mu(p_s) - f_\mu^* \le C_0 2^{-s}`. Convex version: no phases,
    :math:`6LD^2/(k+2)^2 + 9LD^2/(2(k+1)(k+2))` after k steps.

    Parameters
    ----------
    mu : float, optional
        Smoothing; eps / (2 gamma) if not given, so that it costs half of eps.
    sigma : float, optional
        Gradient noise of one sample; full gradients for finite sums if not given.
    C0 : float, optional
        Bound on the first error (strongly convex version).
    strongly_convex : bool
        Which version.
    max_inner : int, optional
        Vertices per projection at most. Garber & Kaplan cap them at d; the theorem then
        no longer applies, and nothing is promised.
    """

    sigma: float | None = None
    C0: float | None = None
    strongly_convex: bool = True
    max_inner: int | None = None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        optional_numbers(sigma=self.sigma, C0=self.C0)
        flag("strongly_convex", self.strongly_convex)
        optional_counts(max_inner=self.max_inner)
        problem.constants(strongly_convex=self.strongly_convex)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> SlidingMemory:
        """Constants and the first point."""
        sigma = 0.0 if self.sigma is None and problem.loss.is_finite_sum else self.sigma
        p = ground(problem, tools, mu=self.mu, sigma=sigma)
        first = first_point(problem, X)
        if self.strongly_convex:
            p = with_initial_gap(p, problem, first, self.C0, tools)
        return SlidingMemory(first, 0, p, x=first)

    def finished(self, memory: SlidingMemory) -> bool:
        """Whether the theorem's bound has come down to eps, after a phase at least."""
        return memory.epoch > 0 and super().finished(memory)

    def _bound(self, memory: SlidingMemory) -> float:
        """Return the theorem's bound on E f_mu - f_mu*, of a run without a cap."""
        p, k = memory.parameters, memory.done
        if self.strongly_convex:
            return p.C0 * 2.0**-memory.epoch
        size = p.beta * p.diameter**2
        return 6 * size / (k + 2) ** 2 + 4.5 * size / ((k + 1) * (k + 2))

    def step(self, problem: Problem, memory: SlidingMemory, tools: Tools) -> SlidingMemory:
        """One phase, or a stretch of steps of the convex version."""
        p, R = memory.parameters, self.dual(problem, memory)
        s = memory.epoch + 1
        rule, batch, steps = (
            _phase(p, s) if self.strongly_convex else _horizon_free(p, memory.done)
        )

        def gradient(z: Array, k: int, rng: np.random.Generator) -> Array:
            return smooth_gradient(tools, R, z, rng, p.batch(batch(k)))

        x = memory.X if self.strongly_convex else memory.x
        state = Sliding(x, memory.X, memory.basis)
        state = slide(state, steps, rule, gradient, tools, epoch=s, cap=self.max_inner)
        done = memory.done + len(steps)
        return replace(memory, X=state.y, x=state.x, basis=state.basis, epoch=s, done=done)


def _phase(p: Ground, s: int) -> tuple[Rule, Callable[[int], float], range]:
    """Phase s of the strongly convex version: r0^2 = 4 C0 2^-s / alpha."""
    L, a = p.beta, p.alpha
    N = math.ceil(4 * math.sqrt(2 * L / a) - 1e-9)
    error = p.C0 * 2.0**-s
    rule = Rule(
        gamma=lambda k: 2 / (k + 1),
        beta=lambda k: 3 * L / k,
        eta=lambda k: 8 * L * error / (a * N * k),
    )

    def batch(k: int) -> float:
        return a * p.sigma**2 * N * (k + 1) ** 2 / (4 * L**2 * error)

    return rule, batch, range(1, N + 1)


def _horizon_free(p: Ground, done: int) -> tuple[Rule, Callable[[int], float], range]:
    """A stretch of the convex version, whose parameters do not depend on the horizon."""
    L, D = p.beta, p.diameter
    rule = Rule(
        gamma=lambda k: 3 / (k + 2),
        beta=lambda k: 4 * L / (k + 2),
        eta=lambda k: L * D**2 / (k * (k + 1)),
    )

    def batch(k: int) -> float:
        return p.sigma**2 * (k + 2) ** 3 / (L * D) ** 2

    return rule, batch, range(done + 1, done + STRETCH + 1)
