"""Mini-batch and variance-reduced gradients (the snapshot estimator of SVRG)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, add_scaled, row_blocks, sqnorm
from weakprox.linalg.pending import Pending
from weakprox.penalties.base import Smoothed

PARTS = 8  # groups of inner samples, whose means show the variance


@dataclass(frozen=True)
class Pool:
    """The centre of a quadratic loss over all samples so far, and their number."""

    centre: Array
    size: int

    def joined(self, other: Pool) -> Pool:
        size = self.size + other.size
        return Pool(self.centre + (other.size / size) * (other.centre - self.centre), size)


@dataclass(frozen=True)
class Measured:
    """A mean over `size` samples, and the variance of one of them."""

    mean: Array
    variance: float
    size: int

    @classmethod
    def of(cls, group: Callable[[int], Array], size: int) -> Measured:
        """Return the mean of at least `size` samples; `group(k)` is that of k fresh ones.

        The spread of the groups' means estimates the variance.
        """
        each = max(1, math.ceil(size / PARTS))
        mean, scatter = group(each), 0.0
        for before in range(1, PARTS):
            part = group(each)
            part -= mean
            scatter += sqnorm(part) * before / (before + 1)
            add_scaled(mean, 1.0 / (before + 1), part)
        return cls(mean, each * scatter / (PARTS - 1), each * PARTS)

    def joined(self, other: Measured) -> Measured:
        size = self.size + other.size
        share = other.size / size
        variance = (1 - share) * self.variance + share * other.variance
        return Measured(self.mean + share * (other.mean - self.mean), variance, size)


@dataclass(frozen=True)
class Snapshot:
    """The snapshot gradient of an epoch, or its samples if samples cancel.

    If samples cancel, the samples' mean gradient at any X is already the variance-reduced
    one. Then only the samples are kept, and nothing is drawn in inner steps.
    """

    X: Array
    gradient: Array | None
    samples: Any | None
    pool: Pool | None = None  # centre of all samples so far, if the loss has one

    @classmethod
    def pooled(
        cls, loss: Any, X: Array, rng: np.random.Generator, size: int, pool: Pool | None
    ) -> Snapshot:
        """Take a snapshot of `size` fresh samples and those in the pool."""
        batch = loss.draw(rng, size)
        fresh = Pool(loss.centre(batch, counted=False), size)
        return cls(X, None, batch, fresh if pool is None else pool.joined(fresh))

    @classmethod
    def measured(
        cls, loss: Any, X: Array, rng: np.random.Generator, size: int
    ) -> tuple[Snapshot, float]:
        """Take a snapshot of at least `size` fresh samples; also return their variance."""
        found = Measured.of(lambda k: mean_gradient(loss, X, rng, k), size)
        return cls(X, found.mean, None), found.variance

    @classmethod
    def take(cls, loss: Any, X: Array, rng: np.random.Generator, size: int | None) -> Snapshot:
        """Take a snapshot at X from `size` fresh samples, or from all terms if None."""
        if loss.samples_cancel:
            batch = loss.everything() if size is None else loss.draw(rng, size)
            return cls(X, None, batch)
        return cls(X, mean_gradient(loss, X, rng, size), None)

    def target(
        self,
        loss: Any,
        X: Array,
        R: Smoothed,
        weight: float,
        rng: np.random.Generator,
        size: int,
        *,
        first: bool,
        out: Array | None = None,
    ) -> Array | Pending:
        """Return the proximal target X - (gradient + grad R_mu(X))/weight, perhaps in `out`.

        The gradient is the variance-reduced one from `size` inner samples. `first` says that
        X is the snapshot point, where the snapshot's gradient is used as it is.
        """
        if self.samples is not None and loss.has_centre:
            C = loss.centre(self.samples, counted=first)
            C = C if self.pool is None else self.pool.centre
            return R.target_around(X, C, loss.smoothness, weight, out)
        A = self.at(loss, X, rng, size, first=first, out=out)
        R.target(X, A, weight)
        return A

    def at(
        self,
        loss: Any,
        X: Array,
        rng: np.random.Generator,
        size: int,
        *,
        first: bool,
        out: Array | None = None,
    ) -> Array:
        """Return the variance-reduced gradient at X, unbiased but for the snapshot's error."""
        if self.samples is not None:
            return loss.grad(X, self.samples, counted=first, out=out)
        assert self.gradient is not None
        if first:
            return self.gradient * 1.0
        if loss.is_finite_sum and size >= loss.n_terms:
            return mean_gradient(loss, X, rng, None)  # cheaper, and without variance
        total = self.gradient * 1.0
        self._add_difference(total, loss, X, rng, size)
        return total

    def _add_difference(
        self, total: Array, loss: Any, X: Array, rng: np.random.Generator, size: int
    ) -> None:
        """Add the mean of grad g(X) - grad g(X_s) over fresh samples."""
        for batch, share in _batches(loss, rng, size):
            new, old = loss.grad(X, batch), loss.grad(self.X, batch)
            for rows in row_blocks(X):
                total[rows] += share * (new[rows] - old[rows])

    def difference(self, loss: Any, X: Array, rng: np.random.Generator, size: int) -> Measured:
        """Return the mean of grad g(X) - grad g(X_s) over at least `size` samples."""

        def group(k: int) -> Array:
            part = X * 0.0
            self._add_difference(part, loss, X, rng, k)
            return part

        return Measured.of(group, size)


def mean_gradient(loss: Any, X: Array, rng: np.random.Generator, size: int | None) -> Array:
    """Return the mean gradient over `size` fresh samples, in chunks, or over all terms."""
    if size is None:
        return loss.grad(X, loss.everything())
    total = None
    for batch, share in _batches(loss, rng, size):
        part = loss.grad(X, batch)
        total = share * part if total is None else total + share * part
    return total


def _batches(loss: Any, rng: np.random.Generator, size: int) -> Iterator[tuple[Any, float]]:
    """Yield draws of at most one chunk each, with their share of the whole."""
    left = size
    while left > 0:
        now = min(left, loss.chunk)
        yield loss.draw(rng, now), now / size
        left -= now
