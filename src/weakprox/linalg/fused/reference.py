"""The passes in any namespace, by blocks of rows: what the kernels are tested against."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.linalg.arrays import (
    Array,
    empty,
    is_numpy,
    itemsize,
    namespace,
    rough_inner,
    row_blocks,
    sqnorm,
    total,
    wide,
)
from weakprox.linalg.fused.formulas import Step, Sums, split
from weakprox.linalg.kernels import add_scaled, difference, subtract
from weakprox.linalg.lowrank import LowRank

Vector = np.ndarray[Any, np.dtype[np.float64]]


def first(C: Array, z: Array, k: Step, Q: Array | None = None) -> Array | None:
    """Overwrite z by prox_{gamma R}(gamma beta C); z Q, if a block Q is given."""
    clip = namespace(C).clip
    for rows in row_blocks(C):
        t = (k.gamma * k.beta) * C[rows]
        z[rows] = t - clip(t, -k.gamma * k.lam, k.gamma * k.lam)
    return None if Q is None else quick_times(z, Q)


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
    """Estimates of the sums at X (`across` left out), and z overwritten by the next target.

    Also z Q, if a block Q is given. `change` is the factor by which gamma is about to change.
    """
    distance = absolute = along = rest = 0.0
    left, clip = X.U * X.s, namespace(C).clip
    blocks = list(row_blocks(C))
    room = [empty((blocks[0].stop, C.shape[1]), C) for _ in range(3)]
    for rows in blocks:
        c, target = C[rows], z[rows]
        point, s, move = (part[: c.shape[0]] for part in room)
        _multiply(left[rows], X.Vt, point)
        subtract(point, c, s)
        distance += rough_inner(s, s)
        difference(c, k.gamma * k.beta, target, 1.0, move)
        add_scaled(move, 2.0 - k.gamma * (k.beta + k.curvature), point)
        s[...] = move
        s *= 1.0 / k.gamma
        s[...] = np.clip(s, -k.lam, k.lam, out=s) if is_numpy(s) else clip(s, -k.lam, k.lam)
        along += rough_inner(s, point)
        s *= k.gamma
        move -= s
        move -= point
        rest += rough_inner(move, move)
        if change != 1.0:
            target *= change
            add_scaled(target, 1.0 - change, point)
        target += move
        absolute += _absolute(point)
    square = sqnorm(X.s)
    found = Sums(distance, absolute, along, 0.0, rest / k.gamma**2, square)
    return found, None if Q is None else quick_times(z, Q)


def _multiply(A: Array, B: Array, out: Array) -> None:
    if is_numpy(out):
        np.matmul(A, B, out=out)
    else:
        out[...] = A @ B


def _absolute(X: Array) -> float:
    """Sum of absolute values; X may be overwritten."""
    if is_numpy(X):
        return float(np.abs(X, out=X).sum())
    return total(namespace(X).abs(X))


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
    return z @ namespace(V).astype(V, z.dtype, copy=False)


def quick_transpose_times(z: Array, U: Array) -> Array:
    """The same in whatever precision is fastest."""
    return z.T @ namespace(U).astype(U, z.dtype, copy=False)


def quick_is_exact(z: Array) -> bool:
    """Whether that is float64."""
    return itemsize(z) == 8
