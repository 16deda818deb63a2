"""The separators of cells and the decimal sign of a text file, given or detected."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from weakprox.errors import InputError
from weakprox.storage.table import FileError, is_number, shown_text

SEPARATORS = {".csv": ",", ".tsv": "\t"}  # separators that the suffix implies
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
WORDS = {"comma": ",", "semicolon": ";", "tab": "\t", "space": " ", "bar": "|", "\\t": "\t"}
LOOKED_AT, LINES = 1 << 16, 50  # characters and lines by which a dialect is detected
FIRST = 1e-6  # weight of the first line
CLEARLY = 0.2  # share of additional cells that another separator must turn into numbers
MISSING = {"", "na", "n/a", "nan", "null"}  # in any case
_COMMA = re.compile(r"\s*[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?\s*")


@dataclass(frozen=True)
class Dialect:
    """Separator of cells (a space stands for any white space) and decimal sign."""

    separator: str
    decimal: str = "."
    comments: bool = False  # whether lines that begin with # are skipped

    def rows(self, lines: Iterable[str], path: Path) -> Rows:
        """The cells of each line, numbers with decimal points."""
        return Rows(self, lines, path)

    def words(self, path: Path) -> list[str]:
        """A description for the user, unless the suffix implies the dialect."""
        found = []
        if self.separator != SEPARATORS.get(path.suffix.lower()):
            found.append(f"cells separated by {NAMES.get(self.separator, self.separator)}")
        if self.decimal == ",":
            found.append("decimal commas")
        return found


class Rows:
    """The rows of a file as lists of cells; `line_num` is that of the last line read."""

    def __init__(self, dialect: Dialect, lines: Iterable[str], path: Path) -> None:
        self._dialect, self.path, self.line_num = dialect, path, 0
        kept = self._counted(lines)
        if dialect.separator == " ":
            self._cells: Iterator[list[str]] = (line.split() for line in kept)
        else:
            self._cells = iter(csv.reader(kept, delimiter=dialect.separator))

    def _counted(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self.line_num += 1
            if not (self._dialect.comments and line.startswith("#")):
                yield line

    def __iter__(self) -> Iterator[list[str]]:
        if self._dialect.decimal == ".":
            return self._cells
        return ([self.pointed(cell) for cell in row] for row in self._cells)

    def cells(self) -> Iterator[list[str]]:
        """The unchanged rows, with the decimal signs of the file."""
        return self._cells

    def pointed(self, cell: str) -> str:
        """The cell with a decimal point; raises on a point, which may separate thousands."""
        if self._dialect.decimal == ".":
            return cell
        if _COMMA.fullmatch(cell):
            return cell.replace(",", ".")
        if "." in cell and is_number(cell):
            given = f"{shown_text(cell)} (line {self.line_num}), among decimal commas"
            raise FileError(self.path, given, "one decimal sign, or --decimal to say which")
        return cell


def chosen(path: Path, start: str, sep: str | None, decimal: str | None) -> Dialect:
    """Return the dialect: given settings, and others detected from the start of the file."""
    suffix = path.suffix.lower()
    comments = suffix == ".txt"
    if sep is not None:
        sep = WORDS.get(sep, sep)
        if len(sep) != 1 or sep in '"\r\n.0123456789-':
            raise InputError("sep", repr(sep), 'one character, such as ";", or "tab"')
    if decimal not in (None, ".", ","):
        raise InputError("decimal", repr(decimal), '"." or ","')
    if sep is not None and sep == decimal:
        raise InputError("decimal", repr(decimal), "another sign than the separator")
    lines = [line for line in start.splitlines()[:LINES] if line.strip()]
    lines = [line for line in lines if not (comments and line.startswith("#"))]
    if len(start) >= LOOKED_AT and len(lines) > 1:
        lines = lines[:-1]  # perhaps truncated
    usual = SEPARATORS.get(suffix)
    best, most = Dialect(sep or usual or " ", decimal or ".", comments), -1.0
    for candidate in _candidates(usual, sep, decimal, comments):
        share = _share(candidate, lines, path)
        # labels contain spaces, so white space must be clearly better, too
        doubtful = (usual and candidate.separator != usual) or candidate.separator == " "
        again = candidate.separator == best.separator  # and another decimal sign
        if share > most + (CLEARLY if most >= 0.0 and doubtful and not again else 0.0):
            best, most = candidate, share
    return best


def _candidates(
    usual: str | None, sep: str | None, decimal: str | None, comments: bool
) -> list[Dialect]:
    """Dialects to compare, the usual one first."""
    order = [sep] if sep else dict.fromkeys((usual or "\t", "\t", ";", ",", "|", " "))
    return [
        Dialect(separator, sign, comments)
        for separator in order
        for sign in ([decimal] if decimal else [".", ","])
        if separator != sign
    ]


def _share(dialect: Dialect, lines: list[str], path: Path) -> float:
    """Share of cells that are numbers below the first line; -1 if rows differ in length.

    The first line, perhaps a header, decides between equal shares.
    """
    try:
        rows = list(dialect.rows(lines, path))
    except (csv.Error, FileError):
        return -1.0
    body = rows[1:] or rows
    width = len(body[0]) if body else 0
    # one column shows no separator, so it does not count as another one
    if any(len(row) != width for row in body) or (
        width < 2 and dialect.separator != SEPARATORS.get(path.suffix.lower())
    ):
        return -1.0
    if rows and abs(len(rows[0]) - width) > 1:  # a header may lack a name for the labels
        return -1.0
    return _numbers(body) + FIRST * _numbers(rows[:1])


def _numbers(rows: list[list[str]]) -> float:
    """Share of cells that are numbers or stand for missing ones."""
    found = [is_value(cell) for row in rows for cell in row]
    return sum(found) / max(1, len(found))


def is_missing(cell: str) -> bool:
    """Return True if the cell stands for a missing number."""
    return cell.strip().lower() in MISSING


def is_value(cell: str) -> bool:
    """Return True if the cell is a number or stands for a missing one."""
    return is_missing(cell) or is_number(cell)
