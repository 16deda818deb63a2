"""One figure that shows what a run found and how it got there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import Array, is_array, to_numpy
from weakprox.plots._draw import BLUE, GREY, ORANGE, colour_limit, mark_blocks
from weakprox.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Matrix = np.ndarray[Any, np.dtype[np.floating[Any]]]

SUPPORT = 1e-2  # entries below this share of the largest are drawn as zero


def overview(
    result: Result, data: Array | None = None, labels: Sequence[str] | None = None
) -> Figure:
    """Draw the answer, its singular values, its support and the way to it.

    Parameters
    ----------
    result : Result
        What `weakprox.minimize` returned.
    data : array of shape (m, d), optional
        The matrix that was observed, drawn beside the answer.
    labels : sequence of str, optional
        One per row. Neighbours with the same label are marked as one block, on the
        columns too where X is square.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with `figure.savefig("picture.png")`.
    """
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as missing:
        hint = "overview draws with matplotlib; get it by: pip install weakprox[plot]"
        raise ModuleNotFoundError(hint, name=missing.name) from missing
    if not isinstance(result, Result):
        raise InputError("result", type(result).__name__, "what weakprox.minimize returned")
    X = np.asarray(to_numpy(result.X), dtype=float)
    M = None if data is None else _matched(data, X.shape)
    if labels is not None and len(labels) != X.shape[0]:
        raise ShapeError("labels", f"{len(labels)} of them", f"{X.shape[0]}, one per row")

    figure = plt.figure(figsize=(13.0, 7.6), layout="constrained")
    top = ["answer", "support", "sizes"] if M is None else ["data", "answer", "support"]
    low = ["run", "run", "values"] if M is None else ["run", "values", "sizes"]
    mosaic: list[Any] = [top, low]
    axes = figure.subplot_mosaic(mosaic, height_ratios=[1.25, 1.0])
    if M is not None:
        _heat_map(axes["data"], M, "the data", labels)
    _heat_map(axes["answer"], X, f"the answer, rank {result.rank}", labels)
    _support(axes["support"], X, labels)
    _convergence(axes["run"], result)
    _singular_values(axes["values"], result)
    _entry_sizes(axes["sizes"], X, M)
    m, d = X.shape
    figure.suptitle(f"{result.solver} on {m} x {d}: {result.status.label}")
    return figure


def _matched(data: Any, shape: tuple[int, ...]) -> Matrix:
    """The data as a NumPy matrix of the answer's shape."""
    if not is_array(data) or tuple(data.shape) != shape:
        given = getattr(data, "shape", type(data).__name__)
        raise ShapeError("data", given, f"an array of shape {shape}")
    return np.asarray(to_numpy(data), dtype=float)


def _heat_map(ax: Axes, X: Matrix, title: str, labels: Sequence[str] | None) -> None:
    limit = colour_limit(X)  # its own: an answer is smaller than its data by design
    image = ax.imshow(X, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="none")
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    ax.set_title(title)
    mark_blocks(ax, X.shape, labels, names=True)


def _support(ax: Axes, X: Matrix, labels: Sequence[str] | None) -> None:
    size = np.abs(X)
    nonzero = (size > SUPPORT * size.max()) & (size > 0)
    ax.imshow(nonzero, cmap="Greys", vmin=0, vmax=1.25, interpolation="none")
    ax.set_title(f"support: {nonzero.mean():.0%} of entries")
    mark_blocks(ax, X.shape, labels, names=False)
    ax.set_xlabel(f"black: above {SUPPORT:.0%} of the largest entry")


def _convergence(ax: Axes, result: Result) -> None:
    trace = result.trace
    svds, value, low = trace["svds"], trace["value"], trace["value_low_rank"]
    bound = trace["lower_bound"]
    ax.set_title("the way there")
    ax.set_xlabel("thin SVDs")
    ax.set_ylabel("estimated f" if result.sampled else "f")
    if len(trace) == 0:
        return
    ax.plot(svds, value, color=BLUE, label="iterate")
    ax.plot(svds, low, color=ORANGE, linewidth=1.0, label=f"point of rank {result.rank}")
    highest = float(value[0])
    proof = result.certificate
    if proof.proves and not result.sampled:  # the bound of an estimate is none
        proved = proof.lower_bound
        ax.step(svds, bound, where="post", color=GREY, linewidth=1.0)
        ax.axhline(proved, color=GREY, linestyle="--", label="proved lower bound")
        ax.axhspan(proved, result.value, color=GREY, alpha=0.15, linewidth=0)
    seen = np.concatenate([value, low[np.isfinite(low)]])
    reached = min(result.value, float(seen.min()))
    gap = proof.gap if proof.proves else 0.0
    height = max(highest - reached, 3.0 * gap, 1e-12 * abs(reached))
    ax.set_ylim(reached - 0.3 * height, reached + 1.1 * height)
    if svds.max() > 50 * max(svds.min(), 1.0):
        ax.set_xscale("log")
    ax.legend(fontsize="small")


def _singular_values(ax: Axes, result: Result) -> None:
    s = np.asarray(to_numpy(result.low_rank.s), dtype=float)
    ax.bar(np.arange(1, s.size + 1), s, color=BLUE)
    ax.locator_params(axis="x", integer=True)
    ax.set_title(f"singular values, sum {s.sum():.4g}")
    ax.set_xlabel("index")


def _entry_sizes(ax: Axes, X: Matrix, M: Matrix | None) -> None:
    """Share of entries above any threshold: how sparse, whatever counts as zero."""
    thresholds = np.geomspace(1e-4, 1.0, 81)
    for matrix, name, colour in ((M, "data", GREY), (X, "answer", BLUE)):
        if matrix is None:
            continue
        size = np.sort(np.abs(matrix[np.isfinite(matrix)]))
        above = size.size - np.searchsorted(size, thresholds * size[-1], side="right")
        ax.plot(thresholds, above / size.size, color=colour, label=name)
    ax.axvline(SUPPORT, color=GREY, linestyle=":", linewidth=1.0)
    ax.set_xscale("log")
    ax.set_ylim(0.0, 1.02)
    ax.set_title("share of entries above a threshold")
    ax.set_xlabel("threshold, relative to the largest entry")
    if M is not None:
        ax.legend(fontsize="small")
