"""What stands between SampleAverage's engine and the loop: looks pass, and rounds end."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from weakprox.certificates.sampled import Proof, sampled_gap
from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.metering import MeteredLoss
from weakprox.problem import Problem
from weakprox.protocols import Candidate, DualPoint
from weakprox.solvers._sample_pool import DRAWS, Memory
from weakprox.solvers.base import Method
from weakprox.solvers.tools import Tools

HOPELESS = 0.9  # of eps: no optimisation makes up for a sampling error beyond it
OVERHEAD = 1.2  # times the sampling error, the goal of a round whose samples cannot do
FAILED = 0.6  # how far below one that failed an estimate must be to be checked
LATER = 1.3  # growth of the time between checks where the engine estimates nothing


class Closed(Exception):  # noqa: N818 (a signal, not an error)
    """The samples' mean is solved well enough; caught where the engine was called."""


class Watch:
    """Checks the engine's points against the error that the samples are known to have.

    Attributes
    ----------
    problem, mean : Problem
        The problem, and the one of the samples' mean, which the engine solves.
    paid, goal : float
        Sampling error at full strong convexity, and the bound on f(X) - f* to reach.
    point, found
        The last point checked with its dual point, and what `sampled_gap` said.
    """

    def __init__(
        self, problem: Problem, mean: Problem, engine: Method, memory: Memory, outer: Tools
    ) -> None:
        self.problem, self.mean, self.engine = problem, mean, engine
        self.memory, self.outer = memory, outer
        p = memory.parameters
        self.paid = p.cost(memory.error)
        self.possible = self.paid <= HOPELESS * p.eps
        self.goal = p.eps if self.possible else OVERHEAD * self.paid
        self.point: tuple[LowRank, DualPoint] | None = None
        self.found = (math.inf, math.inf)

    @property
    def target(self) -> float:
        """What the engine's own gap may be: min over theta of gap/(1-theta) + paid/theta.

        If alpha is 0, the gap and the sampling error simply add up.
        """
        spare = math.sqrt(self.goal) - math.sqrt(self.paid)
        left = spare * spare if self.memory.parameters.alpha else self.goal - self.paid
        return left / 4.0**self.memory.retries

    def tools(self) -> Tools:
        """Oracles on the samples' mean, counted like the loop's own."""
        outer = self.outer
        return Tools(
            self.mean,
            MeteredLoss(self.mean.loss, outer.loss._meter),
            outer.spectral,
            eps=self.target,
            seed=outer.seed,
            tick=self.tick,
            arena=outer.arena,
            choose=outer.choose,
        )

    def tick(self, candidate: Candidate) -> None:
        """After an inner step: show it to the loop, and end the round if it is enough."""
        self.saw(candidate)
        step = self.memory.ticks + 1
        self.memory = replace(self.memory, ticks=step)
        shown = replace(candidate, gap=math.inf, dual=None, value=None)  # of another problem
        self.outer.tick(replace(shown, epoch=self.memory.epoch + 1, step=step))
        if self._worth_checking(candidate) and self.good(candidate):
            raise Closed

    def saw(self, candidate: Candidate, inner: Any = None) -> Memory:
        """The memory with the engine's latest point, and its own memory once it is whole."""
        point = {"X": candidate.X, "V": candidate.V, "h": candidate.h_bound}
        dual = candidate.dual or self.memory.dual
        self.memory = replace(self.memory, **point, dual=dual)
        if inner is not None:
            self.memory = replace(self.memory, inner=inner, rank=inner.rank)
        return self.memory

    def _worth_checking(self, candidate: Candidate) -> bool:
        """Whether the engine's estimate, or the time since the last check, says so."""
        memory = self.memory
        if candidate.gap < math.inf:
            worth = candidate.gap <= min(self.target, memory.below)
            below = FAILED * candidate.gap if candidate.gap > 0.0 else -math.inf
            self.memory = replace(memory, below=below) if worth else memory
            return worth
        worth = memory.ticks >= memory.next_try
        if worth:
            later = math.ceil(LATER * memory.ticks) + 1
            self.memory = replace(memory, next_try=later)
        return worth

    def good(self, candidate: Candidate) -> bool:
        """Whether the candidate's certificate, with the error to reckon with, will do."""
        dual = candidate.dual or self.engine.dual(self.mean, self.memory.inner)
        X = getattr(dual, "at", None) or candidate.V  # the point that the dual one goes with
        if X is None:
            X = self.outer.compressed(candidate.X)
        self.point = X, dual
        self.found = sampled_gap(
            self.problem,
            X,
            dual,
            self.gradient(X),
            self.memory.error,
            rng=self.outer.rng(DRAWS),
            enough=self.goal,
        )
        return self.found[0] <= self.goal

    def gradient(self, X: LowRank) -> Array:
        """Mean gradient of the samples kept."""
        return self.mean.loss.grad(X.dense(), self.mean.loss.everything())

    def proof(self) -> Proof:
        """The last check as a proof, which it is if the error reckoned with is a bound.

        Its gap is infinite if the samples are too few.
        """
        assert self.point is not None
        memory, X = self.memory, self.point[0]
        found = self.found if memory.have >= memory.least else (math.inf, math.inf)
        return Proof(
            X,
            *found,
            memory.parameters.confidence,
            memory.have,
            memory.parameters.rarest,
            self.gradient(X),
            memory.error,
            memory.noise,
        )
