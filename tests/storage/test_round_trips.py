"""What is written is read back: every format, every kind of matrix."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from weakprox.storage import WRITES, FileError, read_matrix, write_factors, write_matrix

BASE = np.array([[0.1, -2.5e-17, 3.0], [1 / 3, 5e300, -0.0]])
KINDS = {
    "rectangular": BASE,
    "column": BASE[:, :1],
    "row": BASE[:1],
    "one entry": BASE[:1, :1],
    "symmetric": BASE.T @ np.diag([1.0, 1e-300]) @ BASE,
    "integer": np.array([[1, -2, 3], [40, 5, 0]]),
    "float32": np.array([[0.1, 2.0], [1e-30, -7.5], [3.3, 3e38]], dtype=np.float32),
    "fortran": np.asfortranarray(BASE),
    "bool": np.array([[True, False], [False, False]]),
}
KEEP_FLOAT32 = (".npy", ".npz", ".parquet")
KEEP_LABELS = (".npz", ".csv", ".tsv", ".parquet")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", WRITES)
def test_values_come_back(suffix, kind, tmp_path):
    values, path = KINDS[kind], tmp_path / f"a{suffix}"
    write_matrix(path, values)
    found = read_matrix(path)
    assert found.format == suffix[1:]
    assert found.shape == values.shape
    expected = np.float64
    if values.dtype == np.float32 and suffix in KEEP_FLOAT32:
        expected = np.float32
    assert found.values.dtype == expected
    # text holds the shortest digits of a float32, so it is compared as one
    same = found.dense().astype(values.dtype)
    np.testing.assert_array_equal(same, values)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


LABELS = {
    "plain": (("g1", "g2"), ("a", "b", "c")),
    "commas and quotes": (("x, y", 'say "so"'), ("a,b", "tab\there", "line\nend")),
    "numbers": (("1", "2"), ("2001", "2002", "2003")),
    "empty": (("", "x"), ("", "NA", "1")),
    "letters": (("Größe", "β"), ("日本", "é", "z")),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("suffix", KEEP_LABELS)
def test_labels_come_back(suffix, kind, tmp_path):
    rows, columns = LABELS[kind]
    path = tmp_path / f"a{suffix}"
    write_matrix(path, BASE, rows, columns)
    found = read_matrix(path)
    assert (found.rows, found.columns) == (rows, columns)
    np.testing.assert_array_equal(found.values, BASE)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_labels_of_one_side_are_completed_by_numbers(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    write_matrix(path, BASE, rows=["7", "8"])
    found = read_matrix(path)
    assert (found.rows, found.columns) == (("7", "8"), ("1", "2", "3"))
    np.testing.assert_array_equal(found.values, BASE)


def test_npz_keeps_just_the_labels_given(tmp_path):
    write_matrix(tmp_path / "a.npz", BASE, columns=["a", "b", "c"])
    found = read_matrix(tmp_path / "a.npz")
    assert (found.rows, found.columns) == (None, ("a", "b", "c"))


def test_npy_is_mapped_not_loaded(tmp_path):
    write_matrix(tmp_path / "a.npy", BASE)
    values = read_matrix(tmp_path / "a.npy", max_bytes=0).values
    assert isinstance(values, np.memmap)
    assert not values.flags.writeable


@pytest.mark.parametrize("dtype", [">f8", ">f4", "<f2", "u1", "i8", ">i2"])
def test_other_number_types_become_native_floats(dtype, tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1, 2], [3, 4]], dtype=dtype))
    values = read_matrix(tmp_path / "a.npy").values
    small = np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize <= 4
    assert values.dtype == (np.float32 if small else np.float64)
    assert values.dtype.isnative
    np.testing.assert_array_equal(values, [[1, 2], [3, 4]])


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_npz_of_scipy(layout, tmp_path):
    dense = np.array([[0, 2, 0], [1, 0, 0]])
    sparse.save_npz(tmp_path / "a.npz", sparse.coo_matrix(dense).asformat(layout))
    found = read_matrix(tmp_path / "a.npz")
    assert sparse.issparse(found.values)
    assert found.values.dtype == np.float64
    np.testing.assert_array_equal(found.dense(), dense)


MARKET = {
    "coordinate real general": "2 2 2\n1 1 0.5\n2 1 3\n",
    "coordinate integer symmetric": "2 2 2\n1 1 1\n2 1 3\n",
    "coordinate pattern general": "2 2 1\n2 1\n",
    "coordinate real skew-symmetric": "2 2 1\n2 1 3\n",
    "array real general": "2 2\n1\n3\n0\n4\n",
    "array real symmetric": "2 2\n1\n3\n4\n",
}
MARKET_VALUES = {
    "coordinate real general": [[0.5, 0], [3, 0]],
    "coordinate integer symmetric": [[1, 3], [3, 0]],
    "coordinate pattern general": [[0, 0], [1, 0]],
    "coordinate real skew-symmetric": [[0, -3], [3, 0]],
    "array real general": [[1, 0], [3, 4]],
    "array real symmetric": [[1, 3], [3, 4]],
}


@pytest.mark.parametrize("kind", MARKET)
def test_matrix_market_kinds(kind, tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text(f"%%MatrixMarket matrix {kind}\n% a comment\n{MARKET[kind]}")
    found = read_matrix(path)
    assert found.values.dtype == np.float64
    np.testing.assert_array_equal(found.dense(), MARKET_VALUES[kind])


def test_factors(tmp_path):
    U, s, Vt = np.linalg.svd(np.arange(6.0).reshape(2, 3), full_matrices=False)
    write_factors(tmp_path / "f.npz", U, s, Vt, rows=["a", "b"])
    with np.load(tmp_path / "f.npz", allow_pickle=False) as found:
        assert set(found) == {"U", "s", "Vt", "rows"}
        np.testing.assert_array_equal((found["U"] * found["s"]) @ found["Vt"], (U * s) @ Vt)
    found = read_matrix(tmp_path / "f.npz", key="Vt")
    np.testing.assert_array_equal(found.values, Vt)


@pytest.mark.parametrize(
    ("index", "labels"),
    [
        (pd.Index(["x", "y", "z"], name="id"), ("x", "y", "z")),
        (pd.Index([30, 10, 20]), ("30", "10", "20")),
        (pd.Index([1990, 2000, 2020], name="year"), ("1990", "2000", "2020")),
        (pd.date_range("2020-01-30", periods=3), ("2020-01-30", "2020-01-31", "2020-02-01")),
        (pd.RangeIndex(3), None),
    ],
)
def test_the_index_of_a_frame_in_a_parquet_file_holds_labels(tmp_path, index, labels):
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "b"], index=index)
    frame.to_parquet(tmp_path / "a.parquet")
    found = read_matrix(tmp_path / "a.parquet")
    assert np.array_equal(found.values, frame.to_numpy())
    assert found.rows == labels
    assert found.columns == ("a", "b")


def test_an_index_of_several_levels_in_a_parquet_file_is_refused(tmp_path):
    index = pd.MultiIndex.from_product([[1, 2], [3, 4]])
    pd.DataFrame({"a": np.arange(4.0)}, index=index).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(FileError, match="an index of 2 levels"):
        read_matrix(tmp_path / "a.parquet")
