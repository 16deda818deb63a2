"""Denoising: naive formulas, chunked reading, unbiased values, no whole copies."""

import tracemalloc

import numpy as np
import pytest
from registry import DOUBLE, NOISY, SHAPE, denoising_sampler, memmap_of, numbers

from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Denoising, inputs
from weakprox.losses.moments import Moments

X = numbers(*SHAPE, seed=70)
by_backend = pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)


@by_backend
def test_one_matrix(backend):
    M = backend.array(NOISY[0])
    loss = Denoising(M)
    batch = loss.everything()
    assert loss.is_finite_sum
    assert loss.n_terms == 1
    assert loss.sigma == 0.0
    assert loss.value(backend.array(X), batch) == pytest.approx(
        0.5 * ((X - NOISY[0]) ** 2).sum()
    )
    assert to_numpy(loss.grad(backend.array(X), batch)) == pytest.approx(X - NOISY[0])


@by_backend
def test_samples(backend):
    loss = Denoising(samples=backend.array(NOISY))
    mean = NOISY.mean(axis=0)
    batch = loss.everything()
    assert loss.n_terms == len(NOISY)
    assert loss.value(backend.array(X), batch) == pytest.approx(0.5 * ((X - mean) ** 2).sum())
    assert to_numpy(loss.grad(backend.array(X), batch)) == pytest.approx(X - mean)
    variance = ((NOISY - mean) ** 2).sum() / len(NOISY)
    assert loss.sigma == pytest.approx(np.sqrt(variance))
    assert loss.spread(backend.array(X), batch) == pytest.approx(
        variance * len(NOISY) / (len(NOISY) - 1)
    )


def test_constants_are_those_of_half_a_squared_distance():
    loss = Denoising(NOISY[0])
    assert loss.smoothness == loss.term_smoothness == loss.strong_convexity == 1.0
    assert loss.samples_cancel


def test_value_up_to_a_constant_is_the_mean_of_the_terms():
    loss = Denoising(samples=NOISY)
    Z = numbers(*SHAPE, seed=71)

    def naive(A):
        return 0.5 * ((A - NOISY) ** 2).sum(axis=(1, 2)).mean()

    batch = loss.everything()
    assert loss.value(X, batch) - loss.value(Z, batch) == pytest.approx(naive(X) - naive(Z))


def test_sampled_value_is_unbiased_for_any_batch_size():
    """The batch mean alone would be too high by its variance; size 1 leaves it in."""
    loss, mean = denoising_sampler(DOUBLE[0]), NOISY.mean(axis=0)
    rng = np.random.default_rng(72)
    target = 0.5 * ((X - mean) ** 2).sum()
    for size in (2, 5):
        seen = [loss.value(X, loss.draw(rng, size)) for _ in range(3000)]
        error = np.std(seen) / np.sqrt(len(seen))
        bias = 0.5 * Denoising(samples=NOISY).sigma ** 2 / size
        assert abs(np.mean(seen) - target) <= 4 * error < bias


def test_chunks_change_nothing(monkeypatch):
    sample = 8 * SHAPE[0] * SHAPE[1]
    whole = Denoising(samples=NOISY).everything()
    monkeypatch.setattr(inputs, "CHUNK_BYTES", 7 * sample)
    parts = Denoising(samples=NOISY).everything()
    assert parts.mean == pytest.approx(whole.mean)
    assert parts.scatter == pytest.approx(whole.scatter)
    assert parts.size == whole.size


def test_draws_come_in_chunks(monkeypatch):
    asked = []

    def sampler(rng, k):
        asked.append(k)
        return rng.standard_normal((k, *SHAPE))

    monkeypatch.setattr(inputs, "CHUNK_BYTES", 10 * 8 * SHAPE[0] * SHAPE[1])
    batch = Denoising(sampler=sampler, shape=SHAPE).draw(np.random.default_rng(0), 37)
    assert asked == [1, 10, 10, 10, 7]  # the first is the trial draw
    assert batch.size == 37


def test_memory_map_is_never_copied_whole(monkeypatch):
    shape = (64, 80, 100)
    data = memmap_of(np.zeros(shape))
    for i in range(len(data)):
        data[i] = numbers(*shape[1:], seed=i)
    monkeypatch.setattr(inputs, "CHUNK_BYTES", 1 << 18)
    tracemalloc.start()
    loss = Denoising(samples=data)
    loss.grad(np.zeros(shape[1:]), loss.everything())
    loss.draw(np.random.default_rng(0), 200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < data.nbytes / 3
    assert loss.everything().mean == pytest.approx(np.asarray(data).mean(axis=0))


def test_integer_samples_become_floats():
    counts = np.arange(24).reshape(2, 3, 4)
    loss = Denoising(samples=counts)
    assert loss.everything().mean == pytest.approx(counts.mean(axis=0))
    assert loss.reference.dtype == np.float64


def test_scatter_is_stable_far_from_zero():
    """Sums of squares would lose all digits of the variance here."""
    loss = Denoising(samples=1e8 + NOISY)
    assert loss.sigma == pytest.approx(Denoising(samples=NOISY).sigma, rel=1e-6)


def test_the_furthest_sample_is_known_whatever_the_chunks():
    rng = np.random.default_rng(3)
    stack = rng.standard_normal((300, 4, 3))
    stack[211] *= 20.0
    exact = float(np.sqrt(np.sum((stack - stack.mean(0)) ** 2, axis=(1, 2))).max())
    zero = np.zeros((4, 3))
    for size in (300, 100, 7, 1):
        chunks = [stack[i : i + size] for i in range(0, 300, size)]
        assert Moments.of(chunks, zero, 1.0).reach == pytest.approx(exact, rel=0.05)
        assert Moments.of(chunks, zero, 4.0).reach == pytest.approx(exact / 4, rel=0.05)
        parts = [Moments.of([chunk], zero, 1.0) for chunk in chunks]
        whole = Moments.together(parts, np.zeros((4, 3)))
        assert exact * (1 - 1e-9) <= whole.reach <= 1.3 * exact
    bound = Moments(zero, 300, 9.0)  # not measured: no sample is further than the scatter
    assert bound.reach == 3.0


def test_given_sigma_counts():
    assert Denoising(samples=NOISY, sigma=3.5).sigma == 3.5
    assert denoising_sampler(DOUBLE[0]).sigma is None


def test_drawing_from_terms_uses_the_generator_only():
    loss = Denoising(samples=NOISY)
    draws = [loss.draw(np.random.default_rng(5), 4).mean for _ in range(2)]
    assert np.array_equal(*draws)


def test_repr_names_the_kind():
    assert "one matrix" in repr(Denoising(NOISY[0]))
    assert "60 samples" in repr(Denoising(samples=NOISY))
    assert "sampler" in repr(denoising_sampler(DOUBLE[0]))
