"""Exceptions and warnings: every one names the argument, what came and what is wanted."""

from __future__ import annotations

import math
from typing import Any


class WeakproxError(Exception):
    """Base of all errors raised on purpose by this library."""


class InputError(WeakproxError, ValueError):
    """An argument cannot be used as given.

    Parameters
    ----------
    argument : str
        Name of the argument as the caller wrote it.
    given : object
        What came in (a short description, not the data itself).
    wanted : str
        What would be accepted.
    """

    def __init__(self, argument: str, given: object, wanted: str) -> None:
        self.argument = argument
        self.given = given
        self.wanted = wanted
        super().__init__(f"{argument}: got {given}; wanted {wanted}.")

    def __reduce__(self) -> tuple[type[InputError], tuple[str, object, str]]:
        """Rebuild from the three parts, so the error survives process borders."""
        return type(self), (self.argument, self.given, self.wanted)


class ShapeError(InputError):
    """Array shapes do not fit together."""


class ConvexityError(InputError):
    """G + R is not strongly convex, so the method's theory does not apply."""


class SamplerError(InputError):
    """A user's sampler raised, stalled, or returned something of the wrong shape or kind.

    Attributes
    ----------
    result : Result or None
        Where it failed in the middle of a run: the best point so far, from which
        `minimize(..., resume=error.result)` goes on.
    """

    result: Any = None


class ProofError(InputError):
    """A proof cannot be made, or a proof file is damaged or does not fit the problem."""


class CheckpointWarning(UserWarning):
    """A checkpoint was not written, or an older one than the last had to be taken."""


class WorkersLostError(WeakproxError):
    """Data were lost with their workers, and nothing tells how to make them again."""


class DecompositionError(WeakproxError):
    """A matrix has no decomposition, or none that reaches the accuracy asked for."""


def checked_number(argument: str, value: object, wanted: str) -> float:
    """The value as a finite float; strings, booleans and arrays are no numbers here."""
    if isinstance(value, (bool, str, bytes)):
        raise InputError(argument, repr(value), wanted)
    try:
        number = float(value)  # type: ignore[arg-type]
    except Exception:  # whatever the object's own conversion raises
        raise InputError(argument, repr(value), wanted) from None
    if not math.isfinite(number):
        raise InputError(argument, repr(value), wanted)
    return number


def positive(argument: str, value: object) -> float:
    """The value as a finite float > 0, or a typed error."""
    number = checked_number(argument, value, "a finite number > 0")
    if number <= 0.0:
        raise InputError(argument, repr(value), "a finite number > 0")
    return number


def nonnegative(argument: str, value: object) -> float:
    """The value as a finite float >= 0, or a typed error."""
    number = checked_number(argument, value, "a finite number >= 0")
    if number < 0.0:
        raise InputError(argument, repr(value), "a finite number >= 0")
    return number


def checked_flag(argument: str, given: object) -> None:
    """Raise unless the setting is True or False: "no" would count as yes."""
    if not isinstance(given, bool):
        raise InputError(argument, repr(given), "True or False")
