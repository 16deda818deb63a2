"""Matrices as text, .csv, .tsv and .txt, or as cells of a sheet, with or without labels."""

from __future__ import annotations

import codecs
import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from weakprox.arguments import is_integer
from weakprox.display import counted
from weakprox.errors import InputError
from weakprox.resources.memory import room
from weakprox.storage import table
from weakprox.storage.dialect import LOOKED_AT, Rows, chosen, is_missing, is_value
from weakprox.storage.meant import UTF8, in_numbers
from weakprox.storage.sheets import SHEETS, Cells
from weakprox.storage.table import Contents, FileError, Labels, Matrix

SAY = "header= (--header, --no-header) to say which it is"
Header = bool | Literal["auto"]
IndexCol = int | str | Literal[False] | None  # number from 1 or name; False: there is none
YEARS = range(1500, 2201)
BODY = 5  # rows below a row of years that are checked for years as well
COUNTED = 5  # rows from which a first column of 1, 2, 3, ... looks like numbers of rows


@dataclass(frozen=True)
class Layout:
    """Settings of the caller for the cells; None for those to be detected."""

    header: Header = "auto"
    sep: str | None = None
    decimal: str | None = None
    index_col: IndexCol = None


def read_text(path: Path, layout: Layout, missing: bool, max_bytes: int | None) -> Contents:
    """Return numbers, row labels and column labels; settings not in `layout` are detected.

    The first row is a header if none of its cells is a number, or if its first is empty;
    it may be one cell shorter than the next row. It is also a header if its cells are years at
    equal distances while those below are not, or increasing years after a first cell that is
    text or stands above labels. Any other row of both text and numbers raises an error unless
    `header` is given. The first column holds labels if the header has no name for it, or if
    none of its cells is a number.
    """
    allowed = room() if max_bytes is None else max_bytes
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            start = handle.read(min(LOOKED_AT, max(1, allowed)))
            dialect = chosen(path, start, layout.sep, layout.decimal)
            handle.seek(0)
            rows = dialect.rows(_lines(path, handle, allowed), path)
            found = read_cells(path, rows, layout, missing, allowed)
            given = layout.sep is not None, layout.decimal is not None
            notes = () if any(given) else tuple(dialect.words(path))
            return found._replace(notes=notes)
    except UnicodeDecodeError as failure:
        utf16 = failure.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        wanted = UTF8.replace("latin1", "utf-16") if utf16 else UTF8
        raise FileError(path, "bytes that are not UTF-8 text", wanted) from None
    except csv.Error as failure:
        raise FileError(path, f"text that cannot be split ({failure})", "cells") from None


def read_cells(
    path: Path, rows: Rows | Cells, layout: Layout, missing: bool, allowed: int
) -> Contents:
    """Return the numbers and labels in rows of cells."""
    reader = _Reader(path, missing, allowed, layout.index_col)
    values, labels, names = reader.read(rows, layout.header)
    doubts = () if layout.index_col is False or labels is not None else _numbered(values)
    if reader.years:
        said = f"the first row looks like years ({', '.join(reader.years[:2])}, ...)"
        doubts += (f"{said} and is read as names; use --no-header to read it as data",)
    return Contents(values, labels, names, doubts=doubts)


def _numbered(values: Matrix) -> tuple[str, ...]:
    """A warning about a first column that counts rows or years, like an index."""
    rows, width = values.shape
    first = values[:, 0]
    if rows < COUNTED or width < 3 or not np.array_equal(np.diff(first), np.ones(rows - 1)):
        return ()
    counts = first[0] in (0.0, 1.0)
    if not (counts or first[0] in YEARS) or np.all(np.diff(values[:, 1]) == 1.0):
        return ()
    what = "counts rows" if counts else "looks like years"
    said = f"the first column {what} ({first[0]:.0f}, {first[1]:.0f}, {first[2]:.0f}, ...)"
    return (f"{said} and is read as data; use --index-col 1 to read it as labels",)


def _year(cell: str) -> int | None:
    """The year in a cell; None if there is none."""
    whole = cell.strip().removesuffix(".0")  # as in sheets
    year = int(whole) if len(whole) == 4 and whole.isdecimal() else None
    return year if year in YEARS else None


def _steps(cells: list[str]) -> set[int]:
    """Distances of neighbours if all cells are years in increasing order; empty if not."""
    years = [_year(cell) for cell in cells]
    found = {b - a for a, b in pairwise(years) if a is not None and b is not None}
    return found if None not in years and min(found, default=0) > 0 else set()


def _years_above(cells: list[str], body: list[list[str]], labelled: bool) -> list[str]:
    """The years in a first row that names columns by them; empty if it does not.

    `body` are the next rows, and `labelled` says whether the first column holds labels.
    """
    # two may be plain numbers, and so may years at unequal distances
    whole = len(_steps(cells)) == 1 and len(cells) > 2
    corner = _steps(cells[1:]) and (labelled or not is_value(cells[0]))
    if not (whole or corner):
        return []
    years = cells[1:] if corner else cells
    below = [cell for row in body for cell in row[-len(years) :]]
    among = sum(_year(cell) is not None for cell in below)
    return years if 2 * among < len(below) else []


def _lines(path: Path, handle: IO[str], allowed: int) -> Iterator[str]:
    """The lines of a file; raises before a line fills the memory."""
    longest, number = max(1 << 16, allowed // 8), 0
    while line := handle.readline(longest):
        number += 1
        if len(line) >= longest:
            table.claim(path, 8 * len(line) + 1, allowed, "a line without an end")
        if "\0" in line:
            raise FileError(path, f"a NUL byte (line {number})", "text")
        yield line


def _is_header(path: Path, line: int, cells: list[str]) -> bool:
    """Return True if the first row names the columns; raise if that is unclear."""
    if len(cells) > 1 and not cells[0].strip():
        return True  # as pandas writes it: no name for the column of labels
    numbers = [j for j, cell in enumerate(cells) if is_value(cell)]
    texts = [j for j, cell in enumerate(cells) if not is_value(cell)]
    if numbers and texts:
        i, j = texts[0], numbers[0]
        kind = "an empty cell" if is_missing(cells[j]) else f"the number {cells[j].strip()}"
        given = f"the text {table.shown_text(cells[i])} at row 1, column {i + 1} (line {line})"
        beside = f"{kind} in column {j + 1}"
        wanted = f"a row of names or of numbers, or {SAY}"
        raise FileError(path, f"{given} beside {beside}", wanted)
    return not numbers


@dataclass
class _Reader:
    """Collects rows; error messages say where a bad one is."""

    path: Path
    missing: bool
    allowed: int
    index: IndexCol = None
    columns: list[str] | None = None
    labelled: bool = False
    marked: bool = False  # whether the header says that there are labels
    years: list[str] = field(default_factory=list)  # of a header that was recognised by them
    labels: list[str] = field(default_factory=list)
    values: list[Matrix] = field(default_factory=list)

    def read(self, lines: Any, header: Header) -> tuple[Matrix, Labels | None, Labels | None]:
        rows: Iterator[Any] = ((lines.line_num, cells) for cells in lines if cells)
        if self.index not in (None, False):
            rows = self._index_first(rows)
        first = next(rows, None)
        if first is None:
            raise FileError(self.path, "no cells", "a matrix")
        own = 1 if self.index not in (None, False) else 0  # the label is not conclusive
        if header == "auto":
            body = list(islice(rows, BODY)) if _steps(first[1][1:]) else []
            rows = chain(body, rows)
            self.years = _years_above(first[1], [cells for _, cells in body], bool(own))
            header = bool(self.years) or _is_header(self.path, first[0], first[1][own:])
        if header:
            self.columns = first[1]
            first = next(rows, None)
        if first is None:
            raise FileError(self.path, "a header and no numbers", "rows of numbers")
        self._settle_labels(first[1])
        for line, cells in chain([first], rows):
            self._add(line, cells)
        columns = None if self.columns is None else tuple(self.columns)
        return np.vstack(self.values), tuple(self.labels) if self.labelled else None, columns

    def _index_first(
        self, rows: Iterator[tuple[int, list[str]]]
    ) -> Iterator[tuple[int, list[str]]]:
        """The rows with the column of labels as the first cell."""
        place: int | None = None
        for line, cells in rows:
            if place is None:
                place = self._place(cells)
            # a header may be one shorter: then it has no name for the labels
            yield line, [*cells[place : place + 1], *cells[:place], *cells[place + 1 :]]

    def _place(self, cells: list[str]) -> int:
        """Position of the column of labels, from 0, by its number or name."""
        if is_integer(self.index):
            number = int(self.index)  # type: ignore[arg-type]
            if 1 <= number <= len(cells):
                return number - 1
            raise InputError("index_col", number, f"a column from 1 to {len(cells)}")
        names = [cell.strip() for cell in cells]
        if str(self.index) in names:
            return names.index(str(self.index))
        named = [name for name in names if name]
        wanted = f"the number of a column from 1, or one of {', '.join(named[:10])}"
        raise InputError("index_col", repr(self.index), wanted)

    def _settle_labels(self, cells: list[str]) -> None:
        """Decide by the header and the first row whether the first column holds labels."""
        names = self.columns
        short = names is not None and len(names) == len(cells) - 1
        # A single name, or one that begins like a comment, may be a title above bare numbers.
        titled = short and names is not None and (len(names) < 2 or names[0][:1] == "#")
        if names is not None and len(names) == 1 < len(cells) and names[0][:1] == "#":
            given = f"the comment {table.shown_text(names[0])} in the first row"
            wanted = "no comments (lines that begin with # are skipped in .txt files only)"
            raise FileError(self.path, given, wanted)
        nameless = names is not None and len(names) > 1 and not names[0].strip()
        self.marked = (short and not titled) or nameless
        self.labelled = self.marked or not is_value(cells[0])
        if self.index is False and not self.marked:
            self.labelled = False
        elif self.index is not None and self.index is not False:
            self.labelled = self.marked = True
        if self.labelled and names is not None and not short:
            self.columns = names[1:]
        self.width = len(cells) - self.labelled
        if self.width < 1:
            wanted = "columns of numbers, or --sep to say how cells are separated"
            raise FileError(self.path, "labels and no numbers", wanted)
        if self.columns is not None and len(self.columns) != self.width:
            count = len(self.columns)
            given = f"{count} column name{'' if count == 1 else 's'} in the first row"
            wanted = f"{self.width}, one for each column, and no title above them"
            raise FileError(self.path, given, wanted)

    def _add(self, line: int, cells: list[str]) -> None:
        row = len(self.values) + 1
        if self.labelled:
            label, *cells = cells
            # a number among labels: the first of them may be a mistake
            if not self.marked and is_value(label) and not is_missing(label):
                given = f"the number {label.strip()} at row {row}, column 1 (line {line})"
                first = f"the text {table.shown_text(self.labels[0])} in row 1 of that column"
                wanted = "numbers only, or labels only (any labels below an empty first cell)"
                if any(digit in self.labels[0] for digit in "0123456789"):
                    wanted = f"{in_numbers(self.labels[0])}; in all: {wanted}"
                raise FileError(self.path, f"{given} beside {first}", wanted)
            self.labels.append(label)
        if len(cells) != self.width:
            given = f"{counted(len(cells), 'number')} in row {row} (line {line})"
            raise FileError(self.path, given, f"{self.width}, as in the first row")
        numbers = table.as_numbers(cells)
        if numbers is None:
            numbers = [self._number(c, row, j, line) for j, c in enumerate(cells)]
        found = np.array(numbers)
        if not (self.missing or np.isfinite(found).all()):
            j = int(np.flatnonzero(~np.isfinite(found))[0])
            given = f"{found[j]} at {self._where(row, j, line)}"
            wanted = f"a finite number{table.FILLED_BY if np.isnan(found[j]) else ''}"
            raise FileError(self.path, given, wanted)
        self.values.append(found)
        size = 2 * row * self.width * found.itemsize  # rows, and the matrix made of them
        table.claim(self.path, size, self.allowed, f"more than {row} rows of {self.width}")

    def _number(self, cell: str, row: int, column: int, line: int) -> float:
        """One cell as a number, NaN where missing values are allowed."""
        where = self._where(row, column, line)
        if is_missing(cell):
            if self.missing:
                return math.nan
            kind = (
                f"the missing value {table.shown_text(cell)}"
                if cell.strip()
                else "an empty cell"
            )
            given = f"{kind} at {where}"
            last = column == self.width - 1 > 0 and row == 1 and not cell.strip()
            if last and self.path.suffix.lower() not in SHEETS:
                given += ", perhaps after a separator at the end of the line"
            raise FileError(self.path, given, f"a number{table.FILLED_BY}")
        if not is_value(cell):
            given = f"the text {table.shown_text(cell)} at {where}"
            raise FileError(self.path, given, in_numbers(cell))
        return float(cell)

    def _where(self, row: int, column: int, line: int) -> str:
        """A cell's place, by labels where there are any."""
        name = column + 1 if self.columns is None else table.shown_text(self.columns[column])
        label = table.shown_text(self.labels[-1]) if self.labelled else row
        return f"row {label}, column {name} (line {line})"


def write_text_table(
    path: Path, separator: str, values: Matrix, rows: Labels | None, columns: Labels | None
) -> None:
    """Write numbers that are read back to the same bits; labels in full or not at all.

    With an empty corner the labels are recognised even if they look like numbers.
    """
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, delimiter=separator, lineterminator="\n")
        if columns is not None:
            writer.writerow(["", *columns])
        for i, row in enumerate(values):
            # str of a float32 is shorter than that of the same number as a float64
            cells = row.tolist() if row.dtype != np.float32 else [str(x) for x in row]
            writer.writerow(cells if rows is None else [rows[i], *cells])
