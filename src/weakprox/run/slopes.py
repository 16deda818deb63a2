"""Problems with constraints on entries: their slopes are raised until violations are small."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from weakprox.errors import InputError
from weakprox.problem import Problem
from weakprox.result import Counts, Result


def with_slopes(minimize: Callable[..., Result], options: dict[str, Any]) -> Result:
    """Solve a problem with constraints on entries with moderate slopes in their place first.

    Slopes are steep enough if violations at the answer cost at most the accuracy. Otherwise
    the next run begins at that answer with steeper ones. `options` are the arguments of
    `minimize`.
    """
    problem: Problem = options["problem"]
    assert problem.eased is not None
    found: Result | None = None
    for rung, stated in zip(problem.eased.rungs(), problem.with_slopes(), strict=True):
        begun = time.perf_counter()
        try:
            after = minimize(**options | {"problem": stated})
        except InputError as error:
            if rung.last or found is not None or error.argument != "resume":
                raise
            continue  # the run that is resumed had other slopes
        found = after if found is None else _added(found, after)
        if rung.last or not found.certified or rung.cost(found.X) <= found.eps:
            break
        options |= {"start": found, "resume": None}
        if options.get("max_seconds") is not None:
            left = options["max_seconds"] - (time.perf_counter() - begun)
            options["max_seconds"] = max(0.0, left)
    assert found is not None
    return found


def _added(before: Result, after: Result) -> Result:
    """The second result with the work of both."""
    counts = {name: n + asdict(before.counts)[name] for name, n in asdict(after.counts).items()}
    return replace(after, counts=Counts(**counts), seconds=before.seconds + after.seconds)
