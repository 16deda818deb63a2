"""Data in float32, gone on with in float64 where rounding would have the last word.

A dual point is a difference, divided by the step: in float32 it proves about three digits.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weakprox.certificates.split import SplitDual
from weakprox.linalg.arrays import Array, itemsize, namespace, on_cpu, to_numpy, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine, SignedL1, Sum, Zero
from weakprox.problem import Problem
from weakprox.resources.limits import room
from weakprox.run.needs import held_bytes
from weakprox.solvers._gap_driven import GapDriven
from weakprox.solvers.footprint import ON_DEVICE, arrays_of
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD
from weakprox.spectral.checks import rounded_inside

if TYPE_CHECKING:
    from weakprox.run.look import Seen
    from weakprox.run.loop import Run

# Of these very classes: a subclass may hold arrays of its own.
WITHOUT_ARRAYS = (
    *(L1, ElasticNet, GroupL2, SignedL1, Zero),
    *(NuclearBall, NuclearNorm, TracePSD),
)
HESITATION = 12  # iterations without progress that float32 is given
SHARE = 0.5  # of the accuracy, to aim at


def stuck_in_float32(run: Run) -> bool:
    """Whether the gap no longer shrinks, for want of digits perhaps."""
    if not isinstance(run.solver, GapDriven) or run.sampled or not is_single(run.problem):
        return False
    waited = run.memory.done - run.memory.progress
    return waited >= HESITATION and affordable(run.problem, run.solver)


def go_on_in_float64(run: Run, *, resumed: bool = False) -> bool:
    """Have a run go on in float64, if its data are not in it and all terms can be.

    It aims at part of the accuracy: the rest is for the rounding of its answer. What a run
    that is `resumed` has seen is in float64 already.
    """
    found = in_float64(run.problem) if is_single(run.problem) else None
    if found is None:
        return False
    looker, settings = run.looker, run.settings
    looker.eps, looker.tol = SHARE * settings.eps, SHARE * settings.tol
    run.equip(found)
    looker.batch = found.loss.everything()
    looker.callback = _narrowed(looker.callback, run.reference)
    if not resumed:
        looker.seen = _seen_anew(looker.seen, found, looker.batch)
    elif isinstance(getattr(run.memory, "dual", None), SplitDual):
        # of a file, with the terms of the problem given
        dual = replace(run.memory.dual, penalty=found.penalty)
        run.memory = replace(run.memory, dual=dual)
    run.first = None if run.first is None else wide(run.first)
    why = f"{settings.reason}. It went on in float64, which proves more than float32"
    run.settings = replace(settings, reason=why)
    return True


def _seen_anew(seen: Seen, problem: Problem, batch: Any) -> Seen:
    """The best point in float64 with its value; proofs that have failed may now succeed."""
    seen = replace(seen, prove_below=math.inf)
    if seen.best is None:
        return seen
    best = within(seen.best, problem.spectral)
    return replace(seen, best=best, best_value=problem.value(best, batch))


def _narrowed(callback: Any, reference: Array) -> Any:
    """The user's callback, which sees points in the dtype of the data."""
    if callback is None:
        return None

    def seen(look: Any) -> Any:
        xp = namespace(reference)
        V = None if look.V is None else rounded(look.V, reference, None)
        return callback(replace(look, X=xp.astype(look.X, reference.dtype), V=V))

    return seen


def is_single(problem: Problem) -> bool:
    """Whether the data are in float32."""
    return itemsize(problem.loss.reference) == 4


def is_wide(X: Array | LowRank) -> bool:
    """Whether a point is in float64."""
    return itemsize(X.s if isinstance(X, LowRank) else X) == 8


def in_float64(problem: Problem) -> Problem | None:
    """The same problem with data in float64; None if a term does not offer that."""
    found, spectral = smooth_in_float64(problem), _wide(problem.spectral)
    if found is None or spectral is None:
        return None
    found.spectral = spectral
    return found


def smooth_in_float64(problem: Problem) -> Problem | None:
    """The same with G and R for arrays in float64, and h as it is."""
    offered = getattr(problem.loss, "in_float64", None)
    penalty = _wide(problem.penalty)
    loss = None if offered is None or penalty is None else offered()
    if loss is None:
        return None
    found = copy.copy(problem)  # whose constants may have been restated
    found.loss, found.penalty = loss, penalty
    return found


def affordable(problem: Problem, solver: Any) -> bool:
    """Whether the solver's arrays, and the data again, fit in memory in float64."""
    arrays = arrays_of(solver)
    if arrays is None or problem.elsewhere:
        return False
    needed = 8 * arrays.most * math.prod(problem.shape)
    needed += 2 * held_bytes(problem)
    return needed <= (room() if on_cpu(problem.loss.reference) else ON_DEVICE)


def rounded(answer: LowRank, reference: Array, spectral: Any) -> LowRank:
    """The answer in the dtype of the reference, still in the set."""
    xp = namespace(answer.U)
    U, Vt = (xp.astype(x, reference.dtype, copy=False) for x in (answer.U, answer.Vt))
    return LowRank(U, rounded_inside(to_numpy(answer.s), _tau(spectral), U), Vt)


def widened(X: LowRank) -> LowRank:
    """The same point in float64."""
    return LowRank(wide(X.U), wide(X.s), wide(X.Vt))


def within(X: LowRank, spectral: Any) -> LowRank:
    """The point in float64, scaled into the set if rounding has taken it out of it.

    With columns of length one, the sum of the values bounds the nuclear norm, whatever
    right angles have been lost.
    """
    X = widened(X)
    xp = namespace(X.U)
    left, right = (xp.linalg.vector_norm(F, axis=0) for F in (X.U, X.Vt.T))
    left, right = (xp.where(size > 0.0, size, 1.0) for size in (left, right))
    values = rounded_inside(to_numpy(X.s * left * right), _tau(spectral), X.U)
    return LowRank(X.U / left, values, X.Vt / right[:, None])


def _tau(spectral: Any) -> float:
    return float(getattr(spectral, "tau", math.inf))


def _wide(term: Any) -> Any:
    """A penalty or a spectral term for arrays in float64, None if that is not known of it."""
    if type(term) in WITHOUT_ARRAYS:
        return term
    if type(term) is MaxAffine:
        return MaxAffine(wide(term.A), wide(term.b))
    if type(term) is Sum:
        parts = [_wide(part) for part in term.parts]
        return None if None in parts else Sum(tuple(parts))
    return None
