"""Symmetric positive semidefinite matrices of trace at most tau."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weakprox.errors import ShapeError
from weakprox.linalg import bounds, decompositions
from weakprox.linalg._thin_svd import ThinEigh, Vector, thin_eigh
from weakprox.linalg.arrays import (
    Array,
    device_of,
    eps_of,
    like,
    namespace,
    norm,
    sqnorm,
    to_numpy,
)
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.simplex import project_capped, rounded_inside, threshold
from weakprox.linalg.thick_svd import columns_for, thick_eigh
from weakprox.linalg.threads import all_threads
from weakprox.protocols import Extreme, Tolerance, WeakProx
from weakprox.spectral.nuclear import LINEAR, Bounded
from weakprox.spectral.singular import RestsOn, Spectrum, accurate_enough, norm_with_error

SURE = 1e-4  # residual, relative to a negative value, at which the value is accepted


@dataclass(frozen=True)
class TracePSD(Bounded):
    r"""Indicator of :math:`\{X = X^\top \succeq 0,\ \mathrm{tr} X \le \tau\}`.

    The weak proximal step keeps the r algebraically largest eigenpairs of A (of its
    symmetric part) and projects the values on {p >= 0, sum p <= tau}.

    Parameters
    ----------
    tau : float
        Largest trace, positive.
    """

    tau: float
    symmetric = True
    capabilities = Bounded.capabilities  # in the class body: an inherited one does not count

    def violation(self, X: LowRank) -> float:
        """Largest relative excess: trace over tau, or asymmetry of the factors."""
        skew = norm((X.U - X.Vt.T) * X.s) / max(self.tau, X.nuclear_norm)
        return max(X.excess(self.tau), skew)

    def _prox(
        self, A: Array, weight: float, rank: int, tolerance: Tolerance, *how: Any
    ) -> WeakProx:
        start, certify, rng = how
        given, A = A, symmetric_part(A)
        full = True if certify and A.shape[0] <= bounds.EXACT_BELOW else None
        accept, eig = accurate_enough(self._gain, tolerance.delta1), None
        if tolerance.powers and not certify:
            eig = thick_eigh(A, self._active, self._cut, start, rng, tolerance.powers)
        if eig is None:
            eig = thin_eigh(
                A, rank, start=start, tol=1e-13, rng=rng, strict=False, full=full, accept=accept
            )
            if tolerance.powers and eig.values.shape[0] == A.shape[0]:
                eig = replace(eig, basis=self._both_ends(eig))
        if certify and not eig.exact:  # the residuals of the others would weaken the bounds
            found = np.asarray(to_numpy(eig.values), dtype=float)
            eig = _leading(eig, int((np.asarray(project_capped(found, self.tau)) > 0).sum()))
        spec, rests_on = _spectrum(A, eig, certify, rng)
        skew = 0.0 if given is A else max(0.0, sqnorm(given) - spec.sqnorm)
        V = eig.vectors
        return self._projected(A, weight, spec, eig, V, V.T, rests_on, skew)

    def _cut(self, w: Vector) -> float:
        return threshold(w, self.tau)

    def _active(self, w: Vector) -> int:
        return int((w > self._cut(w)).sum())

    def _both_ends(self, eig: ThinEigh) -> Array:
        """The eigenvectors from which `thick_eigh` starts, if a value is cut off."""
        w = np.asarray(to_numpy(eig.values), dtype=float)
        width = columns_for(np.abs(w), self._cut(w))
        ends = np.sort(np.argsort(-np.abs(w), kind="stable")[:width])
        index = namespace(eig.vectors).asarray(ends, device=device_of(eig.vectors))
        return namespace(eig.vectors).take(eig.vectors, index, axis=1)

    def extreme(
        self,
        G: Array,
        *,
        accuracy: float = 0.0,
        start: Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> Extreme:
        """Vertex tau v v' of the smallest eigenvalue of G if that is negative, else 0."""
        good = accurate_enough(lambda w: float(w[0]), accuracy / self.tau, LINEAR)

        def accept(w: Vector, residuals: Vector, after: float) -> bool:
            """Return True to stop; a nonpositive value gives V = 0 and must be certain."""
            if w[0] <= 0.0:
                return float(residuals[0]) <= SURE * abs(float(w[0]))
            return good(w, residuals, after)

        eig = thin_eigh(
            -symmetric_part(G), 1, start=start, tol=1e-9, rng=rng, strict=False, accept=accept
        )
        weight = self.tau if float(eig.values[0]) > 0.0 else 0.0
        V = LowRank(eig.vectors, rounded_inside(np.array([weight]), self.tau, G), eig.vectors.T)
        return Extreme(V, eig.basis, eig.passes)

    def conjugate(self, U: Array, rng: np.random.Generator) -> float:
        """tau times the positive part of the largest eigenvalue, bounded from above."""
        U = symmetric_part(U)
        n = int(U.shape[0])
        if n <= bounds.THOROUGH:
            with all_threads(n):
                top = float(decompositions.eigvalsh(U)[-1])
            error = decompositions.eigh_error(n) * eps_of(U) * norm(U)
            return self.tau * max(0.0, top + error)
        largest, rank, basis = math.inf, 8, None
        sharp: Any = {"tol": bounds.SHARP_RESIDUAL, "max_sweeps": bounds.SHARP_SWEEPS}
        sharp["accept"] = _settled
        while True:  # deflate until the largest value is well separated, as it may be repeated
            eig = thin_eigh(U, rank, start=basis, rng=rng, strict=False, **sharp)
            values = np.asarray(to_numpy(eig.values), dtype=float)
            close = int((values >= bounds.CLOSE * values[0]).sum()) if values[0] > 0.0 else 1
            basis = eig.basis
            spec, _ = _spectrum(U, _leading(eig, close), True, rng)
            largest = min(largest, max(0.0, float(spec.upper[0]), spec.tail))
            close_enough = (1 + bounds.SHARP) * max(0.0, float(spec.ritz[0]))
            rank *= 3
            if largest <= close_enough or rank > bounds.SHARP_SHARE * n:
                return self.tau * largest

    def rough_conjugate(self, U: Array, block: Array, radius: float) -> float:
        """Estimate of the conjugate from below, from a block of start vectors."""
        return self.tau * max(0.0, bounds.largest_eigenvalue_estimate(symmetric_part(U), block))

    def compress(self, X: Array, rank: int, rng: np.random.Generator) -> LowRank:
        """Largest eigenpairs of X, with negative values (rounding) set to zero."""
        eig = thin_eigh(X, rank, tol=1e-10, rng=rng, strict=False)
        values = namespace(X).clip(eig.values, 0.0, None)
        return LowRank(eig.vectors, values, eig.vectors.T)

    def check(self, shape: tuple[int, int]) -> None:
        """Check that X is square."""
        if shape[0] != shape[1]:
            raise ShapeError("spectral", f"TracePSD with X of shape {shape}", "square X")


def symmetric_part(A: Array) -> Array:
    """(A + A')/2, or A itself if a probe shows that it is already symmetric."""
    # two products with one vector cost far less than the transposed sum
    probe = np.random.default_rng(7).standard_normal((A.shape[0], 1))
    w = like(probe, A)
    right, left = A @ w, A.T @ w
    if norm(right - left) <= 32 * eps_of(A) * max(norm(right), norm(left)):
        return A
    return (A + A.T) / 2


def _settled(w: Vector, residuals: Vector, after: float) -> bool:
    """Return True if all values close to the largest have been found and are accurate."""
    close = w >= bounds.CLOSE * w[0]
    accurate = residuals[close].max() <= bounds.SHARP_RESIDUAL * abs(float(w[0]))
    return bool(w[0] > 0.0 and not close[-1] and accurate)


def _leading(eig: ThinEigh, count: int) -> ThinEigh:
    """Truncate a decomposition to its leading pairs (at least one)."""
    count = max(1, count)
    if count >= int(eig.values.shape[0]):
        return eig
    return replace(
        eig,
        values=eig.values[:count],
        vectors=eig.vectors[:, :count],
        residuals=eig.residuals[:count],
        next_value=float(eig.values[count]),
    )


def _spectrum(
    A: Array, eig: ThinEigh, certify: bool, rng: np.random.Generator
) -> tuple[Spectrum, RestsOn]:
    """Bounds on the eigenvalues of A from its kept pairs (Cauchy interlacing)."""
    ritz = np.asarray(to_numpy(eig.values), dtype=float)
    total, slack = norm_with_error(A, certify)
    energy = max(0.0, total - float(ritz @ ritz)) + slack
    rounding = 16 * eps_of(A) * math.sqrt(total)
    if eig.exact:
        tail = max(0.0, eig.next_value + rounding)
        return Spectrum(ritz, ritz + rounding, tail, energy, total, slack), "exact"
    residual = float(np.linalg.norm(to_numpy(eig.residuals)))
    tail, rests_on = math.sqrt(energy), "exact"
    if certify:
        bound = _largest_deflated(A, eig.vectors, rng)
        if bound < tail:
            tail, rests_on = bound, "high-probability"
    gap = ritz - tail
    with np.errstate(divide="ignore", invalid="ignore"):
        second = np.where(gap > 0, residual**2 / gap, np.inf)
    above = np.maximum(ritz, tail) - ritz  # without a gap there is no better bound
    upper = ritz + np.minimum(above + residual, second) + rounding
    spec = Spectrum(ritz, upper, max(0.0, tail), energy, total, slack)
    return spec, "high-probability" if rests_on != "exact" else "exact"


def _largest_deflated(A: Array, V: Array, rng: np.random.Generator) -> float:
    """Upper bound on the largest eigenvalue of (I-VV') A (I-VV').

    A large negative eigenvalue would dominate any bound on |E|, so E is shifted first and
    raised to a higher power than usual.
    """
    xp = namespace(A)

    def deflated(W: Array) -> Array:
        W = W - V @ (V.T @ W)
        Y = A @ W
        return Y - V @ (V.T @ Y)

    n = int(A.shape[0])
    shift = bounds.power_bound(deflated, deflated, n, xp.empty_like(V), rng)

    def shifted(W: Array) -> Array:
        return deflated(W) + shift * W

    return bounds.power_bound(shifted, shifted, n, xp.empty_like(V), rng, powers=10) - shift
