"""SparseLowRankCovariance: scikit-learn's rules, the model, the choice, and what it gains."""

import inspect
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.covariance import LedoitWolf, ledoit_wolf_shrinkage
from sklearn.utils.estimator_checks import parametrize_with_checks
from unusual_data import UNUSUAL

from weakprox import InputError, SparseLowRankCovariance, Status
from weakprox.checks import check_gradient
from weakprox.estimators import covariance as module
from weakprox.estimators._averaged_covariances import (
    Compared,
    averaged,
    averaging_weights,
)
from weakprox.estimators._base import cut
from weakprox.estimators._simple_covariances import (
    Parts,
    Sample,
    log_loss,
    shrunk_eigenvalues,
)
from weakprox.estimators.covariance import Candidate, FreeDiagonal, common_problem
from weakprox.linalg import decompositions
from weakprox.selection.search import Search


def factors(seed, n=30, p=40, density=0.3):
    """Samples with two sparse factors and unit noise, and their covariance."""
    rng = np.random.default_rng(seed)
    loadings = 2 * rng.standard_normal((2, p)) * (rng.random((2, p)) < density)
    X = rng.standard_normal((n, 2)) @ loadings + rng.standard_normal((n, p))
    return X, loadings.T @ loadings + np.eye(p)


X, TRUTH = factors(0)
S = np.cov(X.T, bias=True)


@pytest.fixture
def two_folds(monkeypatch):
    """Two folds by default instead of five, for time."""
    init = inspect.unwrap(SparseLowRankCovariance.__init__)
    monkeypatch.setitem(init.__kwdefaults__, "cv", 2)


@pytest.fixture(scope="module")
def fitted():
    return SparseLowRankCovariance(random_state=0, average=False).fit(X)


@pytest.fixture
def few_candidates(monkeypatch):
    """A small grid, for time."""
    monkeypatch.setattr(module, "SHARES", (0.3, 0.6, 1.0))
    monkeypatch.setattr(module, "ERRORS", (0.0, 0.125, 0.5))
    monkeypatch.setattr(module, "AMOUNTS", (0.01, 0.1, 0.5))
    monkeypatch.setattr(module, "CUTS", (2.0, np.inf))
    monkeypatch.setattr(module, "RANKS", (0, 2))


@parametrize_with_checks([SparseLowRankCovariance(0.1, 1.0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks([SparseLowRankCovariance()])
@pytest.mark.usefixtures("two_folds", "few_candidates")
def test_scikit_learn_checks_of_the_search(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", UNUSUAL)
@pytest.mark.usefixtures("two_folds", "few_candidates")
def test_the_search_on_unusual_data(check):
    check("SparseLowRankCovariance", SparseLowRankCovariance())


@pytest.mark.parametrize("diagonal", [True, False])
def test_the_model_is_the_one_stated(diagonal):
    cp = pytest.importorskip("cvxpy")
    A = X[:, :10]
    C = np.cov(A.T, bias=True)
    lam, tau = 0.1, 0.5 * np.trace(C)
    settings = {"rank": None, "standardize": False, "tol": 1e-6}
    model = SparseLowRankCovariance(
        lam, tau, diagonal=diagonal, **settings, random_state=0
    ).fit(A)
    L, d = cp.Variable((10, 10), PSD=True), cp.Variable(10, nonneg=True)
    whole = L + cp.diag(d) if diagonal else L
    objective = 0.5 * cp.sum_squares(whole - C) + lam * cp.sum(cp.abs(L))
    if diagonal:
        objective += cp.sum_squares(d) / 18
    task = cp.Problem(cp.Minimize(objective), [cp.trace(L) <= tau])
    task.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(model.low_rank_.dense(), L.value, atol=2e-3 * np.abs(C).max())
    assert model.result_.value == pytest.approx(task.value, rel=1e-5)
    assert model.certificate_.lower_bound <= task.value * (1 + 1e-7)


def test_without_penalty_and_diagonal_eigenvalues_are_shifted():
    tau = 0.6 * np.trace(S)
    model = SparseLowRankCovariance(
        0.0, tau, diagonal=False, rank=None, standardize=False, tol=1e-7, random_state=0
    ).fit(X)
    values, vectors = np.linalg.eigh(S)
    shift = np.linspace(0, values[-1], 200_001)
    sums = np.array([np.maximum(values - t, 0).sum() for t in shift[::100]])
    low = int(np.searchsorted(-sums, -tau)) - 1
    near = shift[100 * low : 100 * low + 101]
    fine = near[np.argmin([abs(np.maximum(values - t, 0).sum() - tau) for t in near])]
    expected = (vectors * np.maximum(values - fine, 0)) @ vectors.T
    np.testing.assert_allclose(model.covariance_, expected, atol=1e-3 * values[-1])


def test_the_loss_keeps_its_word():
    loss = FreeDiagonal(S)
    check_gradient(loss)
    rng = np.random.default_rng(0)
    L = 0.3 * rng.standard_normal(S.shape) + S
    d = 0.9 * np.maximum(np.diag(S) - np.diag(L), 0.0)
    joint = 0.5 * np.sum((L + np.diag(d) - S) ** 2) + np.sum(d**2) / 18
    assert loss.value(L, loss.everything()) == pytest.approx(joint)


def test_the_estimate_is_positive_definite_and_has_the_variances_of_the_samples(fitted):
    assert np.linalg.eigvalsh(fitted.covariance_)[0] > 0
    assert fitted.low_rank_.rank == fitted.rank_ == len(fitted.components_)
    assert (fitted.own_variance_ > 0).all()
    apart = np.diag(fitted.covariance_) / np.diag(S) - 1
    assert (apart >= -1e-9).all()
    assert np.median(apart) < 1e-9
    common = fitted.covariance_ - np.diag(fitted.own_variance_)
    np.testing.assert_allclose(fitted.components_.T @ fitted.components_, common, atol=1e-12)
    np.testing.assert_allclose(fitted.low_rank_.dense(), common, atol=1e-12)
    np.testing.assert_allclose(
        fitted.covariance_ @ fitted.precision_, np.eye(len(S)), atol=1e-8
    )


def test_it_beats_sample_covariance_and_ledoit_wolf():
    errors = []
    for seed in range(2):
        A, truth = factors(seed)
        model = SparseLowRankCovariance(random_state=0).fit(A)
        others = [np.cov(A.T, bias=True), LedoitWolf().fit(A).covariance_]
        errors.append(
            [np.linalg.norm(C - truth) for C in (model.covariance_, *others)]
            / np.linalg.norm(truth)
        )
    ours, sample, shrunk = np.mean(errors, axis=0)
    assert ours < 0.92 * sample
    assert ours < 0.92 * shrunk


def test_sparse_factors_are_found_better_with_a_price_on_entries(two_folds):
    errors = []
    for seed in (4, 5):
        A, truth = factors(seed, n=50, p=60, density=0.2)
        models = [
            SparseLowRankCovariance(random_state=0),
            SparseLowRankCovariance(lam=0.0, random_state=0),
        ]
        errors.append([np.linalg.norm(m.fit(A).covariance_ - truth) for m in models])
    both, low_rank = np.mean(errors, axis=0)
    assert both < 0.9 * low_rank


def test_unrelated_variables_keep_hardly_any_covariance():
    A = np.random.default_rng(1).standard_normal((60, 20))
    C = SparseLowRankCovariance(random_state=0).fit(A).covariance_
    off = C - np.diag(np.diag(C))
    sample = np.cov(A.T, bias=True)
    assert np.linalg.norm(off) < 0.3 * np.linalg.norm(sample - np.diag(np.diag(sample)))


def test_score_and_distances_are_those_of_the_gaussian(fitted):
    new = factors(9)[0]
    apart = new - fitted.location_
    C = fitted.covariance_
    squares = np.einsum("ij,ij->i", apart, np.linalg.solve(C, apart.T).T)
    logs = -0.5 * (squares + np.linalg.slogdet(2 * np.pi * C)[1])
    assert fitted.score(new) == pytest.approx(logs.mean())
    np.testing.assert_allclose(fitted.mahalanobis(new), squares)
    expected = np.sum((C - TRUTH) ** 2)
    assert fitted.error_norm(TRUTH, scaling=False) == pytest.approx(expected)


def test_the_certificate_counts_what_a_small_rank_costs():
    lam, tau = 0.05, 0.7 * np.trace(S)
    problem = common_problem(S, lam, tau, diagonal=True)
    settings = {"standardize": False, "tol": 1e-4}
    free = SparseLowRankCovariance(lam, tau, rank=None, **settings, random_state=0).fit(X)
    capped = SparseLowRankCovariance(lam, tau, rank=1, **settings, random_state=0).fit(X)
    assert free.result_.status is Status.CERTIFIED
    assert free.rank_ > capped.rank_ == 1
    assert capped.result_.status is Status.RANK_LIMITED
    value = problem.value(capped.result_.low_rank)
    assert capped.certificate_.value == pytest.approx(value)
    assert capped.certificate_.gap == pytest.approx(
        value - free.result_.value, abs=2e-4 * value
    )
    assert cut(free.result_, problem, 100) is free.result_


def test_chosen_settings_can_be_given_and_one_of_them_too(fitted):
    again = SparseLowRankCovariance(fitted.lam_, fitted.tau_, random_state=0).fit(X)
    np.testing.assert_array_equal(again.covariance_, fitted.covariance_)
    assert again.cv_results_ == {}
    half = SparseLowRankCovariance(lam=0.2, random_state=0).fit(X)
    assert half.lam_ == 0.2
    np.testing.assert_allclose(half.cv_results_["param_lam"], 0.2)
    assert len(set(half.cv_results_["param_tau"])) > 1


def test_the_choice_is_the_least_error_seen(fitted):
    table = fitted.cv_results_
    best = int(np.argmax(table["mean_test_score"]))
    assert table["rank_test_score"][best] == 1
    assert table["param_lam"][best] == pytest.approx(fitted.lam_)
    assert table["param_tau"][best] == pytest.approx(fitted.tau_)
    assert table["share"][best] == pytest.approx(fitted.tau_ / np.trace(S))
    weight = fitted.lam_ / module.standard_error(S, len(X))
    assert table["standard_errors"][best] == pytest.approx(weight)


def test_random_state_fixes_the_folds(two_folds):
    one, two = (SparseLowRankCovariance(random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(one.covariance_, two.covariance_)
    other = SparseLowRankCovariance(random_state=4).fit(X)
    one, other = (model.cv_results_["split0_test_score"][0] for model in (one, other))
    assert other != one


def test_standardizing_makes_units_irrelevant(two_folds):
    units = 10.0 ** np.random.default_rng(2).uniform(-3, 3, X.shape[1])
    plain = SparseLowRankCovariance(standardize=True, random_state=0).fit(X).covariance_
    scaled = SparseLowRankCovariance(random_state=0).fit(X * units).covariance_
    np.testing.assert_allclose(scaled / np.outer(units, units), plain, rtol=1e-6, atol=1e-9)


def test_when_to_standardize():
    scale = np.array([1.0, 2.0, 3.0])
    assert not module.units_differ(scale)
    assert module.units_differ(np.array([1.0, 2.0, 30.0]))
    assert module.units_differ(np.ones(3) + 1e-9)
    parts = module.folds(X, 10, centred=False, standardized=True, seed=0)
    assert len(parts) == 10
    np.testing.assert_allclose(np.diag(parts[0].S), 1.0)
    assert len(parts[0].kept.Z) == len(X) - 3
    constant = module.folds(np.c_[np.ones(30), X], 5, centred=False, standardized=False, seed=0)
    assert {fold.unseen.shape[1] for fold in constant} == {X.shape[1]}


def test_known_mean(two_folds):
    model = SparseLowRankCovariance(assume_centered=True, random_state=0).fit(X + 5.0)
    assert not model.location_.any()
    np.testing.assert_allclose(np.diag(model.covariance_), np.mean((X + 5) ** 2, 0), rtol=0.05)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_labels(frame, two_folds):
    names = [f"v{i}" for i in range(5)]
    model = SparseLowRankCovariance(random_state=0).fit(
        frame(dict(zip(names, X[:, :5].T, strict=True)))
    )
    assert list(model.feature_names_in_) == names
    plain = SparseLowRankCovariance(random_state=0).fit(X[:, :5])
    np.testing.assert_allclose(model.covariance_, plain.covariance_, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"lam": -1.0}, "lam"),
        ({"lam": "large"}, "lam"),
        ({"lam": np.nan}, "lam"),
        ({"tau": 0.0}, "tau"),
        ({"tau": "none"}, "tau"),
        ({"rank": 0}, "rank"),
        ({"rank": 2.5}, "rank"),
        ({"rank": True}, "rank"),
        ({"diagonal": "yes"}, "diagonal"),
        ({"standardize": 1}, "standardize"),
        ({"standardize": "yes"}, "standardize"),
        ({"scoring": "mse"}, "scoring"),
    ],
)
def test_bad_settings_are_named(settings, name):
    with pytest.raises(InputError, match=name):
        SparseLowRankCovariance(**settings, random_state=0).fit(X)


@pytest.mark.parametrize(
    "A",
    [X[:2], X[:3, :4], X[:, :1], np.ones((6, 3)), np.c_[np.ones(len(X)), X[:, :2]]],
    ids=["two samples", "three", "one variable", "nothing varies", "one does not"],
)
def test_tiny_and_constant_data_have_an_answer(A, two_folds):
    model = SparseLowRankCovariance(random_state=0).fit(A)
    assert np.isfinite(model.covariance_).all()
    np.testing.assert_allclose(np.diag(model.covariance_), A.var(axis=0), rtol=0.1, atol=1e-12)
    with pytest.raises(ValueError, match="1 sample"):
        SparseLowRankCovariance(random_state=0).fit(A[:1])


def test_single_precision_and_copies(fitted):
    model = clone(fitted)
    single = model.fit(X.astype(np.float32))
    np.testing.assert_allclose(single.covariance_, fitted.covariance_, rtol=1e-3, atol=1e-4)
    stored = pickle.dumps(fitted)
    assert len(stored) < 200 * S.nbytes  # no checkpoint of the solver in it
    np.testing.assert_array_equal(pickle.loads(stored).covariance_, fitted.covariance_)
    assert clone(fitted).get_params() == fitted.get_params()
    assert str(fitted.certificate_) in fitted._repr_html_()


def equal_correlations(n, seed=0):
    rng = np.random.default_rng(seed)
    scale = np.linspace(1.0, 2.0, 40)
    return scale * (rng.standard_normal((n, 1)) + rng.standard_normal((n, 40)))


def test_a_constant_correlation_is_found_where_it_is_true():
    X, scale = equal_correlations(30), np.linspace(1.0, 2.0, 40)
    truth = np.outer(scale, scale) * (np.ones((40, 40)) + np.eye(40))
    model = SparseLowRankCovariance(random_state=0, average=False).fit(X)
    assert model.kind_ == "constant correlation"
    assert model.shrinkage_ > 0.5
    sample = np.cov(X.T, bias=True)
    assert np.linalg.norm(model.covariance_ - truth) < 0.95 * np.linalg.norm(sample - truth)
    rebuilt = model.components_.T @ model.components_ + np.diag(model.own_variance_)
    np.testing.assert_allclose(model.covariance_, rebuilt, atol=1e-10)
    np.testing.assert_allclose(
        model.low_rank_.dense(), model.components_.T @ model.components_, atol=1e-10
    )
    assert np.linalg.eigvalsh(model.covariance_)[0] > 0.0


def test_given_weights_are_not_replaced_by_shrinkage():
    model = SparseLowRankCovariance(0.1, 20.0, random_state=0).fit(equal_correlations(30))
    assert (model.kind_, model.shrinkage_) == ("factors", 0.0)


def test_shrunk_covariances_are_the_ones_stated():
    Z = equal_correlations(25)
    Z = Z - Z.mean(axis=0)
    sample = Sample(Z, 24)
    S = Z.T @ Z / 25
    scale = np.sqrt(np.diag(S))
    correlations = S / np.outer(scale, scale)
    mean = (correlations.sum() - 40) / (40 * 39)
    targets = {
        "constant correlation": mean * np.outer(scale, scale) + np.diag((1 - mean) * scale**2),
        "diagonal": np.diag(scale**2),
        "identity": np.trace(S) / 40 * np.eye(40),
    }
    np.testing.assert_allclose(sample.unchanged().dense, S, atol=1e-12)
    for target, amount in [(name, x) for name in targets for x in (0.02, 0.5, 1.0)]:
        shrunk = (1 - amount) * S + amount * targets[target]
        np.testing.assert_allclose(sample.shrunk(target, amount).dense, shrunk, atol=1e-10)


def test_components_and_a_thresholded_rest():
    Z = X - X.mean(axis=0)
    sample = Sample(Z, len(Z) - 1)
    values, vectors = np.linalg.eigh(sample.S)
    L = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    rest = sample.S - L
    own = np.maximum(np.diag(rest), np.diag(sample.S) / len(Z))
    cut = 2.0 * np.sqrt(np.outer(own, own) / len(Z))
    expected = L + np.sign(rest) * np.maximum(np.abs(rest) - cut, 0.0)
    np.fill_diagonal(expected, np.diag(L) + own)
    found = sample.factors(2, 2.0)
    np.testing.assert_allclose(found.dense, expected, atol=1e-10)
    assert np.mean(found.sparse != 0.0) < 0.2
    plain = sample.factors(2, np.inf).dense
    np.testing.assert_allclose(plain, L + np.diag(own), atol=1e-10)
    # a small threshold leaves the rest indefinite: it is reduced, and variances stay
    for rank in (0, 1, 5):
        dense = sample.factors(rank, 0.1).dense
        assert np.linalg.eigvalsh(dense)[0] > 0.0
        np.testing.assert_allclose(np.diag(dense), np.diag(sample.S), rtol=0.05)


@pytest.mark.parametrize(("n", "p"), [(200, 60), (60, 200)])
def test_nonlinear_shrinkage_is_nearly_optimal_for_the_sample_eigenvectors(n, p):
    """The best eigenvalues are v' Sigma v, which only the truth knows."""
    rng = np.random.default_rng(0)
    truth = np.diag(np.repeat([1.0, 3.0, 10.0], [p // 5, 2 * p // 5, 2 * p // 5]))
    Z = rng.standard_normal((n, p)) * np.sqrt(np.diag(truth))
    sample = Sample(Z, n)
    _, vectors = sample.spectrum
    oracle = np.einsum("ij,jk,ik->i", vectors, truth, vectors)
    best = np.linalg.norm((vectors.T * oracle) @ vectors - truth)
    found = np.linalg.norm(sample.nonlinear().dense - truth)
    assert found < 1.06 * best < 0.75 * np.linalg.norm(sample.S - truth)


def test_eigenvalues_without_the_samples_for_a_formula_stay():
    np.testing.assert_array_equal(shrunk_eigenvalues(np.zeros(3), 5), np.zeros(3))
    few = np.array([3.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(shrunk_eigenvalues(few, 2), few)


def test_log_loss_is_that_of_the_gaussian():
    C, new = TRUTH, factors(3)[0]
    squares = np.einsum("ij,ij->i", new, np.linalg.solve(C, new.T).T)
    assert log_loss(C, new) == pytest.approx(squares.mean() + np.linalg.slogdet(C)[1])
    assert log_loss(S - 2 * np.eye(len(S)), new) == np.inf
    assert log_loss(np.ones((2, 2)), new[:, :2]) == np.inf


def test_log_loss_of_factors_and_a_diagonal():
    """A small inverse gives the same; none is possible without specific variances."""
    rng = np.random.default_rng(0)
    A, own = rng.standard_normal((4, 30)), rng.uniform(0.1, 2.0, 30)
    new = rng.standard_normal((20, 30))
    parts = Parts(A, own)
    assert parts.thin
    assert parts.log_loss(new) == pytest.approx(log_loss(parts.dense, new), rel=1e-10)
    empty = Parts(np.zeros((0, 30)), own)
    assert empty.log_loss(new) == pytest.approx(log_loss(np.diag(own), new), rel=1e-10)
    singular = Parts(A, np.where(np.arange(30) < 5, 0.0, own))
    assert not singular.thin
    assert singular.log_loss(new) == np.inf
    assert parts.distance_loss(new) == pytest.approx(
        np.linalg.norm(parts.dense - new.T @ new / 20) ** 2
    )


def test_an_indefinite_rest_of_many_variables():
    """The smallest eigenvalue comes from Lanczos' method, and is as good as the exact one."""
    Z = np.random.default_rng(0).standard_normal((80, 240))
    found = Sample(Z, 80).factors(0, 0.5)
    own = found.own
    relative = found.sparse / np.sqrt(np.outer(own, own))
    assert np.linalg.eigvalsh(relative)[0] == pytest.approx(-0.995, abs=2e-3)
    assert np.linalg.eigvalsh(found.dense)[0] > 0.0


def kinds(model):
    """Best mean score on the folds of each kind tried."""
    table = model.cv_results_
    return {
        kind: np.nanmax(np.r_[-np.inf, table["mean_test_score"][table["kind"] == kind]])
        for kind in np.unique(table["kind"])
    }


@pytest.mark.parametrize("case", range(4))
def test_the_estimate_scores_as_well_as_its_simple_special_cases(case, two_folds):
    rng = np.random.default_rng(case)
    mixing = np.linalg.qr(rng.standard_normal((30, 30)))[0] * np.logspace(0, -2, 30)
    A = [
        X,
        equal_correlations(60)[:, :20],
        rng.standard_normal((100, 30)) @ mixing,
        rng.standard_normal((40, 20)),
    ][case]
    model = SparseLowRankCovariance(random_state=0).fit(A)
    scores = kinds(model)
    assert {*module.TARGETS, "nonlinear", "thresholded", "factors"} <= set(scores)
    assert scores[model.kind_] == max(scores.values())


def test_eigenvalues_of_many_sizes_call_for_nonlinear_shrinkage():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    root = basis * np.logspace(0, -2, 30)
    A, B = rng.standard_normal((80, 30)) @ root.T, rng.standard_normal((500, 30)) @ root.T
    model = SparseLowRankCovariance(random_state=0).fit(A)
    assert model.kind_ == "nonlinear"
    assert model.score(B) > LedoitWolf().fit(A).score(B) + 5.0


def test_the_sparse_part_is_reported(two_folds):
    """Neighbours are correlated, with no common factor."""
    rng = np.random.default_rng(0)
    place = np.arange(30)
    truth = np.maximum(0.0, 1.0 - 0.4 * np.abs(place[:, None] - place))
    A = rng.multivariate_normal(np.zeros(30), truth, 150)
    model = SparseLowRankCovariance(random_state=0).fit(A)
    assert model.kind_ == "thresholded"
    whole = model.low_rank_.dense() + model.sparse_.toarray() + np.diag(model.own_variance_)
    np.testing.assert_allclose(model.covariance_, whole, atol=1e-10)
    assert 0 < model.sparse_.nnz < 0.5 * truth.size
    assert model.score(A) > LedoitWolf().fit(A).score(A)


def test_scores_may_be_distances(two_folds):
    by_distance = SparseLowRankCovariance(scoring="distance", random_state=0).fit(X)
    part = module.folds(X, 2, centred=False, standardized=False, seed=0)[0]
    other = part.unseen.T @ part.unseen / len(part.unseen)
    first = list(by_distance.cv_results_["kind"]).index("sample")
    loss = -by_distance.cv_results_["split0_test_score"][first]
    assert loss == pytest.approx(np.sum((part.S - other) ** 2))
    singular = SparseLowRankCovariance(diagonal=False, random_state=0).fit(X)
    assert singular.kind_ == "factors"
    assert np.isfinite(singular.cv_results_["mean_test_score"]).all()


def test_making_the_loss_computes_nothing(monkeypatch):
    """There is one for every candidate and fold."""

    def called(*_):
        raise AssertionError

    monkeypatch.setattr(FreeDiagonal, "_distance", called)
    monkeypatch.setattr(FreeDiagonal, "_slope", called)
    FreeDiagonal(S)


@pytest.mark.parametrize("size", [1e160, 1e80, 1e-80])
def test_data_whose_fourth_powers_are_no_numbers_are_refused(size):
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="X: got deviations"):
        SparseLowRankCovariance(random_state=0).fit(size * rng.standard_normal((20, 4)))


@pytest.mark.parametrize(("n", "p"), [(20, 10), (30, 60)])
def test_the_formula_for_the_amount_of_shrinkage(n, p):
    Z = np.random.default_rng(0).standard_normal((n, p)) * np.arange(1.0, p + 1.0)
    Z -= Z.mean(axis=0)
    assert Sample(Z, n - 1).ledoit_wolf == pytest.approx(ledoit_wolf_shrinkage(Z))
    assert Sample(np.ones((4, 3)), 4).ledoit_wolf == 0.0
    assert Sample(np.eye(3), 3).ledoit_wolf == 1.0


@pytest.mark.parametrize(
    ("losses", "kind"),
    [
        ([0.9, 1.9, 2.9, 3.9, 4.9], "nonlinear"),  # better on all folds
        ([0.5, 2.4, 2.6, 4.5, 4.9], "Ledoit-Wolf"),  # better by less than a standard error
        ([0.5, 1.0, 2.0, np.inf, 3.0], "Ledoit-Wolf"),  # not positive definite
    ],
)
def test_another_kind_must_be_better_by_a_standard_error(losses, kind):
    search = Search(range(5), lambda *_: None)
    plain, other = Candidate("Ledoit-Wolf"), Candidate("nonlinear")
    search.losses = {plain: [1.0, 2.0, 3.0, 4.0, 5.0], other: losses}
    many = np.zeros((5, 200))  # so many variables that there are no further folds
    chosen = SparseLowRankCovariance()._weights(search, [plain, other], many, {})
    assert [(c.kind, weight) for c, weight in chosen.items()] == [(kind, 1.0)]


def test_shrinkage_by_the_formula(monkeypatch):
    """With no other candidate, the estimate is scikit-learn's."""
    plain = [Candidate("Ledoit-Wolf")]

    def only(search, most, *, large):
        assert not large
        search.best_of(plain)
        return plain

    monkeypatch.setattr(module, "simple_search", only)
    monkeypatch.setattr(SparseLowRankCovariance, "_weights", lambda *_: {plain[0]: 1.0})
    model = SparseLowRankCovariance(random_state=0, standardize=False).fit(X)
    expected = LedoitWolf().fit(X)
    assert model.kind_ == "Ledoit-Wolf"
    assert model.shrinkage_ == pytest.approx(expected.shrinkage_)
    np.testing.assert_allclose(model.covariance_, expected.covariance_, atol=1e-10)
    assert "Ledoit-Wolf" in model.cv_results_["kind"]


@pytest.mark.usefixtures("thorough")
def test_kinds_that_one_set_of_folds_does_not_decide_are_compared_again(monkeypatch):
    seeds = []
    split = module.folds

    def recorded(*args, seed, **named):
        seeds.append(seed)
        return split(*args, seed=seed, **named)

    monkeypatch.setattr(module, "folds", recorded)
    few = np.random.default_rng(0).standard_t(5, (20, 6))
    SparseLowRankCovariance(random_state=0).fit(few)
    assert len(set(seeds)) == 4


def two_estimates(seed, folds=20):
    """Folds whose samples have the first of two covariances, and are few."""
    rng = np.random.default_rng(seed)
    A = 2.0 * np.eye(4)
    B = np.eye(4) + 0.9
    parts = [Parts(np.linalg.cholesky(C).T, np.zeros(4)) for C in (A, B)]
    rows = [rng.multivariate_normal(np.zeros(4), A, 6) for _ in range(folds)]
    return parts, rows


@pytest.mark.parametrize("likely", [True, False])
def test_weights_of_an_average_minimise_the_penalised_loss(likely):
    """Against a fine grid over the only free weight."""
    parts, rows = two_estimates(0)
    folds = [Compared.of(parts, row, likely=likely) for row in rows]
    prior = np.array([0.3, 0.7])
    w = averaging_weights(folds, prior, likely=likely, sets=4)
    losses = [fold.log_loss if likely else fold.distance_loss for fold in folds]
    slopes = np.array([loss(prior)[1] for loss in losses])
    slopes -= slopes.mean(axis=1, keepdims=True)
    error = np.sqrt(np.mean(slopes.var(axis=0, ddof=1)) * 4 / len(folds))

    def penalised(first):
        each = np.array([first, 1.0 - first])
        return np.mean([loss(each)[0] for loss in losses]) + error * np.sum(
            each * np.log(each / prior)
        )

    grid = np.linspace(0.001, 0.999, 999)
    best = grid[np.argmin([penalised(first) for first in grid])]
    assert w.sum() == pytest.approx(1.0)
    assert w[0] == pytest.approx(best, abs=2e-3)
    assert w[0] > 0.6  # the true one gains


@pytest.mark.parametrize("likely", [True, False])
def test_slopes_of_the_losses_of_an_average(likely):
    parts, rows = two_estimates(1)
    fold = Compared.of(parts, rows[0], likely=likely)
    loss = fold.log_loss if likely else fold.distance_loss
    w, step = np.array([0.4, 0.6]), 1e-6
    for k in range(2):
        away = step * np.eye(2)[k]
        by_differences = (loss(w + away)[0] - loss(w - away)[0]) / (2.0 * step)
        assert loss(w)[1][k] == pytest.approx(by_differences, rel=1e-5)
    assert loss(np.eye(2)[0])[0] == pytest.approx(fold.losses[0])


def test_equal_estimates_keep_their_prior_weights():
    parts, rows = two_estimates(0)
    folds = [Compared.of([parts[0]] * 2, row, likely=True) for row in rows]
    prior = np.array([0.25, 0.75])
    np.testing.assert_array_equal(averaging_weights(folds, prior, likely=True), prior)


@pytest.mark.parametrize("scoring", ["likelihood", "distance"])
def test_an_average_is_the_mean_of_its_kinds(scoring, few_candidates):
    few = np.random.default_rng(0).standard_t(5, (24, 6)) @ np.diag(np.linspace(1.0, 2.0, 6))
    model = SparseLowRankCovariance(random_state=0, scoring=scoring).fit(few)
    weights = list(model.weights_.values())
    assert len(weights) > 1
    assert sum(weights) == pytest.approx(1.0)
    assert weights == sorted(weights, reverse=True)
    assert model.kind_ == next(iter(model.weights_))
    whole = model.components_.T @ model.components_ + np.diag(model.own_variance_)
    np.testing.assert_allclose(model.covariance_, whole + model.sparse_.toarray(), atol=1e-10)
    assert len(model.components_) <= 6
    assert np.linalg.eigvalsh(model.covariance_)[0] > 0.0


def test_an_average_of_parts():
    rng = np.random.default_rng(0)
    rest = np.zeros((5, 5))
    rest[0, 1] = rest[1, 0] = 0.2
    parts = [
        Parts(rng.standard_normal((4, 5)), np.ones(5)),
        Parts(rng.standard_normal((3, 5)), np.zeros(5), rest),
    ]
    found = averaged(parts, [0.25, 0.75])
    np.testing.assert_allclose(found.dense, 0.25 * parts[0].dense + 0.75 * parts[1].dense)
    assert averaged(parts[:1], [1.0]).sparse is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e40, 1e55, 1e-55])
def test_distances_of_data_of_extreme_size_do_not_overflow(unit):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 8))
    data += 0.1 * rng.standard_normal(data.shape)
    how = {"scoring": "distance", "random_state": 0}
    plain = SparseLowRankCovariance(**how).fit(data)
    other = SparseLowRankCovariance(**how).fit(unit * data)
    assert set(other.weights_) == set(plain.weights_)
    found = other.covariance_ / unit / unit
    np.testing.assert_allclose(found, plain.covariance_, rtol=1e-5, atol=1e-5)


def test_the_common_part_with_exact_zeros():
    model = SparseLowRankCovariance(0.3, 20.0, tol=1e-5, random_state=0).fit(X)
    exact, point = model.sparse_low_rank_, model.result_.sparse
    assert 0 < exact.nnz == point.matrix.nnz < 40**2
    np.testing.assert_allclose(exact.toarray(), model.low_rank_.dense(), atol=0.05)
    assert point.certificate.lower_bound <= model.result_.value
    scaled = SparseLowRankCovariance(0.1, 5.0, standardize=True, random_state=0).fit(X)
    deviations = X.std(axis=0)
    units = np.outer(deviations, deviations)
    stated = scaled.result_.sparse.matrix.toarray() * units
    np.testing.assert_allclose(scaled.sparse_low_rank_.toarray(), stated)


def test_without_a_price_on_entries_there_is_no_sparse_common_part():
    assert SparseLowRankCovariance(0.0, 20.0).fit(X).sparse_low_rank_ is None


def test_log_loss_of_factors_and_a_sparse_rest():
    rng = np.random.default_rng(0)
    A, own, new = (
        rng.standard_normal((4, 30)),
        rng.uniform(1.0, 2.0, 30),
        rng.standard_normal((20, 30)),
    )
    sparse = 0.4 * (np.eye(30, k=1) + np.eye(30, k=-1))
    parts = Parts(A, own, sparse)
    assert parts.thin
    assert parts.log_loss(new) == pytest.approx(log_loss(parts.dense, new), rel=1e-10)
    indefinite = Parts(A, own, 9.0 * sparse)
    assert not indefinite.thin
    assert indefinite.log_loss(new) == np.inf


@pytest.mark.parametrize("p", [30, 240])
def test_the_inverse_of_parts(p):
    rng = np.random.default_rng(0)
    A, own = rng.standard_normal((4, p)), rng.uniform(1.0, 2.0, p)
    sparse = 0.4 * (np.eye(p, k=1) + np.eye(p, k=-1))
    for parts in (Parts(A, own), Parts(A, own, sparse), Parts(np.tile(A, (p // 4, 1)), own)):
        P = parts.inverse()
        np.testing.assert_allclose(P @ parts.dense, np.eye(p), atol=1e-10)
        np.testing.assert_array_equal(P, P.T)
    assert Parts(A, np.zeros(p)).inverse() is None


def test_a_few_samples_of_many_variables_are_decomposed_themselves(monkeypatch):
    Z = np.random.default_rng(0).standard_normal((20, 60))
    whole = Sample(np.vstack([Z, Z]), 20)  # the same covariance, of too many samples
    sample = Sample(Z, 20)
    plain = [whole.nonlinear().dense, whole.factors(3, 1.0).dense]
    monkeypatch.setattr(decompositions, "eigh", None)
    few = [sample.nonlinear().dense, whole.factors(3, 1.0).dense]
    np.testing.assert_allclose(few, plain, atol=1e-10)


def test_the_rank_of_many_variables_is_searched_with_a_diagonal_rest_first():
    tried = []

    def trial(fold, candidate, start):
        tried.append(candidate)
        return abs(candidate.rank - 3.0) + (candidate.errors != 2.0), None

    best = module.simple_search(Search([0], trial), 10, large=True)[-1]
    some = [c for c in tried if c.kind == "thresholded"]
    assert (best.rank, best.errors) == (3, 2.0)
    assert next(c.rank for c in some if np.isfinite(c.errors)) == 3


def test_trials_of_many_variables_are_in_single_precision(
    two_folds, few_candidates, monkeypatch
):
    kinds, real = [], module.common_problem

    def stated(S, *args, **named):
        problem = real(S, *args, **named)
        kinds.append(problem.loss.reference.dtype)
        return problem

    monkeypatch.setattr(module, "common_problem", stated)
    plain = SparseLowRankCovariance(random_state=0).fit(X)
    assert set(kinds) == {np.dtype(np.float64)}
    monkeypatch.setattr(module, "HUGE", X.shape[1])
    kinds.clear()
    model = SparseLowRankCovariance(random_state=0).fit(X)
    assert set(kinds[:-1]) == {np.dtype(np.float32)}
    assert kinds[-1] == model.covariance_.dtype == np.float64
    distance = np.linalg.norm(model.covariance_ - plain.covariance_)
    assert distance < 0.1 * np.linalg.norm(plain.covariance_)
