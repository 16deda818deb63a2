"""The samples that SampleAverage keeps, its memory, and how it draws more of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.certificates.sampled import (
    GROUPS,
    Noise,
    Proof,
    batches_for,
    even_sizes,
    least_samples,
)
from weakprox.linalg.arrays import Array, inner
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.inputs import CHUNK_BYTES
from weakprox.metering import StopRun
from weakprox.protocols import Batch, DualPoint, Loss, loss_capabilities
from weakprox.resources.limits import room
from weakprox.result import Status
from weakprox.solvers._curvature import Contradicted
from weakprox.solvers.tools import Tools

DRAWS = 1 << 60  # names the streams of samples
CLEAR = 5.0  # standard errors that contradict a declared constant
ENOUGH = 128  # samples: means of fewer squares are skewed, and their scatter misleads

Pool = tuple[tuple[Batch, int], ...]


@dataclass(frozen=True)
class Plan:
    """What the run works with, as measured last.

    Attributes
    ----------
    eps, alpha, confidence : float
        Accuracy, strong convexity, confidence of the certificate.
    diameter : float
        Of the set of h; it limits the sampling error if alpha is 0.
    rarest : float
        Share of the draws that a value has which must have been seen.
    samples : int
        Samples whose mean is minimised.
    variance, concentration : float
        Noise of one sample's gradient: its variance, and how many directions share it.
    """

    eps: float
    alpha: float
    confidence: float
    rarest: float
    diameter: float = math.inf
    samples: int = 0
    variance: float = math.nan
    concentration: float = math.nan

    def cost(self, error: float) -> float:
        """Return what a squared error of the mean gradient costs in f."""
        return error / (2 * self.alpha) if self.alpha else math.sqrt(error) * self.diameter

    def allowed(self, cost: float) -> float:
        """Return the squared error of the mean gradient that costs this much in f."""
        return 2 * self.alpha * cost if self.alpha else (cost / self.diameter) ** 2


@dataclass(frozen=True)
class Memory:
    """Everything the next step reads; one step is one outer step of the engine."""

    X: Array
    V: LowRank | None
    h: float
    epoch: int
    rank: int
    parameters: Plan
    pool: Pool
    noise: Noise
    warm: bool  # whether X is worth starting from
    error: float = math.inf  # |e|^2 of the pool's gradient to reckon with
    inner: Any = None  # the engine's memory; None: start it
    convexity: float | None = None  # the pool's own, where gradients have shown it
    dual: DualPoint | None = None
    below: float = math.inf  # estimates of the engine's gap that are worth checking
    ticks: int = 0  # inner steps of this round
    next_try: int = 1  # the one to check at, for engines that estimate no gap
    retries: int = 0  # times the engine was asked for more than it promised
    attempts: int = 0  # certificates asked of fresh samples so far
    proof: Proof | None = None
    done: bool = False

    @property
    def least(self) -> int:
        """Samples without which nothing is stated."""
        return least_samples(self.parameters.rarest)

    @property
    def have(self) -> int:
        """Samples kept."""
        return count(self.pool)


@dataclass(frozen=True)
class Test:
    """Fresh samples to test with, the error to reckon with, and whether it may succeed."""

    size: int
    confidence: float
    error: float
    hopeful: bool


def count(pool: Iterable[tuple[Batch, int]]) -> int:
    """Samples in the batches."""
    return sum(size for _, size in pool)


def left(tools: Tools) -> float:
    """Samples that may still be drawn."""
    meter = tools.loss._meter
    most = meter.budget.max_samples
    return math.inf if most is None else max(0, most - meter.counts.samples)


def drawn(tools: Tools, have: int, sizes: list[int]) -> Pool:
    """Batches of these sizes, from streams that are named by the samples there are."""
    batches = [tools.loss.draw(tools.rng(DRAWS, have, i), k) for i, k in enumerate(sizes)]
    return tuple((sized.batch, sized.size) for sized in batches)


def more(tools: Tools, have: int, wanted: int) -> Pool:
    """So many samples more, or those that the limits still allow."""
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
    """The smallest batches merged where the loss can, so that few are left."""
    merged = loss_capabilities(loss).merged
    if merged is None:
        return pool
    kept = list(pool)
    if len(pool) > GROUPS:  # single ones at once: how far they reach stays exact
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
    """Raise if G bends less than it declares where the samples kept bend least.

    They chose the direction, so it is fresh ones that judge it.
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
