"""Numbers at the edge of what floats hold, and memory: one line, never a traceback."""

import json
from importlib import import_module

import numpy as np
import pytest

from weakprox.result import Status

PROBLEM = ("--lam", 2, "--tau", 100)


@pytest.mark.parametrize(
    "command",
    [
        ("estimate", "m.npy"),
        ("info", "m.npy", *PROBLEM),
        ("certify", "m.npy", "--data", "m.npy", *PROBLEM),
    ],
)
def test_a_negative_seed(command, refused):
    refused(*command, "--seed", -3, says="--seed")


@pytest.mark.parametrize("lam", [1e150, 1e200, 1e308])
def test_a_lam_that_no_smoothing_fits(lam, refused):
    for command in (("estimate", "m.npy"), ("info", "m.npy")):
        refused(*command, "--lam", lam, "--tau", 5, says=("--lam: got 1e+", "largest entry"))
    point = ("certify", "m.npy", "--data", "m.npy")
    refused(*point, "--lam", lam, "--tau", 5, says="--lam: got 1e+")


def test_an_accuracy_that_no_smoothing_fits(refused):
    refused("estimate", "m.npy", "--lam", 4, "--tau", 80, "--eps", 1e-305, says="--eps: got")
    refused("info", "m.npy", "--lam", 4, "--tau", 80, "--tol", 1e-305, says="--tol: got")


def test_a_large_lam_that_fits_gives_zero(folder, weakprox):
    done = weakprox("estimate", "m.npy", "--lam", 1e6, "--tau", 5, "--max-svds", 50, "--json")
    assert done.exit_code in (0, 3)
    assert json.loads(done.stdout)["lower_bound"] > 0


@pytest.mark.parametrize("size", [1e-200, 1e-149])
def test_numbers_too_small_to_square_are_not_called_zeros(folder, refused, matrix, size):
    np.save("tiny.npy", matrix * size)
    for options in ((), ("--lam", 1e-200, "--tau", 1e-198), ("--eps", 1e-300)):
        refused("estimate", "tiny.npy", *options, says=("tiny.npy", "squares underflow"))


@pytest.mark.parametrize("power", [-400, 450])
def test_lam_and_tau_are_chosen_for_numbers_of_any_size(power, folder, weakprox, matrix):
    unit = 2.0**power
    np.save("other.npy", matrix * unit)
    found = []
    for file in ("m.npy", "other.npy"):
        done = weakprox("estimate", file, "--json")
        assert done.exit_code == 0
        found.append(json.loads(done.stdout))
    for name in ("lam", "tau", "noise"):
        assert found[1][name] == pytest.approx(unit * found[0][name], rel=1e-6)


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e30, np.float32), (1e102, np.float32), (1e200, np.float64), (1e300, np.float64)],
)
def test_a_point_whose_squares_overflow(scale, dtype, folder, matrix, refused, capfd):
    np.save("x.npy", np.full(matrix.shape, scale))
    np.save("data.npy", matrix.astype(dtype))
    refused("certify", "x.npy", "--data", "data.npy", *PROBLEM, says=("x.npy", "overflow"))
    assert capfd.readouterr().out == ""  # LAPACK prints there itself


def test_a_bound_that_is_no_number_is_not_called_proved(folder, weakprox, monkeypatch):
    module = import_module("weakprox.cli.certify")
    monkeypatch.setattr(module, "lower_bound", lambda *args, **options: (np.nan, "exact"))
    command = ("certify", "m.npy", "--data", "m.npy", *PROBLEM, "--max-svds", 0)
    done = weakprox(*command)
    assert done.exit_code == 3
    assert "no lower bound found" in done.stdout
    assert "proved by duality" not in done.stdout
    found = json.loads(weakprox(*command, "--json").stdout)
    assert (found["lower_bound"], found["gap"], found["rests_on"]) == (None, None, None)


def test_ctrl_c_in_the_run_of_certify(folder, weakprox, monkeypatch):
    import weakprox.solvers.davis_yin as module

    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.DavisYin, "step", stop)
    np.save("zero.npy", np.zeros((24, 18)))
    done = weakprox("certify", "zero.npy", "--data", "m.npy", *PROBLEM)
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr == "weakprox: interrupted\n"


def test_a_run_that_does_not_fit_is_refused_with_its_need(folder, monkeypatch, refused):
    size = 24 * 18 * 8
    monkeypatch.setattr("weakprox.storage.table.room", lambda: 2 * size - 1)
    for command in (
        ("estimate", "m.npy", *PROBLEM),
        ("certify", "m.npy", "--data", "m.npy", *PROBLEM),
        ("info", "m.npy"),
    ):
        refused(*command, says=("m.npy", "2 more arrays", "need 6.8 KiB", "at most 6.7 KiB"))


def test_a_run_that_fits_is_done_and_info_tells_what_it_needs(folder, weakprox, monkeypatch):
    monkeypatch.setattr("weakprox.storage.table.room", lambda: 2 * 24 * 18 * 8)
    assert weakprox("estimate", "m.npy", *PROBLEM).exit_code == 0
    monkeypatch.setattr("weakprox.storage.table.room", lambda: 9)
    found = weakprox("info", "m.npy", *PROBLEM, "--json")
    assert json.loads(found.stdout)["predicted"].keys() >= {"bytes", "room"}


def test_two_gigabytes_fit_into_24_gibibytes(monkeypatch, tmp_path):
    from weakprox.cli.case import _check_room
    from weakprox.resources.memory import SHARE
    from weakprox.storage import Table

    monkeypatch.setattr("weakprox.storage.table.room", lambda: int(SHARE * (24 << 30)))
    path = tmp_path / "m.npy"
    mapped = np.lib.format.open_memmap(path, "w+", np.float64, (16000, 16000))  # a sparse file
    for psd in (False, True):
        _check_room(Table(mapped, None, None, path, "npy"), mapped, psd)


def test_advice_names_options():
    from weakprox.cli.console import shown_advice

    assert shown_advice(Status.MAX_SVDS.advice).startswith("Raise --max-svds, or ")
    assert "larger --tol or --eps" in shown_advice(Status.MAX_SECONDS.advice)
    assert "Raise --rank, or leave it out" in shown_advice(Status.RANK_LIMITED.advice)
    assert "a larger --tol or --eps" in shown_advice(Status.FINISHED.advice)
    assert "max_samples" in shown_advice(Status.MAX_SAMPLES.advice)  # no option here


def test_advice_of_a_run_that_ran_out(folder, weakprox):
    done = weakprox("estimate", "m.npy", *PROBLEM, "--max-svds", 1, "--tol", 1e-9)
    assert done.exit_code == 3
    assert "Raise --max-svds" in done.stdout


def test_options_of_the_point_are_named(folder, refused, matrix):
    np.savez("two.npz", a=matrix, b=matrix)
    rest = ("--data", "m.npy", *PROBLEM)
    refused("certify", "two.npz", *rest, says=("a, b", "or --x-key to say which"))
    refused("certify", "m.npy", *rest, "--x-key", "a", says="--x-key: got 'a'")
    (folder / "years.csv").write_text("id,2001\na,1\n")
    refused("certify", "years.csv", *rest, says="--x-header or --no-x-header")
    refused("certify", "m.npy", "--data", "years.csv", *PROBLEM, says="--header, --no-header")


def test_headers_of_both_files_can_be_said(folder, weakprox):
    (folder / "y.csv").write_text("id,2001,2002\na,1,2\nb,3,5\n")
    options = ("--header", "--x-header", "--lam", 0.1, "--tau", 20, "--json")
    done = weakprox("certify", "y.csv", "--data", "y.csv", *options)
    assert json.loads(done.stdout)["shape"] == [2, 2]


def test_what_was_read_as_labels_is_said(folder, weakprox):
    options = ("--lam", 0.1, "--tau", 2)
    for text, says in (
        ("id,u,v\na,1,2\nb,3,5\n", "the first row and first column of the file"),
        ("u,v\n1,2\n3,5\n", "the first row of the file"),
        ("1,2\n3,5\n", None),
    ):
        (folder / "t.csv").write_text(text)
        for command in ("estimate", "info"):
            shown = weakprox(command, "t.csv", *options).stdout
            assert (f"labels     {says}\n" in shown) is (says is not None)
            assert says is not None or "labels" not in shown
            found = json.loads(weakprox(command, "t.csv", *options, "--json").stdout)
            assert found["column_labels"] is (says is not None)
            assert found["row_labels"] is ("id" in text)


def test_a_name_that_is_not_utf8_in_a_report(folder, weakprox, matrix):
    name = b"bad\xff.npy".decode("utf-8", "surrogateescape")
    np.save(name, matrix)
    done = weakprox("estimate", name, *PROBLEM, "--report", "r.html", "--summary", "s.json")
    assert done.exit_code == 0, done.exception
    page = (folder / "r.html").read_text(encoding="utf-8")
    # title, heading and settings of the page; title and settings in the JSON
    assert page.count(r"bad\udcff.npy") == 5


def test_options_without_a_file_to_write(refused):
    refused(
        "estimate", "m.npy", *PROBLEM, "-o", "-", says=("--output: got -", "standard output")
    )
    refused(
        "estimate", "m.npy", *PROBLEM, "--checkpoint-every", 5, says="--checkpoint-every: got 5"
    )
