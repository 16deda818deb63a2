"""NumPy's own files, .npy and .npz: headers are read and checked before any data.

Headers are parsed by a regular expression, not as Python literals.
"""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.lib import format as npy

from weakprox.display import counted
from weakprox.resources.memory import shown_bytes
from weakprox.storage import table
from weakprox.storage.table import Contents, FileError, Labels, Matrix

PART = 1 << 20  # bytes unpacked at a time
# Exceptions that zipfile and NumPy raise on damaged input.
DAMAGED = (
    *(ValueError, EOFError, OSError, RuntimeError, TypeError, OverflowError, LookupError),
    *(zipfile.BadZipFile, zlib.error),
)
LONGEST_HEADER = 1 << 16  # bytes; a matrix needs about a hundred
PREFIX = {(1, 0): 2, (2, 0): 4}  # by version: bytes of the header's length
# A header is a Python literal, but it is not evaluated: it must match what NumPy writes, three
# entries in any order. Records are recognised, to name them in the error, and not parsed.
DTYPE = r"'[<>|=]?[?biufcmMOSUV]\d{0,9}(?:\[\w{1,12}\])?'|\[[^\]]*\]"
SHAPE = r"\(([\w ,.+-]*)\)"
ENTRY = rf"'descr':\ *({DTYPE})|'fortran_order':\ *(True|False)|'shape':\ *{SHAPE}"
HEADER = re.compile(rf"\{{\s*(?:{ENTRY})\s*(?:,\s*(?:{ENTRY})\s*){{2}},?\s*\}}\s*", re.ASCII)


@dataclass(frozen=True)
class Header:
    """Header of an array in .npy form; the data begin at `start`."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
    start: int

    @property
    def end(self) -> int:
        """Bytes up to the end of the data."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


Headers: TypeAlias = dict[str, Header]


def read_header(path: Path, handle: IO[bytes], what: str = "") -> Header:
    damaged = f"a damaged header{what}", "an array saved by NumPy"
    with table.refusing(path, *damaged, *DAMAGED):
        version = npy.read_magic(handle)
        if version not in PREFIX:
            given = f"the .npy version {version[0]}.{version[1]}{what}"
            raise FileError(path, given, "1.0 or 2.0, as numbers need")
        prefix = PREFIX[version]
        size = int.from_bytes(handle.read(prefix), "little")
        # NumPy would read as many bytes as the prefix claims, gigabytes from a small archive
        if size > LONGEST_HEADER:
            given = f"a header of {shown_bytes(size)}{what}"
            raise FileError(path, given, f"at most {shown_bytes(LONGEST_HEADER)}")
        text = handle.read(size).decode("latin-1")
        if len(text) < size or not HEADER.fullmatch(text):
            raise FileError(path, *damaged)
        entries = {part[0].split("'")[1]: part for part in re.finditer(ENTRY, text)}
        descr, shape = entries["descr"][1], entries["shape"][3]
        by_columns = entries["fortran_order"][2] == "True"
        dtype = np.dtype("V" if descr.startswith("[") else descr.strip("'"))
    numbers = [n.strip() for n in shape.removesuffix(",").split(",")] if shape else []
    if not all(re.fullmatch(r"\d{1,18}", n, re.ASCII) for n in numbers):
        raise FileError(path, f"the shape ({shape}){what}", "integers >= 0")
    start = npy.MAGIC_LEN + prefix + size
    return Header(tuple(map(int, numbers)), dtype, by_columns, start)


def read_npy(path: Path) -> Contents:
    """Return a memory map of the array."""
    with path.open("rb") as handle:
        header = read_header(path, handle)
    table.checked_dtype(path, header.dtype)
    table.checked_shape(path, header.shape)
    held = path.stat().st_size
    if held < header.end:
        given = f"{counted(held, 'byte')}, a truncated file"
        raise FileError(path, given, f"{header.end}, as its header says")
    order: Any = "F" if header.by_columns else "C"
    return Contents(np.memmap(path, header.dtype, "r", header.start, header.shape, order))


def read_npz(path: Path, key: str | None, max_bytes: int | None) -> Contents:
    """Return the only matrix of an archive (or the one named), and its labels if any."""
    damaged = "a damaged archive ({})", "one saved by numpy.savez"
    with table.refusing(path, *damaged, *DAMAGED), zipfile.ZipFile(path) as archive:
        headers = _headers(path, archive)
        member = partial(_member, path, archive, headers, max_bytes)
        if key is None and {"format", "shape", "data"} <= headers.keys():
            size = sum(header.end for header in headers.values())
            table.checked_dtype(path, headers["data"].dtype, " in 'data'")
            table.claim(path, size, max_bytes, "a sparse matrix")
            parts = [name for name in headers if headers[name].dtype.kind in "fiubSU"]
            return Contents(_sparse(path, {name: member(name) for name in parts}))
        name = _chosen(path, headers, key)
        values = member(name)
        labels: list[Labels | None] = []
        for side, size in zip(("rows", "columns"), values.shape, strict=True):
            there = side != name and _is_text(path, headers.get(side), side, size)
            labels.append(_text(path, member(side), side) if there else None)
    return Contents(values, labels[0], labels[1])


def _headers(path: Path, archive: zipfile.ZipFile) -> dict[str, Header]:
    """Headers of all arrays, checked against the sizes in the archive."""
    found = {}
    for info in archive.infolist():
        if not info.filename.endswith(".npy"):
            continue
        name = info.filename.removesuffix(".npy")
        with archive.open(info) as handle:
            header = read_header(path, handle, f" in '{name}'")
        if header.dtype.kind not in "OV" and header.end != info.file_size:
            given = f"'{name}' with {counted(info.file_size, 'byte')}"
            raise FileError(path, given, f"{header.end}, as its header says")
        found[name] = header
    return found


def _chosen(path: Path, headers: Headers, key: str | None) -> str:
    """The name of the matrix to read."""
    listed = ", ".join(f"{name} {header.shape}" for name, header in headers.items())
    if key is not None and key not in headers:
        given = f"no array '{key}' (it has {listed or 'none'})"
        raise FileError(path, given, "the name of one of its arrays")
    numbers = {n: h for n, h in headers.items() if h.dtype.kind in "fiub"}
    matrices = [name for name, header in numbers.items() if len(header.shape) == 2]
    if key is None and len(matrices) > 1:
        given = f"several matrices ({', '.join(matrices)})"
        raise FileError(path, given, "one, or key= (--key) to say which")
    if key is None and not matrices and len(headers) != 1:
        raise FileError(path, f"no matrix of numbers ({listed or 'no arrays'})", "one")
    name = key if key is not None else [*matrices, *headers][0]
    table.checked_dtype(path, headers[name].dtype, f" in '{name}'")
    table.checked_shape(path, headers[name].shape, f"'{name}', an array")
    return name


def _member(
    path: Path, archive: zipfile.ZipFile, headers: Headers, max_bytes: int | None, name: str
) -> Matrix:
    """Plain numbers or text of one array, without pickle; check the size before unpacking."""
    header = headers[name]
    table.claim(path, header.end, max_bytes, f"'{name}' of shape {header.shape}", packed=True)
    shape = header.shape[::-1] if header.by_columns else header.shape
    values = np.empty(shape, header.dtype)
    left: Any = values.reshape(-1).view(np.uint8) if values.nbytes else ()
    with archive.open(f"{name}.npy") as handle:
        handle.read(header.start)
        while len(left):
            part = handle.read(min(len(left), PART))
            if not part:
                raise EOFError("an array that ends early")
            left[: len(part)] = np.frombuffer(part, np.uint8)
            left = left[len(part) :]
        handle.read(1)  # zipfile checks the checksum at the end of a member
    return values.T if header.by_columns else values


def _is_text(path: Path, header: Header | None, side: str, size: int) -> bool:
    """Return True if the array contains labels; raise if their type or number is wrong.

    Their number is compared before they are read, since any number of empty strings takes no
    bytes.
    """
    if header is None or len(header.shape) != 1:
        return False
    if header.dtype.kind in "OS":  # they must not be lost silently
        kind = "bytes" if header.dtype.kind == "S" else table.KINDS["O"]
        wanted = "text, as numpy.array(labels, dtype=str) makes it"
        raise FileError(path, f"labels in '{side}' as {kind}", wanted)
    if header.dtype.kind != "U":
        return False
    if header.shape[0] != size:
        given = f"{counted(header.shape[0], 'label')} in '{side}'"
        raise FileError(path, given, f"{size}, one for each of the {side}")
    return True


def _text(path: Path, labels: Matrix, side: str) -> Labels:
    """Return the labels; raise on lone surrogates, which cannot be written again."""
    if labels.dtype.itemsize:
        codes = labels.view(np.dtype(np.uint32).newbyteorder(labels.dtype.byteorder))
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
            raise FileError(path, f"half a character in '{side}'", "Unicode text")
    return tuple(str(label) for label in labels)


def _sparse(path: Path, found: dict[str, Matrix]) -> Any:
    """A matrix saved by scipy.sparse.save_npz, its indices checked."""
    from scipy import sparse

    kind, sizes = str(found["format"].astype(str)), found["shape"]
    if sizes.dtype.kind not in "iu":
        raise FileError(path, f"a shape of {sizes.dtype}", "integers")
    shape = tuple(int(n) for n in sizes.reshape(-1))
    table.checked_shape(path, shape)
    if kind in ("csr", "csc", "bsr"):
        made = getattr(sparse, f"{kind}_array")
        matrix = made(tuple(found[name] for name in ("data", "indices", "indptr")), shape)
        matrix.check_format(full_check=True)  # ValueError on indices out of range
    elif kind == "coo":
        matrix = sparse.coo_array((found["data"], (found["row"], found["col"])), shape)
    elif kind == "dia":
        matrix = sparse.dia_array((found["data"], found["offsets"]), shape)
    else:
        raise FileError(path, f"the sparse format {kind!r}", "csr, csc, coo, bsr or dia")
    return sparse.coo_array(matrix)
