"""Bounds on single entries, as an exact penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from weakprox.arguments import nonnegative
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, like, namespace, scaled, total, wide
from weakprox.passes import SeparableForm
from weakprox.penalties.base import Combinable, check_broadcast, digest, read_only
from weakprox.protocols import (
    Constraint,
    Geometry,
    PenaltyCapabilities,
    Smoothability,
    Stated,
)


@dataclass(frozen=True)
class Box(Combinable):
    r"""Bounds, :math:`R(X) = s \sum_{ij} \max(l_{ij} - x_{ij},\ x_{ij} - u_{ij},\ 0)`.

    The penalty is exact: if the slope s is above the largest multiplier of the constraint
    :math:`l \le X \le u`, the minimisers are those of the problem with the constraint. By
    default, a `Problem` computes a slope that is proved to be steep enough. For `Denoising` and
    `NuclearNorm(lam)`, lam plus the largest distance of the data from the bounds is enough.
    `minimize` begins with the slope of G at the bounds, and raises it to that one unless a
    point within the bounds shows that the optimum is within the requested accuracy of the
    lower bound. The value of the answer counts violations by the slope used,
    ``result.source().penalty``. The constraint itself would be infinite
    at a low-rank X that nearly satisfies it, while the penalty is finite. The penalty is never
    above the indicator of the constraint, so that a proved lower bound also holds for the
    problem with the constraint, for any slope.

    The dual set is the box |y| <= s, with the linear term :math:`\sum u y_+ - l y_-`. It is
    smoothed with y^2/(2 s): theta = s, gamma = s m d / 2.

    Parameters
    ----------
    low, high : float or array that broadcasts to the shape of X
        The bounds; -inf and inf for none. Equal bounds fix entries: with low = high = 0 at
        some entries and infinite bounds elsewhere, those entries are zero. The fast passes
        read arrays beside the data, rounded outwards to its precision; a memory map of float32
        or float64 stays in its file, and other kinds are copied to the memory of this process.
    slope : float, optional
        The slope s outside of the bounds, at least 0. By default the bounds are a constraint,
        inf, and a `Problem` finds the slope. For that it needs `NuclearNorm`, or `NuclearBall`
        and bounds with :math:`l \le 0 \le u`; a loss of bounded curvature (not Poisson), as a
        finite sum that fits in memory; and no penalty but separable ones that are least at 0.
    """

    low: Any = field(compare=False)
    high: Any = field(compare=False)
    slope: float = math.inf
    _digest: str = field(default="", init=False)  # of the bounds: identifies the penalty
    _weights = ("slope",)
    separable = True
    curvature = 0.0
    rowwise = True

    def __post_init__(self) -> None:
        low, high = (read_only(name, getattr(self, name)) for name in ("low", "high"))
        for name, end in (("low", low), ("high", high)):
            if np.isnan(end).any():
                raise InputError(name, "NaN", "numbers, or infinity for no bound")
        try:
            wrong = bool((low > high).any())
        except ValueError:
            given = f"bounds of shapes {low.shape} and {high.shape}"
            raise ShapeError("low, high", given, "shapes that broadcast") from None
        if wrong:
            raise InputError("low", "entries above high", "low <= high")
        if (low == np.inf).any() or (high == -np.inf).any():
            raise InputError("low, high", "low = inf or high = -inf", "bounds that can be met")
        settings = {"low": low, "high": high, "_digest": digest(low, high)}
        steep = self.slope == math.inf
        settings["slope"] = math.inf if steep else nonnegative("slope", self.slope)
        settings["rowwise"] = low.shape[0] == 1 == high.shape[0]
        vars(self).update(settings)

    def __repr__(self) -> str:
        ends = [f"{end.item():g}" if end.size == 1 else "..." for end in (self.low, self.high)]
        told = "" if self._constrains else f", slope={self.slope!r}"
        told += f", {self._digest}" if "..." in ends else ""
        return f"Box({', '.join(ends)}{told})"

    @property
    def _constrains(self) -> bool:
        """Whether the bounds are a constraint, without a slope yet."""
        return self.slope == math.inf

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form if there is a slope, with 0 as a lower bound."""
        ends, constraint = {"low": self.low, "high": self.high}, None
        if self._constrains:
            constraint = Constraint(self._with_slope, bounds=(self.low, self.high))
        return PenaltyCapabilities(
            form=self._form,
            infimum=0.0,
            in_unit=self.in_unit,
            in_float64=lambda: self,
            constraint=constraint,
            stated=Stated("range", {"slope": self.slope}, lambda: ends),
        )

    @property
    def _form(self) -> SeparableForm | None:
        """The slopes and finite bounds; a side without a bound has the slope 0."""
        if self._constrains:
            return None
        bounded = (bool(np.isfinite(end).any()) for end in (self.high, self.low))
        above, below = (self.slope if some else 0.0 for some in bounded)
        if (above or below) and max(self.low.size, self.high.size) > 1:
            return SeparableForm(above, below, bounds=(self.low, self.high))
        low, high = float(self.low.flat[0]), float(self.high.flat[0])
        ends = [end for end in (low, high) if math.isfinite(end)] or [0.0]
        return SeparableForm(above, below, low=ends[0], high=ends[-1])

    def _with_slope(self, slope: float) -> Box:
        return replace(self, slope=slope)

    def in_unit(self, unit: float) -> Box:
        """R/unit^2 of X/unit."""
        low, high = (np.divide(end, unit, dtype=float) for end in (self.low, self.high))
        return replace(self, low=low, high=high, slope=self.slope / unit)

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """(s, s m d / 2, 0)."""
        return Smoothability(self.slope, 0.5 * self.slope * shape[0] * shape[1], 0.0)

    def value(self, X: Array) -> float:
        """Slope times the sum of distances from the bounds."""
        xp, x = namespace(X), wide(X)
        low, high = like(self.low, x), like(self.high, x)
        off = total(xp.clip(low - x, 0.0, None)) + total(xp.clip(x - high, 0.0, None))
        return self.slope * off if off else 0.0

    def pull(self, y: Array) -> Array:
        """K is the identity."""
        return y

    def dual_value(self, y: Array) -> float:
        """Return sum u y_+ - l y_-."""
        xp, y = namespace(y), wide(y)
        low, high = like(self.low, y), like(self.high, y)
        zero = xp.zeros_like(y)
        end = xp.where(y > 0.0, high + zero, xp.where(y < 0.0, low + zero, zero))
        return total(y * end)

    def feasible(self, y: Array) -> Array:
        """Clip to the box |y| <= s, and to one sign where the other bound is infinite."""
        xp, zero = namespace(y), namespace(y).zeros_like(y)
        most = like(np.where(np.isinf(self.high), 0.0, self.slope), y) + zero
        least = like(np.where(np.isinf(self.low), 0.0, -self.slope), y) + zero
        return xp.clip(y, least, most)

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """The y' in the box with the largest <y', X> - phi(y') - |y' - y|^2/(2t)."""
        xp, step = namespace(X), scaled(X, t)
        v = step if y is None else y + step
        # any finite number in the range can replace an infinite end: `feasible` clips the rest
        upper = np.where(np.isinf(self.high), np.maximum(self.low, 0.0), self.high)
        lower = np.where(np.isinf(self.low), np.minimum(upper, 0.0), self.low)
        with np.errstate(over="ignore"):  # a bound beyond the range of float32 has no effect
            low, high = (scaled(like(end, X), t) for end in (lower, upper))
        moved = xp.clip(v - high, 0.0, None) + xp.clip(v - low, None, 0.0)
        return self.feasible(moved)

    def distance(self, y: Array) -> float:
        """|y|^2 / (2 s)."""
        return arrays.sqnorm(y) / (2 * self.slope) if self.slope > 0 else 0.0

    def check(self, shape: tuple[int, int]) -> None:
        """Check that the bounds broadcast to this shape."""
        for name, end in (("low", self.low), ("high", self.high)):
            check_broadcast(name, end, shape)
