"""`weakprox reproduce` as a command: JSON, files, refusals, interruption."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from weakprox import __version__, experiments
from weakprox.cli.reproduce import reproduce
from weakprox.experiments import Experiment, Interrupted
from weakprox.report import reproduction

app = typer.Typer()
app.command()(reproduce)


def toy(name):
    def jobs(quick, seed):
        return [{"seed": seed, "k": k} for k in range(1 if quick else 3)]

    def work(job):
        return {"x": float(np.sqrt(job["k"] + job["seed"]))}

    def summarise(jobs, results):
        return {
            "rows": [{"k": j["k"], "x": r["x"]} for j, r in zip(jobs, results, strict=True)]
        }

    return Experiment(name, f"Toy {name}", jobs, work, summarise)


@pytest.fixture
def toys(monkeypatch):
    """Two quick experiments in place of the real ones."""
    found = {name: toy(name) for name in ("first", "second")}
    monkeypatch.setattr(experiments, "ALL", found)
    monkeypatch.setattr(experiments.harness, "ALL", found)


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_one_name_prints_exactly_its_summary(toys, tmp_path):
    done = call("first", "--json", "--out", tmp_path, "--processes", 1, "--seed", 4)
    assert done.exit_code == 0
    printed = json.loads(done.stdout)
    assert printed["rows"] == [{"k": k, "x": np.sqrt(k + 4)} for k in range(3)]
    assert printed["made"] == {"version": __version__, "seed": 4, "quick": False}
    assert json.loads((tmp_path / "first.json").read_text()) == printed
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_several_names_print_a_dict_in_the_papers_order(toys, tmp_path):
    for names in (("second", "first", "second"), ("all",)):
        done = call(*names, "--quick", "--json", "--out", tmp_path, "--processes", 1)
        assert done.exit_code == 0
        assert list(json.loads(done.stdout)) == ["first", "second"]
    assert (tmp_path / "second.json").exists()


def test_the_report_holds_what_was_made_alike_and_nothing_else(toys, tmp_path):
    def held():
        text = (tmp_path / "report.html").read_text(encoding="utf-8")
        block = re.search(r'id="?report-data"?[^>]*>(.*?)</script>', text, re.DOTALL)
        return {name for name in ("first", "second") if name in json.loads(block.group(1))}

    call("first", "--json", "--out", tmp_path, "--processes", 1)
    assert held() == {"first"}
    call("second", "--json", "--out", tmp_path, "--processes", 1)
    assert held() == {"first", "second"}
    call("second", "--json", "--out", tmp_path, "--processes", 1, "--seed", 1)
    assert held() == {"second"}


def test_quick_runs_say_so(toys, tmp_path, monkeypatch):
    monkeypatch.setitem(
        reproduction.MAIN, "first", lambda summary: (["a wide column, wide enough"], [["1"]])
    )
    asked = ["first", "--out", tmp_path, "--processes", 1]
    quick, full = call(*asked, "--quick").stdout, call(*asked).stdout
    assert "Toy first (quick run)" in quick
    assert "no conclusion is drawn" in quick
    assert "Toy first" in full
    assert "quick run" not in full


def test_an_unknown_name_is_refused_before_any_work(toys, tmp_path):
    done = call("third", "--json", "--out", tmp_path / "new")
    assert done.exit_code == 2
    assert "third" in done.stderr
    assert "first, second or all" in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "new").exists()


def test_a_file_in_place_of_the_directory_is_refused(toys, tmp_path):
    (tmp_path / "taken").touch()
    assert call("first", "--json", "--out", tmp_path / "taken").exit_code == 2


def test_finished_jobs_are_kept_unless_fresh(toys, tmp_path, monkeypatch):
    asked = ["first", "--json", "--out", tmp_path, "--processes", 1]
    first = call(*asked).stdout

    def never(job):
        raise AssertionError("done again")

    found = {"first": Experiment("first", "", toy("first").jobs, never, toy("first").summarise)}
    monkeypatch.setattr(experiments.harness, "ALL", found)
    assert call(*asked).stdout == first
    assert call(*asked, "--fresh").exit_code == 1


def test_ctrl_c_says_how_much_is_done(toys, tmp_path, monkeypatch):
    def stopped(*names, **settings):
        raise Interrupted(3, 7, True)

    monkeypatch.setattr(experiments, "run", stopped)
    done = call("first", "--out", tmp_path)
    assert done.exit_code == 130
    assert "3 of 7 jobs are done" in done.stderr
