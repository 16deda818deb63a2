"""Reuse of large arrays, because allocating fresh memory costs more than filling it."""

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
SHARE = 0.75  # of the free memory, for one array: tiles and factors need the rest


def _references(arrays: list[Any]) -> int:
    """Number of references to the first of some arrays, counted as in `Arena.like`."""
    for array in arrays:
        return sys.getrefcount(array)
    return 0


# Number of references to an array that only the arena holds: list, loop and argument.
# Python 3.14 no longer counts all of them.
HELD_BY_US = _references([np.empty(0)])


class Arena:
    """Pool of arrays that reuses those without any other reference.

    The operating system clears every fresh page of memory. For arrays of a few megabytes
    this takes several times as long as writing to them. An array is reused only when all
    other references to it (and to its views) are gone, so arrays in use keep their contents.
    The allocators of namespaces other than NumPy already do this.
    """

    def __init__(self) -> None:
        self._arrays: list[np.ndarray[Any, Any]] = []
        self._lock = Lock()

    def like(self, reference: Array, shape: tuple[int, ...] | None = None) -> Array:
        """Return an array of the reference's kind and this shape with arbitrary contents."""
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
        """Release the oldest arrays until the rest take at most `most` bytes."""
        with self._lock:
            while sum(array.nbytes for array in self._arrays) > most:
                self._arrays.pop(0)


class DiskArena(Arena):
    """Arena of a run with a memory budget: arrays that do not fit are kept in files.

    `room()` returns the number of bytes still available.
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
