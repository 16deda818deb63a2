"""Positions in a matrix: none at all, and those of a mask."""

import numpy as np
import pytest
import torch

from weakprox.passes import compiling
from weakprox.passes import pattern as module
from weakprox.passes.pattern import masked, pattern

SHAPE = (4, 3)


@pytest.mark.parametrize("xp", [np, torch])
@pytest.mark.parametrize("compiled", [False, True])
def test_no_positions_are_an_empty_matrix(xp, compiled):
    none, values = xp.zeros(0, dtype=xp.int64), xp.zeros(0, dtype=xp.float64)
    P, _ = pattern(none, none, SHAPE)
    U, V = (xp.ones((n, 2), dtype=xp.float64) for n in SHAPE)
    with compiling.passes(compiled):
        assert (P.size, tuple(P.rows.shape)) == (0, (0,))
        assert tuple(P.sampled(U, V).shape) == tuple(P.effects(U[:, 0], V[:, 0]).shape) == (0,)
        assert P.times(values, V).tolist() == [[0.0, 0.0]] * 4
        assert P.transpose_times(values, U).tolist() == [[0.0, 0.0]] * 3
        whole, rows, columns = P.margins(values)
        assert (whole, rows.tolist(), columns.tolist()) == (0.0, [0.0] * 4, [0.0] * 3)
    assert P.row_counts.tolist() == [0] * 4
    assert P.column_counts.tolist() == [0] * 3
    assert P.repeated(values) == (0.0, 0.0, 0)


@pytest.mark.parametrize("rows", [2, 256])
def test_a_mask_is_the_pattern_of_its_entries(rows, monkeypatch):
    monkeypatch.setattr(module, "ROWS", rows)
    rng = np.random.default_rng(0)
    mask = rng.random((7, 5)) < 0.6
    mask[3] = False
    given, found = pattern(*np.nonzero(mask), mask.shape)[0], masked(mask)
    values, left, right = (rng.standard_normal(n) for n in (given.size, 7, 5))
    assert found.mask is mask
    assert found.size == given.size
    assert not found.repeats
    assert np.array_equal(found.row_counts, given.row_counts)
    assert np.array_equal(found.column_counts, given.column_counts)
    assert np.allclose(found.column_sums(values), given.column_sums(values))
    assert np.allclose(found.row_sums(values), given.row_sums(values))
    assert np.allclose(found.effects(left, right), given.effects(left, right))
    assert np.array_equal(found.full(values), given.full(values))
    assert found.repeated(values) == given.repeated(values)
    some = np.sort(rng.permutation(given.size)[:9])
    for mine, theirs in zip(
        found.placed(some), (given.rows[some], given.columns[some]), strict=True
    ):
        assert np.array_equal(mine, theirs)
    assert "columns" not in vars(found)  # none of this lists positions
    assert np.array_equal(found.columns, given.columns)
    assert np.array_equal(found.rows, given.rows)
    B = rng.standard_normal((5, 2))
    assert np.allclose(found.times(values, B), given.times(values, B))
