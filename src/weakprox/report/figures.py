"""One figure that shows the answer of a run and its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import Array, is_array, to_numpy
from weakprox.plots import ConvergenceDisplay, MatrixDisplay, SpectrumDisplay
from weakprox.plots._display import matplotlib_for
from weakprox.plots._panels import Panel, Series, draw_panel
from weakprox.plots.spectrum import SUPPORT
from weakprox.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Matrix = np.ndarray[Any, np.dtype[np.floating[Any]]]


def overview(
    result: Result, data: Array | None = None, labels: Sequence[str] | None = None
) -> Figure:
    """Draw the answer, its singular values, its support and the history of the run.

    Parameters
    ----------
    result : Result
        What `weakprox.minimize` returned.
    data : array of shape (m, d), optional
        The matrix that was observed, drawn beside the answer.
    labels : sequence of str, optional
        One per row. Neighbours with the same label are marked as one block, on the
        columns too if X is square.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with `figure.savefig("picture.png")`.
    """
    plt = matplotlib_for("overview").pyplot
    if not isinstance(result, Result):
        raise InputError("result", type(result).__name__, "what weakprox.minimize returned")
    X = np.asarray(to_numpy(result.X), dtype=float)
    M = None if data is None else _matched(data, X.shape)
    if labels is not None and len(labels) != X.shape[0]:
        raise ShapeError("labels", f"{len(labels)} of them", f"{X.shape[0]}, one per row")

    figure: Figure = plt.figure(figsize=(13.0, 7.6), layout="constrained")
    top = ["answer", "support", "sizes"] if M is None else ["data", "answer", "support"]
    low = ["run", "run", "values"] if M is None else ["run", "values", "sizes"]
    mosaic: list[Any] = [top, low]
    axes = figure.subplot_mosaic(mosaic, height_ratios=[1.25, 1.0])
    answer = f"the answer, rank {result.rank}"
    for name, matrix, title in (("data", M, "the data"), ("answer", X, answer)):
        if matrix is not None:
            MatrixDisplay(matrix=matrix, labels=labels, title=title).plot(axes[name])
    spectrum = SpectrumDisplay(values=to_numpy(result.low_rank.s), matrix=X, labels=labels)
    spectrum.plot(axes["support"], kind="support")
    spectrum.plot(axes["values"])
    ConvergenceDisplay.from_result(result, ax=axes["run"])
    axes["run"].set_title("history of the run")
    _entry_sizes(axes["sizes"], {"data": M, "answer": X})
    m, d = X.shape
    figure.suptitle(f"{result.solver} on {m} x {d}: {result.status.label}")
    return figure


def _matched(data: Any, shape: tuple[int, ...]) -> Matrix:
    """The data as a NumPy matrix of the answer's shape."""
    if not is_array(data) or tuple(data.shape) != shape:
        given = getattr(data, "shape", type(data).__name__)
        raise ShapeError("data", given, f"an array of shape {shape}")
    return np.asarray(to_numpy(data), dtype=float)


def _entry_sizes(ax: Any, matrices: dict[str, Matrix | None]) -> None:
    """Draw the share of entries above any threshold: sparsity, whatever counts as zero."""
    thresholds, lines = np.geomspace(1e-4, 1.0, 81), []
    for name, matrix in matrices.items():
        if matrix is not None:
            size = np.sort(np.abs(matrix[np.isfinite(matrix)]))
            above = size.size - np.searchsorted(size, thresholds * size[-1], side="right")
            lines.append(Series(name, thresholds, above / size.size))
    label, title = "threshold, relative to the largest entry", "entries above a threshold"
    draw_panel(ax, Panel(lines, label, "share", title, log_x=True, y_range=(0.0, 1.02)))
    ax.axvline(SUPPORT, color="#7a7a7a", linestyle=":", linewidth=1.0)
    ax.legend(fontsize="small")
