"""Large arrays that are used again, because fresh memory costs more than filling it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, empty, is_numpy

HELD_BY_US = 3  # references to an array that only the arena knows: list, loop and argument


class Arena:
    """Hands out arrays like a given one, those first that nobody holds any more.

    The operating system clears every fresh page of memory, which for arrays of a few
    megabytes takes several times as long as writing to them. An array is used again only
    when all other references to it (and to its views) are gone, so that whoever keeps one
    keeps its contents. Other namespaces than NumPy have allocators that do this already.
    """

    def __init__(self) -> None:
        self._arrays: list[np.ndarray[Any, Any]] = []

    def like(self, reference: Array) -> Array:
        """An array of this shape and kind with arbitrary contents."""
        if not is_numpy(reference):
            return empty(reference.shape, reference)
        for array in self._arrays:
            fits = array.shape == reference.shape and array.dtype == reference.dtype
            if fits and sys.getrefcount(array) == HELD_BY_US:
                return array
        self._arrays.append(np.empty(reference.shape, reference.dtype))
        return self._arrays[-1]
