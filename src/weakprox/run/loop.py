"""The one loop: clock, limits, trace, certificate and stopping, for every solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from weakprox.errors import ConvexityError, InputError, SamplerError, WeakproxError
from weakprox.linalg.arrays import Array
from weakprox.linalg.threads import one_thread
from weakprox.metering import Budget, Meter, MeteredLoss, MeteredSpectral, StopRun
from weakprox.problem import Problem
from weakprox.progress import RunProgress
from weakprox.protocols import Candidate, Solver
from weakprox.result import Counts, Look, Result, Status, Trace
from weakprox.run.checkpoint import Checkpoint, Origin
from weakprox.run.choose import chosen
from weakprox.run.finish import EVALUATION, finish
from weakprox.run.identity import Call, Data, data_of, named, settle, stream_of
from weakprox.run.keeper import Keeper
from weakprox.run.look import Looker, Seen
from weakprox.run.precision import go_on_in_float64, is_wide, stuck_in_float32
from weakprox.run.prove import prove
from weakprox.solvers._curvature import Contradicted
from weakprox.solvers._gap_driven import TooWide
from weakprox.solvers.tools import Tools


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
    call: Call | None = None  # what was asked for, where that is not just this
    proof: bool | None = None  # whether to keep what a proof needs; None: if it is small


class Run:
    """One run of a solver: to its end, to a proof, to a limit or to an interruption."""

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        settings: Settings,
        last: Checkpoint | None,
        warm: Any = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.problem = problem
        self.reference = problem.loss.reference  # which the answer is to be like
        self.solver = solver
        self.settings = settings
        self.sampled = not problem.loss.is_finite_sum
        self.keeper = keeper
        self.call = settings.call or _call(problem, solver, settings)
        self.data: Data | None = None
        self.stream = stream_of(problem.loss)
        if last is None:
            at = None if self.stream is None else self.stream.tell()
            why, samples = settings.reason, settings.scale_samples
            self.origin = Origin(solver, why, settings.eps, samples, at)
        else:
            self.origin = replace(last.origin, solver=solver)
            if last.data is None:
                last = None  # proved before its first epoch end: done again, to the same bits
        self.checkpoint = last
        self.meter = Meter(settings.budget, Counts() if last is None else last.counts.copy())
        self.progress = RunProgress(settings.progress, type(solver).__name__)
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
            proof=settings.proof,
        )
        self.restated: float | None = None
        self.equip(problem)
        if last is not None and last.restated is not None:
            self.equip(problem, last.restated)
        self.memory: Any = None if last is None else last.memory
        self.first: Array | None = None if last is None else last.first
        self.warm = warm  # where the run of a neighbouring problem ended

    def equip(self, problem: Problem, strong_convexity: float | None = None) -> None:
        """Tools for the problem, perhaps with another constant than its loss declares."""
        if strong_convexity is not None:
            self.restated = strong_convexity
            problem = problem.restated(strong_convexity)
        self.problem = self.looker.problem = problem
        self.tools = Tools(
            problem,
            MeteredLoss(problem.loss, self.meter),
            MeteredSpectral(problem.spectral, self.meter),
            self.looker.eps,
            self.settings.seed,
            self.looker.tick,
            chosen,
            tol=self.looker.tol,
        )

    def _restate(self, seen: float) -> None:
        """Continue from the last point with a strong convexity that is true.

        That is the computed one where the loss can compute it. Otherwise it is 0: the
        curvature `seen` between iterates refutes the declared constant, but is no bound
        itself. Bounds that rest on the old constant are forgotten.
        """
        loss, declared = self.problem.loss, self.problem.loss.strong_convexity
        compute = getattr(loss, "true_strong_convexity", None)
        known = None if compute is None else compute()
        found = 0.0 if known is None else min(known, declared)
        restated = self.problem.restated(found)
        try:
            self.solver.check(restated)
        except ConvexityError:
            given = f"{declared:.3g}, which gradients contradict"
            wanted = f"at most {seen:.3g}, and a bound on the curvature of G in all directions"
            raise InputError("strong_convexity", given, wanted) from None
        self.equip(self.problem, found)
        self.looker.seen = replace(self.looker.seen, lower=-math.inf, prove_below=math.inf)
        self.looker.evidence = None
        last = self.looker.latest or self.solver.candidate(self.memory)
        self.memory = self.solver.start(self.problem, last.X * 1.0, self.tools)
        self.looker.latest = None
        self._save()

    def _take(self, solver: Solver) -> None:
        """Go on with another method, which may need in memory what the first read in parts."""
        self.solver = solver
        if not getattr(solver, "elsewhere", False) and self.problem.elsewhere:
            self.equip(self.problem.gathered())
            self.looker.batch = self.problem.loss.everything()

    def _change_to(self, solver: Solver) -> None:
        """Begin anew with another method, where the first cannot do it."""
        self._look_at_data()  # while they are what they were
        self._take(solver)
        go_on_in_float64(self)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.memory = self.solver.start(self.problem, self.first, self.tools)
        self.looker.latest = None
        self._save()

    def execute(self, X: Array | None) -> Result:
        """Run; whatever ends it, the best point so far comes back."""
        self.first = self.first if X is None else X
        with self.progress, one_thread(math.prod(self.problem.shape)):
            try:
                try:
                    status = self._solve(X)
                finally:  # whatever ends it, what has been reached is on the disk
                    if self.keeper is not None:
                        self.keeper.flush()
                return finish(self, status)
            except SamplerError as failure:
                if self.memory is not None:
                    self.looker.latest = None  # perhaps half updated
                    with suppress(WeakproxError):
                        failure.result = finish(self, Status.SAMPLER_FAILED)
                raise
            finally:
                self.tools.arena.trim()
                self.looker.prove = None  # a cycle, which would keep the data until collected

    def _solve(self, X: Array | None) -> Status:
        """Outer steps to the end, and why it is one."""
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
                if stuck_in_float32(self) and go_on_in_float64(self):
                    self._begin_anew()
                    continue
                self._save()
        except StopRun as stop:
            return stop.status
        except KeyboardInterrupt:
            if self.looker.batch is None:
                raise  # nothing has begun, so there is nothing to return
            # the interrupted iterate may be half updated: go back to the last whole one
            self.looker.latest = None
            return Status.INTERRUPTED
        if self.solver.promised(self.memory) > (1 + 1e-9) * self.settings.eps:
            cut = getattr(self.memory, "cut", False)
            return Status.RANK_LIMITED if cut else Status.FINISHED
        return Status.EXPECTED

    def _prepare(self, X: Array | None) -> None:
        loss, last = self.problem.loss, self.checkpoint
        if self.stream is not None:  # the samples to evaluate with are those of the beginning
            self.stream.seek(self.origin.stream)
        with self.looker.off_the_clock():
            if self.sampled:
                size = self.settings.evaluation_samples
                self.looker.batch = loss.draw(self.tools.rng(EVALUATION), size)
                if last is None:
                    self.meter.counts.evaluation_samples += size
            else:
                self.looker.batch = loss.everything()
        # Whether a loss keeps its word shows here; one with a centre has been looked at
        # before, and the first of its short runs to be continued can pay for its mark.
        given = X is not None or self.warm is not None  # what a run done again would lack
        kept = last is not None or self.keeper is not None
        if kept or given or not hasattr(loss, "centre"):
            self._look_at_data()
        if last is not None and self.data != last.data:
            raise InputError("resume", "a run of another problem: other data", "the same")
        other = None if last is None else last.solver
        if other is not None and named(other) != named(self.solver):
            self._take(other)
        if self.memory is not None and is_wide(self.solver.candidate(self.memory).X):
            go_on_in_float64(self, resumed=True)
        settle(loss, streamed=self.stream is not None)
        if self.stream is not None and last is not None:
            self.stream.seek(last.stream)
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
        self.progress.predict(max(predicted, self.meter.counts.svds))

    def _look_at_data(self) -> None:
        """Note which data these are."""
        if self.data is not None:
            return
        with self.looker.off_the_clock():
            read = self.keeper is not None
            self.data = data_of(self.problem, self.looker.batch, self.tools.arena, read=read)

    def _save(self) -> None:
        counts, trace = self.meter.counts.copy(), Trace(list(self.looker.trace.rows))
        seen = self.looker.seen
        self.checkpoint = Checkpoint(
            self.memory,
            seen,
            counts,
            trace,
            self.call,
            self.origin,
            self.data,
            self.restated,
            self.solver,
            self.first,
            None if self.stream is None else self.stream.tell(),
        )
        if self.keeper is not None:
            with self.looker.off_the_clock():
                self.keeper.offer(self.checkpoint)

    def seal(self) -> None:
        """Mark what ended early, so that it can be resumed and only by its own problem."""
        if self.checkpoint is not None:
            self._look_at_data()
            self.checkpoint = replace(self.checkpoint, data=self.data)

    def prove(self, candidate: Candidate) -> None:
        """Raise the lower bound by the candidate's dual point, or the solver's at X."""
        prove(self, candidate)


def _call(problem: Problem, solver: Solver, settings: Settings) -> Call:
    """The call that these settings stand for by themselves."""
    s = settings
    asked = {"eps": s.eps, "tol": s.tol, "seed": s.seed, "automatic": ""}
    return Call.of(problem, solver, evaluation_samples=s.evaluation_samples, **asked)
