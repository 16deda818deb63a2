"""Lower bounds from partly known spectra hold whatever the unknown values are."""

import numpy as np
import pytest
from registry import numbers

from weakprox.linalg.simplex import project_capped
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD
from weakprox.spectral.singular import (
    Spectrum,
    accurate_enough,
    ball_lower,
    penalty_lower,
    tail_sum,
    value_errors,
)


def partly_known(rng):
    """True values, and what a truncated decomposition might show of them."""
    n = int(rng.integers(2, 12))
    s = np.sort(rng.exponential(size=n))[::-1]
    r = int(rng.integers(1, n + 1))
    ritz = s[:r] * rng.uniform(0.6, 1.0, r)
    total = float(s @ s)
    rest = s[r:]
    tail = float(rest[0]) * rng.uniform(1.0, 2.0) if len(rest) else 0.0
    energy = max(total - float(ritz @ ritz), float(rest @ rest))
    return s, Spectrum(ritz, s[:r] * rng.uniform(1.0, 1.2), tail, energy, total, 0.0)


def test_ball_lower_is_below_the_minimum():
    rng = np.random.default_rng(0)
    for _ in range(400):
        s, spec = partly_known(rng)
        tau, weight = rng.exponential() * s.sum(), rng.uniform(0.1, 5)
        best = project_capped(s, tau)
        minimum = 0.5 * weight * ((best - s) ** 2).sum()
        assert ball_lower(spec, weight, tau) <= minimum + 1e-10


def test_penalty_lower_is_below_the_minimum():
    rng = np.random.default_rng(1)
    for _ in range(400):
        s, spec = partly_known(rng)
        lam, weight = rng.exponential(), rng.uniform(0.1, 5)
        best = np.maximum(s - lam / weight, 0)
        minimum = 0.5 * weight * ((best - s) ** 2).sum() + lam * best.sum()
        assert penalty_lower(spec, weight, lam) <= minimum + 1e-10


def test_bounds_are_tight_when_everything_is_known():
    s = np.array([3.0, 2.0, 0.5])
    spec = Spectrum(s, s, 0.0, 0.0, float(s @ s), 0.0)
    best = project_capped(s, 2.0)
    assert ball_lower(spec, 2.0, 2.0) == pytest.approx(((best - s) ** 2).sum())
    soft = np.maximum(s - 1.0, 0)
    assert penalty_lower(spec, 1.0, 1.0) == pytest.approx(
        0.5 * ((soft - s) ** 2).sum() + soft.sum()
    )


def test_value_errors_are_second_order_across_a_gap():
    errors = value_errors(np.array([2.0, 1.0]), np.array([1e-3, 1e-3]), 0.5)
    assert errors == pytest.approx([1e-6 / 1.5, 1e-6 / 0.5])
    assert value_errors(np.array([1.0]), np.array([1e-3]), 1.0) == pytest.approx([1e-3])


def test_stop_rule_follows_the_tolerance():
    def gain(s):
        return float(s @ s)

    s, after = np.array([2.0]), 2.0  # no gap: first order, gain rises by 4 r
    strict, loose = accurate_enough(gain, 0.0, 1e-12), accurate_enough(gain, 0.1, 1e-12)
    assert loose(s, np.array([0.02]), after)
    assert not loose(s, np.array([0.03]), after)
    assert not strict(s, np.array([1e-6]), after)
    assert strict(s, np.array([1e-13]), after)


@pytest.mark.parametrize("rank", [2, 5])
@pytest.mark.parametrize("certify", [False, True])
def test_the_conjugate_of_a_step_bounds_that_of_what_it_leaves(rank, certify):
    """h*(A - V) = tau |A - V|; all values are known if the rank is full."""
    A, tau, weight = numbers(8, 5, seed=3), 1.5, 0.7
    ball = NuclearBall(tau)
    prox = ball.weak_prox(A, weight=weight, rank=rank, certify=certify)
    left = weight * tau * float(np.linalg.norm(A - prox.V.dense(), 2))
    assert prox.conjugate >= left * (1 - 1e-12)
    if rank == 5:
        assert prox.conjugate == pytest.approx(left)


@pytest.mark.parametrize("h", [NuclearBall(2.0), NuclearNorm(0.3), TracePSD(2.0)], ids=repr)
def test_rough_conjugates_of_small_matrices_are_exact(h):
    root, block = numbers(5, 5, seed=4), np.eye(5)
    U = root + root.T
    least, *_, top = np.linalg.eigvalsh(U)
    U = -U if top > -least else U  # so that the largest value is that of -U
    top, norm = float(np.linalg.eigvalsh(U)[-1]), float(np.linalg.norm(U, 2))
    assert norm > top
    exact = {
        "NuclearBall": 2.0 * norm,
        "NuclearNorm": 7.0 * (norm - 0.3),
        "TracePSD": 2.0 * top,
    }
    assert h.rough_conjugate(U, block, 7.0) == pytest.approx(exact[type(h).__name__])


@pytest.mark.parametrize("h", [NuclearBall(2.0), NuclearNorm(0.3), TracePSD(2.0)], ids=repr)
def test_values_of_random_points_fall(h):
    s = h.random_point(np.random.default_rng(0), (6, 6), 5, np.zeros(1)).s
    assert (np.diff(s) <= 0.0).all()
    assert s[0] > s[-1] > 0.0


@pytest.mark.parametrize("theta", [-0.5, 0.0, 0.8, 2.0, 3.0])
def test_sums_over_the_tail_are_attained_by_equal_values(theta):
    """The bound on sum (s - theta)_+^2, given the largest of them and their squares."""
    tail = 2.0
    spec = Spectrum(np.ones(1), np.ones(1), tail, 7 * tail**2, 1.0, 0.0)
    wanted = 7 * max(tail - theta, 0.0) ** 2
    assert tail_sum(spec, theta) == pytest.approx(wanted)
