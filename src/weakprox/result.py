"""What a run gives back: a low-rank answer and everything known about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weakprox.errors import ProofError
from weakprox.linalg.arrays import Array, namespace
from weakprox.linalg.lowrank import LowRank
from weakprox.outcome import COLUMNS, Certificate, Counts, Status, Trace

ENTRIES = 1 << 20  # of X that are looked at together

__all__ = ["COLUMNS", "Certificate", "Counts", "Result", "Status", "Trace"]


@dataclass(frozen=True, repr=False)
class Result:
    """A low-rank answer and what is known about it; every number is recomputed from X.

    Attributes
    ----------
    low_rank : LowRank
        The answer as factors.
    value : float
        f(X); an unbiased estimate from samples that served nothing else if G is sampled.
    violation : float
        Relative distance from the constraint set.
    status : Status
        Why the run ended.
    eps : float
        Accuracy asked for.
    certificate : Certificate
        How good the answer is, and what that rests on.
    counts : Counts
        Work done.
    trace : Trace
        History.
    parameters : object
        What the solver used (T, eta, k_s, ...).
    solver, seconds, seed, sampled
        The method's name, time, seed, and whether the value is an estimate.
    checkpoint : object
        State at the last epoch end, for `minimize(..., resume=result)`.
    iterate_value : float
        f at the full-rank iterate the answer comes from.
    reason : str
        Why this solver was taken.
    dual : object
        Dual points at the end of a splitting, for `minimize(neighbour, start=result)`.
    unit : float
        1; for data of extreme size a power of two that the run divided X by. `parameters`,
        `checkpoint` and `dual` are those of that run.
    evidence : object
        What the lower bound rests on, for `proof`; None if it was not kept.
    """

    low_rank: LowRank
    value: float
    violation: float
    status: Status
    eps: float
    certificate: Certificate
    counts: Counts
    trace: Trace
    parameters: Any
    solver: str
    seconds: float
    seed: int
    sampled: bool
    checkpoint: Any
    iterate_value: float
    reason: str = ""
    dual: Any = None
    unit: float = 1.0
    evidence: Any = None

    @cached_property
    def X(self) -> Array:
        """The answer as a dense m x d array: the factors' product, rounded once."""
        return self.low_rank.rounded()

    @property
    def factors(self) -> tuple[Array, Array, Array]:
        """(U, s, Vt) with X = U diag(s) Vt."""
        return self.low_rank.U, self.low_rank.s, self.low_rank.Vt

    @property
    def rank(self) -> int:
        """Rank of the answer."""
        return self.low_rank.rank

    @property
    def gap(self) -> float:
        """The certificate's bound on the distance from the optimal value, perhaps infinite."""
        return self.certificate.gap

    def nonzeros(self, tol: float = 1e-3) -> int:
        """Entries larger in size than tol times the largest entry."""
        U, s, Vt = self.factors
        xp = namespace(U)
        step = max(1, ENTRIES // int(Vt.shape[1]))  # X may be more than memory holds

        def sizes(first: int) -> Array:
            return xp.abs((U[first : first + step] * s) @ Vt)

        starts = range(0, int(U.shape[0]), step)
        bound = tol * max(float(xp.max(sizes(first))) for first in starts)
        above = ((size > bound) & (size > 0) for size in map(sizes, starts))
        return sum(int(xp.sum(xp.astype(part, xp.int64))) for part in above)

    @property
    def certified(self) -> bool:
        """Whether the gap shows the accuracy asked for, at the certificate's confidence."""
        return bool(self.gap <= self.eps)

    @cached_property
    def proof(self) -> Any:
        """A `weakprox.Proof` of the certificate, to save and to verify.

        Raises ProofError where there is none: G is sampled, nothing is proved, or what the
        bound rests on was too large to keep (pass `proof=True` to `minimize`).
        """
        if self.sampled:
            wanted = "a finite sum: a bound from samples holds at a confidence only"
            raise ProofError("result", "a loss that is known through samples", wanted)
        if not self.certificate.proves:
            raise ProofError("result", "no lower bound", "a result that proves one")
        if self.evidence is None:
            given = "a bound without the dual point that it rests on"
            raise ProofError("result", given, "minimize(..., proof=True), which keeps it")
        return self.evidence.proof(self)

    def explain(self) -> str:
        """What was chosen and why, what it cost, and what the certificate leaves open."""
        return explained(self)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw value and lower bound against the work done; returns a ConvergenceDisplay.

        Keywords as in `weakprox.plots.ConvergenceDisplay.plot`; needs matplotlib.
        """
        from weakprox.plots import ConvergenceDisplay

        return ConvergenceDisplay.from_result(self, ax=ax, **options)

    def __repr__(self) -> str:
        m, d = self.low_rank.shape
        reached = self.status.reached or self.certified
        about = "about " if self.sampled else ""
        lines = [
            f"{self.solver} on {m} x {d}: {self.status.label}"
            + ("" if reached else "  ** TARGET NOT CONFIRMED **"),
            f"  value      {about}{self.value:.6g}   (eps asked for: {self.eps:.3g})",
        ]
        proof = self.certificate
        if not proof.proves:
            lines.append("  gap        nothing proved")
        else:
            mark = "" if self.certified else f"  ** NOT PROVED to be within {self.eps:.3g} **"
            lines.append(f"  gap        {proof.gap:.3g}{_at(proof)}{mark}")
        lines += [
            f"  rank       {self.rank}, {self.nonzeros()} of {m * d} entries nonzero "
            "(above 1e-3 of the largest)",
            f"  feasible   to {self.violation:.1e}",
            f"  work       {self.counts.samples} samples, {self.counts.gradients} "
            f"gradients, {self.counts.svds} SVDs ({self.counts.rank_one_svds} rank-one), "
            f"{self.seconds:.2f} s",
            f"  {self.status.advice}",
        ]
        return "\n".join(lines)


def _at(proof: Certificate) -> str:
    """What a sampled gap holds with and consists of, in a few words."""
    if proof.rests_on != "sampled":
        return ""
    percent = 100 * proof.confidence
    return f" at {percent:.4g} % confidence, {proof.sampling_error:.3g} of it by sampling"


def explained(result: Result) -> str:
    """The sentences of `Result.explain`."""
    counts, proof = result.counts, result.certificate
    gradients = f"{counts.full_gradients} full gradients"
    if result.sampled:
        gradients = f"{counts.samples} samples and {counts.evaluation_samples} to evaluate"
    mean = counts.rank_one_svds / max(1, counts.svds)
    parts = [
        ("Solver", f"{result.solver}: {result.reason or 'it was asked for'}."),
        ("End", f"{result.status.label}. {result.status.advice}"),
        (
            "Cost",
            f"{counts.svds} SVDs (of rank {mean:.0f} on average), {gradients}, "
            f"{result.seconds:.2f} s.",
        ),
        (
            "Answer",
            f"f = {result.value:.6g}, rank {result.rank}, feasible to {result.violation:.1e}.",
        ),
        ("Proof", str(proof)),
    ]
    alpha = getattr(result.parameters, "alpha", None)
    if proof.proves and alpha:
        distance = (2.0 * proof.gap / alpha) ** 0.5
        parts.append(
            (
                "Distance",
                f"With strong convexity {alpha:.3g}, the answer is within {distance:.3g} of "
                "the optimal matrix (Frobenius norm).",
            )
        )
    restated = getattr(result.checkpoint, "restated", None)
    if restated is not None:
        parts.append(
            (
                "Constants",
                "Gradients contradicted the declared strong convexity of the loss; the run "
                f"went on with {restated:.3g}.",
            )
        )
    parts.append(("Not covered", " ".join(_open_questions(result, alpha))))
    return "\n".join(f"{name + ':':<13}{text}" for name, text in parts)


def _open_questions(result: Result, alpha: float | None) -> list[str]:
    """What the certificate does not say."""
    proof = result.certificate
    left = ["Whether the model, its weights and its radius suit the data."]
    if not proof.proves:
        return ["How far the answer is from the optimum.", *left]
    if alpha:
        left.insert(0, "A strong convexity or other constants declared larger than they are.")
    if proof.rests_on == "high-probability":
        left.insert(0, "A randomised bound on singular values fails with probability 1e-10.")
    if proof.rests_on == "sampled":
        left.insert(
            0,
            f"The other {100 * (1 - proof.confidence):.3g} % of cases. Values that fewer than "
            f"one draw in {1 / proof.rarest:.0f} has and that none of {proof.samples} samples "
            "showed: they are assumed not to move the mean further than the largest value "
            "seen would.",
        )
    if not result.certified:
        left.insert(0, f"The accuracy asked for, {result.eps:.3g}, is not proved.")
    return left
