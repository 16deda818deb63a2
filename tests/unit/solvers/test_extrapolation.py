"""Anderson acceleration: exact on linear maps, harmless where it knows nothing."""

import numpy as np
import pytest
import torch

from weakprox.linalg.arrays import Arena
from weakprox.solvers._stored import History


def linear(n, seed=0, radius=0.95):
    """z -> A z + b, a contraction, with its fixed point."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    b = rng.standard_normal((n, 1))
    return A, b, np.linalg.solve(np.eye(n) - A, b)


def iterate(A, b, memory, steps):
    z, history, arena = np.zeros_like(b), History(), Arena()
    points = []
    for _ in range(steps):
        history, z = history.extended(z, A @ z + b - z, memory, arena)
        points.append(z)
    return points


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_linear_map_is_solved_with_enough_memory(n):
    A, b, target = linear(n)
    points = iterate(A, b, n, n + 4)  # the ridge costs a few digits, not convergence
    assert np.linalg.norm(points[-1] - target) <= 1e-6 * np.linalg.norm(target)
    plain = iterate(A, b, 0, n + 4)
    assert np.linalg.norm(plain[-1] - target) > 1e-2 * np.linalg.norm(target)


def test_two_memories_are_faster_than_none():
    A, b, target = linear(12, seed=3)
    A = (A + A.T) / 2
    A *= 0.99 / np.linalg.norm(A, 2)
    target = np.linalg.solve(np.eye(12) - A, b)
    errors = [np.linalg.norm(iterate(A, b, most, 40)[-1] - target) for most in (0, 2)]
    assert errors[1] < 0.1 * errors[0]


def test_no_memory_is_the_plain_iteration():
    A, b, _ = linear(4)
    z = np.zeros_like(b)
    for point in iterate(A, b, 0, 6):
        z = A @ z + b
        np.testing.assert_allclose(point, z, rtol=1e-13)


def test_the_weights_minimise_the_combined_move():
    """Against a least-squares solution of the same problem."""
    rng = np.random.default_rng(4)
    zs, moves = rng.standard_normal((2, 3, 6, 4))
    history, arena = History(), Arena()
    for z, move in zip(zs, moves, strict=True):
        history, found = history.extended(z, move, 2, arena)
    dF = np.diff(moves, axis=0).reshape(2, -1).T
    dZ = np.diff(zs, axis=0).reshape(2, -1).T
    weights = np.linalg.lstsq(dF, moves[-1].ravel(), rcond=None)[0]
    wanted = (zs[-1] + moves[-1]).ravel() - (dZ + dF) @ weights
    np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-7)


def test_the_past_is_forgotten_beyond_the_memory():
    A, b, _ = linear(4)
    z, history, arena = np.zeros_like(b), History(), Arena()
    for k in range(6):
        before, move = z, A @ z + b - z
        history, z = history.extended(z, move, 2, arena)
        assert len(history.ends) == len(history.moves) == min(k + 1, 3)
        assert history.moves[-1] is move
        np.testing.assert_array_equal(history.ends[-1], before + move)


@pytest.mark.parametrize("memory", [0, 1, 2])
def test_nothing_given_is_written_to(memory):
    """Nor what came back earlier, as long as someone holds it."""
    rng = np.random.default_rng(5)
    zs, moves = rng.standard_normal((2, 8, 5, 3))
    kept, history, arena = (zs.copy(), moves.copy()), History(), Arena()
    held = []  # everything that came back, with a copy of what was in it
    for z, move in zip(zs, moves, strict=True):
        history, found = history.extended(z, move, memory, arena)
        held += [(x, x.copy()) for x in (found, *history.ends, *history.moves)]
        for array, copy in held:
            np.testing.assert_array_equal(array, copy)
    np.testing.assert_array_equal(zs, kept[0])
    np.testing.assert_array_equal(moves, kept[1])


@pytest.mark.parametrize("memory", [0, 1, 2, 4])
def test_memory_that_nobody_holds_is_used_again(memory):
    """The same numbers as from fresh arrays, in a handful of them."""
    A, b, _ = linear(4)
    z, history, arena = np.zeros_like(b), History(), Arena()
    other, theirs, used = z, history, set()
    for _ in range(30):
        history, z = history.extended(z, A @ z + b - z, memory, arena)
        theirs, other = theirs.extended(other, A @ other + b - other, memory, Arena())
        np.testing.assert_array_equal(z, other)
        used.add(z.ctypes.data)
    assert len(used) <= memory + 4


@pytest.mark.parametrize("move", [1.0, 0.0], ids=["same", "none"])
def test_moves_that_repeat_fall_back_to_the_plain_step(move):
    """All differences are zero: the Gram matrix is singular, ridge and all."""
    z, step = np.ones((3, 2)), np.full((3, 2), move)
    history, arena = History(), Arena()
    for k in range(4):
        history, z = history.extended(z, step, 2, arena)
        np.testing.assert_array_equal(z, 1.0 + (k + 1) * step)
        assert len(history.ends) == len(history.moves) <= 2


@pytest.mark.parametrize("differ", [1e-9, 5e-324])
def test_huge_weights_fall_back_to_the_plain_step(differ):
    first = np.array([[1.0, 0.0]])
    second = np.array([[1.0, differ]]) if differ < 1e-100 else first * (1 + differ)
    arena = Arena()
    history, z = History().extended(first, first, 2, arena)
    with np.errstate(all="ignore"):
        history, z = history.extended(z, second, 2, arena)
    np.testing.assert_array_equal(z, 2 * first + second)
    assert len(history.ends) == len(history.moves) == 1  # and the past that misled is forgotten


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_do_not_spread(bad):
    """A move that is not finite spoils its own step, not a later one."""
    z, arena = np.ones((2, 2)), Arena()
    with np.errstate(all="ignore"):
        history, _ = History().extended(z, np.full((2, 2), bad), 2, arena)
        history, found = history.extended(z, 0.5 * z, 2, arena)
        np.testing.assert_array_equal(found, 1.5 * z)
        history, found = history.extended(z, 0.25 * z, 2, arena)
    assert np.isfinite(found).all()


def test_torch_gives_the_same_numbers():
    rng = np.random.default_rng(6)
    zs, moves = rng.standard_normal((2, 4, 5, 3))
    ours, theirs, arena = History(), History(), Arena()
    for z, move in zip(zs, moves, strict=True):
        ours, found = ours.extended(z, move, 2, arena)
        theirs, other = theirs.extended(torch.asarray(z), torch.asarray(move), 2, arena)
        np.testing.assert_allclose(found, other.numpy(), rtol=1e-12)
