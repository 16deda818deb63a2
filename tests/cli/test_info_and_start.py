"""`weakprox info`, help, version, JSON, and a light start in a process of its own."""

import json
import subprocess
import sys
from functools import partial

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


@pytest.mark.parametrize(
    ("command", "given"), [("info", ()), ("info", ("--lam", 1.5)), ("estimate", ("--lam", 1.5))]
)
def test_lam_and_tau_are_chosen_as_in_python(command, given, folder, weakprox, matrix):
    write_matrix("m.csv", matrix, [f"r{i}" for i in range(24)])
    model = wp.SparseLowRank(*given[1:], random_state=3).fit(matrix)
    done = weakprox(command, "m.csv", "--seed", 3, "--json", *given)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["lam"], found["tau"]) == pytest.approx((model.lam_, model.tau_))
    assert (found["noise"], found["scale"]) == pytest.approx((model.noise_, model.scale_))
    assert list(found["chosen"]) == (["tau"] if given else ["lam", "tau"])


def test_info_says_how_settings_were_chosen(folder, weakprox, matrix):
    write_matrix("m.csv", matrix[:12, :10], [f"r{i}" for i in range(12)])
    for given, count in (((), 2), (("--lam", 1.5), 1)):
        plain = weakprox("info", "m.csv", *given).stdout
        assert plain.count("chosen by held-out data") == count
        assert "with row and column labels" in plain


def test_the_choice_for_psd_matrices(folder, weakprox, symmetric):
    model = wp.SparseLowRank(psd=True, random_state=0).fit(symmetric)
    found = json.loads(weakprox("info", "sym.npy", "--psd", "--json").stdout)
    assert (found["lam"], found["tau"]) == pytest.approx((model.lam_, model.tau_))


@pytest.mark.parametrize("psd", [False, True])
def test_the_choice_without_room_for_copies_is_similar(psd, monkeypatch):
    from weakprox.selection import denoise as module

    rng = np.random.default_rng(1)
    u, v = ((rng.random((n, 3)) < 0.3) * 5.0 for n in (150, 120))
    M = (u @ u.T if psd else u @ v.T) + rng.standard_normal((150, 150 if psd else 120))
    M = (M + M.T) / 2**0.5 if psd else M
    chosen = partial(module.choose_weights, M, max_seconds=None, psd=psd)
    noise, whole = chosen(None, None)
    monkeypatch.setattr(module, "room", lambda: 0)
    assert chosen(None, None)[1].tau == whole.tau  # it is not large
    monkeypatch.setattr(module, "SAMPLE", 8000)
    other, part = chosen(None, None)
    assert other == pytest.approx(noise, rel=0.15)
    assert part.lam == pytest.approx(whole.lam, rel=1.0)
    assert part.tau == pytest.approx(whole.tau, rel=0.3)
    assert chosen(1.0, 300.0)[1].tau == 300.0


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
