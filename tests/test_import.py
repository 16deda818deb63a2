"""`import weakprox` is light: nothing that only some users need comes with it."""

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "dask",
    "distributed",
    "sklearn",
    "pandas",
    "matplotlib",
    "typer",
    "numba",
    "safetensors",
    "zarr",
    "rich",
    "scipy.optimize",
    "scipy.integrate",
    "scipy.stats",
)
# Packages of weakprox that are loaded on first use.
LATER = ("plots", "proofs", "selection", "storage.matrices", "verifier")
SHOW = "import sys; print('\\n'.join(sys.modules))"


def modules_after(call: str) -> set[str]:
    """Names of all modules that a fresh interpreter has loaded after a call."""
    run = subprocess.run(
        [sys.executable, "-c", f"{call}; {SHOW}"], capture_output=True, check=True, text=True
    )
    return set(run.stdout.split())


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return modules_after("import weakprox")


def test_the_library_is_there(loaded):
    assert {"weakprox._minimize", "numpy", "scipy.sparse.linalg"} <= loaded


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_libraries_stay_out(loaded, name):
    assert name not in loaded


@pytest.mark.parametrize("name", LATER)
def test_some_packages_are_loaded_on_first_use(loaded, name):
    assert f"weakprox.{name}" not in loaded


def test_they_are_found_on_first_use():
    calls = ("plots", "proofs", "selection", "verifier", "Verdict", "verify", "Proof")
    found = modules_after(f"import weakprox as wp; {'; '.join(f'wp.{name}' for name in calls)}")
    assert {f"weakprox.{name}" for name in calls[:4]} <= found


def test_they_would_be_seen():
    assert "matplotlib" in modules_after("import weakprox, matplotlib")
