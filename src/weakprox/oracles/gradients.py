"""Mini-batch and variance-reduced gradients (the snapshot estimator of SVRG)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, row_blocks
from weakprox.penalties import Smoothed


@dataclass(frozen=True)
class Snapshot:
    """The snapshot gradient of an epoch, or the samples that stand for it.

    Where samples cancel, the samples' mean gradient at any X is already the
    variance-reduced one, so only they are kept and nothing is drawn again.
    """

    X: Array
    gradient: Array | None
    samples: Any | None

    @classmethod
    def take(cls, loss: Any, X: Array, rng: np.random.Generator, size: int | None) -> Snapshot:
        """Snapshot at X from `size` fresh samples, or from all terms if None."""
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
    ) -> Array:
        """Proximal target X - (gradient + grad R_mu(X))/weight, perhaps written over `out`.

        The gradient is the variance-reduced one from `size` inner samples; `first` says
        that X is the snapshot point, where it is the snapshot's whatever is drawn.
        """
        if self.samples is not None and loss.has_centre:
            C = loss.centre(self.samples, counted=first)
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
        """Variance-reduced gradient at X; unbiased but for the snapshot's own error."""
        if self.samples is not None:
            return loss.grad(X, self.samples, counted=first, out=out)
        assert self.gradient is not None
        if first:
            return self.gradient * 1.0
        if loss.is_finite_sum and size >= loss.n_terms:
            return mean_gradient(loss, X, rng, None)  # cheaper, and without variance
        total = self.gradient * 1.0
        for batch, share in _batches(loss, rng, size):
            new, old = loss.grad(X, batch), loss.grad(self.X, batch)
            for rows in row_blocks(X):
                total[rows] += share * (new[rows] - old[rows])
        return total


def mean_gradient(loss: Any, X: Array, rng: np.random.Generator, size: int | None) -> Array:
    """Mean gradient over `size` fresh samples, in chunks, or over all terms if None."""
    if size is None:
        return loss.grad(X, loss.everything())
    total = None
    for batch, share in _batches(loss, rng, size):
        part = loss.grad(X, batch)
        total = share * part if total is None else total + share * part
    return total


def _batches(loss: Any, rng: np.random.Generator, size: int) -> Iterator[tuple[Any, float]]:
    """Draws of at most one chunk each, with their share of the whole."""
    left = size
    while left > 0:
        now = min(left, loss.chunk)
        yield loss.draw(rng, now), now / size
        left -= now
