"""Value and feasibility of the X that a run returns, with what rounding may add to them.

`Result.X` is the product of the answer's factors, computed in float64 and rounded once to
the dtype of the data. For float32 that rounding, and not the method, limits what can be
proved, so it is measured where float64 arithmetic is affordable and bounded elsewhere.
"""

from __future__ import annotations

import math

from weakprox.linalg.arena import Arena
from weakprox.linalg.arrays import (
    contiguous,
    eps_of,
    itemsize,
    on_cpu,
    wide,
)
from weakprox.linalg.kernels import dense
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import passes_for
from weakprox.problem import Problem
from weakprox.protocols import Batch, SpectralTerm
from weakprox.resources.limits import room
from weakprox.run.needs import held_bytes
from weakprox.run.precision import is_single, smooth_in_float64
from weakprox.solvers.footprint import ON_DEVICE
from weakprox.spectral.checks import excess

SUMS = 16  # units of rounding in a value that was summed in float64
IN_SINGLE = 8  # units of float32 in a value that could not be computed in float64


def measured(
    problem: Problem, answer: LowRank, batch: Batch, arena: Arena
) -> tuple[float, float]:
    """Return f at the X that is returned, and a bound on what rounding may add to it.

    The problem may be in float64 though the answer is in float32, if the run changed to it.
    """
    h = problem.spectral.value(answer)
    rough = _rounding_of_h(problem.spectral, answer)
    step = problem.entrywise() if problem.loss.is_finite_sum else None
    if step is not None and (problem.by_passes or _short(answer)):
        # X is too large to store, or these sums in float64 spare a copy of the data
        C = contiguous(problem.loss.centre(problem.loss.everything()))  # type: ignore[attr-defined]
        sums = passes_for(C).look(C, None, answer, step)
        smooth = sums.value(step)
        rough += sums.rounding(step, eps_of(answer.s))
        return smooth + h, rough + SUMS * eps_of(wide(answer.s)) * (abs(smooth) + abs(h))
    unit = SUMS * eps_of(wide(answer.s))
    if is_single(problem):
        precise = smooth_in_float64(problem) if _fits(problem) else None
        if precise is None:
            unit = IN_SINGLE * eps_of(answer.s)
        else:
            problem, batch = precise, precise.loss.everything()
    if _short(answer):
        X = answer.rounded()
        X = X if is_single(problem) else wide(X)
    else:
        X = dense(answer, arena.like(answer.U, answer.shape))
    G, R = problem.smooth_values(X, batch)
    if is_single(problem):  # small residuals are differences of larger numbers
        beta, eps, length = problem.loss.smoothness, eps_of(answer.s), math.sqrt(answer.sqnorm)
        slope = math.sqrt(2.0 * beta * abs(G))
        rough += IN_SINGLE * eps * length * (slope + eps * beta * length)
    return G + R + h, rough + unit * (abs(G) + abs(R) + abs(h))


def violation(spectral: SpectralTerm, answer: LowRank) -> float:
    """Relative distance of the X that is returned from the set of h."""
    found = spectral.violation(answer)
    tau = getattr(spectral, "tau", None)
    if tau is None or not _short(answer):
        return found
    if spectral.symmetric:  # rounding also makes eigenvalues negative
        found = max(found, _lost(answer) / max(float(tau), answer.nuclear_norm))
    return max(found, excess(answer.nuclear_norm + _lost(answer), float(tau)))


def _short(answer: LowRank) -> bool:
    """Whether the answer is in float32."""
    return itemsize(answer.s) == 4


def _lost(answer: LowRank) -> float:
    """Bound on the nuclear norm of what rounding the product of the factors takes off."""
    least = min(answer.shape)
    return 0.5 * eps_of(answer.s) * math.sqrt(least * answer.sqnorm)


def _rounding_of_h(spectral: SpectralTerm, answer: LowRank) -> float:
    """What rounding to float32 may add to h, where h grows with the nuclear norm."""
    growth = getattr(spectral, "growth", 0.0)
    return growth * _lost(answer) if growth and _short(answer) else 0.0


def _fits(problem: Problem) -> bool:
    """Whether the data and X fit in memory once more, in float64."""
    needed = 2 * held_bytes(problem) + 16 * math.prod(problem.shape)
    return needed <= (room() if on_cpu(problem.loss.reference) else ON_DEVICE)
