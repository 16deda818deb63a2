"""Matrix Market files, .mtx, dense or by coordinates.

SciPy's reader can crash on a damaged file, so this module has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from weakprox.display import counted
from weakprox.storage import table
from weakprox.storage.table import Contents, FileError, Matrix

FEWEST_BYTES = {"coordinate": 4, "array": 2}  # of one entry's line, "1 1\n" or "1\n"
FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern", "complex")
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
LONGEST_LINE = 1 << 12  # bytes of a line of the header or of a comment
BLOCK = 1 << 20  # bytes of entries split at a time


class Banner(NamedTuple):
    """The header."""

    layout: str
    field: str
    symmetry: str
    shape: tuple[int, int]
    entries: int  # stored in the file


def read_mtx(path: Path, max_bytes: int | None) -> Contents:
    """Return a dense or a sparse array, as the file states; symmetric ones are completed."""
    with path.open("rb") as handle:
        about = _banner(path, handle)
        m, d = about.shape
        table.checked_shape(path, about.shape)
        if about.field == "complex":
            raise FileError(path, "complex numbers", "real numbers")
        held = path.stat().st_size
        # + 1, since the last newline may be missing
        if about.entries * FEWEST_BYTES[about.layout] > held + 1:
            given = f"{counted(held, 'byte')}, a truncated file"
            raise FileError(path, given, f"{about.entries} entries, as its header says")
        size = m * d * 8 if about.layout == "array" else about.entries * 64  # mirrored
        table.claim(
            path, size, max_bytes, f"{m} x {d}, {counted(about.entries, 'entry', 'entries')}"
        )
        if about.layout == "array":
            return Contents(_dense(about, _numbers(path, handle, about.entries)))
        width = 2 if about.field == "pattern" else 3
        cells = _numbers(path, handle, width * about.entries).reshape(-1, width)
    return Contents(_sparse(path, about, cells))


def _banner(path: Path, handle: IO[bytes]) -> Banner:
    """The header, checked word by word."""
    words = _line(path, handle).lower().split()
    known = ({"coordinate", "array"}, set(FIELDS), set(SYMMETRIES))
    fine = len(words) == 5 and words[:2] == ["%%matrixmarket", "matrix"]
    if not fine or any(word not in some for word, some in zip(words[2:], known, strict=True)):
        raise _unreadable(path, "a header", table.shown_text(" ".join(words)))
    layout, field, symmetry = words[2:]
    sizes: list[str] = []
    while not sizes or sizes[0].startswith("%"):
        sizes = _line(path, handle).split()
    plain = all(word.isascii() and word.isdigit() and len(word) <= 18 for word in sizes)
    dense = layout == "array"
    if not plain or len(sizes) != (2 if dense else 3) or (dense and field == "pattern"):
        raise _unreadable(path, "a header", table.shown_text(" ".join(sizes)))
    m, d, *rest = map(int, sizes)
    if symmetry != "general" and m != d:
        raise FileError(path, f"a {symmetry} matrix of {m} x {d}", "as many rows as columns")
    written = rest[0] if rest else m * d
    if dense and symmetry != "general":
        written = m * (m - 1) // 2 if symmetry == "skew-symmetric" else m * (m + 1) // 2
    return Banner(layout, field, symmetry, (m, d), written)


def _unreadable(path: Path, what: str, why: str) -> FileError:
    return FileError(path, f"{what} that cannot be read ({why})", "a Matrix Market file")


def _line(path: Path, handle: IO[bytes]) -> str:
    line = handle.readline(LONGEST_LINE)
    if not line or len(line) == LONGEST_LINE:
        raise _unreadable(path, "a header", "it ends early, or a line does not")
    return line.decode("latin-1")


def _words(handle: IO[bytes]) -> Iterator[list[bytes]]:
    """The rest of the file, split at blanks, in blocks."""
    left = b""
    while block := handle.read(BLOCK):
        words = (left + block).split()
        cut = words and not block[-1:].isspace() and len(words[-1]) < LONGEST_LINE
        left = words.pop() if cut else b""  # the next block may continue it
        yield words
    yield left.split()


def _numbers(path: Path, handle: IO[bytes], count: int) -> Matrix:
    """Read exactly this many numbers; raise if the file has fewer or more."""
    found = np.empty(count)
    filled = 0
    for words in _words(handle):
        part = table.as_numbers(words)
        if part is None:
            bad = next(word.decode("latin-1") for word in words if not table.is_number(word))
            raise _unreadable(path, "entries", table.shown_text(bad))
        if filled + len(part) > count:
            given = f"more than {counted(count, 'number')} in its entries"
            raise FileError(path, given, f"{count}, as its header says")
        found[filled : filled + len(part)] = part
        filled += len(part)
    if filled < count:
        given = f"{counted(filled, 'number')} in its entries, a truncated file"
        raise FileError(path, given, f"{count}, as its header says")
    return found


def _dense(about: Banner, values: Matrix) -> Matrix:
    """Read columns one after the other; symmetric matrices store the lower triangle only."""
    m, d = about.shape
    if about.symmetry == "general":
        return np.ascontiguousarray(values.reshape(d, m).T)
    skew, found = about.symmetry == "skew-symmetric", np.zeros((m, d))
    columns, rows = np.triu_indices(m, 1 if skew else 0)
    found[columns, rows] = -values if skew else values
    found[rows, columns] = values
    return found


def _sparse(path: Path, about: Banner, cells: Matrix) -> Any:
    """Read coordinates, which count from one."""
    from scipy.sparse import coo_array

    places = cells[:, :2]
    whole = np.isfinite(places).all() and (places == np.floor(places)).all()
    if not whole or (places < 1).any() or (places > np.array(about.shape)).any():
        raise _unreadable(path, "entries", "an index out of range")
    values = cells[:, 2] if cells.shape[1] == 3 else np.ones(len(cells))
    rows, columns = places.astype(np.int64).T - 1
    if about.symmetry != "general":
        off = rows != columns
        skew = about.symmetry == "skew-symmetric"
        if skew and values[~off].any():
            raise FileError(path, "entries on the diagonal of a skew-symmetric matrix", "none")
        mirrored = -values[off] if skew else values[off]
        values = np.concatenate([values, mirrored])
        mirrors = [rows, columns[off]], [columns, rows[off]]
        rows, columns = (np.concatenate(pair) for pair in mirrors)
    return coo_array((values, (rows, columns)), shape=about.shape)
