"""Scales of noisy copies: found where they exist, and not in noise."""

import numpy as np
import pytest
from selection._signals import sparse_low_rank

from weakprox.selection.copy_scales import copy_scales, rescaled_moments, scales_differ
from weakprox.selection.noise import mean_noise

SIGNAL, _ = sparse_low_rank(30, 20, density=0.5)


def stack(scales, noise, seed=0):
    rng = np.random.default_rng(seed)
    clean = np.asarray(scales)[:, None, None] * SIGNAL
    return clean + noise * rng.standard_normal(clean.shape)


@pytest.mark.parametrize("n", [3, 10, 260])  # the last are more than the references
def test_exact_multiples(n):
    scales = np.random.default_rng(1).uniform(0.2, 3.0, n)
    scales /= scales.mean()
    copies = stack(scales, 0.0)
    found = copy_scales(copies)
    np.testing.assert_allclose(found, scales, rtol=1e-4)
    assert scales_differ(copies, found)
    moments = rescaled_moments(copies, scales)
    np.testing.assert_allclose(moments.mean, SIGNAL, atol=1e-12)
    assert moments.size == n
    assert mean_noise(moments) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_equal_copies_and_noise_have_one_scale(seed):
    for copies in (stack(np.ones(6), 1.0, seed), stack(np.zeros(6), 1.0, seed)):
        assert not scales_differ(copies, copy_scales(copies))


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_scales_differ_by_more_than_noise_in_any_unit(unit):
    """Noise spreads the scales of the first, which are equal, nearly as much as the others'."""
    equal, other = stack(np.ones(6), 5.0, 1), stack([0.6, 0.8, 1.0, 1.0, 1.2, 1.4], 1.0, 1)
    for copies, differ in ((equal, False), (other, True)):
        found = copy_scales(unit * copies)
        assert found.max() > 1.5 * found.min()
        assert scales_differ(unit * copies, found) == differ


def test_too_few_or_contrary_copies_have_none():
    for copies in (stack([1.0, 3.0], 0.1), stack([1.0, 2.0, -1.0], 0.0), stack([0.0] * 4, 0.0)):
        np.testing.assert_array_equal(copy_scales(copies), np.ones(len(copies)))


def test_weights_are_those_of_least_squares():
    scales, levels = np.array([0.5, 1.0, 1.5, 1.0]), np.array([0.3, 0.5, 0.4, 3.0])
    rng = np.random.default_rng(0)
    copies = stack(scales, 0.0) + levels[:, None, None] * rng.standard_normal((4, 30, 20))
    moments = rescaled_moments(copies, scales)
    level = 1.0 / np.linalg.norm(scales / levels)
    assert mean_noise(moments) == pytest.approx(level, rel=0.15)
    off = np.sqrt(np.mean((moments.mean - SIGNAL) ** 2))
    assert off == pytest.approx(level, rel=0.15)


def test_a_copy_of_zeros_is_no_positive_multiple():
    copies = np.array([2.0, 3.0, 0.0, 1.0])[:, None, None] * np.ones((4, 5, 3))
    np.testing.assert_array_equal(copy_scales(copies), np.ones(4))
