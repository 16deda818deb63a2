"""`weakprox compile`: compile the passes over large arrays now, once for this environment."""

from __future__ import annotations

import os
import time
from itertools import product

import numpy as np
import typer

from weakprox.cli.console import DONE, FAILED
from weakprox.losses import Completion, Denoising, Huber
from weakprox.passes import compiling
from weakprox.penalties import L1, Box, GroupL2
from weakprox.problem import Problem
from weakprox.protocols import Penalty
from weakprox.spectral import NuclearBall, NuclearNorm


def compile_passes() -> None:
    """Compile the passes over large arrays now, instead of during a later run.

    Otherwise, runs on large arrays start with NumPy and compile the passes after several
    seconds. The result is stored on disk, so this is needed once for each environment.
    """
    from weakprox import minimize

    try:
        import numba  # noqa: F401
    except ImportError:
        typer.echo('numba is not installed: pip install "weakprox[fast]"', err=True)
        raise typer.Exit(FAILED) from None
    begun = time.perf_counter()
    rng = np.random.default_rng(0)
    M = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30))
    rows, cols = np.nonzero(rng.random(M.shape) < 0.5)
    os.environ["WEAKPROX_COMPILE"] = "always"
    compiling.COMPILED_FROM = 0  # also for this small matrix
    uneven = rng.random(M.shape)
    penalties: list[Penalty] = [L1(0.1), L1(0.1, 1.0 + uneven), GroupL2(0.1)]
    penalties += [Box(-4.0, 5.0, 4.0), Box(-4.0, 4.0 + uneven, 4.0)]
    for dtype, penalty in product(("float32", "float64"), penalties):
        problem = Problem(Denoising(M.astype(dtype)), penalty, NuclearBall(20.0))
        result = minimize(problem, "lean-splitting", tol=1e-3, progress=False)
        _ = result.proof  # its passes are compiled, too
        if penalty is penalties[0]:
            minimize(problem, "svrgcg", tol=1e-3, max_svds=20, progress=False)
    loss = Completion(rows, cols, M[rows, cols], M.shape, intercepts="both")
    minimize(Problem(loss, None, NuclearNorm(1.0)), progress=False)
    for dtype in ("float32", "float64"):
        robust = Denoising(M.astype(dtype), loss=Huber(0.5))
        minimize(Problem(robust, None, NuclearNorm(1.0)), progress=False)
    compiling.stored.cache_clear()
    kinds = (compiling.DENSE, compiling.ENTRIES, compiling.CELLS)
    if not all(compiling.stored(kind) for kind in kinds):
        typer.echo("numba found no folder to store them in: set NUMBA_CACHE_DIR", err=True)
        raise typer.Exit(FAILED)
    typer.echo(f"The passes are compiled ({time.perf_counter() - begun:.0f} s).")
    raise typer.Exit(DONE)
