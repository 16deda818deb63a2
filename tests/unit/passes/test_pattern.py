"""Positions in a matrix: none at all."""

import numpy as np
import pytest
import torch

from weakprox.passes import compiling
from weakprox.passes.pattern import pattern

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
