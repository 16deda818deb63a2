"""The harness: resuming, broken caches, failures, and independence of order and processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments import _toy

import weakprox
from weakprox.errors import InputError
from weakprox.experiments import ALL, Interrupted, JobError, harness, run, stream

QUIET = {"processes": 1, "progress": False}


@pytest.fixture
def marks(tmp_path, monkeypatch):
    """A directory where `_toy.counted` leaves one file per call."""
    directory = tmp_path / "marks"
    directory.mkdir()
    monkeypatch.setenv("TOY_MARKS", str(directory))
    return directory


def done(marks):
    return sorted(int(path.name.split("-")[0]) for path in marks.glob("*-*"))


def test_summary_is_json_in_the_order_of_the_jobs():
    found = run([_toy.TOY], quick=True, **QUIET)
    assert list(found) == ["toy"]
    assert found["toy"]["numbers"] == found["toy"]["asked"] == [0, 1, 2]
    assert found["toy"]["nothing"] == [None] * 3
    json.dumps(found, allow_nan=False)


def test_a_quick_run_states_no_conclusions():
    judged = replace(_toy.TOY, verdicts=("norms", "threads"))
    quick, full = (run([judged], quick=quick, **QUIET)["toy"] for quick in (True, False))
    assert quick["norms"] is quick["threads"] is None
    assert quick["numbers"] == [0, 1, 2]
    assert len(full["norms"]) == len(full["threads"]) == 8
    stated = {name: ALL[name].verdicts for name in ALL}
    assert stated == {
        "table1": ("orderings", "closest"),
        "figure1": ("claim",),
        "figure2": ("claim",),
        "table2": (),
        "ablation": ("verdicts",),
        "epochs": ("claim",),
    }


def test_processes_and_order_change_nothing(monkeypatch):
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    reversed_costs = replace(
        _toy.TOY,
        jobs=lambda quick, seed: [{**j, "cost": -j["cost"]} for j in _toy.jobs(quick, seed)],
    )
    alone = run([_toy.TOY], **QUIET)["toy"]
    backwards = run([reversed_costs], **QUIET)["toy"]
    together = run([_toy.TOY], processes=3, progress=False)["toy"]
    assert alone["norms"] == backwards["norms"]
    np.testing.assert_allclose(alone["norms"], together["norms"], rtol=1e-13)
    assert alone["numbers"] == together["numbers"]
    assert alone["threads"] == ["2"] * 8
    assert together["threads"] == ["1"] * 8  # workers, but not this process
    assert os.environ["OPENBLAS_NUM_THREADS"] == "2"


def test_costly_jobs_come_first(marks):
    run([_toy.COUNTED], **QUIET)
    order = sorted(marks.iterdir(), key=lambda path: int(path.name.split("-")[1]))
    assert [int(path.name.split("-")[0]) for path in order] == [2, 5, 1, 4, 7, 0, 3, 6]


def test_a_second_run_does_nothing_again(marks, tmp_path):
    first = run([_toy.COUNTED], cache=tmp_path / "cache", **QUIET)
    assert done(marks) == list(range(8))
    second = run([_toy.COUNTED], cache=tmp_path / "cache", **QUIET)
    assert done(marks) == list(range(8))
    assert first == second


def test_a_stopped_run_continues_where_it_stopped(marks, tmp_path):
    (marks / "interrupt").touch()
    with pytest.raises(Interrupted, match="1 of 8 jobs are done; the same call continues"):
        run([_toy.COUNTED], cache=tmp_path / "cache", **QUIET)
    assert done(marks) == [2, 5]  # the order is by cost: 2 was done, 5 was stopped
    (marks / "interrupt").unlink()
    found = run([_toy.COUNTED], cache=tmp_path / "cache", **QUIET)
    assert done(marks) == [0, 1, 2, 3, 4, 5, 5, 6, 7]
    assert found["counted"]["norms"] == run([_toy.TOY], **QUIET)["toy"]["norms"]


def test_fresh_does_everything_again(marks, tmp_path):
    for _ in range(2):
        run([_toy.COUNTED], quick=True, cache=tmp_path, fresh=True, **QUIET)
    assert done(marks) == [0, 0, 1, 1, 2, 2]


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def emptied(path: Path) -> None:
    path.write_text("")


def not_even_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def another_number(path: Path) -> None:
    entry = json.loads(path.read_text())
    entry["result"]["norm"] += 1.0
    path.write_text(json.dumps(entry))


def another_job(path: Path) -> None:
    entry = json.loads(path.read_text())
    entry["key"]["job"]["seed"] = 1
    path.write_text(json.dumps(entry))


def no_dict(path: Path) -> None:
    path.write_text("[1, 2]")


@pytest.mark.parametrize(
    "spoil", [truncated, emptied, not_even_text, another_number, another_job, no_dict]
)
def test_a_broken_cache_file_is_redone(marks, tmp_path, spoil):
    cache = tmp_path / "cache"
    first = run([_toy.COUNTED], quick=True, cache=cache, **QUIET)
    spoilt = sorted(cache.iterdir())[0]
    number = json.loads(spoilt.read_text())["result"]["number"]
    spoil(spoilt)
    assert run([_toy.COUNTED], quick=True, cache=cache, **QUIET) == first
    assert done(marks) == sorted([0, 1, 2, number])
    assert json.loads(spoilt.read_text())["result"]["number"] == number  # and repaired


def test_results_of_other_code_or_seed_are_not_used(marks, tmp_path, monkeypatch):
    run([_toy.COUNTED], quick=True, cache=tmp_path / "c", **QUIET)
    run([_toy.COUNTED], quick=True, seed=1, cache=tmp_path / "c", **QUIET)
    assert len(done(marks)) == 6
    monkeypatch.setattr(harness, "code_fingerprint", lambda: "other code")
    run([_toy.COUNTED], quick=True, cache=tmp_path / "c", **QUIET)
    assert len(done(marks)) == 9
    monkeypatch.setattr(weakprox, "__version__", "9.9.9")
    run([_toy.COUNTED], quick=True, cache=tmp_path / "c", **QUIET)
    assert len(done(marks)) == 12


def test_the_fingerprint_follows_the_source(tmp_path, monkeypatch):
    (tmp_path / "__init__.py").write_text("x = 1\n")
    monkeypatch.setattr(weakprox, "__file__", str(tmp_path / "__init__.py"))
    before = harness.code_fingerprint.__wrapped__()
    (tmp_path / "__init__.py").write_text("x = 2\n")
    assert harness.code_fingerprint.__wrapped__() != before


@pytest.mark.parametrize("processes", [1, 2])
def test_an_exception_names_the_job(processes, tmp_path):
    with pytest.raises(JobError, match=r"failing, job .*'number': 4.*no such luck") as caught:
        run([_toy.FAILING], processes=processes, cache=tmp_path, progress=False)
    assert caught.value.job["number"] == 4
    assert caught.value.reason == "ZeroDivisionError: no such luck"
    assert any(tmp_path.iterdir())  # what was done before is kept


def test_a_worker_that_dies_names_the_job():
    with pytest.raises(JobError, match=r"dying, job .*'number': 4.*exit code 7"):
        run([_toy.DYING], processes=2, progress=False)


def test_a_result_that_json_cannot_hold_names_the_job():
    odd = replace(_toy.TOY, work=lambda job: {"odd": object()})
    with pytest.raises(JobError, match=r"'number': 2.*object"):
        run([odd], **QUIET)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 42), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_workers_end_with_the_run(marks, sent, code):
    """Ctrl-C reports and stops the workers; killing the parent stops them too."""
    script = (
        "import signal, sys\n"
        "from experiments import _toy\n"
        "from weakprox.experiments import Interrupted, run\n"
        "if __name__ == '__main__':\n"
        # tests that run in the background may have inherited that it is ignored
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    try:\n"
        "        run([_toy.WAITING], processes=2)\n"
        "    except Interrupted as error:\n"
        "        assert (error.done, error.total) == (0, 8)\n"
        "        sys.exit(42)\n"
    )
    path = os.pathsep.join(p for p in sys.path if p)
    parent = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}
    )
    until(lambda: len(list(marks.iterdir())) == 2)
    workers = [int(mark.name.split("-")[1]) for mark in marks.iterdir()]
    parent.send_signal(sent)
    assert parent.wait(300) == code
    until(lambda: not any(alive(worker) for worker in workers))


def until(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"  # a zombie has ended; whoever adopted it may not have noticed


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match="names: got table9"):
        run(["table9"])
    with pytest.raises(InputError, match="every name once"):
        run([_toy.TOY, _toy.TOY])
    with pytest.raises(InputError, match="processes"):
        run([_toy.TOY], processes=0)


def test_the_registry_knows_its_order_and_names():
    assert list(ALL) == ["table1", "figure1", "figure2", "table2", "ablation", "epochs"]
    assert ALL["table1"].name == "table1"
    assert "table9" not in ALL
    with pytest.raises(KeyError):
        ALL["table9"]


def test_streams_differ_by_seed_experiment_and_key():
    draws = {
        stream(name, seed, key).integers(1 << 62)
        for name in ("table1", "figure1")
        for seed in (0, 1)
        for key in (0, 1)
    }
    assert len(draws) == 8


def test_the_display_fills_up(capsys):
    run([_toy.TOY], quick=True, processes=1, progress=True)
    shown = capsys.readouterr()
    assert "A toy" in shown.err
    assert "100 %" in shown.err  # as a line, since there is no terminal
    assert shown.out == ""
