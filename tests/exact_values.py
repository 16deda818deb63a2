"""Singular values in 60 digits: what computed ones and their bounds are held against."""

import mpmath
import numpy as np

DIGITS = 60


def singular_values(A):
    """Singular values of a small NumPy matrix, falling; no longer than float64 can tell."""
    A = np.asarray(A, dtype=float)
    B = A if A.shape[0] >= A.shape[1] else A.T
    with mpmath.workdps(DIGITS):
        M = mpmath.matrix(B.tolist())
        squares = mpmath.eigsy(M.T * M, eigvals_only=True)
        values = [mpmath.sqrt(max(x, mpmath.mpf(0))) for x in squares]
    return sorted(values, reverse=True)


def eigenvalues(A):
    """Eigenvalues of a small symmetric NumPy matrix, rising."""
    with mpmath.workdps(DIGITS):
        return sorted(
            mpmath.eigsy(mpmath.matrix(np.asarray(A, float).tolist()), eigvals_only=True)
        )


def gap(x, y):
    """|x - y| as a float, without the rounding of a difference in float64."""
    with mpmath.workdps(DIGITS):
        return float(abs(mpmath.mpf(x) - mpmath.mpf(y)))


def square(x):
    """x^2, unrounded."""
    with mpmath.workdps(DIGITS):
        return mpmath.mpf(x) ** 2
