"""Time per iteration on dask arrays of growing height, and a prediction for larger ones.

Run from the root of the repository: `python benchmarks/scaling.py`, or with other numbers
of rows. It starts a cluster of two worker processes with one thread each, solves sparse
low-rank matrices of 2,000 columns under noise to a proved accuracy of 1e-4, compares one
chunk with the NumPy path, fits a cost model and writes docs/_static/scaling.{json,inc}.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

import weakprox as wp
from weakprox.distributed.blocked import block_rows
from weakprox.distributed.engine import FAN_IN
from weakprox.solvers import LeanSplitting

ROWS = (25_000, 50_000, 100_000, 200_000)
COLUMNS, RANK, NOISE, LAM, SHARE = 2_000, 6, 0.3, 0.8, 0.8
CHUNK = 4_000  # rows that the dask array is made in; the library makes its own of them
TOL = 1e-4
STATIC = Path(__file__).resolve().parents[1] / "docs" / "_static"
WIDTH = 16  # columns of the narrow blocks (`weakprox.solvers.davis_yin.FIRST_WIDTH`)
PASSES = 3  # trips to the workers of one iteration: z'U, z V, and the next z
NARROW = 3  # blocks with m rows that those send or fetch
TOUCHED = 5  # arrays of the size of z that a worker reads or writes for them
ARRAYS = 2  # C and z
RUNS = 2
# ten gigabits a second, and a square matrix, whose narrow blocks fit in one process
LARGE = {"rows": 1_000_000, "columns": 1_000_000, "workers": 64, "bandwidth": 1.25e9}


def left(first: int, rows: int) -> Any:
    """Rows of the left factor: sparse, and the same wherever they are made."""
    rng = np.random.default_rng([1, first])
    return 3.0 * rng.standard_normal((rows, RANK)) * (rng.random((rows, RANK)) < 0.1)


def right() -> Any:
    """The right factor."""
    rng = np.random.default_rng(2)
    return 3.0 * rng.standard_normal((RANK, COLUMNS)) * (rng.random((RANK, COLUMNS)) < 0.1)


def block(first: int, rows: int) -> Any:
    """Rows of the noisy matrix."""
    noise = np.random.default_rng([3, first]).standard_normal((rows, COLUMNS))
    return left(first, rows) @ right() + NOISE * noise


def chunks(rows: int) -> list[tuple[int, int]]:
    return [(i, min(CHUNK, rows - i)) for i in range(0, rows, CHUNK)]


def radius(rows: int) -> float:
    """A share of the nuclear norm of the matrix without noise, from its factors."""
    U = np.concatenate([left(*chunk) for chunk in chunks(rows)])
    R = np.linalg.qr(U)[1] @ right()
    return SHARE * float(np.linalg.svd(R, compute_uv=False).sum())


def stack(rows: int) -> Any:
    """The noisy matrix as a dask array whose chunks are made on the workers."""
    import dask
    import dask.array as da

    made = [dask.delayed(block)(*chunk) for chunk in chunks(rows)]
    parts = [
        da.from_delayed(part, (size, COLUMNS), dtype=float)
        for part, (_, size) in zip(made, chunks(rows), strict=True)
    ]
    return da.concatenate(parts)


def solve(M: Any, rows: int) -> dict[str, Any]:
    """Solve it, and say how long an iteration took."""
    begun = time.perf_counter()
    loss = wp.losses.Denoising(M)
    placed = time.perf_counter() - begun
    problem = wp.Problem(loss, wp.penalties.L1(LAM), wp.spectral.NuclearBall(radius(rows)))
    begun = time.perf_counter()
    result = wp.minimize(problem, LeanSplitting(), tol=TOL, progress=False)
    wall = time.perf_counter() - begun
    return {
        "rows": rows,
        "columns": COLUMNS,
        "gigabytes": 8e-9 * rows * COLUMNS,
        "certified": bool(result.certified),
        "relative_gap": result.gap / abs(result.value),
        "rank": result.rank,
        "iterations": result.counts.svds,
        "placing": placed,
        "seconds": wall,
        "per_iteration": wall / result.counts.svds,
        "value": result.value,
    }


def one_chunk(rows: int) -> dict[str, Any]:
    """The same matrix as one NumPy array here, and as one chunk on one worker."""
    from distributed import Client, LocalCluster

    M = np.concatenate([block(*chunk) for chunk in chunks(rows)])
    here, there = [], []
    with LocalCluster(**workers(1)) as cluster, Client(cluster):
        array = stack(rows).rechunk((rows, COLUMNS)).persist()
        for _ in range(RUNS):  # in turns, since other work comes and goes
            here.append(solve(M, rows))
            there.append(solve(array, rows))
    here, there = (min(runs, key=lambda run: run["seconds"]) for runs in (here, there))
    return {
        "rows": rows,
        "runs": RUNS,
        "numpy": here["per_iteration"],
        "dask": there["per_iteration"],
        "ratio": there["per_iteration"] / here["per_iteration"],
        "difference": abs(there["value"] - here["value"]) / abs(here["value"]),
    }


def workers(count: int) -> dict[str, Any]:
    """Settings of a cluster of processes with one thread each."""
    return {
        "n_workers": count,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": ":0",
        "memory_limit": 0,
    }


def fit(measured: list[dict[str, Any]], count: int) -> dict[str, float]:
    """Seconds of an iteration = fixed + per entry and worker; least squares, both >= 0."""
    x = np.array([one["rows"] * one["columns"] / count for one in measured])
    y = np.array([one["per_iteration"] for one in measured])
    weights = 1.0 / y  # relative errors count
    A = np.stack([np.ones_like(x), x], axis=1) * weights[:, None]
    fixed, slope = np.linalg.lstsq(A, y * weights, rcond=None)[0]
    if fixed < 0.0:
        fixed, slope = 0.0, float((x * y * weights**2).sum() / (x * x * weights**2).sum())
    return {
        "fixed": float(fixed),
        "per_entry": float(slope),
        "worst_error": float(np.max(np.abs((fixed + slope * x) / y - 1.0))),
        "exponent": float(np.polyfit(np.log(x), np.log(y), 1)[0]),
    }


def predicted(model: dict[str, float], case: dict[str, Any]) -> dict[str, float]:
    """What an iteration costs elsewhere: work, bytes on the network, and depth of sums."""
    m, d, count = case["rows"], case["columns"], case["workers"]
    blocks = -(-m // block_rows((m, d), np.float64))
    depth = max(1, math.ceil(math.log(blocks) / math.log(FAN_IN)))
    client = 8.0 * WIDTH * (NARROW * m + PASSES * d)
    tree = 8.0 * WIDTH * d * (PASSES + depth)  # V comes in, what is summed goes up
    work = model["per_entry"] * m * d / count
    network = (client + tree) / case["bandwidth"]
    return {
        "blocks": blocks,
        "depth": depth,
        "memory_per_worker": ARRAYS * 8.0 * m * d / count,
        "read_per_worker": TOUCHED * 8.0 * m * d / count,
        "through_client": client,
        "through_worker": tree,
        "work": work,
        "network": network,
        "seconds": model["fixed"] + work + network,
    }


def table(found: dict[str, Any]) -> str:
    """The figures as Markdown, for docs/scaling.md."""
    model, far, large = found["model"], found["predicted"], found["large"]
    single, machine = found["one_chunk"], found["machine"]
    lines = [
        f"Measured by `python benchmarks/scaling.py` on {machine['date']}: "
        f"{machine['workers']} worker processes with one thread each, {machine['cores']} cores "
        f"shared with other work (load {machine['load']:.1f} at the start), Python "
        f"{machine['python']}, NumPy {machine['numpy']}, dask {machine['dask']}, float64.",
        "",
        "| Rows | Columns | GB | Iterations | Seconds per iteration | per million rows "
        "| Gap / value | Certified |",
        "| --: | --: | --: | --: | --: | --: | --: | :-- |",
    ]
    for one in found["measured"]:
        lines.append(
            f"| {one['rows']:,} | {one['columns']:,} | {one['gigabytes']:.1f} "
            f"| {one['iterations']} | {one['per_iteration']:.2f} "
            f"| {1e6 * one['per_iteration'] / one['rows']:.0f} | {one['relative_gap']:.1e} "
            f"| {'yes' if one['certified'] else 'no'} |"
        )
    lines += [
        "",
        f"Time per iteration grows like rows to the power {model['exponent']:.2f}. Fitted: "
        f"{model['fixed']:.2f} s + {1e9 * model['per_entry']:.2f} ns for each entry that a "
        f"worker holds, wrong by at most {100 * model['worst_error']:.0f} % on these.",
        "",
        f"One chunk of {single['rows']:,} x {COLUMNS:,} on one worker against the NumPy path "
        f"in one process, shortest of {single['runs']} each, one after the other: "
        f"{single['dask']:.2f} s against {single['numpy']:.2f} s per iteration, "
        f"**{single['ratio']:.2f} times** as long. The values differ by "
        f"{single['difference']:.0e} of their size.",
        "",
        f"Extrapolated to {large['rows']:,} x {large['columns']:,} "
        f"({large['rows'] * large['columns']:.0e} entries) on {large['workers']} workers:",
        "",
        "| | per iteration |",
        "| :-- | --: |",
        f"| blocks of rows, and depth of sums | {far['blocks']:,}, {far['depth']} |",
        f"| memory for M and z, each worker | {far['memory_per_worker'] / 1e9:,.0f} GB |",
        f"| memory traffic, each worker | {far['read_per_worker'] / 1e9:,.0f} GB |",
        f"| network, through the client | {far['through_client'] / 1e9:.2f} GB |",
        f"| network, through each worker | {far['through_worker'] / 1e9:.2f} GB |",
        f"| time for the work | {far['work']:,.0f} s |",
        f"| time for the network, at {large['bandwidth'] / 1e9:.2f} GB/s "
        f"| {far['network']:.1f} s |",
        f"| **in all** | **{far['seconds']:,.0f} s** |",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, fit, extrapolate, and write the figures for the documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=list(ROWS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=STATIC)
    given = parser.parse_args()
    import dask
    from distributed import Client, LocalCluster

    machine = {
        "date": time.strftime("%Y-%m-%d"),
        "workers": given.workers,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "dask": dask.__version__,
    }
    single = one_chunk(given.rows[0])
    print(json.dumps(single), flush=True)
    measured = []
    with LocalCluster(**workers(given.workers)) as cluster, Client(cluster):
        solve(stack(CHUNK), CHUNK)  # workers import and compile: not part of an iteration
        for rows in given.rows:
            measured.append(solve(stack(rows), rows))
            print(json.dumps(measured[-1]), flush=True)
    model = fit(measured, given.workers)
    found = {
        "machine": machine,
        "one_chunk": single,
        "measured": measured,
        "model": model,
        "large": LARGE,
        "predicted": predicted(model, LARGE),
    }
    (given.out / "scaling.json").write_text(json.dumps(found, indent=1) + "\n")
    (given.out / "scaling.inc").write_text(table(found))
    print(table(found))


if __name__ == "__main__":
    main()
