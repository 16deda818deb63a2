"""A proof of a claimed optimum: made from a result, saved to a file, loaded from one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox import verifier as plain
from weakprox.certificates.evidence import Evidence
from weakprox.errors import ProofError
from weakprox.linalg.arrays import eps_of, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.proofs import file
from weakprox.proofs.describe import Description, Terms
from weakprox.proofs.duals import Rows, dual_parts
from weakprox.proofs.pieces import Digest, digested
from weakprox.proofs.stored import Loss, stored, width_for
from weakprox.storage.table import PathLike
from weakprox.verifier.check import prepared, proved, reach, worth
from weakprox.verifier.spectrum import FULL
from weakprox.verifier.sums import U

CHECKED = 400  # of the shorter side, up to which a proof is verified while it is made
SHARE = 0.02  # of the gap that storing the dual point may cost
FEASIBLE = 1e-9  # relative violation that counts as rounding, in float64
# Times the verifier's allowances, since other machines and verifiers round otherwise; less
# where that decides whether the accuracy asked for is shown.
SAFE = (64.0, 16.0, 4.0)


@dataclass(frozen=True, repr=False)
class Proof:
    """What shows that X is within `gap` of the optimum to somebody with the data.

    Made by `result.proof`, or by `Proof.load`.

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
        """By name, the type, the shape and the checksum of the arrays of the data."""
        return self.digests()

    @property
    def value(self) -> float:
        """f(X) is at most this."""
        return float(self.claims["value"])

    @property
    def lower_bound(self) -> float:
        """The optimal value is at least this."""
        return float(self.claims["lower_bound"])

    @property
    def gap(self) -> float:
        """X is at most this far above the optimum."""
        return max(0.0, self.value - self.lower_bound)

    @property
    def eps(self) -> float:
        """The accuracy that was asked for."""
        return float(self.claims["eps"])

    @property
    def certified(self) -> bool:
        """Whether the gap is claimed to be at most eps."""
        return bool(self.claims["certified"])

    @property
    def shape(self) -> tuple[int, int]:
        """Of X."""
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
        claims, terms = self.claims, self.terms
        file.write(
            path,
            lambda: {"claims": claims, "terms": terms, "digest": self.digest},
            self.arrays,
        )

    @classmethod
    def load(cls, path: PathLike) -> Proof:
        """Read a proof; raises ProofError on files that are damaged or are no proofs."""
        meta, arrays = file.read(path)
        found: Digest = meta["digest"]
        return cls(meta["claims"], meta["terms"], lambda: found, arrays)

    def claim(self) -> plain.Claim:
        """What the verifier is to check."""
        arrays = self.arrays
        X = plain.Factors(arrays["X_U"], arrays["X_s"], arrays["X_Vt"])
        at: Any = None
        if "X0" in arrays:
            at = plain.Dense(arrays["X0"])
        elif "X0_U" in arrays:
            at = plain.Factors(arrays["X0_U"], arrays["X0_s"], arrays["X0_Vt"])
        duals = [self._dual(i) for i in range(len(self.terms["penalty"]))]
        eps = float(np.finfo(arrays["X_U"].dtype).eps)
        allowed = max(FEASIBLE, 64 * eps)
        claims = self.claims
        return plain.Claim(
            X,
            at,
            duals,
            strong_convexity=float(claims["strong_convexity"]),
            value=self.value,
            lower_bound=self.lower_bound,
            eps=self.eps,
            certified=self.certified,
            allowed=allowed,
        )

    def _dual(self, i: int) -> Any:
        """The stored dual point of one part of the penalty."""
        if f"y{i}" in self.arrays:
            return self.arrays[f"y{i}"]
        names = sorted(
            (name for name in self.arrays if name.startswith(f"y{i}_")),
            key=lambda name: int(name.rpartition("_")[2]),
        )
        return [self.arrays[name] for name in names]


def made(result: Any, evidence: Evidence, told: Description) -> Proof:
    """The proof of a result's certificate, in the units of the user's problem."""
    statement, unit = told.statement, float(result.unit)
    answer = _factors("X", result.low_rank, 1.0)
    arrays = dict(answer)
    if told.terms["loss"]["kind"] != "Denoising" and evidence.at is not None:
        at = evidence.at
        point = _factors("X0", at, unit) if isinstance(at, LowRank) else None
        arrays |= {"X0": to_numpy(at) * unit} if point is None else point
    X = plain.Factors(*(answer[f"X_{name}"] for name in ("U", "s", "Vt")))
    run, value = evidence.problem, float(result.value)
    lower = min(unit**2 * evidence.lower, value)
    w = float(run.loss.strong_convexity + run.penalty.curvature)
    gap = value - lower
    rho = reach(statement, value)
    spare = max(0.0, float(result.eps) - gap)
    certified = gap <= float(result.eps)
    most = min(SHARE * gap, 0.25 * spare) if certified else SHARE * gap
    lost = Loss()
    extent = float(np.linalg.norm(X.s)) if w > 0.0 else rho
    for i, y in enumerate(dual_parts(evidence)):
        part = statement.penalties[i]
        if isinstance(y, Rows) and isinstance(part, (plain.Box, plain.Groups)):
            size = math.prod(y.shape)
            kind = width_for(part, size, gap, most, w, extent)
            arrays[f"y{i}"] = stored(y.scaled(unit), part, kind, X, lost)
        else:
            arrays |= _named(f"y{i}", y)
    digests = digested(told.pieces)  # while the file is written
    claims = {
        "value": value,
        "lower_bound": lower - lost.cost(gap, w, rho),
        "eps": float(result.eps),
        "certified": False,
        "strong_convexity": _convexity(statement, float(run.loss.strong_convexity)),
    }
    found = Proof(claims, told.terms, digests, arrays)
    return _allowed(found, told, result)


def _convexity(statement: plain.Statement, known: float) -> float:
    """The strong convexity that the run used, if verifiers will find as much."""
    if isinstance(statement.loss, plain.Measurements):
        return statement.loss.convexity(known, statement.spectral.symmetric, 4.0)[0]
    return known


def _allowed(proof: Proof, told: Description, result: Any) -> Proof:
    """The proof with claims that hold with room for the verifier's own rounding.

    Small ones are verified here and claim what that finds. For others, the run's bound is
    lowered by what the verifier allows for rounding.
    """
    claim, statement, eps = proof.claim(), told.statement, eps_of(result.low_rank.s)
    large = min(proof.shape) > CHECKED
    largest = any(isinstance(part, plain.Largest) for part in statement.penalties)
    known = told.terms["loss"]["kind"] == "Denoising" and not largest
    if large and eps < 1e-10 and known and not statement.trusted:
        value, far = proof.value, _rounding(claim.X, statement, proof.value)
    else:
        found, _ = worth(claim.X, statement)
        value, far = found.value, found.error + 2 * U * abs(found.value)
    if large:
        lower, lost = proof.lower_bound, _margin(proof, told, value, eps)
        if min(proof.shape) > FULL:  # which verifiers bound with random vectors
            lower -= SHARE * max(0.0, value - lower)
    else:
        bound = proved(claim, statement, value + SAFE[0] * far)
        lower, lost = bound.value, bound.error + 2 * U * abs(bound.value)
    if not math.isfinite(lower - lost):
        given = "a bound that the dual point does not prove by itself"
        raise ProofError("result", given, "another method, such as DavisYin")
    tries = [(value + times * far, lower - times * lost) for times in SAFE]
    shown = [both for both in tries if both[0] - both[1] <= proof.eps]
    value, lower = (shown or tries)[0]
    found_out = {"value": value, "lower_bound": lower, "certified": bool(shown)}
    return Proof({**proof.claims, **found_out}, proof.terms, proof.digests, proof.arrays)


def _margin(proof: Proof, told: Description, value: float, eps: float) -> float:
    """What the verifier takes off a bound for rounding, at most."""
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
    if eps > 1e-10 and "samples" in told.terms["loss"]:  # their mean was taken in float32
        start += 4 * eps * size * math.sqrt(2 * max(value, 0.0))
    return start + (error + 10 * max(proof.shape) * U * size) * rho + 64 * U * abs(value)


def _rounding(X: plain.Factors, statement: plain.Statement, value: float) -> float:
    """What the verifier allows for rounding in f(X), at most, if G is a squared distance."""
    far = X.error + U * math.sqrt(2 * max(value, 0.0))
    found: float = far * (math.sqrt(2 * max(value, 0.0)) + far) + 16 * U * abs(value)
    for part in statement.penalties:
        slope = max(getattr(part, "above", 0.0), getattr(part, "below", 0.0))
        found += float(slope + getattr(part, "lam", 0.0)) * X.spread
        found += part.curvature * far * (float(np.linalg.norm(X.s)) + far)
    return found + float(getattr(statement.spectral, "lam", 0.0)) * X.nuclear_norm().error


def _factors(name: str, X: LowRank, unit: float) -> dict[str, Any]:
    """Factors in host memory, in the user's unit."""
    U_, s, Vt = (to_numpy(x) for x in (X.U, X.s, X.Vt))
    return {f"{name}_U": U_, f"{name}_s": s * s.dtype.type(unit), f"{name}_Vt": Vt}


def _named(name: str, y: Any) -> dict[str, Any]:
    """Arrays of a dual point that is stored as it is."""
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
