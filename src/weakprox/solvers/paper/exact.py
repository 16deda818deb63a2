"""Baselines with exact proximal points, which need all singular values of a matrix.

FISTA: Nesterov's method in Beck & Teboulle's form, on the smoothed problem. Full
decompositions are what Garber & Kaplan's weak proximal oracle avoids.
ProjectedSubgradient: no smoothing, slow and simple. Lacoste-Julien, Schmidt & Bach, "A simpler
approach to obtaining an O(1/t) convergence rate for the projected stochastic subgradient
method", 2012.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from weakprox.arguments import flag, optional_counts, optional_numbers
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, add_scaled, eps_of, sqnorm
from weakprox.penalties.base import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.solvers.base import Tools, first_point
from weakprox.solvers.paper.conditional import (
    STRETCH,
    Baseline,
    Memory,
    Smoothing,
    ground,
    smooth_gradient,
    with_initial_gap,
)


@dataclass(frozen=True)
class FISTA(Smoothing):
    r"""Proximal gradient on f_mu with exact proximal points (full decompositions).

    With :math:`q = \alpha/L`: :math:`f_\mu(X_k) - f_\mu^* \le 2 C_0 (1-\sqrt q)^k`
    accelerated, :math:`C_0 (L/\alpha)(1-q)^k` plain. If f_mu is not strongly convex,
    :math:`2LD^2/(k+1)^2` and :math:`LD^2/(2k)`, for bounded sets.

    Parameters
    ----------
    mu : float, optional
        Smoothing; eps / (2 gamma) if not given, so that it costs half of eps.
    C0 : float, optional
        Bound on the first error.
    momentum : bool
        Accelerated or plain.
    """

    narrow: ClassVar[bool] = False  # full decompositions

    units: ClassVar[tuple[str, ...]] = ("mu", "C0")

    C0: float | None = None
    momentum: bool = True

    def check(self, problem: Problem) -> None:
        optional_numbers(C0=self.C0)
        flag("momentum", self.momentum)
        self.check_mu(problem)
        problem.check_finite_sum("FISTA", "SVRGCG")
        bounded = problem.of_spectral.diameter is not None
        problem.constants(strongly_convex=not bounded)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        p = ground(problem, tools, mu=self.mu)
        first = first_point(problem, X)
        h = problem.spectral.value(tools.compressed(first))
        if not math.isfinite(h):
            given = "a first point where f is infinite (zero, if none was given)"
            raise InputError("start", given, "a feasible one")
        if p.alpha > 0:
            p = with_initial_gap(p, problem, first, self.C0, tools)
        return Memory(first, 0, p, h=h, other=first)

    def finished(self, memory: Memory) -> bool:
        """Return True if the theorem's bound is at most eps, after at least one step."""
        return memory.done > 0 and super().finished(memory)

    def _bound(self, memory: Memory) -> float:
        p, k = memory.parameters, memory.done
        if p.alpha > 0:
            q = min(1.0, p.alpha / p.beta)
            rate, factor = (1 - math.sqrt(q), 2.0) if self.momentum else (1 - q, 1 / q)
            return p.C0 * factor * rate**k
        size = p.beta * p.diameter**2
        return 2 * size / (k + 1) ** 2 if self.momentum else size / (2 * max(k, 1))

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        p, R = memory.parameters, self.dual(problem, memory)
        X, before, h = memory.X, memory.other, memory.h
        assert before is not None
        last, epoch = memory.done + STRETCH, memory.epoch + 1
        for k in range(memory.done + 1, last + 1):
            rng = tools.rng(k)
            Y = X * 1.0
            ahead = self._momentum(p.alpha / p.beta, k)
            if ahead > 0.0:
                Y += ahead * (X - before)
            G = smooth_gradient(tools, R, Y, rng, None)
            add_scaled(Y, -1.0 / p.beta, G)
            prox = tools.spectral.weak_prox(Y, weight=p.beta, rank=min(problem.shape), rng=rng)
            before, X, h = X, prox.V.dense(), problem.spectral.value(prox.V)
            tools.tick(Candidate(X, None, h, epoch, k, scratch=Y))
        return replace(memory, X=X, other=before, h=h, epoch=epoch, done=last)

    def _momentum(self, q: float, k: int) -> float:
        """Return the share of the last move that is added before step k."""
        if not self.momentum:
            return 0.0
        if q > 0:
            root = math.sqrt(min(1.0, q))
            return (1 - root) / (1 + root)
        return max(0.0, (k - 2) / (k + 1))  # t_k = (k + 1)/2, which the bound belongs to


@dataclass(frozen=True)
class SubgradientMemory(Memory):
    """The memory of the baselines: X is the weighted mean, `other` the last point."""

    squares: float = 0.0


@dataclass(frozen=True)
class ProjectedSubgradient(Baseline):
    r"""Steps :math:`2/(\alpha(k+1))` along subgradients, each projected exactly.

    The mean of the points with weights k satisfies :math:`\mathbb{E} f - f^* \le
    \frac{2}{\alpha K(K+1)} \sum_k \frac{k}{k+1} \mathbb{E}\|g_k\|_F^2`, which is evaluated with
    the subgradients of the run (an estimate if G is sampled).

    Parameters
    ----------
    batch : int, optional
        Samples per step; all terms of a finite sum if not given, else 1.
    """

    narrow: ClassVar[bool] = False  # full decompositions

    batch: int | None = None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        optional_counts(batch=self.batch)
        problem.constants()

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> SubgradientMemory:
        # The smoothing is so slight that its gradient is a subgradient up to rounding.
        c = problem.penalty.smoothability(problem.shape)
        finest = eps_of(problem.loss.reference) ** 2 * tools.eps
        p = ground(problem, tools, mu=finest / max(c.gamma, 1.0) if c.theta > 0 else 0.0)
        first = first_point(problem, X)
        return SubgradientMemory(first, 0, p, other=first)

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
        p, squares = memory.parameters, memory.squares
        R = problem.smoothed(p.mu)
        assert memory.other is not None
        mean, X = memory.X * 1.0, memory.other * 1.0
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
        memory = replace(memory, X=mean, other=X, squares=squares)
        return replace(memory, epoch=epoch, done=last)
