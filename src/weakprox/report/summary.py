"""The numbers and sentences of a report, gathered once for the page and its JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from weakprox import __version__
from weakprox.arguments import nonnegative, positive
from weakprox.display import counted
from weakprox.errors import InputError, ShapeError
from weakprox.linalg._thin_svd import thin_svd
from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.plots._cells import SUPPORT, Reduced, as_rows, reduced
from weakprox.problem import Problem
from weakprox.report import structure
from weakprox.report.markup import clean
from weakprox.report.statement import statement, weights, what_was_estimated
from weakprox.result import Result, named_parameters
from weakprox.selection.noise import noise_level

DENSE_BELOW = 1 << 22  # entries of an answer that may be formed at once, 32 MiB
CHEAP_BELOW = 1 << 22  # stored entries of data up to which singular values are computed
MOST_PERCENT = 1000.0  # larger gaps are given in the units of the objective
MORE_VALUES = 5  # singular values of the data beyond the answer's rank
FILLED = 1e-12  # share of the data up to which a residual means that observed entries are kept
LEADING = 20  # singular triplets of an estimate that is not kept in factors
GROUNDS = {  # by `Certificate.rests_on`
    "exact": "The bound rests on weak duality alone, without randomness. Rounding "
    "errors are allowed for.",
    "sampled": "The bound rests on weak duality and on samples, whose mean gradient is assumed "
    "to be nearly normal. It holds at that confidence.",
    "high-probability": "The bound rests on weak duality and a randomised bound on singular "
    "values, which fails with probability at most 1e-10.",
}


@dataclass(frozen=True)
class Gathered:
    """The contents of a report: numbers as plain JSON types, and matrices as they are drawn."""

    numbers: dict[str, Any]
    point: LowRank  # the estimate in factors, or its leading triplets
    estimate: Reduced
    data: Reduced | None
    residual: Reduced | None
    scatter: tuple[Any, Any] | None  # estimates and residuals of entries


def gather(
    result: Result,
    *,
    problem: Problem | None = None,
    data: Any = None,
    rows: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    scale: float = 1.0,
    noise: float | None = None,
) -> Gathered:
    """Check the arguments of `write_report` and compute each number once."""
    _check(result, problem, data, rows, columns)
    if settings is not None and not isinstance(settings, Mapping):
        raise InputError("settings", type(settings).__name__, "a dictionary")
    scale = positive("scale", scale)
    noise = None if noise is None else nonnegative("noise", noise)
    chosen = shown_estimate(result, scale)
    own = chosen is result.low_rank
    if isinstance(chosen, LowRank):
        # dense if it is available or small, otherwise from its factors
        dense = (own and "X" in vars(result)) or math.prod(chosen.shape) <= DENSE_BELOW
        shown, point = (result.X if own else chosen.rounded()) if dense else chosen, chosen
    else:
        shown, point = chosen, _leading(chosen, LEADING)
    answer = as_rows("result", shown)
    estimate = reduced(answer)
    # Cells keep the extremes of their blocks, so the largest entry is one of them.
    largest = float(np.nanmax(np.abs(estimate.cells)))
    stated: dict[str, Any] | None = None
    if problem is not None:
        terms = {name: repr(getattr(problem, name)) for name in ("loss", "penalty", "spectral")}
        stated = {"formula": statement(problem).tex, **terms, "weights": weights(problem)}
    nonzeros, entries = answer.count_above(SUPPORT * largest), math.prod(answer.shape)
    numbers: dict[str, Any] = {
        "weakprox": __version__,
        **_run_numbers(result),
        "estimated": what_was_estimated(problem),
        "scale": scale,
        "factored": isinstance(chosen, LowRank),
        "nonzeros": nonzeros,
        "entries": entries,
        "share_of_zeros": 1.0 - nonzeros / entries,
        "largest_entry": largest,
        "singular_values": {"estimate": to_numpy(point.s)},
        "problem": stated,
        "settings": dict(settings or {}),
    }
    seen = residual = difference = scatter = None
    if data is not None:
        missing = problem is not None and problem.of_loss.observed is not None
        observed = as_rows("data", data, stored_only=missing)
        difference = observed.minus(answer)
        seen, residual = reduced(observed), reduced(difference)
        whole, left = math.sqrt(observed.sqnorm()), math.sqrt(difference.sqnorm())
        if left <= FILLED * whole and observed.has_gaps():
            # the data with their missing entries filled: no residual is left
            difference = residual = None
        else:
            numbers["data_norm"] = whole
            numbers["residual_norm"] = left
            numbers["relative_residual"] = left / whole if whole > 0 else None
            numbers["variance_explained"] = 1.0 - (left / whole) ** 2 if whole > 0 else None
        small = _small(data, missing)
        if small is not None:
            more = MORE_VALUES if isinstance(chosen, LowRank) else 0
            leading = to_numpy(_leading(small, point.rank + more).s)
            numbers["singular_values"]["data"] = leading
        if noise is None and isinstance(small, np.ndarray) and min(small.shape) > 1:
            noise = noise_level(small)
    numbers["noise"] = noise
    names = structure.Labels("row", rows), structure.Labels("column", columns)
    numbers["components"] = structure.components(point, answer.sqnorm(), *names)
    numbers["largest_entries"] = structure.largest_entries(answer, difference, *names)
    if difference is not None:
        scatter = structure.scatter(answer, difference)
        spectrum = structure.residual_spectrum(difference)
        numbers["singular_values"]["residual"] = spectrum
        if noise and spectrum is not None:
            numbers["singular_values"]["noise"] = structure.noise_spectrum(answer.shape, noise)
    return Gathered(clean(numbers), point, estimate, seen, residual, scatter)


def shown_estimate(result: Result, scale: float = 1.0) -> Any:
    """The matrix that a report shows: the answer times a factor, or the estimate of a model.

    It is an array if the model's estimate is not of low rank, otherwise in factors.
    """
    X = result.low_rank
    if scale != 1.0:
        return LowRank(X.U, scale * X.s, X.Vt)
    return X if result.estimate is None else result.estimate


def _check(result: Any, problem: Any, data: Any, rows: Any, columns: Any) -> None:
    if not isinstance(result, Result):
        raise InputError("result", type(result).__name__, "what weakprox.minimize returned")
    shape = result.low_rank.shape
    if problem is not None:
        if not isinstance(problem, Problem):
            raise InputError("problem", type(problem).__name__, "a weakprox.Problem")
        if problem.shape != shape:
            raise ShapeError("problem", problem.shape, f"the answer's shape {shape}")
    if data is not None and tuple(getattr(data, "shape", ())) != shape:
        given = getattr(data, "shape", type(data).__name__)
        raise ShapeError("data", given, f"a matrix of the answer's shape {shape}")
    for name, labels, length in (("rows", rows, shape[0]), ("columns", columns, shape[1])):
        if labels is not None and len(labels) != length:
            raise ShapeError(name, counted(len(labels), "label"), f"{length}, one each")


def _run_numbers(result: Result) -> dict[str, Any]:
    status, proof, words = result.status, result.certificate, verdict(result)
    names = ("value", "lower_bound", "gap", "rests_on", "sampling_error", "confidence")
    certificate = {"text": str(proof), **{name: getattr(proof, name) for name in names}}
    of_result = ("value", "iterate_value", "eps", "gap", "rank", "violation", "sampled")
    return {
        "solver": result.solver,
        "shape": list(result.low_rank.shape),
        "status": {"name": status.name, "label": status.label, "advice": status.advice},
        "confirmed": status.reached or result.certified,
        "certified": result.certified,
        "verdict": {"heading": words.heading, "sentences": words.sentences},
        "certificate": certificate,
        **{name: getattr(result, name) for name in (*of_result, "seconds", "seed")},
        "counts": asdict(result.counts),
        "parameters": named_parameters(result.parameters),
        "trace": result.trace.to_dict(),
    }


def _small(data: Any, missing: bool) -> Any:
    """Data whose singular values are defined and cheap, as floats; otherwise None."""
    stored = data.nnz if scipy.sparse.issparse(data) else math.prod(data.shape)
    if missing or stored > CHEAP_BELOW:
        return None
    if scipy.sparse.issparse(data):
        matrix, entries = data.astype(float), data.data
    else:
        matrix = entries = np.asarray(to_numpy(data), dtype=float)
    return matrix if np.all(np.isfinite(entries)) else None


def _leading(matrix: Any, count: int) -> LowRank:
    """The leading singular triplets."""
    rank = min(count, *matrix.shape)
    return thin_svd(matrix, rank, rng=np.random.default_rng(0), strict=False).triplets


class Verdict(NamedTuple):
    """What is proved about the answer: the kind of notice, a heading, and sentences."""

    kind: str
    heading: str
    sentences: list[str]


def percentage(gap: float, bound: float) -> str | None:
    """The gap in percent of the lower bound; None if that is not informative.

    This is the case if the bound is not positive, or the gap is many times as large. The
    percentage is rounded up, so that the statement is not stronger than the proof.
    """
    if not (0.0 < bound < math.inf and 0.0 <= gap < math.inf):
        return None
    share = 100.0 * gap / bound
    if share == 0.0:
        return "0 %"
    if share > MOST_PERCENT:
        return None
    unit = 10.0 ** (math.floor(math.log10(share)) - 1)  # two digits
    above = math.ceil(share / unit * (1.0 - 1e-12)) * unit
    return f"{above:.0f} %" if above >= 10.0 else f"{above:.2g} %"


def proved(result: Result) -> str:
    """The statement of the certificate as one bound."""
    proof = result.certificate
    if not proof.proves:
        return "nothing"
    share = percentage(proof.gap, proof.lower_bound)
    found = f"within {proof.gap:.3g} of" if share is None else f"at most {share} above"
    sure = f", at {100 * proof.confidence:.4g} % confidence" if result.sampled else ""
    return f"{found} the optimum{sure}"


def verdict(result: Result) -> Verdict:
    """Put the certificate into words; say clearly if the target is not confirmed."""
    proof, sentences = result.certificate, []
    if proof.proves:
        sentences.append(GROUNDS.get(proof.rests_on, GROUNDS["high-probability"]))
    if result.sampled:
        sentences.append("G is known only through samples: the value is an estimate.")
    if not result.certified:
        sentences.append(f"How the run ended: {result.status.label}. {result.status.advice}")
    sentences.append(
        "The proof is about the problem as stated; it does not say that "
        "the model fits the data."
    )
    if result.certified:
        return Verdict("good", f"Proved: the value is {proved(result)}.", sentences)
    if result.status.reached:
        heading = f"Within {result.eps:.3g} of the optimum in expectation, not proved."
        return Verdict("warning", heading, sentences)
    heading = "TARGET NOT CONFIRMED: nothing is proved."
    if proof.proves:
        wanted = percentage(result.eps, proof.lower_bound) or f"{result.eps:.3g}"
        heading = f"TARGET NOT CONFIRMED: proved {proved(result)}; requested {wanted}."
    return Verdict("bad", heading, sentences)
