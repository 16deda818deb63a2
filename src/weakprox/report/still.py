"""The page's plots as image files, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weakprox.errors import InputError
from weakprox.report.blocks import Figure, Panel, Panels, Picture, Series
from weakprox.report.heat import Heatmap
from weakprox.storage.atomic import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The same as --s0 to --s6 in assets/page.css.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5a5a5a")
FORMATS = ("pdf", "png", "svg")
DOTS_BELOW = 40
MOST_TICKS = 30
# Text stays text, and two runs give the same bytes.
STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "weakprox", "font.size": 9.0}


def save_figures(
    figures: Iterable[Figure], directory: Path, formats: Sequence[str]
) -> list[Path]:
    """Draw every figure into the directory, one file per format; gives the paths."""
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown or isinstance(formats, str):
        raise InputError("formats", formats, f"some of {', '.join(FORMATS)}")
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as missing:
        hint = "save_figures draws with matplotlib; get it by: pip install weakprox[plot]"
        raise ModuleNotFoundError(hint, name=missing.name) from missing
    directory.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    with mpl.rc_context(STYLE):
        for figure in figures:
            if isinstance(figure, Picture):
                path = directory / f"{figure.name}.{figure.suffix}"
                with atomic(path) as temporary:
                    temporary.write_bytes(figure.image)
                paths.append(path)
                continue
            drawn = _drawn(figure)
            for suffix in formats:
                path = directory / f"{figure.name}.{suffix}"
                undated = {"CreationDate" if suffix == "pdf" else "Date": None}
                about: dict[str, Any] = {} if suffix == "png" else undated
                with atomic(path) as temporary:
                    drawn.savefig(temporary, format=suffix, dpi=150, metadata=about)
                paths.append(path)
    return paths


def _drawn(figure: Figure) -> Any:
    from matplotlib.figure import Figure as Canvas

    if isinstance(figure, Heatmap):
        canvas = Canvas(figsize=(5.2, 4.6), layout="constrained")
        _heatmap(canvas.subplots(), figure)
    elif isinstance(figure, Panels):
        count = len(figure.panels)
        canvas = Canvas(figsize=(max(5.2, 4.2 * count), 3.6), layout="constrained")
        for ax, panel in zip(np.ravel(canvas.subplots(1, count)), figure.panels, strict=True):
            _panel(ax, panel, figure.names)
        _legend(canvas, figure)
    else:
        raise InputError("figure", type(figure).__name__, "Panels, Heatmap or Picture")
    canvas.suptitle(figure.title)
    return canvas


def _legend(canvas: Any, figure: Panels) -> None:
    """One legend for all panels, each name once."""
    found: dict[str, Any] = {}
    for ax in canvas.axes:
        handles, names = ax.get_legend_handles_labels()
        found.update(dict(zip(names, handles, strict=True)))
    if len(found) > 1:
        order = [name for name in figure.names if name in found]
        handles = [found[name] for name in order]
        canvas.legend(handles, order, loc="outside lower center", ncols=min(4, len(order)))


def _panel(ax: Axes, panel: Panel, names: Sequence[str]) -> None:
    for series in panel.series:
        _series(ax, series, names.index(series.name))
    if panel.log_x and any(np.any(one.x > 0) for one in panel.series):
        ax.set_xscale("log")
    if panel.log_y and any(np.any(one.y > 0) for one in panel.series):
        ax.set_yscale("log")
    if panel.y_range is not None:
        ax.set_ylim(*panel.y_range)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    ax.set_title(panel.title)
    ax.grid(True, alpha=0.25)


def _series(ax: Axes, one: Series, number: int) -> None:
    colour = COLOURS[number % len(COLOURS)]
    again = number // len(COLOURS) % 2 == 1  # colours used up: tell apart by dashes
    if one.low is not None:
        ax.fill_between(one.x, one.low, one.high, color=colour, alpha=0.18, linewidth=0)
    if one.stems:
        offset = 0.06 * (number - 0.5)
        ax.vlines(one.x + offset, 0, one.y, color=colour, alpha=0.55, linewidth=2)
        ax.plot(one.x + offset, one.y, "o", color=colour, markersize=4, label=one.name)
        return
    ax.plot(
        one.x,
        one.y,
        color=colour,
        linestyle="--" if one.dashed or again else "-",
        marker="." if one.x.size <= DOTS_BELOW else "",
        drawstyle="steps-post" if one.steps else "default",
        label=one.name,
    )


def _heatmap(ax: Axes, block: Heatmap) -> None:
    from matplotlib.colors import ListedColormap

    cells = np.array(block.cells, dtype=float)  # None becomes NaN
    if block.binary:
        ax.imshow(
            cells, cmap=ListedColormap(["white", "black"]), vmin=0, vmax=1, interpolation="none"
        )
    else:
        image = ax.imshow(
            np.ma.masked_invalid(cells),
            cmap="RdBu_r",
            vmin=-block.limit,
            vmax=block.limit,
            interpolation="none",
        )
        ax.figure.colorbar(image, ax=ax, shrink=0.85, extend="both")
    ax.set_facecolor("#b9b9ad")
    ax.set_aspect("auto")
    if len(block.rows) <= MOST_TICKS:
        ax.set_yticks(range(len(block.rows)), [name[:24] for name in block.rows])
    if len(block.columns) <= MOST_TICKS:
        named = [name[:24] for name in block.columns]
        ax.set_xticks(range(len(named)), named, rotation=90)
