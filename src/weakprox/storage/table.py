"""What a matrix file holds, and the one error that every bad file leads to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from weakprox.errors import InputError
from weakprox.resources.limits import room, shown_bytes

Matrix: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Labels: TypeAlias = tuple[str, ...]
PathLike: TypeAlias = "str | os.PathLike[str]"

WRITES = (".npy", ".npz", ".csv", ".tsv", ".mtx", ".parquet")
MUCH, RATIO = 1 << 28, 500  # bytes unpacked, and how many times the file they may be
READS = (*WRITES, ".zarr")


class FileError(InputError):
    """A file cannot be read or written as asked; the argument is its name."""

    def __init__(self, argument: PathLike, given: object, wanted: str) -> None:
        super().__init__(shown_path(argument), given, wanted)


@dataclass(frozen=True)
class Table:
    """A matrix as it was found in a file.

    Attributes
    ----------
    values : array, SciPy sparse array or zarr array of shape (m, d)
        float32 or float64; a read-only memory map where the file allows it. A zarr array
        is as it is on disk.
    rows, columns : tuple of str, or None
        Labels, where the file has them.
    source : Path
        The file.
    format : str
        Its format, as the suffix says it.
    """

    values: Any
    rows: Labels | None
    columns: Labels | None
    source: Path
    format: str

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.values.shape[0]), int(self.values.shape[1])

    def dense(self, *, max_bytes: int | None = None) -> Matrix:
        """The values as a dense array: a sparse one is filled in, if there is room."""
        if isinstance(self.values, np.ndarray):
            return self.values
        m, d = self.shape
        claim(self.source, m * d * self.values.dtype.itemsize, max_bytes, f"{m} x {d} entries")
        if self.format == "zarr":
            small = self.values.dtype == np.float32
            try:
                found = self.values[:]
            except Exception as failure:  # each codec has its own
                given = f"a damaged chunk ({type(failure).__name__})"
                raise FileError(self.source, given, "a whole zarr array") from None
            return np.asarray(found, dtype=np.float32 if small else np.float64)
        return np.asarray(self.values.toarray())


def claim(path: Path, wanted: int, max_bytes: int | None, what: str) -> None:
    """Raise unless so many bytes may be taken up; called before they are."""
    allowed = room() if max_bytes is None else max_bytes
    if wanted > allowed:
        given = f"{what}, which need {shown_bytes(wanted)}"
        raise FileError(path, given, f"at most {shown_bytes(allowed)} (the room there is)")


def claim_unpacked(path: Path, size: int, max_bytes: int | None, what: str) -> None:
    """Raise if a small file would unpack to so much that it is hardly data.

    Files of ordinary size may be as compressible as they like. Whoever says how much memory
    may be taken has thought about it.
    """
    packed = path.stat().st_size
    if max_bytes is None and size > MUCH and size > RATIO * packed:
        given = f"{what}, {shown_bytes(size)} out of a file of {shown_bytes(packed)}"
        wanted = f"at most {RATIO} times its size, or max_bytes to allow more"
        raise FileError(path, given, wanted)


def shown_path(path: PathLike) -> str:
    """The path on one line, whatever characters it has."""
    text = os.fspath(path)
    return text if text.isprintable() else repr(text)


def shown_text(text: str) -> str:
    """Text found in a file: quoted, on one line, not too long."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
