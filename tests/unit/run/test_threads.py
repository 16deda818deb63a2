"""Which runs keep the threads of BLAS, and which share passes among threads of ours."""

import numpy as np
import pytest
from registry import SHAPE, numbers

import weakprox as wp
from weakprox.linalg import threads
from weakprox.losses import Denoising, Regression
from weakprox.penalties import L1
from weakprox.spectral import NuclearBall

M = numbers(*SHAPE)
A = np.random.default_rng(0).standard_normal((40, SHAPE[0]))
DENOISING, REGRESSION = Denoising(M), Regression(A, A @ M)


@pytest.fixture(autouse=True)
def large(monkeypatch):
    monkeypatch.setattr(threads, "LARGE", 1)  # every matrix is


@pytest.mark.parametrize(
    ("solver", "loss", "kind"),
    [
        (wp.SVRGCG(3, inner=3, epochs=1), DENOISING, "one"),
        (wp.solvers.AdaptiveSVRGCG(3), DENOISING, "one"),
        (wp.solvers.SCG(), DENOISING, "one"),
        (wp.solvers.FISTA(), DENOISING, "all"),  # products with full blocks
        (wp.solvers.DavisYin(), DENOISING, "all"),
        (wp.SVRGCG(3, inner=3, epochs=1), REGRESSION, "all"),  # gradients are wide products
    ],
)
def test_threads_of_blas_in_runs_on_large_matrices(solver, loss, kind):
    seen = set()
    problem = wp.Problem(loss, L1(0.2), NuclearBall(2.0))
    wp.minimize(
        problem, solver, eps=0.1, callback=lambda _: seen.add(threads._kind_here()),
        look_every=1, stop_when_certified=False, max_svds=40,
    )  # fmt: skip
    assert seen == {kind}
