"""Passes over blocks in files and on workers: those of the pattern in memory."""

import pickle

import dask
import numpy as np
import pytest

from weakprox.distributed import observations
from weakprox.distributed.terms import Entries
from weakprox.passes.blocks import Vector, entrywise, few, row_edges, stored
from weakprox.passes.on_disk import Batch, sorted_in_files
from weakprox.passes.pattern import pattern
from weakprox.resources.memory import on_disk

SHAPE, COUNT, WIDTH = (40, 25), 700, 3
RNG = np.random.default_rng(4)
ROWS = RNG.integers(0, 38, COUNT)  # with repeated pairs, and two empty rows at the end
ROWS[ROWS == 7] = 8  # and one between others
COLUMNS, VALUES = RNG.integers(0, 25, COUNT), RNG.standard_normal(COUNT)
WEIGHTS = RNG.uniform(0.5, 2.0, COUNT)
U, V = RNG.standard_normal((40, WIDTH)), RNG.standard_normal((25, WIDTH))


def in_files(most=100):
    def batches():
        for low in range(0, COUNT, 90):
            part = slice(low, low + 90)
            yield Batch(ROWS[part], COLUMNS[part], VALUES[part], WEIGHTS[part])

    counts = tuple(
        np.bincount(x, minlength=n) for x, n in zip((ROWS, COLUMNS), SHAPE, strict=True)
    )
    options = {"dtype": np.float64, "weighted": True, "recode": lambda x: x}
    return sorted_in_files(batches, counts, most=most, **options)


def on_workers(monkeypatch):
    import dask.array as da

    monkeypatch.setattr(observations, "BLOCK", 100)
    monkeypatch.setattr("weakprox.distributed.terms.CHUNK", 90)
    values = da.from_array(VALUES, chunks=70)
    entries = Entries(ROWS, COLUMNS, values, SHAPE, WEIGHTS)
    return observations.sorted_on_workers(entries, lambda shown, x: x)


@pytest.fixture(params=["files", "workers"])
def both(request, monkeypatch):
    """The pattern in memory and in blocks, each with its values and weights."""
    P, order = pattern(ROWS, COLUMNS, SHAPE)
    with dask.config.set(scheduler="synchronous"):
        made = in_files() if request.param == "files" else on_workers(monkeypatch)
        yield (P, VALUES[order], WEIGHTS[order]), made


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-13, atol=1e-13)


def test_passes(both):
    (P, x, w), (B, y, v) = both
    assert len(B.blocks.edges) > 6
    assert (B.size, B.shape) == (P.size, P.shape)
    for name in ("pointers", "rows", "columns", "row_counts", "column_counts"):
        np.testing.assert_array_equal(getattr(B, name), getattr(P, name))
    np.testing.assert_array_equal(np.asarray(y), x)
    np.testing.assert_array_equal(np.asarray(v), w)
    close(B.sampled(U, V), P.sampled(U, V))
    close(B.times(y, V), P.times(x, V))
    close(B.transpose_times(y, U), P.transpose_times(x, U))
    close(B.row_sums(y), P.row_sums(x))
    close(B.column_sums(y), P.column_sums(x))
    close(B.effects(U[:, 0], V[:, 0]), P.effects(U[:, 0], V[:, 0]))
    assert B.repeated(v) == pytest.approx(P.repeated(w), rel=1e-13)
    assert P.repeated(w)[2] < COUNT
    for asked in ({}, {"rows": False}, {"columns": False, "whole": False}):
        for mine, theirs in zip(B.margins(y, **asked), P.margins(x, **asked), strict=True):
            assert (mine is None) == (theirs is None)
            if mine is not None:
                close(mine, theirs)


def test_vectors_are_expressions(both):
    (P, x, w), (B, y, v) = both
    effects = U[:, 1], V[:, 1]
    mine = entrywise(np.hypot, 2.0 * y - v / 3.0, B.effects(*effects))
    theirs = np.hypot(2.0 * x - w / 3.0, P.effects(*effects))
    assert isinstance(mine, Vector)
    assert mine.shape == theirs.shape
    assert float(np.max(abs(mine))) == np.abs(theirs).max()
    assert float(np.sum(mine)) == pytest.approx(theirs.sum(), rel=1e-13)
    chosen = np.where((y > 0.0) & (v < 1.0), mine, -1.0)
    np.testing.assert_array_equal(np.asarray(chosen), np.where((x > 0) & (w < 1), theirs, -1))
    close(B.times(mine, V), P.times(theirs, V))  # which stores it
    assert len(mine.leaves) == 1
    close(mine + mine, 2 * theirs)
    assert stored(x) is x
    assert entrywise(np.add, x, x) is not x
    with pytest.raises(TypeError):
        np.cumsum(mine)


def test_vectors_are_restored_from_an_array(both):
    _, (B, y, v) = both
    again = Vector(B, np.array((y * v).entries))
    np.testing.assert_array_equal(np.asarray(again), np.asarray(y * v))
    close(B.times(again, V), B.times(y * v, V))


def test_files_hold_what_is_large():
    B, y, v = in_files()
    kept = (y, v, B.sampled(U, V), stored(2.0 * y), stored(B.effects(U[:, 0], V[:, 0])))
    assert all(on_disk(x.entries) for x in kept)
    blocks = B.blocks
    assert all(map(on_disk, (blocks.columns, blocks.rows_by_column, blocks.by_column)))


def test_expressions_travel():
    """Rules are sent to workers; a shared part of one is computed once there, too."""
    calls = []
    y = in_files(most=COUNT)[1]
    once = entrywise(lambda x: calls.append(1) or x, y)
    total = float(np.sum(once * once + once))
    assert len(calls) == 1
    assert total == pytest.approx(float((VALUES**2 + VALUES).sum()))
    rule = pickle.loads(pickle.dumps((y * 2.0 + 1.0).rule))
    assert rule == (y * 2.0 + 1.0).rule


def test_edges():
    pointers = np.array([0, 3, 3, 10, 11, 12, 12])
    np.testing.assert_array_equal(row_edges(pointers, 4), [0, 2, 3, 6])
    np.testing.assert_array_equal(row_edges(pointers, 100), [0, 6])
    np.testing.assert_array_equal(row_edges(np.array([0, 0, 9, 9, 9]), 4), [0, 4])
    np.testing.assert_array_equal(few(np.arange(100.0)), [*range(8), *range(92, 100)])
    np.testing.assert_array_equal(few(np.array([1.0, 0.0, 1.0])), [0.0, 1.0])
