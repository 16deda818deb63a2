"""Blocks of observed entries in files, read one after the other.

The files are unnamed: the system deletes them with the last reference. Their pages are released
after each block, so that they do not count as memory of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weakprox.passes.blocks import (
    BlockPattern,
    ByRows,
    Spread,
    Vector,
    computed,
    row_edges,
)
from weakprox.passes.pattern import Index, Pattern, pattern
from weakprox.resources.memory import let_go, scratch


class Batch(NamedTuple):
    """Some observations, in any order."""

    rows: Index
    columns: Index
    values: Any
    weights: Any = None


@dataclass(frozen=True, eq=False)
class InFiles:
    """`Blocks` in files; a stored vector is an array in a file."""

    width: int
    pointers: Index  # of rows
    edges: Index
    columns: Any
    column_pointers: Any  # of each block
    rows_by_column: Any
    by_column: Any
    chunks: list[tuple[Index, Index]]  # of the rows and columns of each block, for threads
    folder: str | None = None
    here: ClassVar[bool] = True

    def each(self, function: Any, vectors: Sequence[Vector], *arguments: Any) -> Iterator[Any]:
        known = {token: leaf for x in vectors for token, leaf in x.leaves.items()}
        rules = [x.rule for x in vectors]
        for b in range(len(self.edges) - 1):
            P, rows, part = self._block(b)
            leaves = {
                token: P.effects(np.asarray(leaf.left)[rows], leaf.right)
                if isinstance(leaf, Spread)
                else np.asarray(leaf[part], dtype=float)
                for token, leaf in known.items()
            }
            given = (x.value[rows] if isinstance(x, ByRows) else x.value for x in arguments)
            yield function(P, *computed(rules, leaves), *given)
            del P, leaves
            mine = (self.columns, self.column_pointers, self.rows_by_column, self.by_column)
            for x in (*mine, *(x for x in known.values() if not isinstance(x, Spread))):
                let_go(x)

    def added(self, function: Any, vectors: Sequence[Vector], *arguments: Any) -> Any:
        found = self.each(function, vectors, *arguments)
        total = next(found)
        for part in found:
            total += part
        return total

    def kept(self, function: Any, vectors: Sequence[Vector], *arguments: Any) -> Any:
        out, last = scratch((int(self.pointers[-1]),), np.float64, self.folder), 0
        for part in self.each(function, vectors, *arguments):
            out[last : last + len(part)] = part
            last += len(part)
            let_go(out)
        return out

    def placed(self, whole: Any) -> Any:
        """Return the array itself."""
        return whole

    def gathered(self, stored: Any) -> Any:
        """Return the array itself."""
        return stored

    def _block(self, b: int) -> tuple[Pattern, slice, slice]:
        """A pattern of one block, its rows and its positions."""
        low, high = int(self.edges[b]), int(self.edges[b + 1])
        pointers = self.pointers[low : high + 1] - self.pointers[low]
        part = slice(int(self.pointers[low]), int(self.pointers[high]))
        columns, rows, order = (
            np.asarray(x[part]) for x in (self.columns, self.rows_by_column, self.by_column)
        )
        column_pointers = np.array(self.column_pointers[b])
        found = Pattern(
            (high - low, self.width),
            pointers,
            columns,
            column_pointers,
            np.empty(0),
            *self.chunks[b],
            (rows, order),
        )
        return found, slice(low, high), part


def sorted_in_files(
    batches: Callable[[], Iterable[Batch]],
    counts: tuple[Index, Index],
    *,
    dtype: Any,
    weighted: bool,
    most: int,
    recode: Callable[[Any], Any],
    folder: str | None = None,
) -> tuple[BlockPattern, Vector, Vector | None]:
    """Return the pattern of observations that come in batches, their values and weights.

    Parameters
    ----------
    batches : callable
        Returns an iterator over all observations.
    counts : (array, array)
        Number of observations in each row and in each column.
    dtype : dtype
        Of the values in the file.
    weighted : bool
        Whether there are weights.
    most : int
        Positions of a block at most, if rows allow.
    recode : callable
        Applied to the values of a block.
    folder : str, optional
        For the files; by default that for temporary files.
    """
    shape = (len(counts[0]), len(counts[1]))
    pointers = np.concatenate([[0], np.cumsum(counts[0])])
    edges, size = row_edges(pointers, most), int(pointers[-1])
    rows, columns, order = (scratch((size,), np.int32, folder) for _ in range(3))
    values = scratch((size,), dtype, folder)
    weights = scratch((size,), np.float64, folder) if weighted else None
    filled = pointers[edges[:-1]]
    for batch in batches():  # to the blocks first
        block = np.searchsorted(edges, batch.rows, side="right") - 1
        by_block = np.argsort(block, kind="stable")
        ends = np.searchsorted(block[by_block], np.arange(len(edges)))
        for k in np.flatnonzero(np.diff(ends)):
            some = by_block[ends[k] : ends[k + 1]]
            part = slice(int(filled[k]), int(filled[k]) + len(some))
            rows[part], columns[part] = batch.rows[some] - edges[k], batch.columns[some]
            values[part] = batch.values[some]
            if weights is not None:
                weights[part] = batch.weights[some]
            filled[k] = part.stop
        for x in (rows, columns, values, weights):
            let_go(x)
    column_pointers = scratch((len(edges) - 1, shape[1] + 1), np.int64, folder)
    chunks = []
    for b, height in enumerate(np.diff(edges)):  # then within each
        part = slice(int(pointers[edges[b]]), int(pointers[edges[b + 1]]))
        i, j = (np.array(x[part], dtype=np.int64) for x in (rows, columns))
        found, sort = pattern(i, j, (int(height), shape[1]))
        columns[part], rows[part] = found.columns, found.rows_by_column
        order[part], column_pointers[b] = found.by_column, found.column_pointers
        chunks.append((found.chunks, found.column_chunks))
        values[part] = recode(values[part][sort])
        if weights is not None:
            weights[part] = weights[part][sort]
        for x in (rows, columns, order, column_pointers, values, weights):
            let_go(x)
    arrays = (columns, column_pointers, rows, order)
    blocks = InFiles(shape[1], pointers, edges, *arrays, chunks, folder)
    P = BlockPattern(shape, pointers, counts[1], blocks)
    return P, Vector(P, values), None if weights is None else Vector(P, weights)
