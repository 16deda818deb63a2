"""The loop that runs every solver: clock, limits, looks, escalations and checkpoints."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from weakprox.errors import SamplerError, WeakproxError
from weakprox.linalg.arrays import (
    SHARED,
    Arena,
    Array,
    DiskArena,
    is_numpy,
    namespace,
    on_cpu,
)
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import WAITING, one_thread, pause
from weakprox.metering import Meter, StopRun
from weakprox.passes import compiling
from weakprox.problem import Problem
from weakprox.progress import RunProgress
from weakprox.protocols import Candidate
from weakprox.resources.memory import budget, give_back
from weakprox.result import Counts, Result, Status, Trace
from weakprox.run import escalate, evaluate
from weakprox.run.checkpoint import Checkpoint, Keeper, other_data
from weakprox.run.choose import chosen
from weakprox.run.plan import left_for_arrays
from weakprox.run.slopes import Series
from weakprox.run.state import (
    Call,
    Data,
    Fixed,
    Origin,
    Settings,
    State,
    Tracker,
    data_of,
    named,
)
from weakprox.solvers._gap_driven import Contradicted, TooWide
from weakprox.solvers.base import Method, Tools, Warmth

STOPPED = (  # by a limit or the user, so that the run can be resumed
    *(Status.MAX_SECONDS, Status.MAX_SAMPLES, Status.MAX_SVDS),
    *(Status.CALLBACK, Status.INTERRUPTED),
)
THIN = 64  # usual width of blocks of methods that keep X in factors


class Run:
    """One run of a solver: to its end, to a proof, to a limit or to an interruption.

    It resumes `last`, or begins at `warm`, the end of a neighbouring problem's run. The keeper
    writes checkpoints to a file. A problem with constraints on entries is solved by a `series`
    of runs with slopes in their place.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Method,
        settings: Settings,
        last: Checkpoint | None = None,
        warm: Warmth | None = None,
        keeper: Keeper | None = None,
        series: Series | None = None,
    ) -> None:
        self.series, self.stage = series, 0
        if series is not None:
            stage = 0 if last is None or last.data is None else last.stage
            self.stage = stage % len(series.stages)  # the steepest is counted from the end
            problem = series.problem(self.stage)
        self.warm, self.keeper, self.settings = warm, keeper, settings
        self.estimate = math.inf  # the method's own, of its gap
        self.begun = False  # whether there is a batch to evaluate with, which may be None
        self.call = settings.call or _call(problem, solver, settings)
        self.data: Data | None = None
        self.stream = problem.of_loss.stream
        at = None if self.stream is None else self.stream.tell()
        self.entries = _entries(problem, solver)
        # Passes over arrays and products with narrow blocks are shared among threads of ours,
        # and BLAS's threads, which wait by spinning, would slow them down.
        shared = solver.narrow and problem.of_loss.centre is not None
        self.wide = 0 if shared else self.entries  # entries of arrays in other products
        compiled = None
        if problem.of_loss.observed is not None:  # products with sparse matrices gain more
            compiled = compiling.chosen(kind=compiling.ENTRIES)
        elif problem.cells is not None and math.prod(problem.shape) >= compiling.COMPILED_FROM:
            compiled = compiling.chosen(math.prod(problem.shape), compiling.CELLS)
        elif self.entries >= compiling.COMPILED_FROM:
            compiled = compiling.chosen(self.entries)
        origin = Origin(
            solver, settings.reason, settings.eps, settings.scale_samples, at, compiled
        )
        if last is not None:
            origin = replace(last.origin, solver=solver)
        if last is not None and last.data is None:
            last = None  # proved before its first epoch ended: repeated, to the same bits
        self.checkpoint = last
        begin = last or Checkpoint(None, Tracker(), Counts(), Trace(), self.call, origin)
        self.arena: Arena = SHARED if budget() is None else DiskArena(left_for_arrays)
        self.meter = Meter(settings.budget, replace(begin.counts))
        trace = Trace(list(begin.trace.rows))
        self.meter.idle = -float(trace["seconds"][-1]) if trace.rows else 0.0  # continues
        shown = sys.stderr.isatty() if settings.progress == "auto" else settings.progress
        self.progress = RunProgress(True, type(solver).__name__) if shown else None
        sampled = not problem.loss.is_finite_sum
        proves = settings.stop_when_certified and not sampled
        like = problem.loss.reference
        fixed = Fixed(settings, origin, self.meter, trace, like, sampled, proves)
        self.state = self._initial(fixed, problem, begin)

    def _initial(self, fixed: Fixed, problem: Problem, begin: Checkpoint) -> State:
        """Return the state of a checkpoint, or of a run that begins."""
        settings, solver = fixed.settings, fixed.origin.solver
        if self.series is not None:
            share = self.series.stages[self.stage].share
            settings = replace(settings, eps=share * settings.eps, tol=share * settings.tol)
            fixed = replace(fixed, settings=settings)
        doubled = solver.double and escalate.is_single(problem)
        share = escalate.share_of(settings.tol) if doubled else 1.0
        eps, seed, tol = share * settings.eps, settings.seed, share * settings.tol
        tools = Tools(problem, self.meter, eps, seed, self.tick, chosen, self.arena, tol)
        state = State(
            fixed,
            problem,
            solver,
            tools,
            memory=begin.memory,
            first=begin.first,
            tracker=begin.tracker,
        )
        if begin.restated is not None:
            state = state.on(problem.restated(begin.restated))
        return replace(state, restated=begin.restated)

    def execute(self, X: Array | LowRank | None = None) -> Result:
        """Run from X, or from zero; return the best point so far, whatever ends the run."""
        if X is not None:
            self.state = replace(self.state, first=X)
        made = self.state.fixed.origin.compiled
        compiled = nullcontext() if made is None else compiling.passes(made)
        with self.progress or nullcontext(), one_thread(self.wide), compiled:
            if made and self.progress is not None and self._compiles():
                self.progress.say("compiles its passes, once")
            try:
                if self.series is None:
                    _, result = self._solved()
                else:
                    result = self._in_stages(self.series)
                if self.progress is not None:
                    self.progress.end(
                        result.status.label, result.status.reached, result.rank, result.gap
                    )
                return result
            except SamplerError as failure:
                if self.state.memory is not None:
                    self.state = replace(self.state, latest=None)  # perhaps half updated
                    with suppress(WeakproxError):
                        failure.result = self._result(Status.SAMPLER_FAILED)
                raise
            finally:
                self.arena.trim()
                # it refers to this object through `tick`: this cycle would keep the data
                # until it is collected
                del self.state

    def _solved(self) -> tuple[Status, Result]:
        """Solve the problem of the state; return what ended the run, and the result."""
        try:
            status = self._solve()
        finally:  # however the run ends, the file contains the last state
            if self.keeper is not None:
                self.keeper.flush()
        return status, self._result(status)

    def _in_stages(self, series: Series) -> Result:
        """Solve with steeper slopes, or to a higher accuracy, until an answer is accepted."""
        status, result = self._solved()
        while (stage := series.after(self.stage, result)) is not None:
            if status in STOPPED:  # judge the same answer by steeper slopes
                self._identify()  # the run is resumed with the slopes it had
                self._raise(series, stage, result, stopped=True)
                result = self._result(status)
            else:
                self._raise(series, stage, result, stopped=False)
                self.checkpoint = self.data = None
                del result  # its checkpoint has arrays of the size of X
                status, result = self._solved()
        share = series.stages[self.stage].share
        return replace(result, eps=result.eps / share) if result.certified else result

    def _raise(self, series: Series, stage: int, found: Result, *, stopped: bool) -> None:
        """Begin a stage of a series at the answer of an earlier one.

        The bounds of a run hold for steeper slopes, too. Only one that was `stopped` needs
        them, since it makes no more steps.
        """
        problem, X = series.problem(stage), found.low_rank
        X = X.scaled(1.0 / series.unit)
        tracker = Tracker(best=X, best_value=problem.value(X))
        if stopped:
            proved = found.certificate
            lower = proved.lower_bound / series.unit**2
            tracker = replace(tracker, lower=lower, rests_on=proved.rests_on)
        fixed = replace(self.state.fixed, settings=self.settings)
        if series.stages[stage].stated is not series.stages[self.stage].stated:
            fixed.trace.forget_values()  # those with smaller slopes do not bound the optimum
        origin = fixed.origin
        begin = Checkpoint(None, tracker, Counts(), Trace(), self.call, origin, first=X)
        self.stage, self.warm = stage, None
        self.state = self._initial(fixed, problem, begin)
        if found.dual is not None and origin.solver.warm_starts:
            self.warm = Warmth.of(problem, found.dual).scaled(problem.penalty)
        self.meter.idle += self.meter.seconds - found.seconds  # not the method's time

    def _compiles(self) -> bool:
        """Return whether the run will probably compile passes first."""
        problem, arrays = self.state.problem, self.state.solver.arrays
        if not is_numpy(problem.loss.reference) or arrays is None:
            return False
        if problem.observed is not None:
            return compiling.about_to_compile(compiling.ENTRIES)
        if problem.cells is not None:
            large = math.prod(problem.shape) >= compiling.COMPILED_FROM
            return large and compiling.about_to_compile(compiling.CELLS)
        return bool(arrays.tiles) and not problem.elsewhere and compiling.about_to_compile()

    def _solve(self) -> Status:
        """Run outer steps until a stopping rule applies; return the status."""
        try:
            self._prepare()
            while not self.state.solver.finished(self.state.memory):
                self._step()
        except StopRun as stop:
            return stop.status
        except KeyboardInterrupt:
            if not self.begun:
                raise  # no step has been made, so there is no result to return
            # the last iterate may be half updated: return to the last complete one
            self.state = replace(self.state, latest=None)
            return Status.INTERRUPTED
        solver, memory = self.state.solver, self.state.memory
        if solver.promised(memory) > (1 + 1e-9) * self.state.fixed.settings.eps:
            return Status.RANK_LIMITED if solver.is_cut(memory) else Status.FINISHED
        return Status.EXPECTED

    def _step(self) -> None:
        """Make one outer step; escalate if it failed or no longer helps."""
        state, signal = self.state, None
        try:
            memory = state.solver.step(state.problem, state.memory, state.tools)
        except (TooWide, Contradicted) as raised:
            signal = raised.with_traceback(None)  # which would keep the step's arrays
        else:
            self.state = replace(self.state, memory=memory)
            del state, memory  # so that only the latest memory is kept
            self._after_step(self.state.solver.candidate(self.state.memory))
        self._identify()  # before the problem changes
        after = escalate.escalated(self.state, signal, self._begun)
        if after is None and signal is not None:
            raise signal
        if after is not None and signal is None and after.solver is not self.state.solver:
            with self._off_the_clock():
                after = evaluate.inherited(after, self.state)
        self.state = self.state if after is None else after
        self._save()

    def _begun(self, state: State, X: Array | LowRank | None) -> State:
        """Return the state with its solver started at X, or at zero for None."""
        in_factors = state.solver.factored or state.problem.sparse_target is not None
        if isinstance(X, LowRank) and not in_factors:
            X = namespace(X.U).astype(X.dense(), state.problem.loss.reference.dtype)
        memory = state.solver.start(state.problem, X, state.tools)
        return replace(state, memory=memory, latest=None)

    def tick(self, candidate: Candidate) -> None:
        """After an inner step: look if a look is due, show progress, check the limits."""
        if any(WAITING.values()):
            pause()  # other runs in this process are waiting for their turn
        self._look(candidate, evaluate.ticked)
        if self.progress is not None:
            tracker, counts = self.state.tracker, self.meter.counts
            gap, aim = evaluate.gap_of(tracker), evaluate.aim_of(self.state)
            if candidate.gap < math.inf:
                self.estimate = candidate.gap
            gap = self.estimate if gap == math.inf else gap  # nothing is proved yet
            self.progress.show(
                epoch=candidate.epoch,
                svds=counts.svds,
                samples=counts.samples,
                value=self.state.value,
                gap=gap,
                accuracy=aim,
                rank=None if candidate.V is None else candidate.V.rank,
            )
        if self.meter.budget.max_seconds is not None:
            self.meter.check()

    def _after_step(self, candidate: Candidate) -> None:
        """After an outer step: always look, unless such steps have no inner ones."""
        last = self.state.latest
        if last is None or last.epoch != candidate.epoch:
            self.tick(candidate)
        else:
            self._look(replace(candidate, scratch=last.scratch), evaluate.look)
        self.state = replace(self.state, latest=candidate)

    def _look(
        self, candidate: Candidate, judge: Callable[[State, Candidate, float], evaluate.Looked]
    ) -> None:
        """Evaluate the candidate off the clock, call the callback, and end the run if due."""
        clock, callback, begun = self.meter, self.settings.callback, time.perf_counter()
        try:
            seconds = begun - clock.started - clock.idle
            self.state, view, stop = judge(self.state, candidate, seconds)
            if callback is not None and view is not None:
                stop = Status.CALLBACK if callback(view) else stop
                self.state = evaluate.settled(self.state, ending=stop is not None)
        finally:
            clock.idle += time.perf_counter() - begun
        if stop is not None:
            raise StopRun(stop)

    @contextmanager
    def _off_the_clock(self) -> Iterator[None]:
        """Leave time spent on evaluation out of the method's time."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.meter.idle += time.perf_counter() - begun

    def _prepare(self) -> None:
        """Draw the evaluation samples, identify the data, and start or resume the solver."""
        last, settings = self.checkpoint, self.state.fixed.settings
        loss = self.state.problem.loss
        if self.stream is not None:  # evaluation samples come from the beginning of a stream
            self.stream.seek(self.state.fixed.origin.stream)
        begun = time.perf_counter()
        if self.state.fixed.sampled:
            size = settings.evaluation_samples
            batch = loss.draw(self.state.tools.rng(evaluate.EVALUATION), size)
            if last is None:
                self.meter.counts.evaluation_samples += size
        else:
            batch = loss.everything()
        self.meter.idle += time.perf_counter() - begun
        self.state, self.begun = replace(self.state, batch=batch), True
        # A wrong loss fails here. One with a centre or of observed entries was checked before,
        # and its short runs need no identity unless they are resumed.
        given = self.state.first is not None or self.warm is not None
        kept = last is not None or self.keeper is not None
        checked = self.state.problem.observed or self.state.problem.of_loss.centre
        if kept or given or checked is None:
            self._identify()
        if last is not None and self.data != last.data:
            raise other_data()
        other = None if last is None else last.solver
        if other is not None and named(other) != named(self.state.solver):
            self.state = escalate.handed_to(self.state, other)
        memory = self.state.memory
        solver = self.state.solver
        if (
            memory is not None
            and not solver.double
            and escalate.is_wide(solver.candidate(memory).X)
        ):
            self.state = escalate.in_double(self.state, resumed=True) or self.state
        _settle(loss, streamed=self.stream is not None)
        if self.stream is not None and last is not None:
            self.stream.seek(last.stream)
        state = self.state
        if memory is None:
            # samples drawn to find constants of the loss are part of the cost
            pilot = self.state.problem.of_loss.pilot_samples
            self.meter.counts.samples += 0 if pilot is None else pilot()
            self.meter.counts.samples += settings.scale_samples
            self.meter.check()
            if self.warm is None:
                # float32 is too coarse for some methods
                doubled = escalate.digits_at_once(state) if state.solver.coarse else None
                if doubled is not None:
                    self._identify()  # before the problem changes
                    state = doubled
                self.state = self._begun(state, state.first)
            else:
                memory = state.solver.warm(state.problem, self.warm, state.tools)
                self.state = replace(state, memory=memory)
            self._save()
        if self.progress is not None:
            predicted = self.state.solver.predicted_svds(self.state.memory)
            self.progress.predict(max(predicted, self.meter.counts.svds))

    def _identify(self) -> None:
        """Record a digest of the data."""
        if self.data is None:
            with self._off_the_clock():
                problem, batch, read = self.state.problem, self.state.batch, bool(self.keeper)
                self.data = data_of(problem, batch, self.arena, read=read)

    def _save(self) -> None:
        """Make the state the checkpoint, and offer it to the file."""
        state, trace = self.state, Trace(list(self.state.fixed.trace.rows))
        self.checkpoint = Checkpoint(
            state.memory,
            state.tracker,
            replace(self.meter.counts),
            trace,
            self.call,
            state.fixed.origin,
            self.data,
            state.restated,
            state.solver,
            state.first,
            None if self.stream is None else self.stream.tell(),
            self.stage,
        )
        if self.keeper is not None:
            with self._off_the_clock():
                self.keeper.offer(self.checkpoint)

    def _result(self, status: Status) -> Result:
        """Return the result, with the checkpoint of a run that can be resumed."""
        result = evaluate.finish(self._released(), status, self.meter.seconds)
        if result.status is not Status.CERTIFIED and self.checkpoint is not None:
            self._identify()
            self.checkpoint = replace(self.checkpoint, data=self.data)
        return replace(result, checkpoint=self.checkpoint)

    def _released(self) -> State:
        """Return the state, and keep it without its iterate, which then can be freed."""
        state, self.state = self.state, replace(self.state, latest=None)
        if state.tools.kept:
            state.tools.kept.clear()
            give_back(8 * math.prod(state.problem.shape))
        return state


def _entries(problem: Problem, solver: Method) -> int:
    """Return the number of entries of arrays in products on the host.

    With data on a device these are small, and threads of the host would slow them down.
    """
    shape = problem.shape
    if not on_cpu(problem.loss.reference):
        return 0
    thin = solver.factored and not (solver.arrays and solver.arrays.work)
    return THIN * sum(shape) if thin else math.prod(shape)


def _call(problem: Problem, solver: Method, settings: Settings) -> Call:
    """Return the call that these settings describe by themselves."""
    s = settings
    asked = {"eps": s.eps, "tol": s.tol, "seed": s.seed, "automatic": ""}
    return Call.of(problem, solver, evaluation_samples=s.evaluation_samples, **asked)


def _settle(loss: Any, *, streamed: bool) -> None:
    """Make a loss compute its constants now, at the same place in every run.

    What it stores then may change the bits of its gradients (`Sensing` stores a Gram matrix),
    and a resumed run does not start its solver. A stream of samples advances by the samples
    that are drawn for them.
    """
    names = ["smoothness", "strong_convexity"] if loss.is_finite_sum or streamed else []
    for name in [*names, *(["term_smoothness"] if streamed else [])]:
        getattr(loss, name)
