"""Steps for small matrices: the answers of whole runs, from any start."""

import numpy as np
import pytest
from selection._signals import sparse_low_rank

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1, Box, ElasticNet, GroupL2, SignedL1
from weakprox.selection import _small, regularization_path
from weakprox.selection._lean import lean_point
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

M = sparse_low_rank()[1]
S = M[:30] + M[:30].T
TOL = 1e-5
CASES = {
    "ball": (M, L1(0.3), NuclearBall(20.0)),
    "tall": (M.T[:, :12], L1(0.2), NuclearBall(8.0)),
    "wide answer": (M, L1(0.1), NuclearBall(0.7 * float(np.linalg.norm(M, "nuc")))),
    "no penalty": (M, L1(0.0), NuclearBall(20.0)),
    "no effect of the ball": (M, L1(0.3), NuclearBall(1e4)),
    "norm": (M, L1(0.2), NuclearNorm(2.0)),
    "trace": (S, L1(0.3), TracePSD(10.0)),
    "large trace": (S, L1(0.3), TracePSD(200.0)),
    "signs": (M, SignedL1(0.3, 1.0), NuclearBall(20.0)),
    "net": (M, ElasticNet(0.2, 0.3), NuclearBall(10.0)),
    "net and trace": (S, ElasticNet(0.2, 0.3), TracePSD(10.0)),
}


def solved(problem, past=None, tol=TOL):
    return _small.small_point(problem, past, tol, np.random.default_rng(0))


@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_whole_runs(case):
    A, penalty, spectral = CASES[case]
    problem = wp.Problem(Denoising(A), penalty, spectral)
    assert _small.applies(problem)
    best = wp.minimize(problem, tol=1e-8, progress=False, max_svds=5000)
    cold = solved(problem)
    for found in (cold, solved(problem, cold.warmth)):
        assert problem.value(found.low_rank) == pytest.approx(found.value, rel=1e-9)
        assert found.value - best.value <= max(2.0 * found.gap, 1e-9 * best.value)
        assert found.value >= best.certificate.lower_bound
        assert found.gap <= TOL * found.value
        assert problem.spectral.violation(found.low_rank) <= 1e-9
        U, Vt = found.low_rank.U, found.low_rank.Vt
        np.testing.assert_allclose(U.T @ U, np.eye(found.low_rank.rank), atol=1e-6)
        np.testing.assert_allclose(Vt @ Vt.T, np.eye(found.low_rank.rank), atol=1e-6)


def test_a_warm_start_saves_steps():
    A, penalty, spectral = CASES["ball"]
    problem = wp.Problem(Denoising(A), penalty, spectral)
    near = solved(wp.Problem(Denoising(A), L1(0.33), NuclearBall(19.0)))
    assert solved(problem, near.warmth.scaled(penalty)).svds < solved(problem).svds


def test_a_direction_that_the_block_misses_is_found():
    """A start that spans nothing of the answer, as after a large change of the radius."""
    A = np.zeros((40, 40))
    A[:3, :3], A[20:23, 20:23] = 5.0 * np.eye(3), 4.0 * np.eye(3)
    first = solved(wp.Problem(Denoising(A), L1(0.1), NuclearBall(1.0)))
    problem = wp.Problem(Denoising(A), L1(0.1), NuclearBall(20.0))
    best = wp.minimize(problem, tol=1e-8, progress=False).value
    assert solved(problem, first.warmth).value - best <= 2.0 * TOL * best


@pytest.mark.parametrize(
    ("penalty", "shape"),
    [
        (GroupL2(0.3, "rows"), (40, 30)),
        (L1(0.3, np.ones((40, 30))), (40, 30)),
        (Box(0.1, 2.0, 5.0), (40, 30)),
        (L1(0.3), (500, 300)),
    ],
)
def test_other_problems_are_left_to_the_general_steps(penalty, shape):
    A = np.resize(M, shape)
    assert not _small.applies(wp.Problem(Denoising(A), penalty, NuclearBall(5.0)))


def test_paths_agree_with_those_of_the_general_steps(monkeypatch):
    lams, taus = [0.5, 0.2], [5.0, 10.0, 20.0]
    quick = regularization_path(Denoising(M), lams, taus, tol=TOL)
    monkeypatch.setattr(_small, "ENTRIES", 0)
    general = regularization_path(Denoising(M), lams, taus, tol=TOL)
    np.testing.assert_allclose(quick.values, general.values, rtol=2 * TOL)
    assert (quick.ranks == general.ranks).all()


def test_a_problem_that_needs_many_steps_is_handed_over(monkeypatch):
    monkeypatch.setattr(_small, "MOST", 1)
    A, penalty, spectral = CASES["ball"]
    problem = wp.Problem(Denoising(A), penalty, spectral)
    assert solved(problem) is None
    path = regularization_path(Denoising(A), [0.3], [20.0], tol=TOL)
    other = lean_point(problem, None, TOL, 0) or wp.minimize(problem, progress=False)
    assert path.values[0, 0] == pytest.approx(other.value, rel=1e-4)
