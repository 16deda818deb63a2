"""Sums: values and constants add, one mu serves all parts, nesting flattens."""

import numpy as np
import pytest
from registry import OFFSETS, PIECES, SHAPE, numbers

from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine, Sum, Zero
from weakprox.penalties.base import Smoothed

X = numbers(*SHAPE, seed=140)
PARTS = (L1(0.3), GroupL2(0.5), ElasticNet(0.1, 0.2), MaxAffine(PIECES, OFFSETS))


def total():
    return PARTS[0] + PARTS[1] + PARTS[2] + PARTS[3]


def test_values_and_constants_add():
    assert total().value(X) == pytest.approx(sum(p.value(X) for p in PARTS))
    assert total().curvature == pytest.approx(0.4)
    each = [p.smoothability(SHAPE) for p in PARTS]
    found = total().smoothability(SHAPE)
    assert found.theta == pytest.approx(sum(c.theta for c in each))
    assert found.gamma == pytest.approx(sum(c.gamma for c in each))
    assert pytest.approx(0.4) == found.K


@pytest.mark.parametrize("mu", [1.0, 0.01])
def test_one_mu_for_all_parts(mu):
    """The smoothing of a sum is the sum of smoothings with the same mu."""
    whole = Smoothed.of(total(), mu, SHAPE)
    each = [Smoothed.of(p, mu, SHAPE) for p in PARTS]
    assert whole.value(X) == pytest.approx(sum(s.value(X) for s in each))
    assert whole.grad(X) == pytest.approx(sum(s.grad(X) for s in each))
    assert whole.smoothness == pytest.approx(sum(s.smoothness for s in each))
    assert whole.bias == pytest.approx(sum(s.bias for s in each))


def test_nested_sums_flatten():
    nested = (PARTS[0] + PARTS[1]) + (PARTS[2] + PARTS[3])
    assert nested.parts == PARTS
    assert Sum((Sum(PARTS[:2]), PARTS[2])).parts == PARTS[:3]


def test_multiples_reach_every_part():
    assert (2.0 * total()).value(X) == pytest.approx(2 * total().value(X))
    assert (total() * 2.0).curvature == pytest.approx(0.8)
    assert isinstance(2.0 * total(), Sum)


def test_duals_are_tuples():
    y = total().ascend(None, X, 1.0)
    assert isinstance(y, tuple)
    assert len(y) == 4
    assert total().pull(y) == pytest.approx(
        sum(p.pull(v) for p, v in zip(PARTS, y, strict=True))
    )
    assert total().dual_value(y) == pytest.approx(float(y[3] @ OFFSETS))
    moved = total().feasible(tuple(3.0 * v for v in y))
    assert np.abs(moved[0]).max() <= 0.3
    assert moved[3].sum() == pytest.approx(1.0)


def test_pulling_does_not_change_the_duals():
    """The first part's dual is the array `pull` returns: adding in place would spoil it."""
    y = total().ascend(None, X, 1.0)
    kept = y[0].copy()
    total().pull(y)
    assert np.array_equal(y[0], kept)


def test_a_sum_with_nothing_is_the_rest():
    alone, padded = Smoothed.of(L1(0.3), 0.1, SHAPE), Smoothed.of(L1(0.3) + Zero(), 0.1, SHAPE)
    assert padded.value(X) == pytest.approx(alone.value(X))
    assert padded.smoothness == alone.smoothness


def test_shapes_are_checked_in_every_part():
    from weakprox import ShapeError

    with pytest.raises(ShapeError, match="pieces"):
        total().check((3, 3))


@pytest.mark.parametrize(
    ("penalty", "rowwise"),
    [
        (L1(1.0) + ElasticNet(1.0, 1.0), True),
        (L1(1.0) + GroupL2(1.0, "rows"), True),
        (L1(1.0) + GroupL2(1.0, "columns"), False),
        (total(), False),
    ],
)
def test_rowwise_target(penalty, rowwise):
    assert penalty.rowwise == rowwise
    shape = (4000, 30) if rowwise else SHAPE
    if not rowwise and isinstance(penalty.parts[-1], GroupL2):
        shape = (4000, 30)
    Z, G = numbers(*shape), numbers(*shape, seed=1)
    smooth = Smoothed.of(penalty, 0.3, shape)
    wanted = Z - (G + smooth.grad(Z)) / 1.3
    smooth.target(Z, G, 1.3)
    assert np.allclose(G, wanted, rtol=1e-10, atol=1e-12)


class Own:
    """A penalty of the user's, which can be added only from the other side."""

    curvature = 0.0
    separable = rowwise = True

    def smoothability(self, shape):
        """That of the l1 norm."""
        return L1(1.0).smoothability(shape)


def test_a_penalty_of_the_users_is_added_in_either_order():
    own, l1, groups = Own(), L1(0.5), GroupL2(0.25)
    assert (own + l1).parts == (own, l1)
    assert (l1 + own).parts == (l1, own)
    assert (own + (l1 + groups)).parts == (own, l1, groups)
