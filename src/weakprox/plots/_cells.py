"""Matrices as pictures: read by rows, reduced to at most 300 x 300 cells, drawn.

A cell keeps the entry of largest size in its block, so that a lone spike stays visible.
`reduced` never makes more than a few rows dense: memory maps, sparse matrices and factors
are read a slice of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import scipy.sparse

from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import is_array, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.plots._panels import GREY

Matrix = np.ndarray[Any, np.dtype[np.float64]]

MOST_CELLS = 300  # largest number along a side, finer than the pixels of most plots
CHUNK_BYTES = 1 << 24
SUPPORT = 1e-3  # share of the largest entry that counts as zero, as in Result.nonzeros
MOST_TICKS = 30
MISSING = "#b9b9ad"  # colour of missing entries


@dataclass(frozen=True)
class Rows:
    """A matrix that is read by slices of its rows, which `read(slice)` returns dense."""

    shape: tuple[int, int]
    read: Callable[[slice], Matrix]

    def slices(self, first: int, last: int) -> Iterator[slice]:
        """Slices of limited size that cover rows first to last - 1."""
        step = max(1, CHUNK_BYTES // (8 * max(1, self.shape[1])))
        for start in range(first, last, step):
            yield slice(start, min(last, start + step))

    def minus(self, other: Rows) -> Rows:
        """The difference, formed slice by slice."""
        return Rows(self.shape, lambda rows: self.read(rows) - other.read(rows))

    def parts(self) -> Iterator[Matrix]:
        """All rows, slice by slice."""
        return map(self.read, self.slices(0, self.shape[0]))

    def sqnorm(self) -> float:
        """Sum of squares, without missing entries."""
        return float(sum(np.nansum(np.square(part)) for part in self.parts()))

    def has_gaps(self) -> bool:
        """Return True if entries are missing."""
        return any(bool(np.isnan(part).any()) for part in self.parts())

    def count_above(self, threshold: float) -> int:
        """Number of entries larger in size than the threshold."""
        return sum(int(np.count_nonzero(np.abs(part) > threshold)) for part in self.parts())


def as_rows(argument: str, given: Any, *, stored_only: bool = False) -> Rows:
    """Rows of an array, memory map, sparse matrix, LowRank or nested lists.

    With `stored_only`, entries that a sparse matrix does not store are missing (NaN)
    rather than zero.
    """
    if isinstance(given, LowRank):
        left = to_numpy(given.U).astype(float) * to_numpy(given.s).astype(float)
        right = to_numpy(given.Vt).astype(float)
        return Rows(given.shape, lambda rows: left[rows] @ right)
    if scipy.sparse.issparse(given):
        given = scipy.sparse.csr_array(given)

        def some(rows: slice) -> Matrix:
            block = given[rows]
            if not stored_only:
                return np.asarray(block.toarray(), dtype=float)
            found = np.full(block.shape, np.nan)
            entries = block.tocoo()
            found[entries.row, entries.col] = entries.data
            return found

        return Rows((int(given.shape[0]), int(given.shape[1])), some)
    if not is_array(given):
        try:
            given = np.asarray(given, dtype=float)
        except (TypeError, ValueError):
            raise InputError(argument, type(given).__name__, "a real matrix") from None
    if len(given.shape) != 2:
        raise ShapeError(argument, tuple(given.shape), "two dimensions")
    shape = (int(given.shape[0]), int(given.shape[1]))
    return Rows(shape, lambda rows: np.asarray(to_numpy(given[rows]), dtype=float))


@dataclass(frozen=True)
class Reduced:
    """The cells, and the rows and columns at which their blocks begin and end."""

    cells: Matrix
    row_edges: list[int]
    column_edges: list[int]

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of the largest block; (1, 1) if nothing was reduced."""
        return int(np.diff(self.row_edges).max()), int(np.diff(self.column_edges).max())

    @property
    def words(self) -> str | None:
        """Description of a cell, or None if each is one entry."""
        height, width = self.block
        if (height, width) == (1, 1):
            return None
        m, d = self.row_edges[-1], self.column_edges[-1]
        return (
            f"{m} x {d} entries drawn as {len(self.cells)} x {len(self.cells[0])} cells: each "
            f"shows the entry of largest size in a block of up to {height} x {width}."
        )


def reduced(matrix: Rows, most: int = MOST_CELLS) -> Reduced:
    """At most `most` x `most` cells, each the entry of largest size in its block."""
    m, d = matrix.shape
    if m == 0 or d == 0:
        raise ShapeError("matrix", matrix.shape, "at least one entry")
    row_edges, column_edges = _edges(m, most), _edges(d, most)
    cells = np.empty((len(row_edges) - 1, len(column_edges) - 1))
    for index, (first, last) in enumerate(pairwise(row_edges)):
        high, low = np.full(d, np.nan), np.full(d, np.nan)
        for one in matrix.slices(first, last):
            part = matrix.read(one)
            part = np.where(np.isfinite(part), part, np.nan)
            high = np.fmax(high, np.fmax.reduce(part, axis=0))
            low = np.fmin(low, np.fmin.reduce(part, axis=0))
        high = np.fmax.reduceat(high, column_edges[:-1])
        low = np.fmin.reduceat(low, column_edges[:-1])
        cells[index] = np.where(high >= -low, high, low)
    return Reduced(cells, row_edges, column_edges)


def _edges(length: int, most: int) -> list[int]:
    count = min(length, most)
    return [(index * length) // count for index in range(count + 1)]


def cell_names(argument: str, labels: Sequence[Any] | None, edges: Sequence[int]) -> list[str]:
    """A name per cell: the label of its entry, or of its first and last; by default numbers."""
    length = edges[-1]
    if labels is not None and len(labels) != length:
        raise ShapeError(argument, f"{len(labels)} of them", f"{length}, one each")
    names = [str(n) for n in (range(1, length + 1) if labels is None else labels)]
    return [
        names[first] if last == first + 1 else f"{names[first]} … {names[last - 1]}"
        for first, last in pairwise(edges)
    ]


def colour_limit(cells: Matrix) -> float:
    """Upper end of the colours: the 0.99 quantile of the sizes of nonzero entries.

    A few huge entries, such as a diagonal, then do not make the others invisible. Entries that
    count as zero are left out, since a sparse matrix consists mostly of them.
    """
    size = np.abs(cells[np.isfinite(cells)])
    largest = float(size.max(initial=0.0))
    counted = size[size > SUPPORT * largest]
    return float(np.quantile(counted, 0.99)) if counted.size else 1.0


def as_matrix(argument: str, given: Any) -> Matrix:
    """The whole matrix as a NumPy array; accepts what `as_rows` accepts."""
    rows = as_rows(argument, given)
    if 0 in rows.shape:
        raise ShapeError(argument, rows.shape, "at least one entry")
    return rows.read(slice(0, rows.shape[0]))


def support(matrix: Matrix, share: float = SUPPORT) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Entries larger in size than a share of the largest one."""
    size = np.abs(matrix)
    return np.asarray((size > share * np.nanmax(size)) & (size > 0))


def draw_cells(
    ax: Any,
    cells: Matrix,
    *,
    limit: float | None = None,
    cmap: str = "RdBu_r",
    signed: bool = True,
    colorbar: bool = True,
) -> Any:
    """Draw a matrix in colours that end at `limit`; return the image. NaN is grey."""
    most = colour_limit(cells) if limit is None else limit
    image = ax.imshow(
        np.ma.masked_invalid(cells),
        cmap=cmap,
        vmin=-most if signed else 0.0,
        vmax=most,
        interpolation="none",
        aspect="equal" if cells.shape[0] == cells.shape[1] else "auto",
    )
    ax.set_facecolor(MISSING)
    if colorbar:
        ax.figure.colorbar(image, ax=ax, shrink=0.8)
    return image


def draw_support(ax: Any, nonzero: Any) -> Any:
    """Draw nonzero entries in black, the others in white."""
    black: Any = {"limit": 1.0, "cmap": "Greys", "signed": False, "colorbar": False}
    return draw_cells(ax, np.asarray(nonzero, float), **black)


def name_lines(ax: Any, rows: Sequence[str] | None, columns: Sequence[str] | None) -> None:
    """Name rows and columns on the axes if there are at most 30."""
    if rows is not None and len(rows) <= MOST_TICKS:
        ax.set_yticks(range(len(rows)), [name[:24] for name in rows], fontsize="small")
    if columns is not None and len(columns) <= MOST_TICKS:
        named = [name[:24] for name in columns]
        ax.set_xticks(range(len(named)), named, rotation=90, fontsize="small")


def mark_blocks(ax: Any, shape: tuple[int, ...], labels: Sequence[str] | None) -> None:
    """Draw lines between runs of equal labels, one name in the middle of each run."""
    ax.set_xticks([])
    ax.set_yticks([])
    if labels is None:
        return
    runs = [(str(name), len(list(run))) for name, run in groupby(labels)]
    ends = np.cumsum([length for _, length in runs])
    if len(runs) > MOST_TICKS:
        return
    middles = ends - [(length + 1) / 2 for _, length in runs]
    ax.set_yticks(middles, [name for name, _ in runs], fontsize="small")
    ax.tick_params(length=0)
    if len(runs) < shape[0]:  # lines between single rows would hide the picture
        for end in ends[:-1]:
            ax.axhline(end - 0.5, color=GREY, linewidth=0.5)
            if shape[0] == shape[1]:
                ax.axvline(end - 0.5, color=GREY, linewidth=0.5)
