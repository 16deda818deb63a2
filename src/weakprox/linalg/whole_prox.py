"""Proximal points of small matrices by one full decomposition, without bounds on its error.

A proximal step with bounds makes about a hundred calls of NumPy beside LAPACK's. On matrices
of up to a few hundred rows these calls take longer than LAPACK does. The bounds are not
needed by methods whose proofs do not use the decompositions of their steps.
"""

from __future__ import annotations

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import DOUBLE, Array
from weakprox.linalg.gram_svd import DIGITS_LEFT, squared, upright
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.simplex import ValueForm, rounded_on_host
from weakprox.linalg.threads import all_threads

MORE = 4  # columns of the basis beyond those of the point


def whole_prox(A: Array, form: ValueForm, weight: float) -> tuple[LowRank, Array] | None:
    """Minimiser of weight/2 |X - A|^2 + h(X), and leading right vectors of A.

    A is a NumPy array in float64. None if squaring A would lose kept values.
    """
    n = min(A.shape)
    flat = A.shape[0] < A.shape[1]
    with all_threads(n):
        if form.symmetric:
            values, W = decompositions.eigh(0.5 * (A + A.T))
            s = values[::-1]
        else:
            B = A.T if flat else A
            squares, W = decompositions.eigh(squared(B))
            s = np.sqrt(np.maximum(squares[::-1], 0.0))
        p = form.prox(s, 1.0 / weight)
        kept = int(np.count_nonzero(p > DOUBLE * p[0]))
        W = W[:, ::-1]
        if kept == 0:
            basis = A.T @ W[:, :MORE] if flat else W[:, :MORE]
            return LowRank.zero((int(A.shape[0]), int(A.shape[1])), A), basis
        V = W[:, :kept]
        p = rounded_on_host(p[:kept], form.tau, A)
        if form.symmetric:
            return LowRank(V, p, V.T), W[:, : kept + MORE]
        if not s[kept - 1] ** 2 > DIGITS_LEFT * DOUBLE * s[0] ** 2:
            return None
        U = upright((B @ V) / s[:kept])
        if flat:
            return LowRank(V, p, U.T), U
        return LowRank(U, p, V.T), W[:, : kept + MORE]
