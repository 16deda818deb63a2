"""The first call in a new process that has nothing compiled, against one without numba.

`python benchmarks/first_call.py [d]` solves the paper's Example 1 (d = 1500 by default) in
processes of their own, in turns, and prints medians: without numba, with numba and an empty
cache, and with compiled passes stored.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = """
import sys, time
if sys.argv[2] == "without":
    sys.modules["numba"] = None
sys.path.insert(0, sys.argv[3])
from instances import e1
problem = e1(int(sys.argv[1]), 10, 0.9).problem()
import weakprox as wp
begun = time.perf_counter()
found = wp.minimize(problem)
assert found.certified
print(time.perf_counter() - begun)
"""
KINDS = ("without", "empty", "stored")
TIMES = 5


def main(argv: list[str]) -> None:
    """Run each kind in turns, and print."""
    d, peers = argv[0] if argv else "1500", Path(__file__).resolve().parent / "peers"
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as kept:
        for kind in ("stored", *TIMES * KINDS):
            with tempfile.TemporaryDirectory() as fresh:
                folder = kept if kind == "stored" else fresh
                compiled = "always" if kind == "stored" else "auto"
                env = {**os.environ, "NUMBA_CACHE_DIR": folder, "WEAKPROX_COMPILE": compiled}
                command = [sys.executable, "-c", CHILD, d, kind, str(peers)]
                done = subprocess.run(command, env=env, capture_output=True, check=True)
                seconds[kind].append(float(done.stdout))
    medians = {kind: statistics.median(found) for kind, found in seconds.items()}
    told = ", ".join(f"{kind} {found:.2f} s" for kind, found in medians.items())
    print(f"d = {d}: {told}; empty / without {medians['empty'] / medians['without']:.2f}")
    print(f"compiling in the first call of all: {seconds['stored'][0]:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
