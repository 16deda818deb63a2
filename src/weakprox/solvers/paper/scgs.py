"""SCGS: stochastic conditional gradient sliding.

Lan & Zhou, SIAM J. Optim. 26(2), 2016; constants of the corollaries as re-derived in
docs/theory. The second competitor in Garber & Kaplan's experiments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weakprox.arguments import flag
from weakprox.linalg.arrays import Array
from weakprox.penalties import Smoothed
from weakprox.problem import Problem
from weakprox.solvers._conditional import (
    STRETCH,
    Ground,
    Memory,
    Smoothing,
    checked_count,
    first_point,
    ground,
    smooth_gradient,
)
from weakprox.solvers.paper._sliding import Rule, Sliding, slide
from weakprox.solvers.tools import Tools
from weakprox.theory._theorems import check_overrides, initial_gap


@dataclass(frozen=True)
class SlidingMemory(Memory):
    """Also the sequence x_k, which the convex version carries on."""

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
        """Raise on settings that cannot work, before any work."""
        super().check(problem)
        check_overrides(sigma=self.sigma, C0=self.C0)
        flag("strongly_convex", self.strongly_convex)
        checked_count("max_inner", self.max_inner)
        problem.constants(strongly_convex=self.strongly_convex)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> SlidingMemory:
        """Constants and the first point."""
        sigma = 0.0 if self.sigma is None and problem.loss.is_finite_sum else self.sigma
        p = ground(problem, tools, mu=self.mu, sigma=sigma)
        first = first_point(problem, X)
        if self.strongly_convex:
            C0 = self.C0
            if C0 is None:
                R, rng = Smoothed.of(problem.penalty, p.mu, problem.shape), tools.rng(0, 3)
                C0 = initial_gap(problem, R, tools.loss, first, p.alpha, rng)
            p = replace(p, C0=max(float(C0), np.finfo(float).tiny))
        return SlidingMemory(first, 0, p, x=first)

    def finished(self, memory: SlidingMemory) -> bool:
        """Whether the theorem's bound has come down to eps (of a run without a cap)."""
        p = memory.parameters
        return memory.epoch > 0 and self._bound(memory) <= max(p.target, 0.0)

    def promised(self, memory: SlidingMemory) -> float:
        """The theorem's bound on E f - f*; nothing is promised under a cap."""
        if self.max_inner is not None:
            return math.inf
        return self._bound(memory) + memory.parameters.bias

    def _bound(self, memory: SlidingMemory) -> float:
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


def _phase(p: Ground, s: int) -> tuple[Rule, Any, range]:
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


def _horizon_free(p: Ground, done: int) -> tuple[Rule, Any, range]:
    """A stretch of the convex version, whose parameters do not know the horizon."""
    L, D = p.beta, p.diameter
    rule = Rule(
        gamma=lambda k: 3 / (k + 2),
        beta=lambda k: 4 * L / (k + 2),
        eta=lambda k: L * D**2 / (k * (k + 1)),
    )

    def batch(k: int) -> float:
        return p.sigma**2 * (k + 2) ** 3 / (L * D) ** 2

    return rule, batch, range(done + 1, done + STRETCH + 1)
