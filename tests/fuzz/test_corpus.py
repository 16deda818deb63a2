"""Every file of the fuzzers' corpus is read, or refused by an error of ours, here too."""

import io
import zipfile

import numpy as np
import pytest
from bad_files import GOOD, npy
from fuzz.readers import READERS, attempt, corpus
from fuzz.seeds import made

from weakprox.storage import FileError, read_matrix, table

FILES = [(reader, path) for reader in READERS for path in corpus(reader)]


@pytest.mark.parametrize(("reader", "path"), FILES, ids=lambda x: getattr(x, "name", x))
def test_no_kept_file_crashes_its_reader(reader, path, tmp_path):
    attempt(reader, tmp_path, path.read_bytes())


def test_the_corpus_has_a_valid_file_for_every_reader(tmp_path):
    for reader, files in made().items():
        kept = {path.name for path in corpus(reader)}
        assert set(files) <= kept, reader
    for reader in ("npy", "npz", "csv", "tsv", "mtx", "parquet"):
        path = tmp_path / f"valid.{reader}"
        path.write_bytes(next(iter(made()[reader].values())))
        assert read_matrix(path).dense().size == 6, reader


def test_a_crash_would_be_seen(tmp_path, monkeypatch):
    def broken(folder, data):
        raise KeyError("not ours")

    monkeypatch.setitem(READERS, "npy", broken)
    with pytest.raises(KeyError):
        attempt("npy", tmp_path, b"")


def test_names_in_an_archive_lead_nowhere(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../../../outside.npy", npy(GOOD))
        archive.writestr("/absolute.txt", b"text")
    path = inside / "escape.npz"
    path.write_bytes(buffer.getvalue())
    np.testing.assert_array_equal(read_matrix(path).values, GOOD)  # read, never unpacked
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["escape.npz", "inside"]


def test_a_bomb_that_fits_into_memory_is_refused_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "MUCH", 1 << 20)
    zeros = np.zeros((600, 600))
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, a=zeros)
    with pytest.raises(FileError, match="at most 500 times its size"):
        read_matrix(path)
    assert read_matrix(path, max_bytes=1 << 30).shape == (600, 600)  # it was asked for
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"a": np.zeros(1 << 20)}), flat)
    with pytest.raises(FileError, match="at most 500 times its size"):
        read_matrix(flat)
    noise = tmp_path / "noise.npz"
    np.savez_compressed(noise, a=np.random.default_rng(0).standard_normal((600, 600)))
    assert read_matrix(noise).shape == (600, 600)


def test_labels_that_take_no_bytes_are_counted_before_they_are_read(tmp_path):
    labels = npy(np.zeros(3, dtype="U1")).replace(b"<U1", b"<U0")
    huge = labels[: -3 * 4].replace(b"(3,)", b"(" + b"9" * 15 + b",)")[:128].ljust(128)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", npy(GOOD))
        archive.writestr("rows.npy", huge)
    path = tmp_path / "labels.npz"
    path.write_bytes(buffer.getvalue())
    with pytest.raises(FileError, match="labels in 'rows'"):
        read_matrix(path)


def test_nothing_in_the_library_unpickles_or_evaluates():
    import re
    from pathlib import Path

    import weakprox

    words = (
        r"\bpickle\.\w|import pickle|\beval\(|\bexec\(|literal_eval|allow_pickle=True|marshal"
    )
    for path in Path(weakprox.__file__).parent.rglob("*.py"):
        found = re.search(words, path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found}"
