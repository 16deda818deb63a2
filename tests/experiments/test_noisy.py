"""Samples drawn as means and scatters are what single draws would have given."""

import numpy as np
import pytest

from weakprox.experiments.instances import FiniteCopies, NoisyCopies, seconds_per_sample
from weakprox.losses import Denoising

M = np.random.default_rng(5).standard_normal((6, 5))


def test_means_and_scatters_have_the_distribution_of_real_draws():
    loss, plain = NoisyCopies(M, 2.0), None
    plain = Denoising(
        sampler=lambda rng, k: M + 2.0 * rng.standard_normal((k, *M.shape)), shape=M.shape
    )
    draws = {name: [] for name in ("ours", "one by one")}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        draws["ours"].append(loss.draw(rng, 7))
        draws["one by one"].append(plain.draw(rng, 7))
    for name, batches in draws.items():
        means = np.array([batch.mean for batch in batches])
        assert means.mean(axis=0) == pytest.approx(M, abs=4 * 2.0 / np.sqrt(7 * 400)), name
        assert means.var() == pytest.approx(4.0 / 7 + M.var(), rel=0.1), name
        scatters = np.array([batch.scatter for batch in batches])
        assert scatters.mean() == pytest.approx(4.0 * 6 * M.size, rel=0.02), name
        assert scatters.var() == pytest.approx(2 * 16.0 * 6 * M.size, rel=0.25), name
        assert all(batch.size == 7 for batch in batches)


def test_values_from_batches_are_unbiased():
    loss, X = NoisyCopies(M, 2.0), np.ones_like(M)
    values = [loss.value(X, loss.draw(np.random.default_rng(s), 3)) for s in range(3000)]
    error = np.std(values) / np.sqrt(len(values))
    assert np.mean(values) == pytest.approx(0.5 * np.sum((X - M) ** 2), abs=4 * error)


def test_a_finite_sum_counts_all_its_terms():
    loss = FiniteCopies(M, 2.0, 50, np.random.default_rng(0))
    assert loss.is_finite_sum
    assert loss.n_terms == 50
    off = loss.everything().mean - M
    assert 0.1 < np.sqrt(np.mean(off**2)) / (2.0 / np.sqrt(50)) < 2


def test_the_cost_of_a_sample_is_measured():
    assert 0 < seconds_per_sample((30, 30), repeats=3) < 60.0
