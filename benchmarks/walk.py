"""Files of weakprox that one call of `minimize` visits, and how often it changes file.

    python benchmarks/walk.py           # the two numbers
    python benchmarks/walk.py --files   # and the calls into each file
    python benchmarks/walk.py --hops    # and the commonest changes of file

The call is the example of the README, after one call that loads modules and compiles
kernels. A file is visited if a function defined in it is called. The file changes at a
call whose function is defined in another file than that of the call before.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import weakprox as wp

SOURCE = str(Path(wp.__file__).parent)


def example() -> wp.Problem:
    """Return the problem of the README."""
    rng = np.random.default_rng(0)
    Y = rng.integers(1, 10, (200, 2)) * (rng.random((200, 2)) < 0.1)
    M = Y @ Y.T + rng.standard_normal((200, 200))
    tau = 0.9 * np.sum(Y * Y)
    return wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(2.0), wp.spectral.NuclearBall(tau)
    )


def walk(problem: wp.Problem) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Return the calls into each file, and the changes from one file to another."""
    calls: Counter[str] = Counter()
    hops: Counter[tuple[str, str]] = Counter()
    last = ""

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal last
        where = frame.f_code.co_filename
        if event != "call" or not where.startswith(SOURCE):
            return
        calls[where] += 1
        if last and where != last:
            hops[last, where] += 1
        last = where

    sys.setprofile(note)
    try:
        wp.minimize(problem, progress=False)
    finally:
        sys.setprofile(None)
    return calls, hops


def main() -> None:
    """Print both numbers, and what was asked for beside them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="list the files")
    parser.add_argument("--hops", action="store_true", help="list the changes of file")
    asked = parser.parse_args()
    problem = example()
    wp.minimize(problem, progress=False)
    calls, hops = walk(problem)
    if asked.files:
        for path, count in calls.most_common():
            print(f"{count:6} {Path(path).relative_to(SOURCE)}")
    if asked.hops:
        for pair, count in hops.most_common(40):
            one, other = (Path(path).relative_to(SOURCE) for path in pair)
            print(f"{count:6} {one} -> {other}")
    print(f"{len(calls)} files visited, {hops.total()} changes of file")


if __name__ == "__main__":
    main()
