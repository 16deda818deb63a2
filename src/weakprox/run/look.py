"""Looking at a run from outside: values, trace, best point, progress and callbacks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from weakprox.certificates.evidence import Evidence
from weakprox.certificates.factored import FactoredDual
from weakprox.linalg.arrays import Array, eps_of
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import pause
from weakprox.metering import Meter, StopRun
from weakprox.problem import Problem
from weakprox.progress import RunProgress
from weakprox.protocols import Candidate
from weakprox.result import Look, Status, Trace
from weakprox.solvers.tools import accuracy_at

GROWTH = 1.1  # looks come at every step at first, then at every tenth more steps
PROOF_GROWTH = 1.5  # proofs cost a decomposition each, so they come more rarely


@dataclass(frozen=True)
class Seen:
    """What has been seen so far: the best point, the best bound, and the schedule."""

    best: LowRank | None = None
    best_value: float = math.inf
    lower: float = -math.inf
    rests_on: str = "exact"
    steps: int = 0
    next_look: int = 1
    next_proof: int = 1
    prove_below: float = math.inf  # estimates above this have failed to be proved
    attempts: int = 0  # proofs tried because of an estimate

    @property
    def gap(self) -> float:
        """Distance of the best point from the best bound, infinite without one."""
        return self.best_value - self.lower if self.lower > -math.inf else math.inf


@dataclass
class Looker:
    """Evaluates candidates on a schedule of cost and remembers the best point."""

    problem: Problem
    meter: Meter
    progress: RunProgress
    trace: Trace
    batch: Any = None  # all terms, or the evaluation samples
    callback: Callable[[Look], bool | None] | None = None
    every: int | None = None
    prove: Callable[[Candidate], None] | None = None
    eps: float = 0.0
    tol: float = 0.0
    judges_iterate: bool = False  # whether the iterate itself will be the answer
    seen: Seen = field(default_factory=Seen)
    latest: Candidate | None = None
    proof: bool | None = None  # whether to keep what the bound rests on; None: if small
    evidence: Evidence | None = None  # what the bound rests on, if it was kept
    _last_value: float = math.inf

    @property
    def accuracy(self) -> float:
        """What is asked for, given the best value so far."""
        seen = self.seen
        return accuracy_at(self.problem, self.eps, self.tol, seen.best_value, seen.best)

    @contextmanager
    def off_the_clock(self) -> Iterator[None]:
        """Looking is not the method's work: its time is not counted."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.meter.idle += time.perf_counter() - begun

    def tick(self, candidate: Candidate) -> None:
        """After an inner step: show progress, and look if it is time to."""
        self.latest = candidate
        pause()  # other runs in this process may be waiting for their turn
        now, later = self.seen.steps + 1, self.seen.next_look
        due = now >= later or self._promising(candidate)
        if due:
            grown = max(now + 1, math.ceil(now * GROWTH))
            later = grown if self.every is None else now + self.every
        self.seen = replace(self.seen, steps=now, next_look=later)
        if due:
            self.look(candidate)
        self.progress.show(
            epoch=candidate.epoch,
            svds=self.meter.counts.svds,
            samples=self.meter.counts.samples,
            value=self._last_value,
            gap=self.seen.gap,
            accuracy=self.accuracy,
        )
        self.meter.check()

    def _promising(self, candidate: Candidate) -> bool:
        """Whether the method itself says that a proof would now succeed."""
        best = self.seen.best_value if candidate.value is None else candidate.value
        best = min(best, self.seen.best_value)
        wanted = accuracy_at(self.problem, self.eps, self.tol, best, candidate.V)
        return self.prove is not None and candidate.gap <= min(wanted, self.seen.prove_below)

    def outer(self, candidate: Candidate) -> None:
        """After an outer step: always look, unless such steps come without inner ones."""
        if self.latest is None or self.latest.epoch != candidate.epoch:
            self.tick(candidate)
        else:
            self.look(replace(candidate, scratch=self.latest.scratch))
        self.latest = candidate

    def look(self, candidate: Candidate) -> None:
        """Evaluate, record, remember, try to prove if it is time to, ask the callback."""
        now = self.seen.steps
        prove = self._promising(candidate)
        if prove:  # should it fail, then not again before the estimate is much smaller
            below = 0.7 * candidate.gap if candidate.gap > 0.0 else -math.inf
            tried = self.seen.attempts + 1
            self.seen = replace(self.seen, prove_below=below, attempts=tried)
        elif candidate.gap == math.inf:  # no estimate: on a schedule of cost
            prove = self.prove is not None and now >= self.seen.next_proof
            if prove:
                self.seen = replace(self.seen, next_proof=math.ceil(now * PROOF_GROWTH) + 1)
        seconds = self.meter.seconds  # before looking: the look itself is off the clock
        with self.off_the_clock():
            value, low = candidate.value, math.nan
            if value is None or (prove and not isinstance(candidate.dual, FactoredDual)):
                # proofs deserve values from scratch
                value = self.problem.smooth_value(candidate.X, self.batch) + candidate.h_bound
            if candidate.V is not None:
                same = candidate.value is not None  # X is V
                low = self.offer(candidate.V, candidate.scratch, value if same else None)
            self._last_value = value
            if self.judges_iterate:
                self.seen = replace(self.seen, best=None, best_value=value)
            if prove and self.prove is not None:
                self.prove(candidate)
            counts = self.meter.counts
            self.trace.add(
                seconds=seconds,
                epoch=candidate.epoch,
                step=candidate.step,
                samples=counts.samples,
                gradients=counts.gradients,
                svds=counts.svds,
                rank_one_svds=counts.rank_one_svds,
                value=value,
                value_low_rank=low,
                lower_bound=self.seen.lower if self.seen.lower > -math.inf else math.nan,
                delta=candidate.delta_estimate,
            )
            if self.callback is not None:
                where = (candidate.epoch, candidate.step)
                values = (value, low, self.seen.lower)
                X = candidate.X
                if isinstance(X, LowRank) and not self.problem.elsewhere:
                    X = X.dense()
                view = Look(*where, *values, seconds, counts.copy(), X, candidate.V)
                if self.callback(view):
                    self.settle(ending=True)
                    raise StopRun(Status.CALLBACK)
            if self.prove is not None and self.seen.gap <= self.accuracy:
                self.settle(ending=True)
                raise StopRun(Status.CERTIFIED)
            self.settle(ending=False)

    def settle(self, *, ending: bool) -> None:
        """Detach the evidence from arrays that the solver is about to overwrite.

        Without `proof=True`, evidence is dropped if its copy would cost an extra pass.
        """
        if self.evidence is not None and self.evidence.moving:
            keep = ending or self.proof is True or self.evidence.cheap
            self.evidence = self.evidence.detached(copy=not ending) if keep else None

    def offer(
        self, V: LowRank, scratch: Array | None = None, value: float | None = None
    ) -> float:
        """Value of a low-rank point (computed if not known), kept if the best so far."""
        if value is None:
            value = self.problem.value(V, self.batch, scratch=scratch)
        elif self.problem.infimum is not None:  # rounding of an estimate may go below it
            value = max(value, self.problem.infimum)
        better = value < self.seen.best_value or self.seen.best is None
        if better and not self.judges_iterate:
            self.seen = replace(self.seen, best=V, best_value=value)
        return value

    def bounded(self, lower: float, rests_on: str, evidence: Evidence | None = None) -> None:
        """A proved lower bound, kept if it is the best so far, with what it rests on.

        One that is infinite or above a value already reached contradicts itself (a
        user's own term may not keep its word): it proves nothing and is left out.
        """
        reached = self.seen.best_value
        sizes = abs(reached) + abs(lower)
        rounding = 256 * eps_of(self.problem.loss.reference) * sizes
        if not math.isfinite(lower) or lower > reached + rounding:
            return
        # a resumed run knows the last bound but not what it rests on
        if evidence is not None and (self.evidence is None or lower > self.evidence.lower):
            self.evidence = evidence if evidence.wanted(self.proof) else None
        if lower > self.seen.lower:
            self.seen = replace(self.seen, lower=lower, rests_on=rests_on)
