"""One pair of products for dense arrays, sparse matrices and operators."""

import numpy as np
import pytest
import scipy.sparse
from registry import DOUBLE, numbers
from scipy.sparse.linalg import aslinearoperator

from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.operators import products

A = numbers(9, 6)
Q, W = numbers(6, 2, seed=1), numbers(9, 3, seed=2)
KINDS = {
    "dense": A,
    "sparse": scipy.sparse.csr_array(A),
    "sparse-matrix": scipy.sparse.csc_matrix(A),
    "operator": aslinearoperator(A),
}


@pytest.mark.parametrize("kind", KINDS)
def test_products_and_their_count(kind):
    ops = products(KINDS[kind])
    assert ops.shape == (9, 6)
    assert ops.passes == 0
    assert ops.times(Q) == pytest.approx(A @ Q)
    assert ops.transpose_times(W) == pytest.approx(A.T @ W)
    assert ops.passes == 2
    assert ops.is_dense == (kind == "dense")
    assert ops.reference.dtype == np.float64


@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_namespace_is_kept(backend):
    ops = products(backend.array(A))
    assert backend.owns(ops.times(backend.array(Q)))
    assert to_numpy(ops.transpose_times(backend.array(W))) == pytest.approx(A.T @ W)
