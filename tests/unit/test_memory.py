"""Budgets, maps whose pages are let go, and scratch files."""

import mmap
import os
import tempfile
import threading

import numpy as np
import pytest

from weakprox.errors import InputError
from weakprox.linalg.arrays import DiskArena, row_blocks
from weakprox.resources.memory import (
    HOARDED,
    _trim,
    as_bytes,
    budget,
    give_back,
    honours_budget,
    let_go,
    limited,
    mapping,
    on_disk,
    peak,
    resident,
    room,
    scratch,
)

MIB = 1 << 20


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("4GB", 4 * 10**9),
        ("512 MiB", 512 << 20),
        ("1.5kb", 1500),
        ("2g", 2 * 10**9),
        ("7", 7),
        (" 3 TiB ", 3 << 40),
        (123, 123),
        (np.int64(9), 9),
    ],
)
def test_sizes(given, wanted):
    assert as_bytes("max_memory", given) == wanted


@pytest.mark.parametrize(
    "given", ["", "GB", "-1GB", "4 XB", "1e9", 0, -1, True, 1.5, None, [1]]
)
def test_no_sizes(given):
    with pytest.raises(InputError, match="max_memory"):
        as_bytes("max_memory", given)


def test_a_budget_holds_inside_and_in_its_thread_only():
    seen = []
    with limited(10**12), limited(10**9), limited(None), limited(10**10):
        assert budget() == 10**9
        assert room() <= max(0, 10**9 - resident()) + MIB
        thread = threading.Thread(target=lambda: seen.append(budget()))
        thread.start()
        thread.join()
    assert budget() is None
    assert seen == [None]


def test_an_argument_becomes_the_budget():
    @honours_budget
    def call(max_memory=None):
        return budget()

    assert call(max_memory="3kB") == 3000
    assert call() is None
    with pytest.raises(InputError):
        call(max_memory="much")


def test_resident_memory_is_measured():
    before = resident()
    with mmap.mmap(-1, 32 * MIB) as held:  # no allocator that may have some left
        for start in range(0, 32 * MIB, mmap.PAGESIZE):
            held[start] = 1
        assert 24 * MIB < resident() - before < 48 * MIB
        assert peak() >= resident() - MIB


@pytest.mark.skipif(_trim() is None, reason="the C library has no such function")
def test_freed_memory_is_given_back_after_work_on_large_arrays():
    pieces = [np.ones(4096) for _ in range(1024)]  # 32 MiB
    del pieces[:-1]
    before = resident()
    give_back(HOARDED - 1)
    assert before - resident() < MIB
    give_back(HOARDED)
    assert before - resident() > 16 * MIB
    assert pieces[0].sum() == 4096


def test_pages_are_let_go_and_nothing_is_lost():
    x = scratch((64, 32 * 1024), float)  # 16 MiB
    x[...] = 3.0
    before = resident()
    let_go(x[2:])
    assert before - resident() > 12 * MIB
    assert float(x.sum()) == 3.0 * x.size


def test_a_pass_over_a_map_holds_one_block(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.ones((256, 16 * 1024)))  # 32 MiB
    x = np.load(path, mmap_mode="r")
    start, most = resident(), 0
    for rows in row_blocks(x):
        x[rows].sum()
        most = max(most, resident() - start)
    assert most < 8 * MIB


def test_which_arrays_are_on_disk(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(12.0).reshape(3, 4))
    for mode, shared in (("r", True), ("r+", True), ("c", False)):
        x = np.load(path, mmap_mode=mode)
        assert on_disk(x) is on_disk(x[1:]) is on_disk(np.asarray(x).T) is shared
    copy = np.load(path, mmap_mode="c")
    copy[0] = 7.0  # lives in its pages alone
    let_go(copy)
    assert float(copy[0, 0]) == 7.0
    assert mapping(np.zeros(3)) is mapping("x") is mapping(x + 1.0) is None


def test_a_scratch_file_has_no_name(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    x = scratch((8, 1024), np.float32)
    assert (type(x), x.dtype, x.shape) == (np.memmap, np.float32, (8, 1024))
    assert os.listdir(tmp_path) == []  # nothing is left behind, even by a killed process


def test_a_disk_without_room_is_said_at_once(monkeypatch, tmp_path):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match=r"max_memory: .*\(No space left on device\)"):
        scratch((4, 4), float)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="TMPDIR"):
        scratch((4, 4), float)


def test_an_arena_uses_files_for_what_does_not_fit_and_uses_them_again():
    left = [1000]
    arena, like = DiskArena(lambda: left[0]), np.empty(0)
    small, large = arena.like(like, (10, 9)), arena.like(like, (10, 11))
    assert (on_disk(small), on_disk(large)) == (False, True)
    large[...] = 5.0
    where = large.ctypes.data
    other = arena.like(like, (10, 11))
    assert other.ctypes.data != where  # the first is still held
    del large
    assert arena.like(like, (10, 11)).ctypes.data == where
