"""Smallest eigenvalues of sparse matrices, compared with dense decompositions."""

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array, diags_array

from weakprox.linalg.sparse_eigh import lowest_eigenpairs


def path(n):
    """The Laplacian of a path, whose eigenvalues are known."""
    degree = np.full(n, 2.0)
    degree[[0, -1]] = 1.0
    off = -np.ones(n - 1)
    return csr_array(diags_array([off, degree, off], offsets=[-1, 0, 1]))


def test_eigenvalues_of_a_path():
    values, V = lowest_eigenpairs(path(300), 6)
    exact = 2.0 - 2.0 * np.cos(np.pi * np.arange(6) / 300)
    np.testing.assert_allclose(values, exact, atol=1e-5)
    np.testing.assert_allclose(V.T @ V, np.eye(6), atol=1e-10)
    assert np.linalg.norm(path(300) @ V - V * values) < 1e-2


@pytest.mark.parametrize("parts", [2, 7, 40])
def test_repeated_zeros_are_all_found(parts):
    A = csr_array(block_diag([path(n) for n in range(10, 10 + parts)]))
    values, V = lowest_eigenpairs(A, 5, null=parts)
    zeros = min(parts, 5)
    np.testing.assert_allclose(values[:zeros], 0.0, atol=1e-6)
    np.testing.assert_allclose(A @ V[:, :zeros], 0.0, atol=1e-3)
    assert (values[zeros:] > 1e-3).all()


def test_a_matrix_of_zeros():
    values, V = lowest_eigenpairs(csr_array((8, 8)), 3)
    np.testing.assert_allclose(values, 0.0, atol=1e-14)
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-12)
