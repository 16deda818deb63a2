"""Dual points on observed entries and outcomes, in integers whose sums are exactly zero.

A free intercept requires sums of q to vanish exactly, which floating-point sums do not. So q is
stored as integers times a power of two. The rounding errors of the sums are moved to the
entries that are farthest from their limits. Where rows and columns both have intercepts, they
are moved along the edges of a spanning forest of the graph that has an edge for each
observation.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from weakprox import verifier as plain
from weakprox.errors import ProofError
from weakprox.verifier.entries import LARGEST, LARGEST_SUM

Observed: TypeAlias = plain.Entries | plain.Outcomes
Index = np.ndarray[Any, np.dtype[np.int64]]
SHORT, LONG = 30, 39  # bits of the largest integer, in int32 and int64
SHRUNK = (0.0, 1e-12, 1e-9, 1e-6)  # shares by which q is reduced to stay in the domain


def integers(q: Any, loss: Observed, most: float, reach: float) -> tuple[Any, int]:
    """Return integers k and an exponent e with q near k 2^e, k feasible.

    They are in int32 if that costs the bound at most `most`, where `reach` bounds the nuclear
    norm of X, and no sum has to vanish.
    """
    size = float(np.abs(q).max())
    if not size > 0.0:
        return np.zeros(len(q), np.int32), 0
    top = math.frexp(size)[1]
    short = loss.intercepts == "none" and reach * _rounding(loss, top - SHORT) <= most
    # fewer bits for more numbers: see `summable`
    long = min(LONG, LARGEST_SUM.bit_length() - 2 - len(q).bit_length())
    exponent = top - (SHORT if short else long)
    low, high = (
        np.clip(np.broadcast_to(end, q.shape), -LARGEST, LARGEST)
        for end in (
            np.ceil(np.ldexp(loss.limits[0], -exponent)),
            np.floor(np.ldexp(loss.limits[1], -exponent)),
        )
    )
    for less in SHRUNK:
        k = np.clip(np.rint(np.ldexp(q * (1.0 - less), -exponent)), low, high).astype(np.int64)
        _balance(k, low, high, loss)
        if np.all((k >= low) & (k <= high)):
            return k.astype(np.int32) if short else k, exponent
    given = "a dual point at the edge of its domain, whose sums cannot be made zero"
    raise ProofError("result", given, "a ridge on the intercepts, or another weight")


def _rounding(loss: Observed, exponent: int) -> float:
    """The norm of a random matrix of rounding errors at the observations, nearly."""
    if isinstance(loss, plain.Outcomes):
        return math.ldexp(loss.length, exponent)
    counts = (np.bincount(index).max() for index in (loss.rows, loss.cols))
    return math.ldexp(sum(math.sqrt(count) for count in counts), exponent) * loss.widest


def _balance(k: Index, low: Any, high: Any, loss: Observed) -> None:
    """Make the sums of integers zero where an intercept is free."""
    if loss.intercepts == "none":
        return
    room = np.minimum(k - low, high - k)
    if isinstance(loss, plain.Outcomes) or loss.ridge:
        k[int(room.argmax())] -= k.sum()
    elif loss.intercepts == "both":
        _balance_both(k, room, loss)
    else:
        index = loss.rows if loss.intercepts == "rows" else loss.cols
        order = np.lexsort((room, index))
        last = np.flatnonzero(np.append(np.diff(index[order]) > 0, True))
        sums = np.add.reduceat(k[order], np.append(0, last[:-1] + 1))
        k[order[last]] -= sums


def _balance_both(k: Index, room: Any, loss: plain.Entries) -> None:
    """Move the sums of rows and columns along a forest, from its leaves to its roots."""
    from scipy.sparse import csgraph  # slow to import

    m, d = loss.shape
    # the entry with the most room at each position, and heavier edges for less room
    order = np.lexsort((-room, loss.cols, loss.rows))
    keys = (loss.rows * d + loss.cols)[order]
    order = order[np.append(True, keys[1:] != keys[:-1])]
    ends = loss.rows[order], m + loss.cols[order]
    heavy = 1.0 + (room.max() - room[order]) / (room.max() + 1.0)
    graph = csr_array((heavy, ends), shape=(m + d, m + d))
    where = csr_array((order + 1, ends), shape=(m + d, m + d))
    forest = csgraph.minimum_spanning_tree(graph)
    forest = forest + forest.T
    left = np.zeros(m + d, np.int64)
    np.add.at(left, loss.rows, k)
    np.add.at(left, m + loss.cols, k)
    parts = csgraph.connected_components(forest, directed=False)[1]
    roots = np.unique(parts, return_index=True)[1]
    for root in roots:
        if forest.indptr[root] == forest.indptr[root + 1]:
            continue  # a row or column without observations
        nodes, above = csgraph.breadth_first_order(forest, root, directed=False)
        child, parent = nodes[:0:-1], above[nodes[:0:-1]]
        edges = np.asarray(where[np.minimum(child, parent), np.maximum(child, parent)]) - 1
        for node, up, edge in zip(child.tolist(), parent.tolist(), edges.tolist(), strict=True):
            k[edge] -= left[node]
            left[up] -= left[node]
