"""The only place that asks dask to do something: keep results, fetch them, add them up.

Tasks are pure functions of their arguments, so that dask makes results again that were lost
with their worker. Sums are taken in an order that depends on the blocks alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias
from uuid import uuid4

from weakprox.errors import WorkersLostError

Task: TypeAlias = Any  # a `dask.delayed.Delayed`

FAN_IN = 8  # terms that one task adds up
TRIES = 10  # times that a computation may be begun again after its workers have died
UNLIMITED = "1TB"  # narrow blocks travel with their tasks: no reason to warn of them


def each(function: Callable[..., Any], *columns: Sequence[Any]) -> list[Task]:
    """One task for each row of arguments; strings and numbers are arguments as they are."""
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
    """One task for all: neighbours are combined first, then what they have become."""
    from dask.delayed import delayed

    level, call = list(tasks), delayed(combine, pure=False)
    name, depth = f"{combine.__name__}-{uuid4().hex[:12]}", 0
    while len(level) > 1 or depth == 0:
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [
            call(group, dask_key_name=f"{name}-{depth}-{i}") for i, group in enumerate(groups)
        ]
        depth += 1
    return level[0]


def keep(tasks: Sequence[Task]) -> list[Task]:
    """Begin the tasks, and keep their results where they are made."""
    from dask.base import persist

    with _quietly():
        return list(persist(*tasks, optimize_graph=False))


def fetch(tasks: Sequence[Task], resting_on: Sequence[Task] = ()) -> list[Any]:
    """The results of the tasks, here; of tasks that are kept already, or of new ones.

    Dask gives up on a task whose worker has died several times in a row, through no fault
    of the task: those among `resting_on`, kept results, are asked for again then.
    """
    for left in reversed(range(TRIES)):
        try:
            with _quietly():
                return _results(tasks)
        except Exception as failure:
            kind = type(failure).__name__
            if kind == "KilledWorker" and left:
                _ask_again([*resting_on, *tasks])
            elif kind in ("KilledWorker", "CancelledError", "FutureCancelledError"):
                given = f"{kind}: {failure}"
                raise WorkersLostError(
                    f"Data were lost with their workers ({given})."
                ) from failure
            else:
                raise
    raise AssertionError


def _results(tasks: Sequence[Task]) -> list[Any]:
    """Those of tasks that have begun on a cluster are only waited for."""
    from dask.base import compute

    if "distributed" in sys.modules:
        from distributed.client import futures_of

        begun = [futures_of(task) for task in tasks]
        if all(
            len(found) == 1 and found[0].key == task.key
            for found, task in zip(begun, tasks, strict=True)
        ):
            return list(begun[0][0].client.gather([found[0] for found in begun]))
    return list(compute(*tasks, optimize_graph=False))


def _ask_again(kept: Sequence[Task]) -> None:
    from distributed.client import futures_of

    for future in futures_of(list(kept)):
        if future.status == "error":
            future.retry()


@contextmanager
def _quietly() -> Iterator[None]:
    """Without dask's advice on the size of what travels with tasks."""
    import dask

    if "distributed" not in sys.modules:
        yield
        return
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": UNLIMITED}):
        yield
