"""Entrywise penalties: the l1 norm, the elastic net, and no penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from weakprox.arguments import nonnegative
from weakprox.linalg.arrays import (
    Array,
    clipped,
    namespace,
    row_blocks,
    sqnorm,
    total,
    zeros,
)
from weakprox.passes import SeparableForm
from weakprox.penalties.base import Combinable
from weakprox.protocols import Geometry, PenaltyCapabilities, Smoothability


@dataclass(frozen=True)
class L1(Combinable):
    r"""Sparsity, :math:`R(X) = \lambda \sum_{ij} |x_{ij}|`.

    Its smoothing is :math:`\lambda \sum H_\mu(x_{ij})` with the Huber function (Example 1 of
    the paper): theta = lam, gamma = lam m d / 2 (the paper's printed gamma lacks lam).

    Parameters
    ----------
    lam : float
        Weight, at least 0.
    """

    lam: float
    curvature: float = field(default=0.0, init=False, repr=False)
    separable: bool = field(default=True, init=False, repr=False)
    rowwise: bool = field(default=True, init=False, repr=False)
    _weights = ("lam",)

    def __post_init__(self) -> None:
        """Check the weight."""
        object.__setattr__(self, "lam", nonnegative("lam", self.lam))

    def in_unit(self, unit: float) -> L1:
        """R/unit^2 of X/unit."""
        return L1(self.lam / unit)

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        form = SeparableForm(self.lam, self.lam)
        return PenaltyCapabilities(form=form, infimum=0.0, in_unit=self.in_unit)

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """(lam, lam m d / 2, 0)."""
        return Smoothability(self.lam, 0.5 * self.lam * shape[0] * shape[1], 0.0)

    def value(self, X: Array) -> float:
        """Weighted sum of absolute values."""
        return self.lam * abs_sum(X)

    def pull(self, y: Array) -> Array:
        """K is the identity."""
        return y

    def dual_value(self, y: Array) -> float:
        """No linear term."""
        return 0.0

    def feasible(self, y: Array) -> Array:
        """Clip to the box |y| <= lam."""
        return clipped(y, 1.0, self.lam)

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """clip(y + t X) to the box; from the centre, lam clip(X / mu)."""
        return clipped(X, t, self.lam, y)

    def distance(self, y: Array) -> float:
        """|y|^2 / (2 lam)."""
        return sqnorm(y) / (2 * self.lam) if self.lam > 0 else 0.0

    def check(self, shape: tuple[int, int]) -> None:
        """Accept any shape."""


@dataclass(frozen=True)
class ElasticNet(Combinable):
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
    separable: bool = field(default=True, init=False, repr=False)
    rowwise: bool = field(default=True, init=False, repr=False)
    _weights = ("lam1", "lam2")

    def __post_init__(self) -> None:
        """Check the weights."""
        object.__setattr__(self, "lam1", nonnegative("lam1", self.lam1))
        object.__setattr__(self, "lam2", nonnegative("lam2", self.lam2))

    def in_unit(self, unit: float) -> ElasticNet:
        """R/unit^2 of X/unit."""
        return ElasticNet(self.lam1 / unit, self.lam2)

    @property
    def curvature(self) -> float:
        """2 lam2."""
        return 2.0 * self.lam2

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        form = SeparableForm(self.lam1, self.lam1)
        return PenaltyCapabilities(form=form, infimum=0.0, in_unit=self.in_unit)

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """(lam1, lam1 m d / 2, 2 lam2)."""
        gamma = 0.5 * self.lam1 * shape[0] * shape[1]
        return Smoothability(self.lam1, gamma, 2 * self.lam2)

    def value(self, X: Array) -> float:
        """lam1 |X|_1 + lam2 |X|_F^2."""
        return self.lam1 * abs_sum(X) + self.lam2 * sqnorm(X)

    def pull(self, y: Array) -> Array:
        """K is the identity."""
        return y

    def dual_value(self, y: Array) -> float:
        """No linear term."""
        return 0.0

    def feasible(self, y: Array) -> Array:
        """Clip to the box |y| <= lam1."""
        return clipped(y, 1.0, self.lam1)

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """clip(y + t X) to the box |y| <= lam1."""
        return clipped(X, t, self.lam1, y)

    def distance(self, y: Array) -> float:
        """|y|^2 / (2 lam1)."""
        return sqnorm(y) / (2 * self.lam1) if self.lam1 > 0 else 0.0

    def check(self, shape: tuple[int, int]) -> None:
        """Accept any shape."""


@dataclass(frozen=True)
class Zero(Combinable):
    """No penalty, R = 0."""

    curvature: float = field(default=0.0, init=False, repr=False)
    separable: bool = field(default=True, init=False, repr=False)
    rowwise: bool = field(default=True, init=False, repr=False)

    def in_unit(self, unit: float) -> Zero:
        """R/unit^2 of X/unit."""
        return self

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        form = SeparableForm()
        return PenaltyCapabilities(form=form, infimum=0.0, in_unit=self.in_unit)

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """All zero, since there is nothing to smooth."""
        return Smoothability(0.0, 0.0, 0.0)

    def value(self, X: Array) -> float:
        """Zero."""
        return 0.0

    def pull(self, y: Array) -> Array:
        """K is the identity."""
        return y

    def dual_value(self, y: Array) -> float:
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

    def distance(self, y: Array) -> float:
        """Zero."""
        return 0.0

    def check(self, shape: tuple[int, int]) -> None:
        """Accept any shape."""


def abs_sum(X: Array) -> float:
    """Sum of absolute values, block by block."""
    xp = namespace(X)
    return math.fsum(total(xp.abs(X[rows])) for rows in row_blocks(X))
