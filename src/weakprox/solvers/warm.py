"""What one run hands to the next: primal and dual point, and the block of its SVD."""

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
    """Where a run of a neighbouring problem ended.

    Attributes
    ----------
    X : LowRank or Array
        The answer.
    pull : Array
        K'y, the dual point of the penalty as a matrix: nearly a subgradient of its
        nonsmooth part at the answer.
    size : float
        That part's value at the answer. Halving the weight of a penalty halves the dual
        point, and the ratio of two such sizes says so without knowing what a weight is.
    weight : float
        That of the last proximal step, 1/gamma.
    rank : int
        Of the answer.
    basis : Array or None
        Block to start the first decomposition from.
    """

    X: LowRank | Array
    pull: Array
    size: float
    weight: float
    rank: int
    basis: Array | None

    @classmethod
    def of(cls, problem: Problem, dual: SplitDual) -> Warmth:
        """What the dual points of a run tell a run of a problem with the same loss."""
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
        """The same for another weight of the penalty: a guess at its dual point."""
        size = nonsmooth(penalty, self.point)
        factor = size / self.size if self.size > 0.0 else 1.0
        if factor == 1.0 or not math.isfinite(factor):
            return self
        return replace(self, pull=self.pull * factor, size=size)

    def beside(self, before: Warmth, across: Warmth) -> Warmth:
        """The corner of a grid whose other three are known: before, across and this one.

        This one and `across` share a row, `before` is the one below this. Second
        differences are all that is lost, so that a fine grid costs few iterations.
        """
        X = self.point + (before.point - across.point)
        pull = self.pull + (before.pull - across.pull)
        rank = max(self.rank, before.rank)
        return replace(before, X=X, pull=pull, weight=before.weight, rank=rank)


def nonsmooth(penalty: Penalty, X: Array) -> float:
    """R(X) without its quadratic part."""
    value = penalty.value(X)
    return value - 0.5 * penalty.curvature * sqnorm(X) if penalty.curvature else value
