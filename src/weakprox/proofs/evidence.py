"""Results that can prove what they claim."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weakprox.certificates.evidence import Evidence, Target, centre_of
from weakprox.errors import ProofError
from weakprox.linalg.arrays import itemsize
from weakprox.linalg.threads import one_thread
from weakprox.problem import Problem
from weakprox.proofs.describe import described
from weakprox.proofs.proof import Proof, made
from weakprox.result import Result
from weakprox.run.escalate import in_float64


class Witness:
    """What a result keeps for `Result.proof`: the evidence, and where the problem is.

    The data are let go with the problem, unless the result was asked to keep them. It is
    left out of pickles, which would carry them, too.
    """

    def __init__(self, problem: Problem, evidence: Evidence, *, keep: bool) -> None:
        self._problem: Callable[[], Problem | None] = weakref.ref(problem)
        if keep:
            self._problem = lambda: problem
        run = evidence.problem
        self._single = itemsize(run.loss.reference) == 4
        self._strong = float(run.loss.strong_convexity)
        dual = evidence.dual
        if isinstance(dual, Target):
            dual = replace(dual, C=None)
        self._evidence = replace(evidence, problem=None, dual=dual)  # type: ignore[arg-type]

    def proof(self, result: Result) -> Proof:
        """The proof of this result's certificate."""
        problem = self._problem()
        if problem is None:
            given = "one whose problem no longer exists"
            wanted = "to keep the problem, or minimize(..., proof=True), which does"
            raise ProofError("result", given, wanted)
        with one_thread(0):  # products here are of narrow tiles, and hashing has a thread
            return made(result, self.evidence(problem, result.unit), described(problem))

    def evidence(self, problem: Problem, unit: float) -> Evidence:
        """What the bound rests on, with the problem as the run saw it."""
        run = problem.in_unit(unit)
        dual = self._evidence.dual
        if not isinstance(dual, Target):
            run = run.gathered()
        if itemsize(run.loss.reference) == 4 and not self._single:
            run = in_float64(run) or run
        if run.loss.strong_convexity != self._strong:
            run = run.restated(self._strong)
        if isinstance(dual, Target):
            dual = replace(dual, C=centre_of(run))
        return replace(self._evidence, problem=run, dual=dual)

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _nothing, ()

    def __repr__(self) -> str:
        return f"Witness({self._evidence.lower!r})"


def _nothing() -> None:
    """What is left of a witness in a pickle."""


def witnessed(result: Result, problem: Problem, *, keep: bool) -> Result:
    """The result with its evidence and the problem as the user stated it."""
    if not isinstance(result.evidence, Evidence):
        return result
    return replace(result, evidence=Witness(problem, result.evidence, keep=keep))
