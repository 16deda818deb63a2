"""Constraints on entries: slopes that are steep enough replace them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.simplex import ValueForm
from weakprox.penalties.base import Sum
from weakprox.penalties.box import Box
from weakprox.penalties.separable import L1, Separable
from weakprox.protocols import Loss, LossCapabilities, Penalty

ROOM = 1.01  # above the bound on multipliers


def without_constraints(
    penalty: Penalty, loss: Loss, declared: LossCapabilities, values: ValueForm | None
) -> Penalty:
    """Return the penalty with a steep slope in place of infinite weights and of bounds.

    The minimisers are the same if the slope is above the multiplier of each constraint, and
    the penalty is finite where constraints hold up to rounding. The optimum with any slope is
    not above that with the constraints, so that lower bounds always hold for both.
    """
    parts = penalty.parts if isinstance(penalty, Sum) else (penalty,)
    fixes = any(isinstance(part, L1) and part.fixes for part in parts)
    boxes = [part for part in parts if isinstance(part, Box) and part.constrains]
    if not fixes and not boxes:
        return penalty
    others = tuple(part for part in parts if not any(part is box for box in boxes))
    argument = "weights" if fixes else "slope"
    _check_known(argument, others, loss, declared, values)
    assert values is not None
    steep = _steep(others, loss, declared, values) if fixes else math.inf
    found: list[Any] = []
    for part in parts:
        if isinstance(part, L1) and part.fixes:
            found.append(part.with_slope(steep))
        elif isinstance(part, Box) and part.constrains:
            slope = _steep_sides(boxes, part, others, loss, declared, values)
            found.append(replace(part, slope=slope))
        else:
            found.append(part)
    return replace(penalty, parts=tuple(found)) if isinstance(penalty, Sum) else found[0]


def _check_known(
    argument: str,
    parts: tuple[Any, ...],
    loss: Loss,
    declared: LossCapabilities,
    values: ValueForm | None,
) -> None:
    """Raise unless bounds on the slopes of all other terms are known."""
    unknown = [type(part).__name__ for part in parts if not isinstance(part, Separable)]
    bounded = declared.smoothness_at is None  # the smoothness is a bound on curvature
    inside = loss.is_finite_sum and declared.gathered is None
    if values is None or unknown or not inside or not bounded:
        given = "inf, with terms whose slopes have no known bound"
        wanted = "a sum of separable penalties, a nuclear norm or ball and data in memory"
        raise InputError(argument, given, f"{wanted}; or finite {argument}")


def _steep_sides(
    boxes: list[Box],
    box: Box,
    others: tuple[Any, ...],
    loss: Loss,
    declared: LossCapabilities,
    values: ValueForm,
) -> float:
    r"""A slope above the multipliers of bounds on entries.

    As in `_steep`, the multiplier of an entry is at most the sum of the slopes there of G, h
    and the other parts of R. The bound on the multiplier of a ball needs
    :math:`\langle y, X\rangle \ge 0` for the multipliers y of the bounds, which holds if they
    contain zero. The gradient of G at a solution follows from the value of f at a point P
    within the bounds, the one nearest to zero: f is not larger at a solution.
    """
    shape = loss.shape
    points = [each.nearest_to_zero(shape) for each in boxes]
    P = points[0]
    ball = math.isfinite(values.tau)
    fixes = any(part.fixes for part in others)
    unknown = values.symmetric or (P.any() and (ball or fixes))
    if unknown or any((other != P).any() for other in points):
        given = f"none, with {box!r} and terms whose multipliers have no known bound"
        wanted = "a finite slope, a nuclear norm, or a ball and bounds with low <= 0 <= high"
        raise InputError("slope", given, wanted)
    point = arrays.like(P, loss.reference)
    batch = loss.everything()
    own = sum(part.steepest + part.curvature * box.largest for part in others)
    there = float(sum(part.value(point) for part in others)) + values.lam * float(
        np.abs(P).sum()  # at least the nuclear norm
    )
    g = np.asarray(to_numpy(loss.grad(point, batch)), dtype=float)
    beta = loss.smoothness
    if declared.centre is not None:  # G is a squared distance to C = P - g/beta
        whole = math.sqrt(float((g**2).sum()) + 2.0 * beta * there)
        at_bounds = beta * box.farthest(P - g / beta)
        slope = min(whole, at_bounds)
    else:
        away = _distance(loss, declared, values, P, float(np.linalg.norm(g)), there)
        slope = whole = float(np.linalg.norm(g)) + beta * away
    bound = slope + own + values.lam + (whole if ball else 0.0)
    return 2.0 ** math.ceil(math.log2(ROOM * bound)) if bound > 0.0 else 1.0


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
    parts: tuple[Any, ...], loss: Loss, declared: LossCapabilities, values: ValueForm
) -> float:
    r"""A slope above the multipliers of all entries that are fixed at zero.

    At a solution X, the multiplier of a fixed entry is minus the sum of the slopes there of G,
    h and the other parts of R. Those of h are at most its weight, plus the multiplier of its
    bound on the sum of singular values, which is at most :math:`\|\nabla G(X)\|` since
    :math:`\langle y, X\rangle \ge 0` for slopes y of R. Positive semidefinite X have a dual Z
    as well, with :math:`|z_{ij}| \le \max_k z_{kk}`, and :math:`z_{kk}` is a sum of the slopes
    on the diagonal. A power of two, since a proof must find the same slope on any machine.
    """
    shape = loss.shape
    if values.symmetric and any(
        part.fixed(shape).diagonal().any() for part in parts if part.fixes
    ):
        wanted = "finite weights on the diagonal of a positive semidefinite matrix"
        raise InputError("weights", "inf on the diagonal", wanted)
    zero = arrays.zeros(shape, loss.reference)
    g = np.abs(np.asarray(to_numpy(loss.grad(zero, loss.everything())), dtype=float))
    fixed = np.logical_or.reduce([part.fixed(shape) for part in parts])
    own = sum(part.steepest for part in parts)
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
    bound = there + spectral + own + cone
    return 2.0 ** math.ceil(math.log2(ROOM * bound)) if bound > 0.0 else 1.0


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
