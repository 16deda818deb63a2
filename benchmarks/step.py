"""Cost of one SVRGCG inner step, in units of its necessary passes.

Example 1 (Denoising + L1 + NuclearBall) at m = d = 1000, r = 10. The bare passes are
the products of the thin SVD (timed with the block width the oracle uses, as many as it
took) plus three element-wise passes (z = x + y into a ready buffer). Both sides are timed
in turns within one run, so that a busy machine slows them alike. The steps run with the
threads and the compiled passes of a call of `minimize`, the bare passes with BLAS's own
threads. These spin for a tenth of a second after their work, and threads of ours need some time
to wake up, which does not happen in a run. So a pause and an untimed epoch come in between.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

import numpy as np

import weakprox as wp
from weakprox.linalg._thin_svd import OVERSAMPLE
from weakprox.linalg.arrays import SHARED
from weakprox.linalg.threads import one_thread
from weakprox.metering import Budget, Meter
from weakprox.passes import compiling
from weakprox.run.choose import chosen
from weakprox.solvers.base import Tools

# On a busy machine, `OPENBLAS_NUM_THREADS=1 python benchmarks/step.py --ratio --cpu`.
CLOCK = time.process_time if "--cpu" in sys.argv else time.perf_counter
SPINNING = 0.15  # seconds after which threads of BLAS no longer spin


def instance(d: int, r: int, seed: int = 0) -> tuple[np.ndarray, float, float]:
    """The paper's matrix: M = Y Y' + N with sparse Y; also tau and |Y Y'|_F^2."""
    rng = np.random.default_rng([seed, d, r])
    kept = rng.random((d, r)) < 1 / np.sqrt(d)
    Y = np.where(kept, rng.integers(1, 11, (d, r)), 0).astype(float)
    signal = Y @ Y.T
    M = signal + rng.standard_normal((d, d))
    return M, float(np.trace(signal)), float(np.sum(signal**2))


def prepared(d: int, r: int, inner: int) -> tuple[wp.Problem, wp.SVRGCG, Tools, Meter]:
    """Problem, solver and tools for a few inner steps at the paper's settings."""
    M, tau, size = instance(d, r)
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(2.0), wp.spectral.NuclearBall(tau)
    )
    meter = Meter(Budget())
    tools = Tools(problem, meter, 0.01 * size, 0, lambda candidate: None, chosen)
    solver = wp.SVRGCG(rank=r, mu=0.01 * size / d**2, inner=inner)
    return problem, solver, tools, meter


def bare_passes(d: int, width: int, products: int, rng: np.random.Generator) -> float:
    """Seconds for the thin SVD's products and three element-wise passes."""
    A, B, C = (rng.standard_normal((d, d)) for _ in range(3))
    Q = np.linalg.qr(rng.standard_normal((d, width)))[0]
    begun = CLOCK()
    for k in range(products):
        _ = A @ Q if k % 2 == 0 else A.T @ Q
    for _ in range(3):
        np.add(A, B, out=C)
    return CLOCK() - begun


@contextmanager
def as_in_a_run(entries: int) -> Iterator[None]:
    """Threads and passes as in `minimize`."""
    with one_thread(entries), compiling.passes(compiling.chosen(entries)):
        yield


def measure_time(d: int = 1000, r: int = 10, rounds: int = 15, inner: int = 12) -> float:
    """Print, and return, the ratio of an inner step to its bare passes."""
    problem, solver, tools, meter = prepared(d, r, inner)
    with as_in_a_run(d * d):
        memory = solver.start(problem, None, tools)
        memory = solver.step(problem, memory, tools)  # warm: caches, BLAS threads, basis
    rng = np.random.default_rng(1)
    steps, bare, products = [], [], 2
    for _ in range(rounds):
        time.sleep(SPINNING)
        with as_in_a_run(d * d):
            memory = solver.step(problem, memory, tools)
            before, begun = meter.counts.passes, CLOCK()
            memory = solver.step(problem, memory, tools)
        steps.append((CLOCK() - begun) / inner)
        products = max(1, round((meter.counts.passes - before) / inner))
        repeats = [bare_passes(d, r + OVERSAMPLE, products, rng) for _ in range(3)]
        bare.append(statistics.median(repeats))
    ratio = statistics.median(s / b for s, b in zip(steps, bare, strict=True))
    print(
        f"inner step, d = {d}, r = {r}: {1e3 * statistics.median(steps):.2f} ms; bare passes "
        f"({products} products, 3 element-wise): {1e3 * statistics.median(bare):.2f} ms; "
        f"ratio {ratio:.2f} (bar: 2)"
    )
    return ratio


def measure_spread(processes: int = 11) -> None:
    """Print the ratio over fresh processes: one run can flatter or slander.

    OpenBLAS's helper threads spin between calls by default and slow the passes that run
    on one thread; how much varies from process to process. So three settings are shown.
    """
    settings = {
        "default threads": {},
        "default threads, OPENBLAS_THREAD_TIMEOUT=4": {"OPENBLAS_THREAD_TIMEOUT": "4"},
        "OPENBLAS_NUM_THREADS=1": {"OPENBLAS_NUM_THREADS": "1"},
    }
    print(f"inner step / bare passes, {processes} processes each (bar: 2)")
    for name, variables in settings.items():
        ratios = []
        for _ in range(processes):
            call = [sys.executable, __file__, "--ratio"]
            run = subprocess.run(
                call,
                env={**os.environ, **variables},
                capture_output=True,
                check=True,
                text=True,
            )
            ratios.append(float(run.stdout.split()[-1]))
        print(
            f"  {name}: median {statistics.median(ratios):.2f}, from {min(ratios):.2f} to "
            f"{max(ratios):.2f}, {sum(r > 2 for r in ratios)} above the bar"
        )


def measure_memory(d: int = 1000, r: int = 10) -> None:
    """Print the peak of a whole run in units of one m x d array, the data included."""

    def run(M, tau, size):
        problem = wp.Problem(
            wp.losses.Denoising(M), wp.penalties.L1(2.0), wp.spectral.NuclearBall(tau)
        )
        solver = wp.SVRGCG(rank=r, mu=0.01 * size / d**2, inner=10, epochs=2)
        wp.minimize(problem, solver, eps=0.01 * size, stop_when_certified=False)

    # loads libraries, which are not memory of a run
    if compiling.stored() and find_spec("numba") is not None:
        import_module("weakprox.passes.compiled")
    run(*instance(d, r))
    SHARED.trim(0)
    tracemalloc.start()
    M, tau, size = instance(d, r)
    held = M.nbytes
    tracemalloc.reset_peak()
    base = tracemalloc.get_traced_memory()[0] - held
    run(M, tau, size)
    peak = (tracemalloc.get_traced_memory()[1] - base) / (8.0 * d * d)
    tracemalloc.stop()
    print(f"peak memory of a run, d = {d}: {peak:.2f} m x d arrays, M included (bar: 5)")


if __name__ == "__main__":
    ratio = measure_time()
    if "--ratio" in sys.argv:
        print(ratio)
    else:
        measure_memory()
