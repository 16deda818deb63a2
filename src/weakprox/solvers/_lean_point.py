"""What `LeanSplitting` says of a point: its value and gap, its proof, what others see of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weakprox.certificates.factored import FactoredDual
from weakprox.linalg.arrays import eps_of
from weakprox.passes import Step, Sums
from weakprox.passes.engine import Engine
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.spectral.checks import rounded_on_host

if TYPE_CHECKING:
    from weakprox.solvers.lean import Memory

SHARPLY = 0.1  # factor by which the gap is expected to fall at first


def provable(
    problem: Problem, state: Memory, engine: Engine, k: int
) -> tuple[Memory, FactoredDual]:
    """The state with a proximal point in float64, rounded, and with its dual point."""
    step = problem.entrywise(state.gamma)
    assert state.ritz is not None
    assert step is not None
    form = problem.values_form
    assert form is not None
    found, r, z = state.ritz, state.rank, engine.z
    # the lower end of a symmetric z, if it is long, is no part of what is left out
    shift = max(0.0, float(found.s[0] - state.values[0]))
    last = int((found.s[r:] < -0.9 * shift).sum()) if engine.symmetric else 0
    dual = FactoredDual(engine, found.with_last(r, last), step, form)
    values = rounded_on_host(dual.values[:r], form.tau, z)
    V = engine.rounded(dual.exact.leading(r), values)
    state = judged(problem, replace(state, values=values), dual.sums, step, k)
    # of the answer's factors, and of the dense answer
    rounding = eps_of(z) * abs(state.last) + dual.sums.rounding(step, eps_of(z))
    return replace(state, V=V, gap=state.gap + rounding), dual


def judged(
    problem: Problem, state: Memory, sums: Sums, step: Step, k: int, doubt: float = 0.0
) -> Memory:
    """Best value and bound, how fast the gap falls, and whether it still does.

    The last value is raised by its relative `doubt`.
    """
    form = problem.values_form
    assert form is not None
    h = form.lam * float(state.values.sum())
    value, gap = sums.value(step) + h, sum(sums.halves(step))  # only this z proves anything
    if state.ritz is not None and state.ritz.residuals is not None:
        shift = max(0.0, float(state.ritz.s[0] - state.values[0]))
        gap += form.tau / step.gamma * state.ritz.excess(len(state.values), shift)
    best = min(state.value, value)
    ratio = gap / state.gap if 0.0 < state.gap < math.inf else SHARPLY
    least = min(state.least, gap)
    progress = k if gap < 0.99 * state.least else state.progress
    return replace(
        state,
        value=best,
        last=value + doubt * abs(value),
        gap=gap,
        least=least,
        ratio=min(1.0, max(ratio, 0.02)),
        progress=progress,
    )


def candidate(
    memory: Memory, step: int = 0, gap: float = math.nan, dual: Any = None
) -> Candidate:
    """The proximal point; nothing proves it once its target has moved on."""
    V, epoch = memory.V, memory.epoch
    last = memory.last if math.isfinite(memory.last) else None  # None before the first step
    return Candidate(V, V, 0.0, epoch, step, gap=gap, dual=dual, value=last)
