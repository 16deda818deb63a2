"""torch follows NumPy's path, float32 stays float32, and nothing changes its namespace."""

import numpy as np
import pytest
import torch
from registry import (
    DOUBLE,
    LOSSES,
    NUMPY,
    NUMPY32,
    SHAPE,
    SINGLE,
    TORCH,
    denoising_sampler,
    max_affine,
    numbers,
    sensing_sampler,
)

import weakprox as wp
from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Denoising
from weakprox.penalties import L1, ElasticNet, GroupL2
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

SYM = numbers(6, 6) + numbers(6, 6).T
WIDE = numbers(150, 140, seed=220) / 5 + 4 * np.outer(numbers(150), numbers(140)) / 140


def build(name, backend):
    ball = NuclearBall(2.0)
    loss = LOSSES[name].build(backend) if name in LOSSES else None
    return {
        "denoising-samples": lambda: wp.Problem(loss, L1(0.2), ball),
        "sensing-dense": lambda: wp.Problem(loss, ElasticNet(0.1, 0.2), ball),
        "sensing-rank-one": lambda: wp.Problem(loss, ElasticNet(0.1, 0.2), ball),
        "completion-sum": lambda: wp.Problem(loss, ElasticNet(0.1, 0.2), ball),
        "custom-finite-sum": lambda: wp.Problem(loss, GroupL2(0.2), ball),
        "custom-deterministic": lambda: wp.Problem(loss, None, NuclearNorm(0.3)),
        "max": lambda: wp.Problem(
            Denoising(backend.array(numbers(*SHAPE))), max_affine(backend), ball
        ),
        "sampler": lambda: wp.Problem(denoising_sampler(backend), L1(0.2), ball),
        "sensing-sampler": lambda: wp.Problem(
            sensing_sampler(backend), ElasticNet(0.5, 1.0), ball
        ),
        "psd": lambda: wp.Problem(Denoising(backend.array(SYM)), L1(0.2), TracePSD(4.0)),
        "exact": lambda: wp.Problem(
            Denoising(backend.array(SYM)),
            L1(0.2),
            Exact(lambda A, weight: A.clip(-0.5, 0.5), lambda X: 0.0),
        ),
        "wide": lambda: wp.Problem(
            Denoising(backend.array(WIDE)), GroupL2(0.1, "columns"), NuclearBall(5.0)
        ),
    }[name]()


NAMES = (
    "denoising-samples",
    "sensing-dense",
    "sensing-rank-one",
    "completion-sum",
    "custom-finite-sum",
    "custom-deterministic",
    "max",
    "sampler",
    "sensing-sampler",
    "psd",
    "exact",
    "wide",
)
SOLVER = wp.SVRGCG(rank=3, inner=15, epochs=2, k_t=7, k_s=20)


def run(name, backend, **options):
    return wp.minimize(
        build(name, backend), SOLVER, eps=0.5, seed=11, stop_when_certified=False, **options
    )


@pytest.mark.parametrize("name", NAMES)
def test_torch_takes_the_same_path_as_numpy(name):
    a, b = run(name, NUMPY), run(name, TORCH)
    assert np.abs(a.X - to_numpy(b.X)).max() <= 1e-8
    assert a.value == pytest.approx(b.value, rel=1e-9)
    assert np.allclose(a.trace["value"], b.trace["value"], rtol=1e-8)
    assert (a.counts.samples, a.counts.svds) == (b.counts.samples, b.counts.svds)
    assert a.status is b.status
    if a.gap is not None:
        assert a.gap == pytest.approx(b.gap, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", DOUBLE + SINGLE, ids=lambda b: b.name)
def test_namespace_and_dtype_are_kept_to_the_result(name, backend):
    problem = build(name, backend)
    looks = []
    result = wp.minimize(
        problem, SOLVER, eps=0.5, seed=11, stop_when_certified=False, callback=looks.append
    )
    U, s, Vt = result.factors
    for x in (result.X, U, s, Vt, looks[-1].X, result.checkpoint.memory.X):
        assert backend.owns(x)
    assert type(result.value) is float
    assert np.isfinite(result.value)
    assert result.violation <= (1e-9 if backend in DOUBLE else 1e-6)
    assert "x" in repr(result)


@pytest.mark.parametrize("name", [n for n in NAMES if "sampler" not in n])
@pytest.mark.parametrize("backend", SINGLE, ids=lambda b: b.name)
def test_single_precision_agrees_with_double(name, backend):
    low, high = run(name, backend), run(name, NUMPY)
    assert low.value == pytest.approx(high.value, rel=1e-3)
    assert low.certificate.lower_bound <= high.value  # a bound also in single precision
    assert low.certificate.lower_bound >= high.certificate.lower_bound - 1e-2 * abs(high.value)


@pytest.mark.parametrize("backend", SINGLE, ids=lambda b: b.name)
@pytest.mark.parametrize("spectral", [NuclearBall(3.3), TracePSD(3.3)], ids=["ball", "psd"])
def test_single_precision_runs_end_feasible_and_certified(spectral, backend):
    big = numbers(60, 60, seed=5)
    problem = wp.Problem(Denoising(backend.array(big + big.T)), L1(0.1), spectral)
    result = wp.minimize(problem, wp.SVRGCG(4), eps=30.0, max_svds=400)
    assert np.isfinite(result.value)
    assert result.violation <= 1e-6
    assert result.status is wp.Status.CERTIFIED


def test_starts_are_cast_to_the_problems_dtype():
    problem = wp.Problem(Denoising(NUMPY32.array(numbers(*SHAPE))), L1(0.2), NuclearBall(2.0))
    start = np.zeros(SHAPE)
    start[0, 0] = 1.0
    assert NUMPY32.owns(wp.minimize(problem, wp.SVRGCG(3), eps=0.5, start=start).X)


def test_default_dtype_of_torch_does_not_leak_in():
    """torch makes float32 by default; nothing here may fall back to it."""
    assert torch.get_default_dtype() == torch.float32
    result = run("sensing-sampler", TORCH)
    assert result.X.dtype == torch.float64


def test_torch_tensors_that_record_gradients_are_taken_as_data():
    M = torch.asarray(numbers(*SHAPE)).requires_grad_()
    problem = wp.Problem(Denoising(M.detach()), L1(0.2), NuclearBall(2.0))
    assert not wp.minimize(problem, wp.SVRGCG(3), eps=0.5).X.requires_grad


def test_fortran_order_and_strided_data():
    M = numbers(*SHAPE)
    results = [
        wp.minimize(wp.Problem(Denoising(A), L1(0.2), NuclearBall(2.0)), wp.SVRGCG(3), eps=0.1)
        for A in (M, np.asfortranarray(M), np.repeat(M, 2, axis=1)[:, ::2], M[::-1][::-1])
    ]
    for other in results[1:]:
        assert np.abs(other.X - results[0].X).max() <= 1e-10
