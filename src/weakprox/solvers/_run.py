"""The one loop: clock, limits, trace, certificate and stopping, for every solver."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, gaussian, row_blocks
from weakprox.linalg.threads import one_thread
from weakprox.losses.restated import Restated
from weakprox.oracles.certificate import SplitDual, lower_bound, split_bound
from weakprox.oracles.factored import FactoredDual
from weakprox.oracles.metering import Budget, Meter, MeteredLoss, MeteredSpectral, StopRun
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Loss, Solver
from weakprox.result import Counts, Result, Status, Trace
from weakprox.solvers._curvature import Contradicted
from weakprox.solvers._finish import CERTIFICATE, EVALUATION, finish
from weakprox.solvers._gap_driven import TooWide
from weakprox.solvers._look import Look, Looker, Seen
from weakprox.solvers._progress import Progress
from weakprox.solvers.tools import Tools

THOROUGH = 3000  # full decompositions for proofs up to this size, should others fail


@dataclass(frozen=True)
class Settings:
    """How to run, as the user asked for it."""

    eps: float
    tol: float
    seed: int
    budget: Budget
    callback: Callable[[Look], bool | None] | None
    progress: bool | Literal["auto"]
    look_every: int | None
    stop_when_certified: bool
    evaluation_samples: int
    reason: str = ""  # for the choice of the solver
    scale_samples: int = 0  # drawn to find what tol is relative to


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to go on from an outer step's end as if nothing had happened."""

    memory: Any  # the solver's own
    seen: Seen
    counts: Counts
    trace: Trace
    mark: tuple[Any, ...]  # which run this is a part of
    restated: float | None = None  # strong convexity, where the declared one was wrong
    solver: Solver | None = None  # that goes on, where the first one gave up
    first: Any = None  # point of the user's to begin at


class Run:
    """One run of a solver: to its end, to a proof, to a limit or to an interruption."""

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        settings: Settings,
        resume: Result | None,
        warm: Any = None,
    ) -> None:
        self.problem = problem
        self.solver = solver
        self.settings = settings
        self.sampled = not problem.loss.is_finite_sum
        self.mark: tuple[Any, ...] = (*_names(problem, solver, settings), None)
        last: Checkpoint | None = None if resume is None else resume.checkpoint
        if last is not None and last.mark[-1] is None:
            self._check(last.mark)
            last = None  # proved before its first epoch end: done again, to the same bits
        self.checkpoint = last
        self.meter = Meter(settings.budget, Counts() if last is None else last.counts.copy())
        self.progress = Progress(settings.progress, type(solver).__name__)
        trace = Trace([] if last is None else list(last.trace.rows))
        self.meter.idle = -float(trace["seconds"][-1]) if len(trace) else 0.0  # goes on
        self.looker = Looker(
            problem,
            self.meter,
            self.progress,
            trace,
            callback=settings.callback,
            every=settings.look_every,
            prove=self.prove if settings.stop_when_certified and not self.sampled else None,
            eps=settings.eps,
            tol=settings.tol,
            judges_iterate=solver.answer == "iterate",
            seen=Seen() if last is None else last.seen,
        )
        self.restated: float | None = None
        self._equip(problem)
        if last is not None and last.restated is not None:
            self._equip(problem, last.restated)
        self.memory: Any = None if last is None else last.memory
        self.first: Array | None = None if last is None else last.first
        if last is not None and last.solver is not None:
            self.solver = last.solver
        self.warm = warm  # where the run of a neighbouring problem ended

    def _equip(self, problem: Problem, strong_convexity: float | None = None) -> None:
        """Tools for the problem, perhaps with another constant than its loss declares."""
        if strong_convexity is not None:
            self.restated = strong_convexity
            problem = copy.copy(problem)
            problem.loss = cast(Loss, Restated(problem.loss, strong_convexity))
        self.problem = self.looker.problem = problem
        self.tools = Tools(
            problem,
            MeteredLoss(problem.loss, self.meter),
            MeteredSpectral(problem.spectral, self.meter),
            self.settings.eps,
            self.settings.seed,
            self.looker.tick,
            tol=self.settings.tol,
        )

    def _restate(self, strong_convexity: float) -> None:
        """Go on from the last point with a constant that gradients do not contradict.

        Bounds that rest on the old one are forgotten.
        """
        loss = self.problem.loss
        compute = getattr(loss, "true_strong_convexity", None)
        known = None if compute is None else compute()
        found = known or strong_convexity
        self._equip(self.problem, min(found, loss.strong_convexity))
        self.looker.seen = replace(self.looker.seen, lower=-math.inf, prove_below=math.inf)
        last = self.looker.latest or self.solver.candidate(self.memory)
        self.memory = self.solver.start(self.problem, last.X * 1.0, self.tools)
        self.looker.latest = None
        self._save()

    def _change_to(self, solver: Solver) -> None:
        """Begin anew with another method, where the first cannot do it."""
        self.solver = solver
        self.memory = solver.start(self.problem, self.first, self.tools)
        self.looker.latest = None
        self._save()

    def execute(self, X: Array | None) -> Result:
        """Run; whatever ends it, the best point so far comes back."""
        self.first = self.first if X is None else X
        with self.progress, one_thread(math.prod(self.problem.shape)):
            status = Status.EXPECTED
            try:
                self._prepare(X)
                while not self.solver.finished(self.memory):
                    try:
                        self.memory = self.solver.step(self.problem, self.memory, self.tools)
                    except TooWide:
                        self._change_to(self.solver.instead)  # type: ignore[attr-defined]
                        continue
                    except Contradicted as found:
                        self._restate(found.strong_convexity)
                        continue
                    self.looker.outer(self.solver.candidate(self.memory))
                    self._look_at_data()
                    self._save()
                if self.solver.promised(self.memory) > (1 + 1e-9) * self.settings.eps:
                    cut = getattr(self.memory, "cut", False)
                    status = Status.RANK_LIMITED if cut else Status.FINISHED
            except StopRun as stop:
                status = stop.status
            except KeyboardInterrupt:
                if self.looker.batch is None:
                    raise  # nothing has begun, so there is nothing to return
                # the interrupted iterate may be half updated: go back to the last whole one
                status, self.looker.latest = Status.INTERRUPTED, None
            try:
                return finish(self, status)
            finally:
                self.tools.arena.trim()

    def _prepare(self, X: Array | None) -> None:
        loss = self.problem.loss
        with self.looker.off_the_clock():
            if self.sampled:
                size = self.settings.evaluation_samples
                self.looker.batch = loss.draw(self.tools.rng(EVALUATION), size)
                if self.checkpoint is None:
                    self.meter.counts.evaluation_samples += size
            else:
                self.looker.batch = loss.everything()
        # Whether a loss keeps its word shows here; one with a centre has been looked at
        # before, and the first of its short runs to be continued can pay for its mark.
        given = X is not None or self.warm is not None  # what a run done again would lack
        if self.checkpoint is not None or given or not hasattr(loss, "centre"):
            self._look_at_data()
        if self.checkpoint is not None:
            self._check(self.checkpoint.mark)
        if self.memory is None:
            # samples a loss drew to find its own constants are part of the price
            self.meter.counts.samples += getattr(loss, "pilot_samples", 0)
            self.meter.counts.samples += self.settings.scale_samples
            self.meter.check()
            if self.warm is None:
                self.memory = self.solver.start(self.problem, X, self.tools)
            else:
                self.memory = self.solver.warm(self.problem, self.warm, self.tools)  # type: ignore[attr-defined]
            self._save()
        predicted = getattr(self.memory.parameters, "predicted_svds", 0)
        self.progress.aim(max(predicted, self.meter.counts.svds))

    def _look_at_data(self) -> None:
        """Complete the mark by the loss's value at a fixed matrix of rank one."""
        if self.mark[-1] is not None:
            return
        problem = self.problem
        rng = np.random.default_rng(11)
        u = gaussian(rng, (problem.shape[0], 1), problem.loss.reference)
        v = gaussian(rng, (1, problem.shape[1]), problem.loss.reference)
        with self.looker.off_the_clock():
            X = self.tools.arena.like(u, problem.shape)
            for rows in row_blocks(X):
                X[rows] = u[rows] * v
            self.mark = (*self.mark[:-1], problem.smooth_value(X, self.looker.batch))

    def _check(self, old: tuple[Any, ...]) -> None:
        """Raise unless an earlier run's mark agrees, the value to rounding elsewhere."""
        both = None not in (old[-1], self.mark[-1])
        if old[:-1] != self.mark[:-1] or (
            both and not math.isclose(old[-1], self.mark[-1], rel_tol=1e-9)
        ):
            raise InputError(
                "resume",
                "a result of another problem, solver, eps or seed",
                "the same call that is to go on",
            )

    def _save(self) -> None:
        counts, trace = self.meter.counts.copy(), Trace(list(self.looker.trace.rows))
        seen = self.looker.seen
        self.checkpoint = Checkpoint(
            self.memory,
            seen,
            counts,
            trace,
            self.mark,
            self.restated,
            self.solver,
            self.first,
        )

    def seal(self) -> None:
        """Mark what ended early, so that it can be resumed and only by its own problem."""
        if self.checkpoint is not None:
            self._look_at_data()
            self.checkpoint = replace(self.checkpoint, mark=self.mark)

    def prove(self, candidate: Candidate) -> None:
        """Raise the lower bound by the candidate's dual point, or the solver's at X."""
        if self.sampled or self.memory is None:
            return
        dual = candidate.dual or self.solver.dual(self.problem, self.memory)
        rng = self.tools.rng(CERTIFICATE)
        if isinstance(dual, FactoredDual):
            self.looker.bounded(*dual.bound(rng))
            return
        if isinstance(dual, SplitDual):
            allowed = 0.05 * self.looker.accuracy
            found = split_bound(
                self.problem, dual, rng=rng, accuracy=allowed, arena=self.tools.arena
            )
            self.looker.bounded(*found)
            if self.looker.seen.gap <= self.looker.accuracy:
                return
        at = getattr(dual, "at", None)  # a dual point that comes with a point of its own
        least = min(self.problem.shape)
        rank = min(2 * self.memory.rank + 8, least)
        if self.looker.seen.attempts > 1 and least <= THOROUGH:
            rank = least  # bounds on what a truncated SVD leaves out have not been enough
        bound, rests_on = lower_bound(
            self.problem,
            candidate.X if at is None else at.dense(),
            dual,
            rank=rank,
            rng=rng,
            accuracy=0.01 * self.looker.accuracy,
            scratch=candidate.scratch,
        )
        self.looker.bounded(bound, rests_on)


def _names(problem: Problem, solver: Solver, settings: Settings) -> tuple[Any, ...]:
    """What two runs must share for one to go on where the other stopped, but for the data."""
    asked = (settings.eps, settings.tol, settings.seed, settings.evaluation_samples)
    return (repr(problem), repr(solver), *asked)
