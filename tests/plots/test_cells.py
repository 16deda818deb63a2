"""Reduced matrices keep extremes, whatever holds the entries and however they are read."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from registry import TORCH, memmap_of, numbers

from weakprox import LowRank
from weakprox.plots import _cells
from weakprox.plots._cells import as_rows, cell_names, colour_limit, reduced

A = numbers(37, 23)


def by_hand(matrix, row_edges, column_edges):
    """The entry of largest size in each block, the positive one of two alike."""
    cells = np.empty((len(row_edges) - 1, len(column_edges) - 1))
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            block = matrix[
                row_edges[i] : row_edges[i + 1], column_edges[j] : column_edges[j + 1]
            ]
            known = block[np.isfinite(block)]
            order = np.lexsort((known, np.abs(known)))
            cells[i, j] = known[order[-1]] if known.size else np.nan
    return cells


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.integers(0, 9))
def test_blocks_keep_the_entry_of_largest_size(m, d, most, seed):
    matrix = np.round(numbers(m, d, seed=seed), 1)
    matrix[np.abs(matrix) < 0.2] = np.nan
    found = reduced(as_rows("matrix", matrix), most)
    assert found.cells.shape == (min(m, most), min(d, most))
    assert (found.row_edges[-1], found.column_edges[-1]) == (m, d)
    expected = by_hand(matrix, found.row_edges, found.column_edges)
    np.testing.assert_array_equal(found.cells, expected)
    assert (found.words is None) == (max(m, d) <= most)


U, s, Vt = np.linalg.svd(A, full_matrices=False)


@pytest.mark.parametrize(
    "held",
    [
        A,
        A.tolist(),
        memmap_of(A),
        TORCH.array(A),
        scipy.sparse.coo_array(A),
        scipy.sparse.csc_matrix(A),
        LowRank(U, s, Vt),
    ],
    ids=["numpy", "lists", "memmap", "torch", "sparse", "sparse matrix", "low rank"],
)
def test_every_kind_of_matrix_gives_the_same(held, monkeypatch):
    monkeypatch.setattr(_cells, "CHUNK_BYTES", 8 * 23 * 2)  # two rows at a time
    rows = as_rows("matrix", held)
    assert max(one.stop - one.start for one in rows.slices(0, 37)) == 2
    expected = reduced(as_rows("matrix", A), 10).cells
    np.testing.assert_allclose(reduced(rows, 10).cells, expected, rtol=1e-12)
    assert rows.sqnorm() == pytest.approx(np.sum(A * A))
    assert rows.count_above(1.0) == np.count_nonzero(np.abs(A) > 1.0)
    assert np.allclose(rows.minus(rows).read(slice(0, 37)), 0.0)


def test_entries_a_sparse_matrix_lacks_may_be_missing():
    held = scipy.sparse.coo_array(([5.0, 0.0], ([0, 1], [1, 2])), shape=(2, 3))
    assert as_rows("data", held).read(slice(0, 2)).tolist() == [[0, 5, 0], [0, 0, 0]]
    missing = as_rows("data", held, stored_only=True).read(slice(0, 2))
    known = np.array([[np.nan, 5, np.nan], [np.nan, np.nan, 0]])
    np.testing.assert_array_equal(missing, known)


def test_large_sparse_matrices_are_never_dense():
    """200 MB if dense: only slices of it may be formed."""
    held = scipy.sparse.coo_array(([2.0, -3.0], ([5, 4999], [7, 0])), shape=(5000, 5000))
    tracemalloc.start()
    try:
        found = reduced(as_rows("data", held))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64e6
    assert np.nanmin(found.cells) == -3.0
    assert np.nanmax(found.cells) == 2.0


def test_cells_are_named_after_what_they_hold():
    assert cell_names("rows", None, [0, 1, 2]) == ["1", "2"]
    assert cell_names("rows", ["a", "b", "c"], [0, 1, 3]) == ["a", "b … c"]


def test_colours_end_where_few_entries_lie_beyond():
    matrix = np.zeros((100, 100))
    matrix[:20, :20] = 1.0
    assert colour_limit(matrix) == 1.0  # zeros do not count
    matrix[0, 0] = 100.0
    assert colour_limit(matrix) == pytest.approx(1.0)  # nor does a lone spike
    assert colour_limit(np.zeros((3, 3))) == 1.0
    assert colour_limit(np.full((2, 2), np.nan)) == 1.0
