"""Extreme eigenvalues of the mean of vec(A_i) vec(A_i)', the constants of a sensing loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from weakprox.distributed.measured import Measured
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import device_of, namespace, to_numpy, wide
from weakprox.linalg.bounds import spectral_norm_bound
from weakprox.losses.measurements import Measurements

EIGEN_BELOW = 2000  # Gram matrices up to this size are formed and decomposed exactly
FLAT_ENTRIES = 1 << 25  # n x md matrices up to this many entries may be formed


def mean_gram(terms: Measurements, md: int) -> Any | None:
    """Mean of vec(A_i) vec(A_i)' in float64 if it is smaller than the data, else None."""
    if md > min(EIGEN_BELOW, 2 * terms.count):
        return None
    if isinstance(terms, Measured):
        return terms.gram() / terms.count
    step = max(1, FLAT_ENTRIES // (8 * md))
    total = np.zeros((md, md))
    for i in range(0, terms.count, step):
        flat = _double(terms.take(slice(i, i + step)).flat())
        total += _dense(flat.T @ flat)
    return total / terms.count


def extremes(
    terms: Measurements, shape: tuple[int, int], gram: Any | None
) -> tuple[float, float]:
    """Upper bound on the largest and lower bound on the smallest eigenvalue of `gram`.

    They are exact up to rounding if a Gram matrix is small enough. Otherwise the largest is
    bounded by the randomised power bound and the smallest by 0.
    """
    n, md = terms.count, shape[0] * shape[1]
    if gram is None:
        if not (n <= EIGEN_BELOW and n * md <= FLAT_ENTRIES):
            rng = np.random.default_rng(3)
            return spectral_norm_bound(_operator(terms, shape), rng, powers=10) ** 2 / n, 0.0
        flat = _double(terms.flat())
        gram = _dense(flat @ flat.T) / n
    values = decompositions.eigvalsh(gram)
    rounding = _rounding(values, n, md)
    smallest = max(0.0, float(values[0]) - rounding) if md <= n else 0.0
    return float(values[-1]) + rounding, smallest


def smallest_eigenvalue(gram: Any, n: int) -> float:
    """Lower bound on the smallest eigenvalue of a mean over n terms."""
    values = decompositions.eigvalsh(gram)
    return max(0.0, float(values[0]) - _rounding(values, n, len(values)))


def on_symmetric(gram: Any, d: int) -> Any:
    """The quadratic form of `gram` in an orthonormal basis of the symmetric d x d matrices."""
    i, j = np.triu_indices(d)
    basis = np.zeros((d * d, len(i)))
    columns = np.arange(len(i))
    basis[i * d + j, columns] = np.where(i == j, 0.5, np.sqrt(0.5))
    basis[j * d + i, columns] += np.where(i == j, 0.5, np.sqrt(0.5))
    return basis.T @ gram @ basis


def _rounding(values: Any, n: int, size: int) -> float:
    """Bound on the error of computed eigenvalues of a Gram matrix of n terms."""
    return 4 * max(n, size) * float(np.finfo(float).eps) * float(values[-1])


def _double(flat: Any) -> Any:
    """Convert to float64: in float32 the smallest eigenvalue would be rounding noise."""
    return flat.astype(float) if issparse(flat) else wide(flat)


def _dense(gram: Any) -> Any:
    """A small product of any kind as a float64 NumPy array."""
    return np.asarray(gram.toarray() if issparse(gram) else to_numpy(gram), dtype=float)


def _operator(terms: Measurements, shape: tuple[int, int]) -> LinearOperator:
    """The map X -> (<A_i, X>)_i as a SciPy operator (host arrays)."""
    first = terms.take(slice(0, 1))
    ref = first.adjoint(first.sqnorms() * 0.0)
    xp = namespace(ref)

    def forward(x: Any) -> Any:
        X = xp.asarray(np.reshape(x, shape), dtype=ref.dtype, device=device_of(ref))
        return to_numpy(terms.apply(X))

    def backward(y: Any) -> Any:
        w = xp.asarray(np.ravel(y), dtype=ref.dtype, device=device_of(ref))
        return np.ravel(to_numpy(terms.adjoint(w)))

    size = (terms.count, shape[0] * shape[1])
    return LinearOperator(size, matvec=forward, rmatvec=backward, dtype=float)
