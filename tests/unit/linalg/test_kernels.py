"""The dense passes of a step: in place, and equal to their formulas."""

import numpy as np
import pytest
from registry import DOUBLE, SINGLE, numbers

from weakprox.linalg import LowRank
from weakprox.linalg.arrays import add_scaled, clipped, difference, reflect, subtract
from weakprox.linalg.lowrank import blend_into, dense

by_backend = pytest.mark.parametrize("backend", DOUBLE + SINGLE, ids=lambda b: b.name)
shapes = pytest.mark.parametrize("shape", [(1, 1), (40, 30), (900, 70)])


def far(A, B):
    return float(abs(A - B).max())


@by_backend
@shapes
def test_clipped(backend, shape):
    X, y = backend.array(numbers(*shape)), backend.array(numbers(*shape, seed=1))
    kept = X * 1.0
    assert far(clipped(X, 3.0, 0.5), (3.0 * X).clip(-0.5, 0.5)) <= 1e-6
    assert far(clipped(X, 3.0, 0.5, y), (y + 3.0 * X).clip(-0.5, 0.5)) <= 1e-6
    assert far(X, kept) == 0.0
    assert backend.owns(clipped(X, 3.0, 0.5))


@by_backend
@shapes
@pytest.mark.parametrize("scale", [1.0, -0.3])
def test_add_scaled(backend, shape, scale):
    X, Y = backend.array(numbers(*shape)), backend.array(numbers(*shape, seed=1))
    wanted = Y + scale * X
    assert add_scaled(Y, scale, X) is None
    assert far(Y, wanted) <= 1e-6
    assert backend.owns(Y)


@by_backend
@shapes
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.3, 1.0), (1.0, -2.0), (0.3, 0.7)])
def test_passes_that_write_over_an_array(backend, shape, a, b):
    X, Y = backend.array(numbers(*shape)), backend.array(numbers(*shape, seed=1))
    out, wanted = X * 0.0, a * X - b * Y
    difference(X, a, Y, b, out)
    assert far(out, wanted) <= 1e-6
    assert subtract(X, Y, out) is out
    assert far(out, X - Y) <= 1e-6
    kept = X * 1.0, Y * 1.0
    reflect(out, b, X, a)
    assert far(out, a * X - b * (X - Y)) <= 1e-5
    assert far(X, kept[0]) == far(Y, kept[1]) == 0.0


@by_backend
def test_low_rank_matrices_written_over_an_array(backend):
    U, s, Vt = np.linalg.svd(numbers(40, 30), full_matrices=False)
    V = LowRank(*(backend.array(x) for x in (U[:, :3], s[:3], Vt[:3])))
    out = backend.array(numbers(40, 30, seed=2))
    assert dense(V, out) is out
    assert far(out, V.dense()) <= 1e-6
    assert far(dense(V, None), V.dense()) == 0.0
    X = backend.array(numbers(40, 30, seed=3))
    wanted = 0.7 * X + 0.3 * V.dense()
    blend_into(X, V, 0.3, scratch=out)
    assert far(X, wanted) <= 1e-5


def test_huge_scale_does_not_overflow():
    X = np.array([[1e300, -1e300, 0.0]])
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        X * 1e20  # what a careless clip would do
    with np.errstate(over="ignore"):
        assert clipped(X, 1e20, 2.0).tolist() == [[2.0, -2.0, 0.0]]
