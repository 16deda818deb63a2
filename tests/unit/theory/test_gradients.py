"""Snapshot gradients: unbiased, exact at the snapshot, and free where samples cancel."""

import numpy as np
import pytest
from registry import (
    DOUBLE,
    LOSSES,
    MATRICES,
    MEASURED,
    NOISY,
    SHAPE,
    denoising_sampler,
    numbers,
)

from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.pending import formed
from weakprox.losses import Sensing, inputs
from weakprox.metering import Budget, Meter, MeteredLoss
from weakprox.penalties import ElasticNet
from weakprox.penalties.base import Smoothed
from weakprox.theory.gradients import PARTS, Measured, Snapshot, mean_gradient

X, Y = numbers(*SHAPE, seed=190), numbers(*SHAPE, seed=191)


def metered(loss):
    meter = Meter(Budget())
    return MeteredLoss(loss, meter), meter.counts


def full(loss, Z):
    return loss.grad(Z, loss.everything())


@pytest.mark.parametrize("name", ["sensing-dense", "completion-sum", "custom-finite-sum"])
@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_finite_sum_estimator_is_unbiased(name, backend):
    plain = LOSSES[name].build(backend)
    loss, _ = metered(plain)
    Xb, Yb = backend.array(X), backend.array(Y)
    rng = np.random.default_rng(0)
    snapshot = Snapshot.take(loss, Xb, rng, None)
    W = backend.array(numbers(*SHAPE, seed=192))
    seen = [float((snapshot.at(loss, Yb, rng, 4, first=False) * W).sum()) for _ in range(300)]
    error = np.std(seen, ddof=1) / np.sqrt(len(seen))
    assert abs(np.mean(seen) - float((full(plain, Yb) * W).sum())) <= 4.5 * error


def test_first_step_is_the_snapshot_itself():
    loss, counts = metered(Sensing(MATRICES, MEASURED))
    snapshot = Snapshot.take(loss, X, np.random.default_rng(0), None)
    before = counts.copy()
    first = snapshot.at(loss, X, np.random.default_rng(1), 5, first=True)
    assert first == pytest.approx(full(Sensing(MATRICES, MEASURED), X))
    assert counts == before  # nothing drawn, nothing evaluated
    first *= 0.0
    assert np.abs(snapshot.gradient).max() > 0  # and it is a copy


def test_inner_samples_cost_two_gradients_each():
    loss, counts = metered(Sensing(MATRICES, MEASURED))
    snapshot = Snapshot.take(loss, X, np.random.default_rng(0), None)
    assert counts.gradients == len(MEASURED)
    snapshot.at(loss, Y, np.random.default_rng(1), 5, first=False)
    assert counts.samples == 5
    assert counts.gradients == len(MEASURED) + 10


def test_more_inner_samples_than_terms_is_the_full_gradient():
    loss, counts = metered(Sensing(MATRICES, MEASURED))
    snapshot = Snapshot.take(loss, X, np.random.default_rng(0), None)
    exact = snapshot.at(loss, Y, np.random.default_rng(1), 10**6, first=False)
    assert exact == pytest.approx(full(Sensing(MATRICES, MEASURED), Y))
    assert counts.samples == 0


@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_samples_that_cancel_are_drawn_once(backend):
    loss, counts = metered(denoising_sampler(backend))
    rng = np.random.default_rng(3)
    snapshot = Snapshot.take(loss, backend.array(X), rng, 8)
    assert counts.samples == 8
    state = rng.bit_generator.state
    at_X = snapshot.at(loss, backend.array(X), rng, 0, first=True)
    at_Y = snapshot.at(loss, backend.array(Y), rng, 0, first=False)
    assert rng.bit_generator.state == state
    assert counts.samples == counts.gradients == 8
    assert to_numpy(at_X - at_Y) == pytest.approx(X - Y)


def test_chunks_average_to_the_whole(monkeypatch):
    plain = Sensing(MATRICES, MEASURED)
    loss, counts = metered(plain)
    monkeypatch.setattr(inputs, "CHUNK_BYTES", 8 * SHAPE[0] * SHAPE[1] * 6)
    assert loss.chunk == 6
    mean_gradient(loss, X, np.random.default_rng(0), 20)
    assert counts.samples == counts.gradients == 20
    rng = np.random.default_rng(1)
    sizes = [6, 6, 6, 2]
    picked = np.concatenate([rng.integers(0, len(MEASURED), k) for k in sizes])
    r = (MATRICES[picked] * X).sum(axis=(1, 2)) - MEASURED[picked]
    wanted = (r[:, None, None] * MATRICES[picked]).mean(axis=0)
    assert mean_gradient(loss, X, np.random.default_rng(1), 20) == pytest.approx(wanted)


def test_snapshot_variance_falls_with_the_batch():
    loss, _ = metered(denoising_sampler(DOUBLE[0]))
    rng = np.random.default_rng(4)
    errors = []
    for size in (1, 16):
        grads = [
            Snapshot.take(loss, X, rng, size).at(loss, X, rng, 0, first=True)
            for _ in range(200)
        ]
        errors.append(np.mean([((g - (X - NOISY.mean(0))) ** 2).sum() for g in grads]))
    assert errors[1] == pytest.approx(errors[0] / 16, rel=0.3)


def test_differences_of_gradients_have_no_noise_where_samples_cancel():
    loss, counts = metered(denoising_sampler(DOUBLE[0]))
    found = Snapshot(X, None, None).difference(loss, Y, np.random.default_rng(5), 3)
    assert found.mean == pytest.approx(Y - X)
    assert found.variance == pytest.approx(0.0, abs=1e-20)
    assert found.size == counts.samples == PARTS  # one for each group


def test_measured_means_and_variances():
    groups, wanted = iter(numbers(PARTS, *SHAPE, seed=193)), []

    def group(k):
        assert k == 3
        wanted.append(next(groups).copy())
        return wanted[-1].copy()

    found = Measured.of(group, 2 * PARTS + 1)
    assert found.mean == pytest.approx(np.mean(wanted, axis=0))
    assert found.variance == pytest.approx(3 * np.var(wanted, axis=0, ddof=1).sum())
    assert found.size == 3 * PARTS


def test_targets_are_around_all_samples_in_the_pool():
    loss, _ = metered(denoising_sampler(DOUBLE[0]))
    rng, R = np.random.default_rng(6), Smoothed.of(ElasticNet(0.3, 0.2), 0.1, SHAPE)
    first = Snapshot.pooled(loss, X, rng, 2, None)
    second = Snapshot.pooled(loss, X, rng, 6, first.pool)
    centre = 0.25 * first.pool.centre + 0.75 * loss.centre(second.samples, counted=False)
    assert second.pool.size == 8
    target = second.target(loss, Y, R, 4.0, rng, 0, first=False)
    assert formed(target) == pytest.approx(Y - (Y - centre + R.grad(Y)) / 4.0)
