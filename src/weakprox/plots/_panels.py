"""Plots of lines as data, and their drawing with matplotlib.

The pages of `weakprox.report` draw the same panels in the browser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from weakprox.errors import InputError, ShapeError

Vector = np.ndarray[Any, np.dtype[np.float64]]

# The same as --s0 to --s6 in report/assets/page.css.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5a5a5a")
DOTS_BELOW = 40  # points of a line that are marked


class _Record:
    """A dataclass that may be given as a mapping of its fields."""

    @classmethod
    def of(cls, given: Any) -> Self:
        """Return an object of the class itself, or one built from a mapping of its fields."""
        if isinstance(given, cls):
            return given
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        if not isinstance(given, Mapping) or not set(given) <= set(known):
            what = sorted(given) if isinstance(given, Mapping) else type(given).__name__
            wanted = f"{cls.__name__}, or a mapping with its fields {known}"
            raise InputError(cls.__name__.lower(), what, wanted)
        return cls(**given)


@dataclass(frozen=True)
class Series(_Record):
    """One line of a plot."""

    name: str  # in the legend; equal names share colour and entry across panels
    x: Any  # sequences of numbers; NaN leaves a gap
    y: Any
    low: Any = None  # a band around the line
    high: Any = None
    dashed: bool = False
    steps: bool = False  # a staircase
    stems: bool = False  # from the axis

    def __post_init__(self) -> None:
        """Convert the points to vectors of one length."""
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


@dataclass(frozen=True)
class Panel(_Record):
    """One pair of axes with its series."""

    series: Any  # sequence of Series, or of mappings of their fields
    x_label: str = ""
    y_label: str = ""
    title: str = ""
    log_x: bool = False  # points that are not positive are left out
    log_y: bool = False
    y_range: tuple[float, float] | None = None  # at first; zooming shows the rest

    def __post_init__(self) -> None:
        """Convert mappings to Series."""
        object.__setattr__(self, "series", tuple(Series.of(one) for one in self.series))
        if not self.series:
            raise InputError("series", "none", "at least one")


def _vector(argument: str, given: Any) -> Vector:
    try:
        vector = np.array([np.nan if one is None else one for one in given], dtype=float)
    except (TypeError, ValueError):
        raise InputError(argument, type(given).__name__, "a sequence of numbers") from None
    if vector.ndim != 1:
        raise ShapeError(argument, vector.shape, "one dimension")
    return vector


def draw_panel(ax: Any, panel: Panel, names: Sequence[str] | None = None) -> None:
    """Draw a panel on axes; colours follow the order of `names`."""
    order = [one.name for one in panel.series] if names is None else list(names)
    for one in panel.series:
        _draw_series(ax, one, order.index(one.name))
    if panel.log_x and any(np.any(one.x > 0) for one in panel.series):
        ax.set_xscale("log")
    if panel.log_y and any(np.any(one.y > 0) for one in panel.series):
        ax.set_yscale("log")
    if panel.y_range is not None:
        ax.set_ylim(*panel.y_range)
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label, title=panel.title)
    ax.grid(True, alpha=0.25)


def _draw_series(ax: Any, one: Series, number: int) -> None:
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
