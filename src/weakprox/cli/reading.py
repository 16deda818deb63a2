"""Reading of the matrix file of a command line: layout, standard input, and warnings."""

from __future__ import annotations

import inspect
import io
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from weakprox.cli.console import shown_path
from weakprox.cli.options import unset
from weakprox.errors import InputError
from weakprox.storage import FileError, Table, read_matrix
from weakprox.storage.matrices import MAGIC

STDIN = Path("-")
DATA = ("X", "M", "rows", "cols", "values", "problem")  # arguments that hold what a file has
_KEPT: list[Any] = []  # temporary folders, which last as long as the process


@dataclass(frozen=True)
class Reading:
    """How to read a file; None means that it is detected. Fields are options of commands."""

    key: Annotated[str | None, unset("Which array of an .npz file, or which sheet.")] = None
    header: Annotated[
        bool | None,
        unset(
            "Whether the first row of a text file or sheet names the columns; guessed by "
            "default.",
            "--header/--no-header",
        ),
    ] = None
    sep: Annotated[
        str | None, unset('Separator of cells, such as ";" or tab; detected by default.')
    ] = None
    decimal: Annotated[str | None, unset('Decimal sign, "." or ","; detected by default.')] = (
        None
    )
    index_col: Annotated[
        str | None,
        unset("Column of labels: its number from 1, or its name; guessed by default."),
    ] = None
    no_index: Annotated[bool, typer.Option("--no-index", help="No column holds labels.")] = (
        False
    )

    def table(self, file: Path, *, missing: bool = False) -> Table:
        """Read the file, or standard input for "-"; warnings are printed on stderr."""
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
            try:
                found = replace(read_matrix(stored(), **settings), source=STDIN)
            except FileError as error:
                raise FileError(STDIN, error.given, error.wanted) from None
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


AS_FOUND = Reading()


def layout_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of its parameter `reading` as options."""
    own = inspect.signature(Reading, eval_str=True).parameters
    given = inspect.signature(command, eval_str=True).parameters
    groups = (own.values() if name == "reading" else (one,) for name, one in given.items())
    named = [one.replace(kind=one.KEYWORD_ONLY) for group in groups for one in group]

    @wraps(command)
    def run(**options: Any) -> None:
        layout = {name: options.pop(name) for name in own}
        command(**options, reading=Reading(**layout))

    found: Any = run
    found.__signature__ = inspect.Signature(named)
    found.__annotations__ = {one.name: one.annotation for one in named}
    return run


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Name the file in errors about the data that a model was given."""
    try:
        yield
    except InputError as error:
        if error.argument not in DATA:
            raise
        raise FileError(file, error.given, error.wanted) from None


def _column(given: str | None) -> int | str | None:
    """A number of a column as an integer, a name as it is."""
    return int(given) if given is not None and given.isdecimal() else given


def stored() -> Path:
    """Standard input in a temporary file, whose suffix follows from its contents."""
    content = sys.stdin.buffer.read()
    if not content:
        raise FileError(STDIN, "nothing", "a matrix")
    suffix = next((name for magic, name in MAGIC.items() if content.startswith(magic)), ".csv")
    if suffix == ".npz":
        suffix = _kind_of_archive(content)
    folder = tempfile.TemporaryDirectory(prefix="weakprox-")
    _KEPT.append(folder)
    path = Path(folder.name) / f"stdin{suffix}"
    path.write_bytes(content)
    return path


def _kind_of_archive(content: bytes) -> str:
    """The suffix of a zip archive: that of a spreadsheet if it has the parts of one."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = set(archive.namelist())
    except zipfile.BadZipFile:
        return ".npz"
    parts = {"[Content_Types].xml": ".xlsx", "mimetype": ".ods"}
    return next((suffix for part, suffix in parts.items() if part in names), ".npz")
