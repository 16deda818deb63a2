"""Oracles are counted by wrapping, and stop before they exceed a limit."""

import time

import numpy as np
import pytest
from registry import MATRICES, MEASURED, NOISY, SHAPE, numbers

from weakprox.losses import Denoising, Sensing
from weakprox.metering import Budget, Meter, MeteredLoss, MeteredSpectral, StopRun
from weakprox.result import Status
from weakprox.spectral import NuclearBall, singular

X = numbers(*SHAPE)
RNG = np.random.default_rng(0)


def test_samples_and_gradients():
    meter = Meter(Budget())
    loss = MeteredLoss(Sensing(MATRICES, MEASURED), meter)
    batch = loss.draw(RNG, 7)
    assert (meter.counts.samples, meter.counts.gradients) == (7, 0)
    loss.grad(X, batch)
    loss.grad(X + 1, batch)
    assert meter.counts.gradients == 14
    loss.grad(X, batch, counted=False)
    assert meter.counts.gradients == 14
    loss.grad(X, loss.everything())
    assert meter.counts.full_gradients == 1
    assert meter.counts.gradients == 14 + len(MEASURED)
    assert meter.counts.samples == 7


def test_wrapping_changes_no_number():
    plain = Sensing(MATRICES, MEASURED)
    loss = MeteredLoss(plain, Meter(Budget()))
    a = loss.grad(X, loss.draw(np.random.default_rng(1), 5))
    b = plain.grad(X, plain.draw(np.random.default_rng(1), 5))
    assert np.array_equal(a, b)
    assert loss.smoothness == plain.smoothness
    assert loss.shape == plain.shape


def test_decompositions_count_their_rank(monkeypatch):
    monkeypatch.setattr(singular, "gram_is_cheaper", lambda *_: False)
    meter = Meter(Budget())
    term = MeteredSpectral(NuclearBall(2.0), meter)
    A = numbers(200, 180)
    first = term.weak_prox(A, weight=1.0, rank=4)
    second = term.weak_prox(A, weight=1.0, rank=3)
    assert (meter.counts.svds, meter.counts.rank_one_svds) == (2, 7)
    assert meter.counts.passes == first.passes + second.passes > 0
    assert term.tau == 2.0


def test_samples_stop_before_the_limit_is_passed():
    meter = Meter(Budget(max_samples=10))
    loss = MeteredLoss(Denoising(samples=NOISY), meter)
    loss.draw(RNG, 6)
    with pytest.raises(StopRun) as stop:
        loss.draw(RNG, 5)
    assert stop.value.status is Status.MAX_SAMPLES
    assert meter.counts.samples == 6
    loss.draw(RNG, 4)  # exactly at the limit is allowed


def test_svds_stop_before_the_limit_is_passed():
    meter = Meter(Budget(max_svds=1))
    term = MeteredSpectral(NuclearBall(2.0), meter)
    term.weak_prox(X, weight=1.0, rank=2)
    with pytest.raises(StopRun) as stop:
        term.weak_prox(X, weight=1.0, rank=2)
    assert stop.value.status is Status.MAX_SVDS
    assert meter.counts.svds == 1


def test_seconds_leave_idle_time_out_but_the_limit_is_the_clock_on_the_wall(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    meter = Meter(Budget(max_seconds=25.0))
    now[0] += 20.0
    meter.idle = 18.0
    assert meter.seconds == 2.0
    meter.check()
    now[0] += 6.0
    with pytest.raises(StopRun) as stop:
        meter.check()
    assert stop.value.status is Status.MAX_SECONDS


def test_no_limits_by_default():
    Meter(Budget()).check(samples=10**12, svds=10**12)
