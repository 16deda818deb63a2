"""Losses of unbounded curvature: steps that are too long are taken back."""

import numpy as np
import pytest

import weakprox as wp
from weakprox.losses import Completion
from weakprox.penalties import L1, GroupL2
from weakprox.solvers import DavisYin
from weakprox.solvers._stored import Tried
from weakprox.spectral import NuclearBall


def counts(mean, seed=0, shape=(12, 9)):
    return np.random.default_rng(seed).poisson(mean, shape).astype(float)


def completed(M, **options):
    rows, cols = np.indices(M.shape).reshape(2, -1)
    return Completion(rows, cols, M.ravel(), M.shape, loss="poisson", **options)


def separable_optimum(M, lam):
    """Minimum of e^x - y x + lam |x| + const over each entry, for counts above 1 + lam."""
    x = np.log(M - lam)
    return float((np.exp(x) - M * x + M * np.log(M) - M + lam * np.abs(x)).sum())


@pytest.mark.parametrize("mean", [100.0, 1e4])
@pytest.mark.parametrize("tau", [1e3, 1e5])
def test_counts_with_a_ball_that_does_not_act(mean, tau):
    M = counts(mean)
    result = wp.minimize(wp.Problem(completed(M), L1(1.0), NuclearBall(tau)), progress=False)
    best = separable_optimum(M, 1.0)
    assert result.solver == "DavisYin"
    assert result.certificate.lower_bound <= best
    assert result.value == pytest.approx(best, rel=1e-4)


def test_groups_of_large_counts_are_certified():
    problem = wp.Problem(completed(counts(1e4, 1)), GroupL2(1.0), NuclearBall(1e3))
    assert wp.minimize(problem, progress=False).status is wp.Status.CERTIFIED


def test_a_resumed_run_has_the_same_bits():
    problem = wp.Problem(completed(counts(1e4, 1)), GroupL2(1.0), NuclearBall(1e3))
    whole = wp.minimize(problem, DavisYin(), progress=False, max_svds=64)
    part = wp.minimize(problem, DavisYin(), progress=False, max_svds=16)
    again = wp.minimize(problem, DavisYin(), progress=False, max_svds=64, resume=part)
    assert again.value == whole.value
    np.testing.assert_array_equal(again.X, whole.X)


@pytest.mark.parametrize("intercepts", ["none", "both"])
def test_the_smoothness_at_a_point_bounds_differences_of_gradients(intercepts):
    M = counts(5.0)
    M[0, 0] = 40.0
    weights = np.linspace(0.5, 2.0, M.size)
    rng = np.random.default_rng(0)
    scaling = rng.uniform(0.5, 2.0, M.shape[0]), rng.uniform(0.5, 2.0, M.shape[1])
    loss = completed(M, weights=weights, scaling=scaling, intercepts=intercepts)
    X = rng.standard_normal(M.shape)
    seen = 0.0
    for _ in range(20):
        move = 1e-6 * rng.standard_normal(M.shape)
        turn = loss.grad(X + move, loss.everything()) - loss.grad(X, loss.everything())
        seen = max(seen, float((turn * move).sum() / (move**2).sum()))
    found = loss.capabilities.smoothness_at(X)
    assert seen <= found * (1 + 1e-3)
    if intercepts == "none":  # attained by the entry of the largest curvature
        factors = 1.0 / np.outer(*scaling)
        bends = weights.reshape(M.shape) * factors**2 * np.exp(factors * X)
        assert found == pytest.approx(float(bends.max()), rel=1e-12)
        at = np.unravel_index(int(bends.argmax()), M.shape)
        move = np.zeros(M.shape)
        move[at] = 1e-6
        turn = loss.grad(X + move, loss.everything()) - loss.grad(X, loss.everything())
        assert turn[at] / 1e-6 == pytest.approx(found, rel=1e-4)


def test_other_losses_have_bounded_curvature():
    M = counts(5.0)
    rows, cols = np.indices(M.shape).reshape(2, -1)
    loss = Completion(rows, cols, M.ravel(), M.shape)
    assert loss.capabilities.smoothness_at is None


def test_the_curvature_between_points():
    X = np.array([[1.0, 2.0]])
    tried = Tried(X, None, 0.0, X, 3.0 * X)
    assert tried.bend(X + 1.0, 3.0 * (X + 1.0)) == pytest.approx(3.0)
    assert tried.bend(X, 3.0 * X) == 0.0
    assert tried.bend(X + 1.0, np.array([[np.inf, 0.0]])) == np.inf
    assert tried.bend(X + 1.0, np.array([[1e200, 0.0]])) == np.inf
