"""The penalty's own point of a result: exactly sparse, feasible, with a certificate.

With y the dual point of R in the lower bound, it is prox_{R/w}(X + K'y/w), w the smoothness of
G. At the optimum y is a subgradient of R at X, and the point is X itself. Near the optimum,
entries whose y is inside its bounds become zero exactly.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from weakprox.errors import ProofError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import eps_of, like, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.penalties.proximal import proximal_dual
from weakprox.problem import Problem
from weakprox.proofs.duals import Rows, dual_parts
from weakprox.result import Certificate, Result, SparsePoint
from weakprox.run.state import Evidence

Matrix = np.ndarray[Any, np.dtype[np.float64]]
ROUNDED = 16  # units of rounding in a difference that should be zero
INWARDS = 1.0 - 1e-13  # factor that leaves room for the rounding of a norm


def sparse_point(result: Result, evidence: Evidence) -> SparsePoint:
    """The penalty's own point near the answer of a result."""
    run, unit = evidence.problem, result.unit
    factors = (np.asarray(to_numpy(x), dtype=np.float64) for x in result.factors)
    U, s, Vt = factors
    X: Matrix = (U * (s / unit)) @ Vt
    Y = _proximal(run, X, _pull(evidence))
    if run.spectral.symmetric:
        Y = _semidefinite(Y)
    Y = _within(run, Y)
    own = _triplets(like(Y, run.loss.reference), run.spectral.symmetric)
    value = run.smooth_value(like(Y, run.loss.reference)) + run.spectral.value(own)
    violation = run.spectral.violation(own)
    certificate = Certificate.nothing(unit**2 * value)
    if math.isfinite(value):
        certificate = replace(result.certificate, value=unit**2 * value, rounding=0.0)
    return SparsePoint(
        matrix=csr_array(unit * Y),
        value=unit**2 * value,
        distance=unit * float(np.linalg.norm(Y - X)),
        violation=violation,
        certificate=certificate,
    )


def _pull(evidence: Evidence) -> Matrix:
    """K'y for the dual point of the bound."""
    shape = evidence.problem.shape
    parts = dual_parts(evidence)
    if not parts or not all(isinstance(part, Rows) for part in parts):
        given = repr(evidence.problem.penalty)
        raise ProofError("result", given, "a penalty of entries, rows or columns")
    # rows are read into an array that the next call overwrites
    pulls = [np.array(part.read(0, shape[0])) for part in parts]
    return np.asarray(np.sum(pulls, axis=0))


def _proximal(run: Problem, X: Matrix, pull: Matrix) -> Matrix:
    """prox of R/w at X + K'y/w, without the quadratic of R; rounding errors are zeros."""
    w = float(run.loss.smoothness) or 1.0  # a linear G: all weights have the same fixed points
    v = X + pull / w
    native = like(v, run.loss.reference)
    y = run.penalty.pull(proximal_dual(run.penalty, native, 1.0 / w))
    Y = v - np.asarray(to_numpy(y), dtype=np.float64) / w
    return np.where(np.abs(Y) > ROUNDED * eps_of(native) * np.abs(v), Y, 0.0)


def _semidefinite(Y: Matrix) -> Matrix:
    """Raise the diagonal until a matrix is positive semidefinite; other zeros remain."""
    Y = 0.5 * (Y + Y.T)
    least = float(decompositions.eigvalsh(Y)[0])
    size = float(np.abs(Y).max())
    if least < 0.0 and size > 0.0:
        Y[np.diag_indices(len(Y))] += -least + len(Y) * ROUNDED * eps_of(Y) * size
    return Y


def _within(run: Problem, Y: Matrix) -> Matrix:
    """Shrink a matrix into a ball, which keeps its zeros."""
    form = run.of_spectral.form
    if form is None or not math.isfinite(form.tau):
        return Y
    norm = float(decompositions.svdvals(Y).sum())
    return Y * (INWARDS * form.tau / norm) if norm > form.tau * INWARDS else Y


def _triplets(Y: Any, symmetric: bool) -> LowRank:
    """All singular triplets, or eigenpairs of a positive semidefinite matrix."""
    if not symmetric:
        return LowRank(*decompositions.svd(Y))
    values, V = decompositions.eigh(Y)
    return LowRank(V, abs(values), V.T)  # negative ones are rounding errors
