"""The accuracy asked for, relative or absolute: what is promised, refused and reported."""

import pickle

import numpy as np
import pytest
import torch
from registry import NUMPY, SAMPLED, SHAPE, numbers

import weakprox as wp
from weakprox._minimize import TOL
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine
from weakprox.solvers import (
    FISTA,
    HCGM,
    SCG,
    SCGS,
    SHCGM,
    STORC,
    SVRF,
    DavisYin,
    Extragradient,
    ProjectedSubgradient,
)
from weakprox.solvers.dual_ascent import DualAscent
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

M = numbers(*SHAPE, seed=80)
SYM = numbers(6, 6, seed=81) + numbers(6, 6, seed=81).T
PIECES, OFFSETS = numbers(6, *SHAPE, seed=82), numbers(6, seed=83)


def problems():
    affine = MaxAffine(PIECES, OFFSETS)
    yield "ball", wp.Problem(Denoising(M), L1(0.2), NuclearBall(3.0))
    yield "psd", wp.Problem(Denoising(SYM), GroupL2(0.2), TracePSD(3.0))
    yield "norm", wp.Problem(Denoising(M), ElasticNet(0.1, 0.1), NuclearNorm(0.5))
    yield "nothing", wp.Problem(Denoising(M), None, NuclearBall(3.0))
    yield "affine", wp.Problem(Denoising(M), affine, NuclearBall(3.0))
    yield "sum", wp.Problem(Denoising(M), affine + L1(0.1), NuclearBall(3.0))
    loss = Sensing(numbers(90, *SHAPE, seed=84), numbers(90, seed=85))
    yield "sensing", wp.Problem(loss, L1(0.02), NuclearBall(0.5))


PROBLEMS = dict(problems())
LIMITS = {"sum": 40}  # its proximal maps are iterations themselves
every_problem = pytest.mark.parametrize("name", PROBLEMS)


def run(problem, *given, **options):
    return wp.minimize(problem, *given, progress=False, **options)


def independent_bound(problem, result):
    """A number below min f from the answer alone, in plain NumPy.

    With g = grad G(X) and s in the box |s| <= lam (L1), strong convexity a of G gives
    f* >= G(X) + min over V of <g + s, V> - <g, X> + a/2 |V - X|^2 + h(V); the best s is
    looked for by projected ascent, and h is the ball: its minimum is a projection.
    """
    X, lam, tau = np.asarray(result.X, float), problem.penalty.lam, problem.spectral.tau
    G, batch = problem.loss, problem.loss.everything()
    g, a = np.asarray(G.grad(X.astype(G.reference.dtype), batch), float), G.strong_convexity
    value, best, s = G.value(X.astype(G.reference.dtype), batch), -np.inf, lam * np.sign(X)
    for _ in range(3000):
        A = X - (g + s) / a
        U, w, Vt = np.linalg.svd(A, full_matrices=False)
        level, ordered = 0.0, np.sort(w)[::-1]
        if w.sum() > tau:
            sums = (np.cumsum(ordered) - tau) / np.arange(1, w.size + 1)
            level = sums[np.nonzero(ordered > sums)[0][-1]]
        V = (U * np.maximum(w - level, 0)) @ Vt
        bound = value + ((g + s) * V).sum() - (g * X).sum() + a / 2 * ((V - X) ** 2).sum()
        best = max(best, float(bound))
        s = np.clip(s + a * V, -lam, lam)
    return best


@every_problem
def test_without_any_accuracy_it_is_one_in_ten_thousand(name):
    result = run(PROBLEMS[name])
    assert result.status is wp.Status.CERTIFIED
    assert result.eps == TOL * abs(result.value) == 1e-4 * abs(result.value)
    assert result.gap <= result.eps
    assert result.certified
    assert result.reason != "it was requested"


@every_problem
@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-5, 1e-7])
def test_eps_is_relative_to_the_answer(name, tol):
    result = run(PROBLEMS[name], tol=tol)
    assert result.status is wp.Status.CERTIFIED
    assert result.eps == tol * abs(result.value)
    assert result.value - result.certificate.lower_bound <= result.eps


@every_problem
def test_auto_is_the_default(name):
    default = run(PROBLEMS[name])
    for given in (None, "auto"):
        other = run(PROBLEMS[name], given)
        assert np.array_equal(other.X, default.X)
        assert (other.solver, other.reason) == (default.solver, default.reason)
        assert other.counts == default.counts


@every_problem
def test_tol_and_eps_meet(name):
    """An eps of tol times the value is the same demand: both answers are as good."""
    relative = run(PROBLEMS[name], tol=1e-5)
    absolute = run(PROBLEMS[name], eps=relative.eps)
    assert absolute.status is wp.Status.CERTIFIED
    assert absolute.eps == relative.eps
    assert abs(absolute.value - relative.value) <= relative.eps


@pytest.mark.parametrize("solver", [None, "auto", DavisYin()], ids=str)
def test_only_one_of_them(solver):
    with pytest.raises(wp.InputError, match="only one") as caught:
        run(PROBLEMS["ball"], solver, tol=1e-3, eps=1e-3)
    assert caught.value.argument == "tol"


@pytest.mark.parametrize("value", [0.0, -1e-3, np.nan, np.inf, "1e-3", True, None, [1e-3]])
@pytest.mark.parametrize("name", ["tol", "eps"])
def test_what_no_accuracy_can_be(name, value):
    if value is None:
        assert run(PROBLEMS["ball"], **{name: None}).eps > 0.0  # as if not given
        return
    with pytest.raises(wp.InputError) as caught:
        run(PROBLEMS["ball"], **{name: value})
    assert caught.value.argument == name


PLANNED = [
    wp.SVRGCG(rank=2),
    wp.solvers.AdaptiveSVRGCG(rank=2),
    FISTA(),
    HCGM(),
    SHCGM(),
    SCG(),
    SCGS(),
    STORC(),
    SVRF(),
    ProjectedSubgradient(),
]


@pytest.mark.parametrize("solver", PLANNED, ids=lambda s: type(s).__name__)
def test_methods_that_plan_for_an_accuracy_get_one_from_a_rough_run(solver):
    problem = wp.Problem(Denoising(samples=M + numbers(9, *SHAPE)), L1(0.2), NuclearBall(3.0))
    best = run(problem, tol=1e-6).value
    for options, tol in (({"tol": 1e-3}, 1e-3), ({}, TOL)):
        result = run(problem, solver, max_svds=3, **options)
        assert 0.8 * tol * best <= result.eps <= 1.2 * tol * best
    result = run(problem, solver, eps=1.0, max_svds=3)
    assert result.eps == 1.0


@pytest.mark.parametrize("solver", [PLANNED[0], PLANNED[-1]], ids=lambda s: type(s).__name__)
def test_an_accuracy_that_was_planned_is_reached(solver):
    result = run(PROBLEMS["ball"], solver, tol=0.05)
    assert result.status.reached
    assert result.value <= 1.05 * run(PROBLEMS["ball"], tol=1e-6).value


@pytest.mark.parametrize("solver", [DavisYin(), Extragradient()], ids=["splitting", "extra"])
def test_methods_that_need_no_plan_take_either(solver):
    problem = PROBLEMS["ball"]
    relative = run(problem, solver, tol=1e-3, max_svds=500)
    assert relative.status is wp.Status.CERTIFIED
    assert relative.eps == 1e-3 * abs(relative.value)
    absolute = run(problem, solver, eps=1e-3 * abs(relative.value), max_svds=500)
    assert absolute.status is wp.Status.CERTIFIED


@pytest.mark.parametrize("solver", ["", "automatic", "davis", "none", L1, 3, []])
def test_unknown_solvers_are_refused(solver):
    with pytest.raises(wp.InputError) as caught:
        run(PROBLEMS["ball"], solver, tol=1e-3)
    assert caught.value.argument == "solver"


@pytest.mark.parametrize("solver", [DavisYin(), DavisYin(rank=2), DualAscent(), PLANNED[1]])
def test_a_solver_object_has_its_own_rank(solver):
    with pytest.raises(wp.InputError, match="its own") as caught:
        run(PROBLEMS["affine"], solver, eps=1e-2, rank=2)
    assert caught.value.argument == "rank"


@pytest.mark.parametrize("rank", [0, -2, 1.5, "3", True])
def test_bad_ranks(rank):
    for name in ("ball", "affine"):
        with pytest.raises(wp.InputError) as caught:
            run(PROBLEMS[name], rank=rank)
        assert caught.value.argument == "rank"


@pytest.mark.parametrize("cap", [1, 2, 3, 5])
@every_problem
def test_the_rank_is_a_cap_and_too_small_a_one_is_said_so(name, cap):
    result = run(PROBLEMS[name], rank=cap, tol=1e-6, max_svds=LIMITS.get(name, 300))
    best = run(PROBLEMS[name], tol=1e-6)
    assert result.rank <= cap
    assert result.status.reached == (result.gap <= result.eps)
    if best.rank > cap and result.value > best.value + 2 * result.eps:
        assert not result.status.reached
    assert result.certificate.lower_bound <= best.value


# ------------------------------------------------------ values of any sign


@pytest.mark.parametrize("offset", [0.0, 3.0, 20.0, 1e3, 1e6])
@pytest.mark.parametrize("solver", [None, DavisYin()], ids=["default", "davis-yin"])
def test_negative_values(offset, solver):
    penalty = MaxAffine(PIECES, OFFSETS + offset)
    result = run(wp.Problem(Denoising(M), penalty, NuclearBall(3.0)), solver, tol=1e-6)
    assert result.status is wp.Status.CERTIFIED
    assert result.eps == 1e-6 * abs(result.value)
    assert result.certificate.lower_bound <= result.value
    assert (result.value < 0) == (offset >= 20.0)


ZERO = {
    "zero matrix": wp.Problem(Denoising(0 * M), L1(0.2), NuclearBall(3.0)),
    "zero matrix, norm": wp.Problem(Denoising(0 * M), None, NuclearNorm(0.5)),
    "zero matrix, psd": wp.Problem(Denoising(0 * SYM), GroupL2(0.3), TracePSD(3.0)),
    "inside": wp.Problem(Denoising(M), None, NuclearBall(1e3)),
    "exact fit": wp.Problem(
        Sensing(
            numbers(90, *SHAPE, seed=84), (numbers(90, *SHAPE, seed=84) * M).sum(axis=(1, 2))
        ),
        None,
        NuclearBall(1e3),
    ),
    "pieces of zero": wp.Problem(Denoising(0 * M), MaxAffine(0 * PIECES), NuclearBall(3.0)),
}


@pytest.mark.parametrize("name", ZERO)
def test_an_optimum_of_zero_is_relative_to_the_size_of_the_answer(name):
    result = run(ZERO[name], tol=1e-4, max_svds=200)
    assert 0.0 <= result.value <= result.eps
    size = 0.5 * ZERO[name].loss.smoothness * float((np.asarray(result.X) ** 2).sum())
    assert result.eps == pytest.approx(1e-4 * max(result.value, 1e-5 * size), rel=1e-9)
    assert result.certificate.lower_bound <= result.value
    assert result.status is wp.Status.CERTIFIED
    absolute = run(ZERO[name], eps=1e-6)
    assert absolute.status is wp.Status.CERTIFIED


# ---------------------------------------------------------- limits of rounding


@pytest.mark.parametrize("tau", [0.5, 3.0, 100.0])
def test_the_last_digits_in_float64(tau):
    problem = wp.Problem(Denoising(M), L1(0.2), NuclearBall(tau))
    result = run(problem, tol=1e-12, max_svds=2000)
    assert result.certificate.lower_bound <= result.value
    assert (result.status is wp.Status.CERTIFIED) == (result.gap <= 1e-12 * result.value)
    assert result.status in (wp.Status.CERTIFIED, wp.Status.FINISHED)
    again = independent_bound(problem, result)
    assert result.value - again <= max(1e-9, 10 * result.gap / result.value) * result.value
    assert result.certificate.lower_bound <= result.value
    assert again <= result.value * (1 + 1e-13)


@pytest.mark.parametrize("tau", [0.5, 3.0])
@pytest.mark.parametrize("torched", [False, True])
def test_the_last_digits_in_float32(tau, torched):
    given = M.astype(np.float32)
    data = torch.asarray(given) if torched else given
    result = run(wp.Problem(Denoising(data), L1(0.2), NuclearBall(tau)), tol=1e-6, max_svds=500)
    assert (result.status is wp.Status.CERTIFIED) == (result.gap <= 1e-6 * result.value)
    assert result.status in (wp.Status.CERTIFIED, wp.Status.FINISHED)
    assert result.certificate.lower_bound <= result.value
    # the same data in float64: its optimum is above the bound, and near the value
    double = wp.Problem(Denoising(given.astype(float)), L1(0.2), NuclearBall(tau))
    best = run(double, tol=1e-10, max_svds=1000).value
    assert result.certificate.lower_bound <= best * (1 + 1e-9)
    assert result.value - best <= max(2e-6 * best, 1.01 * result.gap)


@every_problem
def test_near_rounding_every_status_is_true(name):
    result = run(PROBLEMS[name], tol=1e-13, max_svds=LIMITS.get(name, 400))
    assert result.certificate.lower_bound <= result.value
    assert (result.status is wp.Status.CERTIFIED) == (result.gap <= result.eps)


@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 9e-15), (np.float32, 1e-7)])
def test_below_rounding_an_accuracy_is_refused(dtype, tol):
    problem = wp.Problem(Denoising(M.astype(dtype)), L1(0.2), NuclearBall(3.0))
    with pytest.raises(wp.InputError, match="can show") as caught:
        run(problem, tol=tol)
    assert caught.value.argument == "tol"


# --------------------------------------------------------- samples and resuming


@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_problems(name):
    problem = wp.Problem(SAMPLED[name][0].build(NUMPY), ElasticNet(0.1, 0.5), NuclearBall(2.0))
    result = run(problem, tol=0.5, max_samples=2000)
    assert result.solver == "SampleAverage"
    assert result.sampled
    assert result.eps > 0.0
    assert result.status.reached == (result.gap <= result.eps)
    assert result.certificate.rests_on == "sampled"
    assert result.status in (wp.Status.CONFIDENT, wp.Status.MAX_SAMPLES)
    with pytest.raises(wp.InputError, match="only one"):
        run(problem, tol=0.05, eps=0.1)


def test_samples_that_show_the_size_of_f_are_counted():
    problem = wp.Problem(
        SAMPLED["denoising-sampler"][0].build(NUMPY), L1(0.1), NuclearBall(2.0)
    )
    relative = run(problem, tol=0.05)
    absolute = run(problem, eps=relative.eps)
    assert relative.counts.samples - absolute.counts.samples == 8


@every_problem
def test_resumed_with_tol_to_the_bit(name):
    most = LIMITS.get(name, 120)
    whole = run(PROBLEMS[name], tol=1e-9, max_svds=most)
    limit = max(1, whole.counts.svds // 2)
    first = run(PROBLEMS[name], tol=1e-9, max_svds=limit)
    assert first.eps == 1e-9 * abs(first.value)
    again = run(
        PROBLEMS[name], tol=1e-9, max_svds=most, resume=pickle.loads(pickle.dumps(first))
    )
    assert np.array_equal(again.X, whole.X)
    assert (again.value, again.eps, again.status) == (whole.value, whole.eps, whole.status)
    assert again.certificate == whole.certificate
    assert again.counts == whole.counts


@pytest.mark.parametrize("change", [{"tol": 1e-8}, {"eps": 1e-9}, {}, {"tol": 1e-9, "seed": 1}])
def test_resumed_with_another_accuracy_is_refused(change):
    first = run(PROBLEMS["ball"], tol=1e-9, max_svds=3)
    with pytest.raises(wp.InputError) as caught:
        run(PROBLEMS["ball"], resume=first, **change)
    assert caught.value.argument == "resume"
