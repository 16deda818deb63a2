"""Chunks of dask arrays: checks of the arrays, and the terms in each chunk."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from weakprox.errors import InputError, ShapeError

Indices = np.ndarray[Any, np.dtype[np.int64]]


def checked_shape(name: str, array: Any, ndim: int) -> tuple[int, ...]:
    """Return the shape of a dask array; raise if axes are empty, unknown or too many."""
    if any(math.isnan(n) for n in array.shape):
        wanted = "known lengths: call compute_chunk_sizes() on it first"
        raise ShapeError(name, f"shape {array.shape}", wanted)
    if array.ndim != ndim or 0 in array.shape:
        raise ShapeError(name, f"shape {array.shape}", f"{ndim} axes, none of them empty")
    return tuple(int(n) for n in array.shape)


def float_of(name: str, dtype: Any) -> np.dtype[Any]:
    """The dtype to compute in; raises if the entries are not real numbers."""
    dtype = np.dtype(dtype)
    if dtype in (np.float32, np.float64):
        return dtype  # type: ignore[no-any-return]
    if dtype.kind not in "iub":
        raise InputError(name, f"dtype {dtype}", "float32, float64 or integers")
    return np.dtype(np.float64)


def stand_in(data: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of the same shape and dtype with the memory of one number."""
    return np.broadcast_to(np.zeros((), data.dtype), data.shape)


def cut(count: int, size: int) -> list[slice]:
    """Slices of at most this size that cover `count` terms."""
    return [slice(i, min(i + size, count)) for i in range(0, count, size)]


class Picked(NamedTuple):
    """Terms by chunk; `order` restores the order in which they were drawn."""

    chunks: list[int]
    within: list[Indices]
    order: Indices

    def arranged(self, parts: list[Any]) -> Any:
        """Join the chunks' results, one per term, in the order of drawing."""
        together = np.concatenate(parts)
        out = np.empty_like(together)
        out[self.order] = together
        return out

    def dealt(self, values: Any) -> list[Any]:
        """Split one value per term by chunk."""
        ends = np.cumsum([len(part) for part in self.within])
        return np.split(np.asarray(values)[self.order], ends[:-1])


def picked(indices: Any, starts: list[int], count: int) -> Picked:
    """Sort terms (a slice or integers, possibly repeated) by chunk.

    `starts` are the first terms of the chunks, `count` the number of all terms.
    """
    wanted = np.arange(count)[indices] if isinstance(indices, slice) else np.asarray(indices)
    chunk = np.searchsorted(starts, wanted, side="right") - 1
    order = np.argsort(chunk, kind="stable")
    used = np.unique(chunk)
    within = [wanted[order][chunk[order] == i] - starts[i] for i in used]
    return Picked([int(i) for i in used], within, order)
