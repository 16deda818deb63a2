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
    tau: float = problem.spectral.tau  # type: ignore[attr-defined]
    found, r = state.ritz, state.rank
    dual, z = FactoredDual(engine, found.leading(r), step, tau), engine.z
    values = rounded_on_host(dual.values, tau, z)
    V = engine.rounded(dual.exact, values)
    state = judged(state, dual.sums, step, k)
    # of the answer's factors, and of the dense answer
    rounding = eps_of(z) * abs(state.last) + dual.sums.rounding(step, eps_of(z))
    return replace(state, V=V, values=values, gap=state.gap + rounding), dual


def judged(state: Memory, sums: Sums, step: Step, k: int, doubt: float = 0.0) -> Memory:
    """Best value and bound, how fast the gap falls, and whether it still does.

    The last value is raised by its relative `doubt`.
    """
    value, gap = sums.value(step), sum(sums.halves(step))  # only this z can prove anything
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
