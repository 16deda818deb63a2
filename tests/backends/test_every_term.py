"""One code path over arrays: every term, solver and certificate on torch."""

import numpy as np
import pytest
from backends._every import (
    PROBLEMS,
    SAMPLERS,
    SOLVERS,
    check_agrees,
    check_kept,
    optimum,
    solved,
)
from registry import NUMPY, NUMPY32, TORCH, TORCH32

import weakprox as wp
from weakprox import solvers
from weakprox.linalg.arrays import to_numpy
from weakprox.penalties import ElasticNet
from weakprox.spectral import NuclearBall

BACKENDS = pytest.mark.parametrize("backend", [TORCH, TORCH32, NUMPY32], ids=lambda b: b.name)


@BACKENDS
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_term(name, backend):
    double = backend is TORCH
    result = solved(PROBLEMS[name](backend), tol=1e-4 if double else 2e-3)
    check_kept(result, backend)
    assert result.status is wp.Status.CERTIFIED
    assert optimum(name).status is wp.Status.CERTIFIED
    check_agrees(result, backend, name)


@BACKENDS
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver(name, backend):
    solver, build, options = SOLVERS[name]
    found, same = (solved(build(b), solver, **options) for b in (backend, NUMPY))
    check_kept(found, backend)
    assert found.status is same.status
    close = 1e-7 if backend is TORCH else 5e-3
    assert found.value == pytest.approx(same.value, rel=close)
    assert np.isfinite(found.gap) == np.isfinite(same.gap)
    if backend is TORCH and name != "SampleAverage":
        # the steps between corrections follow from ratios of gaps, which rounding changes
        apart = 2 if name == "FactoredProximal" else 0
        assert abs(found.counts.svds - same.counts.svds) <= apart
        if found.counts.svds == same.counts.svds:
            assert np.abs(to_numpy(found.X) - same.X).max() <= 1e-6
        else:  # one made another step
            assert abs(found.value - same.value) <= max(found.gap, same.gap)


@pytest.mark.parametrize("backend", [TORCH, TORCH32], ids=lambda b: b.name)
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler(name, backend):
    problem = wp.Problem(SAMPLERS[name](backend), ElasticNet(0.5, 1.0), NuclearBall(2.0))
    result = solved(problem, tol=0.3, max_samples=20_000)
    check_kept(result, backend)
    assert result.certificate.rests_on == "sampled"
    assert np.isfinite(result.value)


def test_no_solver_is_left_out():
    listed = {name.split(",")[0] for name in SOLVERS}
    # matrices of SciPy, which `Thresholding` is for, have no other namespace; in namespaces
    # other than NumPy, `FactoredProximal` takes the place of `FilledProximal`
    assert listed == set(solvers.__all__) - {"Look", "Thresholding", "FilledProximal"}
