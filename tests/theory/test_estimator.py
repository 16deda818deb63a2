"""The snapshot estimator: unbiased where the paper needs it, and Lemma 2's variance.

A finite population serves as the distribution, so G, X* and every variance are exact;
only the expectation over the method's own draws is taken by Monte Carlo.
"""

from __future__ import annotations

import numpy as np
import pytest
from theory._instances import sensing
from theory._runs import recorded, smoothing_for

import weakprox as wp

CASES = [
    sensing("smooth", (3, 2), seed=0, n=60, l2=0.1, noise=1.0, sampled=True),
    sensing("smoothed l1", (3, 2), seed=1, n=60, l1=0.1, l2=0.2, noise=1.0, sampled=True),
]
EPS, SEEDS, K_S, K_T, INNER, EPOCHS = 1.0, 200, 12, 5, 5, 2


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def runs(request):
    """X[seed, step], snapshot point of that step, and error of the estimator there."""
    case = request.param
    solver = wp.SVRGCG(rank=2, C0=10.0, k_s=K_S, k_t=K_T, inner=INNER, epochs=EPOCHS, delta=0.0)
    mu = smoothing_for(case, EPS)
    X, errors = [], []
    for seed in range(SEEDS):
        points, log, _ = recorded(case, solver, eps=EPS, seed=seed)
        X.append(points[:-1])
        errors.append(
            [
                weight * (point - A) - case.smooth_grad_R(point, mu) - case.quad.grad(point)
                for point, (A, weight, _) in zip(points[:-1], log, strict=True)
            ]
        )
    first = [INNER * (step // INNER) for step in range(EPOCHS * INNER)]
    points = np.array(X)
    return case, mu, points, points[:, first], np.array(errors), first


def mean_and_error(sample):
    return sample.mean(axis=0), sample.std(axis=0, ddof=1) / np.sqrt(len(sample))


def square(E):
    return (E**2).sum(axis=(-2, -1))


def test_first_step_of_an_epoch_is_unbiased(runs):
    *_, errors, first = runs
    for step in sorted(set(first)):
        mean, error = mean_and_error(errors[:, step])
        assert np.abs(mean / error).max() < 4.0


def test_later_steps_add_no_bias_to_the_snapshots_error(runs):
    *_, errors, first = runs
    for step, start in enumerate(first):
        if step != start:
            mean, error = mean_and_error(errors[:, step] - errors[:, start])
            assert np.abs(mean / error).max() < 4.0


def test_variance_is_that_of_its_two_independent_parts(runs):
    """E|e_t|^2 = var(g(X_s))/k_s + var(g(X_t) - g(X_s))/k_t, so k_s and k_t are honest."""
    case, _, X, snapshots, errors, first = runs

    def curved(D):
        return (case.spread_at(D) + case.spread_at(-D)) / 2 - case.spread_at(0 * D)

    for step in range(errors.shape[1]):
        at, now = snapshots[:, step], X[:, step]
        expected = [case.spread_at(x) / K_S for x in at]
        if step != first[step]:
            moved = [curved(x - y) / K_T for x, y in zip(now, at, strict=True)]
            expected = np.add(expected, moved)
        mean, error = mean_and_error(square(errors[:, step]) - np.array(expected))
        assert abs(mean) < 4 * error, step


@pytest.mark.parametrize("form", ["squared", "linear"])
def test_lemma2_bounds_the_variance(runs, form):
    """As printed, and with co-coercivity in place of one factor bG/a (T7)."""
    case, mu, X, snapshots, errors, _ = runs
    best, _ = case.smooth_optimum(mu)
    factor = 8 * case.term_smoothness / K_T
    if form == "squared":
        factor *= case.term_smoothness / case.alpha
    for step in range(errors.shape[1]):
        h_s = np.mean([case.smooth_value(x, mu) - best for x in snapshots[:, step]])
        h_st = np.mean([case.smooth_value(x, mu) - best for x in X[:, step]])
        sigma2 = np.mean([case.spread_at(x) for x in snapshots[:, step]])
        assert sigma2 <= case.sigma**2
        bound = factor * (h_s + h_st) + 2 * sigma2 / K_S
        mean, error = mean_and_error(square(errors[:, step]))
        assert mean + 2 * error <= bound, step


def test_gap_in_lemma1_is_real_and_the_repair_covers_it(runs):
    """T6: <X* - X_t, e> has a positive mean, at most h_t/4 + 2 sigma^2/(a k_s)."""
    case, mu, X, snapshots, errors, first = runs
    best, target = case.smooth_optimum(mu)
    for step, start in enumerate(first):
        if step == start:
            continue
        e = errors[:, start]
        mean, error = mean_and_error(((target - X[:, step]) * e).sum(axis=(1, 2)))
        assert mean > 4 * error, step
        h = np.mean([case.smooth_value(x, mu) - best for x in X[:, step]])
        sigma2 = np.mean([case.spread_at(x) for x in snapshots[:, step]])
        assert mean + 2 * error <= h / 4 + 2 * sigma2 / (case.alpha * K_S), step
