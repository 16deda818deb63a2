"""Entries of one sign: different weights for positive and for negative parts."""

from __future__ import annotations

from dataclasses import dataclass, field

from weakprox.arguments import nonnegative
from weakprox.linalg.arrays import Array, namespace, row_blocks, scaled, sqnorm, total
from weakprox.passes import SeparableForm
from weakprox.penalties.base import Combinable
from weakprox.protocols import Geometry, PenaltyCapabilities, Smoothability


@dataclass(frozen=True)
class SignedL1(Combinable):
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
    separable: bool = field(default=True, init=False, repr=False)
    rowwise: bool = field(default=True, init=False, repr=False)
    _weights = ("above", "below", "lam2")

    def __post_init__(self) -> None:
        """Check the weights."""
        for name in self._weights:
            object.__setattr__(self, name, nonnegative(name, getattr(self, name)))

    def in_unit(self, unit: float) -> SignedL1:
        """R/unit^2 of X/unit."""
        return SignedL1(self.above / unit, self.below / unit, self.lam2)

    @property
    def curvature(self) -> float:
        """2 lam2."""
        return 2.0 * self.lam2

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        form = SeparableForm(self.above, self.below)
        return PenaltyCapabilities(form=form, infimum=0.0, in_unit=self.in_unit)

    @property
    def _theta(self) -> float:
        return max(self.above, self.below)

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """(theta, theta m d / 2, 2 lam2), theta the larger weight."""
        gamma = 0.5 * self._theta * shape[0] * shape[1]
        return Smoothability(self._theta, gamma, 2 * self.lam2)

    def value(self, X: Array) -> float:
        """Weighted parts and squares, summed block by block."""
        xp, found = namespace(X), self.lam2 * sqnorm(X)
        for rows in row_blocks(X):
            found += self.above * total(xp.clip(X[rows], 0.0, None))
            found -= self.below * total(xp.clip(X[rows], None, 0.0))
        return found

    def pull(self, y: Array) -> Array:
        """K is the identity."""
        return y

    def dual_value(self, y: Array) -> float:
        """No linear term."""
        return 0.0

    def feasible(self, y: Array) -> Array:
        """Clip to the box -below <= y <= above."""
        return namespace(y).clip(y, -self.below, self.above)

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """clip(y + t X) to the box."""
        step = scaled(X, t)
        return self.feasible(step if y is None else y + step)

    def distance(self, y: Array) -> float:
        """|y|^2 / (2 theta)."""
        return sqnorm(y) / (2 * self._theta) if self._theta > 0 else 0.0

    def check(self, shape: tuple[int, int]) -> None:
        """Accept any shape."""
