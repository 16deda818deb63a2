"""Projection of a vector on {p >= 0, sum p <= tau} and on the simplex {sum p = tau}."""

from __future__ import annotations

import numpy as np

from weakprox.linalg.arrays import Array, is_numpy, like, namespace, positive_part, to_numpy

QUADRATIC_STEPS = 2000  # limit on the steps of a quadratic programme
QUADRATIC_GAP = 1e-11  # relative Frank-Wolfe gap at which it stops


def threshold(s: Array, tau: float) -> float:
    """The theta >= 0 with sum (s - theta)_+ = tau, or 0 if sum (s)_+ <= tau."""
    positive = positive_part(s)
    if _fits(positive, tau):
        return 0.0
    return max(0.0, float(s.max()) + _level(positive, tau))


def project_capped(s: Array, tau: float) -> Array:
    """Nearest point of {p >= 0, sum p <= tau}."""
    positive = positive_part(s)
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


def _fits(positive: Array, tau: float) -> bool:
    return positive.shape[0] == 0 or float(positive.sum()) <= tau


def _cut(s: Array, tau: float) -> Array:
    """(s - theta)_+ with sum tau; theta stays relative to the maximum, see `_level`."""
    return positive_part((s - s.max()) - _level(s, tau))


def _level(s: Array, tau: float) -> float:
    """theta - max(s) for the theta (of any sign) with sum (s - theta)_+ = tau > 0.

    Relative to the maximum, the sums stay of order tau. For huge entries, "sum - tau" would
    lose tau entirely.
    """
    if is_numpy(s):  # spectra are NumPy arrays, and the general code is slower on small ones
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
