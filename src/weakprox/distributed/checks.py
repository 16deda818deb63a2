"""What a dask array must be to serve as data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weakprox.errors import InputError, ShapeError


def checked_shape(name: str, array: Any, ndim: int) -> tuple[int, ...]:
    """The shape of a dask array with so many axes, none of them empty or unknown."""
    if any(math.isnan(n) for n in array.shape):
        wanted = "known lengths: call compute_chunk_sizes() on it first"
        raise ShapeError(name, f"shape {array.shape}", wanted)
    if array.ndim != ndim or 0 in array.shape:
        raise ShapeError(name, f"shape {array.shape}", f"{ndim} axes, none of them empty")
    return tuple(int(n) for n in array.shape)


def float_of(name: str, dtype: Any) -> np.dtype[Any]:
    """The dtype to compute in; raises where the entries are no real numbers."""
    dtype = np.dtype(dtype)
    found: np.dtype[Any] = dtype
    if dtype in (np.float32, np.float64):
        return found
    if dtype.kind not in "iub":
        raise InputError(name, f"dtype {dtype}", "float32, float64 or integers")
    return np.dtype(np.float64)
