"""Observed entries in blocks of rows on workers, for the passes of `weakprox.passes.blocks`.

Each pass is one task graph: factors and blocks of vectors are sent to the workers, products and
sums come back. The order of sums depends on the blocks only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from weakprox.distributed.engine import Task, each, fetch, keep, shared, tree
from weakprox.distributed.terms import Entries
from weakprox.distributed.work import added
from weakprox.passes import blocks, compiling
from weakprox.passes.blocks import BLOCK, BlockPattern, Vector
from weakprox.passes.pattern import Index, Pattern, pattern


@dataclass(frozen=True)
class Job:
    """The computation of a task: a function of vectors, each given by a rule."""

    function: Callable[..., Any]
    rules: tuple[Any, ...]
    tokens: tuple[tuple[int, bool], ...]  # of the leaves, and whether each is a `Spread`


@dataclass(frozen=True, eq=False)
class OnWorkers:
    """`Blocks` on workers; a stored vector is a list of tasks."""

    parts: list[Task]  # patterns
    edges: Index
    here: ClassVar[bool] = False

    @property
    def columns(self) -> Any:
        """Column of each position, in this process."""
        return np.concatenate(fetch(each(_columns, self.parts), self.parts))

    def each(self, function: Any, vectors: Sequence[Vector], *arguments: Any) -> Iterator[Any]:
        tasks, resting = self._tasks(function, vectors, arguments)
        return iter(fetch(tasks, resting))

    def added(self, function: Any, vectors: Sequence[Vector], *arguments: Any) -> Any:
        tasks, resting = self._tasks(function, vectors, arguments)
        # a copy: products of this process depend on the alignment, which messages do not keep
        return np.array(fetch([tree(added, tasks)], resting)[0])

    def kept(self, function: Any, vectors: Sequence[Vector], *arguments: Any) -> list[Task]:
        return keep(self._tasks(function, vectors, arguments)[0])

    def placed(self, whole: Any) -> Any:
        """Return vectors as in `Blocks`; tasks are already on the workers."""
        if isinstance(whole, list):
            return whole
        sizes = fetch(each(_size, self.parts), self.parts)
        return keep(each(np.asarray, np.split(np.asarray(whole), np.cumsum(sizes)[:-1])))

    def gathered(self, stored: Any) -> Any:
        """Return a stored vector as an array in this process."""
        return np.concatenate(fetch(stored, [*self.parts, *stored]))

    def _tasks(
        self, function: Any, vectors: Sequence[Vector], arguments: Sequence[Any]
    ) -> tuple[list[Task], list[Task]]:
        """Tasks of a pass, and the kept results that they depend on."""
        count, resting = len(self.parts), list(self.parts)
        known = {token: leaf for x in vectors for token, leaf in x.leaves.items()}
        columns: list[Any] = []
        for leaf in known.values():
            if isinstance(leaf, blocks.Spread):
                columns += [self._cut(np.asarray(leaf.left)), [shared(leaf.right)] * count]
            else:
                columns.append(leaf)
                resting += leaf
        for x in arguments:
            if isinstance(x, blocks.ByRows):
                columns.append(self._cut(x.value))
            else:
                columns.append([shared(x.value)] * count)
        tokens = [(token, isinstance(leaf, blocks.Spread)) for token, leaf in known.items()]
        job = shared(Job(function, tuple(x.rule for x in vectors), tuple(tokens)))
        return each(worked, self.parts, [job] * count, *columns), resting

    def _cut(self, x: Any) -> list[Any]:
        return np.split(x, self.edges[1:-1])


def worked(P: Pattern, job: Job, *given: Any) -> Any:
    """One block of a pass, compiled on all workers: their bits must not differ."""
    left, leaves = list(given), {}
    with compiling.passes(True):
        for token, spread in job.tokens:
            if spread:
                leaves[token] = P.effects(left.pop(0), left.pop(0))
            else:
                leaves[token] = np.asarray(left.pop(0), dtype=float)
        return job.function(P, *blocks.computed(job.rules, leaves), *left)


def sorted_on_workers(
    entries: Entries, recode: Callable[[Any, Any], Any]
) -> tuple[BlockPattern, Vector, Vector | None]:
    """Return the pattern of entries in chunks, their values and weights.

    `recode` is called with some values that show the classes, and with those of a block.
    """
    parts, shape = entries.parts, entries.shape
    counts = [
        fetch([tree(added, each(counted, parts, [(side, n)] * len(parts)))], parts)[0]
        for side, n in enumerate(shape)
    ]
    pointers = np.concatenate([[0], np.cumsum(counts[0])])
    edges = blocks.row_edges(pointers, BLOCK)
    shown = blocks.few(np.concatenate(fetch(each(seen, parts), parts)))
    recode(shown, shown[:0])  # raise here rather than on a worker
    split = each(divided_by_rows, parts, [shared(edges)] * len(parts))
    places = range(len(edges) - 1)
    pieces = [each(item, [one] * len(places), places) for one in split]
    heights = [(int(height), shape[1]) for height in np.diff(edges)]
    how = [shared((recode, shown))] * len(places)
    found = each(assembled, how, heights, *pieces)
    kinds = 3 if entries.weighted else 2
    kept = keep([task for i in range(kinds) for task in each(item, found, [i] * len(found))])
    columns = [kept[i * len(found) : (i + 1) * len(found)] for i in range(kinds)]
    P = BlockPattern(shape, pointers, counts[1], OnWorkers(columns[0], edges))
    return P, Vector(P, columns[1]), Vector(P, columns[2]) if entries.weighted else None


def counted(part: Any, side: tuple[int, int]) -> Any:
    """Number of observations in each row (side 0) or column (1)."""
    return np.bincount(part[side[0]], minlength=side[1])


def seen(part: Any) -> Any:
    """Some distinct values."""
    return blocks.few(part[3])


def divided_by_rows(part: Any, edges: Index) -> list[Any]:
    """The observations of each block of rows, with rows counted within it."""
    rows, columns, _, values, *weights = part
    block = np.searchsorted(edges, rows, side="right") - 1
    order = np.argsort(block, kind="stable")
    cuts = np.searchsorted(block[order], np.arange(1, len(edges) - 1))
    first = edges[block]
    parts = (np.split(x[order], cuts) for x in (rows - first, columns, values, *weights))
    return list(zip(*parts, strict=True))


def item(found: Any, position: int) -> Any:
    return found[position]


def assembled(how: Any, shape: tuple[int, int], *pieces: Any) -> tuple[Any, ...]:
    """The pattern of a block, and its values and weights in that order."""
    recode, shown = how
    rows, columns, *vectors = (np.concatenate(x) for x in zip(*pieces, strict=True))
    found, order = pattern(rows, columns, shape)
    values, *weights = (x[order] for x in vectors)
    return found, recode(shown, values), *weights


def _columns(P: Pattern) -> Any:
    return P.columns


def _size(P: Pattern) -> int:
    return P.size
