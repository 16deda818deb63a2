"""Results that can prove what they claim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weakprox.problem import Problem
from weakprox.proofs.describe import described
from weakprox.proofs.proof import Proof, made
from weakprox.result import Result
from weakprox.solvers._evidence import Evidence


class Witness:
    """What a result keeps for `Result.proof`: the evidence and the user's problem.

    It is left out of copies in other processes and of pickles, which would carry the data.
    """

    def __init__(self, problem: Problem, evidence: Evidence) -> None:
        self.problem, self.evidence = problem, evidence

    def proof(self, result: Result) -> Proof:
        """The proof of this result's certificate."""
        return made(result, self.evidence, described(self.problem))

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _nothing, ()

    def __repr__(self) -> str:
        return f"Witness({self.evidence.lower!r})"


def _nothing() -> None:
    """What is left of a witness in a pickle."""


def witnessed(result: Result, problem: Problem) -> Result:
    """The result with its evidence and the problem as the user stated it."""
    if not isinstance(result.evidence, Evidence):
        return result
    return replace(result, evidence=Witness(problem, result.evidence))
