"""Samplers that must answer in time."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from weakprox.arguments import positive
from weakprox.errors import InputError


class TimeLimit:
    """A sampler that fails, rather than hang, if samples do not come in time.

    The run then ends with a `SamplerError`, whose `result` it can be resumed from. The call
    that hangs is left behind in a thread of its own, which cannot be stopped from outside.

    Parameters
    ----------
    sampler : callable
        `sampler(rng, k)`, for any loss.
    seconds : float
        How long one call may take.
    """

    def __init__(
        self, sampler: Callable[[np.random.Generator, int], Any], seconds: float
    ) -> None:
        if not callable(sampler):
            raise InputError("sampler", type(sampler).__name__, "a callable f(rng, k)")
        self.sampler = sampler
        self.seconds = positive("seconds", seconds)

    def __call__(self, rng: np.random.Generator, k: int) -> Any:
        """K samples, or `TimeoutError`; whatever the sampler raises is raised here."""
        answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

        def ask() -> None:
            try:
                answers.put((self.sampler(rng, k), None))
            except BaseException as failure:
                answers.put((None, failure))

        Thread(target=ask, daemon=True, name="weakprox sampler").start()
        try:
            drawn, failure = answers.get(timeout=self.seconds)
        except Empty:
            raise TimeoutError(f"no samples within {self.seconds:g} s") from None
        if failure is not None:
            raise failure
        return drawn

    def __getattr__(self, name: str) -> Any:
        """A stream's position is that of the sampler behind the limit."""
        if name in ("tell", "seek"):
            return getattr(self.sampler, name)
        raise AttributeError(name)
