"""Lower bounds and delta of a proximal step, proved from a truncated decomposition.

All terms here are functions of singular values (or eigenvalues). The minimum of
w/2 |X - A|^2 + h(X) is therefore bounded below through upper bounds on the values of A: those
of the kept values, `upper`, and those of all others, each at most `tail`, with squares summing
to at most `energy`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.linalg.thin_svd import Accept, Vector

# Relative accuracy at which an SVD may stop for any tolerance. A value a thousand times
# larger kept runs from proving relative gaps of 1e-8.
FLOOR = 1e-15


@dataclass(frozen=True)
class Spectrum:
    """Ritz values of A, upper bounds on its leading values, and bounds on the others."""

    ritz: Vector
    upper: Vector
    tail: float
    energy: float
    sqnorm: float  # |A|_F^2
    slack: float  # rounding of sqnorm, subtracted from every lower bound


def soft_sum(values: Vector, theta: float) -> float:
    """Sum of (v - theta)_+^2."""
    excess = np.maximum(values - theta, 0.0)
    return float(excess @ excess)


def tail_sum(spec: Spectrum, theta: float) -> float:
    """Upper bound on the same sum over the values that were not kept."""
    if spec.tail <= max(theta, 0.0):
        return 0.0
    return (1.0 - theta / spec.tail) ** 2 * spec.energy


def penalty_lower(spec: Spectrum, weight: float, lam: float) -> float:
    """Lower bound on min w/2 |X-A|^2 + lam |X|_*."""
    c = lam / weight
    kept = soft_sum(spec.upper, c) + tail_sum(spec, c)
    return weight * (0.5 * (spec.sqnorm - kept) - spec.slack)


def ball_lower(spec: Spectrum, weight: float, tau: float) -> float:
    """Lower bound on min w/2 |X-A|^2 over nonnegative values summing to at most tau.

    By Lagrange duality in the one constraint, any theta >= 0 gives a bound.
    """
    theta = _best_multiplier(spec, tau)
    kept = soft_sum(spec.upper, theta) + tail_sum(spec, theta)
    return weight * (0.5 * (spec.sqnorm - kept) - theta * tau - spec.slack)


def _best_multiplier(spec: Spectrum, tau: float) -> float:
    """Maximiser of the concave bound of `ball_lower`: a zero of its slope.

    The slope is piecewise linear and decreasing, with breaks at the values and at the tail.
    """
    breaks = np.concatenate([[0.0, max(spec.tail, 0.0)], np.maximum(spec.upper, 0.0)])
    breaks = np.sort(breaks)
    upper = np.sort(spec.upper)
    sums = np.concatenate([np.cumsum(upper[::-1])[::-1], [0.0]])  # from the k-th value on
    above = np.searchsorted(upper, breaks, side="right")
    slopes = sums[above] - (upper.size - above) * breaks - tau
    if spec.tail > 0.0:
        slopes += spec.energy / spec.tail * np.maximum(1.0 - breaks / spec.tail, 0.0)
    rising = int((slopes > 0.0).sum())  # the bound still increases at this many breaks
    if rising == 0:
        return 0.0
    left, right = rising - 1, min(rising, len(breaks) - 1)
    fall = slopes[left] - slopes[right]
    if fall <= 0.0:
        return float(breaks[right])
    return float(breaks[left] + slopes[left] / fall * (breaks[right] - breaks[left]))


def value_errors(s: Vector, residuals: Vector, after: float) -> Vector:
    """Estimate from the residuals how far Ritz values may lie below the true values.

    The error is of second order in the residual if the value is well separated from the
    next, and of first order always. It is an estimate (`after` is itself a Ritz value), used
    to stop the SVD.
    """
    gap = np.maximum(s - max(after, 0.0), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        second = np.where(gap > 0, residuals**2 / gap, np.inf)
    return np.minimum(residuals, second)


def accurate_enough(gain: Any, delta1: float, floor: float = FLOOR) -> Accept:
    """Stopping rule for the SVD: triplets accurate enough for a delta1-weak proximal step.

    `gain(s)` is the part of -min psi that depends on the values. Raising them by their
    errors must not improve it by more than delta1. The floor keeps delta1 = 0 meaningful.
    """

    def accept(s: Vector, residuals: Vector, after: float) -> bool:
        errors = value_errors(s, residuals, after)
        allowed = max(delta1, floor * max(gain(s), 0.0))
        return bool(math.isfinite(allowed) and gain(s + errors) - gain(s) <= allowed)

    return accept
