"""Numbers and text made safe for one HTML file: JSON, escaping, names, short forms."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

DASH = "\u2013"
# Inside <script> these would end the block or, in old parsers, the line.
_UNSAFE = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
_NUMBER_LIKE = re.compile(r"^[+\-\u2212<≤>≥~≈(]?\s*\d")


def clean(value: Any) -> Any:
    """The value as plain JSON types; NaN and infinities become None."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, np.ndarray):
        return clean(value.tolist())
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return clean(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [clean(item) for item in value]
    return str(value)


def safe_json(value: Any) -> str:
    """JSON that no text inside it can break out of a script element."""
    text = json.dumps(clean(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, code in _UNSAFE.items():
        text = text.replace(character, code)
    return text


def short(number: float) -> str:
    """Six digits, as Python prints them; a dash for what is no number."""
    if not math.isfinite(number):
        return DASH
    return f"{number:.6g}"


def cell_html(value: Any) -> str:
    """Text escaped; numbers short, with all their digits in the markup; None a dash."""
    if value is None:
        return DASH
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f'<data value="{int(value)}">{int(value)}</data>'
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if not math.isfinite(number):
            return DASH
        return f'<data value="{number!r}">{short(number)}</data>'
    return escape(str(value))


def is_number_like(value: Any) -> bool:
    """Whether a table cell reads as a number ("1.2 ± 0.3" does)."""
    if value is None or isinstance(value, (int, float, np.integer, np.floating)):
        return not isinstance(value, bool)
    return bool(_NUMBER_LIKE.match(str(value)))


def slug(text: str) -> str:
    """A name for files and anchors: lower-case ASCII letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:60].strip("-") or "untitled"


def rounded(matrix: np.ndarray[Any, Any], digits: int) -> list[list[float | int | None]]:
    """Rows of numbers to so many significant digits; whole ones as integers, NaN as None."""

    def entry(number: float) -> float | int | None:
        if not math.isfinite(number):
            return None
        near = float(f"{number:.{digits}g}")
        return int(near) if near == int(near) and abs(near) < 1e15 else near

    return [[entry(number) for number in row] for row in matrix.tolist()]
