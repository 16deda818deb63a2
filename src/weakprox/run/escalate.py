"""Escalations: what a run does if its method cannot reach the accuracy.

Each entry of `ESCALATIONS` says when it applies after a step, and returns the state of a run
that starts again, or continues with another method. `begin(state, X)` starts the state's solver
at X, None for zero. Three changes are not in that list, since they are made at other times:

- before the first step, `digits_at_once` changes to float64;
- within a step, methods widen their blocks, since they continue from the basis of that step;
- after the last step, problems with constraints get steeper slopes (`run/slopes.py`), since
  only the answer shows whether the slopes suffice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weakprox.errors import ConvexityError, InputError
from weakprox.linalg.arrays import DOUBLE, Array, namespace, to_numpy, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.simplex import rounded_inside
from weakprox.problem import Problem
from weakprox.protocols import spectral_capabilities
from weakprox.run import choose
from weakprox.run.plan import held_bytes
from weakprox.run.state import State
from weakprox.solvers._gap_driven import Contradicted, TooWide
from weakprox.solvers.base import Method, Warmth, fits

Begin = Callable[[State, Array | LowRank | None], State]

STALLED = 12  # iterations without progress after which a run changes to float64
UNPROVABLE = 1e4  # accuracy, in units of rounding, that no method can prove
# Shares of the accuracy to aim at in float64; the rest is for rounding the answer to float32.
SHARE, LEAST_SHARE, ROUNDED = 0.8, 0.5, 3e-7


def another_method(state: State, signal: Exception | None, begin: Begin) -> State | None:
    """Continue with the fallback method if proximal points are not low-rank.

    Also if the gap falls too slowly. Float32 data are converted if all terms support float64.
    Methods that keep X in factors have no target to continue from: the best point so far is the
    first one of the fallback.
    """
    fallback = state.solver.fallback
    if not isinstance(signal, TooWide) or fallback is None:
        return None
    best = state.tracker.best if state.solver.factored else None
    state = _with(state, fallback)
    state = begin(state, state.first if best is None else best)
    return replace(state, memory=fallback.continued(state.memory, signal))


def quicker_method(state: State, signal: Exception | None, begin: Begin) -> State | None:
    """Continue with another method, from the same dual point, if the gap falls slowly."""
    solver = state.solver
    if signal is not None or not _is_free(state) or solver != state.fixed.origin.solver:
        return None
    quicker = choose.if_slow(state.problem, solver, state.memory)
    if quicker is None or state.memory.dual is None:
        return None
    dual, state = state.memory.dual, _with(state, quicker)
    past = Warmth.of(state.problem, dual)
    return replace(state, memory=quicker.warm(state.problem, past, state.tools), latest=None)


def last_method(state: State, signal: Exception | None, begin: Begin) -> State | None:
    """Continue from the best point with another method if the gap has stalled.

    Only if the method was chosen automatically, and neither a cap on the rank nor rounding
    prevents the proof.
    """
    solver, best = state.solver, state.tracker.best
    after = choose.if_stalled(state.problem, solver)
    if signal is not None or not _is_free(state):
        return None
    if after in (None, state.fixed.origin.solver) or not solver.finished(state.memory):
        return None
    size = abs(state.tracker.best_value)
    aim = state.tools.eps + state.tools.tol * size
    if solver.is_cut(state.memory) or aim < UNPROVABLE * DOUBLE * size:
        return None
    if best is None or not affordable(state.problem, after):
        return None
    return begin(_with(state, after), best)


def _is_free(state: State) -> bool:
    """Return True if the method was chosen automatically and works with full gradients."""
    return not state.fixed.sampled and state.fixed.origin.reason not in ("", choose.ASKED)


def _with(state: State, solver: Method) -> State:
    """Return the state with another method, in float64 if all terms support it.

    Proofs that failed for one method say nothing about those of another.
    """
    state = handed_to(state, solver)
    state = replace(state, tracker=replace(state.tracker, prove_below=math.inf, attempts=0))
    return in_double(state) or state


def another_constant(state: State, signal: Exception | None, begin: Begin) -> State | None:
    """Restart from the last point if gradients contradict the declared strong convexity.

    If G is sampled, restart from the first point: the same samples are drawn again, and the
    start must not depend on the samples that test the answer.

    The new constant is the computed one if the loss can compute it, and 0 otherwise: the
    curvature seen between iterates refutes the declared constant, but is no bound itself.
    Bounds that rest on the old constant are dropped.
    """
    if not isinstance(signal, Contradicted):
        return None
    declared = state.problem.loss.strong_convexity
    compute = state.problem.of_loss.true_strong_convexity
    known = None if compute is None else compute()
    found = 0.0 if known is None else min(known, declared)
    problem = state.problem.restated(found)
    try:
        state.solver.check(problem)
    except ConvexityError:
        given = f"{declared:.3g}, which gradients contradict"
        seen = signal.strong_convexity
        wanted = f"at most {seen:.3g}, and a bound on the curvature of G in all directions"
        raise InputError("strong_convexity", given, wanted) from None
    last = state.latest or state.solver.candidate(state.memory)
    tracker = replace(state.tracker, lower=-math.inf, prove_below=math.inf)
    state = replace(state.on(problem), restated=found, tracker=tracker, evidence=None)
    return begin(state, state.first if state.fixed.sampled else last.X * 1.0)


def more_digits(state: State, signal: Exception | None, begin: Begin) -> State | None:
    """Restart in float64 if the gap has stalled, possibly because of float32 data."""
    if signal is not None or state.fixed.sampled or not is_single(state.problem):
        return None
    if state.solver.double:
        return None
    if state.solver.stalled(state.memory) < STALLED:
        return None
    found = in_double(state) if affordable(state.problem, state.solver) else None
    return None if found is None else begin(found, found.first)


def digits_at_once(state: State) -> State | None:
    """Return the state in float64 if float32 could not prove the accuracy; None otherwise."""
    tol, coarse = state.fixed.settings.tol, state.solver.coarse
    if not 0.0 < tol < coarse or state.fixed.sampled or not is_single(state.problem):
        return None
    return in_double(state) if affordable(state.problem, state.solver) else None


ESCALATIONS = (another_method, another_constant, more_digits, quicker_method, last_method)


def escalated(state: State, signal: Exception | None, begin: Begin) -> State | None:
    """Return the state after the first escalation that applies; None if none does.

    `signal` is the exception that ended the last step, None if the step was completed.
    """
    found = (escalation(state, signal, begin) for escalation in ESCALATIONS)
    return next((after for after in found if after is not None), None)


def handed_to(state: State, solver: Method) -> State:
    """Return the state with another method, which may need all data in this process."""
    state = replace(state, solver=solver)
    if not solver.elsewhere and state.problem.elsewhere:
        state = state.on(state.problem.gathered())
        state = replace(state, batch=state.problem.loss.everything())
    return state


def in_double(state: State, *, resumed: bool = False) -> State | None:
    """Return the state in float64; None if data are in float64 or a term does not offer it.

    A dual point is a difference divided by the step size: in float32 it proves about three
    digits. The tracker of a run that is `resumed` is in float64 already.
    """
    found = in_float64(state.problem) if is_single(state.problem) else None
    if found is None:
        return None
    settings = state.fixed.settings
    share = share_of(settings.tol)
    state = state.on(found, eps=share * settings.eps, tol=share * settings.tol)
    first = state.first
    if first is not None and not isinstance(first, LowRank):  # factors are in float64
        first = wide(first)
    state = replace(state, batch=found.loss.everything(), first=first)
    if not resumed:
        # proofs that have failed may now succeed
        tracker, best = replace(state.tracker, prove_below=math.inf), state.tracker.best
        if best is not None:
            best = within(best, found.spectral)
            value = found.value(best, state.batch)
            tracker = replace(tracker, best=best, best_value=value)
        return replace(state, tracker=tracker)
    return replace(state, memory=state.solver.in_float64(state.memory, found))


def share_of(tol: float) -> float:
    """Return the share of the accuracy to aim at if the answer is rounded to float32."""
    return max(LEAST_SHARE, 1.0 - ROUNDED / tol) if tol else SHARE


def is_single(problem: Problem) -> bool:
    """Return True if the data are in float32."""
    return bool(problem.loss.reference.dtype.itemsize == 4)


def is_wide(X: Array | LowRank) -> bool:
    """Return True if a point is in float64."""
    return bool((X.s if isinstance(X, LowRank) else X).dtype.itemsize == 8)


def in_float64(problem: Problem) -> Problem | None:
    """Return the problem with data in float64; None if a term does not offer that."""
    found, offered = smooth_in_float64(problem), problem.of_spectral.in_float64
    spectral = None if found is None or offered is None else offered()
    return None if found is None or spectral is None else found.altered(spectral=spectral)


def smooth_in_float64(problem: Problem) -> Problem | None:
    """Return the problem with G and R in float64 and h unchanged; None if not offered."""
    offered, wider = problem.of_loss.in_float64, problem.of_penalty.in_float64
    penalty = None if wider is None else wider()
    loss = None if offered is None or penalty is None else offered()
    if loss is None:
        return None
    return problem.altered(loss=loss, penalty=penalty)  # constants may have been restated


def affordable(problem: Problem, solver: Method) -> bool:
    """Return True if the solver's arrays and the data fit in memory again in float64."""
    arrays = solver.arrays
    if arrays is None or problem.elsewhere:
        return False
    needed = 8 * arrays.most * math.prod(problem.shape)
    return fits(problem, needed + 2 * held_bytes(problem))


def rounded(answer: LowRank, reference: Array, spectral: Any) -> LowRank:
    """Return the answer in the dtype of the reference, still in the set."""
    xp = namespace(answer.U)
    U, Vt = (xp.astype(x, reference.dtype, copy=False) for x in (answer.U, answer.Vt))
    return LowRank(U, rounded_inside(to_numpy(answer.s), _tau(spectral), U), Vt)


def within(X: LowRank, spectral: Any) -> LowRank:
    """Return the point in float64, scaled into the set if rounding took it out.

    With columns of length one, the sum of the values bounds the nuclear norm, even if the
    columns are no longer orthogonal.
    """
    X = LowRank(wide(X.U), wide(X.s), wide(X.Vt))
    xp = namespace(X.U)
    left, right = (xp.linalg.vector_norm(F, axis=0) for F in (X.U, X.Vt.T))
    left, right = (xp.where(size > 0.0, size, 1.0) for size in (left, right))
    values = rounded_inside(to_numpy(X.s * left * right), _tau(spectral), X.U)
    return LowRank(X.U / left, values, X.Vt / right[:, None])


def _tau(spectral: Any) -> float:
    tau = spectral_capabilities(spectral).tau
    return math.inf if tau is None else float(tau)
