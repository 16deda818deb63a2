"""Every bad file is refused by one line that names it, and none is ever executed."""

import os

import numpy as np
import pytest
from bad_files import BAD, GOOD, archive, header_only, npy, npz
from scipy import sparse

from weakprox.errors import InputError
from weakprox.resources.memory import room, shown_bytes
from weakprox.storage import FileError, read_matrix, write_matrix


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a pickle that ran would leave its mark here


def refused(path, *words, **options):
    with pytest.raises(FileError) as caught:
        read_matrix(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: got ")
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


@pytest.mark.parametrize("kind", BAD)
def test_bad_contents(kind, tmp_path):
    suffix, make, word = BAD[kind]
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(make())
    refused(path, word)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_no_file_a_directory_a_pipe(tmp_path):
    refused(tmp_path / "none.csv", "no such file")
    refused(tmp_path, "directory")
    os.mkfifo(tmp_path / "pipe.csv")
    refused(tmp_path / "pipe.csv", "not a plain file")


def test_a_name_with_a_line_break_stays_on_one_line(tmp_path):
    with pytest.raises(FileError) as caught:
        read_matrix(tmp_path / "two\nlines.csv")
    assert "\n" not in str(caught.value)


def test_key_and_header_are_checked(tmp_path):
    (tmp_path / "a.npz").write_bytes(npz(a=GOOD, b=GOOD, c=GOOD[0], d=GOOD * 1j))
    refused(tmp_path / "a.npz", "no array 'x'", "a (3, 4)", key="x")
    refused(tmp_path / "a.npz", "'c'", "1 axis", key="c")
    refused(tmp_path / "a.npz", "complex", key="d")
    np.testing.assert_array_equal(read_matrix(tmp_path / "a.npz", key="b").values, GOOD)
    (tmp_path / "a.npy").write_bytes(npy(GOOD))
    with pytest.raises(InputError, match="key"):
        read_matrix(tmp_path / "a.npy", key="b")
    with pytest.raises(InputError, match="header"):
        read_matrix(tmp_path / "a.npy", header="maybe")


@pytest.mark.parametrize("call", [read_matrix, lambda path: write_matrix(path, GOOD)])
def test_data_in_place_of_a_path(call):
    for given in (GOOD, None, 3):
        with pytest.raises(InputError, match="path: got"):
            call(given)


LARGE = np.zeros((200, 300))


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".tsv", ".mtx", ".parquet"])
def test_sizes_are_limited_before_they_are_taken(suffix, tmp_path):
    from weakprox.storage import write_matrix

    path = tmp_path / f"large{suffix}"
    write_matrix(path, LARGE)
    refused(path, "at most", max_bytes=LARGE.nbytes // 2)
    # text is collected in rows before it becomes one matrix
    assert read_matrix(path, max_bytes=3 * LARGE.nbytes).shape == LARGE.shape


def test_a_compressed_archive_is_judged_by_what_it_unpacks_to(tmp_path):
    path = tmp_path / "small.npz"
    path.write_bytes(npz(compressed=True, a=LARGE))
    assert path.stat().st_size < LARGE.nbytes / 100
    refused(path, shown_bytes(LARGE.nbytes + 128), max_bytes=LARGE.nbytes)


def test_integers_are_limited_by_what_they_become(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy(LARGE.astype(np.int8)))
    refused(tmp_path / "a.npy", "int8", max_bytes=LARGE.nbytes - 1)
    assert read_matrix(tmp_path / "a.npy", max_bytes=LARGE.nbytes).values.dtype == np.float64


def test_a_sparse_matrix_is_limited_when_it_is_filled_in(tmp_path):
    path = tmp_path / "a.npz"
    sparse.save_npz(path, sparse.coo_matrix(([1.0], ([5], [7])), shape=(10**7, 10**7)))
    found = read_matrix(path)
    with pytest.raises(FileError, match="TiB"):
        found.dense()


def test_a_line_without_end_is_not_read_whole(tmp_path):
    (tmp_path / "a.csv").write_text("1," * 200000)
    refused(tmp_path / "a.csv", "line without an end", max_bytes=1 << 19)


def test_a_member_that_lies_about_its_size_in_the_archive(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(archive(a=header_only((2, 2)) + bytes(64)))
    refused(path, "as its header says")


def test_missing_parquet_support_says_how_to_get_it(tmp_path, monkeypatch):
    import sys

    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(20))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"weakprox\[parquet\]"):
        read_matrix(tmp_path / "a.parquet")


def test_room_is_a_plausible_share_of_memory():
    assert 1 << 20 < room() < 1 << 50
    assert (shown_bytes(12), shown_bytes(1536)) == ("12 bytes", "1.5 KiB")
