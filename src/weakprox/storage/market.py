"""Matrix Market files, .mtx, dense or by coordinates."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np

from weakprox.storage.checks import checked_shape
from weakprox.storage.table import FileError, claim

FEWEST_BYTES = {"coordinate": 4, "array": 2}  # of one entry's line, "1 1\n" or "1\n"


def read_mtx(path: Path, max_bytes: int | None) -> Any:
    """A dense array or a sparse one, as the file says; symmetric ones are completed."""
    from scipy.io import mminfo, mmread
    from scipy.sparse import coo_array, issparse

    try:
        m, d, entries, layout, field, symmetry = mminfo(path)
    except (ValueError, OverflowError, OSError) as failure:
        given = f"a header that cannot be read ({_first_line(failure)})"
        raise FileError(path, given, "a Matrix Market file") from None
    checked_shape(path, (m, d))
    if field == "complex":
        raise FileError(path, "complex numbers", "real numbers")
    written = entries if layout == "coordinate" or symmetry == "general" else m * (d + 1) // 2
    if symmetry == "skew-symmetric" and layout == "array":
        written = m * (d - 1) // 2
    if written * FEWEST_BYTES[layout] > path.stat().st_size + 1:  # the last newline may lack
        given = f"{path.stat().st_size} bytes, a truncated file"
        raise FileError(path, given, f"{written} entries, as its header says")
    size = m * d * 8 if layout == "array" else entries * 32  # two indices, value, mirrored
    claim(path, size, max_bytes, f"{m} x {d}, {entries} entries")
    try:
        found = mmread(path)
    except (ValueError, OverflowError, OSError) as failure:
        given = f"entries that cannot be read ({_first_line(failure)})"
        raise FileError(path, given, "a Matrix Market file") from None
    if issparse(found):
        return coo_array(found, dtype=np.float64)
    return np.asarray(found)


def write_mtx(handle: IO[bytes], values: Any) -> None:
    """Every digit is written, so that reading gives the same numbers back."""
    from scipy.io import mmwrite

    mmwrite(handle, values)


def _first_line(failure: Exception) -> str:
    """What a library's error says, on one line."""
    lines = str(failure).splitlines()
    return lines[0].strip() if lines else type(failure).__name__
