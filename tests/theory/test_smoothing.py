"""Smoothing constants (theta, gamma, K) as numbers, and that they cannot be improved."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine, SignedL1, Zero
from weakprox.penalties.base import Smoothed

SHAPE = (3, 5)
UNIT = np.eye(15).reshape(15, 3, 5)
PIECES = MaxAffine(3.0 * UNIT[:4])  # orthogonal: |A|^2 = 9 and max |A_i|^2 = 9
OPPOSITE = MaxAffine(np.stack([2 * UNIT[0], -2 * UNIT[0]]))
ALIGNED = MaxAffine(np.stack([UNIT[0], 2 * UNIT[0], -UNIT[0]]))  # |A|^2 = 6, max = 4


@pytest.mark.parametrize(
    ("penalty", "theta", "gamma", "K"),
    [
        (L1(2.0), 2.0, 15.0, 0.0),  # T9: lam, lam m d/2
        (0.5 * L1(2.0), 1.0, 7.5, 0.0),
        (GroupL2(4.0, "rows"), 4.0, 6.0, 0.0),  # lam, lam (3 rows)/2
        (GroupL2(4.0, "columns"), 4.0, 10.0, 0.0),
        (ElasticNet(2.0, 0.25), 2.0, 15.0, 0.5),  # T17: l1, l1 m d/2, 2 l2
        (PIECES, 4.5, math.log(4), 0.0),  # T11: |A|^2/2, log n
        (ALIGNED, 3.0, math.log(3), 0.0),
        (OPPOSITE, 4.0, math.log(2), 0.0),
        (2.0 * PIECES, 18.0, math.log(4), 0.0),
        (L1(2.0) + GroupL2(4.0), 6.0, 21.0, 0.0),  # constants add
        (L1(1.0) + ElasticNet(2.0, 0.5), 3.0, 22.5, 1.0),
        (SignedL1(2.0, 0.5), 2.0, 15.0, 0.0),  # the larger price, on either side
        (SignedL1(0.5, 2.0, 0.25), 2.0, 15.0, 0.5),
        (Zero(), 0.0, 0.0, 0.0),
    ],
)
def test_constants(penalty, theta, gamma, K):
    found = penalty.smoothability(SHAPE)
    assert_allclose([found.theta, found.gamma, found.K], [theta, gamma, K], rtol=1e-9)
    smooth = Smoothed.of(penalty, 0.1, SHAPE)
    assert smooth.smoothness == pytest.approx(K + theta / 0.1)
    assert smooth.bias == pytest.approx(gamma * 0.1)


def test_aligned_pieces_use_the_smaller_of_the_two_bounds():
    """min(|A|^2/2, max |A_i|^2): here max is the smaller one."""
    many = MaxAffine(np.stack([UNIT[0]] * 10))
    assert many.smoothability(SHAPE).theta == pytest.approx(1.0)  # |A|^2/2 = 5


def huber(x, mu):
    return np.where(np.abs(x) <= mu, x**2 / (2 * mu), np.abs(x) - mu / 2)


@pytest.mark.parametrize("mu", [1.0, 0.05])
def test_smoothed_values_are_the_papers_functions(mu):
    X = np.random.default_rng(0).standard_normal(SHAPE)
    rows = np.linalg.norm(X, axis=1)
    z = PIECES.pieces(X)
    expected = {
        L1(2.0): 2.0 * huber(X, mu).sum(),
        ElasticNet(2.0, 0.3): 2.0 * huber(X, mu).sum() + 0.3 * (X**2).sum(),
        GroupL2(2.0): 2.0 * huber(rows, mu).sum(),
        PIECES: mu * math.log(np.mean(np.exp(z / mu))),
    }
    for penalty, value in expected.items():
        assert Smoothed.of(penalty, mu, SHAPE).value(X) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "penalty",
    [L1(2.0), ElasticNet(2.0, 0.3), GroupL2(2.0), SignedL1(2.0, 0.5, 0.3), PIECES],
)
def test_gamma_is_attained_far_from_the_kinks(penalty):
    """R - R_mu reaches gamma mu: a smaller gamma would be wrong."""
    mu = 0.01
    X = np.arange(1.0, 16.0).reshape(SHAPE)
    smooth = Smoothed.of(penalty, mu, SHAPE)
    assert penalty.value(X) - smooth.value(X) == pytest.approx(smooth.bias, rel=1e-9)


@pytest.mark.parametrize(
    "penalty",
    [L1(2.0), ElasticNet(2.0, 0.3), GroupL2(2.0), SignedL1(0.5, 2.0, 0.3), OPPOSITE],
)
def test_smoothness_is_attained_at_the_kinks(penalty):
    mu = 0.01
    smooth = Smoothed.of(penalty, mu, SHAPE)
    slopes = []
    for u in np.linspace(-3 * mu, 3 * mu, 61):
        X, D = u * UNIT[0], 1e-7 * UNIT[0]
        slopes.append(np.linalg.norm(smooth.grad(X + D) - smooth.grad(X - D)) / 2e-7)
    assert 0.99 * smooth.smoothness <= max(slopes) <= smooth.smoothness * (1 + 1e-6)


def test_log_sum_exp_does_not_overflow():
    smooth = Smoothed.of(PIECES, 1e-8, SHAPE)
    X = 1e6 * np.ones(SHAPE)
    assert math.isfinite(smooth.value(X))
    assert smooth.value(X) <= PIECES.value(X) <= smooth.value(X) + smooth.bias + 1e-6
