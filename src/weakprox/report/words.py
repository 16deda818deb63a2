"""A problem and its certificate in words and formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weakprox import losses, penalties, spectral
from weakprox.problem import Problem
from weakprox.result import Result


@dataclass(frozen=True)
class Verdict:
    """What is known of the answer: how it looks on the page, a heading, sentences."""

    kind: str
    heading: str
    sentences: tuple[str, ...]


def formula(problem: Problem) -> str:
    """The problem as one line of mathematics, its weights filled in."""
    smooth, meaning = _loss(problem.loss)
    term, constraint = _spectral(problem.spectral)
    summands = [part for part in (smooth, _penalty(problem.penalty), term) if part]
    m, d = problem.shape
    over = f"real {m} x {d} matrices X" + (f" with {constraint}" if constraint else "")
    said = f"; {meaning}" if meaning else ""
    return f"minimise {' + '.join(summands)} over {over}{said}"


def weights(problem: Problem) -> dict[str, float]:
    """The numbers a user chose: lam, tau and the like, as the terms name them."""
    found: dict[str, float] = {}
    parts = problem.penalty.parts if isinstance(problem.penalty, penalties.Sum) else ()
    terms = [*(parts or (problem.penalty,)), problem.spectral]
    for term in terms:
        for name in ("lam", "lam1", "lam2", "tau"):
            number = getattr(term, name, None)
            if isinstance(number, (int, float)):
                kind = type(term).__name__
                found[f"{name} ({kind})"] = float(number)
    return found


def _loss(loss: Any) -> tuple[str, str]:
    """The formula, and what its letters stand for if that needs saying."""
    if isinstance(loss, losses.Denoising):
        if loss.target is not None:
            return "½‖X - M‖²", "M is the data"
        what = f"{loss.n_terms} samples" if loss.n_terms else "what the sampler draws"
        return "½‖X - M‖²", f"M is the mean of {what}"
    if isinstance(loss, losses.Sensing):
        return "mean of ½(⟨Aᵢ, X⟩ - bᵢ)²", ""
    if isinstance(loss, losses.Completion):
        return "½ Σ (xᵢⱼ - vᵢⱼ)²", "the sum is over observed entries"
    return repr(loss), ""


def _penalty(penalty: Any) -> str:
    if isinstance(penalty, penalties.Sum):
        return " + ".join(filter(None, (_penalty(part) for part in penalty.parts)))
    if isinstance(penalty, penalties.Zero):
        return ""
    if isinstance(penalty, penalties.L1):
        return f"{penalty.lam:g} Σ|xᵢⱼ|"
    if isinstance(penalty, penalties.ElasticNet):
        return f"{penalty.lam1:g} Σ|xᵢⱼ| + {penalty.lam2:g} ‖X‖²"
    if isinstance(penalty, penalties.GroupL2):
        return f"{penalty.lam:g} Σ‖{'row' if penalty.rowwise else 'column'} of X‖"
    if isinstance(penalty, penalties.MaxAffine):
        return "max over i of ⟨Aᵢ, X⟩ - bᵢ"
    return repr(penalty)


def _spectral(term: Any) -> tuple[str, str]:
    """What is added, and what is demanded."""
    if isinstance(term, spectral.NuclearBall):
        return "", f"nuclear norm ‖X‖_* ≤ {term.tau:g}"
    if isinstance(term, spectral.TracePSD):
        return "", f"X symmetric positive semidefinite and trace ≤ {term.tau:g}"
    if isinstance(term, spectral.NuclearNorm):
        return f"{term.lam:g} ‖X‖_*", ""
    return repr(term), ""


def confirmed(result: Result) -> bool:
    """Whether the accuracy asked for is reached, proved or in expectation."""
    return result.status.reached or result.certified


def verdict(result: Result) -> Verdict:
    """The certificate in plain words; loud where the target is not confirmed."""
    proof = result.certificate
    sentences = [str(proof)]
    if proof.proves:
        sentences.append(_rests_on(proof.rests_on))
    if result.sampled:
        sentences.append("G is known only through samples: the value is an estimate.")
    sentences.append(f"How the run ended: {result.status.label}. {result.status.advice}")
    sentences.append(
        "The certificate is about the problem as stated; it does not say that "
        "the model fits the data."
    )
    if result.certified:
        heading = f"Proved to be within {result.eps:g} of the optimum."
        if result.sampled:
            sure = f"{100 * proof.confidence:.4g} % confidence"
            heading = f"Within {result.eps:g} of the optimum at {sure}."
        return Verdict("good", heading, tuple(sentences))
    if result.status.reached:
        heading = f"Within {result.eps:g} of the optimum in expectation, not proved."
        return Verdict("warning", heading, tuple(sentences))
    heading = f"TARGET NOT CONFIRMED: not shown to be within {result.eps:g} of the optimum."
    return Verdict("bad", heading, tuple(sentences))


def _rests_on(ground: str) -> str:
    if ground == "exact":
        return (
            "The bound rests on weak duality alone, with nothing left to chance: whatever "
            "happened on the way, it holds up to rounding."
        )
    if ground == "sampled":
        return (
            "The bound rests on weak duality and on samples, whose mean gradient is taken to "
            "be nearly normal: it holds at that confidence."
        )
    return (
        "The bound rests on weak duality and a randomised bound on singular values, which is "
        "wrong with probability at most 1e-10."
    )
