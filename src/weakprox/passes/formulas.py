"""What a step is made of, whoever computes it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

DOUBLE = 2.0**-52


class Step(NamedTuple):
    """Constants of a step for G = beta/2 |X - C|^2 and R = lam |X|_1 + curvature/2 |X|^2."""

    gamma: float
    beta: float
    curvature: float
    lam: float


class Sums(NamedTuple):
    """Sums over all entries at X, in float64.

    With u = (z - X)/gamma and s the dual point of the l1 norm that the step finds.
    """

    distance: float  # (X - C)^2
    absolute: float  # |X|
    along: float  # s X
    across: float  # u X; NaN where that is left to the triplets of z
    rest: float  # (beta (X - C) + curvature X + s + u)^2, zero at a solution
    square: float  # X^2, from the factors

    def value(self, k: Step) -> float:
        """beta/2 |X - C|^2 + lam |X|_1 + curvature/2 |X|^2."""
        smooth = k.beta * self.distance + k.curvature * self.square
        return 0.5 * smooth + k.lam * self.absolute

    def rounding(self, k: Step, eps: float) -> float:
        """Bound on what the value gains if each entry of X is rounded, eps the dtype's.

        Zero in float64, in which these sums are computed themselves.
        """
        if eps <= DOUBLE:
            return 0.0
        slope = k.beta * math.sqrt(self.distance * self.square)
        terms = slope + k.lam * self.absolute + k.curvature * self.square
        return 0.5 * eps * (1.0 + eps) * terms + 0.125 * k.beta * eps * eps * self.square

    def halves(self, k: Step) -> tuple[float, float]:
        """The two halves of the step's gap, as `DavisYin` has them."""
        near = max(0.0, k.lam * self.absolute - self.along)
        return near, self.rest / (2 * (k.beta + k.curvature))


def split(C: Any, z: Any, X: Any, k: Step, clip: Any) -> tuple[Any, Any]:
    """The dual point s and the move Y - X of a step, for arrays or tiles of them."""
    t = (2.0 - k.gamma * (k.beta + k.curvature)) * X + (k.gamma * k.beta) * C - z
    s = clip(t * (1.0 / k.gamma), -k.lam, k.lam)
    return s, t - k.gamma * s - X
