"""Noisy copies of a matrix as a dask array: their mean and scatter, by map and reduce."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.distributed.chunks import checked_shape, float_of
from weakprox.distributed.engine import each, fetch, keep, tree
from weakprox.distributed.work import loaded
from weakprox.errors import InputError
from weakprox.linalg.arrays import all_finite, sqnorm

CHUNK_BYTES = 64 << 20  # of copies that one task reads

Part = tuple[Any, int, float]  # mean, number of copies, sum of squared distances to the mean


class Copies:
    """A dask array of shape (n, m, d) in any chunks, rechunked to whole copies."""

    def __init__(self, name: str, samples: Any) -> None:
        self.count, *shape = checked_shape(name, samples, 3)
        self.shape = (shape[0], shape[1])
        self.dtype = float_of(name, samples.dtype)
        self.name = name
        size = max(1, CHUNK_BYTES // (shape[0] * shape[1] * self.dtype.itemsize))
        self.starts = list(range(0, self.count, size))
        chunks = samples.rechunk((size, -1, -1)).to_delayed().ravel()
        self._chunks = keep(each(loaded, chunks, [self.dtype] * len(chunks)))

    def moments(self, unit: float, drawn: Any = None) -> Part:
        """Mean, size and scatter of all copies, or of those drawn, possibly repeated.

        They are divided by the unit first.
        """
        chunks: list[Any] = self._chunks
        weights: list[Any] = [None] * len(chunks)
        if drawn is not None:
            weights = np.split(np.bincount(drawn, minlength=self.count), self.starts[1:])
            used = [i for i, part in enumerate(weights) if part.any()]
            chunks, weights = ([x[i] for i in used] for x in (chunks, weights))
        tasks = each(reduced, chunks, weights, [unit] * len(chunks))
        found = fetch([tree(merged, tasks)], self._chunks)[0]
        if found is None:
            raise InputError(self.name, "NaN or infinite entries", "finite numbers")
        return found  # type: ignore[no-any-return]


def reduced(block: Any, times: Any, unit: float) -> Part | None:
    """Moments of one chunk, with multiplicities of its copies; None if not finite."""
    if times is not None:
        picked = np.flatnonzero(times)
        block, times = block[picked], times[picked]
    if not all_finite(block):
        return None
    block = block if unit == 1.0 else block / block.dtype.type(unit)
    times = np.ones(len(block), dtype=int) if times is None else times
    size = int(times.sum())
    mean = np.zeros(block.shape[1:], block.dtype)
    for copy, weight in zip(block, times, strict=True):
        mean += copy * (weight / size)
    pairs = zip(block, times, strict=True)
    return mean, size, sum(float(weight) * sqnorm(copy - mean) for copy, weight in pairs)


def merged(parts: list[Part | None]) -> Part | None:
    """Merge moments of different copies by the stable pairwise update."""
    whole = parts[0]
    for part in parts[1:]:
        if whole is None or part is None:
            return None
        shift, size = part[0] - whole[0], whole[1] + part[1]
        scatter = whole[2] + part[2] + sqnorm(shift) * whole[1] * part[1] / size
        whole = whole[0] + shift * (part[1] / size), size, scatter
    return whole
