"""Samplers with a time limit."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from weakprox.arguments import positive
from weakprox.errors import InputError


class TimeLimit:
    """A sampler that fails, rather than hangs, if samples do not arrive in time.

    The run then ends with a `SamplerError`, whose `result` can be resumed. The hanging call
    stays in a separate thread, which cannot be stopped from outside.

    Parameters
    ----------
    sampler : callable
        `sampler(rng, k)`, for any loss.
    seconds : float
        Time limit for one call.
    """

    def __init__(
        self, sampler: Callable[[np.random.Generator, int], Any], seconds: float
    ) -> None:
        if not callable(sampler):
            raise InputError("sampler", type(sampler).__name__, "a callable f(rng, k)")
        self.sampler = sampler
        self.seconds = positive("seconds", seconds)

    def __call__(self, rng: np.random.Generator, k: int) -> Any:
        """k samples, or `TimeoutError`; exceptions of the sampler are raised here."""
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
        """Forward to the wrapped sampler, so that a stream keeps its position."""
        if name in ("tell", "seek"):
            return getattr(self.sampler, name)
        raise AttributeError(name)
