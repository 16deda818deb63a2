"""What a page is made of: each block knows its HTML and, if drawn, its data."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import Any, ClassVar

import numpy as np

from weakprox.errors import InputError, ShapeError
from weakprox.report.encode import clean

Vector = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Series:
    """One line of a plot.

    Attributes
    ----------
    name : str
        Shown in the legend; equal names share colour and legend entry across panels.
    x, y : sequence of float
        Points; NaN leaves a gap.
    low, high : sequence of float, optional
        A band around the line.
    dashed, steps, stems : bool
        Draw dashed; draw as a staircase; draw as stems from the axis.
    """

    name: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None
    dashed: bool = False
    steps: bool = False
    stems: bool = False

    def __post_init__(self) -> None:
        """Turn what came into vectors of one length."""
        for axis in ("x", "y", "low", "high"):
            given = getattr(self, axis)
            if given is None and axis in ("low", "high"):
                continue
            vector = _vector(f"series {self.name!r}, {axis}", given)
            object.__setattr__(self, axis, vector)
            if vector.size != self.x.size:
                what = f"{vector.size} values for {self.x.size} of x"
                raise ShapeError(f"series {self.name!r}, {axis}", what, "as many as x has")
        if (self.low is None) != (self.high is None):
            raise InputError(f"series {self.name!r}", "one of low and high", "both or none")

    @classmethod
    def of(cls, given: Any) -> Series:
        """A Series, or a mapping with its fields."""
        built: Series = _built(cls, given, "series")
        return built


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its series.

    Attributes
    ----------
    series : sequence of Series or mapping
        What to draw.
    x_label, y_label, title : str
        Words beside the axes and above them.
    log_x, log_y : bool
        Logarithmic axes (points that are not positive are left out).
    y_range : (float, float), optional
        What to show of the y axis at first; zooming shows the rest.
    """

    series: Any
    x_label: str = ""
    y_label: str = ""
    title: str = ""
    log_x: bool = False
    log_y: bool = False
    y_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Turn mappings into Series."""
        object.__setattr__(self, "series", tuple(Series.of(one) for one in self.series))
        if not self.series:
            raise InputError("series", "none", "at least one")

    @classmethod
    def of(cls, given: Any) -> Panel:
        """A Panel, or a mapping with its fields."""
        built: Panel = _built(cls, given, "panel")
        return built


@dataclass(frozen=True)
class Html:
    """A block that is words only, ready as HTML."""

    markup: str

    def html(self) -> str:
        """The markup itself."""
        return self.markup


@dataclass(frozen=True)
class Figure(ABC):
    """A block with a title, a drawing and a note; the page gives it its name."""

    name: str
    title: str
    note: str | None
    kind: ClassVar[str]

    @property
    def wide(self) -> bool:
        """Whether it fills the page's width rather than share it."""
        return False

    def drawing(self) -> str:
        """What stands in the figure until the script draws."""
        return ""

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """What the script draws from."""

    def html(self) -> str:
        """The figure, its words escaped."""
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
        """Names of all series, each once, in the order they first come."""
        return list(dict.fromkeys(one.name for panel in self.panels for one in panel.series))

    @property
    def wide(self) -> bool:
        """Several panels want the whole width."""
        return len(self.panels) > 1

    def data(self) -> dict[str, Any]:
        """Panels with their series, and the order of colours."""
        panels: list[Any] = clean([asdict(panel) for panel in self.panels])
        return {"kind": self.kind, "title": self.title, "names": self.names, "panels": panels}


@dataclass(frozen=True)
class Picture(Figure):
    """An image file, embedded."""

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
        """The words only; the bytes stand in the page already."""
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


def _vector(argument: str, given: Any) -> Vector:
    try:
        vector = np.array([np.nan if one is None else one for one in given], dtype=float)
    except (TypeError, ValueError):
        raise InputError(argument, type(given).__name__, "a sequence of numbers") from None
    if vector.ndim != 1:
        raise ShapeError(argument, vector.shape, "one dimension")
    return vector


def _built(kind: Any, given: Any, argument: str) -> Any:
    """An object of the kind as it is, or built from a mapping of its fields."""
    if isinstance(given, kind):
        return given
    known = [field.name for field in fields(kind)]
    if not isinstance(given, Mapping) or not set(given) <= set(known):
        what = sorted(given) if isinstance(given, Mapping) else type(given).__name__
        raise InputError(
            argument, what, f"{kind.__name__}, or a mapping with its fields {known}"
        )
    return kind(**given)
