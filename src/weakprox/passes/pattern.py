"""Positions of observed entries, and products with sparse matrices that have them.

Nothing here is of the size of X: a product with a block of k columns takes O(n k) operations
for n positions. NumPy arrays are processed by compiled kernels if numba can be loaded, else by
SciPy; torch tensors by CUDA kernels or torch's own operations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array

from weakprox.linalg.arrays import Array, device_of, is_numpy, namespace, to_numpy, total
from weakprox.passes import compiling

CHUNKS = 256  # ranges of rows with about equally many entries, for threads
DENSE = 0.25  # share of the entries from which arrays take little more memory than vectors
SHARED_FROM = 1 << 13  # entries from which threads save more time than they cost
ROWS = 256  # rows of a mask that are read at once
PIECE = 1 << 22  # entries of the temporaries of a sampled product
Index = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Pattern:
    """Positions in a matrix, ordered by rows, and the same ordered by columns.

    Vectors of values have the order of rows; `by_column` takes them to that of columns. A
    pattern may be given by its `mask` alone (`masked`). Passes over it read blocks of rows of
    the mask, and the list of columns is made only if something else needs it.
    """

    shape: tuple[int, int]
    pointers: Any  # of rows
    listed: Any  # columns; None if there is a mask instead
    column_pointers: Any
    reference: Any  # an empty array: namespace and device
    chunks: Index = field(repr=False)
    column_chunks: Index = field(repr=False)
    sorted: tuple[Any, Any] | None = None  # rows and positions by columns; made on first use

    @property
    def size(self) -> int:
        """Number of positions."""
        return int(self.pointers[-1]) if self.listed is None else int(self.listed.shape[0])

    @cached_property
    def columns(self) -> Any:
        """Column of each position."""
        if self.listed is not None:
            return self.listed
        return self.placed(np.arange(self.size, dtype=np.int64))[1]

    def strips(self) -> Iterator[tuple[slice, slice, Index]]:
        """Blocks of rows of the mask, their positions, and those in a flattened block."""
        for low in range(0, self.shape[0], ROWS):
            rows = slice(low, min(low + ROWS, self.shape[0]))
            part = slice(int(self.pointers[rows.start]), int(self.pointers[rows.stop]))
            yield rows, part, np.flatnonzero(self.mask[rows])

    def placed(self, index: Index) -> tuple[Index, Index]:
        """Rows and columns of some positions of a mask, given in ascending order."""
        found = np.empty(len(index), np.int32), np.empty(len(index), np.int32)
        for rows, part, cells in self.strips():
            start, stop = np.searchsorted(index, [part.start, part.stop])
            own = np.divmod(cells[index[start:stop] - part.start], self.shape[1])
            found[0][start:stop], found[1][start:stop] = own
            found[0][start:stop] += rows.start
        return found

    @cached_property
    def rows(self) -> Any:
        """Row of each position."""
        xp = namespace(self.columns)
        counts = self.pointers[1:] - self.pointers[:-1]
        rows = xp.arange(self.shape[0], dtype=self.columns.dtype, device=device_of(counts))
        return xp.repeat(rows, counts)

    @cached_property
    def _by_columns(self) -> tuple[Any, Any]:
        """Rows in the order of columns, and the order."""
        if self.sorted is not None:
            return self.sorted
        xp, columns = namespace(self.columns), self.columns
        # rows stay ordered within a column; NumPy sorts short integers in linear time
        short = is_numpy(columns) and self.shape[1] < 1 << 16
        order = xp.argsort(xp.astype(columns, xp.uint16) if short else columns, stable=True)
        return self.rows[order], xp.astype(order, columns.dtype)

    @property
    def rows_by_column(self) -> Any:
        """Row of each position, in the order of columns."""
        return self._by_columns[0]

    @property
    def by_column(self) -> Any:
        """Positions in the order of columns."""
        return self._by_columns[1]

    @cached_property
    def mask(self) -> Index:
        """Which entries of the matrix have a position, as an array in host memory."""
        ones = np.ones(self.size, dtype=bool)
        return np.asarray(Plain.matrix(self, ones).toarray())

    @cached_property
    def repeats(self) -> bool:
        """Whether an entry has several positions."""
        if self.listed is None:
            return False
        return bool(self.size > np.count_nonzero(self.mask))

    @property
    def is_dense(self) -> bool:
        """Whether so many entries have a position that arrays take little more than vectors."""
        return self.size >= DENSE * math.prod(self.shape)

    @property
    def row_counts(self) -> Index:
        """Number of positions in each row."""
        return np.diff(to_numpy(self.pointers))

    @property
    def column_counts(self) -> Index:
        """Number of positions in each column."""
        return np.diff(to_numpy(self.column_pointers))

    def sampled(self, U: Array, V: Array) -> Array:
        """Entries of U V' at the positions, in float64."""
        return _kernels(self.reference).sampled(self, U, V)

    def times(self, values: Array, B: Array) -> Array:
        """S B in float64, S the sparse matrix with these values."""
        return _kernels(self.reference).times(self, values, B)

    def transpose_times(self, values: Array, B: Array) -> Array:
        """S' B in float64."""
        return _kernels(self.reference).transpose_times(self, values, B)

    def row_sums(self, values: Array) -> Array:
        """Sums of the values in each row."""
        return _kernels(self.reference).row_sums(self, values)

    def column_sums(self, values: Array) -> Array:
        """Sums of the values in each column."""
        if self.listed is not None:
            return _kernels(self.reference).column_sums(self, values)
        sums = np.zeros(self.shape[1])
        for rows, part, cells in self.strips():
            block = self._block(rows, cells, values[part])
            sums += np.ones(len(block)) @ block
        return sums

    def _block(self, rows: slice, cells: Index, values: Array) -> Any:
        """Values at the positions of some rows, and zeros elsewhere."""
        block = np.zeros((rows.stop - rows.start, self.shape[1]))
        block.reshape(-1)[cells] = values
        return block

    def full(self, values: Array) -> Any:
        """The values as an array with zeros elsewhere; those of one entry are added."""
        if self.listed is not None:
            return np.asarray(Plain.matrix(self, values).toarray())
        found = np.zeros(self.shape)
        for rows, part, cells in self.strips():
            found[rows].reshape(-1)[cells] = values[part]
        return found

    def margins(
        self, values: Array, rows: bool = True, columns: bool = True, whole: bool = True
    ) -> tuple[float, Any, Any]:
        """Sums of all values, of those in each row and of those in each column.

        Sums that are not requested are 0.0 and None.
        """
        return (
            total(values) if whole else 0.0,
            self.row_sums(values) if rows else None,
            self.column_sums(values) if columns else None,
        )

    def effects(self, left: Array, right: Array) -> Array:
        """left_i + right_j at the positions."""
        if self.listed is not None:
            return _kernels(self.reference).effects(self, left, right)
        found = np.empty(self.size)
        for rows, part, cells in self.strips():
            both = np.add.outer(left[rows], right)
            np.take(both.reshape(-1), cells, out=found[part], mode="clip")
        return found

    def repeated(self, values: Array) -> tuple[float, float, int]:
        """Largest and smallest sum of values at one entry of the matrix, and the entries."""
        if not self.size:
            return 0.0, 0.0, 0
        if self.listed is None:
            some = values[:1] if values.strides == (0,) else values  # all the same
            return float(some.max()), float(some.min()), self.size
        xp, columns, starts = namespace(values), self.columns, self.pointers[1:-1]
        again = columns[1:] == columns[:-1]
        again[starts[(starts > 0) & (starts < self.size)] - 1] = False  # in the next row
        repeated = int(xp.sum(xp.astype(again, xp.int64)))
        if not repeated:
            return float(xp.max(values)), float(xp.min(values)), self.size
        first = np.flatnonzero(np.concatenate([[True], ~to_numpy(again)]))
        sums = np.add.reduceat(to_numpy(values), first)
        return float(sums.max()), float(sums.min()), self.size - repeated


def pattern(rows: Any, columns: Any, shape: tuple[int, int]) -> tuple[Pattern, Any]:
    """Return the pattern of these positions, and the order that sorts values like it.

    Both are of the namespace and on the device of the indices.
    """
    xp = namespace(rows)
    small = max(*shape, int(rows.shape[0])) < 1 << 31
    kind: Any = xp.int32 if small else xp.int64
    order = _order(rows, columns, shape[1])
    rows, columns = rows[order], columns[order]
    if is_numpy(rows) and shape[0] <= np.iinfo(rows.dtype).max:  # they are in order now
        pointers = np.searchsorted(rows, np.arange(shape[0] + 1, dtype=rows.dtype))
    else:
        pointers = _pointers(rows, shape[0])
    column_pointers = _pointers(columns, shape[1])
    found = Pattern(
        shape,
        pointers,
        xp.astype(columns, kind),
        column_pointers,
        xp.empty(0, dtype=xp.float64, device=device_of(rows)),
        _chunks(to_numpy(pointers)),
        _chunks(to_numpy(column_pointers)),
    )
    return found, order


def masked(mask: Any) -> Pattern:
    """Return the pattern of the True entries of an array, which is not copied."""
    counts, width = np.count_nonzero(mask, axis=1), np.zeros(mask.shape[1], np.int64)
    for low in range(0, len(mask), ROWS):
        part = mask[low : low + ROWS]
        width += (np.ones(len(part), np.float32) @ part.astype(np.float32)).astype(np.int64)
    pointers, column_pointers = (
        np.concatenate([[0], np.cumsum(x)]).astype(np.int64) for x in (counts, width)
    )
    chunks = _chunks(pointers), _chunks(column_pointers)
    found = Pattern(mask.shape, pointers, None, column_pointers, np.empty(0), *chunks)
    vars(found)["mask"] = mask
    return found


def _pointers(index: Any, size: int) -> Any:
    """Return the position at which each row starts, in a sorted or unsorted list of rows."""
    xp, counts = namespace(index), cast(Any, 0)
    for low in range(0, max(1, int(index.shape[0])), PIECE):  # NumPy converts to 64 bits
        part = index[low : low + PIECE]
        counts = counts + (np if is_numpy(index) else xp).bincount(part, minlength=size)
    first = xp.zeros(1, dtype=counts.dtype, device=device_of(counts))
    return xp.astype(xp.concat([first, xp.cumulative_sum(counts)]), xp.int64)


def _order(rows: Any, columns: Any, width: int) -> Any:
    """Return the order by rows, then by columns; a slice of all if they are in order."""
    xp, size = namespace(rows), int(rows.shape[0])
    for low in range(0, size, PIECE):
        i, j = rows[low : low + PIECE + 1], columns[low : low + PIECE + 1]
        fits = (i[1:] > i[:-1]) | ((i[1:] == i[:-1]) & (j[1:] >= j[:-1]))
        if not bool(xp.all(fits)):
            return xp.argsort(xp.astype(rows, xp.int64) * width + columns, stable=True)
    return slice(None)


def _chunks(pointers: Index) -> Index:
    """Return edges between ranges of rows with about equally many positions each."""
    count = CHUNKS if pointers[-1] >= SHARED_FROM else 1
    cuts = np.linspace(0, pointers[-1], count + 1)
    edges = np.searchsorted(pointers, cuts, side="left")
    edges[0], edges[-1] = 0, len(pointers) - 1
    return np.unique(edges)


def _kernels(reference: Array) -> Any:
    if is_numpy(reference):
        kind = compiling.ENTRIES
        return (compiling.module(kind) if compiling.current(kind) else None) or Plain
    from weakprox.passes import entries_torch

    return entries_torch


class Plain:
    """The products of a `Pattern` by SciPy, if nothing is compiled."""

    @staticmethod
    def matrix(P: Pattern, values: Array) -> Any:
        """Return the sparse matrix."""
        return csr_array((values, P.columns, P.pointers), shape=P.shape)

    @staticmethod
    def sampled(P: Pattern, U: Array, V: Array) -> Array:
        out, rows = np.empty(P.size), P.rows
        step = max(1, PIECE // max(1, int(U.shape[1])))
        for low in range(0, P.size, step):
            part = slice(low, low + step)
            left, right = U[rows[part]], V[P.columns[part]]
            out[part] = np.einsum("ij,ij->i", left, right, dtype=float)
        return out

    @staticmethod
    def times(P: Pattern, values: Array, B: Array) -> Array:
        return Plain.matrix(P, values) @ np.asarray(B, float)

    @staticmethod
    def transpose_times(P: Pattern, values: Array, B: Array) -> Array:
        return Plain.matrix(P, values).T @ np.asarray(B, float)

    @staticmethod
    def row_sums(P: Pattern, values: Array) -> Array:
        # a sum up to the next start would be one value for an empty row
        some = np.flatnonzero(P.row_counts)
        sums = np.zeros(P.shape[0])
        sums[some] = np.add.reduceat(values, P.pointers[some], dtype=float)
        return sums

    @staticmethod
    def column_sums(P: Pattern, values: Array) -> Array:
        return np.bincount(P.columns, values, minlength=P.shape[1])

    @staticmethod
    def effects(P: Pattern, left: Array, right: Array) -> Array:
        found = np.take(right, P.columns)
        found += np.repeat(left, P.row_counts)
        return found
