"""The arena never hands out an array that somebody still holds, and wastes none."""

import numpy as np
import pytest
import torch

from weakprox.linalg.arrays import Arena

LIKE = np.zeros((4, 3))


def address(array):
    return array.__array_interface__["data"][0]


def test_what_is_dropped_comes_back():
    arena = Arena()
    first = arena.like(LIKE)
    where = address(first)
    del first
    assert address(arena.like(LIKE)) == where


@pytest.mark.parametrize("cycles", [1, 5])
def test_no_more_arrays_than_are_held_at_once(cycles):
    arena, seen = Arena(), set()
    for _ in range(cycles):
        held = [arena.like(LIKE) for _ in range(6)]
        seen.update(address(array) for array in held)
        del held
    assert len(seen) == 6


VIEWS = {
    "itself": lambda a: a,
    "row": lambda a: a[1],
    "block": lambda a: a[1:3, :2],
    "reversed": lambda a: a[::-1],
    "transpose": lambda a: a.T,
    "flat": lambda a: a.reshape(-1),
    "view of a view": lambda a: a.T[1:].reshape(2, -1, order="F"),
    "other type": lambda a: a.view(np.int64),
    "memory": memoryview,
    "tensor": torch.from_numpy,
    "tensor of a row": lambda a: torch.from_numpy(a[2]),
    "in a list": lambda a: [a],
    "in a tuple in a dict": lambda a: {"x": (a[0],)},
    "in a closure": lambda a: lambda: a,
    "an iterator": lambda a: iter(a),
    "flat iterator": lambda a: a.flat,
    "broadcast": lambda a: np.broadcast_to(a, (2, 4, 3)),
    "structured": lambda a: np.lib.stride_tricks.sliding_window_view(a, (2, 2)),
}


@pytest.mark.parametrize("view", VIEWS)
def test_what_is_held_in_any_way_stays_as_it_is(view):
    arena = Arena()
    array = arena.like(LIKE)
    array[...] = 7.0
    where = address(array)
    holder = VIEWS[view](array)
    del array
    others = [arena.like(LIKE) for _ in range(3)]
    assert where not in {address(other) for other in others}
    for other in others:
        other[...] = -1.0
    del others
    del holder
    taken = [arena.like(LIKE) for _ in range(4)]
    assert where in {address(other) for other in taken}  # and is free again afterwards


def test_contents_survive_a_random_life():
    """Two thousand steps of taking, viewing and dropping; every holder finds its numbers."""
    rng, arena, held = np.random.default_rng(0), Arena(), []
    for step in range(2000):
        if held and rng.random() < 0.5:
            mark, kept = held.pop(int(rng.integers(0, len(held))))
            assert (np.asarray(kept) == mark).all()
            continue
        shape = [(4, 3), (3, 4), (5, 5)][rng.integers(0, 3)]
        array = arena.like(np.zeros(shape, [np.float64, np.float32][rng.integers(0, 2)]))
        array[...] = step
        how = rng.integers(0, 4)
        kept = [array, array[1:], array.T, array.reshape(-1)[2:5]][how]
        del array
        held.append((step, kept))
        del kept
        if len(held) > 12:
            mark, kept = held.pop(0)
            assert (np.asarray(kept) == mark).all()
            del kept
    assert len(arena._arrays) <= 6 * 13


def test_shape_and_kind_are_those_asked_for():
    arena = Arena()
    for shape in [(4, 3), (3, 4), (12,), (2, 2, 3)]:
        for dtype in (np.float64, np.float32):
            array = arena.like(np.empty(shape, dtype))
            assert (array.shape, array.dtype) == (shape, dtype)
            assert array.flags.c_contiguous
            del array


def test_two_arenas_share_nothing():
    one, two = Arena(), Arena()
    where = address(one.like(LIKE))
    kept = np.empty_like(LIKE)  # so that the allocator itself cannot reuse the memory
    assert address(two.like(LIKE)) != where
    assert kept.shape == LIKE.shape


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_torch_allocates_for_itself(dtype):
    arena, like = Arena(), torch.zeros((4, 3), dtype=dtype)
    array = arena.like(like)
    assert isinstance(array, torch.Tensor)
    assert (tuple(array.shape), array.dtype) == ((4, 3), dtype)
    array[...] = 5.0
    view = array[1]
    del array
    for _ in range(3):
        arena.like(like)[...] = 1.0
    assert bool((view == 5.0).all())
    assert arena._arrays == []
