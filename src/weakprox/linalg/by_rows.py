"""Operations on matrices of one shape, by blocks of rows, wherever they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, row_blocks
from weakprox.linalg.tiled import Tile, Tiled
from weakprox.resources.memory import let_go, on_disk, scratch

ASIDE_FROM = 1 << 26  # bytes from which an array is moved to a file


def tiles(*arrays: Any) -> Iterator[slice]:
    """Yield blocks of rows of arrays of one shape; release mapped pages after each block.

    For arrays in memory these are `row_blocks`.
    """
    present = sorted(
        (x for x in arrays if x is not None), key=lambda x: not isinstance(x, Tiled)
    )
    for block in row_blocks(present[0]):
        yield block
        for x in present[1:]:  # `row_blocks` has released the first
            let_go(x)


def copied(source: Array, out: Array) -> None:
    """Copy `source` to `out`; both may be on disk or on a device."""
    if hasattr(out, "take_over"):
        out.take_over(source)
        return
    if not on_disk(out) and not on_disk(source):
        out[...] = source
        return
    for rows in tiles(out, source):
        out[rows] = source[rows]


def set_aside(z: Tile) -> Tile:
    """Copy a large array to a scratch file, so that its memory can be reused."""
    if z.nbytes < ASIDE_FROM or on_disk(z):
        return z
    try:
        found = scratch(z.shape, z.dtype)
    except InputError:  # no disk space: it stays in memory
        return z
    copied(z, found)
    return found


def times(A: Any, Q: Array) -> Array:
    """A Q, tile by tile."""
    return np.concatenate([A[rows] @ Q for rows in tiles(A)])


def transpose_times(A: Any, Q: Array) -> Array:
    """A' Q, tile by tile."""
    return sum(A[rows].T @ Q[rows] for rows in tiles(A))
