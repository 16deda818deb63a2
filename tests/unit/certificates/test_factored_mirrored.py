"""Factored steps in a cone with penalties that change if X is transposed."""

import cvxpy as cp
import numpy as np
import pytest
from factored_duals import check_resumed, check_run, closest

import weakprox as wp
from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Denoising
from weakprox.passes import Step, passes_for
from weakprox.passes.mirrored import Mirrored
from weakprox.penalties import L1, Box, ElasticNet, GroupL2
from weakprox.solvers import DavisYin
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD


def drawn(rng, kind, form=None):
    """A random problem with groups, weights or bounds, and its optimum."""
    form = form or rng.choice(["groups", "weights", "bounds", "both"])
    m, d = (4, 4) if kind == "cone" else (5, 4)
    C = rng.uniform(0.5, 3.0) * rng.standard_normal((m, d)) + rng.choice([-2.0, 0.0, 2.0])
    C = C + C.T if kind == "cone" else C
    X = cp.Variable((m, d), symmetric=kind == "cone")
    size, lam, level, lam2 = rng.uniform([0.5, 0.1, 0.1, 0.0], [6.0, 1.0, 1.5, 0.3])
    W = rng.choice([0.0, 0.2, 1.0, 30.0], (m, d)) * rng.random((m, d))
    low, high = -rng.random((m, d)), rng.random((m, d))
    axis = int(rng.integers(2))
    R, f = ElasticNet(0.0, lam2), 0.5 * cp.sum_squares(X - C) + lam2 * cp.sum_squares(X)
    if form in ("groups", "both"):
        R = R + GroupL2(level, groups=("columns", "rows")[axis])
        f += level * cp.sum(cp.norm(X, 2, axis=axis))
    if form in ("weights", "both"):
        R = R + L1(lam, W)
        f += lam * cp.sum(cp.multiply(W, cp.abs(X)))
    if form == "bounds":
        R = R + Box(low, high, lam)
        f += lam * cp.sum(cp.pos(X - high) + cp.pos(low - X))
    h = {"ball": NuclearBall, "norm": NuclearNorm, "cone": TracePSD}[kind](size)
    limits = []
    if kind == "norm":
        f += size * cp.normNuc(X)
    else:
        limits += [cp.normNuc(X) <= size] if kind == "ball" else [X >> 0, cp.trace(X) <= size]
    problem = wp.Problem(Denoising(C), R, h)
    return problem, cp.Problem(cp.Minimize(f), limits).solve(solver="CLARABEL")


@pytest.mark.portable
@pytest.mark.parametrize("kind", ["ball", "norm", "cone"])
def test_bounds_never_exceed_the_optimum(kind):
    assert closest(drawn, kind) <= 1e-3  # not merely weak


@pytest.mark.parametrize("form", ["groups", "weights", "bounds", "both"])
def test_runs_prove_no_more_than_the_optimum(form):
    rng = np.random.default_rng([9, len(form)])
    for _ in range(4):
        problem, best = drawn(rng, "cone", form)
        assert problem.mirrored
        check_run(problem, best)


def sparse_low_rank(size=260):
    """Symmetric data of low rank, and the trace of a suitable cone."""
    rng = np.random.default_rng(6)
    Y = np.where(rng.random((size, 3)) < 0.1, rng.uniform(2.0, 6.0, (size, 3)), 0.0)
    N = rng.standard_normal((size, size))
    return Y @ Y.T + 0.7 * (N + N.T), 0.8 * float(np.sum(Y * Y)), rng.random((size, size))


@pytest.mark.parametrize(
    ("dtype", "compiled"),
    [(np.float64, "always"), (np.float64, "never"), (np.float32, "never")],  # compiling is slow
)
def test_the_default_run_stays_in_factors(dtype, compiled, monkeypatch):
    monkeypatch.setenv("WEAKPROX_COMPILE", compiled)
    M, tau, W = sparse_low_rank()
    for R in (GroupL2(2.0), L1(1.0, W) + GroupL2(1.0, groups="columns"), Box(-W, W.T, 0.5)):
        given = wp.Problem(Denoising(M.astype(dtype)), R, TracePSD(tau))
        found = wp.minimize(given, tol=1e-4, progress=False)
        assert found.solver == "LeanSplitting"
        assert found.certified
        best = wp.minimize(wp.Problem(Denoising(M), R, TracePSD(tau)), DavisYin(), tol=1e-6)
        room = 1e-6 * best.value if dtype == np.float32 else 0.0
        assert found.certificate.lower_bound <= best.value + room
        assert best.value - best.gap <= found.value + room


def test_resumed_runs_have_the_same_bits(tmp_path):
    M, tau, W = sparse_low_rank(120)
    given = wp.Problem(Denoising(M), L1(1.0, W) + GroupL2(1.0), TracePSD(tau))
    check_resumed(given, tmp_path / "c")


def test_products_are_those_of_the_symmetric_part():
    rng = np.random.default_rng(3)
    C, z = rng.standard_normal((2, 9, 9))
    Q, k = rng.standard_normal((9, 2)), Step(0.7, 1.0, 0.1, 0.2, 0.3, rows=0.8)
    passes, plain = Mirrored(passes_for(z)), passes_for(z)
    X = wp.LowRank(Q, np.array([2.0, 1.0]), Q.T)
    same = z.copy()
    product = passes.advance(C, z, X, k, 0.9, Q)[1]
    plain.advance(C, same, X, k, 0.9)
    np.testing.assert_array_equal(z, same)
    for found in (product, passes.times(z, Q), passes.quick_transpose_times(z, Q)):
        np.testing.assert_allclose(to_numpy(found), 0.5 * (z + z.T) @ Q, atol=1e-13)
    product = passes.first(C, z, k, Q)
    np.testing.assert_allclose(product, 0.5 * (z + z.T) @ Q, atol=1e-13)
    assert passes.first(C, z, k) is None
