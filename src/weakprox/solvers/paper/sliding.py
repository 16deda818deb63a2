"""Conditional gradient sliding: accelerated steps with projections by Frank-Wolfe.

SCGS: Lan & Zhou, "Conditional Gradient Sliding for Convex Optimization", SIAM J. Optim.
26(2), 2016. Projections are solved up to a Wolfe gap that is its own certificate. The constants
are those of the corollaries, re-derived in docs/theory. It is the second competitor in Garber &
Kaplan's experiments. STORC: Hazan & Luo, "Variance-Reduced and Projection-Free Stochastic
Optimization", ICML 2016; G must be a finite sum. It is the finite-sum competitor in their Table
2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from weakprox.arguments import flag, one_of, optional_counts, optional_numbers
from weakprox.linalg.arrays import Array, add_scaled, inner, norm, sqnorm
from weakprox.passes import blend_into
from weakprox.penalties.base import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.solvers.base import Tools, first_point
from weakprox.solvers.paper.conditional import (
    STRETCH,
    Ground,
    Memory,
    Smoothing,
    VarianceReduced,
    ground,
    smooth_gradient,
    with_initial_gap,
)
from weakprox.theory.gradients import Snapshot

Case = Literal["stationary", "lipschitz", "strongly_convex"]
Gradient = Callable[[Array, int, float, np.random.Generator], Array]
# of step k: length, weight of the proximal term, accuracy of its solution, samples
Rule = Callable[[int], tuple[float, float, float, float]]


def slide(
    memory: Memory,
    x: Array,
    steps: range,
    rule: Rule,
    gradient: Gradient,
    tools: Tools,
    cap: int | None,
) -> Memory:
    """Take the outer steps k of `steps` from (x, memory.X), the method's two sequences.

    `gradient(z, k, size, rng)` estimates that of f_mu at z from `size` samples.
    """
    y, basis, epoch = memory.X * 1.0, memory.basis, memory.epoch + 1
    for k in steps:
        rng, (gamma, weight, accuracy, size) = tools.rng(epoch, k), rule(k)
        z = y * (1 - gamma)
        add_scaled(z, gamma, x)
        G = gradient(z, k, size, rng)
        x, basis = prox_by_vertices(G, x, weight, accuracy, cap, tools, basis, rng)
        y *= 1 - gamma
        add_scaled(y, gamma, x)
        tools.tick(Candidate(y, None, 0.0, epoch, k, scratch=z))
    done = memory.done + len(steps)
    return replace(memory, X=y, other=x, basis=basis, epoch=epoch, done=done)


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
    H, slack = G * 1.0, 0.1 * accuracy  # allowed error of the vertices in the gap
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
        Whether to use the strongly convex version.
    max_inner : int, optional
        Largest number of vertices per projection. Garber & Kaplan cap them at d; the theorem
        then no longer applies, and no bound is promised.
    """

    units: ClassVar[tuple[str, ...]] = ("mu", "sigma", "C0")

    sigma: float | None = None
    C0: float | None = None
    strongly_convex: bool = True
    max_inner: int | None = None

    @property
    def capped(self) -> bool:
        return self.max_inner is not None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        optional_numbers(sigma=self.sigma, C0=self.C0)
        flag("strongly_convex", self.strongly_convex)
        optional_counts(max_inner=self.max_inner)
        problem.constants(strongly_convex=self.strongly_convex)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        sigma = 0.0 if self.sigma is None and problem.loss.is_finite_sum else self.sigma
        p = ground(problem, tools, mu=self.mu, sigma=sigma)
        first = first_point(problem, X)
        if self.strongly_convex:
            p = with_initial_gap(p, problem, first, self.C0, tools)
        return Memory(first, 0, p, other=first)

    def finished(self, memory: Memory) -> bool:
        """Return True if the theorem's bound is at most eps, after at least one phase."""
        return memory.epoch > 0 and super().finished(memory)

    def _bound(self, memory: Memory) -> float:
        p, k = memory.parameters, memory.done
        if self.strongly_convex:
            return p.C0 * 2.0**-memory.epoch
        size = p.beta * p.diameter**2
        return 6 * size / (k + 2) ** 2 + 4.5 * size / ((k + 1) * (k + 2))

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """One phase, or a stretch of steps of the convex version."""
        p, R, x = memory.parameters, self.dual(problem, memory), memory.other
        rule, steps = _horizon_free(p, memory.done)
        if self.strongly_convex:
            x, (rule, steps) = memory.X, _phase(p, memory.epoch + 1)

        def gradient(z: Array, k: int, size: float, rng: np.random.Generator) -> Array:
            return smooth_gradient(tools, R, z, rng, p.batch(size))

        return slide(memory, x, steps, rule, gradient, tools, self.max_inner)


def _phase(p: Ground, s: int) -> tuple[Rule, range]:
    """Phase s of the strongly convex version: r0^2 = 4 C0 2^-s / alpha."""
    L, a = p.beta, p.alpha
    N = math.ceil(4 * math.sqrt(2 * L / a) - 1e-9)
    error = p.C0 * 2.0**-s

    def rule(k: int) -> tuple[float, float, float, float]:
        size = a * p.sigma**2 * N * (k + 1) ** 2 / (4 * L**2 * error)
        return 2 / (k + 1), 3 * L / k, 8 * L * error / (a * N * k), size

    return rule, range(1, N + 1)


def _horizon_free(p: Ground, done: int) -> tuple[Rule, range]:
    """A stretch of the convex version, whose parameters do not depend on the horizon."""
    L, D = p.beta, p.diameter

    def rule(k: int) -> tuple[float, float, float, float]:
        size = p.sigma**2 * (k + 2) ** 3 / (L * D) ** 2
        return 3 / (k + 2), 4 * L / (k + 2), L * D**2 / (k * (k + 1)), size

    return rule, range(done + 1, done + STRETCH + 1)


@dataclass(frozen=True)
class STORC(VarianceReduced):
    r"""Conditional gradient sliding with variance-reduced gradients.

    Epoch t ends with :math:`\mathbb{E} f_\mu(w_t) - f_\mu^* \le L D^2 / 2^{t+1}` in each
    of three cases, which differ in their lengths :math:`N_t` and batches:

    - "stationary": the gradient vanishes at the optimum; :math:`N_t = 2^{t/2+2}`,
      900 N_t samples per step;
    - "lipschitz": f is G-Lipschitz; the same lengths, 700 N_t + 24 N_t G (k+1)/(L D);
    - "strongly_convex": :math:`N_t = \sqrt{32 L/\alpha}`, 5600 N_t L/alpha.

    Batches larger than the sum are replaced by full gradients.

    Parameters
    ----------
    mu : float, optional
        Smoothing; eps / (2 gamma) if not given, so that it costs half of eps.
    case : str, optional
        One of the cases above. By default "strongly_convex" for a strongly convex problem,
        otherwise "lipschitz".
    lipschitz : float, optional
        Bound on the gradient of f_mu over the set; computed if not given.
    max_inner : int, optional
        Largest number of vertices per projection; the theorem then no longer applies.
    """

    units: ClassVar[tuple[str, ...]] = ("mu", "lipschitz")

    case: Case | None = None
    lipschitz: float | None = None
    max_inner: int | None = None

    @property
    def capped(self) -> bool:
        return self.max_inner is not None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        optional_numbers(lipschitz=self.lipschitz)
        if self.case is not None:
            one_of("case", self.case, get_args(Case))
        optional_counts(max_inner=self.max_inner)
        problem.constants(strongly_convex=self.case == "strongly_convex")

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """One epoch: full gradient, then N_t sliding steps."""
        R, t = self.dual(problem, memory), memory.epoch + 1
        snapshot = Snapshot.take(tools.loss, memory.X, tools.rng(t), None)
        rule, steps = self._epoch(memory, t, R, tools)

        def gradient(z: Array, k: int, size: float, rng: np.random.Generator) -> Array:
            G = snapshot.at(tools.loss, z, rng, _ceil(size), first=k == 1)
            add_scaled(G, 1.0, R.grad(z))
            return G

        found = slide(memory, memory.X, steps, rule, gradient, tools, self.max_inner)
        return replace(found, other=None)  # the next epoch starts from y

    def _epoch(self, memory: Memory, t: int, R: Smoothed, tools: Tools) -> tuple[Rule, range]:
        """Rule and steps of epoch t."""
        p = memory.parameters
        L, D = p.beta_term, p.diameter
        case = self.case or ("strongly_convex" if p.alpha > 0 else "lipschitz")
        if case == "strongly_convex":
            condition = L / p.alpha
            N, size = _ceil(math.sqrt(32 * condition)), condition * D**2 / 2 ** (t - 1)
            each, growing = 5600.0 * N * condition, 0.0
        else:
            N, size = _ceil(2 ** (t / 2 + 2)), D**2
            each, growing = 900.0 * N, 0.0
        if case == "lipschitz":
            G = self.lipschitz
            if G is None:
                at_X = smooth_gradient(tools, R, memory.X, tools.rng(t, 0), None)
                G = norm(at_X) + p.beta * p.diameter  # hence on the whole set
            each, growing = 700.0 * N, 24.0 * N * G / (L * D)

        def rule(k: int) -> tuple[float, float, float, float]:
            return 2 / (k + 1), 3 * L / k, 2 * L * size / (N * k), each + growing * (k + 1)

        return rule, range(1, N + 1)


def _ceil(x: float) -> int:
    return math.ceil(x - 1e-9)
