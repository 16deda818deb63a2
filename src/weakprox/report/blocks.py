"""The figures of a page: HTML, the data that its script draws, and image files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from weakprox.plots._cells import draw_cells, draw_support, name_lines
from weakprox.plots._panels import Panel, draw_panel
from weakprox.report.markup import clean
from weakprox.storage.atomic import atomic

# No date, so that two runs give the same bytes.
FORMATS: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}}


@dataclass(frozen=True)
class Figure(ABC):
    """A block with a title, a drawing and a note; `name` is unique on the page."""

    name: str
    title: str
    note: str | None
    kind: ClassVar[str]

    @property
    def wide(self) -> bool:
        """Whether the figure takes the full width of the page."""
        return False

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """Data for the script."""

    @abstractmethod
    def save(self, directory: Path) -> list[Path]:
        """Draw with matplotlib into the directory, one file per format; return the paths."""

    def html(self) -> str:
        """The figure as HTML."""
        note = f"<p class=note>{escape(self.note)}</p>" if self.note else ""
        wide = " wide" if self.wide else ""
        return (
            f'<figure class="{self.kind}{wide}" id="{self.name}" '
            f'aria-labelledby="{self.name}-title">'
            f'<figcaption><h3 id="{self.name}-title">{escape(self.title)}</h3></figcaption>'
            f"<div class=drawing></div>{note}</figure>"
        )

    def _written(self, canvas: Any, directory: Path) -> list[Path]:
        canvas.suptitle(self.title)
        paths = []
        for suffix, about in FORMATS.items():
            paths.append(directory / f"{self.name}.{suffix}")
            with atomic(paths[-1]) as temporary:
                canvas.savefig(temporary, format=suffix, dpi=150, metadata=about)
        return paths


@dataclass(frozen=True)
class Panels(Figure):
    """A row of plots that share colours and one legend."""

    panels: tuple[Panel, ...]
    kind: ClassVar[str] = "panels"

    @property
    def names(self) -> list[str]:
        """Names of all series, each once, in order of first appearance."""
        return list(dict.fromkeys(one.name for panel in self.panels for one in panel.series))

    @property
    def wide(self) -> bool:
        return len(self.panels) > 1

    def data(self) -> dict[str, Any]:
        panels: list[Any] = clean([asdict(panel) for panel in self.panels])
        return {"kind": self.kind, "title": self.title, "names": self.names, "panels": panels}

    def save(self, directory: Path) -> list[Path]:
        """Draw the panels side by side, with one legend that has each name once."""
        from matplotlib.figure import Figure as Canvas

        count, found = len(self.panels), dict[str, Any]()
        canvas = Canvas(figsize=(max(5.2, 4.2 * count), 3.6), layout="constrained")
        for ax, panel in zip(np.ravel(canvas.subplots(1, count)), self.panels, strict=True):
            draw_panel(ax, panel, self.names)
            handles, names = ax.get_legend_handles_labels()
            found |= dict(zip(names, handles, strict=True))
        if len(found) > 1:
            order = [name for name in self.names if name in found]
            handles = [found[name] for name in order]
            canvas.legend(handles, order, loc="outside lower center", ncols=min(4, len(order)))
        return self._written(canvas, directory)


@dataclass(frozen=True)
class Heatmap(Figure):
    """A matrix in colours: diverging about zero, or black and white."""

    cells: list[list[float | int | None]]
    rows: list[str]
    columns: list[str]
    limit: float
    binary: bool
    reduced: bool
    kind: ClassVar[str] = "heatmap"

    def data(self) -> dict[str, Any]:
        names = ("kind", "title", "cells", "rows", "columns", "limit", "binary", "reduced")
        return {name: getattr(self, name) for name in names}

    def save(self, directory: Path) -> list[Path]:
        from matplotlib.figure import Figure as Canvas

        canvas = Canvas(figsize=(5.2, 4.6), layout="constrained")
        ax, cells = canvas.subplots(), np.array(self.cells, dtype=float)  # None becomes NaN
        if self.binary:
            draw_support(ax, cells)
        else:
            draw_cells(ax, cells, limit=self.limit)
        ax.set_aspect("auto")
        name_lines(ax, self.rows, self.columns)
        return self._written(canvas, directory)
