"""Batches of noisy matrices, reduced to what a squared distance needs of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, all_finite, namespace, sqnorm
from weakprox.linalg.kernels import add_scaled
from weakprox.losses.inputs import floating


@dataclass(frozen=True)
class Moments:
    """A batch of matrices: never more than one matrix.

    The mean is computed in float64 and held in the dtype of the samples.
    `scatter` is the sum of squared distances of the samples to their mean.
    """

    mean: Array
    size: int
    scatter: float

    @classmethod
    def of(cls, chunks: Iterable[Array], zero: Array, unit: float) -> Moments:
        """Those of samples divided by the unit, by the stable pairwise update."""
        mean, size, scatter = zero, 0, 0.0
        for chunk in chunks:
            block = floating(chunk)
            xp = namespace(block)
            if not all_finite(block):
                raise InputError("samples", "NaN or infinite entries", "finite numbers")
            if unit != 1.0:
                block = block / unit
            k = int(block.shape[0])
            local = xp.astype(xp.sum(block, axis=0, dtype=xp.float64) / k, block.dtype)
            scatter += sum(sqnorm(block[i] - local) for i in range(k))
            shift = local - mean
            scatter += sqnorm(shift) * size * k / (size + k)
            mean = mean + shift * (k / (size + k))
            size += k
        return cls(mean, size, scatter)

    @classmethod
    def together(cls, batches: Sequence[Moments], mean: Array) -> Moments:
        """Those of all the batches' samples; `mean`, all zeros, is overwritten."""
        size = sum(batch.size for batch in batches)
        for batch in batches:
            add_scaled(mean, batch.size / size, batch.mean)
        between = sum(batch.size * sqnorm(batch.mean - mean) for batch in batches)
        return cls(mean, size, between + sum(batch.scatter for batch in batches))
