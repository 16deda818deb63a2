"""The front door: what comes back is feasible, low-rank, recomputed and reproducible."""

import gc
import io
import weakref
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from registry import LOSSES, MATRICES, MEASURED, NOISY, NUMPY, SHAPE, denoising_sampler, numbers

import weakprox as wp
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine
from weakprox.result import COLUMNS
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

M = numbers(*SHAPE)
SYM = numbers(6, 6) + numbers(6, 6).T
BALL = NuclearBall(2.0)


PROBLEMS = {
    "denoising-l1": wp.Problem(Denoising(M), L1(0.2), BALL),
    "denoising": wp.Problem(Denoising(M), None, BALL),
    "samples": wp.Problem(Denoising(samples=NOISY), GroupL2(0.3), BALL),
    "sampler": wp.Problem(denoising_sampler(NUMPY), L1(0.2), BALL),
    "norm": wp.Problem(Denoising(M), L1(0.2), NuclearNorm(0.5)),
    "psd": wp.Problem(Denoising(SYM), L1(0.2), TracePSD(4.0)),
    "max": wp.Problem(Denoising(M), MaxAffine(NOISY[:4]), BALL),
    "sensing": wp.Problem(Sensing(MATRICES, MEASURED), ElasticNet(0.1, 0.2), BALL),
    "completion": wp.Problem(
        LOSSES["completion-dense"].build(NUMPY), ElasticNet(0.1, 0.2), BALL
    ),
    "custom": wp.Problem(LOSSES["custom-finite-sum"].build(NUMPY), L1(0.1), BALL),
    "custom-plain": wp.Problem(LOSSES["custom-deterministic"].build(NUMPY), L1(0.1), BALL),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def solved(request):
    problem = PROBLEMS[request.param]
    return problem, wp.minimize(problem, wp.SVRGCG(rank=3), eps=1.0, seed=4)


def test_every_number_is_recomputed_from_X(solved):
    problem, result = solved
    again = problem.spectral.compress(result.X, 6, np.random.default_rng(0))
    U, s, Vt = result.factors
    assert pytest.approx((U * s) @ Vt) == result.X
    assert pytest.approx(np.eye(len(s)), abs=1e-10) == U.T @ U
    assert Vt @ Vt.T == pytest.approx(np.eye(len(s)), abs=1e-10)
    assert result.rank == np.linalg.matrix_rank(result.X, tol=1e-10)
    assert result.violation == pytest.approx(problem.spectral.violation(again), abs=1e-9)
    if not result.sampled:
        assert result.value == pytest.approx(problem.value(again), rel=1e-9)
        assert result.certificate.value == result.value
        assert result.gap == pytest.approx(result.value - result.certificate.lower_bound)
    biggest = np.abs(result.X).max()
    assert result.nonzeros() == (np.abs(result.X) > 1e-3 * biggest).sum()


def test_answers_are_feasible_and_of_the_rank_asked_for(solved):
    _, result = solved
    assert 1 <= result.rank <= 3
    assert result.violation <= 1e-9
    assert result.eps == 1.0
    assert result.seed == 4
    assert result.solver == "SVRGCG"
    assert result.seconds > 0


def test_status_is_honest(solved):
    _, result = solved
    if result.status is wp.Status.CERTIFIED:
        assert result.gap <= 1.0
    elif result.status is wp.Status.CONFIDENT:
        assert result.sampled
        assert 0 < result.certificate.sampling_error <= result.gap <= 1.0
    assert result.sampled == (result.certificate.rests_on == "sampled")
    assert result.status.reached or result.status is wp.Status.RANK_LIMITED


def test_trace_is_consistent(solved):
    _, result = solved
    trace = result.trace
    assert len(trace) >= 1
    for name in ("seconds", "samples", "gradients", "svds", "rank_one_svds", "epoch"):
        assert (np.diff(trace[name]) >= 0).all()
    assert trace["svds"][-1] <= result.counts.svds
    assert (trace["rank_one_svds"] == 3 * trace["svds"]).all()
    if not result.sampled:  # a sampled value comes from samples that chose nothing
        assert result.value <= np.nanmin(trace["value_low_rank"]) + 1e-9
    assert set(trace.to_dict()) == set(COLUMNS)
    if not result.sampled:
        bounds = trace["lower_bound"]
        assert np.nanmax(bounds) <= result.certificate.lower_bound + 1e-12
        assert (trace["value"] >= result.certificate.lower_bound - 1e-9).all()


def test_same_seed_same_bits(solved):
    problem, result = solved
    again = wp.minimize(problem, wp.SVRGCG(rank=3), eps=1.0, seed=4)
    assert np.array_equal(again.X, result.X)
    assert again.value == result.value
    assert again.counts == result.counts
    assert again.status is result.status
    columns = [c for c in COLUMNS if c != "seconds"]
    for name in columns:
        assert np.array_equal(again.trace[name], result.trace[name], equal_nan=True)


@pytest.mark.parametrize("name", ["sampler", "sensing", "custom"])
def test_different_seeds_differ(name):
    solver = wp.SVRGCG(3, answer="iterate", k_t=5)
    runs = [wp.minimize(PROBLEMS[name], solver, eps=1e-6, seed=s, max_svds=6) for s in (0, 1)]
    assert not np.array_equal(runs[0].X, runs[1].X)


def test_smooth_projection_is_found_exactly():
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    from weakprox.linalg.simplex import project_capped

    wanted = (U * project_capped(s, 2.0)) @ Vt
    result = wp.minimize(PROBLEMS["denoising"], wp.SVRGCG(5), eps=1e-8)
    assert result.status is wp.Status.CERTIFIED
    assert pytest.approx(wanted, abs=1e-6) == result.X


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2), (1, 200), (200, 1)])
@pytest.mark.parametrize("spectral", [NuclearBall(0.7), NuclearNorm(0.3)], ids=["ball", "norm"])
def test_slivers(shape, spectral):
    problem = wp.Problem(Denoising(numbers(*shape)), L1(0.1), spectral)
    result = wp.minimize(problem, wp.SVRGCG(1), eps=0.5)
    assert result.status is wp.Status.CERTIFIED
    assert result.X.shape == shape


@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1e30, 1e100])
def test_units_do_not_matter(scale):
    """Rescaled data, weights and eps give the rescaled answer."""
    plain, scaled = (
        wp.minimize(
            wp.Problem(Denoising(c * M), L1(0.2 * c), NuclearBall(2.0 * c)),
            wp.SVRGCG(3),
            eps=0.1 * c * c,
        )
        for c in (1.0, scale)
    )
    assert scaled.X / scale == pytest.approx(plain.X, abs=1e-9)
    assert scaled.value / scale**2 == pytest.approx(plain.value)
    assert scaled.counts.svds == plain.counts.svds


def test_nothing_is_printed():
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        wp.minimize(PROBLEMS["denoising-l1"], wp.SVRGCG(3), eps=1.0)
    assert out.getvalue() == err.getvalue() == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("progress", [True, False, "auto"])
@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_progress_is_shown_on_a_terminal_or_on_demand_and_never_on_stdout(progress, stream):
    out, err = stream(), stream()
    with redirect_stdout(out), redirect_stderr(err):
        result = wp.minimize(PROBLEMS["denoising-l1"], wp.SVRGCG(3), eps=0.1, progress=progress)
    assert out.getvalue() == ""
    shown = progress is True or (stream is Terminal and progress == "auto")
    assert ("SVRGCG" in err.getvalue()) == shown
    plain = wp.minimize(PROBLEMS["denoising-l1"], wp.SVRGCG(3), eps=0.1)
    assert np.array_equal(result.X, plain.X)


def test_a_solver_is_chosen_if_none_is_given():
    result = wp.minimize(PROBLEMS["denoising-l1"], eps=0.5)
    assert result.status is wp.Status.CERTIFIED


def test_the_problem_is_left_alone():
    data = M.copy()
    problem = wp.Problem(Denoising(data), L1(0.2), BALL)
    start = np.zeros(SHAPE)
    start[0, 0] = 1.0
    kept = start.copy()
    wp.minimize(problem, wp.SVRGCG(3), eps=1.0, start=start)
    assert np.array_equal(data, M)
    assert np.array_equal(start, kept)
    with pytest.raises(TypeError):
        wp.minimize(problem, wp.SVRGCG(3), 1.0)  # eps is keyword-only


def test_start_is_used():
    problem = PROBLEMS["denoising"]
    best = wp.minimize(problem, wp.SVRGCG(5), eps=1e-9)
    near = wp.minimize(problem, wp.SVRGCG(5), eps=1e-3, start=best.X, stop_when_certified=False)
    far = wp.minimize(problem, wp.SVRGCG(5), eps=1e-3, stop_when_certified=False)
    assert near.parameters.C0 < 1e-3 * far.parameters.C0
    assert near.counts.svds < far.counts.svds


def test_evaluation_samples_are_counted_apart():
    result = wp.minimize(PROBLEMS["sampler"], wp.SVRGCG(3), eps=2.0, evaluation_samples=50)
    assert result.counts.evaluation_samples == 100  # for the looks, and for the report
    assert result.counts.samples == result.parameters.predicted_samples
    assert result.sampled


def test_stopping_when_certified_saves_work():
    early = wp.minimize(PROBLEMS["denoising-l1"], wp.SVRGCG(3), eps=1.0)
    late = wp.minimize(
        PROBLEMS["denoising-l1"], wp.SVRGCG(3), eps=1.0, stop_when_certified=False
    )
    assert early.counts.svds < late.counts.svds == late.parameters.predicted_svds
    assert early.status is wp.Status.CERTIFIED


@pytest.mark.parametrize("solver", [None, wp.solvers.LeanSplitting(), wp.solvers.DavisYin()])
def test_data_is_let_go_with_the_problem(solver):
    loss = wp.losses.Denoising(np.random.default_rng(0).standard_normal((30, 20)))
    problem = wp.Problem(loss, wp.penalties.L1(0.5), wp.spectral.NuclearBall(9.0))
    gc.disable()  # arrays of many gigabytes must not wait for it
    try:
        result = wp.minimize(problem, solver, progress=False)
        gone = weakref.ref(loss)
        del problem, loss
        assert gone() is None
    finally:
        gc.enable()
    assert result.rank > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stop_when_certified": "no"}, "stop_when_certified: got 'no'; wanted True or False"),
        ({"checkpoint_every": 5.0}, "checkpoint_every: got 5.0, without a file"),
    ],
)
def test_options_that_would_be_ignored_are_refused(options, says):
    with pytest.raises(wp.InputError, match=says):
        wp.minimize(PROBLEMS["denoising-l1"], **options)
