"""Work on matrices of one shape, block of rows by block of rows, wherever each of them is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, row_blocks
from weakprox.linalg.tiled import Tile, Tiled
from weakprox.resources.memory import let_go, on_disk, scratch

ASIDE_FROM = 1 << 26  # bytes from which memory is worth a file


def tiles(*arrays: Any) -> Iterator[slice]:
    """Blocks of rows of arrays of one shape; what a block read from a map is let go after it.

    Of arrays in memory these are `row_blocks`.
    """
    present = sorted(
        (x for x in arrays if x is not None), key=lambda x: not isinstance(x, Tiled)
    )
    for block in row_blocks(present[0]):
        yield block
        for x in present[1:]:  # `row_blocks` has let go of the first
            let_go(x)


def copied(source: Array, out: Array) -> None:
    """Overwrite `out` by the source, which may both be on disk or elsewhere."""
    if hasattr(out, "take_over"):
        out.take_over(source)
        return
    if not on_disk(out) and not on_disk(source):
        out[...] = source
        return
    for rows in tiles(out, source):
        out[rows] = source[rows]


def set_aside(z: Tile) -> Tile:
    """A large array as a copy in a scratch file, so that its memory can be used again."""
    if z.nbytes < ASIDE_FROM or on_disk(z):
        return z
    try:
        found = scratch(z.shape, z.dtype)
    except InputError:  # no room there: it stays where it is
        return z
    copied(z, found)
    return found


def times(A: Any, Q: Array) -> Array:
    """A Q, tile by tile."""
    return np.concatenate([A[rows] @ Q for rows in tiles(A)])


def transpose_times(A: Any, Q: Array) -> Array:
    """A' Q, tile by tile."""
    return sum(A[rows].T @ Q[rows] for rows in tiles(A))
