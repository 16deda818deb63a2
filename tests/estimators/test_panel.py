"""Effects in panels: the problem solved, forms of input, intervals, and what is refused."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import cvxpy as cp
import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from weakprox import InputError, MatrixCompletionPanel, ShapeError
from weakprox.estimators._panel_data import read_panel
from weakprox.losses import filled
from weakprox.plots import EventStudyDisplay

mpl.use("Agg")
DATA = Path(__file__).resolve().parents[2] / "examples" / "data" / "prop99_smoking.npz"


@pytest.fixture(scope="module")
def smoking():
    with np.load(DATA, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def staggered(seed=0, shape=(14, 10), effect=2.0, missing=0.1):
    """Units that are treated from the periods 4, 6 and 7 on, with missing outcomes."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    Y += rng.standard_normal((shape[0], 1)) + rng.standard_normal(shape[1])
    Y += 0.1 * rng.standard_normal(shape)
    treated = np.zeros(shape, dtype=bool)
    for unit, start in ((1, 4), (4, 6), (9, 7)):
        treated[unit, start:] = True
    Y = Y + effect * treated
    Y[rng.random(shape) < missing] = np.nan
    return Y, treated


def reference(Y, seen, lam, steps=3000):
    """Accelerated proximal gradient with full SVDs, effects eliminated by least squares."""
    m, d = Y.shape
    rows, cols = np.nonzero(seen)
    A = np.zeros((len(rows), m + d))
    A[np.arange(len(rows)), rows] = A[np.arange(len(rows)), m + cols] = 1.0
    solve = np.linalg.pinv(A)
    L, Z, t = np.zeros((m, d)), np.zeros((m, d)), 1.0
    for _ in range(steps):
        rest = (Y - Z)[seen]
        S = np.zeros((m, d))
        S[seen] = rest - A @ (solve @ rest)
        U, s, Vt = np.linalg.svd(Z + S, full_matrices=False)
        after = (U * np.maximum(s - lam, 0.0)) @ Vt
        if np.sum((Z - after) * (after - L)) > 0.0:
            t = 1.0
        ahead = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        moved = np.abs(after - L).max()
        Z, L, t = after + (t - 1.0) / ahead * (after - L), after, ahead
        if moved < 1e-13:
            break
    e = solve @ (Y - L)[seen]
    return L + e[:m, None] + e[m:]


@pytest.mark.parametrize("lam", [10.0, 60.0])
def test_proposition_99_at_a_fixed_weight_is_the_reference(smoking, lam):
    Y, treated = smoking["packs"].astype(float), smoking["treated"]
    model = MatrixCompletionPanel(lam, tol=1e-12, random_state=0).fit(Y, treated)
    wanted = reference(Y, ~treated, lam)
    assert model.att_ == pytest.approx(np.mean((Y - wanted)[treated]), rel=1e-6)
    assert model.counterfactual_ == pytest.approx(wanted, abs=1e-4)
    assert model.result_.certified


@pytest.mark.parametrize("seed", [0, 1])
def test_proposition_99_by_cross_validation(smoking, seed):
    model = MatrixCompletionPanel(random_state=seed)
    model.fit(smoking["packs"], smoking["treated"])
    assert model.att_ == pytest.approx(-19.98, abs=0.4)
    assert model.att_by_period_[-12:].mean() == pytest.approx(model.att_)
    assert np.isnan(model.att_by_period_[:-12]).all()
    assert "Certificate: The optimum lies between" in model.summary()


def untreated(walk, seed=0):
    """Outcomes whose deviations from parallel courses are random walks or white noise."""
    rng = np.random.default_rng(seed)
    off = rng.standard_normal((40, 16))
    treated = np.zeros(off.shape, dtype=bool)
    treated[:6, 10:] = treated[6:9, 13:] = True
    off = off.cumsum(axis=1) if walk else off
    return off + 3.0 * rng.standard_normal((40, 1)) + rng.standard_normal(16), treated


@pytest.mark.parametrize("seed", [1, 4, 6])
def test_residuals_of_random_walks_last(seed):
    Y, treated = untreated(walk=True, seed=seed)
    model = MatrixCompletionPanel(persistence="auto", random_state=0).fit(Y, treated)
    assert model.persistence_ >= 0.75
    assert model.result_.certified
    plain = MatrixCompletionPanel(random_state=0).fit(Y, treated)
    ours, theirs = (np.mean((m.counterfactual_ - Y)[treated] ** 2) for m in (model, plain))
    assert ours < 0.9 * theirs


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_white_noise_does_not_last(seed):
    Y, treated = untreated(walk=False, seed=seed)
    model = MatrixCompletionPanel(persistence="auto", random_state=0).fit(Y, treated)
    assert model.persistence_ == 0.0
    plain = MatrixCompletionPanel(random_state=0).fit(Y, treated)
    assert model.att_ == plain.att_


def test_lasting_residuals_alone_are_changes_since_the_last_period():
    Y, treated = untreated(walk=True)
    model = MatrixCompletionPanel(1e4, persistence=1.0, random_state=0).fit(Y, treated)
    plain = MatrixCompletionPanel(1e4, random_state=0).fit(Y, treated)
    assert (model.persistence_, plain.persistence_) == (1.0, 0.0)
    base, wanted = plain.counterfactual_, plain.counterfactual_.copy()
    wanted[:6, 10:] += (Y - base)[:6, 9:10]
    wanted[6:9, 13:] += (Y - base)[6:9, 12:13]
    assert model.counterfactual_ == pytest.approx(wanted, abs=1e-9)
    assert model.effects_[treated] == pytest.approx((Y - wanted)[treated], abs=1e-9)
    assert model.att_ == pytest.approx((Y - wanted)[treated].mean())
    assert model.att_by_event_time_[model.event_times_ < 0] == pytest.approx(
        plain.att_by_event_time_[plain.event_times_ < 0]
    )
    used = treated[:9] | (np.cumsum(treated[:9], axis=1) == 0)
    means = np.mean(wanted[:9], axis=0, where=used)
    assert model.mean_paths().counterfactual == pytest.approx(means, abs=1e-9)


def test_solves_the_problem_it_states():
    Y, treated = staggered()
    lam = 0.7
    model = MatrixCompletionPanel(lam, tol=1e-7, random_state=0).fit(Y, treated)
    seen = ~np.isnan(Y) & ~treated
    L, a, b = cp.Variable(Y.shape), cp.Variable((len(Y), 1)), cp.Variable((1, Y.shape[1]))
    fit = L + a @ np.ones((1, Y.shape[1])) + np.ones((len(Y), 1)) @ b
    off = cp.multiply(seen.astype(float), fit - np.nan_to_num(Y))
    value = 0.5 * cp.sum_squares(off) + lam * cp.normNuc(L)
    best = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    assert model.result_.value == pytest.approx(best, rel=1e-6)
    assert model.certificate_.lower_bound <= best * (1 + 1e-7)
    assert model.counterfactual_ == pytest.approx(fit.value, abs=5e-3)
    effects = (Y - fit.value)[treated]
    assert model.att_ == pytest.approx(np.nanmean(effects), abs=5e-3)


def test_effects_are_averaged_by_period_and_since_adoption():
    Y, treated = staggered(missing=0.0)
    model = MatrixCompletionPanel(0.7, random_state=0).fit(Y, treated)
    off = Y - model.counterfactual_
    assert np.array_equal(np.isnan(model.effects_), ~treated)
    assert model.effects_[treated] == pytest.approx(off[treated])
    assert model.att_ == pytest.approx(off[treated].mean())
    assert model.att_by_period_[6] == pytest.approx(off[[1, 4], 6].mean())
    assert np.isnan(model.att_by_period_[:4]).all()
    at = dict(zip(model.event_times_, model.att_by_event_time_, strict=True))
    assert min(at) == -7
    assert max(at) == 5
    assert at[0] == pytest.approx((off[1, 4] + off[4, 6] + off[9, 7]) / 3)
    assert at[-7] == pytest.approx(off[9, 0])
    assert at[5] == pytest.approx(off[1, 9])
    assert abs(model.att_ - 2.0) < 0.5


def test_a_large_weight_is_difference_in_differences():
    rng = np.random.default_rng(3)
    Y, treated = rng.standard_normal((8, 6)), np.zeros((8, 6), dtype=bool)
    treated[:3, 4:] = True
    model = MatrixCompletionPanel(1e3, random_state=0).fit(Y, treated)
    after, before = Y[:, 4:].mean(axis=1), Y[:, :4].mean(axis=1)
    change = after - before
    assert model.rank_ == 0
    assert model.att_ == pytest.approx(change[:3].mean() - change[3:].mean())


@pytest.mark.parametrize(("effects", "axis"), [("unit", 1), ("time", 0), ("none", None)])
def test_some_effects_alone(effects, axis):
    Y, treated = staggered(missing=0.0)
    model = MatrixCompletionPanel(1e3, effects=effects, random_state=0).fit(Y, treated)
    free = np.where(treated, np.nan, Y)
    wanted = np.zeros(Y.shape)
    if axis is not None:
        wanted = wanted + np.nanmean(free, axis=axis, keepdims=True)
    assert model.counterfactual_ == pytest.approx(wanted, abs=1e-8)


def test_all_forms_of_input_say_the_same():
    Y, treated = staggered()
    units, times = [f"u{k:02d}" for k in range(len(Y))], np.arange(2001, 2001 + Y.shape[1])
    model = MatrixCompletionPanel(0.7, random_state=0)
    wanted = model.fit(Y, treated).counterfactual_
    wide = pd.DataFrame(Y, index=units, columns=times)
    flags = pd.DataFrame(treated.astype(int), index=units, columns=times)
    found = model.fit(wide, flags).counterfactual_
    assert list(found.index) == units
    assert list(found.columns) == list(times)
    assert found.to_numpy() == pytest.approx(wanted)
    masked = np.ma.masked_invalid(Y)
    assert model.fit(masked, treated).counterfactual_ == pytest.approx(wanted)
    long = pd.DataFrame(
        {
            "who": np.repeat(units, Y.shape[1]),
            "when": np.tile(times, len(Y)),
            "y": Y.ravel(),
            "d": treated.ravel(),
        }
    ).sample(frac=1.0, random_state=0)
    names = {"unit": "who", "time": "when", "outcome": "y", "treatment": "d"}
    for table in (long, long.dropna(), pl.from_pandas(long), long.to_dict("list")):
        model.fit(table, **names)
        order = np.argsort(model.units_)
        assert np.array_equal(model.times_, times)
        assert np.asarray(model.counterfactual_)[order] == pytest.approx(wanted, abs=1e-6)
    dates = long.assign(when=pd.to_datetime(long["when"].astype(str)))
    assert model.fit(dates, **names).att_ == pytest.approx(model.fit(Y, treated).att_, abs=1e-6)


def test_cells_without_comparison_are_left_out():
    Y, treated = staggered(missing=0.0)
    treated[0] = True  # always treated
    treated[:, -1] = True  # nobody is untreated at the end
    model = MatrixCompletionPanel(0.7, random_state=0)
    with pytest.warns(UserWarning, match="23 treated cells have no effect"):
        model.fit(Y, treated)
    found = model.counterfactual_
    assert np.isnan(found[0]).all()
    assert np.isnan(found[:, -1]).all()
    assert np.isfinite(found[1:, :-1]).all()
    assert np.isfinite(model.att_)
    assert np.isnan(model.att_by_period_[-1])
    kept = treated[1:, :-1]
    assert model.att_ == pytest.approx((Y - found)[1:, :-1][kept].mean())


def refit(model, Y, treated):
    settings = {"persistence": model.persistence_, "tol": 1e-8, "random_state": 0}
    return MatrixCompletionPanel(model.lam_, **settings).fit(Y, treated)


@pytest.mark.parametrize("persistence", [0.0, 0.5])
def test_jackknife_leaves_out_one_unit_at_a_time(persistence):
    Y, treated = staggered()
    model = MatrixCompletionPanel(0.7, persistence=persistence, tol=1e-8, random_state=0)
    model.fit(Y, treated)
    found = model.interval("jackknife")
    others = [
        refit(model, np.delete(Y, k, axis=0), np.delete(treated, k, axis=0)).att_
        for k in range(len(Y))
    ]
    assert np.sort(found.estimates) == pytest.approx(np.sort(others), abs=1e-3)
    n = len(others)
    error = np.sqrt((n - 1) / n * np.sum((others - np.mean(others)) ** 2))
    assert found.standard_error == pytest.approx(error, rel=1e-2)
    assert found.low == pytest.approx(model.att_ - 1.95996 * found.standard_error, rel=1e-5)
    assert found.high == pytest.approx(model.att_ + 1.95996 * found.standard_error, rel=1e-5)
    assert found.by_event_time.shape == (2, len(model.event_times_))
    assert "jackknife, 14 replicates" in str(found)
    groups = model.interval("jackknife", replicates=5)
    assert len(groups.estimates) == 5


@pytest.mark.parametrize("persistence", [0.0, 0.5])
def test_placebos_treat_units_that_are_not(persistence):
    Y, treated = staggered(missing=0.0)
    treated[[4, 9]] = False
    Y = Y[:9]
    treated = treated[:9]
    model = MatrixCompletionPanel(0.7, persistence=persistence, tol=1e-8, random_state=0)
    model.fit(Y, treated)
    found = model.interval()  # one treated unit
    others = []
    for k in range(8):
        flags = np.zeros((8, Y.shape[1]), dtype=bool)
        flags[k] = treated[1]
        others.append(refit(model, np.delete(Y, 1, axis=0), flags).att_)
    assert found.method == "placebo"
    assert np.sort(found.estimates) == pytest.approx(np.sort(others), abs=1e-3)
    assert found.standard_error == pytest.approx(np.std(others, ddof=1), rel=1e-2)
    larger = np.sum(np.abs(others) >= abs(model.att_))
    assert found.p_value == pytest.approx((1 + larger) / 9)
    at = model.att_by_period_
    assert (found.by_period[0] < at)[4:].all()
    assert (found.by_period[1] > at)[4:].all()


def test_placebos_of_several_units_are_reproducible():
    Y, treated = staggered()
    model = MatrixCompletionPanel(0.7, random_state=0).fit(Y, treated)
    one, two = (model.interval("placebo", replicates=4, level=0.5) for _ in range(2))
    assert np.array_equal(one.estimates, two.estimates)
    assert one.high - one.low == pytest.approx(2 * 0.67449 * one.standard_error, rel=1e-4)


def test_placebos_without_outcomes_are_left_out():
    Y, treated = staggered(missing=0.0)
    treated[[4, 9]] = False
    Y[5, 3:], Y[6, 2:] = np.nan, np.nan
    model = MatrixCompletionPanel(0.7, random_state=0).fit(Y, treated)
    found = model.interval("placebo")
    assert len(found.estimates) == len(Y) - 3
    assert np.isfinite([found.low, found.high, found.p_value]).all()
    Y[np.arange(len(Y)) != 1, 4:] = np.nan
    Y[3, 4:] = 0.0
    model.fit(Y, treated)
    with pytest.raises(InputError, match="replicates with an effect"):
        model.interval("placebo")


def test_intervals_that_cannot_be():
    Y, treated = staggered()
    model = MatrixCompletionPanel(0.7, random_state=0).fit(Y[:4], treated[:4])
    with pytest.raises(InputError, match="'jackknife', with one treated unit"):
        model.interval("jackknife")
    with pytest.raises(InputError, match="level"):
        model.interval(level=1.0)
    with pytest.raises(InputError, match="replicates"):
        model.interval(replicates=1)
    with pytest.raises(InputError, match="method"):
        model.interval("bootstrap")
    model.fit(Y[1:3], treated[1:3] & (np.arange(10) < 5))
    with pytest.raises(InputError, match="never-treated"):
        model.interval("placebo")


def test_display(smoking):
    Y, treated = staggered()
    model = MatrixCompletionPanel(0.7, random_state=0).fit(Y, treated)
    interval = model.interval(replicates=4)
    display = EventStudyDisplay.from_estimator(model, interval=interval)
    line = display.ax_.lines[-1]
    assert line.get_ydata() == pytest.approx(model.att_by_event_time_)
    assert len(display.ax_.collections) == 1
    paths = display.plot(kind="paths").ax_
    labels = [text.get_text() for text in paths.get_legend().get_texts()]
    assert labels == ["treated units", "without treatment (model)"]
    observed, counterfactual, adoption = model.mean_paths()
    assert adoption == 4
    off = observed - counterfactual
    assert off[9] == pytest.approx(model.att_by_period_[9])
    with pytest.raises(InputError, match="kind"):
        display.plot(kind="lines")
    with pytest.raises(InputError, match="fitted MatrixCompletionPanel"):
        EventStudyDisplay.from_estimator(MatrixCompletionPanel())
    with pytest.raises(ShapeError, match="effects"):
        EventStudyDisplay(event_times=[0, 1], effects=[1.0])


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"treated": None}, InputError, "treated: got None"),
        ({"treated": np.zeros((14, 10))}, InputError, "no treated cell"),
        ({"treated": np.ones((14, 10))}, InputError, "no untreated outcome"),
        ({"treated": np.full((14, 10), 2)}, InputError, "0 and 1"),
        ({"treated": np.ones((14, 9))}, ShapeError, r"treated: got shape \(14, 9\)"),
        ({"Y": np.zeros(14)}, ShapeError, "Y: got 1 axis"),
        ({"Y": np.full((14, 10), np.inf)}, InputError, "infinite"),
        ({"Y": [["a"]]}, InputError, "not numbers"),
        ({"unit": "u"}, InputError, "treated"),
        ({"unit": "u", "treated": None}, InputError, "unit: got 'u'"),
    ],
)
def test_bad_data_are_refused(change, error, match):
    Y, treated = staggered()
    with pytest.raises(error, match=match):
        MatrixCompletionPanel(1.0).fit(**({"Y": Y, "treated": treated} | change))


def test_bad_tables_are_refused():
    table = {"u": ["a", "a", "b"], "t": [1, 1, 2], "y": [1.0, 2.0, 3.0], "d": [0, 0, 1]}
    names = {"unit": "u", "time": "t", "outcome": "y", "treatment": "d"}
    model = MatrixCompletionPanel(1.0)
    with pytest.raises(InputError, match="two rows for unit a, time 1"):
        model.fit(table, **names)
    with pytest.raises(InputError, match="give all four"):
        model.fit(table, unit="u")
    with pytest.raises(InputError, match="no order"):
        model.fit(table | {"t": [1, "x", 2]}, **names)
    frame = pd.DataFrame(np.eye(3))
    with pytest.raises(InputError, match="another index"):
        model.fit(frame, frame.set_axis([3, 4, 5], axis=0))


@pytest.mark.parametrize(
    "settings",
    [
        {"lam": 0.0},
        {"effects": "all"},
        {"cv": 1},
        {"tol": 0.0},
        {"one_standard_error": 1},
        {"persistence": 1.5},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        MatrixCompletionPanel(**settings).fit(*staggered())


def test_few_cells_need_a_weight():
    Y, treated = np.arange(12.0).reshape(4, 3), np.zeros((4, 3), dtype=bool)
    treated[0, 2] = True
    with pytest.raises(InputError, match="11 untreated outcomes"):
        MatrixCompletionPanel().fit(Y, treated)
    assert np.isfinite(MatrixCompletionPanel(0.1).fit(Y, treated).att_)


def test_is_an_estimator():
    model = clone(MatrixCompletionPanel(0.5, effects="unit"))
    assert model.get_params()["effects"] == "unit"
    for name in ("counterfactual_", "effects_", "certificate_"):
        with pytest.raises(NotFittedError):
            getattr(model, name)
    for call in (model.summary, model.interval, model.mean_paths):
        with pytest.raises(NotFittedError):
            call()
    assert "lam=0.5" in repr(model)
    model.fit(*staggered())
    assert "optimum lies between" in model._repr_html_()


def test_memory_of_a_fit_is_that_of_a_few_arrays(monkeypatch):
    monkeypatch.setattr(filled, "CLEARED", 0, raising=False)
    MatrixCompletionPanel(2.0, tol=1e-3).fit(*staggered())  # what a fit imports
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((1000, 3)) @ rng.standard_normal((3, 400))
    Y += rng.standard_normal(Y.shape)
    treated = np.arange(400) >= rng.integers(40, 800, 1000)[:, None]
    tracemalloc.start()
    model = MatrixCompletionPanel(30.0, tol=1e-3).fit(Y, treated)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.result_.certified
    assert np.shares_memory(model._data.free, model._loss.observed().values)
    assert most < 72 * (~treated).sum()


def test_wide_panels_keep_booleans_instead_of_positions():
    Y, treated = staggered()
    Y, flags = Y.copy(), treated.copy()
    model = MatrixCompletionPanel(0.7, random_state=0).fit(Y, flags)
    assert model._loss.observed().pattern.listed is None
    before = model.counterfactual_, model.effects_, model.mean_paths().observed
    Y[:], flags[:] = 0.0, False  # the model has its own copies
    after = model.counterfactual_, model.effects_, model.mean_paths().observed
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one, other, equal_nan=True)


def test_square_panels_with_many_gaps_list_their_cells():
    """Products with sparse matrices need the list."""
    rng = np.random.default_rng(0)
    Y, treated = rng.standard_normal((800, 800)), rng.random((800, 800)) < 0.7
    loss = read_panel(Y, treated, (None,) * 4).loss("both")
    assert not filled.Filled.pays(loss.observed())
    assert loss.observed().pattern.listed is not None
