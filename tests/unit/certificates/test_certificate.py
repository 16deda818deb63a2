"""Lower bounds stay below optima that are known in closed form."""

import numpy as np
import pytest
from registry import DOUBLE, MATRICES, MEASURED, OFFSETS, PIECES, SHAPE, numbers

import weakprox as wp
from weakprox.certificates.split import FixedDual, lower_bound
from weakprox.linalg.simplex import project_capped
from weakprox.losses import Completion, Custom, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine
from weakprox.penalties.base import Smoothed
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

M = numbers(*SHAPE, seed=200)


def bound(problem, X, *, mu=1e-4, rank=5, accuracy=0.0):
    dual = Smoothed.of(problem.penalty, mu, problem.shape)
    rng = np.random.default_rng(0)
    return lower_bound(problem, X, dual, rank=rank, rng=rng, accuracy=accuracy)


def soft(x, c):
    return np.sign(x) * np.maximum(np.abs(x) - c, 0)


def closed_forms():
    """(problem, its minimiser), spec item 17 and relatives."""
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    ball = (U * project_capped(s, 2.0)) @ Vt
    yield "projection", wp.Problem(Denoising(M), None, NuclearBall(2.0)), ball
    shrunk = (U * soft(s, 0.7)) @ Vt
    yield "soft values", wp.Problem(Denoising(M), None, NuclearNorm(0.7)), shrunk
    yield "soft entries", wp.Problem(Denoising(M), L1(0.3), NuclearBall(1e3)), soft(M, 0.3)
    big = float(np.abs(M).max())
    yield "zero", wp.Problem(Denoising(M), L1(big), NuclearBall(5.0)), 0 * M
    d = np.diag([3.0, 2.0, 1.0, 0.2, 0.0])
    diagonal = np.diag(project_capped(np.maximum(np.diag(d) - 0.5, 0), 2.0))
    yield "diagonal", wp.Problem(Denoising(d), L1(0.5), NuclearBall(2.0)), diagonal
    yield "diagonal psd", wp.Problem(Denoising(d), L1(0.5), TracePSD(2.0)), diagonal
    ridge = wp.Problem(Denoising(M), ElasticNet(0.3, 0.2), NuclearBall(1e3))
    yield "elastic net", ridge, soft(M, 0.3) / 1.4
    for offset in (-4.0, 4.0):  # one affine piece: R is linear, so X* is a projection
        piece = MaxAffine(PIECES[:1], np.array([offset]))
        U, s, Vt = np.linalg.svd(M - PIECES[0], full_matrices=False)
        linear = wp.Problem(Denoising(M), piece, NuclearBall(2.0))
        yield f"linear {offset}", linear, (U * project_capped(s, 2.0)) @ Vt
    norms = np.linalg.norm(M, axis=1, keepdims=True)
    groups = wp.Problem(Denoising(M), GroupL2(0.5), NuclearBall(1e3))
    yield "groups", groups, M * np.maximum(1 - 0.5 / norms, 0)


CASES = {name: (problem, X) for name, problem, X in closed_forms()}


@pytest.mark.parametrize("name", CASES)
def test_bound_is_below_the_optimum_from_anywhere(name):
    problem, best = CASES[name]
    optimum = problem.smooth_value(best) + problem.spectral.value(
        problem.spectral.compress(best, 5, np.random.default_rng(0))
    )
    rng = np.random.default_rng(1)
    for mu in (1.0, 1e-2, 1e-6):
        for _ in range(10):
            X = best + 10.0 ** rng.uniform(-4, 1) * rng.standard_normal(best.shape)
            found, rests_on = bound(problem, X, mu=mu, rank=int(rng.integers(1, 6)))
            assert found <= optimum + 1e-12
            assert rests_on == "exact"


@pytest.mark.parametrize("name", CASES)
def test_bound_is_tight_at_the_optimum(name):
    """With mu far below the nonzero entries the dual point is nearly the right one."""
    problem, best = CASES[name]
    result = wp.minimize(problem, wp.SVRGCG(5, mu=2e-3, epochs=3), eps=1e-6, max_svds=3000)
    optimum = problem.smooth_value(best) + problem.spectral.value(
        problem.spectral.compress(best, 5, np.random.default_rng(0))
    )
    assert result.certificate.lower_bound <= optimum + 1e-10
    assert result.certificate.lower_bound >= optimum - 0.05 * (1 + abs(optimum))
    assert result.value >= optimum - 1e-10


@pytest.mark.parametrize(
    "loss",
    [
        Sensing(MATRICES, MEASURED),
        Completion(*np.divmod(np.arange(35), 5), M.ravel(), SHAPE),
        Custom(
            SHAPE,
            value=lambda X: float(np.sum(X**4 / 40 + (X - M) ** 2 / 2)),
            grad=lambda X: X**3 / 10 + X - M,
            strong_convexity=1.0,
            smoothness=10.0,
        ),
    ],
    ids=["sensing", "completion", "custom"],
)
@pytest.mark.parametrize(
    "penalty",
    [L1(0.1), ElasticNet(0.1, 0.2), MaxAffine(PIECES, OFFSETS)],
    ids=["l1", "en", "max"],
)
def test_bound_is_below_every_feasible_value(loss, penalty):
    problem = wp.Problem(loss, penalty, NuclearBall(3.0))
    rng = np.random.default_rng(2)
    points = [problem.spectral.random_point(rng, SHAPE, 1 + i % 5, M) for i in range(40)]
    lowest = min(problem.value(p) for p in points)
    for p in points[:10]:
        for mu in (1.0, 1e-3):
            assert bound(problem, p.dense(), mu=mu)[0] <= lowest


@pytest.mark.parametrize("rank", [1, 3, 20])
@pytest.mark.parametrize("over", [1.2, 90.0])
def test_large_problems_use_the_randomised_branch(rank, over):
    """Noise of norm 5 (65 in Frobenius norm) below a threshold a little or far above it."""
    big = numbers(660, 3) @ numbers(3, 640, seed=1) + 0.1 * numbers(660, 640, seed=2)
    s = np.linalg.svd(big, compute_uv=False)
    theta = over * float(s[3])
    tau = float((s[:3] - theta).sum())
    problem = wp.Problem(Denoising(big), None, NuclearBall(tau))
    optimum = 0.5 * ((s - project_capped(s, tau)) ** 2).sum()
    found, rests_on = bound(problem, np.zeros_like(big), rank=rank)
    assert found <= optimum
    if rank > 1:  # at rank 1 the Frobenius norm of what is left is the better bound
        likely = theta < np.sqrt((s[3:] ** 2).sum())  # else that norm is bound enough
        assert rests_on == ("high-probability" if likely else "exact")
        assert found >= 0.5 * optimum
        assert found == pytest.approx(optimum, rel=1e-6) or over < 2


def test_accuracy_may_cost_the_bound_but_never_its_truth():
    problem, best = CASES["soft entries"]
    optimum = problem.smooth_value(best)
    X = best + 0.1 * M
    bounds = [bound(problem, X, accuracy=a)[0] for a in (0.0, 0.1, 10.0)]
    assert max(bounds) <= optimum


def test_torch_agrees():
    problem, best = CASES["projection"]
    same = wp.Problem(Denoising(DOUBLE[1].array(M)), None, NuclearBall(2.0))
    a, b = bound(problem, best)[0], bound(same, DOUBLE[1].array(best))[0]
    assert a == pytest.approx(b, rel=1e-9)


def test_rounding_only_lowers_a_bound():
    """M is in the ball, so the optimum is 0; far from M, large terms cancel in the bound."""
    M = np.outer([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0])
    problem = wp.Problem(Denoising(M), None, NuclearBall(100.0))
    dual = FixedDual(problem.penalty, 0.0 * M)
    bound, _ = lower_bound(problem, 0.0 * M, dual, rank=3, rng=np.random.default_rng(0))
    prox = problem.spectral.weak_prox(M, weight=1.0, rank=3, certify=True)
    size = float(np.sum(M * M))
    assert prox.lower <= 0.0
    assert -1e-12 * size < bound <= prox.lower - 64 * np.finfo(float).eps * size
