"""The passes in any namespace, by blocks of rows; the kernels are tested against them."""

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
from weakprox.passes.formulas import (
    Step,
    Sums,
    cut,
    group_norms,
    split,
    target,
    thresholded,
)
from weakprox.resources.memory import on_disk

Vector = np.ndarray[Any, np.dtype[np.float64]]


def first(C: Array, z: Array, k: Step, Q: Array | None = None) -> Array | None:
    """Overwrite z by prox_{gamma R}(gamma beta C); return z Q if a block Q is given."""
    clip = namespace(z).clip
    cuts = _column_cuts(C, z, None, k) if k.columns else None
    room = None
    for rows in tiles(C, z):
        if is_numpy(z) and not k.grouped:
            t = z[rows]
            room = SHARED.like(z, t.shape) if room is None else room
            np.multiply(C[rows], z.dtype.type(k.gamma * k.beta), out=t)
            bounds = -k.gamma * k.below, k.gamma * k.above
            t -= np.clip(t, *bounds, out=room[: t.shape[0]])
        else:
            _, t = thresholded((k.gamma * k.beta) * C[rows], k, clip)
            if k.grouped:
                t *= 1.0 - (_row_cuts(t, k) if cuts is None else cuts)
            z[rows] = t
    return None if Q is None else quick_times(z, Q)


def _row_cuts(left: Array, k: Step) -> Array:
    """Shares by which the groups of these rows shrink, as a column in the rows' dtype."""
    xp = namespace(left)
    norms = xp.linalg.vector_norm(wide(left), axis=1, keepdims=True)
    return xp.astype(cut(norms, k, int(left.shape[1])), left.dtype, copy=False)


def _column_cuts(
    C: Array, z: Array, X: LowRank | None, k: Step, *, exact: bool = False
) -> Array:
    """Shares by which columns shrink at the step from z, or at the first step if X is None.

    This takes an extra pass, since the norm of a column depends on all rows.
    """
    squares: Any = 0.0
    as_is: Any = wide if exact else (lambda x: x)
    for rows in tiles(C, z):
        c = as_is(C[rows])
        if X is None:
            t = (k.gamma * k.beta) * c
        else:
            t = target(c, as_is(z[rows]), as_is((X.U * X.s)[rows]) @ as_is(X.Vt), k)
        _, left = thresholded(t, k, namespace(t).clip)
        left = wide(left)
        squares = squares + (left * left).sum(0)
    xp = namespace(squares)
    return xp.astype(cut(xp.sqrt(squares), k, int(z.shape[0])), as_is(z[:1]).dtype, copy=False)


def look(C: Array, z: Array | None, X: LowRank, k: Step) -> Sums:
    """The sums at X in float64; without z, only those that depend on X alone."""
    found: list[Vector] = []
    left, right = wide(X.U) * wide(X.s), wide(X.Vt)
    factors = LowRank(wide(X.U), wide(X.s), right)
    cuts = None if z is None or not k.columns else _column_cuts(C, z, factors, k, exact=True)
    room: list[Array] = []
    for rows in tiles(C, z):
        c = wide(C[rows])
        at = c if z is None else wide(z[rows])
        if is_numpy(c) and not k.grouped:
            if not room:  # the first block is the largest
                room = [SHARED.like(c, c.shape) for _ in range(4)]
            parts = [part[: c.shape[0]] for part in room]
            np.matmul(left[rows], right, out=parts[0])
            found.append(_sums_within(c, at, parts, k))
        else:
            found.append(_sums(c, at, left[rows] @ right, k, cuts))
    terms = [math.fsum(term) for term in zip(*found, strict=True)]
    return Sums.of(terms, group_norms(X, k))


def advance_from(
    old: Array, C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """`advance` from a target that must not change; z is overwritten by the next one."""
    z[...] = old
    return advance(C, z, X, k, change, Q)


def advance(
    C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """Return estimates of the sums at X (without `across`); overwrite z by the next target.

    Also return z Q if a block Q is given. `change` is the factor by which gamma will change.
    """
    distance = price = along = rest = 0.0
    left, clip = X.U * X.s, namespace(z).clip
    room: list[Array] = []
    parts: list[Array] = []  # of z Q, computed here so that a file is not read again
    Q = None if Q is None else namespace(Q).astype(Q, z.dtype, copy=False)
    columns = _column_cuts(C, z, X, k) if k.columns else None
    for rows in tiles(C, z):
        if not room:  # the first block is the largest
            room = [SHARED.like(z, (rows.stop, int(z.shape[1]))) for _ in range(3)]
        c, at = C[rows], z[rows]
        point, s, move = (part[: c.shape[0]] for part in room)
        _multiply(left[rows], X.Vt, point)
        subtract(point, c, s)
        distance += rough_inner(s, s)
        difference(c, k.gamma * k.beta, at, 1.0, move)
        add_scaled(move, 2.0 - k.gamma * (k.beta + k.curvature), point)
        s[...] = move
        s *= 1.0 / k.gamma
        s[...] = (
            np.clip(s, -k.below, k.above, out=s) if is_numpy(s) else clip(s, -k.below, k.above)
        )
        if k.grouped:
            after = move - k.gamma * s
            s += (_row_cuts(after, k) if columns is None else columns) * after / k.gamma
        along += rough_inner(s, point)
        s *= k.gamma
        move -= s
        move -= point
        rest += rough_inner(move, move)
        if change != 1.0:
            at *= change
            add_scaled(at, 1.0 - change, point)
        at += move
        if Q is not None and on_disk(z):
            parts.append(at @ Q)
        price += _price(point, k)
    square = sqnorm(X.s)
    found = Sums(distance, price, along, 0.0, rest / k.gamma**2, square, group_norms(X, k))
    if parts:
        return found, np.concatenate(parts)
    return found, None if Q is None else quick_times(z, Q)


def _multiply(A: Array, B: Array, out: Array) -> None:
    if is_numpy(out):
        np.matmul(A, B, out=out)
    else:
        out[...] = A @ B


def _price(X: Array, k: Step) -> float:
    """Sum of the entrywise penalty; X may be overwritten."""
    if k.above != k.below:
        xp = namespace(X)
        return k.above * total(xp.clip(X, 0.0, None)) - k.below * total(xp.clip(X, None, 0.0))
    if not k.above:
        return 0.0
    if is_numpy(X):
        return k.above * float(np.abs(X, out=X).sum())
    return k.above * total(namespace(X).abs(X))


def _sums(C: Array, z: Array, X: Array, k: Step, cuts: Array | None) -> Vector:
    clip = namespace(C).clip
    shares: Any = 0.0
    if k.grouped:
        shares = cuts
        if cuts is None:
            shares = _row_cuts(thresholded(target(C, z, X, k), k, clip)[1], k)
    s, _ = split(C, z, X, k, clip, shares)
    u, far = (z - X) / k.gamma, X - C
    rest = k.beta * far + k.curvature * X + s + u
    found = [total(term) for term in (far * far, s * X, u * X, rest * rest, X * X)]
    return np.array([found[0], _price(X, k), *found[1:]])


def _sums_within(C: Any, z: Any, room: list[Any], k: Step) -> Vector:
    """The same at X = room[0] without groups, in place: allocation costs more than the sums."""
    X, s, rest, part = room
    np.multiply(C, k.gamma * k.beta, out=s)
    s -= z
    np.multiply(X, 2.0 - k.gamma * (k.beta + k.curvature), out=part)
    s += part
    s *= 1.0 / k.gamma
    np.clip(s, -k.below, k.above, out=s)
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
    price = _price(X, k)
    return np.array([distance, price, along, across, rest.sum(), square])


def times(z: Array, V: Array) -> Array:
    """z V for a narrow block in float64, summed in float64."""
    parts = [wide(z[rows]) @ V for rows in tiles(z)]
    return parts[0] if len(parts) == 1 else namespace(V).concat(parts, axis=0)


def transpose_times(z: Array, U: Array) -> Array:
    """z' U for a narrow block in float64, summed in float64."""
    found = None
    for rows in tiles(z):
        part = wide(z[rows]).T @ U[rows]
        found = part if found is None else found + part
    return found


def quick_times(z: Array, V: Array) -> Array:
    """z V in the fastest precision."""
    V = namespace(V).astype(V, z.dtype, copy=False)
    return by_rows.times(z, V) if on_disk(z) else times_block(z, V)


def quick_transpose_times(z: Array, U: Array) -> Array:
    """z' U in the fastest precision."""
    U = namespace(U).astype(U, z.dtype, copy=False)
    return by_rows.transpose_times(z, U) if on_disk(z) else block_times(U, z)


def quick_is_exact(z: Array) -> bool:
    """Whether the fastest precision is float64."""
    return itemsize(z) == 8
