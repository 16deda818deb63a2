"""Budgets, estimates and zarr folders on the command line."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import zarr

PROBLEM = ("--lam", 1, "--tau", 500)
CHILD = """
import runpy, sys
from weakprox.resources.memory import peak
sys.argv = ["weakprox", *sys.argv[1:]]
try:
    runpy.run_module("weakprox", run_name="__main__")
except SystemExit:
    pass
print("PEAK", peak(), file=sys.stderr)
"""


def noisy(m, d):
    rng = np.random.default_rng(0)
    Y, Z = (rng.integers(1, 5, (n, 3)) * (rng.random((n, 3)) < 0.1) for n in (m, d))
    return Y @ Z.T + 0.3 * rng.standard_normal((m, d))


def process(*words):
    """What a command prints, and the most memory it held."""
    command = [sys.executable, "-c", CHILD, *(str(word) for word in words)]
    # whether passes are compiled must not change between two commands: numba takes memory
    plain = {**os.environ, "WEAKPROX_COMPILE": "never"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    return done.stdout, int(done.stderr.split("PEAK")[1])


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((600, 500), ()),
        pytest.param((1300, 1200), (), marks=pytest.mark.long),
        pytest.param((2400, 2000), (), marks=pytest.mark.long),
        pytest.param((2400, 2000), ("--max-memory", "130MB"), marks=pytest.mark.long),
    ],
    ids=["small", "middle", "large", "on disk"],
)
def test_info_estimates_the_peak_of_estimate(size, options, tmp_path):
    path = tmp_path / "M.npy"
    np.save(path, noisy(*size))
    found = json.loads(process("info", path, *PROBLEM, *options, "--json")[0])
    shown, peak = process("estimate", path, *PROBLEM, *options)
    assert "certified" in shown
    said = found["predicted"]["bytes"]
    assert said / 1.25 <= peak <= said * 1.25
    if options:
        assert peak <= 130_000_000


def test_a_budget_that_is_none_or_too_small(folder, refused):
    refused("estimate", "m.npy", "--max-memory", "lots", says="--max-memory: got 'lots'")
    refused("info", "m.npy", "--max-memory", 0, says="--max-memory")
    refused(
        "estimate", "m.npy", *PROBLEM, "--max-memory", "1MB", says=("--max-memory", "least")
    )


def test_a_zarr_folder_is_a_matrix(folder, weakprox, matrix):
    made = zarr.create_array(store="m.zarr", shape=matrix.shape, chunks=(7, 18), dtype=float)
    made[:] = matrix
    found, wanted = (
        json.loads(weakprox("estimate", name, *PROBLEM, "--json").stdout)
        for name in ("m.zarr", "m.npy")
    )
    assert found["value"] == wanted["value"]
    assert json.loads(weakprox("info", "m.zarr", "--json").stdout)["format"] == "zarr"


def test_a_zarr_folder_without_room_is_read_in_parts(folder, weakprox, matrix, monkeypatch):
    made = zarr.create_array(store="m.zarr", shape=matrix.shape, chunks=(7, 18), dtype=float)
    made[:] = matrix
    words = ("--tol", 1e-5, "--json")
    wanted = json.loads(weakprox("estimate", "m.npy", *words).stdout)
    monkeypatch.setattr("weakprox.cli.case.room", lambda: 0)
    found = json.loads(weakprox("estimate", "m.zarr", "--max-memory", "8GB", *words).stdout)
    for name in ("lam", "tau", "value"):
        assert found[name] == pytest.approx(wanted[name], rel=1e-3)
