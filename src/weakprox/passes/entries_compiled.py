"""Products with a sparse matrix and sampled products, compiled by numba, on several threads.

A thread processes whole rows, in chunks of about equally many entries. A row is summed by one
thread, so that the bits of the result do not depend on the number of threads. Sums are in
float64, whatever the dtype of the factors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from weakprox.linalg.threads import share
from weakprox.passes.compiled import compiled

LIGHT = 2_000_000  # positions from which sums gain from threads

Vector = np.ndarray[Any, np.dtype[Any]]


@compiled
def _sampled(pointers, columns, U, V, out, low, high):  # type: ignore[no-untyped-def]
    for i in range(low, high):
        u = U[i]
        for p in range(pointers[i], pointers[i + 1]):
            v, dot = V[columns[p]], 0.0
            for k in range(u.shape[0]):
                dot += np.float64(u[k]) * np.float64(v[k])
            out[p] = dot


@numba.njit(inline="always")
def _value(values, positions, p):  # type: ignore[no-untyped-def]
    # `positions` are those of the values, None if they are in order: the compiler leaves the
    # other branch out
    return np.float64(values[p]) if positions is None else np.float64(values[positions[p]])


@compiled
def _times(pointers, columns, positions, values, B, out, low, high):  # type: ignore[no-untyped-def]
    # four rows of B at a time: reading and writing the sum would cost most of the time
    for i in range(low, high):
        row, start, end = out[i], pointers[i], pointers[i + 1]
        row[:] = 0.0
        whole = end - (end - start) % 4
        for p in range(start, whole, 4):
            b0, b1 = B[columns[p]], B[columns[p + 1]]
            b2, b3 = B[columns[p + 2]], B[columns[p + 3]]
            v0, v1 = _value(values, positions, p), _value(values, positions, p + 1)
            v2, v3 = _value(values, positions, p + 2), _value(values, positions, p + 3)
            for k in range(row.shape[0]):
                two = v0 * np.float64(b0[k]) + v1 * np.float64(b1[k])
                row[k] += two + v2 * np.float64(b2[k]) + v3 * np.float64(b3[k])
        for p in range(whole, end):
            b, value = B[columns[p]], _value(values, positions, p)
            for k in range(row.shape[0]):
                row[k] += value * np.float64(b[k])


@compiled
def _sums(pointers, positions, values, out, low, high):  # type: ignore[no-untyped-def]
    for i in range(low, high):
        found = 0.0
        for p in range(pointers[i], pointers[i + 1]):
            found += _value(values, positions, p)
        out[i] = found


@compiled
def _scattered_sums(columns, values, out):  # type: ignore[no-untyped-def]
    for p in range(len(columns)):
        out[columns[p]] += values[p]


@compiled
def _effects(pointers, columns, left, right, out, low, high):  # type: ignore[no-untyped-def]
    for i in range(low, high):
        for p in range(pointers[i], pointers[i + 1]):
            out[p] = left[i] + right[columns[p]]


def sampled(P: Any, U: Vector, V: Vector) -> Vector:
    """Entries of U V' at the positions of a pattern."""
    out, U, V = np.empty(P.size), np.ascontiguousarray(U), np.ascontiguousarray(V)
    share(P.chunks, lambda low, high: _sampled(P.pointers, P.columns, U, V, out, low, high))
    return out


def _products(
    pointers: Any, columns: Any, positions: Any, edges: Any, values: Vector, B: Vector
) -> Vector:
    """Product of a matrix in compressed rows; `positions` are those of its values, or None."""
    B = np.ascontiguousarray(B)
    out = np.empty((len(pointers) - 1, B.shape[1]))
    data = (pointers, columns, positions, values, B, out)
    share(edges, lambda low, high: _times(*data, low, high))
    return out


def times(P: Any, values: Vector, B: Vector) -> Vector:
    """S B, S the sparse matrix with these values."""
    return _products(P.pointers, P.columns, None, P.chunks, values, B)


def transpose_times(P: Any, values: Vector, B: Vector) -> Vector:
    """S' B."""
    order = (P.column_pointers, P.rows_by_column, P.by_column, P.column_chunks)
    return _products(*order, values, B)


def _share_light(P: Any, edges: Any, work: Callable[..., None], *data: Any) -> None:
    """`share` for a pass with few operations, if it takes longer than threads to start."""
    if P.size >= LIGHT:
        share(edges, lambda low, high: work(*data, low, high))
    else:
        work(*data, int(edges[0]), int(edges[-1]))


def row_sums(P: Any, values: Vector) -> Vector:
    """Sums of the values in each row."""
    out = np.empty(P.shape[0])
    _share_light(P, P.chunks, _sums, P.pointers, None, values, out)
    return out


def column_sums(P: Any, values: Vector) -> Vector:
    """Sums of the values in each column."""
    if P.is_dense:  # one thread, which reads the values in their order
        out = np.zeros(P.shape[1])
        _scattered_sums(P.columns, values, out)
        return out
    out = np.empty(P.shape[1])
    _share_light(P, P.column_chunks, _sums, P.column_pointers, P.by_column, values, out)
    return out


def effects(P: Any, left: Vector, right: Vector) -> Vector:
    """left_i + right_j at the positions of a pattern."""
    out = np.empty(P.size)
    _share_light(P, P.chunks, _effects, P.pointers, P.columns, left, right, out)
    return out
