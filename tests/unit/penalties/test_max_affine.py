"""MaxAffine: safe log-sum-exp, duals on the simplex, the constants of T11."""

import math

import numpy as np
import pytest
from registry import DOUBLE, OFFSETS, PIECES, SHAPE, numbers
from scipy.special import logsumexp

from weakprox.linalg.arrays import to_numpy
from weakprox.penalties import MaxAffine, max_affine
from weakprox.penalties.base import Smoothed

X = numbers(*SHAPE, seed=130)
Z = (PIECES * X).sum(axis=(1, 2)) - OFFSETS
by_backend = pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)


def build(backend):
    return MaxAffine(backend.array(PIECES), backend.array(OFFSETS))


@by_backend
def test_value_is_the_largest_piece(backend):
    assert build(backend).value(backend.array(X)) == pytest.approx(Z.max())
    assert to_numpy(build(backend).pieces(backend.array(X))) == pytest.approx(Z)


@by_backend
@pytest.mark.parametrize("mu", [10.0, 1.0, 0.01])
def test_smoothing_is_log_sum_exp_of_the_mean(backend, mu):
    """mu log((1/n) sum exp): the form for which the printed sandwich is true (T11)."""
    smooth = Smoothed.of(build(backend), mu, SHAPE)
    wanted = mu * (logsumexp(Z / mu) - math.log(len(Z)))
    assert smooth.value(backend.array(X)) == pytest.approx(wanted)
    weights = np.exp(Z / mu - logsumexp(Z / mu))
    assert to_numpy(smooth.grad(backend.array(X))) == pytest.approx(
        np.tensordot(weights, PIECES, 1)
    )
    assert smooth.bias == pytest.approx(mu * math.log(len(Z)))


@by_backend
@pytest.mark.parametrize("mu", [1e-6, 1e-12])
@pytest.mark.parametrize("size", [1e6, 1e150])
def test_no_overflow(backend, mu, size):
    smooth = Smoothed.of(build(backend), mu, SHAPE)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        value, grad = (
            smooth.value(backend.array(size * X)),
            smooth.grad(backend.array(size * X)),
        )
    best = int(np.argmax((PIECES * X).sum(axis=(1, 2))))
    assert value == pytest.approx(((PIECES * X).sum(axis=(1, 2))).max() * size, rel=1e-5)
    assert to_numpy(grad) == pytest.approx(PIECES[best])


def test_theta_is_the_better_of_two_bounds():
    gram = PIECES.reshape(len(PIECES), -1)
    operator = np.linalg.norm(gram, 2) ** 2 / 2
    largest = (gram**2).sum(axis=1).max()
    found = MaxAffine(PIECES).smoothability(SHAPE)
    assert found.theta == pytest.approx(min(operator, largest))
    assert found.gamma == pytest.approx(math.log(len(PIECES)))
    alike = np.tile(PIECES[:1], (50, 1, 1))  # here the largest piece is the better bound
    assert MaxAffine(alike).smoothability(SHAPE).theta == pytest.approx((PIECES[0] ** 2).sum())


@pytest.mark.parametrize("geometry", ["paper", "euclidean"])
@pytest.mark.parametrize("t", [1e-3, 1.0, 1e9])
def test_dual_points_lie_on_the_simplex(geometry, t):
    penalty = MaxAffine(PIECES, OFFSETS)
    y = None
    for _ in range(3):
        y = penalty.ascend(y, 1e3 * X, t, geometry=geometry)
        assert y.sum() == pytest.approx(1.0)
        assert (y >= 0).all()
    assert penalty.feasible(np.array([3.0, -1, 0, 0, 0, 0])) == pytest.approx(
        [1, 0, 0, 0, 0, 0]
    )


def test_one_piece_is_linear_and_needs_no_smoothing():
    penalty = MaxAffine(PIECES[:1], OFFSETS[:1])
    smooth = Smoothed.of(penalty, 1.0, SHAPE)
    assert smooth.bias == 0.0
    assert smooth.value(X) == pytest.approx(penalty.value(X)) == pytest.approx(Z[0])


def test_pieces_of_zero():
    penalty = MaxAffine(np.zeros((3, *SHAPE)), np.array([1.0, -2.0, 0.0]))
    assert penalty.value(X) == 2.0
    assert penalty.smoothability(SHAPE).theta == 0.0
    assert np.isfinite(Smoothed.of(penalty, 0.1, SHAPE).value(X))


def test_multiples_scale_pieces_and_offsets():
    twice = 2.0 * MaxAffine(PIECES, OFFSETS)
    assert twice.value(X) == pytest.approx(2 * Z.max())
    assert (MaxAffine(PIECES) * 2.0).value(X) == pytest.approx(2 * (Z + OFFSETS).max())


def test_integer_pieces_become_floats():
    assert MaxAffine(np.ones((2, 3, 4), dtype=int)).A.dtype == np.float64


def test_target_counts_the_offsets():
    penalty, G = MaxAffine(PIECES, OFFSETS), numbers(*SHAPE, seed=131)
    smooth = Smoothed.of(penalty, 0.5, SHAPE)
    wanted = X - (G + smooth.grad(X)) / 1.3
    phi = smooth.target(X, G, 1.3)
    assert np.allclose(G, wanted, rtol=1e-10, atol=1e-12)
    assert phi == pytest.approx(float(smooth.dual(X) @ OFFSETS))


@pytest.mark.parametrize("columns", [4, 1 << 16])
def test_products_of_pieces_in_float32_are_summed_in_float64(columns, monkeypatch):
    monkeypatch.setattr(max_affine, "COLUMNS", columns)
    flat = (1e25 * PIECES).astype(np.float32)
    found = MaxAffine(flat, OFFSETS.astype(np.float32)).gram
    flat = flat.astype(float).reshape(len(flat), -1)
    assert found == pytest.approx(flat @ flat.T, rel=1e-12)
