"""A matrix file as the command line names it: its layout, standard input, and doubts."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from weakprox.cli.console import shown_path
from weakprox.errors import InputError
from weakprox.storage import FileError, Table, read_matrix
from weakprox.storage.matrices import MAGIC

STDIN = Path("-")
_KEPT: list[Any] = []  # temporary folders, which last as long as the process


@dataclass(frozen=True)
class Reading:
    """How a file is to be read; None for what is detected."""

    key: str | None = None
    header: bool | None = None
    sep: str | None = None
    decimal: str | None = None
    index_col: str | None = None
    no_index: bool = False

    def table(self, file: Path, *, missing: bool = False) -> Table:
        """Read the file, or standard input for "-"; doubts are printed on stderr."""
        if self.no_index and self.index_col is not None:
            raise InputError("index_col", f"{self.index_col!r}, with --no-index", "one of them")
        settings: dict[str, Any] = {
            "key": self.key,
            "header": "auto" if self.header is None else self.header,
            "sep": self.sep,
            "decimal": self.decimal,
            "index_col": False if self.no_index else _column(self.index_col),
            "missing": missing,
        }
        if file != STDIN:
            found = read_matrix(file, **settings)
        else:
            stored = _stored()
            try:
                found = replace(read_matrix(stored, **settings), source=STDIN)
            except FileError as error:
                raise FileError("standard input", error.given, error.wanted) from None
        for doubt in found.doubts:
            typer.echo(f"weakprox: {shown_path(file)}: {doubt}", err=True)
        return found

    def words(self) -> list[str]:
        """The options as words of a command line."""
        named = ("key", "sep", "decimal", "index_col")
        given = {name: getattr(self, name) for name in named}
        found = [
            word
            for name, value in given.items()
            if value is not None
            for word in ("--" + name.replace("_", "-"), str(value))
        ]
        if self.header is not None:
            found.append("--header" if self.header else "--no-header")
        return [*found, "--no-index"] if self.no_index else found


def _column(given: str | None) -> int | str | None:
    """A number of a column as an integer, a name as it is."""
    return int(given) if given is not None and given.isdecimal() else given


def _stored() -> Path:
    """Standard input in a temporary file, whose suffix follows from its first bytes."""
    content = sys.stdin.buffer.read()
    if not content:
        raise FileError("standard input", "nothing", "a matrix")
    suffix = next((name for magic, name in MAGIC.items() if content.startswith(magic)), ".csv")
    folder = tempfile.TemporaryDirectory(prefix="weakprox-")
    _KEPT.append(folder)
    path = Path(folder.name) / f"stdin{suffix}"
    path.write_bytes(content)
    return path
