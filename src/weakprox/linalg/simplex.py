"""Projection of a vector on {p >= 0, sum p <= tau} and on the simplex {sum p = tau}."""

from __future__ import annotations

from weakprox.linalg.arrays import Array, namespace


def threshold(s: Array, tau: float) -> float:
    """The theta >= 0 with sum (s - theta)_+ = tau, or 0 if sum (s)_+ <= tau."""
    positive = namespace(s).clip(s, 0.0, None)
    if _fits(positive, tau):
        return 0.0
    return max(0.0, float(namespace(s).max(s)) + _level(positive, tau))


def project_capped(s: Array, tau: float) -> Array:
    """Nearest point of {p >= 0, sum p <= tau}."""
    positive = namespace(s).clip(s, 0.0, None)
    return positive if _fits(positive, tau) else _scaled_inside(_cut(positive, tau), tau)


def project_simplex(s: Array, total: float = 1.0) -> Array:
    """Nearest point of {p >= 0, sum p = total}."""
    p = _cut(s, total)
    return p * (total / float(namespace(s).sum(p)))


def _fits(positive: Array, tau: float) -> bool:
    return positive.shape[0] == 0 or float(namespace(positive).sum(positive)) <= tau


def _cut(s: Array, tau: float) -> Array:
    """(s - theta)_+ with sum tau; theta stays relative to the maximum, see `_level`."""
    xp = namespace(s)
    return xp.clip((s - xp.max(s)) - _level(s, tau), 0.0, None)


def _level(s: Array, tau: float) -> float:
    """Theta - max(s) for the theta (of any sign) with sum (s - theta)_+ = tau > 0.

    Relative to the maximum, the sums stay of order tau even when the entries are huge
    and "sum - tau" would lose tau altogether.
    """
    xp = namespace(s)
    ordered = xp.sort(s - xp.max(s), descending=True)
    counts = xp.arange(1, s.shape[0] + 1, dtype=s.dtype, device=getattr(s, "device", None))
    levels = (xp.cumulative_sum(ordered) - tau) / counts
    active = ordered > levels
    k = max(1, int(xp.sum(xp.astype(active, xp.int64))))
    return float(levels[k - 1])


def _scaled_inside(p: Array, tau: float) -> Array:
    """Scale down by the rounding excess, so that sum p <= tau holds in floating point."""
    xp = namespace(p)
    total = float(xp.sum(p))
    return p if total <= tau else p * (tau / total)
