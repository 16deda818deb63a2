"""Count and limit work by wrapping the oracles; solvers contain no counters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox import protocols
from weakprox.linalg.arrays import Array
from weakprox.linalg.pending import Pending, formed
from weakprox.protocols import Batch, Loss, SpectralTerm
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
        self.idle = 0.0  # seconds spent on evaluation, not on solving

    @property
    def seconds(self) -> float:
        """Seconds spent solving so far."""
        return time.perf_counter() - self.started - self.idle

    def check(self, *, samples: int = 0, svds: int = 0) -> None:
        """Raise if the work about to be done exceeds a limit."""
        limit, counts = self.budget, self.counts
        if limit.max_seconds is not None:
            elapsed = time.perf_counter() - self.started  # wall time, including evaluations
            if elapsed > limit.max_seconds:
                raise StopRun(Status.MAX_SECONDS)
        if limit.max_samples is not None and counts.samples + samples > limit.max_samples:
            raise StopRun(Status.MAX_SAMPLES)
        if limit.max_svds is not None and counts.svds + svds > limit.max_svds:
            raise StopRun(Status.MAX_SVDS)


def gradient(loss: Loss, X: Array, batch: Batch, out: Array | None) -> Array:
    """Return the loss's gradient, written to `out` if given and supported by the loss."""
    into = protocols.loss_capabilities(loss).grad_into
    if out is None or into is None:
        return loss.grad(X, batch)
    return into(X, batch, out)


def tangent(loss: Loss, X: Array, out: Array | None) -> tuple[float, Array]:
    """Return value and gradient at X of an affine function that is nowhere above G.

    The gradient is written to `out` if that is given and supported by the loss.
    """
    own = protocols.loss_capabilities(loss).tangent
    if own is not None:
        return own(X)
    batch = loss.everything()
    slope = gradient(loss, X, batch, out)
    return loss.value(X, batch), slope


@dataclass(frozen=True)
class Sized:
    """A batch with its number of samples."""

    batch: Batch
    size: int


class MeteredLoss:
    """A loss whose draws and gradients are counted."""

    def __init__(
        self, loss: Loss, meter: Meter, offers: protocols.LossCapabilities | None = None
    ) -> None:
        self._loss: Any = loss
        self._meter = meter
        self._centre = (offers or protocols.loss_capabilities(loss)).centre
        self.has_centre = self._centre is not None  # G is an isotropic quadratic

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loss, name)

    @property
    def samples_drawn(self) -> int:
        """Samples counted so far."""
        return self._meter.counts.samples

    def draw(self, rng: np.random.Generator, size: int) -> Sized:
        """Draw samples; count and limit them."""
        self._meter.check(samples=size)
        batch = self._loss.draw(rng, size)
        self._meter.counts.samples += size
        return Sized(batch, size)

    def everything(self) -> Sized:
        """Return all terms; not counted as samples, since nothing is drawn."""
        self._meter.check()
        self._meter.counts.full_gradients += 1
        return Sized(self._loss.everything(), self._loss.n_terms)

    def grad(
        self, X: Array, batch: Sized, *, counted: bool = True, out: Array | None = None
    ) -> Array:
        """Count one gradient per sample, unless samples cancel and are free."""
        self._meter.counts.gradients += batch.size if counted else 0
        return gradient(self._loss, X, batch.batch, out)

    def centre(self, batch: Sized, *, counted: bool) -> Array:
        """Return the centre over a batch; it counts as the gradients that it replaces."""
        self._meter.counts.gradients += batch.size if counted else 0
        assert self._centre is not None
        return self._centre(batch.batch)

    def whole_centre(self) -> Array:
        """Return the centre over all terms, as part of a gradient that is counted later."""
        assert self._centre is not None
        return self._centre(self.everything().batch)

    def counted(self, gradients: int) -> None:
        """Count full gradients computed within a fused pass."""
        self._meter.counts.gradients += gradients * self._loss.n_terms
        self._meter.counts.full_gradients += gradients

    def spread(self, X: Array, batch: Sized) -> float:
        """Return the gradient variance over a batch."""
        self._meter.counts.gradients += batch.size
        return float(self._loss.spread(X, batch.batch))


class MeteredSpectral:
    """A spectral term whose decompositions are counted."""

    def __init__(
        self,
        spectral: SpectralTerm,
        meter: Meter,
        offers: protocols.SpectralCapabilities | None = None,
    ) -> None:
        self._spectral: Any = spectral
        self._meter = meter
        offers = offers or protocols.spectral_capabilities(spectral)
        self._forms_targets = offers.forms_targets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spectral, name)

    def weak_prox(self, A: Array | Pending, *, rank: int, **options: Any) -> protocols.WeakProx:
        """Count one SVD of the requested rank."""
        self._meter.check(svds=1)
        A = A if self._forms_targets else formed(A)
        found: protocols.WeakProx = self._spectral.weak_prox(A, rank=rank, **options)
        self._count(rank, found.passes)
        return found

    def extreme(self, G: Array, **options: Any) -> protocols.Extreme:
        """Count one SVD of rank one."""
        self._meter.check(svds=1)
        found: protocols.Extreme = self._spectral.extreme(G, **options)
        self._count(1, found.passes)
        return found

    def counted(self, rank: int, passes: int) -> None:
        """Count a decomposition computed by a solver itself."""
        self._meter.check(svds=1)
        self._count(rank, passes)

    def _count(self, rank: int, passes: int) -> None:
        self._meter.counts.svds += 1
        self._meter.counts.rank_one_svds += rank
        self._meter.counts.passes += passes
