"""The end of a run: its best answer, with everything about it computed anew."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weakprox.certificates.factored import FactoredDual
from weakprox.certificates.sampled import (
    FINE,
    RAREST,
    Proof,
    contradicted,
    evaluated,
    even_sizes,
    groups_that_fit,
)
from weakprox.errors import SamplerError
from weakprox.linalg.arrays import Array, eps_of, itemsize, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.empirical import Empirical
from weakprox.problem import Problem
from weakprox.protocols import Candidate, DualPoint
from weakprox.result import Certificate, Result, Status
from weakprox.run.measure import measured, violation
from weakprox.run.precision import rounded
from weakprox.solvers.tools import accuracy_at

if TYPE_CHECKING:
    from weakprox.run.loop import Run

EVALUATION, CERTIFICATE = 1 << 62, 1 << 63  # names of streams, which no step number meets

UNMOVED = (Status.CALLBACK, Status.INTERRUPTED, Status.SAMPLER_FAILED)  # by a proof
CONFIDENCE = 0.95  # of certificates from evaluation samples


def finish(run: Run, status: Status) -> Result:
    """The best answer at hand, with everything about it computed anew from X."""
    seconds = run.meter.seconds
    problem, looker = run.problem, run.looker
    own = _own_proof(run)
    answer, iterate_value = _answer(run, own)
    if _doubled(run):
        answer = rounded(answer, run.reference, problem.spectral)
    dual = None if looker.latest is None else looker.latest.dual
    if isinstance(dual, FactoredDual):
        dual = None  # it speaks of an array that may have moved on
    looker.latest = None  # its iterate is not needed any more: room for the proof
    if run.sampled:
        certificate = _sampled_certificate(run, status, answer, dual, own)
    else:
        value, rounding = measured(problem, answer, run.looker.batch, run.tools.arena)
        looker.seen = replace(looker.seen, best_value=value)  # no estimate any more
        affordable = getattr(run.solver, "affordable", lambda problem: True)
        short = value + rounding - looker.seen.lower > _asked(run, value, answer)
        if short and affordable(problem):
            X = _dense(run, answer)
            run.prove(Candidate(X, None, 0.0, 0, 0, dual=dual))
            looker.settle(ending=True)
            if looker.evidence is not None and looker.evidence.at is X:
                looker.evidence = replace(looker.evidence, at=answer)
        lower = min(looker.seen.lower, value)  # which rounding may have taken below it
        certificate = Certificate(value, lower, looker.seen.rests_on, rounding=rounding)
    value = certificate.value
    eps = _asked(run, value, answer)
    proved = certificate.gap <= eps
    if proved and status not in UNMOVED:
        status = Status.CONFIDENT if run.sampled else Status.CERTIFIED
    elif not proved and status is Status.CERTIFIED:
        status = Status.FINISHED  # rounding ate the proof between look and answer
    if status is Status.EXPECTED and 32 * eps_of(answer.s) * abs(value) > eps:
        status = Status.FINISHED  # no theorem speaks of rounding errors above eps
    if status is Status.EXPECTED:
        # The theorem speaks of the iterate and of an oracle whose rank suffices: its
        # promise must cover the way to the answer and what the oracle itself measured.
        chosen = problem.value(answer, looker.batch)  # by the samples that chose it
        lost = max(0.0, chosen - iterate_value)
        lost += run.solver.oracle_excess(run.memory)
        if run.solver.promised(run.memory) + lost > (1 + 1e-4) * eps:
            status = Status.RANK_LIMITED
    if status is not Status.CERTIFIED:
        run.seal()
    return Result(
        low_rank=answer,
        value=value,
        violation=violation(problem.spectral, answer),
        status=status,
        eps=eps,
        certificate=certificate,
        counts=run.meter.counts,
        trace=looker.trace,
        parameters=None if run.memory is None else run.memory.parameters,
        solver=type(run.solver).__name__,
        seconds=seconds,
        seed=run.settings.seed,
        sampled=run.sampled,
        checkpoint=run.checkpoint,
        iterate_value=iterate_value,
        reason=run.settings.reason,
        dual=None if _doubled(run) else dual,  # other runs are in the data's dtype
        evidence=looker.evidence,
    )


def _doubled(run: Run) -> bool:
    """Whether the run went on in float64, on data that are not."""
    return itemsize(run.problem.loss.reference) != itemsize(run.reference)


def _dense(run: Run, answer: LowRank) -> Array:
    """The X that comes back, to compute with."""
    X = answer.rounded()
    return wide(X) if _doubled(run) else X


def _asked(run: Run, value: float, answer: LowRank) -> float:
    """The accuracy asked for, given the answer and its value."""
    return accuracy_at(run.problem, run.settings.eps, run.settings.tol, value, answer)


def _own_proof(run: Run) -> Proof | None:
    """What a solver that certifies against samples itself has shown, if anything."""
    offered = getattr(run.solver, "proof", None)
    if offered is None or run.memory is None:
        return None
    return offered(run.memory)  # type: ignore[no-any-return]


def _sampled_certificate(
    run: Run, status: Status, answer: LowRank, dual: DualPoint | None, own: Proof | None
) -> Certificate:
    """Value and gap from samples that had no say in choosing the answer.

    A solver's own proof goes first: it may rest on more samples than these. If they
    contradict it, the larger of its gap and theirs is returned.
    """
    problem, loss = run.problem, run.problem.loss
    try:
        fresh = _fresh(run, status)
    except SamplerError:  # a sampler that fails now must not cost the answer
        fresh, value = [], problem.value(answer, run.looker.batch)
    else:
        kept = Problem(Empirical(loss, fresh), problem.penalty, problem.spectral)
        value = kept.value(answer)
    proof = own
    if fresh and run.memory is not None:
        dual = dual or run.solver.dual(problem, run.memory)
        other = _judged(run, answer, dual, fresh, own)
        stands = own is not None and math.isfinite(own.gap)
        if own is None or not stands or (other.gap > own.gap and contradicted(own, other)):
            proof = other
    if proof is None or not math.isfinite(proof.gap):
        return Certificate.nothing(value, sampled=True)
    return Certificate(
        value,
        value - proof.gap,
        "sampled",
        proof.sampling,
        proof.confidence,
        proof.samples,
        proof.rarest,
    )


def _judged(
    run: Run,
    answer: LowRank,
    dual: DualPoint,
    fresh: list[tuple[Any, int]],
    own: Proof | None,
) -> Proof:
    """What the evaluation samples show; values in those of the looks count as seen."""
    confidence, rarest = (CONFIDENCE, RAREST) if own is None else (own.confidence, own.rarest)
    return evaluated(
        run.problem,
        answer,
        dual,
        fresh,
        confidence,
        run.tools.rng(CERTIFICATE),
        rarest=rarest,
        looked=run.looker.batch,
    )


def _fresh(run: Run, status: Status) -> list[tuple[Any, int]]:
    """Evaluation samples that nothing has seen yet, in groups whose scatter can be."""
    if status is Status.SAMPLER_FAILED:
        raise SamplerError("sampler", "one that has failed", "no more calls")
    loss, rng = run.problem.loss, run.tools.rng(EVALUATION, 1)
    most = groups_that_fit(loss.reference, math.prod(loss.shape))
    if not hasattr(loss, "furthest"):  # rare values are looked for in small batches
        most = max(most, FINE)
    sizes = even_sizes(run.settings.evaluation_samples, most)
    drawn = [(loss.draw(rng, size), size) for size in sizes]
    run.meter.counts.evaluation_samples += run.settings.evaluation_samples
    return drawn


def _answer(run: Run, own: Proof | None) -> tuple[LowRank, float]:
    """The point to return, and the value of the iterate it comes from."""
    problem, looker = run.problem, run.looker
    if own is not None:
        return own.X, problem.value(own.X, looker.batch)
    if run.memory is None:  # stopped before the first step
        first = LowRank.zero(problem.shape, problem.loss.reference)
        if run.first is not None:
            first = run.tools.compressed(run.first)
        return first, problem.value(first, looker.batch)
    last: Candidate | None = looker.latest
    if last is None:
        last = run.solver.candidate(run.memory)
    iterate_value = last.value
    if iterate_value is None:
        iterate_value = problem.smooth_value(last.X, looker.batch) + last.h_bound
    if run.solver.answer == "iterate":
        return run.tools.compressed(last.X), iterate_value
    if last.value is None:  # otherwise X is V
        cut = run.tools.compressed(last.X, run.memory.rank).significant()
        looker.offer(cut, last.scratch)
    if last.V is not None:
        looker.offer(last.V, last.scratch, last.value)
    assert looker.seen.best is not None
    return looker.seen.best, iterate_value
