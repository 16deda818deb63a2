"""The passes compiled by numba, on several threads, for NumPy arrays.

A thread owns whole tiles of rows, small enough for its cache: X, the step and the product
with the block are made there before the next tile comes. Products in a tile are left to
BLAS. Tiles are the same for any number of threads, so the answer has the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from weakprox.linalg.arrays import Array, itemsize
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import own_threads
from weakprox.passes.formulas import Step, Sums

TILE_BYTES = 1 << 18  # of the arrays a tile is made of each: four of them fit in a cache
CHAIN = 32  # terms added one after the other, at worst, in sums that proofs rest on
PIECES = 8  # partial sums of products with the transpose, whatever the number of threads

# Sums may be regrouped and products fused into sums; NaN and infinity stay what they are.
compiled = numba.njit(
    nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy"
)


@compiled
def _step_tile(C, old, z, X, gamma, beta, curvature, lam, change, sums):  # type: ignore[no-untyped-def]
    ahead, toward, steep = 2.0 - gamma * (beta + curvature), gamma * beta, 1.0 / gamma
    for i in range(C.shape[0]):
        c_row, old_row, z_row, x_row = C[i], old[i], z[i], X[i]
        distance = absolute = along = rest = 0.0
        for j in range(C.shape[1]):
            c, target, x = c_row[j], old_row[j], x_row[j]
            t = ahead * x + toward * c - target
            s = min(max(t * steep, -lam), lam)
            move = t - gamma * s - x
            distance += (x - c) * (x - c)
            absolute += abs(x)
            along += s * x
            rest += move * move
            z_row[j] = change * target + (1.0 - change) * x + move
        sums[i, 0], sums[i, 1], sums[i, 2] = distance, absolute, along
        sums[i, 3], sums[i, 4] = 0.0, rest * steep * steep


@numba.njit(inline="always")
def _look_part(c_row, z_row, x_row, numbers, start, length, part):  # type: ignore[no-untyped-def]
    beta, curvature, lam, ahead, toward, steep = numbers
    distance = absolute = along = across = rest = square = 0.0
    for j in range(length):
        c, target = np.float64(c_row[start + j]), np.float64(z_row[start + j])
        x = x_row[start + j]
        t = ahead * x + toward * c - target
        s = min(max(t * steep, -lam), lam)
        w = (target - x) * steep
        q = beta * (x - c) + curvature * x + s + w
        distance += (x - c) * (x - c)
        absolute += abs(x)
        along += s * x
        across += w * x
        rest += q * q
        square += x * x
    part[0], part[1], part[2] = distance, absolute, along
    part[3], part[4], part[5] = across, rest, square


@compiled
def _look_tile(C, z, X, gamma, beta, curvature, lam, parts, sums):  # type: ignore[no-untyped-def]
    # A compiler adds up CHAIN terms in vectors as wide as the machine's, or one by one; the
    # parts are added by pairs. So the error has the same bound on every machine.
    ahead, toward, steep = 2.0 - gamma * (beta + curvature), gamma * beta, 1.0 / gamma
    numbers = beta, curvature, lam, ahead, toward, steep
    whole = C.shape[1] // CHAIN
    for i in range(C.shape[0]):
        c_row, z_row, x_row = C[i], z[i], X[i]
        for k in range(whole):
            _look_part(c_row, z_row, x_row, numbers, k * CHAIN, CHAIN, parts[k])
        if whole < parts.shape[0]:
            start = whole * CHAIN
            left = C.shape[1] - start
            _look_part(c_row, z_row, x_row, numbers, start, left, parts[whole])
        count = parts.shape[0]
        while count > 1:
            half = (count + 1) // 2
            for k in range(count - half):
                for term in range(6):
                    parts[k, term] += parts[k + half, term]
            count = half
        for term in range(6):
            sums[term, i] = parts[0, term]


@compiled
def _first_tile(C, z, scale, bound):  # type: ignore[no-untyped-def]
    for i in range(C.shape[0]):
        c_row, z_row = C[i], z[i]
        for j in range(C.shape[1]):
            t = scale * c_row[j]
            z_row[j] = t - min(max(t, -bound), bound)


@compiled
def _advance(C, old, z, left, Vt, Q, B, numbers, sums, apart, low, high, rows):  # type: ignore[no-untyped-def]
    gamma, beta, curvature, lam, change = numbers
    room = np.empty((rows, C.shape[1]), C.dtype)
    # a loop that overwrites what it reads could not use vectors
    fresh = np.empty((0 if apart else rows, C.shape[1]), z.dtype)
    for i in range(low, high, rows):
        end = min(i + rows, high)
        c, before, after, X = C[i:end], old[i:end], z[i:end], room[: end - i]
        made = after if apart else fresh[: end - i]
        np.dot(left[i:end], Vt, X)
        _step_tile(c, before, made, X, gamma, beta, curvature, lam, change, sums[i:end])
        if not apart:
            after[:] = made
        if Q.shape[1] > 0:
            np.dot(after, Q, B[i:end])


@compiled
def _look(C, z, left, Vt, numbers, sums, low, high, rows):  # type: ignore[no-untyped-def]
    gamma, beta, curvature, lam = numbers
    room = np.empty((rows, C.shape[1]))
    parts = np.empty(((C.shape[1] + CHAIN - 1) // CHAIN, 6))
    for i in range(low, high, rows):
        end = min(i + rows, high)
        X = room[: end - i]
        np.dot(left[i:end], Vt, X)
        _look_tile(C[i:end], z[i:end], X, gamma, beta, curvature, lam, parts, sums[:, i:end])


@compiled
def _first(C, z, Q, B, scale, bound, low, high, rows):  # type: ignore[no-untyped-def]
    for i in range(low, high, rows):
        end = min(i + rows, high)
        _first_tile(C[i:end], z[i:end], scale, bound)
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
    block, B = _block(z, Q)
    scale, bound = (z.dtype.type(x) for x in (k.gamma * k.beta, k.gamma * k.lam))
    _spread(z, lambda low, high, rows: _first(C, z, block, B, scale, bound, low, high, rows))
    return None if Q is None else B


def look(C: Array, z: Array | None, X: LowRank, k: Step) -> Sums:
    """As `reference.look`."""
    target = C if z is None else z
    left, Vt = _rows(X.U, float) * X.s, _rows(X.Vt, float)
    sums, numbers = np.empty((6, C.shape[0])), tuple(float(x) for x in k)
    _spread(
        C, lambda low, high, rows: _look(C, target, left, Vt, numbers, sums, low, high, rows)
    )
    return Sums(*(float(x) for x in sums.sum(axis=1)))  # rows by pairs


def advance(
    C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """As `reference.advance`."""
    return advance_from(z, C, z, X, k, change, Q)


def advance_from(
    old: Array, C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """As `reference.advance_from`, in one pass."""
    left, Vt = _rows(X.U * X.s, z.dtype), _rows(X.Vt, z.dtype)
    block, B = _block(z, Q)
    sums, apart = np.empty((C.shape[0], 5)), old is not z
    numbers = tuple(z.dtype.type(x) for x in (*k, change))
    _spread(
        z,
        lambda low, high, rows: _advance(
            C, old, z, left, Vt, block, B, numbers, sums, apart, low, high, rows
        ),
    )
    square = float(np.sum(np.square(X.s, dtype=float)))
    found = Sums._make([*(float(x) for x in sums.sum(axis=0)), square])
    return found, None if Q is None else B


def times(z: Array, V: Array, dtype: Any = np.float64) -> Array:
    """As `reference.times`."""
    V = _rows(V, dtype)
    B = np.empty((z.shape[0], V.shape[1]), V.dtype)
    work = _times if V.dtype == z.dtype else _wide_times  # the latter copies each tile
    _spread(z, lambda low, high, rows: work(z, V, B, low, high, rows))
    return B


def transpose_times(z: Array, U: Array, dtype: Any = np.float64) -> Array:
    """As `reference.transpose_times`; partial sums are added in their order."""
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
    """The same in the precision of z."""
    return times(z, V, z.dtype)


def quick_transpose_times(z: Array, U: Array) -> Array:
    """The same in the precision of z."""
    return transpose_times(z, U, z.dtype)


def quick_is_exact(z: Array) -> bool:
    """Whether that is float64."""
    return itemsize(z) == 8


def _rows(x: Array, dtype: Any) -> Array:
    return np.ascontiguousarray(x, dtype)


def _block(z: Array, Q: Array | None) -> tuple[Array, Array]:
    """The block in the precision of z, and room for its product; empty without one."""
    block = np.empty((z.shape[1], 0), z.dtype) if Q is None else _rows(Q, z.dtype)
    return block, np.empty((z.shape[0], block.shape[1]), z.dtype)


def _spread(z: Array, work: Callable[[int, int, int], None]) -> None:
    """Work on all tiles of rows, some of them by each thread."""
    rows = max(1, TILE_BYTES // max(1, z.shape[1] * 8))
    _share(int(z.shape[0]), rows, work)


def _share(count: int, unit: int, work: Callable[[int, int, int], None]) -> None:
    """work(low, high, unit) for stretches of whole units, each by a thread of its own."""
    with own_threads() as threads:
        units = -(-count // unit)
        ends = [min(count, unit * (units * t // threads)) for t in range(threads + 1)]
        ends[-1] = count
        failures: list[BaseException] = []

        def run(low: int, high: int) -> None:
            try:
                work(low, high, unit)
            except BaseException as failure:  # raised again below, in the caller's thread
                failures.append(failure)

        helpers = [
            threading.Thread(target=run, args=ends[t : t + 2], daemon=True)
            for t in range(1, threads)
        ]
        for helper in helpers:
            helper.start()
        run(*ends[:2])
        for helper in helpers:
            helper.join()
    if failures:
        raise failures[0]
