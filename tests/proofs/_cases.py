"""Small problems of every kind of data, for proofs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import weakprox as wp
from weakprox.losses import (
    Completion,
    Custom,
    Denoising,
    Huber,
    Logistic,
    Regression,
    Sensing,
)
from weakprox.penalties import L1, Box, ElasticNet, GroupL2, MaxAffine, SignedL1
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

SHAPE = (24, 18)


def matrix(seed: int = 0) -> np.ndarray:
    """Rank two, and noise."""
    rng = np.random.default_rng(seed)
    m, d = SHAPE
    signal = rng.standard_normal((m, 2)) @ rng.standard_normal((2, d))
    return 2.0 * signal + 0.5 * rng.standard_normal(SHAPE)


@cache
def simple() -> wp.Problem:
    """Denoising with the l1 norm and the nuclear ball; one and the same object."""
    return wp.Problem(Denoising(matrix()), L1(0.3), NuclearBall(30.0))


def measurements() -> tuple[Any, ...]:
    """A, b, and pairs u, v, of X of shape (6, 5)."""
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((60, 6, 5)), rng.standard_normal(60)
    return A, b, rng.standard_normal((60, 6)), rng.standard_normal((60, 5))


def regression() -> tuple[Any, Any]:
    """Features of 40 rows, and responses."""
    rng = np.random.default_rng(9)
    X, B = rng.standard_normal((40, 12)), rng.standard_normal((12, 2))
    return X, X @ B @ rng.standard_normal((2, 7)) + rng.standard_normal((40, 7))


def problems(folder: Path) -> dict[str, wp.Problem]:
    """By name."""
    import dask.array as da
    import torch
    import zarr

    M, (A, b, u, v) = matrix(), measurements()
    np.save(folder / "M.npy", M)
    stack = np.stack([M + 0.1 * matrix(seed) for seed in range(3)])
    on_disk = zarr.create_array(folder / "M.zarr", shape=M.shape, chunks=(7, 18), dtype="f8")
    on_disk[:] = M
    rows, cols = np.nonzero(np.random.default_rng(2).random(SHAPE) < 0.5)
    seen = Completion(rows, cols, M[rows, cols], SHAPE)
    heavy = np.random.default_rng(7).uniform(0.5, 2.0, len(rows))
    counts = np.random.default_rng(8).poisson(np.exp(0.4 * M[rows, cols].clip(-4, 4)))
    seen_as = lambda values, **options: Completion(rows, cols, values, SHAPE, **options)  # noqa: E731
    sparse = scipy.sparse.random(60, 30, 0.4, format="csr", random_state=3)
    S = matrix()[:18] + matrix()[:18].T
    weights = np.random.default_rng(4).random(SHAPE)
    own = Custom(
        SHAPE,
        value=lambda X: 0.5 * float((weights * (X - M) ** 2).sum()),
        grad=lambda X: weights * (X - M),
        smoothness=1.0,
        strong_convexity=float(weights.min()),
    )
    box = Exact(
        prox=lambda A, weight: np.clip(A, -1.0, 1.0),
        value_of=lambda X: 0.0 if np.abs(X).max() <= 1.0 + 1e-9 else np.inf,
    )
    pieces = MaxAffine(np.random.default_rng(5).standard_normal((3, *SHAPE)), np.arange(3.0))
    ball, small = NuclearBall(30.0), NuclearBall(1.0)
    X, Y = regression()
    y = np.where(A[:, 0, 0] + 0.5 * b > 0.0, 2.0, -1.0)
    few = scipy.sparse.csr_array(X * (X > 0.5))
    free = np.where(np.eye(*SHAPE) > 0, 0.0, 1.0)
    terms = {
        "matrix": (Denoising(M), L1(0.3), ball),
        "map": (Denoising(np.load(folder / "M.npy", mmap_mode="r")), L1(0.3), ball),
        "zarr": (Denoising(on_disk), L1(0.3), ball),
        "operator": (Denoising(scipy.sparse.csr_array(M * (M > 1))), L1(0.3), ball),
        "dask": (Denoising(da.from_array(M, chunks=(5, 7))), ElasticNet(0.3, 0.1), ball),
        "float32": (Denoising(M.astype(np.float32)), L1(0.3), NuclearNorm(1.0)),
        "torch": (Denoising(torch.from_numpy(M)), SignedL1(0.2, 2.0), ball),
        "samples": (Denoising(samples=stack), GroupL2(0.3), ball),
        "copies": (Denoising(samples=da.from_array(stack, chunks=(2, 24, 18))), None, ball),
        "stream": (Denoising(samples=iter(list(stack))), L1(0.3), ball),
        "extreme": (Denoising(M * 2.0**120), L1(0.3 * 2.0**120), NuclearBall(30 * 2.0**120)),
        "psd": (Denoising(S), L1(0.3), TracePSD(20.0)),
        "sum": (Denoising(M), L1(0.2) + GroupL2(0.3, "columns") + 0.5 * pieces, ball),
        "sensing": (Sensing(A, b), ElasticNet(0.02, 0.1), small),
        "pairs": (Sensing((u, v), b), L1(0.02), NuclearNorm(0.1)),
        "sparse": (Sensing(sparse, b, shape=(6, 5)), ElasticNet(0.02, 0.1), small),
        "far": (Sensing(da.from_array(A, chunks=(20, 6, 5)), b), ElasticNet(0.02, 0.1), small),
        "few": (Sensing(A[:20], b[:20]), L1(0.02), small),
        "completion": (seen, L1(0.05), NuclearNorm(0.5)),
        "mean": (Completion(rows, cols, M[rows, cols], SHAPE, reduction="mean"), None, ball),
        "ratings": (seen_as(M[rows, cols], intercepts="both"), None, NuclearNorm(2.0)),
        "votes": (
            seen_as(M[rows, cols] > 0, loss="logistic", intercepts="rows"),
            None,
            NuclearNorm(0.7),
        ),
        "counts": (
            seen_as(counts, loss="poisson", intercepts="both", intercept_ridge=0.5),
            None,
            NuclearBall(5.0),
        ),
        "robust": (
            seen_as(M[rows, cols], loss=Huber(1.0), weights=heavy, scaling="counts"),
            None,
            NuclearNorm(1.0),
        ),
        "votes-l1": (
            seen_as(M[rows, cols] > 0, loss="logistic", reduction="mean", intercepts="both"),
            L1(1e-4),
            NuclearBall(8.0),
        ),
        "regression": (Regression(X, Y), L1(0.01), NuclearNorm(0.2)),
        "regression-intercept": (
            Regression(X + 3.0, Y - 5.0, intercept=True),
            L1(0.01),
            NuclearNorm(0.2),
        ),
        "regression-sparse": (Regression(few, Y, intercept=True), None, NuclearBall(2.0)),
        "regression-wide": (Regression(X[:8], Y[:8]), None, NuclearNorm(0.2)),
        "regression-float32": (
            Regression(X.astype(np.float32), Y.astype(np.float32), intercept=True),
            GroupL2(0.01),
            NuclearNorm(0.2),
        ),
        "outcomes": (Logistic(A, y), L1(1e-3), NuclearNorm(0.05)),
        "outcomes-intercept": (Logistic(A, y, intercept=True), None, NuclearNorm(0.05)),
        "outcomes-pairs": (Logistic((u, v), y, intercept=True), L1(1e-3), small),
        "outcomes-sparse": (Logistic(sparse, y, shape=(6, 5)), L1(1e-3), small),
        "outcomes-one-class": (Logistic(A, y * 0.0 + 1.0), None, NuclearNorm(0.05)),
        "weighted-l1": (Denoising(M), L1(0.3, weights=free), ball),
        "fixed-zeros": (Denoising(M), L1(0.3, weights=np.where(free > 0, free, np.inf)), ball),
        "bounds": (Denoising(M), Box(-1.0, np.inf, 20.0), NuclearNorm(1.0)),
        "weighted-data": (Denoising(M, weights=weights), L1(0.05), ball),
        "outliers": (Denoising(M, loss=Huber(1.0)), None, NuclearNorm(2.0)),
        "custom": (own, L1(0.05), ball),
        "exact": (Denoising(M), L1(0.3), box),
    }
    return {name: wp.Problem(*three) for name, three in terms.items()}
