"""Problems with constraints on entries, solved with slopes in their place.

The answer X of a run with slopes may violate the constraints slightly, and its value counts
violations by these slopes. The lower bound holds for the constraints too. So the value of a
point near X within the constraints shows how far the optimum is above that bound. Slopes are
steep enough if this point is as good as the accuracy requires. Otherwise a more accurate run
follows, and then one with steeper slopes, each from the answer before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, like, to_numpy, wide
from weakprox.problem import Problem
from weakprox.protocols import Penalty
from weakprox.result import Result, Status

TIGHTER = 0.25  # share of the accuracy of a second run with the same slopes
NEAR = 8.0  # multiple of the accuracy up to which a second run is worth its time


class Stage(NamedTuple):
    """One run of a series: a problem with slopes, and its share of the accuracy."""

    stated: Problem
    share: float


@dataclass(frozen=True)
class Series:
    """The runs that a problem with constraints on entries may need, one after the other."""

    given: Problem
    unit: float  # the runs measure X in it
    stages: tuple[Stage, ...]

    @classmethod
    def of(cls, problem: Problem, unit: float) -> Series:
        """Return the series of a problem with constraints."""
        *others, steepest = problem.with_slopes()
        stages = [Stage(one, share) for one in others for share in (1.0, TIGHTER)]
        return cls(problem, unit, (*stages, Stage(steepest, 1.0)))

    def problem(self, stage: int) -> Problem:
        """Return the problem of a stage as its run sees it."""
        return self.stages[stage].stated.in_unit(self.unit)

    def penalties(self) -> dict[str, Penalty]:
        """Return the penalties of all stages by name, as their runs see them."""
        found: dict[str, Penalty] = {}
        for k, (stated, _) in enumerate(self.stages):
            penalty, in_unit = stated.penalty, stated.of_penalty.in_unit
            if self.unit != 1.0 and in_unit is not None:
                penalty = in_unit(self.unit)
            found[f"penalty {k}"] = penalty
        return found

    def after(self, stage: int, found: Result) -> int | None:
        """Return the stage that follows one with this result; None if it was the last."""
        one, share = self.stages[stage]
        ended = found.certified or found.status is Status.FINISHED  # not by a limit
        if stage + 1 == len(self.stages) or not ended:
            return None
        asked = found.eps / share
        above = self._within(one, found) - found.certificate.lower_bound
        if above <= asked:
            return None
        return stage + 2 if share == 1.0 and above > NEAR * asked else stage + 1

    def _within(self, stated: Problem, found: Result) -> float:
        """Return f at a point within the constraints that is near the answer."""
        form, known = self.given.of_spectral.form, self.given.constrained
        assert known is not None
        assert form is not None
        X = known.nearest(found.X)
        if form.symmetric:
            X = _semidefinite(known.nearest(X.T))
        size = float(to_numpy(decompositions.svdvals(wide(X))).sum())
        if size > form.tau:  # the constraints contain zero
            X, size = X * (form.tau / size), form.tau
        return stated.smooth_value(X) + form.lam * size


def _semidefinite(X: Array) -> Array:
    """Return X with its diagonal, which is never constrained, raised if that is needed."""
    least = float(decompositions.eigvalsh(wide(X))[0])
    return X if least >= 0.0 else X - least * like(np.eye(X.shape[0]), X)
