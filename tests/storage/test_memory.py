"""Small files that unpack to much are refused before the memory is taken."""

import tracemalloc

import numpy as np
import pytest
from bad_files import GOOD, long_header, long_labels, npy, npz, parquet

from weakprox.storage import FileError, read_matrix

MIB = 1 << 20


@pytest.mark.parametrize("compressed", [True, False])
def test_a_long_header_is_not_read(compressed, tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(long_header(64 * MIB))
    if not compressed:
        path = tmp_path / "a.npy"
        path.write_bytes(b"\x93NUMPY\x02\x00\x00\x00\x00\x04" + b" " * 64 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=r"a header of 64\.0 MiB"):
            read_matrix(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


def test_ordinary_headers_of_both_versions_are_read(tmp_path):
    from numpy.lib import format as numpy_format

    path = tmp_path / "a.npy"
    for version in ((1, 0), (2, 0)):
        with path.open("wb") as handle:
            numpy_format.write_array(handle, GOOD, version=version)
        np.testing.assert_array_equal(read_matrix(path).values, GOOD)
    path.write_bytes(npy(np.asfortranarray(GOOD)))
    np.testing.assert_array_equal(read_matrix(path).values, GOOD)


@pytest.mark.parametrize("dictionary", [True, False])
def test_long_labels_are_not_copied_for_each_row(dictionary, tmp_path):
    import pyarrow as pa

    path = tmp_path / "a.parquet"
    path.write_bytes(long_labels(100, use_dictionary=dictionary))
    old, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(FileError, match="row label longer than"):
            read_matrix(path)
    finally:
        pa.set_memory_pool(old)
    assert pool.max_memory() < 20 * MIB


def test_labels_count_as_memory(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet(id=["x" * 1000] * 500, a=np.ones(500)))
    with pytest.raises(FileError, match="row labels"):
        read_matrix(path, max_bytes=100_000)
    found = read_matrix(path, max_bytes=MIB)
    assert found.rows[0] is found.rows[1]  # one text, shared


def test_labels_of_every_text_type_are_read(tmp_path):
    import pyarrow as pa

    path = tmp_path / "a.parquet"
    for labels in (
        pa.array(["u", None, "u"]),
        pa.array(["u", None, "u"], type=pa.large_string()),
        pa.array(["u", None, "u"]).dictionary_encode(),
    ):
        path.write_bytes(parquet(id=labels, a=np.ones(3)))
        assert read_matrix(path).rows == ("u", "", "u")


def test_numbers_called_rows_are_no_labels(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(npz(a=GOOD, rows=np.arange(3)))
    assert read_matrix(path).rows is None
