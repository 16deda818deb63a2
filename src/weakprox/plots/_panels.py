"""Plots of lines as data, and their drawing with matplotlib.

The pages of `weakprox.report` draw the same panels in the browser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# The same as --s0 to --s6 in report/assets/page.css.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5a5a5a")
GREY = "#7a7a7a"  # lines that separate or mark
DOTS_BELOW = 40  # points of a line that are marked


@dataclass(frozen=True)
class Series:
    """One line of a plot."""

    name: str  # in the legend; equal names share colour and entry across panels
    x: Any  # sequences of numbers; NaN and None leave a gap
    y: Any
    low: Any = None  # a band around the line
    high: Any = None
    dashed: bool = False
    steps: bool = False  # a staircase
    stems: bool = False  # from the axis
    points: bool = False  # not joined

    def __post_init__(self) -> None:
        for axis in ("x", "y", "low", "high"):
            given = getattr(self, axis)
            if given is not None:
                points = [np.nan if one is None else one for one in given]
                object.__setattr__(self, axis, np.array(points, dtype=float))


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its series."""

    series: Sequence[Series]
    x_label: str = ""
    y_label: str = ""
    title: str = ""
    log_x: bool = False  # points that are not positive are left out
    log_y: bool = False
    whole_x: bool = False  # x is a count: ticks are whole numbers
    linked: str = ""  # on a page, panels of one name zoom along x together
    y_range: tuple[float, float] | None = None  # initial view; zooming shows the rest


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
    again = number // len(COLOURS) % 2 == 1  # all colours are used: distinguish lines by dashes
    if one.low is not None:
        ax.fill_between(one.x, one.low, one.high, color=colour, alpha=0.18, linewidth=0)
    if one.stems:
        offset = 0.06 * (number - 0.5)
        ax.vlines(one.x + offset, 0, one.y, color=colour, alpha=0.55, linewidth=2)
        ax.plot(one.x + offset, one.y, "o", color=colour, markersize=4, label=one.name)
        return
    if one.points:
        ax.plot(one.x, one.y, ".", color=colour, alpha=0.5, markersize=3, label=one.name)
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
