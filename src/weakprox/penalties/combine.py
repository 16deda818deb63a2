"""Sums of penalties: constants add, and dual points are tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from weakprox.arguments import nonnegative
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, add_scaled, norm
from weakprox.passes import SeparableForm
from weakprox.penalties.base import Combinable
from weakprox.penalties.proximal import ACCURACY, proximal_dual
from weakprox.protocols import (
    Geometry,
    Penalty,
    PenaltyCapabilities,
    Smoothability,
    penalty_capabilities,
)

ROUNDS = 30  # limit for one proximal map; the next call continues from its result


@dataclass(frozen=True)
class Sum(Combinable):
    """R = R_1 + R_2 + ...; created by `+`.

    A dual step with total Lipschitz constant t gives each part t theta_i / theta, which
    corresponds to one smoothing parameter mu for all parts.
    """

    parts: tuple[Penalty, ...]
    separable: bool = False

    def __post_init__(self) -> None:
        """Flatten nested sums."""
        flat: list[Penalty] = []
        for part in self.parts:
            if isinstance(part, type) or not hasattr(part, "smoothability"):
                raise InputError("penalty", f"a sum with {part!r}", "penalties only")
            flat.extend(part.parts if isinstance(part, Sum) else (part,))
        if not flat:
            raise InputError("penalty", "an empty sum", "at least one penalty")
        object.__setattr__(self, "parts", tuple(flat))

    def __rmul__(self, factor: float) -> Sum:
        """Scale every part."""
        factor = nonnegative("factor", factor)
        scaled: list[Any] = [factor * cast(Any, part) for part in self.parts]
        return Sum(tuple(scaled))

    __mul__ = __rmul__

    def in_unit(self, unit: float) -> Sum:
        """R/unit^2 of X/unit."""
        return Sum(tuple(cast(Any, part).in_unit(unit) for part in self.parts))

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """Those of all parts: forms and lower bounds add; the map is Dykstra's method."""
        parts = [penalty_capabilities(part) for part in self.parts]
        form: SeparableForm | None = SeparableForm()
        infimum: float | None = 0.0
        for part in parts:
            form = None if form is None or part.form is None else form + part.form
            known = infimum is not None and part.infimum is not None
            infimum = cast(float, infimum) + cast(float, part.infimum) if known else None
        sizes = [part.size for part in parts if part.size is not None]
        return PenaltyCapabilities(
            form=form,
            proximal=self.proximal,
            infimum=infimum,
            in_unit=self.in_unit if all(part.in_unit for part in parts) else None,
            size=lambda: max((size() for size in sizes), default=0.0),
        )

    @property
    def rowwise(self) -> bool:
        """Whether every part acts on each row separately."""
        return all(part.rowwise for part in self.parts)

    @property
    def curvature(self) -> float:
        """Sum of curvatures."""
        return sum(part.curvature for part in self.parts)

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """theta, gamma and K add."""
        each = [part.smoothability(shape) for part in self.parts]
        return Smoothability(
            sum(c.theta for c in each),
            sum(c.gamma for c in each),
            sum(c.K for c in each),
        )

    def value(self, X: Array) -> float:
        """Sum of values."""
        return sum(part.value(X) for part in self.parts)

    def pull(self, y: tuple[Any, ...]) -> Array:
        """Sum of the parts' K'y."""
        total = self.parts[0].pull(y[0])
        for part, dual in zip(self.parts[1:], y[1:], strict=True):
            total = total + part.pull(dual)
        return total

    def dual_value(self, y: tuple[Any, ...]) -> float:
        """Sum of the parts' phi."""
        return sum(p.dual_value(v) for p, v in zip(self.parts, y, strict=True))

    def feasible(self, y: tuple[Any, ...]) -> tuple[Any, ...]:
        """Projection of each part's dual point on its own set."""
        return tuple(p.feasible(v) for p, v in zip(self.parts, y, strict=True))

    def ascend(
        self,
        y: tuple[Any, ...] | None,
        X: Array,
        t: float,
        *,
        geometry: Geometry = "paper",
    ) -> tuple[Any, ...]:
        """One step of each part, with t shared in proportion to theta."""
        shape = (int(X.shape[0]), int(X.shape[1]))
        thetas = [part.smoothability(shape).theta for part in self.parts]
        total = sum(thetas)
        shares = [t * theta / total if total > 0 else 0.0 for theta in thetas]
        duals = [None] * len(self.parts) if y is None else list(y)
        return tuple(
            part.ascend(dual, X, share, geometry=geometry)
            for part, dual, share in zip(self.parts, duals, shares, strict=True)
        )

    def proximal(
        self, v: Array, step: float, start: tuple[Any, ...] | None = None
    ) -> tuple[Any, ...]:
        """Dual points of the proximal map, by cycling over the parts (Dykstra's method)."""
        if start is None:
            start = self.ascend(None, 0.0 * v, 1.0 / step)
        duals = list(start)
        pulls = [part.pull(dual) for part, dual in zip(self.parts, duals, strict=True)]
        left = v - step * sum(pulls[1:], pulls[0])
        for _ in range(ROUNDS):
            moved = 0.0
            for i, part in enumerate(self.parts):
                add_scaled(left, step, pulls[i])
                duals[i] = proximal_dual(part, left, step, duals[i])
                before, pulls[i] = pulls[i], part.pull(duals[i])
                add_scaled(left, -step, pulls[i])
                moved = max(moved, norm(pulls[i] - before))
            if moved <= ACCURACY * norm(v) / step:
                break
        return tuple(duals)

    def distance(self, y: tuple[Any, ...]) -> float:
        """Sum of the parts' distances."""
        return sum(p.distance(v) for p, v in zip(self.parts, y, strict=True))

    def check(self, shape: tuple[int, int]) -> None:
        """Check that every part fits this shape."""
        for part in self.parts:
            part.check(shape)
