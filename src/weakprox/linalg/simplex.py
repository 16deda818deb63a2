"""Singular values with a bounded sum: projection, rounding, and h as a function of them.

The projections are those of any vector on {p >= 0, sum p <= tau} and on {p >= 0, sum p = tau}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.linalg.arrays import DOUBLE, Array, like, namespace, to_numpy

Vector = np.ndarray[Any, np.dtype[np.float64]]

QUADRATIC_STEPS = 2000  # limit on the steps of a quadratic programme
QUADRATIC_GAP = 1e-11  # relative Frank-Wolfe gap at which it stops


def threshold(s: Array, tau: float) -> float:
    """The theta >= 0 with sum (s - theta)_+ = tau, or 0 if sum (s)_+ <= tau."""
    positive = _positive_part(s)
    if _fits(positive, tau):
        return 0.0
    return max(0.0, float(s.max()) + _level(positive, tau))


def project_capped(s: Array, tau: float) -> Array:
    """Nearest point of {p >= 0, sum p <= tau}."""
    positive = _positive_part(s)
    return positive if _fits(positive, tau) else _scaled_inside(_cut(positive, tau), tau)


def project_simplex(s: Array, total: float = 1.0) -> Array:
    """Nearest point of {p >= 0, sum p = total}."""
    p = _cut(s, total)
    return p * (total / float(p.sum()))


def quadratic_over_simplex(Q: Array, c: Array, start: Array | None = None) -> Array:
    """Minimise p'Qp/2 - <c, p> over p on the simplex, Q positive semidefinite.

    It takes accelerated projected gradient steps with restarts, on the host since Q is small.
    """
    H, linear = (np.asarray(to_numpy(x), dtype=float) for x in (Q, c))
    n = linear.size
    p = np.full(n, 1.0 / n) if start is None else np.asarray(to_numpy(start), dtype=float)
    largest = float(np.linalg.norm(H, 2)) if n <= 500 else float(np.abs(H).sum(axis=0).max())
    if largest == 0.0:
        p = np.zeros(n)
        p[int(np.argmax(linear))] = 1.0
        return like(p, c)
    ahead, momentum, scale = p, 1.0, float(np.abs(linear).max()) + largest
    for step in range(QUADRATIC_STEPS):
        new = np.asarray(project_simplex(ahead - (H @ ahead - linear) / largest))
        if (ahead - new) @ (new - p) > 0.0:
            momentum, ahead = 1.0, new
        else:
            grown = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead, momentum = new + (momentum - 1.0) / grown * (new - p), grown
        p = new
        if step % 8 == 7:
            slope = H @ p - linear
            gap = float(p @ slope - slope.min())
            if gap <= QUADRATIC_GAP * scale:
                break
    return like(p, c)


def _positive_part(x: Array) -> Array:
    if isinstance(x, np.ndarray):
        return np.maximum(x, 0.0)
    return namespace(x).clip(x, 0.0, None)


def _fits(positive: Array, tau: float) -> bool:
    return positive.shape[0] == 0 or float(positive.sum()) <= tau


def _cut(s: Array, tau: float) -> Array:
    """(s - theta)_+ with sum tau; theta stays relative to the maximum, see `_level`."""
    return _positive_part((s - s.max()) - _level(s, tau))


def _level(s: Array, tau: float) -> float:
    """theta - max(s) for the theta (of any sign) with sum (s - theta)_+ = tau > 0.

    Relative to the maximum, the sums stay of order tau. For huge entries, "sum - tau" would
    lose tau entirely.
    """
    # descending, as spectra are; the general code is slower on small ones
    if isinstance(s, np.ndarray):
        ordered = np.sort(s - s.max())[::-1]
        levels = (np.cumsum(ordered) - tau) / np.arange(1, s.shape[0] + 1, dtype=s.dtype)
        return float(levels[max(1, int(np.count_nonzero(ordered > levels))) - 1])
    xp = namespace(s)
    ordered = xp.sort(s - xp.max(s), descending=True)
    counts = xp.arange(1, s.shape[0] + 1, dtype=s.dtype, device=getattr(s, "device", None))
    levels = (xp.cumulative_sum(ordered) - tau) / counts
    active = ordered > levels
    k = max(1, int(xp.sum(xp.astype(active, xp.int64))))
    return float(levels[k - 1])


def _scaled_inside(p: Array, tau: float) -> Array:
    """Scale p by its rounding excess, so that sum p <= tau holds in floating point."""
    total = float(p.sum())
    return p if total <= tau else p * (tau / total)


def rounded_inside(p: Any, tau: float, ref: Array) -> Array:
    """Round the values to the dtype of ref so that their sum does not exceed tau."""
    return like(rounded_on_host(p, tau, ref), ref)


def rounded_on_host(p: Any, tau: float, ref: Array) -> np.ndarray[Any, Any]:
    """Like `rounded_inside`, but as a NumPy array, since transfers to a device take longer."""
    kind = np.float32 if ref.dtype.itemsize == 4 else np.float64
    exact = np.asarray(p, dtype=float)
    values: np.ndarray[Any, Any] = exact.astype(kind)
    shorter = 0.5 * float(np.finfo(kind).eps)  # small, since proofs lose this much
    while max(float(values.sum()), float(values.sum(dtype=float))) > tau:  # for any summation
        inside = tau / max(tau, float(exact.sum()))
        values = (exact * (inside * (1.0 - shorter))).astype(kind)
        shorter *= 2
    return values


@dataclass(frozen=True)
class ValueForm:
    """h as a function of the singular values s: lam sum(s) if sum(s) <= tau.

    If `symmetric`, the values are eigenvalues of a symmetric X, which must not be negative.
    """

    tau: float = math.inf
    lam: float = 0.0
    symmetric: bool = False

    def prox(self, values: Vector, step: float) -> Vector:
        """Values of prox_{step h} at a matrix with these values, in descending order."""
        kept = np.maximum(values - step * self.lam, 0.0)
        return kept if math.isinf(self.tau) else np.asarray(project_capped(kept, self.tau))

    def conjugate(self, norm: float) -> tuple[float, float]:
        """h*(shrink u) for a u of this spectral norm, and the largest shrink <= 1 allowed.

        For symmetric X, the norm is the largest eigenvalue of u, or 0.
        """
        if math.isfinite(self.tau):
            return self.tau * max(0.0, norm - self.lam), 1.0
        return 0.0, 1.0 if norm <= self.lam else self.lam / norm * (1 - 4 * DOUBLE)
