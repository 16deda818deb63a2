"""Spreadsheets, .xlsx and .ods, through the package python-calamine."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weakprox.errors import InputError
from weakprox.storage import table
from weakprox.storage.table import FileError

SHEETS = (".xlsx", ".ods")
UNPACKED = 20  # largest memory, in bytes, for each byte of unpacked XML


class Cells:
    """The rows of a sheet as text, as from a text file; `line_num` is that of the last one."""

    def __init__(self, rows: list[list[Any]]) -> None:
        self._rows, self.line_num = rows, 0

    def __iter__(self) -> Iterator[list[str]]:
        for row in self._rows:
            self.line_num += 1
            cells = [_text(cell) for cell in row]
            yield cells if any(cell.strip() for cell in cells) else []


def read_sheet(path: Path, key: str | None, max_bytes: int | None) -> Cells:
    """Return the cells of the first sheet, or of the sheet named `key`."""
    calamine = _library()
    _check_size(path, max_bytes)
    try:
        book = calamine.CalamineWorkbook.from_path(str(path))
        names = list(book.sheet_names)
        if key is not None and key not in names:
            raise InputError("key", repr(key), f"one of the sheets {', '.join(names)}")
        sheet = book.get_sheet_by_name(names[0] if key is None else key)
        return Cells(sheet.to_python())
    except (calamine.CalamineError, IndexError, OSError) as problem:
        given = f"a sheet that cannot be read ({type(problem).__name__}: {problem})"
        raise FileError(path, given, f"a {path.suffix.lower()} file") from None


def _library() -> Any:
    try:
        import python_calamine
    except ModuleNotFoundError:
        wanted = "python-calamine; get it by: pip install 'weakprox[sheets]'"
        raise ModuleNotFoundError(f"spreadsheets need {wanted}") from None
    return python_calamine


def _check_size(path: Path, max_bytes: int | None) -> None:
    """Raise if the unpacked file would not fit into memory."""
    try:
        with zipfile.ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())
    except (zipfile.BadZipFile, OSError):
        raise FileError(path, "a damaged file", f"a {path.suffix.lower()} file") from None
    table.claim(path, UNPACKED * size, max_bytes, "a sheet", packed=True)


def _text(cell: Any) -> str:
    """A cell as it would appear in a text file; whole numbers have no decimals."""
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    return str(cell)
