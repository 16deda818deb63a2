"""SCG: stochastic conditional gradient (Frank-Wolfe) with growing batches.

Hazan & Luo, "Variance-Reduced and Projection-Free Stochastic Optimization", ICML 2016,
where it is called SFW; the first competitor in Garber & Kaplan's experiments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from weakprox.arguments import optional_numbers
from weakprox.linalg.arrays import Array
from weakprox.problem import Problem
from weakprox.solvers._conditional import (
    STRETCH,
    VERTEX,
    Ground,
    Memory,
    Smoothing,
    first_point,
    frank_wolfe,
    ground,
    smooth_gradient,
)
from weakprox.solvers.tools import Tools


@dataclass(frozen=True)
class SCG(Smoothing):
    r"""Step :math:`2/(k+1)` towards the vertex that a mini-batch gradient points at.

    Batches of :math:`m_k = \lceil (\sigma (k+1) / (L D))^2 \rceil` samples make
    :math:`\mathbb{E} f_\mu(X_k) - f_\mu^* \le 4 L D^2 / (k+2)`, with L the smoothness of
    f_mu and D the diameter of the set (1 % more, for vertices that are found to a
    hundredth of what the bound allows them to miss). Strong convexity is not needed and
    not used. If G is a finite sum and no sigma is given, full gradients are taken.

    Parameters
    ----------
    mu : float, optional
        Smoothing; eps / (2 gamma) if not given, so that it costs half of eps.
    sigma : float, optional
        Gradient noise of one sample.
    """

    sigma: float | None = None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        optional_numbers(sigma=self.sigma)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Constants and the first point."""
        sigma = 0.0 if self.sigma is None and problem.loss.is_finite_sum else self.sigma
        p = ground(problem, tools, mu=self.mu, sigma=sigma)
        needed = _scale(p) / p.target - 2 if p.target > 0 else math.inf
        if math.isfinite(needed):
            p = replace(p, predicted_svds=max(1, math.ceil(needed)))
        return Memory(first_point(problem, X), 0, p)

    def finished(self, memory: Memory) -> bool:
        """Whether the theorem's bound has come down to eps."""
        return 0 < memory.parameters.predicted_svds <= memory.done

    def _bound(self, memory: Memory) -> float:
        """Return the theorem's bound on E f_mu(X_k) - f_mu*."""
        return _scale(memory.parameters) / (memory.done + 2)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """A stretch of iterations."""
        p, R = memory.parameters, self.dual(problem, memory)
        last, epoch = memory.done + STRETCH, memory.epoch + 1
        if p.predicted_svds:
            last = min(last, p.predicted_svds)
        X, basis = memory.X * 1.0, memory.basis
        for k in range(memory.done + 1, last + 1):
            rng = tools.rng(k)
            size = p.batch((p.sigma * (k + 1) / (p.beta * p.diameter)) ** 2)
            G = smooth_gradient(tools, R, X, rng, size)
            gamma = 2 / (k + 1)
            accuracy = VERTEX * gamma * p.beta * p.diameter**2
            basis = frank_wolfe(
                tools, X, G, gamma, accuracy=accuracy, start=basis, rng=rng, at=(epoch, k)
            )
        return replace(memory, X=X, epoch=epoch, done=last, basis=basis)


def _scale(p: Ground) -> float:
    """The bound times k + 2."""
    return 4 * (1 + VERTEX) * p.beta * p.diameter**2
