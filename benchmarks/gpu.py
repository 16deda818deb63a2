"""The certified solver on one GPU: times, bytes moved, share of the roofline, peak memory.

    python benchmarks/gpu.py 4000 20000 100000

Instances as in the paper (rank 10, tau factor .9), data already on the device, float32.
Each line is the best of five runs after one that compiles the kernels.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

import weakprox as wp

BANDWIDTH = 4.26e12  # bytes per second: a device-to-device copy on an H200
PASSES = 8  # over one array, that an iteration cannot do without
CHUNK = 4000
OUT = Path(__file__).resolve().parents[1] / "docs" / "_static" / "gpu"


def instance(d: int, r: int = 10, factor: float = 0.9, device: str = "cuda") -> tuple:
    """M = YY' + N(0, 1) and tau, made on the device."""
    torch.manual_seed(0)
    small = torch.randint(1, 11, (d, r), device=device).float()
    Y = (torch.rand(d, r, device=device) < d**-0.5) * small
    M = torch.empty(d, d, device=device)
    for i in range(0, d, CHUNK):
        M[i : i + CHUNK] = Y[i : i + CHUNK] @ Y.T
        M[i : i + CHUNK] += torch.randn(min(CHUNK, d - i), d, device=device)
    return M, factor * float((Y**2).sum())


def problem(M, tau: float) -> wp.Problem:
    """The paper's first example."""
    ball = wp.spectral.NuclearBall(tau)
    return wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(2.0), ball)


def measure(d: int, tol: float, repeats: int) -> dict:
    """Seconds of a whole call of `minimize`, and what they were spent on."""
    M, tau = instance(d)
    task = problem(M, tau)
    result = wp.minimize(task, tol=tol, progress=False)  # compiles
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        result = wp.minimize(task, tol=tol, progress=False)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    one_pass = 4.0 * d * d / BANDWIDTH
    each = min(times) / result.counts.svds
    return {
        "d": d,
        "tol": tol,
        "ms": 1e3 * min(times),
        "median_ms": 1e3 * float(np.median(times)),
        "iterations": result.counts.svds,
        "ms_per_iteration": 1e3 * each,
        "roofline": PASSES * one_pass / each,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9,
        "arrays": torch.cuda.max_memory_allocated() / (4.0 * d * d),
        "gap": result.gap / abs(result.value),
        "status": result.status.name,
        "rank": result.rank,
        "solver": result.solver,
    }


def agreement(d: int = 2000) -> dict:
    """The same problem in float64 on the CPU: both certificates must hold for both."""
    M, tau = instance(d)
    here = wp.minimize(problem(M, tau), tol=1e-5, progress=False)
    there = wp.minimize(problem(M.cpu().numpy().astype(float), tau), tol=1e-7, progress=False)
    far = float(np.linalg.norm(here.X.double().cpu().numpy() - there.X))
    allowed = np.sqrt(2 * here.gap) + np.sqrt(2 * there.gap)  # strong convexity is one
    true = here.certificate.lower_bound <= there.value and here.value >= there.value - there.gap
    ended = f"{here.status.name} {here.gap:.3g}, {there.status.name} {there.gap:.3g}"
    return {
        "d": d,
        "ended": ended,
        "distance": far,
        "allowed": float(allowed),
        "bounds_hold": bool(true),
    }


def write(out: Path, rows: list[dict], check: dict) -> None:
    """JSON and Markdown."""
    told = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    told |= {"date": time.strftime("%Y-%m-%d"), "check": check, "rows": rows}
    out.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
    out.with_suffix(".inc").write_text(table(told))


def table(told: dict) -> str:
    """The figures as Markdown."""
    heads = "d | gap asked for | ms | proved | iterations | ms each | roofline | peak GB"
    lines = [f"| {heads} |", "|" + "---|" * 8]
    for row in told["rows"]:
        cells = [f"{row['d']:,}", f"{row['tol']:g}", f"{row['ms']:.1f}", f"{row['gap']:.1e}"]
        cells += [str(row["iterations"]), f"{row['ms_per_iteration']:.1f}"]
        cells += [f"{row['roofline']:.2f}", f"{row['peak_gb']:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\n{told['device']}, torch {told['torch']}, {told['date']}.\n"


def main() -> None:
    """A line per size and accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=int, default=[4000, 20000, 100000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", default=str(OUT), help="where to write, without extension")
    args = parser.parse_args()
    rows = []
    check = agreement()
    print(check, flush=True)
    for d in args.sizes:
        for tol in (1e-4, 1e-6):
            row = measure(d, tol, args.repeats)
            rows.append(row)
            print(
                " ".join(
                    f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                    for k, v in row.items()
                ),
                flush=True,
            )
            torch.cuda.empty_cache()
    if args.out:
        write(Path(args.out), rows, check)


if __name__ == "__main__":
    main()
