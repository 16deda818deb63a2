"""Weights, bounds and groups: factored steps beside stored arrays, in processor time.

    OPENBLAS_NUM_THREADS=1 python benchmarks/weights.py

The instance has rank 10 and weights between .5 and 1.5, with a free diagonal. `LeanSplitting`
reads the weights beside the data; `DavisYin` stores its arrays. The third row has equal
weights. The next rows have bounds at distances between .5 and 1 of the data, with a slope of 1,
then one range for all entries. The last rows add groups of rows to the weights, and have groups
of rows in a cone, with the symmetric part of the data. Runs of one size and type are repeated
in turns, after a run of each; the least time counts.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from step import instance

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1, Box, GroupL2
from weakprox.solvers import DavisYin, LeanSplitting
from weakprox.spectral import NuclearBall, TracePSD

RANK = 10


def seconds(problem: wp.Problem, solver: object) -> float:
    """Processor time of a certified run."""
    begun = time.process_time()
    result = wp.minimize(problem, solver, tol=1e-4, progress=False)
    spent = time.process_time() - begun
    assert result.certified
    assert result.solver == type(solver).__name__
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    for d in options.sizes:
        M, tau, _ = instance(d, RANK)
        weights = np.random.default_rng(0).uniform(0.5, 1.5, (d, d))
        np.fill_diagonal(weights, 0.0)
        far = np.random.default_rng(1).uniform(0.5, 1.0, (d, d))
        for dtype in ("float64", "float32"):
            loss, ball = Denoising(M.astype(dtype)), NuclearBall(0.9 * tau)
            uneven = wp.Problem(loss, L1(2.0, weights.astype(dtype)), ball)
            even = wp.Problem(loss, L1(2.0), ball)
            ends = ((M - far).astype(dtype), (M + far).astype(dtype))
            ranges = wp.Problem(loss, Box(*ends, 1.0), ball)
            most = float(np.abs(M).max())
            one = wp.Problem(loss, Box(-0.5 * most, 0.5 * most, 1.0), ball)
            both = L1(1.0, weights.astype(dtype)) + GroupL2(2.0)
            grouped = wp.Problem(loss, both, ball)
            mirrored = Denoising((0.5 * (M + M.T)).astype(dtype))
            cone = wp.Problem(mirrored, L1(1.0) + GroupL2(2.0), TracePSD(0.9 * tau))
            cases = {
                "weights, LeanSplitting": (uneven, LeanSplitting()),
                "weights, DavisYin": (uneven, DavisYin()),
                "equal weights, LeanSplitting": (even, LeanSplitting()),
                "bounds, LeanSplitting": (ranges, LeanSplitting()),
                "bounds, DavisYin": (ranges, DavisYin()),
                "one range, LeanSplitting": (one, LeanSplitting()),
                "weights and groups, LeanSplitting": (grouped, LeanSplitting()),
                "weights and groups, DavisYin": (grouped, DavisYin()),
                "groups in a cone, LeanSplitting": (cone, LeanSplitting()),
                "groups in a cone, DavisYin": (cone, DavisYin()),
            }
            times: dict[str, list[float]] = {name: [] for name in cases}
            for _ in range(options.repeat + 1):
                for name, case in cases.items():
                    times[name].append(seconds(*case))
            for name, found in times.items():
                print(f"{d} {dtype} {name:33} {min(found[1:]):6.2f} s")


if __name__ == "__main__":
    main()
