"""A matrix whose rows are on workers, and the target of a splitting stored with it."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import array_api_compat.numpy as compat_numpy
import numpy as np

from weakprox.distributed import passes as own_passes
from weakprox.distributed import work
from weakprox.distributed.engine import Task, each, fetch, keep, shared, tree
from weakprox.distributed.terms import checked_shape, cut, float_of
from weakprox.errors import InputError
from weakprox.passes.reference import Replayed

# bytes of a block of rows: enough work for a task, with several blocks per worker
BLOCK_BYTES = 64 << 20
MOST_BLOCKS = 1024  # beyond it blocks grow instead, since each costs scheduling time


class Rows:
    """An m x d matrix in blocks of rows; functions that only inspect arrays accept it."""

    ndim = 2
    device = "cpu"
    passes: ModuleType = own_passes  # used by `weakprox.passes`

    def __init__(self, shape: tuple[int, int], dtype: Any, slices: list[slice]) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.slices = slices

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return compat_numpy

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]}, {self.dtype})"


class Blocked(Rows):
    """A dask array M, the argument `name`, kept by its scheduler in blocks of rows."""

    def __init__(self, name: str, M: Any) -> None:
        m, d = checked_shape(name, M, 2)
        shape, dtype = (m, d), float_of(name, M.dtype)
        rows = block_rows(shape, dtype)
        super().__init__(shape, dtype, cut(m, rows))
        blocks = M.rechunk((rows, -1)).to_delayed().ravel()
        self._parts = keep(each(work.loaded, blocks, [self.dtype] * len(blocks)))
        seen = tree(work.greatest, each(work.examined, self._parts))
        bad, most = fetch([seen], self._parts)[0]
        if bad:
            wanted = "finite numbers (for missing entries use losses.Completion)"
            raise InputError(name, "NaN or infinite entries", wanted)
        self.largest = float(most)

    def __truediv__(self, unit: float) -> Blocked:
        """The same matrix in another unit."""
        other = copy(self)
        other.largest = self.largest / unit
        other._parts = keep(each(work.divided, self._parts, [unit] * len(self._parts)))
        return other

    def held(self) -> list[Task]:
        return self._parts

    def beside(self, given: list[Task] | None) -> list[Any]:
        """Weights or bounds of each block's rows, None if there are none."""
        return [None] * len(self._parts) if given is None else given

    def fresh(self) -> Target:
        """A target with arbitrary contents, on the workers of the blocks."""
        return Target(self)

    def gathered(self) -> np.ndarray[Any, Any]:
        """The whole matrix in this process, for methods that need it."""
        whole = np.empty(self.shape, self.dtype)
        for rows, part in zip(self.slices, self._parts, strict=True):
            whole[rows] = fetch([part], self._parts)[0]
        return whole


@dataclass(eq=False, repr=False)
class Target(Rows, Replayed):
    """The z of a splitting: blocks on the workers, and the moves that produced them.

    The moves are small. Missing blocks are recomputed from them: after another target has
    taken them over, or when a run is resumed from a file.
    """

    source: Blocked
    moves: list[work.Move] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.source.shape, self.source.dtype, self.source.slices)
        self._states: list[Task] | None = None
        self.product: tuple[Any, list[Task]] | None = None  # the last Y, and z Y

    def held(self) -> list[Task]:
        """The blocks, recomputed if another target has taken them over."""
        if self._states is None:
            moves, parts = shared(self.moves), self.source.held()
            others = self.source.beside(self.beside)
            self._states = keep(each(work.replayed, parts, others, [moves] * len(parts)))
        return self._states

    def take_over(self, other: Target) -> None:
        """Take the state and blocks of another target, which keeps only its moves."""
        other.beside = self.beside  # one from a file has none
        self.moves, self._states = list(other.moves), other.held()
        other._states = other.product = None

    def move(self, move: work.Move, Q: Any, B: Any = None) -> list[Any]:
        """Compute the next z, from B = z Y if known; return sums and products of each block."""
        parts = self.source.held()
        last: list[Any] = [None] * len(parts) if move.V is None else self.held()
        many = [[shared(x)] * len(parts) for x in (move, Q)]
        B = [None] * len(parts) if B is None else B
        others = self.source.beside(self.beside)
        states = each(work.moved, parts, others, last, *many, B)
        kept = keep([*states, *each(work.found, states)])
        # release the old blocks before the new ones exist, so that each can be freed in turn
        self._states, found = kept[: len(parts)], kept[len(parts) :]
        self.moves = [*([] if move.V is None else self.moves), move]
        self.product = None
        del last, states, B
        held = parts if self.beside is None else [*parts, *others]
        return fetch(found, [*held, *self._states])


def block_rows(shape: tuple[int, int], dtype: Any) -> int:
    """Number of rows of a block, which depends on the matrix size only, for equal rounding."""
    row: int = shape[1] * np.dtype(dtype).itemsize
    return max(1, BLOCK_BYTES // row, math.ceil(shape[0] / MOST_BLOCKS))
