"""Problems with constraints on entries, solved with slopes in their place.

The answer X of a run with slopes may violate the constraints slightly, and its value counts
violations by these slopes. The lower bound holds for the constraints too. So the value of a
point near X within the constraints shows how far the optimum is above that bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from weakprox import arguments
from weakprox.errors import InputError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import to_numpy, wide
from weakprox.problem import Problem
from weakprox.result import COLUMNS, Counts, Result, Trace

TIGHTER = 0.25  # share of the accuracy of a second run with the same slopes
VALUES = ("value", "value_low_rank")  # columns of a trace
NEAR = 8.0  # multiple of the accuracy up to which a second run is worth its time


def with_slopes(minimize: Callable[..., Result], options: dict[str, Any]) -> Result:
    """Solve a problem with constraints on entries with moderate slopes in their place first.

    Slopes are steep enough if a point within the constraints is as good as the accuracy
    requires. Otherwise a more accurate run follows, and then one with steeper slopes, each from
    the answer before. `options` are the arguments of `minimize`.
    """
    problem: Problem = options["problem"]
    *others, steepest = problem.with_slopes()
    if isinstance(options["seed"], np.random.Generator):
        options["seed"] = arguments.seed_number("seed", options["seed"])
    runs = [(one, share) for one in others for share in (1.0, TIGHTER)] + [(steepest, 1.0)]
    found: Result | None = None
    refused, skipped, last = list[InputError](), None, None
    for one, share in runs:
        if one is skipped:
            continue
        begun = time.perf_counter()
        try:
            after = minimize(**options | {"problem": one} | _accuracy(options, share))
        except InputError as error:
            if found is not None or error.argument != "resume":
                raise
            refused.append(error)  # the run that is resumed had other slopes
            continue
        found = after if found is None else _joined(found, after, other=one is not last)
        last = one
        asked = after.eps / share
        if one is steepest or not after.certified:
            break
        above = _within(problem, one, after) - after.certificate.lower_bound
        if above <= asked:
            found = replace(found, eps=asked)
            break
        skipped = one if above > NEAR * asked else None
        options |= {"start": after, "resume": None} | _left(options, after, begun)
    if found is None:  # the message about the run with the same slopes names the fewest things
        raise min(refused, key=lambda error: len(str(error.given)))
    return found


def _accuracy(options: dict[str, Any], share: float) -> dict[str, Any]:
    """The accuracy to ask for."""
    if share == 1.0:
        return {}
    if options["eps"] is not None:
        return {"eps": share * options["eps"]}
    return {"tol": share * options["tol"]}


def _left(options: dict[str, Any], after: Result, begun: float) -> dict[str, Any]:
    """What is left of the limits."""
    spent = {
        "max_seconds": time.perf_counter() - begun,
        "max_svds": after.counts.svds,
        "max_samples": after.counts.samples,
    }
    limits = {name: options[name] for name in spent if options[name] is not None}
    return {name: max(0, limit - spent[name]) for name, limit in limits.items()}


def _within(problem: Problem, stated: Problem, found: Result) -> float:
    """f at a point within the constraints that is near the answer."""
    form = problem.of_spectral.form
    assert problem.constrained is not None
    assert form is not None
    X = problem.constrained.nearest(found.X)
    size = float(to_numpy(decompositions.svdvals(wide(X))).sum())
    if size > form.tau:  # the constraints contain zero
        X, size = X * (form.tau / size), form.tau
    return stated.smooth_value(X) + form.lam * size


def _joined(before: Result, after: Result, *, other: bool) -> Result:
    """The second result with the work of both, and both traces.

    Values of the first trace are NaN if slopes are others: they do not bound the optimum.
    """
    counts = {name: n + asdict(before.counts)[name] for name, n in asdict(after.counts).items()}
    spent = np.zeros(len(COLUMNS))
    if before.trace.rows:
        summed = ("seconds", *asdict(before.counts))
        last = zip(COLUMNS, before.trace.rows[-1], strict=True)
        spent = np.array([x if name in summed else 0.0 for name, x in last])
    rows = [tuple((spent + np.array(row)).tolist()) for row in after.trace.rows]
    seconds = before.seconds + after.seconds
    hidden = [name in VALUES and other for name in COLUMNS]
    first = [
        tuple(math.nan if hide else x for hide, x in zip(hidden, row, strict=True))
        for row in before.trace.rows
    ]
    joined = Trace([*first, *rows])
    return replace(after, counts=Counts(**counts), seconds=seconds, trace=joined)
