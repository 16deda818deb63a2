"""The workers' operations on one block of rows: pure functions of NumPy arrays."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from weakprox.linalg.arrays import SHARED, all_finite, largest
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import Step, compiling, passes_for

IDLE = 20.0  # seconds after which a worker's spare memory is released

Block = np.ndarray[Any, np.dtype[Any]]
Vector = np.ndarray[Any, np.dtype[np.float64]]


class Move(NamedTuple):
    """One step of z, small enough to be stored, from which z can be recomputed from C.

    Its weights or bounds are not part of it, but blocks beside those of C.

    The low-rank point of a step has its left vectors in the span of z Y, for a narrow Y, so
    Y and a small T are enough: X = (z Y) T V'.
    """

    step: Step
    change: float = 1.0
    V: Block | None = None  # None for the first target, which needs no point
    Y: Block | None = None
    T: Block | None = None


class State(NamedTuple):
    """A block of z, and the sums and products of the pass that computed it."""

    z: Block
    sums: Vector
    product: Block | None


def loaded(block: Any, dtype: Any) -> Block:
    """A block of the user's data as a contiguous NumPy array of this dtype."""
    dense = block.toarray() if hasattr(block, "toarray") else block
    return np.ascontiguousarray(dense, dtype=dtype)


def examined(block: Block) -> Vector:
    """Return whether an entry is not finite, and the largest entry."""
    if not all_finite(block):
        return np.array([1.0, 0.0])
    return np.array([0.0, largest(block)])


def _passes(*arrays: Block) -> Any:
    """The passes for such blocks, compiled on all workers: their bits must not differ."""
    with compiling.passes(True):
        return passes_for(*arrays)


def divided(block: Block, unit: float) -> Block:
    """The block in another unit."""
    return block / block.dtype.type(unit)  # type: ignore[no-any-return]


def moved(
    c: Block, w: Block | None, state: State | None, move: Move, Q: Block | None, B: Any = None
) -> State:
    """The next z of this block; the last one is not changed. B is z Y, if known.

    w are the weights or bounds of these rows, if there are any.
    """
    k = move.step._replace(beside=w)
    if move.V is None or move.Y is None or state is None:
        z = _fresh(c)
        product = _passes(z, c).first(c, z, k, Q)
        return State(z, np.zeros(6), product)
    left = (multiplied(state.z, move.Y, True) if B is None else B) @ move.T
    z = _fresh(state.z)
    X = LowRank(left, np.ones(left.shape[1], z.dtype), move.V.T)
    sums, product = _passes(z, c).advance_from(state.z, c, z, X, k, move.change, Q)
    return State(z, np.array(sums), product)


def replayed(c: Block, w: Block | None, moves: list[Move]) -> State:
    """The z that results from these moves."""
    state = None
    for move in moves:
        state = moved(c, w, state, move, None)
    assert state is not None
    return state


def found(state: State) -> tuple[Vector, Block | None]:
    """The sums and products of a pass, without z."""
    return state.sums, state.product


def looked(
    c: Block, w: Block | None, held: Any, U: Block, right: tuple[Block, Block], k: Step
) -> Vector:
    """All sums over this block at the point U s Vt."""
    k = k._replace(beside=w)
    return np.array(_passes(c).look(c, _of(held), LowRank(U, *right), k))


def beside(c: Block, weights: Block) -> Block:
    """Weights of the rows of a block, as passes over it read them."""
    return _passes(c).beside(c, weights)  # type: ignore[no-any-return]


def kept(bounds: Block) -> Block:
    """Bounds of the rows of a block, read-only like weights."""
    found = bounds.view()
    found.flags.writeable = False
    return found


def multiplied(held: Any, V: Block, quick: bool) -> Block:
    """These rows of z V."""
    z = _of(held)
    times = _passes(z).quick_times if quick else _passes(z).times
    return times(z, V)  # type: ignore[no-any-return]


def pushed(held: Any, U: Block, quick: bool) -> Block:
    """The contribution of these rows to z' U."""
    z = _of(held)
    passes = _passes(z)
    times = passes.quick_transpose_times if quick else passes.transpose_times
    return times(z, U)  # type: ignore[no-any-return]


def added(parts: list[Any]) -> Any:
    """Sum of the parts, in their order."""
    return reduce(add, parts)


def greatest(parts: list[Any]) -> Any:
    return np.max(np.stack(parts), axis=0)


_clearing: list[threading.Timer] = []  # at most one pending timer


def _fresh(like: Block) -> Block:
    """Memory of an earlier step, since fresh pages cost more than a pass; freed when idle."""
    z: Block = SHARED.like(like)
    with suppress(IndexError):  # another thread may have taken it
        _clearing.pop().cancel()
    later = threading.Timer(IDLE, SHARED.trim, (0,))
    later.daemon = True
    _clearing.append(later)
    later.start()
    return z


def _of(held: Any) -> Any:
    return held.z if isinstance(held, State) else held
