"""Writing: every file appears whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.errors import InputError, ShapeError
from weakprox.storage.atomic import atomic
from weakprox.storage.market import write_mtx
from weakprox.storage.parquet import write_parquet
from weakprox.storage.table import WRITES, FileError, Labels, Matrix, PathLike
from weakprox.storage.text import SEPARATORS, write_text_table


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
        Labels. The formats .npy and .mtx cannot hold them; .csv, .tsv and .parquet hold
        both or none, so that missing ones are numbered from 1.
    """
    suffix = writable_suffix(path)
    matrix = np.asarray(values)
    if matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "fiub":
        given = f"{matrix.dtype} of shape {matrix.shape}"
        raise ShapeError("values", given, "real numbers in two axes, neither empty")
    if matrix.dtype == bool:
        matrix = matrix.astype(np.uint8)  # as numbers: text would say True and False
    names = _labels("rows", rows, matrix.shape[0]), _labels("columns", columns, matrix.shape[1])
    with atomic(path) as temporary:
        _write(temporary, suffix, matrix, *names)


def _write(
    path: Path, suffix: str, values: Matrix, rows: Labels | None, columns: Labels | None
) -> None:
    """Write to a path that nobody reads yet."""
    if suffix == ".npy":
        with path.open("wb") as handle:  # given a name, NumPy may append to it
            np.save(handle, values, allow_pickle=False)
    elif suffix == ".npz":
        with path.open("wb") as handle:
            np.savez_compressed(handle, values=values, **_texts(rows, columns))
    elif suffix == ".mtx":
        with path.open("wb") as handle:
            write_mtx(handle, values)
    else:
        if rows is not None or columns is not None:
            rows, columns = rows or _numbers(values, 0), columns or _numbers(values, 1)
        if suffix == ".parquet":
            write_parquet(path, values, rows, columns or _numbers(values, 1))
        else:
            write_text_table(path, SEPARATORS[suffix], values, rows, columns)


def write_factors(
    path: PathLike,
    U: Any,
    s: Any,
    Vt: Any,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> None:
    """Write X = U diag(s) Vt as an .npz file with the arrays U, s and Vt, and labels."""
    if writable_suffix(path) != ".npz":
        raise FileError(path, f"the suffix '{Path(path).suffix}'", ".npz, for factors")
    with atomic(path) as temporary, temporary.open("wb") as handle:
        np.savez(handle, U=U, s=s, Vt=Vt, **_texts(rows, columns))


def write_text(path: PathLike, text: str) -> None:
    """Write text as UTF-8."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def writable_suffix(path: PathLike) -> str:
    """The suffix, if there is a format for it."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITES:
        given = f"the suffix '{Path(path).suffix}'" if suffix else "no suffix"
        raise FileError(path, given, f"one of {', '.join(WRITES)}")
    return suffix


def _labels(name: str, given: Sequence[str] | None, size: int) -> Labels | None:
    """Labels as text, one for each line."""
    if given is None:
        return None
    if isinstance(given, str) or len(given) != size:
        raise InputError(name, f"{len(given)} labels", f"{size}")
    return tuple(str(label) for label in given)


def _texts(rows: Sequence[str] | None, columns: Sequence[str] | None) -> dict[str, Any]:
    """Those labels that there are, as arrays of text (never of objects)."""
    given = {"rows": rows, "columns": columns}
    return {n: np.array(labels, dtype=np.str_) for n, labels in given.items() if labels}


def _numbers(values: Matrix, axis: int) -> Labels:
    """Labels for lines that have none."""
    return tuple(str(i + 1) for i in range(values.shape[axis]))
