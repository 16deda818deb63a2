"""Checks of arguments: each returns the value in its own type, or raises an InputError."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from weakprox.errors import InputError

T = TypeVar("T")


def number(argument: str, value: object, wanted: str = "a finite number") -> float:
    """The value as a finite float; strings, booleans and arrays are not numbers."""
    if isinstance(value, (bool, str, bytes)):
        raise InputError(argument, repr(value), wanted)
    try:
        found = float(value)  # type: ignore[arg-type]
    except Exception:  # whatever the object's own conversion raises
        raise InputError(argument, repr(value), wanted) from None
    if not math.isfinite(found):
        raise InputError(argument, repr(value), wanted)
    return found


def positive(argument: str, value: object) -> float:
    """The value as a finite float > 0."""
    wanted = "a finite number > 0"
    found = number(argument, value, wanted)
    if found <= 0.0:
        raise InputError(argument, repr(value), wanted)
    return found


def nonnegative(argument: str, value: object) -> float:
    """The value as a finite float >= 0."""
    wanted = "a finite number >= 0"
    found = number(argument, value, wanted)
    if found < 0.0:
        raise InputError(argument, repr(value), wanted)
    return found


def is_integer(value: object) -> bool:
    """Whether the value is an integer of Python or NumPy; a boolean is not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def integer(
    argument: str, value: Any, least: int, most: float = math.inf, *, instead: str = ""
) -> int:
    """The value as an int from `least` to `most`.

    `instead` names other values that the caller accepts, such as "None", for the message.
    """
    if is_integer(value) and least <= value <= most:
        return int(value)
    upper = f" and <= {most:g}" if most < math.inf else ""
    wanted = f"an integer >= {least}{upper}{f', or {instead}' if instead else ''}"
    raise InputError(argument, repr(value), wanted)


def flag(argument: str, value: object) -> bool:
    """True or False; other values, such as "no", would count as true."""
    if not isinstance(value, bool):
        raise InputError(argument, repr(value), "True or False")
    return value


def one_of(argument: str, value: Any, options: tuple[Any, ...]) -> Any:
    """The value, if it is one of the options."""
    known = [value is x or (type(value) is type(x) and value == x) for x in options]
    if not any(known):
        raise InputError(argument, repr(value), " or ".join(map(repr, options)))
    return value


def is_auto(value: object) -> bool:
    """Whether a setting is left to be chosen; arrays may be compared safely."""
    return isinstance(value, str) and value == "auto"


def or_auto(argument: str, value: Any, check: Callable[[str, Any], T]) -> T | None:
    """None for "auto", else the value as `check` returns it."""
    if is_auto(value):
        return None
    try:
        return check(argument, value)
    except InputError as error:
        raise InputError(argument, error.given, f"{error.wanted}, or 'auto'") from None


def bound(argument: str, value: Any) -> float:
    """The value as a float > 0; None and infinity mean no bound."""
    if value is None or (isinstance(value, (float, np.floating)) and value == math.inf):
        return math.inf
    return positive(argument, value)


def generator(argument: str, seed: object) -> np.random.Generator:
    """A random generator from None, an integer >= 0, or a Generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    if seed is None or (is_integer(seed) and int(seed) >= 0):  # type: ignore[call-overload]
        return np.random.default_rng(seed)  # type: ignore[arg-type]
    raise InputError(argument, repr(seed), "None, an integer >= 0 or a numpy Generator")


def optional_numbers(**settings: object) -> None:
    """Raise unless every setting is None or a finite number >= 0."""
    for name, value in settings.items():
        if value is not None:
            nonnegative(name, value)


def optional_counts(**settings: object) -> None:
    """Raise unless every setting is None or an integer >= 1."""
    for name, value in settings.items():
        if value is not None:
            integer(name, value, 1, instead="None")
