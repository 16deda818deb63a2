"""Lower bounds from partly known spectra hold whatever the unknown values are."""

import numpy as np
import pytest

from weakprox.linalg.simplex import project_capped
from weakprox.spectral.singular import (
    Spectrum,
    accurate_enough,
    ball_lower,
    penalty_lower,
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
