"""Observed entries: certified fits against recommenders and imputers, in one run.

    python benchmarks/observed.py 100k            # against cmfrec, implicit, SoftImpute
    python benchmarks/observed.py 10m             # 69,878 x 10,677 with 1e7 ratings
    python benchmarks/observed.py 100k 10m netflix --device cuda

Ratings are synthetic: a matrix of rank 20 with decaying values, intercepts of rows and columns,
noise, popularity skew, rounded to 1, ..., 5. Biases that are shrunk towards zero are taken off
first, for every method. lam is the one at which about `--rank` singular values are left. Peers
that are not installed are named and left out. Times are the least of `--repeat` runs; cmfrec's
ALS has k = 50 and 30 iterations.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weakprox as wp

SHAPES = {
    "100k": (943, 1_682, 90_000),
    "1m": (6_040, 3_706, 900_000),
    "10m": (69_878, 10_677, 10_000_000),
    "netflix": (480_189, 17_770, 100_000_000),
}
LAMS = {"100k": 16.0, "1m": 30.0, "10m": 66.0, "netflix": 164.0}  # rank about 50 or less
TRUTH, NOISE = 20, 0.9


def ratings(name: str, seed: int = 0) -> tuple[Any, Any, Any]:
    """Rows, columns and values of synthetic ratings, without shrunken biases."""
    m, d, n = SHAPES[name]
    rng = np.random.default_rng(seed)
    popular = [np.cumsum((np.arange(k) + 1 + k / 20.0) ** -1.0) for k in (m, d)]
    keys = np.zeros(0, np.int64)
    while keys.size < n:
        size = int(1.3 * (n - keys.size)) + 1000
        at = [
            np.searchsorted(p, p[-1] * rng.random(size)).clip(max=len(p) - 1) for p in popular
        ]
        keys = np.unique(np.concatenate([keys, at[0].astype(np.int64) * d + at[1]]))
    keys = np.sort(rng.choice(keys, n, replace=False))
    rows, cols = keys // d, keys % d
    U = rng.standard_normal((m, TRUTH)) * np.exp(-np.arange(TRUTH) / 8.0)
    V = rng.standard_normal((d, TRUTH))
    y = np.concatenate(
        [
            np.einsum("ij,ij->i", U[rows[i : i + (1 << 20)]], V[cols[i : i + (1 << 20)]])
            for i in range(0, n, 1 << 20)
        ]
    )
    y *= 0.5 / y.std()
    y += 3.5 + 0.45 * rng.standard_normal(m)[rows] + 0.5 * rng.standard_normal(d)[cols]
    y = np.clip(np.rint(y + NOISE * rng.standard_normal(n)), 1, 5)
    y -= y.mean()
    for index, size in ((cols, d), (rows, m)):
        y -= (np.bincount(index, y, minlength=size) / (np.bincount(index, minlength=size) + 5))[
            index
        ]
    return rows, cols, y


def timed(call: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Least time of some calls, and the last result."""
    best, found = float("inf"), None
    for _ in range(repeat):
        begun = time.perf_counter()
        found = call()
        best = min(best, time.perf_counter() - begun)
    return best, found


def ours(rows: Any, cols: Any, y: Any, shape: Any, lam: float, tol: float, device: str) -> Any:
    """A function that solves the problem, once its data are in place."""
    loss: Any
    if device == "cpu":
        loss = wp.losses.Completion(rows, cols, y, shape)
    else:
        import torch

        loss = wp.losses.Completion(
            *(torch.asarray(x, device=device) for x in (rows, cols, y)), shape
        )
    problem = wp.Problem(loss, None, wp.spectral.NuclearNorm(lam))

    def solve() -> Any:
        found = wp.minimize(problem, tol=tol, progress=False)
        if device != "cpu":
            torch.cuda.synchronize()
        return found

    return solve


def cmfrec_als(rows: Any, cols: Any, y: Any, threads: int) -> Any:
    """A function that fits cmfrec's ALS."""
    import pandas as pd
    from cmfrec import CMF

    frame = pd.DataFrame({"UserId": rows, "ItemId": cols, "Rating": y})
    return lambda: CMF(
        k=50, lambda_=16.0, niter=30, nthreads=threads, user_bias=False, item_bias=False,
        center=False, verbose=False,
    ).fit(frame)  # fmt: skip


def implicit_als(rows: Any, cols: Any, y: Any, shape: Any, threads: int) -> Any:
    """A function that fits implicit's ALS (another problem: confidences, not ratings)."""
    from implicit.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    A = csr_matrix((np.abs(y) + 1.0, (rows, cols)), shape=shape, dtype=np.float32)
    model = AlternatingLeastSquares(factors=50, iterations=30, num_threads=threads)
    return lambda: model.fit(A, show_progress=False)


def soft_impute(rows: Any, cols: Any, y: Any, shape: Any, lam: float, target: float) -> Any:
    """Seconds and value of SoftImpute's iteration, dense, until it is as good as the target."""
    M = np.zeros(shape)
    M[rows, cols] = y
    X, begun, value = np.zeros(shape), time.perf_counter(), np.inf
    for _ in range(300):
        X[rows, cols] = y
        U, s, Vt = np.linalg.svd(X, full_matrices=False)
        s = np.maximum(s - lam, 0.0)
        X = (U * s) @ Vt
        value = 0.5 * np.sum((y - X[rows, cols]) ** 2) + lam * s.sum()
        if value <= target:
            break
    return time.perf_counter() - begun, value


def main() -> None:
    """Print one table for each shape."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shapes", nargs="+", choices=list(SHAPES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-4])
    parser.add_argument("--lam", type=float)
    asked = parser.parse_args()
    for name in asked.shapes:
        shape, lam = SHAPES[name][:2], asked.lam or LAMS[name]
        rows, cols, y = ratings(name)
        print(f"{name}: {shape[0]} x {shape[1]}, {len(y)} ratings, lam {lam:g}")
        found = None
        for tol in asked.tol:
            solve = ours(rows, cols, y, shape, lam, tol, asked.device)
            seconds, found = timed(solve, asked.repeat)
            print(
                f"  weakprox tol {tol:g}: {seconds:.3f} s, {found.status.name}, gap "
                f"{found.gap / found.value:.1e}, rank {found.low_rank.rank}, "
                f"{found.counts.svds} SVDs"
            )
        if asked.device != "cpu":
            continue
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"  peak memory of the process so far: {peak:.2f} GB")
        for label, peer in (
            (
                "cmfrec ALS k=50, 30 iterations",
                lambda: cmfrec_als(rows, cols, y, asked.threads),
            ),
            (
                "implicit ALS k=50, 30 iterations",
                lambda: implicit_als(rows, cols, y, shape, asked.threads),
            ),
        ):
            try:
                seconds, _ = timed(peer(), asked.repeat)
            except ImportError as missing:
                print(f"  {label}: not installed ({missing.name})")
            else:
                print(f"  {label}: {seconds:.3f} s")
        if name == "100k" and found is not None:
            seconds, value = soft_impute(rows, cols, y, shape, lam, found.value * (1 + 1e-3))
            print(f"  soft-impute, dense, to f (1 + 1e-3): {seconds:.1f} s, value {value:.1f}")


if __name__ == "__main__":
    main()
