"""NumPy's own files, .npy and .npz: headers are read and checked before any data."""

from __future__ import annotations

import io
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from weakprox.storage.checks import KINDS, checked_dtype, checked_shape
from weakprox.storage.limits import shown_bytes
from weakprox.storage.table import FileError, Labels, Matrix, claim

# What zipfile and NumPy raise on damaged input.
DAMAGED = (
    ValueError,
    EOFError,
    OSError,
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
    zipfile.zlib.error,  # type: ignore[attr-defined]
    SyntaxError,
    TypeError,
    OverflowError,
)
LONGEST_HEADER = 1 << 16  # bytes; a matrix needs about a hundred
# By version: bytes of the header's length, and what reads both.
READERS = {
    (1, 0): (2, npy.read_array_header_1_0),
    (2, 0): (4, npy.read_array_header_2_0),
}


@dataclass(frozen=True)
class Header:
    """What an array in .npy form says of itself; `start` is where its data begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int

    @property
    def end(self) -> int:
        """Bytes up to the end of the data."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


def read_header(path: Path, handle: IO[bytes], what: str = "") -> Header:
    """The header of an array, without its data."""
    damaged = FileError(path, f"a damaged header{what}", "an array saved by NumPy")
    try:
        version = npy.read_magic(handle)
        if version not in READERS:
            given = f"the .npy version {version[0]}.{version[1]}{what}"
            raise FileError(path, given, "1.0 or 2.0, as numbers need")
        prefix, read = READERS[version]
        front = handle.read(prefix)
        size = int.from_bytes(front, "little")
        # NumPy would read all that the prefix claims, gigabytes out of a small archive
        if size > LONGEST_HEADER:
            given = f"a header of {shown_bytes(size)}{what}"
            raise FileError(path, given, f"at most {shown_bytes(LONGEST_HEADER)}")
        front += handle.read(size)
        if len(front) < prefix + size:
            raise damaged
        shape, _, dtype = read(io.BytesIO(front))
    except FileError:
        raise
    except DAMAGED:
        raise damaged from None
    if any(type(n) is not int or n < 0 for n in shape):  # True is an int to isinstance
        raise FileError(path, f"the shape {shape}{what}", "integers >= 0")
    return Header(shape, dtype, npy.MAGIC_LEN + prefix + size)


def read_npy(path: Path) -> Matrix:
    """A memory map of the array: nothing is loaded yet."""
    with path.open("rb") as handle:
        header = read_header(path, handle)
    checked_dtype(path, header.dtype)
    checked_shape(path, header.shape)
    held = path.stat().st_size
    if held < header.end:
        given = f"{held} bytes, a truncated file"
        raise FileError(path, given, f"{header.end}, as its header says")
    values: Matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    return values


def read_npz(
    path: Path, key: str | None, max_bytes: int | None
) -> tuple[Any, Labels | None, Labels | None]:
    """The one matrix of an archive (or the one named), and labels if they are there."""
    try:
        with zipfile.ZipFile(path) as archive:
            headers = _headers(path, archive)
            if key is None and {"format", "shape", "data"} <= headers.keys():
                return _sparse(path, headers, max_bytes), None, None
            name = _chosen(path, headers, key)
            values = _member(path, archive, headers, name, max_bytes)
            labels = [
                tuple(_text(path, _member(path, archive, headers, side, max_bytes), side))
                if side in headers and side != name and _is_text(path, headers[side], side)
                else None
                for side in ("rows", "columns")
            ]
    except FileError:
        raise
    except DAMAGED as failure:
        given = f"a damaged archive ({type(failure).__name__})"
        raise FileError(path, given, "one saved by numpy.savez") from None
    for side, found, size in zip(("rows", "columns"), labels, values.shape, strict=True):
        if found is not None and len(found) != size:
            given = f"{len(found)} labels in '{side}'"
            raise FileError(path, given, f"{size}, one for each of the {side}")
    return values, labels[0], labels[1]


def _headers(path: Path, archive: zipfile.ZipFile) -> dict[str, Header]:
    """Headers of all arrays; each must agree with the size its archive states."""
    found = {}
    for info in archive.infolist():
        if not info.filename.endswith(".npy"):
            continue
        name = info.filename.removesuffix(".npy")
        with archive.open(info) as handle:
            header = read_header(path, handle, f" in '{name}'")
        if not header.dtype.hasobject and header.end != info.file_size:
            given = f"'{name}' with {info.file_size} bytes"
            raise FileError(path, given, f"{header.end}, as its header says")
        found[name] = header
    return found


def _chosen(path: Path, headers: dict[str, Header], key: str | None) -> str:
    """The name of the matrix to read."""
    listed = ", ".join(f"{name} {header.shape}" for name, header in headers.items())
    if key is not None:
        if key not in headers:
            given = f"no array '{key}' (it has {listed or 'none'})"
            raise FileError(path, given, "a key that is there")
        checked_dtype(path, headers[key].dtype, f" in '{key}'")
        checked_shape(path, headers[key].shape, f"'{key}', an array")
        return key
    numbers = {n: h for n, h in headers.items() if h.dtype.kind in "fiub"}
    matrices = [name for name, header in numbers.items() if len(header.shape) == 2]
    if len(matrices) > 1:
        given = f"several matrices ({', '.join(matrices)})"
        raise FileError(path, given, "one, or key= (--key) to say which")
    if matrices:
        checked_shape(path, headers[matrices[0]].shape)
        return matrices[0]
    if len(headers) == 1:  # say what is wrong with it
        (name, header), *_ = headers.items()
        checked_dtype(path, header.dtype, f" in '{name}'")
        checked_shape(path, header.shape, f"'{name}', an array")
    raise FileError(path, f"no matrix of numbers ({listed or 'no arrays'})", "one")


def _member(
    path: Path,
    archive: zipfile.ZipFile,
    headers: dict[str, Header],
    name: str,
    max_bytes: int | None,
) -> Matrix:
    """The data of one array; its size is checked before it is unpacked."""
    claim(path, headers[name].end, max_bytes, f"'{name}' of shape {headers[name].shape}")
    with archive.open(f"{name}.npy") as handle:
        values: Matrix = npy.read_array(handle, allow_pickle=False)
        handle.read(1)  # at the end of the member its checksum is compared
    return values


def _is_text(path: Path, header: Header, side: str) -> bool:
    """Whether the array can be labels; raises if they are saved in a way not read."""
    if len(header.shape) != 1:
        return False
    if header.dtype.kind in "OS":  # left out in silence, they would seem to be lost
        given = f"labels in '{side}' as {'bytes' if header.dtype.kind == 'S' else KINDS['O']}"
        raise FileError(path, given, "text, as numpy.array(labels, dtype=str) makes it")
    return header.dtype.kind == "U"


def _text(path: Path, labels: Matrix, side: str) -> list[str]:
    """Labels, if they can be written again: half characters cannot."""
    found = [str(label) for label in labels]
    try:
        "".join(found).encode("utf-8")
    except UnicodeEncodeError:
        raise FileError(path, f"half a character in '{side}'", "Unicode text") from None
    return found


def _sparse(path: Path, headers: dict[str, Header], max_bytes: int | None) -> Any:
    """A matrix saved by scipy.sparse.save_npz, its indices checked."""
    from scipy.sparse import coo_array, load_npz

    claim(path, sum(h.end for h in headers.values()), max_bytes, "a sparse matrix")
    checked_dtype(path, headers["data"].dtype, " in 'data'")
    found = load_npz(path)
    if found.format in ("csr", "csc", "bsr"):
        found.check_format(full_check=True)  # ValueError on indices out of range
    checked_shape(path, found.shape)
    return coo_array(found)
