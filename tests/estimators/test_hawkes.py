"""HawkesInfectivity: event statistics, contrast, certificate, likelihood, conventions."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import kendalltau
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from weakprox import HawkesInfectivity, InputError
from weakprox.checks import check_gradient, check_unbiased
from weakprox.estimators import _hawkes_process as process
from weakprox.estimators import hawkes
from weakprox.selection.search import Weights

ONE = process.Kernel(np.array([1.0]), np.array([1.0]))
TWO = process.Kernel(np.array([0.3, 5.0]), np.array([0.4, 0.6]))


SPAN, NODES = 2500.0, 40


def blocks(count=NODES, seed=0, rank=9):
    """Overlapping blocks U V' in the manner of Zhou, Zha & Song, and baselines."""
    rng, step = np.random.default_rng(seed), count // (rank + 1)
    U, V = np.zeros((count, rank)), np.zeros((count, rank))
    for k in range(rank):
        rows = slice(k * step, (k + 2) * step)
        U[rows, k], V[rows, k] = rng.uniform(0, 1, (2, 2 * step))
    A = U @ V.T
    A *= 0.8 / np.abs(np.linalg.eigvals(A)).max()
    return A, rng.uniform(0.005, 0.02, count)


def drawn(A, baseline, horizon, seed=1, kernel=ONE):
    events = process.simulate(baseline, A, kernel, horizon, np.random.default_rng(seed))
    return np.column_stack([events.times, events.nodes])


@pytest.fixture(scope="module")
def record():
    A, baseline = blocks()
    X = drawn(A, baseline, SPAN)
    return A, X, HawkesInfectivity(decays=1.0, random_state=0).fit(X, period=(0, SPAN))


@parametrize_with_checks([HawkesInfectivity()])
def test_sklearn(estimator, check):
    check(estimator)


# ------------------------------------------------------------------ event statistics


def small_record(seed=0, kernel=TWO):
    rng = np.random.default_rng(seed)
    times, nodes = np.sort(rng.uniform(0, 10, 40)), rng.integers(0, 3, 40)
    times[7] = times[8]  # a tie: neither excites the other
    return process.Record(times, nodes, 3, 0.0, 10.0), kernel


def direct(events, kernel, at):
    """Kernel sums by the definition."""
    found = np.zeros((events.count, len(at)))
    for j, node in enumerate(events.nodes):
        age = at - events.times[j]
        rate = kernel.decays * np.exp(-np.multiply.outer(np.abs(age), kernel.decays))
        found[node] += rate @ kernel.shares * (age > 0)
    return found


def test_excitation_is_the_sum_over_the_past():
    events, kernel = small_record()
    at = np.r_[events.times, -1.0, 3.3, 12.0]
    assert np.allclose(process.excitation(events, kernel, at), direct(events, kernel, at))
    own = kernel.shares @ process.own_past(events, kernel.decays)
    whole = direct(events, kernel, events.times)
    assert np.allclose(own, whole[events.nodes, np.arange(40)])


def test_exposure_and_panels_integrate_the_excitation():
    events, kernel = small_record()
    exact = process.exposure(events, kernel, 2.0, 9.0)
    fine = np.linspace(2.0, 9.0, 200_001)
    middle = 0.5 * (fine[1:] + fine[:-1])
    assert np.allclose(direct(events, kernel, middle).sum(axis=1) * 7.0 / 2e5, exact, rtol=1e-3)
    inside = np.unique(events.times[(events.times > 2.0) & (events.times < 9.0)])
    breaks, found = np.r_[2.0, inside, 9.0], np.zeros(3)
    for gaps, ages, weights in process.panels(breaks, 0.1):
        points = (breaks[gaps, None] + ages).ravel()
        found += process.excitation(events, kernel, points) @ weights.ravel()
    assert np.allclose(found, exact, rtol=1e-3)


def test_simulation_has_the_rate_that_theory_gives():
    A, baseline = blocks(10, rank=2)
    events = process.simulate(baseline, A, TWO, 2e5, np.random.default_rng(0))
    expected = np.linalg.solve(np.eye(10) - A, baseline)
    assert np.allclose(events.totals / 2e5, expected, rtol=0.15)
    assert np.all(np.diff(events.times) >= 0)


def test_an_exploding_simulation_ends_with_an_error():
    with pytest.raises(InputError, match="horizon"):
        process.simulate(np.ones(2), np.eye(2), ONE, 1e4, np.random.default_rng(0), most=1000)


def test_em_steps_raise_the_likelihood():
    events, kernel = small_record()
    pulls = process.excitation(events, kernel, events.times)
    due = process.exposure(events, kernel, 0.0, 10.0)
    at = np.array([np.ones(40), pulls[events.nodes, np.arange(40)], pulls.sum(axis=0)])
    exposures = np.array([np.full(3, 10.0), due, np.full(3, due.sum())])
    sources = process.Sources(at, exposures, events.nodes, 10.0)
    factors = np.full((3, 3), 0.2)
    climbed = [sources.log_likelihood(sources.improved(factors, k)) for k in (0, 1, 5, 50)]
    assert climbed == sorted(climbed)
    assert climbed[-1] > climbed[0] + 1.0


# -------------------------------------------------------------------------- contrast


def contrasts(events, first, *edges):
    pulls = process.excitation(events, first.kernel, events.times)
    return process.contrasts(events, first, np.array(edges), pulls)


def reduced_small(free):
    events, kernel = small_record(1)
    first = process.pilot(events, kernel.decays)
    parts = contrasts(events, first, 0.0, 4.0, 10.0)
    return events, first, parts[0] + parts[1], process.Reduced.of(parts[0] + parts[1], free)


@pytest.mark.parametrize("free", [True, False])
def test_the_contrast_is_a_sound_finite_sum(free):
    loss = reduced_small(free)[3].loss
    check_gradient(loss)
    check_unbiased(loss)
    assert loss.n_terms == 3


def test_pieces_of_time_add_up():
    events, first, whole, _ = reduced_small(True)
    once = contrasts(events, first, 0.0, 10.0)[0]
    assert np.allclose(whole.gram, once.gram, rtol=1e-3)
    assert np.allclose(whole.slopes, once.slopes)


def test_the_hessian_is_the_weighted_integral(monkeypatch):
    """Against the midpoint rule on the definition, in one block of time and in several."""
    events, first, whole, _ = reduced_small(True)
    fine = np.linspace(0.0, 10.0, 200_001)
    rows = direct(events, first.kernel, 0.5 * (fine[1:] + fine[:-1]))
    total = first.baseline.sum() + (first.own + first.shared.sum()) @ rows
    rows = np.vstack([np.ones(len(total)), rows / np.sqrt(events.totals)[:, None]])
    exact = (rows * (10.0 / 2e5 / total)) @ rows.T
    assert np.allclose(whole.gram, exact, rtol=2e-3, atol=1e-4 * exact.max())
    monkeypatch.setattr(process, "CHUNK", 30)
    again = contrasts(events, first, 0.0, 4.0, 10.0)
    assert np.allclose(again[0].gram + again[1].gram, whole.gram)


@pytest.mark.parametrize("free", [True, False])
def test_reduction_is_the_minimum_over_what_was_left_out(free):
    """Against minimising the full quadratic over baselines (and the diagonal)."""
    _, _, whole, reduced = reduced_small(free)
    X = np.abs(np.random.default_rng(3).standard_normal((3, 3)))

    def full(u, rest):
        x = np.r_[rest[0], X[u]]
        x[1 + u] += rest[1] if free else 0.0
        return 0.5 * x @ whole.gram @ x - whole.slopes[u] @ x

    def best(u):
        picked = [0, 1 + u] if free else [0]
        x = np.r_[0.0, X[u]]
        gradient = (whole.gram @ x - whole.slopes[u])[picked]
        rest = -np.linalg.solve(whole.gram[np.ix_(picked, picked)], gradient)
        return full(u, np.r_[rest, 0.0][:2])

    shift = sum(best(u) for u in range(3)) - reduced.value(X)
    X = 2.0 * X[::-1]
    assert sum(best(u) for u in range(3)) - reduced.value(X) == pytest.approx(shift)


def test_the_fit_solves_its_problem():
    """Against CVXPY on the same contrast, with X >= 0 as a constraint."""
    cvxpy = pytest.importorskip("cvxpy")
    A, baseline = blocks(10, rank=2)
    data = drawn(A, baseline, 3000.0)
    model = HawkesInfectivity(
        1.0, 1.2, decays=1.0, self_excitation=False, tol=1e-6, random_state=0
    )
    model.fit(data, period=(0, 3000.0))
    first = process.pilot(model._events, np.array([1.0]))
    whole = contrasts(model._events, first, 0.0, 3000.0)[0]
    reduced = process.Reduced.of(whole, False)
    X = cvxpy.Variable((10, 10))
    root = np.linalg.cholesky(reduced.gram)
    value = 0.5 * cvxpy.sum_squares(X @ root) - cvxpy.sum(cvxpy.multiply(reduced.slopes, X))
    value += reduced.noise(len(data)) * cvxpy.sum(X) + reduced.ridge * cvxpy.sum_squares(X)
    limits = [X >= 0, cvxpy.norm(X, "nuc") <= 1.2]
    best = cvxpy.Problem(cvxpy.Minimize(value), limits).solve(solver="CLARABEL")
    assert model.result_.certified
    assert model.result_.value == pytest.approx(best, rel=1e-4)
    assert np.linalg.norm(model.result_.X - X.value) <= 0.02 * np.linalg.norm(X.value)


# ------------------------------------------------------------------------- the model


def test_what_is_learnt(record):
    A, _, model = record
    assert model.infectivity_.shape == A.shape
    assert model.infectivity_.min() >= 0.0
    assert np.mean(model.infectivity_ == 0.0) > 0.2
    assert model.result_.certified
    assert np.isfinite(model.certificate_.gap)
    assert 0.0 < model.spectral_radius_ < 1.0
    assert model.baseline_.min() > 0.0
    assert model.rank_ == model.result_.rank
    tried = model.cv_results_
    assert len(tried["split4_test_score"]) == len(tried["mean_test_score"])
    # weights from 0 on until two in a row bring no gain; clearly worse ones are left out
    lams = np.unique(tried["param_lam"])
    assert lams[0] == 0.0
    first = int(np.argmax(tried["mean_test_score"]))
    assert (tried["param_lam"][first], tried["param_tau"][first]) == (model.lam_, model.tau_)
    assert list(hawkes.LAMS).index(lams[-1]) <= hawkes.LAMS.index(model.lam_) + hawkes.PATIENCE


def test_the_search_finds_the_best_radius_of_a_weight(record):
    """Against all radii of the weight chosen, each a search of its own."""
    _, X, model = record
    settings = {"decays": model.decay_, "random_state": 0}
    near = {}
    for share in (0.5, 1.0, 2.0):
        one = HawkesInfectivity(tau=share * model.tau_, **settings).fit(X, period=(0, SPAN))
        tried = one.cv_results_
        near[share] = tried["mean_test_score"][tried["param_lam"] == model.lam_].max()
    assert max(near, key=near.get) == 1.0
    assert model.tau_edge_ is None


def test_tau_matters_after_the_refit(record):
    """Factors of rows, which are refined at last, cannot undo the bound."""
    A, X, model = record
    settings = {"decays": model.decay_, "random_state": 0}
    tight, loose = (
        HawkesInfectivity(model.lam_, tau, **settings).fit(X, period=(0, SPAN))
        for tau in (0.2 * model.tau_, 2.0 * model.tau_)
    )
    off = ~np.eye(len(A), dtype=bool)

    def rows(fitted):
        """Rows without the diagonal, of sum one."""
        found = np.where(off, fitted.infectivity_, 0.0)
        return found / np.maximum(found.sum(axis=1, keepdims=True), 1e-12)

    assert np.abs(rows(tight) - rows(loose)).sum() > 0.2 * len(A)
    assert tight.rank_ < loose.rank_
    assert abs(tight.log_likelihood_ - loose.log_likelihood_) > 1e-3
    tried = model.cv_results_
    here = tried["mean_test_score"][tried["param_lam"] == model.lam_]
    assert np.ptp(here) > 1e-3


@pytest.mark.parametrize("edge", ["smallest", None, "largest"])
def test_the_edge_of_the_grid_is_told(edge, monkeypatch):
    """A search that takes the candidate of a given place on its line."""
    line = [Weights(0.0, tau) for tau in (1.0, 2.0, 5.0)]
    place = ["smallest", None, "largest"].index(edge)
    monkeypatch.setattr(HawkesInfectivity, "_choose", lambda *_, **__: (line[place], line))
    times = np.sort(np.random.default_rng(2).uniform(0, 9, 120))
    X = np.column_stack([times, np.arange(120) % 3])
    model = HawkesInfectivity(decays=1.0, random_state=0).fit(X)
    assert model.tau_ == line[place].tau
    assert model.tau_edge_ == edge


def test_the_old_name_of_cv_still_works():
    times = np.sort(np.random.default_rng(2).uniform(0, 9, 120))
    X = np.column_stack([times, np.arange(120) % 3])
    with pytest.warns(DeprecationWarning, match="folds is now called cv"):
        old = HawkesInfectivity(decays=1.0, folds=2, random_state=0).fit(X)
    new = HawkesInfectivity(decays=1.0, cv=2, random_state=0).fit(X)
    assert np.array_equal(old.infectivity_, new.infectivity_)
    assert "split1_test_score" in new.cv_results_
    assert "split2_test_score" not in new.cv_results_


@pytest.mark.long
def test_both_terms_beat_either_alone(record):
    """Zhou, Zha & Song in shape: rank correlation of rows with the truth."""
    A, X, both = record

    def correlation(model):
        pairs = zip(A, model.infectivity_, strict=True)
        return np.mean([kendalltau(a, b).statistic for a, b in pairs])

    settings = ({"tau": None}, {"lam": 0.0}, {"lam": 0.0, "tau": None})
    for alone in settings:
        model = HawkesInfectivity(decays=1.0, **alone, random_state=0).fit(X, period=(0, SPAN))
        assert correlation(both) > correlation(model) + 0.02


def test_score_is_the_log_likelihood_given_the_past(record):
    _, X, model = record
    later = drawn(*blocks(), 200.0, seed=7)
    later[:, 0] += SPAN
    stop = SPAN + 200.0
    found = model.score(later, period=(SPAN, stop))
    events = process.Record(X[:, 0], X[:, 1].astype(int), NODES, 0.0, SPAN)
    extra = process.Record(later[:, 0], later[:, 1].astype(int), NODES, SPAN, stop)
    pulls = direct(events.then(extra), ONE, later[:, 0])
    nodes = later[:, 1].astype(int)
    rates = model.baseline_[nodes] + np.sum(pulls.T * model.infectivity_[nodes], axis=1)
    due = process.exposure(events.then(extra), ONE, SPAN, stop)
    expected = 200.0 * model.baseline_.sum() + (model.infectivity_ @ due).sum()
    assert found == pytest.approx((np.log(rates).sum() - expected) / len(later))


def test_held_out_score_beats_poisson_and_no_penalty(record):
    _, X, model = record
    other = drawn(*blocks(), SPAN, seed=8)
    counts = np.bincount(X[:, 1].astype(int), minlength=NODES) / SPAN
    poisson = (np.log(counts[other[:, 1].astype(int)]).sum() - SPAN * counts.sum()) / len(other)
    plain = HawkesInfectivity(0.0, None, decays=1.0, random_state=0).fit(X, period=(0, SPAN))
    score = model.score(other, period=(0, SPAN))
    assert score > poisson + 0.1
    assert score > plain.score(other, period=(0, SPAN)) + 0.02


def test_cross_validation_in_the_order_of_time(record):
    model, folds = HawkesInfectivity(1.0, 1.0, decays=1.0), TimeSeriesSplit(2)
    X = record[1][:1500]
    frame = pd.DataFrame({"time": X[:, 0], "node": [f"node {k}" for k in X[:, 1]]})
    expected = [
        clone(model).fit(frame.iloc[k]).score(frame.iloc[u]) for k, u in folds.split(frame)
    ]
    np.testing.assert_allclose(cross_val_score(model, frame, cv=folds), expected)
    search = GridSearchCV(model, {"lam": [0.5, 1.0]}, cv=folds, error_score="raise").fit(frame)
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(np.mean(expected))


def test_training_score_is_the_attribute(record):
    _, X, model = record
    assert model.score(X, period=(0, SPAN)) == pytest.approx(model.log_likelihood_)


def test_intensity(record):
    _, _, model = record
    at = np.array([0.0, 3.7, SPAN + 1.0])
    rates = model.intensity(at)
    assert rates.shape == (3, NODES)
    assert np.allclose(rates[0], model.baseline_)
    pulls = direct(model._events, ONE, at)
    assert np.allclose(rates, model.baseline_ + (model.infectivity_ @ pulls).T)
    assert np.allclose(model.intensity(3.7), rates[1])


def test_simulate_gives_records_that_fit_takes(record):
    _, _, model = record
    one, two = (model.simulate(200.0, random_state=3) for _ in range(2))
    assert np.array_equal(one, two)
    assert one.shape[1] == 2
    assert one[:, 0].max() <= 200.0
    drawn = [model.simulate(50.0, random_state=np.random.default_rng(3)) for _ in range(2)]
    assert np.array_equal(*drawn)
    HawkesInfectivity(1.0, 1.0, decays=1.0, random_state=0).fit(one)


def test_automatic_decays_find_the_time_scales():
    A, baseline = np.full((2, 2), 0.35), np.full(2, 0.05)
    X = drawn(A, baseline, 8000.0, kernel=process.Kernel(np.array([2.0]), np.array([1.0])))
    model = HawkesInfectivity(random_state=0).fit(X, period=(0, 8000.0))
    assert np.sum(model.mixture_) == pytest.approx(1.0)
    near = (model.decay_ > 0.2) & (model.decay_ < 20.0)
    assert model.mixture_[near].sum() > 0.8
    assert np.allclose(model.infectivity_, A, atol=0.12)


# --------------------------------------------------------------------------- inputs


def test_labels_of_frames(record):
    _, X, model = record
    names = np.array([f"n{int(code):02d}" for code in X[:, 1]])
    for frame in (pd.DataFrame, pl.DataFrame):
        data = frame({"when": X[:, 0], "where": names})
        found = HawkesInfectivity(model.lam_, model.tau_, decays=1.0, random_state=0).fit(
            data, period=(0, SPAN)
        )
        assert list(found.nodes_[:2]) == ["n00", "n01"]
        assert list(found.feature_names_in_) == ["when", "where"]
        assert np.allclose(found.infectivity_, model.infectivity_, atol=1e-3)
        assert found.score(data, period=(0, SPAN)) == pytest.approx(
            model.log_likelihood_, abs=1e-3
        )


def test_several_label_columns_make_one_node():
    rng = np.random.default_rng(0)
    times, cells = np.sort(rng.uniform(0, 9, 60)), rng.integers(0, 2, (60, 2))
    model = HawkesInfectivity(1.0, 1.0, decays=1.0, random_state=0).fit(
        np.column_stack([times, cells])
    )
    assert model.nodes_.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    flat = np.column_stack([times, 2 * cells[:, 0] + cells[:, 1]])
    other = HawkesInfectivity(1.0, 1.0, decays=1.0, random_state=0).fit(flat)
    assert np.allclose(model.infectivity_, other.infectivity_)
    assert model.simulate(5.0, random_state=0).shape[1] == 3


def test_order_of_rows_does_not_matter():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.uniform(0, 9, 60), rng.integers(0, 3, 60)])
    one = HawkesInfectivity(1.0, 1.0, decays=1.0, random_state=0).fit(X)
    two = HawkesInfectivity(1.0, 1.0, decays=1.0, random_state=0).fit(X[rng.permutation(60)])
    assert np.array_equal(one.infectivity_, two.infectivity_)


def test_one_column_is_one_node():
    times = np.sort(np.random.default_rng(2).uniform(0, 9, 50))[:, None]
    model = HawkesInfectivity(random_state=0).fit(times)
    assert model.infectivity_.shape == (1, 1)
    assert model.simulate(3.0, random_state=0).shape[1] == 1


def test_clone_and_pickle(record):
    _, X, model = record
    again = pickle.loads(pickle.dumps(model))
    assert again.score(X, period=(0, SPAN)) == model.score(X, period=(0, SPAN))
    assert clone(model).get_params() == model.get_params()
    assert "weakprox-certificate" in model._repr_html_()


TABLE = np.column_stack([np.arange(12.0), np.arange(12) % 2])


@pytest.mark.parametrize(
    "settings",
    [
        {"lam": -1.0},
        {"lam": "some"},
        {"tau": 0.0},
        {"tau": "large"},
        {"decays": "quick"},
        {"decays": [1.0, -1.0]},
        {"decays": []},
        {"decays": [1.0, 1.0]},
        {"self_excitation": "yes"},
        {"cv": 1},
        {"cv": 2.5},
        {"tol": 0.0},
    ],
)
def test_bad_settings(settings):
    with pytest.raises(InputError):
        HawkesInfectivity(**settings, random_state=0).fit(TABLE)


@pytest.mark.parametrize("period", [(3.0, 20.0), (0.0, 5.0), (5.0, 5.0), 7.0, (0.0, "end")])
def test_bad_periods(period):
    with pytest.raises(InputError):
        HawkesInfectivity(random_state=0).fit(TABLE, period=period)


def test_bad_records():
    with pytest.raises(ValueError, match="minimum of 2"):
        HawkesInfectivity(random_state=0).fit(TABLE[:1])
    with pytest.raises(InputError, match="period"):
        HawkesInfectivity(random_state=0).fit(np.ones((5, 2)))
    with pytest.raises(ValueError, match="NaN"):
        HawkesInfectivity(random_state=0).fit(np.where(TABLE == 3.0, np.nan, TABLE))
    mixed = np.array([[0.0, "a"], [1.0, 2.0], [2.0, "a"]], dtype=object)
    with pytest.raises(InputError, match="nodes"):
        HawkesInfectivity(random_state=0).fit(mixed)


def test_bad_questions(record):
    _, X, model = record
    with pytest.raises(NotFittedError):
        HawkesInfectivity(random_state=0).score(X)
    with pytest.raises(InputError, match="seen in fit"):
        model.score(np.array([[SPAN + 1, 99.0]]), period=(SPAN, SPAN + 2))
    with pytest.raises(InputError, match="times"):
        model.intensity([[1.0, 2.0]])
    with pytest.raises(InputError, match="horizon"):
        model.simulate(-1.0)


def test_independent_nodes_do_not_excite_each_other():
    rng = np.random.default_rng(0)
    times = np.sort(rng.random(600)) * 100
    record = np.column_stack([times, rng.integers(0, 8, 600)])
    model = HawkesInfectivity(decays=1.0, cv=3, random_state=0).fit(record)
    assert model.lam_ == 0.0
    assert model.tau_edge_ == "smallest"
    others = model.infectivity_ - np.diag(np.diag(model.infectivity_))
    assert others.max() < 1e-3
