"""The passes in any namespace, by blocks of rows: what the kernels are tested against."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weakprox.linalg import by_rows
from weakprox.linalg.arena import SHARED
from weakprox.linalg.arrays import (
    Array,
    block_times,
    is_numpy,
    itemsize,
    namespace,
    rough_inner,
    sqnorm,
    times_block,
    total,
    wide,
)
from weakprox.linalg.by_rows import tiles
from weakprox.linalg.kernels import add_scaled, difference, subtract
from weakprox.linalg.lowrank import LowRank
from weakprox.passes.formulas import Step, Sums, split
from weakprox.resources.memory import on_disk

Vector = np.ndarray[Any, np.dtype[np.float64]]


def first(C: Array, z: Array, k: Step, Q: Array | None = None) -> Array | None:
    """Overwrite z by prox_{gamma R}(gamma beta C); z Q, if a block Q is given."""
    clip, bound = namespace(z).clip, k.gamma * k.lam
    room = None
    for rows in tiles(C, z):
        if is_numpy(z):
            t = z[rows]
            room = SHARED.like(z, t.shape) if room is None else room
            np.multiply(C[rows], z.dtype.type(k.gamma * k.beta), out=t)
            t -= np.clip(t, -bound, bound, out=room[: t.shape[0]])
        else:
            t = (k.gamma * k.beta) * C[rows]
            z[rows] = t - clip(t, -bound, bound)
    return None if Q is None else quick_times(z, Q)


def look(C: Array, z: Array | None, X: LowRank, k: Step) -> Sums:
    """The sums at X, in float64 throughout; only `distance` to `square` of X without a z."""
    found: list[Vector] = []
    left, right = wide(X.U) * wide(X.s), wide(X.Vt)
    room: list[Array] = []
    for rows in tiles(C, z):
        c = wide(C[rows])
        target = c if z is None else wide(z[rows])
        if is_numpy(c):
            if not room:  # the first block is the largest
                room = [SHARED.like(c, c.shape) for _ in range(4)]
            parts = [part[: c.shape[0]] for part in room]
            np.matmul(left[rows], right, out=parts[0])
            found.append(_sums_within(c, target, parts, k))
        else:
            found.append(_sums(c, target, left[rows] @ right, k))
    return Sums(*(math.fsum(terms) for terms in zip(*found, strict=True)))


def advance_from(
    old: Array, C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """`advance` of a target that is to stay as it is; z is overwritten by the next one."""
    z[...] = old
    return advance(C, z, X, k, change, Q)


def advance(
    C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """Estimates of the sums at X (`across` left out), and z overwritten by the next target.

    Also z Q, if a block Q is given. `change` is the factor by which gamma is about to change.
    """
    distance = absolute = along = rest = 0.0
    left, clip = X.U * X.s, namespace(z).clip
    room: list[Array] = []
    parts: list[Array] = []  # of z Q; z in a file is not read again for it
    Q = None if Q is None else namespace(Q).astype(Q, z.dtype, copy=False)
    for rows in tiles(C, z):
        if not room:  # the first block is the largest
            room = [SHARED.like(z, (rows.stop, int(z.shape[1]))) for _ in range(3)]
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
        if Q is not None and on_disk(z):
            parts.append(target @ Q)
        absolute += _absolute(point)
    square = sqnorm(X.s)
    found = Sums(distance, absolute, along, 0.0, rest / k.gamma**2, square)
    if parts:
        return found, np.concatenate(parts)
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


def _sums(C: Array, z: Array, X: Array, k: Step) -> Vector:
    s, _ = split(C, z, X, k, namespace(C).clip)
    u, far = (z - X) / k.gamma, X - C
    rest = k.beta * far + k.curvature * X + s + u
    terms = (far * far, namespace(X).abs(X), s * X, u * X, rest * rest, X * X)
    return np.array([total(term) for term in terms])


def _sums_within(C: Any, z: Any, room: list[Any], k: Step) -> Vector:
    """The same at X = room[0], with nothing made anew: fresh memory costs more than sums."""
    X, s, rest, part = room
    np.multiply(C, k.gamma * k.beta, out=s)
    s -= z
    np.multiply(X, 2.0 - k.gamma * (k.beta + k.curvature), out=part)
    s += part
    s *= 1.0 / k.gamma
    np.clip(s, -k.lam, k.lam, out=s)
    along = np.multiply(s, X, out=part).sum()
    np.subtract(z, X, out=rest)
    rest /= k.gamma
    across = np.multiply(rest, X, out=part).sum()
    rest += s
    np.subtract(X, C, out=part)
    distance = np.multiply(part, part, out=s).sum()
    part *= k.beta
    rest += part
    np.multiply(X, X, out=s)
    square = s.sum()
    if k.curvature:
        rest += np.multiply(X, k.curvature, out=s)
    rest *= rest
    absolute = np.abs(X, out=X).sum()
    return np.array([distance, absolute, along, across, rest.sum(), square])


def times(z: Array, V: Array) -> Array:
    """Z V for a narrow block in float64, summed in float64."""
    parts = [wide(z[rows]) @ V for rows in tiles(z)]
    return parts[0] if len(parts) == 1 else namespace(V).concat(parts, axis=0)


def transpose_times(z: Array, U: Array) -> Array:
    """Z' U for a narrow block in float64, summed in float64."""
    found = None
    for rows in tiles(z):
        part = wide(z[rows]).T @ U[rows]
        found = part if found is None else found + part
    return found


def quick_times(z: Array, V: Array) -> Array:
    """The same in whatever precision is fastest."""
    V = namespace(V).astype(V, z.dtype, copy=False)
    return by_rows.times(z, V) if on_disk(z) else times_block(z, V)


def quick_transpose_times(z: Array, U: Array) -> Array:
    """The same in whatever precision is fastest."""
    U = namespace(U).astype(U, z.dtype, copy=False)
    return by_rows.transpose_times(z, U) if on_disk(z) else block_times(U, z)


def quick_is_exact(z: Array) -> bool:
    """Whether that is float64."""
    return itemsize(z) == 8
