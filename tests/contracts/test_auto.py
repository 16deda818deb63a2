"""The solver taken when none is named: it applies to every problem, and says why."""

import numpy as np
import pytest
from registry import LOSSES, NUMPY, PENALTIES, SAMPLED, numbers

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import ElasticNet, MaxAffine
from weakprox.run import choose as auto
from weakprox.spectral import NuclearBall


def expected(problem):
    loss, penalty = problem.loss, problem.penalty
    if not loss.is_finite_sum:
        return "SampleAverage"
    if problem.cells is not None:
        return "DenseProximal"
    small_dual = hasattr(loss, "centre") and isinstance(penalty, MaxAffine)
    if small_dual:
        return "DualAscent"
    uneven = loss.smoothness + penalty.curvature > 100.0 * problem.strong_convexity()
    return "ADMM" if uneven and problem.of_loss.origin is not None else "DavisYin"


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", [*LOSSES, *SAMPLED])
def test_every_problem_has_a_solver(loss, penalty):
    entry = LOSSES[loss] if loss in LOSSES else SAMPLED[loss][0]
    G, R = entry.build(NUMPY), PENALTIES[penalty].build(NUMPY)
    if not G.strong_convexity + R.curvature > 0:
        R = R + ElasticNet(0.0, 0.1)
    problem = wp.Problem(G, R, NuclearBall(2.0))
    result = wp.minimize(
        problem, eps=5.0, max_svds=1, max_samples=2000, evaluation_samples=4, progress=False
    )
    assert result.solver == expected(problem)
    names = {
        type(G).__name__,
        repr(G).partition("(")[0],
    }  # or that in the user's code
    assert any(name in auto.choose(problem).reason for name in names)


def test_large_matrices_fall_back_on_the_method_that_holds_few_arrays(monkeypatch):
    pieces = wp.penalties.MaxAffine(numbers(2, 600).reshape(2, 30, 20), np.zeros(2))
    problem = wp.Problem(Denoising(numbers(30, 20)), pieces, NuclearBall(2.0))
    monkeypatch.setattr(auto, "room", lambda: 1000)
    monkeypatch.setattr(auto, "SMALL", 0)
    choice = auto.choose(problem)
    assert choice.solver == wp.solvers.AdaptiveSVRGCG(rank="estimate")
    assert "memory" in choice.reason
    assert auto.choose(problem, rank=3).solver.rank == 3
