"""Observed entries: certified fits against recommenders and imputers, in one run.

    python benchmarks/observed.py 100k            # against cmfrec, lenskit, fancyimpute, ...
    python benchmarks/observed.py 10m             # 69,878 x 10,677 with 1e7 ratings
    python benchmarks/observed.py 100k 10m netflix --device cuda
    python benchmarks/observed.py logistic        # a path with folds on 76 x 4,600 classes

Ratings are synthetic: a matrix of rank 20 with decaying values, intercepts of rows and columns,
noise, popularity skew, rounded to 1, ..., 5. Biases that are shrunk towards zero are subtracted
first, for every method. lam leaves about 50 singular values or fewer. Peers that are not
installed are named and left out. Times are the least of `--repeat` runs; the ALS of cmfrec,
lenskit and implicit have 50 factors and 30 iterations. fancyimpute's SoftImpute runs until its
value is at most ours.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
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
        keys = np.sort(np.concatenate([keys, at[0].astype(np.int64) * d + at[1]]))
        keys = keys[np.append(True, keys[1:] != keys[:-1])]  # np.unique hashes: 5 times slower
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
    return rows.astype(np.int32), cols.astype(np.int32), y  # half the memory


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


def alone(
    rows: Any, cols: Any, y: Any, shape: Any, lam: float, tol: float, limit: float | None
) -> None:
    """Print what one fit in a process of its own takes: memory above the import, and time."""
    with tempfile.TemporaryDirectory() as folder:
        for name, x in (("rows", rows), ("cols", cols), ("y", y)):
            np.save(Path(folder) / name, x.astype(np.int32 if name != "y" else np.float32))
        told = [folder, *(str(x) for x in (*shape, lam, tol, limit))]
        subprocess.run([sys.executable, __file__, "child", *told], check=True)


def child(folder: str, m: str, d: str, lam: str, tol: str, limit: str) -> None:
    """Load, fit and print; float32, as the data are."""
    before = peak()
    rows, cols, y = (np.load(Path(folder) / f"{name}.npy") for name in ("rows", "cols", "y"))
    loss = wp.losses.Completion(rows, cols, y, (int(m), int(d)))
    del rows, cols, y
    problem = wp.Problem(loss, None, wp.spectral.NuclearNorm(float(lam)))
    most = None if limit == "None" else float(limit)
    begun = time.perf_counter()
    found = wp.minimize(problem, tol=float(tol), max_seconds=most, progress=False)
    spent, steps = time.perf_counter() - begun, max(1, found.counts.svds)
    print(
        f"  in a process of its own, float32: {peak() - before:.2f} GB above the import, "
        f"{spent:.1f} s, {found.status.name}, gap {found.gap / found.value:.1e}, {steps} SVDs, "
        f"{spent / steps:.2f} s each"
    )


def peak() -> float:
    """Largest memory of this process so far (not of the one that started it), in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 2**20


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


def lenskit_als(rows: Any, cols: Any, y: Any) -> Any:
    """A function that fits lenskit's ALS, which adds biases of its own."""
    import pandas as pd
    from lenskit.als import BiasedMFScorer
    from lenskit.data import from_interactions_df

    frame = pd.DataFrame({"user_id": rows, "item_id": cols, "rating": y})
    data = from_interactions_df(frame)
    return lambda: BiasedMFScorer(embedding_size=50, epochs=30).train(data)


def soft_impute(
    rows: Any, cols: Any, y: Any, shape: Any, lam: float, targets: list[float]
) -> list[float]:
    """Seconds of fancyimpute's SoftImpute to each of these values, in descending order."""
    from fancyimpute import SoftImpute

    step = SoftImpute(lam, verbose=False)._svd_step  # its loop has no such end
    filled, spent, found = np.zeros(shape), 0.0, []
    for _ in range(400):
        begun = time.perf_counter()
        filled[rows, cols] = y
        filled, _ = step(filled, lam)
        spent += time.perf_counter() - begun
        nuclear = np.linalg.svd(filled, compute_uv=False).sum()  # not timed
        value = 0.5 * np.sum((y - filled[rows, cols]) ** 2) + lam * nuclear
        while len(found) < len(targets) and value <= targets[len(found)]:
            found.append(spent)
        if len(found) == len(targets):
            break
    return found


def nearest_rows(rows: Any, cols: Any, y: Any, shape: Any) -> Any:
    """A function that fills in the matrix with scikit-learn's KNNImputer."""
    from sklearn.impute import KNNImputer

    M = np.full(shape, np.nan)
    M[rows, cols] = y
    return lambda: KNNImputer(keep_empty_features=True).fit_transform(M)


def logistic(m: int = 76, d: int = 4_600, weights: int = 10, folds: int = 5) -> None:
    """Print the time of a path with folds of a logistic loss, in warm fits at its choice."""
    rng = np.random.default_rng(0)
    L = 1.5 * rng.standard_normal((m, 4)) @ rng.standard_normal((4, d)) / 2.0
    y = rng.random((m, d)) < 1.0 / (1.0 + np.exp(-L - 0.5 * rng.standard_normal(d)))
    rows, cols = np.divmod(np.arange(m * d), d)
    loss = wp.losses.Completion(
        rows, cols, y.ravel().astype(float), (m, d), loss="logistic", intercepts="columns",
        intercept_ridge=1.0,
    )  # fmt: skip
    top = float(wp.selection.observed_path(loss, max_seconds=1e-9).lams[0])  # where X = 0
    lams = top * np.geomspace(0.7, 0.03, weights)
    begun = time.perf_counter()
    path = wp.selection.observed_path(loss, lams=lams, cv=folds, patience=weights)
    spent = time.perf_counter() - begun
    seconds, found = timed(lambda: path.solve(progress=False), 3)
    print(f"logistic: {m} x {d}, {path.errors.shape[1]} weights, {folds} folds: {spent:.1f} s")
    print(
        f"  one warm fit at lam {path.lam:.3g}: {seconds:.2f} s, {found.status.name}, rank "
        f"{found.low_rank.rank}; the path took {spent / seconds:.0f} of them"
    )


def main() -> None:
    """Print one table for each shape."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shapes", nargs="+", choices=[*SHAPES, "logistic"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-4])
    parser.add_argument("--lam", type=float)
    parser.add_argument("--alone", action="store_true", help="only one fit, for its memory")
    parser.add_argument("--max-seconds", type=float, help="of that fit")
    asked = parser.parse_args()
    for name in asked.shapes:
        if name == "logistic":
            logistic()
            continue
        shape, lam = SHAPES[name][:2], asked.lam or LAMS[name]
        rows, cols, y = ratings(name)
        print(f"{name}: {shape[0]} x {shape[1]}, {len(y)} ratings, lam {lam:g}")
        reached = []
        for tol in [] if asked.alone else asked.tol:
            solve = ours(rows, cols, y, shape, lam, tol, asked.device)
            seconds, found = timed(solve, asked.repeat)
            reached.append((seconds, found.value))
            print(
                f"  weakprox tol {tol:g}: {seconds:.3f} s, {found.status.name}, gap "
                f"{found.gap / found.value:.1e}, rank {found.low_rank.rank}, "
                f"{found.counts.svds} SVDs"
            )
        if asked.device != "cpu":
            continue
        alone(rows, cols, y, shape, lam, asked.tol[0], asked.max_seconds)
        if asked.alone:
            continue
        for label, peer in (
            (
                "cmfrec ALS k=50, 30 iterations",
                lambda: cmfrec_als(rows, cols, y, asked.threads),
            ),
            (
                "implicit ALS k=50, 30 iterations",
                lambda: implicit_als(rows, cols, y, shape, asked.threads),
            ),
            ("lenskit ALS k=50, 30 epochs", lambda: lenskit_als(rows, cols, y)),
            *(
                [("KNNImputer", lambda: nearest_rows(rows, cols, y, shape))]
                if name == "100k"
                else []
            ),
        ):
            try:
                seconds, _ = timed(peer(), asked.repeat)
            except ImportError as missing:
                print(f"  {label}: not installed ({missing.name})")
            else:
                print(f"  {label}: {seconds:.3f} s")
        if name == "100k" and reached:
            try:
                values = [value for _, value in reached]
                times = soft_impute(rows, cols, y, shape, lam, values)
            except ImportError as missing:
                print(f"  fancyimpute's SoftImpute: not installed ({missing.name})")
            else:
                for spent, (seconds, value) in zip(times, reached, strict=False):
                    print(
                        f"  fancyimpute's SoftImpute: {spent:.1f} s to our {value:.2f}, "
                        f"{spent / seconds:.0f} times as long"
                    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:])
    else:
        main()
