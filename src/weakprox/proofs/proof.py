"""A proof of a claimed optimum: saved to a file, loaded from one, and verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weakprox import verifier as plain
from weakprox.errors import InputError, ProofError
from weakprox.hints import needs_problem
from weakprox.problem import Problem
from weakprox.proofs import file
from weakprox.proofs.describe import Description, Terms, described, stated
from weakprox.proofs.pieces import Digest, digest
from weakprox.storage.table import PathLike
from weakprox.verifier import Verdict, check

FEASIBLE = 1e-9  # relative violation that counts as rounding, in float64


@dataclass(frozen=True, repr=False)
class Proof:
    """A proof that X is within `gap` of the optimum, which anyone with the data can check.

    Get it from `result.proof` or `Proof.load`.

    Attributes
    ----------
    claims : dict
        `value`, `lower_bound`, `eps`, `certified` and `strong_convexity`.
    terms : dict
        The problem's terms and their parameters.
    digests : callable
        Returns `digest`, which may still be computed while the file is written.
    arrays : dict
        X in factors, the dual point, and the point at which G is linearised.
    """

    claims: dict[str, Any]
    terms: Terms
    digests: Callable[[], Digest]
    arrays: dict[str, Any]

    @property
    def digest(self) -> Digest:
        """The type, the shape and the checksum of the arrays of the data, by name."""
        return self.digests()

    @property
    def value(self) -> float:
        """Upper bound on f(X)."""
        return float(self.claims["value"])

    @property
    def lower_bound(self) -> float:
        """Lower bound on the optimal value."""
        return float(self.claims["lower_bound"])

    @property
    def gap(self) -> float:
        """Upper bound on the distance of f(X) from the optimal value."""
        return max(0.0, self.value - self.lower_bound)

    @property
    def eps(self) -> float:
        """The requested accuracy."""
        return float(self.claims["eps"])

    @property
    def certified(self) -> bool:
        """True if the gap is claimed to be at most eps."""
        return bool(self.claims["certified"])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of X."""
        m, d = self.terms["shape"]
        return int(m), int(d)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def __repr__(self) -> str:
        m, d = self.shape
        return (
            f"Proof({m} x {d}, optimum between {self.lower_bound:.10g} and {self.value:.10g}, "
            f"gap {self.gap:.3g}, {self.nbytes} bytes)"
        )

    def save(self, path: PathLike) -> None:
        """Write the proof as an .npz file, which appears whole or not at all."""
        about = {"claims": self.claims, "terms": self.terms}
        file.write(path, lambda: {**about, "digest": self.digest}, self.arrays)

    @classmethod
    def load(cls, path: PathLike) -> Proof:
        """Read a proof; raises ProofError if the file is damaged or not a proof."""
        meta, arrays = file.read(path)
        found: Digest = meta["digest"]
        return cls(meta["claims"], meta["terms"], lambda: found, arrays)

    def claim(self) -> plain.Claim:
        """The claim that the verifier checks."""
        arrays = self.arrays
        X = plain.Factors(arrays["X_U"], arrays["X_s"], arrays["X_Vt"])
        at: Any = plain.Dense(arrays["X0"]) if "X0" in arrays else None
        if at is None and "X0_U" in arrays:
            at = plain.Factors(arrays["X0_U"], arrays["X0_s"], arrays["X0_Vt"])
        elif "q" in arrays:
            at = plain.OnEntries(arrays["q"], int(self.claims["exponent"]))
        intercepts = None
        if "intercepts_mean" in arrays:
            none = np.zeros(0)
            mean, *both = (
                arrays.get(f"intercepts_{name}", none).astype(np.float64)
                for name in ("mean", "rows", "columns")
            )
            intercepts = plain.Intercepts(float(mean[0]), *both)
        duals: list[Any] = []
        for i in range(len(self.terms["penalty"])):
            names = [name for name in arrays if name.startswith(f"y{i}_")]
            names.sort(key=lambda name: int(name.rpartition("_")[2]))
            duals.append(arrays.get(f"y{i}", [arrays[name] for name in names]))
        allowed = max(FEASIBLE, 64 * float(np.finfo(arrays["X_U"].dtype).eps))
        strong = float(self.claims["strong_convexity"])
        numbers = strong, self.value, self.lower_bound, self.eps
        return plain.Claim(X, at, duals, *numbers, self.certified, allowed, intercepts)


def verify(proof: Proof | PathLike, problem: Problem) -> Verdict:
    """Check a proof with code that is independent of the solvers.

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
        True if the claim holds; otherwise its `reason` says which part does not.
    """
    if isinstance(problem, Proof):
        raise InputError("problem", "a Proof", "the other order: verify(proof, problem)")
    if not isinstance(problem, Problem):
        raise needs_problem(problem)
    found = _proof(proof)
    *others, steepest = (described(one) for one in problem.with_slopes())
    return _checked(found, next((one for one in others if _is_about(found, one)), steepest))


def verify_data(proof: Proof | PathLike, arrays: dict[str, Any]) -> Verdict:
    """Check a proof against data by name; the terms are those of the file."""
    found = _proof(proof)
    return _checked(found, stated(found.terms, arrays))


def _proof(given: Any) -> Proof:
    if isinstance(given, Proof):
        return given
    if isinstance(given, (str, Path)) or hasattr(given, "__fspath__"):
        return Proof.load(given)
    wanted = "a weakprox.Proof, such as result.proof, or the path of one"
    raise InputError("proof", type(given).__name__, wanted)


def _is_about(proof: Proof, told: Description) -> bool:
    """Return True if the proof has these terms and data."""
    return bool(proof.terms == told.terms) and digest(told.pieces) == proof.digest


def _checked(proof: Proof, told: Description) -> Verdict:
    """Return the verdict, or raise if the proof is about other terms or data."""
    for name in ("shape", "loss", "penalty", "spectral"):
        if proof.terms[name] != told.terms[name]:
            given = f"one about another {name}: {proof.terms[name]}"
            raise ProofError("proof", given, f"{told.terms[name]}, as the problem has")
    _check_entries(proof, told)
    for i, part in enumerate(told.terms["penalty"]):
        y = proof.arrays.get(f"y{i}")
        shape = (part["count"],) if part["kind"] == "largest" else proof.shape
        if part["kind"] != "own" and (y is None or y.shape != shape):
            given = "none" if y is None else f"shape {y.shape}"
            raise ProofError("proof", f"a dual point of {given}", f"one of shape {shape}")
    if digest(told.pieces) != proof.digest:
        raise ProofError("proof", "one about other data", "the data that it was computed from")
    with np.errstate(over="ignore", invalid="ignore"):  # extreme numbers lead to a rejection
        claim = proof.claim()
        try:
            return check(claim, told.statement)
        except (OverflowError, np.linalg.LinAlgError):
            return plain.rejected(claim, "Its numbers overflow when they are added up.")


def _check_entries(proof: Proof, told: Description) -> None:
    """Raise unless what is stored for observed entries or outcomes fits the loss."""
    arrays, loss = proof.arrays, told.statement.loss
    (m, d), wanted = proof.shape, {}
    if isinstance(loss, plain.Entries):
        wanted = {} if loss.quadratic and "q" not in arrays else {"q": (len(loss.rows),)}
        if loss.intercepts != "none":
            shapes = {"mean": (1,), "rows": (m,), "columns": (d,)}
            wanted |= {f"intercepts_{name}": shape for name, shape in shapes.items()}
    if isinstance(loss, plain.Outcomes):
        wanted = {"q": (loss.count,)}
        wanted |= {"intercepts_mean": (1,)} if loss.intercepts != "none" else {}
    stored = [name for name in arrays if name == "q" or name.startswith("intercepts_")]
    for name in sorted({*stored, *wanted}):
        shape = arrays[name].shape if name in arrays else "none"
        if shape != wanted.get(name):
            raise ProofError("proof", f"{name} of shape {shape}", f"{wanted.get(name)}")
    if "q" in wanted and any(name.startswith("X0") for name in arrays):
        raise ProofError("proof", "two points at which the loss is bounded", "one")
