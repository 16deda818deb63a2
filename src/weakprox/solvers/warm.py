"""Warm starts: the primal and dual point of a run, and the basis of its last SVD."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from weakprox.certificates.split import SplitDual
from weakprox.linalg.arrays import Array, sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.metering import gradient
from weakprox.penalties.proximal import proximal_dual
from weakprox.problem import Problem
from weakprox.protocols import Penalty


@dataclass(frozen=True)
class Warmth:
    """The end of a neighbouring problem's run.

    The ratio of two values of `size` shows how a penalty's weight, and with it the dual
    point, has changed, whatever the weight is.
    """

    X: LowRank | Array  # the answer
    pull: Array  # K'y, the dual point as a matrix: nearly a subgradient of R's nonsmooth part
    size: float  # value of that part at the answer
    weight: float  # of the last proximal step, 1/gamma
    rank: int  # of the answer
    basis: Array | None  # block to start the first decomposition from

    @classmethod
    def of(cls, problem: Problem, dual: SplitDual) -> Warmth:
        """Return the warm start that the dual points of a run with the same loss give."""
        R, V, y = dual.penalty, dual.prox.V, dual.y
        X = V.dense()
        if y is None:
            target = gradient(problem.loss, X, problem.loss.everything(), None)
            target *= -1.0 / dual.weight
            target += (2.0 - R.curvature / dual.weight) * X
            target -= dual.A
            y = proximal_dual(R, target, 1.0 / dual.weight)
        return cls(V, R.pull(y), nonsmooth(R, X), dual.weight, V.rank, dual.prox.basis)

    def step(self, beta: float) -> float:
        """A gamma to begin with, between the first one and the last one there was."""
        return math.sqrt(1.0 / (beta * max(beta, self.weight))) if self.size else 1.0 / beta

    @property
    def point(self) -> Array:
        """The answer as a dense matrix."""
        return self.X.dense() if isinstance(self.X, LowRank) else self.X

    def scaled(self, penalty: Penalty) -> Warmth:
        """Return the warm start for another weight of the penalty, with a guessed dual."""
        size = nonsmooth(penalty, self.point)
        factor = size / self.size if self.size > 0.0 else 1.0
        if factor == 1.0 or not math.isfinite(factor):
            return self
        return replace(self, pull=self.pull * factor, size=size)

    def beside(self, before: Warmth, across: Warmth) -> Warmth:
        """Extrapolate to a corner of a grid cell from the other three.

        This corner and `across` share a row, `before` is below this one. The error is a
        second difference, so that a fine grid costs few iterations.
        """
        X = self.point + (before.point - across.point)
        pull = self.pull + (before.pull - across.pull)
        rank = max(self.rank, before.rank)
        return replace(before, X=X, pull=pull, weight=before.weight, rank=rank)


def nonsmooth(penalty: Penalty, X: Array) -> float:
    """Return R(X) without its quadratic part."""
    value = penalty.value(X)
    return value - 0.5 * penalty.curvature * sqnorm(X) if penalty.curvature else value
