"""Values of answers, recomputed at the end of a run."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakprox as wp
from weakprox.linalg.arrays import SHARED
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Custom, Denoising
from weakprox.passes import compiled, compiling
from weakprox.penalties import L1, ElasticNet, GroupL2
from weakprox.run import evaluate
from weakprox.spectral import NuclearBall, NuclearNorm

SHAPE = (640, 400)
PENALTIES = [None, L1(0.5), ElasticNet(0.3, 0.2), L1(0.2) + GroupL2(1.5)]


def answer(rank):
    rng = np.random.default_rng(rank)
    U, V = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for n in SHAPE)
    return LowRank(U, np.linspace(9.0, 1.0, rank), V.T)


@pytest.mark.parametrize("rank", [3, evaluate.ONE_PASS, evaluate.ONE_PASS + 1])
@pytest.mark.parametrize("R", PENALTIES, ids=repr)
def test_passes_compute_the_value_of_the_array(R, rank, monkeypatch):
    """Up to some rank one pass over the data is enough, and the array is never formed."""
    assert np.prod(SHAPE) >= compiling.COMPILED_FROM
    M, X = np.random.default_rng(0).standard_normal(SHAPE), answer(rank)
    problem = wp.Problem(Denoising(M), R, NuclearNorm(0.7))
    state = _state(problem)
    looks, look = [], compiled.look
    monkeypatch.setattr(compiled, "look", lambda *given: looks.append(1) or look(*given))
    with compiling.passes(True):
        value, rounding = evaluate.measured(state, X)
    assert len(looks) == (rank <= evaluate.ONE_PASS)
    assert value == pytest.approx(problem.value(X.dense()), rel=1e-13)
    assert rounding <= 1e-13 * value


def test_losses_without_a_centre_are_evaluated_at_the_array():
    M, X = np.random.default_rng(0).standard_normal(SHAPE), answer(3)
    loss = Custom(
        SHAPE,
        value=lambda X: 0.5 * float(((X - M) ** 2).sum()),
        grad=lambda X: X - M,
        smoothness=1.0,
        strong_convexity=1.0,
    )
    problem = wp.Problem(loss, L1(0.5), NuclearBall(100.0))
    with compiling.passes(True):
        value, _ = evaluate.measured(_state(problem), X)
    assert value == pytest.approx(problem.value(X.dense()), rel=1e-13)


def _state(problem):
    """What `measured` reads of the state of a run."""
    tools = SimpleNamespace(arena=SHARED)
    return SimpleNamespace(problem=problem, batch=problem.loss.everything(), tools=tools)


def test_the_accuracy_at_an_optimum_of_zero_is_relative_to_the_size_of_the_solution():
    x, tol = 0.11549141604213411, 1e-9
    problem = wp.Problem(
        Denoising(np.array([[x]])), L1(0.0), wp.spectral.TracePSD(11.54914160421341)
    )
    result = wp.minimize(problem, tol=tol)
    assert result.value == 0.0
    assert result.status is wp.Status.CERTIFIED
    assert result.eps == pytest.approx(tol * 1e-5 * 0.5 * x * x, rel=1e-9, abs=0.0)


def few_of(M):
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero(rng.random(M.shape) < 0.6)
    return rows, columns, M[rows, columns], M.shape


@pytest.mark.parametrize("intercepts", ["rows", "both"])
def test_an_exact_fit_by_x_is_certified_relative_to_its_size(intercepts):
    """Rounding errors of intercepts do not replace the accuracy; they only limit it."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 50))
    loss = wp.losses.Completion(*few_of(M), intercepts=intercepts)
    result = wp.minimize(wp.Problem(loss, None, NuclearBall(1000.0)))
    assert result.status is wp.Status.CERTIFIED
    assert result.eps > 1e-9


@pytest.mark.parametrize("h", [NuclearNorm(1.0), NuclearBall(10.0)], ids=repr)
def test_an_exact_fit_by_intercepts_is_certified_also_with_a_penalty(h):
    rng = np.random.default_rng(0)
    M = 1e3 * (rng.standard_normal((60, 1)) + rng.standard_normal(50))
    loss = wp.losses.Completion(*few_of(M), intercepts="both")
    result = wp.minimize(wp.Problem(loss, L1(0.1), h))
    assert result.status is wp.Status.CERTIFIED
    assert result.counts.svds <= 4
