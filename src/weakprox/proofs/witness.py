"""Proofs from results: the evidence that a result keeps, and the claims that it supports."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from weakprox import verifier as plain
from weakprox.certificates.evidence import OnCells, OnEntries, Target
from weakprox.errors import ProofError
from weakprox.linalg.arrays import eps_of, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import one_thread
from weakprox.problem import Problem
from weakprox.proofs.describe import Description, described
from weakprox.proofs.duals import Loss, Rows, dual_parts, stored, width_for
from weakprox.proofs.observed import integers
from weakprox.proofs.pieces import digested
from weakprox.proofs.proof import Proof
from weakprox.proofs.sparse import sparse_point
from weakprox.result import Result, SparsePoint
from weakprox.run.escalate import in_float64
from weakprox.run.state import Evidence, Kept
from weakprox.verifier.claims import Proved, prepared, proved, reach, worth
from weakprox.verifier.spectrum import FULL
from weakprox.verifier.sums import U

CHECKED = 400  # shorter side up to which a proof is verified while it is computed
SHARE = 0.02  # share of the gap that storing the dual point may cost, if the gap is above `eps`
SPARE, LARGER = 0.25, 1.5  # shares of the distance to `eps`, and of the gap, otherwise
SHARP = 4e-9  # share of the value by which two verifiers' bounds on sparse matrices may differ
# Multiples of the verifier's allowances, since other machines and verifiers round differently;
# a smaller one is used if the proof of the requested accuracy depends on it.
SAFE = (64.0, 16.0, 4.0)


def proof_of(result: Result) -> Proof:
    """Return the proof of the result's certificate."""
    problem, evidence = _kept(result)
    with one_thread(0):  # products are of narrow tiles, and the digest has its own thread
        return made(result, evidence, described(problem))


def sparse_of(result: Result) -> SparsePoint:
    """Return the penalty's own point near the answer of the result."""
    return sparse_point(result, _kept(result)[1])


def _kept(result: Result) -> tuple[Problem, Evidence]:
    """The problem, and the evidence for the certificate in the run's unit and precision.

    Raises a ProofError that gives the reason if there is none.
    """
    if result.sampled:
        wanted = "a finite sum: a bound from samples holds at a confidence only"
        raise ProofError("result", "a loss that is known through samples", wanted)
    if not result.certificate.proves:
        raise ProofError("result", "no lower bound", "a result that proves one")
    kept: Kept | None = result.evidence
    if kept is None:
        given = "a bound without the dual point that it rests on"
        raise ProofError("result", given, "minimize(..., proof=True), which keeps it")
    problem: Problem | None = None if result.source is None else result.source()
    if problem is None:
        given = "one whose problem no longer exists"
        wanted = "to keep the problem, or minimize(..., proof=True), which does"
        raise ProofError("result", given, wanted)
    run, dual = problem.in_unit(result.unit), kept.dual
    if not isinstance(dual, Target) and run.sparse_target is None:
        run = run.gathered()
    if run.loss.reference.dtype.itemsize == 4 and not kept.single:
        run = in_float64(run) or run
    if run.loss.strong_convexity != kept.strong_convexity:
        run = run.restated(kept.strong_convexity)
    if isinstance(dual, Target):
        dual = replace(dual, C=run.centre())
    return problem, Evidence(run, dual, kept.at, kept.lower, moving=False)


def made(result: Any, evidence: Evidence, told: Description) -> Proof:
    """The proof of a result's certificate, in the units of the user's problem."""
    digests = digested(told.pieces)  # computed in parallel with the rest
    statement, unit = told.statement, float(result.unit)
    answer = _factors("X", result.low_rank, 1.0)
    arrays = dict(answer)
    at = evidence.at
    known = (plain.Entries, plain.Outcomes)
    observed = isinstance(statement.loss, known) and not statement.loss.quadratic
    # bounded by conjugates
    on_entries = isinstance(evidence.dual, (OnCells, OnEntries)) or observed
    if told.terms["loss"]["kind"] != "Denoising" and at is not None and not on_entries:
        low_rank = isinstance(at, LowRank)
        arrays |= _factors("X0", at, unit) if low_rank else {"X0": to_numpy(at) * unit}
    X = plain.Factors(*(answer[f"X_{name}"] for name in ("U", "s", "Vt")))
    run, value = evidence.problem, float(result.value)
    lower = min(unit**2 * evidence.lower, value)
    w = float(run.loss.strong_convexity + run.penalty.curvature)
    gap = value - lower
    rho = reach(statement, value)
    spare = max(0.0, float(result.eps) - gap)
    certified = gap <= float(result.eps)
    # the file may prove less than the run, but not less than requested, which saves bytes
    most = min(LARGER * gap, SPARE * spare) if certified else SHARE * gap
    lost = Loss()
    extent = float(np.linalg.norm(X.s)) if w > 0.0 else rho
    exponent: dict[str, int] = {}
    bounded = told.terms["spectral"]["kind"] in ("ball", "psd")
    if on_entries:
        if not isinstance(statement.loss, known):
            given = "a dual point on entries, of a loss that does not say how proofs state it"
            raise ProofError("result", given, "a loss that declares `stated` (docs/extend.md)")
        q = unit * _on_entries(evidence)
        arrays["q"], exponent["exponent"] = integers(q, statement.loss, most, rho)
        arrays |= _intercepts(run, result.low_rank, unit)
    for i, y in enumerate([] if statement.penalties == [] else dual_parts(evidence)):
        part = statement.penalties[i]
        if isinstance(y, Rows) and isinstance(part, (plain.Box, plain.Groups)):
            y = y.scaled(unit)
            kind = width_for(y, part, gap, most, w, extent, bounded=bounded)
            arrays[f"y{i}"] = stored(y, part, kind, X, lost, bounded=bounded)
        else:
            weighted = isinstance(y, Rows) and isinstance(part, plain.Range)
            arrays |= _named(f"y{i}", y.scaled(unit) if weighted else y)
    strong = float(run.loss.strong_convexity)
    if isinstance(statement.loss, (plain.Measurements, plain.Regression)):
        # verifiers may find a smaller bound
        strong = statement.loss.convexity(strong, statement.spectral.symmetric, 4.0)[0]
    claims = {
        "value": value,
        "lower_bound": lower - lost.cost(gap, w, rho),
        "eps": float(result.eps),
        "certified": False,
        "strong_convexity": strong,
        **exponent,
    }
    found = Proof(claims, told.terms, digests, arrays)
    dual = evidence.dual
    norm = unit * dual.norm if isinstance(dual, (OnCells, OnEntries)) else None
    return _allowed(found, told, result, norm)


def _on_entries(evidence: Evidence) -> Any:
    """The dual point on the observed entries or outcomes, in the unit of the run."""
    dual, at = evidence.dual, evidence.at
    if isinstance(dual, OnEntries):
        return np.asarray(to_numpy(dual.q), dtype=np.float64)
    offered = evidence.problem.of_loss.stated
    found = None if offered is None else offered().dual
    assert found is not None
    assert at is not None
    length = dual.length if isinstance(dual, OnCells) else 1.0
    return length * np.asarray(to_numpy(found(at)), dtype=np.float64)


def _intercepts(problem: Problem, X: LowRank, unit: float) -> dict[str, Any]:
    """The best intercepts of the answer, in the user's unit; none if there are none."""
    offered = problem.of_loss.stated
    found = None if offered is None else offered().intercepts
    if found is None:
        return {}
    mean, *both = found(LowRank(X.U, X.s / unit, X.Vt))
    rows, columns = (np.asarray(to_numpy(x), dtype=np.float64) * unit for x in both)
    shift = np.array([float(mean) * unit])
    arrays = {"mean": shift, "rows": rows, "columns": columns}
    return {f"intercepts_{name}": array for name, array in arrays.items() if array.size}


def _allowed(proof: Proof, told: Description, result: Any, norm: float | None) -> Proof:
    """Return the proof with claims that leave room for the verifier's rounding.

    Small proofs are verified here and claim the bound found. For others, the run's bound is
    lowered by the verifier's allowance for rounding.
    """
    claim, statement, eps = proof.claim(), told.statement, eps_of(result.low_rank.s)
    large = min(proof.shape) > CHECKED
    largest = any(isinstance(part, plain.Largest) for part in statement.penalties)
    known = told.terms["loss"]["kind"] == "Denoising" and not largest
    if large and eps < 1e-10 and known and not statement.trusted:
        value, far = proof.value, _rounding(claim.X, statement, proof.value)
    else:
        found, _ = worth(claim, statement)
        value, far = found.value, found.error + 2 * U * abs(found.value)
    if large and norm is not None:
        bound = _by_norm(claim, statement, value, norm)
        spare = 0.5 * max(0.0, proof.eps - (value - bound.value))
        lost = bound.error + SHARP * abs(value)
        lower = bound.value - min(SHARE * max(0.0, value - bound.value), spare)
    elif large:
        lower, lost = proof.lower_bound, _margin(proof, told, value, eps)
        if min(proof.shape) > FULL:  # which verifiers bound with random vectors
            lower -= SHARE * max(0.0, value - lower)
    else:
        bound = proved(claim, statement, value + SAFE[0] * far)
        lower, lost = bound.value, bound.error + 2 * U * abs(bound.value)
    if not math.isfinite(lower - lost):
        given = "a bound that the dual point alone does not prove"
        raise ProofError("result", given, "another method, such as DavisYin")
    tries = [(value + times * far, lower - times * lost) for times in SAFE]
    shown = [both for both in tries if both[0] - both[1] <= proof.eps]
    value, lower = (shown or tries)[0]
    found_out = {"value": value, "lower_bound": lower, "certified": bool(shown)}
    return replace(proof, claims={**proof.claims, **found_out})


def _by_norm(
    claim: plain.Claim, statement: plain.Statement, value: float, norm: float
) -> Proved:
    """The bound on the optimum, given the run's bound on the norm of c, which is sparse."""
    given, rho = prepared(claim, statement), reach(statement, value)
    least = -rho * max(0.0, norm - statement.spectral.growth)
    lost = (given.slope.error + 16 * max(claim.X.shape) * U * given.size) * rho
    return Proved(given.start.value + least, given.start.error + lost, False, ())


def _margin(proof: Proof, told: Description, value: float, eps: float) -> float:
    """Upper bound on the verifier's allowance for rounding in the lower bound."""
    claim, statement = proof.claim(), told.statement
    rho = reach(statement, value)
    rho = float(np.abs(claim.X.s).sum()) if math.isinf(rho) else rho
    size = math.sqrt(2 * max(value, 0.0)) + float(np.linalg.norm(claim.X.s))  # at least |M|
    start, error = 8 * U * size**2, 0.0
    boxes = [part for part in statement.penalties if isinstance(part, plain.Box)]
    if told.terms["loss"]["kind"] == "Denoising" and len(boxes) == len(statement.penalties):
        slopes = sum(max(part.above, part.below) for part in boxes)
        size += slopes * math.sqrt(math.prod(proof.shape))
        error = 16 * U * size
    else:
        given = prepared(claim, statement)
        start, error, size = given.start.error, given.slope.error, given.size
    if eps > 1e-10 and "samples" in told.terms["loss"]:  # their mean was computed in float32
        start += 4 * eps * size * math.sqrt(2 * max(value, 0.0))
    return start + (error + 10 * max(proof.shape) * U * size) * rho + 64 * U * abs(value)


def _rounding(X: plain.Factors, statement: plain.Statement, value: float) -> float:
    """Upper bound on its allowance for rounding in f(X), if G is a squared distance."""
    far = X.error + U * math.sqrt(2 * max(value, 0.0))
    found: float = far * (math.sqrt(2 * max(value, 0.0)) + far) + 16 * U * abs(value)
    for part in statement.penalties:
        found += part.steepest * X.spread
        found += part.curvature * far * (float(np.linalg.norm(X.s)) + far)
    return found + statement.spectral.growth * X.nuclear_norm().error


def _factors(name: str, X: LowRank, unit: float) -> dict[str, Any]:
    """Factors in host memory, in the user's unit."""
    U_, s, Vt = (to_numpy(x) for x in (X.U, X.s, X.Vt))
    return {f"{name}_U": U_, f"{name}_s": s * s.dtype.type(unit), f"{name}_Vt": Vt}


def _named(name: str, y: Any) -> dict[str, Any]:
    """Arrays of a dual point that is stored unchanged."""
    if isinstance(y, list):
        return {f"{name}_{i}": _array(one) for i, one in enumerate(y)}
    return {name: _array(y)}


def _array(y: Any) -> Any:
    if isinstance(y, Rows):
        return y.read(0, y.shape[0])
    if isinstance(y, np.ndarray):
        return y
    given = f"a dual point of {type(y).__name__}s"
    raise ProofError("penalty", given, "one that is an array or a tuple of arrays")
