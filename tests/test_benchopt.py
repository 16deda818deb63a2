"""The benchmark in benchopt's form: its own checks pass, and a run ends with true figures."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.long  # of a benchmark, not of the library
ROOT = Path(__file__).parents[1]
BENCHMARK = ROOT / "benchmarks" / "benchopt"
SOLVERS = ("weakprox", "ADMM[svd=partial,rho=30.0]", "CVXPY-SCS")


def benchopt(*arguments, **settings):
    """Run benchopt as a user does, from the repository's root."""
    call = [sys.executable, "-m", "benchopt", *arguments]
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": here} | settings  # benchopt calls "python" itself
    run = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, (run.stdout + run.stderr)[-3000:]
    return run.stdout


def test_benchopts_own_checks(tmp_path):
    # its tests lie in .venv, below our settings for pytest, which are not for them
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    plain = f"-c {tmp_path / 'pytest.ini'}"
    said = benchopt(
        *("test", str(BENCHMARK), "--skip-install"),  # installing would need conda
        PYTEST_ADDOPTS=plain,
    )
    assert "38 passed, 10 skipped" in said


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The table of a small run."""
    out = tmp_path_factory.mktemp("benchopt") / "run.parquet"
    chosen = [part for name in SOLVERS for part in ("-s", name)]
    data = "simulated[d=30,r=2,factor=0.9]"
    limits = ["-r", "1", "-n", "60", "--timeout", "30", "--no-cache"]
    quiet = ["--no-plot", "--no-html", "--output", str(out)]
    benchopt("run", str(BENCHMARK), "-d", data, *chosen, *limits, *quiet)
    return pd.read_parquet(out)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_kind_of_solver_reaches_the_gap(found, name):
    kind = name.split("[")[0]
    curve = found[found.solver_name.str.split("[").str[0] == kind]
    last = curve.iloc[-1]
    assert last.objective_gap <= 1e-6
    assert 0.0 <= last.objective_suboptimality <= last.objective_gap
    assert np.isfinite(curve.objective_value).all()


def test_values_are_of_feasible_points(found):
    """No solver gains by leaving the ball: nobody's value is below the dual bound."""
    assert (found.objective_gap >= 0.0).all()
    assert found.objective_infeasibility.max() > 1e-6  # loose answers of SCS lie outside
