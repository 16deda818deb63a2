"""Checks and random matrices shared by the spectral terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, eps_of, itemsize, like
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thin_svd import Vector


def rounded_inside(p: Vector, tau: float, ref: Array) -> Array:
    """The values in the dtype of ref, scaled down if rounding took their sum above tau."""
    return like(rounded_on_host(p, tau, ref), ref)


def rounded_on_host(p: Any, tau: float, ref: Array) -> np.ndarray[Any, Any]:
    """The same as a NumPy array: they are few, and trips to a device take longer."""
    kind = np.float32 if itemsize(ref) == 4 else np.float64
    values: np.ndarray[Any, Any] = np.asarray(p, dtype=kind)
    total = max(float(values.sum()), float(values.sum(dtype=float)))  # however it is summed
    if total > tau:
        values = values * (tau / total * (1 - len(p) * eps_of(ref)))
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
