"""Slopes in place of constraints on entries, which are raised until violations are small."""

import copy
import pickle
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import weakprox as wp
from weakprox.penalties import fixed
from weakprox.run import checkpoint
from weakprox.run.slopes import Series
from weakprox.storage import tree


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
    assert outside(found.X) < 1e-4 * found.X.sum()
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
    monkeypatch.setattr(fixed, "_first", lambda outward, g, steepest: 1e-3)
    problem = wp.Problem(*terms)
    found = wp.minimize(problem, progress=False)
    assert found.certified
    assert found.counts.svds > wp.minimize(found.source(), progress=False).counts.svds
    assert found.value == pytest.approx(right.value, rel=1e-3)
    assert max(map(violation, (found.X, right.X))) <= 1e-3 * np.abs(right.X).sum()


def test_a_multiplier_far_above_the_gradient_is_found():
    """The nuclear norm pulls an entry out of its bound, which the data hardly do."""
    M = np.zeros((6, 5))
    M[0, 0], M[3, 2] = 1.0 - 1e-6, 0.5
    low = np.full(M.shape, -np.inf)
    low[0, 0] = 1.0
    h = wp.spectral.NuclearNorm(100.0)
    problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.Box(low, np.inf), h)
    found = wp.minimize(problem, progress=False)
    assert found.certified
    assert found.value == pytest.approx(100.125, rel=1e-3)
    assert found.X[0, 0] == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize("seed", range(6))
def test_zeros_in_the_data_may_be_rounding_errors(seed):
    """Entries fixed at zero where the data are zero, but a low rank is not."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 16))
    out = rng.random(M.shape) < 0.2
    M = np.where(out, 1e-9 * rng.standard_normal(M.shape), M)
    weights = wp.penalties.L1(0.1, np.where(out, np.inf, 1.0))
    ball = wp.spectral.NuclearBall(0.7 * np.linalg.svd(M, compute_uv=False).sum())
    problem = wp.Problem(wp.losses.Denoising(M), weights, ball)
    found = wp.minimize(problem, progress=False)
    X = np.where(out, 0.0, found.X)
    X *= min(1.0, ball.tau / np.linalg.svd(X, compute_uv=False).sum())
    best = problem.smooth_value(X)  # of a point within all constraints
    assert found.certified
    assert best - found.certificate.lower_bound <= 1.01 * max(found.eps, 1e-4 * best)


def test_copies_of_a_problem_are_solved_alike():
    problem = nonnegative(*crowd(40))
    found = wp.minimize(problem, progress=False, proof=True)
    for other in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        assert wp.minimize(other, progress=False).counts == found.counts
        assert wp.verify(found.proof, other)


def test_limits_and_seeds_are_those_of_all_runs(monkeypatch):
    monkeypatch.setattr(fixed, "_first", lambda outward, g, steepest: 1e-3)
    problem = nonnegative(*crowd(40))
    found = wp.minimize(problem, progress=False, max_svds=20)
    assert found.status is wp.Status.MAX_SVDS
    assert found.counts.svds <= 20
    assert found.trace["svds"][-1] <= found.counts.svds
    assert np.all(np.diff(found.trace["svds"]) >= 0)
    rng, same = np.random.default_rng(0), np.random.default_rng(0)
    wp.minimize(problem, progress=False, seed=rng, max_svds=60)
    wp.minimize(wp.Problem(problem.loss, None, problem.spectral), seed=same, progress=False)
    assert rng.integers(1000) == same.integers(1000)


def test_values_with_smaller_slopes_are_not_compared_with_the_last_bound():
    rng = np.random.default_rng(33)
    A, b = rng.standard_normal((20, 4, 4)), 5.0 * rng.standard_normal(20)
    weights = np.where(rng.random((4, 4)) < 0.3, np.inf, 0.5)
    ball = wp.spectral.NuclearBall(30.0)
    problem = wp.Problem(wp.losses.Sensing(A, b), wp.penalties.L1(0.01, weights), ball)
    found = wp.minimize(problem, progress=False)
    assert np.isnan(found.trace["value"][0])  # the first slopes did not suffice
    assert "nan" not in repr(found.trace)
    assert np.nanmin(found.trace.gaps()) > 0.0


def test_resumed_runs_use_the_slopes_of_the_run_before():
    problem = nonnegative(*crowd(30))
    whole = wp.minimize(problem, progress=False, eps=0.1)
    part = wp.minimize(problem, progress=False, eps=0.1, max_svds=whole.counts.svds // 2)
    assert not part.certified
    resumed = wp.minimize(problem, progress=False, eps=0.1, resume=part)
    assert np.array_equal(resumed.X, whole.X)


def test_other_errors_are_not_taken_for_other_slopes():
    problem = nonnegative(*crowd(30))
    other = wp.minimize(nonnegative(*crowd(30, seed=1)), progress=False)
    with pytest.raises(wp.InputError, match="resume"):
        wp.minimize(problem, progress=False, resume=other)
    own = wp.minimize(problem, progress=False, max_svds=5)
    with pytest.raises(wp.InputError, match="seed") as refused:
        wp.minimize(problem, progress=False, resume=own, seed=7)
    assert "another problem" not in str(refused.value)
    with pytest.raises(wp.InputError, match="tol"):
        wp.minimize(problem, progress=False, tol=-1.0)


def test_the_time_limit_is_that_of_all_runs(monkeypatch):
    monkeypatch.setattr(fixed, "_first", lambda outward, g, steepest: 1e-3)
    found = wp.minimize(nonnegative(*crowd(60)), progress=False, max_seconds=0.0)
    assert found.status is wp.Status.MAX_SECONDS


def same(one, other):
    assert np.array_equal(one.X, other.X)
    assert (one.value, one.eps, one.gap) == (other.value, other.eps, other.gap)
    assert one.counts == other.counts
    assert np.array_equal(one.trace["svds"], other.trace["svds"])
    assert np.array_equal(one.trace["value"], other.trace["value"], equal_nan=True)
    assert repr(one.source().penalty) == repr(other.source().penalty)


def test_a_file_holds_the_run_with_the_slopes_so_far(tmp_path, monkeypatch):
    """Runs that are stopped at any number of decompositions end with the same bits."""
    monkeypatch.setattr(fixed, "_first", lambda outward, g, steepest: 1e-3)
    problem, path = nonnegative(*crowd(30)), tmp_path / "run.safetensors"
    whole = wp.minimize(problem, progress=False)
    assert whole.source().penalty.slope > 1e-3
    options = {"progress": False, "checkpoint": path, "checkpoint_every": 0.0, "resume": True}
    parts = [
        wp.minimize(problem, max_svds=limit, **options)
        for limit in range(16, whole.counts.svds, 32)
    ]
    assert len({part.source().penalty.slope for part in parts}) > 1
    assert max(part.value for part in parts) < 1.1 * whole.value
    same(wp.minimize(problem, **options), whole)
    same(wp.minimize(problem, **options), whole)


def test_an_answer_that_violates_constraints_is_not_certified_at_a_limit(monkeypatch):
    """The run that is stopped proves its accuracy with slopes that are too small."""
    monkeypatch.setattr(fixed, "_first", lambda outward, g, steepest: 1e-3)
    problem = nonnegative(*crowd(30))
    one = problem.with_slopes()[0]
    needed = wp.minimize(one, progress=False).counts.svds
    found = wp.minimize(problem, progress=False, max_svds=needed, stop_when_certified=False)
    steeper = found.source()
    assert not found.certified
    assert found.status is wp.Status.MAX_SVDS
    assert steeper.penalty.slope > one.penalty.slope
    assert found.value == pytest.approx(steeper.value(found.X))
    assert found.certificate.lower_bound <= wp.minimize(one, progress=False).value
    assert np.isfinite(found.certificate.lower_bound)
    assert found.checkpoint.stage == 0  # where a resumed run continues


def test_files_of_earlier_versions_are_of_the_steepest_slopes(tmp_path, monkeypatch):
    """They have no stage, and memories lack members with a default that are new."""
    problem, path = nonnegative(*crowd(12)), tmp_path / "run.safetensors"
    steep = wp.Problem(problem.loss, problem.penalty, problem.spectral)
    names = tuple(name for name in checkpoint.NAMES if name != "stage")
    with monkeypatch.context() as earlier:
        earlier.setattr(checkpoint, "NAMES", names)
        parts = tree.parts_of
        old = lambda kind: [x for x in parts(kind) if x != "inside"]  # noqa: E731
        earlier.setattr(tree, "parts_of", old)
        wp.minimize(steep, progress=False, checkpoint=path, max_svds=9)
    resumed = wp.minimize(problem, progress=False, checkpoint=path, resume=True, max_svds=30)
    whole = wp.minimize(steep, progress=False, max_svds=30)
    assert np.array_equal(resumed.X, whole.X)
    assert resumed.source().penalty.slope == problem.penalty.slope


def test_states_of_other_slopes_are_of_other_data(tmp_path):
    problem, path = nonnegative(*crowd(30)), tmp_path / "run.safetensors"
    part = wp.minimize(problem, progress=False, max_svds=4)
    part = replace(part, checkpoint=replace(part.checkpoint, stage=99))
    with pytest.raises(wp.InputError, match="other data"):
        wp.minimize(problem, progress=False, resume=part, checkpoint=path)


def test_data_of_extreme_size_are_solved_with_slopes_in_another_unit(tmp_path):
    M, tau = crowd(20)
    found = wp.minimize(nonnegative(M, tau), progress=False)
    large = nonnegative(2.0**60 * M, 2.0**60 * tau)
    files = ({}, {"checkpoint": tmp_path / "run.safetensors"})
    for options in files:
        other = wp.minimize(large, progress=False, **options)
        assert np.array_equal(other.X, 2.0**60 * found.X)
        assert other.counts == found.counts


def test_zeros_of_a_positive_semidefinite_matrix_begin_with_moderate_slopes():
    """With the slope that is proved to be steep enough, 60 decompositions do not suffice."""
    rng = np.random.default_rng(0)
    U = rng.integers(1, 10, (60, 3)) * (rng.random((60, 3)) < 0.2)
    noise = rng.standard_normal((60, 60))
    out = np.triu(rng.random((60, 60)) < 0.9, 1)
    weights = np.where(out | out.T, np.inf, 1.0)
    cone = wp.spectral.TracePSD(0.9 * float((U * U).sum()))
    data = wp.losses.Denoising(U @ U.T + noise + noise.T)
    problem = wp.Problem(data, wp.penalties.L1(2.0, weights), cone)
    found = wp.minimize(problem, progress=False, max_svds=60)
    assert found.certified
    assert np.abs(found.X[out]).max() < 1e-3 * np.abs(found.X).max()
    steep = wp.Problem(data, problem.penalty, cone)
    assert not wp.minimize(steep, progress=False, max_svds=60).certified


def test_a_run_that_ends_without_a_proof_is_followed_by_one_with_steeper_slopes():
    series = Series.of(nonnegative(*crowd(30)), 1.0)
    found = wp.minimize(series.problem(0), progress=False)
    X = found.low_rank
    bare = replace(found, certificate=wp.Certificate.nothing(found.value))
    for status in (wp.Status.FINISHED, wp.Status.MAX_SVDS):
        after = series.after(0, replace(bare, status=status, low_rank=X))
        assert (after is None) == (status is wp.Status.MAX_SVDS)


@pytest.mark.parametrize("seed", [11, 24, 43])
def test_points_that_show_enough_are_positive_semidefinite(seed, monkeypatch):
    """Zeros in place of fixed entries may leave the cone, where f is too small."""
    first = fixed._first
    monkeypatch.setattr(fixed, "_first", lambda *given: 1e-3 * first(*given))
    rng, m = np.random.default_rng(seed), 5
    A, b = rng.standard_normal((12, m, m)), 3.0 * rng.standard_normal(12)
    A, mask = A + A.transpose(0, 2, 1), rng.random((m, m)) < 0.3
    mask |= mask.T
    np.fill_diagonal(mask, False)
    weights, loss = np.where(mask, np.inf, 1.0), wp.losses.Sensing(A, b)
    problem = wp.Problem(loss, wp.penalties.L1(0.1, weights), wp.spectral.TracePSD(5.0))
    found = wp.minimize(problem, progress=False, tol=1e-2, max_svds=2000)
    assert found.certified
    Z = np.where(mask, 0.0, found.X)
    Z = Z - min(0.0, np.linalg.eigvalsh(Z)[0]) * np.eye(m)
    Z *= min(1.0, 5.0 / np.trace(Z))
    X = cp.Variable((m, m), symmetric=True)
    told = cp.hstack([cp.sum(cp.multiply(part, X)) for part in A])
    f = cp.sum_squares(told - b) / 24 + 0.1 * cp.sum(cp.abs(cp.multiply(~mask, X)))
    limits = [X >> 0, cp.trace(X) <= 5.0, cp.multiply(1.0 * mask, X) == 0]
    best = cp.Problem(cp.Minimize(f), limits).solve(solver="CLARABEL")
    X.value = Z
    assert found.certificate.lower_bound <= best + 1e-6
    assert f.value <= best + found.eps


@pytest.mark.parametrize("scale", [2.0**200, 2.0**-200])
def test_bounds_of_a_stopped_run_are_in_the_units_of_the_data(scale, monkeypatch):
    monkeypatch.setattr(
        fixed, "_first", lambda outward, g, steepest: min(steepest, 1e-3 * np.abs(g).max())
    )
    M, tau = crowd(30)
    options = {"progress": False, "max_svds": 25, "stop_when_certified": False}
    plain = wp.minimize(nonnegative(M, tau), **options)
    scaled = wp.minimize(nonnegative(scale * M, scale * tau), **options)
    bound = scaled.certificate.lower_bound / scale**2
    assert 0.0 < bound <= scaled.value / scale**2
    assert bound == pytest.approx(plain.certificate.lower_bound, rel=1e-6)
