"""`weakprox compile` leaves compiled passes on disk."""

import os
import subprocess
import sys

import pytest

STORED = """
from weakprox.passes import compiling
print(compiling.stored(), compiling.chosen())
"""


@pytest.mark.long
def test_passes_are_stored_for_later_processes(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "WEAKPROX_COMPILE": "auto"}
    command = [sys.executable, "-m", "weakprox", "compile"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert "compiled" in done.stdout
    command = [sys.executable, "-c", STORED]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_without_numba(weakprox, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    found = weakprox("compile")
    assert found.exit_code == 1
    assert "weakprox[fast]" in found.stderr
