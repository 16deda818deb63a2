"""Checks and random matrices shared by the spectral terms."""

from __future__ import annotations

import numpy as np

from weakprox.linalg.arrays import Array, eps_of, like
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thin_svd import Vector


def rounded_inside(p: Vector, tau: float, ref: Array) -> Array:
    """The values in the dtype of ref, scaled down if rounding took their sum above tau."""
    values = like(p, ref)
    total = float(values.sum())
    return values if total <= tau else values * (tau / total * (1 - len(p) * eps_of(ref)))


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
