"""Text, numbers and tables as HTML; a page as one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from weakprox import __version__
from weakprox.report.mathml import spoken, typeset
from weakprox.storage.tree import plain

SCRIPTS = ("base.js", "axes.js", "pointer.js", "lines.js", "heatmap.js", "start.js")
WORDY = 40  # number of characters from which a cell of a table has its own width
LEAST_CONTENTS = 3  # number of sections from which there is a table of contents
DASH = "\u2013"
# Inside <script> these would end the block or, in old parsers, the line.
_UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_NUMBER_LIKE = re.compile(r"^[+\-\u2212<≤>≥~≈(]?\s*\d")


class Mark(NamedTuple):
    """A cell of a table in colour: "good", "plain", "warning" or "bad"."""

    text: str
    kind: str


def clean(value: Any) -> Any:
    """The value as plain JSON types; NaN and infinities become None."""
    return plain(value, str)


def cell_html(value: Any) -> str:
    """Escape text; round numbers, with all digits in the markup; None and NaN are a dash."""
    if isinstance(value, Mark):
        return f'<span class="mark {value.kind}">{escape(value.text)}</span>'
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        shown = f"{value:.6g}" if isinstance(value, float) else value
        return f'<data value="{value}">{shown}</data>'
    return escape(str(value))


def is_number_like(value: Any) -> bool:
    """Return True if a table cell looks like a number ("1.2 ± 0.3" does)."""
    if value is None or isinstance(value, (int, float, np.integer, np.floating)):
        return not isinstance(value, bool)
    return not isinstance(value, Mark) and bool(_NUMBER_LIKE.match(str(value)))


def wordy(cell: Any) -> str:
    """The attribute of a cell whose text would make a narrow column tall."""
    return " class=wordy" if isinstance(cell, str) and len(cell) > WORDY else ""


def slug(text: str) -> str:
    """A name for files and anchors: lower-case ASCII letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:60].strip("-") or "untitled"


def rounded(matrix: np.ndarray[Any, Any], digits: int) -> list[list[float | int | None]]:
    """Round to this many significant digits; whole numbers become integers, NaN None."""

    def entry(number: float) -> float | int | None:
        if not math.isfinite(number):
            return None
        near = float(f"{number:.{digits}g}")
        return int(near) if near == int(near) and abs(near) < 1e15 else near

    return [[entry(number) for number in row] for row in matrix.tolist()]


@cache
def asset(name: str) -> str:
    """Text of a file shipped with the package."""
    return (files("weakprox.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """All scripts in one function, so that their names do not leak into the page."""
    joined = "\n".join(asset(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{joined}\n}})();'


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()


def table_html(
    headers: Sequence[Any],
    rows: Sequence[Sequence[Any]],
    caption: str,
    note: str | None,
    *,
    math: bool = False,
    stacked: bool = False,
) -> str:
    """A table that scrolls inside itself, columns of numbers to the right.

    If `stacked`, each cell carries the name of its column, which a phone shows beside it.
    """
    written = typeset if math else escape
    mark = [
        " class=number" if rows and all(is_number_like(row[k]) for row in rows) else ""
        for k in range(len(headers))
    ]
    head = "".join(
        f"<th scope=col{m}>{escape(str(h))}</th>" for m, h in zip(mark, headers, strict=True)
    )
    names = [f' role=cell data-name="{escape(str(h))}"' if stacked else "" for h in headers]
    body = ""
    for row in rows:
        cells = (
            f"<td{m or wordy(c)}{name}>{cell_html(c)}</td>"
            for m, c, name in zip(mark, row, names, strict=True)
        )
        body += f"<tr{' role=row' if stacked else ''}>{''.join(cells)}</tr>"
    below = f"<p class=note>{written(note)}</p>" if note else ""
    label = escape((spoken(caption) if math else caption) or "table")
    # Outside the scrolling part, since a caption in a wide table is cut off on a phone.
    words = f"<p class=caption>{written(caption)}</p>" if caption else ""
    kind = " class=stacked role=table" if stacked else ""
    return (
        f'<div class="table wide">{words}<div class=scroll tabindex=0 role=region '
        f'aria-label="{label}"><table{kind} aria-label="{label}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{below}</div>"
    )


def document(
    title: str,
    subtitle: str,
    contents: Sequence[tuple[str, str]],
    body: str,
    data: dict[str, Any],
) -> str:
    generator = f"weakprox {__version__}"
    below = f"<p class=subtitle>{escape(subtitle)}</p>" if subtitle else ""
    links = "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in contents)
    compact: Any = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    text = json.dumps(clean({"generator": generator, **data}), **compact)
    policy = (  # allows only the page's own style and script
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(asset('page.css'))}'; script-src '{_digest(script())}'"
    )
    nav = f"<nav aria-label=Contents><ul>{links}</ul></nav>"
    page = f"""<!DOCTYPE html>
<html lang="en-GB">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="{generator}">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{asset("page.css")}</style>
</head>
<body id="top">
<header>
<div><h1>{escape(title)}</h1>{below}</div>
<button type="button" id="theme" hidden>Dark</button>
</header>
{nav if len(contents) >= LEAST_CONTENTS else ""}
<noscript><p class="notice warning">The plots on this page are drawn by a script inside it,
and scripts are switched off here. Text and tables are complete without it, and the
numbers of the plots are at the end of this file, as JSON.</p></noscript>
<main>
{body}
</main>
<footer>Made by {generator}. This file is self-contained and loads nothing.</footer>
<script type="application/json" id="report-data">{text.translate(_UNSAFE)}</script>
<script>{script()}</script>
</body>
</html>
"""
    # lone surrogates, as in file names that are not UTF-8, are written as their codes
    return page.encode("utf-8", "backslashreplace").decode("utf-8")
