"""Exact proximal gradient, plain and accelerated: the references with full decompositions.

Nesterov's method in Beck & Teboulle's form, on the smoothed problem. Every step takes an
exact proximal point, that is all singular values of an m x d matrix, which is what
Garber & Kaplan's weak proximal oracle avoids.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from weakprox.arguments import flag, optional_numbers
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, add_scaled
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.solvers._conditional import (
    STRETCH,
    Memory,
    Smoothing,
    first_point,
    ground,
    smooth_gradient,
    with_initial_gap,
)
from weakprox.solvers.tools import Tools


@dataclass(frozen=True)
class MomentumMemory(Memory):
    """The memory of the baselines, the last iterate but one, and h at the iterate."""

    before: Array | None = None
    h: float = 0.0


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

    C0: float | None = None
    momentum: bool = True

    def check(self, problem: Problem) -> None:
        optional_numbers(C0=self.C0)
        flag("momentum", self.momentum)
        self.check_mu(problem)
        problem.check_finite_sum("FISTA", "SVRGCG")
        bounded = problem.of_spectral.diameter is not None
        problem.constants(strongly_convex=not bounded)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> MomentumMemory:
        """Constants and the first point."""
        bounded = problem.of_spectral.diameter is not None
        p = ground(problem, tools, mu=self.mu, bounded=bounded)
        first = first_point(problem, X)
        h = problem.spectral.value(tools.compressed(first))
        if not math.isfinite(h):
            given = "a first point where f is infinite (zero, if none was given)"
            raise InputError("start", given, "a feasible one")
        if p.alpha > 0:
            p = with_initial_gap(p, problem, first, self.C0, tools)
        return MomentumMemory(first, 0, p, before=first, h=h)

    def candidate(self, memory: MomentumMemory) -> Candidate:
        """Return the iterate, with the h of its proximal step."""
        return Candidate(memory.X, None, memory.h, memory.epoch, 0)

    def finished(self, memory: MomentumMemory) -> bool:
        """Whether the theorem's bound has come down to eps, after a step at least."""
        return memory.done > 0 and super().finished(memory)

    def _bound(self, memory: MomentumMemory) -> float:
        """Return the theorem's bound on f_mu(X_k) - f_mu*."""
        p, k = memory.parameters, memory.done
        if p.alpha > 0:
            q = min(1.0, p.alpha / p.beta)
            rate, factor = (1 - math.sqrt(q), 2.0) if self.momentum else (1 - q, 1 / q)
            return p.C0 * factor * rate**k
        size = p.beta * p.diameter**2
        return 2 * size / (k + 1) ** 2 if self.momentum else size / (2 * max(k, 1))

    def step(self, problem: Problem, memory: MomentumMemory, tools: Tools) -> MomentumMemory:
        """A stretch of iterations."""
        p, R = memory.parameters, self.dual(problem, memory)
        X, before, h = memory.X, memory.before, memory.h
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
        return replace(memory, X=X, before=before, h=h, epoch=epoch, done=last)

    def _momentum(self, q: float, k: int) -> float:
        """Return the share of the last move that is added before step k."""
        if not self.momentum:
            return 0.0
        if q > 0:
            root = math.sqrt(min(1.0, q))
            return (1 - root) / (1 + root)
        return max(0.0, (k - 2) / (k + 1))  # t_k = (k + 1)/2, which the bound belongs to
