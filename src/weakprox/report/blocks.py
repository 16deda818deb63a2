"""The figures of a page: each has its HTML and the data that the script draws."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, ClassVar

from weakprox.errors import InputError
from weakprox.plots._panels import Panel
from weakprox.report.markup import clean


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

    def drawing(self) -> str:
        """HTML inside the figure before the script draws."""
        return ""

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """Data for the script."""

    def html(self) -> str:
        """The figure as HTML."""
        note = f"<p class=note>{escape(self.note)}</p>" if self.note else ""
        wide = " wide" if self.wide else ""
        return (
            f'<figure class="{self.kind}{wide}" id="{self.name}" '
            f'aria-labelledby="{self.name}-title">'
            f'<figcaption><h3 id="{self.name}-title">{escape(self.title)}</h3></figcaption>'
            f"<div class=drawing>{self.drawing()}</div>{note}</figure>"
        )


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
        """Several panels take the full width."""
        return len(self.panels) > 1

    def data(self) -> dict[str, Any]:
        """Panels with their series, and the order of colours."""
        panels: list[Any] = clean([asdict(panel) for panel in self.panels])
        return {"kind": self.kind, "title": self.title, "names": self.names, "panels": panels}


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
        """Cells with the names of their rows and columns."""
        names = ("kind", "title", "cells", "rows", "columns", "limit", "binary", "reduced")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Picture(Figure):
    """An embedded image file."""

    image: bytes
    alt: str
    kind: ClassVar[str] = "picture"

    @property
    def suffix(self) -> str:
        """png, jpeg, gif, webp or svg, from the first bytes."""
        return image_suffix(self.image)

    def drawing(self) -> str:
        """The image in a data URI."""
        mime = "svg+xml" if self.suffix == "svg" else self.suffix
        coded = base64.b64encode(self.image).decode()
        return f'<img alt="{escape(self.alt)}" src="data:image/{mime};base64,{coded}">'

    def data(self) -> dict[str, Any]:
        """Title and description; the image itself is in the HTML."""
        return {"kind": self.kind, "title": self.title, "alt": self.alt}


def image_suffix(image: bytes) -> str:
    """Kind of an image file, from its first bytes."""
    starts = {b"\x89PNG": "png", b"\xff\xd8": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
    for start, suffix in starts.items():
        if image.startswith(start):
            return suffix
    if b"<svg" in image[:2000]:
        return "svg"
    raise InputError("image", f"bytes that begin {image[:4]!r}", "PNG, JPEG, GIF, WebP or SVG")
