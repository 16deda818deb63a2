"""The data of a problem as pieces: arrays that are read along their first axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from weakprox.distributed.blocked import Blocked
from weakprox.distributed.engine import fetch
from weakprox.distributed.terms import Column, Copies
from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.tiled import Tiled
from weakprox.passes import compiling
from weakprox.resources.memory import let_go

BYTES = 1 << 24  # bytes of a piece that are read together
ENTRIES = 1 << 15  # entries of a block: its temporaries stay in cache
INTEGERS = ("rows", "cols", "indices", "indptr")  # names of pieces that are integers

Digest = dict[str, list[Any]]


@dataclass(frozen=True)
class Piece:
    """An array of the data: its name, shape and dtype, and a function that reads a part."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int], np.ndarray[Any, Any]]
    held: bool = False  # whether it is a NumPy array in memory

    def parts(self) -> Iterator[np.ndarray[Any, Any]]:
        """All parts, in order."""
        row = self.dtype.itemsize * math.prod(self.shape[1:])
        step = max(1, BYTES // max(1, row))
        for first in range(0, self.shape[0], step):
            yield self.read(first, min(self.shape[0], first + step))

    @property
    def kind(self) -> str:
        """Its dtype without the byte order, such as "f8"."""
        return self.dtype.newbyteorder("<").str[1:]

    def checksum(self) -> int:
        """Sum of the bits of its entries as integers, times 1, 3, 5, ..., modulo 2**64.

        The entries are little-endian and in C order. A change of one entry always changes
        the sum. It detects mistakes, not forgery, and no proof relies on it: the verifier
        recomputes every claim from the data it is given.
        """
        found = count = 0
        for part in self.parts():
            plain = np.ascontiguousarray(part, dtype=f"<{self.kind}").reshape(-1)
            words = plain.view(f"<u{self.dtype.itemsize}")
            found += _weighted(words, count)
            count += words.size
        return found % (1 << 64)

    def whole(self) -> np.ndarray[Any, Any]:
        return self.read(0, self.shape[0])

    def __getitem__(self, i: int) -> np.ndarray[Any, Any]:
        """The i-th entry along the first axis."""
        return self.read(i, i + 1)[0]  # type: ignore[no-any-return]


def piece(name: str, array: Any) -> Piece:
    """An array of any kind that the terms hold, as a piece of the data."""
    if name in INTEGERS:
        return indices(name, array)
    shape = tuple(int(n) for n in array.shape)
    if isinstance(array, Blocked):
        return Piece(name, shape, _dtype(array), blocks_of(array.slices, array.held()))
    if isinstance(array, Copies):
        slices = [slice(*ends) for ends in pairwise([*array.starts, array.count])]
        shape = (array.count, *array.shape)
        return Piece(name, shape, _dtype(array), blocks_of(slices, array._chunks))
    if isinstance(array, Column):
        read_rows = blocks_of(array.slices, array.parts, attrgetter(array.name))
        return Piece(name, shape, np.dtype(array.dtype), read_rows)
    dtype = _dtype(array)

    def read(first: int, last: int) -> np.ndarray[Any, Any]:
        rows = array[first:last]
        found = np.asarray(rows if isinstance(array, Tiled) else to_numpy(rows), dtype=dtype)
        if isinstance(array, np.memmap):
            found = np.array(found)
            let_go(array)
        return found

    return Piece(name, shape, dtype, read, type(array) is np.ndarray)


def in_double(one: Piece) -> Piece:
    """The piece in float64, so that its digest depends on numbers and not on their type."""

    def read(first: int, last: int) -> np.ndarray[Any, Any]:
        return one.read(first, last).astype(np.float64, copy=False)

    return replace(one, dtype=np.dtype(np.float64), read=read)


def blocks_of(
    slices: list[slice], tasks: list[Any], pick: Callable[[Any], Any] = lambda part: part
) -> Callable[[int, int], np.ndarray[Any, Any]]:
    """Rows of blocks on workers; the block read last is kept."""
    held: dict[int, Any] = {}

    def block(i: int) -> Any:
        if i not in held:
            held.clear()
            held[i] = pick(fetch([tasks[i]], tasks)[0])
        return held[i]

    def read(first: int, last: int) -> np.ndarray[Any, Any]:
        parts = []
        for i, rows in enumerate(slices):
            if rows.start < last and rows.stop > first:
                start = max(first, rows.start) - rows.start
                parts.append(block(i)[start : min(last, rows.stop) - rows.start])
        return np.concatenate(parts)

    return read


def indices(name: str, array: Any) -> Piece:
    """Integers, as int64."""
    found = np.asarray(array, dtype=np.int64)
    return Piece(name, found.shape, found.dtype, lambda i, j: found[i:j], held=True)


def _dtype(array: Any) -> np.dtype[Any]:
    """float32 and float64 unchanged, integers and booleans as float64."""
    name = str(array.dtype).rpartition(".")[2]
    return np.dtype(name) if name in ("float32", "float64") else np.dtype(np.float64)


def _weighted(words: np.ndarray[Any, Any], first: int) -> int:
    """Sum of words[i] (2 (first + i) + 1) modulo 2**64."""
    compiled = compiled_passes(words.size)
    if compiled is not None:
        return int(compiled.weighted(words, first))
    total = 0
    for start in range(0, words.size, ENTRIES):
        some = words[start : start + ENTRIES].astype(np.uint64)
        begin = 2 * (first + start) + 1
        some *= np.arange(begin, begin + 2 * some.size, 2, dtype=np.uint64)
        total += int(some.sum())
    return total


def compiled_passes(entries: int) -> Any:
    """The module of compiled passes if they are faster for this many entries, or None."""
    if entries < compiling.COMPILED_FROM or not compiling.current():
        return None
    return compiling.module("compiled", "weakprox.proofs")


def digest(pieces: list[Piece]) -> Digest:
    """The type, the shape and the checksum of each piece, by name."""
    return {one.name: [one.kind, list(one.shape), one.checksum()] for one in pieces}


def digested(pieces: list[Piece]) -> Callable[[], Digest]:
    """Compute the digest in a thread if all is in memory; the returned function waits."""
    if not all(one.held for one in pieces):  # files and workers are not thread-safe
        found = digest(pieces)
        return lambda: found
    pool = ThreadPoolExecutor(1)
    later = pool.submit(digest, pieces)
    pool.shutdown(wait=False)
    return later.result
