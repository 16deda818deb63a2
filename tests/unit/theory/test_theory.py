"""The theorems' parameters: the formulas, the two constant sets, and every override."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from registry import MATRICES, MEASURED, NOISY, SHAPE, numbers

import weakprox as wp
from weakprox import theory
from weakprox.linalg.simplex import project_capped
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, MaxAffine
from weakprox.solvers.paper.svrgcg import scheduled
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD
from weakprox.theory._theorems import estimate_sigma

M = numbers(*SHAPE)
MD = SHAPE[0] * SHAPE[1]
BALL = NuclearBall(3.0)


def sampler(rng, k):
    return M + rng.standard_normal((k, *SHAPE))


SMOOTH = wp.Problem(Denoising(M), None, BALL)
SPARSE = wp.Problem(Denoising(M), L1(0.5), BALL)
NOISY_SPARSE = wp.Problem(Denoising(sampler=sampler, shape=SHAPE), L1(0.5), BALL)
SENSING = wp.Problem(Sensing(MATRICES, MEASURED), ElasticNet(0.1, 0.2), BALL)


def test_denoising_with_l1_as_in_the_corollary():
    p = theory.parameters(SPARSE, eps=0.7)
    mu = 7 * 0.7 / (46 * 0.5 * MD)  # 7 eps / (92 gamma), gamma = lam m d / 2
    beta = 1 + 0.5 / mu
    assert p.mu == pytest.approx(mu)
    assert (p.alpha, p.beta_G) == (1.0, 1.0)
    assert p.beta == pytest.approx(beta)
    assert p.eta == pytest.approx(1 / (2 * beta))
    assert p.delta == pytest.approx(7 * 0.7 / 32)
    assert p.inner == math.ceil(8 / 3 * beta * math.log(8))
    assert p.inner + 1 == p.T
    assert p.epochs == p.S - 1
    assert p.k_t == 0  # samples cancel
    assert math.ceil(math.log(2 * p.C0 / 0.7) / math.log(12 / 5) + 1) == p.S
    assert p.bound(p.S) <= 0.7 * (1 + 1e-9)


def test_smooth_problems_are_not_smoothed():
    p = theory.parameters(SMOOTH, eps=0.7)
    assert p.mu == p.bias == 0.0
    assert p.beta == 1.0
    assert p.delta == pytest.approx(7 * 0.7 / 16)
    assert p.inner == math.ceil(8 / 3 * math.log(8))


def test_sampled_setting():
    p = theory.parameters(NOISY_SPARSE, eps=0.7)
    assert not p.finite_sum
    assert p.sigma == pytest.approx(math.sqrt(MD), rel=0.3)
    assert p.inner == math.ceil(16 / 5 * p.beta * math.log(8))  # the repaired set
    assert p.k_s(1) == math.ceil(32 * p.sigma**2 / p.C0)
    assert p.k_s(3) == math.ceil(4 * 32 * p.sigma**2 / p.C0)
    assert math.ceil(math.log2(2 * p.C0 / 0.7) + 1) == p.S
    printed = theory.parameters(NOISY_SPARSE, eps=0.7, constants="paper")
    assert printed.inner == math.ceil(8 / 3 * p.beta * math.log(8))


def test_inner_batches():
    """32 (L/a)^2 as printed; 32 L/a where the terms are convex, doubled when repaired."""
    finite = theory.parameters(SENSING, eps=0.5)
    kappa = SENSING.loss.term_smoothness / finite.alpha
    assert finite.k_t == math.ceil(32 * kappa)
    printed = theory.parameters(SENSING, eps=0.5, constants="paper")
    assert printed.k_t == math.ceil(32 * kappa**2)

    def draw(rng, k):
        picked = rng.integers(0, len(MEASURED), k)
        return MATRICES[picked], MEASURED[picked]

    loss = Sensing(sampler=draw, shape=SHAPE, term_smoothness=60.0, smoothness=3.0)
    sampled = wp.Problem(loss, ElasticNet(0.1, 0.2), BALL)
    assert theory.parameters(sampled, eps=0.5).k_t == math.ceil(64 * 60 / 0.4)
    assert theory.parameters(sampled, eps=0.5, constants="paper").k_t == math.ceil(
        32 * (60 / 0.4) ** 2
    )


@pytest.mark.parametrize("problem", [SPARSE, NOISY_SPARSE, SENSING], ids=["M", "draw", "A"])
def test_overrides_are_used(problem):
    p = theory.parameters(problem, 0.5, mu=0.1, C0=12.0, sigma=3.0, delta=0.01, eta=0.02)
    assert (p.mu, p.C0, p.sigma, p.delta, p.eta) == (0.1, 12.0, 3.0, 0.01, 0.02)
    theta = problem.constants().theta
    assert p.beta_R == pytest.approx(problem.constants().K + theta / 0.1)
    if problem is SENSING:  # k_t = 16 L/(b eta): follows the step (T2)
        assert p.k_t == math.ceil(16 * p.beta_term / (p.beta * 0.02))
    if problem is NOISY_SPARSE:
        assert p.k_s(1) == math.ceil(32 * 9 / 12.0)


def test_delta2_takes_its_share_of_eps():
    with_it, without = (theory.parameters(SPARSE, 1.0, delta2=d) for d in (0.1, 0.0))
    assert with_it.mu == pytest.approx(without.mu * (1 - 1.6 / 7))
    assert with_it.bound(with_it.S) <= 1.0 + 1e-9


def test_tight_C0_at_zero():
    """At X_1 = 0, min(tau |M|_2, |M|^2/2) bounds the gap, and the proximal form is less."""
    p = theory.parameters(SMOOTH, 0.1)
    gap = 0.5 * (M**2).sum() - wp.minimize(SMOOTH, wp.SVRGCG(5), eps=1e-9).value
    fw, strong = 3.0 * np.linalg.norm(M, 2), 0.5 * (M**2).sum()
    assert gap * (1 - 1e-9) <= p.C0 <= min(fw, strong) * (1 + 1e-9)


@pytest.mark.parametrize("tau", [0.05, 3.0])
def test_C0_is_the_better_of_the_two_safe_formulas(tau):
    """T18: the Frank-Wolfe gap, or strong convexity with the proximal minimum."""
    spectral = NuclearBall(tau)
    problem = wp.Problem(Denoising(M), L1(0.2), spectral)
    X = -spectral.compress(M, 2, np.random.default_rng(2)).dense()
    X *= tau / np.linalg.norm(X, "nuc")
    p = theory.parameters(problem, 0.5, start=X)
    g = X - M + 0.2 * np.clip(X / p.mu, -1, 1)
    wolfe = (g * X).sum() + tau * np.linalg.norm(g, 2)
    s = np.linalg.svd(X - g, compute_uv=False)
    strong = 0.5 * (g**2).sum() - 0.5 * ((project_capped(s, tau) - s) ** 2).sum()
    assert strong <= wolfe  # with the exact minimum it always is
    assert pytest.approx(strong) == p.C0


@pytest.mark.parametrize(
    "spectral",
    [BALL, NuclearNorm(0.3), TracePSD(2.0), Exact(lambda A, w: A, lambda X: 0.0)],
    ids=["ball", "norm", "psd", "exact"],
)
@pytest.mark.parametrize("penalty", [L1(0.2), None], ids=["l1", "none"])
def test_C0_bounds_the_initial_gap_of_the_smoothed_problem(spectral, penalty):
    sym = numbers(5, 5) + numbers(5, 5).T
    problem = wp.Problem(Denoising(sym), penalty, spectral)
    start = spectral.random_point(np.random.default_rng(1), (5, 5), 1, sym).dense()
    best = wp.minimize(problem, wp.SVRGCG(5), eps=1e-3).value
    for X in (None, start):
        p = theory.parameters(problem, 1.0, start=X)
        Z = np.zeros((5, 5)) if X is None else X
        value = problem.value(spectral.compress(Z, 5, np.random.default_rng(0)))
        assert value - best - p.bias - 1e-6 <= p.C0


def test_predictions_are_what_a_run_spends():
    for problem in (SPARSE, NOISY_SPARSE, SENSING):
        result = wp.minimize(problem, wp.SVRGCG(3), eps=4.0, stop_when_certified=False, seed=3)
        p = result.parameters
        assert result.counts.svds == p.predicted_svds
        assert result.counts.samples == p.predicted_samples
        assert result.counts.gradients >= p.predicted_gradients > 0


def test_one_affine_piece_needs_no_small_mu():
    linear = wp.Problem(Denoising(M), MaxAffine(NOISY[:1]), BALL)
    assert theory.parameters(linear, 0.5).mu == 0.0
    assert theory.parameters(linear, 0.5).beta_R == 0.0
    assert theory.parameters(linear, 0.5).bias == 0.0


def test_text_names_what_matters():
    text = str(theory.parameters(NOISY_SPARSE, 0.5))
    for word in ("Algorithm 1", "repaired", "k_s", "predicted", "SVDs"):
        assert word in text


def test_schedules():
    assert scheduled(None, 7.0, 1, 2) == 7.0
    assert scheduled(3, 7.0, 1, 2) == 3.0
    assert scheduled(lambda epoch, step: epoch + 10 * step, 7.0, 1, 2) == 21.0


def test_an_epoch_leaves_an_eighth():
    p = theory.parameters(SMOOTH, 0.1)
    for inner in (1, 2, 3, 100):
        share = replace(p, inner=inner).contraction
        assert share <= 1.0
        assert (1.0 - share) ** inner <= 1 / 8
        if inner == 100:
            assert (1.0 - share) ** inner == pytest.approx(1 / 8, rel=0.03)


def test_noise_that_is_not_declared_is_the_largest_seen():
    """Samples scatter more the further X is from zero, so zero alone would show none."""
    seen = []

    def spread(X, batch):
        seen.append(float(np.sum(X * X)))
        return seen[-1]

    loss = SimpleNamespace(sigma=None, samples_cancel=False, reference=M, spread=spread)
    loss.draw = lambda rng, k: k
    problem = SimpleNamespace(loss=loss, shape=SHAPE, spectral=BALL)
    found = estimate_sigma(problem, loss, np.random.default_rng(0))
    assert min(seen) == 0.0
    assert found == pytest.approx(math.sqrt(max(seen)))
    assert found > 0.0
