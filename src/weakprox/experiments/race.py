"""Run a method and note the work it took to come within each of several accuracies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weakprox.experiments.base import Record
from weakprox.experiments.instances import Matrix
from weakprox.minimize import minimize
from weakprox.problem import Problem
from weakprox.protocols import Solver
from weakprox.result import Counts
from weakprox.solvers import Look

MEASURES = ("samples", "rank_one_svds", "seconds")


@dataclass
class Watch:
    """Follows a run from outside and ends it when the last accuracy is reached.

    `value` is the objective that decides, known exactly to the experiment even where the
    method only sees samples; `floor` a proved lower bound on its optimum. Looks come at
    every step first and then at every tenth more steps, so late counts are at most a
    tenth too large, for every method alike.
    """

    value: Callable[[Matrix], float]
    floor: float
    targets: list[float]  # absolute, falling
    per_sample: float = 0.0  # seconds to draw one, where the loss draws them for free
    drawn: int = 0  # samples drawn before the run began (finite sums)
    reached: dict[str, dict[float, Record]] = field(default_factory=lambda: {"X": {}, "V": {}})
    curve: list[tuple[float, ...]] = field(default_factory=list)

    def __call__(self, look: Look) -> bool:
        """Note what is new; True once X is within the last accuracy."""
        work = self._work(look.counts, look.seconds)
        gap = self.value(look.X) - self.floor
        self.curve.append((*(work[name] for name in MEASURES), gap))
        self._note("X", gap, work)
        if look.V is not None and len(self.reached["V"]) < len(self.targets):
            self._note("V", self.value(look.V.dense()) - self.floor, work)
        return len(self.reached["X"]) == len(self.targets)

    def _note(self, point: str, gap: float, work: Record) -> None:
        for target in self.targets:
            if gap <= target and target not in self.reached[point]:
                self.reached[point][target] = work

    def _work(self, counts: Counts, seconds: float) -> Record:
        samples = self.drawn + counts.samples
        return {
            "samples": max(counts.samples, counts.gradients),
            "rank_one_svds": counts.rank_one_svds,
            "calls": counts.svds,
            "full_gradients": counts.full_gradients,
            "seconds": seconds + self.per_sample * samples,
            "seconds_sampling": self.per_sample * samples,
        }


def race(
    problem: Problem, solver: Solver, watch: Watch, *, seed: int, cap: int, **limits: Any
) -> Record:
    """Run to the last accuracy, or to `cap` oracle calls: work per accuracy, and the end."""
    result = minimize(
        problem,
        solver,
        eps=watch.targets[-1],
        seed=seed,
        callback=watch,
        max_svds=cap,
        stop_when_certified=False,
        progress=False,
        evaluation_samples=2,  # the watch evaluates exactly, and counts nothing
        **limits,
    )
    return {
        "status": result.status.name,
        "X": [watch.reached["X"].get(target) for target in watch.targets],
        "V": [watch.reached["V"].get(target) for target in watch.targets],
        "last_gap": watch.curve[-1][-1] if watch.curve else None,
        "calls": result.counts.svds,
    }


def banded(
    curves: list[list[list[float]]], column: int, points: int = 48
) -> dict[str, list[float | None]]:
    """Mean, tenth and ninetieth percentile of the gap over runs, on a common axis.

    A curve holds its last value after the run has ended, and none before its first look.
    """
    firsts = [max(curve[0][column], 1e-3) for curve in curves]
    lasts = [max(curve[-1][column], 1e-3) for curve in curves]
    axis = np.geomspace(min(firsts), max(lasts), points)
    rows = np.full((len(curves), points), np.nan)
    for row, curve in zip(rows, curves, strict=True):
        table = np.array(curve)
        place = np.searchsorted(table[:, column], axis * (1 + 1e-9), side="right") - 1
        row[place >= 0] = table[place[place >= 0], -1]
    known = np.isfinite(rows).sum(axis=0) > len(curves) / 2  # not the few that began early
    return {
        "x": axis[known].tolist(),
        "mean": np.nanmean(rows[:, known], axis=0).tolist(),
        "low": np.nanquantile(rows[:, known], 0.1, axis=0).tolist(),
        "high": np.nanquantile(rows[:, known], 0.9, axis=0).tolist(),
    }
