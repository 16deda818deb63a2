"""Samples kept as a finite sum: means, merged moments, and curvatures of their own."""

import numpy as np
import pytest
from registry import DOUBLE, SAMPLED, SHAPE, numbers

from weakprox import InputError
from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Denoising, Sensing
from weakprox.losses.empirical import Empirical
from weakprox.metering import Budget, Meter, MeteredLoss

SIZES = (1, 1, 3, 5)


def kept(loss, sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    return [(loss.draw(rng, size), size) for size in sizes]


@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
@pytest.mark.parametrize("name", SAMPLED)
def test_values_and_gradients_are_means_over_all_samples(name, backend):
    loss = SAMPLED[name][0].build(backend)
    batches = kept(loss)
    mean = Empirical(loss, batches)
    X, Y = (backend.array(numbers(*SHAPE, seed=s)) for s in (1, 2))
    assert mean.n_terms == 10
    assert mean.is_finite_sum
    assert "10 samples of" in repr(mean)
    grad = to_numpy(mean.grad(X, mean.everything()))
    expected = sum(size * to_numpy(loss.grad(X, batch)) for batch, size in batches) / 10
    assert grad == pytest.approx(expected)
    found = mean.value(X, mean.everything()) - mean.value(Y, mean.everything())
    shares = [size * (loss.value(X, b) - loss.value(Y, b)) for b, size in batches]
    assert found == pytest.approx(sum(shares) / 10)  # up to a constant
    assert backend.owns(mean.grad(X, mean.everything()))


@pytest.mark.parametrize("name", SAMPLED)
def test_draws_are_unbiased(name):
    loss = SAMPLED[name][0].build(DOUBLE[0])
    mean, rng, X = Empirical(loss, kept(loss)), np.random.default_rng(4), numbers(*SHAPE)
    whole = mean.grad(X, mean.everything())
    drawn = [mean.grad(X, mean.draw(rng, 3)) for _ in range(800)]
    scale = np.std(drawn, axis=0) / np.sqrt(800) + 1e-12
    assert np.abs((np.mean(drawn, axis=0) - whole) / scale).max() <= 5


def test_noisy_matrices_are_merged():
    loss = SAMPLED["denoising-sampler"][0].build(DOUBLE[0])
    rng = np.random.default_rng(2)
    samples = np.stack([loss.draw(rng, 1).mean for _ in range(10)])
    singles = [Denoising(samples=samples[i : i + 1]).everything() for i in range(10)]
    merged = loss.merged([loss.merged(singles[:3]), loss.merged(singles[3:])])
    direct = Denoising(samples=samples).everything()
    assert merged.mean == pytest.approx(direct.mean)
    assert merged.size == 10
    assert merged.scatter == pytest.approx(direct.scatter)
    mean = Empirical(loss, [(single, 1) for single in singles])
    assert len(mean.everything()) == 1  # nothing grows with the number of samples
    assert mean.capabilities.centre(mean.everything()) == pytest.approx(direct.mean)
    assert mean.spread(samples[0], mean.everything()) == pytest.approx(direct.scatter / 9)
    assert MeteredLoss(mean, Meter(Budget())).has_centre
    assert (mean.smoothness, mean.term_smoothness, mean.strong_convexity) == (1.0, 1.0, 1.0)


def test_curvatures_are_those_of_the_samples():
    def sampler(rng, k):
        return rng.standard_normal((k, 3, 2)), rng.standard_normal(k)

    loss = Sensing(sampler=sampler, shape=(3, 2), smoothness=1.0, strong_convexity=1.0)
    for size in (3, 12, 2000):
        batches = kept(loss, (size, size))
        mean = Empirical(loss, batches)
        rows = np.concatenate([batch[0].flat() for batch, _ in batches])
        values = np.linalg.eigvalsh(rows.T @ rows / len(rows))
        assert values[-1] <= 1.02 * mean.smoothness <= 1.3 * values[-1]
        assert 0.05 <= mean.strong_convexity <= max(0.05, 1.3 * values[0])
        assert float((mean.flattest[1] ** 2).sum()) == pytest.approx(1.0)
        assert mean.term_smoothness >= mean.smoothness
        assert mean.capabilities.centre is None
    assert mean.strong_convexity == pytest.approx(1.0, abs=0.3)


def test_the_spread_is_that_of_one_sample():
    loss = SAMPLED["sensing-sampler"][0].build(DOUBLE[0])
    X = numbers(*SHAPE)
    found = [
        Empirical(loss, kept(loss, (2, 3, 4, 5), seed=s)).spread(X, None) for s in range(300)
    ]
    exact = loss.spread(X, loss.draw(np.random.default_rng(0), 20_000))
    assert np.mean(found) == pytest.approx(exact, rel=0.15)


def test_no_samples_are_refused():
    with pytest.raises(InputError, match="at least one batch"):
        Empirical(SAMPLED["denoising-sampler"][0].build(DOUBLE[0]), [])
