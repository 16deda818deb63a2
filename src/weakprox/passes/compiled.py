"""The passes compiled by numba, on several threads, for NumPy arrays.

A thread processes whole tiles of rows, small enough for its cache: X, the step and the product
with the block are computed before the next tile is read. BLAS computes products within a tile.
Tiles do not depend on the number of threads, so neither do the bits of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import share
from weakprox.passes import reference
from weakprox.passes.reference import Step, Sums, cut, group_norms

COMPILED, IN_FLOAT64 = True, False  # as in `interface`
TILE_BYTES = 1 << 18  # bytes of each array in a tile: four of them fit in a cache
CHAIN = 32  # longest chain of additions in sums that proofs rely on
PIECES = 8  # partial sums of products with the transpose, for any number of threads

# Sums may be regrouped and products fused into sums; NaN and infinity are preserved.
HOW: Any = {"fastmath": {"contract", "reassoc", "nsz"}, "error_model": "numpy"}
compiled = numba.njit(nogil=True, cache=True, **HOW)
# Functions that others call become part of these. Otherwise they are optimised once by
# themselves, for the process that compiles them, and once within their callers, for processes
# that load those: the last bits of results would differ.
inlined = numba.njit(nogil=True, forceinline=True, **HOW)


def _at(ends: Any, i: int, j: int) -> Any:
    """Where the slopes of an entry begin: `ends` are two numbers, or bounds side by side."""


def _rows_of(ends: Any, i: int, end: int) -> Any:
    """The bounds of some rows."""


def _within(weights: Any, i: int, end: int) -> Any:
    """The factor and some rows of the weights, or None."""


def _more(weights: Any, i: int, j: int) -> Any:
    """What weights, a factor and an array, add to the slopes of an entry."""


@overload(_at, inline="always")
def _typed_at(ends, i, j):  # type: ignore[no-untyped-def]
    if isinstance(ends, types.Array):
        # one row may stand for all
        return lambda ends, i, j: (
            ends[min(i, ends.shape[0] - 1), j],
            ends[min(i, ends.shape[0] - 1), j + ends.shape[1] // 2],
        )
    return lambda ends, i, j: ends


@overload(_rows_of, inline="always")
def _typed_rows_of(ends, i, end):  # type: ignore[no-untyped-def]
    if isinstance(ends, types.Array):
        return lambda ends, i, end: ends[i:end] if ends.shape[0] > 1 else ends
    return lambda ends, i, end: ends


@overload(_within, inline="always")
def _typed_within(weights, i, end):  # type: ignore[no-untyped-def]
    if isinstance(weights, types.NoneType):
        return lambda weights, i, end: None
    return lambda weights, i, end: (weights[0], weights[1][i:end])


@overload(_more, inline="always")
def _typed_more(weights, i, j):  # type: ignore[no-untyped-def]
    if isinstance(weights, types.NoneType):
        return lambda weights, i, j: 0.0
    kind = weights.types[0]  # that of the other numbers: float32, or float64 for exact sums
    return lambda weights, i, j: weights[0] * kind(weights[1][i, j])


@inlined
def _step_tile(C, old, z, X, numbers, ends, weights, groups, sums):  # type: ignore[no-untyped-def]
    # `ends` is None if slopes begin at zero, `weights` if they are alike, and `groups` if there
    # are none: the compiler leaves the other branches out. Of groups, rows are cut at a level
    # above zero; otherwise the cuts are those of columns.
    gamma, beta, curvature, above, below, change = numbers
    ahead, toward, steep = 2.0 - gamma * (beta + curvature), gamma * beta, 1.0 / gamma
    for i in range(C.shape[0]):
        c_row, old_row, z_row, x_row = C[i], old[i], z[i], X[i]
        if groups is not None:
            level, cuts = groups
            if level > 0.0:
                square = 0.0
                for j in range(C.shape[1]):
                    t = ahead * x_row[j] + toward * c_row[j] - old_row[j]
                    more = _more(weights, i, j)
                    left = t - gamma * min(max(t * steep, -(below + more)), above + more)
                    square += left * left
                cuts[:] = min(1.0, level / np.sqrt(square)) if square > 0.0 else 1.0
        distance = price = along = rest = 0.0
        for j in range(C.shape[1]):
            c, at, x = c_row[j], old_row[j], x_row[j]
            t = ahead * x + toward * c - at
            if weights is not None:
                more = _more(weights, i, j)
                s = min(max(t * steep, -(below + more)), above + more)
                if groups is not None:
                    s = s + cuts[j] * (t * steep - s)
                price += max((above + more) * x, -(below + more) * x)
                along += s * x
            elif ends is None:
                s = min(max(t * steep, -below), above)
                if groups is not None:
                    s = s + cuts[j] * (t * steep - s)
                price += max(above * x, -below * x)
                along += s * x
            else:
                low, high = _at(ends, i, j)
                s = min(max((t - min(max(t, low), high)) * steep, -below), above)
                price += above * max(x - high, 0.0) + below * max(low - x, 0.0)
                along += s * x - (high * max(s, 0.0) + low * min(s, 0.0))
            move = t - gamma * s - x
            distance += (x - c) * (x - c)
            rest += move * move
            z_row[j] = change * at + (1.0 - change) * x + move
        sums[i, 0], sums[i, 1], sums[i, 2] = distance, price, along
        sums[i, 3], sums[i, 4] = 0.0, rest * steep * steep


@inlined
def _squares_tile(C, z, X, numbers, weights, squares):  # type: ignore[no-untyped-def]
    # squares of the thresholded target, summed over the rows of a tile
    gamma, beta, curvature, above, below = numbers
    ahead, toward, steep = 2.0 - gamma * (beta + curvature), gamma * beta, 1.0 / gamma
    squares[:] = 0.0
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            t = ahead * X[i, j] + toward * np.float64(C[i, j]) - np.float64(z[i, j])
            more = _more(weights, i, j)
            left = t - gamma * min(max(t * steep, -(below + more)), above + more)
            squares[j] += left * left


@numba.njit(inline="always")
def _look_part(c_row, z_row, x_row, cuts, numbers, ends, weights, i, start, length, part):  # type: ignore[no-untyped-def]
    beta, curvature, above, below, ahead, toward, steep = numbers
    distance = price = along = across = rest = square = 0.0
    for j in range(length):
        c, at = np.float64(c_row[start + j]), np.float64(z_row[start + j])
        x = x_row[start + j]
        t = ahead * x + toward * c - at
        if weights is not None:
            more = _more(weights, i, start + j)
            y = min(max(t * steep, -(below + more)), above + more)
            s = y + cuts[start + j] * (t * steep - y)
            price += max((above + more) * x, -(below + more) * x)
            along += s * x
        elif ends is None:
            y = min(max(t * steep, -below), above)
            s = y + cuts[start + j] * (t * steep - y)
            price += max(above * x, -below * x)
            along += s * x
        else:
            low, high = _at(ends, i, start + j)
            s = min(max((t - min(max(t, low), high)) * steep, -below), above)
            price += above * max(x - high, 0.0) + below * max(low - x, 0.0)
            along += s * x - (high * max(s, 0.0) + low * min(s, 0.0))
        w = (at - x) * steep
        q = beta * (x - c) + curvature * x + s + w
        distance += (x - c) * (x - c)
        across += w * x
        rest += q * q
        square += x * x
    part[0], part[1], part[2] = distance, price, along
    part[3], part[4], part[5] = across, rest, square


@inlined
def _look_tile(C, z, X, numbers, ends, weights, level, cuts, parts, sums):  # type: ignore[no-untyped-def]
    # A compiler sums CHAIN terms in vectors of the machine's width, or one by one; the parts
    # are summed pairwise. So the error has the same bound on every machine.
    gamma, beta, curvature, above, below = numbers
    ahead, toward, steep = 2.0 - gamma * (beta + curvature), gamma * beta, 1.0 / gamma
    numbers = beta, curvature, above, below, ahead, toward, steep
    whole = C.shape[1] // CHAIN
    for i in range(C.shape[0]):
        c_row, z_row, x_row = C[i], z[i], X[i]
        if level > 0.0:  # rows are groups
            square = 0.0
            for j in range(C.shape[1]):
                t = ahead * x_row[j] + toward * np.float64(c_row[j]) - np.float64(z_row[j])
                more = _more(weights, i, j)
                left = t - gamma * min(max(t * steep, -(below + more)), above + more)
                square += left * left
            norm = np.sqrt(square)
            cuts[:] = level / norm if norm > level else 1.0
        for k in range(whole):
            _look_part(
                c_row, z_row, x_row, cuts, numbers, ends, weights, i, k * CHAIN, CHAIN, parts[k]
            )  # fmt: skip
        if whole < parts.shape[0]:
            start = whole * CHAIN
            left_over, part = C.shape[1] - start, parts[whole]
            _look_part(
                c_row, z_row, x_row, cuts, numbers, ends, weights, i, start, left_over, part
            )  # fmt: skip
        count = parts.shape[0]
        while count > 1:
            half = (count + 1) // 2
            for k in range(count - half):
                for term in range(6):
                    parts[k, term] += parts[k + half, term]
            count = half
        for term in range(6):
            sums[term, i] = parts[0, term]


@inlined
def _first_tile(C, z, scale, above, below, ends, weights):  # type: ignore[no-untyped-def]
    for i in range(C.shape[0]):
        c_row, z_row = C[i], z[i]
        for j in range(C.shape[1]):
            t = scale * c_row[j]
            if weights is not None:
                more = _more(weights, i, j)
                z_row[j] = t - min(max(t, -(below + more)), above + more)
            elif ends is None:
                z_row[j] = t - min(max(t, -below), above)
            else:
                low, high = _at(ends, i, j)
                z_row[j] = t - min(max(t - min(max(t, low), high), -below), above)


@compiled
def _advance(  # type: ignore[no-untyped-def]
    C, old, z, left, Vt, Q, B, numbers, ends, weights, groups, sums, apart, low, high, rows
):
    room = np.empty((rows, C.shape[1]), C.dtype)
    own_groups = None if groups is None else (groups[0], groups[1].copy())
    # separate arrays, since a loop that overwrites its input could not be vectorised
    fresh = np.empty((0 if apart else rows, C.shape[1]), z.dtype)
    for i in range(low, high, rows):
        end = min(i + rows, high)
        c, before, after, X = C[i:end], old[i:end], z[i:end], room[: end - i]
        made = after if apart else fresh[: end - i]
        np.dot(left[i:end], Vt, X)
        here, own = _within(weights, i, end), _rows_of(ends, i, end)
        _step_tile(c, before, made, X, numbers, own, here, own_groups, sums[i:end])
        if not apart:
            after[:] = made
        if Q.shape[1] > 0:
            np.dot(after, Q, B[i:end])


@compiled
def _blend(X, left, Vt, keep, low, high, rows):  # type: ignore[no-untyped-def]
    room = np.empty((rows, X.shape[1]), X.dtype)
    for i in range(low, high, rows):
        end = min(i + rows, high)
        np.dot(left[i:end], Vt, room[: end - i])
        for j in range(i, end):
            x, v = X[j], room[j - i]
            for k in range(len(x)):
                x[k] = keep * x[k] + v[k]


@compiled
def _squares(C, z, left, Vt, numbers, weights, squares, low, high, rows):  # type: ignore[no-untyped-def]
    room = np.empty((rows, C.shape[1]))
    for i in range(low, high, rows):
        end = min(i + rows, high)
        X = room[: end - i]
        np.dot(left[i:end], Vt, X)
        here = _within(weights, i, end)
        _squares_tile(C[i:end], z[i:end], X, numbers, here, squares[i // rows])


@compiled
def _look(C, z, left, Vt, numbers, ends, weights, level, columns, sums, low, high, rows):  # type: ignore[no-untyped-def]
    room = np.empty((rows, C.shape[1]))
    parts = np.empty(((C.shape[1] + CHAIN - 1) // CHAIN, 6))
    cuts = columns.copy()
    for i in range(low, high, rows):
        end = min(i + rows, high)
        X = room[: end - i]
        np.dot(left[i:end], Vt, X)
        here, found = _within(weights, i, end), sums[:, i:end]
        own = _rows_of(ends, i, end)
        _look_tile(C[i:end], z[i:end], X, numbers, own, here, level, cuts, parts, found)


@compiled
def _first(C, z, Q, B, scale, above, below, ends, weights, low, high, rows):  # type: ignore[no-untyped-def]
    for i in range(low, high, rows):
        end = min(i + rows, high)
        here, own = _within(weights, i, end), _rows_of(ends, i, end)
        _first_tile(C[i:end], z[i:end], scale, above, below, own, here)
        if Q.shape[1] > 0:
            np.dot(z[i:end], Q, B[i:end])


@compiled
def _times(z, V, B, low, high, rows):  # type: ignore[no-untyped-def]
    for i in range(low, high, rows):
        end = min(i + rows, high)
        np.dot(z[i:end], V, B[i:end])


@compiled
def _wide_times(z, V, B, low, high, rows):  # type: ignore[no-untyped-def]
    for i in range(low, high, rows):
        end = min(i + rows, high)
        np.dot(z[i:end].astype(V.dtype), V, B[i:end])


def first(C: Array, z: Array, k: Step, Q: Array | None = None) -> Array | None:
    """As `reference.first`."""
    if k.grouped:  # once in a run
        reference.first(C, z, k)
        return None if Q is None else quick_times(z, Q)
    block, B = _block(z, Q)
    kind = z.dtype.type
    scale, up, down = (kind(k.gamma * x) for x in (k.beta, k.above, k.below))
    weights = _weights(k, kind, k.gamma)
    _spread(z, _first, C, z, block, B, scale, up, down, _ends(k, kind), weights)
    return None if Q is None else B


def look(C: Array, z: Array | None, X: LowRank, k: Step) -> Sums:
    """As `reference.look`."""
    at = C if z is None else z
    left, Vt = _rows(X.U, float) * X.s, _rows(X.Vt, float)
    sums, numbers = np.empty((6, C.shape[0])), tuple(float(x) for x in k[:5])
    level, columns = _groups(C, z, left, Vt, k)
    ends, weights = _ends(k, float), _weights(k, float)
    _spread(C, _look, C, at, left, Vt, numbers, ends, weights, level, columns, sums)
    # sum the rows pairwise
    return Sums._make([*map(float, sums.sum(axis=1)), group_norms(X, k), 0.0])


def _ends(k: Step, kind: Callable[[float], Any]) -> Any:
    """Where the slopes begin, as an array or as numbers of this type; None if that is zero."""
    if k.bounded:
        return k.beside
    return (kind(k.low), kind(k.high)) if k.shifted else None


def _weights(
    k: Step, kind: Callable[[float], Any], scale: float = 1.0
) -> tuple[Any, Array] | None:
    """The factor, as a number of this type, and the weights; None if there are none."""
    return (kind(scale * k.factor), k.beside) if k.weighted else None


def _groups(C: Array, z: Array | None, left: Array, Vt: Array, k: Step) -> tuple[float, Array]:
    """The norm at which rows are cut (0 if rows are not groups), and the cuts of columns."""
    length = int(C.shape[1])
    if k.rows:
        return k.gamma * k.rows * (1.0 - (length + 16) * 2.0**-53), np.zeros(length)
    if not k.columns or z is None:
        return 0.0, np.zeros(length)
    numbers = tuple(float(x) for x in k[:5])
    rows = _tile_rows(z)
    squares = np.empty((-(-int(z.shape[0]) // rows), length))  # one row per tile
    _spread(z, _squares, C, z, left, Vt, numbers, _weights(k, float), squares)
    return 0.0, cut(np.sqrt(squares.sum(axis=0)), k, int(z.shape[0]))


def advance(
    C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """As `reference.advance`."""
    return advance_from(z, C, z, X, k, change, Q)


def advance_from(
    old: Array, C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """As `reference.advance_from`, in one pass; groups of columns need another."""
    left, Vt = _rows(X.U * X.s, z.dtype), _rows(X.Vt, z.dtype)
    sums, apart = np.empty((C.shape[0], 5)), old is not z
    numbers = tuple(z.dtype.type(x) for x in (*k[:5], change))
    square = float(np.sum(np.square(X.s, dtype=float)))
    groups: Any = None
    if k.grouped:
        level, cuts = _groups(C, old, _rows(left, float), _rows(Vt, float), k)
        groups = z.dtype.type(level), _rows(cuts, z.dtype)
    block, B = _block(z, Q)
    ends, weights = _ends(k, z.dtype.type), _weights(k, z.dtype.type)
    given = (C, old, z, left, Vt, block, B, numbers, ends, weights, groups, sums, apart)
    _spread(z, _advance, *given)
    found = Sums._make([*map(float, sums.sum(axis=0)), square, group_norms(X, k), 0.0])
    return found, None if Q is None else B


def beside(C: Array, given: Any) -> Array:
    """As `reference.beside`: read-only, so that passes are compiled for such arrays alone."""
    found: Array = reference.beside(C, given).view()
    found.flags.writeable = False
    return found


def blend_into(X: Array, V: LowRank, step: float, scratch: Array | None = None) -> None:
    """As `linalg.lowrank.blend_into`, in one pass."""
    left, Vt = _rows(V.U * (step * V.s), X.dtype), _rows(V.Vt, X.dtype)
    _spread(X, _blend, X, left, Vt, X.dtype.type(1.0 - step))


def times(z: Array, V: Array, dtype: Any = np.float64) -> Array:
    """As `reference.times`."""
    V = _rows(V, dtype)
    B = np.empty((z.shape[0], V.shape[1]), V.dtype)
    work = _times if V.dtype == z.dtype else _wide_times  # the latter copies each tile
    _spread(z, work, z, V, B)
    return B


def transpose_times(z: Array, U: Array, dtype: Any = np.float64) -> Array:
    """As `reference.transpose_times`; partial sums are added in a fixed order."""
    Ut = np.ascontiguousarray(U.T, dtype)
    edges = np.linspace(0, z.shape[0], PIECES + 1).astype(int)
    parts = np.empty((PIECES, Ut.shape[0], z.shape[1]), dtype)

    def piece(low: int, high: int, _: int) -> None:
        for p in range(low, high):
            rows = slice(edges[p], edges[p + 1])
            np.matmul(Ut[:, rows], z[rows].astype(dtype, copy=False), out=parts[p])

    _share(PIECES, 1, piece)
    return parts.sum(axis=0).T


def quick_times(z: Array, V: Array) -> Array:
    """z V in the precision of z."""
    return times(z, V, z.dtype)


def quick_transpose_times(z: Array, U: Array) -> Array:
    """z' U in the precision of z."""
    return transpose_times(z, U, z.dtype)


def _rows(x: Array, dtype: Any) -> Array:
    return np.ascontiguousarray(x, dtype)


def _block(z: Array, Q: Array | None) -> tuple[Array, Array]:
    """The block in the precision of z, and an array for its product; empty if Q is None."""
    block = np.empty((z.shape[1], 0), z.dtype) if Q is None else _rows(Q, z.dtype)
    return block, np.empty((z.shape[0], block.shape[1]), z.dtype)


def _spread(z: Array, work: Callable[..., None], *args: Any) -> None:
    """Call work(*args, low, high, rows) for ranges of rows of z, distributed over threads."""
    _share(int(z.shape[0]), _tile_rows(z), partial(work, *args))


def _tile_rows(z: Array) -> int:
    """Number of rows in a tile."""
    return max(1, TILE_BYTES // max(1, int(z.shape[1]) * 8))


def _share(count: int, unit: int, work: Callable[[int, int, int], None]) -> None:
    """Call work(low, high, unit) on ranges of whole units, each in its own thread."""
    edges = np.append(np.arange(0, count, unit), count)
    share(edges, lambda low, high: work(low, high, unit))
