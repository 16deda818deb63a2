"""Runs of every solver, each of many outer steps, to be killed at any moment.

A case is a function that makes the problem, the solver and the options of `minimize` anew,
as a process does that starts again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import random_array

import weakprox as wp
from weakprox import solvers
from weakprox.losses import Completion, Custom, Denoising, Huber, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SHAPE = (24, 18)
TIGHT = 1e-14  # out of reach: limits end these runs
Case = Callable[[], tuple[wp.Problem, Any, dict[str, Any]]]
CASES: dict[str, Case] = {}


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def signal(m: int = SHAPE[0], d: int = SHAPE[1], seed: int = 0) -> Any:
    """Low rank and sparse, with noise."""
    rng = np.random.default_rng(seed)
    factors = [np.where(rng.random((n, 3)) < 0.4, rng.uniform(1, 3, (n, 3)), 0) for n in (m, d)]
    return factors[0] @ factors[1].T + 0.3 * rng.standard_normal((m, d))


def denoising(wrap: Any = np.asarray) -> wp.Problem:
    return wp.Problem(Denoising(wrap(signal())), L1(0.3), NuclearBall(60.0))


def sensing(wrap: Any = np.asarray) -> wp.Problem:
    A, b = numbers(60, 7, 5, seed=1), numbers(60, seed=2)
    return wp.Problem(Sensing(wrap(A), wrap(b)), ElasticNet(0.02, 0.2), NuclearBall(2.0))


def sampled(wrap: Any = np.asarray) -> wp.Problem:
    M = signal()

    def sampler(rng: np.random.Generator, k: int) -> Any:
        return wrap(M + 0.5 * rng.standard_normal((k, *SHAPE)))

    return wp.Problem(Denoising(sampler=sampler, shape=SHAPE), L1(0.3), NuclearBall(60.0))


def sampled_sensing() -> wp.Problem:
    X = numbers(6, 5, seed=3)

    def sampler(rng: np.random.Generator, k: int) -> Any:
        A = rng.standard_normal((k, 6, 5))
        return A, (A * X).sum((1, 2)) + 0.1 * rng.standard_normal(k)

    loss = Sensing(sampler=sampler, shape=(6, 5), strong_convexity=1.0)
    return wp.Problem(loss, L1(0.05), NuclearBall(5.0))


def too_convex() -> wp.Problem:
    """A loss that declares more strong convexity than it has: the run restates it."""
    M, w = numbers(*SHAPE), 0.3 + np.abs(numbers(*SHAPE, seed=4))
    loss = Custom(
        SHAPE,
        value=lambda X: 0.5 * float((w * (X - M) ** 2).sum()),
        grad=lambda X: w * (X - M),
        strong_convexity=2.0,
        smoothness=float(w.max()),
        infimum=0.0,
    )
    return wp.Problem(loss, L1(0.1), NuclearNorm(0.3))


def completion() -> wp.Problem:
    M, seen = signal(), np.abs(numbers(*SHAPE, seed=5)) > 0.4
    rows, cols = np.nonzero(seen)
    loss = Completion(rows, cols, M[seen], SHAPE)
    return wp.Problem(loss, GroupL2(0.2) + ElasticNet(0.1, 0.05), NuclearNorm(0.5))


def covariance() -> wp.Problem:
    B = numbers(18, 4)
    return wp.Problem(Denoising(B @ B.T), L1(0.5), TracePSD(40.0))


def few_pieces() -> wp.Problem:
    pieces = numbers(6, *SHAPE, seed=6)
    return wp.Problem(Denoising(signal()), MaxAffine(pieces), NuclearBall(60.0))


def case(name: str, problem: Callable[[], wp.Problem], solver: Any, **options: Any) -> None:
    """Register a case: a solver, or None for the one that is chosen."""
    CASES[name] = lambda: (problem(), solver, {"seed": 7, "tol": TIGHT, **options})


def warm_start() -> tuple[wp.Problem, Any, dict[str, Any]]:
    """Beside the answer of a neighbouring problem, as paths of weights do it."""
    near = wp.minimize(denoising(), tol=1e-3, progress=False)
    options = {"start": near, "tol": TIGHT, "max_svds": 120, "seed": 7}
    return wp.Problem(Denoising(signal()), L1(0.25), NuclearBall(60.0)), None, options


def from_a_point() -> tuple[wp.Problem, Any, dict[str, Any]]:
    near = wp.minimize(sampled(), tol=0.5, progress=False)
    return sampled(), wp.SVRGCG(**SHORT), {"start": near.X, "eps": 0.2, "max_svds": 240}


def thin(wrap: Any = np.asarray) -> wp.Problem:
    return wp.Problem(Denoising(wrap(signal(70, 50))), L1(0.5), NuclearBall(100.0))


def not_thin() -> wp.Problem:
    return wp.Problem(Denoising(numbers(90, 80)), L1(0.1), NuclearBall(500.0))


def observed() -> wp.Problem:
    rows, cols = np.nonzero(np.abs(numbers(*SHAPE, seed=5)) > 0.4)
    loss = Completion(rows, cols, signal()[rows, cols], SHAPE, intercepts="both")
    return wp.Problem(loss, None, NuclearNorm(0.5))


def with_outliers() -> wp.Problem:
    return wp.Problem(Denoising(signal(), loss=Huber(0.05)), None, NuclearNorm(0.3))


def large_and_sparse() -> wp.Problem:
    links = random_array((300, 200), density=0.03, rng=np.random.default_rng(0), format="csr")
    return wp.Problem(Denoising(links), None, NuclearBall(3.0))


case("DavisYin", denoising, solvers.DavisYin(), max_svds=150)
case("DavisYin, sum of penalties", completion, solvers.DavisYin(), max_svds=150)
case("DavisYin, restated", too_convex, solvers.DavisYin(), max_svds=150)
case("DavisYin, PSD", covariance, solvers.DavisYin(rank=5), max_svds=150)
case("auto", sensing, None, max_svds=300)
CASES["warm start"] = warm_start
case("LeanSplitting", thin, solvers.LeanSplitting(), max_svds=40)
case("LeanSplitting, torch", lambda: thin(torch.asarray), solvers.LeanSplitting(), max_svds=40)
case("LeanSplitting to DavisYin", not_thin, solvers.LeanSplitting(), max_svds=60)
case("FactoredProximal", observed, solvers.FactoredProximal(), max_svds=60)
case("FilledProximal", observed, solvers.FilledProximal(), max_svds=60)
case("DenseProximal", with_outliers, solvers.DenseProximal(), max_svds=60)
case("Thresholding", large_and_sparse, solvers.Thresholding(), max_svds=40)
case("ADMM", sensing, solvers.ADMM(), max_svds=150)
case("DualAscent", few_pieces, solvers.DualAscent(), max_svds=150)
case("Extragradient", denoising, solvers.Extragradient(), max_svds=300)
case("Extragradient, few pieces", few_pieces, solvers.Extragradient(), max_svds=300)
case("SampleAverage", sampled, None, tol=None, eps=0.01)
case("SampleAverage, sensing", sampled_sensing, None, tol=None, eps=0.6)
SHORT = {"rank": 3, "inner": 12}  # epochs
for name, make in (
    ("finite", denoising),
    ("sampled", sampled),
    ("torch", lambda: sensing(torch.asarray)),
):
    options = {"tol": None, "eps": 1e-5 if name == "finite" else 0.4, "max_svds": 240}
    case(f"SVRGCG, {name}", make, wp.SVRGCG(**SHORT), stop_when_certified=False, **options)
CASES["SVRGCG from a point"] = from_a_point
for few, make in ((("finite", 1e-9), sensing), (("sampled", 0.2), sampled)):
    practical = wp.solvers.AdaptiveSVRGCG(rank="estimate")
    case(f"SVRGCG practical, {few[0]}", make, practical, tol=None, eps=few[1], max_svds=400)
for solver in (
    solvers.SCG(sigma=1.0),
    solvers.SCGS(),
    solvers.STORC(),
    solvers.SVRF(),
    solvers.HCGM(),
    solvers.SHCGM(sigma=1.0),
    solvers.FISTA(),
    solvers.ProjectedSubgradient(batch=2),
):
    case(type(solver).__name__, sensing, solver, tol=None, eps=1e-4, max_svds=400)
