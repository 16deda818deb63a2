"""Natural mistakes: each ends in a typed error whose message contains the fix."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import weakprox as wp
from weakprox import losses, penalties, spectral
from weakprox.errors import ArgumentError

rng = np.random.default_rng(0)
M = rng.standard_normal((12, 8))
HOLES = np.where(M > 1.0, np.nan, M)
LOSS, PENALTY, BALL = losses.Denoising(M), penalties.L1(0.1), spectral.NuclearBall(3.0)
PROBLEM = wp.Problem(LOSS, PENALTY, BALL)
RATINGS = pd.DataFrame({"user": ["a", "b"], "film": ["x", "y"], "stars": [1.0, 2.0]})
TIMES = [[0.1, 0.5, 2.0], [1.0, 3.0]]


def distance(X):
    return 0.5 * np.sum((X - M) ** 2)


# name: what a user writes, the error, and the words that put it right
MISTAKES = {
    "a matrix for the loss": (
        lambda: wp.Problem(M, PENALTY, BALL),
        wp.InputError,
        ["a matrix (ndarray of 12 x 8)", "losses.Denoising(M)"],
    ),
    "a frame for the loss": (
        lambda: wp.Problem(pd.DataFrame(M), PENALTY, BALL),
        wp.InputError,
        ["DataFrame", "losses.Denoising(M)"],
    ),
    "penalty and spectral term swapped": (
        lambda: wp.Problem(LOSS, BALL, PENALTY),
        wp.InputError,
        ["NuclearBall, a spectral term", f"Problem({LOSS!r}, {PENALTY!r}, {BALL!r})"],
    ),
    "all terms in another order": (
        lambda: wp.Problem(PENALTY, BALL, LOSS),
        wp.InputError,
        ["L1, a penalty", f"Problem({LOSS!r}, {PENALTY!r}, {BALL!r})"],
    ),
    "no place for a missing penalty": (
        lambda: wp.Problem(LOSS, BALL),
        ArgumentError,
        ["no argument 'spectral'", "Problem(loss, None, spectral)"],
    ),
    "a nuclear norm as the penalty": (
        lambda: wp.Problem(LOSS, spectral.NuclearNorm(1.0), None),
        wp.InputError,
        ["a spectral term", "NuclearNorm(lam=1.0))"],
    ),
    "a weight instead of a penalty": (
        lambda: wp.Problem(LOSS, 0.1, BALL),
        wp.InputError,
        ["the number 0.1", "penalties.L1(0.1)", "None"],
    ),
    "a radius instead of a ball": (
        lambda: wp.Problem(LOSS, PENALTY, 3.0),
        wp.InputError,
        ["the number 3.0", "spectral.NuclearBall(3.0)"],
    ),
    "a class instead of an object": (
        lambda: wp.Problem(LOSS, penalties.L1, BALL),
        wp.InputError,
        ["the class L1", "L1(...)"],
    ),
    "minimize of a matrix": (
        lambda: wp.minimize(M),
        wp.InputError,
        ["wp.losses.Denoising(M)", "wp.minimize(problem)", "wp.SparseLowRank().fit(M)"],
    ),
    "minimize of terms": (
        lambda: wp.minimize(LOSS, PENALTY, BALL),
        ArgumentError,
        ["3 arguments by position", "wp.Problem(loss, penalty, spectral)"],
    ),
    "a solver given twice": (
        lambda: wp.minimize(PROBLEM, "davis-yin", solver="davis-yin"),
        ArgumentError,
        ["got 'solver' both by position and by name", "each argument once"],
    ),
    "a term without members": (
        lambda: wp.Problem(LOSS, object(), BALL),
        wp.InputError,
        ["smoothability", "see docs/extend.md"],
    ),
    "no observations": (
        lambda: wp.losses.Completion([], [], np.zeros(0), (3, 2)),
        wp.ShapeError,
        ["values", "one axis, not empty"],
    ),
    "minimize of a loss": (
        lambda: wp.minimize(LOSS),
        wp.InputError,
        ["Denoising, a loss", "wp.Problem(loss, penalty, spectral)"],
    ),
    "plan of a matrix": (lambda: wp.plan(M), wp.InputError, ["wp.Problem("]),
    "a misspelt argument": (
        lambda: wp.minimize(PROBLEM, max_second=3),
        ArgumentError,
        ["'max_second'", '"max_seconds"'],
    ),
    "another library's word": (
        lambda: wp.minimize(PROBLEM, tolerance=1e-3),
        ArgumentError,
        ["'tolerance'", '"tol"'],
    ),
    "a misspelt argument of a term": (
        lambda: penalties.L1(lamb=0.1),
        ArgumentError,
        ["'lamb'", '"lam"'],
    ),
    "a misspelt argument of a model": (
        lambda: wp.SparseLowRank(lamb=1.0),
        ArgumentError,
        ["'lamb'", '"lam"'],
    ),
    "a misspelt solver": (
        lambda: wp.minimize(PROBLEM, "davis-yn"),
        wp.InputError,
        ['"davisyin"', "svrgcg"],
    ),
    "an unknown solver": (
        lambda: wp.minimize(PROBLEM, solver="lbfgs"),
        wp.InputError,
        ["one of auto", "davisyin", "fista"],
    ),
    "a gradient of the wrong size": (
        lambda: losses.Custom(M.shape, value=distance, grad=lambda X: 2.0 * (X - M)),
        wp.InputError,
        ["slope", "weakprox.checks.check_gradient(loss)"],
    ),
    "a gradient of the wrong sign": (
        lambda: losses.Custom(M.shape, value=distance, grad=lambda X: M - X),
        wp.InputError,
        ["slope", "weakprox.checks.check_gradient(loss)"],
    ),
    "missing entries": (
        lambda: losses.Denoising(HOLES),
        wp.InputError,
        ["NaN", "losses.Completion", "SparseLowRankImputer"],
    ),
    "a matrix for Completion": (
        lambda: losses.Completion(HOLES),
        ArgumentError,
        ["Completion.from_dense(M)", "MatrixCompletion().fit(M)"],
    ),
    "text in a frame": (
        lambda: losses.Denoising(pd.DataFrame({"gene": ["a", "b"], "x": [1.0, 2.0]})),
        wp.InputError,
        ["'gene'", "the index of the frame"],
    ),
    "a file name instead of an array": (
        lambda: losses.Denoising("noisy.csv"),
        wp.InputError,
        ["weakprox.storage.read_matrix(path).dense()"],
    ),
    "an array for a weight": (
        lambda: penalties.L1(np.ones(30000)),
        wp.InputError,
        ["an array of shape (30000,)", "a finite number >= 0"],
    ),
    "times of each node in a list": (
        lambda: wp.HawkesInfectivity().fit(TIMES),
        wp.InputError,
        ["(time, node)", "np.column_stack([np.concatenate(X)"],
    ),
    "both accuracies": (
        lambda: wp.minimize(PROBLEM, eps=1.0, tol=0.1),
        wp.InputError,
        ["only one of them"],
    ),
    "a term sought in the wrong place": (
        lambda: wp.L1(1.0),
        AttributeError,
        ["weakprox.penalties.L1"],
    ),
    "British spelling": (lambda: wp.minimise(PROBLEM), AttributeError, ["weakprox.minimize"]),
    "a matrix that is not symmetric": (
        lambda: wp.Problem(losses.Denoising(M[:8]), None, spectral.TracePSD(1.0)),
        wp.InputError,
        ["(M + M.T) / 2"],
    ),
    "missing entries in a model": (
        lambda: wp.SparseLowRank().fit(HOLES),
        wp.InputError,
        ["NaN", "SparseLowRankImputer", "MatrixCompletion"],
    ),
    "text in the responses of a model": (
        lambda: wp.TraceRegression(0.1, 1.0).fit(np.eye(4), np.array(list("abab"), object)),
        wp.InputError,
        ["y: got the text 'a'"],
    ),
    "text in the frame of a model": (
        lambda: wp.SparseLowRank().fit(pd.DataFrame({"gene": ["a", "b"], "x": [1.0, 2.0]})),
        wp.InputError,
        ["the text 'a'", "the index of the frame"],
    ),
    "a long table without the names of its columns": (
        lambda: wp.MatrixCompletion().fit(RATINGS),
        wp.InputError,
        ["'user', 'film', 'stars'", "row=..., col=..., value=..."],
    ),
    "a path over a matrix": (
        lambda: wp.selection.regularization_path(M),
        wp.InputError,
        ["a matrix (ndarray of 12 x 8)", "losses.Denoising(M)"],
    ),
    "a report that is no web page": (
        lambda: wp.minimize(PROBLEM).report("report.pdf"),
        wp.InputError,
        ["'.pdf'", ".html"],
    ),
    "SciPy's name of the solution": (
        lambda: wp.minimize(PROBLEM).x,
        AttributeError,
        ["result.X"],
    ),
    "factors as attributes": (
        lambda: wp.minimize(PROBLEM).U,
        AttributeError,
        ["result.factors"],
    ),
    "a result instead of its problem": (
        lambda: wp.minimize(wp.minimize(PROBLEM)),
        wp.InputError,
        ["resume=result", "start=result"],
    ),
    "verify in the wrong order": (
        lambda: wp.verify(PROBLEM, wp.minimize(PROBLEM).proof),
        wp.InputError,
        ["verify(proof, problem)"],
    ),
    "a loss without its value": (
        lambda: losses.Custom(M.shape, grad=lambda X: X - M),
        ArgumentError,
        ["no argument 'value'", "Custom(shape, value=..., grad=...)"],
    ),
    "a start outside the ball": (
        lambda: wp.minimize(PROBLEM, start=M),
        wp.InputError,
        ["outside the set", "a feasible point"],
    ),
    "a frame as the start": (
        lambda: wp.minimize(PROBLEM, start=pd.DataFrame(0.0 * M)),
        wp.InputError,
        ["start: got DataFrame", "an array of shape (12, 8)"],
    ),
    "a frame with gaps in columns that can have them": (
        lambda: losses.Denoising(pd.DataFrame(HOLES).astype("Float64")),
        wp.InputError,
        ["NaN", "losses.Completion"],
    ),
    "an array times a penalty": (
        lambda: np.ones(3) * penalties.L1(1.0),
        wp.InputError,
        ["an array of shape (3,)", "a finite number >= 0"],
    ),
    "the value of a result": (
        lambda: PROBLEM.value(wp.minimize(PROBLEM)),
        wp.InputError,
        ["Result", "result.low_rank"],
    ),
    "a weight to be chosen by a term": (
        lambda: penalties.L1("auto"),
        wp.InputError,
        ["lam: got 'auto'", "SparseLowRank"],
    ),
    "numbers as text": (
        lambda: losses.Denoising(np.array([["1", "2"], ["3", "4"]])),
        wp.InputError,
        ["M.astype(float)"],
    ),
    "thousands separators": (
        lambda: wp.SparseLowRank().fit(pd.DataFrame({"a": ["1,000", "2,500"], "b": [1, 2]})),
        wp.InputError,
        ["the text '1,000'", "thousands=','"],
    ),
    "a column of dates": (
        lambda: losses.Denoising(pd.DataFrame({"t": pd.date_range("2020", periods=2), "a": 1})),
        wp.InputError,
        ["'t'", "the index of the frame"],
    ),
    "positions that count from one": (
        lambda: losses.Completion([1, 3], [1, 2], [1.0, 2.0], (3, 3)),
        wp.InputError,
        ["indices from 1 to 3", "subtract 1"],
    ),
    "ids for positions": (
        lambda: losses.Completion(["a", "b"], ["x", "y"], [1.0, 2.0], (2, 2)),
        wp.InputError,
        ["rows", "MatrixCompletion().fit(rows, cols, values)"],
    ),
    "a Huber loss by name": (
        lambda: losses.Denoising(M, loss="huber"),
        wp.InputError,
        ["losses.Huber(k)"],
    ),
    "a list of penalties": (
        lambda: wp.Problem(LOSS, [PENALTY, penalties.GroupL2(0.2)], BALL),
        wp.InputError,
        ["a list of penalties", "L1(lam=0.1) + GroupL2(lam=0.2, groups='rows')"],
    ),
    "a file to resume from": (
        lambda: wp.minimize(PROBLEM, resume="run.safetensors"),
        wp.InputError,
        ["resume", "checkpoint=path"],
    ),
    "a path over a problem": (
        lambda: wp.selection.regularization_path(PROBLEM),
        wp.InputError,
        ["a Problem", "problem.loss"],
    ),
    "a path of observed entries over all": (
        lambda: wp.selection.observed_path(LOSS),
        wp.InputError,
        ["Denoising", "losses.Completion", "regularization_path"],
    ),
    "samples of different shapes": (
        lambda: wp.SparseLowRank().fit([M, M[:5]]),
        wp.InputError,
        ["X: got lists of different lengths", "one shape"],
    ),
    "responses of different lengths": (
        lambda: wp.ReducedRankRegressor().fit(M, [[1.0], *[[1.0, 2.0]] * (len(M) - 1)]),
        wp.InputError,
        ["y: got lists of different lengths", "one shape"],
    ),
    "a tolerance of more than everything": (
        lambda: wp.minimize(PROBLEM, tol=5),
        wp.InputError,
        ["tol: got 5", "< 1"],
    ),
    "a model's tolerance of more than everything": (
        lambda: wp.SparseLowRank(tol=5).fit(M),
        wp.InputError,
        ["tol: got 5", "< 1"],
    ),
    "responses that are missing": (
        lambda: wp.ReducedRankRegressor().fit(M, HOLES),
        wp.InputError,
        ["y: got NaN", "leave out the rows"],
    ),
    "an estimate before the fit": (
        lambda: wp.SparseLowRank().matrix_,
        AttributeError,
        ["matrix_", "call fit first"],
    ),
    "predictions of a denoiser": (
        lambda: wp.SparseLowRank(0.1, 3.0).fit(M).predict(M),
        AttributeError,
        ["use transform"],
    ),
    "a list of edges": (
        lambda: wp.LinkPredictor().fit([(0, 1), (1, 2), (2, 3), (0, 3)]),
        wp.InputError,
        ["4 pairs of integers", "coo_array", "as floats"],
    ),
    "a data set that there is not": (
        lambda: wp.datasets.load_votes(),
        AttributeError,
        ["load_un_votes"],
    ),
    "verify of a result": (
        lambda: wp.verify(wp.minimize(PROBLEM), PROBLEM),
        wp.InputError,
        ["result.proof"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_contains_the_fix(name):
    call, kind, words = MISTAKES[name]
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message
    assert len(message) < 900


@pytest.mark.parametrize("name", ["a misspelt argument", "no place for a missing penalty"])
def test_wrong_calls_are_type_errors_too(name):
    with pytest.raises(TypeError, match="wanted"):
        MISTAKES[name][0]()


def test_an_error_inside_a_right_call_is_left_alone():
    def callback(look):
        return len(3)

    with pytest.raises(TypeError, match="has no len"):
        wp.minimize(PROBLEM, callback=callback)


def test_the_fix_for_ragged_times_works():
    X = np.column_stack([np.concatenate(TIMES), np.repeat(np.arange(2), [*map(len, TIMES)])])
    assert wp.HawkesInfectivity(decays=1.0).fit(X).infectivity_.shape == (2, 2)


def one_entry_wrong(X):
    found = X - M
    found[3, 4] *= 1.1
    return found


def wrong_far_from_zero(X):
    return np.clip(X, -1.0, 1.0) - M


def wrong_near_zero(X):
    return np.where(np.abs(X) < 0.05, 0.0, X - M)


@pytest.mark.parametrize(
    "grad",
    [lambda X: 1.001 * (X - M), one_entry_wrong, wrong_far_from_zero, wrong_near_zero],
    ids=["one per mille too large", "one entry", "far from zero", "near zero"],
)
def test_slightly_wrong_gradients_are_refused(grad):
    with pytest.raises(wp.InputError, match="check_gradient"):
        losses.Custom(M.shape, value=distance, grad=grad)


@pytest.mark.parametrize("term", range(3))
def test_a_wrong_gradient_of_one_term_is_refused(term):
    centres = np.stack([M, 2.0 * M, -M])

    def value(X, i):
        return 0.5 * float(np.mean(np.sum((X - centres[i]) ** 2, axis=(1, 2))))

    def grad(X, i):
        return np.mean((X - centres[i]) * np.where(i == term, 1.1, 1.0)[:, None, None], axis=0)

    with pytest.raises(wp.InputError, match="check_gradient"):
        losses.Custom(M.shape, value=value, grad=grad, n_terms=3)


@pytest.mark.parametrize(
    "kind", [np.float64, np.float32], ids=["double precision", "single precision"]
)
def test_right_gradients_are_accepted(kind):
    near = M.astype(kind)
    loss = losses.Custom(
        M.shape,
        value=lambda X: float(np.sum(np.log(np.cosh(X - near)))),
        grad=lambda X: np.tanh(X - near),
        like=near,
    )
    assert loss.shape == M.shape


def test_functions_need_not_be_defined_everywhere():
    def value(X):
        if np.abs(X).max() < 0.5:
            raise ValueError("too near to zero")
        return distance(X)

    assert losses.Custom(M.shape, value=value, grad=lambda X: X - M).shape == M.shape


def test_kinks_are_accepted():
    loss = losses.Custom(
        M.shape,
        value=lambda X: float(np.sum(np.maximum(X - M, 0.0))),
        grad=lambda X: (X > M).astype(float),
    )
    assert loss.shape == M.shape


FRAME = pd.DataFrame(
    M, index=[f"row {i}" for i in range(12)], columns=[f"column {j}" for j in range(8)]
)


def solved(data):
    return wp.minimize(wp.Problem(losses.Denoising(data), PENALTY, BALL), tol=1e-3)


def test_frames_are_data_and_keep_their_labels():
    result = solved(FRAME)
    assert result.labels == (list(FRAME.index), list(FRAME.columns))
    np.testing.assert_allclose(result.X, solved(M).X, atol=1e-12)


def test_polars_frames_have_names_of_columns_only():
    result = solved(pl.DataFrame(M, schema=list(FRAME.columns)))
    assert result.labels == (None, list(FRAME.columns))


def test_positions_are_no_labels():
    assert solved(pd.DataFrame(M)).labels == (None, None)


def test_nullable_and_mixed_columns_are_numbers():
    frame = pd.DataFrame({"a": pd.array([1, 2, 3], dtype="Int64"), "b": [0.5, 1.5, 2.5]})
    frame["c"] = pd.Series([1, 2, 3], dtype=object)
    loss = losses.Denoising(frame)
    np.testing.assert_array_equal(loss.target, frame.astype(float).to_numpy())


def test_gaps_of_nullable_columns_are_missing():
    frame = pd.DataFrame(HOLES).astype("Float64")
    found = losses.Completion.from_dense(frame)
    assert found.n_terms == np.isfinite(HOLES).sum()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_np_matrix_is_an_array():
    result = solved(np.matrix(M))
    assert type(result.X) is np.ndarray
    np.testing.assert_allclose(result.X, solved(M).X, atol=1e-12)


def test_long_descriptions_are_shortened():
    error = wp.InputError("x", "1, " * 10_000 + "end", "less")
    assert len(str(error)) < 500
    assert "end; wanted less" in str(error)
