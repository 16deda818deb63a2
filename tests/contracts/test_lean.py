"""The splitting in two arrays: certified, honest, and gone where it does not fit."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.certificates.factored import FactoredDual
from weakprox.losses import Denoising, Sensing
from weakprox.passes.engine import Engine
from weakprox.passes.ritz import ritz, whitened
from weakprox.penalties import L1, ElasticNet, GroupL2
from weakprox.run import choose as auto
from weakprox.selection import _lean
from weakprox.solvers import DavisYin, LeanSplitting
from weakprox.spectral import NuclearBall

CASES = [
    pytest.param(L1(0.5), 0.8, id="l1"),
    pytest.param(L1(0.0), 0.8, id="none"),
    pytest.param(ElasticNet(0.3, 0.01), 0.7, id="elastic net"),
]


def signal(seed, m=70, d=50, r=3):
    """Sparse low-rank plus noise, and the signal's nuclear norm."""
    rng = np.random.default_rng(seed)
    factors = [np.where(rng.random((n, r)) < 0.4, rng.uniform(1, 3, (n, r)), 0) for n in (m, d)]
    X = factors[0] @ factors[1].T
    return X + 0.3 * rng.standard_normal((m, d)), float(np.linalg.svd(X)[1].sum())


def problem(seed, penalty, factor, wrap=np.asarray):
    M, size = signal(seed)
    return wp.Problem(Denoising(wrap(M)), penalty, NuclearBall(factor * size))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("penalty", "factor"), CASES)
def test_certified_and_at_the_optimum_of_another_method(penalty, factor, seed):
    given = problem(seed, penalty, factor)
    exact = wp.minimize(given, DavisYin(), tol=1e-9, progress=False, max_svds=3000)
    result = wp.minimize(given, LeanSplitting(), tol=1e-5, progress=False, max_svds=500)
    assert result.solver == "LeanSplitting"
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.lower_bound <= exact.value
    assert result.value >= exact.certificate.lower_bound
    assert result.value - exact.value <= result.gap + 1e-9 * exact.value
    assert given.value(result.low_rank) == pytest.approx(result.value, rel=1e-12)
    assert given.spectral.violation(result.low_rank) <= 1e-12


@pytest.mark.parametrize("rank", [50, 64, 70, 100])
def test_answers_of_moderate_rank_stay_in_factors(rank):
    rng = np.random.default_rng(rank)
    X = rng.standard_normal((420, rank)) @ rng.standard_normal((rank, 400))
    M = X + rng.standard_normal(X.shape)
    given = wp.Problem(
        Denoising(M), L1(0.3), NuclearBall(0.8 * float(np.linalg.svd(X)[1].sum()))
    )
    result = wp.minimize(given, progress=False)
    assert result.certified
    assert (result.solver, result.low_rank.rank) == ("LeanSplitting", rank)


@pytest.mark.parametrize("tol", [1e-4, 1e-6])
@pytest.mark.parametrize("wrap", [np.asarray, torch.asarray], ids=["numpy", "torch"])
def test_float32_proves_in_double_precision(tol, wrap):
    M, size = signal(0)
    small = wp.Problem(Denoising(wrap(M.astype(np.float32))), L1(0.5), NuclearBall(0.8 * size))
    result = wp.minimize(small, LeanSplitting(), tol=tol, progress=False, max_svds=500)
    assert result.status is wp.Status.CERTIFIED
    assert result.X.dtype == small.loss.reference.dtype
    rounded = wp.Problem(
        Denoising(M.astype(np.float32).astype(float)), L1(0.5), NuclearBall(0.8 * size)
    )
    exact = wp.minimize(rounded, DavisYin(), tol=1e-9, progress=False, max_svds=3000)
    assert result.certificate.lower_bound <= exact.value
    assert result.value >= exact.certificate.lower_bound


def test_bounds_hold_whatever_the_block_and_the_step():
    """Poor blocks and odd steps make weak bounds, never wrong ones."""
    rng = np.random.default_rng(3)
    given = problem(1, L1(0.5), 0.8)
    exact = wp.minimize(given, DavisYin(), tol=1e-9, progress=False, max_svds=3000)
    C = given.loss.target
    best = -np.inf
    for gamma in (0.05, 0.5, 1.0, 1.7):
        for trial in range(10):
            z = exact.X + gamma * 0.5 * rng.standard_normal(C.shape) * 10.0 ** -(trial % 4)
            noise = rng.standard_normal((C.shape[1], 3)) * 10.0 ** -(trial % 3)
            Q = whitened(exact.low_rank.Vt[:3].T + noise)
            found = ritz(z @ Q, Q, exact=True)
            dual = FactoredDual(Engine(C, z), found, given.entrywise(gamma), given.values_form)
            found = dual.proof(rng)
            assert found.lower <= exact.value
            assert found.rests_on == "high-probability"
            best = max(best, found.lower)
    assert np.isfinite(best)


def test_points_that_are_not_low_rank_are_left_to_another_method():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((150, 140))
    given = wp.Problem(Denoising(M), L1(0.1), NuclearBall(1000.0))
    result = wp.minimize(given, LeanSplitting(), tol=1e-4, progress=False)
    assert result.solver == "DavisYin"
    assert result.status is wp.Status.CERTIFIED
    assert result.rank > 64


def test_a_gap_that_falls_slowly_is_left_to_another_method_too():
    given = problem(0, ElasticNet(0.3, 0.2), 0.7)
    result = wp.minimize(given, LeanSplitting(), tol=1e-8, progress=False, max_svds=2000)
    assert result.solver == "DavisYin"
    assert result.status is wp.Status.CERTIFIED


def test_a_rank_cap_that_is_too_small_is_never_reported_as_solved():
    given = problem(0, L1(0.5), 0.8)
    result = wp.minimize(given, LeanSplitting(rank=1), tol=1e-4, progress=False, max_svds=60)
    assert result.rank == 1
    assert not result.certified
    assert result.status in (wp.Status.MAX_SVDS, wp.Status.RANK_LIMITED, wp.Status.FINISHED)


def test_resuming_gives_the_same_bits():
    given = problem(2, L1(0.5), 0.8)
    whole = wp.minimize(given, LeanSplitting(), tol=1e-9, progress=False, max_svds=60)
    part = wp.minimize(given, LeanSplitting(), tol=1e-9, progress=False, max_svds=20)
    rest = wp.minimize(
        given, LeanSplitting(), tol=1e-9, progress=False, max_svds=60, resume=part
    )
    np.testing.assert_array_equal(whole.X, rest.X)
    assert whole.counts.svds == rest.counts.svds


def test_limits_callbacks_and_starts():
    given = problem(0, L1(0.5), 0.8)
    none = wp.minimize(given, LeanSplitting(), tol=1e-6, progress=False, max_svds=0)
    assert none.status is wp.Status.MAX_SVDS
    seen = []

    def callback(look):
        seen.append(look.X)
        return len(seen) == 3

    result = wp.minimize(given, LeanSplitting(), tol=1e-9, progress=False, callback=callback)
    assert result.status is wp.Status.CALLBACK
    assert all(X.shape == given.shape for X in seen)
    exact = wp.minimize(given, tol=1e-6, progress=False)
    again = wp.minimize(given, LeanSplitting(), start=exact.X, tol=1e-4, progress=False)
    assert again.certified


@pytest.mark.parametrize("rank", [1, 3])
def test_the_row_space_of_a_first_point_is_where_the_first_block_begins(monkeypatch, rank):
    blocks, begin = [], Engine.begin

    def kept(engine, k, block, powers):
        blocks.append(block.copy())
        return begin(engine, k, block, powers)

    monkeypatch.setattr(Engine, "begin", kept)
    given, rng = problem(0, L1(0.5), 0.8), np.random.default_rng(0)
    start = rng.standard_normal((70, rank)) @ rng.standard_normal((rank, 50))
    wp.minimize(given, LeanSplitting(), start=start, tol=1e-4, progress=False)
    within, beyond = blocks[0][:, :rank], blocks[0][:, rank]
    Q = np.linalg.qr(within)[0]
    np.testing.assert_allclose(start @ Q @ Q.T, start, atol=1e-10 * np.abs(start).max())
    assert np.linalg.norm(beyond - Q @ (Q.T @ beyond)) > 1.0  # and the rest is at random


@pytest.mark.parametrize(
    "other",
    [
        lambda M: wp.Problem(
            Denoising(M), GroupL2(0.1) + GroupL2(0.1, "columns"), NuclearBall(3.0)
        ),
        lambda M: wp.Problem(
            Sensing(np.eye(M.size).reshape(-1, *M.shape), M.ravel()), L1(0.1), NuclearBall(3.0)
        ),
    ],
)
def test_other_problems_are_refused(other):
    given = other(signal(0, 8, 6)[0])
    assert not LeanSplitting.applies(given)
    with pytest.raises(wp.InputError, match="problem"):
        wp.minimize(given, LeanSplitting())


def test_a_subclass_that_changes_a_term_is_not_taken_for_it():
    class Halved(L1):
        def value(self, X):
            return 0.5 * super().value(X)

    M = signal(0, 8, 6)[0]
    assert not LeanSplitting.applies(wp.Problem(Denoising(M), Halved(0.1), NuclearBall(3.0)))


def test_large_matrices_and_small_memory_get_it(monkeypatch):
    given = problem(0, L1(0.5), 0.8)
    assert isinstance(auto.choose(given).solver, DavisYin)
    monkeypatch.setattr(auto, "LEAN_FROM", 40)
    assert auto.choose(given, rank=7).solver == LeanSplitting(rank=7)
    monkeypatch.setattr(auto, "LEAN_FROM", 1000)
    monkeypatch.setattr(auto, "SMALL", 0)
    monkeypatch.setattr(auto, "room", lambda: 1000)
    choice = auto.choose(given)
    assert choice.solver == LeanSplitting()
    assert "memory" in choice.reason


ODD = {
    "zeros": (np.zeros((12, 16)), 1.0, 1.0),
    "all below lam": (np.random.default_rng(0).standard_normal((30, 20)), 10.0, 5.0),
    "one row": (np.random.default_rng(1).standard_normal((1, 20)), 10.0, 5.0),
    "one column": (np.random.default_rng(1).standard_normal((20, 1)), 0.1, 5.0),
    "repeated rows": (
        np.tile(np.random.default_rng(2).standard_normal((1, 12)), (20, 1)),
        0.1,
        1e3,
    ),
    "rank one": (np.outer(np.arange(54.0), np.arange(60.0)), 1500.0, 2e4),
    "tiny": (1e-9 * np.random.default_rng(3).standard_normal((30, 20)), 1e-10, 1e-9),
    "huge": (1e9 * np.random.default_rng(4).standard_normal((30, 20)), 1e8, 1e9),
}


@pytest.mark.parametrize("limit", [1, 2, 40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ODD)
def test_odd_data_end_in_true_statements(name, dtype, limit):
    """Dependent blocks once led to NaN, to points outside the ball, and to ranks of zero."""
    M, lam, tau = ODD[name]
    given = wp.Problem(Denoising(M.astype(dtype)), L1(lam), NuclearBall(tau))
    result = wp.minimize(given, LeanSplitting(), tol=1e-4, progress=False, max_svds=limit)
    s = np.linalg.svd(result.X.astype(float), compute_uv=False)
    loose = 1e-9 if dtype is np.float64 else 1e-4
    assert s.sum() <= tau * (1 + loose)
    assert result.rank == max(int((s > 1e-5 * s[0]).sum()), 0)
    assert np.isfinite(result.value)
    exact = wp.minimize(
        wp.Problem(Denoising(M.astype(dtype).astype(float)), L1(lam), NuclearBall(tau)),
        DavisYin(),
        tol=1e-9,
        progress=False,
        max_svds=2000,
    )
    assert result.certificate.lower_bound <= exact.value * (1 + 1e-12) + 1e-30


def test_a_limit_after_a_proof_that_failed_leaves_a_true_bound():
    """The target has moved on then, and what is known of it must not be mixed."""
    for seed in range(3):
        M, size = signal(seed, 30, 25)
        given = wp.Problem(Denoising(M), L1(0.5), NuclearBall(0.8 * size))
        exact = wp.minimize(given, DavisYin(), tol=1e-9, progress=False, max_svds=3000)
        for cap in (None, 1, 3):
            for limit in (2, 3, 5):
                result = wp.minimize(
                    given, LeanSplitting(rank=cap), tol=0.3, progress=False, max_svds=limit
                )
                assert result.certificate.lower_bound <= exact.value
                if result.certified:
                    assert result.value - exact.value <= result.eps


@pytest.mark.parametrize("started", [False, True])
def test_a_run_that_changed_its_method_is_resumed(started):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((150, 140))
    given = wp.Problem(Denoising(M), L1(0.1), NuclearBall(1000.0))
    start = np.outer(M[:, 0], np.ones(140)) / 1e3 if started else None
    options = {"tol": 1e-9, "progress": False}
    whole = wp.minimize(given, LeanSplitting(), start=start, max_svds=60, **options)
    part = wp.minimize(given, LeanSplitting(), start=start, max_svds=30, **options)
    rest = wp.minimize(given, LeanSplitting(), resume=part, max_svds=60, **options)
    assert whole.solver == rest.solver == "DavisYin"
    np.testing.assert_array_equal(whole.X, rest.X)


def test_a_result_of_a_larger_ball_is_no_start_but_no_error():
    large, small = problem(0, L1(0.5), 0.9), problem(0, L1(0.5), 0.5)
    first = wp.minimize(large, LeanSplitting(), tol=1e-4, progress=False)
    again = wp.minimize(small, LeanSplitting(), start=first, tol=1e-4, progress=False)
    assert again.certified


def test_values_that_follow_closely_are_told_apart_on_small_matrices():
    """A randomised bound is a few per cent too large: too much where two values are near."""
    rng = np.random.default_rng(3)
    U, V = (np.linalg.qr(rng.standard_normal((n, 5)))[0] for n in (7, 5))
    M = (U * [5.0, 2.98, 2.97, 1.0, 0.5]) @ V.T
    problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(1e-3), NuclearBall(2.0))
    result = wp.minimize(problem, wp.solvers.LeanSplitting(), tol=1e-4, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.solver == "LeanSplitting"


@pytest.mark.parametrize("known", [True, False])
def test_inexact_triplets_cost_the_squares_of_their_residuals(known):
    """Over the distance from the values that are left out, times the values that are kept."""
    s, values, far = np.array([5.0, 3.0, 1.0]), np.array([4.0, 1.5]), np.array([0.2, 0.3])
    U, V = np.eye(4)[:, :3], np.eye(5)[:, :3]
    z = U @ np.diag(s) @ V.T
    z[0, 3], z[1, 4] = far  # z'u less v s
    found = SimpleNamespace(s=s, U=U, V=V, residuals=np.append(far, 9.0) if known else None)
    state = SimpleNamespace(ritz=found, values=values)
    steps = SimpleNamespace(project=lambda state, k: state, engine=SimpleNamespace(z=z))
    _, lost = _lean._projected(steps, state, 1, 1.0)
    assert lost == pytest.approx(4.0 * 0.04 / 4.0 + 1.5 * 0.09 / 2.0)
