"""Time of `import weakprox`, in units of importing NumPy and SciPy's sparse algebra.

    python benchmarks/import_time.py [--rounds 15]

Fresh interpreters, one after the other in turns, so that a busy machine slows both alike;
the start of Python itself is subtracted from both. All modules are compiled beforehand, as in
an installed library. Medians, and the ratio's bar is 2.5.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

BAR = 2.5
CALLS = {
    "nothing": "pass",
    "numpy, scipy.sparse.linalg": "import numpy, scipy.sparse.linalg",
    "weakprox": "import weakprox",
}


def seconds(call: str, environment: dict[str, str]) -> float:
    """One fresh interpreter, from start to end."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", call], check=True, env=environment)
    return time.perf_counter() - begin


def measure(rounds: int) -> dict[str, float]:
    """Median seconds of each import, start of Python included."""
    times: dict[str, list[float]] = {name: [] for name in CALLS}
    with tempfile.TemporaryDirectory() as compiled:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for call in CALLS.values():
            seconds(call, environment)  # compiles
        for _ in range(rounds):
            for name, call in CALLS.items():
                times[name].append(seconds(call, environment))
    return {name: statistics.median(found) for name, found in times.items()}


def main(rounds: int = 15) -> None:
    """Print the medians and their ratio."""
    found = measure(rounds)
    start = found.pop("nothing")
    theirs, ours = (value - start for value in found.values())
    for name, value in found.items():
        print(f"import {name}: {1e3 * (value - start):.0f} ms (median of {rounds})")
    print(f"start of Python, taken off: {1e3 * start:.0f} ms")
    print(f"ratio {ours / theirs:.2f} (bar: {BAR:g})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    main(parser.parse_args().rounds)
