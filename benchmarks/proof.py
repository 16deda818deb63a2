"""Cost of a proof file: the time to make and save one, as a share of the run it proves.

`python benchmarks/proof.py [d] [runs]` solves E1, the paper's first example, at d = 2000 by
default, as many times as asked for (5), and prints the median of both times.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from instances import E1, e1

import weakprox as wp


def main(argv: list[str]) -> None:
    """Run, prove, save, verify once."""
    d = int(argv[0]) if argv else 2000
    runs = int(argv[1]) if len(argv) > 1 else 5
    case: E1 = e1(d, 10, 0.9)
    problem = case.problem()
    solved, saved = [], []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(runs):
            path = Path(folder) / f"proof{i}.npz"  # to replace a file takes longer
            begun = time.perf_counter()
            result = wp.minimize(problem)
            solved.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            result.proof.save(path)
            saved.append(time.perf_counter() - begun)
        size = path.stat().st_size
        print(result.status, result.solver, result.proof)
        begun = time.perf_counter()
        verdict = wp.verify(path, problem)
        took = time.perf_counter() - begun
    run, proof = statistics.median(solved), statistics.median(saved)
    print(f"d = {d}: run {run:.3f} s, proof {proof:.3f} s, share {proof / run:.1%}")
    print(f"file {size / 1e6:.1f} MB, verified in {took:.1f} s: {verdict}")


if __name__ == "__main__":
    main(sys.argv[1:])
