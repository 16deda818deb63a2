"""Code shared by all penalties: sums, multiples and the smoothed penalty."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from weakprox import protocols
from weakprox.arguments import nonnegative
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, add_scaled, inner, norm, sqnorm
from weakprox.linalg.pending import Pending
from weakprox.passes import SeparableForm, compiling, passes_for
from weakprox.penalties.proximal import ACCURACY, proximal_dual
from weakprox.protocols import Geometry, Penalty, Smoothability

ROUNDS = 30  # limit for one proximal map of a sum; the next call continues from its result


class Combinable:
    """Mixin: `2.0 * R` scales the weights, `R1 + R2` makes a sum."""

    _weights: tuple[str, ...] = ()
    __array_ufunc__ = None  # an array times a penalty is refused, not an array of penalties

    def __add__(self, other: Penalty) -> Sum:
        """Sum of two penalties."""
        return Sum((self, other))  # type: ignore[arg-type]

    def __radd__(self, other: Penalty) -> Sum:
        """Sum with a penalty of another kind on the left, such as a user's own."""
        return Sum((other, self))  # type: ignore[arg-type]

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
        """The constant bR = K + theta / mu."""
        return self.constants.smoothness(self.mu)

    @property
    def bias(self) -> float:
        """R - bias <= R_mu <= R."""
        return self.constants.gamma * self.mu if self.constants.theta > 0 else 0.0

    def dual(self, X: Array) -> Any:
        """The maximising y."""
        return self.penalty.ascend(None, X, self._steepness)

    @property
    def _steepness(self) -> float:
        """The step of the dual point from the centre of Y."""
        return self.constants.theta / self.mu if self.constants.theta > 0 else 0.0

    def grad(self, X: Array) -> Array:
        """Gradient of R_mu, as a new array."""
        G = self.penalty.pull(self.dual(X))
        if self.penalty.curvature:
            add_scaled(G, self.penalty.curvature, X)
        return G

    def slope(self, X: Array, D: Array, eta: float = 0.0) -> float:
        """Derivative <grad R_mu(X + eta D), D> along D, by blocks of rows where possible."""
        fused = self._compiled(X, D)
        if fused is not None:
            numbers = eta, *self._clip(X), self.penalty.curvature
            along: float = fused.slope(X, D, numbers)
            return along
        found = []

        def work(rows: slice) -> None:
            along = D[rows]
            G = self.grad(X[rows] + eta * along if eta else X[rows])
            found.append(inner(G, along))

        self._each(work, X)
        return math.fsum(found)

    def _compiled(self, X: Array, *others: Array) -> Any:
        """The compiled passes if the run uses them on such arrays and they apply, else None."""
        offers = protocols.penalty_capabilities(self.penalty)
        if offers.form is None or offers.clips is None or not arrays.is_numpy(X):
            return None
        if any(x.dtype != X.dtype for x in others) or not passes_for(X, *others).COMPILED:
            return None
        return compiling.module("target_compiled")

    def _clip(self, X: Array) -> tuple[float, ...]:
        """The steepness, and the slopes above and below zero, of a gradient that clips."""
        slopes = protocols.penalty_capabilities(self.penalty).clips or ()
        return min(self._steepness, float(np.finfo(X.dtype).max)), *slopes

    def _each(self, work: Callable[[slice], None], X: Array) -> None:
        """Call `work` on blocks of rows if the penalty acts on each row, else on all rows."""
        if self.penalty.rowwise:
            arrays.each_block(work, X)
        else:
            work(slice(None))

    def target(self, X: Array, G: Array, weight: float) -> float:
        """Overwrite G by the proximal target X - (G + grad R_mu(X))/weight; return phi(y).

        Penalties that act on each row separately are evaluated in blocks of rows, so that
        their gradient is never stored whole. This takes one pass over X and G, and one array
        less.
        """
        blocks = arrays.row_blocks(X) if self.penalty.rowwise else [slice(None)]
        keep = 1.0 - self.penalty.curvature / weight
        phi = 0.0
        for rows in blocks:
            y = self.dual(X[rows])
            phi += self.penalty.dual_value(y)
            part = G[rows]
            part += self.penalty.pull(y)
            arrays.reflect(part, 1.0 / weight, X[rows], keep)
        return phi

    def target_around(
        self, X: Array, C: Array, smoothness: float, weight: float, out: Array | None
    ) -> Array | Pending:
        """As `target` for G = L/2 |X - C|^2, whose gradient need not be formed.

        At the theory's step, weight = L + curvature, X cancels in the target. NumPy arrays in
        memory are computed with their first product if the penalty acts on each row
        separately.
        """
        out = arrays.empty(X.shape, X) if out is None else out
        keep = 1.0 - (smoothness + self.penalty.curvature) / weight
        if abs(keep) <= 8 * arrays.eps_of(X):
            keep = 0.0
        fill = partial(self._fill, X, C, smoothness / weight, 1.0 / weight, keep, out)
        if self.penalty.rowwise and all(map(arrays.in_memory, (X, C, out))):
            return Pending(out, fill)
        fill(None)
        return out

    def _fill(
        self, X: Array, C: Array, toward: float, away: float, keep: float, out: Array, Q: Any
    ) -> tuple[Array, tuple[float, float]] | None:
        """Overwrite `out` by toward C - away pull + keep X; for `Pending`."""
        fused = self._compiled(X, C, out)
        if fused is not None:
            numbers = toward, away, *self._clip(X), keep
            found: tuple[Array, tuple[float, float]] = fused.target(X, C, out, Q, numbers)
            return found
        product = None if Q is None else arrays.empty((int(X.shape[0]), int(Q.shape[1])), X)
        squares: list[tuple[float, float]] = []

        def work(rows: slice) -> None:
            pulled, part = self.penalty.pull(self.dual(X[rows])), out[rows]
            arrays.difference(C[rows], toward, pulled, away, part)
            if keep:
                part += keep * X[rows]
            if product is not None:
                arrays.times_tiles(part, Q, product[rows])
                squares.append(arrays.rough_sqnorm(part))

        self._each(work, X)
        if product is None:
            return None
        square, error = (math.fsum(x) for x in zip(*squares, strict=True))
        return product, (square, error)

    def value(self, X: Array) -> float:
        """R_mu(X), by blocks of rows where possible."""
        found: list[float] = []

        def work(rows: slice) -> None:
            part = X[rows]
            y = self.dual(part)
            found.append(inner(self.penalty.pull(y), part) - self.penalty.dual_value(y))
            if self.penalty.curvature:
                found.append(0.5 * self.penalty.curvature * sqnorm(part))
            if self.constants.theta > 0:
                found.append(-self.mu * self.penalty.distance(y))

        self._each(work, X)
        return math.fsum(found)


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
            flat.extend(protocols.penalty_capabilities(part).parts or (part,))
        if not flat:
            raise InputError("penalty", "an empty sum", "at least one penalty")
        object.__setattr__(self, "parts", tuple(flat))

    def __rmul__(self, factor: float) -> Sum:
        factor = nonnegative("factor", factor)
        return Sum(tuple(factor * cast(Any, part) for part in self.parts))

    __mul__ = __rmul__

    def in_unit(self, unit: float) -> Sum:
        """R/unit^2 of X/unit."""
        offers: Any = [protocols.penalty_capabilities(part).in_unit for part in self.parts]
        return Sum(tuple(part(unit) for part in offers))

    def in_float64(self) -> Sum | None:
        """The same sum for arrays in float64; None if a part does not offer it."""
        offers = [protocols.penalty_capabilities(part).in_float64 for part in self.parts]
        parts: list[Any] = [None if wider is None else wider() for wider in offers]
        return None if None in parts else Sum(tuple(parts))

    @property
    def capabilities(self) -> protocols.PenaltyCapabilities:
        """Those of all parts: forms that fit and lower bounds add; the map is Dykstra's."""
        parts = [protocols.penalty_capabilities(part) for part in self.parts]
        infima: list[Any] = [part.infimum for part in parts]
        sizes = [part.size for part in parts if part.size is not None]
        form: SeparableForm | None = SeparableForm()
        for part in parts:
            form = None if form is None or part.form is None else form + part.form
        return protocols.PenaltyCapabilities(
            form=form,
            proximal=self.proximal,
            infimum=None if None in infima else sum(infima, 0.0),
            in_unit=self.in_unit if all(part.in_unit for part in parts) else None,
            in_float64=self.in_float64,
            parts=self.parts,
            size=lambda: max((size() for size in sizes), default=0.0),
        )

    @property
    def rowwise(self) -> bool:
        """Whether every part acts on each row separately."""
        return all(part.rowwise for part in self.parts)

    @property
    def curvature(self) -> float:
        return sum(part.curvature for part in self.parts)

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """theta, gamma and K add."""
        each = [part.smoothability(shape) for part in self.parts]
        thetas, gammas, Ks = zip(*((c.theta, c.gamma, c.K) for c in each), strict=True)
        return Smoothability(sum(thetas), sum(gammas), sum(Ks))

    def value(self, X: Array) -> float:
        return sum(part.value(X) for part in self.parts)

    def pull(self, y: tuple[Any, ...]) -> Array:
        """Sum of the parts' K'y."""
        total = self.parts[0].pull(y[0])
        for part, dual in zip(self.parts[1:], y[1:], strict=True):
            total = total + part.pull(dual)
        return total

    def dual_value(self, y: tuple[Any, ...]) -> float:
        return sum(p.dual_value(v) for p, v in zip(self.parts, y, strict=True))

    def feasible(self, y: tuple[Any, ...]) -> tuple[Any, ...]:
        """Projection of each part's dual point on its own set."""
        return tuple(p.feasible(v) for p, v in zip(self.parts, y, strict=True))

    def ascend(
        self, y: tuple[Any, ...] | None, X: Array, t: float, *, geometry: Geometry = "paper"
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
        return sum(p.distance(v) for p, v in zip(self.parts, y, strict=True))

    def check(self, shape: tuple[int, int]) -> None:
        """Check that every part fits this shape."""
        for part in self.parts:
            part.check(shape)


def entrywise(name: str, given: Any) -> Any:
    """Return a number or array, one number for each entry of X, with two axes on the host."""
    try:
        host = arrays.to_numpy(given) if arrays.is_array(given) else np.asarray(given)
        if host.dtype.kind not in "biufO" or given is None:
            raise TypeError
        found = np.array(np.atleast_2d(host), dtype=float, order="C")
    except (TypeError, ValueError):
        wanted = "a number or an array of numbers"
        came = "None" if given is None else type(given).__name__
        raise InputError(name, came, wanted) from None
    if found.ndim != 2 or not found.size:
        raise ShapeError(name, f"shape {host.shape}", "at most two axes, not empty")
    found.flags.writeable = False
    return found


def read_only(name: str, given: Any) -> Any:
    """As `entrywise`, without a copy of an array in a file; float32 stays float32."""
    if np.ma.is_masked(given):
        raise InputError(name, "a masked array", "a number for each entry, such as filled(0.0)")
    kept = isinstance(given, np.ndarray) and given.ndim == 2 and given.size > 0
    if kept and given.dtype in (np.float32, np.float64):
        found = given if arrays.in_file(given) else np.array(given, order="C")
        found = found.view()
        found.flags.writeable = False
        return found
    return entrywise(name, given)


def check_broadcast(name: str, given: Any, shape: tuple[int, int]) -> None:
    """Raise unless an array with two axes broadcasts to this shape."""
    if any(mine not in (1, size) for mine, size in zip(given.shape, shape, strict=True)):
        raise ShapeError(name, f"shape {given.shape}", f"{shape}, or one that broadcasts")


def parts_of(penalty: Any) -> list[Any]:
    """Return the terms of a penalty that are no sums and not zero."""
    parts = protocols.penalty_capabilities(penalty).parts
    return [penalty] if parts is None else [one for part in parts for one in parts_of(part)]


def digest(*parts: Any) -> str:
    """Return shapes of arrays and a hash of their contents, which identify a penalty."""
    told = hashlib.sha256()
    for part in parts:
        for rows in arrays.row_blocks(part):
            told.update(np.asarray(part[rows], dtype=float).tobytes())
    return " ".join([*(str(part.shape) for part in parts), told.hexdigest()[:16]])
