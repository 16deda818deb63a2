"""Batches of noisy matrices, reduced to the moments that a squared distance needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, add_scaled, all_finite, namespace, norm, sqnorm
from weakprox.losses.inputs import floating

MANY = 64  # samples in a chunk: its mean is off by an eighth of a standard deviation


@dataclass(frozen=True)
class Moments:
    """A batch of matrices, stored as one matrix."""

    mean: Array  # computed in float64 and stored in the dtype of the samples
    size: int
    scatter: float  # sum of squared distances of the samples to their mean
    furthest: float | None = None  # largest of the distances, or None if it was not measured

    @property
    def reach(self) -> float:
        """Largest distance of a sample to the mean, or a bound on it."""
        return math.sqrt(self.scatter) if self.furthest is None else self.furthest

    @classmethod
    def of(cls, chunks: Iterable[Array], zero: Array, unit: float) -> Moments:
        """Moments of the samples divided by the unit, by the stable pairwise update."""
        mean, size, scatter, furthest = zero, 0, 0.0, 0.0
        for chunk in chunks:
            block = floating(chunk)
            xp = namespace(block)
            if not all_finite(block):
                raise InputError("samples", "NaN or infinite entries", "finite numbers")
            if unit != 1.0:
                block = block / unit
            k = int(block.shape[0])
            local = xp.astype(xp.sum(block, axis=0, dtype=xp.float64) / k, block.dtype)
            squares = [sqnorm(block[i] - local) for i in range(k)]
            scatter += sum(squares)
            shift = local - mean
            scatter += sqnorm(shift) * size * k / (size + k)
            mean = mean + shift * (k / (size + k))
            moved = norm(local - mean)  # small for a large chunk, so a bound is enough
            if size > 0 and k < MANY:
                squares, moved = [sqnorm(block[i] - mean) for i in range(k)], 0.0
            furthest = max(furthest, math.sqrt(max(squares)) + moved)
            size += k
        return cls(mean, size, scatter, furthest)

    @classmethod
    def together(cls, batches: Sequence[Moments], mean: Array) -> Moments:
        """Moments of the samples of all batches; `mean`, all zeros, is overwritten."""
        size = sum(batch.size for batch in batches)
        for batch in batches:
            add_scaled(mean, batch.size / size, batch.mean)
        between = sum(batch.size * sqnorm(batch.mean - mean) for batch in batches)
        furthest = max(batch.reach + norm(batch.mean - mean) for batch in batches)
        return cls(mean, size, between + sum(batch.scatter for batch in batches), furthest)
