"""Long tables: one observation in each line of a .csv, .tsv or .parquet file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.storage.parquet import arrow
from weakprox.storage.table import FileError, PathLike, refusing, shown_text

READS = (".csv", ".tsv", ".parquet")
Column = np.ndarray[Any, np.dtype[Any]]


def read_long(
    path: PathLike, names: Sequence[str], numbers: Sequence[str]
) -> dict[str, Column]:
    """Return these columns of a long table; those of `numbers` as floats, NaN where empty.

    Raises
    ------
    FileError
        If the file cannot be read, lacks a column or has text where a number is wanted.
    """
    source = Path(path)
    suffix = source.suffix.lower()
    if suffix not in READS:
        raise FileError(source, f"the suffix '{suffix}'", " or ".join(READS))
    if not source.is_file():
        raise FileError(source, "no such file", "an existing one")
    found = _parquet(source, names) if suffix == ".parquet" else _text(source, names, suffix)
    return {
        name: _numbers(source, name, column) if name in numbers else np.asarray(column)
        for name, column in found.items()
    }


def write_long(path: PathLike, columns: Mapping[str, Any]) -> None:
    """Write columns of one length to a .csv, .tsv or .parquet file."""
    target = Path(path)
    if target.suffix.lower() == ".parquet":
        pa, parquet = arrow()
        table = pa.table({name: pa.array(np.asarray(c)) for name, c in columns.items()})
        parquet.write_table(table, target)
        return
    comma = "\t" if target.suffix.lower() == ".tsv" else ","
    with target.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, delimiter=comma)
        writer.writerow(columns)
        lists = [np.asarray(column).tolist() for column in columns.values()]
        writer.writerows(zip(*lists, strict=True))


def _text(path: Path, names: Sequence[str], suffix: str) -> dict[str, list[str]]:
    """Columns of a text file, as text."""
    wanted = "a table in UTF-8 whose first line names the columns"
    bad = (UnicodeDecodeError, csv.Error)
    with (
        refusing(path, "text that cannot be read ({})", wanted, *bad),
        path.open(newline="", encoding="utf-8-sig") as handle,
    ):
        reader = csv.reader(handle, delimiter="\t" if suffix == ".tsv" else ",")
        header = next(reader, [])
        at = _positions(path, header, names)
        found: dict[str, list[str]] = {name: [] for name in names}
        for line in reader:
            if not line:
                continue
            if len(line) != len(header):
                given = f"{len(line)} cells in line {reader.line_num}"
                raise FileError(path, given, f"{len(header)}, as in the first line")
            for name, position in at.items():
                found[name].append(line[position])
    return found


def _parquet(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Columns of a Parquet file."""
    pa, parquet = arrow()
    with refusing(path, "a damaged file ({})", "a Parquet file", pa.ArrowException, OSError):
        with parquet.ParquetFile(path) as file:
            _positions(path, file.schema_arrow.names, names)
        table = parquet.read_table(path, columns=list(dict.fromkeys(names)))
    return {name: table.column(name).to_numpy() for name in names}


def _positions(path: Path, header: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    missing = [name for name in names if name not in header]
    if missing:
        shown = ", ".join(shown_text(name) for name in list(header)[:10])
        given = f"no column {', '.join(map(repr, missing))}"
        raise FileError(path, given, f"one of those there are: {shown}")
    return {name: list(header).index(name) for name in names}


def _numbers(path: Path, name: str, column: Any) -> Column:
    """The column as floats; empty cells are NaN."""
    if not isinstance(column, list):
        try:
            return np.asarray(column, dtype=float)
        except (TypeError, ValueError):
            raise FileError(path, f"text in column '{name}'", "numbers") from None
    found = np.empty(len(column))
    for i, text in enumerate(column):
        try:
            found[i] = float(text) if text.strip() else np.nan
        except ValueError:
            given = f"'{shown_text(text)}' in column '{name}', line {i + 2}"
            raise FileError(path, given, "a number, or nothing") from None
    return found
