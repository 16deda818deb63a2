"""Every loss, penalty and spectral term, built alike for NumPy and torch.

A test over `cases(LOSSES)` runs each registered object in each namespace it supports; a
new term is tested by adding one line here.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from weakprox.losses import (
    Completion,
    Custom,
    Denoising,
    Huber,
    Logistic,
    Regression,
    Sensing,
)
from weakprox.penalties import L1, Box, ElasticNet, GroupL2, MaxAffine, SignedL1, Sum, Zero
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

SHAPE = (7, 5)
ALL = bool(os.environ.get("WEAKPROX_TEST_ALL"))  # as `make test-all` asks for
THOROUGH = bool(os.environ.get("WEAKPROX_TEST_THOROUGH"))  # the same


@dataclass(frozen=True)
class Backend:
    """A namespace, a dtype and a device."""

    name: str
    dtype: Any
    device: str = "cpu"

    @property
    def is_torch(self) -> bool:
        return self.name.startswith("torch")

    def array(self, values: Any) -> Any:
        values = np.array(values)
        if self.is_torch:
            return torch.asarray(values, dtype=self.dtype, device=self.device)
        return values.astype(self.dtype)

    def owns(self, x: Any) -> bool:
        """Whether x is an array of this namespace and dtype, on this device."""
        kind = torch.Tensor if self.is_torch else np.ndarray
        if not isinstance(x, kind) or x.dtype != self.dtype:
            return False
        return not self.is_torch or x.device.type == self.device


NUMPY = Backend("numpy64", np.dtype(np.float64))
NUMPY32 = Backend("numpy32", np.dtype(np.float32))
TORCH = Backend("torch64", torch.float64)
TORCH32 = Backend("torch32", torch.float32)
DOUBLE = (NUMPY, TORCH)
SINGLE = (NUMPY32, TORCH32)
ROUNDED = 64 * float(np.finfo(np.float32).eps)  # violation that counts as rounding there


@dataclass(frozen=True)
class Entry:
    """One registered object; `build(backend)` makes it."""

    build: Callable[[Backend], Any]
    numpy_only: bool = False


def cases(entries: dict[str, Entry], backends: tuple[Backend, ...] = DOUBLE) -> list[Any]:
    """Parameters (build, backend) for every entry in every namespace it supports."""
    return [
        pytest.param(entry.build, backend, id=f"{name}-{backend.name}")
        for name, entry in entries.items()
        for backend in backends
        if not (entry.numpy_only and backend.is_torch)
    ]


# Shifts everything random in the numerical core; 0 is what the suite runs with.
SEED = int(os.environ.get("WEAKPROX_TEST_SEED", "0"))


def generator(*seed: int) -> np.random.Generator:
    """Random numbers fixed by `seed` and by WEAKPROX_TEST_SEED, should that not be 0."""
    return np.random.default_rng([*seed, SEED] if SEED else list(seed))


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return generator(seed, *shape).standard_normal(shape)


# ---------------------------------------------------------------------- losses

N = 60
NOISY = numbers(*SHAPE) + 0.5 * numbers(N, *SHAPE)  # noisy copies of one matrix
MATRICES = numbers(N, *SHAPE, seed=1)
LEFT, RIGHT = numbers(N, SHAPE[0], seed=2), numbers(N, SHAPE[1], seed=3)
SPARSE = np.where(np.abs(MATRICES) > 1.0, MATRICES, 0.0)
MEASURED = numbers(N, seed=4)
OUTCOMES = np.where(MEASURED > 0.3, 1.0, 0.0)
WEIGHTS = 1.0 + 0.5 * np.sin(np.arange(N))
ROWS, COLS = np.divmod(np.random.default_rng(5).integers(0, SHAPE[0] * SHAPE[1], 50), SHAPE[1])
OBSERVED = numbers(50, seed=6)
HOLES = np.where(np.abs(numbers(*SHAPE, seed=7)) > 0.3, numbers(*SHAPE, seed=8), np.nan)


def memmap_of(values: np.ndarray, dtype: Any = np.float64) -> np.memmap:
    """The values in a memory-mapped temporary file (unlinked, so nothing stays behind)."""
    with TemporaryFile() as file:
        mapped = np.memmap(file, dtype=dtype, mode="w+", shape=values.shape)
    mapped[:] = values
    return mapped


def denoising_sampler(backend: Backend) -> Denoising:
    def sampler(rng: np.random.Generator, k: int) -> Any:
        return backend.array(NOISY[rng.integers(0, N, k)])

    return Denoising(sampler=sampler, shape=SHAPE)


def sensing_sampler(backend: Backend) -> Sensing:
    def sampler(rng: np.random.Generator, k: int) -> Any:
        picked = rng.integers(0, N, k)
        return backend.array(MATRICES[picked]), backend.array(MEASURED[picked])

    return Sensing(sampler=sampler, shape=SHAPE)


def custom_deterministic(backend: Backend) -> Custom:
    M = backend.array(numbers(*SHAPE))
    return Custom(
        SHAPE,
        value=lambda X: float((X**4 / 40 + 0.5 * (X - M) ** 2).sum()),
        grad=lambda X: X**3 / 10 + X - M,
        strong_convexity=1.0,
        smoothness=10.0,
        like=M,
    )


def custom_terms(backend: Backend, *, sampled: bool = False) -> Custom:
    """Terms w_i/2 |X - M_i|^2: the gradient differences depend on the sample."""
    M, w = backend.array(NOISY), backend.array(WEIGHTS)

    def value(X: Any, i: Any) -> float:
        return float((0.5 * w[i][:, None, None] * (X - M[i]) ** 2).sum()) / len(i)

    def grad(X: Any, i: Any) -> Any:
        return (w[i][:, None, None] * (X - M[i])).sum(0) / len(i)

    options: dict[str, Any] = {"strong_convexity": float(WEIGHTS.mean()), "like": M[0]}
    if sampled:
        options["sampler"] = lambda rng, k: rng.integers(0, N, k)
    else:
        options["n_terms"] = N
    return Custom(SHAPE, value=value, grad=grad, **options)


LOSSES = {
    "denoising-matrix": Entry(lambda b: Denoising(b.array(NOISY[0]))),
    "denoising-samples": Entry(lambda b: Denoising(samples=b.array(NOISY))),
    "denoising-memmap": Entry(
        lambda b: Denoising(samples=memmap_of(NOISY, b.dtype)), numpy_only=True
    ),
    "denoising-huber": Entry(lambda b: Denoising(b.array(NOISY[0]), loss=Huber(0.5))),
    "denoising-weights": Entry(
        lambda b: Denoising(b.array(NOISY[0]), weights=1.0 + np.abs(numbers(*SHAPE, seed=11)))
    ),
    "denoising-holes": Entry(
        lambda b: Denoising(b.array(HOLES), loss=Huber(0.5), weights=np.arange(5.0))
    ),
    "sensing-dense": Entry(lambda b: Sensing(b.array(MATRICES), b.array(MEASURED))),
    "sensing-memmap": Entry(
        lambda b: Sensing(memmap_of(MATRICES, b.dtype), b.array(MEASURED)), numpy_only=True
    ),
    "sensing-rank-one": Entry(
        lambda b: Sensing((b.array(LEFT), b.array(RIGHT)), b.array(MEASURED))
    ),
    "sensing-sparse": Entry(
        lambda b: Sensing(
            scipy.sparse.csr_array(b.array(SPARSE.reshape(N, -1))),
            b.array(MEASURED),
            shape=SHAPE,
        ),
        numpy_only=True,
    ),
    "logistic": Entry(lambda b: Logistic(b.array(MATRICES), b.array(OUTCOMES))),
    "logistic-rank-one": Entry(
        lambda b: Logistic((b.array(LEFT), b.array(RIGHT)), b.array(OUTCOMES), intercept=True)
    ),
    "logistic-sparse": Entry(
        lambda b: Logistic(
            scipy.sparse.csr_array(b.array(SPARSE.reshape(N, -1))),
            b.array(OUTCOMES),
            shape=SHAPE,
        ),
        numpy_only=True,
    ),
    "regression": Entry(lambda b: Regression(b.array(LEFT), b.array(RIGHT))),
    "regression-intercept": Entry(
        lambda b: Regression(b.array(LEFT), b.array(RIGHT), intercept=True)
    ),
    "regression-sparse": Entry(
        lambda b: Regression(
            scipy.sparse.csr_array(b.array(np.where(np.abs(LEFT) > 0.5, LEFT, 0.0))),
            b.array(RIGHT),
            intercept=True,
        ),
        numpy_only=True,
    ),
    "completion-sum": Entry(lambda b: Completion(ROWS, COLS, b.array(OBSERVED), SHAPE)),
    "completion-mean": Entry(
        lambda b: Completion(ROWS, COLS, b.array(OBSERVED), SHAPE, reduction="mean")
    ),
    "completion-dense": Entry(lambda b: Completion.from_dense(b.array(HOLES))),
    "completion-sparse": Entry(
        lambda b: Completion.from_sparse(
            scipy.sparse.csr_array(np.where(np.isnan(HOLES), 0.0, HOLES).astype(b.dtype))
        ),
        numpy_only=True,
    ),
    "custom-deterministic": Entry(custom_deterministic),
    "custom-finite-sum": Entry(custom_terms),
}

# Each draws from the terms of a finite sum above, so its expectation is known.
SAMPLED = {
    "denoising-sampler": (Entry(denoising_sampler), "denoising-samples"),
    "sensing-sampler": (Entry(sensing_sampler), "sensing-dense"),
    "custom-sampler": (Entry(lambda b: custom_terms(b, sampled=True)), "custom-finite-sum"),
}

# ------------------------------------------------------------------- penalties

PIECES, OFFSETS = numbers(6, *SHAPE, seed=9), numbers(6, seed=10)


def max_affine(backend: Backend) -> MaxAffine:
    return MaxAffine(backend.array(PIECES), backend.array(OFFSETS))


PENALTIES = {
    "zero": Entry(lambda b: Zero()),
    "l1": Entry(lambda b: L1(0.7)),
    "l1-no-weight": Entry(lambda b: L1(0.0)),
    "l1-weights": Entry(lambda b: L1(0.7, np.abs(numbers(*SHAPE, seed=12)))),
    "l1-column-weights": Entry(lambda b: 2.0 * L1(0.7, np.arange(SHAPE[1]))),
    "box": Entry(lambda b: Box(-0.3, 0.5, 2.0)),
    "box-nonnegative": Entry(lambda b: 3.0 * Box(0.0, np.inf, 0.5)),
    "box-positive": Entry(lambda b: Box(0.3, np.inf, 1.5)),
    "box-entries": Entry(
        lambda b: Box(
            np.where(numbers(*SHAPE, seed=13) > 0, -np.inf, 0.0),
            np.abs(numbers(*SHAPE, seed=14)) * (numbers(*SHAPE, seed=15) > 0),
            1.5,
        )
    ),
    "elastic-net": Entry(lambda b: ElasticNet(0.7, 0.3)),
    "ridge": Entry(lambda b: ElasticNet(0.0, 0.3)),
    "signed": Entry(lambda b: SignedL1(0.3, 1.9)),
    "signed-one-price": Entry(lambda b: SignedL1(0.0, 2.0, 0.3)),
    "max-affine": Entry(max_affine),
    "max-affine-one-piece": Entry(lambda b: MaxAffine(b.array(PIECES[:1]))),
    "group-rows": Entry(lambda b: GroupL2(0.8, "rows")),
    "group-columns": Entry(lambda b: GroupL2(0.8, "columns")),
    "multiple": Entry(lambda b: 2.5 * ElasticNet(0.7, 0.3)),
    "multiple-max-affine": Entry(lambda b: 0.5 * max_affine(b)),
    "sum": Entry(lambda b: L1(0.3) + GroupL2(0.5) + ElasticNet(0.1, 0.2)),
    "sum-with-max": Entry(lambda b: max_affine(b) + ElasticNet(0.2, 0.1)),
    "multiple-of-sum": Entry(lambda b: 3.0 * (GroupL2(0.4, "columns") + L1(0.2))),
    "sum-listed": Entry(lambda b: Sum((L1(0.2), Zero(), max_affine(b)))),
}
# Those without arrays of SHAPE, or with arrays that tests replace.
ANY_SHAPE = [
    name for name in PENALTIES if name not in ("l1-weights", "l1-column-weights", "box-entries")
]

# -------------------------------------------------------------- spectral terms


def box(limit: float) -> Exact:
    """The indicator of |x_ij| <= limit, by its own projection."""

    def value_of(X: Any) -> float:
        # rounding when X is put together from factors, which differs from device to device
        rounding = 1e-9 if X.dtype in (np.float64, torch.float64) else 1e-6
        return 0.0 if float(abs(X).max()) <= limit * (1 + rounding) else float("inf")

    return Exact(
        prox=lambda A, weight: A.clip(-limit, limit),
        value_of=value_of,
        conjugate_of=lambda U: limit * float(abs(U).sum()),
    )


SPECTRAL = {
    "ball-tight": Entry(lambda b: NuclearBall(2.0)),
    "ball-loose": Entry(lambda b: NuclearBall(1e3)),
    "psd-tight": Entry(lambda b: TracePSD(2.0)),
    "psd-loose": Entry(lambda b: TracePSD(1e3)),
    "norm": Entry(lambda b: NuclearNorm(0.8)),
    "norm-heavy": Entry(lambda b: NuclearNorm(50.0)),
}
EXACT = {"exact-box": Entry(lambda b: box(0.5))}
