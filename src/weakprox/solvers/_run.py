"""The one loop: clock, limits, trace, certificate and stopping, for every solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weakprox.errors import InputError, SamplerError
from weakprox.linalg.arrays import Array, eps_of, gaussian
from weakprox.linalg.lowrank import LowRank
from weakprox.oracles.certificate import lower_bound
from weakprox.oracles.metering import Budget, Meter, MeteredLoss, MeteredSpectral, StopRun
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Solver
from weakprox.result import Certificate, Counts, Result, Status, Trace
from weakprox.solvers._look import Look, Looker, Seen
from weakprox.solvers._progress import Progress
from weakprox.solvers.tools import Tools

EVALUATION, CERTIFICATE = 1 << 62, 1 << 63  # names of streams, which no step number meets

THOROUGH = 3000  # full decompositions for proofs up to this size, should others fail


@dataclass(frozen=True)
class Settings:
    """How to run, as the user asked for it."""

    eps: float
    seed: int
    budget: Budget
    callback: Callable[[Look], bool | None] | None
    progress: bool | Literal["auto"]
    look_every: int | None
    stop_when_certified: bool
    evaluation_samples: int


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to go on from an outer step's end as if nothing had happened."""

    memory: Any  # the solver's own
    seen: Seen
    counts: Counts
    trace: Trace
    mark: tuple[Any, ...]  # which run this is a part of


class Run:
    """One run of a solver: to its end, to a proof, to a limit or to an interruption."""

    def __init__(
        self, problem: Problem, solver: Solver, settings: Settings, resume: Result | None
    ) -> None:
        self.problem = problem
        self.solver = solver
        self.settings = settings
        self.sampled = not problem.loss.is_finite_sum
        last: Checkpoint | None = None if resume is None else resume.checkpoint
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
            judges_iterate=solver.answer == "iterate",
            seen=Seen() if last is None else last.seen,
        )
        self.tools = Tools(
            problem,
            MeteredLoss(problem.loss, self.meter),
            MeteredSpectral(problem.spectral, self.meter),
            settings.eps,
            settings.seed,
            self.looker.tick,
        )
        self.memory: Any = None if last is None else last.memory
        self.first: Array | None = None

    def execute(self, X: Array | None) -> Result:
        """Run; whatever ends it, the best point so far comes back."""
        self.first = X
        with self.progress:
            status = Status.EXPECTED
            try:
                self._prepare(X)
                while not self.solver.finished(self.memory):
                    self.memory = self.solver.step(self.problem, self.memory, self.tools)
                    self.looker.outer(self.solver.candidate(self.memory))
                    self._save()
                if self.solver.promised(self.memory) > (1 + 1e-9) * self.settings.eps:
                    status = Status.FINISHED
            except StopRun as stop:
                status = stop.status
            except KeyboardInterrupt:
                if self.looker.batch is None:
                    raise  # nothing has begun, so there is nothing to return
                # the interrupted iterate may be half updated: go back to the last whole one
                status, self.looker.latest = Status.INTERRUPTED, None
            return self._result(status)

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
        mark = self._mark()
        if self.checkpoint is not None and not _same(self.checkpoint.mark, mark):
            raise InputError(
                "resume",
                "a result of another problem, solver, eps or seed",
                "the same call that is to go on",
            )
        self.mark = mark
        if self.memory is None:
            # samples a loss drew to find its own constants are part of the price
            self.meter.counts.samples += getattr(loss, "pilot_samples", 0)
            self.meter.check()
            self.memory = self.solver.start(self.problem, X, self.tools)
            self._save()
        predicted = getattr(self.memory.parameters, "predicted_svds", 0)
        self.progress.aim(max(predicted, self.meter.counts.svds))

    def _mark(self) -> tuple[Any, ...]:
        """What two runs share if and only if one may go on where the other stopped.

        The data enter through the loss's value at a fixed matrix of rank one.
        """
        problem, settings = self.problem, self.settings
        rng = np.random.default_rng(11)
        u = gaussian(rng, (problem.shape[0], 1), problem.loss.reference)
        v = gaussian(rng, (1, problem.shape[1]), problem.loss.reference)
        with self.looker.off_the_clock():
            value = problem.smooth_value(u @ v, self.looker.batch)
        named = (repr(problem), repr(self.solver))
        return (*named, settings.eps, settings.seed, settings.evaluation_samples, value)

    def _save(self) -> None:
        counts, trace = self.meter.counts.copy(), Trace(list(self.looker.trace.rows))
        seen = self.looker.seen
        self.checkpoint = Checkpoint(self.memory, seen, counts, trace, self.mark)

    def prove(self, candidate: Candidate) -> None:
        """Raise the lower bound by the candidate's dual point, or the solver's at X."""
        if self.sampled or self.memory is None:
            return
        dual = candidate.dual or self.solver.dual(self.problem, self.memory)
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
            rng=self.tools.rng(CERTIFICATE),
            accuracy=0.01 * self.settings.eps,
            scratch=candidate.scratch,
        )
        self.looker.bounded(bound, rests_on)

    def _result(self, status: Status) -> Result:
        """The best answer at hand, with everything about it computed anew from X."""
        seconds = self.meter.seconds
        problem, looker = self.problem, self.looker
        answer, iterate_value = self._answer()
        chosen_value = problem.value(answer, looker.batch)  # by the samples that chose it
        dual = None if looker.latest is None else looker.latest.dual
        looker.latest = None  # its iterate is not needed any more: room for the proof
        value = problem.value(answer, self._fresh())
        certificate = None
        if not self.sampled:
            self.prove(Candidate(answer.dense(), None, 0.0, 0, 0, dual=dual))
            seen = looker.seen
            if math.isfinite(seen.lower):
                certificate = Certificate(value, seen.lower, seen.rests_on)
            proved = certificate is not None and certificate.gap <= self.settings.eps
            if proved and status not in (Status.CALLBACK, Status.INTERRUPTED):
                status = Status.CERTIFIED
            elif not proved and status is Status.CERTIFIED:
                status = Status.FINISHED  # rounding ate the proof between look and answer
        if status is Status.EXPECTED and 32 * eps_of(answer.s) * abs(value) > self.settings.eps:
            status = Status.FINISHED  # no theorem speaks of rounding errors above eps
        if status is Status.EXPECTED:
            # The theorem speaks of the iterate and of an oracle whose rank suffices: its
            # promise must cover the way to the answer and what the oracle itself measured.
            lost = max(0.0, chosen_value - iterate_value)
            lost += self.solver.oracle_excess(self.memory)
            if self.solver.promised(self.memory) + lost > (1 + 1e-4) * self.settings.eps:
                status = Status.RANK_LIMITED
        return Result(
            low_rank=answer,
            value=value,
            violation=problem.spectral.violation(answer),
            status=status,
            eps=self.settings.eps,
            certificate=certificate,
            counts=self.meter.counts,
            trace=looker.trace,
            parameters=None if self.memory is None else self.memory.parameters,
            solver=type(self.solver).__name__,
            seconds=seconds,
            seed=self.settings.seed,
            sampled=self.sampled,
            checkpoint=self.checkpoint,
            iterate_value=iterate_value,
        )

    def _fresh(self) -> Any:
        """Samples that had no say in choosing the answer, so that its value is unbiased."""
        if not self.sampled:
            return self.looker.batch
        size = self.settings.evaluation_samples
        try:
            batch = self.problem.loss.draw(self.tools.rng(EVALUATION, 1), size)
        except SamplerError:  # a sampler that fails now must not cost the answer
            return self.looker.batch
        self.meter.counts.evaluation_samples += size
        return batch

    def _answer(self) -> tuple[LowRank, float]:
        """The point to return, and the value of the iterate it comes from."""
        problem, looker = self.problem, self.looker
        if self.memory is None:  # stopped before the first step
            first = LowRank.zero(problem.shape, problem.loss.reference)
            if self.first is not None:
                first = self.tools.compressed(self.first)
            return first, problem.value(first, looker.batch)
        last: Candidate | None = looker.latest
        if last is None:
            last = self.solver.candidate(self.memory)
        iterate_value = problem.smooth_value(last.X, looker.batch) + last.h_bound
        if self.solver.answer == "iterate":
            return self.tools.compressed(last.X), iterate_value
        looker.offer(
            self.tools.compressed(last.X, self.memory.rank).significant(), last.scratch
        )
        if last.V is not None:
            looker.offer(last.V, last.scratch)
        assert looker.seen.best is not None
        return looker.seen.best, iterate_value


def _same(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
    """Whether two marks agree; the value only to the rounding of another machine."""
    return old[:-1] == new[:-1] and math.isclose(old[-1], new[-1], rel_tol=1e-9)
