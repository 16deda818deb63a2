"""A page of text, tables and plots in one HTML file that needs no network.

Blocks appear in the order of the calls, under the current section. All text is escaped. NaN and
infinities appear as gaps in a plot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from weakprox.arguments import positive
from weakprox.plots import _cells as cells
from weakprox.plots._display import canvas_of, matplotlib_for
from weakprox.plots._panels import Panel, Series, draw_panel
from weakprox.report import markup, mathml
from weakprox.storage.atomic import atomic

# Text in pictures stays text, and two runs give the same bytes.
STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "weakprox", "font.size": 9.0}
# No date, so that two runs give the same bytes.
FORMATS: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}}
DIGITS = 5  # digits of an entry of a heat map: enough to read, and pages stay small


@dataclass(frozen=True)
class Figure(ABC):
    """A block with a title, a drawing and a note; `name` is unique on the page."""

    name: str
    title: str
    note: str | None
    kind: ClassVar[str]

    @property
    def wide(self) -> bool:
        """True if the figure takes the full width of the page."""
        return False

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """Data for the script."""

    @abstractmethod
    def save(self, directory: Path) -> list[Path]:
        """Draw with matplotlib into the directory, one file per format; return the paths."""

    def html(self) -> str:
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
    """A row of plots with common colours and one legend."""

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
        panels: list[Any] = markup.clean([asdict(panel) for panel in self.panels])
        return {"kind": self.kind, "title": self.title, "names": self.names, "panels": panels}

    def save(self, directory: Path) -> list[Path]:
        """Draw the panels side by side, with one legend that has each name once."""
        count, found = len(self.panels), dict[str, Any]()
        canvas = canvas_of(max(5.2, 4.2 * count), 3.6)
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
    linked: str = ""  # heat maps of one name zoom together
    kind: ClassVar[str] = "heatmap"

    def data(self) -> dict[str, Any]:
        names = ("kind", "title", "cells", "rows", "columns", "limit", "binary", "reduced")
        return {name: getattr(self, name) for name in (*names, "linked")}

    def save(self, directory: Path) -> list[Path]:
        canvas = canvas_of(5.2, 4.6)
        ax, matrix = canvas.subplots(), np.array(self.cells, dtype=float)  # None becomes NaN
        if self.binary:
            cells.draw_support(ax, matrix)
        else:
            cells.draw_cells(ax, matrix, limit=self.limit)
        ax.set_aspect("auto")
        cells.name_lines(ax, self.rows, self.columns)
        return self._written(canvas, directory)


class Page:
    """A report page: text, tables and plots that are drawn in the reader's browser.

    The file contains its data, style and script and loads nothing. Plots show their values
    under the pointer, zoom and offer their data as CSV.
    """

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title = str(title)
        self.subtitle = str(subtitle)
        self._sections: list[tuple[str, str, list[str | Figure]]] = []
        self._names: set[str] = {"report-data", "top"}
        self._attached: dict[str, Any] = {}

    @property
    def figures(self) -> list[Figure]:
        """The plots so far, in order."""
        return [b for _, _, blocks in self._sections for b in blocks if isinstance(b, Figure)]

    def section(
        self, title: str, text: str | Iterable[str] = (), *, math: bool = False
    ) -> None:
        """Start a section with paragraphs of text."""
        self._sections.append((self._name(title), str(title), []))
        self.text(text, math=math)

    def text(self, paragraphs: str | Iterable[str], *, math: bool = False) -> None:
        """Paragraphs of text; with `math`, formulas in TeX stand between dollars."""
        for paragraph in [paragraphs] if isinstance(paragraphs, str) else paragraphs:
            words = mathml.typeset(paragraph) if math else escape(str(paragraph))
            self._add(f'<p class="text wide">{words}</p>')

    def formulas(self, parts: Iterable[tuple[str, str]]) -> None:
        """Words, each followed by a formula in TeX; on a narrow screen below each other."""
        inner = "".join(
            f"<span>{escape(words)} {mathml.formula(tex, display=True)}</span>"
            for words, tex in parts
        )
        self._add(f'<p class="formulas wide">{inner}</p>')

    def letters(self, meanings: Iterable[tuple[str, str]]) -> None:
        """The meaning of the symbols in a formula, each in TeX with its meaning in words."""
        said = "; ".join(f"{mathml.formula(tex)} is {escape(text)}" for tex, text in meanings)
        if said:
            self._add(f'<p class="text wide">{said}.</p>')

    def code(self, text: str) -> None:
        """Preformatted text, to be copied."""
        self._add(f"<pre class=wide>{escape(text)}</pre>")

    def notice(self, text: str, kind: str = "plain", heading: str = "") -> None:
        """A framed statement: "good", "plain", "warning" or "bad"."""
        strong = f"<strong>{escape(heading)}</strong> " if heading else ""
        self._add(f'<p class="notice {kind} wide" role=note>{strong}{escape(text)}</p>')

    def facts(self, facts: Mapping[str, Any], kind: str = "") -> None:
        """Names with their values, those of the kind "key" in a box; None appears as a dash."""
        items = "".join(
            f"<div><dt>{escape(str(key))}</dt><dd>{markup.cell_html(value)}</dd></div>"
            for key, value in facts.items()
        )
        names = " ".join(filter(None, ("facts", kind, "wide")))
        self._add(f'<dl class="{names}">{items}</dl>')

    def table(
        self,
        headers: Sequence[Any],
        rows: Iterable[Sequence[Any]],
        caption: str = "",
        note: str | None = None,
        *,
        math: bool = False,
        stacked: bool = False,
    ) -> None:
        """A table; columns of numbers are aligned to the right, None appears as a dash.

        With `math`, caption and note have formulas in TeX between dollars. If `stacked`, the
        cells of a row are below each other on a phone, so that long ones need no scrolling.
        """
        cells = [list(row) for row in rows]
        how = {"math": math, "stacked": stacked}
        self._add(markup.table_html(headers, cells, caption, note, **how))

    def lines(
        self,
        title: str,
        series: Sequence[Series],
        x_label: str = "",
        y_label: str = "",
        log_y: bool = False,
        note: str | None = None,
    ) -> None:
        """One plot of lines, with bands if series have low and high."""
        self.panels(title, [Panel(series, x_label, y_label, log_y=log_y)], note)

    def panels(self, title: str, panels: Sequence[Panel], note: str | None = None) -> None:
        """Plots side by side; series of one name share a colour and a legend entry."""
        self._add(Panels(self._name(title), str(title), note, tuple(panels)))

    def stems(
        self,
        title: str,
        values: Mapping[str, Sequence[float]],
        y_label: str = "",
        note: str | None = None,
    ) -> None:
        """Stems over 1, 2, ...: singular values, by name."""
        series = [
            Series(name, np.arange(1, len(those) + 1), those, stems=True)
            for name, those in values.items()
        ]
        self.lines(title, series, "index", y_label, log_y=True, note=note)

    def heatmap(
        self,
        title: str,
        matrix: Any,
        row_labels: Sequence[Any] | None = None,
        column_labels: Sequence[Any] | None = None,
        *,
        limit: float | None = None,
        binary: bool = False,
        note: str | None = None,
        most: int = cells.MOST_CELLS,
        linked: str = "",
    ) -> None:
        """A matrix in colours that are symmetric about zero.

        `matrix` may be an array, a memory map, sparse or a LowRank. More than `most` rows
        or columns are drawn in blocks that keep their entry of largest size. Colours end
        at `limit`, by default at the 0.99 quantile of the sizes of nonzero entries.
        `binary` draws zero white and everything else black. Heat maps of the same size with
        the same `linked` zoom together.
        """
        done = isinstance(matrix, cells.Reduced)
        small = matrix if done else cells.reduced(cells.as_rows("matrix", matrix), most)
        words = " ".join(part for part in (note, small.words) if part)
        heatmap = Heatmap(
            self._name(title),
            str(title),
            words or None,
            markup.rounded(small.cells, DIGITS),
            cells.cell_names("row_labels", row_labels, small.row_edges),
            cells.cell_names("column_labels", column_labels, small.column_edges),
            cells.colour_limit(small.cells) if limit is None else positive("limit", limit),
            bool(binary),
            small.words is not None,
            linked,
        )
        self._add(heatmap)

    def attach(self, name: str, value: Any) -> None:
        """Add data to the page's JSON, under a name that the page does not use itself."""
        self._attached[name] = markup.clean(value)

    def data(self) -> dict[str, Any]:
        """Contents of the page's JSON block."""
        figures = [{"id": one.name, **one.data()} for one in self.figures]
        return {"title": self.title, **self._attached, "figures": figures}

    def html(self) -> str:
        """The whole page as text."""
        sections = []
        for name, title, blocks in self._sections:
            heading = f"<h2>{escape(title)}</h2>" if title else ""
            inner = "\n".join(b if isinstance(b, str) else b.html() for b in blocks)
            block = f"{heading}<div class=blocks>\n{inner}\n</div>"
            sections.append(f'<section id="{name}">{block}</section>')
        contents = [(name, title) for name, title, _ in self._sections if title]
        body = "\n".join(sections)
        return markup.document(self.title, self.subtitle, contents, body, self.data())

    def write(self, path: str | Path) -> Path:
        """Write the page atomically: a reader sees the old file or the new one."""
        with atomic(path) as temporary:
            temporary.write_text(self.html(), encoding="utf-8", newline="\n")
        return Path(path)

    def save_figures(self, directory: str | Path) -> list[Path]:
        """Draw every plot with matplotlib into PNG and SVG files named after its title."""
        mpl, folder = matplotlib_for("save_figures"), Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(STYLE):
            return [path for one in self.figures for path in one.save(folder)]

    def _add(self, block: str | Figure) -> None:
        if not self._sections:  # blocks before the first section follow the title
            self._sections.append((self._name("start"), "", []))
        self._sections[-1][2].append(block)

    def _name(self, title: str) -> str:
        base = markup.slug(str(title))
        name, number = base, 2
        while name in self._names:
            name, number = f"{base}-{number}", number + 1
        self._names.add(name)
        return name
