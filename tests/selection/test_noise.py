"""Noise levels, and the spectrum of noise."""

import numpy as np
import pytest

import weakprox as wp
from weakprox.selection import folded, noise_level
from weakprox.selection.noise import (
    is_poisson,
    mean_noise,
    mp_quantile,
    noise_edge,
    resolution,
    sample_moments,
    shrunk_values,
)

RNG = np.random.default_rng(0)
LOW_RANK = RNG.standard_normal((200, 3)) @ RNG.standard_normal((3, 120))
SPARSE = np.where(RNG.random((200, 120)) < 0.05, 20.0, 0.0)
NOISE = RNG.standard_normal((200, 120))


@pytest.mark.parametrize("method", ["spectrum", "entries", "auto"])
@pytest.mark.parametrize("size", [0.3, 5.0])
def test_pure_noise(method, size):
    assert noise_level(size * NOISE, method) == pytest.approx(size, rel=0.03)


@pytest.mark.parametrize("signal", [LOW_RANK, SPARSE], ids=["low-rank", "sparse"])
def test_the_better_of_two_assumptions_counts(signal):
    assert noise_level(signal + NOISE) == pytest.approx(1.0, rel=0.12)


def test_each_assumption_fails_where_it_should():
    assert noise_level(20 * LOW_RANK + NOISE, "entries") > 5.0
    assert noise_level(SPARSE + NOISE, "spectrum") > 2.0


def test_no_noise_is_none():
    assert noise_level(LOW_RANK) == 0.0
    assert noise_level(np.zeros((4, 5))) == 0.0


def test_mostly_zeros_leave_it_to_the_spectrum():
    M = np.where(RNG.random((60, 50)) < 0.3, NOISE[:60, :50], 0.0)
    assert noise_level(M) == pytest.approx(0.3**0.5, rel=0.15)


def test_rounding_errors_among_zeros_show_no_noise():
    M = np.where(RNG.random((60, 50)) < 0.14, NOISE[:60, :50], 0.0)
    jittered = M + 1e-16 * RNG.standard_normal(M.shape)
    assert noise_level(jittered) == pytest.approx(noise_level(M), rel=1e-6)
    assert noise_level(jittered, "entries") == 0.0


def test_copies_that_differ_by_rounding_show_no_noise():
    copies = LOW_RANK * (1.0 + 1e-16 * np.arange(6)[:, None, None])
    assert mean_noise(sample_moments(copies)) == 0.0


def test_empty_rows_and_columns_have_no_noise():
    M = np.zeros((120, 100))
    M[:40, :30] = NOISE[:40, :30]
    assert noise_level(M) == pytest.approx((40 * 30 / M.size) ** 0.5, rel=0.1)


@pytest.mark.parametrize(
    ("expected", "M"),
    [
        (True, RNG.poisson(2.0, (60, 50))),
        (True, RNG.poisson(np.outer(RNG.gamma(0.2, 2.0, 60), RNG.gamma(0.2, 2.0, 50)))),
        (True, RNG.random((60, 50)) < 0.1),  # edges
        (False, RNG.poisson(RNG.gamma(0.1, 50.0, (60, 50)))),  # varies much more
        (False, np.rint(100 + 2 * NOISE[:60, :50])),  # and less
        (False, RNG.poisson(2.0, (60, 50)) - 1),
        (False, RNG.poisson(2.0, (60, 50)) + 0.5),
        (False, np.zeros((6, 5))),
    ],
)
def test_counts_are_recognised(expected, M):
    assert is_poisson(np.asarray(M, dtype=float)) is expected


def test_resolution_is_that_of_the_rounding():
    assert resolution(np.round(NOISE, 2)) == pytest.approx(0.01 / 12**0.5, rel=1e-6)
    assert 0.0 < resolution(NOISE) < 1e-6
    assert 0.0 < resolution(np.ones((3, 3))) < 1e-12


@pytest.mark.parametrize("shape", [(400, 400), (400, 100), (100, 400)])
def test_median_of_the_law_is_that_of_noise(shape):
    s = np.linalg.svd(RNG.standard_normal(shape), compute_uv=False)
    found = np.median(s) ** 2 / max(shape)
    assert mp_quantile(min(shape) / max(shape)) == pytest.approx(found, rel=0.03)


@pytest.mark.parametrize("shape", [(200, 120), (50, 300)])
def test_shrunk_values_are_those_of_signals_of_known_size(shape):
    """In the limit, signal of value l has the value s here, and l less what s has in common."""
    m, d = shape
    size = np.array([40.0, 25.0, 1.1 * (m * d) ** 0.25])
    s = np.sqrt((size**2 + m) * (size**2 + d)) / size
    assert shrunk_values(s, shape, 1.0) == pytest.approx((size**2 - m * d / size**2) / s)


def test_shrunk_values_give_the_better_estimate():
    """In Frobenius norm, with the singular vectors of the noisy matrix."""
    signal = 0.3 * LOW_RANK
    U, s, Vt = np.linalg.svd(signal + NOISE, full_matrices=False)
    found = shrunk_values(s, (200, 120), 1.0)
    assert found.size == 3
    plain = np.linalg.norm((U[:, :3] * s[:3]) @ Vt[:3] - signal)
    assert np.linalg.norm((U[:, :3] * found) @ Vt[:3] - signal) < 0.95 * plain
    assert s[3] < 1.05 * noise_edge((200, 120), 1.0)
    np.testing.assert_allclose(shrunk_values(0.1 * s, (200, 120), 0.1), 0.1 * found)


def test_samples_show_the_noise_of_their_mean():
    samples = LOW_RANK + 2.0 * np.random.default_rng(1).standard_normal((8, 200, 120))
    found = mean_noise(sample_moments(samples))
    assert found == pytest.approx(2.0 / 8**0.5, rel=0.02)
    direct = np.sqrt(np.mean(np.var(samples, axis=0, ddof=1)) / 8)
    assert found == pytest.approx(direct, rel=1e-12)


def test_large_matrices_are_judged_by_a_part():
    tall = np.random.default_rng(2).standard_normal((3000, 40))
    assert noise_level(tall, "spectrum") == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: noise_level(NOISE, "mean"), "method"),
        (lambda: noise_level(NOISE[0]), "M"),
        (lambda: noise_level([[1.0]]), "M"),
        (lambda: wp.selection.thinned(NOISE, 1e-18), "noise"),
        (lambda: wp.selection.default_grid(NOISE, 1e-18), "noise"),
        (lambda: noise_level(np.diag([1.0, np.nan, 1.0])), "M"),
        (lambda: folded(NOISE), "samples"),
        (lambda: folded(NOISE[None]), "samples"),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(wp.InputError) as caught:
        call()
    assert caught.value.argument == argument


def full_rank(level, seed=0):
    """A table whose signal fills its spectrum, from 3 down to 0.3."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, 20)))[0] for n in (400, 20))
    signal = np.sqrt(400) * (U * np.geomspace(3.0, 0.3, 20)) @ V.T
    return signal + level * rng.standard_normal((400, 20))


@pytest.mark.parametrize("seed", range(3))
def test_a_spectrum_without_a_bulk_is_continued(seed):
    M = full_rank(0.3, seed)
    assert noise_level(M, "spectrum") > 0.8
    assert 0.1 < noise_level(M) < 0.45


@pytest.mark.parametrize("shape", [(400, 20), (100, 8), (60, 30)])
@pytest.mark.parametrize("rank", [0, 2])
def test_a_bulk_of_noise_is_left_alone(shape, rank):
    rng = np.random.default_rng(1)
    signal = 5.0 * rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    M = signal + rng.standard_normal(shape)
    assert noise_level(M) == noise_level(M, "spectrum") or rank == 0
    assert noise_level(M) == pytest.approx(1.0, rel=0.15)


def test_quantiles_of_the_law_of_noise():
    shape = (1500, 300)
    values = np.linalg.svd(np.random.default_rng(0).standard_normal(shape), compute_uv=False)
    found = np.quantile(values**2, [0.1, 0.25, 0.5, 0.9]) / shape[0]
    expected = mp_quantile(0.2, [0.1, 0.25, 0.5, 0.9])
    np.testing.assert_allclose(found, expected, rtol=0.02)


@pytest.mark.parametrize("ratio", [1e-3, 0.2, 0.9, 1.0])
def test_quantiles_have_their_share_of_the_density_below_them(ratio):
    root = np.sqrt(ratio)
    angle = np.linspace(0.0, np.pi, 200_001)[1:]  # x is 1 + ratio - 2 root cos(angle)
    x = 1.0 + ratio - 2.0 * root * np.cos(angle)
    mass = np.cumsum((2.0 * root * np.sin(angle)) ** 2 / (2.0 * np.pi * ratio * x))
    shares = [1e-4, 0.1, 0.5, 0.999]
    expected = np.interp(shares, mass / mass[-1], x)
    np.testing.assert_allclose(mp_quantile(ratio, shares), expected, rtol=1e-4, atol=1e-9)
