"""What every matrix must satisfy, whatever file it comes from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.resources.memory import let_go
from weakprox.storage.table import FileError, Matrix, claim

BLOCK_BYTES = 8 << 20
KINDS = {
    "O": "Python objects (a pickle, which could run code)",
    "c": "complex numbers",
    "U": "text",
    "S": "text",
    "V": "records",
    "M": "dates",
    "m": "time spans",
    "T": "text",
}


def checked_shape(path: Path, shape: tuple[int, ...], what: str = "an array") -> None:
    """Raise unless there are two axes, neither empty."""
    if len(shape) != 2:
        given = f"{what} with {len(shape)} {'axis' if len(shape) == 1 else 'axes'} {shape}"
        raise FileError(path, given, "a matrix: two axes, rows and columns")
    if min(shape) < 1:
        raise FileError(path, f"an empty matrix, {shape[0]} x {shape[1]}", "some entries")


def checked_dtype(path: Path, dtype: np.dtype[Any], what: str = "") -> None:
    """Raise unless the entries are real numbers."""
    if dtype.kind not in "fiub":
        given = KINDS.get(dtype.kind, str(dtype)) + what
        raise FileError(path, given, "real numbers")


def as_floats(path: Path, values: Matrix, max_bytes: int | None) -> Matrix:
    """The array itself if it holds native float32 or float64; otherwise a copy that does.

    Half precision becomes float32, integers and all else float64.
    """
    small = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    dtype = np.dtype(np.float32 if small else np.float64)
    if values.dtype == dtype:  # false for the other byte order
        return values
    m, d = values.shape
    what = f"{m} x {d} entries of {values.dtype}, kept as {dtype}"
    claim(path, math.prod(values.shape) * dtype.itemsize, max_bytes, what)
    return np.asarray(values.astype(dtype))


def check_finite(path: Path, values: Matrix, missing: bool) -> None:
    """Raise at the first NaN (unless missing values are allowed) or infinite entry."""
    # blocks along the axis that is contiguous on disk: a memory map is read once
    flags = getattr(values, "flags", None)  # a zarr array has none
    by_columns = flags is not None and flags.f_contiguous and not flags.c_contiguous
    lines = values.T if by_columns else values
    for first, block in _blocks(lines):
        bad = np.isinf(block) if missing else ~np.isfinite(block)
        if bad.any():
            i, j = (int(index[0]) for index in np.nonzero(bad))
            row, column = (j, first + i) if by_columns else (first + i, j)
            kind = "NaN" if math.isnan(block[i, j]) else "an infinite entry"
            given = f"{kind} at row {row + 1}, column {column + 1}"
            raise FileError(path, given, "finite numbers")


def _blocks(values: Matrix) -> Iterator[tuple[int, Matrix]]:
    """Row blocks of moderate size, with the number of their first row."""
    step = max(1, BLOCK_BYTES // max(1, values.shape[1] * values.dtype.itemsize))
    whole = getattr(values, "chunks", None)  # of a zarr array
    if whole is not None:
        step = max(whole[0], step - step % whole[0])
    for first in range(0, values.shape[0], step):
        yield first, values[first : first + step]
        let_go(values)
