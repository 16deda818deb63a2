"""Thin SVDs of every shape, spectrum and method, against LAPACK."""

import numpy as np
import pytest
import scipy.sparse
from registry import DOUBLE, SINGLE, numbers
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from weakprox.errors import DecompositionError
from weakprox.linalg import thin_svd
from weakprox.linalg._thin_svd import new_directions
from weakprox.linalg.arrays import to_numpy

METHODS = ("auto", "block", "lapack", "arpack", "propack")
by_method = pytest.mark.parametrize("method", METHODS)


def with_values(m, d, s, seed=0):
    """A matrix with the given singular values."""
    k = len(s)
    U = np.linalg.qr(numbers(m, k, seed=seed))[0]
    V = np.linalg.qr(numbers(d, k, seed=seed + 1))[0]
    return (U * np.asarray(s, dtype=float)) @ V.T


FALLING = 10.0 * 0.8 ** np.arange(60)


def verify(A, found, rank, tol):
    """Orthonormal factors, right values, and residuals that really are the residuals."""
    U, s, Vt = (to_numpy(x).astype(float) for x in found.triplets.__dict__.values())
    A = np.asarray(A, dtype=float)
    true = np.linalg.svd(A, compute_uv=False)
    scale = max(true[0], 1e-300)
    assert s.shape == (rank,)
    assert s == pytest.approx(true[:rank], abs=tol * scale)
    assert pytest.approx(np.eye(rank), abs=max(10 * tol, 1e-9)) == U.T @ U
    assert Vt @ Vt.T == pytest.approx(np.eye(rank), abs=max(10 * tol, 1e-9))
    left = np.linalg.norm(A @ Vt.T - U * s, axis=0)
    right = np.linalg.norm(A.T @ U - Vt.T * s, axis=0)
    stated = to_numpy(found.residuals)
    assert stated == pytest.approx(np.maximum(left, right), abs=max(tol * 1e-2, 1e-12) * scale)
    assert stated.max() <= tol * scale
    following = true[rank] if rank < len(true) else 0.0
    assert found.next_value <= following * (1 + 1e-9) + max(tol, 1e-12) * scale


@by_method
@pytest.mark.parametrize("shape", [(200, 150), (150, 200)])
def test_falling_spectrum(method, shape):
    A = with_values(*shape, FALLING)
    verify(A, thin_svd(A, 5, method=method), 5, 1e-8)


@by_method
def test_next_value_estimates_the_following_one(method):
    A = with_values(200, 150, FALLING)
    for rank in (1, 5):
        following = thin_svd(A, rank, method=method, tol=1e-10).next_value
        assert 0.9 * FALLING[rank] <= following <= FALLING[rank] * (1 + 1e-9)


@by_method
@pytest.mark.parametrize("shape", [(140, 40), (40, 140), (30, 30)])
def test_small_shapes(method, shape):
    A = numbers(*shape)
    verify(A, thin_svd(A, 3, method=method), 3, 1e-8)


@by_method
@pytest.mark.parametrize("shape", [(1, 7), (7, 1), (1, 1), (2, 2), (300, 1), (1, 300)])
def test_slivers(method, shape):
    A = numbers(*shape)
    verify(A, thin_svd(A, 1, method=method), 1, 1e-8)
    verify(A, thin_svd(A, 9, method=method), min(shape), 1e-8)  # rank is capped


@by_method
@pytest.mark.parametrize("shape", [(6, 4), (150, 140)])
def test_zero_matrix(method, shape):
    found = thin_svd(np.zeros(shape), 3, method=method)
    assert found.triplets.s.tolist() == [0.0, 0.0, 0.0]
    assert found.next_value == 0.0
    U, Vt = found.triplets.U, found.triplets.Vt
    assert pytest.approx(np.eye(3), abs=1e-9) == U.T @ U
    assert Vt @ Vt.T == pytest.approx(np.eye(3), abs=1e-9)


@by_method
@pytest.mark.parametrize(
    "values",
    [
        [5.0] * 8 + [1.0] * 20,  # more equal values than the block is wide at rank 3
        [5.0, 5.0, 5.0, 2.0, 2.0, 1.0],
        [1.0] * 30,
    ],
)
def test_ties(method, values):
    A = with_values(180, 150, values)
    verify(A, thin_svd(A, 4, method=method), 4, 1e-8)


@by_method
@pytest.mark.parametrize("true_rank", [1, 2, 4])
def test_rank_deficient(method, true_rank):
    A = with_values(180, 150, [3.0, 2.0, 1.0, 0.5][:true_rank])
    found = thin_svd(A, 6, method=method)
    verify(A, found, 6, 1e-8)
    assert found.triplets.s[true_rank:].max() <= 1e-8


@by_method
def test_identity(method):
    verify(np.eye(150), thin_svd(np.eye(150), 4, method=method), 4, 1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("method", ["auto", "block", "lapack"])
def test_extreme_scales(scale, method):
    A = with_values(160, 150, FALLING)
    found = thin_svd(scale * A, 3, method=method)
    assert found.triplets.s / scale == pytest.approx(FALLING[:3])


@pytest.mark.parametrize("method", ["auto", "block"])
@pytest.mark.parametrize("backend", SINGLE + DOUBLE, ids=lambda b: b.name)
def test_namespaces_and_precisions(backend, method):
    tol = 1e-4 if backend in SINGLE else 1e-8
    A = backend.array(with_values(200, 150, FALLING))
    found = thin_svd(A, 5, method=method, tol=tol / 10)
    verify(to_numpy(A), found, 5, tol)
    for x in (*found.triplets.__dict__.values(), found.residuals, found.basis):
        assert backend.owns(x)


@by_method
@pytest.mark.parametrize("wrap", [scipy.sparse.csr_array, aslinearoperator])
def test_sparse_and_operators(method, wrap):
    A = with_values(120, 90, FALLING[:40])
    A[np.abs(A) < 0.02] = 0.0
    verify(A, thin_svd(wrap(A), 4, method=method), 4, 1e-8)


def test_an_operator_is_never_formed():
    """Only products with blocks are asked for, few of them and narrow."""
    A, widths = with_values(400, 300, FALLING), []

    def times(Q):
        widths.append(Q.shape[1])
        return A @ Q

    def transpose_times(Q):
        widths.append(Q.shape[1])
        return A.T @ Q

    op = LinearOperator(
        A.shape, matvec=None, matmat=times, rmatmat=transpose_times, dtype=float
    )
    found = thin_svd(op, 4)
    assert len(widths) == found.passes
    assert max(widths) <= 4 + 6


def test_warm_start_takes_fewer_passes():
    A = with_values(300, 250, FALLING)
    cold = thin_svd(A, 6, method="block")
    near = A + 1e-9 * numbers(300, 250, seed=5)
    warm = thin_svd(near, 6, start=cold.basis, tol=1e-6, method="block")
    again = thin_svd(near, 6, tol=1e-6, method="block")
    assert warm.passes == 2 < again.passes
    verify(near, warm, 6, 1e-6)


@pytest.mark.parametrize("columns", [1, 3, 40])
def test_a_start_of_any_width_will_do(columns):
    A = with_values(200, 150, FALLING)
    start = numbers(150, columns, seed=6)
    verify(A, thin_svd(A, 5, start=start, method="block"), 5, 1e-8)


def test_too_few_sweeps_raise_or_return_what_there_is():
    A = numbers(300, 280)
    with pytest.raises(DecompositionError, match="more sweeps"):
        thin_svd(A, 4, method="block", max_sweeps=2)
    found = thin_svd(A, 4, method="block", max_sweeps=2, strict=False)
    U, s, Vt = found.triplets.__dict__.values()
    stated = np.linalg.norm(A.T @ U - Vt.T * s, axis=0)
    assert found.residuals == pytest.approx(stated, rel=1e-8)
    assert found.residuals.max() > 1e-8 * s[0]
    assert (s <= np.linalg.svd(A, compute_uv=False)[:4] * (1 + 1e-12)).all()


def test_accept_ends_the_iteration_early():
    A, seen = numbers(300, 280), []

    def accept(s, residuals, after):
        seen.append((s.copy(), residuals.copy(), after))
        return len(seen) == 3

    found = thin_svd(A, 4, method="block", accept=accept, strict=False)
    assert found.sweeps == 3 == len(seen)
    assert seen[-1][0] == pytest.approx(found.triplets.s)
    assert seen[-1][2] == found.next_value


def test_same_generator_same_bits():
    A = numbers(200, 180)
    runs = [thin_svd(A, 3, rng=np.random.default_rng(7), strict=False) for _ in range(2)]
    assert np.array_equal(runs[0].triplets.U, runs[1].triplets.U)


@pytest.mark.parametrize("method", ["arpack", "propack"])
def test_scipy_methods_need_host_arrays(method):
    with pytest.raises(DecompositionError, match="NumPy"):
        thin_svd(DOUBLE[1].array(numbers(60, 50)), 2, method=method)


@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_residuals_that_depend_on_each_other_are_followed_once(backend):
    """Blocks of full width were filled up by rounding, and torch took another path."""
    A = numbers(150, 140, seed=230) + 4 * np.outer(numbers(150), numbers(140)) / 14
    exact = np.linalg.svd(A, full_matrices=False)[2][:9].T
    B = A + 0.02 * np.outer(A[:, 0], A[1])  # a change of rank one
    reached = [
        thin_svd(x, 3, start=start, method="block", strict=False, max_sweeps=3)
        for x, start in ((B, exact), (backend.array(B), backend.array(exact)))
    ]
    ours, theirs = (to_numpy(found.triplets.dense()) for found in reached)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    K = np.linalg.qr(exact)[0]
    R = np.linalg.qr(numbers(140, 2, seed=231))[0] @ numbers(2, 9, seed=232)
    R -= K @ (K.T @ R)
    sizes = np.linalg.norm(R, axis=0)
    fresh = new_directions(*map(backend.array, (R, sizes)), 1.0, backend.array(K))
    fresh = to_numpy(fresh)
    assert fresh.shape == (140, 2)
    np.testing.assert_allclose(fresh.T @ fresh, np.eye(2), atol=1e-13)
    np.testing.assert_allclose(K.T @ fresh, 0.0, atol=1e-13)
    np.testing.assert_allclose(fresh @ (fresh.T @ R), R, atol=1e-10)


def test_lapack_reads_the_entries_of_an_operator():
    A = numbers(9, 6)
    found = thin_svd(aslinearoperator(A), 2, method="lapack")
    verify(A, found, 2, 1e-12)
    assert found.exact
    assert found.sweeps == 1


def test_one_wrong_triplet_of_lanczos_is_enough_to_use_blocks(monkeypatch):
    A = with_values(150, 140, FALLING)

    def wrong(*args, **options):
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        Vt[1] += 0.01 * Vt[9]
        return U[:, :3], s[:3], Vt[:3]

    monkeypatch.setitem(thin_svd.__globals__, "svds", wrong)
    verify(A, thin_svd(A, 2, method="arpack"), 2, 1e-8)
