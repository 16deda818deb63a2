"""What the displays share: axes to draw on, colours, and a matrix as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from weakprox.errors import InputError, ShapeError

Matrix = np.ndarray[Any, np.dtype[np.floating[Any]]]

BLUE, ORANGE, GREY = "#20639b", "#d1603d", "#7a7a7a"
MOST_TICKS = 30


def axes_on(ax: Any) -> tuple[Any, Any]:
    """Figure and axes to draw on: the user's, or new ones."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as missing:
        hint = "weakprox.plots draws with matplotlib; get it by: pip install weakprox[plot]"
        raise ModuleNotFoundError(hint, name=missing.name) from missing
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    elif not hasattr(ax, "imshow"):
        raise InputError("ax", type(ax).__name__, "matplotlib Axes, or None")
    return ax.figure, ax


def as_matrix(name: str, X: Any) -> Matrix:
    """Numbers as a NumPy matrix, whatever they came as."""
    dense = getattr(X, "toarray", None) or getattr(X, "dense", None)
    values = dense() if dense is not None else X
    detached = getattr(values, "detach", None)
    host = np.asarray(values if detached is None else detached().cpu(), dtype=float)
    if host.ndim != 2 or host.size == 0:
        raise ShapeError(name, host.shape, "a matrix")
    return host


def fitted_result(model: Any) -> Any:
    """The result of a fitted model, or a typed error."""
    result = getattr(model, "result_", None)
    if result is None:
        what = f"{type(model).__name__} without result_"
        raise InputError("estimator", what, "a fitted model of weakprox.estimators")
    return result


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """The value if it is one of the choices."""
    if value not in choices:
        raise InputError(name, repr(value), f"one of {', '.join(map(repr, choices))}")
    return str(value)


def colour_limit(X: Matrix) -> float:
    """A colour range that a few huge entries, a diagonal say, cannot wash out."""
    size = np.abs(X[np.isfinite(X)])
    high = float(np.quantile(size, 0.99)) if size.size else 0.0
    return high or float(size.max(initial=0.0)) or 1.0


def mark_blocks(
    ax: Any, shape: tuple[int, ...], labels: Sequence[str] | None, *, names: bool
) -> None:
    """Lines between runs of equal labels, one name in the middle of each run."""
    ax.set_xticks([])
    ax.set_yticks([])
    if labels is None:
        return
    runs = [(name, len(list(run))) for name, run in groupby(labels)]
    ends = np.cumsum([length for _, length in runs])
    middles = ends - [(length + 1) / 2 for _, length in runs]
    if len(runs) > MOST_TICKS:
        return
    if names:
        ax.set_yticks(middles, [str(name) for name, _ in runs], fontsize="small")
        ax.tick_params(length=0)
    if len(runs) < shape[0]:  # lines between single rows would hide the picture
        for end in ends[:-1]:
            ax.axhline(end - 0.5, color=GREY, linewidth=0.5)
            if shape[0] == shape[1]:
                ax.axvline(end - 0.5, color=GREY, linewidth=0.5)
