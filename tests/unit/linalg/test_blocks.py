"""QR of tall blocks however dependent their columns, and the early end of power bounds."""

import numpy as np
import pytest
from registry import DOUBLE, NUMPY, NUMPY32, TORCH, TORCH32, numbers

from weakprox.linalg import LowRank
from weakprox.linalg._thin_svd import orthonormal, small_svd, tall_qr
from weakprox.linalg.arrays import eps_of, to_numpy
from weakprox.linalg.bounds import deflated_norm, power_bound

B = numbers(40, 6, seed=11)
SCALES = 10.0 ** np.array([8.0, -8.0, 0.0, 3.0, -3.0, 5.0])
BLOCKS = {
    "plain": B,
    "one column": B[:, :1],
    "square": numbers(6, 6, seed=12),
    "scaled columns": B * SCALES,
    "huge": 1e9 * B,
    "tiny": 1e-9 * B,
    "nearly dependent": B @ np.triu(np.ones((6, 6))) + 1e-7 * numbers(40, 6, seed=13),
    "condition 1e10": np.linalg.qr(B)[0] * np.geomspace(1, 1e-10, 6) @ numbers(6, 6, seed=14),
    "condition 1e20": np.linalg.qr(B)[0] * np.geomspace(1, 1e-20, 6) @ numbers(6, 6, seed=14),
    "rank two": B[:, :2] @ numbers(2, 6, seed=15),
    "the same column": np.repeat(B[:, :1], 6, axis=1),
    "a zero column": B * np.array([1, 0, 1, 1, 0, 1]),
    "zero": 0 * B,
    "unit vectors": np.eye(40, 6),
    "integers": np.ones((40, 3)),
}


@pytest.mark.parametrize("backend", [NUMPY, TORCH, NUMPY32, TORCH32], ids=lambda b: b.name)
@pytest.mark.parametrize("name", BLOCKS)
def test_orthonormal_and_equal(name, backend):
    block = backend.array(BLOCKS[name])
    Q, R = tall_qr(block)
    assert backend.owns(Q)
    assert backend.owns(R)
    width, eps = block.shape[1], eps_of(block)
    Q, R, given = (to_numpy(x).astype(float) for x in (Q, R, block))
    assert Q.shape == given.shape
    assert np.abs(Q.T @ Q - np.eye(width)).max() <= 40 * width * eps
    sizes = np.linalg.norm(given, axis=0)
    assert (np.linalg.norm(Q @ R - given, axis=0) <= 40 * width * eps * sizes).all()
    assert np.abs(np.tril(R, -1)).max(initial=0.0) <= eps * max(1.0, np.abs(R).max())


@pytest.mark.parametrize("backend", [NUMPY, TORCH, NUMPY32, TORCH32], ids=lambda b: b.name)
@pytest.mark.parametrize("name", BLOCKS)
def test_small_svd_is_that_of_lapack(name, backend):
    block = backend.array(BLOCKS[name])
    given, eps = to_numpy(block).astype(float), eps_of(block)
    U, s, Wt = (to_numpy(x).astype(float) for x in small_svd(block, block.shape[1]))
    true = np.linalg.svd(given, compute_uv=False)
    assert np.abs(s - true).max() <= 200 * eps * true[0]
    assert np.abs(U.T @ U - np.eye(U.shape[1])).max() <= 400 * eps
    assert np.abs((U * s) @ Wt - given).max() <= 400 * eps * max(true[0], 1e-300)
    few = small_svd(block, 1)
    assert (few[0].shape[1], few[1].shape[0], few[2].shape[0]) == (1, 1, 1)


@pytest.mark.parametrize("name", BLOCKS)
def test_basis_spans_the_columns(name):
    block = BLOCKS[name]
    Q = orthonormal(block)
    left = block - Q @ (Q.T @ block)
    assert (np.linalg.norm(left, axis=0) <= 1e-12 * np.linalg.norm(block, axis=0)).all()


@pytest.mark.parametrize("enough", [0.0, 1.05, 2.0, 10.0, np.inf])
@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_a_power_bound_that_ends_early_still_holds(backend, enough):
    """Wherever it stops, it is above the truth; and it stops once below what is enough."""
    rng = np.random.default_rng(16)
    for _ in range(60):
        m, d = (int(x) for x in rng.integers(2, 30, 2))
        s = np.sort(10.0 ** rng.uniform(-4, 0, min(m, d)))[::-1] * 10.0 ** rng.uniform(-5, 5)
        U, _, Vt = np.linalg.svd(rng.standard_normal((m, d)), full_matrices=False)
        A = backend.array((U * s) @ Vt)
        calls = []

        def apply(W, A=A, calls=calls):
            calls.append(1)
            return A @ W

        found = power_bound(
            apply, lambda Y, A=A: A.T @ Y, d, A, rng, enough=enough * float(s[0])
        )
        assert found >= s[0] * (1 - 1e-12)
        if enough == np.inf:
            assert len(calls) == 1
        elif enough == 0.0:
            assert len(calls) == 4
        elif len(calls) < 4:
            assert found <= enough * s[0]


def test_early_ends_come_earlier_for_looser_needs():
    A, counts = numbers(50, 40, seed=17), []
    for enough in (0.0, 1.5, 3.0, 1e3):
        calls = []

        def apply(W, calls=calls):
            calls.append(1)
            return A @ W

        size = enough * np.linalg.norm(A, 2)
        rng = np.random.default_rng(1)
        power_bound(apply, lambda Y: A.T @ Y, 40, A, rng, enough=size, powers=8)
        counts.append(len(calls))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 9
    assert counts[-1] < 9


def test_hopeful_bounds_stop_only_if_no_later_one_is_small_enough():
    """Against all products; hopeless needs end sooner, and the others as before."""
    rng, early = np.random.default_rng(19), 0
    for seed in range(40):
        A = rng.standard_normal((30, 20)) * 10.0 ** rng.uniform(-3, 3)
        s = np.linalg.svd(A, compute_uv=False)
        for share in (0.5, 0.99, 1.02, 1.2, 2.0, 5.0):
            found = {}
            for hopeful in (False, True):
                calls, draws = [], np.random.default_rng(seed)

                def apply(W, A=A, calls=calls):
                    calls.append(1)
                    return A @ W

                how = {"enough": share * s[0], "powers": 6, "hopeful": hopeful}
                bound = power_bound(apply, lambda Y, A=A: A.T @ Y, 20, A, draws, **how)
                found[hopeful] = bound, len(calls)
                assert bound >= s[0] * (1 - 1e-12)
            whole, quick = found[False], found[True]
            assert (whole[0] <= share * s[0]) == (quick[0] <= share * s[0])
            assert quick[1] <= whole[1]
            early += quick[1] < whole[1]
            if share < 1.0:  # the norm itself is larger
                assert quick[1] <= (3 if share == 0.5 else 6)
    assert early > 60


def test_deflated_norm_with_an_early_end():
    rng = np.random.default_rng(18)
    for _ in range(60):
        A = rng.standard_normal((25, 18))
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        r = int(rng.integers(1, 18))
        kept = LowRank(U[:, :r], s[:r], Vt[:r])
        for share in (0.0, 1.0, 2.0, 100.0):
            found = deflated_norm(A, kept, rng, enough=share * s[r])
            assert found >= s[r] * (1 - 1e-12)
