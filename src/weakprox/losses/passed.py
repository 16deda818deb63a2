"""Matrices and samples that are never held whole: operators, files and streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import Array
from weakprox.linalg.tiled import Tiled, as_tiled, is_chunked
from weakprox.losses.inputs import check_size
from weakprox.resources.memory import let_go
from weakprox.streams.stream import Stream


def as_operator(name: str, M: Any, *, nan_hint: str = "") -> tuple[Tiled, float] | None:
    """M as tiles and the size of its largest entry; None if M is an array or not a matrix."""
    found = as_tiled(M)
    if found is None:
        return None
    if not found.check_finite():
        raise InputError(name, "NaN or infinite entries", f"finite numbers{nan_hint}")
    most = float(np.finfo(found.dtype).max)
    return found, check_size(name, found.largest(), found.shape, most)


def stand_in(M: Tiled) -> Array:
    """An array of this shape and dtype that takes no memory: a broadcast zero."""
    return np.broadcast_to(np.zeros((1, 1), M.dtype), M.shape)


def as_stack(name: str, value: Any, ndim: int) -> Any:
    """Check a zarr array with this many axes, to be read in parts; None if not zarr."""
    if not is_chunked(value):
        return None
    if value.ndim != ndim or 0 in value.shape:
        raise ShapeError(name, f"shape {value.shape}", f"{ndim} axes, none of them empty")
    if value.dtype.kind not in "fiub" or value.dtype.itemsize > 8:
        raise InputError(name, f"dtype {value.dtype}", "float32, float64 or integers")
    return value


def chunks_of(stack: Any, parts: Any) -> Iterator[Array]:
    """Yield these parts of a stack; release the pages of a map after each."""
    for part in parts:
        yield stack[part]
        let_go(stack)


def batches_of(stream: Stream) -> Iterator[Array]:
    """Yield samples of a stream of matrices, in batches."""
    for item in stream:
        if isinstance(item, tuple):
            raise InputError("samples", "a stream of pairs", "a stream of matrices")
        yield item
