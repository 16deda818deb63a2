"""Counting the work to an accuracy, and averaging curves."""

import numpy as np
import pytest

import weakprox as wp
from weakprox.experiments.race import MEASURES, Watch, banded, race, thinned
from weakprox.result import Counts

rng = np.random.default_rng(3)
Y = np.where(rng.random((20, 2)) < 0.4, rng.integers(1, 4, (20, 2)), 0).astype(float)
M = Y @ Y.T + 0.3 * rng.standard_normal((20, 20))
PROBLEM = wp.Problem(
    wp.losses.Denoising(M),
    wp.penalties.L1(0.5),
    wp.spectral.NuclearBall(0.8 * float(np.sum(Y * Y))),
)


def watched(targets, cap=5000, **options):
    floor = wp.minimize(PROBLEM, wp.SVRGCG(rank=10), eps=0.5).certificate.lower_bound
    watch = Watch(PROBLEM.smooth_value, floor, targets, **options)
    found = race(PROBLEM, wp.SVRGCG(rank=4, answer="iterate"), watch, seed=0, cap=cap)
    return watch, found


def test_each_accuracy_is_noted_at_the_first_look_within_it():
    watch, found = watched([50.0, 10.0, 3.0])
    calls = [hit["calls"] for hit in found["X"]]
    assert calls == sorted(calls)
    assert found["status"] == "CALLBACK"
    gaps = {int(row[MEASURES.index("rank_one_svds")]): row[-1] for row in watch.curve}
    for target, hit in zip(watch.targets, found["X"], strict=True):
        assert gaps[hit["rank_one_svds"]] <= target
        earlier = [gap for svds, gap in gaps.items() if svds < hit["rank_one_svds"]]
        assert min(earlier) > target  # nothing before it was good enough


def test_what_is_not_reached_is_none_and_the_cap_is_kept():
    _, found = watched([1090.0, 3.0], cap=30)
    assert found["X"][0] is not None
    assert found["X"][1] is None
    assert found["status"] == "MAX_SVDS"
    assert found["calls"] == 30
    assert found["last_gap"] > 3.0


def test_time_for_drawing_is_added():
    _, found = watched([50.0], per_sample=2.0, drawn=10)
    assert found["X"][0]["seconds"] > 20.0
    assert found["X"][0]["seconds_sampling"] == 20.0


def test_samples_and_gradients_are_told_apart():
    """An inner sample costs two gradients; a finite sum draws nothing."""
    counts = Counts(samples=7, gradients=12, svds=3, rank_one_svds=6)
    watch = Watch(PROBLEM.smooth_value, 0.0, [1.0], per_sample=0.5, unbilled=lambda: 0.25)
    assert watch._work(counts, 2.0) == {
        "samples": 7,
        "gradients": 12,
        "rank_one_svds": 6,
        "calls": 3,
        "full_gradients": 0,
        "seconds": 2.0 - 0.25 + 3.5,
        "seconds_sampling": 3.5,
    }
    watch.finite, watch.drawn = True, 100
    assert watch._work(counts, 2.0)["samples"] == 12
    assert watch._work(counts, 2.0)["seconds_sampling"] == 53.5


def test_an_interrupted_run_is_not_a_result():
    class Interrupting(Watch):
        def __call__(self, look):
            raise KeyboardInterrupt

    watch = Interrupting(PROBLEM.smooth_value, 0.0, [1.0])
    with pytest.raises(KeyboardInterrupt):
        race(PROBLEM, wp.SVRGCG(rank=2), watch, seed=0, cap=5)


def test_thinned_curves_keep_both_ends():
    curve = [(float(k),) for k in range(1000)]
    kept = thinned(curve)
    assert kept[:20] == curve[:20]
    assert kept[-1] == curve[-1]
    assert 100 < len(kept) < 250


def test_bands_hold_the_last_value_and_begin_with_the_first():
    curves = [
        [[0.0, 0, 0, 8.0], [1.0, 0, 0, 4.0], [10.0, 0, 0, 1.0]],
        [[0.0, 0, 0, 8.0], [4.0, 0, 0, 2.0]],
    ]
    found = banded(curves, 0, points=3)
    assert found["x"] == pytest.approx([1.0, np.sqrt(10), 10.0])
    assert found["mean"] == pytest.approx([6.0, 6.0, 1.5])
    assert found["low"][2] == pytest.approx(1.1)
    assert banded([[[0.0, 0, 0, 8.0]]], 0) == {"x": [], "mean": [], "low": [], "high": []}
