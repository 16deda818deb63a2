"""`weakprox estimate`: every format in and out, honest codes, nothing half-written."""

import json
import re
from importlib import import_module

import numpy as np
import pytest

import weakprox as wp
from weakprox.storage import WRITES, read_matrix, write_matrix

KEYS = {
    *("file", "shape", "lam", "tau", "psd", "solver", "eps", "seed", "status", "reached"),
    *("value", "lower_bound", "gap", "rank", "nonzeros", "violation", "counts", "seconds"),
    *("outputs", "version", "reason"),
}
PROBLEM = ("--lam", "2", "--tau", "100")


def summary_of(done):
    return json.loads(done.stdout, parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize("suffix", WRITES)
def test_every_format_in_and_out(suffix, folder, weakprox, matrix):
    rows = [f"r{i}" for i in range(matrix.shape[0])]
    columns = [f"c{i}" for i in range(matrix.shape[1])]
    write_matrix(f"in{suffix}", matrix, rows, columns)
    done = weakprox("estimate", f"in{suffix}", *PROBLEM, "-o", f"out{suffix}", "--json")
    assert done.exit_code == 0, done.stderr
    found, expected = read_matrix(f"out{suffix}"), read_matrix(f"in{suffix}")
    assert found.shape == matrix.shape
    assert (found.rows, found.columns) == (expected.rows, expected.columns)
    summary = summary_of(done)
    X = found.dense()
    value = 0.5 * np.sum((X - matrix) ** 2) + 2 * np.abs(X).sum()
    assert summary["value"] == pytest.approx(value, rel=1e-9)
    assert np.linalg.norm(X, "nuc") <= 100 * (1 + 1e-9)
    assert np.linalg.matrix_rank(X) == summary["rank"]
    size = np.abs(X)
    assert summary["nonzeros"] == np.count_nonzero(size > 1e-3 * size.max())


def test_the_summary_has_its_keys_and_is_what_is_written(folder, weakprox, matrix):
    done = weakprox(
        "estimate", "m.npy", *PROBLEM, "--json", "--summary", "s.json", "--factors", "f.npz"
    )
    assert done.exit_code == 0
    assert done.stderr == ""
    summary = summary_of(done)
    assert summary == json.loads((folder / "s.json").read_text())
    assert summary.keys() >= KEYS
    assert summary["outputs"] == {"factors": "f.npz", "summary": "s.json"}
    assert summary["version"] == wp.__version__
    assert summary["eps"] == pytest.approx(1e-4 * summary["value"], rel=1e-3)
    assert summary["tol"] == 1e-4
    assert summary["reached"] is True
    assert summary["gap"] == pytest.approx(summary["value"] - summary["lower_bound"])
    assert (summary["lam"], summary["tau"], summary["seed"]) == (2.0, 100.0, 0)
    with np.load("f.npz", allow_pickle=False) as factors:
        X = (factors["U"] * factors["s"]) @ factors["Vt"]
    assert 0.5 * np.sum((X - matrix) ** 2) + 2 * np.abs(X).sum() == pytest.approx(
        summary["value"], rel=1e-9
    )


@pytest.mark.parametrize("name", ["auto", "extragradient", "svrgcg"])
def test_tol_is_that_of_the_library(name, folder, weakprox, matrix):
    words = ("--solver", name, "--tol", 0.01, "-o", "x.npy", "--json")
    summary = summary_of(weakprox("estimate", "m.npy", *PROBLEM, *words))
    problem = wp.Problem(
        wp.losses.Denoising(matrix), wp.penalties.L1(2.0), wp.spectral.NuclearBall(100.0)
    )
    result = wp.minimize(problem, name, tol=0.01, progress=False)
    assert (summary["tol"], summary["eps"]) == (0.01, pytest.approx(result.eps, rel=1e-9))
    np.testing.assert_allclose(np.load("x.npy"), result.X, rtol=1e-9, atol=1e-9)
    done = weakprox("certify", "x.npy", "--data", "m.npy", *PROBLEM, "--tol", 0.02, "--json")
    found = summary_of(done)
    assert (done.exit_code, found["reached"]) == (0, True)
    assert found["eps"] == pytest.approx(0.02 * result.value)


def test_the_answer_is_that_of_the_library(folder, weakprox, matrix):
    weakprox("estimate", "m.npy", *PROBLEM, "--eps", "3", "--rank", "3", "--seed", "5")
    done = weakprox(
        "estimate", "m.npy", *PROBLEM, "--eps", 3, "--rank", 3, "--seed", 5, "-o", "x.npy"
    )
    problem = wp.Problem(
        wp.losses.Denoising(matrix), wp.penalties.L1(2.0), wp.spectral.NuclearBall(100.0)
    )
    expected = wp.minimize(problem, wp.solvers.DavisYin(rank=3), eps=3.0, seed=5)
    np.testing.assert_array_equal(np.load("x.npy"), expected.X)
    assert "certified" in done.stdout
    assert str(expected.certificate) in done.stdout


def test_psd(folder, weakprox, refused, symmetric):
    done = weakprox("estimate", "sym.npy", "--psd", "--lam", 1, "--tau", 150, "-o", "x.npy")
    assert done.exit_code == 0, done.stderr
    X = np.load("x.npy")
    np.testing.assert_allclose(X, X.T, atol=1e-12)
    assert np.linalg.eigvalsh(X).min() > -1e-9
    assert np.trace(X) <= 150 * (1 + 1e-9)
    np.save("skew.npy", symmetric + np.triu(np.ones_like(symmetric)))
    refused("estimate", "skew.npy", "--psd", *PROBLEM, says=("skew.npy", "not symmetric"))
    refused("estimate", "m.npy", "--psd", says=("m.npy", "24 x 18", "square"))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "auto",
            "davisyin",
            "leansplitting",
            "extragradient",
            "Extragradient",
            "svrgcg",
            "scg",
            "scgs",
        ),
        *("storc", "svrf", "fista", "FISTA"),
    ],
)
def test_solvers_by_name(name, folder, weakprox):
    done = weakprox(
        "estimate", "m.npy", *PROBLEM, "--solver", name, "--tol", 0.05, "--json",
        "--max-svds", 400,
    )  # fmt: skip
    assert done.exit_code in (0, 3), done.stderr
    summary = summary_of(done)
    assert summary["solver"].upper() == {"auto": "DAVISYIN"}.get(name, name.upper())
    assert summary["reached"] is (done.exit_code == 0)
    assert summary["lower_bound"] <= summary["value"]


@pytest.mark.parametrize("name", ["davisyin", "extragradient", "svrgcg"])
def test_solvers_keep_to_the_rank(name, folder, weakprox):
    words = ("--solver", name, "--rank", 1, "--max-svds", 40, "-o", "x.npy", "--json")
    done = weakprox("estimate", "m.npy", *PROBLEM, *words)
    assert done.exit_code in (0, 3), done.stderr
    assert summary_of(done)["rank"] <= 1
    assert np.linalg.matrix_rank(np.load("x.npy")) <= 1


def test_the_choice_of_the_solver_is_explained_where_it_was_made(folder, weakprox, matrix):
    problem = wp.Problem(
        wp.losses.Denoising(matrix), wp.penalties.L1(2.0), wp.spectral.NuclearBall(100.0)
    )
    reason = wp.minimize(problem, eps=3.0).reason
    assert reason in weakprox("estimate", "m.npy", *PROBLEM, "--rank", 3).stdout
    assert summary_of(weakprox("estimate", "m.npy", *PROBLEM, "--json"))["reason"] == reason
    named = ("estimate", "m.npy", *PROBLEM, "--solver", "davisyin")
    assert reason not in weakprox(*named).stdout
    assert summary_of(weakprox(*named, "--json"))["reason"] == "it was requested"


@pytest.mark.parametrize("name", ["dualascent", "SampleAverage"])
def test_solvers_that_no_file_is_for_are_refused_with_the_reason(name, refused):
    from weakprox.cli.estimate import ELSEWHERE

    why = ELSEWHERE[name.lower()]
    refused("estimate", "m.npy", *PROBLEM, "--solver", name, says=(name, why, "davisyin"))


def test_the_help_names_every_solver(weakprox):
    from weakprox.cli.estimate import ELSEWHERE
    from weakprox.run.choose import solver_names

    text = weakprox("estimate", "--help").stdout
    for name in solver_names():  # the narrow column cuts the longest one
        assert (name[:17] in text) == (name not in ELSEWHERE)


@pytest.mark.parametrize("name", ["hcgm", "shcgm"])
def test_homotopy_solvers_by_name(name, folder, weakprox):
    done = weakprox("estimate", "m.npy", *PROBLEM, "--solver", name, "--max-svds", 60, "--json")
    assert done.exit_code in (0, 3), done.stderr
    assert summary_of(done)["solver"] == name.upper()


def test_unconfirmed_accuracy_is_code_3_and_is_written(folder, weakprox):
    done = weakprox(
        "estimate", "m.npy", *PROBLEM, "--eps", 1e-7, "--max-svds", 2, "-o", "x.csv"
    )
    assert done.exit_code == 3
    assert "Accuracy not confirmed" in done.stdout
    assert read_matrix("x.csv").shape == (24, 18)


def test_interrupted_is_code_130_and_the_best_point_is_written(folder, weakprox, monkeypatch):
    import weakprox.solvers.paper.svrgcg as module

    real, calls = module.blend_into, []

    def interrupt(*args, **options):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(module, "blend_into", interrupt)
    words = (*PROBLEM, "--eps", 1e-6, "-o", "x.npy", "--solver", "svrgcg")
    done = weakprox("estimate", "m.npy", *words)
    assert done.exit_code == 130
    assert "interrupted" in done.stderr
    assert "x.npy" in done.stdout
    assert np.abs(np.load("x.npy")).max() > 0


def test_interrupted_before_the_first_step_writes_nothing(folder, weakprox, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("weakprox.storage.matrices.read_npy", interrupt)
    done = weakprox("estimate", "m.npy", *PROBLEM, "-o", "x.npy")
    assert (done.exit_code, done.stdout) == (130, "")
    assert sorted(p.name for p in folder.iterdir()) == ["m.npy", "sym.npy"]


def test_quiet(folder, weakprox):
    done = weakprox("estimate", "m.npy", *PROBLEM, "--quiet", "-o", "x.npy")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "x.npy").exists()


def test_a_memory_map_is_read_where_there_is_room_and_left_where_not(
    folder, weakprox, monkeypatch
):
    seen = []
    real = wp.minimize

    def spy(problem, *args, **options):
        seen.append(problem.loss.target)
        return real(problem, *args, **options)

    monkeypatch.setattr(import_module("weakprox.cli.estimate"), "minimize", spy)
    assert weakprox("estimate", "m.npy", *PROBLEM).exit_code == 0
    monkeypatch.setattr("weakprox.cli.case.room", lambda: 0)
    assert weakprox("estimate", "m.npy", *PROBLEM).exit_code == 0
    assert [isinstance(M, np.memmap) for M in seen] == [False, True]


def test_float32_stays_float32(folder, weakprox, matrix):
    np.save("small.npy", matrix.astype(np.float32))
    done = weakprox("estimate", "small.npy", *PROBLEM, "-o", "x.npy", "--json")
    assert done.exit_code == 0, done.stderr
    assert np.load("x.npy").dtype == np.float32
    assert summary_of(done)["dtype"] == "float32"


def test_report(folder, weakprox, matrix):
    rows = [f"gene {i}" for i in range(matrix.shape[0])]
    write_matrix("m.csv", matrix, rows)
    done = weakprox("estimate", "m.csv", *PROBLEM, "--report", "r.html")
    assert done.exit_code == 0, done.stderr
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "gene 3" in page
    assert "<title>m.csv</title>" in page
    assert page.lstrip().lower().startswith("<!doctype html")


def test_the_report_shows_the_matrix_that_is_written(folder, weakprox):
    rng = np.random.default_rng(1)
    noise = 0.3 * rng.standard_normal((20, 16))
    np.save("n.npy", 4 * np.outer(rng.random(20), rng.random(16)) + noise)
    done = weakprox("estimate", "n.npy", "-o", "x.npy", "--report", "r.html", "--json")
    assert done.exit_code == 0, done.stderr
    said = summary_of(done)
    assert said["applied_scale"] > 1.0
    page = (folder / "r.html").read_text(encoding="utf-8")
    block = re.search(r'id="?report-data"?[^>]*>(.*?)</script>', page, re.DOTALL)
    data = json.loads(block.group(1))
    assert data["report"]["scale"] == said["applied_scale"]
    assert data["report"]["settings"]["scale"] == said["applied_scale"]
    assert "eps" not in data["report"]["settings"]  # that of the run is reported
    assert data["report"]["eps"] == said["eps"]
    assert data["report"]["noise"] == said["noise"]
    assert data["report"]["value"] == said["value"]
    cells = next(f["cells"] for f in data["figures"] if f["title"] == "Estimate")
    np.testing.assert_allclose(cells, np.load("x.npy"), rtol=1e-4, atol=1e-12)


def test_header_can_be_said(folder, weakprox):
    (folder / "years.csv").write_text("2001,2002,2003\n1,2,3\n4,5,6\n7,8,10\n")
    for option, rows in ((), 3), (("--header",), 3), (("--no-header",), 4):
        done = weakprox("estimate", "years.csv", "--lam", 0, "--tau", 9, "--json", *option)
        assert summary_of(done)["shape"] == [rows, 3]
        assert ("looks like years" in done.stderr) == (option == ())


def test_names_with_brackets_are_not_markup(folder, weakprox, matrix):
    np.save("[bold]x[red].npy", matrix)
    done = weakprox("estimate", "[bold]x[red].npy", *PROBLEM)
    assert "[bold]x[red].npy" in done.stdout


def test_every_plot_of_the_report_as_a_picture(folder, weakprox, refused):
    (folder / "plots").mkdir()
    words = ("--tol", 0.05, "--report", "r.html", "--figures", "plots", "--json")
    done = weakprox("estimate", "m.npy", *PROBLEM, *words)
    assert done.exit_code == 0, done.stderr
    assert summary_of(done)["outputs"]["figures"] == "plots"
    page = (folder / "r.html").read_text(encoding="utf-8")
    block = re.search(r'id="?report-data"?[^>]*>(.*?)</script>', page, re.DOTALL)
    names = sorted(figure["id"] for figure in json.loads(block.group(1))["figures"])
    found = sorted(path.name for path in (folder / "plots").iterdir())
    assert found == sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg"))


def test_pictures_need_a_report_and_a_directory(folder, refused):
    (folder / "plots").mkdir()
    refused("estimate", "m.npy", *PROBLEM, "--figures", "plots", says=("--figures", "--report"))
    words = ("--report", "r.html", "--figures", "nowhere")
    refused("estimate", "m.npy", *PROBLEM, *words, says=("nowhere", "directory"))
