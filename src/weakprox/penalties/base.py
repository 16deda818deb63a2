"""Code shared by all penalties: sums, multiples and the smoothed penalty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weakprox.arguments import nonnegative
from weakprox.linalg.arrays import (
    Array,
    add_scaled,
    difference,
    empty,
    eps_of,
    inner,
    reflect,
    row_blocks,
    sqnorm,
)
from weakprox.protocols import Penalty, Smoothability

if TYPE_CHECKING:
    from weakprox.penalties.combine import Sum


class Combinable:
    """Mixin: `2.0 * R` scales the weights, `R1 + R2` makes a sum."""

    _weights: tuple[str, ...] = ()

    def __add__(self, other: Penalty) -> Sum:
        """Sum of two penalties."""
        from weakprox.penalties.combine import Sum

        return Sum((self, other))  # type: ignore[arg-type]

    def __rmul__(self, factor: float) -> Any:
        """Positive multiple: multiply every weight by the factor."""
        factor = nonnegative("factor", factor)
        scaled = {name: factor * getattr(self, name) for name in self._weights}
        return replace(self, **scaled)  # type: ignore[type-var]

    __mul__ = __rmul__


@dataclass(frozen=True)
class Smoothed:
    """R_mu, the Beck-Teboulle smoothing of a penalty: R - gamma mu <= R_mu <= R.

    R_mu(X) = curvature/2 |X|^2 + max over y in Y of <y, K X> - phi(y) - mu d(y). The
    quadratic is not smoothed, so strong convexity is preserved.
    """

    penalty: Penalty
    mu: float
    constants: Smoothability

    @classmethod
    def of(cls, penalty: Penalty, mu: float, shape: tuple[int, int]) -> Smoothed:
        """Smoothed penalty on matrices of this shape."""
        return cls(penalty, mu, penalty.smoothability(shape))

    @property
    def smoothness(self) -> float:
        """BR = K + theta / mu."""
        return self.constants.smoothness(self.mu)

    @property
    def bias(self) -> float:
        """R - bias <= R_mu <= R."""
        return self.constants.gamma * self.mu if self.constants.theta > 0 else 0.0

    def dual(self, X: Array) -> Any:
        """The maximising y."""
        t = self.constants.theta / self.mu if self.constants.theta > 0 else 0.0
        return self.penalty.ascend(None, X, t)

    def grad(self, X: Array) -> Array:
        """Gradient of R_mu, as a new array."""
        G = self.penalty.pull(self.dual(X))
        if self.penalty.curvature:
            add_scaled(G, self.penalty.curvature, X)
        return G

    def target(self, X: Array, G: Array, weight: float) -> float:
        """Overwrite G by the proximal target X - (G + grad R_mu(X))/weight; return phi(y).

        Penalties that act on each row separately are evaluated in blocks of rows, so that
        their gradient is never stored whole. This takes one pass over X and G, and one array
        less.
        """
        blocks = row_blocks(X) if self.penalty.rowwise else [slice(None)]
        keep = 1.0 - self.penalty.curvature / weight
        phi = 0.0
        for rows in blocks:
            y = self.dual(X[rows])
            phi += self.penalty.dual_value(y)
            part = G[rows]
            part += self.penalty.pull(y)
            reflect(part, 1.0 / weight, X[rows], keep)
        return phi

    def target_around(
        self, X: Array, C: Array, smoothness: float, weight: float, out: Array | None
    ) -> Array:
        """As `target` for G = L/2 |X - C|^2, whose gradient need not be formed.

        At the theory's step, weight = L + curvature, X cancels in the target.
        """
        out = empty(X.shape, X) if out is None else out
        blocks = row_blocks(X) if self.penalty.rowwise else [slice(None)]
        keep = 1.0 - (smoothness + self.penalty.curvature) / weight
        if abs(keep) <= 8 * eps_of(X):
            keep = 0.0
        for rows in blocks:
            pulled = self.penalty.pull(self.dual(X[rows]))
            part = out[rows]
            difference(C[rows], smoothness / weight, pulled, 1.0 / weight, part)
            if keep:
                part += keep * X[rows]
        return out

    def value(self, X: Array) -> float:
        """R_mu(X)."""
        y = self.dual(X)
        linear = inner(self.penalty.pull(y), X) - self.penalty.dual_value(y)
        quadratic = 0.5 * self.penalty.curvature * sqnorm(X)
        prox = self.mu * self.penalty.distance(y) if self.constants.theta > 0 else 0.0
        return quadratic + linear - prox
