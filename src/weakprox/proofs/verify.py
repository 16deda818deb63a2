"""The check of a proof against a problem, or against data from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from weakprox.errors import InputError, ProofError
from weakprox.problem import Problem
from weakprox.proofs.describe import Description, described, stated
from weakprox.proofs.pieces import digest
from weakprox.proofs.proof import Proof
from weakprox.storage.table import PathLike
from weakprox.verifier import Largest, Verdict, check


def verify(proof: Proof | PathLike, problem: Problem) -> Verdict:
    """Check a proof with code that shares nothing with the solvers.

    The value of X, its feasibility and the lower bound are recomputed in float64 from the
    problem's data, with an allowance for every rounding error. See docs/verify.md.

    Parameters
    ----------
    proof : Proof or path
        `result.proof`, or a file that `proof.save` wrote.
    problem : Problem
        The problem that the proof is about.

    Returns
    -------
    Verdict
        True if the claim holds; otherwise its `reason` says what does not.
    """
    if not isinstance(problem, Problem):
        raise InputError("problem", type(problem).__name__, "a weakprox.Problem")
    return _checked(_proof(proof), described(problem))


def verify_data(proof: Proof | PathLike, arrays: dict[str, Any]) -> Verdict:
    """The same with data by name instead of a problem; terms are those of the file."""
    found = _proof(proof)
    return _checked(found, stated(found.terms, arrays))


def _proof(given: Any) -> Proof:
    if isinstance(given, Proof):
        return given
    if isinstance(given, (str, Path)) or hasattr(given, "__fspath__"):
        return Proof.load(given)
    raise InputError("proof", type(given).__name__, "a weakprox.Proof or the path of one")


def _checked(proof: Proof, told: Description) -> Verdict:
    """The verdict, if the proof is about these terms and data."""
    for name in ("shape", "loss", "penalty", "spectral"):
        if proof.terms[name] != told.terms[name]:
            given = f"one about another {name}: {proof.terms[name]}"
            raise ProofError("proof", given, f"{told.terms[name]}, as the problem has")
    _check_arrays(proof, told)
    if digest(told.pieces) != proof.digest:
        raise ProofError("proof", "one about other data", "the data that it was made from")
    with np.errstate(over="ignore", invalid="ignore"):  # hostile numbers lead to refusals
        return check(proof.claim(), told.statement)


def _check_arrays(proof: Proof, told: Description) -> None:
    """Raise unless the arrays fit the terms."""
    for i, part in enumerate(told.terms["penalty"]):
        y = proof.arrays.get(f"y{i}")
        shape: tuple[int, ...] | None = proof.shape
        if part["kind"] == "largest":
            assert isinstance(told.statement.penalties[i], Largest)
            shape = (part["count"],)
        elif part["kind"] == "own":
            shape = None
        if shape is not None and (y is None or y.shape != shape):
            given = "none" if y is None else f"shape {y.shape}"
            raise ProofError("proof", f"a dual point of {given}", f"one of shape {shape}")
