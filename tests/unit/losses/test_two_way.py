"""Row and column effects by elimination, against dense least squares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from weakprox.losses import Completion, two_way
from weakprox.losses.two_way import TwoWay


def separate_parts(shape):
    """Positions in two parts that share no row and no column, an empty row and column."""
    seen = np.zeros(shape, dtype=bool)
    seen[:4, :3] = True
    seen[1, 2] = seen[0, 0] = False
    seen[4:-1, 3:-1] = True
    return seen


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(9, 7), (7, 9), (8, 8)])
def test_solves_the_normal_equations(shape, full):
    rng = np.random.default_rng(0)
    seen = rng.random(shape) < 0.8 if full else separate_parts(shape)
    W = seen * rng.uniform(0.5, 2.0, shape)
    found_way = TwoWay.of(csr_array(W))
    assert isinstance(found_way.W, np.ndarray) == full
    a, b = rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
    rows, columns = W.sum(axis=1) * a + W @ b, W.T @ a + W.sum(axis=0) * b
    found, other = found_way.solved(rows, columns)
    assert W.sum(axis=1) * found + W @ other == pytest.approx(rows)
    assert W.T @ found + W.sum(axis=0) * other == pytest.approx(columns)


@pytest.mark.parametrize("small", [0, 1 << 20])
@pytest.mark.parametrize("shape", [(600, 7), (7, 600), (8, 8)])
def test_booleans_stand_for_equal_weights(shape, small, monkeypatch):
    monkeypatch.setattr(two_way, "SMALL", small)
    rng = np.random.default_rng(3)
    seen = rng.random(shape) < 0.7
    seen[0] = False
    by_mask, by_weights = TwoWay.of(seen, 0.3), TwoWay.of(csr_array(0.3 * seen))
    assert (by_mask.W.dtype == bool) == (small == 0)
    R = 0.3 * seen * rng.standard_normal(shape)
    sums = R.sum(axis=1), R.sum(axis=0)
    for one, other in zip(by_mask.solved(*sums), by_weights.solved(*sums), strict=True):
        assert one == pytest.approx(other)


@pytest.mark.parametrize("shape", [(9, 7), (7, 9)])
def test_intercepts_are_those_of_least_squares(shape):
    rng = np.random.default_rng(1)
    rows, cols = np.nonzero(separate_parts(shape))
    rows, cols = np.append(rows, rows[:3]), np.append(cols, cols[:3])  # repeated entries
    values, weights = rng.standard_normal(len(rows)), rng.uniform(0.5, 2.0, len(rows))
    loss = Completion(rows, cols, values, shape, weights=weights, intercepts="both")
    X = rng.standard_normal(shape)
    root = np.sqrt(weights)
    A = np.zeros((len(rows), sum(shape)))
    A[np.arange(len(rows)), rows] = A[np.arange(len(rows)), shape[0] + cols] = root
    rest = root * (values - X[rows, cols])
    left = rest - A @ np.linalg.lstsq(A, rest, rcond=None)[0]
    assert loss.value(X, loss.everything()) == pytest.approx(0.5 * left @ left)
    effects = loss.effects(X)
    assert effects.rows[-1] == effects.columns[-1] == 0.0  # nothing is observed there


def test_dual_points_have_zero_sums():
    rng = np.random.default_rng(2)
    seen = separate_parts((9, 7))
    rows, cols = np.nonzero(seen)
    loss = Completion(rows, cols, rng.standard_normal(len(rows)), (9, 7), intercepts="both")
    data = loss.observed()
    q = data.feasible(rng.standard_normal(len(rows)), np.ones(len(rows)))
    _, by_row, by_column = data.pattern.margins(q)
    assert np.abs(by_row).max() < 1e-14
    assert np.abs(by_column).max() < 1e-14


def test_is_used_only_where_it_is_cheap():
    assert TwoWay.pays((2000, 300), 400_000)
    assert TwoWay.pays((10_000, 1000), 7_000_000)
    assert not TwoWay.pays((16_000, 10_000), 100_000)
