"""The same where G is known through a sampler: statements that hold at a confidence."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from soak.instances import matrix
from soak.kit import Kit, Matrix, nuclear_norm
from soak.laws import LAWS

import weakprox as wp
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import L1, ElasticNet
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

CONFIDENCE = 0.95
SAMPLES = 4000  # at most


def too_many(made: int, missed: int) -> bool:
    """Whether so many misses contradict the confidence, beyond chance and a fair margin."""
    expected = (1 - CONFIDENCE) * made
    return missed > expected + 4 * math.sqrt(expected + 1)


def _loss(rng: np.random.Generator, C: Matrix, size: float, kit: Kit) -> tuple[Any, str]:
    """A loss known through a sampler, of expectation 1/2 |X - C|^2 and a constant."""
    m, d = C.shape
    noise = float(size * 10.0 ** rng.uniform(-2, 0))
    name = str(rng.choice(list(LAWS)))

    def noisy(source: np.random.Generator, k: int) -> Matrix:
        N = LAWS[name](source, k, (m, d))
        N = (N + N.transpose(0, 2, 1)) / 2 if np.array_equal(C, C.T) else N
        return C + noise * N

    def copies(source: np.random.Generator, k: int) -> Any:
        return kit.give(noisy(source, k))

    def measured(source: np.random.Generator, k: int) -> Any:
        A = source.standard_normal((k, m, d))
        return kit.give(A), kit.give((A * noisy(source, k)).sum((1, 2)))

    if rng.random() < 0.5:
        return Denoising(sampler=copies, shape=(m, d)), f"copies, {name}"
    constants = {"smoothness": 1.0, "strong_convexity": 1.0}
    return Sensing(sampler=measured, shape=(m, d), **constants), f"measured, {name}"


def check(seed: int) -> tuple[list[str], int, int]:
    """What is not true about this seed; whether there was a statement, and it was missed."""
    rng = np.random.default_rng([seed, 1809])
    kit = Kit(np.float32 if rng.random() < 0.3 else np.float64, bool(rng.random() < 0.2))
    most = (20 if kit.single else 90) if rng.random() < 0.5 else 3
    size = float(10.0 ** rng.uniform(-most, most))
    m, d = (int(x) for x in rng.integers(1, 9, 2))
    kind = str(rng.choice(["ball", "psd", "norm"]))
    C = size * matrix(rng, (m, m) if kind == "psd" else (m, d), kind == "psd")
    radius = float((nuclear_norm(C) or size) * rng.choice([0.3, 0.9, 2.0]))
    h = {"ball": NuclearBall, "psd": TracePSD}.get(kind, NuclearNorm)(
        radius / (3 * min(C.shape)) if kind == "norm" else radius
    )
    lam = float(size * 10.0 ** rng.uniform(-2, 0))
    R = L1(lam) if rng.random() < 0.5 else ElasticNet(lam, 0.3)
    G, name = _loss(rng, C, size, kit)
    label = f"seed {seed} ({name} {R} {h} {m}x{d} {size:.0e} {kit})"
    tol = float(10.0 ** rng.uniform(-2, -0.5))
    true = wp.Problem(Denoising(C), R, h)  # in expectation, both losses are this one
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            known = wp.minimize(true, tol=1e-8, max_svds=200, max_seconds=1.0, progress=False)
            result = wp.minimize(
                wp.Problem(G, R, h),
                tol=tol,
                seed=seed,
                max_samples=SAMPLES,
                max_seconds=1.0,
                progress=False,
            )
            str(result), result.explain()
    except Exception as failure:
        return [f"{label}: raised {failure!r}"], 0, 0
    found = []
    X = np.asarray(result.X).astype(float)
    f = true.smooth_value(X) + (h.lam * nuclear_norm(X) if kind == "norm" else 0.0)
    if not (np.isfinite(X).all() and np.isfinite(f) and np.isfinite(result.value)):
        found.append(f"{label}: value {result.value}, {f}")
    if not 0.0 <= result.violation <= (1e-4 if kit.single else 1e-8):
        found.append(f"{label}: outside by {result.violation:.1e}")
    if np.isnan(result.gap) or (result.gap <= result.eps) != (
        result.status is wp.Status.CONFIDENT
    ):
        found.append(f"{label}: {result.status.name}, gap {result.gap}, eps {result.eps}")
    slack = 4096 * float(np.finfo(kit.dtype).eps) * (abs(f) + abs(known.value))
    stated = result.status is wp.Status.CONFIDENT
    return found, int(stated), int(stated and f - known.value > result.gap + slack)
