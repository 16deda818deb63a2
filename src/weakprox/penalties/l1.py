"""Entrywise penalties: the l1 norm, with one weight or two, the elastic net, and none."""

from __future__ import annotations

from dataclasses import dataclass

from weakprox.linalg.arrays import (
    Array,
    abs_sum,
    namespace,
    row_blocks,
    scaled,
    sqnorm,
    total,
    zeros,
)
from weakprox.passes import SeparableForm
from weakprox.penalties.base import Separable
from weakprox.protocols import Geometry, PenaltyCapabilities


@dataclass(frozen=True)
class L1(Separable):
    r"""Sparsity, :math:`R(X) = \lambda \sum_{ij} |x_{ij}|`.

    Its smoothing is :math:`\lambda \sum H_\mu(x_{ij})` with the Huber function (Example 1 of
    the paper): theta = lam, gamma = lam m d / 2 (the paper's printed gamma lacks lam).

    Parameters
    ----------
    lam : float
        Weight, at least 0.
    """

    lam: float
    _weights = ("lam",)

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        return PenaltyCapabilities(
            SeparableForm(self.lam, self.lam), infimum=0.0, in_unit=self.in_unit
        )

    def value(self, X: Array) -> float:
        """Weighted sum of absolute values."""
        return self.lam * abs_sum(X)


@dataclass(frozen=True)
class ElasticNet(Separable):
    r"""Sparsity and strong convexity, :math:`\lambda_1 \|X\|_1 + \lambda_2 \|X\|_F^2`.

    The quadratic is not smoothed: K = 2 lam2, theta = lam1,
    gamma = lam1 m d / 2, and R is 2 lam2-strongly convex (Example 3).

    Parameters
    ----------
    lam1, lam2 : float
        Weights, at least 0.
    """

    lam1: float
    lam2: float
    _weights = ("lam1", "lam2")

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        return PenaltyCapabilities(
            SeparableForm(self.lam1, self.lam1), infimum=0.0, in_unit=self.in_unit
        )

    def value(self, X: Array) -> float:
        """lam1 |X|_1 + lam2 |X|_F^2."""
        return self.lam1 * abs_sum(X) + self.lam2 * sqnorm(X)


@dataclass(frozen=True)
class SignedL1(Separable):
    r"""Two weights, :math:`\sum a\,(x_{ij})_+ + b\,(-x_{ij})_+ + \lambda_2 x_{ij}^2`.

    If b is large enough, no entry of the optimum is negative: the penalty is exact for
    :math:`X \ge 0`. Unlike the constraint itself it is finite at a low-rank X that is only
    nearly non-negative, so values and certificates stay meaningful there. Any b above the
    largest slope that would push an entry below zero is large enough; the largest entry of
    the gradient of G at 0 is a good first choice.

    The dual set is the box -b <= y <= a. It is smoothed with y^2/(2 theta), theta = max(a, b):
    gamma = theta m d / 2, K = 2 lam2.

    Parameters
    ----------
    above : float
        Weight a of positive entries, at least 0.
    below : float
        Weight b of negative entries, at least 0; `L1(lam)` is `SignedL1(lam, lam)`.
    lam2 : float
        Weight of the squares, at least 0, for strong convexity.
    """

    above: float
    below: float
    lam2: float = 0.0
    _weights = ("above", "below", "lam2")

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        return PenaltyCapabilities(
            SeparableForm(self.above, self.below), infimum=0.0, in_unit=self.in_unit
        )

    def value(self, X: Array) -> float:
        """Weighted parts and squares, summed block by block."""
        xp, found = namespace(X), self.lam2 * sqnorm(X)
        for rows in row_blocks(X):
            found += self.above * total(xp.clip(X[rows], 0.0, None))
            found -= self.below * total(xp.clip(X[rows], None, 0.0))
        return found

    def feasible(self, y: Array) -> Array:
        """Clip to the box -below <= y <= above."""
        return namespace(y).clip(y, -self.below, self.above)

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """clip(y + t X) to the box."""
        step = scaled(X, t)
        return self.feasible(step if y is None else y + step)


@dataclass(frozen=True)
class Zero(Separable):
    """No penalty, R = 0."""

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        return PenaltyCapabilities(SeparableForm(), infimum=0.0, in_unit=self.in_unit)

    def value(self, X: Array) -> float:
        """Zero."""
        return 0.0

    def feasible(self, y: Array) -> Array:
        """The only dual point."""
        return y * 0.0

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """The only dual point."""
        return zeros(X.shape, X)
