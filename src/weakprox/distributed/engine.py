"""All calls of dask's scheduler: keep results, fetch them, reduce them.

Tasks are pure functions of their arguments, so that dask can recompute results that were
lost with their worker. The order of sums depends on the blocks only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias
from uuid import uuid4

from weakprox.errors import WorkersLostError

Task: TypeAlias = Any  # a `dask.delayed.Delayed`

FAN_IN = 8  # terms that one task sums
TRIES = 10  # attempts at a computation whose workers die
UNLIMITED = "1TB"  # narrow blocks are deliberately sent with their tasks


def each(function: Callable[..., Any], *columns: Sequence[Any]) -> list[Task]:
    """Return one task for each row of arguments; strings and numbers are passed unchanged."""
    from dask.delayed import delayed

    name = f"{function.__name__}-{uuid4().hex[:12]}"
    call = delayed(function, pure=False, traverse=False)
    rows = zip(*columns, strict=True)
    return [call(*row, dask_key_name=f"{name}-{i}") for i, row in enumerate(rows)]


def shared(value: Any) -> Task:
    """A value that many tasks read, sent to each worker once."""
    from dask.delayed import delayed

    return delayed(value, name=f"shared-{uuid4().hex[:12]}", traverse=False)


def tree(combine: Callable[[list[Any]], Any], tasks: Sequence[Task]) -> Task:
    """One task that combines all results by a tree: neighbours first."""
    from dask.delayed import delayed

    level, call = list(tasks), delayed(combine, pure=False)
    name, depth = f"{combine.__name__}-{uuid4().hex[:12]}", 0
    while len(level) > 1 or depth == 0:
        level = [
            call(level[i : i + FAN_IN], dask_key_name=f"{name}-{depth}-{i // FAN_IN}")
            for i in range(0, len(level), FAN_IN)
        ]
        depth += 1
    return level[0]


def keep(tasks: Sequence[Task]) -> list[Task]:
    """Start the tasks, and keep their results on the workers."""
    from dask.base import persist

    with _quietly():
        return list(persist(*tasks, optimize_graph=False))


def fetch(tasks: Sequence[Task], resting_on: Sequence[Task] = ()) -> list[Any]:
    """Return the results of tasks, which may be new or already kept.

    Dask gives up on a task whose worker has died several times in a row, even if the task
    did not cause it. Such tasks among `resting_on` (kept results) are then retried.
    """
    for left in reversed(range(TRIES)):
        try:
            with _quietly():
                return _results(tasks)
        except Exception as failure:
            kind = type(failure).__name__
            if kind == "KilledWorker" and left:
                from distributed.client import futures_of

                for future in futures_of([*resting_on, *tasks]):
                    if future.status == "error":
                        future.retry()
            elif kind in ("KilledWorker", "CancelledError", "FutureCancelledError"):
                lost = f"Data were lost with their workers ({kind}: {failure})."
                raise WorkersLostError(lost) from failure
            else:
                raise
    raise AssertionError


def _results(tasks: Sequence[Task]) -> list[Any]:
    """Results of tasks; those already running on a cluster are only waited for."""
    from dask.base import compute

    if "distributed" in sys.modules:
        from distributed.client import futures_of

        begun = [futures_of(task) for task in tasks]
        if [[one.key for one in found] for found in begun] == [[task.key] for task in tasks]:
            return list(begun[0][0].client.gather([found[0] for found in begun]))
    return list(compute(*tasks, optimize_graph=False))


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress dask's warning about the size of task arguments."""
    import dask

    if "distributed" not in sys.modules:
        yield
        return
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": UNLIMITED}):
        yield
