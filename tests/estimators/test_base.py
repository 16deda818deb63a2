"""What all models share: searches, limits, seeds, callbacks and displays."""

import inspect
from functools import partial

import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse
import sklearn
from selection._signals import sparse_low_rank
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from weakprox import (
    HawkesInfectivity,
    InputError,
    LinkPredictor,
    MatrixCompletion,
    MatrixCompletionPanel,
    ReducedRankRegressor,
    RobustPCA,
    SparseLowRank,
    SparseLowRankCovariance,
    SparseLowRankCV,
    SparseLowRankImputer,
    Status,
    SubspaceClustering,
    TraceClassifier,
    TraceRegression,
    TraceRegressionCV,
    estimators,
)
from weakprox.estimators import _base as base
from weakprox.estimators._base import CALLBACKS, Certified
from weakprox.linalg import threads

M = sparse_low_rank()[1]
new = pytest.mark.skipif(not CALLBACKS, reason="scikit-learn before 1.9 has no callbacks")


class Recorder:
    """Counts what it hears of; ends the run after `most` looks."""

    def __init__(self, most=None):
        self.most, self.heard, self.values = most, [], []

    def setup(self, estimator, context):
        self.heard.append("setup")

    def teardown(self, estimator, context):
        self.heard.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, metadata=None):
        self.heard.append(f"end {context.task_name}")
        if context.task_name == "look":
            self.values.append(metadata["value"])
        return self.most is not None and len(self.values) >= self.most


@new
def test_callbacks_hear_of_every_look():
    recorder = Recorder()
    model = SparseLowRank(0.3, 15.0, random_state=0).set_callbacks(recorder).fit(M)
    assert recorder.heard[:2] == ["setup", "begin fit"]
    assert recorder.heard[-2:] == ["end fit", "teardown"]
    assert recorder.heard.count("end look") == len(model.result_.trace)
    np.testing.assert_allclose(recorder.values, model.result_.trace["value"])


@new
def test_a_callback_can_end_a_fit():
    model = (
        SparseLowRank(0.3, 15.0, tol=1e-9, random_state=0)
        .set_callbacks(Recorder(most=2))
        .fit(M)
    )
    assert model.result_.status is Status.CALLBACK
    assert np.isfinite(model.matrix_).all()


@new
def test_callbacks_are_torn_down_after_errors():
    recorder = Recorder()
    with pytest.raises(ValueError, match="lam"):
        SparseLowRank(lam=-1.0, random_state=0).set_callbacks(recorder).fit(M)
    assert recorder.heard[-1] == "teardown"


class Propagated(Recorder):
    """The same, handed on by pipelines, as scikit-learn's own progress bar is."""

    max_propagation_depth = None


@new
def test_pipelines_hand_callbacks_on():
    recorder = Propagated()
    pipe = make_pipeline(
        StandardScaler(), SparseLowRank(0.1, 15.0, random_state=0)
    ).set_callbacks(recorder)
    model = pipe.fit(M)[-1]
    assert recorder.heard.count("setup") == recorder.heard.count("teardown") == 1
    assert recorder.heard.count("end look") == len(model.result_.trace)
    assert not hasattr(model, "_skl_callbacks")


def test_without_callbacks_nothing_is_said(capsys):
    SparseLowRank(0.3, 15.0, random_state=0).fit(M)
    assert capsys.readouterr() == ("", "")


def test_grid_search_works():
    search = GridSearchCV(
        SparseLowRank(tau=15.0, random_state=0),
        {"lam": [0.1, 0.4]},
        cv=[(np.arange(40), np.arange(40))],
    )
    assert search.fit(M).best_params_["lam"] in (0.1, 0.4)


@pytest.mark.parametrize("name", ["plain", "<script>alert(1)</script>"])
def test_notebooks_show_the_certificate(name):
    frame = pd.DataFrame(M, columns=[f"{name} {k}" for k in range(M.shape[1])])
    model = SparseLowRank(0.3, 15.0, random_state=0)
    before = model._repr_mimebundle_()["text/html"]
    assert "weakprox-certificate" not in before
    model.fit(frame)
    for shown in (model._repr_mimebundle_()["text/html"], model._repr_html_()):
        assert "The optimum lies between" in shown
        assert "<script>alert" not in shown
        assert shown.count("weakprox-certificate") == 1
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_models_draw_themselves():
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    model = SparseLowRankCV(n_lams=3, n_taus=3, cv=2, random_state=0).fit(M)
    display = model.plot()
    assert "optimum" in display.ax_.get_title()
    plt.close("all")


RNG = np.random.default_rng(0)
GRAPH = np.triu(RNG.random((40, 40)) < 0.3, 1)
TREATED = np.zeros(M.shape, dtype=bool)
TREATED[:5, -8:] = True
BLOCK = np.outer(np.arange(30) < 4, np.arange(20) > 15)
EVENTS = np.column_stack([np.sort(RNG.uniform(0, 60, 300)), RNG.integers(0, 4, 300)])
SEARCHES = {
    "denoising": (SparseLowRank, {}, (M,)),
    "grid": (SparseLowRankCV, {"n_lams": 3, "n_taus": 3, "cv": 2}, (M,)),
    "covariance": (SparseLowRankCovariance, {"cv": 2}, (M,)),
    "imputer": (SparseLowRankImputer, {}, (np.where(M > 0.8, np.nan, M),)),
    "links": (LinkPredictor, {}, ((GRAPH | GRAPH.T).astype(float),)),
    "regression": (TraceRegression, {"cv": 2}, (M, M[:, 0] + M[:, 1])),
    "regression grid": (TraceRegressionCV, {"cv": 2, "lams": [0.1, 0.2]}, (M, M[:, 0])),
    "events": (HawkesInfectivity, {"cv": 2, "decays": 1.0}, (EVENTS,)),
    "outliers": (RobustPCA, {"lam": "cv"}, (M,)),
    "ratings": (MatrixCompletion, {"cv": 2}, (np.where(M > 0.8, np.nan, M),)),
    "panel": (MatrixCompletionPanel, {"cv": 2}, (M, TREATED)),
    "responses": (ReducedRankRegressor, {"cv": 2}, (M[:, 6:], M[:, :6])),
    "classes": (TraceClassifier, {"cv": 2}, (M, M[:, 0] > 0.0)),
}
# settings of candidates that are no parameters
QUANTITIES = {
    "covariance": {"kind", "shrinkage", "rank", "share", "standard_errors"},
    "denoising": {"scale"},
    "grid": {"scale", "rank", "nonzeros"},
    "imputer": {"nuclear", "share"},
    "links": {"nuclear", "zeroed", "refit"},
    "outliers": {"multiple"},
    "ratings": {"rank"},
}
# models that are searched by other parameters than those of the candidates
SEARCHED = {SparseLowRankCV: SparseLowRank, TraceRegressionCV: TraceRegression}


def with_limits(model, data):
    """The fitted model, and the time limits of its solves."""
    limits, real = set(), base.minimize

    def spy(*args, **settings):
        limits.add(settings["max_seconds"])
        return real(*args, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "minimize", spy)
        return model.fit(*data), limits


@pytest.fixture(scope="module", params=SEARCHES)
def searching(request):
    kind, settings, data = SEARCHES[request.param]
    return kind(random_state=0, **settings), data


@pytest.fixture(scope="module")
def free(searching):
    """A fit without a time limit."""
    found, limits = with_limits(clone(searching[0]), searching[1])
    assert limits == {None}
    return found


def test_shared_parts_of_docstrings_are_filled_in(searching):
    text = inspect.getdoc(type(searching[0]))
    assert "{max_seconds" not in text
    assert "{cv_results_}" not in text
    assert "{result_" not in text
    assert "{rank}" not in text
    assert "max_seconds" in text
    assert "cv_results_" in text


def test_the_table_has_every_model_that_searches_by_held_out_data():
    names = {kind.__name__ for kind, _, _ in SEARCHES.values()}
    assert names | {"SubspaceClustering"} == set(estimators.__all__)


def test_searches_are_documented_alike(free, request):
    table = free.cv_results_
    settings = {name for name in table if not name.endswith(("_test_score", "_split"))}
    settings.remove("params")
    names = [name for name in table if name.startswith("param_")]
    rows = zip(*(table[name].tolist() for name in names), strict=True)
    for found, row in zip(table["params"], rows, strict=True):
        np.testing.assert_equal(found, dict(zip((n[6:] for n in names), row, strict=True)))
    wanted = QUANTITIES.get(request.node.callspec.params["searching"], set())
    assert {name for name in settings if not name.startswith("param_")} == wanted
    known = SEARCHED.get(type(free), type(free))().get_params()
    assert {name[6:] for name in settings - wanted} <= set(known)
    mean = table["mean_test_score"]
    assert len({len(column) for column in table.values()}) == 1
    splits = [table[name] for name in table if name.startswith("split")]
    np.testing.assert_allclose(np.mean(splits, axis=0), mean)
    np.testing.assert_allclose(np.std(splits, axis=0), table["std_test_score"], atol=1e-12)
    assert table["rank_test_score"][np.argmax(mean)] == 1


SHRUNK = [name for name, (kind, _, _) in SEARCHES.items() if hasattr(kind, "debias")]


@pytest.mark.parametrize("value", [False, True, "auto"])
@pytest.mark.parametrize("searching", SHRUNK, indirect=True)
def test_debias_takes_the_same_values_everywhere(searching, value):
    model, data = clone(searching[0]), searching[1]
    model.set_params(debias=value, max_seconds=20.0).fit(*data)
    with pytest.raises(InputError, match="debias"):
        model.set_params(debias="refit").fit(*data)


RANKED = [name for name, (kind, _, _) in SEARCHES.items() if hasattr(kind, "rank")]


def test_models_that_find_a_rank_take_a_limit():
    assert {"imputer", "responses", "regression", "classes", "regression grid"} < set(RANKED)


@pytest.mark.parametrize("searching", RANKED, indirect=True)
def test_a_rank_is_a_limit_everywhere(searching, free):
    model, data = clone(searching[0]), searching[1]
    assert model.set_params(rank=1).fit(*data).result_.rank <= 1
    assert model.set_params(rank=10**6).fit(*data).result_.rank == free.result_.rank
    with pytest.raises(InputError, match="rank"):
        model.set_params(rank=0).fit(*data)


def test_a_time_limit_includes_the_search(searching, free):
    """With no time at all, one candidate is tried and every solve ends at once."""
    model, data = searching
    with pytest.warns(ConvergenceWarning, match="out of time"):
        hurried, limits = with_limits(clone(model).set_params(max_seconds=0.0), data)
    assert limits == {0.0}
    scores = hurried.cv_results_["split0_test_score"]
    assert np.isfinite(scores).sum() == 1 < len(free.cv_results_["split0_test_score"])
    assert np.isfinite(hurried.result_.X).all()
    with pytest.raises(InputError, match="max_seconds"):
        clone(model).set_params(max_seconds=-1.0).fit(*data)


def test_parameters_are_alike():
    positional = {"lam", "tau", "lams", "taus", "n_clusters"}
    for kind in (getattr(estimators, name) for name in estimators.__all__):
        given = inspect.signature(kind).parameters
        defaults = {name: one.default for name, one in given.items()}
        free = {name for name, one in given.items() if one.kind is not one.KEYWORD_ONLY}
        assert free <= positional
        for name in ("max_seconds", "random_state"):
            assert defaults[name] is None
        assert defaults["verbose"] is False
        assert ("cv" in given) == ("one_standard_error" in given)
        assert defaults.get("one_standard_error", "auto") == "auto"
        assert given.keys() >= {"tol"}


def noisy(seed):
    """A matrix of rank one with much noise."""
    rng = np.random.default_rng(seed)
    u, v = rng.standard_normal(30), rng.standard_normal(20)
    return np.outer(u, v) + 2.0 * rng.standard_normal((30, 20))


def unclear(X, seed):
    return X[:, 0] + 3.0 * np.random.default_rng(seed).standard_normal(len(X))


def correlated():
    rng = np.random.default_rng(2)
    return rng.standard_normal((20, 10)) * (1 + rng.random(10)) + rng.standard_normal((20, 1))


def independent():
    rng = np.random.default_rng(0)
    return np.column_stack([np.sort(rng.uniform(0, 60, 300)), rng.integers(0, 4, 300)])


# settings, data that leave the choice open, and a key that is smaller for simpler models
SIMPLE = {
    SparseLowRank: ({}, (noisy(3),), lambda m: m.kind_ == "both"),
    SparseLowRankCV: ({"n_lams": 4, "n_taus": 4, "cv": 3}, (noisy(3),), lambda m: m.rank_),
    SparseLowRankCovariance: (
        {"average": False, "scoring": "distance"},
        (correlated(),),
        lambda m: m.kind_ != "Ledoit-Wolf",
    ),
    SparseLowRankImputer: ({}, SEARCHES["imputer"][2], lambda m: m.tau_),
    LinkPredictor: ({}, ((noisy(1) > 1.5).astype(float),), lambda m: m.tau_),
    TraceRegression: ({}, (noisy(3), unclear(noisy(3), 3)), lambda m: m.tau_),
    TraceRegressionCV: ({}, (noisy(3), unclear(noisy(3), 3)), lambda m: m.tau_),
    TraceClassifier: ({}, (noisy(1), unclear(noisy(1), 1) > 0.0), lambda m: m.tau_),
    HawkesInfectivity: ({"decays": 1.0, "cv": 3}, (independent(),), lambda m: m.tau_),
    RobustPCA: ({"lam": "cv"}, (noisy(1),), lambda m: -m.lam_),
    MatrixCompletion: ({"cv": 2}, SEARCHES["ratings"][2], lambda m: m.rank_),
    MatrixCompletionPanel: ({"cv": 3}, (noisy(1), BLOCK), lambda m: -m.lam_),
    ReducedRankRegressor: ({}, (noisy(1)[:, 8:], noisy(1)[:, :8]), lambda m: m.rank_),
}


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize("kind", SIMPLE, ids=lambda kind: kind.__name__)
def test_the_rule_of_one_standard_error_prefers_simple_models(kind):
    settings, data, size = SIMPLE[kind]
    fits = [
        kind(one_standard_error=rule, random_state=0, **settings).fit(*data)
        for rule in (True, False)
    ]
    assert size(fits[0]) < size(fits[1])


@pytest.mark.parametrize("kind", SIMPLE, ids=lambda kind: kind.__name__)
def test_the_rule_of_one_standard_error_is_checked(kind):
    settings, data, _ = SIMPLE[kind]
    with pytest.raises(InputError, match="one_standard_error"):
        kind(one_standard_error="yes", **settings).fit(*data)


def test_every_model_takes_every_kind_of_random_state(searching):
    model, data = searching
    for state in (np.random.RandomState, np.random.default_rng):
        fits = [clone(model).set_params(random_state=state(5)).fit(*data) for _ in range(2)]
        one, two = (fit.cv_results_["mean_test_score"] for fit in fits)
        np.testing.assert_array_equal(one, two)
    with pytest.raises(InputError, match="random_state"):
        clone(model).set_params(random_state=-1).fit(*data)


@pytest.mark.parametrize(
    ("model", "data", "new"),
    [
        (TraceRegression(lam1=0.1, tau=5.0, lam2=0.1), (M, M[:, 0]), {"lam": 0.1}),
        (TraceRegressionCV(lam1s=[0.1], taus=[5.0], lam2=0.1), (M, M[:, 0]), {"lams": [0.1]}),
        (
            TraceRegressionCV(taus=[3.0, 5.0], rule="one_se", cv=2),
            (M, M[:, 0]),
            {"one_standard_error": True},
        ),
        (HawkesInfectivity(folds=2, decays=1.0), (EVENTS,), {"cv": 2}),
    ],
)
def test_old_names_of_parameters_work_with_a_warning(model, data, new):
    model = model.set_params(random_state=0)
    default = type(model)().get_params()
    given = {k: v for k, v in model.get_params().items() if default[k] == "deprecated"}
    fresh = clone(model).set_params(**dict.fromkeys(given, "deprecated"), **new).fit(*data)
    with pytest.warns(DeprecationWarning, match=f"now called {next(iter(new))}"):
        model.fit(*data)
    assert (model.lam_, model.tau_) == (fresh.lam_, fresh.tau_)


def test_random_state_follows_scikit_learn():
    kind, data = partial(SparseLowRank, lam=0.2, noise=0.5), M[:20, :15]
    fits = [kind(random_state=None).fit(data).scale_ for _ in range(3)]
    assert len(set(fits)) > 1  # fresh randomness
    for state in (np.random.RandomState, np.random.default_rng):
        one, two = (kind(random_state=state(5)).fit(data).scale_ for _ in range(2))
        assert one == two
    shared = np.random.RandomState(0)
    one, two = (kind(random_state=shared).fit(data).scale_ for _ in range(2))
    assert one != two
    for bad in (-1, "zero", 1.5):
        with pytest.raises(InputError, match="random_state"):
            kind(random_state=bad).fit(data)


def test_an_unfitted_model_has_no_certificate():
    with pytest.raises(ValueError, match="before it is fitted"):
        _ = SparseLowRank(random_state=0).certificate_


UNFITTED = [
    (SparseLowRank, ("transform", "score", "plot")),
    (SparseLowRankCV, ("transform", "score", "plot")),
    (RobustPCA, ("transform", "plot")),
    (ReducedRankRegressor, ("predict", "score", "plot")),
    (MatrixCompletion, ("predict", "recommend", "plot")),
    (MatrixCompletionPanel, ("interval", "mean_paths", "summary", "plot")),
    (SubspaceClustering, ("plot",)),
    (TraceRegressionCV, ("predict", "score")),
    (TraceClassifier, ("predict", "predict_proba", "predict_log_proba", "decision_function")),
    (SparseLowRankCovariance, ("score", "mahalanobis", "error_norm", "get_precision")),
    (SparseLowRankImputer, ("transform",)),
    (TraceRegression, ("predict", "score")),
    (HawkesInfectivity, ("score", "intensity", "simulate")),
    (LinkPredictor, ("score_pairs", "predict_proba", "recommend")),
]


@pytest.mark.parametrize(("kind", "methods"), UNFITTED)
def test_unfitted_use_is_refused(kind, methods):
    for name in methods:
        if not hasattr(kind(), name):  # of those that depend on the fit
            continue
        call = getattr(kind(), name)
        names = inspect.signature(call).parameters.values()
        needed = [
            one for one in names if one.default is one.empty and one.kind is not one.VAR_KEYWORD
        ]
        with pytest.raises(NotFittedError):
            call(*[M for _ in needed])


@pytest.mark.parametrize(
    ("model", "data", "grid"),
    [
        (SparseLowRank(0.1, 20.0), (M,), {"lam": [0.0, 0.2]}),
        (SparseLowRankCovariance(0.1, 5.0), (M,), {"lam": [0.0, 0.2]}),
        (TraceRegression(0.1, None, lam2=0.1), (M, M[:, 0] + M[:, 1]), {"lam": [0.01, 0.2]}),
        (HawkesInfectivity(1.0, None, decays=1.0), (EVENTS,), {"lam": [0.0, 2.0]}),
        (SparseLowRankCV([0.1, 0.3], [15.0, 30.0]), (M,), {"lams": [[0.0], [0.2]]}),
        (ReducedRankRegressor(0.1, ridge=0.1), (M[:, 2:], M[:, :2]), {"lam": [0.01, 0.2]}),
        (TraceRegressionCV([0.1], [5.0]), (M, M[:, 0] + M[:, 1]), {"lams": [[0.01], [0.2]]}),
        (TraceClassifier(0.1, 5.0, lam2=0.1), (M, M[:, 0] > 0.0), {"lam": [0.01, 0.2]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_score_can_be_cross_validated(model, data, grid):
    model = model.set_params(random_state=0)
    scores = cross_val_score(model, *data, cv=3, error_score="raise")
    assert np.isfinite(scores).all()
    assert is_classifier(model) or len(set(scores)) == 3
    found = GridSearchCV(model, grid, cv=2, error_score="raise").fit(*data)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()


DAYS = pd.date_range("2020", periods=len(M))


@pytest.mark.parametrize(
    "column", [DAYS, DAYS - DAYS[0], DAYS.tz_localize("UTC"), DAYS.date, DAYS.astype(object)]
)
def test_dates_among_numbers_are_refused(column):
    frame = pd.DataFrame(M[:, :3], columns=list("abc")).assign(day=column)
    for model in (SparseLowRank(), SparseLowRankCovariance(), SparseLowRankImputer()):
        with pytest.raises(InputError, match="X: got dates or durations"):
            model.fit(frame)


def test_text_is_shown_as_such():
    with pytest.raises(InputError, match="y: got the text 'low'; wanted numbers"):
        TraceRegression().fit(M, np.full(len(M), "low"))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_warnings_point_at_the_call(method):
    model = SparseLowRank(0.3, 15.0, max_seconds=0.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="out of time") as caught:
        getattr(model, method)(M)
    assert caught[0].filename == __file__


def test_messages_about_x_and_y_name_the_fault():
    """Other faults than missing responses are not hidden behind them."""
    X = np.random.default_rng(0).standard_normal((30, 12))
    with pytest.raises(TypeError, match="Sparse data was passed for y"):
        TraceRegression(shape=(3, 4)).fit(X, scipy.sparse.csr_matrix(X[:, :1]))
    with pytest.raises(InputError, match="X: got the text 'a'"):
        RobustPCA().fit([["a", "b"], ["c", "d"]], [None, "x"])
    with pytest.raises(ValueError, match="2-dimensional container"):
        LinkPredictor().fit(pd.Series([1.0, 2.0]))


def test_columns_of_arrow_tables_have_names():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"u": rng.integers(0, 8, 60), "v": rng.integers(0, 7, 60)})
    frame["r"] = rng.standard_normal(60)
    model = MatrixCompletion(lam=1.0).fit(frame, row="u", col="v", value="r")
    swapped = pyarrow.table({"v": [3, 4], "u": [1, 2]})
    np.testing.assert_array_equal(model.predict(swapped), model.predict([1, 2], [3, 4]))


@pytest.mark.parametrize(
    ("model", "folds"),
    [
        (SparseLowRank(random_state=0), 3),
        (RobustPCA("cv", random_state=0), 2),
        (LinkPredictor(random_state=0), 2),
        (SparseLowRankImputer(blend=False, random_state=0), 12),
        (SparseLowRankImputer(blend=False, random_state=0), 2),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, int) else str(x),
)
def test_cv_sets_the_number_of_folds(model, folds):
    rng = np.random.default_rng(0)
    X = np.outer(rng.standard_normal(30), rng.standard_normal(24)) + 0.3
    X += 0.1 * rng.standard_normal(X.shape)
    if isinstance(model, LinkPredictor):
        X = (X > 0.5).astype(float)
    found = model.set_params(cv=folds).fit(X).cv_results_
    assert {name for name in found if name.startswith("split")} == {
        f"split{k}_test_score" for k in range(folds)
    }
    for wrong in (1, 2.5, "most"):
        with pytest.raises(InputError, match="cv"):
            model.set_params(cv=wrong).fit(X)


@pytest.mark.parametrize(("shape", "kind"), [((40, 30), "one"), ((1300, 1300), "all")])
def test_small_data_are_fitted_with_one_thread_of_blas(shape, kind):
    """Its threads wait by spinning, which many short calls pay for beside other work."""

    class Probe(Certified):
        max_seconds = random_state = None

        def fit(self, X, y=None):
            self.kind_ = threads._kind_here()
            return self

    assert Probe().fit(np.zeros(shape)).kind_ == kind
    assert threads._kind_here() is None


@pytest.mark.parametrize("model", [SparseLowRankImputer(), RobustPCA(), SparseLowRank()])
def test_masked_entries_are_not_read_as_numbers(model):
    masked = np.ma.masked_less(M, 0.0)
    with pytest.raises(InputError, match=r"masked array.*X\.filled\(np\.nan\)"):
        model.fit(masked)


def test_a_mask_without_masked_entries_changes_nothing():
    plain = SparseLowRank(lam=0.5, tau=5.0).fit(M)
    masked = SparseLowRank(lam=0.5, tau=5.0).fit(np.ma.array(M))
    assert masked.result_.value == plain.result_.value
