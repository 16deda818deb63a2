"""Sample average: draw as many samples as the accuracy needs, and solve their mean exactly.

Where samples cancel, the minimiser of the mean over k samples is within s^2/(2 alpha k) of
the optimum on average, s^2 the variance of one sample's gradient; elsewhere that holds once
the samples also show the curvature (docs/theory). So the variance is measured on a small
pilot, the samples that make the sampling error a large share of eps are drawn, and the
deterministic engine solves their mean to what is left of eps. `oracles.sampled` then
certifies the answer. Where samples cancel (their error is the same at every X), those that
found X certify it; otherwise fresh ones do, and join the others if they show that more is
needed.
Nothing is stated from fewer samples than show every value that is not rarer than `rarest`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from weakprox.arguments import number
from weakprox.certificates.sampled import (
    GROUPS,
    LEAST_CONFIDENCE,
    RAREST,
    Noise,
    Proof,
    noise_at,
    sampled_gap,
)
from weakprox.certificates.split import FixedDual
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, sqnorm
from weakprox.losses.empirical import Empirical
from weakprox.problem import Problem
from weakprox.protocols import Candidate, DualPoint
from weakprox.solvers._conditional import checked_count, first_point
from weakprox.solvers._curvature import Contradicted
from weakprox.solvers._sample_pool import (
    DRAWS,
    Memory,
    Plan,
    Test,
    check_convexity,
    condensed,
    count,
    drawn,
    left,
    more,
)
from weakprox.solvers._sample_watch import Closed, Watch
from weakprox.solvers.base import Method
from weakprox.solvers.tools import Tools

PILOT = 8  # single samples that show the variance first; they serve like all others
SHARE = 0.8  # of eps, what the sampling error may be by plan
STAGE = 0.5  # of the samples needed, what is drawn before the need is measured again
GROWTH = 1.0  # times the samples kept that one draw may add where the noise depends on X
FRESH = (0.25, 0.5, 1.0, 2.0)  # times the samples kept, what may test their answer
FIRST, NEXT = 0.7, 0.3  # of the chance of error: the first test's, and each next one's
CONFIRM = 1 << 40  # names the streams of samples that are drawn to test a test
RETRIES = 3  # times an engine is asked for more than it promised
RAREST_SHARES = (1e-9, 0.5)  # of the draws; at the upper end eight samples are enough


@dataclass(frozen=True)
class SampleAverage(Method):
    """Certified answers for a G known only through samples; nothing to tune.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the decompositions; as large as needed if not given.
    confidence : float
        Of the certificate, at least 0.8.
    rarest : float
        Values that at least this share of the draws has are accounted for, which takes
        4/rarest samples (400 by default). Rarer values that no sample showed are assumed
        not to move the mean further than the largest value seen would. If samples are
        expensive and their noise is known to have no rare values, raise it: 0.1 needs 40
        samples.
    """

    rank: int | None = None
    confidence: float = 0.95
    rarest: float = RAREST

    answer: ClassVar[Literal["low_rank"]] = "low_rank"
    relative: ClassVar[bool] = True  # can aim at an accuracy relative to f

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        checked_count("rank", self.rank)
        wanted = f"a number from {LEAST_CONFIDENCE} to below 1"
        given = number("confidence", self.confidence, wanted)
        if not LEAST_CONFIDENCE <= given < 1.0:
            raise InputError("confidence", repr(self.confidence), wanted)
        wanted = f"a number from {RAREST_SHARES[0]} to {RAREST_SHARES[1]}"
        share = number("rarest", self.rarest, wanted)
        if not RAREST_SHARES[0] <= share <= RAREST_SHARES[1]:
            raise InputError("rarest", repr(self.rarest), wanted)
        if problem.loss.is_finite_sum:
            wanted = "a sampler: a finite sum needs no samples, use DavisYin"
            raise InputError("loss", repr(problem.loss), wanted)
        if problem.of_spectral.diameter is None:
            problem.constants()  # raises unless G + R is strongly convex

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """The pilot, and what it shows of the noise at the first point."""
        first, cancel = first_point(problem, X), problem.loss.samples_cancel
        pool = drawn(tools, 0, [1] * (PILOT if cancel else 2 * PILOT))
        _, noise = noise_at(problem, problem.loss, first, pool)
        alpha = problem.loss.strong_convexity + problem.penalty.curvature
        across = float(problem.of_spectral.diameter or math.inf)
        memory = Memory(
            X=first,
            V=None,
            h=problem.spectral.value(tools.compressed(first)),
            epoch=0,
            rank=1,
            parameters=Plan(tools.eps, alpha, self.confidence, self.rarest, across),
            pool=pool,
            noise=noise,
            warm=X is not None,
        )
        return self._measured(memory, noise, cancel)

    def finished(self, memory: Memory) -> bool:
        """Whether the certificate shows eps, or the engine cannot do better."""
        return memory.done

    def candidate(self, memory: Memory) -> Candidate:
        """The engine's latest point."""
        return Candidate(memory.X, memory.V, memory.h, memory.epoch, 0)

    def dual(self, problem: Problem, memory: Memory) -> DualPoint:
        """The engine's latest dual point."""
        if memory.dual is None:
            return FixedDual(problem.penalty, problem.penalty.ascend(None, memory.X, 1.0))
        return memory.dual

    def proof(self, memory: Memory) -> Proof | None:
        """What the samples have shown so far, and about which answer."""
        return memory.proof

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """Draw what is missing, then one outer step of the engine on the samples' mean."""
        begins = memory.inner is None
        if begins and problem.loss.samples_cancel and not memory.retries:
            memory = self._enough(problem, memory, tools)
        loss = Empirical(problem.loss, memory.pool, strong_convexity=memory.convexity)
        mean = Problem(loss, problem.penalty, problem.spectral)
        engine = tools.choose(mean, self.rank)
        watch = Watch(problem, mean, engine, memory, tools)
        within = watch.tools()
        if begins:
            inner = engine.start(mean, memory.X if memory.warm else None, within)
            watch.memory = replace(memory, inner=inner, ticks=0, next_try=1, below=math.inf)
        try:
            inner = engine.step(mean, watch.memory.inner, within)
        except Closed:
            return self._closed(problem, watch, tools)
        except Contradicted as found:
            if problem.loss.samples_cancel:
                raise  # the samples' mean bends as G itself does
            least = min(found.strong_convexity, loss.strong_convexity)
            memory = replace(watch.memory, convexity=least, inner=None, warm=True)
            return replace(memory, epoch=memory.epoch + 1)
        last = engine.candidate(inner)
        memory = watch.saw(last, inner)
        if not engine.finished(inner):
            return replace(memory, epoch=memory.epoch + 1)
        if watch.good(last) or not watch.possible or not problem.loss.samples_cancel:
            return self._closed(problem, watch, tools)
        retries, proof = memory.retries + 1, _better(memory.proof, watch.proof())
        memory = replace(watch.memory, retries=retries, proof=proof, done=retries >= RETRIES)
        return replace(memory, inner=None, warm=True, epoch=memory.epoch + 1)

    def _enough(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """As many samples as measurements say; some of them first, to measure better."""
        allowed = memory.parameters.allowed(SHARE * tools.eps)
        least = 0 if memory.proof is None else math.ceil(1.2 * memory.have)  # they were few
        while True:
            have = memory.have
            need = memory.noise.needed(allowed, self.confidence)
            need = max(need, memory.least, least)
            if need <= have or (left(tools) < 1 and have >= least):
                return memory
            stage = need if need <= 2 * have else max(2 * have, math.ceil(STAGE * need))
            fresh = more(tools, have, stage - have)
            memory = replace(memory, pool=condensed(problem.loss, memory.pool + fresh))
            del fresh  # merged: room for the gradients
            _, noise = noise_at(problem, problem.loss, memory.X, memory.pool)
            memory = self._measured(memory, noise, True)
            least = 0

    def _measured(self, memory: Memory, noise: Noise, cancel: bool) -> Memory:
        """The memory with what was measured of the noise, and the error to reckon with."""
        have, seen = memory.have, (noise.variance, noise.concentration)
        plan = replace(memory.parameters, samples=have, variance=seen[0], concentration=seen[1])
        memory = replace(memory, noise=noise, parameters=plan)
        error = noise.error(have, self.confidence) if cancel else self._test(memory).error
        return replace(memory, error=error)

    def _closed(self, problem: Problem, watch: Watch, tools: Tools) -> Memory:
        """The round's end: certified, or more samples."""
        memory = watch.memory
        memory = replace(memory, inner=None, warm=True, retries=0, convexity=None)
        memory = replace(memory, epoch=memory.epoch + 1)
        if not problem.loss.samples_cancel:
            return self._tested(problem, memory, watch, tools)
        proof = watch.proof()
        best = _better(memory.proof, proof)
        return replace(memory, proof=best, done=best.gap <= tools.eps)

    def _tested(self, problem: Problem, memory: Memory, watch: Watch, tools: Tools) -> Memory:
        """What fresh samples say of the round's answer; they join the pool if not enough.

        Answers are tested until one passes, so the chance of error is split among tests.
        """
        assert watch.point is not None
        (X, dual), test = watch.point, self._test(memory)
        rest = left(tools) - test.size  # too few for another test: draw them now
        size = left(tools) if not test.hopeful and rest < memory.least else test.size
        fresh = more(tools, memory.have, int(size))
        try:
            check_convexity(problem.loss, X.dense(), watch.mean.loss, fresh)
        except Contradicted:  # squares are skewed: one such test fails a few times in 10^5
            again = drawn(tools, CONFIRM + memory.have, [size for _, size in fresh])
            check_convexity(problem.loss, X.dense(), watch.mean.loss, again)
        gradient, noise = noise_at(problem, problem.loss, X.dense(), fresh)
        if test.hopeful or left(tools) < 1:
            kept = watch.gradient(X)
            seen, size = sqnorm(gradient - kept), count(fresh)
            error = noise.distance(seen, size, test.confidence)
            gap = sampling = math.inf
            if size >= memory.least:
                rng = tools.rng(DRAWS)
                gap, sampling = sampled_gap(problem, X, dual, kept, error, rng=rng)
            told = Proof(
                X, gap, sampling, self.confidence, size, self.rarest, kept, error, noise
            )
            best = _better(memory.proof, told)
            memory = replace(memory, proof=best, attempts=memory.attempts + 1)
            if best.gap <= tools.eps:
                return replace(memory, done=True)
        memory = replace(memory, pool=memory.pool + fresh)
        return self._measured(memory, noise, False)

    def _test(self, memory: Memory) -> Test:
        """How to test the pool's answer so that pool and test together are smallest."""
        noise, have = memory.noise, memory.have
        allowed = memory.parameters.allowed(SHARE * memory.parameters.eps)
        confidence = 1.0 - (1.0 - self.confidence) * FIRST * NEXT**memory.attempts
        best = (math.inf, math.inf, GROUPS, math.inf)
        for share in FRESH:
            size = max(memory.least, math.ceil(share * have))
            seen = noise.variance * (1 / have + 1 / size)  # in the mean
            error = noise.distance(seen, size, confidence)
            need = have * max(1.0, error / allowed)  # errors fall like the number of samples
            best = min(best, (need + max(memory.least, share * need), need, size, error))
        _, need, size, error = best
        if need <= have:
            return Test(size, confidence, error, hopeful=True)
        most = max(GROWTH * have, memory.least)  # fewer will not end the run
        grown = math.ceil(min(most, max(need - have, 0.25 * have)))
        return Test(max(GROUPS, grown), confidence, noise.variance / have, hopeful=False)


def _better(old: Proof | None, new: Proof) -> Proof:
    return new if old is None or new.gap <= old.gap else old
