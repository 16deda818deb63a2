"""HCGM and SHCGM: homotopy conditional gradient methods, with decreasing smoothing.

Yurtsever, Fercoq, Locatello & Cevher, "A Conditional Gradient Framework for Composite
Convex Minimization", ICML 2018 (HCGM, full gradients), and Locatello, Yurtsever, Fercoq &
Cevher, "Stochastic Frank-Wolfe for Composite Convex Minimization", NeurIPS 2019 (SHCGM,
one sample per step and a running mean of gradients). Their bounds are carried along as
the recursions they are proved by, which is tighter than the closed forms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from weakprox.arguments import integer, optional_numbers, positive
from weakprox.linalg.arrays import Array, add_scaled, zeros
from weakprox.penalties import Smoothed
from weakprox.problem import Problem
from weakprox.solvers._conditional import (
    STRETCH,
    VERTEX,
    Baseline,
    Memory,
    first_point,
    frank_wolfe,
    ground,
    smooth_gradient,
)
from weakprox.solvers.tools import Tools
from weakprox.theory.gradients import mean_gradient


@dataclass(frozen=True)
class HomotopyMemory(Memory):
    """The memory of the baselines, the bound's recursions, and the mean of gradients."""

    bound: float = math.inf  # on E f_mu(X_k) - f*, with the mu of the step that made X_k
    noise: float = 0.0  # on the root mean square error of the running mean
    mean: Array | None = None


@dataclass(frozen=True)
class Homotopy(Baseline):
    """Common part; the smoothing at step k is mu = theta beta0 / sqrt(k + SHIFT)."""

    beta0: float | None = None

    STEP: ClassVar[int]  # steps are STEP / (k - 1 + STEP)
    FACTOR: ClassVar[float]  # of D^2 / beta0 in the bound
    SHIFT: ClassVar[int]

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if self.beta0 is not None:
            positive("beta0", self.beta0)

    def finished(self, memory: HomotopyMemory) -> bool:
        """Whether the bound has come down to eps."""
        return self.promised(memory) <= memory.parameters.eps

    def promised(self, memory: HomotopyMemory) -> float:
        """Return the bound on E f(X_k) - f*: that of the recursion, plus the bias."""
        return memory.bound + memory.parameters.bias

    def _smoothed(self, problem: Problem, k: int) -> Smoothed:
        """Return the penalty as step k smooths it, with smoothness sqrt(k + SHIFT) / beta0.

        The default beta0 balances the two parts of the bound: FACTOR D^2 / beta0, for the
        curvature of the smoothed penalty, and gamma theta beta0, for its bias.
        """
        c = problem.penalty.smoothability(problem.shape)
        beta0, width = self.beta0, c.gamma * c.theta
        if beta0 is None:
            D = float(problem.of_spectral.diameter or math.inf)
            beta0 = D * math.sqrt(self.FACTOR / width) if width > 0 else 1.0
        mu = c.theta / (math.sqrt(k + self.SHIFT) / beta0) if c.theta > 0 else 0.0
        return Smoothed(problem.penalty, mu, c)

    def step(self, problem: Problem, memory: HomotopyMemory, tools: Tools) -> HomotopyMemory:
        """A stretch of iterations."""
        p, bound, basis = memory.parameters, memory.bound, memory.basis
        X, last, epoch = memory.X * 1.0, memory.done + STRETCH, memory.epoch + 1
        if memory.mean is not None:
            memory = replace(memory, mean=memory.mean * 1.0)
        for k in range(memory.done + 1, last + 1):
            rng, gamma = tools.rng(k), self.STEP / (k - 1 + self.STEP)
            R = self._smoothed(problem, k)
            G, memory = self._gradient(X, R, memory, k, tools, rng)
            away = 0.5 * (gamma * p.diameter) ** 2 * (p.beta_G + R.smoothness)
            drift = gamma * p.diameter * memory.noise
            bound = _less(gamma, bound) + drift + (1 + VERTEX) * away
            miss = VERTEX * away / gamma
            basis = frank_wolfe(
                tools, X, G, gamma, accuracy=miss, start=basis, rng=rng, at=(epoch, k)
            )
        p = replace(p, mu=R.mu, bias=R.bias)
        memory = replace(memory, X=X, epoch=epoch, done=last, basis=basis)
        return replace(memory, bound=bound, parameters=p)

    def _gradient(
        self, X: Array, R: Smoothed, memory: HomotopyMemory, k: int, tools: Tools, rng: Any
    ) -> tuple[Array, HomotopyMemory]:
        """Return the full gradient of f_mu."""
        return smooth_gradient(tools, R, X, rng, None), memory


@dataclass(frozen=True)
class HCGM(Homotopy):
    r"""Frank-Wolfe on a penalty whose smoothing is :math:`\beta_0/\sqrt{k+1}` at step k.

    Full gradients, steps 2/(k+1), error :math:`O(1/\sqrt k)` on the problem itself: no
    accuracy has to be named in advance. Strong convexity is not needed and not used.

    Parameters
    ----------
    beta0 : float, optional
        First smoothing; the value that makes the bound smallest if not given.
    """

    STEP, FACTOR, SHIFT = 2, 4 / 3, 1

    def check(self, problem: Problem) -> None:
        super().check(problem)
        problem.check_finite_sum("HCGM", "SHCGM")

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> HomotopyMemory:
        """Constants and the first point."""
        p = ground(problem, tools, mu=self._smoothed(problem, 1).mu)
        return HomotopyMemory(first_point(problem, X), 0, p)


@dataclass(frozen=True)
class SHCGM(Homotopy):
    r"""HCGM with one sample per step.

    Step 9/(k+8), smoothing :math:`\beta_0/\sqrt{k+8}`, and a running mean of stochastic
    gradients with weight :math:`4/(k+7)^{2/3}`: error :math:`O(k^{-1/3})`.

    Parameters
    ----------
    beta0 : float, optional
        First smoothing; the value that makes the bound smallest if not given.
    sigma : float, optional
        Gradient noise of one sample; only the bound reads it.
    batch : int
        Samples per step.
    """

    sigma: float | None = None
    batch: int = 1

    STEP, FACTOR, SHIFT = 9, 81 / 17, 8

    def check(self, problem: Problem) -> None:
        super().check(problem)
        optional_numbers(sigma=self.sigma)
        integer("batch", self.batch, 1)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> HomotopyMemory:
        """Constants and the first point."""
        mu = self._smoothed(problem, 1).mu
        p = ground(problem, tools, mu=mu, sigma=self.sigma)
        mean = zeros(problem.shape, problem.loss.reference)
        return HomotopyMemory(first_point(problem, X), 0, p, mean=mean)

    def _gradient(
        self, X: Array, R: Smoothed, memory: HomotopyMemory, k: int, tools: Tools, rng: Any
    ) -> tuple[Array, HomotopyMemory]:
        """Return the gradient with a running mean for G, whose error bound is updated."""
        p, rho, mean = memory.parameters, 4 / (k + 7) ** (2 / 3), memory.mean
        assert mean is not None
        mean *= 1 - rho
        add_scaled(mean, rho, mean_gradient(tools.loss, X, rng, int(self.batch)))
        drift = p.beta_G * p.diameter * 9 / (k + 7) if k > 1 else 0.0
        fresh = rho * p.sigma / math.sqrt(self.batch)
        noise = math.hypot(_less(rho, memory.noise + drift), fresh)
        return mean + R.grad(X), replace(memory, noise=noise)


def _less(share: float, value: float) -> float:
    """Return (1 - share) value, and 0 for share 1 even if the value is infinite."""
    return (1.0 - share) * value if share < 1.0 else 0.0
