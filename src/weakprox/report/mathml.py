r"""Formulas as MathML, which browsers typeset without a library: a small part of TeX.

Supported are letters, numbers, scripts, groups, `\frac`, `\text`, and the commands in the
tables below. Anything else raises, so that a misspelt formula fails in a test and not on a
page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

_TOKEN = re.compile(r"\\text\{[^{}]*\}|\\[A-Za-z]+|\d+(?:\.\d+)?|[^\s]")
_INLINE = re.compile(r"\$([^$]+)\$")
_LETTERS = {
    "alpha": "\u03b1",
    "beta": "\u03b2",
    "gamma": "\u03b3",
    "delta": "\u03b4",
    "varepsilon": "\u03b5",
    "lambda": "\u03bb",
    "mu": "\u03bc",
    "sigma": "\u03c3",
    "tau": "\u03c4",
    "top": "\u22a4",
    "infty": "\u221e",
    "reals": "\u211d",
}
_OPERATORS = {
    "le": "≤",
    "ge": "≥",
    "in": "∈",
    "times": "\u00d7",
    "cdot": "⋅",
    "sim": "\u223c",
    "succeq": "⪰",
    "langle": "⟨",
    "rangle": "⟩",
    "lVert": "‖",
    "rVert": "‖",
    "sum": "∑",
    "max": "max",
    "min": "min",
}
_FENCES = {"langle": "prefix", "rangle": "postfix", "lVert": "prefix", "rVert": "postfix"}
_LIMITS = ("sum", "max", "min")  # their scripts go below and above


def formula(tex: str, *, display: bool = False) -> str:
    """The formula as an element of the page; screen readers get the TeX."""
    style = " displaystyle=true" if display else ""
    return f'<math alttext="{escape(tex)}"{style}>{_Parser(tex).whole()}</math>'


def typeset(text: str) -> str:
    """Escape text and set what stands between dollars as formulas."""
    parts = _INLINE.split(text)
    return "".join(formula(p) if odd % 2 else escape(p) for odd, p in enumerate(parts))


def spoken(text: str) -> str:
    """The text without the marks of formulas, for names that only screen readers use."""
    return _INLINE.sub(lambda found: found[1].replace("\\", ""), text)


def number(value: float) -> str:
    """A number of six digits in TeX, with a power of ten instead of an exponent."""
    digits, _, power = f"{value:g}".partition("e")
    return rf"{digits} \cdot 10^{{{int(power)}}}" if power else digits


class _Parser:
    """A row of atoms, each perhaps with scripts."""

    def __init__(self, tex: str) -> None:
        self._tex = tex
        self._tokens: Iterator[str] = iter(_TOKEN.findall(tex))
        self._next = next(self._tokens, None)

    def whole(self) -> str:
        row = self._row()
        if self._next is not None:
            raise ValueError(f"{self._next!r} is not expected in the formula {self._tex}")
        return row

    def _take(self) -> str:
        if self._next is None:
            raise ValueError(f"the formula {self._tex} ends too early")
        token, self._next = self._next, next(self._tokens, None)
        return token

    def _row(self) -> str:
        found = []
        while self._next not in (None, "}"):
            found.append(self._scripted())
        return "<mrow>" + "".join(found) + "</mrow>"

    def _scripted(self) -> str:
        token = self._take()
        base, scripts = self._atom(token), dict[str, str]()
        while self._next in ("_", "^"):
            mark = self._take()
            scripts[mark] = self._atom(self._take())
        if not scripts:
            return base
        under = token.removeprefix("\\") in _LIMITS
        names = {"_": ("munder", "msub"), "^": ("mover", "msup")}
        if len(scripts) == 2:
            name = "munderover" if under else "msubsup"
        else:
            name = names[next(iter(scripts))][0 if under else 1]
        inner = "".join(scripts[mark] for mark in "_^" if mark in scripts)
        return f"<{name}>{base}{inner}</{name}>"

    def _group(self) -> str:
        if self._take() != "{":
            raise ValueError(f"a group is missing in the formula {self._tex}")
        return self._closed()

    def _closed(self) -> str:
        row = self._row()
        self._take()  # the closing brace, or an error at the end
        return row

    def _atom(self, token: str) -> str:
        if token == "{":
            return self._closed()
        if token.startswith("\\text{"):
            return f"<mtext>{escape(token[6:-1])}</mtext>"
        if token.startswith("\\"):
            return self._command(token[1:])
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{token}</mi>"
        if token in "{}_^\\":
            raise ValueError(f"{token!r} is not expected in the formula {self._tex}")
        sign = {"-": "\u2212", "*": "\u2217", "'": "\u2032"}.get(token, token)
        tight = " lspace=0 rspace=0" if sign == "|" else ""  # not a divisor
        return f"<mo stretchy=false{tight}>{escape(sign)}</mo>"

    def _command(self, name: str) -> str:
        if name == "frac":
            return f"<mfrac>{self._group()}{self._group()}</mfrac>"
        if name in _LETTERS:
            return f"<mi>{_LETTERS[name]}</mi>"
        if name in _OPERATORS:
            form = f" form={_FENCES[name]}" if name in _FENCES else ""
            stretch = "" if name in _LIMITS else " stretchy=false"
            return f"<mo{stretch}{form}>{_OPERATORS[name]}</mo>"
        raise ValueError(f"\\{name} is not known in the formula {self._tex}")
