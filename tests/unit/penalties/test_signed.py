"""Two prices: closed forms, and non-negative answers that a certificate covers."""

import numpy as np
import pytest
from registry import numbers

import weakprox as wp
from weakprox.errors import InputError
from weakprox.penalties import L1, ElasticNet, SignedL1


def test_value_by_hand():
    X = np.array([[1.0, -2.0], [0.0, 3.0]])
    assert SignedL1(0.5, 10.0, 0.1).value(X) == pytest.approx(0.5 * 4 + 10 * 2 + 0.1 * 14)


def test_equal_prices_are_the_elastic_net():
    X = numbers(6, 4)
    assert SignedL1(0.7, 0.7).value(X) == pytest.approx(L1(0.7).value(X))
    assert SignedL1(0.7, 0.7, 0.2).value(X) == pytest.approx(ElasticNet(0.7, 0.2).value(X))


def test_a_dual_step_is_the_soft_threshold_of_each_sign():
    """x - t y is the proximal point: what is above falls by a, what is below rises by b."""
    v, step = np.array([[3.0, 0.2, -0.5, -4.0]]), 0.5
    moved = v - step * SignedL1(1.0, 4.0).ascend(None, v, 1.0 / step)
    assert np.allclose(moved, [[2.5, 0.0, 0.0, -2.0]])


def test_multiples_scale_all_prices():
    assert 2.0 * SignedL1(1.0, 3.0, 0.5) == SignedL1(2.0, 6.0, 1.0)


@pytest.mark.parametrize("bad", [-1.0, np.nan, "much", None])
def test_bad_prices(bad):
    for place in range(3):
        prices = [1.0, 1.0, 0.0]
        prices[place] = bad
        with pytest.raises(InputError):
            SignedL1(*prices)


def test_a_high_price_makes_a_certified_answer_nonnegative():
    """Against CVXPY with the constraint itself."""
    cvxpy = pytest.importorskip("cvxpy")
    M = numbers(8, 6, seed=3) + np.outer(np.ones(8), np.linspace(0, 2, 6))
    tau, lam = 4.0, 0.2
    loss = wp.losses.Denoising(M)
    problem = wp.Problem(loss, SignedL1(lam, 100.0), wp.spectral.NuclearBall(tau))
    result = wp.minimize(problem, tol=1e-6)
    X = cvxpy.Variable(M.shape)
    value = 0.5 * cvxpy.sum_squares(X - M) + lam * cvxpy.sum(X)
    wanted = cvxpy.Problem(cvxpy.Minimize(value), [X >= 0, cvxpy.norm(X, "nuc") <= tau])
    best = wanted.solve(solver="CLARABEL")
    assert result.certified
    assert result.certificate.lower_bound <= best + 1e-6
    assert result.value == pytest.approx(best, rel=1e-5)
    assert result.X.min() >= -1e-4
    assert np.linalg.norm(result.X - X.value) <= 1e-2
