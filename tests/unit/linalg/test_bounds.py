"""Upper bounds on singular values must hold on every instance, converged or not."""

import math

import numpy as np
import pytest
from registry import DOUBLE, SINGLE, numbers
from scipy.sparse.linalg import aslinearoperator
from scipy.stats import chi2

from weakprox.linalg import LowRank, thin_svd
from weakprox.linalg.bounds import (
    FAILURE,
    chebyshev_bound,
    deflated_norm,
    factored_bound,
    log_exceeded,
    log_length,
    norm_bound,
    norm_estimate,
    power_bound,
    raised,
    spectral_norm_bound,
)
from weakprox.linalg.operators import products


def subspace(A, V):
    """Rayleigh-Ritz on the orthonormal V: U, s, W with A W = U s, as the block method has."""
    U, s, Qt = np.linalg.svd(A @ V, full_matrices=False)
    return LowRank(U, s, Qt @ V.T)


def instance(rng):
    """A random matrix and a subspace between useless and converged."""
    m, d = rng.integers(2, 24, 2)
    r = int(rng.integers(1, min(m, d) + 1))
    U, _, Vt = np.linalg.svd(rng.standard_normal((m, d)), full_matrices=False)
    s = np.sort(10.0 ** rng.uniform(-3, 1, min(m, d)))[::-1]
    if rng.random() < 0.3:
        s[1:] = s[rng.integers(0, len(s))]  # ties
        s = np.sort(s)[::-1]
    A = (U * s) @ Vt
    noise = 10.0 ** rng.uniform(-8, 1)
    V = np.linalg.qr(Vt[:r].T + noise * rng.standard_normal((d, r)))[0]
    return A, subspace(A, V), s


def true_deflated(A, kept):
    left = np.eye(A.shape[0]) - kept.U @ kept.U.T
    right = np.eye(A.shape[1]) - kept.Vt.T @ kept.Vt
    return np.linalg.norm(left @ A @ right, 2)


def test_raised_bounds_the_leading_values():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(400):
        A, kept, s = instance(rng)
        residual = np.linalg.norm(A.T @ kept.U - kept.Vt.T * kept.s, 2)
        upper = raised(kept.s, residual, true_deflated(A, kept))
        assert (upper >= s[: len(upper)] * (1 - 1e-12)).all()
        ratios.append(upper[0] / s[0])
    assert np.median(ratios) < 1.01  # and it is of use


def test_raised_holds_where_it_is_tight():
    """[[s, rho], [0, e]]: the worst case for a residual rho and a tail e."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        s, rho, e = 10.0 ** rng.uniform(-2, 2, 3)
        true = np.linalg.norm(np.array([[s, rho], [0.0, e]]), 2)
        assert raised(np.array([s]), rho, e)[0] >= true * (1 - 1e-12)


def test_deflated_norm_is_never_below_the_truth():
    rng = np.random.default_rng(2)
    ratios = []
    for _ in range(200):
        A, kept, _ = instance(rng)
        true, bound = true_deflated(A, kept), deflated_norm(A, kept, rng)
        assert bound >= true * (1 - 1e-9) - 1e-13 * np.linalg.norm(A)
        if true > 1e-9:
            ratios.append(bound / true)
    assert np.median(ratios) < 5


def test_bounds_from_an_iteration_that_was_cut_short():
    rng = np.random.default_rng(3)
    for sweeps in (1, 2, 4):
        for seed in range(10):
            A = numbers(90, 80, seed=seed) * (0.9 ** np.arange(80))
            kept = thin_svd(
                A, 4, method="block", max_sweeps=sweeps, strict=False, rng=rng
            ).triplets
            residual = np.linalg.norm(A.T @ kept.U - kept.Vt.T * kept.s)
            upper = raised(kept.s, residual, deflated_norm(A, kept, rng))
            true = np.linalg.svd(A, compute_uv=False)
            assert (upper >= true[:4]).all()


@pytest.mark.parametrize("backend", DOUBLE + SINGLE, ids=lambda b: b.name)
def test_spectral_norm_bound_of_small_matrices(backend):
    rng = np.random.default_rng(4)
    for seed in range(40):
        A = numbers(1 + seed, 1 + (7 * seed) % 31, seed=seed)
        bound = spectral_norm_bound(backend.array(A), rng)
        true = np.linalg.norm(np.asarray(backend.array(A), dtype=float), 2)
        assert true <= bound * (1 + 1e-12) <= true * (1 + 1e-4)


@pytest.mark.parametrize("kind", ["flat", "gap", "ties", "identity"])
def test_spectral_norm_bound_of_operators(kind):
    """Without entries at hand the randomised branch must hold, and be of use."""
    rng = np.random.default_rng(5)
    A = {
        "flat": numbers(120, 110),
        "gap": numbers(120, 110) + 40 * np.outer(numbers(120, seed=1), numbers(110, seed=2)),
        "ties": np.diag(np.r_[np.full(20, 3.0), np.ones(100)]),
        "identity": np.eye(100),
    }[kind]
    true = np.linalg.norm(A, 2)
    for _ in range(10):
        bound = spectral_norm_bound(aslinearoperator(A), rng)
        assert true * (1 - 1e-12) <= bound <= 2.5 * true


def test_spectral_norm_bound_of_large_matrices():
    A = numbers(700, 640) / 30
    bound = spectral_norm_bound(A, np.random.default_rng(6))
    true = np.linalg.norm(A, 2)
    assert true <= bound <= 1.6 * true


def test_a_value_far_from_the_rest_is_bounded_by_itself():
    """Powers of the whole operator alone would not come so near."""
    U, V = (np.linalg.qr(numbers(n, 40, seed=n))[0] for n in (60, 50))
    A = (U * np.array([10.0, *np.linspace(2.0, 1.0, 39)])) @ V.T
    rng = np.random.default_rng(12)
    direct = power_bound(lambda W: A @ W, lambda W: A.T @ W, 50, A, rng, powers=3)
    assert direct > 10.2
    assert 10.0 * (1 - 1e-12) <= spectral_norm_bound(aslinearoperator(A), rng) <= 10.01


@pytest.mark.parametrize("vectors", [1, 2, 8, 16])
def test_normal_numbers_are_all_short_with_the_stated_probability(vectors):
    """P(|w| <= x) = erf(x/sqrt 2), which is at most x sqrt(2/pi), and close to it if small."""
    shorter = math.erf(math.exp(log_exceeded(vectors)) / math.sqrt(2.0)) ** vectors
    assert shorter <= FAILURE * (1 + 1e-12)
    assert shorter >= 0.8 * FAILURE or vectors > 8


@pytest.mark.parametrize("size", [1, 2, 8, 16])
def test_normal_vectors_are_shorter_with_the_stated_probability(size):
    """Of the squared length, which has a chi-squared distribution."""
    shorter = chi2.cdf(math.exp(2.0 * log_length(size)), size)
    assert 0.7 * FAILURE <= shorter <= FAILURE * (1 + 1e-9)


def test_a_bound_by_polynomials_holds_for_every_level():
    """For levels below, at and above the norm, also if the largest value is repeated."""
    rng = np.random.default_rng(13)
    for seed in range(40):
        A, kept, _ = instance(np.random.default_rng(seed))
        true = true_deflated(A, kept)
        if true < 1e-9:
            continue
        for level in (1e-3, 0.5, 0.99, 1.0, 1.05, 2.0):
            for enough in (0.0, 0.9, 1.02, 1.5, 5.0):
                how = {"enough": enough * true, "level": level * true, "powers": 6}
                for vectors, hopeful in ((8, True), (16, False)):
                    how |= {"vectors": vectors, "hopeful": hopeful}
                    assert deflated_norm(A, kept, rng, **how) >= true * (1 - 1e-9)


@pytest.mark.parametrize("ratio", [1.15, 1.4])
def test_polynomials_need_fewer_products_than_powers(ratio):
    """Noise with a norm of about the level, and a bound that is larger by this ratio."""
    A = numbers(300, 200)
    norm, counts = np.linalg.norm(A, 2), []
    for level in (0.0, 0.97 * norm):
        rng, ops = np.random.default_rng(1), products(A)
        how = {"powers": 20, "enough": ratio * norm, "level": level}
        bound = power_bound(ops.times, ops.transpose_times, 200, A, rng, **how)
        assert norm <= bound <= ratio * norm
        counts.append(ops.passes)
    assert counts[1] <= 0.8 * counts[0]


def test_tiny_matrices_do_not_count_as_zero():
    """The squares of their products underflow."""
    A = 1e-170 * numbers(20, 15)
    times = (lambda W: A @ W), (lambda W: A.T @ W)
    for level in (0.0, 1e-170):
        bound = power_bound(*times, 15, A, np.random.default_rng(2), level=level)
        assert bound >= np.linalg.norm(A * 1e160, 2) * 1e-160


def test_zero_has_bound_zero():
    rng = np.random.default_rng(7)
    assert spectral_norm_bound(np.zeros((5, 4)), rng) == 0.0
    for sharp in (False, True):
        zero = aslinearoperator(np.zeros((120, 100)))
        assert spectral_norm_bound(zero, rng, sharp=sharp) == 0.0


def test_power_bound_does_not_overflow_in_single_precision():
    for scale in (1e-12, 1.0, 1e12):
        A = (scale * numbers(60, 60)).astype(np.float32)
        bound = power_bound(
            lambda W, A=A: A @ W, lambda W, A=A: A.T @ W, 60, A, np.random.default_rng(8)
        )
        true = np.linalg.norm(A.astype(float), 2)
        assert true <= bound <= 4 * true


@pytest.mark.parametrize("ties", [False, True])
def test_chebyshev_bound_is_never_below_the_norm(ties):
    rng = np.random.default_rng(9)
    for seed in range(40):
        A = numbers(30 + seed, 25, seed=seed)
        if ties:  # the largest value many times
            U, s, Vt = np.linalg.svd(A, full_matrices=False)
            s[: 3 + seed % 20] = s[0]
            A = (U * s) @ Vt
        true = np.linalg.norm(A, 2)
        for enough in (0.5 * true, true, 1.1 * true):
            nothing = np.zeros((len(A), 0)), np.zeros((25, 0))  # deflated
            times = (lambda W, A=A: A @ W), (lambda W, A=A: A.T @ W)
            found, _ = chebyshev_bound(*times, *nothing, rng, enough=enough)
            assert found >= true * (1 - 1e-12)


def test_norm_bound_is_never_below_the_norm_and_sharp_when_converged():
    rng = np.random.default_rng(10)
    ratios = []
    for _ in range(300):
        A, kept, s = instance(rng)
        R = A.T @ kept.U - kept.Vt.T * kept.s
        tail = true_deflated(A, kept)
        bound = norm_bound(kept.s, R.T @ R, tail)
        assert bound >= s[0] * (1 - 1e-12)
        if np.linalg.norm(R) < 1e-3 * s[0] and tail < 0.9 * s[0]:
            ratios.append(bound / s[0] - 1)
    assert max(ratios) < 1e-5
    assert norm_bound(np.ones(2), np.zeros((2, 2)), np.inf) == np.inf


def test_norm_bound_is_near_the_least_over_all_weights():
    """Of the bound by x in its docstring."""
    rng, weights = np.random.default_rng(0), 10.0 ** np.linspace(-8, 8, 120)
    for _ in range(60):
        s = np.sort(rng.uniform(0.2, 1.0, 3))[::-1]
        R, tail = rng.normal(size=(10, 3)) * 10 ** rng.uniform(-3, 0), rng.uniform(0.0, 1.2)
        inside = [np.diag(s * s) + (1 + 1 / x) * R.T @ R for x in weights]
        outside = (1 + weights) * tail**2
        least = np.maximum(np.linalg.eigvalsh(inside)[:, -1], outside).min()
        assert norm_bound(s, R.T @ R, tail) <= 1.1 * math.sqrt(least)


def test_sharp_bounds_of_operators_are_nearly_the_norm():
    """The largest value is repeated, as at the solution of a low-rank problem."""
    U, s, Vt = np.linalg.svd(numbers(110, 100), full_matrices=False)
    s[:5] = s[0]
    s[5:] *= 0.5
    A = aslinearoperator((U * s) @ Vt)
    bound = spectral_norm_bound(A, np.random.default_rng(11), sharp=True)
    assert s[0] * (1 - 1e-12) <= bound <= s[0] * (1 + 1e-8)


@pytest.mark.parametrize("backend", [*DOUBLE, *SINGLE], ids=lambda b: b.name)
@pytest.mark.parametrize("shape", [(40, 40), (70, 31), (31, 70)], ids=str)
def test_factored_bound_is_never_below_the_norm(backend, shape):
    """Also if the largest value is repeated, which is what randomised bounds suffer from."""
    rng = np.random.default_rng(5)
    U, s, Vt = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    for values in (s, np.ones_like(s), np.where(np.arange(len(s)) < 20, 3.0, s)):
        D = backend.array((U * values) @ Vt)
        norm = float(np.linalg.norm(np.asarray(D, dtype=float), 2))
        below = [norm * (1 - x) for x in (1e-2, 1e-5, 1e-9)]
        assert factored_bound(D, below) == np.inf
        assert factored_bound(D, [*below, norm * (1 + 1e-9), 2 * norm]) == norm * (1 + 1e-9)


def test_factored_bound_on_eigenvalues_ignores_large_negative_ones():
    rng = np.random.default_rng(6)
    V, _ = np.linalg.qr(rng.standard_normal((50, 50)))
    D = (V * np.concatenate([[-900.0, -30.0], np.linspace(0.5, 2.0, 48)])) @ V.T
    assert factored_bound(D, [1.999, 2.001], symmetric=True) == 2.001
    assert factored_bound(D, [2.001]) == np.inf
    assert factored_bound(-D, [899.9, 900.1], symmetric=True) == 900.1


def test_factored_bound_subtracts_its_rounding():
    """A level nearer to the norm than rounding allows is not claimed."""
    D = np.eye(200)
    assert factored_bound(D, [1.0, 1.0 + 1e-14]) == np.inf
    assert factored_bound(D, [1.0 + 1e-9]) == 1.0 + 1e-9
    assert factored_bound(0.0 * D, [1e-3]) == 1e-3
    assert factored_bound(D, []) == np.inf


def test_estimates_of_norms_see_what_the_block_sees():
    """And all of a matrix that is small, or not much wider than the block."""
    A = np.diag([3.0, 2.0, *[0.1] * 62])
    assert norm_estimate(A, np.eye(64)[:, 1:2]) == pytest.approx(2.0)
    assert norm_estimate(A, np.ones((64, 1))) == pytest.approx(3.0, rel=0.2)
    assert norm_estimate(A, np.eye(64)[:, 20:52]) == pytest.approx(3.0)
    assert norm_estimate(0.0 * A, np.eye(64)[:, 1:2]) == 0.0
    assert norm_estimate(A[:, :20], np.eye(20)[:, 1:2]) == pytest.approx(3.0)
    assert norm_estimate(A[:20], np.eye(64)[:, 1:2]) == pytest.approx(3.0)
