"""Files appear whole or not at all, alone or together."""

import os
import stat

import numpy as np
import pytest

from weakprox.errors import InputError
from weakprox.storage import (
    WRITES,
    FileError,
    read_matrix,
    write_factors,
    write_matrix,
    write_text,
)
from weakprox.storage.atomic import atomic, atomic_all

M = np.eye(2)


def fill(paths, text):
    with atomic_all(paths) as temporaries:
        for temporary in temporaries:
            temporary.write_text(text)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_the_file_appears_at_the_end(tmp_path):
    path = tmp_path / "a.csv"
    with atomic(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".csv"
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_what_was_there(failure, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise failure

    with pytest.raises(failure):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("suffix", WRITES)
def test_a_full_disk_leaves_nothing(suffix, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_matrix(tmp_path / f"a{suffix}", M, ["x", "y"], ["1", "2"])
    assert names(tmp_path) == []


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_together_or_not_at_all(failing, tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("old.txt", "new.txt", "last.txt")]
    for path in (paths[0], paths[2]):
        path.write_text("before")
    real, calls = os.replace, []

    def replace(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise PermissionError("no")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(PermissionError):
        fill(paths, "after")
    assert names(tmp_path) == ["last.txt", "old.txt"]
    assert (paths[0].read_text(), paths[2].read_text()) == ("before", "before")


def test_all_appear_together(tmp_path, monkeypatch):
    def unsupported(*names):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", unsupported)
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    paths[0].write_text("before")
    fill(paths, "after")
    assert [path.read_text() for path in paths] == ["after", "after"]
    assert names(tmp_path) == ["a.txt", "b.txt"]


def test_links_and_permissions_stay(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_text(link, "new é")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new é"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_new_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    write_text(tmp_path / "ours", "x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_bad_targets_are_refused_before_anything_is_written(tmp_path):
    for call, word in [
        (lambda: write_matrix(tmp_path / "none" / "a.csv", M), "does not exist"),
        (lambda: write_matrix(tmp_path / "a.xlsx", M), ".xlsx"),
        (lambda: write_matrix(tmp_path / "a", M), "no suffix"),
        (lambda: write_factors(tmp_path / "a.csv", M, M[0], M), ".npz"),
        (lambda: write_text(tmp_path, "x"), "directory"),
    ]:
        with pytest.raises(FileError, match=word):
            call()
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"values": np.ones(3)}, "values"),
        ({"values": np.ones((0, 3))}, "values"),
        ({"values": M * 1j}, "values"),
        ({"values": M, "rows": ["a"]}, "rows"),
        ({"values": M, "columns": "ab"}, "columns"),
    ],
)
def test_what_cannot_be_written_is_refused(arguments, argument, tmp_path):
    with pytest.raises(InputError) as caught:
        write_matrix(tmp_path / "a.csv", **arguments)
    assert caught.value.argument == argument
    assert names(tmp_path) == []


def test_suffixes_in_capitals(tmp_path):
    for suffix in WRITES:
        path = tmp_path / f"A{suffix.upper()}"
        write_matrix(path, M)
        np.testing.assert_array_equal(read_matrix(path).dense(), M)
    assert len(names(tmp_path)) == len(WRITES)
