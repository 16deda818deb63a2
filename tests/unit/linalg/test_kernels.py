"""The dense passes of a step: in place, and equal to their formulas."""

import numpy as np
import pytest
from registry import DOUBLE, SINGLE, numbers

from weakprox.linalg.kernels import add_scaled, clipped

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


def test_huge_scale_does_not_overflow():
    X = np.array([[1e300, -1e300, 0.0]])
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        X * 1e20  # what a careless clip would do
    with np.errstate(over="ignore"):
        assert clipped(X, 1e20, 2.0).tolist() == [[2.0, -2.0, 0.0]]
