"""Headers of NumPy's arrays, read without NumPy's parser of Python literals."""

from __future__ import annotations

import math
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from weakprox.resources.limits import shown_bytes
from weakprox.storage.table import FileError

# What zipfile and NumPy raise on damaged input.
DAMAGED = (
    ValueError,
    EOFError,
    OSError,
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
    zipfile.zlib.error,  # type: ignore[attr-defined]
    TypeError,
    OverflowError,
    KeyError,
    IndexError,
)
LONGEST_HEADER = 1 << 16  # bytes; a matrix needs about a hundred
PREFIX = {(1, 0): 2, (2, 0): 4}  # by version: bytes of the header's length
# A header is a Python literal, but nothing here is a parser of Python: only what NumPy writes
# passes, three entries in any order. Records are recognised, not understood.
DTYPE = r"'[<>|=]?[?biufcmMOSUV]\d{0,9}(?:\[\w{1,12}\])?'|\[[^\]]*\]"
SHAPE = r"\(([\w ,.+-]*)\)"
ENTRY = rf"'descr':\ *({DTYPE})|'fortran_order':\ *(True|False)|'shape':\ *{SHAPE}"
HEADER = re.compile(rf"\{{\s*(?:{ENTRY})\s*(?:,\s*(?:{ENTRY})\s*){{2}},?\s*\}}\s*", re.ASCII)


@dataclass(frozen=True)
class Header:
    """What an array in .npy form says of itself; `start` is where its data begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
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
        if version not in PREFIX:
            given = f"the .npy version {version[0]}.{version[1]}{what}"
            raise FileError(path, given, "1.0 or 2.0, as numbers need")
        prefix = PREFIX[version]
        size = int.from_bytes(handle.read(prefix), "little")
        # NumPy would read all that the prefix claims, gigabytes out of a small archive
        if size > LONGEST_HEADER:
            given = f"a header of {shown_bytes(size)}{what}"
            raise FileError(path, given, f"at most {shown_bytes(LONGEST_HEADER)}")
        text = handle.read(size).decode("latin-1")
        if len(text) < size or not HEADER.fullmatch(text):
            raise damaged
        entries = {part[0].split("'")[1]: part for part in re.finditer(ENTRY, text)}
        descr, shape = entries["descr"][1], entries["shape"][3]
        by_columns = entries["fortran_order"][2] == "True"
        dtype = np.dtype("V" if descr.startswith("[") else descr.strip("'"))
    except FileError:
        raise
    except DAMAGED:
        raise damaged from None
    numbers = [n.strip() for n in shape.removesuffix(",").split(",")] if shape else []
    if not all(re.fullmatch(r"\d{1,18}", n, re.ASCII) for n in numbers):
        raise FileError(path, f"the shape ({shape}){what}", "integers >= 0")
    start = npy.MAGIC_LEN + prefix + size
    return Header(tuple(map(int, numbers)), dtype, by_columns, start)
