"""Run a method and record the work it takes to reach each of several accuracies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from weakprox._minimize import minimize
from weakprox.experiments.base import Record
from weakprox.experiments.instances import Matrix
from weakprox.problem import Problem
from weakprox.result import Counts, Status
from weakprox.solvers import HCGM, SCG, SCGS, SHCGM, STORC, SVRF, SVRGCG, Look
from weakprox.solvers.base import Method

MEASURES = ("samples", "rank_one_svds", "seconds")


@dataclass
class Watch:
    """A callback that records a run and ends it when the last accuracy is reached.

    `value` is the exact objective, which the experiment knows even if the method only sees
    samples; `floor` is a proved lower bound on its optimum. The watch looks after every
    step of a method (for sliding methods, every outer step).
    """

    value: Callable[[Matrix], float]
    floor: float
    targets: list[float]  # absolute, falling
    per_sample: float = 0.0  # seconds to draw one, if the loss draws means only
    drawn: int = 0  # samples drawn before the run began, for a finite sum
    finite: bool = False  # whether work is counted in gradients of terms, not in samples
    unbilled: Callable[[], float] = lambda: 0.0  # seconds spent on drawing means
    reached: dict[str, dict[float, Record]] = field(default_factory=lambda: {"X": {}, "V": {}})
    curve: list[tuple[float, ...]] = field(default_factory=list)
    epochs: int = 0  # number started so far, or phases of a method that has them

    def __call__(self, look: Look) -> bool:
        """Record the look; return True once X has the last accuracy."""
        work = self._work(look.counts, look.seconds) | {"epochs": look.epoch}
        self.epochs = look.epoch
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
            "samples": counts.gradients if self.finite else counts.samples,
            "gradients": counts.gradients,
            "rank_one_svds": counts.rank_one_svds,
            "calls": counts.svds,
            "full_gradients": counts.full_gradients,
            "seconds": seconds - self.unbilled() + self.per_sample * samples,
            "seconds_sampling": self.per_sample * samples,
        }


def methods(rank: int, mu: float, C0: float, max_inner: int | None = None) -> dict[str, Any]:
    """Return the methods by name, with theory's settings and the same mu and C0.

    `rank` is that of SVRGCG's oracle, `max_inner` caps the vertices of a sliding step.
    """
    ours = SVRGCG(rank=rank, constants="paper", mu=mu, C0=C0, answer="iterate")
    return {
        "SVRGCG": ours,
        "SVRGCG finite": replace(ours, constants="repaired"),
        "SCG": SCG(mu=mu),
        "SCGS": SCGS(mu=mu, C0=C0, max_inner=max_inner),
        "SCGS convex": SCGS(mu=mu, max_inner=max_inner, strongly_convex=False),
        "STORC": STORC(mu=mu, max_inner=max_inner),
        "SVRF": SVRF(mu=mu),
        "HCGM": HCGM(),
        "SHCGM": SHCGM(),
    }


def race(problem: Problem, solver: Method, watch: Watch, *, seed: int, cap: int) -> Record:
    """Run to the last accuracy or to `cap` oracle calls; return the work per accuracy."""
    watch.finite = problem.loss.is_finite_sum
    start = np.zeros(problem.shape)
    watch.curve.append((*[0.0] * len(MEASURES), watch.value(start) - watch.floor))
    result = minimize(
        problem,
        solver,
        eps=watch.targets[-1],
        seed=seed,
        callback=watch,
        max_svds=cap,
        stop_when_certified=False,
        progress=False,
        evaluation_samples=2,  # unused: the watch evaluates exactly
        look_every=1,  # looks are off the clock
    )
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # an unfinished run is not a result
    return {
        "status": result.status.name,
        "X": [watch.reached["X"].get(target) for target in watch.targets],
        "V": [watch.reached["V"].get(target) for target in watch.targets],
        "last_gap": watch.curve[-1][-1],
        "calls": result.counts.svds,
        "epochs": watch.epochs,
        "spent": dict(zip(MEASURES, watch.curve[-1], strict=False)),
    }


def thinned(curve: list[tuple[float, ...]], growth: float = 1.03) -> list[tuple[float, ...]]:
    """Return rows at growing distances, the last one included: enough for a plot."""
    kept, following = [], 0.0
    for place, row in enumerate(curve):
        if place >= following or place == len(curve) - 1:
            kept.append(row)
            following = max(place + 1, place * growth)
    return kept


def banded(
    curves: list[list[list[float]]], column: int, points: int = 64
) -> dict[str, list[float]]:
    """Return mean, 10th and 90th percentile of the gap over runs, on a common axis.

    Between looks and after its end a curve keeps its last value, and before the first look
    the value of the first point.
    """
    worked = [row[column] for curve in curves for row in curve if row[column] > 0]
    if not worked:
        return {"x": [], "mean": [], "low": [], "high": []}
    axis = np.geomspace(min(worked), max(worked), points)
    rows = np.empty((len(curves), points))
    for row, curve in zip(rows, curves, strict=True):
        table = np.array(curve)
        place = np.searchsorted(table[:, column], axis * (1 + 1e-9), side="right") - 1
        row[:] = table[np.maximum(place, 0), -1]
    return {
        "x": axis.tolist(),
        "mean": rows.mean(axis=0).tolist(),
        "low": np.quantile(rows, 0.1, axis=0).tolist(),
        "high": np.quantile(rows, 0.9, axis=0).tolist(),
    }
