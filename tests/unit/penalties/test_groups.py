"""GroupL2: values, Huber of group norms, projection on products of balls."""

import numpy as np
import pytest
from registry import DOUBLE, numbers

from weakprox.linalg.arrays import to_numpy
from weakprox.penalties import GroupL2
from weakprox.penalties.base import Smoothed

X = numbers(6, 4, seed=120)
by_backend = pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
by_groups = pytest.mark.parametrize(
    ("groups", "axis", "count"), [("rows", 1, 6), ("columns", 0, 4)]
)


@by_backend
@by_groups
@pytest.mark.parametrize("mu", [2.0, 0.1, 1e-6])
def test_value_and_smoothing(backend, groups, axis, count, mu):
    penalty = GroupL2(0.8, groups)
    norms = np.linalg.norm(X, axis=axis)
    Xb = backend.array(X)
    assert penalty.value(Xb) == pytest.approx(0.8 * norms.sum())
    smooth = Smoothed.of(penalty, mu, X.shape)
    huber = np.where(norms <= mu, norms**2 / (2 * mu), norms - mu / 2)
    assert smooth.value(Xb) == pytest.approx(0.8 * huber.sum())
    grad = 0.8 * X / np.maximum(np.expand_dims(norms, axis), mu)
    assert to_numpy(smooth.grad(Xb)) == pytest.approx(grad)
    assert smooth.bias == pytest.approx(0.8 * count / 2 * mu)
    assert smooth.smoothness == pytest.approx(0.8 / mu)


@by_backend
@by_groups
def test_dual_points_lie_in_the_balls(backend, groups, axis, count):
    penalty = GroupL2(0.8, groups)
    y = to_numpy(penalty.ascend(None, backend.array(1e6 * X), 7.0))
    assert np.linalg.norm(y, axis=axis) == pytest.approx(np.full(count, 0.8))
    small = 1e-3 * X
    assert to_numpy(penalty.feasible(backend.array(small))) == pytest.approx(small)


@by_groups
def test_zero_groups_do_not_divide_by_zero(groups, axis, count):
    penalty = GroupL2(0.8, groups)
    with np.errstate(all="raise"):
        assert not penalty.ascend(None, np.zeros((6, 4)), 3.0).any()
        assert not GroupL2(0.0, groups).ascend(None, X, 3.0).any()


@by_groups
def test_proximal_step_shrinks_groups(groups, axis, count):
    norms = np.linalg.norm(X, axis=axis, keepdims=True)
    wanted = X * np.maximum(1 - 0.8 * 2.0 / norms, 0.0)
    assert X - 2.0 * GroupL2(0.8, groups).ascend(None, X, 0.5) == pytest.approx(wanted)


@by_groups
def test_target_in_blocks_of_rows(groups, axis, count):
    """Rows can be visited block by block, columns only together."""
    Z, G = numbers(5000, 40), numbers(5000, 40, seed=1)
    smooth = Smoothed.of(GroupL2(0.8, groups), 0.2, Z.shape)
    wanted = Z - (G + smooth.grad(Z)) / 1.3
    smooth.target(Z, G, 1.3)
    assert np.allclose(G, wanted, rtol=1e-10, atol=1e-12)
    assert GroupL2(0.8, groups).rowwise == (groups == "rows")
