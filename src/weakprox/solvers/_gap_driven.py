"""What methods share that end when their gap proves the accuracy, or stops shrinking."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from weakprox.arguments import optional_counts
from weakprox.linalg.arrays import Array, namespace, zeros
from weakprox.linalg.lowrank import LowRank
from weakprox.problem import Problem
from weakprox.solvers._prox import capped
from weakprox.solvers.base import Method
from weakprox.solvers.tools import Tools

STRETCH = 16  # iterations of one outer step
SHARE = 1e-3  # of the gap, what an inexact decomposition may cost
PATIENCE = 400  # iterations without progress after which rounding has the last word


@dataclass(frozen=True)
class Plan:
    """Constants of a run: accuracy, strong convexity, smoothness of the smooth part."""

    eps: float
    alpha: float
    beta: float


class TooWide(Exception):  # noqa: N818 (a turn of events, not an error)
    """The proximal points are not low-rank, or the gap falls slowly: another method then."""


class GapDriven(Method):
    """Nothing is promised in advance, so nothing is claimed but what a certificate shows."""

    rank: int | None

    answer: ClassVar[Literal["low_rank"]] = "low_rank"
    relative: ClassVar[bool] = True  # can aim at an accuracy relative to f
    patience: ClassVar[int] = PATIENCE

    def check_rank(self, problem: Problem) -> None:
        """Raise unless the cap on the rank is a positive integer or None."""
        optional_counts(rank=self.rank)

    def first(
        self, problem: Problem, X: Array | None, reference: Array, tools: Tools
    ) -> tuple[LowRank | None, float]:
        """The user's first point as an answer of the rank allowed, and h there."""
        if X is None:
            return None, problem.spectral.value(LowRank.zero(problem.shape, reference))
        cut = tools.compressed(X, capped(min(problem.shape), problem.shape, self.rank))
        h = problem.spectral.value(tools.compressed(X))
        return cut.trimmed(1e-14 * float(cut.s[0])), h

    def finished(self, memory: Any) -> bool:
        """Whether the gap has stopped shrinking: what is left is rounding, or the rank."""
        return bool(memory.done - memory.progress >= self.patience)

    def stalled(self, memory: Any) -> int:
        """Return the iterations since the gap last shrank."""
        return int(memory.done - memory.progress)


def start_at(problem: Problem, X: Array | None) -> Array:
    """The user's first point, or zero: one number, seen as a matrix."""
    if X is not None:
        return X
    one = zeros((1, 1), problem.loss.reference)
    return namespace(one).broadcast_to(one, problem.shape)


def allowed(tools: Tools, value: float, bound: float, guess: float) -> float:
    """What the next decomposition's inexactness may cost, given value and bound so far.

    The guess stands for the value while there is none.
    """
    gap = value - bound
    return SHARE * max(tools.accuracy(value, guess), gap if gap < math.inf else 0.0)
