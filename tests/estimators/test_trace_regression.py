"""Trace regressions and TraceClassifier: optimum, folds, inputs, conventions."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import ElasticNet, LassoCV, LogisticRegression, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from unusual_data import UNUSUAL

from weakprox import (
    InputError,
    ShapeError,
    Status,
    TraceClassifier,
    TraceRegression,
    TraceRegressionCV,
)
from weakprox.estimators.trace_regression import (
    CLASS_RIDGES,
    LAMS,
    RIDGE,
    TAUS,
    Classes,
    Design,
)
from weakprox.selection.debias import Unseen, best_refit, refit_to
from weakprox.selection.search import Deadline, Search

SEARCH = TraceRegressionCV([0.0, 0.01], [1.0, np.inf], lam2=1e-3, cv=2, random_state=0)


@parametrize_with_checks(
    [
        TraceRegression(0.01, 10.0, random_state=0),
        TraceClassifier(1e-4, 10.0, lam2=1e-3, random_state=0),
    ]
)
def test_sklearn(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks([SEARCH])
def test_sklearn_and_the_search(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", UNUSUAL)
def test_the_search_on_unusual_data(check):
    check("TraceRegressionCV", SEARCH)


def planted(n=120, m=8, d=7, noise=0.5, seed=0):
    """Measurements of a matrix of rank one with a few entries."""
    rng = np.random.default_rng(seed)
    left, right = np.zeros(m), np.zeros(d)
    left[1:4], right[2:5] = 1.0, [1.0, -1.0, 1.0]
    B = np.outer(left, right)
    A = rng.standard_normal((n, m, d))
    return A, np.tensordot(A, B, 2) + 3.0 + noise * rng.standard_normal(n), B


def test_the_fit_is_the_optimum():
    """Against CVXPY, intercept included."""
    cvxpy = pytest.importorskip("cvxpy")
    A, b, _ = planted(40)
    lam1, lam2, tau = 0.05, 0.02, 3.0
    model = TraceRegression(lam1, tau, lam2=lam2, tol=1e-7, random_state=0).fit(A, b)
    B, c = cvxpy.Variable((8, 7)), cvxpy.Variable()
    flat = A.transpose(0, 2, 1).reshape(40, -1)  # CVXPY stacks columns
    left = flat @ cvxpy.vec(B, order="F") + c - b
    value = cvxpy.sum_squares(left) / 80 + lam1 * cvxpy.norm1(B) + lam2 * cvxpy.sum_squares(B)
    best = cvxpy.Problem(cvxpy.Minimize(value), [cvxpy.norm(B, "nuc") <= tau])
    wanted = best.solve(solver="CLARABEL")
    assert model.result_.certified
    assert model.result_.value == pytest.approx(wanted, rel=1e-5)
    assert np.allclose(model.coef_, B.value, atol=2e-3)
    assert model.intercept_ == pytest.approx(float(c.value), abs=2e-3)


def test_a_column_is_an_elastic_net():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((50, 6))
    y = X[:, 0] - 2 * X[:, 3] + 0.2 * rng.standard_normal(50)
    ours = TraceRegression(0.1, None, lam2=0.05, tol=1e-8, random_state=0).fit(X, y)
    theirs = ElasticNet(alpha=0.2, l1_ratio=0.5, tol=1e-8).fit(X, y)
    assert ours.coef_.shape == (6, 1)
    assert ours.tau_ == np.inf
    assert np.allclose(ours.coef_[:, 0], theirs.coef_, atol=1e-4)
    exact = ours.sparse_coef_.toarray()[:, 0]
    assert np.array_equal(exact != 0.0, theirs.coef_ != 0.0)
    assert 0 < np.count_nonzero(exact) < 6
    assert np.allclose(exact, theirs.coef_, atol=1e-3)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-4)
    assert np.allclose(ours.predict(X), theirs.predict(X), atol=1e-3)


@pytest.mark.long
def test_beats_ridge_and_lasso_on_low_rank_and_sparse():
    rng = np.random.default_rng(3)
    B = np.zeros((12, 10))
    B[2:7, 3:7] = 1.0
    A = rng.standard_normal((90, 12, 10))
    b = np.tensordot(A, B, 2) + 3.0 + 2.0 * rng.standard_normal(90)
    model = TraceRegression(random_state=0).fit(A, b)
    flat = A.reshape(90, -1)
    error = np.linalg.norm(model.coef_ - B)
    for other in (RidgeCV(np.logspace(-2, 4, 20)), LassoCV()):
        assert error < 0.9 * np.linalg.norm(other.fit(flat, b).coef_.reshape(12, 10) - B)
    assert model.result_.certified
    assert model.intercept_ == pytest.approx(3.0, abs=1.0)
    assert len(model.cv_results_["param_tau"]) < 2 * 5 * 5


def test_one_standard_error_is_simpler():
    A, b, _ = planted(60, 5, 5, noise=1.5)
    settings = {"lam2": 0.05, "random_state": 0, "tol": 1e-3}
    best = TraceRegressionCV(**settings).fit(A, b)
    simple = TraceRegressionCV(one_standard_error=True, **settings).fit(A, b)
    assert (simple.tau_, -simple.lam_) < (best.tau_, -best.lam_)
    automatic = TraceRegression(**settings).fit(A, b)
    assert (automatic.lam_, automatic.tau_) == (best.lam_, best.tau_)


def test_old_names_still_work():
    A, b, _ = planted(20)
    settings = {"lam2": 0.05, "random_state": 0}
    with pytest.warns(DeprecationWarning, match="lam1 is now called lam"):
        old = TraceRegression(lam1=0.1, tau=3.0, **settings).fit(A, b)
    new = TraceRegression(lam=0.1, tau=3.0, **settings).fit(A, b)
    assert np.array_equal(old.coef_, new.coef_)
    with pytest.warns(DeprecationWarning, match="lam1_"):
        assert old.lam1_ == 0.1
    assert clone(old).lam1 == 0.1
    old = TraceRegressionCV(lam1s=[0.1, 0.3], taus=[3.0], rule="one_se", **settings)
    with pytest.warns(DeprecationWarning, match=r"(lam1s|rule) is now called"):
        old.fit(A, b)
    new = TraceRegressionCV([0.1, 0.3], [3.0], one_standard_error=True, **settings).fit(A, b)
    assert (old.lam_, old.tau_) == (new.lam_, new.tau_)


def test_folds_are_scored_as_refits_would_be():
    A, b, _ = planted(60)
    cv = KFold(3, shuffle=True, random_state=0)
    grid = TraceRegressionCV(
        [0.1, 0.3], [2.0, 4.0], lam2=0.05, cv=cv, tol=2e-7, random_state=0
    ).fit(A, b)
    for i, (lam, tau) in enumerate([(0.1, 2.0), (0.1, 4.0), (0.3, 2.0), (0.3, 4.0)]):
        errors = []
        for kept, left in cv.split(A):
            alone = TraceRegression(lam, tau, lam2=0.05, tol=2e-7, random_state=0).fit(
                A[kept], b[kept]
            )
            errors.append(np.mean((alone.predict(A[left]) - b[left]) ** 2))
        found = [-grid.cv_results_[f"split{k}_test_score"][i] for k in range(3)]
        assert found == pytest.approx(errors, rel=1e-2)
        assert grid.cv_results_["param_lam"][i] == lam


# --------------------------------------------------------------------------- inputs


def test_all_forms_of_the_same_data():
    A, b, _ = planted(60)
    flat, settings = A.reshape(60, -1), {"lam": 0.1, "tau": 3.0, "shape": (8, 7)}
    wanted = TraceRegression(**settings, random_state=0).fit(A, b)
    assert wanted.coef_.shape == (8, 7)
    names = [f"x{i}" for i in range(56)]
    for X in (flat, pd.DataFrame(flat, columns=names), pl.DataFrame(flat, schema=names)):
        model = TraceRegression(**settings, random_state=0).fit(X, b)
        assert np.allclose(model.coef_, wanted.coef_)
        assert np.allclose(model.predict(X), wanted.predict(A))
        assert model.n_features_in_ == 56
    assert list(model.feature_names_in_) == names


@pytest.mark.parametrize("intercept", [True, False])
def test_sparse_measurements(intercept):
    rng = np.random.default_rng(2)
    X = np.where(rng.random((80, 12)) < 0.3, rng.standard_normal((80, 12)), 0.0)
    y = X[:, 1] - X[:, 5]
    settings = {"shape": (4, 3), "fit_intercept": intercept, "tol": 1e-7}
    one = TraceRegression(0.01, 3.0, **settings, random_state=0).fit(X, y)
    two = TraceRegression(0.01, 3.0, **settings, random_state=0).fit(
        scipy.sparse.csr_array(X), y
    )
    assert np.allclose(one.coef_, two.coef_, atol=1e-4)
    assert np.allclose(one.predict(X), two.predict(scipy.sparse.csr_array(X)), atol=1e-3)
    assert (one.intercept_ == 0.0) is not intercept


def test_in_a_grid_search():
    A, b, _ = planted(60)
    search = GridSearchCV(
        TraceRegression(0.1, shape=(8, 7), random_state=0), {"tau": [0.1, 3.0]}, cv=2
    )
    assert search.fit(A.reshape(60, -1), b).best_params_ == {"tau": 3.0}


def test_clone_and_pickle():
    A, b, _ = planted(40)
    model = TraceRegression(0.1, 3.0, random_state=0).fit(A, b)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(A), model.predict(A))
    assert clone(model).get_params() == model.get_params()
    assert "weakprox-certificate" in model._repr_html_()


def test_constant_answers_and_constant_features():
    A, b, _ = planted(20)
    level = TraceRegression(random_state=0).fit(A, np.full(20, 2.5))
    assert np.allclose(level.predict(A), 2.5)
    assert np.allclose(TraceRegression(random_state=0).fit(np.ones((20, 3, 2)), b).coef_, 0.0)


def test_no_ridge_is_needed():
    A, b, _ = planted(20)
    model = TraceRegression(0.1, 3.0, lam2=0.0, random_state=0).fit(A, b)
    assert model.result_.status is Status.CERTIFIED
    assert np.isfinite(model.predict(A)).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"lam": -1.0},
        {"lam": "little"},
        {"lam2": -1.0},
        {"tau": 0.0},
        {"tau": "some"},
        {"fit_intercept": "no"},
        {"tol": 0.0},
        {"cv": 1},
    ],
)
def test_bad_settings(settings):
    A, b, _ = planted(10)
    with pytest.raises(InputError):
        TraceRegression(**settings, random_state=0).fit(A, b)


@pytest.mark.parametrize(
    "settings",
    [
        {"one_standard_error": "no"},
        {"taus": []},
        {"lams": 3.0},
        {"lams": [-1.0]},
        {"taus": [0]},
    ],
)
def test_bad_grids(settings):
    A, b, _ = planted(10)
    with pytest.raises(InputError):
        TraceRegressionCV(**settings, random_state=0).fit(A, b)


def test_bad_data():
    A, b, _ = planted(10)
    with pytest.raises(ShapeError, match="shape"):
        TraceRegression(shape=(7, 8), random_state=0).fit(A, b)
    with pytest.raises(ShapeError, match="56 features"):
        TraceRegression(shape=(5, 5), random_state=0).fit(A.reshape(10, -1), b)
    with pytest.raises(InputError):
        TraceRegression(shape=3, random_state=0).fit(A, b)
    with pytest.raises(ValueError, match="inconsistent"):
        TraceRegression(random_state=0).fit(A, b[:5])
    with pytest.raises(ValueError, match="NaN"):
        TraceRegression(random_state=0).fit(A, np.where(b == b[0], np.nan, b))
    with pytest.raises(NotFittedError):
        TraceRegression(random_state=0).predict(A)
    model = TraceRegression(0.1, 3.0, random_state=0).fit(A, b)
    with pytest.raises(ValueError, match="features"):
        model.predict(A[:, :4])


def classes(n=150, seed=0):
    """Classes of matrices by a product with one of rank one with a few entries."""
    A, b, B = planted(n, seed=seed)
    rng = np.random.default_rng(seed + 100)
    odds = 1.5 * (b - 3.0) - 0.5
    return A, np.where(odds + rng.logistic(size=n) > 0.0, "b", "a"), B


def test_the_classifier_is_the_optimum():
    """Against CVXPY, intercept included."""
    cvxpy = pytest.importorskip("cvxpy")
    A, y, _ = classes(60)
    model = TraceClassifier(0.01, 2.0, lam2=0.01, tol=1e-7, random_state=0).fit(A, y)
    B, c = cvxpy.Variable((8, 7)), cvxpy.Variable()
    t = A.reshape(60, -1) @ cvxpy.vec(B, order="C") + c
    value = cvxpy.sum(cvxpy.logistic(t) - cvxpy.multiply(y == "b", t)) / 60
    value += 0.01 * cvxpy.norm1(B) + 0.01 * cvxpy.sum_squares(B)
    best = cvxpy.Problem(cvxpy.Minimize(value), [cvxpy.norm(B, "nuc") <= 2.0])
    wanted = best.solve(solver="CLARABEL")
    assert model.result_.certified
    assert model.result_.value == pytest.approx(wanted, rel=1e-5)
    assert model.certificate_.lower_bound <= wanted * (1 + 1e-7)
    assert np.allclose(model.coef_, B.value, atol=2e-3)
    assert model.intercept_ == pytest.approx(float(c.value), abs=2e-3)


def test_a_column_is_a_ridge_logistic_regression():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 5))
    y = X[:, 0] - X[:, 2] + rng.logistic(size=80) > 0.5
    ours = TraceClassifier(0.0, None, lam2=0.05, tol=1e-8, random_state=0).fit(X, y)
    theirs = LogisticRegression(C=1 / (2 * 80 * 0.05), tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_[:, 0], theirs.coef_[0], atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.classes_.dtype == bool


def test_low_rank_classifiers_beat_plain_ones():
    A, y, B = classes(200)
    new, truth, _ = classes(1000, seed=1)
    ours = TraceClassifier(cv=3, random_state=0).fit(A, y)
    flat = A.reshape(len(A), -1)
    losses = []
    for C in (0.01, 0.03, 0.1, 0.3, 1.0):
        plain = LogisticRegression(C=C).fit(flat, y)
        losses.append(log_loss(truth, plain.predict_proba(new.reshape(len(new), -1))))
    assert log_loss(truth, ours.predict_proba(new)) < min(losses) - 0.01
    assert np.corrcoef(ours.coef_.ravel(), B.ravel())[0, 1] > 0.8
    assert list(ours.classes_) == ["a", "b"]
    table = ours.cv_results_
    assert table["param_lam"][np.argmax(table["mean_test_score"])] == ours.lam_


def test_sparse_designs_and_no_intercept_of_a_classifier():
    A, y, _ = classes(80)
    flat = np.where(np.abs(A) > 0.7, A, 0.0).reshape(80, -1)
    settings = {"lam2": 0.02, "shape": (8, 7), "tol": 1e-7, "random_state": 0}
    for intercept in (False, True):
        dense, sparse = (
            TraceClassifier(0.01, 3.0, fit_intercept=intercept, **settings).fit(X, y)
            for X in (flat, scipy.sparse.csr_array(flat))
        )
        np.testing.assert_allclose(dense.coef_, sparse.coef_, atol=1e-3)
        assert (dense.intercept_ == 0.0) is not intercept


def test_a_classifier_needs_two_classes():
    A, _, _ = classes(20)
    with pytest.raises(ValueError, match="two classes"):
        TraceClassifier().fit(A, np.zeros(20))
    with pytest.raises(ValueError, match="binary"):
        TraceClassifier().fit(A, np.arange(20) % 3)
    with pytest.raises(InputError, match="lam"):
        TraceClassifier(lam=-1.0).fit(A, np.arange(20) % 2)


def test_the_plain_weight_of_squares_is_that_of_the_best_folds():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((80, 12))
    y = (A[:, 0] - A[:, 5] + rng.logistic(size=80) > 0) * 1.0
    design = Classes.of(A, y, (4, 3), intercept=True)
    weights = design.curvature * CLASS_RIDGES
    scores = [
        cross_val_score(LogisticRegression(C=1 / (160 * w)), A, y, scoring="neg_log_loss")
        for w in weights
    ]
    best = weights[np.argmax(np.mean(scores, axis=1))]
    assert design.ridges(Deadline())[-1] == pytest.approx(best)


def test_plain_solutions_that_are_rough_are_no_matter_for_a_warning():
    """Nobody asked for them, and features of different units make them slow."""
    rng = np.random.default_rng(1)
    unit = np.exp(3.0 * rng.standard_normal(80))
    A = (rng.standard_normal((150, 80)) + 5.0) * unit
    odds = A @ (rng.standard_normal(80) / unit)
    y = (odds - np.median(odds) + rng.logistic(size=150) > 0.0) * 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        design = Classes.of(A, y, (10, 8), intercept=True)
        assert len(design.ridges(Deadline())) > 0


class Later(Deadline):
    """A deadline that passes when it has been asked so many times."""

    asked = 0

    def __init__(self, times):
        super().__init__()
        vars(self)["times"] = times

    @property
    def passed(self):
        vars(self)["asked"] = self.asked + 1
        return self.asked > self.times


def test_plain_classifiers_end_at_the_deadline(monkeypatch):
    """Folds that are not complete do not count."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((80, 12))
    y = (A[:, 0] - A[:, 5] + rng.logistic(size=80) > 0) * 1.0
    design, fits = Classes.of(A, y, (4, 3), intercept=True), []

    class Counted(LogisticRegression):
        def fit(self, *data):
            fits.append(self.C)
            return super().fit(*data)

    monkeypatch.setattr("weakprox.estimators.trace_regression.LogisticRegression", Counted)
    least = [RIDGE * design.curvature]
    assert design.ridges(Later(0)) == least
    assert fits == []
    assert design.ridges(Later(4)) == least
    assert len(fits) == 4
    fits.clear()
    some = design.ridges(Later(len(CLASS_RIDGES) + 2))  # one fold, and a part of another
    assert len(fits) == len(CLASS_RIDGES) + 2
    assert some != least
    model = TraceClassifier(max_seconds=0.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing is proved in no time
        model.fit(A.reshape(80, 4, 3), y)
    assert model.lam2_ == least[0]


@pytest.mark.parametrize("kind", [Design, Classes])
@pytest.mark.parametrize("n", [20, 80])
def test_plain_ridge_solutions_are_stationary(kind, n):
    """The gradient of loss and squares is zero there; without a weight there is none."""
    A, b, _ = planted(n)
    b = (b > np.median(b)).astype(float) if kind is Classes else b
    design = kind.of(A.reshape(n, -1), b, A.shape[1:], True)
    found = design.ridge_solution(0.05).reshape(design.shape)
    slope = design.loss.grad(found, design.loss.everything()) + 0.1 * found
    assert np.linalg.norm(slope) <= 2e-3 * np.linalg.norm(found)
    assert design.ridge_solution(0.0) is None


@pytest.mark.parametrize("noise", [0.3, 1.5, 5.0])
def test_a_path_is_as_good_as_the_whole_grid(noise):
    """Lists are tried as a whole; the path has fewer candidates."""
    A, b, _ = planted(60, 5, 5, noise=noise)
    settings = {"lam2": 0.01, "cv": 3, "random_state": 0}
    path = TraceRegression(**settings).fit(A, b)
    table = path.cv_results_
    lams = np.unique(table["param_lam"])
    assert lams[0] == 0.0
    taus = [share / TAUS[-1] * float(table["param_tau"].max()) for share in TAUS]
    assert np.isin(np.round(table["param_tau"], 9), np.round(taus, 9)).all()
    assert len(table["param_lam"]) <= len(TAUS) + 2 * len(LAMS)
    share = lams[1] / LAMS[1]  # the weight at which all coefficients are zero
    grid = TraceRegressionCV([share * lam for lam in LAMS], taus, **settings).fit(A, b)
    assert len(grid.cv_results_["param_lam"]) == len(LAMS) * len(TAUS)
    best = -grid.cv_results_["mean_test_score"].max()
    assert -table["mean_test_score"].max() <= 1.02 * best  # both are solved roughly
    assert path.lam_ == table["param_lam"][np.argmax(table["mean_test_score"])]


@pytest.mark.parametrize("y", [[0, 1, 0, 1, 0, 1], [0, 0, 0, 1]])
def test_few_rows_of_a_class_have_fewer_folds(y):
    A = np.random.default_rng(0).standard_normal((len(y), 3, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class of one row is in one fold only
        model = TraceClassifier(random_state=0).fit(A, y)
    assert "split2_test_score" in model.cv_results_
    assert "split3_test_score" not in model.cv_results_


def test_two_rows_are_too_few_for_folds_of_classes():
    A = np.random.default_rng(0).standard_normal((2, 3, 2))
    with pytest.raises(InputError, match="y: got one row of each class"):
        TraceClassifier(random_state=0).fit(A, [0, 1])


# --------------------------------------------------------------------------- debias


def test_a_refit_undoes_the_shrinkage_where_the_folds_prefer_it():
    rng, B = np.random.default_rng(2), np.zeros((8, 7))
    B[1:4, 2:5] = [1.0, -1.0, 1.0]
    A = rng.standard_normal((200, 8, 7))
    b = np.tensordot(A, B, 2) + 2.0 * rng.standard_normal(200)
    new = rng.standard_normal((1000, 8, 7))
    plain = TraceRegression(random_state=0).fit(A, b)
    model = TraceRegression(debias="auto", random_state=0).fit(A, b)
    truth = np.tensordot(new, B, 2)
    errors = [np.mean((m.predict(new) - truth) ** 2) for m in (plain, model)]
    assert errors[1] < 0.8 * errors[0]
    assert plain.refit_ == 0.0
    assert 0.5 < model.refit_ <= 1.0
    assert model.result_.certified
    # the mixture has the singular vectors of the solution, and a mean residual of zero
    X = model.result_.X
    U, _, Vt = np.linalg.svd(X, full_matrices=False)
    inner = U.T @ model.coef_ @ Vt.T
    assert np.abs(inner - np.diag(np.diag(inner))).max() < 1e-6
    assert np.mean(b - model.predict(A)) == pytest.approx(0.0, abs=1e-8)
    assert np.linalg.norm(model.coef_) > np.linalg.norm(X)


def test_a_refit_of_given_settings():
    A, b, _ = planted(60)
    model = TraceRegression(0.05, 2.0, lam2=0.01, debias="auto", random_state=0).fit(A, b)
    alone = TraceRegression(0.05, 2.0, lam2=0.01, random_state=0).fit(A, b)
    assert (model.lam_, model.tau_) == (0.05, 2.0)
    np.testing.assert_allclose(model.result_.X, alone.coef_)
    assert model.refit_ > 0.0
    assert model.score(A, b) > alone.score(A, b)
    assert len(model.cv_results_["mean_test_score"]) == 1


def test_refits_are_least_squares():
    """Against the normal equations, with values that are not negative."""
    rng = np.random.default_rng(1)
    P, y = rng.standard_normal((30, 3)), rng.standard_normal(30)
    y = P @ [2.0, 0.5, -1.0] + 0.1 * y
    t = refit_to(P, y)
    assert t[2] == 0.0
    np.testing.assert_allclose(t[:2], np.linalg.lstsq(P[:, :2], y, rcond=None)[0], rtol=1e-8)
    assert refit_to(np.zeros((5, 0)), np.ones(5)).shape == (0,)


def test_candidates_are_compared_with_their_best_shares():
    """error - 2 w towards + w^2 length is 0.75 for the second, 0.7 for the third."""
    search = Search([None] * 2, lambda data, candidate, start: None)
    candidates = {"plain": (2.0, 0.0, 1.0), "refit": (1.0, 0.5, 1.0), "fit": (0.7, 0.0, 1.0)}
    search.losses = {name: [Unseen(*one)] * 2 for name, one in candidates.items()}
    assert best_refit(search, "plain") == ("fit", 0.0)
    search.losses["refit"] = [Unseen(0.9, 0.5, 1.0)] * 2
    assert best_refit(search, "plain") == ("refit", 0.5)


def test_shares_of_refits_are_the_best_ones_of_all_folds():
    """Against errors computed at many shares."""
    rng = np.random.default_rng(2)
    data = [rng.standard_normal((3, 20)) + np.array([[0.0], [1.0], [0.7]]) for _ in range(4)]
    losses = [Unseen.of(*part) for part in data]
    search = Search([None] * 4, lambda data, candidate, start: None)
    search.losses = {"only": losses}
    found, share = best_refit(search, "only")
    assert found == "only"
    grid = np.linspace(0.0, 1.0, 1001)
    errors = [np.mean([np.mean((y - f - w * (r - f)) ** 2) for f, r, y in data]) for w in grid]
    assert share == pytest.approx(grid[np.argmin(errors)], abs=1e-3)
    worse = [Unseen.of(f, f + (f - y), y) for f, _, y in data]
    search.losses = {"only": worse}
    assert best_refit(search, "only") == ("only", 0.0)


def test_true_is_the_refit_itself():
    A, b, _ = planted(60)
    model = TraceRegression(0.05, 2.0, lam2=0.01, debias=True).fit(A, b)
    assert model.refit_ == 1.0
    assert model.cv_results_ == {}  # nothing to choose
    X = model.result_.low_rank.trimmed()
    pairs = np.einsum("nij,ik,kj->nk", A, X.U, X.Vt)
    centred = pairs - pairs.mean(axis=0), b - b.mean()
    s = np.linalg.lstsq(*centred, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, (X.U * s) @ X.Vt, atol=1e-6)


def test_true_compares_candidates_by_their_refits():
    A, b, _ = planted(60)
    both = {"lam2": 0.01, "random_state": 0, "one_standard_error": True}
    model = TraceRegression(debias=True, **both).fit(A, b)
    plain = TraceRegression(**both).fit(A, b)
    assert model.refit_ == 1.0
    for one, share in ((model, 1.0), (plain, 0.0)):
        again = TraceRegression(one.lam_, one.tau_, lam2=0.01, debias=share == 1.0)
        scores = cross_val_score(again, A, b, cv=5, scoring="neg_mean_squared_error")
        at = one.cv_results_["params"].index({"lam": one.lam_, "lam2": 0.01, "tau": one.tau_})
        found = [one.cv_results_[f"split{k}_test_score"][at] for k in range(5)]
        np.testing.assert_allclose(found, scores, rtol=0.15)


@pytest.mark.parametrize("value", [1, "refit", None])
def test_other_values_of_debias_are_refused(value):
    A, b, _ = planted(20)
    with pytest.raises(InputError, match="debias"):
        TraceRegression(debias=value).fit(A, b)
    with pytest.raises(InputError, match="debias"):
        TraceRegressionCV(debias="auto", one_standard_error=True).fit(A, b)


def test_a_refit_of_nothing_is_nothing():
    A = np.random.default_rng(0).standard_normal((40, 4, 3))
    model = TraceRegression(debias="auto", random_state=0).fit(A, np.ones(40))
    assert not model.coef_.any()
    assert np.allclose(model.predict(A), 1.0)


def test_attributes_before_a_fit_say_so():
    for name in ("coef_", "refit_", "certificate_"):
        with pytest.raises(NotFittedError):
            getattr(TraceRegression(), name)


@pytest.mark.parametrize("wide", [False, True])
def test_dependent_columns_and_a_tiny_weight_of_squares(wide):
    """The Gram matrix is singular to rounding."""
    rng = np.random.default_rng(0)
    A = rng.integers(-2, 3, (8 if wide else 40, 12)).astype(float)
    A[:, 1] = A[:, 2] = A[:, 0]
    A[1] = A[0]
    y = A @ rng.standard_normal(12)
    model = TraceRegression(shape=(3, 4), lam=0.0, lam2=1e-18).fit(A, y)
    assert np.isfinite(model.coef_).all()
    assert model.score(A, y) > 0.9


def far_away(seed=0):
    """Matrices, responses and classes that depend on one row of coefficients."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((60, 4, 2))
    b = A[:, 0] @ [1.0, -2.0] + 0.3 * rng.standard_normal(60)
    return A, b, np.where(b > 0.0, "yes", "no")


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**-20, 2.0**60])
def test_units_do_not_matter(unit):
    A, b, classes = far_away()
    for kind, y in ((TraceRegression, b), (TraceClassifier, classes)):
        model = kind(cv=2, random_state=0).fit(A, y)
        other = kind(cv=2, random_state=0).fit(unit * A, y)
        np.testing.assert_allclose(unit * other.coef_, model.coef_, rtol=1e-6, atol=1e-9)
        assert other.intercept_ == pytest.approx(model.intercept_, rel=1e-6)
    small = TraceRegression(cv=2, random_state=0).fit(A, unit * b)
    model = TraceRegression(cv=2, random_state=0).fit(A, b)
    np.testing.assert_allclose(small.coef_ / unit, model.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", [TraceRegression, TraceClassifier])
def test_an_intercept_makes_the_origin_irrelevant(kind):
    """Temperatures in kelvin are as good as in degrees Celsius."""
    A, b, classes = far_away()
    y = b if kind is TraceRegression else classes
    model = kind(cv=2, random_state=0).fit(A, y)
    other = kind(cv=2, random_state=0).fit(A + 273.15, y)
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-6)
    assert other.score(A + 273.15, y) == pytest.approx(model.score(A, y))


def test_sparse_measurements_of_classes_have_the_same_weights():
    A, _, classes = far_away()
    rows = np.where(np.abs(A) > 1.0, A + 1.0, 0.0).reshape(60, -1)
    dense = TraceClassifier(shape=(4, 2), cv=2, random_state=0).fit(rows, classes)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_matrix):
        model = clone(dense).fit(kind(rows), classes)
        assert model.lam2_ == pytest.approx(dense.lam2_)
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=0.05)


def test_logarithms_of_probabilities():
    A, _, classes = far_away()
    model = TraceClassifier(1e-3, None, lam2=1e-3, random_state=0).fit(A, classes)
    logs = model.predict_log_proba(A)
    np.testing.assert_allclose(np.exp(logs), model.predict_proba(A), rtol=1e-10)
    assert np.isfinite(model.predict_log_proba(1e6 * A)).all()


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_classes_are_refused(missing):
    A, _, classes = far_away()
    y = classes.astype(object)
    y[3] = missing
    for given in (y, pd.Series(y)):
        with pytest.raises(InputError, match="y: got missing entries"):
            TraceClassifier(random_state=0).fit(A, given)


@pytest.mark.parametrize("size", [1e80, 1e-80])
def test_sizes_whose_powers_overflow_are_refused(size):
    A, b, _ = far_away()
    with pytest.raises(InputError, match="X: got deviations"):
        TraceRegression(random_state=0).fit(size * A, b)
    with pytest.raises(InputError, match="y: got deviations"):
        TraceRegression(random_state=0).fit(A, size * b)


@pytest.mark.parametrize("kind", [TraceRegression, TraceClassifier])
def test_a_limit_of_the_rank_holds_for_coefficients_and_refits(kind):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((100, 5, 4)), rng.standard_normal((5, 4))
    b = np.tensordot(A, B, 2) + rng.standard_normal(100)
    y = b if kind is TraceRegression else b > 0.0
    free = kind(cv=2, random_state=0).fit(A, y)
    options = [{}, {"debias": True}] if kind is TraceRegression else [{}]
    for settings in options:
        model = kind(rank=2, cv=2, random_state=0, **settings).fit(A, y)
        assert np.linalg.matrix_rank(model.coef_, tol=1e-8) == 2 < free.result_.rank
        assert model.result_.status.label == "rank not shown to suffice"
        assert (
            model.cv_results_["mean_test_score"].max()
            < free.cv_results_["mean_test_score"].max()
        )
