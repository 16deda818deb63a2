"""T, eta, k_s, k_t, S, mu, delta and C0: the formulas of the paper, worked out here."""

from __future__ import annotations

import math

import numpy as np
import pytest
from theory._instances import denoising, sensing
from theory._runs import smoothed_gap

import weakprox as wp

EX1 = denoising("ex 1", (8, 6), seed=0, l1=0.5, noise=0.5)
EX2 = denoising("ex 2", (6, 5), seed=1, pieces=9, noise=0.5)
EX3 = sensing("ex 3", (3, 2), seed=2, n=600, l1=0.1, l2=0.2, sampled=True)
SMOOTH = sensing("smooth", (3, 2), seed=3, n=600, l2=0.25, sampled=True)
SUM = sensing("finite", (3, 2), seed=4, n=1200, l2=0.25)
BALL = denoising("ball", (8, 6), seed=5, l1=0.2)
PSD = denoising("psd", (7, 7), seed=6, l1=0.2, kind="psd")
NORM = denoising("norm", (6, 8), seed=7, l1=0.1, kind="norm", share=0.8)
LN8 = math.log(8)


@pytest.mark.parametrize("eps", [2.0, 0.25])
def test_example_1_corollary_3(eps):
    """With lam in gamma (T9): mu = 7 eps/(46 lam m d), eta = mu/(2 lam + 2 mu)."""
    lam, md, C0 = 0.5, 48, 20.0
    p = wp.theory.parameters(EX1.problem, eps, constants="paper", C0=C0)
    mu = 7 * eps / (46 * lam * md)
    assert p.mu == pytest.approx(mu)
    assert p.delta == pytest.approx(7 * eps / 32)
    assert p.eta == pytest.approx(mu / (2 * lam + 2 * mu))
    assert p.inner == math.ceil(8 / 3 * LN8 * (lam / mu + 1))
    assert p.inner + 1 == p.T
    sigma2 = 0.25 * md
    assert [p.k_s(s) for s in (1, 2, 5)] == [
        math.ceil(32 * sigma2 / C0 * f) for f in (1, 2, 16)
    ]
    assert p.k_t == 0
    assert math.ceil(math.log2(C0 / eps) + 2) == p.S
    assert p.bound(p.S) <= eps
    assert p.bound(p.S - 1) > eps
    repaired = wp.theory.parameters(EX1.problem, eps, constants="repaired", C0=C0)
    assert repaired.inner == math.ceil(16 / 5 * LN8 * (lam / mu + 1))
    assert (repaired.k_s(3), repaired.eta, repaired.S) == (p.k_s(3), p.eta, p.S)


def test_example_2_corollary_4():
    p = wp.theory.parameters(EX2.problem, 1.5, constants="paper", C0=12.0)
    flat = EX2.pieces[0].reshape(9, -1)
    theta = min(np.linalg.norm(flat, 2) ** 2 / 2, (flat**2).sum(1).max())
    mu = 7 * 1.5 / (92 * math.log(9))
    assert p.mu == pytest.approx(mu)
    assert p.beta == pytest.approx(1 + theta / mu, rel=1e-6)
    assert p.eta == pytest.approx(mu / (2 * theta + 2 * mu), rel=1e-6)
    assert p.inner == math.ceil(8 / 3 * LN8 * (theta / mu + 1))
    assert p.k_t == 0
    assert math.ceil(math.log2(12.0 / 1.5) + 2) == p.S


def test_example_3_elastic_net():
    """T17: a = 1 + 2 l2 (tight frame), bR = 2 l2 + l1/mu, k_t > 0.

    The paper prints bG = sup |A|_F^2, which is 6 here; G itself is 1-smooth, which the
    repaired set uses.
    """
    eps, C0 = 0.3, 10.0
    mu = 7 * eps / (46 * 0.1 * 6)
    A = EX3.problem.loss.draw(np.random.default_rng(0), 50)[0].A
    beta_G = float((A**2).sum(axis=(1, 2)).max())
    assert beta_G == pytest.approx(6.0)
    beta = beta_G + 0.4 + 0.1 / mu
    p = wp.theory.parameters(EX3.problem, eps, constants="paper", C0=C0)
    assert p.alpha == pytest.approx(1.4)
    assert p.beta_G == pytest.approx(beta_G)
    assert p.mu == pytest.approx(mu)
    assert p.beta == pytest.approx(beta)
    assert p.delta == pytest.approx(7 * eps / (32 * 1.4))
    assert p.eta == pytest.approx(1.4 / (2 * beta))
    assert p.inner == math.ceil(8 / 3 * LN8 * beta / 1.4)
    assert p.k_t == math.ceil(32 * (6 / 1.4) ** 2)
    assert p.k_s(2) == math.ceil(64 * EX3.sigma**2 / (1.4 * C0))
    repaired = wp.theory.parameters(EX3.problem, eps, constants="repaired", C0=C0)
    assert repaired.k_t == math.ceil(64 * 6 / 1.4)  # T6 with T7
    smaller = 1 + 0.4 + 0.1 / mu
    assert repaired.beta == pytest.approx(smaller)
    assert repaired.inner == math.ceil(16 / 5 * LN8 * smaller / 1.4)


def test_smooth_problem():
    """No smoothing: delta = 7 eps/(16 a), and eps/2 + eps/2 at X_S (T4)."""
    p = wp.theory.parameters(SMOOTH.problem, 0.1, constants="paper", C0=8.0)
    assert p.mu == 0.0
    assert p.delta == pytest.approx(7 * 0.1 / (16 * 1.5))
    assert p.beta == pytest.approx(6.5)  # 6 of the terms as printed, 2 l2 of R
    assert p.inner == math.ceil(8 / 3 * LN8 * 6.5 / 1.5) == 25
    assert p.eta == pytest.approx(1.5 / 13)
    assert p.k_t == 32 * 16
    assert p.S == math.ceil(math.log2(80) + 2) == 9
    assert p.bound(9) == pytest.approx(8.0 / 2**8 + 0.05)


def test_finite_sum():
    p = wp.theory.parameters(SUM.problem, 0.1, constants="paper", C0=8.0)
    assert p.finite_sum
    assert p.inner == 25
    assert p.k_t == 32 * 16
    assert p.k_s(1) == p.k_s(4) == 1200
    assert math.ceil(math.log(160) / math.log(12 / 5) + 1) == p.S
    repaired = wp.theory.parameters(SUM.problem, 0.1, constants="repaired", C0=8.0)
    assert repaired.inner == 6  # Algorithm 2 has no gap to repair
    assert repaired.k_t == 32 * 4  # but convex terms: 32 bG/a
    n, S, k_t = 1200, p.S, 32 * 16
    assert p.predicted_gradients <= n * S + 2 * k_t * (8 / 3 * LN8 * 6.5 / 1.5 + 1) * S


def test_changed_step_changes_the_inner_batch():
    """T2: k_t = 16 bG^2/(a b eta)."""
    p = wp.theory.parameters(SMOOTH.problem, 0.1, constants="paper", C0=8.0, eta=0.125)
    assert p.k_t == math.ceil(16 * 36 / (1.5 * 6.5 * 0.125))


def test_fresh_samples_of_every_step():
    """Without variance reduction 15/7 sigma^2/(a C0) 2^(s-1) do what 32 did.

    h_{t+1} <= (1 - eta) h_t + sigma^2/(2 b k) is run for all epochs and steps: it stays
    within the theorem's bound, and an eighth fewer samples would not.
    """
    for constants in ("paper", "repaired"):
        p = wp.theory.parameters(SMOOTH.problem, 1e-3, constants=constants, C0=8.0, sigma=9.0)
        base = 81.0 / (p.alpha * 8.0)
        assert [p.k_fresh(s) for s in (1, 2, 9)] == [
            math.ceil(15 / 7 * base * f) for f in (1, 2, 256)
        ]

        def last(factor, p=p, base=base):
            h, excess = 8.0, 0.0
            for s in range(1, p.S):
                for _ in range(p.inner):
                    noise = 81.0 / (factor * base * 2 ** (s - 1))
                    h = (1 - p.eta) * h + noise / (2 * p.beta)
                excess = max(excess, h / (8.0 * 0.5**s))
            return excess

        assert 0.9 < last(15 / 7) <= 1.0
        assert last(15 / 8) > 1.0
    assert wp.theory.parameters(SUM.problem, 0.1, C0=8.0).k_fresh(3) == 1200


def test_no_noise_still_takes_one_sample():
    p = wp.theory.parameters(SMOOTH.problem, 0.1, C0=8.0, sigma=0.0)
    assert [p.k_s(1), p.k_s(7)] == [1, 1]
    assert [p.k_fresh(1), p.k_fresh(7)] == [1, 1]


@pytest.mark.parametrize("case", [BALL, PSD, NORM, SUM], ids=lambda case: case.name)
def test_own_C0_bounds_the_smoothed_gap(case):
    """T18, at zero and at another start."""
    p = wp.theory.parameters(case.problem, 0.5)
    exact = smoothed_gap(case, p.mu or 1.0)
    assert exact * (1 - 1e-6) <= p.C0
    zero = np.zeros(case.shape)
    grad = case.quad.grad(zero) + case.smooth_grad_R(zero, p.mu or 1.0)
    assert float((grad**2).sum()) / (2 * case.alpha) * (1 + 1e-9) >= p.C0
    rng = np.random.default_rng(0)
    start = case.problem.spectral.random_point(rng, case.shape, 2, zero).dense()
    p = wp.theory.parameters(case.problem, 0.5, start=start)
    best, _ = case.smooth_optimum(p.mu or 1.0)
    assert case.smooth_value(start, p.mu or 1.0) - best <= p.C0 * (1 + 1e-6)


@pytest.mark.parametrize("case", [EX1, EX3], ids=lambda case: case.name)
def test_sampled_C0_errs_upwards_in_the_mean(case):
    found = [wp.theory.parameters(case.problem, 0.5, seed=seed) for seed in range(40)]
    exact = smoothed_gap(case, found[0].mu)
    C0 = np.array([p.C0 for p in found])
    assert C0.std() > 0
    assert C0.mean() - 2 * C0.std() / math.sqrt(40) >= exact
