"""Checks and random matrices shared by the spectral terms."""

from __future__ import annotations

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, like
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thin_svd import Vector


def positive(name: str, value: object) -> float:
    """The value as a float, or a typed error: it must be finite and > 0."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(name, repr(value), "a number > 0") from None
    if not 0.0 < number < float("inf"):
        raise InputError(name, repr(value), "a finite number > 0")
    return number


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
