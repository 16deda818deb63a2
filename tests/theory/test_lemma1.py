"""Lemma 1 without noise, step by step.

With the full gradient the lemma is an inequality between numbers: if
psi(V) <= psi(X~) + delta and 2 b eta <= a, then

    f_mu(X+) <= (1 - eta) f_mu(X) + eta f_mu(X~) + b eta^2 delta.
"""

from __future__ import annotations

import numpy as np
import pytest
from theory._instances import denoising, sensing
from theory._model import prox
from theory._runs import recorded, smoothing_for

import weakprox as wp

CASES = [
    denoising("l1 ball", (8, 6), seed=0, l1=0.2),
    denoising("l1 psd", (7, 7), seed=1, l1=0.15, kind="psd"),
    denoising("l1 nuclear norm", (6, 8), seed=2, l1=0.1, kind="norm", share=0.9),
    denoising("max affine ball", (6, 5), seed=3, pieces=7),
    sensing("elastic net ball", (4, 3), seed=4, n=120, l1=0.1, l2=0.2, rank=2),
    sensing("elastic net psd", (4, 4), seed=5, n=96, l1=0.1, l2=0.2, kind="psd", rank=2),
    sensing("nuclear norm", (4, 3), seed=6, n=60, l2=0.1, kind="norm", share=0.5, rank=2),
    sensing("plain ball", (4, 3), seed=7, n=60, rank=2),
]
EPS = 1.0
names = [case.name for case in CASES]


def deterministic(case, rank, factor=1.0):
    """Two epochs of 12 steps with the full gradient; eta = min(1, factor a/(2b))."""
    mu = smoothing_for(case, EPS)
    eta = min(1.0, factor * case.alpha / (2 * case.beta(mu)))
    everything = 10**9  # at least n inner samples mean the full gradient
    solver = wp.SVRGCG(
        rank=rank, k_t=everything, delta=0.0, eta=eta, epochs=2, inner=12, answer="iterate"
    )
    points, log, result = recorded(case, solver, eps=EPS)
    assert result.counts.samples == 0
    assert result.parameters.mu == pytest.approx(mu)
    return points, log, result.parameters


def psi(case, V, A, weight):
    return float(((V - A) ** 2).sum()) + 2 * case.h(V) / weight


def others(case, mu, rank):
    """Fixed feasible points of rank at most `rank`: zero, a cut optimum, random ones."""
    rng = np.random.default_rng(9)
    spectral = case.problem.spectral
    like = np.zeros(case.shape)
    best = case.smooth_optimum(mu)[1]
    cut = spectral.compress(best, rank, rng).dense()
    drawn = [spectral.random_point(rng, case.shape, r, like).dense() for r in (1, rank, rank)]
    return [like, cut, *drawn, 0.5 * drawn[0]]


def check_steps(case, points, log, p, targets, allowed):
    """The lemma at every step for every X~, with delta = allowed(oracle's answer)."""
    mu = p.mu
    values = [case.smooth_value(X, mu) for X in points]
    for t, (A, weight, found) in enumerate(log):
        eta = weight / (2 * p.beta)
        delta = allowed(found)
        mine = psi(case, found.V.dense(), A, weight)
        for other in targets:
            theirs = psi(case, other, A, weight)
            assert mine <= theirs + delta + 1e-9 * (1 + abs(theirs))
            right = (1 - eta) * values[t] + eta * case.smooth_value(other, mu)
            right += p.beta * eta**2 * delta
            assert values[t + 1] <= right + 1e-10 * (1 + abs(right)), (t, eta)


@pytest.mark.parametrize("factor", [1.0, 0.4])
@pytest.mark.parametrize("case", CASES, ids=names)
def test_full_rank_step_beats_every_feasible_point(case, factor):
    full = min(case.shape)
    points, log, p = deterministic(case, full, factor)
    best = case.smooth_optimum(p.mu)[1]
    check_steps(case, points, log, p, [best, *others(case, p.mu, full)], lambda found: 0.0)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=names)
def test_truncated_step_beats_points_of_its_rank(case, rank):
    points, log, p = deterministic(case, rank)
    assert max(found.V.rank for _, _, found in log) <= rank
    check_steps(case, points, log, p, others(case, p.mu, rank), lambda found: 0.0)


@pytest.mark.parametrize("case", CASES, ids=names)
def test_proved_delta_covers_points_of_any_rank(case):
    points, log, p = deterministic(case, 1)
    best = case.smooth_optimum(p.mu)[1]
    targets = [best, *others(case, p.mu, min(case.shape))]
    check_steps(case, points, log, p, targets, lambda found: found.delta)
    # and it is needed: some step of rank 1 is beaten by a point of higher rank
    exact = [prox(A, w, case.kind, case.size) for A, w, _ in log]
    missing = [
        psi(case, found.V.dense(), A, w) - psi(case, V, A, w)
        for (A, w, found), V in zip(log, exact, strict=True)
    ]
    assert max(missing) > 1e-3
    assert all(m <= found.delta + 1e-9 for m, (_, _, found) in zip(missing, log, strict=True))


def test_targets_are_gradient_steps_of_length_one_over_alpha():
    """At eta = a/(2b): A = X - (grad G + grad R_mu)/a, with a plus sign (T1)."""
    for case in CASES:
        points, log, p = deterministic(case, min(case.shape))
        for X, (A, weight, _) in zip(points, log, strict=False):
            grad = case.quad.grad(X) + case.smooth_grad_R(X, p.mu)
            assert weight == pytest.approx(case.alpha)
            np.testing.assert_allclose(A, X - grad / case.alpha, atol=1e-9)


def test_condition_on_the_step_is_not_idle():
    """Far above 2 b eta = a the inequality fails: the tests above can fail."""
    case = CASES[4]
    points, log, p = deterministic(case, min(case.shape), factor=np.inf)
    best, _ = case.smooth_optimum(p.mu)
    values = [case.smooth_value(X, p.mu) for X in points]
    eta = log[0][1] / (2 * p.beta)
    assert eta == pytest.approx(1.0)
    assert values[1] > (1 - eta) * values[0] + eta * best + 0.1
