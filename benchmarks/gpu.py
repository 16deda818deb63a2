"""The certified solver on one GPU: times, bytes moved, share of the roofline, peak memory.

    python benchmarks/gpu.py 4000 20000 100000
    python benchmarks/gpu.py --admm 4000     # only the race against full-SVD ADMM

Instances as in the paper (rank 10, tau factor .9), data already on the device, float32.
Each line is the best of nine runs, after some seconds of runs that are not timed.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_admm import race
from gpu_bytes import bytes_moved

import weakprox as wp

BANDWIDTH = 4.26e12  # bytes per second: a device-to-device copy on an H200
PASSES = 8  # over one array, that an iteration cannot do without
CHUNK = 4000
WARM = 1.5  # seconds of runs before those that count
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


def measure(d: int, repeats: int, tols: tuple[float, float] = (1e-4, 1e-6)) -> list[dict]:
    """Seconds of whole calls of `minimize`, and what they were spent on.

    `roofline` is about what one more iteration costs, from the difference of the two
    accuracies; `roofline_whole` shares the start and the proof among the iterations too.
    """
    M, tau = instance(d)
    task = problem(M, tau)
    one_pass, rows = 4.0 * d * d / BANDWIDTH, []
    for tol in tols:
        begin = time.perf_counter()
        while time.perf_counter() < begin + WARM:  # compiles; and idle devices run slowly
            result = wp.minimize(task, tol=tol, progress=False)
        torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(repeats):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            result = wp.minimize(task, tol=tol, progress=False)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        peak = torch.cuda.max_memory_allocated()
        moved = bytes_moved(lambda tol=tol: wp.minimize(task, tol=tol, progress=False), d * d)
        rows.append(
            {
                "d": d,
                "tol": tol,
                "ms": 1e3 * min(times),
                "median_ms": 1e3 * float(np.median(times)),
                "iterations": result.counts.svds,
                "roofline_whole": PASSES * one_pass * result.counts.svds / min(times),
                "gb_moved": moved / 1e9,
                "peak_gb": peak / 1e9,
                "arrays": peak / (4.0 * d * d),
                "gap": result.gap / abs(result.value),
                "status": result.status.name,
                "rank": result.rank,
                "solver": result.solver,
            }
        )
    few, many = rows
    more = max(1, many["iterations"] - few["iterations"])
    each = max(1e-6, many["ms"] - few["ms"]) / more
    for row in rows:
        row |= {"ms_per_iteration": each, "roofline": 1e3 * PASSES * one_pass / each}
    return rows


def copy_speed(d: int = 20000) -> float:
    """Bytes read and written per second by a device-to-device copy: devices differ."""
    x = torch.empty(d, d, device="cuda")
    y, times = torch.empty_like(x), []
    for _ in range(10):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        y.copy_(x)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 8.0 * d * d / min(times)


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


def against_admm(d: int, repeats: int, device: str, tol: float = 1e-4) -> dict:
    """Our time to a certified answer, and that of full-SVD ADMM to the same accuracy.

    ADMM is not asked for a proof: it is done at the first point whose value is within the
    accuracy of a lower bound that a tighter run of ours has proved.
    """
    M, tau = instance(d, device=device)
    task = problem(M, tau)
    solver = wp.solvers.LeanSplitting()  # what `minimize` takes on such devices
    tight = wp.minimize(task, solver, tol=0.1 * tol, progress=False)
    lower = tight.certificate.lower_bound
    times = []
    for _ in range(repeats + 1):  # the first one compiles
        begin = time.perf_counter()
        result = wp.minimize(task, solver, tol=tol, progress=False)
        float(result.X[0, 0])  # waits for the device
        times.append(time.perf_counter() - begin)
    ours, rows = min(times[1:]), race(M, tau, lower + tol * abs(lower))
    for row in rows:
        row["ratio"] = (row["seconds"] or row["tried_for"]) / ours
    about = {"d": d, "tol": tol, "ours_ms": 1e3 * ours, "ours_status": result.status.name}
    return about | {"bound_gap": tight.gap / abs(lower), "device": device, "rows": rows}


def write(out: Path, **news: Any) -> None:
    """JSON and Markdown; what was not measured this time stays as it was."""
    path = out.with_suffix(".json")
    told = json.loads(path.read_text()) if path.exists() else {"rows": []}
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
    told |= {"device": name or platform.machine(), "torch": torch.__version__}
    told |= {"date": time.strftime("%Y-%m-%d")} | {k: v for k, v in news.items() if v}
    out.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
    out.with_suffix(".inc").write_text(table(told))


def table(told: dict) -> str:
    """The figures as Markdown."""
    heads = "d | requested gap | ms | proved | iterations | ms for one more | its roofline "
    heads += "| roofline of the whole | GB moved | peak GB"
    lines = [f"| {heads} |", "|" + "---|" * 10]
    for row in told["rows"]:
        cells = [f"{row['d']:,}", f"{row['tol']:g}", f"{row['ms']:.1f}", f"{row['gap']:.1e}"]
        cells += [str(row["iterations"]), f"{row['ms_per_iteration']:.2f}"]
        cells += [f"{row[name]:.2f}" for name in ("roofline", "roofline_whole")]
        cells += [f"{row[name]:.1f}" for name in ("gb_moved", "peak_gb")]
        lines.append(f"| {' | '.join(cells)} |")
    where = f"\n\n{told['device']}, torch {told['torch']}, {told['date']}; a copy on the "
    where += f"device at hand ran at {told.get('copy_tb', 0.0):.2f} TB/s.\n"
    return "\n".join(lines) + where + (admm_table(told["admm"]) if "admm" in told else "")


def admm_table(told: dict) -> str:
    """The race as Markdown."""
    lines = [
        "",
        f"Against ADMM at $d = {told['d']:,}$, to a relative accuracy of {told['tol']:g} "
        f"(ours: {told['ours_ms']:.1f} ms, with the proof):",
        "",
        "| ADMM's projection | penalty | iterations | s | over ours |",
        "|---|---|---|---|---|",
    ]
    for row in told["rows"]:
        stopped = "" if row["seconds"] else "> "
        cells = [row["projection"], f"{row['rho']:g}", str(row["iterations"])]
        cells += [f"{stopped}{row['tried_for']:.2f}", f"{stopped}{row['ratio']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """A line per size and accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--admm", type=int, nargs="?", const=4000, help="race ADMM at this d")
    parser.add_argument("--device", default="cuda", help="of the race, such as cpu")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", default=str(OUT), help="where to write, without extension")
    args = parser.parse_args()
    rows, check, raced, speed = [], None, None, 0.0
    sizes = args.sizes or ([] if args.admm else [4000, 20000, 100000])
    if sizes:
        check = agreement()
        print(check, flush=True)
        speed = copy_speed() / 1e12
    for d in sizes:
        found = measure(d, args.repeats)
        rows += found
        for row in found:
            shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
            print(" ".join(f"{k} {v}" for k, v in shown.items()), flush=True)
        torch.cuda.empty_cache()
    if args.admm:
        raced = against_admm(args.admm, args.repeats, args.device)
        print(admm_table(raced), flush=True)
    if args.out:
        write(Path(args.out), rows=rows, check=check, admm=raced, copy_tb=speed)


if __name__ == "__main__":
    main()
