"""Logistic: the stated sum, the best intercept, certificates, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse
from registry import MATRICES, OUTCOMES, SHAPE, numbers
from scipy.optimize import minimize_scalar

import weakprox as wp
from weakprox.errors import InputError, ShapeError
from weakprox.losses import Logistic
from weakprox.losses.entry_losses import Logistic as OfEntries
from weakprox.losses.logistic import best_intercept
from weakprox.proofs.proof import verify_data

X = numbers(*SHAPE, seed=20)
T = np.tensordot(MATRICES, X, 2)


def mean_loss(t):
    return float(np.mean(np.logaddexp(0.0, t) - OUTCOMES * t))


def test_the_value_is_the_stated_mean():
    loss = Logistic(MATRICES, OUTCOMES)
    assert loss.value(X, loss.everything()) == pytest.approx(mean_loss(T))
    assert loss.intercept(X) == 0.0
    assert loss.n_terms == len(OUTCOMES)
    assert repr(loss) == "Logistic(60 outcomes, 7 x 5)"


def test_with_an_intercept_it_is_the_minimum_over_it():
    loss = Logistic(MATRICES, OUTCOMES, intercept=True)
    best = minimize_scalar(lambda c: mean_loss(T + c), tol=1e-12)
    assert loss.value(X, loss.everything()) == pytest.approx(best.fun, abs=1e-12)
    assert loss.intercept(X) == pytest.approx(best.x, abs=1e-5)
    assert loss.n_terms == 1
    assert loss.spread(X, loss.everything()) == 0.0


@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
def test_the_intercept_balances_probabilities_and_outcomes(scale):
    c = best_intercept(scale * T, OUTCOMES)
    p = 0.5 * (1.0 + np.tanh(0.5 * (scale * T + c)))
    assert np.mean(p) == pytest.approx(np.mean(OUTCOMES), abs=1e-10)


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_equal_outcomes_have_no_loss(outcome):
    """The infimum over the intercept is 0, and so no lower bound may be positive."""
    loss = Logistic(MATRICES, np.full(60, outcome), intercept=True)
    assert loss.value(X, loss.everything()) == 0.0
    assert np.isfinite(loss.intercept(X))
    result = wp.minimize(wp.Problem(loss, None, wp.spectral.NuclearBall(2.0)))
    assert result.certificate.lower_bound <= 0.0


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("term", ["ball", "norm"])
def test_the_optimum_is_that_of_cvxpy(intercept, term):
    cp = pytest.importorskip("cvxpy")
    lam, tau, weight = 0.01, 2.0, 0.05
    spectral = (
        wp.spectral.NuclearBall(tau) if term == "ball" else wp.spectral.NuclearNorm(weight)
    )
    loss = Logistic(MATRICES, 2.0 * OUTCOMES - 1.0, intercept=intercept)  # -1 and 1 as well
    result = wp.minimize(wp.Problem(loss, wp.penalties.L1(lam), spectral), tol=1e-6)
    V, c = cp.Variable(SHAPE), cp.Variable()
    t = MATRICES.reshape(60, -1) @ cp.vec(V, order="C") + (c if intercept else 0.0)
    objective = cp.sum(cp.logistic(t) - cp.multiply(OUTCOMES, t)) / 60 + lam * cp.norm1(V)
    limits = [cp.normNuc(V) <= tau] if term == "ball" else []
    objective = objective if term == "ball" else objective + weight * cp.normNuc(V)
    task = cp.Problem(cp.Minimize(objective), limits)
    task.solve(solver=cp.CLARABEL)
    assert result.certified
    assert result.value == pytest.approx(task.value, rel=1e-5)
    assert result.certificate.lower_bound <= task.value * (1 + 1e-7)


def test_a_proof_can_be_verified_with_the_problem_or_the_data(tmp_path):
    problem = wp.Problem(Logistic(MATRICES, OUTCOMES), None, wp.spectral.NuclearBall(2.0))
    proof = wp.minimize(problem, proof=True).proof
    proof.save(tmp_path / "proof.npz")
    assert wp.verify(tmp_path / "proof.npz", problem)
    assert verify_data(tmp_path / "proof.npz", {"A": MATRICES, "y": OUTCOMES})


@pytest.mark.parametrize(
    ("A", "y", "settings", "name"),
    [
        (MATRICES, OUTCOMES[:5], {}, "y"),
        (MATRICES, np.arange(60.0), {}, "values"),
        (MATRICES, np.full(60, np.nan), {}, "y"),
        (MATRICES[:, 0], OUTCOMES, {}, "A"),
        (MATRICES, OUTCOMES, {"intercept": "yes"}, "intercept"),
        (scipy.sparse.csr_array(MATRICES.reshape(60, -1)), OUTCOMES, {}, "shape"),
    ],
)
def test_bad_input_is_named(A, y, settings, name):
    with pytest.raises((InputError, ShapeError), match=name):
        Logistic(A, y, **settings)


def test_the_intercept_is_found_in_few_steps(monkeypatch):
    """Newton's method ends where it stands still, at whichever end of its bracket."""
    calls = []
    plain = OfEntries.mean
    monkeypatch.setattr(OfEntries, "mean", lambda self, x: calls.append(1) or plain(self, x))
    rng = np.random.default_rng(0)
    for size in (0.1, 1.0, 10.0):
        t, y = size * rng.standard_normal(50), (rng.random(50) < 0.3).astype(float)
        c = best_intercept(t, y)
        assert np.mean(1.0 / (1.0 + np.exp(-t - c))) == pytest.approx(y.mean(), abs=1e-12)
    assert len(calls) <= 3 * 15
