"""Compare the constants that a loss declares with the curvature of its gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weakprox.linalg.arrays import Array, eps_of, inner, norm, sqnorm

FEW = 8  # differences needed before a declared smoothness is considered far too large
LOOSE = 4.0  # ratio to the largest curvature seen above which it is far too large
MARGIN = 1.5  # factor on the largest curvature seen, for directions not seen yet
VISIBLE = 1e-6  # relative length below which a difference is mostly rounding
ROUNDING = 32  # units of rounding in a gradient
CLEAR = 1e-3  # relative excess that contradicts a declared constant beyond rounding


class Contradicted(Exception):  # noqa: N818 (a signal, not an error)
    """Gradients contradict the declared strong convexity; the run restates the loss."""

    def __init__(self, strong_convexity: float) -> None:
        super().__init__(f"strong convexity is at most {strong_convexity:.3g}")
        self.strong_convexity = strong_convexity


@dataclass(frozen=True)
class Curvature:
    """Smallest and largest curvature of G between iterates so far, and the last gradient."""

    X: Array
    gradient: Array
    least: float = math.inf
    most: float = 0.0
    seen: int = 0

    def then(self, X: Array, gradient: Array) -> Curvature:
        """Return the curvature updated by another iterate."""
        move, turn = X - self.X, gradient - self.gradient
        length, along = sqnorm(move), inner(turn, move)
        if not (along > 0.0 and length > VISIBLE**2 * sqnorm(X)):
            return Curvature(X, gradient, self.least, self.most, self.seen)
        # near zero, differences of iterates are small compared with the rounding of gradients
        noise = ROUNDING * eps_of(X) * norm(gradient) * math.sqrt(length)
        least, most = min(self.least, (along + noise) / length), self.most
        if along > noise / CLEAR:
            most = max(most, sqnorm(turn) / along)
        return Curvature(X, gradient, least, most, self.seen + 1)

    def smoothness(self, declared: float) -> float:
        """Return the declared smoothness, unless it is contradicted or far too large."""
        if self.most > (1 + CLEAR) * declared:
            return MARGIN * self.most
        if self.seen >= FEW and declared > LOOSE * MARGIN * self.most > 0.0:
            return MARGIN * self.most
        return declared

    def check(self, declared: float) -> None:
        """Raise if the curvature is below the declared strong convexity."""
        if self.least < (1 - CLEAR) * declared:
            raise Contradicted(0.5 * self.least)
