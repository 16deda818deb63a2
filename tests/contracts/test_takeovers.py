"""Runs whose steps are many and expensive: proximal steps for the loss take over, and prove."""

import numpy as np
import pytest

import weakprox as wp
from weakprox.losses import Completion, Huber
from weakprox.solvers import FactoredProximal, factored_proximal
from weakprox.spectral import NuclearBall, NuclearNorm

SHAPES = [(120, 120), (104, 260), (260, 104)]


def entries(shape, share, loss="squared", noise=1.0, **options):
    rng = np.random.default_rng([5, *shape])
    T = rng.standard_normal((shape[0], 5)) @ rng.standard_normal((5, shape[1])) / np.sqrt(5)
    rows, columns = np.nonzero(rng.random(shape) < share)
    values = T[rows, columns] + noise * rng.standard_normal(len(rows))
    if loss == "logistic":
        values = np.sign(values)
    if loss == "poisson":
        values = rng.poisson(np.exp(0.5 * T[rows, columns])).astype(float)
    return Completion(rows, columns, values, shape, loss=loss, **options), T


def of_norm(G, share):
    slope = np.linalg.norm(G.grad(np.zeros(G.shape), G.everything()), 2)
    return wp.Problem(G, None, NuclearNorm(share * slope))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("loss", ["squared", Huber(1.0), "logistic", "poisson"], ids=str)
def test_completions_far_from_low_rank(loss, shape, monkeypatch):
    problem = of_norm(entries(shape, 0.1, loss)[0], 0.03)
    result = wp.minimize(problem, tol=1e-3, progress=False)
    assert result.solver == "ADMM"
    assert result.status is wp.Status.CERTIFIED
    monkeypatch.setattr(factored_proximal, "_as_arrays", lambda problem: False)
    other = wp.minimize(problem, tol=1e-3, max_svds=3 * result.counts.svds, progress=False)
    assert other.solver == "FactoredProximal"
    assert result.certificate.lower_bound <= other.value * (1 + 1e-12)
    assert other.certificate.lower_bound <= result.value * (1 + 1e-12)


def test_balls_far_from_low_rank():
    G, T = entries((260, 104), 0.1)
    h = NuclearBall(1.5 * np.linalg.svd(T, compute_uv=False).sum())
    result = wp.minimize(wp.Problem(G, None, h), tol=1e-3, progress=False)
    assert result.solver == "ADMM"
    assert result.status is wp.Status.CERTIFIED
    assert result.violation <= 1e-9


@pytest.mark.parametrize("loss", [Huber(1.0), "logistic"], ids=str)
def test_runs_that_end_soon_are_not_taken_over(loss):
    """With many entries observed, few steps remain when X is found to be far from low-rank."""
    problem = of_norm(entries((120, 120), 0.9, loss)[0], 0.1)
    result = wp.minimize(problem, progress=False)
    assert result.low_rank.rank > factored_proximal.CROWDED * 120
    assert result.solver == "FactoredProximal"
    assert result.status is wp.Status.CERTIFIED


@pytest.mark.parametrize("case", ["small", "intercepts", "memory", "low rank"])
def test_completions_that_stay_in_factors(case, monkeypatch):
    shape, share = ((60, 60), 0.03) if case == "small" else ((120, 120), 0.03)
    share = 0.3 if case == "low rank" else share
    options = {"intercepts": "both"} if case == "intercepts" else {}
    problem = of_norm(entries(shape, 0.1, Huber(1.0), **options)[0], share)
    if case == "memory":
        monkeypatch.setattr(factored_proximal, "fits", lambda problem, needed: False)
    result = wp.minimize(problem, tol=1e-2, max_svds=60, progress=False)
    assert result.solver == "FactoredProximal"


def test_a_cap_on_the_rank_is_kept():
    problem = of_norm(entries((120, 120), 0.1)[0], 0.03)
    solver = FactoredProximal(rank=60)
    assert wp.minimize(problem, solver, tol=1e-3, max_svds=200, progress=False).rank <= 60
    assert solver.fallback.rank == 60


@pytest.mark.parametrize("kind", ["result", "factors", "array"])
def test_first_points_are_kept_in_the_form_that_each_method_takes(kind):
    problem = of_norm(entries(SHAPES[0], 0.1)[0], 0.03)
    rough = wp.minimize(problem, tol=1e-1, progress=False)
    start = {"result": rough, "factors": rough.low_rank, "array": rough.X}[kind]
    result = wp.minimize(problem, tol=1e-4, start=start, progress=False)
    assert result.solver == "ADMM"
    assert result.status is wp.Status.CERTIFIED


def test_a_model_that_gives_first_points():
    _, T = entries(SHAPES[0], 0.1)
    X = np.where(np.random.default_rng(1).random(T.shape) < 0.2, T, np.nan)
    model = wp.MatrixCompletion(intercepts="none", random_state=0, tol=1e-4, cv=5).fit(X)
    assert model.result_.certified


def test_the_best_point_is_the_first_of_the_next_method():
    problem = of_norm(entries(SHAPES[0], 0.1)[0], 0.03)
    svds = range(4, 24, 2)
    runs = [wp.minimize(problem, tol=1e-4, max_svds=most, progress=False) for most in svds]
    assert {run.solver for run in runs} == {"FactoredProximal", "ADMM"}
    values = np.array([run.value for run in runs])
    assert np.all(np.diff(values) <= 1e-9 * values[:-1])
