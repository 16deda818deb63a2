"""Positions of observed entries in blocks of rows that are not in memory together.

A `BlockPattern` makes the passes of a `Pattern` block by block; `Blocks` says where the blocks
are: in files (`passes/on_disk.py`) or on workers (`distributed/observations.py`). Vectors with
one number for each position are expressions, computed on the blocks that a pass reads. Those
that products read again and again are stored first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, Protocol, TypeAlias

import array_api_compat.numpy as compat_numpy
import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from weakprox.linalg.arrays import Array
from weakprox.passes.pattern import Index, Pattern

BLOCK = 1 << 22  # positions of a block: enough work for a pass, and little memory
LEAST = 1 << 14  # positions of a block if memory is short
POSITION = 12  # bytes in files for each position, beside its value
HELD = 160  # bytes for each position of the block that a pass reads, with its temporaries
SHOWN = 16  # different values that are kept to distinguish classes

_tokens = count()


class Leaf(NamedTuple):
    """A vector that is known, by its token."""

    token: int


class Call(NamedTuple):
    """A function of vectors and numbers, entry by entry."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Spread(NamedTuple):
    """The vector with the entries left_i + right_j."""

    left: Any
    right: Any


class Whole(NamedTuple):
    """An argument of a pass that all blocks read."""

    value: Any


class ByRows(NamedTuple):
    """An argument of a pass of which a block reads its rows."""

    value: Any


class Blocks(Protocol):
    """Patterns of blocks of rows, and where passes over them are made.

    A pass calls a function with the pattern of a block, the vectors there and its share of
    each argument, a `Whole` or `ByRows`. Stored vectors may be of any type.
    """

    @property
    def edges(self) -> Index:
        """First row of each block, and the number of rows."""

    @property
    def here(self) -> bool:
        """Whether this process reads the blocks, from files."""

    @property
    def columns(self) -> Any:
        """Column of each position."""

    def each(self, function: Any, vectors: Sequence[Vector], *arguments: Any) -> Iterator[Any]:
        """Results of a pass, block by block."""

    def added(self, function: Any, vectors: Sequence[Vector], *arguments: Any) -> Any:
        """Sum of the results of a pass."""

    def kept(self, function: Any, vectors: Sequence[Vector], *arguments: Any) -> Any:
        """Store the vector whose parts are the results of a pass."""

    def placed(self, whole: Any) -> Any:
        """Store a vector that is an array."""

    def gathered(self, stored: Any) -> Any:
        """Return a stored vector as an array, which may be in a file."""


class Vector(NDArrayOperatorsMixin):
    """One number in float64 for each position of a `BlockPattern`, as an expression.

    Arithmetic and other universal functions of NumPy give such vectors; sums and maxima are
    passes over the blocks. Checkpoints hold the pattern and the array of entries.
    """

    pattern: Any
    _fields = ("pattern", "entries")

    ndim = 1
    device = "cpu"
    dtype = np.dtype(np.float64)

    def __init__(self, pattern: BlockPattern, entries: Any) -> None:
        self.pattern = pattern
        self._know(pattern.blocks.placed(entries))

    @classmethod
    def of(cls, pattern: BlockPattern, rule: Any, leaves: dict[int, Any]) -> Vector:
        """The vector computed by a rule from leaves."""
        found = cls.__new__(cls)
        found.pattern, found.rule, found.leaves = pattern, rule, leaves
        return found

    def _know(self, leaf: Any) -> None:
        token = next(_tokens)
        self.rule: Any = Leaf(token)
        self.leaves: dict[int, Any] = {token: leaf}

    @property
    def shape(self) -> tuple[int]:
        """Its length."""
        return (self.pattern.size,)

    def stored(self) -> Vector:
        """The vector itself, stored if it was an expression."""
        leaf = None if isinstance(self.rule, Call) else self.leaves[self.rule.token]
        if leaf is None or isinstance(leaf, Spread):
            self._know(self.pattern.blocks.kept(_itself, [self]))
        return self

    def _entries(self) -> Any:
        """All entries as one array, in memory or in a file."""
        (leaf,) = self.stored().leaves.values()
        return self.pattern.blocks.gathered(leaf)

    entries: Array = property(_entries)

    def __repr__(self) -> str:
        return f"Vector of {self.pattern!r}"

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return compat_numpy

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.entries, dtype=dtype or self.dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        return entrywise(ufunc, *inputs)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        if function is np.where:
            return entrywise(np.where, *inputs)
        if function is np.sum:
            return math.fsum(self.pattern.blocks.each(_sum, [self]))
        if function is np.max:
            return max(self.pattern.blocks.each(_max, [self]))
        return NotImplemented


def entrywise(function: Callable[..., Any], *vectors: Any) -> Any:
    """Return function(*vectors), computed block by block if a vector is in blocks."""
    found = [x for x in vectors if isinstance(x, Vector)]
    if not found:
        return function(*vectors)
    leaves = {token: leaf for x in found for token, leaf in x.leaves.items()}
    rules = tuple(x.rule if isinstance(x, Vector) else x for x in vectors)
    return Vector.of(found[0].pattern, Call(function, rules), leaves)


def stored(x: Any) -> Any:
    """Return the vector, computed now if it is an expression on blocks."""
    return x.stored() if isinstance(x, Vector) else x


def computed(rules: Sequence[Any], known: dict[int, Any]) -> list[Any]:
    """Return the values of rules on one block, given those of their leaves there."""
    memo: dict[int, Any] = {}  # a rule may occur several times
    return [_value(rule, known, memo) for rule in rules]


def _value(rule: Any, known: dict[int, Any], memo: dict[int, Any]) -> Any:
    if isinstance(rule, Leaf):
        return known[rule.token]
    if not isinstance(rule, Call):
        return rule
    if id(rule) not in memo:
        given = (_value(one, known, memo) for one in rule.arguments)
        memo[id(rule)] = rule.function(*given)
    return memo[id(rule)]


def _itself(P: Pattern, x: Any) -> Any:
    return x


def _sum(P: Pattern, x: Any) -> float:
    return float(np.sum(x, dtype=float))


def _max(P: Pattern, x: Any) -> float:
    return float(np.max(x))


@dataclass(frozen=True, eq=False)
class BlockPattern:
    """Positions in a matrix, in blocks of rows; the passes are those of `Pattern`."""

    shape: tuple[int, int]
    pointers: Index = field(repr=False)  # of rows
    column_counts: Index = field(repr=False)
    blocks: Blocks = field(repr=False)
    reference: Any = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def size(self) -> int:
        """Number of positions."""
        return int(self.pointers[-1])

    @property
    def row_counts(self) -> Index:
        """Number of positions in each row."""
        return np.diff(self.pointers)

    @property
    def read_bytes(self) -> int:
        """Bytes in this process while a pass reads the largest block."""
        largest = int(np.diff(self.pointers[self.blocks.edges]).max())
        return HELD * largest if self.blocks.here else 0

    def file_bytes(self, vectors: float) -> int:
        """Bytes of files with the positions and this many vectors."""
        return int((POSITION + 8 * vectors) * self.size) if self.blocks.here else 0

    @property
    def columns(self) -> Any:
        """Column of each position; in a file, or gathered."""
        return self.blocks.columns

    @property
    def rows(self) -> Index:
        """Row of each position, in memory."""
        return np.repeat(np.arange(self.shape[0]), self.row_counts)

    def sampled(self, U: Array, V: Array) -> Vector:
        return Vector(self, self.blocks.kept(Pattern.sampled, [], ByRows(U), Whole(V)))

    def times(self, values: Vector, B: Array) -> Array:
        out = np.empty((self.shape[0], int(B.shape[1])))
        return self._by_rows(out, Pattern.times, values.stored(), Whole(B))

    def transpose_times(self, values: Vector, B: Array) -> Array:
        return self.blocks.added(Pattern.transpose_times, [values.stored()], ByRows(B))

    def row_sums(self, values: Vector) -> Array:
        return self._by_rows(np.empty(self.shape[0]), Pattern.row_sums, values)

    def column_sums(self, values: Vector) -> Array:
        return self.blocks.added(Pattern.column_sums, [values])

    def margins(
        self, values: Vector, *, rows: bool = True, columns: bool = True, whole: bool = True
    ) -> tuple[float, Any, Any]:
        """As `Pattern.margins`, in one pass."""
        asked = (Whole(rows), Whole(columns), Whole(whole))
        found = list(self.blocks.each(Pattern.margins, [values], *asked))
        wholes, by_row, by_column = zip(*found, strict=True)
        return (
            math.fsum(wholes),
            np.concatenate(by_row) if rows else None,
            sum(by_column) if columns else None,
        )

    def effects(self, left: Array, right: Array) -> Vector:
        token = next(_tokens)
        return Vector.of(self, Leaf(token), {token: Spread(left, right)})

    def repeated(self, values: Vector) -> tuple[float, float, int]:
        found = list(self.blocks.each(Pattern.repeated, [values]))
        most, least, places = zip(*found, strict=True)
        return max(most), min(least), sum(places)

    def _by_rows(self, out: Array, function: Any, values: Vector, *arguments: Any) -> Array:
        edges = self.blocks.edges
        for b, part in enumerate(self.blocks.each(function, [values], *arguments)):
            out[edges[b] : edges[b + 1]] = part
        return out


Positions: TypeAlias = Pattern | BlockPattern  # the same passes, in memory and beyond it


def row_edges(pointers: Index, most: int) -> Index:
    """Return edges of blocks of whole rows with at most `most` positions, if rows allow.

    No block is empty.
    """
    edges = [0]
    while pointers[edges[-1]] < pointers[-1]:
        begun = pointers[edges[-1]]
        one = int(np.searchsorted(pointers, begun, side="right"))  # row that is not empty
        end = int(np.searchsorted(pointers, begun + most, side="right")) - 1
        edges.append(max(one, end))
    edges[-1] = len(pointers) - 1
    return np.array(edges)


def few(values: Any) -> Any:
    """Return the different values; of many, some at both ends."""
    found = np.unique(values)
    half = SHOWN // 2
    return np.concatenate([found[:half], found[half:][-half:]])
