"""Estimated ranks are sensible: that of the optimum, or a little more."""

import numpy as np
import pytest
from registry import DOUBLE, numbers

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.solvers import AdaptiveSVRGCG
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD


def planted(rank, m=20, d=16, noise=0.0):
    U = np.linalg.qr(numbers(m, rank, seed=210))[0]
    V = np.linalg.qr(numbers(d, rank, seed=211))[0]
    return 10 * U @ V.T + noise * numbers(m, d, seed=212)


@pytest.mark.parametrize("rank", [1, 3, 7])
@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_planted_rank_is_found(rank, backend):
    M = planted(rank, noise=0.05)
    problem = wp.Problem(Denoising(backend.array(M)), None, NuclearBall(8.0 * rank))
    result = wp.minimize(problem, wp.SVRGCG("estimate"), eps=1.0)
    assert result.checkpoint.memory.rank == rank
    assert result.rank <= rank
    assert result.status is wp.Status.CERTIFIED


@pytest.mark.parametrize("rank", [1, 3])
def test_other_terms(rank):
    M = planted(rank, 16, 16)
    cases = [
        wp.Problem(Denoising(M), None, NuclearNorm(2.0)),
        wp.Problem(Denoising(M @ M.T / 10), L1(0.01), TracePSD(8.0 * rank)),
    ]
    for problem in cases:
        result = wp.minimize(problem, wp.SVRGCG("estimate"), eps=1.0)
        assert rank <= result.checkpoint.memory.rank <= rank + 3
        assert result.status is wp.Status.CERTIFIED


def test_sampled_losses():
    M = planted(2)

    def sampler(rng, k):
        return M + 0.05 * rng.standard_normal((k, *M.shape))

    problem = wp.Problem(Denoising(sampler=sampler, shape=M.shape), None, NuclearBall(15.0))
    result = wp.minimize(problem, wp.SVRGCG("estimate"), eps=1.0)
    assert result.checkpoint.memory.rank == 2
    assert result.counts.svds > result.parameters.predicted_svds  # the estimate's own


def test_the_second_step_sees_what_the_penalty_does():
    """At zero the smoothed penalty is flat: only the next step shows that it kills noise."""
    M = np.diag(np.r_[10.0, np.full(11, 0.1)])
    problem = wp.Problem(Denoising(M), L1(0.3), TracePSD(50.0))
    result = wp.minimize(problem, wp.SVRGCG("estimate"), eps=0.1)
    assert result.checkpoint.memory.rank == 1
    assert pytest.approx(np.diag(np.r_[9.7, np.zeros(11)]), abs=0.2) == result.X


def test_full_rank_optimum_and_zero():
    full = wp.Problem(Denoising(np.eye(12)), None, NuclearBall(11.0))
    assert wp.minimize(full, wp.SVRGCG("estimate"), eps=0.01).checkpoint.memory.rank == 12
    nothing = wp.Problem(Denoising(np.zeros((5, 4))), L1(1.0), NuclearBall(1.0))
    result = wp.minimize(nothing, wp.SVRGCG("estimate"), eps=0.01)
    assert result.checkpoint.memory.rank == 1
    assert result.rank == 0
    assert result.value == pytest.approx(0.0)


@pytest.mark.parametrize("good", [1, 4, np.int64(2), "estimate"])
def test_good_ranks(good):
    wp.SVRGCG(good).check(wp.Problem(Denoising(planted(1)), None, NuclearBall(1.0)))


@pytest.mark.parametrize("kind", [wp.SVRGCG, AdaptiveSVRGCG])
def test_a_rank_beyond_the_shape_is_the_largest_one(kind):
    problem = wp.Problem(Denoising(planted(2, 5, 4)), L1(0.1), NuclearBall(5.0))
    most, more = (wp.minimize(problem, kind(rank), eps=1.0) for rank in (4, 9))
    assert more.checkpoint.memory.rank == 4
    assert np.array_equal(most.X, more.X)
    assert most.counts == more.counts


@pytest.mark.parametrize(
    "bad", [0, -1, 2.0, True, None, "auto", np.array([1, 2]), np.nan, [1], np.float64(2)]
)
def test_bad_ranks(bad):
    problem = wp.Problem(Denoising(planted(1)), None, NuclearBall(1.0))
    with pytest.raises(wp.InputError, match=r"rank: got .* an integer >= 1, or 'estimate'"):
        wp.SVRGCG(bad).check(problem)
