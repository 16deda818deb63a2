"""Smallest eigenvalues of sparse positive semidefinite matrices: Laplacians of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csc_array, eye_array
from scipy.sparse.linalg import splu

from weakprox.linalg import decompositions
from weakprox.linalg.decompositions import Matrix

SHIFT = 1e-2  # times the largest diagonal entry: the matrix itself may be singular
EXTRA, STEPS = 20, 8  # extra columns of the block, and number of solves


def lowest_eigenpairs(A: Any, count: int, *, null: int = 0) -> tuple[Matrix, Matrix]:
    """Return the `count` smallest eigenvalues, ascending, and their eigenvectors.

    Block inverse iteration with one sparse factorisation. A block finds repeated eigenvalues,
    which a single Krylov sequence may miss. `null` is a bound on the number of eigenvalues
    that are zero, if known: the block is made wide enough for all of them. The pairs are
    accurate enough for clustering, not to rounding.
    """
    n = A.shape[0]
    shift = SHIFT * float(A.diagonal().max(initial=0.0)) or 1.0
    factors = splu(
        csc_array(A + shift * eye_array(n)),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    width = min(n, max(count, null) + EXTRA)
    Q: Matrix = np.random.default_rng(0).standard_normal((n, width))
    for _ in range(STEPS):
        Q = np.linalg.qr(factors.solve(Q))[0]
    values, V = decompositions.eigh(Q.T @ (A @ Q))
    return values[:count], Q @ V[:, :count]
