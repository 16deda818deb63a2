"""The passes in any namespace, by blocks of rows: what the kernels are tested against."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, namespace, row_blocks, total, wide
from weakprox.linalg.fused.formulas import Step, Sums, split
from weakprox.linalg.lowrank import LowRank

Vector = np.ndarray[Any, np.dtype[np.float64]]


def first(C: Array, z: Array, k: Step, Q: Array | None = None) -> Array | None:
    """Overwrite z by prox_{gamma R}(gamma beta C); z Q, if a block Q is given."""
    clip = namespace(C).clip
    for rows in row_blocks(C):
        t = (k.gamma * k.beta) * C[rows]
        z[rows] = t - clip(t, -k.gamma * k.lam, k.gamma * k.lam)
    return None if Q is None else z @ Q


def look(C: Array, z: Array | None, X: LowRank, k: Step) -> Sums:
    """The sums at X, in float64 throughout; only `distance` to `square` of X without a z."""
    z = C if z is None else z
    found = np.zeros(len(Sums._fields))
    left, right = wide(X.U) * wide(X.s), wide(X.Vt)
    for rows in row_blocks(C):
        found += _sums(wide(C[rows]), wide(z[rows]), left[rows] @ right, k)
    return Sums(*(float(x) for x in found))


def advance(
    C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """The sums at X, z overwritten by the next target, and z Q if a block Q is given.

    `change` is the factor by which gamma is about to change.
    """
    found = np.zeros(len(Sums._fields))
    left = X.U * X.s
    for rows in row_blocks(C):
        point, target = left[rows] @ X.Vt, z[rows]
        found += _sums(wide(C[rows]), wide(target), wide(point), k)
        _, move = split(C[rows], target, point, k, namespace(C).clip)
        z[rows] = change * target + (1.0 - change) * point + move
    return Sums(*(float(x) for x in found)), None if Q is None else z @ Q


def _sums(
    C: Array, z: Array, X: Array, k: Step
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    s, _ = split(C, z, X, k, namespace(C).clip)
    u, far = (z - X) / k.gamma, X - C
    rest = k.beta * far + k.curvature * X + s + u
    terms = (far * far, namespace(X).abs(X), s * X, u * X, rest * rest, X * X)
    return np.array([total(term) for term in terms])


def times(z: Array, V: Array) -> Array:
    """Z V for a narrow block in float64, summed in float64."""
    parts = [wide(z[rows]) @ V for rows in row_blocks(z)]
    return parts[0] if len(parts) == 1 else namespace(V).concat(parts, axis=0)


def transpose_times(z: Array, U: Array) -> Array:
    """Z' U for a narrow block in float64, summed in float64."""
    found = None
    for rows in row_blocks(z):
        part = wide(z[rows]).T @ U[rows]
        found = part if found is None else found + part
    return found


def quick_times(z: Array, V: Array) -> Array:
    """The same in whatever precision is fastest."""
    return z @ V


def quick_transpose_times(z: Array, U: Array) -> Array:
    """The same in whatever precision is fastest."""
    return z.T @ U
