"""Checkpoint files: bits and layouts kept, old ones kept, damage seen, nothing believed."""

import json
import math
import os
import random
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import pytest
import torch
from safetensors import safe_open

from weakprox.errors import InputError
from weakprox.linalg.lowrank import LowRank
from weakprox.resources.memory import on_disk, scratch
from weakprox.storage import FileError, checkpoint
from weakprox.storage.checkpoint import DamagedError, load, previous, save
from weakprox.storage.tree import Codec

RNG = np.random.default_rng(0)
A = RNG.standard_normal((6, 5))


class Pair(NamedTuple):
    left: float
    right: int | None


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Node:
    name: str
    below: tuple[Pair, ...] = ()
    colour: Colour | None = None


GIVEN = object()
CODEC = Codec.of([LowRank, Pair, Colour, Node], {"penalty": GIVEN})


def write(path, value, *, codec=CODEC, keep=True):
    save(path, {"value": value}, codec, writer="0.1.0", keep=keep)


def again(path, value, codec=CODEC):
    write(path, value, codec=codec)
    (found,) = load(path).decode(codec, "value")
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.safetensors"


ARRAYS = {
    "plain": A,
    "transposed": A.T,
    "upside down": A[::-1],
    "mirrored": A[:, ::-1],
    "leading columns": A[:, :2],
    "every other": A[::2, 1:4],
    "one column": A[:, :1],
    "one row of columns": np.asfortranarray(A)[:1],
    "by columns": np.asfortranarray(A),
    "one number seen as many": np.broadcast_to(np.zeros((1, 1)), (6, 5)),
    "one row seen as many": np.broadcast_to(A[0], (6, 5)),
    "three axes": np.moveaxis(RNG.standard_normal((2, 3, 4)), 0, 2),
    "no axes": np.array(0.1),
    "odd numbers": np.array([math.inf, -math.inf, math.nan, -0.0, 5e-324]),
    "single": A.astype(np.float32).T,
    "integers": np.arange(5, dtype=np.int16),
    "truth": np.array([True, False]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_numpy_arrays_keep_bits_and_layout(name, path):
    given = ARRAYS[name]
    found = again(path, given)
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape, found.strides) == (
        given.dtype,
        given.shape,
        given.strides,
    )
    assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(given).tobytes()
    for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE"):
        assert found.flags[flag] == given.flags[flag]


@pytest.mark.parametrize(
    "given",
    [
        torch.asarray(A),
        torch.asarray(A).T,
        torch.asarray(A)[:, :2],
        torch.zeros(1, 1).expand(6, 5),
        torch.asarray(A, dtype=torch.float32),
    ],
    ids=["plain", "transposed", "columns", "expanded", "single"],
)
def test_torch_tensors_keep_bits_and_layout(given, path):
    found = again(path, given)
    assert isinstance(found, torch.Tensor)
    assert (found.dtype, found.device, found.stride()) == (
        given.dtype,
        given.device,
        given.stride(),
    )
    assert torch.equal(found, given)


def test_arrays_kept_in_files_are_kept_in_files_again(path):
    given = scratch((6, 5), np.float64)
    given[...] = A
    for view in (given, given.T):
        found = again(path, view)
        assert on_disk(found)
        assert found.strides == view.strides
        np.testing.assert_array_equal(found, view)
    assert not on_disk(again(path, A))


def test_empty_arrays(path):
    for given in (np.zeros((0, 4)), A[:, :0]):
        assert again(path, given).shape == given.shape


@pytest.mark.parametrize(
    "given",
    [
        *(
            None,
            True,
            3,
            -(2**80),
            0.1,
            -0.0,
            5e-324,
            math.inf,
            -math.inf,
            math.nan,
            "é\n<",
            "",
        ),
        *(
            (),
            (1, (2.5,)),
            [1, [None]],
            {"a": 1, (2, 3): "b"},
            np.float64(0.1),
            np.float32(0.1),
        ),
        *(np.int64(4), np.bool_(True), Pair(math.inf, None), Colour.RED),
        Node("x", (Pair(1.0, 2),), Colour.RED),
    ],
    ids=repr,
)
def test_values_keep_their_type(given, path):
    found = again(path, given)
    assert type(found) is type(given)
    assert repr(found) == repr(given)


def test_what_both_sides_have_is_not_written(path):
    assert again(path, (1, GIVEN))[1] is GIVEN


def test_one_array_is_stored_once_and_comes_back_as_one(path):
    found = again(path, (A, LowRank(A, A[0], A.T)))
    assert found[0] is found[1].U
    with safe_open(path, framework="np") as file:
        assert sum(file.get_tensor(name).size for name in file.keys()) == 30 + 5  # noqa: SIM118


@pytest.mark.parametrize(
    "given",
    [
        *(object(), Pair, {1, 2}, b"bytes", 1j, np.str_("a"), lambda: None),
        *(A.astype(complex), A.astype(object), A.astype(">f8"), np.array(["a"])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_written_is_refused_and_leaves_the_file(given, path):
    write(path, 1)
    before = path.read_bytes()
    with pytest.raises(InputError, match="checkpoint"):
        write(path, (A, given))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_any_reader_of_safetensors_can_read_it(path):
    write(path, {"X": A})
    with safe_open(path, framework="np") as file:
        about = file.metadata()
        (name,) = file.keys()
        np.testing.assert_array_equal(file.get_tensor(name), A)
    assert (about["format"], about["version"]) == ("weakprox checkpoint", "2")
    assert json.loads(about["value"])


def test_the_last_but_one_is_kept_and_nothing_else(path):
    for value in range(4):
        write(path, value)
        assert load(path).decode(CODEC, "value") == [value]
        if value:
            assert load(previous(path)).decode(CODEC, "value") == [value - 1]
    assert sorted(os.listdir(path.parent)) == [path.name, previous(path).name]


def test_a_bad_file_does_not_take_the_place_of_a_good_previous_one(path):
    write(path, 1)
    write(path, 2)
    path.write_bytes(b"rubbish")
    write(path, 3, keep=False)
    assert load(previous(path)).decode(CODEC, "value") == [1]
    assert load(path).decode(CODEC, "value") == [3]


def test_permissions_are_those_of_the_file_before(path):
    write(path, 1)
    fresh = path.parent / "fresh"
    fresh.touch()
    assert path.stat().st_mode == fresh.stat().st_mode
    path.chmod(0o640)
    write(path, 2)
    assert path.stat().st_mode & 0o777 == 0o640


def test_every_cut_and_every_changed_byte_is_seen(path):
    write(path, {"X": A, "n": 3})
    data, rng = path.read_bytes(), random.Random(0)
    for trial in range(400):
        cut = rng.randrange(len(data))
        bad = bytearray(data[:cut] if trial % 4 == 0 else data)
        if trial % 4:
            bad[cut] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        with pytest.raises(FileError):
            load(path).decode(CODEC, "value")


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100, b"\x00" * 64, bytes(8) + b"{}"])
def test_other_contents(content, path):
    path.write_bytes(content)
    with pytest.raises(FileError):
        load(path)


def test_a_file_that_may_not_be_read(path, monkeypatch):
    def refuse(*args, **options):
        raise FileNotFoundError  # as safetensors says it, whatever the reason

    monkeypatch.setattr("safetensors.safe_open", refuse)
    path.touch()
    with pytest.raises(FileError, match="cannot be read") as caught:
        load(path)
    assert not isinstance(caught.value, DamagedError)


def test_other_files(path, tmp_path):
    with pytest.raises(FileError, match="plain file"):
        load(tmp_path)
    from safetensors.numpy import save_file

    save_file({"weight": A}, path)
    with pytest.raises(FileError, match="another kind") as caught:
        load(path)
    assert not isinstance(caught.value, DamagedError)


def forged(path, node, arrays=(), **about):
    """A file with a right digest around a wrong content."""
    about = {
        "format": checkpoint.FORMAT,
        "version": str(checkpoint.VERSION),
        "weakprox": "0",
        **about,
    }
    about["value"] = node if isinstance(node, str) else json.dumps(node)
    about["digest"] = checkpoint._digest(about, dict(arrays))
    path.unlink(missing_ok=True)
    checkpoint._write(path, about, dict(arrays))


def plain(**changes):
    return {"array": "a", "shape": [6, 5], "strides": [5, 1], "device": "", **changes}


HOSTILE = {
    "another class": {"class": "os.system", "fields": {"command": "true"}},
    "a builtin": {"class": "builtins.eval", "fields": {}},
    "a class that is no name": {"class": ["x"], "fields": {}},
    "missing fields": {"class": f"{__name__}.Node", "fields": {}},
    "more fields": {"class": f"{__name__}.Pair", "fields": {"left": 1, "right": 1, "up": 1}},
    "text for a number": {"class": f"{__name__}.Pair", "fields": {"left": "1", "right": 1}},
    "truth for a number": {"class": f"{__name__}.Pair", "fields": {"left": True, "right": 1}},
    "no member": {"class": f"{__name__}.Colour", "member": "BLUE"},
    "fields of an enumeration": {"class": f"{__name__}.Colour", "fields": {}},
    "member of a class": {"class": f"{__name__}.Pair", "member": "left"},
    "unknown given": {"given": "loss"},
    "a float that is none": {"float": "1e5"},
    "a list that is none": {"list": 3},
    "a key that is none": {"dict": [[{"list": []}, 1]]},
    "pairs that are none": {"dict": [[1]]},
    "nothing known": {"what": 1},
    "unknown array": plain(array="b"),
    "another shape": plain(shape=[5, 6]),
    "negative shape": plain(shape=[-6, 5]),
    "more than there is memory": plain(strides=[1 << 44, 1]),
    "huge strides": plain(strides=[1 << 47, 1]),
    "absurd strides": plain(strides=[1 << 80, 1]),
    "overlapping strides": plain(strides=[1, 1]),
    "gaps on disk": plain(device="disk", strides=[1 << 30, 1]),
    "text for strides": plain(strides="51"),
    "too few strides": plain(strides=[5]),
    "many axes": plain(shape=[1] * 40, strides=[1] * 40),
    "another device": plain(device="nowhere:0"),
    "a device that is none": plain(device=3),
    "torch backwards": plain(device="cpu", strides=[-5, 1]),
    "NaN": "NaN",
    "no JSON": "{",
    "deep": "[" * 100_000 + "]" * 100_000,
    "long number": "1" * 10_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_forged_contents_are_refused(name, path):
    forged(path, HOSTILE[name], {"a": A})
    with pytest.raises(DamagedError):
        load(path).decode(CODEC, "value")


def test_a_sound_forgery_is_read_so_that_the_others_test_something(path):
    forged(path, plain(), {"a": A})
    np.testing.assert_array_equal(load(path).decode(CODEC, "value")[0], A)
    forged(path, plain(), {"a": A}, version="1")
    with pytest.raises(FileError, match="format"):
        load(path)
    forged(path, plain(), {"a": A})
    with pytest.raises(DamagedError):
        load(path).decode(CODEC, "other")
