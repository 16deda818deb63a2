"""Counting and limiting work by wrapping the oracles: solvers contain no counters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array
from weakprox.protocols import Batch, Extreme, Loss, SpectralTerm, WeakProx
from weakprox.result import Counts, Status


class StopRun(Exception):  # noqa: N818 (a signal, not an error)
    """Raised inside a step when a limit is reached; only the loop catches it."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.label)
        self.status = status


@dataclass(frozen=True)
class Budget:
    """Limits on work; None means no limit."""

    max_seconds: float | None = None
    max_samples: int | None = None
    max_svds: int | None = None


class Meter:
    """Clock and counters of a run; raises StopRun before work that would exceed them."""

    def __init__(self, budget: Budget, counts: Counts | None = None) -> None:
        self.budget = budget
        self.counts = Counts() if counts is None else counts
        self.started = time.perf_counter()
        self.idle = 0.0  # seconds spent on looking, not on solving

    @property
    def seconds(self) -> float:
        """Time spent solving so far."""
        return time.perf_counter() - self.started - self.idle

    def check(self, *, samples: int = 0, svds: int = 0) -> None:
        """Raise if the work about to be done goes beyond a limit."""
        limit = self.budget
        elapsed = time.perf_counter() - self.started  # users mean the clock on the wall
        if limit.max_seconds is not None and elapsed > limit.max_seconds:
            raise StopRun(Status.MAX_SECONDS)
        if _beyond(self.counts.samples + samples, limit.max_samples):
            raise StopRun(Status.MAX_SAMPLES)
        if _beyond(self.counts.svds + svds, limit.max_svds):
            raise StopRun(Status.MAX_SVDS)


def _beyond(count: int, limit: int | None) -> bool:
    return limit is not None and count > limit


def gradient(loss: Loss, X: Array, batch: Batch, out: Array | None) -> Array:
    """The loss's gradient, over `out` where there is one and the loss knows how."""
    into = getattr(loss, "grad_into", None)
    if out is None or into is None:
        return loss.grad(X, batch)
    return into(X, batch, out)


@dataclass(frozen=True)
class Sized:
    """A batch that knows how many samples it holds."""

    batch: Batch
    size: int


class MeteredLoss:
    """A loss whose draws and gradients are counted."""

    def __init__(self, loss: Loss, meter: Meter) -> None:
        self._loss = loss
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loss, name)

    @property
    def samples_drawn(self) -> int:
        """Samples counted so far."""
        return self._meter.counts.samples

    def draw(self, rng: np.random.Generator, size: int) -> Sized:
        """Count and limit samples."""
        self._meter.check(samples=size)
        batch = self._loss.draw(rng, size)
        self._meter.counts.samples += size
        return Sized(batch, size)

    def everything(self) -> Sized:
        """All terms; not counted as samples, since nothing is drawn."""
        self._meter.check()
        self._meter.counts.full_gradients += 1
        return Sized(self._loss.everything(), self._loss.n_terms)

    def grad(
        self, X: Array, batch: Sized, *, counted: bool = True, out: Array | None = None
    ) -> Array:
        """Count one gradient per sample; not where samples cancel and cost nothing."""
        if counted:
            self._meter.counts.gradients += batch.size
        return gradient(self._loss, X, batch.batch, out)

    @property
    def has_centre(self) -> bool:
        """Whether the loss is an isotropic quadratic that shows its centre."""
        return hasattr(self._loss, "centre")

    def centre(self, batch: Sized, *, counted: bool) -> Array:
        """The centre over a batch; counted as its gradients, which it stands for."""
        if counted:
            self._meter.counts.gradients += batch.size
        return self._loss.centre(batch.batch)  # type: ignore[attr-defined]

    def counted(self, gradients: int) -> None:
        """Count gradients of the whole sum that a fused pass has taken of its own."""
        self._meter.counts.gradients += gradients
        self._meter.counts.full_gradients += gradients

    def spread(self, X: Array, batch: Sized) -> float:
        """Gradient variance over a batch."""
        self._meter.counts.gradients += batch.size
        return self._loss.spread(X, batch.batch)


class MeteredSpectral:
    """A spectral term whose decompositions are counted."""

    def __init__(self, spectral: SpectralTerm, meter: Meter) -> None:
        self._spectral = spectral
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spectral, name)

    def weak_prox(self, A: Array, *, rank: int, **options: Any) -> WeakProx:
        """Count one SVD of the rank asked for."""
        self._meter.check(svds=1)
        found = self._spectral.weak_prox(A, rank=rank, **options)
        self._meter.counts.svds += 1
        self._meter.counts.rank_one_svds += rank
        self._meter.counts.passes += found.passes
        return found

    def counted(self, rank: int, passes: int) -> None:
        """Count a decomposition that a solver makes of its own."""
        self._meter.check(svds=1)
        self._meter.counts.svds += 1
        self._meter.counts.rank_one_svds += rank
        self._meter.counts.passes += passes

    def extreme(self, G: Array, **options: Any) -> Extreme:
        """Count one SVD of rank one."""
        self._meter.check(svds=1)
        found = self._spectral.extreme(G, **options)  # type: ignore[attr-defined]
        self._meter.counts.svds += 1
        self._meter.counts.rank_one_svds += 1
        self._meter.counts.passes += found.passes
        return found  # type: ignore[no-any-return]
