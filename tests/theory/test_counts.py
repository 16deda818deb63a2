"""Samples and gradients: what is drawn, what is counted, and the paper's totals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from theory._instances import denoising, sensing
from theory._runs import QUIET, recorded

import weakprox as wp

EX1 = denoising("ex 1", (8, 6), seed=0, l1=0.15, noise=0.5)
EX3 = sensing("ex 3", (3, 2), seed=1, n=600, l1=0.1, l2=0.2, sampled=True)
SMOOTH = sensing("smooth", (3, 2), seed=2, n=600, l2=0.1, sampled=True)
SUM = sensing("finite", (3, 2), seed=3, n=1200, l1=0.1, l2=0.2)


class Counting:
    """A sampler that remembers how many samples it was asked for, call by call."""

    def __init__(self, M, noise):
        self.M, self.noise, self.asked = M, noise, []

    def __call__(self, rng, k):
        self.asked.append(k)
        return self.M + self.noise * rng.standard_normal((k, *self.M.shape))


def test_denoising_draws_nothing_in_its_inner_loop():
    M = EX1.quad.q.reshape(8, 6)
    sampler = Counting(M, 0.5)
    loss = wp.losses.Denoising(sampler=sampler, shape=(8, 6), sigma=EX1.sigma)
    problem = wp.Problem(loss, wp.penalties.L1(0.15), wp.spectral.NuclearBall(5.0))
    sampler.asked.clear()  # one trial draw is made to learn the shape
    result = wp.minimize(problem, wp.SVRGCG(rank=3, C0=12.0), eps=1.0, **QUIET)
    p, counts = result.parameters, result.counts
    snapshots = [p.k_s(s) for s in range(1, p.S)]
    first, asked = sampler.asked[0], sampler.asked[1 : 1 + len(snapshots)]
    assert asked == snapshots
    final = sum(sampler.asked[1 + len(snapshots) :])  # in groups, to see how they scatter
    assert first == final == counts.evaluation_samples // 2
    assert counts.samples == counts.gradients == sum(snapshots) == p.predicted_samples
    assert counts.svds == p.epochs * p.inner == p.predicted_svds
    assert counts.rank_one_svds == 3 * counts.svds


def test_denoising_ignores_the_inner_batch_size():
    ends = [
        wp.minimize(EX1.problem, wp.SVRGCG(rank=3, C0=12.0, k_t=k_t), eps=1.0, seed=4, **QUIET)
        for k_t in (None, 32)
    ]
    assert np.array_equal(ends[0].X, ends[1].X)
    assert ends[0].counts.samples == ends[1].counts.samples


def test_denoising_target_is_the_sample_mean_less_the_clipped_iterate():
    """Item 13: A_t = Mbar_s - lam clip(X_t/mu), Mbar_s the same for a whole epoch."""
    solver = wp.SVRGCG(rank=3, C0=12.0, epochs=2, inner=6)
    points, log, result = recorded(EX1, solver, eps=1.0)
    mu = result.parameters.mu
    means = np.array(
        [
            A + 0.15 * np.clip(X / mu, -1, 1)
            for X, (A, _, _) in zip(points[:-1], log, strict=True)
        ]
    )
    for epoch in (means[:6], means[6:]):
        np.testing.assert_allclose(epoch, epoch[:1] + 0 * epoch, atol=1e-10)
    assert np.abs(means[0] - means[6]).max() > 1e-3
    M = EX1.quad.q.reshape(8, 6)
    spread = 0.5 / math.sqrt(result.parameters.k_s(2))
    assert np.abs(means[6] - M).max() < 5 * spread


def test_one_given_matrix_is_never_sampled():
    case = denoising("given", (8, 6), seed=5, l1=0.15)
    result = wp.minimize(case.problem, wp.SVRGCG(rank=3), eps=1.0, **QUIET)
    assert result.counts.samples == 0
    assert result.counts.full_gradients == result.parameters.epochs + 1  # and one for C0


@pytest.mark.parametrize("constants", ["paper", "repaired"])
@pytest.mark.parametrize("case", [EX3, SMOOTH], ids=lambda case: case.name)
def test_sampled_sensing_counts_two_gradients_per_inner_sample(case, constants):
    solver = wp.SVRGCG(rank=2, C0=8.0, constants=constants)
    result = wp.minimize(case.problem, solver, eps=0.3, **QUIET)
    p, counts = result.parameters, result.counts
    snapshots = sum(p.k_s(s) for s in range(1, p.S))
    inner = p.epochs * (p.inner - 1) * p.k_t  # the first step needs no samples
    assert p.k_t > 0
    assert counts.samples == snapshots + inner == p.predicted_samples
    assert counts.gradients == snapshots + 2 * inner == p.predicted_gradients


def test_finite_sensing_counts_two_gradients_per_inner_sample():
    result = wp.minimize(SUM.problem, wp.SVRGCG(rank=2, C0=8.0), eps=0.3, **QUIET)
    p, counts = result.parameters, result.counts
    inner = p.epochs * (p.inner - 1) * p.k_t
    assert 0 < p.k_t < 1200
    assert counts.samples == inner == p.predicted_samples
    assert counts.gradients == 1200 * p.epochs + 2 * inner == p.predicted_gradients


def test_full_gradients_are_counted_where_they_are_cheaper_than_samples():
    """k_t >= n: the snapshot serves the first step, all terms each of the others."""
    case = sensing("few terms", (3, 2), seed=5, n=60)
    result = wp.minimize(case.problem, wp.SVRGCG(rank=2, C0=8.0), eps=0.3, **QUIET)
    p, counts = result.parameters, result.counts
    assert p.k_t > 60
    assert counts.samples == p.predicted_samples == 0
    assert counts.gradients == 60 * p.epochs * p.inner == p.predicted_gradients


@pytest.mark.parametrize("eps", [1.0, 0.3, 0.07])
@pytest.mark.parametrize("constants", ["paper", "repaired"])
@pytest.mark.parametrize("case", [EX3, SMOOTH], ids=lambda case: case.name)
def test_samples_stay_below_the_papers_total(case, constants, eps):
    """Item 8, and T6 for the repaired set, with T3's allowance for rounding."""
    C0 = 8.0
    p = wp.theory.parameters(case.problem, eps, constants=constants, C0=C0)
    a, b, bG = case.alpha, p.beta, case.term_smoothness
    factor, steps = (32, 8 / 3) if constants == "paper" else (64, 16 / 5)
    k_t = math.ceil(factor * (bG / a) ** 2)
    epochs = math.log2(C0 / eps) + 2
    total = 128 * case.sigma**2 / (a * eps) + k_t * (steps * b / a * math.log(8) + 1) * epochs
    assert p.predicted_samples <= total + p.epochs
    if eps == 1.0:
        solver = wp.SVRGCG(rank=2, C0=C0, constants=constants)
        result = wp.minimize(case.problem, solver, eps=eps, **QUIET)
        assert result.counts.samples <= total + p.epochs


def test_pilot_draws_for_C0_are_counted_too():
    given = wp.minimize(EX1.problem, wp.SVRGCG(rank=3, C0=12.0), eps=1.0, **QUIET)
    own = wp.minimize(EX1.problem, wp.SVRGCG(rank=3), eps=1.0, **QUIET)
    for result, pilot in ((given, 0), (own, 64)):
        p = result.parameters
        snapshots = sum(p.k_s(s) for s in range(1, p.S))
        assert result.counts.samples == snapshots + pilot == p.predicted_samples
