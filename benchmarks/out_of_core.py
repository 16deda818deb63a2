"""Data larger than memory: a stack of samples, and a matrix, each within a budget.

`python benchmarks/out_of_core.py stack` makes a sparse file of 20 GB, samples of which a few
are written, and estimates their mean within 2 GB. `matrix` makes a matrix of 3 GB and solves
it within 1 GB, with both M and X's target on disk. `--gigabytes` makes either smaller.
Each is solved in a process of its own, whose peak is VmHWM of Linux: all resident pages,
those of files among them. Files go to --folder and are removed at the end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RANK, NOISE, WRITTEN = 3, 0.5, 25


def signal(m: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sparse factors of a matrix of low rank."""
    rng = np.random.default_rng(0)
    return tuple(
        rng.integers(1, 5, (n, RANK)) * (rng.random((n, RANK)) < 0.1) * 1.0 for n in (m, d)
    )


def make_stack(path: Path, gigabytes: float) -> None:
    """Samples of 1000 x 1000, of which a few are not zero; their mean is signal and noise."""
    m = d = 1000
    n = max(WRITTEN, round(gigabytes * 1e9 / (8 * m * d)))
    left, right = signal(m, d)
    rng = np.random.default_rng(1)
    stack = np.lib.format.open_memmap(path, "w+", np.float64, (n, m, d))
    for i in range(WRITTEN):
        noise = NOISE * np.sqrt(WRITTEN) * rng.standard_normal((m, d))
        stack[i * n // WRITTEN] = (n / WRITTEN) * (left @ right.T + noise)
    stack.flush()


def make_matrix(path: Path, gigabytes: float) -> None:
    """Signal and noise, in rows a little longer than the columns."""
    m = round(np.sqrt(gigabytes * 1e9 / 8 * 0.95))
    d = round(m / 0.95)
    left, right = signal(m, d)
    rng = np.random.default_rng(1)
    M = np.lib.format.open_memmap(path, "w+", np.float64, (m, d))
    for i in range(0, m, 256):
        rows = left[i : i + 256]
        M[i : i + 256] = rows @ right.T + NOISE * rng.standard_normal((len(rows), d))
    M.flush()


def solve(kind: str, path: str, budget: str) -> dict[str, object]:
    """Solve within the budget, in this process, and say what it took."""
    import weakprox as wp
    from weakprox.resources.memory import peak

    data = np.load(path, mmap_mode="r")
    loss = wp.losses.Denoising(samples=data) if kind == "stack" else wp.losses.Denoising(data)
    left, right = signal(*loss.shape)
    tau = 0.5 * np.linalg.norm(np.linalg.qr(left)[1] @ np.linalg.qr(right)[1].T, "nuc")
    problem = wp.Problem(loss, wp.penalties.L1(2.0 * NOISE), wp.spectral.NuclearBall(tau))
    plan = wp.plan(problem, max_memory=budget)
    begun = time.perf_counter()
    found = wp.minimize(problem, max_memory=budget, progress=False)
    return {
        "shape": list(data.shape),
        "bytes": data.nbytes,
        "solver": found.solver,
        "status": found.status.name,
        "svds": found.counts.svds,
        "relative_gap": found.gap / abs(found.value),
        "seconds": time.perf_counter() - begun,
        "planned": plan.process if found.counts.svds > 16 else plan.early,
        "on_disk": plan[found.solver].disk,
        "peak": peak(),
    }


def main() -> int:
    """Make the data, solve, print; 1 if the budget was not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["stack", "matrix"])
    parser.add_argument("--gigabytes", type=float)
    parser.add_argument("--budget")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    size, budget = {"stack": (20.0, "2GB"), "matrix": (3.04, "1GB")}[asked.kind]
    size, budget = asked.gigabytes or size, asked.budget or budget
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        path = Path(folder) / "data.npy"
        {"stack": make_stack, "matrix": make_matrix}[asked.kind](path, size)
        command = [sys.executable, __file__, "--solve", asked.kind, str(path), budget]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr)
        return 1
    found = json.loads(done.stdout)
    shape = " x ".join(str(n) for n in found["shape"])
    print(f"{asked.kind} of {shape}, {found['bytes'] / 1e9:.2f} GB, budget {budget}")
    print(f"  {found['solver']}: {found['status'].lower()}, relative gap", end=" ")
    print(f"{found['relative_gap']:.1e}, {found['svds']} SVDs, {found['seconds']:.0f} s")
    print(f"  arrays of the size of X in scratch files: {found['on_disk']:g}")
    planned, peak = found["planned"] / 1e6, found["peak"] / 1e6
    print(f"  peak planned {planned:.0f} MB, measured {peak:.0f} MB")
    from weakprox.resources.memory import as_bytes

    return int(found["peak"] > as_bytes("budget", budget))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--solve"]:
        print(json.dumps(solve(*sys.argv[2:])))
    else:
        sys.exit(main())
