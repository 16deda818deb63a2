"""Every example runs when it is copied to an empty folder, as a reader downloads it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import weakprox

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
QUICK = ("first_steps", "plot_04_methods")  # the others take up to a minute
WRITTEN = {"demo": ["demo.png"]}  # files beside the script afterwards; others leave none


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.long)
        for path in EXAMPLES
    ],
)
def test_an_example_runs_in_an_empty_folder(script: Path, tmp_path: Path) -> None:
    shutil.copy(script, tmp_path)
    found = {name: x for name, x in os.environ.items() if name != "PYTHONPATH"}
    # the installed package, and nothing of the repository beside it
    found |= {"PYTHONPATH": str(Path(weakprox.__file__).parents[1]), "MPLBACKEND": "Agg"}
    found["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=tmp_path,
        env=found,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Warning" not in done.stderr
    left = sorted(path.name for path in tmp_path.iterdir() if path.name != script.name)
    assert left == WRITTEN.get(script.stem, [])
