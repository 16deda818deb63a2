"""Slopes in place of constraints on entries, which are raised until violations are small."""

import numpy as np
import pytest

import weakprox as wp
from weakprox.penalties import fixed


def crowd(n=120, rank=3, seed=0):
    """Nonnegative patterns and noise, and the nuclear norm of the patterns."""
    rng = np.random.default_rng(seed)
    U, V = (rng.integers(1, 10, (n, rank)) * (rng.random((n, rank)) < 0.2) for _ in range(2))
    signal = (U @ V.T).astype(float)
    return signal + rng.standard_normal((n, n)), np.linalg.svd(signal, compute_uv=False).sum()


def nonnegative(M, tau):
    ball = wp.spectral.NuclearBall(0.9 * tau)
    return wp.Problem(wp.losses.Denoising(M), wp.penalties.Box(0.0, np.inf), ball)


def outside(X):
    return float(np.clip(-X, 0.0, None).sum())


def test_slopes_that_are_proved_to_be_steep_enough_are_rarely_needed():
    """With that slope, 400 decompositions do not suffice."""
    problem = nonnegative(*crowd())
    found = wp.minimize(problem, progress=False, max_svds=400)
    assert found.certified
    assert found.source().penalty.slope < problem.penalty.slope / 16
    assert found.source().penalty.value(found.X) <= found.eps
    steep = wp.Problem(problem.loss, problem.penalty, problem.spectral)
    assert not wp.minimize(steep, progress=False, max_svds=400).certified


OUT = np.random.default_rng(1).random((40, 40)) < 0.1
WEIGHTS = np.where(OUT, np.inf, 1.0)


@pytest.mark.parametrize(
    ("penalty", "violation"),
    [
        (wp.penalties.Box(0.0, np.inf), outside),
        (wp.penalties.L1(0.1, WEIGHTS), lambda X: np.abs(X[OUT]).sum()),
    ],
    ids=["bounds", "weights"],
)
def test_slopes_are_raised_if_violations_remain(penalty, violation, monkeypatch):
    M, tau = crowd(40)
    terms = wp.losses.Denoising(M), penalty, wp.spectral.NuclearBall(0.9 * tau)
    right = wp.minimize(wp.Problem(*terms), progress=False)
    monkeypatch.setattr(fixed, "_first", lambda pull, steepest: 1e-3)
    problem = wp.Problem(*terms)
    found = wp.minimize(problem, progress=False)
    assert found.certified
    assert found.counts.svds > wp.minimize(found.source(), progress=False).counts.svds
    assert found.value == pytest.approx(right.value, rel=1e-3)
    assert max(map(violation, (found.X, right.X))) <= 1e-3 * np.abs(right.X).sum()


def test_resumed_runs_use_the_slopes_of_the_run_before():
    problem = nonnegative(*crowd(60))
    whole = wp.minimize(problem, progress=False, eps=0.01)
    part = wp.minimize(problem, progress=False, eps=0.01, max_svds=whole.counts.svds // 2)
    assert not part.certified
    resumed = wp.minimize(problem, progress=False, eps=0.01, resume=part)
    assert np.array_equal(resumed.X, whole.X)


def test_other_errors_are_not_taken_for_other_slopes():
    problem = nonnegative(*crowd(30))
    other = wp.minimize(nonnegative(*crowd(30, seed=1)), progress=False)
    with pytest.raises(wp.InputError, match="resume"):
        wp.minimize(problem, progress=False, resume=other)
    with pytest.raises(wp.InputError, match="tol"):
        wp.minimize(problem, progress=False, tol=-1.0)


def test_the_time_limit_is_that_of_all_runs(monkeypatch):
    monkeypatch.setattr(fixed, "_first", lambda pull, steepest: 1e-3)
    found = wp.minimize(nonnegative(*crowd(60)), progress=False, max_seconds=0.0)
    assert found.status is wp.Status.MAX_SECONDS


def test_checkpoints_hold_the_problem_with_the_steepest_slopes(tmp_path):
    problem, path = nonnegative(*crowd(30)), tmp_path / "run.safetensors"
    found = wp.minimize(problem, progress=False, checkpoint=path, max_svds=60, tol=1e-2)
    assert found.source() is problem
    again = wp.minimize(problem, progress=False, checkpoint=path, resume=True, tol=1e-2)
    assert again.value <= found.value
