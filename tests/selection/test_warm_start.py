"""`minimize(start=result)`: what a neighbouring run leaves behind."""

import numpy as np
import pytest
from selection._signals import sparse_low_rank

import weakprox as wp

M = sparse_low_rank()[1]


def problem(lam, tau, M=M):
    return wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(lam), wp.spectral.NuclearBall(tau)
    )


@pytest.fixture(scope="module")
def neighbour():
    return wp.minimize(problem(0.4, 20.0), tol=1e-5, progress=False)


@pytest.mark.parametrize(("lam", "tau"), [(0.4, 21.0), (0.38, 20.0), (0.4, 19.0), (0.0, 20.0)])
def test_the_end_is_certified_and_takes_no_more_work(neighbour, lam, tau):
    cold = wp.minimize(problem(lam, tau), tol=1e-5, progress=False)
    warm = wp.minimize(problem(lam, tau), tol=1e-5, progress=False, start=neighbour)
    assert warm.certified
    assert warm.violation <= 1e-9
    assert abs(warm.value - cold.value) <= max(warm.gap, cold.gap)
    assert warm.counts.svds <= cold.counts.svds


def test_near_neighbours_help(neighbour):
    near = problem(0.395, 20.2)
    cold = wp.minimize(near, tol=1e-5, progress=False).counts.svds
    assert wp.minimize(near, tol=1e-5, progress=False, start=neighbour).counts.svds < 0.7 * cold


def test_bits_are_the_same_again(neighbour):
    runs = [wp.minimize(problem(0.3, 22.0), start=neighbour, progress=False) for _ in range(2)]
    assert runs[0].low_rank.U.tobytes() == runs[1].low_rank.U.tobytes()


def test_a_limit_before_the_first_step_leaves_a_feasible_answer(neighbour):
    stopped = wp.minimize(problem(0.3, 5.0), start=neighbour, max_svds=0, progress=False)
    assert stopped.violation == 0.0
    assert not stopped.certified


def test_a_warm_run_can_be_resumed(neighbour):
    hard = problem(0.4, 30.0)
    settings = {"tol": 1e-9, "progress": False}
    first = wp.minimize(hard, start=neighbour, max_svds=40, **settings)
    whole = wp.minimize(hard, start=neighbour, max_svds=70, **settings)
    resumed = wp.minimize(hard, resume=first, max_svds=70, **settings)
    assert resumed.value == whole.value


def test_solvers_without_a_warm_start_take_the_point(neighbour):
    far = problem(0.4, 25.0)  # feasible for the neighbour's answer
    found = wp.minimize(far, wp.SVRGCG(rank=4), eps=5.0, start=neighbour, progress=False)
    assert found.trace["value"][0] < 1.1 * neighbour.value


def test_results_without_dual_points_give_their_point():
    one = wp.minimize(problem(0.4, 20.0), wp.SVRGCG(rank=4), eps=30.0, progress=False)
    assert one.dual is None
    assert wp.minimize(problem(0.4, 20.0), start=one, progress=False).certified


def test_another_penalty_and_spectral_term():
    first = wp.minimize(
        wp.Problem(
            wp.losses.Denoising(M), wp.penalties.GroupL2(1.0), wp.spectral.NuclearNorm(2.0)
        ),
        progress=False,
    )
    second = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.GroupL2(0.8), wp.spectral.NuclearNorm(1.5)
    )
    assert wp.minimize(second, start=first, progress=False).certified


def test_torch_results_start_torch_runs():
    torch = pytest.importorskip("torch")
    T = torch.as_tensor(M)
    first = wp.minimize(problem(0.4, 20.0, T), progress=False)
    assert wp.minimize(problem(0.35, 20.0, T), start=first, progress=False).certified


@pytest.mark.parametrize("other", [M[:20], np.asarray(M, dtype=np.float32)])
def test_results_that_do_not_fit(neighbour, other):
    if other.shape == M.shape:  # of another precision: its point still serves
        large = problem(0.4, 25.0, other)
        assert wp.minimize(large, start=neighbour, progress=False).certified
    else:
        with pytest.raises(wp.ShapeError, match="start"):
            wp.minimize(problem(0.4, 20.0, other), start=neighbour, progress=False)
