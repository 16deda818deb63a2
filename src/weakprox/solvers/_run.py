"""The one loop: clock, limits, trace, certificate and stopping, for every solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.oracles.certificate import lower_bound
from weakprox.oracles.metering import (
    Budget,
    Meter,
    MeteredLoss,
    MeteredSpectral,
    StopRun,
)
from weakprox.problem import Problem
from weakprox.protocols import Solver
from weakprox.result import Certificate, Counts, Result, Status, Trace
from weakprox.solvers._look import Look, Looker
from weakprox.solvers._progress import Progress
from weakprox.solvers.tools import Tools

EVALUATION, CERTIFICATE = 1 << 20, 1 << 21  # names of random streams


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


def run(
    problem: Problem,
    solver: Solver,
    X: Array | None,
    settings: Settings,
    resume: Result | None = None,
) -> Result:
    """Run a solver to its end, to a limit, or to an interruption; always return."""
    counts = Counts() if resume is None else resume.counts.copy()
    meter = Meter(settings.budget, counts)
    sampled = not problem.loss.is_finite_sum
    name = type(solver).__name__
    with Progress(settings.progress, None, name) as progress:
        trace = Trace([] if resume is None else list(resume.trace.rows))
        looker = Looker(
            problem,
            meter,
            progress,
            None,
            trace,
            settings.callback,
            settings.look_every,
        )
        tools = Tools(
            problem,
            MeteredLoss(problem.loss, meter),
            MeteredSpectral(problem.spectral, meter),
            settings.eps,
            settings.seed,
            looker.tick,
        )
        with looker.off_the_clock():
            if sampled:
                size = settings.evaluation_samples
                looker.batch = problem.loss.draw(tools.rng(EVALUATION), size)
                counts.evaluation_samples += size
            else:
                looker.batch = problem.loss.everything()
        memory: Any = None if resume is None else resume.memory
        status = Status.EXPECTED
        try:
            if memory is None:
                memory = solver.start(problem, X, tools)
            progress.aim(getattr(memory.parameters, "predicted_svds", 0) + counts.svds)
            while not solver.finished(memory):
                memory = solver.step(problem, memory, tools)
                certify(problem, solver, memory, looker, tools)
                looker.look(solver.candidate(memory))
                proved = looker.best_value - looker.lower <= settings.eps
                if proved and settings.stop_when_certified:
                    status = Status.CERTIFIED
                    break
        except StopRun as stop:
            status = stop.status
        except KeyboardInterrupt:
            status, looker.latest = Status.INTERRUPTED, None
        seconds = meter.seconds
        return _result(
            problem, solver, memory, looker, tools, status, settings, seconds, sampled
        )


def certify(
    problem: Problem, solver: Solver, memory: Any, looker: Looker, tools: Tools
) -> None:
    """Raise the lower bound by the dual point at the current iterate, if G is known."""
    if not problem.loss.is_finite_sum:
        return
    with looker.off_the_clock():
        _raise_bound(problem, solver, memory, memory.X, looker, tools)


def _raise_bound(
    problem: Problem,
    solver: Solver,
    memory: Any,
    X: Array,
    looker: Looker,
    tools: Tools,
) -> None:
    bound, rests_on = lower_bound(
        problem,
        X,
        solver.dual(problem, memory, X),
        rank=min(2 * memory.rank + 8, *problem.shape),
        rng=tools.rng(CERTIFICATE),
    )
    if bound > looker.lower:
        looker.lower, looker.rests_on = bound, rests_on


def _result(
    problem: Problem,
    solver: Solver,
    memory: Any,
    looker: Looker,
    tools: Tools,
    status: Status,
    settings: Settings,
    seconds: float,
    sampled: bool,
) -> Result:
    """The best answer at hand, with everything about it computed anew from X."""
    answer, iterate_value = _answer(problem, solver, memory, looker, tools)
    value = problem.value(answer, looker.batch)
    certificate = None
    if not sampled:
        if memory is not None:
            _raise_bound(problem, solver, memory, answer.dense(), looker, tools)
        certificate = Certificate(value, looker.lower, looker.rests_on)
        if status is Status.EXPECTED and certificate.gap <= settings.eps:
            status = Status.CERTIFIED
    rounding = 1e-9 * (1.0 + abs(iterate_value))
    if status is Status.EXPECTED and value > iterate_value + rounding:
        status = Status.RANK_LIMITED
    return Result(
        low_rank=answer,
        value=value,
        violation=problem.spectral.violation(answer),
        status=status,
        eps=settings.eps,
        certificate=certificate,
        counts=looker.meter.counts,
        trace=looker.trace,
        parameters=None if memory is None else memory.parameters,
        solver=type(solver).__name__,
        seconds=seconds,
        seed=settings.seed,
        sampled=sampled,
        memory=memory,
        iterate_value=iterate_value,
    )


def _answer(
    problem: Problem, solver: Solver, memory: Any, looker: Looker, tools: Tools
) -> tuple[LowRank, float]:
    """The point to return, and the value of the iterate it comes from."""
    if memory is None:  # stopped before the first step: zero is always feasible
        zero = LowRank.zero(problem.shape, problem.loss.reference)
        return zero, problem.value(zero, looker.batch)
    last = solver.candidate(memory) if looker.latest is None else looker.latest
    iterate_value = problem.smooth_value(last.X, looker.batch) + last.h_bound
    if solver.answer == "iterate":
        return tools.compressed(last.X), iterate_value
    looker.offer(tools.compressed(last.X, memory.rank).trimmed())
    if last.V is not None:
        looker.offer(last.V)
    assert looker.best is not None
    if not math.isfinite(looker.best_value):
        return LowRank.zero(problem.shape, problem.loss.reference), iterate_value
    return looker.best, iterate_value
