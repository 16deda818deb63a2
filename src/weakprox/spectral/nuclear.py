"""The nuclear norm: as a ball of matrices, and as a penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from weakprox.arguments import positive
from weakprox.linalg._thin_svd import ThinEigh, ThinSVD, Vector, thin_svd
from weakprox.linalg.arrays import DOUBLE, Array, eps_of, like, to_numpy
from weakprox.linalg.bounds import norm_estimate, spectral_norm_bound
from weakprox.linalg.lowrank import LowRank, random_lowrank
from weakprox.linalg.pending import Pending, formed
from weakprox.linalg.simplex import project_capped, rounded_inside, threshold
from weakprox.passes import ValueForm
from weakprox.protocols import Extreme, SpectralCapabilities, Stated, Tolerance, WeakProx
from weakprox.spectral import singular

FEASIBLE = 1e-9  # relative slack below which a point counts as inside
LINEAR = 1e-6  # relative accuracy of the linear oracle if none is given


@dataclass(frozen=True)
class Bounded(singular.Spectral):
    """The indicator of a set of nonnegative values with sum at most tau."""

    tau: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", positive("tau", self.tau))

    def value(self, X: LowRank) -> float:
        """Zero inside, infinity outside."""
        over = self.violation(X)
        return 0.0 if over <= FEASIBLE or over <= 64 * eps_of(X.s) else float("inf")

    def in_unit(self, unit: float) -> Self:
        """The same set for X/unit."""
        return replace(self, tau=self.tau / unit)

    @property
    def capabilities(self) -> SpectralCapabilities:
        """h as a function of singular values or eigenvalues, and derived capabilities."""
        term: Any = self
        return SpectralCapabilities(
            form=ValueForm(tau=self.tau, symmetric=self.symmetric),
            diameter=self.diameter,
            extreme=term.extreme,
            rough_conjugate=term.rough_conjugate,
            in_unit=self.in_unit,
            in_float64=lambda: self,
            stated=Stated("psd" if self.symmetric else "ball", {"tau": self.tau}),
            forms_targets=not self.symmetric and _takes_targets(self),
        )

    @property
    def diameter(self) -> float:
        """Largest Frobenius distance between two points: 2 tau, or sqrt(2) tau if symmetric."""
        return (math.sqrt(2.0) if self.symmetric else 2.0) * self.tau

    def _gain(self, s: Vector) -> float:
        p = np.asarray(project_capped(s, self.tau))
        return float(2 * p @ s - p @ p)

    def _projected(
        self,
        A: Array,
        weight: float,
        spec: singular.Spectrum,
        found: ThinSVD | ThinEigh,
        U: Array,
        Vt: Array,
        rests_on: singular.RestsOn,
        skew: float = 0.0,  # squared norm of the part of A that does not affect the projection
    ) -> WeakProx:
        """The proximal step from a decomposition and its bounds."""
        p = np.asarray(project_capped(spec.ritz, self.tau))
        psi = spec.sqnorm - float(2 * p @ spec.ritz - p @ p)
        lower = singular.ball_lower(spec, weight, self.tau) + 0.5 * weight * skew
        theta = threshold(spec.ritz, self.tau)
        V = LowRank(U, rounded_inside(p, self.tau, A), Vt).significant(
            DOUBLE if theta else None
        )
        kept = _values(V, p)
        residual = float(np.linalg.norm(to_numpy(found.residuals)))
        widest = max(0.0, float((spec.ritz - kept).max()), spec.tail) + residual
        delta = psi + skew - 2 * lower / weight
        if not self.symmetric:  # Frank-Wolfe gap of the projection: 2 (tau |A-V|_2 - <A-V, V>)
            delta = min(delta, 2 * (self.tau * widest - float((spec.ritz - p) @ p)))
        widest += 16 * eps_of(A) * math.sqrt(spec.sqnorm)  # rounding of A - V
        return WeakProx(
            V=V,
            delta=max(0.0, delta),
            delta_estimate=2 * self.tau * max(0.0, found.next_value - theta),
            tail=spec.tail,
            lower=lower,
            basis=found.basis,
            passes=found.passes,
            rests_on=rests_on,
            conjugate=weight * self.tau * widest,
        )

    def random_point(
        self, rng: np.random.Generator, shape: tuple[int, int], rank: int, ref: Array
    ) -> LowRank:
        """Random directions, with random values on the boundary."""
        weights = self.tau * rng.dirichlet(np.ones(rank))
        values = np.sort(weights)[::-1]
        return random_lowrank(rng, shape, values, ref, symmetric=self.symmetric)


def _values(V: LowRank, p: Vector) -> Vector:
    """The values p as V has them: rounded, and zero where it lacks a triplet."""
    found = np.zeros_like(p)
    found[: V.s.shape[0]] = to_numpy(V.s)
    return found


@dataclass(frozen=True)
class NuclearBall(Bounded):
    r"""Indicator of :math:`\{X : \|X\|_* \le \tau\}`, the sum of singular values.

    The weak proximal step keeps the r leading singular triplets of A and projects the
    values on {p >= 0, sum p <= tau}: the best feasible matrix of rank at most r.

    Parameters
    ----------
    tau : float
        Radius, positive.
    """

    tau: float
    capabilities = Bounded.capabilities  # in the class body: an inherited one does not count

    def violation(self, X: LowRank) -> float:
        """Relative excess of the nuclear norm over tau."""
        return X.excess(self.tau)

    def _prox(
        self, A: Array | Pending, weight: float, rank: int, tolerance: Tolerance, *how: Any
    ) -> WeakProx:
        svd, spec, rests_on = singular.decompose(
            A,
            rank,
            singular.accurate_enough(self._gain, tolerance.delta1),
            *how,
            powers=tolerance.powers,
            active=lambda s: int((s > threshold(s, self.tau)).sum()),
            level=lambda s: threshold(s, self.tau),
        )
        top = svd.triplets
        return self._projected(formed(A), weight, spec, svd, top.U, top.Vt, rests_on)

    def extreme(
        self,
        G: Array,
        *,
        accuracy: float = 0.0,
        start: Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> Extreme:
        """Vertex -tau u v' of the leading singular pair of G."""
        accept = singular.accurate_enough(lambda s: float(s[0]), accuracy / self.tau, LINEAR)
        svd = thin_svd(G, 1, start=start, tol=1e-13, rng=rng, strict=False, accept=accept)
        top = svd.triplets
        V = LowRank(-top.U, rounded_inside(np.array([self.tau]), self.tau, G), top.Vt)
        return Extreme(V, svd.basis, svd.passes)

    def conjugate(self, U: Array, rng: np.random.Generator) -> float:
        """tau times the spectral norm, bounded from above."""
        return self.tau * spectral_norm_bound(U, rng, sharp=True)

    def rough_conjugate(self, U: Array, block: Array, radius: float) -> float:
        """Estimate of the conjugate from below, from a block of start vectors."""
        return self.tau * norm_estimate(U, block)


def _takes_targets(term: singular.Spectral) -> bool:
    """Return True if `weak_prox` is that of this package, which accepts a `Pending`."""
    return type(term).weak_prox is singular.Spectral.weak_prox


@dataclass(frozen=True)
class NuclearNorm(singular.Spectral):
    r"""Low rank by a penalty, :math:`h(X) = \lambda \|X\|_*`, finite everywhere.

    The weak proximal step soft-thresholds the r leading singular values at lam / w.

    Parameters
    ----------
    lam : float
        Weight, positive.
    """

    lam: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", positive("lam", self.lam))

    def in_unit(self, unit: float) -> NuclearNorm:
        """h/unit^2 of X/unit."""
        return NuclearNorm(self.lam / unit)

    @property
    def capabilities(self) -> SpectralCapabilities:
        """h as a function of singular values, and derived capabilities."""
        return SpectralCapabilities(
            form=ValueForm(lam=self.lam),
            growth=self.lam,
            conjugate_within=self.conjugate_within,
            rough_conjugate=self.rough_conjugate,
            in_unit=self.in_unit,
            in_float64=lambda: self,
            stated=Stated("norm", {"lam": self.lam}),
            forms_targets=_takes_targets(self),
        )

    def value(self, X: LowRank) -> float:
        """Weighted sum of singular values."""
        return self.lam * X.nuclear_norm

    def _prox(
        self, A: Array | Pending, weight: float, rank: int, tolerance: Tolerance, *how: Any
    ) -> WeakProx:
        c = self.lam / weight

        def gain(s: Vector) -> float:
            return singular.soft_sum(s, c)

        svd, spec, rests_on = singular.decompose(
            A,
            rank,
            singular.accurate_enough(gain, tolerance.delta1),
            *how,
            powers=tolerance.powers,
            active=lambda s: int((s > c).sum()),
            level=lambda _: c,
        )
        A = formed(A)
        p = np.maximum(spec.ritz - c, 0.0)
        psi = spec.sqnorm - gain(spec.ritz)
        lower = singular.penalty_lower(spec, weight, self.lam)
        beyond = max(0.0, svd.next_value - c) / max(svd.next_value, 1e-300)
        residual = float(np.linalg.norm(to_numpy(svd.residuals)))
        V = LowRank(svd.triplets.U, like(p, A), svd.triplets.Vt).significant(DOUBLE)
        widest = max(float((spec.ritz - _values(V, p)).max()), spec.tail) + residual
        widest += 16 * eps_of(A) * math.sqrt(spec.sqnorm)  # rounding of A - V
        return WeakProx(
            V=V,
            delta=max(0.0, psi - 2 * lower / weight),
            delta_estimate=beyond**2 * spec.energy,
            tail=spec.tail,
            lower=lower,
            basis=svd.basis,
            passes=svd.passes,
            rests_on=rests_on,
            conjugate=0.0,
            shrink=min(1.0, c / widest) if widest > 0 else 1.0,
        )

    def conjugate(self, U: Array, rng: np.random.Generator) -> float:
        """Zero if the spectral norm is at most lam, else infinite."""
        largest = spectral_norm_bound(U, rng, sharp=True)
        return 0.0 if largest <= self.lam * (1 + 64 * eps_of(U)) else float("inf")

    def conjugate_within(self, U: Array, radius: float, rng: np.random.Generator) -> float:
        """Upper bound on <U, X> - h(X) over all X with nuclear norm up to the radius."""
        excess = spectral_norm_bound(U, rng, sharp=True) - self.lam
        return radius * excess if excess > 0.0 else 0.0

    def rough_conjugate(self, U: Array, block: Array, radius: float) -> float:
        """Estimate of `conjugate_within` from below, from a block of start vectors."""
        return radius * max(0.0, norm_estimate(U, block) - self.lam)

    def random_point(
        self, rng: np.random.Generator, shape: tuple[int, int], rank: int, ref: Array
    ) -> LowRank:
        """Random directions with exponential values."""
        return random_lowrank(rng, shape, np.sort(rng.exponential(size=rank))[::-1], ref)
