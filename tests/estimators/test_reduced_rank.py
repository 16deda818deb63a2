"""Reduced-rank regression: the problem solved, the choice of weights, sparse data, refusals."""

from __future__ import annotations

from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from unusual_data import UNUSUAL

import weakprox as wp
from weakprox import InputError, ReducedRankRegressor
from weakprox.estimators import reduced_rank
from weakprox.estimators.reduced_rank import LOW_RANK, Setting, _better
from weakprox.penalties import ElasticNet

GIVEN = {"ridge": 0.1, "random_state": 0}


@parametrize_with_checks([ReducedRankRegressor(0.1, **GIVEN)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks([ReducedRankRegressor()])
def test_scikit_learn_checks_of_the_search(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", UNUSUAL)
def test_the_search_on_unusual_data(check):
    check("ReducedRankRegressor", ReducedRankRegressor())


def planted(seed=0, n=60, p=10, q=5, rank=1, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * rng.uniform(0.5, 3.0, p) + rng.standard_normal(p)
    B = rng.standard_normal((p, rank)) @ rng.standard_normal((rank, q))
    Y = 2.0 + X @ B + noise * rng.standard_normal((n, q))
    return X, Y


def penalty_of(kind, B):
    if kind is None:
        return 0.0
    return cp.sum(cp.norm(B, axis=1)) if kind == "rows" else cp.sum(cp.abs(B))


@pytest.mark.parametrize("sparsity", [None, "rows", "entries"])
@pytest.mark.parametrize("intercept", [True, False])
def test_solves_the_problem_it_states(sparsity, intercept):
    X, Y = planted()
    model = ReducedRankRegressor(
        0.2, sparsity=sparsity, sparsity_weight=0.05, fit_intercept=intercept, scale=False,
        tol=1e-6, **GIVEN,
    ).fit(X, Y)  # fmt: skip
    B, c = cp.Variable((10, 5)), cp.Variable((1, 5))
    fit = X @ B + (np.ones((60, 1)) @ c if intercept else 0.0)
    value = cp.sum_squares(Y - fit) / 120 + 0.2 * cp.normNuc(B) + 0.05 * cp.sum_squares(B)
    value += 0.05 * penalty_of(sparsity, B)
    best = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    assert model.result_.value == pytest.approx(best, rel=1e-5)
    assert model.certificate_.lower_bound <= best * (1 + 1e-6)
    coef = model.coef_.T
    assert coef == pytest.approx(B.value, abs=5e-3)
    if intercept:
        assert model.intercept_ == pytest.approx(c.value[0], abs=2e-2)


def test_scaling_makes_the_fit_indifferent_to_units():
    X, Y = planted()
    unit, other = np.logspace(-2, 2, 10), np.logspace(1, -1, 5)
    one = ReducedRankRegressor(0.1, **GIVEN).fit(X, Y)
    two = ReducedRankRegressor(0.1, **GIVEN).fit(X * unit, Y * other)
    assert two.coef_ == pytest.approx(one.coef_ * other[:, None] / unit, rel=1e-6)
    assert two.predict(X * unit) == pytest.approx(one.predict(X) * other)


def test_no_weights_are_least_squares():
    X, Y = planted()
    model = ReducedRankRegressor(0.0, ridge=0.0).fit(X, Y)
    wanted = LinearRegression().fit(X, Y)
    assert model.coef_ == pytest.approx(wanted.coef_, abs=1e-6)
    assert model.intercept_ == pytest.approx(wanted.intercept_, abs=1e-6)
    assert model.result_.certified


@pytest.mark.parametrize("sparsity", ["rows", "entries"])
def test_a_sparse_penalty_alone_with_more_features_than_rows(sparsity):
    rng = np.random.default_rng(1)
    X, truth = rng.standard_normal((10, 30)), np.zeros((30, 4))
    truth[[0, 3], [0, 1]] = 5.0
    options = {"sparsity": sparsity, "sparsity_weight": 0.3, "scale": False, "tol": 1e-5}
    model = ReducedRankRegressor(0.0, ridge=0.0, fit_intercept=False, **options)
    model.fit(X, X @ truth)
    B = cp.Variable((30, 4))
    value = cp.sum_squares(X @ truth - X @ B) / 20 + 0.3 * penalty_of(sparsity, B)
    best = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    assert model.result_.value == pytest.approx(best, rel=1e-3)
    assert model.certificate_.lower_bound <= best * (1 + 1e-6)


@pytest.mark.parametrize("noise", [1.0, 30.0])
def test_weights_of_a_sparse_penalty_are_tried_from_ridge_regression(noise):
    X, Y = planted(p=8, q=4, rank=4, noise=noise)
    model = ReducedRankRegressor(0.0, sparsity="rows", random_state=0).fit(X, Y)
    assert len(model.cv_results_["param_sparsity_weight"]) == 5
    assert model.result_.certified


def test_columns_far_from_zero_are_scaled():
    X, Y = planted()
    moved = X + np.array([1e9] + [0.0] * 9)
    one, two = (ReducedRankRegressor(0.1, **GIVEN).fit(features, Y) for features in (X, moved))
    assert two.coef_ == pytest.approx(one.coef_, abs=1e-3)


def test_finds_low_rank_and_predicts_better_than_ridge():
    X, Y = planted(n=80, p=30, q=20, rank=1, noise=3.0)
    test, truth = planted(n=80, p=30, q=20, rank=1, noise=0.0)
    model = ReducedRankRegressor(random_state=0).fit(X, Y)
    ridge = RidgeCV(np.logspace(-3, 4, 15)).fit(X, Y)
    ours, theirs = (np.mean((each.predict(test) - truth) ** 2) for each in (model, ridge))
    assert ours < 0.7 * theirs
    assert 1 <= model.rank_ <= 5
    assert model.lam_ > 0.0
    assert model.result_.certified


def test_ridge_remains_where_low_rank_gains_nothing():
    X, Y = planted(n=100, p=5, q=5, rank=5, noise=0.1)
    model = ReducedRankRegressor(random_state=0).fit(X, Y)
    assert model.rank_ == 5
    table = model.cv_results_
    simple = table["param_lam"] == 0.0
    assert simple.sum() == 1
    chosen = (table["param_lam"] == model.lam_) & (table["param_ridge"] == model.ridge_)
    assert (table["mean_test_score"][chosen] >= table["mean_test_score"][simple]).all()


def test_the_ridge_is_that_of_left_out_rows(monkeypatch):
    monkeypatch.setattr(reduced_rank, "OWN", 1e9)  # one for all responses
    X, Y = planted(n=25, p=10, noise=4.0)
    model = ReducedRankRegressor(random_state=0, scale=False, cv=3)
    model.fit(X, Y)
    ridge = np.unique(model.cv_results_["param_ridge"])
    ridge = ridge[ridge > 0.0]
    assert len(ridge) == 1
    # scikit-learn's weights are those of the sum of squares
    centred = X - X.mean(axis=0)
    curvature = np.mean(np.linalg.eigvalsh(centred.T @ centred / 25))
    alphas = 25 * curvature * 10.0 ** np.linspace(-5, 3, 17)
    assert 25 * ridge[0] == pytest.approx(RidgeCV(alphas).fit(X, Y).alpha_)


def uneven(n, seed=0):
    """Responses of which some are exact, some are noisy, and some are noise alone."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 15))
    noise = np.array([0.0, 0.0, 3.0, 3.0, 30.0, 30.0])
    return X, X @ rng.standard_normal((15, 6)) + noise * rng.standard_normal((n, 6))


def test_responses_with_different_noise_have_their_own_ridge():
    X, Y = uneven(600)
    model = ReducedRankRegressor(random_state=0, scale=False).fit(X[:60], Y[:60])
    assert isinstance(model.ridge_, tuple)
    assert max(model.ridge_[:2]) < min(model.ridge_[2:])
    assert model.result_.certified

    def error(found):  # of the exact responses
        return np.mean((found - Y[60:])[:, :2] ** 2)

    common = RidgeCV(np.logspace(-3, 4, 22)).fit(X[:60], Y[:60])
    assert error(model.predict(X[60:])) < 0.01 * error(common.predict(X[60:]))
    alike = Y[:, [2, 3]]
    assert isinstance(ReducedRankRegressor(random_state=0).fit(X, alike).ridge_, float)


@pytest.mark.parametrize("sparsity", [None, "rows", "entries"])
def test_solves_the_problem_with_a_ridge_for_each_response(sparsity):
    X, Y = uneven(60)
    chosen = Setting(0.0, (0.0, 0.1, 0.1, 0.2, 0.3, 5.0), 0.1 if sparsity else 0.0)
    model = ReducedRankRegressor(sparsity=sparsity, scale=False, tol=1e-6, random_state=0)
    model._choose = lambda *data, **given: chosen
    model.fit(X, Y)
    B, c = cp.Variable((15, 6)), cp.Variable((1, 6))
    value = cp.sum_squares(Y - X @ B - np.ones((60, 1)) @ c) / 120
    value += 0.5 * cp.sum(cp.square(B), axis=0) @ np.array(model.ridge_)
    value += 0.1 * penalty_of(sparsity, B)
    best = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    assert model.result_.value == pytest.approx(best, rel=1e-5)
    assert model.certificate_.lower_bound <= best * (1 + 1e-6)


def test_a_gain_within_a_standard_error_does_not_replace_ridge_regression():
    simple, other = Setting(0.0, 0.1), Setting(0.2, 0.1)
    losses = np.ones(5), 1.0 - np.array([-0.3, 0.0, 0.1, 0.3, 0.4])  # 0.8 standard errors
    search = SimpleNamespace(losses=dict(zip((simple, other), losses, strict=True)))
    assert _better(search, simple, other, LOW_RANK) == simple
    search.losses[other] = losses[1] - 0.1  # 1.6 standard errors
    assert _better(search, simple, other, LOW_RANK) == other


def test_rows_of_zeros():
    rng = np.random.default_rng(0)
    X, B = rng.standard_normal((100, 12)), np.zeros((12, 4))
    B[:3] = rng.standard_normal((3, 1)) @ rng.standard_normal((1, 4))
    Y = X @ B + 0.5 * rng.standard_normal((100, 4))
    options = {"sparsity": "rows", "ridge": 0.0, "tol": 1e-8}
    model = ReducedRankRegressor(0.05, sparsity_weight=0.15, **options).fit(X, Y)
    sizes = np.linalg.norm(model.coef_, axis=0)
    assert sizes[3:].max() < 1e-3 * sizes[:3].min()
    assert ReducedRankRegressor(0.05, **options).fit(X, Y).sparsity_weight_ > 0.0


@pytest.mark.parametrize("intercept", [True, pytest.param(False, marks=pytest.mark.long)])
def test_sparse_features(intercept):
    X, Y = planted()
    X[np.abs(X) < 1.0] = 0.0
    model = ReducedRankRegressor(fit_intercept=intercept, random_state=0)
    dense = model.fit(X, Y)
    coef, level, chosen = dense.coef_, dense.intercept_, (dense.lam_, dense.ridge_)
    sparse = model.fit(csr_array(X), Y)
    assert (sparse.lam_, sparse.ridge_) == pytest.approx(chosen)
    assert sparse.coef_ == pytest.approx(coef, abs=1e-3)
    assert sparse.intercept_ == pytest.approx(level, abs=1e-2)
    assert sparse.predict(csr_array(X)) == pytest.approx(sparse.predict(X))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("make", [np.asarray, csr_array], ids=["array", "sparse"])
def test_more_features_than_rows(make, intercept):
    """The problem is solved in a basis of the rows, which gives the same coefficients."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 30)) * (rng.random((12, 30)) < 0.5)
    X[5] = X[4]  # the rank is lower than the number of rows
    Y = X[:, :3] @ rng.standard_normal((3, 4)) + 0.1 * rng.standard_normal((12, 4))
    options = {"lam": 0.05, "ridge": 0.1, "scale": False, "fit_intercept": intercept}
    model = ReducedRankRegressor(**options, tol=1e-8).fit(make(X), Y)
    terms = ElasticNet(0.0, 0.05), wp.spectral.NuclearNorm(0.05)
    problem = wp.Problem(wp.losses.Regression(X, Y, intercept=intercept), *terms)
    whole = wp.minimize(problem, tol=1e-8, progress=False)
    np.testing.assert_allclose(model.coef_.T, whole.X, atol=1e-4)
    assert model.result_.value == pytest.approx(whole.value, rel=1e-7)
    assert min(model.result_.low_rank.shape) <= 12
    loss = problem.loss
    level = loss.response_means - loss.feature_means @ model.coef_.T
    np.testing.assert_allclose(model.intercept_, level, atol=1e-10)


@pytest.mark.parametrize("make", [np.asarray, csr_array], ids=["array", "sparse"])
def test_features_that_are_all_zero(make):
    model = ReducedRankRegressor(lam=0.1, ridge=0.1).fit(make(np.zeros((3, 5))), np.eye(3))
    assert not model.coef_.any()


def test_more_features_than_a_gram_matrix_is_worth(monkeypatch):
    monkeypatch.setattr("weakprox.losses.regression.GRAM", 5)
    X, Y = planted(n=20, p=40)
    options = {"sparsity": "rows", "sparsity_weight": 0.01, "random_state": 0}
    model = ReducedRankRegressor(**options).fit(X, Y)
    assert model.result_.certified
    with pytest.raises(InputError, match="ridge"):
        ReducedRankRegressor(0.0, sparsity="rows", sparsity_weight=0.0).fit(X, Y)
    monkeypatch.setattr("weakprox.losses.regression.GRAM", 100)
    again = ReducedRankRegressor(model.lam_, ridge=0.0, **options).fit(X, Y)
    assert model.result_.value == pytest.approx(again.result_.value, rel=2e-4)


def test_one_response_and_frames():
    X, Y = planted()
    one = ReducedRankRegressor(0.1, **GIVEN).fit(X, Y[:, 0])
    column = ReducedRankRegressor(0.1, **GIVEN).fit(X, Y[:, :1])
    assert one.coef_.shape == (10,)
    assert one.predict(X).shape == (60,)
    assert column.coef_.shape == (1, 10)
    assert one.coef_ == pytest.approx(column.coef_[0])
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(10)])
    named = ReducedRankRegressor(0.1, **GIVEN).fit(frame, pd.DataFrame(Y))
    assert list(named.feature_names_in_) == list(frame.columns)
    assert np.isfinite(cross_val_score(ReducedRankRegressor(0.1, **GIVEN), X, Y)).all()


def test_constant_responses():
    X, Y = planted()
    Y[:, 2] = 7.0
    model = ReducedRankRegressor(random_state=0).fit(X, Y)
    assert model.predict(X)[:, 2] == pytest.approx(np.full(60, 7.0))
    still = ReducedRankRegressor(random_state=0).fit(X, np.ones((60, 2)))
    assert still.predict(X) == pytest.approx(np.ones((60, 2)))


@pytest.mark.parametrize(
    "settings",
    [
        {"lam": -1.0},
        {"ridge": "best"},
        {"sparsity": "columns"},
        {"sparsity_weight": -1.0},
        {"fit_intercept": 1},
        {"scale": "yes"},
        {"cv": 1},
        {"tol": 0.0},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        ReducedRankRegressor(**settings).fit(*planted())


def test_sparse_responses_are_refused():
    X = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.raises(InputError, match="y: got a sparse matrix"):
        ReducedRankRegressor(random_state=0).fit(X, csr_array(X))


@pytest.mark.parametrize("sparsity", ["rows", "entries"])
def test_sparse_coefficients_have_exact_zeros_and_a_certificate(sparsity):
    X, Y = planted(p=12)
    X[:, 6:] = 10.0 * np.random.default_rng(1).standard_normal((len(X), 6))  # irrelevant
    model = ReducedRankRegressor(
        0.05, sparsity=sparsity, sparsity_weight=0.2, tol=1e-6, **GIVEN
    ).fit(X, Y)
    exact, point = model.sparse_coef_, model.result_.sparse
    assert exact.shape == model.coef_.shape
    assert exact.nnz == point.matrix.nnz < exact.shape[0] * exact.shape[1]
    if sparsity == "rows":
        assert np.sum(~exact.toarray().any(axis=0)) >= 3
    np.testing.assert_allclose(exact.toarray(), model.coef_, atol=1e-3)
    assert point.certificate.lower_bound <= min(model.result_.value, point.value)
    assert point.gap <= 1e-4 * point.value


def test_there_are_no_sparse_coefficients_without_a_sparse_penalty():
    assert ReducedRankRegressor(0.2, **GIVEN).fit(*planted()).sparse_coef_ is None
    one = ReducedRankRegressor(0.2, sparsity="entries", sparsity_weight=0.1, **GIVEN)
    X, Y = planted()
    assert one.fit(X, Y[:, 0]).sparse_coef_.shape == (1, 10)


@pytest.mark.parametrize("settings", [{"lam": 0.0, "ridge": 0.3}, {"lam": 0.0, "ridge": 0.0}])
def test_a_limit_of_the_rank_without_other_penalties_is_reduced_rank_regression(settings):
    X, Y = planted(n=60, p=8, q=5, rank=5)
    model = ReducedRankRegressor(rank=2, scale=False, **settings).fit(X, Y)
    A, C = X - X.mean(axis=0), Y - Y.mean(axis=0)
    rows = np.sqrt(settings["ridge"] * len(X)) * np.eye(8)
    A, C = np.vstack([A, rows]), np.vstack([C, np.zeros((8, 5))])
    B = np.linalg.lstsq(A, C, rcond=None)[0]
    V = np.linalg.svd(A @ B)[2][:2].T
    np.testing.assert_allclose(model.coef_.T, B @ V @ V.T, atol=1e-6)
    assert model.rank_ == 2
    least = 0.5 * np.sum((A @ B - C) ** 2) / len(X)
    excess = 0.5 * np.sum((A @ B @ (np.eye(5) - V @ V.T)) ** 2) / len(X)
    assert model.result_.value == pytest.approx(least + excess)
    assert model.result_.gap == pytest.approx(excess, rel=1e-2)


def test_folds_know_the_limit_of_the_rank():
    X, Y = planted(n=60, p=8, q=5, rank=5, noise=0.1)
    plain, limited = (ReducedRankRegressor(rank=r, random_state=0).fit(X, Y) for r in (None, 1))
    best = [model.cv_results_["mean_test_score"].max() for model in (plain, limited)]
    assert best[1] < 10.0 * best[0] < 0.0
