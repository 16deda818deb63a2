"""What the spectral terms share: rounding of values, and random matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, eps_of, itemsize, like
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thin_svd import Vector

UNSEEN = 2.0**-46  # relative: norms of long vectors in float64 are no more accurate


def excess(norm: float, tau: float) -> float:
    """Relative excess of a computed norm over tau, 0 where it may be rounding."""
    over = norm / tau - 1.0
    return over if over > UNSEEN else 0.0


def rounded_inside(p: Vector, tau: float, ref: Array) -> Array:
    """The values in the dtype of ref, scaled down if rounding took their sum above tau."""
    return like(rounded_on_host(p, tau, ref), ref)


def rounded_on_host(p: Any, tau: float, ref: Array) -> np.ndarray[Any, Any]:
    """The same as a NumPy array: they are few, and trips to a device take longer."""
    kind = np.float32 if itemsize(ref) == 4 else np.float64
    exact = np.asarray(p, dtype=float)
    values: np.ndarray[Any, Any] = exact.astype(kind)
    shorter = 0.5 * eps_of(ref)  # no more than needed: what is lost here, proofs lack
    while max(float(values.sum()), float(values.sum(dtype=float))) > tau:  # however summed
        inside = tau / max(tau, float(exact.sum()))
        values = (exact * (inside * (1.0 - shorter))).astype(kind)
        shorter *= 2
    return values


def random_lowrank(
    rng: np.random.Generator,
    shape: tuple[int, int],
    values: Vector,
    ref: Array,
    *,
    symmetric: bool = False,
) -> LowRank:
    """Random orthonormal factors around the given values."""
    r = len(values)
    U = np.linalg.qr(rng.standard_normal((shape[0], r)))[0]
    V = U if symmetric else np.linalg.qr(rng.standard_normal((shape[1], r)))[0]
    return LowRank(like(U, ref), like(values, ref), like(V.T, ref))
