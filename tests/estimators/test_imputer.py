"""Missing entries: the problem solved, rows old and new, and what is refused."""

from __future__ import annotations

import pickle

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from unusual_data import UNUSUAL

from weakprox import InputError, SparseLowRankImputer
from weakprox.estimators import imputer as module
from weakprox.estimators._nearest_rows import NearestRows


@parametrize_with_checks([SparseLowRankImputer(0.05, 5.0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks([SparseLowRankImputer()])
def test_scikit_learn_checks_of_the_search(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", UNUSUAL)
def test_the_search_on_unusual_data(check):
    check("SparseLowRankImputer", SparseLowRankImputer())


def low_rank(seed, rows=80, cols=30, rank=3, noise=0.1):
    rng = np.random.default_rng(seed)
    signal = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, cols))
    return signal + noise * rng.standard_normal(signal.shape)


def sparse_low_rank(seed, rows=150, cols=100, rank=8, kept=0.05):
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((rows, rank)) * (rng.random((rows, rank)) < kept)
    right = rng.standard_normal((cols, rank)) * (rng.random((cols, rank)) < kept)
    return 3 * left @ right.T, 0.3 * rng.standard_normal((rows, cols))


def with_gaps(X, share, seed=1):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def error(filled, X, gaps):
    missing = np.isnan(gaps)
    return float(np.sqrt(np.mean((filled - X)[missing] ** 2)))


def correlated(seed, rows=150, cols=12):
    """Neighbouring columns with a correlation of 0.8: a spectrum that falls slowly."""
    away = np.abs(np.subtract.outer(np.arange(cols), np.arange(cols)))
    factor = np.linalg.cholesky(0.8**away)
    return np.random.default_rng(seed).standard_normal((rows, cols)) @ factor.T


@pytest.fixture(scope="module")
def data():
    X = low_rank(0)
    return X, with_gaps(X, 0.3)


@pytest.fixture(scope="module")
def fitted(data):
    return SparseLowRankImputer(random_state=0).fit(data[1])


@pytest.fixture(scope="module")
def unblended(data):
    return SparseLowRankImputer(blend=False, random_state=0).fit(data[1])


def test_solves_the_problem_it_states():
    gaps = with_gaps(low_rank(3, 9, 7, 2), 0.3)
    lam, tau, ridge = 0.05, 6.0, 0.02
    model = SparseLowRankImputer(
        lam=lam, tau=tau, ridge=ridge, scaling="none", tol=1e-6, random_state=0
    )
    model.fit(gaps)
    seen = ~np.isnan(gaps)
    X = cp.Variable(gaps.shape)
    loss = 0.5 * cp.sum_squares(cp.multiply(seen, X - np.where(seen, gaps, 0.0)))
    value = loss + lam * cp.sum(cp.abs(X)) + 0.5 * ridge * cp.sum_squares(X)
    best = cp.Problem(cp.Minimize(value), [cp.normNuc(X) <= tau]).solve(solver="CLARABEL")
    assert model.result_.value == pytest.approx(best, rel=1e-4)
    assert np.abs(model.result_.X - X.value).max() < 0.02
    assert model.certificate_.lower_bound <= best * (1 + 1e-6)
    assert model.result_.certified


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("scaling", ["none", "standard"])
def test_training_rows_get_back_what_the_fit_found(data, lam, scaling):
    gaps = data[1]
    model = SparseLowRankImputer(lam=lam, scaling=scaling, tol=1e-7, random_state=0).fit(gaps)
    found = model.result_.X * model.scale_ + model.mean_
    missing = np.isnan(gaps)
    filled = model.transform(gaps)
    assert np.abs(filled - found)[missing].max() < 5e-3 * np.abs(found).max()
    assert np.array_equal(filled[~missing], gaps[~missing])


def test_a_row_alone_is_filled_as_among_others(data, fitted):
    gaps = data[1]
    together = fitted.transform(gaps[:5])
    alone = np.vstack([fitted.transform(row[None]) for row in gaps[:5]])
    assert np.allclose(together, alone, atol=1e-3)


def test_beats_simple_imputers_on_old_and_new_rows():
    ours, means, neighbours, later = [], [], [], []
    for seed in range(2):
        X = low_rank(seed, rows=120)
        gaps = with_gaps(X, 0.4, seed)
        old, new = slice(0, 80), slice(80, None)
        model = SparseLowRankImputer(random_state=0).fit(gaps[old])
        ours.append(error(model.transform(gaps[old]), X[old], gaps[old]))
        later.append(error(model.transform(gaps[new]), X[new], gaps[new]))
        means.append(error(SimpleImputer().fit_transform(gaps[old]), X[old], gaps[old]))
        neighbours.append(error(KNNImputer().fit_transform(gaps[old]), X[old], gaps[old]))
    assert np.mean(ours) < 0.5 * np.mean(neighbours) < 0.5 * np.mean(means)
    assert np.mean(later) < 1.5 * np.mean(ours)


def test_conditional_means_help_where_columns_are_correlated():
    ours, alone = [], []
    for seed in range(2):
        X = correlated(seed)
        gaps = with_gaps(X, 0.3, seed)
        model = SparseLowRankImputer(random_state=0)
        ours.append(error(model.fit_transform(gaps), X, gaps))
        low_rank = SparseLowRankImputer(blend=False, random_state=0)
        alone.append(error(low_rank.fit_transform(gaps), X, gaps))
        assert model.weights_["conditional"] > 0.0
    assert np.mean(ours) < 0.97 * np.mean(alone)


def test_the_answer_has_the_best_score_on_hidden_entries(fitted):
    other = SparseLowRankImputer(random_state=0).fit(with_gaps(correlated(0), 0.3))
    for model in (fitted, other):
        weights, scores = np.array(list(model.weights_.values())), model.hidden_scores_
        best = max(scores, key=scores.get)
        chosen = {"mean": np.zeros(3), "low-rank": [1, 0, 0]}
        chosen |= {"conditional": [0, 1, 0], "neighbours": [0, 0, 1]}
        if best in chosen:
            assert np.array_equal(weights, chosen[best])
        else:
            assert best == "blend"
            assert weights.min() >= 0.0
            assert weights.max() > 0.0


def test_models_beside_the_low_rank_one_are_left_out_on_request(data, unblended):
    given = [{"lam": 0.0}, {"tau": 20.0}]
    others = [SparseLowRankImputer(**some, random_state=0).fit(data[1]) for some in given]
    for model in (unblended, *others):
        assert model.weights_ == {"low-rank": 1.0, "conditional": 0.0, "neighbours": 0.0}
        assert model.hidden_scores_ == {}
        assert model.shrinkage_ is None


def test_small_weights_of_the_nuclear_norm_are_solved_for_before_tau_is_set():
    """Rough points of a small weight have a far larger norm than the solution."""
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.standard_normal((39, 31)), axis=1)
    X = 100 + 10 * rng.standard_normal((39, 1)) + times
    gaps = with_gaps(X, 0.3)
    model = SparseLowRankImputer(lam=0.0, scaling="none", random_state=0).fit(gaps)
    assert np.isclose(model.result_.low_rank.nuclear_norm, model.tau_, rtol=1e-3)
    hidden = -float(np.max(model.cv_results_["mean_test_score"]))
    off = (model.transform(gaps) - X) / np.nanstd(gaps, axis=0)
    assert np.mean(off[np.isnan(gaps)] ** 2) < 2.0 * hidden


def test_the_price_of_entries_helps_where_the_truth_is_sparse():
    both, spectral = [], []
    for seed in range(2):
        signal, noise = sparse_low_rank(seed)
        gaps = with_gaps(signal + noise, 0.1, seed)
        model, alone = (
            SparseLowRankImputer(random_state=0),
            SparseLowRankImputer(lam=0.0, random_state=0),
        )
        both.append(error(model.fit_transform(gaps), signal, gaps))
        spectral.append(error(alone.fit_transform(gaps), signal, gaps))
        assert model.result_.nonzeros(1e-2) < alone.result_.nonzeros(1e-2)
    assert np.mean(both) < 0.98 * np.mean(spectral)


def test_units_do_not_matter(data):
    X, gaps = data
    units = 10.0 ** np.arange(-6, 9, 0.5)[: X.shape[1]]
    shifted = gaps * units + 3 * units
    model = SparseLowRankImputer(scaling="standard", random_state=0)
    plain = model.fit_transform(gaps)
    other = model.fit_transform(shifted)
    assert np.allclose((other - 3 * units) / units, plain, atol=1e-3)
    automatic = SparseLowRankImputer(random_state=0)
    guess = (automatic.fit_transform(shifted) - 3 * units) / units
    assert automatic.scaling_ == "standard"
    assert error(guess, X, gaps) < 0.3


def test_near_rows_without_a_weight_are_not_searched(monkeypatch):
    gaps = with_gaps(low_rank(0, rows=200, noise=1.0), 0.3)
    model = SparseLowRankImputer(random_state=0).fit(gaps)
    assert model.weights_["neighbours"] == 0.0 < model.weights_["conditional"]
    before = model.transform(gaps)

    def refuse(*args):
        raise AssertionError("searched")

    monkeypatch.setattr(NearestRows, "nearest", refuse)
    np.testing.assert_array_equal(model.transform(gaps), before)


@pytest.mark.parametrize("power", [24, -30, -60])
@pytest.mark.parametrize(
    ("lam", "tau"), [("auto", "auto"), (0.0, 1e3), (0.05, 60.0)], ids=["auto", "free", "both"]
)
def test_fills_scale_with_the_data(lam, tau, power):
    """Also of rows with fewer entries than the rank, and where the bound does not bind."""
    unit = 2.0**power
    gaps = with_gaps(low_rank(0, rows=40, cols=20, noise=0.3), 0.5)

    def filled(unit):
        given = {"lam": lam, "tau": tau}
        weights = {k: v if v == "auto" else v * unit for k, v in given.items()}
        model = SparseLowRankImputer(**weights, scaling="none", blend=False, random_state=0)
        return model.fit_transform(unit * gaps) / unit

    assert np.allclose(filled(unit), filled(1.0), rtol=1e-9)


def test_observed_entries_and_kind_of_numbers_are_kept(data):
    gaps = data[1].astype(np.float32)
    filled = SparseLowRankImputer(random_state=0).fit_transform(gaps)
    assert filled.dtype == np.float32
    assert np.array_equal(filled[~np.isnan(gaps)], gaps[~np.isnan(gaps)])
    assert np.all(np.isfinite(filled))


def test_other_marks_for_missing_entries(data, fitted):
    gaps = data[1]
    marked = np.where(np.isnan(gaps), -99.0, gaps)
    model = SparseLowRankImputer(missing_values=-99, random_state=0).fit(marked)
    assert np.allclose(model.transform(marked), fitted.transform(gaps))
    with pytest.raises(ValueError, match="NaN"):
        model.transform(gaps)


def test_rows_and_columns_without_any_entry(data):
    gaps = data[1].copy()
    gaps[:, 4] = np.nan
    gaps[7] = np.nan
    filled = SparseLowRankImputer(random_state=0).fit_transform(gaps)
    assert np.allclose(filled[:, 4], 0.0)
    assert np.all(np.isfinite(filled[7]))
    model = SparseLowRankImputer(scaling="standard", blend=False, random_state=0).fit(gaps)
    assert np.allclose(model.transform(gaps)[7], model.mean_)


def test_data_that_are_constant_are_filled_by_the_constant():
    gaps = with_gaps(np.full((12, 5), 4.0), 0.2)
    assert np.allclose(
        SparseLowRankImputer(scaling="center", random_state=0).fit_transform(gaps), 4.0
    )
    assert np.allclose(
        SparseLowRankImputer(random_state=0).fit_transform(np.zeros((12, 5))), 0.0
    )


def test_few_entries_are_enough_for_an_answer():
    gaps = np.array([[1.0, np.nan, 3.0], [2.0, 4.0, np.nan], [np.nan, 2.0, 3.5]])
    filled = SparseLowRankImputer(random_state=0).fit_transform(gaps)
    assert np.all(np.isfinite(filled))
    assert np.array_equal(filled[~np.isnan(gaps)], gaps[~np.isnan(gaps)])


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_keep_their_labels(data, fitted, kind):
    gaps = data[1]
    names = [f"c{i}" for i in range(gaps.shape[1])]
    frame = pd.DataFrame(gaps, columns=names) if kind == "pandas" else pl.DataFrame(gaps, names)
    model = SparseLowRankImputer(random_state=0).set_output(transform=kind)
    filled = model.fit_transform(frame)
    assert type(filled) is type(frame)
    assert list(filled.columns) == list(model.get_feature_names_out()) == names
    assert np.allclose(np.asarray(filled), fitted.transform(gaps))


def test_works_in_a_pipeline():
    X = low_rank(5, rows=100)
    y = X[:, 0] - X[:, 1]
    gaps = with_gaps(X, 0.3)
    ours = make_pipeline(SparseLowRankImputer(random_state=0), Ridge()).fit(gaps[:70], y[:70])
    simple = make_pipeline(SimpleImputer(), Ridge()).fit(gaps[:70], y[:70])
    assert ours.score(gaps[70:], y[70:]) > max(0.8, simple.score(gaps[70:], y[70:]))


def test_repeats_clones_and_pickles(data, fitted, unblended):
    gaps = data[1]
    filled = fitted.transform(gaps)
    assert np.array_equal(clone(fitted).fit(gaps).transform(gaps), filled)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(gaps), filled)
    settings = {"lam": fitted.lam_, "tau": fitted.tau_, "scaling": fitted.scaling_}
    given = SparseLowRankImputer(**settings, random_state=0).fit(gaps)
    assert given.weights_ == {"low-rank": 1.0, "conditional": 0.0, "neighbours": 0.0}
    assert np.allclose(given.transform(gaps), unblended.transform(gaps), atol=1e-3)


def test_shows_its_certificate_and_row_space(fitted):
    assert fitted.result_.certified
    assert "optimum lies between" in fitted._repr_html_()
    basis = fitted.components_
    assert basis.shape == (fitted.result_.rank, 30)
    assert np.allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"lam": -1.0}, "lam"),
        ({"lam": "none"}, "lam"),
        ({"tau": 0.0}, "tau"),
        ({"tau": np.inf}, "tau"),
        ({"ridge": 0.0}, "ridge"),
        ({"scaling": "rows"}, "scaling"),
    ],
)
def test_refuses_settings(data, settings, argument):
    with pytest.raises(InputError, match=argument):
        SparseLowRankImputer(**settings, random_state=0).fit(data[1])


def test_refuses_data():
    with pytest.raises(InputError, match="no observed entry"):
        SparseLowRankImputer(random_state=0).fit(np.full((4, 3), np.nan))
    with pytest.raises(ValueError, match="infinity"):
        SparseLowRankImputer(random_state=0).fit(np.full((4, 3), np.inf))


def test_the_width_of_neighbourhoods_is_that_of_the_whole_table():
    """In a sorted table the first rows may be nearer to each other than the others."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((900, 3)) * np.where(np.arange(900) < 300, 0.01, 1.0)[:, None]
    seen = np.ones(table.shape, dtype=bool)
    mixed = rng.permutation(900)
    widths = [
        NearestRows.of(rows, seen, np.random.default_rng(0)).width
        for rows in (table, table[mixed])
    ]
    assert widths[0] == pytest.approx(widths[1], rel=0.3)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_nearly_empty_columns_in_large_units_do_not_outweigh_the_others(count):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 8))
    X += 0.3 * rng.standard_normal(X.shape)
    X[rng.random(X.shape) < 0.2] = np.nan
    rare = np.full((60, 4), np.nan)
    rare[:count] = 1e6 * (1.0 + rng.random((count, 4)))
    model = SparseLowRankImputer(random_state=0).fit(np.hstack([X, rare]))
    assert -2.0 < model.hidden_scores_["mean"] < -0.5
    assert model.cv_results_["mean_test_score"].min() > -10.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e40, 1e100, 1e-40])
def test_data_of_extreme_size_are_filled_alike(unit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 8))
    X += 0.1 * rng.standard_normal(X.shape)
    X[rng.random(X.shape) < 0.2] = np.nan
    plain = SparseLowRankImputer(random_state=0).fit_transform(X)
    other = SparseLowRankImputer(random_state=0).fit_transform(unit * X)
    np.testing.assert_allclose(other / unit, plain, rtol=1e-6, atol=1e-9)


def test_few_hidden_entries_do_not_determine_weights():
    """Weights fitted to a dozen entries magnified the low-rank model four times."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(12)
    close = np.stack([0.2 * truth, 0.1 * truth, 0.3 * truth], axis=1)
    np.testing.assert_allclose(module.weighed(close, truth)[0], np.full(3, 1 / 3))
    large = np.stack([2.0 * truth, 1.0 * truth, 3.0 * truth], axis=1)
    np.testing.assert_allclose(module.weighed(large, truth)[0], np.full(3, 1 / 6))
    many = rng.standard_normal(module.FEW)
    fitted = module.weighed(np.stack([0.2 * many, 0.0 * many, 0.0 * many], axis=1), many)[0]
    np.testing.assert_allclose(fitted, [5.0, 0.0, 0.0], rtol=1e-6)


def test_weights_of_few_hidden_entries_shrink_with_their_uncertainty():
    guess, other = np.linalg.qr(np.random.default_rng(1).standard_normal((20, 2)))[0].T
    factors = []
    for noise in (0.1, 1.0, 3.0):
        truth = 0.8 * guess + noise * other
        weights, scores = module.weighed(np.stack([guess] * 3, axis=1), truth)
        assert 0.0 < sum(weights) < 0.8
        assert len(scores) == 5
        factors.append(sum(weights))
    assert factors[0] > factors[1] > factors[2]
    unrelated = np.stack([np.tile([1.0, -1.0], 10)] * 3, axis=1)
    assert module.weighed(unrelated, np.tile([1.0, 1.0, -1.0, -1.0], 5))[0] == [0.0, 0.0, 0.0]
    assert module.weighed(0.0 * unrelated, np.ones(20))[0] == [0.0, 0.0, 0.0]


def test_small_tables_of_one_factor_are_filled_and_independent_ones_nearly_by_means():
    ratios = {0.0: [], 3.0: []}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        for strength, found in ratios.items():
            factor = np.outer(rng.standard_normal(10), rng.standard_normal(6))
            X = strength * factor + rng.standard_normal((10, 6)) + 5.0
            gaps = with_gaps(X, 0.2, seed)
            hole = np.isnan(gaps)
            filled = SparseLowRankImputer(random_state=0).fit_transform(gaps)
            means = np.broadcast_to(np.nanmean(gaps, axis=0), X.shape)
            found.append(np.mean((filled - X)[hole] ** 2) / np.mean((means - X)[hole] ** 2))
    assert np.mean(ratios[0.0]) < 1.1
    assert np.mean(ratios[3.0]) < 0.8


def test_tables_too_small_to_hide_entries_of_are_shrunk():
    """Columns that are independent: nearly as good as their means."""
    ours, means = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((6, 3)) + 3.0 * rng.standard_normal(3)
        hole = rng.random(X.shape) < 0.2
        hole[0] = False
        hole[1, 0] = True
        gaps = np.where(hole, np.nan, X)
        ours.append(SparseLowRankImputer(random_state=0).fit_transform(gaps)[hole] - X[hole])
        means.append((np.nanmean(gaps, axis=0) - X)[hole])
    error, least = (np.mean(np.concatenate(each) ** 2) for each in (ours, means))
    assert error < 1.1 * least  # 1.12 with the weight of larger tables


@pytest.mark.parametrize("power", [-400, 125, 300])
def test_columns_may_be_in_any_unit(power):
    rng = np.random.default_rng(3)
    X = np.outer(rng.standard_normal(12), rng.standard_normal(8)) + 0.1 * rng.random((12, 8))
    X[rng.random(X.shape) < 0.2] = np.nan
    filled, other = (
        SparseLowRankImputer(random_state=0).fit_transform(scale * X)
        for scale in (1.0, 2.0**power)
    )
    np.testing.assert_allclose(other * 2.0**-power, filled, rtol=1e-9)


def test_with_a_time_limit_the_fit_fills_rows_by_its_own_matrix():
    """Solving for each row again can take longer than what is left."""
    seen = with_gaps(low_rank(3), 0.3)
    model = SparseLowRankImputer(blend=False, max_seconds=30.0, random_state=0).fit(seen)
    own = model.result_.low_rank.dense() * model.scale_ + model.mean_
    gone = np.isnan(seen)
    np.testing.assert_array_equal(model.result_.estimate[gone], own[gone])


def test_without_time_for_columns_the_low_rank_matrix_is_the_answer(monkeypatch):
    monkeypatch.setattr(module, "AFTER", np.inf)
    seen = with_gaps(low_rank(3), 0.3)
    model = SparseLowRankImputer(max_seconds=30.0, random_state=0).fit(seen)
    assert model.weights_ == {"low-rank": 1.0, "conditional": 0.0, "neighbours": 0.0}
    assert model.hidden_scores_ == {}
    assert model.shrinkage_ is None
    unlimited = SparseLowRankImputer(random_state=0).fit(seen)
    assert unlimited.weights_ != model.weights_


def test_a_limit_of_the_rank_holds_with_and_without_a_sparse_penalty():
    Z = low_rank(0)
    Z[np.random.default_rng(1).random(Z.shape) < 0.2] = np.nan
    rest = {"scaling": "standard", "random_state": 0}
    for weights in ({"lam": 0.0, "tau": 100.0}, {"lam": 0.05, "tau": 100.0}):
        model = SparseLowRankImputer(**weights, rank=2, **rest).fit(Z)
        assert len(model.components_) == 2
        free = SparseLowRankImputer(**weights, **rest).fit(Z)
        assert len(free.components_) > 2
        assert model.result_.certificate.lower_bound <= free.result_.value
        assert model.result_.value > free.result_.value
