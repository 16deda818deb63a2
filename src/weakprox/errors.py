"""Exceptions and warnings: each names the argument, what was received and what is expected."""

from __future__ import annotations

from typing import Any

LONGEST = 400  # characters of a description that a message shows


class WeakproxError(Exception):
    """Base of all errors raised on purpose by this library."""


class InputError(WeakproxError, ValueError):
    """An argument cannot be used as given.

    Parameters
    ----------
    argument : str
        Name of the argument as the caller wrote it.
    given : object
        The value received (a short description, not the data themselves).
    wanted : str
        What would be accepted.
    """

    def __init__(self, argument: str, given: object, wanted: str) -> None:
        self.argument = argument
        self.given = given
        self.wanted = wanted
        super().__init__(f"{argument}: got {shortened(given)}; wanted {wanted}.")

    def __reduce__(self) -> tuple[type[InputError], tuple[str, object, str]]:
        """Rebuild from the three parts, so that the error can be pickled."""
        return type(self), (self.argument, self.given, self.wanted)


class ArgumentError(InputError, TypeError):
    """A call has an unknown argument, too many of them, or lacks one."""


class ShapeError(InputError):
    """Array shapes do not fit together."""


class ConvexityError(InputError):
    """G + R is not strongly convex, so the method's theory does not apply."""


class SamplerError(InputError):
    """A user's sampler raised, stalled, or returned something of the wrong shape or kind.

    Attributes
    ----------
    result : Result or None
        The best point so far if it failed during a run, from which
        `minimize(..., resume=error.result)` continues.
    """

    result: Any = None


class ProofError(InputError):
    """A proof cannot be made, or a proof file is damaged or does not fit the problem."""


class CheckpointWarning(UserWarning):
    """A checkpoint was not written, or an earlier one had to be used instead of the last."""


class WorkersLostError(WeakproxError):
    """Data were lost with their workers and cannot be recomputed."""


class DecompositionError(WeakproxError):
    """A matrix has no decomposition, or none that reaches the requested accuracy."""


def shortened(given: object) -> str:
    """Return the description of a value, without its middle part if it is long."""
    text = str(given)
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 50]} ... {text[-40:]}"
