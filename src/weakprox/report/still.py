"""The plots of a page as image files, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.errors import InputError
from weakprox.plots._cells import draw_cells, draw_support, name_lines
from weakprox.plots._display import matplotlib_for
from weakprox.plots._panels import draw_panel
from weakprox.report.blocks import Figure, Heatmap, Panels, Picture
from weakprox.storage.atomic import atomic

FORMATS = ("pdf", "png", "svg")
# Text stays text, and two runs give the same bytes.
STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "weakprox", "font.size": 9.0}


def save_figures(
    figures: Iterable[Figure], directory: Path, formats: Sequence[str]
) -> list[Path]:
    """Draw every figure into the directory, one file per format, and return the paths."""
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown or isinstance(formats, str):
        raise InputError("formats", formats, f"some of {', '.join(FORMATS)}")
    mpl = matplotlib_for("save_figures")
    directory.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    with mpl.rc_context(STYLE):
        for figure in figures:
            if isinstance(figure, Picture):
                paths.append(directory / f"{figure.name}.{figure.suffix}")
                with atomic(paths[-1]) as temporary:
                    temporary.write_bytes(figure.image)
                continue
            drawn = _drawn(figure)
            for suffix in formats:
                paths.append(directory / f"{figure.name}.{suffix}")
                undated = {"CreationDate" if suffix == "pdf" else "Date": None}
                about: dict[str, Any] = {} if suffix == "png" else undated
                with atomic(paths[-1]) as temporary:
                    drawn.savefig(temporary, format=suffix, dpi=150, metadata=about)
    return paths


def _drawn(figure: Figure) -> Any:
    from matplotlib.figure import Figure as Canvas

    if isinstance(figure, Heatmap):
        canvas = Canvas(figsize=(5.2, 4.6), layout="constrained")
        ax, cells = canvas.subplots(), np.array(figure.cells, dtype=float)  # None becomes NaN
        if figure.binary:
            draw_support(ax, cells)
        else:
            draw_cells(ax, cells, limit=figure.limit)
        ax.set_aspect("auto")
        name_lines(ax, figure.rows, figure.columns)
    elif isinstance(figure, Panels):
        count = len(figure.panels)
        canvas = Canvas(figsize=(max(5.2, 4.2 * count), 3.6), layout="constrained")
        for ax, panel in zip(np.ravel(canvas.subplots(1, count)), figure.panels, strict=True):
            draw_panel(ax, panel, figure.names)
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
