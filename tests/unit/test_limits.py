"""Budgets, callbacks and Ctrl-C: whatever ends a run, the best point comes back."""

import time
from itertools import count

import numpy as np
import pytest
from registry import MATRICES, MEASURED, NUMPY, SHAPE, denoising_sampler, numbers

import weakprox as wp
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import L1, ElasticNet
from weakprox.solvers.paper import svrgcg
from weakprox.spectral import NuclearBall, NuclearNorm

M = numbers(*SHAPE)
BALL = NuclearBall(2.0)
FINITE = wp.Problem(Denoising(M), L1(0.2), BALL)
SAMPLED = wp.Problem(denoising_sampler(NUMPY), L1(0.2), BALL)
SENSING = wp.Problem(Sensing(MATRICES, MEASURED), ElasticNet(0.1, 0.2), BALL)
SOLVER = wp.SVRGCG(rank=3)
EPS = 1e-7  # out of reach within the limits below


def check(result, status):
    assert result.status is status
    assert not result.status.reached
    assert "**" in repr(result)
    assert result.violation <= 1e-9
    assert result.rank <= 3
    assert np.isfinite(result.value)
    seen = result.trace["value_low_rank"]
    if np.isfinite(seen).any():
        slack = 0.5 if result.sampled else 1e-9  # from fresh samples: twice their error
        assert result.value <= np.nanmin(seen) + slack


@pytest.mark.parametrize("problem", [FINITE, SAMPLED], ids=["finite", "sampled"])
@pytest.mark.parametrize("limit", [0, 1, 25])
def test_max_svds(problem, limit):
    result = wp.minimize(problem, SOLVER, eps=EPS, max_svds=limit)
    check(result, wp.Status.MAX_SVDS)
    assert result.counts.svds == limit


@pytest.mark.parametrize("limit", [0, 100, pytest.param(250, marks=pytest.mark.long)])
def test_max_samples(limit):
    result = wp.minimize(SAMPLED, SOLVER, eps=0.02, max_samples=limit)
    check(result, wp.Status.MAX_SAMPLES)
    assert result.counts.samples <= limit


def test_max_samples_of_a_finite_sum_count_inner_draws():
    solver = wp.SVRGCG(rank=3, k_t=5)
    result = wp.minimize(SENSING, solver, eps=EPS, max_samples=42)
    check(result, wp.Status.MAX_SAMPLES)
    assert result.counts.samples == 40


@pytest.mark.parametrize("problem", [FINITE, SAMPLED], ids=["finite", "sampled"])
def test_max_seconds(problem, monkeypatch):
    readings = count()  # a clock that shows a millisecond more at each reading
    monkeypatch.setattr(time, "perf_counter", lambda: 1e-3 * next(readings))
    check(wp.minimize(problem, SOLVER, eps=EPS, max_seconds=0), wp.Status.MAX_SECONDS)
    check(wp.minimize(problem, SOLVER, eps=EPS, max_seconds=0.02), wp.Status.MAX_SECONDS)


def test_certified_beats_the_limit_when_it_comes_first():
    result = wp.minimize(FINITE, SOLVER, eps=5.0, max_svds=500, max_seconds=1000)
    assert result.status is wp.Status.CERTIFIED


@pytest.mark.parametrize("problem", [FINITE, SAMPLED], ids=["finite", "sampled"])
def test_callback_may_stop(problem):
    looks = []

    def callback(look):
        looks.append(look)
        return len(looks) == 4

    result = wp.minimize(problem, SOLVER, eps=EPS, callback=callback)
    check(result, wp.Status.CALLBACK)
    assert len(looks) == 4
    last = looks[-1]
    assert last.X.shape == SHAPE
    assert (last.epoch, last.step) == (1, 4)
    assert last.counts.svds == 4
    assert last.value_low_rank >= result.value - 1e-9
    assert looks[0].counts.svds == 1  # counts are copies, not the live ones


def test_callbacks_that_return_nothing_change_nothing():
    seen = []
    with_it = wp.minimize(FINITE, SOLVER, eps=0.5, callback=seen.append)
    without = wp.minimize(FINITE, SOLVER, eps=0.5)
    assert np.array_equal(with_it.X, without.X)
    assert len(seen) == len(with_it.trace)
    assert [look.value for look in seen] == with_it.trace["value"].tolist()


def test_errors_in_a_callback_are_the_users():
    def callback(look):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        wp.minimize(FINITE, SOLVER, eps=EPS, callback=callback)


@pytest.mark.parametrize("problem", [FINITE, SAMPLED], ids=["finite", "sampled"])
@pytest.mark.parametrize("when", [1, 3, 8])
def test_ctrl_c_in_a_callback(problem, when):
    count = 0

    def callback(look):
        nonlocal count
        count += 1
        if count == when:
            raise KeyboardInterrupt

    check(wp.minimize(problem, SOLVER, eps=EPS, callback=callback), wp.Status.INTERRUPTED)


@pytest.mark.parametrize("solver", ["davis-yin", "dense-proximal"])
def test_ctrl_c_with_a_loss_that_needs_no_batch(solver):
    def callback(look):
        raise KeyboardInterrupt

    problem = wp.Problem(Denoising(M, weights=np.ones(SHAPE)), None, BALL)
    assert problem.loss.everything() is None
    found = wp.minimize(problem, solver, tol=1e-9, callback=callback)
    assert found.status is wp.Status.INTERRUPTED
    assert np.isfinite(found.value)


@pytest.mark.parametrize(
    "when", [3, 5, *(pytest.param(n, marks=pytest.mark.long) for n in (4, 6, 7, 8))]
)
def test_ctrl_c_in_a_sampler(when):
    """Whenever it comes once there is anything to return: a feasible point comes back."""
    calls = 0

    def sampler(rng, k):
        nonlocal calls
        calls += 1
        if calls == when:
            raise KeyboardInterrupt
        return M + 0.3 * rng.standard_normal((k, *SHAPE))

    problem = wp.Problem(Denoising(sampler=sampler, shape=SHAPE), L1(0.2), BALL)
    check(wp.minimize(problem, SOLVER, eps=0.02), wp.Status.INTERRUPTED)


def test_ctrl_c_inside_the_oracle_of_a_later_epoch():
    """The half-updated iterate is dropped; looks and the last epoch's end remain."""
    calls = 0

    class Interrupting(NuclearNorm):
        def weak_prox(self, A, **options):
            nonlocal calls
            calls += not options.get("certify", False)
            if calls == 40 and not options.get("certify", False):
                raise KeyboardInterrupt
            return super().weak_prox(A, **options)

    problem = wp.Problem(Denoising(M), None, Interrupting(0.5))
    result = wp.minimize(problem, wp.SVRGCG(3), eps=1e-12, stop_when_certified=False)
    assert result.status is wp.Status.INTERRUPTED
    assert result.checkpoint.memory.epoch >= 1
    assert result.counts.svds == 39


@pytest.mark.parametrize("answer", ["low_rank", "iterate"])
def test_ctrl_c_in_the_middle_of_an_update(answer, monkeypatch):
    """A half-written iterate is never returned."""
    blend, calls = svrgcg.blend_into, 0

    def interrupted(X, *rest, **options):
        nonlocal calls
        calls += 1
        blend(X, *rest, **options)
        if calls == 12:
            X[:3] = 1e6
            raise KeyboardInterrupt

    monkeypatch.setattr(svrgcg, "blend_into", interrupted)
    solver = wp.SVRGCG(rank=3, inner=5, answer=answer)
    result = wp.minimize(FINITE, solver, eps=EPS, stop_when_certified=False)
    assert result.status is wp.Status.INTERRUPTED
    assert result.checkpoint.memory.epoch == 2
    assert result.violation <= 1e-9
    assert np.abs(result.X).max() < 10
    assert np.isfinite(result.value)


def test_stopping_before_the_first_step_returns_a_feasible_point():
    start = np.zeros(SHAPE)
    start[0, 0] = 1.0
    result = wp.minimize(FINITE, SOLVER, eps=EPS, max_svds=0, start=start)
    check(result, wp.Status.MAX_SVDS)
    assert pytest.approx(start) == result.X
