"""Projection of a vector on {p >= 0, sum p <= tau} and on the simplex {sum p = tau}."""

from __future__ import annotations

from weakprox.linalg.arrays import Array, namespace


def threshold(s: Array, tau: float) -> float:
    """The theta >= 0 with sum (s - theta)_+ = tau, or 0 if sum (s)_+ <= tau."""
    xp = namespace(s)
    if s.shape[0] == 0:
        return 0.0
    positive = xp.clip(s, 0.0, None)
    if float(xp.sum(positive)) <= tau:
        return 0.0
    return max(0.0, _level(positive, tau))


def project_capped(s: Array, tau: float) -> Array:
    """Nearest point of {p >= 0, sum p <= tau}."""
    xp = namespace(s)
    return _scaled_inside(xp.clip(s - threshold(s, tau), 0.0, None), tau)


def project_simplex(s: Array, total: float = 1.0) -> Array:
    """Nearest point of {p >= 0, sum p = total}."""
    xp = namespace(s)
    p = xp.clip(s - _level(s, total), 0.0, None)
    return p * (total / float(xp.sum(p)))


def _level(s: Array, tau: float) -> float:
    """The theta (of any sign) with sum (s - theta)_+ = tau > 0, by sorting."""
    xp = namespace(s)
    # Shifting by the maximum first keeps the cumulative sums of order tau even when
    # the entries are huge, where "sum - tau" would lose tau altogether.
    top = float(xp.max(s))
    ordered = xp.sort(s - top, descending=True)
    counts = xp.arange(1, s.shape[0] + 1, dtype=s.dtype, device=getattr(s, "device", None))
    levels = (xp.cumulative_sum(ordered) - tau) / counts
    active = ordered > levels
    k = max(1, int(xp.sum(xp.astype(active, xp.int64))))
    return float(levels[k - 1]) + top


def _scaled_inside(p: Array, tau: float) -> Array:
    """Scale down by the rounding excess, so that sum p <= tau holds in floating point."""
    xp = namespace(p)
    total = float(xp.sum(p))
    return p if total <= tau else p * (tau / total)
