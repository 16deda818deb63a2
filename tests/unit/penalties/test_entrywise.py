"""L1, ElasticNet and Zero: values, the Huber function, proximal steps, constants."""

import numpy as np
import pytest
from registry import DOUBLE, numbers

from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.pending import formed
from weakprox.penalties import L1, ElasticNet, GroupL2, Zero
from weakprox.penalties.base import Smoothed

X = numbers(6, 4, seed=110)
by_backend = pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
MUS = (1.0, 0.05, 1e-6)


def huber(x, mu):
    return np.where(np.abs(x) <= mu, x**2 / (2 * mu), np.abs(x) - mu / 2)


@by_backend
@pytest.mark.parametrize("mu", MUS)
def test_smoothed_l1_is_the_huber_function(backend, mu):
    smooth = Smoothed.of(L1(0.7), mu, X.shape)
    Xb = backend.array(X)
    assert smooth.value(Xb) == pytest.approx(0.7 * huber(X, mu).sum())
    assert to_numpy(smooth.grad(Xb)) == pytest.approx(0.7 * np.clip(X / mu, -1, 1))
    assert smooth.smoothness == pytest.approx(0.7 / mu)
    assert smooth.bias == pytest.approx(0.7 * 24 / 2 * mu)  # with lam: T9 of the spec


@by_backend
@pytest.mark.parametrize("mu", MUS)
def test_smoothed_elastic_net_keeps_the_quadratic(backend, mu):
    smooth = Smoothed.of(ElasticNet(0.7, 0.3), mu, X.shape)
    Xb = backend.array(X)
    assert smooth.value(Xb) == pytest.approx(0.7 * huber(X, mu).sum() + 0.3 * (X**2).sum())
    assert to_numpy(smooth.grad(Xb)) == pytest.approx(0.7 * np.clip(X / mu, -1, 1) + 0.6 * X)
    assert smooth.smoothness == pytest.approx(0.6 + 0.7 / mu)


@by_backend
def test_values(backend):
    Xb = backend.array(X)
    assert L1(0.7).value(Xb) == pytest.approx(0.7 * np.abs(X).sum())
    assert ElasticNet(0.7, 0.3).value(Xb) == pytest.approx(
        0.7 * np.abs(X).sum() + 0.3 * (X**2).sum()
    )
    assert Zero().value(Xb) == 0.0


def test_constants():
    assert ElasticNet(0.7, 0.3).curvature == 0.6  # 2 lam2: T17
    found = ElasticNet(0.7, 0.3).smoothability((6, 4))
    assert (found.theta, found.gamma, found.K) == pytest.approx((0.7, 0.7 * 12, 0.6))
    found = L1(0.7).smoothability((6, 4))
    assert (found.theta, found.gamma, found.K) == pytest.approx((0.7, 0.7 * 12, 0.0))
    nothing = Zero().smoothability((6, 4))
    assert (nothing.theta, nothing.gamma, nothing.K) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("penalty", [L1(0.7), ElasticNet(0.7, 0.3)])
@pytest.mark.parametrize("t", [0.1, 10.0, 1e12])
def test_dual_points_lie_in_the_box(penalty, t):
    for y in (None, 5.0 * X):
        assert np.abs(penalty.ascend(y, 1e3 * X, t)).max() <= 0.7
    assert np.abs(penalty.feasible(5.0 * X)).max() <= 0.7
    inside = 0.1 * X / np.abs(X).max()
    assert penalty.feasible(inside) == pytest.approx(inside)


@pytest.mark.parametrize("g", [0.1, 1.0, 4.0])
def test_proximal_step_of_a_separable_penalty(g):
    """prox_{g R}(v) = v - g ascend(0, v, 1/g): soft thresholding."""
    penalty = L1(0.7)
    assert penalty.separable
    soft = np.sign(X) * np.maximum(np.abs(X) - 0.7 * g, 0.0)
    assert X - g * penalty.ascend(None, X, 1 / g) == pytest.approx(soft)


@by_backend
@pytest.mark.parametrize("rows", [6, 5000])
def test_target_is_the_proximal_target(backend, rows):
    """X - (G + grad R_mu)/w in place, whether in one block of rows or in many."""
    Z, G = backend.array(numbers(rows, 40)), backend.array(numbers(rows, 40, seed=1))
    for penalty in (L1(0.7), ElasticNet(0.7, 0.3), Zero()):
        smooth = Smoothed.of(penalty, 0.2, (rows, 40))
        wanted = Z - (G + smooth.grad(Z)) / 1.3
        out = G * 1.0
        assert smooth.target(Z, out, 1.3) == 0.0
        assert float(abs(out - wanted).max()) <= 1e-12


@by_backend
@pytest.mark.parametrize("weight", [1.3, 1.0, 1.6])
@pytest.mark.parametrize("penalty", [L1(0.7), ElasticNet(0.7, 0.3), GroupL2(0.4, "columns")])
def test_target_around_a_centre_is_the_same_target(backend, weight, penalty):
    """For G = L/2 |X - C|^2 the gradient need not be formed."""
    Z, C = backend.array(numbers(3000, 40)), backend.array(numbers(3000, 40, seed=1))
    smooth = Smoothed.of(penalty, 0.2, (3000, 40))
    for smoothness in (1.0, 0.8):
        G = smoothness * (Z - C)
        smooth.target(Z, G, weight)
        for out in (None, C * 0.0):
            around = formed(smooth.target_around(Z, C, smoothness, weight, out))
            assert float(abs(around - G).max()) <= 1e-12
            assert out is None or around is out


@pytest.mark.parametrize("mu", [1e-300, 1e-6, 1e300])
def test_extreme_smoothing_neither_overflows_nor_divides_by_zero(mu):
    with np.errstate(all="raise", under="ignore"):
        smooth = Smoothed.of(L1(1.0), mu, (2, 2))
        assert np.isfinite(smooth.value(np.array([[1.0, -1.0], [0.0, 1e-3]])))


def test_multiples_scale_the_weights():
    assert 2.0 * L1(0.7) == L1(1.4)
    assert L1(0.7) * 2.0 == L1(1.4)
    assert 0.5 * ElasticNet(1.0, 3.0) == ElasticNet(0.5, 1.5)
    assert 3.0 * Zero() == Zero()
    assert np.float64(2.0) * L1(0.7) == L1(1.4)
    assert 0 * L1(0.7) == L1(0.0)
