"""Cost of a whole path, in units of single cold solves at the points of its grid (one run).

    python benchmarks/path.py [--size 300 200] [--tol 1e-3 1e-4] [--every 1]

The bar is 15 cold solves for 10 x 10 points at the same accuracy. Times are those of the
processor, with one thread of BLAS, so that other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

import weakprox as wp
from weakprox.selection import Grid, default_grid, regularization_path

BAR = 15.0
COLUMNS = f"{'tol':>6} {'gaps':>10} {'seconds':>8} {'SVDs':>5} {'cold: median':>13} {'SVDs':>5}"


def instance(m: int, d: int, rank: int = 5, noise: float = 0.5) -> np.ndarray:
    """Sparse patterns under noise."""
    rng = np.random.default_rng(0)
    U = rng.standard_normal((m, rank)) * (rng.random((m, rank)) < 0.2)
    V = rng.standard_normal((d, rank)) * (rng.random((d, rank)) < 0.2)
    return 3.0 * U @ V.T + noise * rng.standard_normal((m, d))


def cold_solves(
    loss: wp.losses.Denoising, grid: Grid, tol: float, every: int
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and decompositions of single solves at every k-th point of the grid."""
    points = [(i, j) for i in range(grid.shape[0]) for j in range(grid.shape[1])]
    seconds, svds = [], []
    for i, j in points[::every]:
        ball = wp.spectral.NuclearBall(grid.taus[i, j])
        problem = wp.Problem(loss, wp.penalties.L1(grid.lams[i]), ball)
        begin = time.process_time()
        result = wp.minimize(problem, tol=tol, progress=False)
        seconds.append(time.process_time() - begin)
        svds.append(result.counts.svds)
    return np.array(seconds), np.array(svds)


def main() -> None:
    """Print the ratio for paths with and without proofs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, nargs=2, default=(300, 200))
    parser.add_argument("--tol", type=float, nargs="+", default=(1e-3, 1e-4))
    parser.add_argument("--every", type=int, default=1, help="cold solves at each k-th point")
    chosen = parser.parse_args()
    M = instance(*chosen.size)
    loss, grid = wp.losses.Denoising(M), default_grid(M)
    print(f"{chosen.size[0]} x {chosen.size[1]}, {grid.taus.size} points, bar {BAR:g}")
    print(f"{COLUMNS} ratio  sum of cold")
    for tol in chosen.tol:
        regularization_path(loss, grid.lams[:2], grid.taus[:2], tol=tol)  # load everything
        seconds, svds = cold_solves(loss, grid, tol, chosen.every)
        median, total = float(np.median(seconds)), chosen.every * float(seconds.sum())
        for name, certify in (("estimated", False), ("proved", True)):
            begin = time.process_time()
            path = regularization_path(loss, grid.lams, grid.taus, tol=tol, certify=certify)
            took = time.process_time() - begin
            print(
                f"{tol:6.0e} {name:>10} {took:8.2f} {path.svds.sum():5d} "
                f"{1e3 * median:10.1f} ms {np.median(svds):5.0f} {took / median:5.1f} "
                f"{total / median:12.1f}"
            )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
