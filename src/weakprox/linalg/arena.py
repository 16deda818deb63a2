"""Large arrays that are used again, because fresh memory costs more than filling it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, empty, is_array, is_numpy
from weakprox.resources.memory import scratch

KEPT_BYTES = 1 << 28  # between runs: a quarter of a gigabyte
SHARE = 0.75  # of the room there is, what one array may take: tiles and factors come too


def _references(arrays: list[Any]) -> int:
    """References to the first of some arrays, counted just as `Arena.like` does."""
    for array in arrays:
        return sys.getrefcount(array)
    return 0


# References to an array that only the arena knows: list, loop and argument, of which
# Python 3.14 no longer counts all.
HELD_BY_US = _references([np.empty(0)])


class Arena:
    """Hands out arrays like a given one, those first that nobody holds any more.

    The operating system clears every fresh page of memory, which for arrays of a few
    megabytes takes several times as long as writing to them. An array is used again only
    when all other references to it (and to its views) are gone, so that whoever keeps one
    keeps its contents. Other namespaces than NumPy have allocators that do this already.
    """

    def __init__(self) -> None:
        self._arrays: list[np.ndarray[Any, Any]] = []
        self._lock = Lock()

    def like(self, reference: Array, shape: tuple[int, ...] | None = None) -> Array:
        """An array of this kind and shape (the reference's) with arbitrary contents."""
        fresh = getattr(reference, "fresh", None)
        if fresh is not None:  # an array that lives elsewhere
            return fresh()
        shape = tuple(reference.shape) if shape is None else shape
        if not is_numpy(reference) and is_array(reference):
            return empty(shape, reference)
        with self._lock:
            for array in self._arrays:
                fits = array.shape == shape and array.dtype == reference.dtype
                if fits and sys.getrefcount(array) == HELD_BY_US:
                    return array
            self._arrays.append(self._new(shape, reference.dtype))
            return self._arrays[-1]

    def _new(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        return np.empty(shape, dtype)

    def trim(self, most: int = KEPT_BYTES) -> None:
        """Let go of the oldest arrays until those left have at most so many bytes."""
        with self._lock:
            while sum(array.nbytes for array in self._arrays) > most:
                self._arrays.pop(0)


class DiskArena(Arena):
    """The arena of a run with a memory budget: arrays that do not fit are kept in files.

    `room` tells how many bytes may still be taken.
    """

    def __init__(self, room: Callable[[], int]) -> None:
        super().__init__()
        self._room = room

    def _new(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        fits = size <= SHARE * self._room()
        return np.empty(shape, dtype) if fits else scratch(shape, dtype)


SHARED = Arena()
"""The arena of all runs in this process, trimmed at the end of each."""
