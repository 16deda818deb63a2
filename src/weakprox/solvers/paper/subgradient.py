"""Projected subgradient method: no smoothing, exact projections, slow and simple.

Lacoste-Julien, Schmidt & Bach, "A simpler approach to obtaining an O(1/t) convergence
rate for the projected stochastic subgradient method", 2012.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from weakprox.arguments import optional_counts
from weakprox.linalg.arrays import Array, add_scaled, eps_of, sqnorm
from weakprox.penalties import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.solvers._conditional import (
    STRETCH,
    Baseline,
    Memory,
    first_point,
    ground,
    smooth_gradient,
)
from weakprox.solvers.tools import Tools


@dataclass(frozen=True)
class SubgradientMemory(Memory):
    """The memory of the baselines (X is the weighted mean), the last point and a sum."""

    last: Array | None = None
    squares: float = 0.0


@dataclass(frozen=True)
class ProjectedSubgradient(Baseline):
    r"""Steps :math:`2/(\alpha(k+1))` along subgradients, each projected exactly.

    The mean of the points with weights k satisfies :math:`\mathbb{E} f - f^* \le
    \frac{2}{\alpha K(K+1)} \sum_k \frac{k}{k+1} \mathbb{E}\|g_k\|_F^2`, which is evaluated
    with the subgradients met on the way (an estimate if G is sampled).

    Parameters
    ----------
    batch : int, optional
        Samples per step; all terms of a finite sum if not given, else 1.
    """

    batch: int | None = None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        optional_counts(batch=self.batch)
        problem.constants()

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> SubgradientMemory:
        """Constants and the first point."""
        # Smoothing so slight that its gradient is a subgradient to beyond rounding.
        c = problem.penalty.smoothability(problem.shape)
        finest = eps_of(problem.loss.reference) ** 2 * tools.eps
        p = ground(problem, tools, mu=finest / max(c.gamma, 1.0) if c.theta > 0 else 0.0)
        first = first_point(problem, X)
        return SubgradientMemory(first, 0, p, last=first)

    def finished(self, memory: SubgradientMemory) -> bool:
        """Whether the bound has come down to eps."""
        return self.promised(memory) <= memory.parameters.eps

    def promised(self, memory: SubgradientMemory) -> float:
        """Return the bound on E f - f* at the weighted mean."""
        p, k = memory.parameters, memory.done
        if k == 0:
            return math.inf
        return 2 * memory.squares / (p.alpha * k * (k + 1)) + p.bias

    def dual(self, problem: Problem, memory: SubgradientMemory) -> Smoothed:
        """Return the penalty smoothed by half of eps: subgradients give poor bounds."""
        c = problem.penalty.smoothability(problem.shape)
        mu = memory.parameters.eps / (2 * c.gamma) if c.theta > 0 and c.gamma > 0 else 0.0
        return Smoothed(problem.penalty, mu, c)

    def step(
        self, problem: Problem, memory: SubgradientMemory, tools: Tools
    ) -> SubgradientMemory:
        """A stretch of iterations."""
        p, squares = memory.parameters, memory.squares
        R = Smoothed.of(problem.penalty, p.mu, problem.shape)
        assert memory.last is not None
        mean, X, basis = memory.X * 1.0, memory.last * 1.0, memory.basis
        last, epoch = memory.done + STRETCH, memory.epoch + 1
        size = self.batch if self.batch or problem.loss.is_finite_sum else 1
        for k in range(memory.done + 1, last + 1):
            rng, weight = tools.rng(k), 0.5 * p.alpha * (k + 1)
            mean *= 1 - 2 / (k + 1)
            add_scaled(mean, 2 / (k + 1), X)
            G = smooth_gradient(tools, R, X, rng, size)
            squares += k / (k + 1) * sqnorm(G)
            add_scaled(X, -1.0 / weight, G)
            prox = tools.spectral.weak_prox(X, weight=weight, rank=min(problem.shape), rng=rng)
            X = prox.V.dense()
            tools.tick(Candidate(mean, None, 0.0, epoch, k, scratch=G))
        memory = replace(memory, X=mean, last=X, squares=squares, basis=basis)
        return replace(memory, epoch=epoch, done=last)
