"""Methods for the leading singular triplets, timed alternately; the basis of "auto".

Rows: shape, rank and kind of matrix. "clear" has `rank` values well above the noise (what
a proximal target looks like when X* is low-rank), "flat" is pure noise (the hard case).
"warm" starts the block method from the basis of a nearby matrix, as solvers do.

A second table compares the ways in which `DavisYin` computes many triplets: the eigenvectors of
the Gram matrix, and one or two power steps with a wide block, which starts from a nearby
matrix.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from weakprox.linalg import thin_svd
from weakprox.linalg._thin_svd import wants_full
from weakprox.linalg.gram_svd import gram_svd
from weakprox.linalg.thick_svd import columns_for, thick_svd

CASES = [
    (40, 40, 5, "clear"),
    (60, 60, 5, "clear"),
    (100, 100, 5, "clear"),
    (100, 100, 30, "clear"),
    (300, 300, 10, "clear"),
    (300, 300, 90, "clear"),
    (1000, 1000, 10, "clear"),
    (1000, 1000, 10, "flat"),
    (2000, 300, 10, "clear"),
]


MANY = [(500, s) for s in (0.1, 0.3)] + [
    (d, s) for d in (1000, 2000) for s in (0.05, 0.1, 0.2, 0.3, 0.4)
]


def matrix(m: int, d: int, rank: int, kind: str) -> np.ndarray:
    """Noise, plus a clear low-rank part if asked for."""
    rng = np.random.default_rng([m, d, rank])
    A = rng.standard_normal((m, d))
    if kind == "clear":
        U = np.linalg.qr(rng.standard_normal((m, rank)))[0]
        V = np.linalg.qr(rng.standard_normal((d, rank)))[0]
        edge = np.sqrt(m) + np.sqrt(d)
        A += (U * np.linspace(10 * edge, 3 * edge, rank)) @ V.T
    return A


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Median time of a call."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main() -> None:
    """Print the table, in milliseconds."""
    tol = 1e-6
    print("thin SVD to a relative residual of 1e-6, milliseconds (median)")
    print(
        f"{'shape':>11} {'rank':>4} {'kind':>6}  lapack   block    warm  arpack propack  auto"
    )
    for m, d, rank, kind in CASES:
        A = matrix(m, d, rank, kind)
        near = A + 1e-3 * matrix(m, d, 1, "flat")
        basis = thin_svd(A, rank, tol=tol, method="block").basis
        repeats = 3 if m * d >= 10**6 else 9
        row = []
        for method in ("lapack", "block", "warm", "arpack", "propack"):
            if method == "warm":
                call = lambda: thin_svd(near, rank, tol=1e-3, start=basis, method="block")  # noqa: E731
            else:
                call = lambda: thin_svd(A, rank, tol=tol, method=method)  # noqa: E731
            row.append(1e3 * seconds(call, repeats))
        auto = "lapack" if wants_full((m, d), rank, warm=False) else "block"
        print(f"{m:>5} x{d:>5} {rank:>4} {kind:>6} " + " ".join(f"{t:7.2f}" for t in row), auto)
    print("many triplets above a cut-off, milliseconds (median)")
    print(f"{'size':>5} {'kept':>5} {'width':>5}    gram  1 power 2 powers")
    for d, share in MANY:
        A = matrix(d, d, 5, "clear")
        s = np.linalg.svd(A, compute_uv=False)
        cut, kept = float(s[int(share * d)]), int(share * d)
        start = gram_svd(A, lambda _: kept, d, lambda s: columns_for(s, cut)).basis
        near = A + 0.1 * matrix(d, d, 1, "flat")
        rng = np.random.default_rng(0)
        calls: list[Callable[[], object]] = [lambda: gram_svd(near, lambda _: kept, d)]
        for powers in (1, 2):
            calls.append(
                lambda powers=powers: thick_svd(
                    near, lambda s: int((s > cut).sum()), lambda s: cut, d, start, rng, powers
                )
            )
        row = [1e3 * seconds(call, 3) for call in calls]
        print(f"{d:>5} {kept:>5} {start.shape[1]:>5} " + " ".join(f"{t:8.1f}" for t in row))


if __name__ == "__main__":
    main()
