"""Constraints on entries: slopes replace them.

A slope above the multipliers of all constraints has the same minimisers as the constraints. A
bound on the multipliers is always known, but it is often far above them, and the steeper a
slope, the more a small violation at a low-rank X costs. So runs begin with slopes of the size
of the gradient. They are raised to the bound unless a point within the constraints shows that
the answer is good enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, namespace, to_numpy
from weakprox.linalg.simplex import ValueForm
from weakprox.penalties.base import Sum, parts_of
from weakprox.protocols import Loss, LossCapabilities, Penalty, penalty_capabilities

ROOM = 1.01  # above the bound on multipliers
STEEPER = 16.0  # factor between the slopes of two runs
LEAST = 1e-3  # share of the largest entry of a gradient that the first slope is at least


@dataclass(frozen=True)
class Constrained:
    """A penalty with constraints on entries, and slopes that may replace them.

    `first` and `steepest` have a slope for each part of the penalty: one to begin with, and one
    that is proved to be steep enough. They are 0 for parts without a constraint.
    """

    penalty: Penalty
    first: tuple[float, ...]
    steepest: tuple[float, ...]

    def slopes(self) -> list[tuple[float, ...]]:
        """The slopes of successive runs; the last ones are the steepest."""
        found, factor = [self.first], 1.0
        while found[-1] != self.steepest:
            factor *= STEEPER
            pairs = zip(self.first, self.steepest, strict=True)
            found.append(tuple(min(factor * first, most) for first, most in pairs))
        return found

    def with_slopes(self, slopes: tuple[float, ...]) -> Penalty:
        """The penalty with these slopes in place of its constraints."""
        pairs = zip(self._limited(), slopes, strict=True)
        found = [part if one is None else one.with_slope(x) for (part, one), x in pairs]
        return found[0] if len(found) == 1 else Sum(tuple(found))

    def nearest(self, X: Array) -> Array:
        """The point nearest to X within the constraints."""
        xp, shape = namespace(X), (int(X.shape[0]), int(X.shape[1]))
        for _, one in self._limited():
            if one is not None and one.bounds is not None:
                low, high = (arrays.like(end, X) for end in one.bounds)
                X = xp.minimum(xp.maximum(X, low), high)
            elif one is not None and one.fixed is not None:
                free = arrays.like(~np.broadcast_to(one.fixed(shape), shape), X)
                X = X * free
        return X

    def _limited(self) -> list[tuple[Any, Any]]:
        """Each part with its constraint."""
        parts = parts_of(self.penalty)
        return [(part, penalty_capabilities(part).constraint) for part in parts]


def without_constraints(
    penalty: Penalty, loss: Loss, declared: LossCapabilities, values: ValueForm | None
) -> Constrained | None:
    """Return slopes in place of infinite weights and of bounds, if the penalty has any.

    With the steepest slopes the minimisers are the same, since they are above the multiplier of
    each constraint. The penalty is finite where constraints hold up to rounding. The optimum
    with any slope is not above that with the constraints, so that lower bounds always hold for
    both.
    """
    parts = parts_of(penalty)
    limits = [penalty_capabilities(part).constraint for part in parts]
    if not any(limits):
        return None
    boxes = [one.bounds for one in limits if one is not None and one.bounds is not None]
    others = [
        part for part, one in zip(parts, limits, strict=True) if one is None or not one.bounds
    ]
    fixes = len(boxes) < sum(one is not None for one in limits)
    _check_known("weights" if fixes else "slope", others, loss, declared, values)
    assert values is not None
    fixed = _steep(others, loss, declared, values) if fixes else math.inf
    zero, first, steepest = np.zeros(loss.shape), list[float](), list[float]()
    for part, one in zip(parts, limits, strict=True):
        if one is None:
            most = least = 0.0
        elif one.bounds is None:
            most, g = fixed, np.abs(_gradient(loss, zero))
            least = _first(np.where(_fixed([part], loss.shape), g, 0.0), g, most)
        else:
            most = _steep_sides(boxes, one.bounds, part, others, loss, declared, values)
            low, high = one.bounds
            g = _gradient(loss, np.clip(zero, low, high))
            outward = np.where(np.isfinite(low), g, 0.0), np.where(np.isfinite(high), -g, 0.0)
            least = _first(np.maximum(*outward), g, most)
        first.append(least)
        steepest.append(most)
    return Constrained(penalty, tuple(first), tuple(steepest))


def _gradient(loss: Loss, X: Any) -> Any:
    """The gradient of G at X, in NumPy."""
    found = loss.grad(arrays.like(X, loss.reference), loss.everything())
    return np.asarray(to_numpy(found), dtype=float)


def _first(outward: Any, g: Any, steepest: float) -> float:
    """A slope above the part of the gradient g that points out of the constraints."""
    most = max(float(outward.max(initial=0.0)), LEAST * float(np.abs(g).max(initial=0.0)))
    return min(steepest, _power(most)) if most > 0.0 else steepest


def _power(bound: float) -> float:
    """A power of two above the bound, so that a proof finds the same one on any machine."""
    return 2.0 ** math.ceil(math.log2(ROOM * bound)) if bound > 0.0 else 1.0


def _slope(part: Penalty) -> float | None:
    """Return the largest slope of an entry, finite ones if some are not; None if unknown.

    It is known for penalties that are least at zero.
    """
    declared = penalty_capabilities(part)
    form, constraint = declared.form, declared.constraint
    if constraint is not None:
        return constraint.steepest if constraint.fixed is not None else None
    if form is None:
        return None
    low, high = form.bounds or (form.low, form.high)
    if np.any(np.asarray(low) > 0.0) or np.any(np.asarray(high) < 0.0):
        return None
    weights = sum(factor * arrays.largest(one) for factor, one in form.weights)
    return max(form.above, form.below) + form.rows + form.columns + weights


def _slopes(parts: list[Any]) -> float:
    return sum(_slope(part) or 0.0 for part in parts)


def _fixed(parts: list[Any], shape: tuple[int, int]) -> Any:
    """Return which entries of a matrix of this shape are fixed at zero."""
    limits = [penalty_capabilities(part).constraint for part in parts]
    masks = [one.fixed(shape) for one in limits if one is not None and one.fixed is not None]
    return np.logical_or.reduce([np.zeros(shape, bool), *masks])


def _check_known(
    argument: str,
    parts: list[Any],
    loss: Loss,
    declared: LossCapabilities,
    values: ValueForm | None,
) -> None:
    """Raise unless bounds on the slopes of all other terms are known."""
    unknown = [repr(part) for part in parts if _slope(part) is None]
    if declared.smoothness_at is not None:  # the smoothness is no bound on curvature
        unknown.append(f"{loss!r}, whose curvature is unbounded")
    if not loss.is_finite_sum or declared.gathered is not None:
        unknown.append(f"{loss!r}, whose data are not in memory")
    if values is None:
        unknown.append("this spectral term")
    if unknown:
        given = f"inf, with terms whose slopes have no known bound: {unknown[0]}"
        wanted = "a sum of separable penalties, a nuclear norm or ball and data in memory"
        raise InputError(argument, given, f"{wanted}; or finite {argument}")


def _steep_sides(
    boxes: list[tuple[Any, Any]],
    bounds: tuple[Any, Any],
    part: Penalty,
    others: list[Any],
    loss: Loss,
    declared: LossCapabilities,
    values: ValueForm,
) -> float:
    r"""A slope above the multipliers of bounds on entries, which are those of this part.

    As in `_steep`, the multiplier of an entry is at most the sum of the slopes there of G, h
    and the other parts of R. The bound on the multiplier of a ball needs
    :math:`\langle y, X\rangle \ge 0` for the multipliers y of the bounds, which holds if they
    contain zero. The gradient of G at a solution follows from the value of f at a point P
    within the bounds, the one nearest to zero: f is not larger at a solution.
    """
    shape = loss.shape
    points = [np.clip(np.zeros(shape), *each) for each in boxes]
    P = points[0]
    ball = math.isfinite(values.tau)
    unknown = values.symmetric or (P.any() and (ball or _fixed(others, shape).any()))
    if unknown or any((other != P).any() for other in points):
        given = f"none, with {part!r} and terms whose multipliers have no known bound"
        wanted = "a finite slope, a nuclear norm, or a ball and bounds with low <= 0 <= high"
        raise InputError("slope", given, wanted)
    point = arrays.like(P, loss.reference)
    # the largest size of a finite bound, where a quadratic is steepest
    largest = max(float(np.abs(end[np.isfinite(end)]).max(initial=0.0)) for end in bounds)
    own = _slopes(others) + sum(part.curvature for part in others) * largest
    there = float(sum(part.value(point) for part in others)) + values.lam * float(
        np.abs(P).sum()  # at least the nuclear norm
    )
    g = _gradient(loss, P)
    beta = loss.smoothness
    if declared.centre is not None:  # G is a squared distance to C = P - g/beta
        whole = math.sqrt(float((g**2).sum()) + 2.0 * beta * there)
        C = P - g / beta
        # the largest distance of an entry of C from a finite bound
        far = max(float(np.abs(C - np.where(np.isinf(end), C, end)).max()) for end in bounds)
        slope = min(whole, beta * far)
    else:
        away = _distance(loss, declared, values, P, float(np.linalg.norm(g)), there)
        slope = whole = float(np.linalg.norm(g)) + beta * away
    bound = slope + own + values.lam + (whole if ball else 0.0)
    return _power(bound)


def _distance(
    loss: Loss,
    declared: LossCapabilities,
    values: ValueForm,
    P: Any,
    slope: float,
    there: float,
) -> float:
    """A bound on the distance of a solution from P, where G has a gradient of norm `slope`.

    `there` is a bound on R + h at P. A strongly convex f at X exceeds that at P if their
    distance d has -slope d + w/2 d^2 > there.
    """
    found, size = [], float(np.linalg.norm(P))
    if math.isfinite(values.tau):
        found.append(values.tau + size)
    w = loss.strong_convexity
    if w > 0.0:
        found.append((slope + math.sqrt(slope**2 + 2.0 * w * there)) / w)
    if values.lam > 0.0 and declared.infimum is not None:
        value = loss.value(arrays.like(P, loss.reference), loss.everything())
        found.append((value - declared.infimum + there) / values.lam + size)
    if not found:
        wanted = "a bound on the sum of singular values, or a finite slope"
        raise InputError("slope", "none, with a solution of unknown size", wanted)
    return min(found)


def _steep(
    parts: list[Any], loss: Loss, declared: LossCapabilities, values: ValueForm
) -> float:
    r"""A slope above the multipliers of all entries that are fixed at zero.

    At a solution X, the multiplier of a fixed entry is minus the sum of the slopes there of G,
    h and the other parts of R. Those of h are at most its weight, plus the multiplier of its
    bound on the sum of singular values, which is at most :math:`\|\nabla G(X)\|` since
    :math:`\langle y, X\rangle \ge 0` for slopes y of R. Positive semidefinite X have a dual Z
    as well, with :math:`|z_{ij}| \le \max_k z_{kk}`, and :math:`z_{kk}` is a sum of the slopes
    on the diagonal.
    """
    shape = loss.shape
    fixed = _fixed(parts, shape)
    if values.symmetric and fixed.diagonal().any():
        wanted = "finite weights on the diagonal of a positive semidefinite matrix"
        raise InputError("weights", "inf on the diagonal", wanted)
    g = np.abs(_gradient(loss, np.zeros(shape)))
    own = _slopes(parts)
    length = float(np.linalg.norm(np.where(fixed, 0.0, g)))
    if declared.centre is not None:  # G is a squared distance: fixed entries do not move
        there, whole, radius = (
            float(g[fixed].max(initial=0.0)),
            length,
            length / loss.smoothness,
        )
        on_diagonal = 2.0 * length
    else:
        radius = _radius(loss, declared, values, float(np.linalg.norm(g)))
        there = whole = on_diagonal = float(np.linalg.norm(g)) + loss.smoothness * radius
    spectral = values.lam + (whole if math.isfinite(values.tau) else 0.0)
    cone = 0.0
    if values.symmetric:
        squares = sum(part.curvature for part in parts) * radius
        cone = on_diagonal + squares + own + spectral
    return _power(there + spectral + own + cone)


def _radius(loss: Loss, declared: LossCapabilities, values: ValueForm, slope: float) -> float:
    """A bound on the norm of a solution, `slope` being the norm of the gradient at zero."""
    found = [values.tau]
    if loss.strong_convexity > 0.0:
        found.append(slope / loss.strong_convexity)
    if values.lam > 0.0 and declared.infimum is not None:
        zero = arrays.zeros(loss.shape, loss.reference)
        found.append((loss.value(zero, loss.everything()) - declared.infimum) / values.lam)
    if not math.isfinite(min(found)):
        wanted = "a bound on the sum of singular values, or finite weights"
        raise InputError("weights", "inf, with a solution of unknown size", wanted)
    return min(found)
