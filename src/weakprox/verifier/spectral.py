"""Spectral terms: feasibility and value of X, and the minimum over all matrices.

For singular values s of c (positive eigenvalues of -(c + c')/2 for Psd) and any t >= 0,

    min over |V|_* <= tau of <c, V> + w/2 |V|^2 >= -t tau - sum (s_i - t)_+^2 / (2 w),

with equality at the best t; t = max s_i serves w = 0. With lam |V|_* instead of the
constraint the minimum is the same sum at t = lam, or, for w = 0 and any rho that bounds the
nuclear norm of an optimum, at least -rho (max s_i - lam)_+.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from weakprox.verifier.spectrum import Slope, Values, eigenvalues, singular_values
from weakprox.verifier.sums import Factors, Matrix, Near, U, norm, total, trusted_value


@dataclass(frozen=True)
class Least:
    """Lower bound on the minimum, and the allowance for rounding in it."""

    value: float
    error: float = 0.0
    sure: bool = True


@dataclass(frozen=True)
class Ball:
    """Nuclear norm at most tau."""

    tau: float
    growth: ClassVar[float] = 0.0  # h is at least this many times the nuclear norm
    symmetric: ClassVar[bool] = False
    trusted: ClassVar[tuple[str, ...]] = ()

    def value(self, X: Factors) -> tuple[Near, float]:
        """Zero, and the excess of the nuclear norm over tau."""
        return Near(0.0), max(0.0, X.nuclear_norm().lower / self.tau - 1.0)

    def reach(self, above: float) -> float:
        """A bound on the nuclear norm of an optimum with h at most `above`."""
        return float(self.tau)

    def least(self, c: Slope, w: float, rank: int, rho: float) -> Least:
        found = singular_values(c, rank, lambda s: threshold(s, w * self.tau))
        return within(found, w, self.tau)


@dataclass(frozen=True)
class Psd:
    """Symmetric positive semidefinite with trace at most tau."""

    tau: float
    growth: ClassVar[float] = 0.0
    symmetric: ClassVar[bool] = True
    trusted: ClassVar[tuple[str, ...]] = ()

    def value(self, X: Factors) -> tuple[Near, float]:
        """Zero, and the largest of skewness, negative eigenvalues and excess of the trace."""
        Q = np.linalg.qr(np.concatenate([X.U, X.Vt.T], axis=1))[0]
        S = (Q.T @ X.U * X.s) @ (X.Vt @ Q)
        skew = norm(S - S.T) / 2
        values = np.linalg.eigvalsh((S + S.T) / 2)
        error = 20 * max(X.shape) * U * X.size
        off = max(skew - error, -float(values[0]) - error, 0.0)
        trace = total(np.maximum(values, 0.0)) - len(values) * error
        return Near(0.0), max(off / self.tau, trace / self.tau - 1.0, 0.0)

    def reach(self, above: float) -> float:
        return float(self.tau)

    def least(self, c: Slope, w: float, rank: int, rho: float) -> Least:
        return within(eigenvalues(c), w, self.tau)


@dataclass(frozen=True)
class Norm:
    """lam times the nuclear norm."""

    lam: float
    symmetric: ClassVar[bool] = False
    trusted: ClassVar[tuple[str, ...]] = ()

    def value(self, X: Factors) -> tuple[Near, float]:
        """Every matrix is allowed."""
        return X.nuclear_norm().times(self.lam), 0.0

    @property
    def growth(self) -> float:
        return float(self.lam)

    def reach(self, above: float) -> float:
        return above / self.lam * (1 + 8 * U) if self.lam > 0.0 else math.inf

    def least(self, c: Slope, w: float, rank: int, rho: float) -> Least:
        """Soft thresholding."""
        found = singular_values(c, rank, lambda _: self.lam)
        above = max(0.0, found.largest - self.lam)
        flat = -rho * above if above > 0.0 else 0.0
        error = found.error * (rho if math.isfinite(rho) else 0.0)
        if w > 0.0:
            beyond = found.beyond(self.lam)
            count = int((found.leading > self.lam).sum())
            bent = -beyond / (2 * w) * (1 + 8 * U)
            if bent >= flat:
                error = found.error * math.sqrt(max(1, count) * beyond) / w
                return Least(bent, error, found.sure)
        return Least(flat * (1 + 8 * U), error, found.sure)


@dataclass(frozen=True)
class OwnSpectral:
    """A term given by the user's functions, which are trusted."""

    function: Callable[[Matrix], float]
    minimum: Callable[[Matrix, float], float]
    eps: float
    growth: ClassVar[float] = 0.0
    symmetric: ClassVar[bool] = False
    trusted: ClassVar[tuple[str, ...]] = ("the functions of the spectral term",)

    def value(self, X: Factors) -> tuple[Near, float]:
        found = float(self.function(X.rows(0, X.shape[0])))
        return trusted_value(found, self.eps), 0.0 if math.isfinite(found) else math.inf

    def reach(self, above: float) -> float:
        return math.inf

    def least(self, c: Slope, w: float, rank: int, rho: float) -> Least:
        """The bound by the user's proximal map or conjugate."""
        found, size = self.minimum(c.whole(), w), norm(c.whole())
        scale = abs(found) + (size**2 / w if w > 0.0 else 0.0)
        error = 64 * self.eps * scale
        return Least(found - error, error)


Spectral: TypeAlias = Ball | Psd | Norm | OwnSpectral


def threshold(values: Matrix, budget: float) -> float:
    """The t >= 0 at which the sum of (value - t)_+ equals the budget, or 0."""
    ordered = np.sort(np.maximum(values, 0.0))[::-1]
    sums = np.cumsum(ordered) - budget
    levels = sums / np.arange(1, len(ordered) + 1)
    return max(0.0, float(levels.max(initial=0.0)))


def within(found: Values, w: float, tau: float) -> Least:
    """The bound for nuclear norm (or trace) at most tau, at the best t tried."""
    costs = [found.largest * tau]
    if w > 0.0:
        tries = (found.largest, found.tail, 0.0, threshold(found.leading, w * tau))
        costs = [t * tau + found.beyond(t) / (2 * w) for t in tries]
    return Least(-min(costs) * (1 + 8 * U), found.error * tau, found.sure)
