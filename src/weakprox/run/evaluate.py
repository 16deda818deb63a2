"""Everything that evaluates a point: looks, proofs, and the answer at the end.

Functions take the state of a run and return a new one. `finish` recomputes every number of the
result from the answer. `Result.X` is the product of the answer's factors, computed in float64
and rounded once to the dtype of the data. For float32 that rounding, not the method, limits
what can be proved. So it is measured if float64 arithmetic is affordable, and bounded
otherwise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from weakprox.certificates.sampled import (
    FINE,
    RAREST,
    Proof,
    contradicted,
    evaluated,
    even_sizes,
    groups_that_fit,
)
from weakprox.certificates.split import SplitDual, lower_bound, split_bound
from weakprox.errors import SamplerError
from weakprox.linalg.arrays import DOUBLE, Array, contiguous, eps_of, namespace, sqnorm, wide
from weakprox.linalg.bounds import EXACT_BELOW
from weakprox.linalg.lowrank import LowRank, dense
from weakprox.losses.empirical import Empirical
from weakprox.passes import passes_for
from weakprox.passes.compiling import COMPILED_FROM
from weakprox.problem import Problem, distance_parts
from weakprox.protocols import Candidate, DualPair, DualPoint, DualRecord, OwnBound, WeakProx
from weakprox.result import Certificate, Look, Result, Status
from weakprox.run.escalate import rounded, smooth_in_float64
from weakprox.run.plan import held_bytes
from weakprox.run.state import Evidence, Kept, State, Tracker
from weakprox.solvers.base import SMALL, fits

GROWTH = 1.1  # looks follow every step at first, later a growth of the steps by a tenth
PROOF_GROWTH = 1.5  # proofs cost a decomposition each, so they are rarer
THOROUGH = 3000  # size up to which a proof by a full decomposition follows failed ones
# numbers of random streams, larger than any step number
EVALUATION, CERTIFICATE = 1 << 62, 1 << 63
UNMOVED = (Status.CALLBACK, Status.INTERRUPTED, Status.SAMPLER_FAILED)  # kept despite a proof
CONFIDENCE = 0.95  # confidence of certificates from evaluation samples
SUMS = 16  # units of rounding in a value that was summed in float64
SECOND = 4  # one in so many failed proofs is followed by one with a new decomposition
ONE_PASS = 48  # rank up to which a pass that computes X entry by entry is faster
ROUNDED = 4.0  # units of rounding of a value by which that of a rounded answer may be larger
RESIDUAL = 16  # units of rounding in a residual of intercepts
IN_SINGLE = 8  # units of float32 in a value that could not be computed in float64


def gap_of(tracker: Tracker) -> float:
    """Return the distance of the best point from the best bound, infinite without one."""
    lower = tracker.lower
    return tracker.best_value - lower if lower > -math.inf else math.inf


def aim_of(state: State) -> float:
    """Return the accuracy to reach, given the best value so far."""
    tracker, tools = state.tracker, state.tools
    size = tracker.best if tracker.best is not None else tracker.size
    return _accuracy(state.problem, tools.eps, tools.tol, tracker.best_value, size)


def _survives_rounding(state: State) -> bool:
    """Return True if the proved accuracy also holds for the answer in the dtype of the data.

    The value of an answer that is rounded to float32 is a few units of rounding larger. It is
    computed only if that matters, and not if the accuracy itself is that small.
    """
    tracker, reference = state.tracker, state.fixed.reference
    if reference.dtype.itemsize > 4:
        return True
    aim, cost = aim_of(state), ROUNDED * eps_of(reference) * abs(tracker.best_value)
    if tracker.best is None or not aim - gap_of(tracker) < cost < aim:
        return True
    answer = tracker.best
    if answer.reference.dtype != reference.dtype:
        answer = rounded(answer, reference, state.problem.spectral)
    value, rounding = measured(state, answer)
    return value - tracker.lower + rounding <= aim


def _accuracy(
    problem: Problem, eps: float, tol: float, value: float, X: LowRank | float | None
) -> float:
    """Return eps, or tol relative to the value once there is one.

    Relative to max(|value|, SMALL size), size = smoothness/2 |X|^2 at the point X with that
    value (or |X|^2 itself, given as a number): the optimum may be zero, and no gap but zero
    is small relative to that. The size is computed only if it can matter. Residuals of
    intercepts that explain all data are rounding errors, which no gap need be smaller than.
    """
    if not tol or not math.isfinite(value):
        return eps
    floor = _rounding(problem)
    floor = floor if abs(value) <= floor else 0.0
    if X is None or X == 0.0:
        return max(floor, tol * abs(value))
    half = 0.5 * problem.loss.smoothness
    form = problem.of_spectral.form
    longest = math.inf if form is None else form.tau
    if longest == math.inf:
        longest = problem.radius(value)
    if SMALL * half * longest * longest <= abs(value):  # infinite if it overflows
        return max(floor, tol * abs(value))
    size = X if isinstance(X, float) else X.sqnorm
    return max(floor, tol * max(abs(value), SMALL * half * size))


def _rounding(problem: Problem) -> float:
    """Bound on G if all residuals of intercepts are rounding errors; 0 without intercepts."""
    of_loss = problem.of_loss
    data = None if of_loss.observed is None else of_loss.observed()
    size = of_loss.size
    if data is None or size is None or data.intercepts == "none" or not data.smoothness:
        return 0.0
    bound: float = 0.5 * data.smoothness * data.size * (RESIDUAL * DOUBLE * size()) ** 2
    return bound


def _diverged(problem: Problem, value: float) -> bool:
    """Return True if a value is above that at zero."""
    zero = LowRank.zero(problem.shape, problem.loss.reference)
    there = problem.value(zero)
    return value > there + 1e-6 * abs(there)


Looked = tuple[State, Look | None, Status | None]


def ticked(state: State, candidate: Candidate, seconds: float) -> Looked:
    """Return the state after an inner step, with a `look` at the candidate if one is due."""
    tracker, now = state.tracker, state.tracker.steps + 1
    if now < tracker.next_look and not _promising(state, candidate):
        state = replace(state, latest=candidate, tracker=replace(tracker, steps=now))
        return state, None, None
    every = state.fixed.settings.look_every
    later = max(now + 1, math.ceil(now * GROWTH)) if every is None else now + every
    return look(state, candidate, seconds, candidate, steps=now, next_look=later)


def _promising(state: State, candidate: Candidate) -> bool:
    """Return True if the method's own estimate says that a proof would now succeed."""
    tracker, tools = state.tracker, state.tools
    # estimates from inexact decompositions may be wrong: a more accurate one may succeed
    smaller = candidate.gap <= tracker.prove_below or candidate.powers > tracker.powers
    if not state.fixed.proves or not smaller:
        return False
    best = tracker.best_value
    if candidate.value is not None:
        best = min(best, candidate.value)
    return candidate.gap <= _accuracy(state.problem, tools.eps, tools.tol, best, candidate.V)


def look(
    state: State,
    candidate: Candidate,
    seconds: float,
    latest: Candidate | None = None,
    **seen: Any,
) -> Looked:
    """Evaluate and record the candidate at this time, and attempt a proof if one is due.

    Returns the new state, what the user's callback sees (None without a callback), and the
    status if the accuracy is proved. With a callback, the evidence is yet to be `settled`.
    The tracker changes in what was `seen`: the numbers given, and those found here; `latest`
    replaces the latest candidate if given.
    """
    fixed, tracker, problem = state.fixed, state.tracker, state.problem
    steps, proves = seen.get("steps", tracker.steps), _promising(state, candidate)
    if proves:  # if it fails, try again only when the estimate is much smaller
        below = 0.7 * candidate.gap if candidate.gap > 0.0 else -math.inf
        seen |= {"attempts": tracker.attempts + 1, "powers": candidate.powers}
        seen["prove_below"] = below
    elif candidate.gap == math.inf and fixed.proves and steps >= tracker.next_proof:
        proves = True  # without an estimate, proofs follow a schedule of cost
        seen["next_proof"] = math.ceil(steps * PROOF_GROWTH) + 1
    value, low = candidate.value, math.nan
    if value is None or (proves and not isinstance(candidate.dual, OwnBound)):
        # for a proof, values are computed from scratch
        value = problem.smooth_value(candidate.X, state.batch) + candidate.h_bound
    if candidate.V is not None:
        known = None if candidate.value is None else value  # X is V
        low = _worth(state, candidate.V, candidate.scratch, known)
        if low < tracker.best_value or tracker.best is None:
            seen |= {"best": candidate.V, "best_value": low}
    if state.solver.answer == "iterate":
        size = sqnorm(candidate.X) if state.tools.tol else 0.0
        seen |= {"best": None, "best_value": value, "size": size}
    tracker = replace(tracker, **seen)
    state = replace(state, tracker=tracker, value=value, latest=latest or state.latest)
    if proves:
        state = prove(state, candidate)
    unit, counts = fixed.settings.unit, fixed.meter.counts
    f = unit**2
    value, low, lower = f * value, f * low, f * state.tracker.lower
    where = (candidate.epoch, candidate.step)
    work = (counts.samples, counts.gradients, counts.svds, counts.rank_one_svds)
    bound = lower if lower > -math.inf else math.nan
    row = (seconds, *where, *work, value, low, bound, f * candidate.delta_estimate)
    fixed.trace.rows.append(tuple(map(float, row)))  # as in COLUMNS
    proved = fixed.proves and gap_of(state.tracker) <= aim_of(state)
    proved = proved and _survives_rounding(state)
    stop = Status.CERTIFIED if proved else None
    if fixed.settings.callback is None:
        return settled(state, ending=proved), None, stop
    X, V = candidate.X, candidate.V
    if isinstance(X, LowRank) and not problem.elsewhere and problem.observed is None:
        X = X.dense()
    if _doubled(state):  # the user sees points in the dtype of the data
        if not isinstance(X, LowRank):
            X = namespace(fixed.reference).astype(X, fixed.reference.dtype)
        V = None if V is None else rounded(V, fixed.reference, None)
    X, V = _times(X, unit), None if V is None else _times(V, unit)
    return state, Look(*where, value, low, lower, seconds, counts.copy(), X, V), stop


def _times(X: Any, unit: float) -> Any:
    """Return a point in the user's units."""
    if unit == 1.0:
        return X
    return X.scaled(unit) if isinstance(X, LowRank) else X * unit


def _worth(state: State, V: LowRank, scratch: Array | None, value: float | None) -> float:
    """Return f at a low-rank point, at which it may have been estimated."""
    problem = state.problem
    if value is None:
        return problem.value(V, state.batch, scratch=scratch)
    # rounding of an estimate may go below the infimum
    return value if problem.infimum is None else max(value, problem.infimum)


def _offered(
    state: State, V: LowRank, scratch: Array | None, value: float | None = None
) -> State:
    """Return the state with a low-rank point if it is the best so far."""
    tracker, value = state.tracker, _worth(state, V, scratch, value)
    if value < tracker.best_value or tracker.best is None:
        state = replace(state, tracker=replace(tracker, best=V, best_value=value))
    return state


def settled(state: State, *, ending: bool) -> State:
    """Detach the evidence from arrays that the solver is about to overwrite.

    Without `proof=True`, evidence is dropped if its copy would cost an extra pass.
    """
    evidence = state.evidence
    if evidence is None or not evidence.moving:
        return state
    keep = ending or state.fixed.settings.proof is True or evidence.cheap
    return replace(state, evidence=evidence.detached(copy=not ending) if keep else None)


def _bounded(
    state: State, lower: float, rests_on: str, evidence: Evidence | None = None
) -> State:
    """Return the state with a proved lower bound and its evidence, if they are the best.

    A bound that is infinite or above a value already reached is contradictory (a custom term
    may be wrong) and is dropped.
    """
    tracker, reached = state.tracker, state.tracker.best_value
    if not math.isfinite(lower):
        return state
    if _contradictory(lower, reached, state.problem.loss.reference):
        return state
    kept = state.evidence
    # a resumed run knows the last bound but not its evidence
    if evidence is not None and (kept is None or lower > kept.lower):
        kept = evidence if evidence.wanted(state.fixed.settings.proof) else None
    if lower > tracker.lower:
        tracker = replace(tracker, lower=lower, rests_on=rests_on)
    return replace(state, tracker=tracker, evidence=kept)


def _contradictory(lower: float, reached: float, like: Array) -> bool:
    """Return True if a bound exceeds a value by more than rounding errors in this dtype."""
    if not lower > reached:
        return False
    return lower > reached + 256 * eps_of(like) * (abs(reached) + abs(lower))


def prove(state: State, candidate: Candidate, *, ending: bool = False) -> State:
    """Raise the lower bound by the candidate's dual point, or by the solver's at X."""
    problem = state.problem
    if state.fixed.sampled or state.memory is None:
        return state
    if state.fixed.settings.estimated:  # no proof requested: accept the method's estimate
        if not math.isfinite(candidate.gap):
            return state
        return _bounded(state, state.tracker.best_value - candidate.gap, "exact")
    dual = candidate.dual or state.solver.dual(problem, state.memory)
    rng = state.tools.rng(CERTIFICATE)
    if isinstance(dual, OwnBound):
        own = dual.proof(rng)
        moving = own.dual is dual  # otherwise it holds none of the solver's arrays
        kept = Evidence(problem, own.dual, own.at, own.lower, moving)
        return _bounded(state, own.lower, own.rests_on, kept)
    if isinstance(dual, SplitDual) and problem.strong_convexity(needed=False) > 0.0:
        used: list[WeakProx] = []
        same = candidate.value is not None and dual.prox.V is candidate.V  # X is V
        X = candidate.X if same else None
        aim = aim_of(state)
        spare = max(0.05 * aim, 0.9 * (aim - candidate.gap))  # for the conjugate of h
        how: Any = {"accuracy": spare, "arena": state.tools.arena, "X": X}
        found = split_bound(problem, dual, rng=rng, used=used, **how)
        shown = replace(dual, prox=used[-1]) if used else dual
        state = _bounded(state, *found, Evidence(problem, shown, shown.at, found[0]))
        if gap_of(state.tracker) <= aim_of(state):
            return state
        again = ending or state.tracker.attempts % SECOND == 0
        if min(problem.shape) > EXACT_BELOW and not again:
            return state  # some more steps cost less than another decomposition
    at = dual.at if isinstance(dual, DualPair) else None
    least = min(problem.shape)
    rank = min(2 * state.memory.rank + 8, least)
    if state.tracker.attempts > 1 and least <= THOROUGH:
        rank = least  # bounds on what a truncated SVD leaves out were not enough
    X = candidate.X if at is None else at
    scratch = candidate.scratch
    if scratch is None and problem.of_loss.grad_into is not None and not problem.elsewhere:
        scratch = state.tools.arena.like(problem.loss.reference, problem.shape)
    bound, rests_on = lower_bound(
        problem,
        X.dense() if isinstance(X, LowRank) else X,
        dual,
        rank=rank,
        rng=rng,
        accuracy=0.01 * aim_of(state),
        reached=state.tracker.best_value,
        scratch=scratch,
    )
    return _bounded(state, bound, rests_on, Evidence(problem, dual, X, bound))


def inherited(after: State, before: State) -> State:
    """Return the state with the bound that the method of an earlier state can prove."""
    proved = prove(before, before.solver.candidate(before.memory), ending=True)
    bound, known = proved.tracker, after.tracker
    if not bound.lower > known.lower:
        return after
    tracker = replace(known, lower=bound.lower, rests_on=bound.rests_on)
    return replace(after, tracker=tracker, evidence=settled(proved, ending=True).evidence)


def finish(state: State, status: Status, seconds: float) -> Result:
    """Return the best answer, with every number recomputed; the checkpoint is left out.

    `seconds` is the time of the method.
    """
    fixed, problem, solver = state.fixed, state.problem, state.solver
    settings = fixed.settings
    own = solver.proof(state.memory) if fixed.sampled and state.memory is not None else None
    state, answer, iterate_value = _answer(state, own)
    doubled = _doubled(state) or answer.reference.dtype != fixed.reference.dtype
    if doubled:
        answer = rounded(answer, fixed.reference, problem.spectral)
    dual = None if state.latest is None else state.latest.dual
    known = warm = None
    if isinstance(dual, DualRecord):
        known = dual.smooth_at(answer) if math.prod(problem.shape) >= COMPILED_FROM else None
        if not dual.cheap:
            dual = None  # its array may have changed since
        elif not doubled:  # other runs are in the dtype of the data
            warm = dual.warm
    state = replace(state, latest=None)  # frees its iterate: room for the proof
    aim = settings.eps, settings.tol
    if fixed.sampled:
        certificate = _sampled_certificate(state, status, answer, dual, own)
        eps = _accuracy(problem, *aim, certificate.value, answer)
    else:
        value, rounding = measured(state, answer, known)
        eps = _accuracy(problem, *aim, value, answer)
        if settings.tol and eps > settings.tol * abs(value) and _diverged(problem, value):
            eps = settings.tol * abs(value)  # the size of such a point is meaningless
        tracker = replace(state.tracker, best_value=value)
        if _contradictory(tracker.lower, value + rounding, fixed.reference):
            # passes and methods of a custom term disagree
            tracker, state = replace(tracker, lower=-math.inf), replace(state, evidence=None)
        state = replace(state, tracker=tracker)
        short = value + rounding - state.tracker.lower > eps
        if short and (problem.observed is not None or problem.cells is not None):
            state = prove(state, Candidate(answer, None, 0.0, 0, 0, dual=dual))
        elif short and solver.affordable(problem):
            X = answer.rounded()
            X = wide(X) if doubled else X
            last = Candidate(X, None, 0.0, 0, 0, dual=dual)
            state = prove(state, last, ending=True)
            state = settled(state, ending=True)
            if state.evidence is not None and state.evidence.at is X:
                state = replace(state, evidence=replace(state.evidence, at=answer))
        lower = min(state.tracker.lower, value)  # rounding may have taken the value below it
        certificate = Certificate(value, lower, state.tracker.rests_on, rounding=rounding)
    value = certificate.value
    proved = value - certificate.lower_bound + certificate.rounding <= eps
    if proved and status not in UNMOVED:
        status = Status.CONFIDENT if fixed.sampled else Status.CERTIFIED
    elif not proved and status is Status.CERTIFIED:
        status = Status.FINISHED  # rounding since the last look invalidated the proof
    if status is Status.EXPECTED and 32 * eps_of(answer.reference) * abs(value) > eps:
        status = Status.FINISHED  # no theorem covers rounding errors above eps
    if status is Status.EXPECTED:
        # The theorem is about the iterate and an oracle whose rank suffices. It must also
        # cover the step to the answer and the error that the oracle itself measured.
        lost = max(0.0, problem.value(answer, state.batch) - iterate_value)
        lost += solver.oracle_excess(state.memory)
        if solver.promised(state.memory) + lost > (1 + 1e-4) * eps:
            status = Status.RANK_LIMITED
    unit = settings.unit
    return Result(
        low_rank=_times(answer, unit),
        value=unit**2 * value,
        violation=violation(problem, answer),
        status=status,
        eps=unit**2 * eps,
        certificate=certificate if unit == 1.0 else certificate.times(unit**2),
        counts=fixed.meter.counts,
        trace=fixed.trace,
        parameters=None if state.memory is None else state.memory.parameters,
        solver=type(solver).__name__,
        seconds=seconds,
        seed=settings.seed,
        sampled=fixed.sampled,
        checkpoint=None,
        iterate_value=unit**2 * iterate_value,
        reason=_reason(state, doubled=_doubled(state)),
        dual=warm,
        unit=unit,
        evidence=None if state.evidence is None else _kept(state.evidence),
    )


def _kept(evidence: Evidence) -> Kept:
    """Return what the result keeps of the evidence."""
    loss = evidence.problem.loss
    single, strong = loss.reference.dtype.itemsize == 4, float(loss.strong_convexity)
    return Kept(evidence.dual, evidence.at, evidence.lower, single, strong)


def _reason(state: State, *, doubled: bool) -> str:
    """Return why the solver that ended the run was used."""
    origin, name = state.fixed.origin, type(state.fixed.origin.solver).__name__
    why = origin.reason
    if type(state.solver).__name__ != name:
        why = (
            f"it took over from {name}, whose points were not low-rank or whose gap fell too "
            f"slowly. {name} came first because {why}"
        )
    if doubled:
        why += ". The run continued in float64, which proves more than float32"
    return why


def _doubled(state: State) -> bool:
    """Return True if the run continued in float64 on float32 data."""
    reference, given = state.problem.loss.reference, state.fixed.reference
    return bool(reference.dtype.itemsize != given.dtype.itemsize)


def _answer(state: State, own: Proof | None) -> tuple[State, LowRank, float]:
    """Return the state, the point to return, and the value of the iterate it comes from."""
    problem, tools = state.problem, state.tools
    if own is not None:
        return state, own.X, problem.value(own.X, state.batch)
    if state.memory is None:  # stopped before the first step
        first = LowRank.zero(problem.shape, problem.loss.reference)
        if state.first is not None:
            first = tools.compressed(state.first)
        return state, first, problem.value(first, state.batch)
    last = state.latest or state.solver.candidate(state.memory)
    value = last.value
    if value is None:
        value = problem.smooth_value(last.X, state.batch) + last.h_bound
    if state.solver.answer == "iterate":
        return state, tools.compressed(last.X), value
    if last.value is None:  # otherwise X is V
        cut = tools.compressed(last.X, state.memory.rank).significant()
        state = _offered(state, cut, last.scratch)
    if last.V is not None:
        state = _offered(state, last.V, last.scratch, last.value)
    assert state.tracker.best is not None
    return state, state.tracker.best, value


def _sampled_certificate(
    state: State,
    status: Status,
    answer: LowRank,
    dual: DualPoint | OwnBound | None,
    own: Proof | None,
) -> Certificate:
    """Return value and gap from samples that were not used to choose the answer.

    A solver's own proof comes first: it may rest on more samples than these. If they contradict
    it, the larger of the two gaps is returned.
    """
    problem, loss = state.problem, state.problem.loss
    try:
        fresh = _fresh(state, status)
    except SamplerError:  # a sampler that fails now must not cost the answer
        fresh, value = [], problem.value(answer, state.batch)
    else:
        kept = Problem(Empirical(loss, fresh), problem.penalty, problem.spectral)
        value = kept.value(answer)
    proof = own
    if fresh and state.memory is not None:
        dual = dual or state.solver.dual(problem, state.memory)
        assert not isinstance(dual, OwnBound)  # which is of a finite sum
        other = evaluated(
            problem,
            answer,
            dual,
            fresh,
            CONFIDENCE if own is None else own.confidence,
            state.tools.rng(CERTIFICATE),
            rarest=RAREST if own is None else own.rarest,
            looked=state.batch,  # values in the samples of the looks count as seen
        )
        stands = own is not None and math.isfinite(own.gap)
        if own is None or not stands or (other.gap > own.gap and contradicted(own, other)):
            proof = other
    if proof is None or not math.isfinite(proof.gap):
        return Certificate.nothing(value, sampled=True)
    how = (proof.sampling, proof.confidence, proof.samples, proof.rarest)
    return Certificate(value, value - proof.gap, "sampled", *how)


def _fresh(state: State, status: Status) -> list[tuple[Any, int]]:
    """Draw fresh evaluation samples, in groups whose means show the scatter."""
    if status is Status.SAMPLER_FAILED:
        raise SamplerError("sampler", "one that has failed", "no more calls")
    loss, size = state.problem.loss, state.fixed.settings.evaluation_samples
    entries = math.prod(loss.shape)
    rng, most = state.tools.rng(EVALUATION, 1), groups_that_fit(loss.reference, entries)
    if state.problem.of_loss.furthest is None:  # rare values are looked for in small batches
        most = max(most, FINE)
    drawn = [(loss.draw(rng, count), count) for count in even_sizes(size, most)]
    state.fixed.meter.counts.evaluation_samples += size
    return drawn


def measured(
    state: State, answer: LowRank, known: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Return f at the X that is returned, and a bound on what rounding may add to it.

    `known` are G + R and its rounding error from a pass over the data at this very X. It takes
    the place of another pass, but not of the terms' own methods. The problem may be in float64
    though the answer is in float32, if the run changed to it.
    """
    problem, batch, short = state.problem, state.batch, answer.reference.dtype.itemsize == 4
    h, rough = problem.spectral.value(answer), 0.0
    growth = problem.of_spectral.growth
    if growth and short:  # h grows with the nuclear norm
        rough = growth * _lost(answer)
    unit = SUMS * DOUBLE
    data = problem.observed or problem.cells
    if data is not None:  # from factors, in float64
        smooth = problem.smooth_value(answer)
        if short:  # entries of X are rounded once
            rough += data.rounding(answer, 0.5 * eps_of(answer.reference))
        return smooth + h, rough + unit * (abs(smooth) + abs(h))
    if problem.sparse_target is not None:
        smooth, lost = distance_parts(problem.sparse_target, answer)
        return smooth + h, rough + lost + unit * (abs(smooth) + abs(h))
    compiled = math.prod(problem.shape) >= COMPILED_FROM and _in_one_pass(problem, answer)
    by_passes = short or compiled or problem.by_passes
    step = problem.entrywise() if by_passes and problem.loss.is_finite_sum else None
    if step is not None and short and step.shifted and not problem.by_passes:
        step = None  # bounds on what rounding costs at steep slopes are wide
    if step is not None:
        # X is too large to store, or these sums in float64 save a copy of the data
        if known is None:
            C = contiguous(problem.centre())
            sums = passes_for(C).look(C, None, answer, step)
            known = (
                sums.value(step),
                sums.rounding(step, eps_of(answer.reference), problem.shape),
            )
        smooth, lost = known
        return smooth + h, rough + lost + unit * (abs(smooth) + abs(h))
    single = problem.loss.reference.dtype.itemsize == 4
    if single:
        twice = 2 * held_bytes(problem) + 16 * math.prod(problem.shape)  # data and X
        precise = smooth_in_float64(problem) if fits(problem, twice) else None
        if precise is None:
            unit = IN_SINGLE * eps_of(answer.reference)
        else:
            problem, batch, single = precise, precise.loss.everything(), False
    if short:
        X = answer.rounded()
        X = X if single else wide(X)
    else:
        X = dense(answer, state.tools.arena.like(answer.reference, problem.shape))
    G, R = problem.smooth_values(X, batch)
    if single:  # small residuals are differences of larger numbers
        beta, eps, length = (
            problem.loss.smoothness,
            eps_of(answer.reference),
            math.sqrt(answer.sqnorm),
        )
        slope = math.sqrt(2.0 * beta * abs(G))
        rough += IN_SINGLE * eps * length * (slope + eps * beta * length)
    return G + R + h, rough + unit * (abs(G) + abs(R) + abs(h))


def _in_one_pass(problem: Problem, answer: LowRank) -> bool:
    """Return True if a compiled pass computes f faster from factors than from an array."""
    if problem.of_loss.centre is None or answer.most > ONE_PASS:
        return False
    return passes_for(problem.centre()).COMPILED


def violation(problem: Problem, answer: LowRank) -> float:
    """Return the relative distance of the X that is returned from the set of h."""
    found = problem.spectral.violation(answer)
    if answer.reference.dtype.itemsize != 4 or problem.of_spectral.tau is None:
        return found
    tau = float(problem.of_spectral.tau)
    if problem.spectral.symmetric:  # rounding can also make eigenvalues negative
        found = max(found, _lost(answer) / max(tau, answer.nuclear_norm))
    return max(found, answer.excess(tau, _lost(answer)))


def _lost(answer: LowRank) -> float:
    """Bound the nuclear norm of the rounding error of the product of float32 factors."""
    least = min(answer.shape)
    return 0.5 * eps_of(answer.reference) * math.sqrt(least * answer.sqnorm)
