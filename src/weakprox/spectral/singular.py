"""Thin SVD of a proximal target, and what a truncated decomposition proves about a step.

All terms here are functions of singular values (or eigenvalues). The minimum of
w/2 |X - A|^2 + h(X) is therefore bounded below through upper bounds on the values of A: those
of the kept values, `upper`, and those of all others, each at most `tail`, with squares summing
to at most `energy`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg._thin_svd import Accept, Method, ThinSVD, Vector, thin_svd, wants_full
from weakprox.linalg.arrays import Array, eps_of, rough_sqnorm, sqnorm, to_numpy, wide
from weakprox.linalg.bounds import EXACT_BELOW, deflated_norm, raised
from weakprox.linalg.gram_svd import gram_error, gram_svd, squared
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.pending import Pending, formed
from weakprox.linalg.simplex import ValueForm
from weakprox.linalg.thick_svd import SMALLEST, columns_for, thick_svd
from weakprox.linalg.threads import all_threads
from weakprox.protocols import Tolerance, WeakProx

RestsOn = Literal["exact", "high-probability"]

# When a full decomposition through the Gram matrix is faster than a block method: with a
# basis to start from, without one, and for a large share of the triplets
# (benchmarks/thin_svd.py).
GRAM_BELOW = 96
GRAM_BELOW_COLD = 350
GRAM_SHARE = 0.15

ROUGH_POWERS = 2  # steps up to which vectors in single precision are as accurate

# Relative accuracy at which an SVD may stop for any tolerance. With a value a thousand
# times larger, runs could not prove relative gaps of 1e-8.
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
    """Lower bound on min w/2 |X-A|^2 over nonnegative values with sum at most tau."""
    theta = _best_multiplier(spec, tau)  # any theta >= 0 gives a bound, by Lagrange duality
    kept = soft_sum(spec.upper, theta) + tail_sum(spec, theta)
    return weight * (0.5 * (spec.sqnorm - kept) - theta * tau - spec.slack)


def values_lower(A: Array, weight: float, form: ValueForm) -> float:
    """Lower bound on min w/2 |X-A|^2 + h(X) from all singular values of A, without vectors."""
    B = wide(A.T if A.shape[0] < A.shape[1] else A)
    with all_threads(int(B.shape[1])):
        squares = np.asarray(to_numpy(decompositions.eigvalsh(squared(B))), dtype=float)[::-1]
    squares = np.maximum(squares, 0.0)
    total, slack = norm_with_error(A, certify=True)
    upper = np.sqrt(squares + gram_error(int(B.shape[0]), squares)) * (1 + 16 * eps_of(B))
    spec = Spectrum(np.sqrt(squares), upper, 0.0, 0.0, total, slack)
    if math.isfinite(form.tau):
        return ball_lower(spec, weight, form.tau)
    return penalty_lower(spec, weight, form.lam)


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


def gram_is_cheaper(shape: tuple[int, int], rank: int, warm: bool) -> bool:
    """Return True if a full decomposition is the cheaper way to compute `rank` triplets."""
    least = min(shape)
    return least <= (GRAM_BELOW if warm else GRAM_BELOW_COLD) or rank >= GRAM_SHARE * least


def norm_with_error(A: Array | Pending, certify: bool) -> tuple[float, float]:
    """Squared norm of A and a bound on its rounding; accurate if a proof needs it."""
    if certify:
        square = sqnorm(A)
        return square, 64 * eps_of(A) * square
    return A.rough_sqnorm() if isinstance(A, Pending) else rough_sqnorm(A)


def leading(svd: ThinSVD, count: int) -> ThinSVD:
    """Truncate a decomposition to its leading triplets."""
    top = svd.triplets
    if count >= int(top.s.shape[0]):
        return svd
    kept, after = top.leading(count), float(top.s[count])
    return replace(svd, triplets=kept, residuals=svd.residuals[:count], next_value=after)


def decompose(
    A: Array | Pending,
    rank: int,
    accept: Accept,
    start: Array | None,
    certify: bool,
    rng: np.random.Generator,
    *,
    powers: int = 0,
    active: Callable[[Vector], int],
    level: Callable[[Vector], float],
) -> tuple[ThinSVD, Spectrum, RestsOn]:
    """Leading triplets of A and bounds on its spectrum.

    Without `certify` the values that are not kept are bounded by the Frobenius norm of the
    remainder: always valid, never tight. With `certify`, a full decomposition (small A) or
    a randomised bound (large A) is computed until the bound is below `level`. Only the
    `active` triplets are kept then, since the residuals of the others need not be accurate
    and would weaken the bounds. With `powers`, many triplets come from that number of power
    steps if there is a start.
    """
    small = certify and min(A.shape) <= EXACT_BELOW
    shape, svd = (int(A.shape[0]), int(A.shape[1])), None
    many = powers > 0 and not certify and min(shape) >= SMALLEST
    warm = start is not None
    full = small or gram_is_cheaper(shape, rank, warm) or wants_full(shape, rank, warm)
    if certify or many or full:  # the entries are needed, or a product is not the first use
        A = formed(A)
    if many:
        svd = thick_svd(A, active, level, min(shape), start, rng, powers)
        if svd is None:  # a larger share of all triplets
            width = lambda s: columns_for(s, level(s))  # noqa: E731
            single = powers <= ROUGH_POWERS
            svd = gram_svd(A, active, min(shape), width, rough=single, near=start, level=level)
    if svd is None and (small or gram_is_cheaper(shape, rank, warm)):
        svd = gram_svd(A, active, rank, level=level)
    if svd is None:
        method: Method = "lapack" if small else "auto"
        svd = thin_svd(
            A, rank, start=start, tol=1e-13, method=method, rng=rng, strict=False, accept=accept
        )
    ritz = np.asarray(to_numpy(svd.triplets.s), dtype=float)
    total, slack = norm_with_error(A, certify)
    energy = max(0.0, total - float(ritz @ ritz)) + slack
    if svd.exact:
        squared = svd.square_error  # nonzero only for Gram matrices
        error = svd.value_error  # nonzero only for LAPACK
        upper = np.sqrt((ritz + error) ** 2 + squared) * (1 + 16 * eps_of(A))
        tail = math.sqrt((svd.next_value + error) ** 2 + squared) * (1 + 16 * eps_of(A))
        tail += 16 * eps_of(A) * math.sqrt(total)
        return svd, Spectrum(ritz, upper, tail, energy, total, slack), "exact"
    if certify:
        svd = leading(svd, max(1, active(ritz)))
        ritz = ritz[: svd.triplets.s.shape[0]]
        energy = max(0.0, total - float(ritz @ ritz)) + slack
    residual = float(np.linalg.norm(to_numpy(svd.residuals)))
    rests_on: RestsOn = "exact"
    deflated = math.sqrt(energy)
    if certify:
        bound = deflated_norm(A, svd.triplets, rng, enough=0.98 * level(ritz))
        if bound < deflated:
            deflated, rests_on = bound, "high-probability"
    upper = np.asarray(to_numpy(raised(svd.triplets.s, residual, deflated)), dtype=float)
    tail = math.hypot(deflated, residual)
    return svd, Spectrum(ritz, upper, tail, energy, total, slack), rests_on


class Spectral:
    """Members that the terms of this package share."""

    symmetric = False

    def weak_prox(
        self,
        A: Array | Pending,
        *,
        weight: float,
        rank: int,
        tolerance: Tolerance = Tolerance(),  # noqa: B008 (frozen)
        start: Array | None = None,
        certify: bool = False,
        rng: np.random.Generator | None = None,
    ) -> WeakProx:
        """Proximal step on the leading values of A, as in `SpectralTerm`."""
        rng = np.random.default_rng(0) if rng is None else rng
        return self._prox(A, weight, rank, tolerance, start, certify, rng)

    def _prox(
        self, A: Array | Pending, weight: float, rank: int, tolerance: Tolerance, *how: Any
    ) -> WeakProx:
        """The step; `how` is `start`, `certify` and `rng`."""
        raise NotImplementedError

    def violation(self, X: LowRank) -> float:
        """Zero: every matrix is feasible."""
        return 0.0

    def compress(self, X: Array, rank: int, rng: np.random.Generator) -> LowRank:
        """Leading triplets of X, which do not increase the nuclear norm."""
        return thin_svd(X, rank, tol=1e-10, rng=rng, strict=False).triplets

    def check(self, shape: tuple[int, int]) -> None:
        """Accept any shape."""
