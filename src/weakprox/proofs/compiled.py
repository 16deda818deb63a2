"""Compiled passes of a proof: the dual point of a step, and the checksum of the data."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from weakprox.linalg.threads import share

TILE = 1 << 15  # entries of X that are computed together and stay in cache

compiled = numba.njit(
    nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy"
)


@compiled
def _tile(C, z, X, q, numbers):  # type: ignore[no-untyped-def]
    """Store y = clip(ahead X + beta C - steep z) as shares of lam."""
    ahead, beta, steep, lam, whole = numbers
    up, down = whole / lam, lam / whole
    square = along = across = 0.0
    for i in range(C.shape[0]):
        c_row, z_row, x_row, q_row = C[i], z[i], X[i], q[i]
        for j in range(C.shape[1]):
            x = x_row[j]
            t = beta * np.float64(c_row[j]) - steep * np.float64(z_row[j])
            y = min(max(ahead * x + t, -lam), lam)
            part = np.rint(y * up)
            q_row[j] = part
            delta = part * down - y
            square += delta * delta
            along += delta * x
            across += delta * ((steep - ahead) * x + y - t)
    return square, along, across


@compiled
def _tiles(C, z, left, Vt, q, numbers, rows, sums):  # type: ignore[no-untyped-def]
    room = np.empty((rows, C.shape[1]))
    for tile in range(sums.shape[0]):
        i = tile * rows
        end = min(i + rows, C.shape[0])
        X = room[: end - i]
        np.dot(left[i:end], Vt, X)
        found = _tile(C[i:end], z[i:end], X, q[i:end], numbers)
        sums[tile, 0], sums[tile, 1], sums[tile, 2] = found


@compiled
def weighted(words, first):  # type: ignore[no-untyped-def]
    """Sum of words[i] (2 (first + i) + 1) modulo 2**64."""
    total, factor = np.uint64(0), np.uint64(2 * first + 1)
    for i in range(words.size):
        total += np.uint64(words[i]) * factor
        factor += np.uint64(2)
    return total


def stored(
    C: Any, z: Any, left: Any, Vt: Any, q: Any, numbers: tuple[float, ...]
) -> tuple[float, float, float]:
    """Overwrite q; return |delta|^2, <X, delta> and <rest, delta> of the rounding errors delta.

    The rest is beta (X - C) + curvature X + y + u, as in `passes.reference.Sums`.
    """
    rows = max(1, TILE // int(C.shape[1]))
    edges = np.append(np.arange(0, C.shape[0], rows), C.shape[0])
    # one number per tile, so that threads do not change the bits
    sums = np.empty((len(edges) - 1, 3))

    def work(low: int, high: int) -> None:
        some, tiles = slice(low, high), slice(low // rows, -(-high // rows))
        _tiles(C[some], z[some], left[some], Vt, q[some], numbers, rows, sums[tiles])

    share(edges, work)
    square, along, across = (float(total) for total in sums.sum(axis=0))
    return square, along, across
