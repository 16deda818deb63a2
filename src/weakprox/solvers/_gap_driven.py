"""Base of methods that stop when their gap proves the accuracy, or stops shrinking."""

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
SHARE = 1e-3  # of the gap: allowed cost of an inexact decomposition
PATIENCE = 400  # iterations without progress after which the gap has stalled


@dataclass(frozen=True)
class Plan:
    """Constants of a run: accuracy, strong convexity, smoothness of the smooth part."""

    eps: float
    alpha: float
    beta: float


class TooWide(Exception):  # noqa: N818 (a signal, not an error)
    """The proximal points are not low-rank, or the gap falls slowly: use the fallback."""


class GapDriven(Method):
    """A method without a guarantee in advance, whose accuracy is shown by a certificate."""

    rank: int | None

    answer: ClassVar[Literal["low_rank"]] = "low_rank"
    relative: ClassVar[bool] = True  # supports an accuracy relative to f
    patience: ClassVar[int] = PATIENCE

    def check_rank(self, problem: Problem) -> None:
        """Raise unless the cap on the rank is a positive integer or None."""
        optional_counts(rank=self.rank)

    def first(
        self, problem: Problem, X: Array | None, reference: Array, tools: Tools
    ) -> tuple[LowRank | None, float]:
        """The user's first point truncated to the allowed rank, and h there."""
        if X is None:
            return None, problem.spectral.value(LowRank.zero(problem.shape, reference))
        cut = tools.compressed(X, capped(min(problem.shape), problem.shape, self.rank))
        h = problem.spectral.value(tools.compressed(X))
        return cut.trimmed(1e-14 * float(cut.s[0])), h

    def finished(self, memory: Any) -> bool:
        """Whether the gap has stalled, because of rounding or the cap on the rank."""
        return bool(memory.done - memory.progress >= self.patience)

    def stalled(self, memory: Any) -> int:
        """Return the number of iterations since the gap last shrank."""
        return int(memory.done - memory.progress)


def start_at(problem: Problem, X: Array | None) -> Array:
    """The user's first point, or a broadcast zero matrix."""
    if X is not None:
        return X
    one = zeros((1, 1), problem.loss.reference)
    return namespace(one).broadcast_to(one, problem.shape)


def allowed(tools: Tools, value: float, bound: float, guess: float) -> float:
    """Allowed cost of inexactness in the next decomposition, given value and bound so far.

    The guess replaces the value while there is none.
    """
    gap = value - bound
    return SHARE * max(tools.accuracy(value, guess), gap if gap < math.inf else 0.0)
