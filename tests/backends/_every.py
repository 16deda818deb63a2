"""Every loss, penalty, spectral term and solver in a small problem, for any backend."""

from functools import cache, partial

import numpy as np
from registry import (
    EXACT,
    LOSSES,
    NUMPY,
    PENALTIES,
    SAMPLED,
    SHAPE,
    SPECTRAL,
    denoising_sampler,
    max_affine,
    numbers,
)

import weakprox as wp
from weakprox import solvers
from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Denoising
from weakprox.penalties import L1, ElasticNet
from weakprox.spectral import NuclearBall

M = numbers(*SHAPE)
SYM = numbers(6, 6) + numbers(6, 6).T
Y = np.where(np.abs(numbers(60, 2, seed=21)) > 1.2, 5.0, 0.0)  # sparse patterns under noise
LONG, TAU = Y @ Y.T + numbers(60, 60, seed=22), 0.9 * float(np.sum(Y * Y))


def _with_loss(name, b):
    return wp.Problem(LOSSES[name].build(b), ElasticNet(0.1, 0.2), NuclearBall(2.0))


def _with_penalty(name, b):
    return wp.Problem(Denoising(b.array(M)), PENALTIES[name].build(b), NuclearBall(2.0))


def _with_spectral(name, b):
    return wp.Problem(Denoising(b.array(SYM)), L1(0.2), {**SPECTRAL, **EXACT}[name].build(b))


def _plain(b):
    return wp.Problem(Denoising(b.array(SYM)), ElasticNet(0.1, 0.2), NuclearBall(2.0))


def _half_observed(b):
    rows, cols = np.nonzero(numbers(60, 60, seed=23) > 0.0)
    values = b.array(LONG[rows, cols])
    return wp.losses.Completion(rows, cols, values, LONG.shape, intercepts="both")


PROBLEMS = {
    **{
        f"loss {name}": partial(_with_loss, name)
        for name, entry in LOSSES.items()
        if not entry.numpy_only
    },
    **{f"penalty {name}": partial(_with_penalty, name) for name in PENALTIES},
    **{f"spectral {name}": partial(_with_spectral, name) for name in {**SPECTRAL, **EXACT}},
}
SAMPLERS = {name: entry.build for name, (entry, _) in SAMPLED.items()}

# Solver, problem for it, and how long it runs: baselines are slow, so only a few steps.
SHORT = {"eps": 1e-3, "max_svds": 8}
SOLVERS = {
    "FISTA": (solvers.FISTA(), _plain, SHORT),
    "HCGM": (solvers.HCGM(), _plain, SHORT),
    "SCG": (solvers.SCG(), _plain, SHORT),
    "SCGS": (solvers.SCGS(), _plain, SHORT),
    "SHCGM": (solvers.SHCGM(), _plain, SHORT),
    "STORC": (solvers.STORC(), _plain, SHORT),
    "SVRF": (solvers.SVRF(), _plain, SHORT),
    "ProjectedSubgradient": (solvers.ProjectedSubgradient(), _plain, SHORT),
    "SVRGCG": (wp.SVRGCG(rank=3), _plain, {"eps": 0.5, "max_svds": 40}),
    "AdaptiveSVRGCG": (
        wp.solvers.AdaptiveSVRGCG(rank="estimate"), _plain, {"eps": 0.05},
    ),
    "DavisYin": (solvers.DavisYin(), _plain, {"tol": 1e-4}),
    "Extragradient": (solvers.Extragradient(), _plain, {"tol": 1e-3}),
    "ADMM": (
        solvers.ADMM(),
        lambda b: wp.Problem(
            Denoising(b.array(M), loss=wp.losses.Huber(1.0)), L1(0.1), NuclearBall(2.0)
        ),
        {"tol": 1e-3},
    ),
    "DualAscent": (
        solvers.DualAscent(),
        lambda b: wp.Problem(Denoising(b.array(M)), max_affine(b), NuclearBall(2.0)),
        {"tol": 1e-4},
    ),
    "LeanSplitting": (
        solvers.LeanSplitting(),
        lambda b: wp.Problem(Denoising(b.array(LONG)), L1(2.0), NuclearBall(TAU)),
        {"tol": 1e-4},
    ),
    "FactoredProximal": (
        solvers.FactoredProximal(),
        lambda b: wp.Problem(_half_observed(b), None, wp.spectral.NuclearNorm(4.0)),
        {"tol": 1e-3},
    ),
    "DenseProximal": (
        solvers.DenseProximal(),
        lambda b: wp.Problem(
            Denoising(b.array(LONG), loss=wp.losses.Huber(2.0)),
            None,
            wp.spectral.NuclearNorm(10.0),
        ),
        {"tol": 1e-3},
    ),
    "SampleAverage": (
        solvers.SampleAverage(),
        lambda b: wp.Problem(denoising_sampler(b), L1(0.2), NuclearBall(2.0)),
        {"tol": 0.1},
    ),
}  # fmt: skip


def solved(problem, solver=None, **options):
    """The result, without a progress bar."""
    return wp.minimize(problem, solver, progress=False, **options)


@cache
def optimum(name):
    """The same problem in NumPy's float64, solved closely."""
    return solved(PROBLEMS[name](NUMPY), tol=1e-7)


def check_kept(result, backend):
    """Everything in a result is of the input's namespace, dtype and device."""
    for x in (result.X, *result.factors):
        assert backend.owns(x)
    assert type(result.value) is float


def check_agrees(result, backend, name):
    """Both certificates hold for both answers."""
    exact, rounding = optimum(name), 1e-9 if "64" in backend.name else 1e-5
    room = rounding * (1.0 + abs(exact.value))
    value = PROBLEMS[name](NUMPY).smooth_value(to_numpy(result.X).astype(float))
    assert result.certificate.lower_bound <= exact.value + room
    assert exact.certificate.lower_bound <= result.value + room
    if "norm" not in name:
        assert abs(value - result.value) <= room
    assert result.value - exact.value <= result.gap + room
