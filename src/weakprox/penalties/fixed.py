"""Entries that are fixed at zero: a slope that is steep enough replaces the constraint."""

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
from weakprox.penalties.separable import L1, Separable
from weakprox.protocols import Loss, LossCapabilities, Penalty

ROOM = 1.01  # above the bound on multipliers


def without_infinite_weights(
    penalty: Penalty, loss: Loss, declared: LossCapabilities, values: ValueForm | None
) -> Penalty:
    """Return the penalty with a steep slope in place of each infinite weight.

    The minimisers are the same if the slope is above the multiplier of each fixed entry, and
    the penalty is finite where entries vanish up to rounding. The optimum with any slope is
    not above that with the constraint, so that lower bounds always hold for both.
    """
    parts = penalty.parts if isinstance(penalty, Sum) else (penalty,)
    if not any(isinstance(part, L1) and part.fixes for part in parts):
        return penalty
    slope = _steep(parts, loss, declared, values)
    found = [part.with_slope(slope) if isinstance(part, L1) else part for part in parts]
    return replace(penalty, parts=tuple(found)) if isinstance(penalty, Sum) else found[0]


def _steep(
    parts: tuple[Any, ...], loss: Loss, declared: LossCapabilities, values: ValueForm | None
) -> float:
    r"""A slope above the multipliers of all entries that are fixed at zero.

    At a solution X, the multiplier of a fixed entry is minus the sum of the slopes there of G,
    h and the other parts of R. Those of h are at most its weight, plus the multiplier of its
    bound on the sum of singular values, which is at most :math:`\|\nabla G(X)\|` since
    :math:`\langle y, X\rangle \ge 0` for slopes y of R. Positive semidefinite X have a dual Z
    as well, with :math:`|z_{ij}| \le \max_k z_{kk}`, and :math:`z_{kk}` is a sum of the slopes
    on the diagonal. A power of two, since a proof must find the same slope on any machine.
    """
    unknown = [type(part).__name__ for part in parts if not isinstance(part, Separable)]
    if values is None or unknown or not loss.is_finite_sum or declared.gathered is not None:
        given = "inf, with terms whose slopes have no known bound"
        wanted = "a sum of separable penalties, a nuclear norm or ball and data in memory"
        raise InputError("weights", given, f"{wanted}; or finite weights")
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
