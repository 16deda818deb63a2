"""What DavisYin may claim and must refuse; several of these were real faults."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused
from registry import numbers

import weakprox as wp
from weakprox.certificates.split import FixedDual, lower_bound
from weakprox.losses import Completion, Denoising
from weakprox.penalties import L1, ElasticNet
from weakprox.protocols import Candidate
from weakprox.run import evaluate
from weakprox.solvers import DavisYin, _stored, davis_yin
from weakprox.spectral import Exact, NuclearBall, NuclearNorm

M = numbers(20, 3) @ numbers(3, 15) + 0.3 * numbers(20, 15)
PROBLEM = wp.Problem(Denoising(M), L1(0.2), NuclearBall(20.0))


def solve(solver=None, *, problem=PROBLEM, eps=1e-6, **options):
    return wp.minimize(
        problem, DavisYin() if solver is None else solver, eps=eps, progress=False, **options
    )


@pytest.mark.parametrize("rank", [0, -1, True, 2.5, "estimate", np.nan])
def test_ranks_that_are_none(rank):
    refused(lambda: solve(DavisYin(rank=rank)), "rank", "integer >= 1")


def test_a_rank_no_matrix_of_this_shape_has_is_a_cap():
    assert np.array_equal(solve(DavisYin(rank=16)).X, solve().X)


@pytest.mark.parametrize("memory", [-1, True, False, "x", 2.5, 0.0, None, np.nan])
def test_memories_that_are_none(memory):
    """None passed the check and failed in the middle of the run."""
    refused(lambda: solve(DavisYin(memory=memory)), "memory", "integer >= 0")


@pytest.mark.parametrize("number", [np.int64(3), 3, 15])
def test_whole_numbers_of_any_kind_will_do(number):
    result = solve(DavisYin(rank=number, memory=number), eps=1e-2)
    assert result.status is wp.Status.CERTIFIED


def test_without_strong_convexity_nothing_begins():
    rows, cols = np.nonzero(M > 0)
    loss = Completion(rows, cols, M[rows, cols], M.shape)
    free = Exact(prox=lambda A, weight: A, value_of=lambda X: 0.0)
    with pytest.raises(wp.ConvexityError, match="ElasticNet"):
        solve(problem=wp.Problem(loss, L1(0.1), free))
    problem = wp.Problem(loss, ElasticNet(0.1, 1e-4), NuclearBall(20.0))
    assert solve(problem=problem, eps=1e-3).status is wp.Status.CERTIFIED


@pytest.mark.parametrize("limit", [1, 5, 10, 15])
def test_a_run_stopped_early_proves_what_it_knows(limit):
    """The last proof once used the dual point of the last whole stretch, or none."""
    best = solve(eps=1e-9).value
    result = solve(eps=1e-9, max_svds=limit)
    assert result.status is wp.Status.MAX_SVDS
    lower = result.certificate.lower_bound
    assert best - 2.0 * 0.7**limit <= lower <= best + 1e-9
    stopped = solve(eps=1e-9, callback=lambda look: look.counts.svds >= limit)
    assert stopped.status is wp.Status.CALLBACK
    assert best - 2.0 * 0.7**limit <= stopped.certificate.lower_bound <= best + 1e-9


def test_proofs_linearise_where_the_dual_point_was_found(monkeypatch):
    """The best dual point and the best value often come from different iterations."""
    gaps = []

    def checked(problem, X, dual, **options):
        np.testing.assert_array_equal(X, dual.at.dense())
        return lower_bound(problem, X, dual, **options)

    monkeypatch.setattr(evaluate, "lower_bound", checked)
    for limit in range(1, 16):
        result = solve(eps=1e-9, max_svds=limit)
        assert np.isnan(result.trace["lower_bound"]).all()  # one proof, at the end
        gaps.append(result.gap)
    assert gaps[-1] < 0.01 * gaps[0]


def test_how_it_answers_is_no_setting():
    with pytest.raises(TypeError):
        DavisYin(answer="iterate")


def test_a_start_of_high_rank_is_not_cut_where_no_rank_is_asked_for():
    """Stopped at once, the answer was the start cut to the first rank of the run."""
    start = M * (19.0 / np.linalg.norm(M, "nuc"))
    assert np.linalg.matrix_rank(start) > davis_yin.FIRST_RANK
    result = solve(start=start, max_svds=0)
    assert result.value <= PROBLEM.smooth_value(start) + 1e-9
    assert result.rank == 15
    assert solve(DavisYin(rank=2), start=start, max_svds=0).rank <= 2


def state(**changes):
    X = 0 * M
    start = davis_yin.Memory(
        X=X, V=None, h=0.0, z=X, gamma=1.0, history=davis_yin.History(), epoch=0, done=0,
        rank=8, basis=None, parameters=davis_yin.GapParameters(1e-6, 1.0, 1.0),
    )  # fmt: skip
    return replace(start, **changes)


def test_an_infinite_value_sets_no_bound():
    """Infinity minus what was lost is no lower bound; it stayed the best one for ever."""
    dual = FixedDual(PROBLEM.penalty, 0 * M)
    after = _stored.judged(state(), math.inf, math.inf, dual, 1)
    assert after.bound == -math.inf
    assert after.dual is None
    assert DavisYin().candidate(after).gap == math.inf
    later = _stored.judged(after, 5.0, 4.0, dual, 2)
    assert later.value - later.bound == pytest.approx(1.0)
    assert later.progress == 2


def test_a_gap_below_zero_is_no_progress():
    dual, value = FixedDual(PROBLEM.penalty, 0 * M), PROBLEM.smooth_value(0 * M)
    now = _stored.judged(state(), value, (1 + 1e-9) * value, dual, 1)  # rounding, exaggerated
    assert now.value < now.bound
    for k in range(2, 5):
        now = _stored.judged(now, value, (1 + 1e-9) * value, dual, k)
    assert now.progress == 1
    assert now.gap == 0.0


def test_an_indicator_that_refuses_its_own_prox_ends():
    def prox(A, weight):
        return A * min(1.0, 1.0 / np.linalg.norm(A)) * (1 + 1e-15)

    def inside(X):
        return 0.0 if np.linalg.norm(X) <= 1.0 - 1e-12 else math.inf

    problem = wp.Problem(Denoising(M), L1(0.1), Exact(prox, inside))
    with np.errstate(all="ignore"):
        result = solve(problem=problem, eps=1e-3, max_svds=400)
    assert result.status is wp.Status.FINISHED
    assert result.gap > 1e-3


def test_proofs_are_tried_rarely(monkeypatch):
    """One, when the estimate promises it; no end of them in rounding."""
    tried, prove = [], evaluate.prove

    def counted(state, candidate: Candidate, **options):
        tried.append(candidate.gap)
        return prove(state, candidate, **options)

    monkeypatch.setattr(evaluate, "prove", counted)
    assert solve().status is wp.Status.CERTIFIED
    assert len(tried) == 1
    tried.clear()
    problem = wp.Problem(Denoising(M), None, NuclearBall(20.0))
    result = solve(problem=problem, eps=1e-17)
    assert result.status is wp.Status.FINISHED
    assert result.counts.svds > DavisYin.patience
    assert len(tried) <= 4


def test_certified_rests_on_a_proof_not_on_the_estimate(monkeypatch):
    """A method that flatters itself is found out."""
    judged = _stored.judged

    def flattered(state, value, bound, dual, k):
        return judged(state, value, value - 1e-3 * (value - bound), dual, k)

    monkeypatch.setattr(_stored, "judged", flattered)
    result = solve(eps=1e-3, max_svds=6)
    assert result.status is wp.Status.MAX_SVDS
    monkeypatch.undo()
    best = solve(eps=1e-9)
    assert result.certificate.lower_bound <= best.value
    assert result.gap > 1e-3


@pytest.mark.parametrize("term", [NuclearBall(20.0), NuclearNorm(0.5)], ids=["ball", "norm"])
def test_a_rank_too_small_ends_by_itself_and_says_so(term):
    problem = wp.Problem(Denoising(M), L1(0.2), term)
    best = solve(problem=problem)
    result = solve(DavisYin(rank=1), problem=problem, max_svds=1000)
    assert result.status is wp.Status.RANK_LIMITED
    assert result.gap > 1e-6
    assert result.value > best.value + 1e-3
    assert result.certificate.lower_bound <= best.value
    assert "NOT CONFIRMED" in repr(result)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2)])
@pytest.mark.parametrize("lam", [0.0, 0.1, 1e6])
@pytest.mark.parametrize("tau", [1e-9, 1.0, 1e9])
def test_extremes_of_size_and_weight(shape, lam, tau):
    A = numbers(*shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for data in (A, 0 * A):
            for term in (NuclearBall(tau), NuclearNorm(tau)):
                problem = wp.Problem(Denoising(data), L1(lam), term)
                result = solve(problem=problem, eps=1e-8, max_svds=300)
                assert result.status is wp.Status.CERTIFIED
