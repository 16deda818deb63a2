"""Separable penalties: entrywise norms, norms of rows or columns, and none."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from weakprox.arguments import nonnegative, one_of
from weakprox.errors import InputError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, like, namespace, scaled, sqnorm, total, wide
from weakprox.passes import SeparableForm
from weakprox.penalties.base import Combinable, check_broadcast, digest, read_only
from weakprox.protocols import (
    Constraint,
    Geometry,
    PenaltyCapabilities,
    Smoothability,
    Stated,
)


class Separable(Combinable):
    """A penalty max over y in Y of <y, X>, plus curvature/2 |X|^2.

    Y is the box |y| <= theta unless a subclass says otherwise, where theta is the largest
    weight other than that of the squares, `lam2`. It is smoothed with |y|^2 / (2 theta). Each
    subclass has `capabilities` in its own body, since inherited ones do not count: a class
    derived from it may be another function.
    """

    separable = True
    rowwise = True
    curvature: float  # 2 lam2, the weight of the squares, if there is one
    _even = True  # whether Y is that box

    def __post_init__(self) -> None:
        for name in self._weights:
            object.__setattr__(self, name, nonnegative(name, getattr(self, name)))
        object.__setattr__(self, "curvature", 2.0 * float(getattr(self, "lam2", 0.0)))

    def _declared(self, form: SeparableForm) -> PenaltyCapabilities:
        slopes = {"above": form.above, "below": form.below, "curvature": self.curvature}
        plain = form == SeparableForm(form.above, form.below) and not form.weights
        return PenaltyCapabilities(
            form=form,
            clips=(form.above, form.below) if plain else None,
            infimum=0.0,
            in_unit=self.in_unit,
            in_float64=lambda: self,
            stated=Stated("box", slopes),
        )

    @property
    def _slopes(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in self._weights if name != "lam2"}

    @property
    def _theta(self) -> float:
        return max(self._slopes.values(), default=0.0)

    def in_unit(self, unit: float) -> Any:
        """R/unit^2 of X/unit."""
        scaled = {name: weight / unit for name, weight in self._slopes.items()}
        return replace(self, **scaled)  # type: ignore[type-var]

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """(theta, theta m d / 2, curvature)."""
        theta = self._theta
        return Smoothability(theta, 0.5 * theta * shape[0] * shape[1], self.curvature)

    def pull(self, y: Array) -> Array:
        """K is the identity."""
        return y

    def dual_value(self, y: Array) -> float:
        """No linear term."""
        return 0.0

    def feasible(self, y: Array) -> Array:
        """Clip to the box |y| <= theta."""
        return arrays.clipped(y, 1.0, self._theta)

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """clip(y + t X) to Y; from the centre of the box, theta clip(X / mu)."""
        if self._even:
            return arrays.clipped(X, t, self._theta, y)
        step = scaled(X, t)
        return self.feasible(step if y is None else y + step)

    def distance(self, y: Array) -> float:
        """|y|^2 / (2 theta)."""
        return sqnorm(y) / (2 * self._theta) if self._theta > 0 else 0.0

    def check(self, shape: tuple[int, int]) -> None:
        """Accept any shape."""


@dataclass(frozen=True)
class L1(Separable):
    r"""Sparsity, :math:`R(X) = \lambda \sum_{ij} w_{ij} |x_{ij}|`, by default with weights 1.

    Its smoothing is :math:`\lambda \sum H_\mu(x_{ij})` with the Huber function (Example 1 of
    the paper): theta = lam, gamma = lam m d / 2 (the paper's printed gamma lacks lam). With
    weights, lam times the largest of them takes the place of lam.

    Parameters
    ----------
    lam : float
        Weight, at least 0.
    weights : array that broadcasts to the shape of X, optional
        Numbers :math:`w_{ij} \ge 0`. Entries with the weight 0 are free, such as a diagonal.
        Entries with the weight inf are fixed at zero, whatever `lam` is: a `Problem` replaces
        inf by a slope that is proved to be steep enough for the same minimisers, so that values
        stay finite where such entries are zero up to rounding. `minimize` begins with smaller
        slopes, as for `Box`. The fast passes read weights
        in tiles beside the data; a memory map of float32 or float64 stays in its file for
        data in a file, on a device that reads it in tiles, or on workers. Other kinds of
        arrays are copied to the memory of this process.
    """

    lam: float
    weights: Any = field(default=None, compare=False)
    _digest: str = field(default="", init=False)  # of the weights: identifies the penalty
    _most: float = field(default=1.0, init=False, compare=False)  # the largest finite weight
    _infinite: bool = field(default=False, init=False, compare=False)  # whether some are
    _weights = ("lam",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is None:
            return
        weights, most, infinite = read_only("weights", self.weights), 0.0, False
        for rows in arrays.row_blocks(weights):
            part = weights[rows]
            if not (part >= 0.0).all():
                wanted = "numbers >= 0, inf to fix at 0"
                raise InputError("weights", "entries < 0 or NaN", wanted)
            finite = np.isfinite(part)
            infinite = infinite or not bool(finite.all())
            most = max(most, float(part.max(initial=0.0, where=finite)))
        vars(self).update(weights=weights, _most=most, _infinite=infinite, _even=False)
        vars(self).update(_digest=digest(weights), rowwise=weights.shape[0] == 1)

    def __repr__(self) -> str:
        told = f", weights of {self._digest}" if self._digest else ""
        return f"L1(lam={self.lam!r}{told})"

    def in_unit(self, unit: float) -> L1:
        """R/unit^2 of X/unit."""
        return self._with_lam(self.lam / unit)

    def __rmul__(self, factor: float) -> Any:
        """Positive multiple."""
        if self.weights is None:
            return super().__rmul__(factor)
        return self._with_lam(nonnegative("factor", factor) * self.lam)

    __mul__ = __rmul__

    def _with_lam(self, lam: float) -> L1:
        """The same penalty with another lam; weights are not read again."""
        other = copy(self)
        vars(other).update(lam=nonnegative("lam", lam))
        return other

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form unless entries are fixed, with 0 as a lower bound."""
        if self.weights is None:
            return self._declared(SeparableForm(self.lam, self.lam))
        weights = ((self.lam, self.weights),) if self.lam > 0.0 else ()
        found = self._declared(SeparableForm(weights=weights))
        stated = Stated("weighted", {"lam": self.lam}, lambda: {"weights": self.weights})
        if not self._infinite:
            return replace(found, stated=stated)
        steepest = self.lam * self._most
        constraint = Constraint(self._with_slope, fixed=self._fixed, steepest=steepest)
        return replace(found, form=None, stated=stated, constraint=constraint)

    def _fixed(self, shape: tuple[int, int]) -> Any:
        return np.broadcast_to(np.isinf(self.weights), shape)

    def _with_slope(self, slope: float) -> L1:
        if self.lam == 0.0:  # nothing but the fixed entries
            return L1(slope, np.where(np.isinf(self.weights), 1.0, 0.0))
        return L1(self.lam, np.where(np.isinf(self.weights), slope / self.lam, self.weights))

    @property
    def _limits(self) -> Any:
        """The slopes lam w; infinite weights are so for any lam."""
        w = np.ones((1, 1)) if self.weights is None else self.weights
        w = np.asarray(w, dtype=float)
        if not self._infinite:
            return self.lam * w
        return np.where(np.isinf(w), np.inf, self.lam * np.where(np.isinf(w), 0.0, w))

    @property
    def _theta(self) -> float:
        return math.inf if self._infinite else self.lam * self._most

    def value(self, X: Array) -> float:
        """Weighted sum of absolute values; infinite if an entry fixed at zero is not zero."""
        if self.weights is None:
            return self.lam * arrays.abs_sum(X)
        xp, limits = namespace(X), self._limits
        sizes = wide(xp.abs(X))
        finite = np.isfinite(limits)
        if not finite.all() and float(xp.max(sizes * like(1.0 * ~finite, sizes[:0]))) > 0.0:
            return math.inf
        return total(sizes * like(np.where(finite, limits, 0.0), sizes[:0]))

    def feasible(self, y: Array) -> Array:
        """Clip to the box |y| <= lam w."""
        if self.weights is None:
            return super().feasible(y)
        limit = like(self._limits, y)
        return namespace(y).clip(y, -limit, limit)

    def check(self, shape: tuple[int, int]) -> None:
        """Check that the weights broadcast to this shape."""
        if self.weights is not None:
            check_broadcast("weights", self.weights, shape)


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
        return self._declared(SeparableForm(self.lam1, self.lam1))

    def value(self, X: Array) -> float:
        """lam1 |X|_1 + lam2 |X|_F^2."""
        return self.lam1 * arrays.abs_sum(X) + self.lam2 * sqnorm(X)


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
    _even = False

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        return self._declared(SeparableForm(self.above, self.below))

    def value(self, X: Array) -> float:
        """Weighted parts and squares, summed block by block."""
        xp, found = namespace(X), self.lam2 * sqnorm(X)
        for rows in arrays.row_blocks(X):
            found += self.above * total(xp.clip(X[rows], 0.0, None))
            found -= self.below * total(xp.clip(X[rows], None, 0.0))
        return found

    def feasible(self, y: Array) -> Array:
        """Clip to the box -below <= y <= above."""
        return namespace(y).clip(y, -self.below, self.above)


@dataclass(frozen=True)
class GroupL2(Separable):
    r"""Sets whole rows or columns to zero, :math:`R(X) = \lambda \sum_g \|x_g\|_2`.

    Its smoothing is lam sum H_mu(|x_g|): theta = lam, gamma = lam (number of groups) / 2.

    Parameters
    ----------
    lam : float
        Weight, at least 0.
    groups : {"rows", "columns"}
        Whether each row or each column is a group.
    """

    lam: float
    groups: Literal["rows", "columns"] = "rows"
    _weights = ("lam",)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("groups", self.groups, ("rows", "columns"))
        object.__setattr__(self, "rowwise", self.groups == "rows")

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        by_rows = self.groups == "rows"
        rows, columns = (self.lam, 0.0) if by_rows else (0.0, self.lam)
        found = self._declared(SeparableForm(rows=rows, columns=columns))
        return replace(found, stated=Stated("groups", {"lam": self.lam, "axis": self._axis}))

    @property
    def _axis(self) -> int:
        return 1 if self.groups == "rows" else 0

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """(lam, lam groups / 2, 0)."""
        return Smoothability(self.lam, 0.5 * self.lam * shape[1 - self._axis], 0.0)

    def value(self, X: Array) -> float:
        """Weighted sum of group norms."""
        return self.lam * total(namespace(X).linalg.vector_norm(wide(X), axis=self._axis))

    def feasible(self, y: Array) -> Array:
        """Project every group on the ball of radius lam; in float64, because of the squares."""
        xp, kind, y = namespace(y), y.dtype, wide(y)
        sizes = xp.linalg.vector_norm(y, axis=self._axis, keepdims=True)
        ones = xp.ones_like(sizes)
        factor = xp.where(sizes > self.lam, self.lam / xp.where(sizes > 0, sizes, ones), ones)
        return xp.astype(y * factor, kind, copy=False)

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """y + t X, each group projected on its ball."""
        step = t * wide(X)
        found = self.feasible(step if y is None else y + step)
        return namespace(X).astype(found, X.dtype, copy=False)


@dataclass(frozen=True)
class Zero(Separable):
    """No penalty, R = 0."""

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A sum of no terms, with a separable form and 0 as a lower bound."""
        return replace(self._declared(SeparableForm()), parts=(), stated=None)

    def value(self, X: Array) -> float:
        return 0.0

    def feasible(self, y: Array) -> Array:
        return y * 0.0

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        return arrays.zeros(X.shape, X)
