"""Completion from observed entries: the problem solved, forms of input, and what is refused."""

from __future__ import annotations

import pickle

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_array
from sklearn.utils.estimator_checks import parametrize_with_checks

from weakprox import InputError, MatrixCompletion, ShapeError
from weakprox.estimators._entries import Ids
from weakprox.losses.entry_losses import Logistic

PAIRS = "predict takes pairs of ids, not rows of the matrix"
GIVEN = {"scaling": "none", "debias": False, "random_state": 0}


def pairs_instead(_):
    names = (
        "estimators_dtypes",
        "estimator_sparse_array",
        "estimator_sparse_matrix",
        "methods_subset_invariance",
        "methods_sample_order_invariance",
        "dict_unchanged",
        "n_features_in_after_fitting",
        "dataframe_column_names_consistency",
        "fit2d_predict1d",
        "estimators_nan_inf",
        "estimators_pickle",
        "fit_idempotent",
        "dtype_object",
        "f_contiguous_array_estimator",
    )
    signature = {"check_fit_score_takes_y": "the second argument of fit is cols"}
    return {f"check_{name}": PAIRS for name in names} | signature


@parametrize_with_checks(
    [MatrixCompletion(lam=1.0, intercept_ridge=1.0, **GIVEN)],
    expected_failed_checks=pairs_instead,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def planted(seed=0, shape=(40, 30), rank=2, noise=0.2, share=0.6):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    rows, cols = np.nonzero(rng.random(shape) < share)
    return L, rows, cols, 3.0 + L[rows, cols] + noise * rng.standard_normal(len(rows))


@pytest.fixture(scope="module")
def data():
    return planted()


@pytest.fixture(scope="module")
def fitted(data):
    return MatrixCompletion(random_state=0).fit(*data[1:])


def test_solves_the_problem_it_states():
    _, rows, cols, values = planted(1, (9, 7))
    lam, ridge = 0.8, 0.5
    model = MatrixCompletion(lam=lam, intercept_ridge=ridge, tol=1e-6, **GIVEN)
    model.fit(rows, cols, values)
    X, mean, a, b = cp.Variable((9, 7)), cp.Variable(), cp.Variable((9, 1)), cp.Variable((1, 7))
    fit = X + mean + a @ np.ones((1, 7)) + np.ones((9, 1)) @ b
    seen, Y = np.zeros((9, 7)), np.zeros((9, 7))
    seen[rows, cols], Y[rows, cols] = 1.0, values
    value = 0.5 * cp.sum_squares(cp.multiply(seen, fit - Y)) + lam * cp.normNuc(X)
    value += 0.5 * ridge * (cp.sum_squares(a) + cp.sum_squares(b))
    best = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    assert model.result_.value == pytest.approx(best, rel=1e-5)
    assert model.certificate_.lower_bound <= best * (1 + 1e-6)
    places = np.argwhere(seen)
    low, high = values.min(), values.max()
    assert model.predict(places) == pytest.approx(
        np.clip(fit.value[tuple(places.T)], low, high), abs=2e-3
    )


def test_predicts_better_than_intercepts_and_is_certified(data, fitted):
    L, rows, cols, _ = data
    others = np.ones(L.shape, bool)
    others[rows, cols] = False
    error = np.mean((fitted.predict(*np.nonzero(others)) - 3.0 - L[others]) ** 2)
    assert error < 0.1 * np.var(L)
    assert fitted.result_.certified
    assert fitted.factor_ >= 1.0
    assert fitted.rank_ == fitted.user_factors_.shape[1] == fitted.item_factors_.shape[1]
    assert np.isinf(fitted.cv_results_["param_lam"]).any()  # intercepts alone were tried


def test_noise_is_not_taken_for_structure():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((60, 50)) < 0.1)
    values = rng.standard_normal(60)[rows] + 0.8 * rng.standard_normal(len(rows))
    model = MatrixCompletion(random_state=0).fit(rows, cols, values)
    scores = model.cv_results_["mean_test_score"]
    alone = np.isinf(model.cv_results_["param_lam"])
    assert scores.max() <= 0.98 * scores[alone].max()  # errors: at most 2 % gained
    assert model.result_.certified


def test_all_forms_of_input_say_the_same(data, fitted):
    _, rows, cols, values = data
    matrix = coo_array((values, (rows, cols)), shape=(40, 30))
    dense = np.full((40, 30), np.nan)
    dense[rows, cols] = values
    table = {"who": rows, "what": cols, "how": values}
    names = {"row": "who", "col": "what", "value": "how"}
    pairs = np.argwhere(np.isnan(dense))
    model = MatrixCompletion(fitted.lam_, random_state=0)  # no search for each of the forms
    wanted = model.fit(rows, cols, values).predict(pairs)
    masked = np.ma.masked_invalid(dense)
    for found in (matrix.tocsr(), dense, masked):
        assert np.allclose(model.fit(found).predict(pairs), wanted, atol=1e-6)
    for frame in (pd.DataFrame(table), pl.DataFrame(table), table):
        assert np.allclose(model.fit(frame, **names).predict(pairs), wanted, atol=1e-6)
    wanted = fitted.predict(pairs)
    assert np.array_equal(fitted.predict(pairs[:, 0], pairs[:, 1]), wanted)
    assert np.array_equal(fitted.predict(pairs.tolist()), wanted)
    assert np.array_equal(fitted.predict(pd.DataFrame(pairs)), wanted)


def test_ids_are_kept_and_unknown_ones_get_intercepts(data):
    _, rows, cols, values = data
    people, films = [f"p{k:02d}" for k in rows], [("film", int(k)) for k in cols]
    settings = {"lam": 2.0, "intercept_ridge": 1.0, "tol": 1e-7, **GIVEN}
    model = MatrixCompletion(**settings).fit(people, films, values)
    plain = MatrixCompletion(**settings).fit(rows, cols, values)
    assert set(model.row_ids_) == {f"p{k:02d}" for k in rows}
    found = model.predict([("p03", ("film", 4)), ("nobody", ("film", 4)), ("nobody", "none")])
    assert found[0] == pytest.approx(plain.predict([[3, 4]])[0], abs=5e-3)
    film = model.column_ids_.tolist().index(("film", 4))
    assert found[1] == pytest.approx(model.intercept_ + model.column_intercepts_[film])
    assert found[2] == pytest.approx(model.intercept_)


def test_recommends_the_best_that_is_new(data, fitted):
    _, rows, cols, _ = data
    best, scores = fitted.recommend(5, 4)
    seen = set(cols[rows == 5])
    new = [k for k in range(30) if k not in seen]
    told = fitted.predict([[5, k] for k in new])
    assert not seen & set(best)
    assert scores == pytest.approx(np.sort(told)[::-1][:4])
    everything, _ = fitted.recommend(5, 100, exclude_seen=False)
    assert sorted(everything) == list(range(30))
    assert len(fitted.recommend(999, 3)[0]) == 3


@pytest.mark.parametrize(
    ("loss", "scaling"),
    [("squared", "none"), ("huber", "counts"), ("logistic", "none"), ("poisson", "counts")],
)
def test_rows_that_are_folded_in_get_the_factors_of_the_fit(loss, scaling):
    L, rows, cols, values = planted(2)
    if loss == "logistic":
        values = np.where(values > 3.0, 1.0, -1.0)
    if loss == "poisson":
        values = np.random.default_rng(0).poisson(np.exp(0.4 * L[rows, cols])).astype(float)
    settings = {"loss": loss, "scaling": scaling, "debias": False, "tol": 1e-6}
    model = MatrixCompletion(lam=1.0, intercept_ridge=1.0, random_state=0, **settings)
    model.fit(rows, cols, values)
    assert model.rank_ > 0
    size = np.abs(model.user_factors_).max()
    factors = model.transform(rows, cols, values)
    assert np.abs(factors - model.user_factors_).max() < 0.02 * size
    more = model.fold_in(rows + 100, cols, values)
    pairs = np.argwhere(np.ones((40, 30)))
    old, new = model.predict(pairs), more.predict(pairs[:, 0] + 100, pairs[:, 1])
    assert np.array_equal(more.predict(pairs), old)
    assert np.abs(new - old).max() < 0.02 * np.abs(old).max()
    assert len(more.row_ids_) == 80
    assert list(more.recommend(105, 3)[0]) == list(more.recommend(5, 3)[0])


def test_predictions_stay_in_the_observed_range_unless_told_otherwise(data):
    _, rows, cols, values = data
    rounded = np.clip(np.rint(values), 2, 4)
    pairs = np.argwhere(np.ones((40, 30)))
    free, kept = (
        MatrixCompletion(lam=0.3, clip=clip, random_state=0).fit(rows, cols, rounded)
        for clip in (False, True)
    )
    assert free.predict(pairs).max() > 4.0
    assert kept.predict(pairs).min() >= 2.0
    assert kept.predict(pairs).max() <= 4.0


def test_rows_and_columns_without_entries_and_degenerate_data():
    dense = np.full((12, 9), np.nan)
    dense[2:, 1:] = np.random.default_rng(0).standard_normal((10, 8))
    model = MatrixCompletion(lam=1.0, intercept_ridge=1.0, random_state=0).fit(dense)
    assert model.predict([[0, 0]]) == pytest.approx([model.intercept_])
    assert model.row_intercepts_[0] == model.column_intercepts_[0] == 0.0
    one = MatrixCompletion(random_state=0).fit(["a"], ["b"], [3.0])
    assert one.predict([("a", "b"), ("x", "y")]) == pytest.approx([3.0, 3.0])
    rows, cols = np.nonzero(np.ones((6, 5)))
    same = MatrixCompletion(random_state=0).fit(rows, cols, np.full(30, 4.0))
    assert same.rank_ == 0
    assert same.predict([[0, 0], [77, 77]]) == pytest.approx([4.0, 4.0])
    twice = MatrixCompletion(lam=9.0, intercept_ridge=0.0, **GIVEN)
    assert twice.fit([0, 0, 1], [0, 0, 1], [1.0, 3.0, 2.0]).predict([[0, 0]]) == pytest.approx(
        2
    )


def test_repeats_and_pickles(data, fitted):
    pairs = np.argwhere(np.ones((40, 30)))
    again = MatrixCompletion(random_state=0).fit(*data[1:])
    assert np.array_equal(again.predict(pairs), fitted.predict(pairs))
    assert np.array_equal(
        pickle.loads(pickle.dumps(fitted)).predict(pairs), again.predict(pairs)
    )


R, C, V = [0, 1, 2], [0, 1, 0], [1.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "given", "argument"),
    [
        ({"lam": 0.0}, (R, C, V), "lam"),
        ({"intercept_ridge": -1.0}, (R, C, V), "intercept_ridge"),
        ({"scaling": "rows"}, (R, C, V), "scaling"),
        ({"intercepts": "all"}, (R, C, V), "intercepts"),
        ({"loss": "hinge"}, (R, C, V), "loss"),
        ({"cv": 1}, (R, C, V), "cv"),
        ({"rank": 0}, (R, C, V), "rank"),
        ({"clip": "yes"}, (R, C, V), "clip"),
        ({"loss": "logistic"}, (R, C, V), "two classes"),
        ({"loss": "logistic"}, (R, C, [1, 1, 1]), "one class"),
        ({"loss": "poisson"}, (R, C, [1, 2, -1]), "counts >= 0"),
        ({"loss": "poisson"}, (R, C, [0, 0, 0]), "zeros only"),
        ({}, (R, C, [1.0, np.nan, 2.0]), "values"),
        ({}, (R, C, ["a", "b", "c"]), "values"),
        ({}, ([0, np.nan, 1], C, V), "missing ids"),
        ({}, (["a", None, "b"], C, V), "missing ids"),
        ({}, (R, C[:2], V), "cols"),
        ({}, (R, C), "values"),
        ({}, ([], [], []), "no observation"),
        ({}, (np.full((3, 3), np.nan),), "no observed entry"),
    ],
)
def test_refuses(settings, given, argument):
    with pytest.raises(InputError, match=argument):
        MatrixCompletion(**settings, random_state=0).fit(*given)


def test_refuses_pairs(fitted):
    dense = np.random.default_rng(0).standard_normal((6, 5))
    model = MatrixCompletion(lam=1.0, intercept_ridge=1.0, **GIVEN).fit(dense)
    for pairs, words in (([[-1, 0]], "down to -1"), ([[0.5, 0]], "integral")):
        with pytest.raises(InputError, match=words):
            model.predict(pairs)
    with pytest.raises(InputError, match="text"):
        fitted.predict([("a", "b")])
    with pytest.raises(ShapeError, match="pairs"):
        fitted.predict(np.zeros((4, 3), int))
    for numbers in ([1, 2], None):
        with pytest.raises(InputError, match="pairs"):
            fitted.predict(numbers)
    for several in ([1, 2], np.array([1, 2])):
        with pytest.raises(InputError, match="one id"):
            fitted.recommend(several)
    with pytest.raises(InputError, match="column of the table"):
        MatrixCompletion().fit(pd.DataFrame({"a": R}), row="a", col="b", value="c")


def test_pairs_in_a_frame_are_found_by_the_names_of_the_fit():
    rng = np.random.default_rng(0)
    person, film = np.nonzero(rng.random((12, 8)) < 0.7)
    table = {"film": film, "stars": rng.standard_normal(len(film)), "person": person}
    names = {"row": "person", "col": "film", "value": "stars"}
    for kind in (pd.DataFrame, pl.DataFrame):
        model = MatrixCompletion(1.0, random_state=0).fit(kind(table), **names)
        wanted = model.predict(person, film)
        np.testing.assert_array_equal(model.predict(kind(table)), wanted)
        np.testing.assert_array_equal(model.predict(kind(table)[["film", "person"]]), wanted)
    other = pd.DataFrame({"a": person, "b": film})  # other names: by position
    np.testing.assert_array_equal(model.predict(other), wanted)


@pytest.mark.parametrize("size", [3.0, 1e-30, 1e40])
def test_constant_data_are_proved(size):
    """Residuals are rounding errors, relative to which no gap is small."""
    C = np.full((30, 20), size)
    C[np.random.default_rng(0).random(C.shape) < 0.3] = np.nan
    model = MatrixCompletion(random_state=0).fit(C)
    assert model.result_.certified
    assert model.result_.counts.svds < 50
    assert model.rank_ == 0
    np.testing.assert_allclose(model.predict(np.argwhere(np.isnan(C))), size, rtol=1e-12)


def test_a_large_mean_does_not_weaken_the_accuracy():
    """Only rounding errors of the data count as zero, not small residuals."""
    rng = np.random.default_rng(0)
    L = 1e-3 * np.outer(rng.standard_normal(20), rng.standard_normal(15))
    model = MatrixCompletion(1e-4, scaling="none", debias=False).fit(1e3 + L)
    assert model.result_.certified
    assert model.result_.gap <= 1e-3 * model.result_.value
    assert model.rank_ == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e100, 1e-100])
def test_data_of_extreme_size_give_the_same_model(unit):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 12))
    M += 0.1 * rng.standard_normal(M.shape)
    M[rng.random(M.shape) < 0.2] = np.nan
    holes = np.argwhere(np.isnan(M))
    plain = MatrixCompletion(random_state=0).fit(M)
    other = MatrixCompletion(random_state=0).fit(unit * M)
    np.testing.assert_allclose(other.predict(holes) / unit, plain.predict(holes), rtol=1e-6)
    found = other.cv_results_["std_test_score"] / unit / unit
    np.testing.assert_allclose(found, plain.cv_results_["std_test_score"], rtol=1e-6)


def test_residuals_that_are_rounding_are_no_measure_for_huber():
    rng = np.random.default_rng(0)
    values = 1e3 + rng.integers(5, size=30)[:, None] + rng.integers(5, size=20)
    model = MatrixCompletion(1.0, loss="huber", scaling="none", debias=False).fit(values / 7.0)
    assert model.loss_.k == pytest.approx(float((values / 7.0).max()))


@pytest.mark.parametrize("ids", [["u7", "u10", "u7", "u1"], [3, 1, 3, 2], [2.5, 0.5, 1.5, 0.5]])
def test_ids_stored_as_objects_have_the_same_order(ids):
    plain, codes = Ids.of("X", np.array(ids))
    stored, same = Ids.of("X", np.array(ids, dtype=object))
    assert stored.names.tolist() == plain.names.tolist()
    assert np.array_equal(codes, same)


def test_ids_that_cannot_be_sorted_keep_their_order():
    mixed, codes = Ids.of("X", np.array(["b", 2, "a", 2], dtype=object))
    assert mixed.names.tolist() == ["b", 2, "a"]
    assert codes.tolist() == [0, 1, 2, 1]


def test_ids_that_are_only_partly_ordered_keep_their_order():
    """Sets that contain each other are comparable, others are not."""
    given = [frozenset("ab"), frozenset("a"), frozenset("c"), frozenset("a")]
    ids, codes = Ids.of("X", np.array([*given, None], dtype=object)[:-1])
    assert ids.names.tolist() == given[:3]
    assert codes.tolist() == [0, 1, 2, 1]


def test_losses_are_known_by_what_they_declare():
    """An own class that declares the kind of a loss of the library is treated as that loss."""
    members = {k: x for k, x in vars(Logistic).items() if k not in ("__dict__", "__weakref__")}
    Own = type("Own", (), members)
    rows, columns = np.divmod(np.arange(60), 6)
    values = np.where((rows + columns) % 3 == 0, "yes", "no") == "yes"
    found, same = (
        MatrixCompletion(loss=loss, lam=0.3, **GIVEN).fit(rows, columns, values)
        for loss in (Own(), "logistic")
    )
    assert np.array_equal(found.classes_, same.classes_)
    with pytest.raises(InputError, match="one class"):
        MatrixCompletion(loss=Own(), lam=0.3, **GIVEN).fit(
            [0, 1, 1], [0, 0, 1], [1.0, 1.0, 1.0]
        )
