"""Small tables and lines as HTML for notebooks, without script or style; text is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT = 160, 28  # of a spark line, in pixels
POINTS = 80  # of a spark line at most: one for every other pixel
LEFT = 'style="text-align:left"'


def counted(count: float, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: "1 SVD", "2 SVDs", "3 entries"."""
    return f"{count:.0f} {noun if count == 1 else plural or noun + 's'}"


def card(title: str, rows: Sequence[tuple[Any, Any]], notes: Sequence[str] = ()) -> str:
    """Return a table of names and values under a title, with sentences below it.

    Values are escaped unless they are `Markup`.
    """
    body = "".join(
        f'<tr><th scope="row" {LEFT}>{_cell(name)}</th><td {LEFT}>{_cell(value)}</td></tr>'
        for name, value in rows
    )
    return _framed(title, f"<table><tbody>{body}</tbody></table>", notes)


def table(
    title: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    notes: Sequence[str] = (),
) -> str:
    """Return a table with a line of headers under a title, with sentences below it."""
    head = "".join(f'<th scope="col" {LEFT}>{escape(header)}</th>' for header in headers)
    lines = ("".join(f"<td {LEFT}>{_cell(x)}</td>" for x in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return _framed(title, whole, notes)


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def spark(values: Sequence[float], label: str) -> Markup:
    """Return a line of positive values on a logarithmic scale, as an SVG picture.

    Values that are not positive and finite are left out; without two others there is no line.
    """
    kept = [math.log10(x) for x in values if math.isfinite(x) and x > 0.0]
    if len(kept) < 2:
        return Markup("")
    step = max(1, math.ceil(len(kept) / POINTS))
    kept = [*kept[:-1:step], kept[-1]]
    low, high = min(kept), max(kept)
    span = high - low or 1.0
    across, down = (WIDTH - 4) / (len(kept) - 1), HEIGHT - 4
    places = [
        f"{2 + across * i:.1f},{2 + down * (high - y) / span:.1f}" for i, y in enumerate(kept)
    ]
    said = f"{label}: from {10.0 ** kept[0]:.3g} to {10.0 ** kept[-1]:.3g}"
    return Markup(
        f'<svg role="img" aria-label="{escape(said)}" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}"><title>{escape(said)}</title>'
        f'<polyline points="{" ".join(places)}" fill="none" stroke="currentColor" '
        'stroke-width="1.5"/></svg>'
    )


def _cell(value: Any) -> str:
    if isinstance(value, Markup):
        return value
    return escape(f"{value:.6g}" if isinstance(value, float) else str(value))


def _framed(title: str, body: str, notes: Sequence[str]) -> str:
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f'<div class="weakprox"><p><strong>{escape(title)}</strong></p>{body}{below}</div>'
