"""Bad files and bad usage: one line on stderr, code 2, nothing written."""

import sys

import numpy as np
import pytest
from bad_files import BAD

OUT = ("-o", "out.npy", "--summary", "s.json", "--factors", "f.npz")


@pytest.mark.parametrize("kind", BAD)
def test_bad_files(kind, folder, refused):
    """By each command in turn: all of them read files by the same function."""
    suffix, make, word = BAD[kind]
    path = folder / f"bad{suffix}"
    path.write_bytes(make())
    commands = (
        ("estimate", path, *OUT),
        ("info", path),
        ("certify", path, "--data", "m.npy", "--lam", 1, "--tau", 1),
        ("certify", "m.npy", "--data", path, "--lam", 1, "--tau", 1),
    )
    command = commands[list(BAD).index(kind) % len(commands)]
    refused(*command, says=(f"{path}: got ", word))


def test_missing_files_and_directories(folder, refused):
    refused("estimate", "none.npy", says=("none.npy", "no such file"))
    refused("estimate", folder, says="directory")
    refused("info", "none.npy", says="no such file")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--eps", 1, "--tol", 1), "--tol"),
        (("--eps", 0), "--eps"),
        (("--tol", "nan"), "--tol"),
        (("--tol", "abc"), "--tol"),
        (("--lam", -1), "--lam"),
        (("--lam", "inf"), "--lam"),
        (("--tau", 0), "--tau"),
        (("--rank", 0), "--rank"),
        (("--rank", 2, "--solver", "fista"), "--rank"),
        (("--solver", "simplex"), "svrgcg"),
        (("--solver", ""), "svrgcg"),
        (("--seed", -1), "--seed"),
        (("--max-svds", -1), "--max-svds"),
        (("--max-seconds", "nan"), "--max-seconds"),
        (("--key", "a"), "--key"),
        (("--nonsense",), "--nonsense"),
        (("-o", "x.xlsx"), ".xlsx"),
        (("-o", "none/x.csv"), "does not exist"),
        (("-o", "m.npy"), "input file itself"),
        (("-o", "./m.npy"), "input file itself"),
        (("-o", "."), "suffix"),
        (("--factors", "f.csv"), ".npz"),
        (("--report", "r.pdf"), ".html"),
        (("--summary", "s.txt"), ".json"),
        (("-o", "a.npz", "--factors", "a.npz"), "same file"),
    ],
)
def test_bad_options(words, says, refused):
    given = {"--lam", "--tau"} - set(words)
    rest = [word for option in sorted(given) for word in (option, 3)]
    refused("estimate", "m.npy", *rest, *words, says=says)


def test_bad_usage(refused):
    refused("estimate", says="Missing argument")
    refused("estimat", "m.npy", says="estimate")
    refused("certify", "m.npy", "--lam", 1, "--tau", 1, says="--data")
    refused("certify", "sym.npy", "--data", "m.npy", "--lam", 1, "--tau", 1, says="24 x 18")


def test_zeros_have_no_relative_accuracy(folder, refused):
    np.save("zero.npy", np.zeros((3, 3)))
    refused("estimate", "zero.npy", "--lam", 1, "--tau", 1, says=("zero.npy", "only zeros"))
    refused("estimate", "zero.npy", says=("zero.npy", "zeros"))


def test_numbers_too_large_to_square_name_the_file(folder, refused):
    np.save("huge.npy", np.full((3, 3), 1e300))
    refused("estimate", "huge.npy", "--lam", 1, "--tau", 1, says=("huge.npy", "overflow"))


def test_parquet_without_pyarrow(folder, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused("estimate", "m.npy", "-o", "x.parquet", says="weakprox[parquet]")


def test_a_failed_write_leaves_nothing_behind(folder, weakprox, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    (folder / "x.csv").write_text("old")
    before = sorted(folder.iterdir())
    monkeypatch.setattr("weakprox.cli.outputs.write_text", full)
    done = weakprox(
        "estimate", "m.npy", "--lam", 2, "--tau", 99, "-o", "x.csv", "--summary", "s.json"
    )
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "weakprox: No space left on device\n"
    assert sorted(folder.iterdir()) == before
    assert (folder / "x.csv").read_text() == "old"


def test_an_unforeseen_error_keeps_its_traceback(folder, weakprox, monkeypatch):
    def broken(*args, **options):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("weakprox.selection.denoise.choose_weights", broken)
    done = weakprox("estimate", "m.npy")
    assert done.exit_code == 1
    assert isinstance(done.exception, ZeroDivisionError)
