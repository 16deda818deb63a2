"""`weakprox info`, help, version, JSON, and a light start in a process of its own."""

import json
import subprocess
import sys

import numpy as np
import pytest

import weakprox as wp
from weakprox.cli.console import as_json
from weakprox.storage import write_matrix

COMMANDS = ("estimate", "certify", "info", "reproduce")


def process(*words, **options):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "weakprox", *words],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_info_says_what_would_be_run(folder, weakprox, matrix):
    done = weakprox("info", "m.npy", "--lam", 2, "--tau", 100, "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    problem = wp.Problem(
        wp.losses.Denoising(matrix), wp.penalties.L1(2.0), wp.spectral.NuclearBall(100.0)
    )
    expected = wp.theory.parameters(problem, found["eps"])
    assert found["predicted"]["svds"] == expected.predicted_svds
    assert found["parameters"]["beta"] == pytest.approx(expected.beta)
    assert found["memory_mapped"] is True
    assert found["bytes"] == matrix.nbytes
    assert found["norms"]["frobenius"] == pytest.approx(np.linalg.norm(matrix))
    assert found["norms"]["spectral"] == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-6)
    assert found["norms"]["largest_entry"] == pytest.approx(np.abs(matrix).max())
    plain = weakprox("info", "m.npy", "--lam", 2, "--tau", 100)
    assert str(expected).splitlines()[-1].strip() in plain.stdout
    assert found["solver"] == "DavisYin"
    assert f"DavisYin, until a duality gap proves the accuracy: {found['reason']}" in (
        plain.stdout
    )


def test_defaults_follow_their_stated_rule(folder, weakprox, matrix):
    write_matrix("m.csv", matrix, [f"r{i}" for i in range(24)])
    done = weakprox("info", "m.csv", "--json")
    found = json.loads(done.stdout)
    noise = 1.4826 * np.median(np.abs(matrix - np.median(matrix)))
    lam = noise * np.sqrt(2 * np.log(matrix.size))
    above = np.linalg.svd(matrix, compute_uv=False) > noise * (np.sqrt(24) + np.sqrt(18))
    shrunk = np.sign(matrix) * np.maximum(np.abs(matrix) - lam, 0)
    tau = 0.9 * np.linalg.svd(shrunk, compute_uv=False)[: above.sum()].sum()
    assert (found["lam"], found["tau"]) == pytest.approx((lam, tau))
    assert set(found["chosen"]) == {"lam", "tau"}
    assert (found["row_labels"], found["memory_mapped"]) == (True, False)
    plain = weakprox("info", "m.csv").stdout
    assert plain.count("(chosen: ") == 2
    assert "with row and column labels" in plain


def test_defaults_of_a_large_matrix_agree_with_those_of_a_small_one(monkeypatch):
    from weakprox.cli import defaults

    rng = np.random.default_rng(1)
    u, v = (rng.random((150, 3)) < 0.1) * 9.0, (rng.random((120, 3)) < 0.1) * 9.0
    for M, psd in ((u @ v.T + rng.standard_normal((150, 120)), False), (u @ u.T, True)):
        if psd:
            noise = rng.standard_normal(M.shape)
            M = M + (noise + noise.T) / 2
        whole = defaults.choose(M, None, None, psd)
        with monkeypatch.context() as patch:
            patch.setattr(defaults, "FULL_BELOW", 10)
            thin = defaults.choose(M, None, None, psd)
            patch.setattr(defaults, "MOST_ENTRIES", 8000)
            sampled = defaults.choose(M, None, None, psd)
        assert thin.tau == pytest.approx(whole.tau, rel=1e-3)
        assert sampled.noise == pytest.approx(whole.noise, rel=0.1)


def test_json_has_no_nan():
    text = as_json({"a": float("nan"), "b": [np.inf, np.float32(2)], "c": (1, None)})
    assert json.loads(text) == {"a": None, "b": [None, 2.0], "c": [1, None]}


def test_version_and_help(weakprox):
    assert weakprox("--version").stdout == f"weakprox {wp.__version__}\n"
    for words in ((), ("--help",), ("-h",)):
        done = weakprox(*words)
        assert done.exit_code == 0
        for command in COMMANDS:
            assert command in done.stdout
    for command in COMMANDS:
        text = weakprox(command, "--help").stdout
        assert "Exit codes" in text
        assert "130 interrupted" in " ".join(text.split())


def test_help_starts_without_heavy_imports():
    code = (
        "import sys\n"
        "from weakprox.cli import app\n"
        "sys.argv = ['weakprox', '--help']\n"
        "try:\n    app()\nexcept SystemExit:\n    pass\n"
        "heavy = {'matplotlib', 'torch', 'pyarrow', 'pandas', 'scipy.stats', 'scipy.io'}\n"
        "sys.exit(','.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_in_a_process_of_its_own(folder):
    done = process("estimate", "m.npy", "--lam", "2", "--tau", "100", "--json", "-o", "x.mtx")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["reached"] is True
    done = process("estimate", "none.npy")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "weakprox: none.npy: got no such file; wanted one that exists.\n"


def test_a_real_signal_in_a_process_of_its_own(folder):
    code = (
        "import os, signal, sys\n"
        # tests that run in the background may have inherited that it is ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import weakprox.solvers.paper.svrgcg as module\n"
        "from weakprox.cli import main\n"
        "real, calls = module.blend_into, []\n"
        "def step(*args, **options):\n"
        "    calls.append(1)\n"
        "    if len(calls) == 5:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(*args, **options)\n"
        "module.blend_into = step\n"
        "main()"
    )
    words = "estimate m.npy --lam 2 --tau 100 --eps 1e-9 -o x.npy --solver svrgcg"
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "weakprox: interrupted\n")
    assert "interrupted" in done.stdout
    assert np.load("x.npy").shape == (24, 18)
