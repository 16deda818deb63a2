"""Cost of one iteration of the certified solver on the CPU, measured in three ways.

    python benchmarks/iteration.py

1. d = 2,000, r = 10: an iteration against its necessary passes, timed alternately:
   one element-wise pass over three arrays and two products with the block (z'B and zY; the
   product zQ is part of the element-wise pass).
2. d = 500 ... 8,000: the exponent p in time ~ d^p.
3. d = 4,000: two threads against one.

An iteration is `advance` and `stepped`, as `LeanSplitting` calls them, on a state some
iterations into a run. Threads are those BLAS may use (OPENBLAS_NUM_THREADS).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
from step import instance
from threadpoolctl import threadpool_limits

from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.simplex import project_capped
from weakprox.passes import Step, passes_for
from weakprox.passes.engine import products_for
from weakprox.passes.ritz import refined, stepped

OUT = Path(__file__).resolve().parents[1] / "docs" / "_static" / "iteration"
RANK, WIDTH = 10, 16


class Iteration:
    """A state of the solver, and one iteration from it."""

    def __init__(self, d: int) -> None:
        self.C, tau, _ = instance(d, RANK)
        self.tau, self.k = 0.9 * tau, Step(1.0, 1.0, 0.0, 2.0, 2.0)
        self.z = np.empty_like(self.C)
        self.passes = passes_for(self.z, self.C)
        self.products = products_for(self.z, self.passes)
        Q = np.random.default_rng(0).standard_normal((d, WIDTH))
        product = self.passes.first(self.C, self.z, self.k, Q)
        self.ritz = refined(self.products, Q, product, powers=2)
        for _ in range(3):
            self()

    def __call__(self) -> None:
        p = np.asarray(project_capped(self.ritz.s, self.tau))
        r = int((p > 0).sum())
        X = LowRank(self.ritz.U[:, :r], p[:r], self.ritz.V[:, :r].T)
        _, product = self.passes.advance(self.C, self.z, X, self.k, 1.0, self.ritz.V)
        self.ritz = stepped(self.products, self.ritz, product, r)


def best(work, repeats: int) -> float:
    """The least time of some calls, in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def against_passes(d: int = 2000, rounds: int = 7) -> dict:
    """An iteration and its bare passes in turns."""
    one = Iteration(d)
    x, y = one.C, one.z.copy()
    out, B = np.empty_like(x), np.random.default_rng(1).standard_normal((d, WIDTH))
    each = []
    for _ in range(rounds):
        whole = best(one, 3)
        add = best(lambda: np.add(x, y, out=out), 3)
        left = best(lambda: B.T @ y, 3)  # the faster way to write y'B
        right = best(lambda: y @ B, 3)
        each.append((whole / (add + left + right), whole, add, left, right))
    middle = sorted(each)[rounds // 2]
    names = ("ratio", "iteration", "element-wise", "transposed", "times")
    return dict(zip(names, middle, strict=True)) | {"least": min(each)[0], "most": max(each)[0]}


def growth(sizes: list[int]) -> dict:
    """Seconds per iteration by size, and the exponent."""
    seconds = []
    for d in sizes:
        seconds.append(best(Iteration(d), 5))
        print(f"d {d}: {1e3 * seconds[-1]:.2f} ms", flush=True)
    p = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    return {"sizes": sizes, "seconds": seconds, "exponent": p}


def threads(d: int = 4000, rounds: int = 5) -> dict:
    """One iteration with one thread and with two, in turns."""
    one = Iteration(d)
    ratios = []
    for _ in range(rounds):
        with threadpool_limits(1, user_api="blas"):
            slow = best(one, 3)
        with threadpool_limits(2, user_api="blas"):
            quick = best(one, 3)
        ratios.append(slow / quick)
    return {"d": d, "ratio": float(np.median(ratios)), "all": ratios}


def main() -> None:
    """The three figures, printed and written to docs/_static."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="500,1000,2000,4000,8000")
    parser.add_argument("--out", default=str(OUT), help="where to write, without extension")
    args = parser.parse_args()
    with threadpool_limits(1, user_api="blas"):
        passes = against_passes()
    print(f"one thread: iteration / passes at d = 2000: {passes['ratio']:.2f}", flush=True)
    with threadpool_limits(1, user_api="blas"):
        grown = growth([int(d) for d in args.sizes.split(",")])
    print(f"one thread: time per iteration ~ d^{grown['exponent']:.2f}")
    pair = threads()
    print(f"two threads against one at d = {pair['d']}: {pair['ratio']:.2f}")
    told = {"date": time.strftime("%Y-%m-%d"), "numpy": np.__version__}
    told |= {"cores": os.cpu_count(), "machine": platform.machine()}
    told |= {"passes": passes, "growth": grown, "threads": pair}
    if args.out:
        out = Path(args.out)
        out.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
        rows = [
            ("iteration / bare passes, d = 2,000, one thread", f"{passes['ratio']:.2f}"),
            ("exponent of d, one thread, " + args.sizes, f"{grown['exponent']:.2f}"),
            ("two threads against one, d = 4,000", f"{pair['ratio']:.2f}"),
        ]
        lines = ["| figure | |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]
        out.with_suffix(".inc").write_text("\n".join(lines) + f"\n\n{told['date']}.\n")


if __name__ == "__main__":
    main()
