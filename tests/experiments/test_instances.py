"""The paper's random matrices: the distributions it states, and what is derived from them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weakprox.experiments.instances import instance, table1_signal

MADE = np.random.default_rng
DRAWS = 1000


class Quiet:
    """A generator without Gaussian noise; everything else is drawn as it would be."""

    def __init__(self, seed):
        self._rng = MADE(seed)

    def __getattr__(self, name):
        return getattr(self._rng, name)

    def standard_normal(self, shape):
        return np.zeros(shape)


def quiet(d, r, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "default_rng", Quiet)
        return instance(d, r, seed)


def assert_uniform_on_1_to_10(values):
    """Ten values, each as often as the others within five standard deviations."""
    found, counts = np.unique(values, return_counts=True)
    assert found.tolist() == list(range(1, 11))
    n = len(values)
    assert np.abs(counts - n / 10).max() <= 5 * math.sqrt(n * 0.1 * 0.9)


def assert_share(kept, share):
    error = math.sqrt(share * (1 - share) / kept.size)
    assert abs(kept.mean() - share) <= 5 * error


@pytest.mark.parametrize("d", [25, 100])
def test_entries_of_Y_are_sparse_and_uniform_on_1_to_10(d):
    """The diagonal of yy' holds the squares of y."""
    y = np.sqrt([np.diag(quiet(d, 1, seed).M0) for seed in range(DRAWS)])
    assert_share(y > 0, 1 / math.sqrt(d))
    assert_uniform_on_1_to_10(y[y > 0])


@pytest.mark.parametrize("r", [1, 3])
def test_tau_and_size_are_those_of_the_signal(r):
    clean, noisy = quiet(40, r, [4, 2]), instance(40, r, [4, 2])
    assert np.linalg.matrix_rank(clean.M0) == r
    np.testing.assert_array_equal(clean.M0, clean.M0.T)
    assert noisy.tau == clean.tau == pytest.approx(np.trace(clean.M0))
    assert noisy.size == clean.size == pytest.approx(np.linalg.norm(clean.M0) ** 2)


def test_noise_is_standard_normal_and_not_symmetric():
    N = np.array([instance(40, 2, s).M0 - quiet(40, 2, s).M0 for s in range(20)])
    assert abs(N.mean()) <= 5 / math.sqrt(N.size)
    assert abs((N**2).mean() - 1) <= 5 * math.sqrt(2 / N.size)
    assert abs((N**4).mean() - 3) <= 5 * math.sqrt(96 / N.size)
    assert abs((N * N.transpose(0, 2, 1)).mean()) <= 0.1  # 1 if it were symmetric


def test_seeds_sizes_and_ranks_have_instances_of_their_own():
    first = instance(40, 2, 0)
    np.testing.assert_array_equal(first.M0, instance(40, 2, [0]).M0)
    assert not np.array_equal(first.M0, instance(40, 2, 1).M0)
    assert first.tau != instance(40, 3, 0).tau


def test_signals_of_table_1_are_sparse_and_uniform_on_1_to_10():
    rng = MADE(0)
    y = np.array([table1_signal(50, 1.0, rng).y for _ in range(2 * DRAWS)])
    assert_share(y > 0, 0.1)
    assert_uniform_on_1_to_10(y[y > 0])


def test_a_signal_of_zeros_is_drawn_again():
    y = np.array([table1_signal(2, 1.0, MADE(seed)).y for seed in range(50)])
    assert np.all(y.any(axis=1))


@pytest.mark.parametrize(("noise", "rank"), [("matrix", 50), ("vector", 2)])
def test_noise_of_table_1(noise, rank):
    """(c/2)(N + N'): symmetric, c/sqrt(2) per entry off the diagonal, of rank n or 2."""
    found = [table1_signal(50, 3.0, MADE(seed), noise) for seed in range(200)]
    E = np.array([M - np.outer(y, y) for M, y in found])
    np.testing.assert_allclose(E, E.transpose(0, 2, 1), atol=1e-12)
    off = E[:, np.triu_indices(50, 1)[0], np.triu_indices(50, 1)[1]]
    assert (off**2).mean() == pytest.approx(9 / 2, rel=0.1)
    assert (E.diagonal(axis1=1, axis2=2) ** 2).mean() == pytest.approx(9, rel=0.1)
    assert np.linalg.matrix_rank(E[0], tol=1e-9) == rank
