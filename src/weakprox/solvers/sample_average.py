"""Sample average: draw as many samples as the accuracy needs, and solve their mean exactly.

If samples cancel, the minimiser of the mean over k samples is within s^2/(2 alpha k) of the
optimum on average, s^2 being the variance of one sample's gradient. Otherwise that holds
once the samples also show the curvature (docs/theory). A run has four stages.

1. A small pilot measures the variance.
2. Samples are drawn until the sampling error is a large share of eps.
3. A deterministic solver, called the engine here, solves their mean to the rest of eps.
4. `weakprox.certificates.sampled` certifies the answer. If samples cancel (their error is
   the same at every X), those that found X certify it. Otherwise fresh samples do, and they
   join the others if more are needed.

Certificates require so many samples that a value of frequency `rarest` is not missed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weakprox.arguments import number, optional_counts
from weakprox.certificates.sampled import (
    GROUPS,
    LEAST_CONFIDENCE,
    RAREST,
    Noise,
    Proof,
    batches_for,
    even_sizes,
    least_samples,
    noise_at,
    sampled_gap,
)
from weakprox.certificates.split import FixedDual
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, inner, sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.empirical import Empirical
from weakprox.losses.inputs import CHUNK_BYTES
from weakprox.metering import StopRun
from weakprox.problem import Problem
from weakprox.protocols import (
    Batch,
    Candidate,
    DualPair,
    DualPoint,
    Loss,
    OwnBound,
    loss_capabilities,
)
from weakprox.resources.memory import room
from weakprox.result import Status
from weakprox.solvers._gap_driven import Contradicted
from weakprox.solvers.base import Method, Tools, first_point
from weakprox.solvers.davis_yin import DavisYin, LeanSplitting

PILOT = 8  # single samples that show the variance first; they are used like all others
SHARE = 0.8  # planned sampling error, as a share of eps
# share of the required samples that is drawn before the requirement is measured again
STAGE = 0.5
GROWTH = 1.0  # largest draw, as a multiple of the samples kept, if the noise depends on X
# possible numbers of samples for a test, as multiples of the samples kept
FRESH = (0.25, 0.5, 1.0, 2.0)
FIRST, NEXT = 0.7, 0.3  # shares of the chance of error: of the first test, and of each next one
DRAWS = 1 << 60  # number of the random streams of samples
CONFIRM = 1 << 40  # number of the random streams of repeated tests
CLEAR = 5.0  # standard errors that contradict a declared constant
ENOUGH = 128  # samples: means of fewer squares are skewed, and their scatter misleads
RETRIES = 3  # number of times that the engine's target is lowered after it stopped too early
HOPELESS = 0.9  # share of eps: no optimisation can compensate for a larger sampling error
OVERHEAD = 1.2  # goal of a round with too few samples, as a multiple of the sampling error
FAILED = 0.6  # an estimate is checked again once it is this share of one that failed
LATER = 1.3  # growth of the time between checks if the engine estimates no gap
RAREST_SHARES = (1e-9, 0.5)  # of the draws; at the upper end eight samples are enough

Pool = tuple[tuple[Batch, int], ...]


@dataclass(frozen=True)
class Sampling:
    """Settings of the run and its latest measurements."""

    eps: float
    alpha: float  # strong convexity
    confidence: float  # of the certificate
    rarest: float  # frequency from which a value must have been seen
    diameter: float = math.inf  # of the set of h; it limits the sampling error if alpha is 0
    samples: int = 0  # whose mean is minimised
    variance: float = math.nan  # of one sample's gradient,
    concentration: float = math.nan  # and the number of directions that share it

    def cost(self, error: float) -> float:
        """Return the loss in f due to a squared error of the mean gradient."""
        return error / (2 * self.alpha) if self.alpha else math.sqrt(error) * self.diameter

    def allowed(self, cost: float) -> float:
        """Return the squared error of the mean gradient that causes this loss in f."""
        return 2 * self.alpha * cost if self.alpha else (cost / self.diameter) ** 2


@dataclass(frozen=True)
class Memory:
    """Everything the next step reads. A step is one outer step of the engine."""

    X: Array
    V: LowRank | None
    h: float
    epoch: int
    rank: int
    parameters: Sampling
    pool: Pool
    noise: Noise
    warm: bool  # whether X is worth starting from
    error: float = math.inf  # bound on |e|^2, e the error of the pool's gradient
    inner: Any = None  # the engine's memory; None: start it
    convexity: float | None = None  # the pool's own, if gradients have shown it
    dual: DualPoint | None = None
    below: float = math.inf  # estimates of the engine's gap that are worth checking
    ticks: int = 0  # inner steps of this round
    next_try: int = 1  # step of the next check, for engines that estimate no gap
    retries: int = 0  # number of times that the engine's target was lowered
    attempts: int = 0  # certificates tried with fresh samples so far
    proof: Proof | None = None
    done: bool = False

    @property
    def least(self) -> int:
        """Fewest samples for a certificate."""
        return least_samples(self.parameters.rarest)

    @property
    def have(self) -> int:
        """Samples kept."""
        return count(self.pool)


@dataclass(frozen=True)
class Test:
    """Number of fresh samples to test with, the expected error, and whether it may pass."""

    size: int
    confidence: float
    error: float
    hopeful: bool


@dataclass(frozen=True)
class SampleAverage(Method):
    """Certified answers for a G known only through samples, without tuning.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the decompositions; by default as large as needed.
    confidence : float
        Of the certificate, at least 0.8.
    rarest : float
        Values that occur in at least this share of the draws are accounted for, which takes
        4/rarest samples (400 by default). Rarer values that were not observed are assumed not
        to move the mean further than the largest observed value would. If samples are expensive
        and their noise is known to have no rare values, raise it: 0.1 needs 40 samples.
    """

    rank: int | None = None
    confidence: float = 0.95
    rarest: float = RAREST

    def check(self, problem: Problem) -> None:
        optional_counts(rank=self.rank)
        for name, (low, high), most in (
            ("confidence", (LEAST_CONFIDENCE, math.nextafter(1.0, 0.0)), "below 1"),
            ("rarest", RAREST_SHARES, f"{RAREST_SHARES[1]}"),
        ):
            given, wanted = getattr(self, name), f"a number from {low} to {most}"
            if not low <= number(name, given, wanted) <= high:
                raise InputError(name, repr(given), wanted)
        if problem.loss.is_finite_sum:
            wanted = "a sampler: a finite sum needs no samples, use DavisYin"
            raise InputError("loss", repr(problem.loss), wanted)
        if problem.of_spectral.diameter is None:
            problem.constants()  # raises unless G + R is strongly convex

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Draw the pilot and measure the noise at the first point."""
        first, cancel = first_point(problem, X), problem.loss.samples_cancel
        pool = drawn(tools, 0, [1] * (PILOT if cancel else 2 * PILOT))
        _, noise = noise_at(problem, problem.loss, first, pool)
        alpha = problem.loss.strong_convexity + problem.penalty.curvature
        across = float(problem.of_spectral.diameter or math.inf)
        sampling = Sampling(tools.eps, alpha, self.confidence, self.rarest, across)
        h = problem.spectral.value(tools.compressed(first))
        memory = Memory(first, None, h, 0, 1, sampling, pool, noise, warm=X is not None)
        return self._measured(memory, noise, cancel)

    def finished(self, memory: Memory) -> bool:
        """Return True if the certificate proves eps, or the engine cannot do better."""
        return memory.done

    def candidate(self, memory: Memory) -> Candidate:
        """Return the engine's latest point."""
        return Candidate(memory.X, memory.V, memory.h, memory.epoch, 0)

    def dual(self, problem: Problem, memory: Memory) -> DualPoint:
        """Return the engine's latest dual point."""
        if memory.dual is None:
            return FixedDual(problem.penalty, problem.penalty.ascend(None, memory.X, 1.0))
        return memory.dual

    def proof(self, memory: Memory) -> Proof | None:
        """Return the best answer so far with what the samples prove about it."""
        return memory.proof

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """Draw what is missing, then one outer step of the engine on the samples' mean."""
        begins = memory.inner is None
        if begins and problem.loss.samples_cancel and not memory.retries:
            memory = self._enough(problem, memory, tools)
        loss = Empirical(problem.loss, memory.pool, strong_convexity=memory.convexity)
        mean = Problem(loss, problem.penalty, problem.spectral)
        engine = tools.choose(mean, self.rank)
        # its dual points bound only the problem of the mean
        if isinstance(engine, LeanSplitting):
            engine = DavisYin(rank=self.rank)
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
                raise  # the samples' mean has the curvature of G
            less = found.strong_convexity
            memory = replace(watch.memory, convexity=less, inner=None, warm=True)
            return replace(memory, epoch=memory.epoch + 1)
        last = engine.candidate(inner)
        memory = watch.saw(last, inner=inner, rank=inner.rank)
        if not engine.finished(inner):
            return replace(memory, epoch=memory.epoch + 1)
        if watch.good(last) or not watch.possible or not problem.loss.samples_cancel:
            return self._closed(problem, watch, tools)
        retries, proof = memory.retries + 1, _better(memory.proof, watch.proof())
        memory = replace(watch.memory, retries=retries, proof=proof, done=retries >= RETRIES)
        return replace(memory, inner=None, warm=True, epoch=memory.epoch + 1)

    def _enough(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """Draw the samples that are needed, in stages that measure the need again."""
        allowed = memory.parameters.allowed(SHARE * tools.eps)
        # if there is a proof, the last samples were too few
        least = 0 if memory.proof is None else math.ceil(1.2 * memory.have)
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
        """Return the memory with the measured noise and the resulting error bound."""
        have, seen = memory.have, (noise.variance, noise.concentration)
        sampling = replace(
            memory.parameters, samples=have, variance=seen[0], concentration=seen[1]
        )
        memory = replace(memory, noise=noise, parameters=sampling)
        error = noise.error(have, self.confidence) if cancel else self._test(memory).error
        return replace(memory, error=error)

    def _closed(self, problem: Problem, watch: Watch, tools: Tools) -> Memory:
        """End the round: certify the answer or draw more samples."""
        memory = watch.memory
        memory = replace(memory, inner=None, warm=True, retries=0, convexity=None)
        memory = replace(memory, epoch=memory.epoch + 1)
        if not problem.loss.samples_cancel:
            return self._tested(problem, memory, watch, tools)
        best = _better(memory.proof, watch.proof())
        return replace(memory, proof=best, done=best.gap <= tools.eps)

    def _tested(self, problem: Problem, memory: Memory, watch: Watch, tools: Tools) -> Memory:
        """Test the round's answer with fresh samples, which join the pool if it fails.

        Answers are tested until one passes, so the chance of error is split among tests.
        """
        assert watch.point is not None
        (X, dual), test = watch.point, self._test(memory)
        rest = left(tools) - test.size  # too few for another test: draw them now
        size = left(tools) if not test.hopeful and rest < memory.least else test.size
        fresh = more(tools, memory.have, int(size))
        try:
            check_convexity(problem.loss, X.dense(), watch.mean.loss, fresh)
        # squares are skewed: a single test of this kind fails a few times in 10^5
        except Contradicted:
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
            told = gap, sampling, self.confidence, size, self.rarest, kept, error, noise
            best = _better(memory.proof, Proof(X, *told))
            memory = replace(memory, proof=best, attempts=memory.attempts + 1)
            if best.gap <= tools.eps:
                return replace(memory, done=True)
        memory = replace(memory, pool=memory.pool + fresh)
        return self._measured(memory, noise, False)

    def _test(self, memory: Memory) -> Test:
        """Return the test for which pool and test together need the fewest samples."""
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
        most = max(GROWTH * have, memory.least)  # fewer would not end the run
        grown = math.ceil(min(most, max(need - have, 0.25 * have)))
        return Test(max(GROUPS, grown), confidence, noise.variance / have, hopeful=False)


def _better(old: Proof | None, new: Proof) -> Proof:
    return new if old is None or new.gap <= old.gap else old


class Closed(Exception):  # noqa: N818 (a signal, not an error)
    """The samples' mean is solved well enough; caught in `SampleAverage.step`."""


class Watch:
    """Checks the engine's points, given the bound on the sampling error.

    The engine solves `mean`, the problem of the samples' mean.
    """

    def __init__(
        self, problem: Problem, mean: Problem, engine: Method, memory: Memory, outer: Tools
    ) -> None:
        self.problem, self.mean, self.engine = problem, mean, engine
        self.memory, self.outer = memory, outer
        p = memory.parameters
        self.paid = p.cost(memory.error)  # sampling error at full strong convexity
        self.possible = self.paid <= HOPELESS * p.eps
        self.goal = p.eps if self.possible else OVERHEAD * self.paid  # for f(X) - f*
        self.point: tuple[LowRank, DualPoint] | None = None  # the last one checked
        self.found = (math.inf, math.inf)  # what `sampled_gap` returned for it

    @property
    def target(self) -> float:
        """Largest gap of the engine for which some gap/(1-theta) + paid/theta is the goal.

        If alpha is 0, the gap and the sampling error add up.
        """
        spare = math.sqrt(self.goal) - math.sqrt(self.paid)
        left = spare * spare if self.memory.parameters.alpha else self.goal - self.paid
        return left / 4.0**self.memory.retries

    def tools(self) -> Tools:
        """Return oracles on the samples' mean, counted with those of the run."""
        outer = replace(self.outer, eps=self.target, tol=0.0, tick=self.tick)
        return replace(outer, problem=self.mean)

    def tick(self, candidate: Candidate) -> None:
        """Report an inner step to the run, and end the round if its point is good enough."""
        step = self.memory.ticks + 1
        self.saw(candidate, ticks=step)
        shown = replace(candidate, gap=math.inf, dual=None, value=None)  # of another problem
        self.outer.tick(replace(shown, epoch=self.memory.epoch + 1, step=step))
        if self._worth_checking(candidate) and self.good(candidate):
            raise Closed

    def saw(self, candidate: Candidate, **changes: Any) -> Memory:
        """Return the memory with the engine's latest point, and with these changes."""
        point = {"X": candidate.X, "V": candidate.V, "h": candidate.h_bound}
        dual = candidate.dual or self.memory.dual
        assert not isinstance(dual, OwnBound)  # `step` uses no such engine
        self.memory = replace(self.memory, **point, dual=dual, **changes)
        return self.memory

    def _worth_checking(self, candidate: Candidate) -> bool:
        """Return True if the estimated gap or the time since the last check requires it."""
        memory = self.memory
        if candidate.gap < math.inf:
            worth = candidate.gap <= min(self.target, memory.below)
            below = FAILED * candidate.gap if candidate.gap > 0.0 else -math.inf
            self.memory = replace(memory, below=below) if worth else memory
            return worth
        if memory.ticks < memory.next_try:
            return False
        self.memory = replace(memory, next_try=math.ceil(LATER * memory.ticks) + 1)
        return True

    def good(self, candidate: Candidate) -> bool:
        """Return True if the candidate's gap, with the sampling error, reaches the goal."""
        dual = candidate.dual or self.engine.dual(self.mean, self.memory.inner)
        assert not isinstance(dual, OwnBound)
        X = dual.at if isinstance(dual, DualPair) else None
        X = candidate.V if X is None else X
        if not isinstance(X, LowRank):
            X = self.outer.compressed(candidate.X if X is None else X)
        self.point, rng, gradient = (X, dual), self.outer.rng(DRAWS), self.gradient(X)
        self.found = sampled_gap(
            self.problem, X, dual, gradient, self.memory.error, rng=rng, enough=self.goal
        )
        return self.found[0] <= self.goal

    def gradient(self, X: LowRank) -> Array:
        """Return the mean gradient of the samples kept."""
        return self.mean.loss.grad(X.dense(), self.mean.loss.everything())

    def proof(self) -> Proof:
        """Return the last check as a proof; its gap is infinite if samples are too few."""
        assert self.point is not None
        memory, p, X = self.memory, self.memory.parameters, self.point[0]
        found = self.found if memory.have >= memory.least else (math.inf, math.inf)
        told = Proof(X, *found, p.confidence, memory.have, p.rarest, self.gradient(X))
        return replace(told, error=memory.error, noise=memory.noise)


def count(pool: Iterable[tuple[Batch, int]]) -> int:
    """Return the number of samples in the batches."""
    return sum(size for _, size in pool)


def left(tools: Tools) -> float:
    """Return how many samples may still be drawn."""
    most = tools.meter.budget.max_samples
    return math.inf if most is None else max(0, most - tools.meter.counts.samples)


def drawn(tools: Tools, have: int, sizes: list[int]) -> Pool:
    """Draw batches of these sizes, from streams named by the number of samples so far."""
    batches = [tools.loss.draw(tools.rng(DRAWS, have, i), k) for i, k in enumerate(sizes)]
    return tuple((sized.batch, sized.size) for sized in batches)


def more(tools: Tools, have: int, wanted: int) -> Pool:
    """Draw this many more samples, or as many as the limits allow."""
    size = int(min(wanted, left(tools)))
    if size < 1:
        raise StopRun(Status.MAX_SAMPLES)
    chunk = tools.problem.loss.chunk
    if (have + size) * (CHUNK_BYTES // chunk) > room():
        raise StopRun(Status.MAX_MEMORY)
    sizes: list[int] = []
    for group in even_sizes(size, batches_for(tools.problem.loss)):
        whole, rest = divmod(group, chunk)
        sizes += [chunk] * whole + [rest] * (rest > 0)
    return drawn(tools, have, sizes)


def condensed(loss: Any, pool: Pool) -> Pool:
    """Merge the smallest batches, if the loss can, so that few are left."""
    merged = loss_capabilities(loss).merged
    if merged is None:
        return pool
    kept = list(pool)
    # single ones are merged together, which keeps their largest distance exact
    if len(pool) > GROUPS:
        ones = [batch for batch, size in pool if size == 1]
        kept = [entry for entry in pool if entry[1] > 1]
        groups = min(len(ones), max(1, GROUPS - len(kept)))
        parts = [ones[i::groups] for i in range(groups)]
        kept += [(merged(part), len(part)) for part in parts]
    kept.sort(key=lambda entry: entry[1])
    while len(kept) > GROUPS:
        (one, j), (two, k), *kept = kept
        kept = sorted([*kept, (merged([one, two]), j + k)], key=lambda entry: entry[1])
    return tuple(kept)


def check_convexity(loss: Loss, X: Array, kept: Any, fresh: Pool) -> None:
    """Raise if G has too little curvature in the direction where the samples have least.

    The samples kept chose the direction, so fresh ones have to measure it.
    """
    declared, (_, D) = loss.strong_convexity, kept.flattest
    if declared == 0.0 or len(fresh) < GROUPS or count(fresh) < ENOUGH:
        return
    bends = [inner(loss.grad(X + D, batch) - loss.grad(X, batch), D) for batch, _ in fresh]
    sizes = np.array([size for _, size in fresh], dtype=float)
    mean = float(np.average(bends, weights=sizes))
    scatter = float(sizes @ (np.array(bends) - mean) ** 2) / (len(bends) - 1)
    if mean + CLEAR * math.sqrt(scatter / sizes.sum()) < (1 - 1e-3) * declared:
        raise Contradicted(0.5 * max(mean, 1e-6 * declared))
