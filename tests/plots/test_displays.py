"""Displays: what they draw, on whose axes, and what they refuse."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from selection._signals import sparse_low_rank

import weakprox as wp
from weakprox import SparseLowRank, SparseLowRankCV
from weakprox.plots import (
    ConvergenceDisplay,
    EventStudyDisplay,
    MatrixDisplay,
    PathDisplay,
    SpectrumDisplay,
)

M = sparse_low_rank()[1]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def result():
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(0.3), wp.spectral.NuclearBall(15.0)
    )
    return wp.minimize(problem, progress=False)


@pytest.fixture(scope="module")
def model():
    frame = pd.DataFrame(M, columns=[f"c{k}" for k in range(M.shape[1])])
    return SparseLowRankCV(n_lams=4, n_taus=3, cv=2, random_state=0).fit(frame)


def drawn(display):
    """Render, so that whatever is wrong shows."""
    display.figure_.canvas.draw()
    return display.ax_


@pytest.mark.parametrize("kind", ["value", "gap"])
@pytest.mark.parametrize("x", ["svds", "seconds", "samples"])
def test_convergence(result, x, kind):
    display = ConvergenceDisplay.from_result(result, x=x, kind=kind)
    ax = drawn(display)
    assert "The optimum lies" in ax.get_title()
    line = next(line for line in ax.get_lines() if line.get_label() == "iterate")
    assert len(line.get_xdata()) == len(result.trace)
    if kind == "value":
        np.testing.assert_allclose(line.get_ydata(), result.trace["value"])
        low, high = ax.get_ylim()
        assert low < result.certificate.lower_bound < result.value < high
    else:
        assert ax.get_yscale() == "log"


def test_results_draw_themselves(result):
    figure, ax = plt.subplots()
    display = result.plot(ax, kind="gap")
    assert isinstance(display, ConvergenceDisplay)
    assert display.ax_ is ax
    assert display.figure_ is figure


def test_a_run_that_proves_nothing(result):
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(0.3), wp.spectral.NuclearBall(15.0)
    )
    stopped = wp.minimize(problem, max_svds=0, progress=False)
    for kind in ("value", "gap"):
        drawn(ConvergenceDisplay.from_result(stopped, kind=kind))


def test_a_display_can_be_drawn_again(result):
    display = ConvergenceDisplay.from_result(result)
    first = display.ax_
    assert display.plot() is display
    assert display.ax_ is not first


def test_singular_values_and_support(result, model):
    ax = drawn(SpectrumDisplay.from_result(result))
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, result.low_rank.s)
    ax = drawn(SpectrumDisplay.from_estimator(model, kind="support"))
    nonzero = np.asarray(ax.images[0].get_array())
    size = np.abs(np.asarray(model.matrix_))
    assert nonzero.sum() == (size > 1e-2 * size.max()).sum()


def test_matrix_of_a_model(model):
    ax = drawn(MatrixDisplay.from_estimator(model))
    np.testing.assert_allclose(ax.images[0].get_array(), model.matrix_)
    assert [label.get_text() for label in ax.get_xticklabels()][:2] == ["c0", "c1"]
    assert "SparseLowRankCV" in ax.get_title()
    display = MatrixDisplay.from_estimator(model, attribute="components_")
    assert display.matrix.shape == model.components_.shape


def test_labels_order_and_blocks():
    A = np.arange(16.0).reshape(4, 4)
    order, labels = [2, 0, 3, 1], ["b", "a", "b", "a"]
    display = MatrixDisplay(matrix=A, labels=labels, order=order).plot()
    np.testing.assert_allclose(display.matrix, A[order][:, order])
    assert display.labels == ["b", "b", "a", "a"]
    ax = drawn(display)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a"]
    assert len(ax.get_lines()) == 2  # one between rows, one between columns


def test_matrices_of_other_kinds(result):
    torch = pytest.importorskip("torch")
    import scipy.sparse as sp

    for A in (sp.eye_array(3), torch.eye(3), result.low_rank, pd.DataFrame(np.eye(3))):
        drawn(MatrixDisplay(matrix=A).plot(colorbar=False))
    drawn(MatrixDisplay.from_result(result))


@pytest.mark.parametrize("log", [False, True])
def test_path(model, log):
    display = PathDisplay.from_estimator(model, log=log)
    ax = drawn(display)
    shown = np.asarray(ax.images[0].get_array())
    assert shown.shape == (4, 3)
    assert np.unravel_index(shown.argmin(), shown.shape) == model.best_index_
    (mark,) = ax.get_lines()
    assert (mark.get_ydata()[0], mark.get_xdata()[0]) == model.best_index_
    assert f"{model.lam_:.3g}" in ax.get_title()


def test_path_of_anything():
    path = wp.selection.regularization_path(
        wp.losses.Denoising(M), [0.1, 0.3], [10.0, 15.0, 20.0]
    )
    ax = drawn(PathDisplay.from_path(path, path.ranks, name="rank"))
    assert ax.get_xlabel() == "tau"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0.3", "0.1"]


def test_paths_of_an_event_study_without_names_of_periods():
    both = {"observed": [1.0, 2.0, 4.0], "counterfactual": [1.0, 2.0, 3.0]}
    display = EventStudyDisplay(event_times=[-1, 0, 1], effects=[0.0, 0.5, 1.0], **both)
    ax = drawn(display.plot(kind="paths"))
    assert [line.get_xdata().tolist() for line in ax.lines] == [[0, 1, 2]] * 2
    plain = EventStudyDisplay(event_times=[0], effects=[1.0], observed=[1.0])
    with pytest.raises(wp.InputError, match="counterfactual"):
        plain.plot(kind="paths")


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: ConvergenceDisplay.from_result(3), "result"),
        (lambda: ConvergenceDisplay.from_estimator(SparseLowRank(random_state=0)), "estimator"),
        (lambda: SpectrumDisplay.from_result(3), "result"),
        (lambda: MatrixDisplay.from_result(3), "result"),
        (lambda: MatrixDisplay(matrix=np.eye(3), labels=["a"]), "labels"),
        (lambda: MatrixDisplay(matrix=np.eye(3), columns=["a"]), "columns"),
        (lambda: MatrixDisplay(matrix=np.eye(3), order=[0, 0, 1]), "order"),
        (lambda: MatrixDisplay(matrix=np.ones(3)), "matrix"),
        (lambda: PathDisplay.from_estimator(SparseLowRank(random_state=0)), "estimator"),
        (lambda: PathDisplay(lams=[1.0], taus=[[1.0]], scores=[[1.0, 2.0]]), "scores"),
        (lambda: PathDisplay(lams=[1.0], taus=[1.0], scores=[1.0]), "taus"),
        (lambda: MatrixDisplay(matrix=np.eye(3)).plot(ax=3), "ax"),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(wp.InputError) as caught:
        call()
    assert caught.value.argument == argument


@pytest.mark.parametrize("option", [{"x": "hours"}, {"kind": "pie"}])
def test_bad_options(result, option):
    with pytest.raises(wp.InputError):
        result.plot(**option)


def test_matplotlib_is_loaded_only_to_draw():
    import subprocess
    import sys

    code = (
        "import sys, weakprox.plots;"
        "sys.exit('matplotlib' in sys.modules or 'sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
