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
        Y, own = _semidefinite(run, Y)
    else:
        Y, own = _inside(run, Y, *decompositions.svd(Y))
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


def _semidefinite(run: Problem, Y: Matrix) -> tuple[Matrix, LowRank]:
    """Raise the diagonal until a matrix is positive semidefinite, and shrink it into a ball.

    Its other zeros remain. The eigenvectors do not change, so one decomposition is enough.
    """
    Y = 0.5 * (Y + Y.T)
    values, V = decompositions.eigh(Y)
    least, size = float(values[0]), float(np.abs(Y).max())
    if least < 0.0 and size > 0.0:
        more = -least + len(Y) * ROUNDED * eps_of(Y) * size
        Y[np.diag_indices(len(Y))] += more
        values = values + more
    values = abs(values)  # negative ones are rounding errors
    return _inside(run, Y, V, values, V.T)


def _inside(run: Problem, Y: Matrix, *triplets: Matrix) -> tuple[Matrix, LowRank]:
    """Shrink a matrix, and its triplets, into a ball, which keeps its zeros."""
    U, s, Vt = triplets
    form, share, norm = run.of_spectral.form, 1.0, float(s.sum())
    if form is not None and norm > INWARDS * form.tau:
        share = INWARDS * form.tau / norm
    factors = (like(x, run.loss.reference) for x in (U, share * s, np.ascontiguousarray(Vt)))
    return share * Y, LowRank(*factors)
