"""Part of the soak: runs killed at random moments end as if nothing had happened."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from soak.kill_cases import CASES

import weakprox as wp

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
TESTS = Path(__file__).parent.parent
SOME = ["DavisYin", "LeanSplitting to DavisYin", "SVRGCG, sampled", "SHCGM", "Extragradient"]


def python(*words):
    """A process of its own, from which runs can be forked."""
    places = [str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places), "OPENBLAS_NUM_THREADS": "1"},
    )


CODE = """
import random, sys, tempfile
from pathlib import Path
from soak.kills import Tally, disturbed, main, reference
with tempfile.TemporaryDirectory() as one:
    found = reference("SHCGM", Path(one))
for spoilt in (False, True):
    with tempfile.TemporaryDirectory() as two:
        tally = Tally()
        found.answer["U"] = -found.answer["U"]  # another answer, then the right one again
        if spoilt:
            (Path(two) / "run.safetensors").write_bytes(b"no checkpoint")
        disturbed("SHCGM", found, Path(two), random.Random(0), tally)
        print("noticed", len(tally.failures))
sys.exit(main())
"""


@pytest.fixture(scope="module")
def done():
    """What the soak and its harness say, in one process, which takes seconds to start."""
    only = [word for name in SOME for word in ("--only", name)]
    return python("-c", CODE, "--kills", "3", "--seed", "1", *only)


def test_runs_survive_being_killed(done):
    assert done.returncode == 0, done.stdout + done.stderr
    assert "RESULT kills survived=" in done.stdout
    assert "failures=0" in done.stdout


def test_the_harness_sees_another_answer(done):
    """A run that ends elsewhere is no survivor, nor is one that cannot be resumed."""
    assert done.stdout.splitlines()[:2] == ["noticed 1", "noticed 1"], done.stderr


def test_every_solver_has_a_case():
    named = {type(CASES[name]()[1]).__name__ for name in CASES if "start" not in name}
    chosen = {wp.minimize(CASES["SampleAverage"]()[0], tol=0.1, progress=False).solver}
    public = {name for name in wp.solvers.__all__ if name != "Look"}
    assert public <= named | chosen
