"""One row of the table of real data, and where the data are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "examples" / "data"


@dataclass(frozen=True)
class Row:
    """Mean score of a method over the stated splits.

    `bar` is what the project asks of ours; None for the methods it is compared with.
    """

    data: str  # "us_airports_2010"
    metric: str  # "AUC, 20 % of edges hidden, 3 seeds"
    method: str
    score: float
    spread: float  # standard deviation over splits
    seconds: float  # of the processor, the median of one fit, choice of settings included
    better: Literal["higher", "lower"] = "higher"
    ours: bool = False
    bar: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is reached, if there is one."""
        if self.bar is None:
            return None
        return self.score >= self.bar if self.better == "higher" else self.score <= self.bar


def load(name: str) -> dict[str, np.ndarray]:
    """Arrays of a data set."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


class Tally:
    """Scores and times of several methods over splits."""

    def __init__(self) -> None:
        self.scores: dict[str, list[float]] = {}
        self.seconds: dict[str, list[float]] = {}

    def add(self, method: str, fit: Callable[[], Any], score: Callable[[Any], float]) -> Any:
        """Time `fit` by the processor, which other work does not slow down, and score it."""
        begin = time.process_time()
        fitted = fit()
        took = time.process_time() - begin
        self.seconds.setdefault(method, []).append(took)
        self.scores.setdefault(method, []).append(float(score(fitted)))
        return fitted

    def rows(self, data: str, metric: str, **settings: Any) -> list[Row]:
        """Means; `bars` has our methods and their bars, `better` and `notes` as in Row."""
        bars: dict[str, float | None] = settings.get("bars", {})
        if "ours" in settings:
            bars = {settings["ours"]: settings.get("bar")}
        notes: dict[str, str] = settings.get("notes", {})
        return [
            Row(
                data,
                metric,
                method,
                float(np.mean(values)),
                float(np.std(values)),
                float(np.median(self.seconds[method])),
                settings.get("better", "higher"),
                method in bars,
                bars.get(method),
                notes.get(method, ""),
            )
            for method, values in self.scores.items()
        ]


@contextmanager
def timed(times: list[float]) -> Iterator[None]:
    """Append the seconds spent within."""
    begin = time.process_time()
    yield
    times.append(time.process_time() - begin)


def union(
    count: int, dim: int, ambient: int, each: int, noise: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Samples of unit length with a little noise, and which subspace each is of."""
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.standard_normal((ambient, dim)))[0] for _ in range(count)]
    X = np.vstack([rng.standard_normal((each, dim)) @ Q.T for Q in bases])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X += noise * rng.standard_normal(X.shape) / np.sqrt(ambient)
    return X, np.repeat(np.arange(count), each)
