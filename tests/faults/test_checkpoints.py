"""Checkpoints under faults: damage, other runs, full disks, Ctrl-C, failing samplers."""

import errno
import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from registry import SHAPE, numbers

import weakprox as wp
from weakprox.losses import Completion, Denoising, Sensing, TimeLimit
from weakprox.penalties import L1
from weakprox.solvers import HCGM, SCG, DavisYin
from weakprox.spectral import NuclearBall
from weakprox.storage import FileError

M = numbers(*SHAPE)
OTHER = ".previous"
LIMITS = {"eps": 1e-5, "progress": False, "stop_when_certified": False, "max_svds": 300}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.safetensors"


def problem(data=M, lam=0.1, tau=2.0):
    return wp.Problem(Denoising(data), L1(lam), NuclearBall(tau))


def run(file=None, *, given=None, solver=None, **options):
    if file is not None:
        options = {"checkpoint": file, "checkpoint_every": 0, "resume": True, **options}
    given = problem() if given is None else given
    return wp.minimize(given, solver or HCGM(), **{**LIMITS, **options})


def same(a, b):
    for mine, theirs in zip(a.factors, b.factors, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert a.counts == b.counts


# ---------------------------------------------------------------------- damage


def damaged(path, how):
    data = path.read_bytes()
    if how == "cut":
        data = data[: len(data) // 2]
    elif how == "empty":
        data = b""
    elif how == "flipped":
        data = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
    else:
        data = os.urandom(len(data))
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["cut", "empty", "flipped", "noise"])
def test_a_damaged_file_falls_back_on_the_one_before(how, file):
    whole = run()
    run(file, max_svds=200)
    damaged(file, how)
    with pytest.warns(wp.CheckpointWarning, match="previous"):
        same(run(file), whole)
    same(run(file), whole)  # what it has written since is whole


def test_after_that_the_good_one_is_not_replaced_by_the_damaged_one(file):
    run(file, max_svds=200)
    good = Path(f"{file}{OTHER}").read_bytes()
    damaged(file, "cut")
    with pytest.warns(wp.CheckpointWarning):
        run(file, checkpoint_every=1e6, callback=lambda look: True)
    assert Path(f"{file}{OTHER}").read_bytes() == good


@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_both_damaged_is_an_error_and_leaves_them(how, file):
    run(file, max_svds=200)
    for path in (file, Path(f"{file}{OTHER}")):
        damaged(path, how)
    before = [path.read_bytes() for path in sorted(file.parent.iterdir())]
    with pytest.raises(FileError, match="checkpoint"):
        run(file)
    assert [path.read_bytes() for path in sorted(file.parent.iterdir())] == before


def test_damaged_with_nothing_before_it(file):
    run(file, max_svds=200)
    Path(f"{file}{OTHER}").unlink()
    damaged(file, "cut")
    with pytest.raises(FileError, match=r"run\.safetensors"):
        run(file)


# ------------------------------------------------------------------ other runs


def nudged():
    data = M.copy()
    data[2, 3] = np.nextafter(data[2, 3], 9.0)
    return data


REFUSED = {
    "lam": ({"given": problem(lam=0.2)}, "problem"),
    "tau": ({"given": problem(tau=3.0)}, "problem"),
    "data": ({"given": problem(M + 1.0)}, "data"),
    "one bit of the data": ({"given": problem(nudged())}, "data"),
    "shape": ({"given": problem(numbers(6, 5))}, "problem"),
    "loss": (
        {"given": wp.Problem(Sensing(M[None], np.ones(1)), L1(0.1), NuclearBall(2.0))},
        "problem",
    ),
    "solver": ({"solver": SCG()}, "solver"),
    "setting": ({"solver": HCGM(beta0=2.0)}, "solver"),
    "eps": ({"eps": 1e-4}, "eps"),
    "seed": ({"seed": 1}, "seed"),
    "start": ({"start": np.zeros(SHAPE)}, "start"),
    "automatic": ({"solver": "auto"}, "solver"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_of_another_run_is_refused_and_left_alone(name, file):
    changes, word = REFUSED[name]
    run(file, max_svds=200)
    before = [path.read_bytes() for path in sorted(file.parent.iterdir())]
    with pytest.raises(wp.InputError, match=rf"another .*{word}|other {word}") as caught:
        run(file, **changes)
    assert caught.value.argument == "resume"
    assert [path.read_bytes() for path in sorted(file.parent.iterdir())] == before


def test_data_that_differ_are_told_apart_for_every_loss(file):
    rows, cols = np.nonzero(np.abs(M) > 0.2)
    A, b = numbers(50, *SHAPE, seed=1), numbers(50, seed=2)
    seen, others = (data[rows, cols] for data in (M, nudged()))
    pairs = [
        (Completion(rows, cols, seen, SHAPE), Completion(rows, cols, others, SHAPE)),
        (Sensing(A, b), Sensing(A, np.nextafter(b, 9.0))),
        (Denoising(samples=A), Denoising(samples=A[::-1].copy())),
    ]
    for number, (one, two) in enumerate(pairs):
        place = file.with_name(f"{number}.safetensors")
        options = {"solver": DavisYin(), "max_svds": 20, "eps": 1e-9}
        run(place, given=wp.Problem(one, L1(0.1), NuclearBall(2.0)), **options)
        with pytest.raises(wp.InputError, match="other data"):
            run(place, given=wp.Problem(two, L1(0.1), NuclearBall(2.0)), **options)


def test_limits_and_looks_may_change(file):
    run(file, max_svds=100)
    run(file, max_svds=150, look_every=7, max_seconds=1e3, callback=lambda look: None)


def test_a_file_that_is_there_is_not_written_over(file):
    file.write_bytes(b"somebody's model")
    with pytest.raises(FileError, match="already exists"):
        run(file, resume=False)
    with pytest.raises(FileError):
        run(file)
    assert file.read_bytes() == b"somebody's model"
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"resume": True}, "resume"),
        ({"resume": "run.safetensors"}, "resume"),
        ({"resume": M}, "resume"),
        ({"resume": 1}, "resume"),
        ({"checkpoint": 3}, "checkpoint"),
        ({"checkpoint": ""}, "checkpoint"),
        ({"checkpoint": "run", "checkpoint_every": -1}, "checkpoint_every"),
        ({"checkpoint": "run", "checkpoint_every": "often"}, "checkpoint_every"),
        ({"checkpoint": "run", "checkpoint_every": float("nan")}, "checkpoint_every"),
    ],
    ids=repr,
)
def test_arguments_that_make_no_sense(options, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(wp.InputError) as caught:
        run(**options)
    assert caught.value.argument == argument
    assert not os.listdir(tmp_path)


def test_places_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    names = ("nowhere/run", "file/run", "loop", "x" * 300, "null\0byte")
    for place in (tmp_path, "/dev/null", *(tmp_path / name for name in names)):
        with pytest.raises(FileError):
            run(place)


# ----------------------------------------------------------------------- disks


class Full:
    """A disk that is full from the n-th write on, as the system would say it."""

    def __init__(self, monkeypatch, after, reason):
        self.left, self.reason = after, reason
        self.fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, handle):
        self.left -= 1
        if self.left < 0:
            raise OSError(self.reason, os.strerror(self.reason))
        self.fsync(handle)


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_a_disk_that_fails_costs_checkpoints_and_nothing_else(reason, file, monkeypatch):
    whole = run()
    with monkeypatch.context() as patch:
        Full(patch, 5, reason)
        with pytest.warns(wp.CheckpointWarning, match="The run continues"):
            same(run(file), whole)
    left = sorted(os.listdir(file.parent))
    assert left == [file.name, file.name + OTHER]
    same(run(file), whole)  # from the last state that could be written


def test_a_disk_that_is_full_from_the_start(file, monkeypatch):
    Full(monkeypatch, 0, errno.ENOSPC)
    with pytest.warns(wp.CheckpointWarning):
        result = run(file)
    assert result.status is wp.Status.MAX_SVDS
    assert not os.listdir(file.parent)


def test_a_file_that_cannot_grow(file, monkeypatch):
    """Only a part of the new file could be written: the old one stays."""
    whole = run()
    run(file, max_svds=200)
    before = file.read_bytes()
    opened = Path.open

    class Small(io.FileIO):
        def write(self, data):
            super().write(bytes(data)[:100])
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    def small(self, mode="r", *rest, **options):
        return Small(self, "x") if mode == "xb" else opened(self, mode, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", small)
        with pytest.warns(wp.CheckpointWarning):
            same(run(file), whole)
    assert file.read_bytes() == before
    assert sorted(os.listdir(file.parent)) == [file.name, file.name + OTHER]


def test_a_directory_that_becomes_read_only(file, monkeypatch):
    whole, replaced = run(), os.replace

    def denied(source, target):
        if calls["left"] <= 0:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        calls["left"] -= 1
        replaced(source, target)

    calls = {"left": 3}
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", denied)
        with pytest.warns(wp.CheckpointWarning):
            same(run(file), whole)
    same(run(file), whole)


def test_a_file_system_without_links(file, monkeypatch):
    def none(*names):
        raise OSError(errno.EPERM, "no links here")

    whole = run()
    monkeypatch.setattr(os, "link", none)
    run(file, max_svds=200)
    damaged(file, "cut")
    with pytest.warns(wp.CheckpointWarning):
        same(run(file), whole)


# ---------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize("step", [0, 5])
def test_ctrl_c_returns_the_best_point_and_leaves_a_checkpoint(step, file):
    whole = run()

    def interrupt(look):
        if look.epoch == 3 and look.step >= step:
            raise KeyboardInterrupt

    part = run(file, callback=interrupt, checkpoint_every=1e6)
    assert part.status is wp.Status.INTERRUPTED
    assert np.isfinite(part.value)
    assert part.violation <= 1e-9
    same(run(file), whole)
    same(run(resume=part), whole)


def test_errors_of_the_users_leave_a_checkpoint_too(file):
    whole = run()

    def broken(look):
        if look.epoch == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(file, callback=broken, checkpoint_every=1e6)
    same(run(file), whole)


# -------------------------------------------------------------------- samplers


class Flaky:
    """A sampler that does something else at one call."""

    def __init__(self, bad=None, when=-1):
        self.calls, self.when, self.bad = 0, when, bad

    def __call__(self, rng, k):
        self.calls += 1
        if self.calls == self.when:
            return self.bad(k)
        return M + 0.3 * rng.standard_normal((k, *SHAPE))


def raises(k):
    raise OSError("network down")


STALLED = threading.Event()


def stalls(k):
    STALLED.wait(60.0)


BAD = {
    "raises": (raises, "network down"),
    "NaN": (lambda k: np.full((k, *SHAPE), np.nan), "NaN"),
    "wrong shape": (lambda k: M, "shape"),
    "stalls": (stalls, "no samples within"),
}


def sampled(sampler, seconds=60.0):
    loss = Denoising(sampler=TimeLimit(sampler, seconds), shape=SHAPE)
    return wp.Problem(loss, L1(0.1), NuclearBall(2.0))


@pytest.mark.parametrize("name", BAD)
def test_a_sampler_that_fails_in_the_middle(name, file):
    """A clear error, and the last good state both on the disk and in the error."""
    bad, word = BAD[name]
    solver = wp.SVRGCG(rank=3, inner=4)
    options = {"solver": solver, "eps": 0.2, "max_svds": None, "evaluation_samples": 8}
    whole = run(given=sampled(Flaky()), **options)
    assert whole.checkpoint.memory.epoch > 4
    given = sampled(Flaky(bad, when=7), 1.0 if name == "stalls" else 60.0)
    with pytest.raises(wp.SamplerError, match=word) as caught:
        run(file, given=given, checkpoint_every=1e6, **options)
    best = caught.value.result
    assert best.status is wp.Status.SAMPLER_FAILED
    assert not best.status.reached
    assert best.checkpoint.memory.epoch >= 2
    assert np.isfinite(best.value)
    assert best.violation <= 1e-9
    same(run(file, given=sampled(Flaky()), **options), whole)
    same(run(given=sampled(Flaky()), resume=best, **options), whole)


def test_a_sampler_that_fails_before_anything_is_known_has_no_result():
    with pytest.raises(wp.SamplerError) as caught:
        run(given=sampled(Flaky(raises, when=2)), solver=wp.SVRGCG(rank=3), eps=0.2)
    assert caught.value.result is None


def test_a_time_limit_passes_on_what_the_sampler_does():
    rng = np.random.default_rng(0)
    assert TimeLimit(lambda rng, k: k, 5.0)(rng, 3) == 3
    with pytest.raises(ZeroDivisionError):
        TimeLimit(lambda rng, k: 1 / 0, 5.0)(rng, 3)
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        TimeLimit(lambda rng, k: STALLED.wait(60.0), 0.01)(rng, 3)
    for bad in (0.0, -1.0, "soon", float("nan")):
        with pytest.raises(wp.InputError, match="seconds"):
            TimeLimit(lambda rng, k: k, bad)
    with pytest.raises(wp.InputError, match="sampler"):
        TimeLimit(M, 1.0)
    with pytest.raises(wp.SamplerError, match="no samples within"):
        Denoising(sampler=TimeLimit(lambda rng, k: STALLED.wait(60.0), 0.01), shape=SHAPE)


def test_samples_that_cannot_be_written_show_at_once(file):
    """Samples of an unknown kind, which SampleAverage would have to keep."""

    class Strange:
        pass

    loss = wp.losses.Custom(
        SHAPE, value=lambda X, s: 0.5 * float((X**2).sum()), grad=lambda X, s: X * 1.0,
        sampler=lambda rng, k: Strange(), strong_convexity=1.0, smoothness=1.0,
    )  # fmt: skip
    given = wp.Problem(loss, L1(0.1), NuclearBall(2.0))
    with pytest.raises(wp.InputError, match="Strange"):
        wp.minimize(given, eps=0.1, checkpoint=file, progress=False)
    assert not os.listdir(file.parent)
