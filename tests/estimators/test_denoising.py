"""SparseLowRank and SparseLowRankCV: scikit-learn's rules, the model, and what it gains."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from selection._signals import sparse_low_rank
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from unusual_data import UNUSUAL

import weakprox as wp
from weakprox import SparseLowRank, SparseLowRankCV
from weakprox.selection import denoise, noise_level, search
from weakprox.selection._anscombe import anscombe, counts_of, mean_count
from weakprox.selection.denoise import NoisyMatrix
from weakprox.selection.search import Deadline
from weakprox.solvers._gap_driven import GapDriven

SIGNAL, M = sparse_low_rank(50, 40, density=0.25)
SMALL = {"n_lams": 3, "n_taus": 3, "cv": 2}


def error(model, signal=SIGNAL):
    return float(np.sum((model.matrix_ - signal) ** 2))


@pytest.mark.filterwarnings("ignore:.*returned its input unchanged")
@parametrize_with_checks(
    [SparseLowRank(0.1, 5.0), SparseLowRankCV(n_lams=2, n_taus=2, cv=2, noise=1.0)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*returned its input unchanged")
@parametrize_with_checks([SparseLowRank()])
def test_scikit_learn_checks_of_the_search(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:.*returned its input unchanged")
@pytest.mark.parametrize("check", UNUSUAL)
def test_the_search_on_unusual_data(check):
    check("SparseLowRank", SparseLowRank())


@pytest.fixture(scope="module")
def fitted():
    return SparseLowRank(random_state=0).fit(M)


@pytest.fixture
def impatient(monkeypatch):
    """End runs soon whose gap a cap on the rank keeps from shrinking."""
    monkeypatch.setattr(GapDriven, "patience", 40)


@pytest.fixture(scope="module")
def searched():
    return SparseLowRankCV(n_lams=5, n_taus=5, cv=3, random_state=0).fit(M)


@pytest.mark.parametrize("psd", [False, True])
def test_the_model_is_the_one_stated(psd):
    cp = pytest.importorskip("cvxpy")
    A = M[:12, :12] if not psd else M[:12, :12] @ M[:12, :12].T
    lam, tau = 0.3, 0.4 * np.linalg.norm(A, "nuc")
    model = SparseLowRank(lam, tau, psd=psd, debias=False, tol=1e-6, random_state=0).fit(A)
    X = cp.Variable(A.shape, PSD=True) if psd else cp.Variable(A.shape)
    objective = 0.5 * cp.sum_squares(X - A) + lam * cp.sum(cp.abs(X))
    bound = cp.trace(X) if psd else cp.normNuc(X)
    cp.Problem(cp.Minimize(objective), [bound <= tau]).solve(solver=cp.CLARABEL)
    scale = np.abs(A).max()
    np.testing.assert_allclose(model.matrix_, X.value, atol=2e-3 * scale)
    assert model.scale_ == 1.0
    assert (model.lam_, model.tau_) == (lam, tau)
    assert model.certificate_.gap <= 1e-6 * abs(model.result_.value)


def test_no_penalty_and_no_ball_have_closed_forms():
    soft = np.sign(M) * np.maximum(np.abs(M) - 0.7, 0.0)
    sparse = SparseLowRank(0.7, 1e4, debias=False, random_state=0).fit(M)
    np.testing.assert_allclose(sparse.matrix_, soft, atol=1e-3)
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    theta = 2.0
    tau = float(np.maximum(s - theta, 0.0).sum())
    low = SparseLowRank(0.0, tau, debias=False, random_state=0).fit(M)
    np.testing.assert_allclose(low.matrix_, (U * np.maximum(s - theta, 0)) @ Vt, atol=1e-3)


def test_what_is_learnt(fitted):
    U, s, Vt = fitted.low_rank_.U, fitted.low_rank_.s, fitted.low_rank_.Vt
    np.testing.assert_allclose((U * s) @ Vt, fitted.matrix_, atol=1e-12)
    np.testing.assert_allclose(fitted.matrix_, fitted.scale_ * fitted.result_.X, atol=1e-12)
    assert fitted.rank_ == np.linalg.matrix_rank(fitted.matrix_, tol=1e-8)
    assert fitted.components_.shape == (fitted.rank_, 40)
    assert fitted.noise_ == pytest.approx(0.5, rel=0.1)
    assert fitted.scale_ >= 1.0
    assert fitted.result_.certified
    assert fitted.n_samples_seen_ == 1


def simple_methods(noisy, signal):
    """Errors of truncation and of soft thresholding, at settings that nobody knows."""
    U, s, Vt = np.linalg.svd(noisy, full_matrices=False)
    truncated = [(U[:, :k] * s[:k]) @ Vt[:k] for k in range(1, 5)]
    size = np.abs(noisy)
    soft = [np.sign(noisy) * np.maximum(size - lam, 0.0) for lam in np.linspace(0.0, 2.0, 21)]
    return [min(np.sum((X - signal) ** 2) for X in found) for found in (truncated, soft)]


@pytest.mark.parametrize("density", [0.15, pytest.param(0.4, marks=pytest.mark.long)])
def test_automatic_settings_beat_the_simple_methods(density):
    """On average over seeds, though those methods get the best settings there are."""
    ours, theirs = [], []
    for seed in range(2):
        signal, noisy = sparse_low_rank(60, 50, density=density, seed=seed)
        ours.append(error(SparseLowRank(random_state=0).fit(noisy), signal))
        theirs.append(simple_methods(noisy, signal))
    assert np.mean(ours) < 0.95 * np.min(np.mean(theirs, axis=0))


def test_noise_that_is_overestimated_at_first():
    """A signal that is neither low-rank nor sparse looks like noise, until it is fitted."""
    signal, noisy = sparse_low_rank(80, 80, rank=40, density=0.3, size=1.0, noise=1.0)
    first = wp.selection.noise_level(noisy)
    model = SparseLowRank(random_state=0).fit(noisy)
    assert first > 1.2
    assert abs(model.noise_ - 1.0) < abs(first - 1.0)
    known = SparseLowRank(noise=first, random_state=0).fit(noisy)
    assert error(model, signal) < error(known, signal)


def test_a_matrix_of_zeros_mostly_is_not_copied():
    """The median of its residuals is a rounding error, not a noise level."""
    rng = np.random.default_rng(0)
    signal, noisy = sparse_low_rank(80, 60, density=0.12, size=3.0, noise=0.5)
    noisy = np.where(rng.random(noisy.shape) < 0.05, noisy, 0.0)
    noisy[signal != 0.0] = signal[signal != 0.0] + 0.5 * rng.standard_normal(
        np.count_nonzero(signal)
    )
    assert np.mean(noisy == 0.0) > 0.9
    model = SparseLowRank(random_state=0).fit(noisy)
    assert model.noise_ > 0.05
    assert error(model, signal) < 0.8 * np.sum((noisy - signal) ** 2)


def poisson_counts(seed=0):
    rng = np.random.default_rng(seed)
    sides = [np.where(rng.random((n, 3)) < 0.3, rng.gamma(2, 1, (n, 3)), 0) for n in (90, 70)]
    rates = 0.3 * sides[0] @ sides[1].T
    return rates, rng.poisson(rates)


def test_counts_are_denoised_about_as_well_as_by_hand():
    rates, counts = poisson_counts()
    model = SparseLowRank(random_state=0).fit(counts)
    assert model.noise_ == pytest.approx(counts.mean() ** 0.5)
    norm = float(np.linalg.svd(rates, compute_uv=False).sum())
    by_hand = min(
        error(SparseLowRank(lam, share * norm, random_state=0).fit(counts), rates)
        for lam in (0.0, 0.1, 0.2)
        for share in (0.7, 0.9)
    )
    assert error(model, rates) < 1.2 * by_hand
    asked = SparseLowRank(noise="poisson", random_state=0).fit(counts)
    np.testing.assert_allclose(asked.matrix_, model.matrix_)


def test_symmetric_counts():
    rates = np.outer(*2 * [np.repeat([0.0, 2.0, 0.5], [20, 10, 10])])
    counts = np.random.default_rng(0).poisson(rates)
    counts = np.triu(counts) + np.triu(counts, 1).T
    model = SparseLowRank(psd=True, noise="poisson", random_state=0).fit(counts)
    assert error(model, rates) < 0.3 * np.sum((counts - rates) ** 2)


def test_an_answer_that_equals_the_input_is_announced():
    rng = np.random.default_rng(0)
    exact = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 15))
    with pytest.warns(UserWarning, match="returned its input unchanged"):
        SparseLowRank(random_state=0).fit(exact)


def steps_apart(fits):
    """Largest distance on the grid between choices: rows (weights) and columns (radii)."""
    table = fits[0].cv_results_
    lams = np.unique(np.concatenate([fit.cv_results_["param_lam"] for fit in fits]))
    rows = [int(np.flatnonzero(lams == fit.lam_)[0]) for fit in fits]
    columns = []
    for fit in fits:
        table = fit.cv_results_
        taus = np.sort(table["param_tau"][table["param_lam"] == fit.lam_])
        columns.append(int(np.flatnonzero(taus == fit.tau_)[0]))
    return max(rows) - min(rows), max(columns) - min(columns)


@pytest.mark.parametrize(
    "example",
    [
        {"m": 50, "d": 40, "density": 0.25},
        pytest.param({"m": 60, "d": 50, "density": 0.4, "seed": 2}, marks=pytest.mark.long),
        {"m": 50, "d": 40, "density": 1.0, "rank": 3, "size": 0.6, "seed": 3},
    ],
)
def test_the_choice_hardly_depends_on_the_random_state(example):
    _, noisy = sparse_low_rank(**example)
    fits = [SparseLowRank(random_state=k, noise=0.5).fit(noisy) for k in range(3)]
    lam, tau = steps_apart(fits)
    assert lam <= 1
    assert tau <= 1


def test_simple_models_are_chosen_where_they_suffice(fitted):
    rng = np.random.default_rng(0)
    noise = 0.5 * rng.standard_normal((50, 40))
    low = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 40))
    model = SparseLowRank(random_state=0).fit(low + noise)
    assert (model.kind_, model.lam_) == ("low-rank", 0.0)
    assert model.sparse_ is None
    spikes = np.where(rng.random((50, 40)) < 0.05, 8.0, 0.0)
    assert SparseLowRank(random_state=0).fit(spikes + noise).kind_ == "sparse"
    assert fitted.kind_ == "both"


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(k, marks=pytest.mark.long) for k in (1, 2))]
)
def test_no_simple_model_scores_better_on_the_same_copies(seed):
    """By more than one standard error of the difference."""
    _, noisy = sparse_low_rank(50, 40, density=0.3, seed=seed)
    model = SparseLowRank(random_state=0).fit(noisy)
    table = model.cv_results_
    splits = np.array([table[f"split{k}_test_score"] for k in range(5)])
    lam, tau = table["param_lam"], table["param_tau"]
    chosen = int(np.flatnonzero((lam == model.lam_) & (tau == model.tau_))[0])
    simple = splits[:, (lam == 0.0) | (tau == tau.max())]
    away = simple - splits[:, [chosen]]
    error = away.std(axis=0, ddof=1) / 5**0.5
    assert (away.mean(axis=0) <= error + 1e-12).all()


def test_zeros_are_exact():
    model = SparseLowRank(0.4, 15.0, random_state=0).fit(M)
    assert 0 < model.sparse_.nnz < 0.8 * M.size
    assert np.count_nonzero(model.matrix_) == M.size
    np.testing.assert_allclose(model.sparse_.toarray(), model.matrix_, atol=0.05)
    point = model.result_.sparse
    np.testing.assert_allclose((model.scale_ * point.matrix).toarray(), model.sparse_.toarray())
    assert point.certificate.proves
    assert SparseLowRank(0.0, 15.0, random_state=0).fit(M).sparse_ is None


def test_searching_a_grid_is_no_worse(fitted, searched):
    assert error(searched) < 1.1 * error(fitted)


def test_a_given_weight_or_radius_is_kept():
    assert SparseLowRank(lam=0.2, random_state=0).fit(M).lam_ == 0.2
    assert SparseLowRank(tau=15.0, random_state=0).fit(M).tau_ == 15.0


def test_a_cap_on_the_rank():
    assert SparseLowRank(rank=1, random_state=0).fit(M).rank_ == 1


def test_debias_undoes_shrinkage():
    plain = SparseLowRank(0.4, 15.0, debias=False, random_state=0).fit(M)
    scaled = SparseLowRank(0.4, 15.0, random_state=0).fit(M)
    assert scaled.scale_ > 1.05
    assert error(scaled) < error(plain)


@pytest.fixture(scope="module")
def refitted():
    return SparseLowRank(debias="auto", random_state=0).fit(M)


def test_a_refit_is_taken_where_held_out_copies_prefer_it(fitted, refitted):
    assert (fitted.debias_, fitted.refit_, refitted.debias_) == ("scale", 0.0, "refit")
    assert error(refitted) < 0.9 * error(fitted)
    assert refitted.rank_ == np.linalg.matrix_rank(SIGNAL) < fitted.rank_
    assert refitted.scale_ + refitted.refit_ == pytest.approx(1.0)
    X = refitted.result_.low_rank
    values = np.einsum("ij,ij->j", X.U, M @ X.Vt.T)
    values = refitted.scale_ * X.s + refitted.refit_ * np.maximum(values, 0.0)
    np.testing.assert_allclose(refitted.matrix_, (X.U * values) @ X.Vt, atol=1e-10)
    np.testing.assert_allclose(refitted.low_rank_.dense(), refitted.matrix_, atol=1e-10)
    assert refitted.result_.certified
    kept = refitted.sparse_.toarray() != 0.0
    assert 0 < kept.sum() < M.size
    np.testing.assert_array_equal(refitted.sparse_.toarray()[kept], refitted.matrix_[kept])


def test_no_candidate_scores_worse_than_with_a_factor(fitted, refitted):
    tables = [model.cv_results_ for model in (fitted, refitted)]
    scores = [
        dict(zip(zip(t["param_lam"], t["param_tau"], strict=True), s, strict=True))
        for t in tables
        for s in [t["mean_test_score"]]
    ]
    both = scores[0].keys() & scores[1].keys()
    assert len(both) > 5
    assert all(scores[1][key] >= scores[0][key] - 1e-12 for key in both)


def test_soft_thresholding_is_refitted_on_its_support():
    rng = np.random.default_rng(0)
    signal = np.where(rng.random((40, 40)) < 0.05, 20.0, 0.0)
    A = signal + rng.standard_normal(signal.shape)
    scaled, model = (SparseLowRank(debias=d, random_state=0).fit(A) for d in (True, "auto"))
    assert (model.kind_, model.debias_) == ("sparse", "refit")
    assert error(model, signal) < 0.8 * error(scaled, signal)
    X = np.sign(A) * np.maximum(np.abs(A) - model.lam_, 0.0)
    mixed = model.scale_ * X + model.refit_ * np.where(X != 0.0, A, 0.0)
    np.testing.assert_allclose(model.matrix_, mixed, atol=2e-2)


def test_given_weights_are_refitted_by_held_out_copies():
    lam, tau = 0.2, 0.5 * np.linalg.norm(SIGNAL, "nuc")
    model = SparseLowRank(lam, tau, debias="auto", random_state=0).fit(M)
    assert (model.lam_, model.tau_) == (lam, tau)
    assert len(model.cv_results_["scale"]) == len(model.cv_results_["refit"]) == 1
    assert error(model) <= error(SparseLowRank(lam, tau, debias=False, random_state=0).fit(M))


def test_refits_on_a_grid_and_of_psd_matrices():
    grid = SparseLowRankCV(n_lams=3, n_taus=4, cv=3, debias="auto", random_state=0).fit(M)
    plain = SparseLowRankCV(n_lams=3, n_taus=4, cv=3, random_state=0).fit(M)
    assert grid.debias_ == "refit"
    assert (grid.errors_.mean(axis=0) <= plain.errors_.mean(axis=0) + 1e-12).all()
    psd = SparseLowRank(psd=True, debias="auto", random_state=0).fit(3.0 * M[:30] @ M[:30].T)
    np.testing.assert_allclose(psd.matrix_, psd.matrix_.T, atol=1e-8)
    assert np.linalg.eigvalsh(psd.matrix_).min() > -1e-8


def test_an_unknown_way_to_undo_shrinkage():
    with pytest.raises(wp.InputError, match="debias"):
        SparseLowRank(debias="refit").fit(M)


@pytest.fixture(scope="module")
def exposures():
    rng = np.random.default_rng(0)
    scales = np.exp(0.6 * rng.standard_normal(8))
    scales /= scales.mean()
    noise = rng.standard_normal((8, *SIGNAL.shape))
    return scales, scales[:, None, None] * SIGNAL + noise


def test_copies_of_different_scales(exposures):
    scales, stack = exposures
    with pytest.warns(UserWarning, match="differ in scale"):
        blind = SparseLowRank(random_state=0).fit(stack)
    model = SparseLowRank(rescale_copies=True, random_state=0).fit(stack)
    np.testing.assert_allclose(model.copy_scales_, scales, atol=0.1)
    np.testing.assert_array_equal(model.copy_scales_, blind.copy_scales_)
    assert model.noise_ == pytest.approx(1.0 / np.linalg.norm(scales), rel=0.05)
    assert model.noise_ < blind.noise_
    assert error(model) < error(blind)
    grid = SparseLowRankCV(**SMALL, rescale_copies=True, random_state=0).fit(stack)
    assert grid.n_samples_seen_ == 8


def test_noisier_copies_count_less(exposures):
    scales, stack = exposures
    stack = stack.copy()
    stack[0] += 20.0 * np.random.default_rng(1).standard_normal(SIGNAL.shape)
    model = SparseLowRank(rescale_copies=True, random_state=0).fit(stack)
    assert model.noise_ == pytest.approx(1.0 / np.linalg.norm(scales[1:]), rel=0.1)


def test_rescaling_needs_all_copies_at_once():
    model = SparseLowRank(rescale_copies=True, random_state=0)
    with pytest.raises(wp.InputError, match="rescale_copies"):
        model.partial_fit(M)
    plain = SparseLowRank(0.3, 15.0, random_state=0).fit(M)
    alone = SparseLowRank(0.3, 15.0, rescale_copies=True, random_state=0).fit(M)
    np.testing.assert_array_equal(alone.matrix_, plain.matrix_)


def test_batches_lead_to_the_same_as_all_at_once():
    rng = np.random.default_rng(0)
    stack = SIGNAL + rng.standard_normal((7, 50, 40))
    whole = SparseLowRank(random_state=0).fit(stack)
    parts = SparseLowRank(random_state=0)
    first = error(parts.partial_fit(stack[0]))
    for batch in (stack[1:5], stack[5:]):
        parts.partial_fit(batch)
    assert parts.n_samples_seen_ == whole.n_samples_seen_ == 7
    assert parts.noise_ == pytest.approx(whole.noise_, rel=1e-9)
    assert whole.noise_ == pytest.approx(1.0 / 7**0.5, rel=0.03)
    np.testing.assert_allclose(parts.matrix_, whole.matrix_, atol=1e-6)
    assert error(whole) < first


def test_nothing_grows_with_the_number_of_batches():
    rng = np.random.default_rng(0)
    model = SparseLowRank(0.3, 15.0, random_state=0)
    sizes = []
    for _ in range(6):
        model.partial_fit(SIGNAL + rng.standard_normal(SIGNAL.shape))
        del model.result_  # its trace is as long as the run
        sizes.append(len(pickle.dumps(model)))
    assert max(sizes) < sizes[0] + SIGNAL.nbytes / 2  # no copy is kept
    assert model.n_samples_seen_ == 6


def test_folds_of_a_stack():
    rng = np.random.default_rng(0)
    stack = SIGNAL + rng.standard_normal((6, 50, 40))
    model = SparseLowRankCV(n_lams=4, n_taus=4, cv=3, random_state=0).fit(stack)
    assert model.errors_.shape == (3, 4, 4)
    assert error(model) < 0.5 * np.sum((stack.mean(axis=0) - SIGNAL) ** 2)


def test_new_rows_are_projected(fitted):
    rows = np.random.default_rng(0).standard_normal((4, 40))
    V = fitted.components_
    found = fitted.transform(rows)
    np.testing.assert_allclose(found, rows @ V.T @ V, atol=1e-12)
    np.testing.assert_allclose(fitted.transform(fitted.matrix_), fitted.matrix_, atol=1e-9)
    np.testing.assert_allclose(fitted.transform(sp.csr_array(rows)), found, atol=1e-12)


def test_score_is_the_error_on_unseen_copies(fitted):
    copies = SIGNAL + np.random.default_rng(1).standard_normal((5, 50, 40))
    expected = -np.mean((copies - fitted.matrix_) ** 2)
    assert fitted.score(copies) == pytest.approx(expected)
    bad = SparseLowRank(lam=10.0, tau=1.0, random_state=0).fit(M)
    assert bad.score(copies) < fitted.score(copies)


@pytest.mark.usefixtures("impatient")
def test_new_rows_are_scored_by_what_other_columns_say_about_them():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((3, 30))
    train, test = (rng.standard_normal((n, 3)) @ factors for n in (80, 40))
    train, test = (X + 0.5 * rng.standard_normal(X.shape) for X in (train, test))
    models = [
        SparseLowRank(0.0, 1e3, rank=rank, noise=0.5, random_state=0).fit(train)
        for rank in (1, 3, 20)
    ]
    scores = [model.score(test) for model in models]
    assert scores[1] == max(scores)  # the right rank predicts best
    assert scores[1] == pytest.approx(-0.25, rel=0.3)  # and leaves little but the noise
    right = models[1]
    assert right.score(pd.DataFrame(test)) == right.score(sp.csr_array(test)) == scores[1]


@pytest.mark.usefixtures("impatient")
def test_cross_validation_and_grid_search():
    plain = cross_val_score(
        SparseLowRank(0.3, noise=0.5, random_state=0), M, cv=2, error_score="raise"
    )
    assert np.isfinite(plain).all()
    grid = GridSearchCV(
        SparseLowRank(0.1, 1e3, noise=0.5, random_state=0),
        {"rank": [1, 2, 15]},
        cv=2,
        error_score="raise",
    )
    assert grid.fit(M).best_params_["rank"] == 2
    stack = SIGNAL + np.random.default_rng(0).standard_normal((6, 50, 40))
    several = cross_val_score(SparseLowRank(0.1, 20.0), stack, cv=3, error_score="raise")
    assert several == pytest.approx(-1.0, rel=0.2)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_labels_are_kept(kind):
    names = [f"column {k}" for k in range(40)]
    frame = pd.DataFrame(M, columns=names, index=[f"row {k}" for k in range(50)])
    frame = frame if kind == "pandas" else pl.from_pandas(frame)
    model = SparseLowRank(0.3, 15.0, random_state=0).set_output(transform=kind).fit(frame)
    assert model.feature_names_in_.tolist() == names
    assert list(model.transform(frame).columns) == names
    assert type(model.matrix_) is type(frame)
    assert list(model.matrix_.columns) == names
    if kind == "pandas":
        assert model.matrix_.index.equals(frame.index)
    plain = SparseLowRank(0.3, 15.0, random_state=0).fit(M).matrix_
    np.testing.assert_allclose(model.matrix_.to_numpy(), plain, atol=1e-12)
    assert type(model.partial_fit(frame).matrix_) is type(frame)


def test_other_inputs(tmp_path):
    plain = SparseLowRank(0.3, 15.0, random_state=0).fit(M).matrix_
    path = tmp_path / "m.npy"
    np.save(path, M)
    torch = pytest.importorskip("torch")
    for given in (sp.csc_array(M), np.load(path, mmap_mode="r"), M.tolist(), torch.tensor(M)):
        np.testing.assert_allclose(
            SparseLowRank(0.3, 15.0, random_state=0).fit(given).matrix_, plain, atol=1e-9
        )
    single = SparseLowRank(0.3, 15.0, random_state=0).fit(M.astype(np.float32))
    assert single.matrix_.dtype == np.float32
    np.testing.assert_allclose(single.matrix_, plain, atol=0.05)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1), (2, 2), (3, 40)])
@pytest.mark.parametrize(
    "model", [SparseLowRank(random_state=0), SparseLowRankCV(**SMALL, random_state=0)]
)
@pytest.mark.filterwarnings("ignore:.*returned its input unchanged")
def test_tiny_matrices(shape, model):
    A = np.random.default_rng(0).standard_normal(shape)
    assert np.isfinite(clone(model).fit(A).matrix_).all()


def test_zero_and_constant_matrices():
    assert not SparseLowRank(random_state=0).fit(np.zeros((5, 4))).matrix_.any()
    with pytest.warns(UserWarning, match="unchanged"):
        flat = SparseLowRank(random_state=0).fit(np.ones((6, 5))).matrix_
    np.testing.assert_allclose(flat, np.ones((6, 5)), atol=0.05)


def test_psd_answers_are_psd():
    rng = np.random.default_rng(0)
    u = np.where(rng.random(30) < 0.3, 2.0, 0.0)
    noise = rng.standard_normal((30, 30))
    A = np.outer(u, u) + (noise + noise.T) / 2
    model = SparseLowRank(psd=True, random_state=0).fit(A)
    assert np.linalg.eigvalsh(model.matrix_).min() > -1e-8
    assert error(model, np.outer(u, u)) < 0.2 * np.sum((A - np.outer(u, u)) ** 2)


def test_the_search_is_documented(searched):
    table = searched.cv_results_
    assert len(table["param_lam"]) == 25
    best = int(np.argmax(table["mean_test_score"]))
    assert table["rank_test_score"][best] == 1
    assert searched.lam_ == table["param_lam"][best]
    assert searched.tau_ == table["param_tau"][best]
    assert searched.scale_ == pytest.approx(table["scale"][best])
    assert searched.path_.lams[searched.best_index_[0]] == searched.lam_
    splits = np.mean([table[f"split{k}_test_score"] for k in range(3)], axis=0)
    np.testing.assert_allclose(splits, table["mean_test_score"])


def test_one_standard_error_is_simpler(searched):
    simple = SparseLowRankCV(
        n_lams=5, n_taus=5, cv=3, one_standard_error=True, random_state=0
    ).fit(M)
    path = simple.path_
    ours, best = path.ranks[simple.best_index_], path.ranks[searched.best_index_]
    assert ours <= best


def test_a_grid_of_ones_own():
    model = SparseLowRankCV(lams=[0.1, 0.5], taus=[10.0, 20.0], cv=2, random_state=0).fit(M)
    assert model.lam_ in (0.1, 0.5)
    assert model.tau_ in (10.0, 20.0)
    assert model.errors_.shape == (2, 2, 2)


def test_same_seed_same_bits(fitted):
    assert SparseLowRank(random_state=0).fit(M).matrix_.tobytes() == fitted.matrix_.tobytes()


def test_clone_pickle_and_pipeline(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert again.matrix_.tobytes() == fitted.matrix_.tobytes()
    assert clone(fitted).get_params() == fitted.get_params()
    pipe = make_pipeline(StandardScaler(), SparseLowRank(0.1, 20.0, random_state=0))
    assert pipe.fit_transform(M).shape == M.shape


def test_time_limit_is_honest():
    model = SparseLowRank(0.3, 15.0, tol=1e-12, max_seconds=0.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="nothing is proved"):
        model.fit(M)
    assert not model.result_.certified
    assert np.isfinite(model.matrix_).all()


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"lam": -1.0}, "lam"),
        ({"lam": "many"}, "lam"),
        ({"tau": 0.0}, "tau"),
        ({"tau": "few"}, "tau"),
        ({"noise": -1.0}, "noise"),
        ({"noise": "loud"}, "noise"),
        ({"noise": "poisson"}, "X"),
        ({"rank": 0}, "rank"),
        ({"tol": 0.0, "lam": 0.1, "tau": 1.0}, "tol"),
    ],
)
def test_bad_settings(settings, argument):
    with pytest.raises(wp.InputError) as caught:
        SparseLowRank(**settings, random_state=0).fit(M)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("settings", "argument"),
    [({"cv": 1}, "cv"), ({"n_lams": 0}, "n_lams"), ({"lams": [-1.0]}, "lams")],
)
def test_bad_searches(settings, argument):
    with pytest.raises(wp.InputError) as caught:
        SparseLowRankCV(**settings, random_state=0).fit(M)
    assert caught.value.argument == argument


def test_bad_shapes(fitted):
    model = SparseLowRank(0.3, 15.0, random_state=0).partial_fit(M)
    with pytest.raises(wp.ShapeError, match=r"\(49, 40\)"):
        model.partial_fit(M[1:])
    with pytest.raises(wp.ShapeError, match="copies of shape"):
        fitted.score(M[None, 1:])
    with pytest.raises(ValueError, match="40 features"):
        fitted.score(M[:, 1:])
    with pytest.raises(wp.ShapeError, match="square"):
        SparseLowRank(psd=True, random_state=0).fit(M)


@pytest.mark.usefixtures("thorough")
def test_the_choice_does_not_depend_on_the_random_state():
    """One set of copies leads to two different radii for these states."""
    rng = np.random.default_rng(0)
    u = np.where(rng.random(60) < 0.2, 3.0, 0.0)
    noisy = np.outer(u, u) + rng.standard_normal((60, 60))
    data = [NoisyMatrix(noisy, seed=state) for state in (0, 3)]
    once = [each.search(0.9652, repeats=1) for each in data]
    assert once[0].tau != once[1].tau
    often = [each.search(0.9652) for each in data]
    assert (often[0].lam, often[0].tau) == (often[1].lam, often[1].tau)
    # what was tried, by the first set
    assert often[0].table["param_tau"].tolist() == once[0].table["param_tau"].tolist()


def test_repeats_end_with_the_time():
    spent = NoisyMatrix(M, seed=0, deadline=Deadline.after(0.0))
    assert spent.search(0.5).tau > 0.0


def test_large_matrices_need_fewer_comparisons(monkeypatch):
    """Weights that are clearly worse on two copies are not compared with the others."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((120, 2)) @ rng.standard_normal((2, 90))
    data = NoisyMatrix(dense + rng.standard_normal(dense.shape), seed=0)
    every = data.search(1.0, repeats=1)
    monkeypatch.setattr(denoise, "REPEATED", 0)
    monkeypatch.setattr(search, "SURE", 1.0)  # since this matrix is small
    fewer = replace(data, _known={}).search(1.0, repeats=1)
    assert (fewer.lam, fewer.tau) == (every.lam, every.tau)
    tried, before = fewer.table["param_lam"], every.table["param_lam"]
    assert tried.size < before.size
    assert tried.tolist() == before[: tried.size].tolist()
    errors = [-table["mean_test_score"][: tried.size] for table in (fewer.table, every.table)]
    np.testing.assert_allclose(*errors, rtol=1e-9)


def test_a_confirmed_noise_level_is_searched_once(monkeypatch):
    calls = []
    compare = denoise.held_out

    def counted(*args, **named):
        calls.append(args)
        return compare(*args, **named)

    monkeypatch.setattr(denoise, "held_out", counted)
    data = NoisyMatrix(M, seed=0)
    level = data.noise()
    assert level == noise_level(M)
    first = len(calls)
    found = data.search(level, repeats=1)
    assert len(calls) == first
    anew = NoisyMatrix(M, seed=0).search(level, repeats=1)
    assert (found.lam, found.tau) == (anew.lam, anew.tau)


def test_rounding_errors_among_zeros_are_not_the_noise():
    rng = np.random.default_rng(0)
    sparse = np.where(rng.random((60, 50)) < 0.14, rng.standard_normal((60, 50)), 0.0)
    jittered = sparse + 1e-16 * rng.standard_normal(sparse.shape)
    one, other = (SparseLowRank(random_state=0).fit(data) for data in (sparse, jittered))
    assert other.noise_ == pytest.approx(one.noise_, rel=1e-3)
    np.testing.assert_allclose(other.matrix_, one.matrix_, atol=1e-6)


def test_a_noise_level_below_the_rounding_error_is_refused():
    with pytest.raises(wp.InputError, match="noise: got 1e-18; wanted 0, or more than"):
        SparseLowRank(noise=1e-18).fit(M)


def test_scores_of_rows_scale_with_the_data():
    model = SparseLowRank(0.0, 60.0, noise=1.0, random_state=0).fit(M)
    small = SparseLowRank(0.0, 60e-12, noise=1e-12, random_state=0).fit(1e-12 * M)
    assert 1e24 * small.score(1e-12 * M) == pytest.approx(model.score(M), rel=1e-6)


@pytest.mark.parametrize("size", [1e80, 1e300, 1e-80])
def test_sizes_whose_powers_overflow_are_refused(size):
    with pytest.raises(wp.InputError, match="X: got entries up to"):
        SparseLowRank(random_state=0).fit(size * M)


@pytest.mark.parametrize("lams", ["wrong", ["wrong"], [None]])
def test_weights_that_are_no_numbers_are_refused(lams):
    with pytest.raises(wp.InputError, match="lams: got"):
        SparseLowRankCV(lams, **SMALL, random_state=0).fit(M)


def sparse_counts(seed=0):
    rng = np.random.default_rng(seed)
    U, V = (rng.gamma(2.0, 1.5, (n, 2)) * (rng.random((n, 2)) < 0.25) for n in (80, 60))
    return U @ V.T, rng.poisson(U @ V.T).astype(float)


def test_transformed_counts_have_smaller_errors_relative_to_their_noise():
    mean, counts = sparse_counts()
    plain, stable = (
        SparseLowRank(stabilize=stabilize, random_state=0).fit(counts)
        for stabilize in (False, True)
    )
    errors = [np.sum((model.matrix_ - mean) ** 2 / (mean + 0.1)) for model in (plain, stable)]
    assert errors[1] < 0.5 * errors[0]
    assert stable.noise_ == 1.0
    assert stable.matrix_.min() >= 0.0
    assert np.array_equal(stable.transform(sp.csr_array(counts)), stable.transform(counts))
    rows = np.random.default_rng(1).poisson(mean).astype(float)
    assert stable.score(rows) == pytest.approx(plain.score(rows), rel=0.3)
    assert stable.score(rows[None]) == pytest.approx(-np.mean((rows - stable.matrix_) ** 2))


def test_transformed_counts_of_zero_remain_zero():
    _, counts = sparse_counts()
    model = SparseLowRank(2.0, 200.0, stabilize=True, debias=False).fit(counts)
    assert model.sparse_.nnz < counts.size / 2
    at = model.sparse_.tocoo()
    np.testing.assert_allclose(at.data, model.matrix_[at.row, at.col], atol=0.5)
    zeros = SparseLowRank(1.0, 1.0, stabilize=True).fit(np.zeros((4, 3)))
    assert not zeros.matrix_.any()


@pytest.mark.parametrize("mean", [0.0, 0.3, 2.0, 40.0])
def test_the_mean_of_transforms_gives_that_of_the_counts(mean):
    counts = np.random.default_rng(0).poisson(mean, 200_000).astype(float)
    assert mean_count(anscombe(counts).mean()) == pytest.approx(mean, rel=0.02, abs=1e-12)
    np.testing.assert_allclose(counts_of(anscombe(counts)), counts, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "X", "name"),
    [
        ({}, [[0.5, 1.0], [2.0, 3.0]], "X"),
        ({}, [[-1.0, 1.0], [2.0, 3.0]], "X"),
        ({"noise": "poisson"}, np.ones((3, 3)), "noise"),
        ({"stabilize": "sqrt"}, np.ones((3, 3)), "stabilize"),
    ],
)
def test_transforms_of_other_data_are_refused(settings, X, name):
    with pytest.raises(wp.InputError, match=name):
        SparseLowRank(**{"stabilize": True, **settings}).fit(X)
