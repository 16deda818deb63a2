"""HCGM and SHCGM: homotopy conditional gradient methods, whose smoothing shrinks as they go.

Yurtsever, Fercoq, Locatello & Cevher, "A Conditional Gradient Framework for Composite
Convex Minimization", ICML 2018 (HCGM, full gradients), and Locatello, Yurtsever, Fercoq &
Cevher, "Stochastic Frank-Wolfe for Composite Convex Minimization", NeurIPS 2019 (SHCGM,
one sample per step and a running mean of gradients). Their bounds are carried along as
the recursions they are proved by, which is tighter than the closed forms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, zeros
from weakprox.linalg.kernels import add_scaled, blend_into
from weakprox.penalties import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Smoothability
from weakprox.solvers._conditional import (
    STRETCH,
    VERTEX,
    Baseline,
    Memory,
    checked_count,
    first_point,
    ground,
    need_finite_sum,
)
from weakprox.solvers.tools import Tools
from weakprox.theory._theorems import check_overrides
from weakprox.theory.gradients import mean_gradient


@dataclass(frozen=True)
class HomotopyMemory(Memory):
    """Also the recursions of the bound, and the running mean of gradients."""

    bound: float = math.inf  # on E f_mu(X_k) - f*, with the mu of the step that made X_k
    noise: float = 0.0  # on the root mean square error of the running mean
    mean: Array | None = None


@dataclass(frozen=True)
class Homotopy(Baseline):
    """What both share; smoothing is given by beta0, mu = theta beta0 / sqrt(k + ...)."""

    beta0: float | None = None

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        super().check(problem)
        check_overrides(beta0=self.beta0)
        if self.beta0 is not None and not self.beta0 > 0:
            raise InputError("beta0", repr(self.beta0), "a number > 0")

    def finished(self, memory: HomotopyMemory) -> bool:
        """Whether the bound has come down to eps."""
        return self.promised(memory) <= memory.parameters.eps

    def promised(self, memory: HomotopyMemory) -> float:
        """Bound on E f(X_k) - f*: the recursion's, and what smoothing still hides."""
        return memory.bound + memory.parameters.bias

    def _steepness(self, problem: Problem, k: int, factor: float, shift: int) -> float:
        """Smoothness t = sqrt(k + shift) / beta0 of the smoothed penalty at step k.

        Left to itself beta0 balances the two parts of the bound: factor D^2 / beta0, for
        steps on a steep function, and gamma theta beta0, for smoothing.
        """
        c = _smoothability(problem)
        width = c.gamma * c.theta
        beta0 = self.beta0
        if beta0 is None:
            D = float(problem.of_spectral.diameter or math.inf)
            beta0 = D * math.sqrt(factor / width) if width > 0 else 1.0
        return math.sqrt(k + shift) / beta0

    def _smoothed(self, problem: Problem, steepness: float) -> Smoothed:
        c = _smoothability(problem)
        mu = c.theta / steepness if c.theta > 0 else 0.0
        return Smoothed(problem.penalty, mu, c)


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

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        super().check(problem)
        need_finite_sum("HCGM", problem, "SHCGM")

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> HomotopyMemory:
        """Constants and the first point."""
        p = ground(problem, tools, mu=self._smoothed(problem, self._t(problem, 1)).mu)
        return HomotopyMemory(first_point(problem, X), 0, p)

    def _t(self, problem: Problem, k: int) -> float:
        return self._steepness(problem, k, 4 / 3, 1)

    def step(self, problem: Problem, memory: HomotopyMemory, tools: Tools) -> HomotopyMemory:
        """A stretch of iterations."""
        p, bound, basis = memory.parameters, memory.bound, memory.basis
        X, last = memory.X * 1.0, memory.done + STRETCH
        R = self._smoothed(problem, self._t(problem, memory.done + 1))
        for k in range(memory.done + 1, last + 1):
            rng, gamma = tools.rng(k), 2 / (k + 1)
            R = self._smoothed(problem, self._t(problem, k))
            G = mean_gradient(tools.loss, X, rng, None)
            add_scaled(G, 1.0, R.grad(X))
            away = 0.5 * (gamma * p.diameter) ** 2 * (p.beta_G + R.smoothness)
            miss = VERTEX * away / gamma
            vertex = tools.spectral.extreme(G, accuracy=miss, start=basis, rng=rng)
            basis = vertex.basis
            blend_into(X, vertex.V, gamma, scratch=G)
            bound = _less(gamma, bound) + (1 + VERTEX) * away
            tools.tick(Candidate(X, None, 0.0, memory.epoch + 1, k, scratch=G))
        p = replace(p, mu=R.mu, bias=R.bias)
        epoch = memory.epoch + 1
        return replace(
            memory, X=X, epoch=epoch, done=last, basis=basis, bound=bound, parameters=p
        )


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

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        super().check(problem)
        check_overrides(sigma=self.sigma)
        checked_count("batch", self.batch)
        if self.batch is None:
            raise InputError("batch", None, "an integer >= 1")

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> HomotopyMemory:
        """Constants and the first point."""
        mu = self._smoothed(problem, self._t(problem, 1)).mu
        p = ground(problem, tools, mu=mu, sigma=self.sigma)
        mean = zeros(problem.shape, problem.loss.reference)
        return HomotopyMemory(first_point(problem, X), 0, p, mean=mean)

    def _t(self, problem: Problem, k: int) -> float:
        return self._steepness(problem, k, 81 / 17, 8)

    def step(self, problem: Problem, memory: HomotopyMemory, tools: Tools) -> HomotopyMemory:
        """A stretch of iterations."""
        p, bound, noise, basis = memory.parameters, memory.bound, memory.noise, memory.basis
        assert memory.mean is not None
        X, mean, last = memory.X * 1.0, memory.mean * 1.0, memory.done + STRETCH
        R = self._smoothed(problem, self._t(problem, memory.done + 1))
        for k in range(memory.done + 1, last + 1):
            rng, gamma, rho = tools.rng(k), 9 / (k + 8), 4 / (k + 7) ** (2 / 3)
            R = self._smoothed(problem, self._t(problem, k))
            mean *= 1 - rho
            add_scaled(mean, rho, mean_gradient(tools.loss, X, rng, int(self.batch)))
            G = mean + R.grad(X)
            away = 0.5 * (gamma * p.diameter) ** 2 * (p.beta_G + R.smoothness)
            miss = VERTEX * away / gamma
            vertex = tools.spectral.extreme(G, accuracy=miss, start=basis, rng=rng)
            basis = vertex.basis
            blend_into(X, vertex.V, gamma, scratch=G)
            drift = p.beta_G * p.diameter * 9 / (k + 7) if k > 1 else 0.0
            fresh = rho * p.sigma / math.sqrt(self.batch)
            noise = math.hypot(_less(rho, noise + drift), fresh)
            bound = _less(gamma, bound) + gamma * p.diameter * noise + (1 + VERTEX) * away
            tools.tick(Candidate(X, None, 0.0, memory.epoch + 1, k, scratch=G))
        p = replace(p, mu=R.mu, bias=R.bias)
        memory = replace(memory, X=X, epoch=memory.epoch + 1, done=last, basis=basis)
        return replace(memory, bound=bound, noise=noise, mean=mean, parameters=p)


def _smoothability(problem: Problem) -> Smoothability:
    return problem.penalty.smoothability(problem.shape)


def _less(share: float, value: float) -> float:
    """(1 - share) value, zero for share 1 even where the value is infinite."""
    return (1.0 - share) * value if share < 1.0 else 0.0
