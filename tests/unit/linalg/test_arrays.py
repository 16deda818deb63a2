"""Arrays of any namespace: same numbers, same kind, no copies where none are due."""

import numpy as np
import pytest
import torch
from registry import DOUBLE, NUMPY, NUMPY32, SINGLE, TORCH, numbers

from weakprox.linalg import arrays

ALL = DOUBLE + SINGLE
by_backend = pytest.mark.parametrize("backend", ALL, ids=lambda b: b.name)


@by_backend
def test_makers_follow_the_reference(backend):
    ref = backend.array(np.zeros((2, 3)))
    rng = np.random.default_rng(0)
    for made in (
        arrays.zeros((4, 5), ref),
        arrays.empty((4, 5), ref),
        arrays.gaussian(rng, (4, 5), ref),
        arrays.like([[1, 2], [3, 4]], ref),
    ):
        assert backend.owns(made)
    assert float(abs(arrays.zeros((4, 5), ref)).max()) == 0.0


@pytest.mark.parametrize("backend", ALL, ids=lambda b: b.name)
def test_like_takes_reversed_views(backend):
    """Sorted values reversed by [::-1] have negative strides, which torch refuses."""
    ref = backend.array(np.zeros(1))
    assert arrays.to_numpy(arrays.like(np.arange(4.0)[::-1], ref)).tolist() == [3, 2, 1, 0]
    assert arrays.to_numpy(arrays.like(np.ones(1)[::-1], ref)).tolist() == [1]


def test_gaussian_numbers_agree_between_namespaces():
    draws = [
        arrays.to_numpy(arrays.gaussian(np.random.default_rng(3), (5, 4), b.array([0.0])))
        for b in ALL
    ]
    assert np.array_equal(draws[0], draws[1])
    for single in draws[2:]:
        assert np.array_equal(single, draws[0].astype(np.float32))


@by_backend
def test_inner_and_norms(backend):
    X, Y = np.arange(12.0).reshape(3, 4), np.cos(np.arange(12.0)).reshape(3, 4)
    A, B = backend.array(X), backend.array(Y)
    assert arrays.inner(A, B) == pytest.approx((X * Y).sum(), rel=1e-6)
    assert arrays.inner(A.T, B.T) == pytest.approx((X * Y).sum(), rel=1e-6)
    assert arrays.sqnorm(A) == pytest.approx((X * X).sum(), rel=1e-6)
    assert arrays.norm(A[:, 1:3]) == pytest.approx(np.linalg.norm(X[:, 1:3]), rel=1e-6)
    assert type(arrays.inner(A, B)) is float


@by_backend
def test_eps(backend):
    single = "32" in backend.name
    A = backend.array(np.zeros((2, 2)))
    assert arrays.eps_of(A) == np.finfo(np.float32 if single else np.float64).eps


@by_backend
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [(0, 0), (-1, -1)])
def test_all_finite_sees_every_entry(backend, bad, where):
    values = np.zeros((600, 100))
    assert arrays.all_finite(backend.array(values))
    values[where] = bad
    assert not arrays.all_finite(backend.array(values))
    assert not arrays.all_finite(backend.array(values[:, where[1]]))


@by_backend
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (700, 300), (2, 100_000), (5,)])
def test_row_blocks_cover_all_rows_once(backend, shape):
    A = backend.array(np.zeros(shape))
    rows = [i for block in arrays.row_blocks(A) for i in range(shape[0])[block]]
    assert rows == list(range(shape[0]))


def test_row_blocks_are_of_cache_size():
    A = np.zeros((1000, 1000))
    blocks = list(arrays.row_blocks(A))
    assert len(blocks) > 5
    assert all(A[block].nbytes <= arrays.BLOCK_BYTES for block in blocks)


def test_kinds():
    assert arrays.is_array(np.zeros(2))
    assert arrays.is_array(torch.zeros(2))
    assert not arrays.is_array([1.0, 2.0])
    assert not arrays.is_array(None)
    assert arrays.is_numpy(NUMPY.array([1.0]))
    assert not arrays.is_numpy(TORCH.array([1.0]))
    assert arrays.is_floating(NUMPY32.array([1.0]))
    assert not arrays.is_floating(np.arange(3))
    assert not arrays.is_floating(np.zeros(2, dtype=complex))
    assert arrays.on_cpu(np.zeros(2))
    assert arrays.on_cpu(torch.zeros(2))


def test_real_numbers_that_lapack_knows():
    for good in (np.float32, np.float64, np.int8, bool, torch.float32, torch.int64):
        assert arrays.is_real(
            torch.zeros(2, dtype=good)
            if isinstance(good, torch.dtype)
            else np.zeros(2, dtype=good)
        )
    for bad in (np.float16, np.longdouble, complex, object, "U1"):
        assert not arrays.is_real(np.zeros(2, dtype=bad))
    assert not arrays.is_real(torch.zeros(2, dtype=torch.bfloat16))


@by_backend
def test_largest(backend):
    values = numbers(300, 200)
    values[250, 7] = -9.5
    assert arrays.largest(backend.array(values)) == 9.5
    assert arrays.largest(backend.array(values[250])) == 9.5


def test_to_numpy_shares_memory_on_the_host():
    A, B = np.zeros(3), torch.zeros(3)
    arrays.to_numpy(A)[0] = 1.0
    arrays.to_numpy(B)[0] = 1.0
    assert A[0] == 1.0
    assert B[0] == 1.0
    assert arrays.to_numpy(torch.ones(2, requires_grad=True)).tolist() == [1.0, 1.0]
