"""What the baselines may claim; several of these were real faults."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from registry import NUMPY, denoising_sampler, numbers

import weakprox as wp
from weakprox.certificates.split import lower_bound
from weakprox.penalties.base import Smoothed
from weakprox.solvers import FISTA, HCGM, SCG, SCGS, SHCGM, STORC, SVRF, ProjectedSubgradient

M = numbers(7, 5)
PROBLEM = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(0.1), wp.spectral.NuclearBall(3.0))
QUIET = {"progress": False, "stop_when_certified": False, "look_every": 1 << 30}
DETERMINISTIC = [SCG(), SCGS(), SCGS(strongly_convex=False), STORC(), SVRF(), HCGM(), FISTA()]


def solve(solver, *, eps=1.0, problem=PROBLEM, **options):
    return wp.minimize(problem, solver, eps=eps, **{**QUIET, **options})


@cache
def optimum():
    return solve(FISTA(), eps=1e-3, stop_when_certified=True, look_every=None).certificate


@pytest.mark.parametrize(
    "solver",
    [SCGS(max_inner=1), SCGS(max_inner=10**6), SCGS(strongly_convex=False, max_inner=1),
     STORC(max_inner=1), STORC(case="stationary", max_inner=10**6)],
)  # fmt: skip
def test_capped_projections_promise_nothing(solver):
    result = solve(solver, eps=2.0)
    assert math.isinf(solver.promised(result.checkpoint.memory))
    assert result.status in (wp.Status.FINISHED, wp.Status.CERTIFIED)
    if result.status is wp.Status.CERTIFIED:
        assert result.value - optimum().lower_bound <= 2.0
    sampled = wp.Problem(
        denoising_sampler(NUMPY), wp.penalties.L1(0.1), wp.spectral.NuclearBall(3.0)
    )
    if isinstance(solver, SCGS):
        options = {"problem": sampled, "evaluation_samples": 2}  # too few to certify it
        result = solve(replace(solver, sigma=0.1), eps=9.0, **options)
        assert result.status is wp.Status.FINISHED


@pytest.mark.parametrize("solver", DETERMINISTIC, ids=lambda s: type(s).__name__)
def test_what_is_expected_of_a_method_without_chance_is_so(solver):
    eps = 8.0 if isinstance(solver, HCGM) else 1.0
    result = solve(solver, eps=eps)
    assert result.status in (wp.Status.EXPECTED, wp.Status.CERTIFIED)
    assert result.value - optimum().lower_bound <= eps


@pytest.mark.parametrize(
    "solver", [*DETERMINISTIC, SHCGM(), ProjectedSubgradient()], ids=lambda s: type(s).__name__
)
def test_certified_means_a_gap_of_eps(solver):
    for eps in (3.0, 0.3):
        result = solve(solver, eps=eps, stop_when_certified=True, look_every=None)
        assert result.status is wp.Status.CERTIFIED
        assert 0 <= result.gap <= eps
        best = optimum()
        assert result.certificate.lower_bound <= best.value
        assert best.lower_bound <= result.value <= best.value + eps


@pytest.mark.parametrize(
    "solver", [SCG(mu=1.0), SCGS(mu=1.0), SCGS(mu=1.0, strongly_convex=False), STORC(mu=1.0),
               SVRF(mu=1.0), FISTA(mu=1.0), FISTA(mu=1.0, momentum=False)],
    ids=lambda s: type(s).__name__,
)  # fmt: skip
def test_smoothing_that_costs_more_than_eps_ends_without_a_promise(solver):
    """Such runs never ended before: the paper's own mu has a bias of eps."""
    eps = 1.5
    bias = 0.1 * M.size / 2
    assert bias > eps
    result = solve(solver, eps=eps)
    assert result.parameters.bias == pytest.approx(bias)
    assert result.status in (wp.Status.FINISHED, wp.Status.CERTIFIED)
    assert solver.promised(result.checkpoint.memory) > eps
    smooth = Smoothed.of(PROBLEM.penalty, 1.0, PROBLEM.shape)
    close = solve(FISTA(mu=1.0), eps=1e-6)

    def value(X):
        return PROBLEM.loss.value(X, PROBLEM.loss.everything()) + smooth.value(X)

    assert value(result.X) - value(close.X) <= eps / 2


def rounding_trap(dtype, term):
    """Terms so small next to X that the gradient is lost in the sum X - gradient."""
    n = 10
    X0 = np.full((n, n), 1.0, dtype)
    rows, cols = np.nonzero(np.arange(n * n).reshape(n, n) > 0)
    loss = wp.losses.Completion(rows, cols, X0[rows, cols], (n, n), reduction="mean")
    problem = wp.Problem(loss, None, term(float(n)))
    return problem, X0 * (1 - 4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("term", [wp.spectral.NuclearBall, wp.spectral.TracePSD])
def test_bounds_without_curvature_allow_for_the_rounding_of_x(dtype, term):
    problem, X = rounding_trap(dtype, term)  # f* = 0, at the matrix of ones
    dual = Smoothed.of(problem.penalty, 0.0, problem.shape)
    found, _ = lower_bound(problem, X, dual, rank=5, rng=np.random.default_rng(0))
    assert found <= 0.0
    assert found >= -1e4 * np.finfo(dtype).eps * 100  # and not by much more


def test_a_gradient_with_one_negative_direction_moves_the_iterate():
    """The vertex of a large, mostly positive gradient was taken to be zero."""
    n, rng = 150, np.random.default_rng(1)
    v = np.linalg.qr(rng.standard_normal((n, 1)))[0]
    S = rng.standard_normal((n, n))
    D = -6 * np.eye(n) + 0.1 * (S + S.T) / math.sqrt(n)
    target = D + (6 + 8.0) * v @ v.T
    problem = wp.Problem(wp.losses.Denoising(target), None, wp.spectral.TracePSD(5.0))
    w, U = np.linalg.eigh(target)
    best = 5.0 * np.outer(U[:, -1], U[:, -1])
    optimum = 0.5 * float(((best - target) ** 2).sum())
    for solver in (SCG(), HCGM(), SCGS()):
        result = solve(solver, eps=1.0, problem=problem, max_svds=300, look_every=None)
        assert result.value <= optimum + 1.0
        assert result.value < 0.5 * float((target**2).sum()) - 20
    assert w[-2] < 0 < w[-1]


def test_a_linear_objective_is_solved_by_one_vertex():
    loss = wp.losses.Custom(
        (7, 5), value=lambda X: float((X * M).sum()), grad=lambda X: M * 1.0, smoothness=1e-9
    )
    problem = wp.Problem(loss, None, wp.spectral.NuclearBall(3.0))
    best = -3.0 * np.linalg.norm(M, 2)
    for solver in (SCG(), SCGS(strongly_convex=False), STORC(), SVRF(), HCGM(), FISTA()):
        result = solve(solver, eps=1e-3, problem=problem)
        assert result.value == pytest.approx(best, abs=1e-6)
        assert result.status in (wp.Status.CERTIFIED, wp.Status.EXPECTED)
