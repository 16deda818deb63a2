"""Parts of a practical epoch: its course, its rank, its line search and its gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, inner, sqnorm
from weakprox.linalg.kernels import add_scaled
from weakprox.penalties import Smoothed
from weakprox.theory._parameters import Parameters
from weakprox.theory.gradients import Pool, Snapshot

IDLE = 5  # steps in a row that do not need the rank, before it is lowered
TRIALS = 12  # derivatives that a line search may take
FLAT = 0.01  # relative size of the derivative, or of the bracket, that ends it
FEWEST = 8  # inner samples at least: one for each group that shows their variance


@dataclass(frozen=True)
class Course:
    """What a practical run knows between epochs, beyond the paper's memory."""

    level: int  # how often the accuracy has been halved
    weight: float  # proximal weight, from alpha upwards
    variance: float  # of one sampled gradient
    pool: Pool | None = None  # samples so far, where their centre says everything
    value: float = math.inf  # best value of a low-rank point
    bound: float = -math.inf  # best estimate of a lower bound
    cut_at: float = math.inf  # gap of the iterate when it was last cut to the rank

    @property
    def gap(self) -> float:
        """Estimated distance of the best low-rank point from the optimum."""
        return self.value - self.bound


def accuracy(p: Parameters, level: int) -> float:
    """What an epoch is to reach in the smoothed problem: half of the one before."""
    return p.C0 * 2.0**-level


def smoothing(p: Parameters, level: int) -> float:
    """Mu with a bias of twice the accuracy, but never below the theory's."""
    return p.mu * max(1.0, 2.0 * accuracy(p, level) / p.bias) if p.bias > 0.0 else p.mu


@dataclass
class Rank:
    """The oracle's rank: raised where its delta asks for it, lowered where it idles."""

    now: int
    most: int
    least: int = 1
    idle: int = 0

    def follow(self, used: int, lost: float, allowed: float) -> None:
        """After a step that used so many triplets and lost so much by leaving out others."""
        self.idle = self.idle + 1 if used + 2 < self.now else 0
        if lost > allowed and self.now < self.most:
            self.now = self.least = min(2 * self.now, self.now + 10, self.most)
        elif self.idle >= IDLE and used + 2 >= self.least:  # what was raised stays raised
            self.now, self.idle = used + 2, 0


@dataclass
class Line:
    """The segment from X to X + D, and the smoothed objective along it."""

    R: Smoothed
    X: Array
    D: Array
    slope: float  # of the whole objective at X, h included by convexity
    factor: float  # 2 where the gradient is noisy: Young's price
    square: float = field(init=False)
    pull: float = field(init=False)  # the penalty's share of the slope

    def __post_init__(self) -> None:
        """Products that every trial needs."""
        self.square = sqnorm(self.D)
        self.pull = inner(self.R.grad(self.X), self.D)

    def derivative(self, eta: float, curvature: float) -> float:
        """At X + eta D, for a G of this curvature."""
        bend = inner(self.R.grad(self.X + eta * self.D), self.D) - self.pull
        return self.slope + self.factor * (curvature * self.square * eta + bend)

    def minimum(self, curvature: float, least: float) -> float:
        """Where the derivative comes up to zero, by regula falsi from the theory's step.

        It is not positive where the search ends, nor before, so that the objective is
        never above what the theory's step would have reached.
        """
        low, high = min(least, 1.0), 1.0
        below, above = self.derivative(low, curvature), self.derivative(high, curvature)
        if below >= 0.0 or above <= 0.0:
            return low if below >= 0.0 else high
        for _ in range(TRIALS):
            eta = low - below * (high - low) / (above - below)
            at = self.derivative(eta, curvature)
            if at > 0.0:
                high, above, below = eta, at, 0.5 * below  # Illinois: the end that stays
            else:
                low, below, above = eta, at, 0.5 * above
            flat = -FLAT * abs(self.slope) <= at <= 0.0
            if flat or high - low <= FLAT * high:
                break
        return low


@dataclass
class Source:
    """Variance-reduced gradients of an epoch, from as many samples as they need."""

    loss: Any  # metered
    p: Parameters
    snapshot: Snapshot
    rng: np.random.Generator
    quiet: bool  # no inner noise: samples cancel, or all terms are taken
    target: float  # accuracy of the epoch
    first_gap: float = math.inf  # at the snapshot
    size: int = FEWEST

    def proximal_target(
        self, X: Array, R: Smoothed, weight: float, gap: float, k_t: int | None, out: Any
    ) -> Array:
        """X - gradient/weight; `gap` is that of the step before, infinite at first."""
        first = gap == math.inf
        if first or self.quiet or k_t is not None:
            size = self.loss.n_terms if self.quiet else k_t or 0
            return self.snapshot.target(
                self.loss, X, R, weight, self.rng, size, first=first, out=out
            )
        if self.first_gap == math.inf:
            self.first_gap = gap
        A = self._reduced(X, gap)
        R.target(X, A, weight)
        return A

    def _reduced(self, X: Array, gap: float) -> Array:
        """Samples until their variance is a small share of what is left to gain.

        Gaps from noisy gradients are too large in the mean, so half of them is trusted.
        """
        room = self.p.alpha * max(0.5 * (self.first_gap + gap), self.target)
        price = 8.0 if self.p.finite_sum else 16.0
        found = self.snapshot.difference(self.loss, X, self.rng, min(self.size, self.p.k_t))
        while True:
            wanted = min(math.ceil(price * found.variance / room), self.p.k_t)
            if wanted <= found.size:
                break
            missing = wanted - found.size
            found = found.joined(self.snapshot.difference(self.loss, X, self.rng, missing))
        self.size = max(FEWEST, wanted)
        assert self.snapshot.gradient is not None
        add_scaled(found.mean, 1.0, self.snapshot.gradient)
        return found.mean


def opened(
    loss: Any,
    p: Parameters,
    X: Array,
    course: Course,
    rng: np.random.Generator,
    *,
    k_s: int | None,
    k_t: int | None,
) -> tuple[Source, Course]:
    """Gradients from a snapshot at X, and what its samples tell later epochs.

    Where the samples' centre says everything, later epochs reuse it, and the exact
    minimiser over k of them is within sigma^2/(2 alpha k) in the mean: k for an eighth of
    the accuracy. Elsewhere the snapshot is the paper's, with the variance as measured.
    """
    target = accuracy(p, course.level)
    if p.finite_sum:
        # an inner sample costs two gradients, so half of the terms cost as much as all
        full = 2 * p.k_t >= p.n_terms if k_t is None else k_t >= p.n_terms
        snapshot = Snapshot.take(loss, X, rng, None)
        return Source(loss, p, snapshot, rng, loss.samples_cancel or full, target), course
    needed, most = course.variance / (p.alpha * target), p.k_s(course.level)
    if loss.samples_cancel and loss.has_centre:
        kept = 0 if course.pool is None else course.pool.size
        fresh = max(1, min(math.ceil(4.0 * needed), most) - kept) if k_s is None else k_s
        snapshot = Snapshot.pooled(loss, X, rng, fresh, course.pool)
        course = replace(course, pool=snapshot.pool)
    elif k_s is None and not loss.samples_cancel:
        size = max(FEWEST, min(math.ceil(16.0 * needed), most))
        snapshot, variance = Snapshot.measured(loss, X, rng, size)
        course = replace(course, variance=variance)
    else:
        snapshot = Snapshot.take(loss, X, rng, most if k_s is None else k_s)
    return Source(loss, p, snapshot, rng, loss.samples_cancel, target), course
