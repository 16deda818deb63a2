"""A matrix from a file, the checks for all matrices, and the error for bad files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from weakprox.errors import InputError
from weakprox.resources.memory import let_go, room, shown_bytes

Matrix: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Labels: TypeAlias = tuple[str, ...]
PathLike: TypeAlias = "str | os.PathLike[str]"

WRITES = (".npy", ".npz", ".csv", ".tsv", ".mtx", ".parquet")
# number of bytes above which memory is limited to this multiple of the file's size
MUCH, RATIO = 1 << 28, 500
READS = (*WRITES, ".txt", ".xlsx", ".ods", ".zarr")
BLOCK_BYTES = 8 << 20
KINDS = {
    "O": "Python objects (a pickle, which could run code)",
    "c": "complex numbers",
    "V": "records",
    "M": "dates",
    "m": "time spans",
    **dict.fromkeys("UST", "text"),
}


# commands and models for missing values
FILLED_BY = (
    "; for missing ones use weakprox impute (tables) or weakprox complete (ratings), in Python "
    "SparseLowRankImputer or Completion.from_dense"
)


class Contents(NamedTuple):
    """The contents of a file, and how it was read."""

    values: Any
    rows: Labels | None = None
    columns: Labels | None = None
    notes: tuple[str, ...] = ()  # how text was read, if the suffix does not determine it
    doubts: tuple[str, ...] = ()  # what may have been misread


class FileError(InputError):
    """A file cannot be read or written; the argument is its name."""

    def __init__(self, argument: PathLike, given: object, wanted: str) -> None:
        super().__init__(shown_path(argument), given, wanted)


@dataclass(frozen=True)
class Table:
    """A matrix read from a file.

    `values` is an array, a SciPy sparse array or a zarr array in float32 or float64: a
    read-only memory map if the file allows it. A zarr array stays on disk.
    """

    values: Any
    rows: Labels | None  # if the file has them
    columns: Labels | None
    source: Path
    format: str  # the suffix without the dot
    notes: tuple[str, ...] = ()  # as in `Contents`
    doubts: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.values.shape[0]), int(self.values.shape[1])

    def dense(self, *, max_bytes: int | None = None) -> Matrix:
        """Return the values as a dense array; raises if there is not enough memory."""
        if isinstance(self.values, np.ndarray):
            return self.values
        m, d = self.shape
        claim(self.source, m * d * self.values.dtype.itemsize, max_bytes, f"{m} x {d} entries")
        if self.format == "zarr":
            kind = np.float32 if self.values.dtype == np.float32 else np.float64
            with zarr_chunks(self.source):
                return np.asarray(self.values[:], dtype=kind)
        return np.asarray(self.values.toarray())


@contextmanager
def refusing(
    path: PathLike, given: str, wanted: str, *errors: type[BaseException]
) -> Iterator[None]:
    """Turn these errors into a FileError; `{}` in `given` stands for their name."""
    try:
        yield
    except InputError:
        raise
    except errors as failure:
        raise FileError(path, given.replace("{}", type(failure).__name__), wanted) from None


def zarr_chunks(path: Path) -> AbstractContextManager[None]:
    """Turn errors of zarr's codecs, each of which has its own, into a FileError."""
    return refusing(path, "a damaged chunk ({})", "a whole zarr array", Exception)


def as_numbers(texts: Sequence[Any]) -> list[float] | None:
    """Plain numbers, or None; unlike Python, other programs do not accept 1_000."""
    try:
        found = [float(text) for text in texts]
    except ValueError:
        return None
    between = b"_" if texts and isinstance(texts[0], bytes) else "_"
    return None if any(between in text for text in texts) else found


def is_number(text: str | bytes) -> bool:
    """Return True if text is a plain number."""
    return as_numbers([text]) is not None


def claim(
    path: Path, wanted: int, max_bytes: int | None, what: str, *, packed: bool = False
) -> None:
    """Raise unless this many bytes may be allocated.

    A small `packed` file must not unpack to an implausible size either. There is no such limit
    below 256 MiB, or if the user has set `max_bytes`.
    """
    allowed = room() if max_bytes is None else max_bytes
    if wanted > allowed:
        given = f"{what}, which need {shown_bytes(wanted)}"
        raise FileError(path, given, f"at most {shown_bytes(allowed)} (the room there is)")
    held = path.stat().st_size if packed and max_bytes is None else wanted
    if wanted > MUCH and wanted > RATIO * held:
        given = f"{what}, {shown_bytes(wanted)} out of a file of {shown_bytes(held)}"
        most = f"at most {RATIO} times its size, or max_bytes to allow more"
        raise FileError(path, given, most)


def as_path(path: PathLike) -> Path:
    """Return the path; raise if it is something else, such as the data themselves."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("path", type(path).__name__, "the name of a file")
    return Path(path)


def shown_path(path: PathLike) -> str:
    """The path on one line, whatever characters it has."""
    text = os.fspath(path)
    if text == "-":
        return "standard input"
    return text if text.isprintable() else repr(text)


def shown_text(text: str) -> str:
    """Text found in a file: quoted, on one line, not too long."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


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
        raise FileError(path, KINDS.get(dtype.kind, str(dtype)) + what, "real numbers")


def as_floats(path: Path, values: Matrix, max_bytes: int | None) -> Matrix:
    """Native float32 or float64 unchanged; half precision as float32, the rest as float64."""
    small = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    dtype = np.dtype(np.float32 if small else np.float64)
    if values.dtype == dtype:  # not for the other byte order
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
    step = max(1, BLOCK_BYTES // max(1, lines.shape[1] * lines.dtype.itemsize))
    whole = getattr(lines, "chunks", None)  # of a zarr array
    if whole is not None:
        step = max(whole[0], step - step % whole[0])
    for first in range(0, lines.shape[0], step):
        block = lines[first : first + step]
        bad = np.isinf(block) if missing else ~np.isfinite(block)
        if bad.any():
            i, j = (int(index[0]) for index in np.nonzero(bad))
            row, column = (j, first + i) if by_columns else (first + i, j)
            gone = math.isnan(block[i, j])
            kind = "NaN" if gone else "an infinite entry"
            given = f"{kind} at row {row + 1}, column {column + 1}"
            raise FileError(path, given, f"finite numbers{FILLED_BY if gone else ''}")
        let_go(lines)
