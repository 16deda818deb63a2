"""Reading and writing matrices: one function each for every format.

Every file that is written appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.arguments import flag, one_of
from weakprox.display import counted
from weakprox.errors import InputError, ShapeError
from weakprox.resources.memory import room
from weakprox.storage import table
from weakprox.storage.arrays import read_npy, read_npz
from weakprox.storage.atomic import atomic
from weakprox.storage.dialect import SEPARATORS
from weakprox.storage.market import read_mtx
from weakprox.storage.meant import ELSEWHERE, local
from weakprox.storage.parquet import read_parquet, write_parquet
from weakprox.storage.sheets import SHEETS, read_sheet
from weakprox.storage.table import Contents, FileError, Labels, PathLike, Table
from weakprox.storage.text import (
    Header,
    IndexCol,
    Layout,
    read_cells,
    read_text,
    write_text_table,
)
from weakprox.storage.zarr_folder import read_zarr

# First bytes of each format.
MAGIC = {
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"PK\x05\x06": ".npz",
    b"PAR1": ".parquet",
    b"%%MatrixMarket": ".mtx",
}
TEXTS = (".csv", ".tsv", ".txt")
PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def read_matrix(
    path: PathLike,
    *,
    key: str | None = None,
    header: Header = "auto",
    missing: bool = False,
    max_bytes: int | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    index_col: IndexCol = None,
) -> Table:
    """Read a matrix of real numbers, with labels if the file has them.

    Nothing is ever unpickled, and sizes are checked before memory is allocated.

    Parameters
    ----------
    path : str or path
        A .npy, .npz, .csv, .tsv, .txt, .mtx, .parquet, .xlsx or .ods file, or a .zarr
        folder. A .npy file is memory-mapped, a zarr array opened.
    key : str, optional
        Name of the array in an .npz file, not needed if it has only one matrix; name of a
        sheet, by default the first.
    header : bool or "auto"
        Whether the first row of a text file or sheet names the columns.
    missing : bool
        Whether empty cells and NaN are allowed (they become NaN).
    max_bytes : int, optional
        Largest amount of memory to use; by default most of what is available.
    sep, decimal : str, optional
        Separator of cells and decimal sign of a text file; by default detected.
    index_col : int, str or False, optional
        The column of a text file or sheet with labels: its number from 1, or its name. False
        means that there is none. By default detected.

    Returns
    -------
    Table
        float32 values stay float32; all others, integers too, become float64.

    Raises
    ------
    FileError
        If the file is not such a matrix; the message names the file.
    """
    source = table.as_path(path)
    suffix = _checked_file(source)
    if key is not None and suffix not in (".npz", *SHEETS):
        raise InputError("key", repr(key), "a key for .npz files and sheets only")
    one_of("header", header, (True, False, "auto"))
    flag("missing", missing)
    layout = Layout(header, sep, decimal, index_col)
    for name in ("sep", "decimal"):
        if getattr(layout, name) is not None and suffix not in TEXTS:
            raise InputError(name, repr(getattr(layout, name)), "none: this is not a text file")

    def sheet() -> Contents:
        allowed = room() if max_bytes is None else max_bytes
        cells = read_sheet(source, key, max_bytes)
        return read_cells(source, cells, layout, missing, allowed)

    readers: dict[str, Callable[[], Contents]] = {
        ".npy": lambda: read_npy(source),
        ".npz": lambda: read_npz(source, key, max_bytes),
        ".zarr": lambda: read_zarr(source, max_bytes),
        ".mtx": lambda: read_mtx(source, max_bytes),
        ".parquet": lambda: read_parquet(source, missing, max_bytes),
        **dict.fromkeys(SHEETS, sheet),
        **dict.fromkeys(TEXTS, lambda: read_text(source, layout, missing, max_bytes)),
    }
    try:
        found = readers[suffix]()
    except MemoryError:
        raise FileError(source, "more than fits into memory", "a smaller matrix") from None
    except PermissionError:
        raise FileError(source, "a file that may not be read", "a readable one") from None
    values = found.values
    if suffix == ".zarr":
        with table.zarr_chunks(source):
            table.check_finite(source, values, missing)
    elif isinstance(values, np.ndarray):
        values = table.as_floats(source, values, max_bytes)
        table.check_finite(source, values, missing)
    else:
        table.checked_dtype(source, values.dtype)
        if values.dtype != np.float32:
            values = values.astype(np.float64)
        table.check_finite(source, values.data[None, :], missing)
    kind, said = suffix.removeprefix("."), (found.notes, found.doubts)
    return Table(values, found.rows, found.columns, source, kind, *said)


def _checked_file(path: Path) -> str:
    """Return the suffix of a file that exists and has the contents that its name implies."""
    suffix = path.suffix.lower()
    if path.is_dir() and suffix == ".zarr":
        return suffix
    if path.is_dir():
        raise FileError(path, "a directory", "a file")
    if not path.exists():
        raise FileError(path, "no such file", local(path))
    known_suffix(path, table.READS)
    if not path.is_file():
        raise FileError(path, "something that is not a plain file", "a file")
    try:
        with path.open("rb") as handle:
            front = handle.read(16)
    except OSError as failure:
        raise FileError(path, failure.strerror or "an error", "a readable file") from None
    if not front:
        raise FileError(path, "an empty file", f"a {suffix} file")
    if front.startswith(PICKLES):
        raise FileError(path, "a Python pickle, which could run code", f"a {suffix} file")
    held = next((name for magic, name in MAGIC.items() if front.startswith(magic)), None)
    if held == ".npz" and suffix in SHEETS:
        held = suffix  # all of them are zip archives
    if held != suffix and not (held is None and suffix in TEXTS):
        given = f"the contents of a {held} file" if held else "first bytes of no such file"
        raise FileError(path, given, f"a {suffix} file")
    return suffix


def write_matrix(
    path: PathLike,
    values: Any,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> None:
    """Write a matrix in the format that the suffix names.

    Parameters
    ----------
    path : str or path
        A .npy, .npz, .csv, .tsv, .mtx or .parquet file.
    values : array of shape (m, d)
        Real numbers.
    rows, columns : sequence of str, optional
        Labels. The formats .npy and .mtx cannot store them. Files in .csv, .tsv and .parquet
        store both or none; missing ones are numbered from 1.
    """
    suffix = known_suffix(path)
    matrix = np.asarray(values)
    if matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "fiub":
        given = f"{matrix.dtype} of shape {matrix.shape}"
        raise ShapeError("values", given, "real numbers in two axes, neither empty")
    if matrix.dtype == bool:
        matrix = matrix.astype(np.uint8)  # text formats would write True and False
    rows = _labels("rows", rows, matrix.shape[0])
    columns = _labels("columns", columns, matrix.shape[1])
    with atomic(path) as temporary:
        if suffix in (".npy", ".npz", ".mtx"):
            # given a name, NumPy may append a suffix to it
            with temporary.open("wb") as handle:
                if suffix == ".npy":
                    np.save(handle, matrix, allow_pickle=False)
                elif suffix == ".npz":
                    np.savez_compressed(handle, values=matrix, **_texts(rows, columns))
                else:
                    from scipy.io import mmwrite

                    mmwrite(handle, matrix)  # every digit
            return
        numbers = [tuple(str(i + 1) for i in range(size)) for size in matrix.shape]
        if rows is not None or columns is not None:
            rows, columns = rows or numbers[0], columns or numbers[1]
        if suffix == ".parquet":
            write_parquet(temporary, matrix, rows, columns or numbers[1])
        else:
            write_text_table(temporary, SEPARATORS[suffix], matrix, rows, columns)


def write_factors(
    path: PathLike,
    U: Any,
    s: Any,
    Vt: Any,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> None:
    """Write X = U diag(s) Vt as an .npz file with the arrays U, s and Vt, and labels."""
    if known_suffix(path) != ".npz":
        raise FileError(path, f"the suffix '{Path(path).suffix}'", ".npz, for factors")
    with atomic(path) as temporary, temporary.open("wb") as handle:
        np.savez(handle, U=U, s=s, Vt=Vt, **_texts(rows, columns))


def write_text(path: PathLike, text: str) -> None:
    """Write text as UTF-8."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def known_suffix(path: PathLike, known: tuple[str, ...] = table.WRITES) -> str:
    """The suffix, if there is a format for it."""
    own = table.as_path(path).suffix
    suffix = own.lower()
    if suffix not in known:
        given = f"the suffix '{own}'" if suffix else "no suffix"
        if suffix in table.READS:
            given += ", which is only read"
        wanted = f"one of {', '.join(known)}"
        if known is table.READS and suffix in ELSEWHERE:
            wanted += f"; {ELSEWHERE[suffix]}"
        raise FileError(path, given, wanted)
    return suffix


def _labels(name: str, given: Sequence[str] | None, size: int) -> Labels | None:
    """Labels as text, one for each line."""
    if given is None:
        return None
    if isinstance(given, str) or len(given) != size:
        raise InputError(name, counted(len(given), "label"), f"{size}")
    return tuple(str(label) for label in given)


def _texts(rows: Sequence[str] | None, columns: Sequence[str] | None) -> dict[str, Any]:
    """The given labels, as arrays of text (never of objects)."""
    given = {"rows": rows, "columns": columns}
    return {n: np.array(labels, dtype=np.str_) for n, labels in given.items() if labels}
