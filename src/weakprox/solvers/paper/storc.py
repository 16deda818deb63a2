"""STORC and SVRF: variance-reduced sliding and variance-reduced Frank-Wolfe.

Hazan & Luo, "Variance-Reduced and Projection-Free Stochastic Optimization", ICML 2016.
Both need G as a finite sum; STORC is the finite-sum rival in Garber & Kaplan's Table 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from weakprox.arguments import one_of, optional_counts, optional_numbers
from weakprox.linalg.arrays import Array, add_scaled, norm
from weakprox.penalties import Smoothed
from weakprox.problem import Problem
from weakprox.solvers._conditional import (
    VERTEX,
    Memory,
    Smoothing,
    first_point,
    frank_wolfe,
    ground,
    smooth_gradient,
)
from weakprox.solvers.paper.scgs import Rule, Sliding, slide
from weakprox.solvers.tools import Tools
from weakprox.theory.gradients import Snapshot

Case = Literal["stationary", "lipschitz", "strongly_convex"]


@dataclass(frozen=True)
class VarianceReduced(Smoothing):
    """Common part of STORC and SVRF: epochs t that halve the bound L D^2 / 2^(t+1)."""

    def check(self, problem: Problem) -> None:
        super().check(problem)
        problem.check_finite_sum(type(self).__name__, "SCG or SCGS")

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Constants, and the vertex w_0 that the first gradient points at."""
        p = ground(problem, tools, mu=self.mu)
        memory, rng = Memory(first_point(problem, X), 0, p), tools.rng(0, 2)
        G = smooth_gradient(tools, self.dual(problem, memory), memory.X, rng, None)
        vertex = tools.spectral.extreme(G, rng=rng)
        return replace(memory, X=vertex.V.dense(), basis=vertex.basis)

    def _bound(self, memory: Memory) -> float:
        """Return L D^2 / 2^(t+1), the bound on E f_mu(w_t) - f_mu* of a run without a cap."""
        p = memory.parameters
        return (1 + VERTEX) * p.beta_term * p.diameter**2 * 0.5 ** (memory.epoch + 1)


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
        "strongly_convex" where the problem is, otherwise "lipschitz".
    lipschitz : float, optional
        Bound on the gradient of f_mu over the set; worked out if not given.
    max_inner : int, optional
        Vertices per projection at most; the theorem then no longer applies.
    """

    case: Case | None = None
    lipschitz: float | None = None
    max_inner: int | None = None

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
        rule, batch, steps = self._epoch(problem, memory, t, R, tools)

        def gradient(z: Array, k: int, rng: np.random.Generator) -> Array:
            G = snapshot.at(tools.loss, z, rng, batch(k), first=k == 1)
            add_scaled(G, 1.0, R.grad(z))
            return G

        state = Sliding(memory.X, memory.X, memory.basis)
        state = slide(state, steps, rule, gradient, tools, epoch=t, cap=self.max_inner)
        done = memory.done + len(steps)
        return replace(memory, X=state.y, basis=state.basis, epoch=t, done=done)

    def _epoch(
        self, problem: Problem, memory: Memory, t: int, R: Smoothed, tools: Tools
    ) -> tuple[Rule, Any, range]:
        """Rule, batches and steps of epoch t."""
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
        rule = Rule(
            gamma=lambda k: 2 / (k + 1),
            beta=lambda k: 3 * L / k,
            eta=lambda k: 2 * L * size / (N * k),
        )
        return rule, lambda k: _ceil(each + growing * (k + 1)), range(1, N + 1)


@dataclass(frozen=True)
class SVRF(VarianceReduced):
    r"""Frank-Wolfe with variance-reduced gradients.

    Epoch t takes :math:`N_t = 2^{t+3} - 2` steps of length 2/(k+1) with 96 (k+1) samples
    each and ends with :math:`\mathbb{E} f_\mu(w_t) - f_\mu^* \le L D^2 / 2^{t+1}`.

    Parameters
    ----------
    mu : float, optional
        Smoothing; eps / (2 gamma) if not given, so that it costs half of eps.
    """

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """One epoch: full gradient, then N_t Frank-Wolfe steps."""
        R, t = self.dual(problem, memory), memory.epoch + 1
        snapshot = Snapshot.take(tools.loss, memory.X, tools.rng(t), None)
        X, basis, N = memory.X * 1.0, memory.basis, 2 ** (t + 3) - 2
        miss = VERTEX * memory.parameters.beta_term * memory.parameters.diameter**2
        for k in range(1, N + 1):
            rng = tools.rng(t, k)
            G = snapshot.at(tools.loss, X, rng, 96 * (k + 1), first=k == 1)
            add_scaled(G, 1.0, R.grad(X))
            gamma = 2 / (k + 1)
            basis = frank_wolfe(
                tools, X, G, gamma, accuracy=gamma * miss, start=basis, rng=rng, at=(t, k)
            )
        return replace(memory, X=X, basis=basis, epoch=t, done=memory.done + N)


def _ceil(x: float) -> int:
    return math.ceil(x - 1e-9)
