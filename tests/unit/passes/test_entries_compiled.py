"""Compiled passes over observed entries: threads only where they pay."""

import numpy as np
import pytest

pytest.importorskip("numba")

from weakprox.losses import Completion
from weakprox.passes import entries_compiled


@pytest.mark.parametrize("light", [0, 10**9])
def test_short_sums_start_no_threads(light, monkeypatch):
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero(rng.random((30, 20)) < 0.1)
    P = Completion(rows, columns, np.ones(len(rows)), (30, 20)).observed().pattern
    values, left, right = (rng.standard_normal(n) for n in (P.size, 30, 20))
    calls, real = [], entries_compiled.share

    def counted(edges, work):
        calls.append(edges)
        real(edges, work)

    monkeypatch.setattr(entries_compiled, "share", counted)
    monkeypatch.setattr(entries_compiled, "LIGHT", light)
    found = entries_compiled.row_sums(P, values)
    np.testing.assert_allclose(found, np.bincount(rows, values, 30))
    found = entries_compiled.column_sums(P, values)
    np.testing.assert_allclose(found, np.bincount(columns, values, 20))
    found = entries_compiled.effects(P, left, right)
    np.testing.assert_array_equal(found, left[rows] + right[columns])
    assert len(calls) == (0 if light else 3)
