"""Problems with constraints on entries: their slopes are raised until violations are small."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import wraps
from typing import Any, ParamSpec, cast

from weakprox.errors import InputError
from weakprox.problem import Problem
from weakprox.result import Counts, Result

P = ParamSpec("P")


def raises_slopes(minimize: Callable[P, Result]) -> Callable[P, Result]:
    """Solve problems with constraints on entries with moderate slopes in their place first.

    Slopes are steep enough if violations at the answer cost at most the accuracy. Otherwise
    the next run begins at that answer with steeper ones. Runs with a checkpoint use the
    steepest slopes at once, since a file holds one problem.
    """

    @wraps(minimize)
    def solved(*args: P.args, **options: P.kwargs) -> Result:
        problem = args[0] if args else options.get("problem")
        eased = isinstance(problem, Problem) and problem.eased is not None
        if not eased or options.get("checkpoint") is not None:
            return minimize(*args, **options)
        given = {**options, **dict(zip(("problem", "solver"), args, strict=False))}
        return _solved(cast(Callable[..., Result], minimize), cast(Problem, problem), given)

    return solved


def _solved(
    minimize: Callable[..., Result], problem: Problem, options: dict[str, Any]
) -> Result:
    """The first result whose violations cost at most its accuracy, or that of the last run."""
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
