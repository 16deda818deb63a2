"""Robust principal components: the problem solved, outliers, gaps, rows old and new."""

from __future__ import annotations

import pickle

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from weakprox import InputError, RobustPCA, ShapeError
from weakprox.estimators import robust_pca as module


@parametrize_with_checks([RobustPCA(), RobustPCA(debias="auto")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def hit(seed=0, m=80, d=30, rank=2, noise=0.1, share=0.05):
    """A low-rank matrix, where it is hit, and the data."""
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, d))
    where = rng.random(L.shape) < share
    sizes = np.sign(rng.standard_normal(L.shape)) * 8.0
    return L, where, L + noise * rng.standard_normal(L.shape) + sizes * where


def with_gaps(M, share=0.2, seed=1):
    return np.where(np.random.default_rng(seed).random(M.shape) < share, np.nan, M)


def huber_value(M, L, lam, k, w=1.0):
    r = (M - L) * w
    seen = ~np.isnan(r)
    size = np.abs(r[seen])
    value = np.where(size <= k, 0.5 * size**2, k * size - 0.5 * k**2).sum()
    return value + lam * np.linalg.norm(L * w, "nuc")


@pytest.mark.parametrize("gaps", [False, True])
def test_solves_the_problem_it_states(gaps):
    M = hit(2, 14, 9)[2]
    M = with_gaps(M) if gaps else M
    model = RobustPCA(2.0, ratio=0.2, tol=1e-7, random_state=0).fit(M)
    L, S = cp.Variable(M.shape), cp.Variable(M.shape)
    seen = (~np.isnan(M)).astype(float)
    r = cp.multiply(seen, np.nan_to_num(M) - L - S)
    f = 0.5 * cp.sum_squares(r) + 0.4 * cp.norm1(S) + 2.0 * cp.normNuc(L)
    best = cp.Problem(cp.Minimize(f)).solve(solver="CLARABEL")
    assert model.certificate_.value == pytest.approx(best, rel=1e-6)
    assert model.certificate_.lower_bound <= best * (1 + 1e-7)
    assert huber_value(M, model.low_rank_, 2.0, 0.4) == pytest.approx(best, rel=1e-6)
    residual = np.where(np.isnan(M), 0.0, M - model.low_rank_)
    soft = np.sign(residual) * np.maximum(np.abs(residual) - 0.4, 0.0)
    np.testing.assert_allclose(model.sparse_, soft, atol=1e-10)


def test_principal_component_pursuit_has_a_certificate_of_its_own():
    L, where, M = hit(3, 40, 25, noise=0.0)
    model = RobustPCA(noise=0.0, tol=1e-4, random_state=0).fit(M)
    rho = 1 / np.sqrt(40)
    value = np.linalg.norm(model.low_rank_, "nuc") + rho * np.abs(M - model.low_rank_).sum()
    assert model.certificate_.value == pytest.approx(value, rel=1e-9)
    assert model.certificate_.gap <= 1e-4 * value
    np.testing.assert_allclose(model.low_rank_, L, atol=0.02)
    assert model.outliers_[where].all()
    assert model.outliers_[~where].mean() < 0.02
    few = M[:14, :9]
    certificate = RobustPCA(noise=0.0, tol=1e-4, random_state=0).fit(few).certificate_
    X = cp.Variable(few.shape)
    f = cp.normNuc(X) + cp.sum(cp.abs(few - X)) / np.sqrt(14)
    best = cp.Problem(cp.Minimize(f)).solve(solver="CLARABEL")
    assert certificate.lower_bound <= best * (1 + 1e-6) <= certificate.value * (1 + 2e-6)


@pytest.mark.parametrize("lam", ["auto", "cv"])
def test_finds_the_low_rank_part_and_the_outliers(lam):
    L, where, M = hit()
    model = RobustPCA(lam, random_state=0).fit(with_gaps(M))
    assert model.result_.certified
    error = np.sqrt(np.mean((model.low_rank_ - L) ** 2))
    assert error < 0.12  # a truncated SVD of the data without gaps has .6
    seen = ~np.isnan(with_gaps(M))
    assert (model.outliers_ & where & seen).sum() >= 0.98 * (where & seen).sum()
    assert (model.outliers_ & ~where).sum() <= 0.01 * M.size
    assert not model.outliers_[~seen].any()
    assert 0.08 < model.noise_ < 0.16
    assert bool(model.cv_results_) == (lam == "cv")


def test_components_span_the_rows():
    model = RobustPCA(random_state=0).fit(hit()[2])
    V = model.components_
    assert V.shape == (model.rank_, 30)
    np.testing.assert_allclose(V @ V.T, np.eye(model.rank_), atol=1e-8)
    np.testing.assert_allclose(model.low_rank_ @ V.T @ V, model.low_rank_, atol=1e-8)
    s = np.linalg.svd(model.low_rank_, compute_uv=False)[: model.rank_]
    np.testing.assert_allclose(model.singular_values_, s, rtol=1e-8)


def test_old_rows_get_their_own_low_rank_part():
    M = with_gaps(hit()[2])
    model = RobustPCA(tol=1e-8, random_state=0).fit(M)
    np.testing.assert_allclose(model.transform(M), model.low_rank_, atol=2e-3)


def test_new_rows_are_cleaned():
    L, _, M = hit(m=160)
    model = RobustPCA(random_state=0).fit(M[:80])
    new = with_gaps(M[80:])
    cleaned = model.transform(new)
    assert np.sqrt(np.mean((cleaned - L[80:]) ** 2)) < 0.2  # 1.9 before
    assert cleaned.shape == new.shape


def test_column_weights_change_the_units_only():
    M = hit()[2]
    units = np.geomspace(1.0, 1000.0, 30)
    plain = RobustPCA(3.0, random_state=0, tol=1e-8).fit(M)
    model = RobustPCA(3.0, column_weights=1 / units, random_state=0, tol=1e-8).fit(M * units)
    np.testing.assert_allclose(model.low_rank_ / units, plain.low_rank_, atol=1e-6)
    np.testing.assert_allclose(model.sparse_ / units, plain.sparse_, atol=1e-6)
    np.testing.assert_allclose(
        model.transform(M * units) / units, plain.transform(M), atol=1e-6
    )
    value = huber_value(M * units, model.low_rank_, 3.0, model.k_, 1 / units)
    assert value == pytest.approx(model.certificate_.value, rel=1e-7)
    s = np.linalg.svd(model.low_rank_, compute_uv=False)[: model.rank_]
    np.testing.assert_allclose(model.singular_values_, s, rtol=1e-6)


def test_scales_can_be_found():
    L, _, M = hit()
    units = np.geomspace(1.0, 1000.0, 30)
    model = RobustPCA(column_weights="scale", random_state=0).fit(M * units)
    assert np.sqrt(np.mean((model.low_rank_ / units - L) ** 2)) < 0.15


def test_frames_keep_their_labels():
    M = hit()[2]
    frame = pd.DataFrame(M, index=[f"r{i}" for i in range(80)]).add_prefix("c")
    model = RobustPCA(3.0, random_state=0).fit(frame)
    for found in (model.low_rank_, model.sparse_, model.outliers_):
        assert list(found.index) == list(frame.index)
        assert list(found.columns) == list(frame.columns)
    plain = RobustPCA(3.0, random_state=0).fit(M)
    np.testing.assert_allclose(model.low_rank_.to_numpy(), plain.low_rank_)
    assert model.outliers_.to_numpy().dtype == bool
    other = RobustPCA(3.0, random_state=0).fit(pl.from_pandas(frame))
    assert other.low_rank_.columns == list(frame.columns)
    np.testing.assert_allclose(other.low_rank_.to_numpy(), plain.low_rank_)


def test_a_rank_can_be_given():
    model = RobustPCA(0.5, rank=1, random_state=0).fit(hit()[2])
    assert model.rank_ == 1


def test_single_precision_is_kept():
    model = RobustPCA(3.0, random_state=0).fit(hit()[2].astype(np.float32))
    assert model.low_rank_.dtype == model.sparse_.dtype == np.float32
    assert model.transform(hit()[2].astype(np.float32)).dtype == np.float32
    assert model.result_.certified


@pytest.mark.parametrize("data", [np.zeros((5, 4)), np.full((5, 4), 3.0), np.eye(12, 5)])
def test_data_without_noise_are_fitted(data):
    model = RobustPCA(random_state=0).fit(data)
    assert np.isfinite(model.low_rank_).all()
    assert model.certificate_.proves


def test_before_a_fit_there_is_nothing():
    model = RobustPCA()
    for name in ("low_rank_", "sparse_", "outliers_", "certificate_"):
        with pytest.raises(NotFittedError):
            getattr(model, name)
    with pytest.raises(NotFittedError):
        model.transform(np.zeros((2, 2)))


def test_models_can_be_copied():
    model = RobustPCA(3.0, random_state=0).fit(hit()[2])
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.low_rank_, model.low_rank_)
    assert clone(model).get_params()["lam"] == 3.0


@pytest.mark.parametrize(
    ("settings", "error", "name"),
    [
        ({"lam": -1.0}, InputError, "lam"),
        ({"lam": "best"}, InputError, "lam"),
        ({"ratio": 0.0}, InputError, "ratio"),
        ({"noise": -1.0}, InputError, "noise"),
        ({"lam": 1.0, "noise": 0.0}, InputError, "lam"),
        ({"rank": 0}, InputError, "rank"),
        ({"column_weights": np.ones(3)}, ShapeError, "column_weights"),
        ({"column_weights": -np.ones(30)}, InputError, "column_weights"),
        ({"column_weights": "size"}, InputError, "column_weights"),
        ({"column_weights": object()}, InputError, "column_weights"),
    ],
)
def test_wrong_settings_are_refused(settings, error, name):
    with pytest.raises(error, match=name):
        RobustPCA(**settings).fit(hit()[2])


def test_data_without_an_entry_are_refused():
    with pytest.raises(InputError, match="X"):
        RobustPCA().fit(np.full((3, 2), np.nan))


@pytest.mark.parametrize("settings", [{}, {"noise": 0.0}, {"lam": "cv"}])
def test_data_whose_squares_overflow_are_refused(settings):
    with pytest.raises(InputError, match="X: got entries up to"):
        RobustPCA(**settings).fit(1e200 * hit()[2])


@pytest.mark.parametrize(
    "options", [{}, {"noise": 0.0}, {"lam": "cv"}, {"column_weights": "scale"}]
)
def test_tensors_are_decomposed_where_they_are(options):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    M = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 15))
    M += 0.1 * rng.standard_normal(M.shape) * (options.get("noise") != 0.0)
    M[rng.random(M.shape) < 0.05] += 8.0
    M[3, 4] = np.nan
    settings = {"random_state": 0, "tol": 1e-3 if "noise" in options else 1e-6} | options
    there = RobustPCA(**settings).fit(torch.asarray(M))
    here = RobustPCA(**settings).fit(M)
    assert torch.is_tensor(there.result_.low_rank.U)
    assert there.certificate_.gap <= 1.01 * settings["tol"] * there.certificate_.value
    assert isinstance(there.low_rank_, np.ndarray)
    assert there.lam_ == pytest.approx(here.lam_, rel=1e-3)
    np.testing.assert_allclose(there.low_rank_, here.low_rank_, atol=1e-2)
    assert (there.outliers_ != here.outliers_).mean() < 0.01
    assert there.transform(torch.asarray(M)).shape == M.shape


def test_the_rank_of_the_automatic_weight_improves_the_search():
    """The least error of the convex problem comes with components of noise."""
    rng = np.random.default_rng(0)
    L = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 40))
    M = L + 0.3 * rng.standard_normal(L.shape) + 10.0 * (rng.random(L.shape) < 0.05)
    plain = RobustPCA(random_state=0).fit(M)
    searched = RobustPCA("cv", random_state=0).fit(M)
    limited = RobustPCA("cv", rank=plain.rank_, random_state=0).fit(M)
    assert plain.rank_ == limited.rank_ == 3 < searched.rank_
    error = [np.linalg.norm(each.low_rank_ - L) for each in (limited, searched, plain)]
    assert error[0] < 0.8 * error[1] < 0.8 * 0.8 * error[2]


def test_the_search_continues_where_the_largest_weights_give_zero():
    rng = np.random.default_rng(1)
    L = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 12))
    X = L + 0.1 * rng.standard_normal(L.shape)
    X[rng.random(X.shape) < 0.05] += 20.0
    model = RobustPCA(lam="cv", random_state=0).fit(X)
    scores = model.cv_results_["mean_test_score"]
    assert scores[0] == scores[1] == scores[2]
    assert np.linalg.norm(model.low_rank_ - L) < 0.5 * np.linalg.norm(L)


@pytest.mark.parametrize("row", [np.full(6, 2.0), np.arange(1.0, 7.0), np.full(6, -1e-9)])
def test_constant_columns_are_hardly_shrunk(row):
    M = np.tile(row, (20, 1))
    model = RobustPCA(random_state=0).fit(M)
    np.testing.assert_allclose(model.low_rank_, M, atol=0.06 * np.abs(M).max())
    assert not model.outliers_.any()


def test_a_refit_is_nearer_to_the_signal_and_keeps_the_certificate():
    L, where, M = hit(4, 120, 40, noise=0.5)
    plain = RobustPCA(random_state=0).fit(M)
    model = RobustPCA(debias="auto", random_state=0).fit(M)
    assert plain.refit_ == 0.0 < model.refit_
    errors = [np.linalg.norm(one.low_rank_ - L) for one in (plain, model)]
    assert errors[1] < 0.75 * errors[0]
    assert model.rank_ == plain.rank_ == 2
    assert model.certificate_.value == plain.certificate_.value
    assert np.all(np.diff(model.singular_values_) <= 0.0)
    np.testing.assert_allclose(
        np.linalg.svd(model.low_rank_, compute_uv=False)[:2], model.singular_values_
    )
    np.testing.assert_allclose(model.transform(M), model.low_rank_, atol=0.02)
    assert model.outliers_[where].all()


@pytest.mark.parametrize("gaps", [False, True])
def test_a_refit_has_the_values_of_least_loss(gaps):
    M = hit(2, 14, 9)[2]
    M = with_gaps(M) if gaps else M
    scaled = module._Scaled.of(M, None)
    L = RobustPCA(2.0, ratio=0.2, random_state=0).fit(M).result_.low_rank.trimmed()
    found = module._Fits(None, scaled, None, None).mixture(L, 0.4, 1.0)
    t, seen = cp.Variable(L.rank, nonneg=True), ~np.isnan(M)
    parts = np.einsum("ij,jk->jik", L.U, L.Vt)[:, seen]
    f = 0.5 * cp.sum(cp.huber(M[seen] - parts.T @ t, 0.4))
    cp.Problem(cp.Minimize(f)).solve(solver="CLARABEL")
    np.testing.assert_allclose(found.s, t.value, rtol=1e-3, atol=1e-3)


def test_the_search_compares_refits_for_every_weight():
    L, _, M = hit(5, 120, 40, noise=0.5)
    plain, model = (
        RobustPCA("cv", debias=debias, random_state=0).fit(M) for debias in (False, "auto")
    )
    assert model.refit_ > 0.0
    assert model.rank_ <= plain.rank_
    errors = [np.linalg.norm(one.low_rank_ - L) for one in (plain, model)]
    assert errors[1] < errors[0]


def test_nothing_is_refitted_without_noise_or_signal():
    M = hit(3, 40, 25, noise=0.0)[2]
    assert RobustPCA(noise=0.0, debias="auto", random_state=0).fit(M).refit_ == 0.0
    noise = np.random.default_rng(0).standard_normal((40, 25))
    model = RobustPCA(noise=2.0, debias="auto", random_state=0).fit(noise)
    assert (model.refit_, model.rank_) == (0.0, 0)
    assert RobustPCA(noise=0.0, debias=True, random_state=0).fit(M).refit_ == 0.0
    with pytest.raises(InputError, match="debias"):
        RobustPCA(debias="refit").fit(M)


@pytest.mark.parametrize("lam", ["auto", "cv", 40.0])
def test_true_is_the_refit_itself(lam):
    M = hit(5, 60, 30, noise=0.5)[2]
    model = RobustPCA(lam, debias=True, random_state=0).fit(M)
    given = {"ratio": model.k_ / model.lam_, "random_state": 0}
    plain = RobustPCA(model.lam_, **given).fit(M)
    fits = module._Fits(None, module._Scaled.of(M, None), None, None)
    L = fits.mixture(plain.result_.low_rank.trimmed(), model.k_, 1.0)
    assert model.refit_ == 1.0
    np.testing.assert_allclose(model.low_rank_, L.dense(), atol=0.02 * np.abs(M).std())
    assert bool(model.cv_results_) == (lam == "cv")


def test_the_search_continues_as_long_as_smaller_weights_predict_better():
    """The noise given is too large, by far."""
    M = hit(5, 60, 30, noise=0.1, share=0.0)[2]
    model = RobustPCA("cv", noise=8.0, random_state=0).fit(M)
    tried = model.cv_results_["multiple"]
    assert model.lam_ < 0.3 * 8.0 * (np.sqrt(60) + np.sqrt(30))
    assert len(tried) > 9
