"""Long tables: one observation in each line of a .csv, .tsv or .parquet file.

Parquet files can also be read batch by batch: they may be larger than memory.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.display import counted
from weakprox.errors import InputError
from weakprox.storage.dialect import LOOKED_AT, SEPARATORS, Rows, chosen, is_missing
from weakprox.storage.meant import in_numbers, local
from weakprox.storage.parquet import arrow
from weakprox.storage.table import FileError, PathLike, as_numbers, refusing, shown_text

READS = (".csv", ".tsv", ".parquet")
BATCH = 1 << 17  # lines read at once
AN_ID = "an id in each line"
Column = np.ndarray[Any, np.dtype[Any]]


def read_long(
    path: PathLike,
    names: Sequence[str],
    numbers: Sequence[str],
    *,
    sep: str | None = None,
    decimal: str | None = None,
) -> dict[str, Column]:
    """Return these columns of a long table; those of `numbers` as floats, NaN where empty.

    The separator of a text file is the one with which its first line has these names, and
    the decimal sign is detected, unless `sep` and `decimal` give them.

    Raises
    ------
    FileError
        If the file cannot be read, lacks a column or an id, or has text where a number is
        wanted.
    """
    source = Path(path)
    suffix = source.suffix.lower()
    if suffix not in READS:
        raise FileError(source, f"the suffix '{suffix}'", " or ".join(READS))
    if not source.is_file():
        raise FileError(source, "no such file", local(source))
    if suffix == ".parquet":
        found = _parquet(source, names)
    else:
        found = _text(source, names, numbers, sep, decimal)
    return {
        name: (_numbers if name in numbers else _ids)(source, name, column)
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


def _separator(start: str, names: Sequence[str], usual: str) -> str:
    """The separator with which the first line has these names; the usual one if none does."""
    for sep in (usual, ";", "\t", "|", ","):
        if set(names) <= set(next(csv.reader(start.splitlines()[:1], delimiter=sep), [])):
            return sep
    return usual


def _text(
    path: Path,
    names: Sequence[str],
    numbers: Sequence[str],
    sep: str | None,
    decimal: str | None,
) -> dict[str, list[Any]]:
    wanted = "a table in UTF-8 whose first line names the columns"
    bad = (UnicodeDecodeError, csv.Error)
    with (
        refusing(path, "text that cannot be read ({})", wanted, *bad),
        path.open(newline="", encoding="utf-8-sig") as handle,
    ):
        start = handle.read(LOOKED_AT)
        usual = SEPARATORS[path.suffix.lower()]
        dialect = chosen(path, start, sep or _separator(start, names, usual), decimal)
        handle.seek(0)
        reader = dialect.rows(handle, path)
        rows = reader.cells()  # ids remain unchanged
        header = next(rows, [])
        at = _positions(path, header, names)
        found: dict[str, list[Any]] = {name: [] for name in names}
        for line in rows:
            if not line:
                continue
            if len(line) != len(header):
                given = f"{counted(len(line), 'cell')} in line {reader.line_num}"
                raise FileError(path, given, f"{len(header)}, as in the first line")
            for name, position in at.items():
                cell = line[position]
                if name not in numbers and not cell.strip():
                    given = f"an empty cell in column '{name}', line {reader.line_num}"
                    raise FileError(path, given, AN_ID)
                found[name].append(_number(reader, name, cell) if name in numbers else cell)
    return found


def _number(reader: Rows, name: str, cell: str) -> float:
    """A cell of the line read last as a number, NaN if it is empty."""
    text = reader.pointed(cell)
    if is_missing(text):
        return np.nan
    found = as_numbers([text])
    if found is None:
        given = f"{shown_text(text)} in column '{name}', line {reader.line_num}"
        raise FileError(reader.path, given, in_numbers(text, "a number, or an empty cell"))
    return found[0]


def _parquet(path: Path, names: Sequence[str]) -> dict[str, Any]:
    with _opened(path) as file:
        _positions(path, file.schema_arrow.names, names)
        table = file.read(columns=list(dict.fromkeys(names)))
    return {name: table.column(name).to_numpy() for name in names}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An open Parquet file; errors of reading it become a FileError."""
    pa, parquet = arrow()
    bad = (pa.ArrowException, OSError)
    with (
        refusing(path, "a damaged file ({})", "a Parquet file", *bad),
        parquet.ParquetFile(path) as file,
    ):
        yield file


def _positions(path: Path, header: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    missing = [name for name in names if name not in header]
    if missing:
        shown = ", ".join(shown_text(name) for name in list(header)[:10])
        given = f"no column {', '.join(map(repr, missing))}"
        raise FileError(path, given, f"one of its columns: {shown}")
    for name in names:
        if list(header).count(name) > 1:
            raise FileError(path, f"several columns {name!r}", "columns with different names")
    return {name: list(header).index(name) for name in names}


def _numbers(path: Path, name: str, column: Any) -> Column:
    """The column as floats; empty cells are NaN."""
    try:
        return np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        raise FileError(path, f"text in column '{name}'", "numbers") from None


def _ids(path: Path, name: str, column: Any) -> Column:
    """The column as an array of ids; raises if one is missing."""
    found = np.asarray(column)
    missing = found != found  # NaN and NaT
    if found.dtype == object:
        missing = np.array([one is None or one == "" or one != one for one in found], bool)
    if missing.any():
        given = f"an empty cell in column '{name}', row {np.flatnonzero(missing)[0] + 1}"
        raise FileError(path, given, AN_ID)
    return found


@dataclass(frozen=True)
class LongFiles:
    """Parquet files with one observation in each line, and the names of some columns.

    `ids` are columns that name rows and columns of a matrix, `numbers` the others.
    """

    paths: tuple[Path, ...]
    ids: tuple[str, ...]
    numbers: tuple[str, ...]

    @classmethod
    def of(
        cls, source: PathLike | Sequence[PathLike], ids: Sequence[str], numbers: Sequence[str]
    ) -> LongFiles:
        """Open files, or all Parquet files of a folder, and check their columns."""
        found: list[Path] = []
        for one in [source] if isinstance(source, (str, os.PathLike)) else list(source):
            path = Path(one)
            found += sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not found:
            raise InputError("source", repr(source), "a Parquet file, or several")
        table = cls(tuple(found), tuple(ids), tuple(numbers))
        for path in found:
            table._check(path)
            for name in table.ids:
                kinds = [table._schema(one).field(name).type for one in (found[0], path)]
                if kinds[0] != kinds[1]:
                    given = f"{kinds[1]} in column '{name}'"
                    raise FileError(path, given, f"{kinds[0]}, as in {found[0].name}")
        if not table.count:
            raise FileError(found[0], "no rows", "at least one observation")
        return table

    def _check(self, path: Path) -> None:
        """Raise unless the file has the columns, with types that can be read."""
        if not path.is_file():
            raise FileError(path, "no such file", "an existing one")
        kinds, schema = arrow()[0].types, self._schema(path)
        _positions(path, schema.names, (*self.ids, *self.numbers))
        for name in self.numbers:
            kind = schema.field(name).type
            whole = kinds.is_integer(kind) or kinds.is_boolean(kind)
            if not (whole or kinds.is_floating(kind)):
                raise FileError(path, f"{kind} in column '{name}'", "real numbers")
        for name in self.ids:
            kind = schema.field(name).type
            kind = kind.value_type if kinds.is_dictionary(kind) else kind
            text = kinds.is_string(kind) or kinds.is_large_string(kind)
            if not (kinds.is_integer(kind) or text or kinds.is_temporal(kind)):
                given = f"{kind} in column '{name}'"
                raise FileError(path, given, "ids: integers, text or dates")

    @staticmethod
    def _schema(path: Path) -> Any:
        with _opened(path) as file:
            return file.schema_arrow

    @cached_property
    def count(self) -> int:
        """Number of lines."""
        parquet = arrow()[1]
        return sum(int(parquet.read_metadata(path).num_rows) for path in self.paths)

    @cached_property
    def single(self) -> bool:
        """True if all numbers of the first such column are in float32 or less."""
        pa = arrow()[0]
        kinds = [self._schema(path).field(self.numbers[0]).type for path in self.paths]
        return all(kind in (pa.float16(), pa.float32()) for kind in kinds)

    def check_integers(self) -> None:
        for name in self.ids:
            kind = self._schema(self.paths[0]).field(name).type
            if not arrow()[0].types.is_integer(kind):
                wanted = "integers from 0, or no shape"
                raise FileError(self.paths[0], f"{kind} in column '{name}'", wanted)

    def names(self, name: str) -> Any:
        """All ids of a column as an Arrow array, in increasing order, by a pass over it."""
        import pyarrow.compute as compute

        pa, found = arrow()[0], list[Any]()
        for batch in self._batches((name,)):
            found = [pa.concat_arrays([*found, batch[name].unique()]).unique()]
        return found[0].take(compute.sort_indices(found[0]))

    def batches(self, names: Mapping[str, Any]) -> Iterator[dict[str, Column]]:
        """Yield all lines: ids as positions among `names` or unchanged, and numbers."""
        import pyarrow.compute as compute

        for batch in self._batches((*self.ids, *self.numbers)):
            found: dict[str, Column] = {}
            for name in self.ids:
                column = batch[name]
                if name in names:
                    column = compute.index_in(column, value_set=names[name])
                found[name] = column.to_numpy(zero_copy_only=False)
            for name in self.numbers:  # empty cells are NaN
                numbers = batch[name].cast("float64").to_numpy(zero_copy_only=False)
                found[name] = np.asarray(numbers, dtype=float)
            yield found

    def _batches(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        pa = arrow()[0]
        for path in self.paths:
            with _opened(path) as file:
                columns = list(dict.fromkeys(names))
                # threads would read ahead, into memory that Arrow keeps
                lines = file.iter_batches(BATCH, columns=columns, use_threads=False)
                for batch in lines:
                    found = {name: batch.column(name) for name in columns}
                    for name in self.ids:
                        column = found.get(name)
                        if column is None:
                            continue
                        if column.null_count:
                            given = f"an empty cell in column '{name}'"
                            raise FileError(path, given, AN_ID)
                        if pa.types.is_dictionary(column.type):
                            found[name] = column.dictionary_decode()
                    yield found
                    del batch, column, found
            pa.default_memory_pool().release_unused()
