"""Looks come on a schedule of cost, and cost the method nothing."""

import time

import numpy as np
import pytest
from registry import SHAPE, numbers

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.spectral import NuclearBall

M = numbers(*SHAPE)
PROBLEM = wp.Problem(Denoising(M), L1(0.2), NuclearBall(2.0))


def run(**options):
    return wp.minimize(
        PROBLEM, wp.SVRGCG(3, inner=100, epochs=2), eps=1e-6,
        **{"stop_when_certified": False, **options},
    )  # fmt: skip


def test_looks_thin_out():
    trace = run().trace
    steps = trace["svds"][trace["step"] > 0]
    assert steps[:10].tolist() == list(range(1, 11))
    gaps = np.diff(steps)
    assert gaps[-1] >= 10
    assert len(steps) < 60
    assert (gaps <= np.maximum(1, 0.1 * steps[:-1] + 1)).all()


@pytest.mark.parametrize("every", [1, 7])
def test_look_every(every):
    trace = run(look_every=every).trace
    steps = trace["svds"][trace["step"] > 0]
    assert (np.diff(steps) == every).all()


def test_epoch_ends_are_always_looked_at():
    trace = run(look_every=1000).trace
    assert trace.epochs()["epoch"].tolist() == [1.0, 2.0]
    assert trace.epochs()["svds"].tolist() == [100.0, 200.0]


def test_how_often_one_looks_does_not_change_the_iterates():
    a, b = (run(look_every=e, callback=None).iterate_value for e in (1, 50))
    assert a == b


def test_certificates_appear_in_the_trace():
    result = wp.minimize(PROBLEM, wp.SVRGCG(3), eps=0.05)
    bounds = result.trace["lower_bound"]
    known = bounds[np.isfinite(bounds)]
    assert len(known) >= 1
    assert (np.diff(known) >= 0).all()
    assert (result.trace["value"] >= known[-1] - 1e-9).all()


def test_time_spent_looking_is_not_the_methods(monkeypatch):
    """A callback that takes an hour does not show in the trace, but it does use the limit."""
    late = [0.0]
    real = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: real() + late[0])

    def callback(look):
        late[0] += 3600.0

    result = run(callback=callback)
    assert result.seconds < 600.0
    assert result.trace["seconds"][-1] < 600.0
    assert (np.diff(result.trace["seconds"]) >= 0).all()
    assert run(callback=callback, max_seconds=600.0).status is wp.Status.MAX_SECONDS


def test_the_best_point_is_kept():
    best = []
    result = run(look_every=1, callback=lambda look: best.append(look.value_low_rank))
    assert result.value <= min(best) + 1e-12
