"""`weakprox complete`."""

import csv
import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from weakprox.storage.long import read_long, write_long


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A folder with ratings.csv, a line without a rating, and m.npy with gaps."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    L = 3 + np.outer(rng.standard_normal(30), rng.standard_normal(20))
    L += 0.3 * rng.standard_normal(L.shape)  # without noise, ever smaller weights are tried
    seen = rng.random(L.shape) < 0.7
    np.save("m.npy", np.where(seen, L, np.nan))
    with open("ratings.csv", "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["who", "film", "stars"])
        lines.writerows([f"p{i}", f"f{j}", L[i, j]] for i, j in np.argwhere(seen))
        i, j = np.argwhere(~seen)[0]
        lines.writerow([f"p{i}", f"f{j}", ""])
    return L, seen


DATA = r'id="report-data">(.*?)</script>'
NAMES = ("--row", "who", "--col", "film", "--value", "stars")


def test_a_long_table_is_predicted_line_by_line(table, weakprox):
    L, seen = table
    done = weakprox(
        "complete", "ratings.csv", *NAMES, "-o", "out.csv", "--report", "r.html", "--json"
    )
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["reached"]
    assert found["shape"] == [30, 20]
    assert found["lower_bound"] <= found["value"]
    with open("out.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == seen.sum() + 1
    i, j = np.argwhere(~seen)[0]
    assert lines[-1]["stars"] == "nan"
    assert abs(float(lines[-1]["prediction"]) - L[i, j]) < np.std(L)
    with open("r.html", encoding="utf-8") as file:
        page = file.read()
    for words in ("<h1>ratings.csv</h1>", "variance explained", "Components", "p0", "f0"):
        assert words in page
    report = json.loads(re.search(DATA, page)[1])["report"]
    assert report["value"] == found["value"]
    assert report["rank"] == found["rank"]
    kinds = [one["title"] for one in json.loads(re.search(DATA, page)[1])["figures"]]
    assert "Residual against fit" in kinds
    assert "Support of the estimate" not in kinds


def test_the_report_of_another_loss_has_no_residuals(table, weakprox):
    M = np.load("m.npy")
    np.save("classes.npy", np.where(np.isnan(M), np.nan, M > 3.0))
    words = ("--loss", "logistic", "--report", "r.html", "--lam", "1")
    done = weakprox("complete", "classes.npy", *words)
    assert done.exit_code == 0, done.stderr
    with open("r.html", encoding="utf-8") as file:
        page = file.read()
    assert "Components" in page
    assert "Residual" not in [
        one["title"] for one in json.loads(re.search(DATA, page)[1])["figures"]
    ]


def test_other_pairs(table, weakprox):
    with open("pairs.csv", "w", encoding="utf-8") as file:
        file.write("who,film\np1,f2\nnobody,f3\n")
    done = weakprox(
        "complete",
        "ratings.csv",
        *NAMES,
        "--pairs",
        "pairs.csv",
        "-o",
        "p.parquet",
        "--lam",
        "2",
    )
    assert done.exit_code == 0, done.stderr
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table("p.parquet").column_names == ["who", "film", "prediction"]


def test_gaps_of_a_matrix_are_filled(table, weakprox):
    L, seen = table
    done = weakprox("complete", "m.npy", "-o", "filled.npy", "--lam", "2", "--quiet")
    assert done.exit_code == 0, done.stderr
    filled = np.load("filled.npy")
    np.testing.assert_array_equal(filled[seen], L[seen])
    assert np.isfinite(filled).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("ratings.csv", "--row", "who"), "--col"),
        (("ratings.csv", *NAMES[:-1], "price"), "price"),
        (("ratings.csv", *NAMES, "--loss", "cubic"), "loss"),
        (("ratings.csv", *NAMES, "-o", "ratings.csv"), "input"),
        (("ratings.csv", *NAMES, "-o", "out.xlsx"), "suffix"),
        (("m.npy", "--pairs", "ratings.csv"), "pairs"),
        (("nothing.csv", *NAMES), "no such file"),
    ],
)
def test_mistakes_are_named_before_any_work(table, weakprox, options, word):
    done = weakprox("complete", *options)
    assert done.exit_code == 2
    assert word in done.stderr


@pytest.mark.parametrize("name", ["gaps.csv", "gaps.npy"])
def test_estimate_points_from_missing_entries_to_complete(weakprox, tmp_path, name):
    M = np.arange(12.0).reshape(4, 3)
    M[1, 1] = np.nan
    file = tmp_path / name
    np.save(file, M) if name.endswith("npy") else np.savetxt(file, M, delimiter=",")
    refused = weakprox("estimate", str(file))
    assert refused.exit_code == 2
    assert "weakprox complete" in refused.stderr
    assert weakprox("complete", str(file)).exit_code == 0


@pytest.mark.parametrize("name", ["s.mtx", "s.npz"])
def test_stored_entries_of_a_sparse_file_are_the_observations(name, table, weakprox):
    L, seen = table
    rows, cols = np.nonzero(seen)
    values = L[seen]
    values[0] = 0.0  # stored, so observed
    S = scipy.sparse.coo_array((values, (rows, cols)), L.shape)
    if name.endswith("mtx"):
        scipy.io.mmwrite(name, S)
    else:
        scipy.sparse.save_npz(name, S)
    M = np.where(seen, L, np.nan)
    M[rows[0], cols[0]] = 0.0
    np.save("dense.npy", M)
    found = []
    for file in (name, "dense.npy"):
        done = weakprox("complete", file, "-o", "out.npy", "--report", "r.html", "--json")
        assert done.exit_code == 0, done.stderr
        found.append((json.loads(done.stdout)["value"], np.load("out.npy")))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)
    assert found[0][1][rows[0], cols[0]] == 0.0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*NAMES, "--pairs", "pairs.csv", "-o", "pairs.csv"), "the input file itself"),
        (("--row", "who", "--col", "who", "--value", "stars"), "--col: got 'who'"),
        (("--row", "who", "--col", "film", "--value", "film"), "--value: got 'film'"),
        ((*NAMES, "--no-header"), "--no-header: got a long table"),
        ((*NAMES, "--index-col", 1), "--index-col: got a long table"),
        ((*NAMES, "--key", "Sheet 1"), "--key: got a long table"),
        ((*NAMES, "--loss", "logistic"), "ratings.csv: got"),
    ],
)
def test_what_does_not_fit_a_long_table(words, says, table, refused):
    with open("pairs.csv", "w", encoding="utf-8") as file:
        file.write("who,film\np1,f2\n")
    refused("complete", "ratings.csv", *words, says=says)


def test_observations_are_not_replaced_by_predictions(table, refused):
    with open("ratings.csv", encoding="utf-8") as file:
        lines = file.read().replace("stars", "prediction")
    with open("named.csv", "w", encoding="utf-8") as file:
        file.write(lines)
    names = (*NAMES[:-1], "prediction")
    refused("complete", "named.csv", *names, "-o", "out.csv", says="--value: got 'prediction'")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_long_table_from_standard_input(suffix, table, weakprox, monkeypatch):
    file = Path("ratings.csv")
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        file = Path("ratings.parquet")
        write_long(file, read_long("ratings.csv", NAMES[1::2], ("stars",)))
    stdin = SimpleNamespace(buffer=io.BytesIO(file.read_bytes()))
    monkeypatch.setattr("weakprox.cli.reading.sys", SimpleNamespace(stdin=stdin))
    done = weakprox("complete", "-", *NAMES, "--lam", "2", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["shape"] == [30, 20]
    stdin.buffer = io.BytesIO(b"who,film\na,b\n")
    assert "standard input: got no column 'stars'" in weakprox("complete", "-", *NAMES).stderr
