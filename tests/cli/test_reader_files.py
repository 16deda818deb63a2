"""The reader's own files: dialects, standard input, doubts, imputation, the certify line."""

import io
import json
import shlex
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from weakprox.cli.reading import stored
from weakprox.storage import read_matrix


def certified(weakprox, done, output):
    """The certify command that `estimate` stored beside its output, run as it stands."""
    command = Path(f"{output}.certify.sh").read_text().strip()
    assert command in done.stdout
    program, *words = shlex.split(command)
    assert program == "weakprox"
    return weakprox(*words, "--json")


@pytest.mark.parametrize("name", ["found.csv", "found.npy", "with space.csv"])
@pytest.mark.parametrize("options", [(), ("--lam", 2, "--tau", 100), ("--no-debias",)])
def test_the_printed_certify_line_confirms_the_answer(folder, weakprox, name, options):
    done = weakprox("estimate", "m.npy", "-o", name, *options)
    assert done.exit_code == 0
    again = certified(weakprox, done, name)
    assert again.exit_code == 0, again.stdout
    assert json.loads(again.stdout)["reached"] is True


def test_the_certify_line_repeats_how_the_file_was_read(folder, weakprox, matrix):
    lines = [
        ";".join([f"r{i}", *(str(x).replace(".", ",") for x in row)])
        for i, row in enumerate(matrix)
    ]
    (folder / "m.csv").write_text("\n".join(lines) + "\n")
    layout = ("--sep", ";", "--decimal", ",", "--index-col", "1")
    done = weakprox("estimate", "m.csv", *layout, "-o", "x.csv")
    assert done.exit_code == 0
    assert certified(weakprox, done, "x.csv").exit_code == 0
    assert read_matrix("x.csv").rows == tuple(f"r{i}" for i in range(len(matrix)))


def test_the_certify_line_of_a_psd_matrix(folder, weakprox):
    done = weakprox("estimate", "sym.npy", "--psd", "-o", "x.npy")
    assert done.exit_code == 0
    assert certified(weakprox, done, "x.npy").exit_code == 0


def test_what_was_detected_is_said(folder, weakprox, matrix):
    text = "\n".join(";".join(str(x).replace(".", ",") for x in row) for row in matrix)
    (folder / "m.csv").write_text(text + "\n")
    done = weakprox("info", "m.csv", "--lam", 2, "--tau", 100)
    assert "cells separated by semicolons, decimal commas" in done.stdout
    assert done.stderr == ""


def test_doubts_go_to_stderr(folder, weakprox, matrix):
    numbered = np.column_stack([np.arange(1, len(matrix) + 1), matrix])
    np.savetxt("m.csv", numbered, delimiter=",")
    problem = ("--lam", 2, "--tau", 100)
    assert "--index-col 1" in weakprox("info", "m.csv", *problem).stderr
    for word in (("--index-col", 1), ("--no-index",)):
        assert weakprox("info", "m.csv", *problem, *word).stderr == ""


def test_both_words_about_the_index_are_too_many(refused):
    np.savetxt("m.csv", np.eye(3), delimiter=",")
    refused("info", "m.csv", "--index-col", 1, "--no-index", says="--index-col")


@pytest.mark.parametrize("suffix", ["csv", "npy"])
def test_standard_input(folder, weakprox, matrix, monkeypatch, suffix):
    held = io.BytesIO()
    if suffix == "npy":
        np.save(held, matrix)
    else:
        np.savetxt(held, matrix, delimiter=";")
    stdin = SimpleNamespace(buffer=io.BytesIO(held.getvalue()))
    monkeypatch.setattr("weakprox.cli.reading.sys", SimpleNamespace(stdin=stdin))
    done = weakprox("estimate", "-", "--lam", 2, "--tau", 100, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["file"], found["shape"]) == ("-", list(matrix.shape))
    stdin.buffer = io.BytesIO(b"a,b\n1,x\n")
    done = weakprox("info", "-")
    assert done.exit_code == 2
    assert "standard input: got" in done.stderr
    stdin.buffer = io.BytesIO(b"")
    assert "nothing" in weakprox("info", "-").stderr


@pytest.mark.parametrize(
    ("part", "suffix"),
    [("[Content_Types].xml", ".xlsx"), ("mimetype", ".ods"), ("M.npy", ".npz")],
)
def test_the_kind_of_an_archive_on_standard_input(part, suffix, monkeypatch):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(part, b"")
    stdin = SimpleNamespace(buffer=io.BytesIO(held.getvalue()))
    monkeypatch.setattr("weakprox.cli.reading.sys", SimpleNamespace(stdin=stdin))
    assert stored().suffix == suffix


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_missing_entries_lead_to_impute_and_complete(suffix, folder, weakprox):
    frame = pd.DataFrame({"a": [1.0, 3.0], "b": [None, 4.0], "c": [2.0, 5.0]})
    (frame.to_csv if suffix == ".csv" else frame.to_parquet)(f"m{suffix}", index=False)
    done = weakprox("estimate", f"m{suffix}")
    assert done.exit_code == 2
    assert "weakprox impute" in done.stderr
    assert "weakprox complete" in done.stderr


def test_impute_fills_what_is_missing_and_keeps_the_rest(folder, weakprox):
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 12))
    seen = np.where(rng.random(truth.shape) < 0.8, truth, np.nan)
    lines = [",".join(["", *(f"c{j}" for j in range(12))])]
    for i, row in enumerate(seen):
        lines.append(
            ",".join([f"r{i}", *("NA" if np.isnan(x) else repr(float(x)) for x in row)])
        )
    (folder / "m.csv").write_text("\n".join(lines) + "\n")
    done = weakprox("impute", "m.csv", "-o", "filled.csv", "--json")
    assert done.exit_code == 0, done.stderr
    found, summary = read_matrix("filled.csv"), json.loads(done.stdout)
    gone = np.isnan(seen)
    assert summary["missing"] == gone.sum()
    assert summary["reached"] is True
    assert set(summary["weights"]) == {"low-rank", "conditional", "neighbours"}
    np.testing.assert_array_equal(found.dense()[~gone], truth[~gone])
    error = np.mean((found.dense() - truth)[gone] ** 2)
    assert error < 0.2 * np.mean(truth[gone] ** 2)
    assert (found.rows[0], found.columns[0]) == ("r0", "c0")
    done = weakprox("impute", "m.csv", "--report", "r.html")
    assert "now filled" in done.stdout
    page = (folder / "r.html").read_text("utf-8")
    assert f"{gone.sum()} of 360 entries" in page
    assert "<h1>m.csv</h1>" in page


def test_impute_needs_something_missing_and_something_there(refused, folder):
    np.savetxt("m.csv", np.eye(3), delimiter=",")
    refused("impute", "m.csv", says="no missing entry")
    (folder / "m.csv").write_text("NA,NA\nNA,NA\n")
    refused("impute", "m.csv", says="no number at all")
