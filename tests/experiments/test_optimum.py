"""Reference optima against CVXPY and closed forms, and their bounds against each other."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from reference._cvx import l1, solve, squared_distance

from weakprox.errors import InputError, ShapeError
from weakprox.experiments.instances import instance, optimum, project, table1_signal
from weakprox.linalg.simplex import project_capped
from weakprox.spectral import NuclearBall, TracePSD

LAM, MU = 0.4, 0.3


def noisy(rng, m=12, d=12):
    """Rank two and noise; symmetric if square."""
    if m != d:
        return rng.standard_normal((m, 2)) @ rng.standard_normal((2, d))
    Y = rng.standard_normal((m, 2))
    N = rng.standard_normal((m, m))
    return Y @ Y.T + 0.3 * (N + N.T)


def huber(X):
    return LAM * cp.sum(cp.huber(X, MU)) / (2 * MU)  # CVXPY's Huber is x^2 up to its bend


@pytest.mark.parametrize("spectral", [NuclearBall(6.0), TracePSD(6.0)])
def test_l1_optimum_agrees_with_cvxpy(rng, spectral):
    M = noisy(rng)
    kind = "psd" if spectral.symmetric else "ball"
    value, X = solve(M.shape, lambda V: squared_distance(M)(V) + l1(LAM)(V), kind, spectral.tau)
    found = optimum(M, LAM, spectral, gap=1e-7)
    assert found.gap <= 1e-7
    assert found.lower_bound <= value + 1e-6
    assert found.value == pytest.approx(value, abs=1e-5)
    np.testing.assert_allclose(found.X, X, atol=3e-3)


@pytest.mark.parametrize("spectral", [NuclearBall(6.0), TracePSD(6.0)])
def test_smoothed_optimum_agrees_with_cvxpy(rng, spectral):
    M = noisy(rng)
    kind = "psd" if spectral.symmetric else "ball"
    value, X = solve(M.shape, lambda V: squared_distance(M)(V) + huber(V), kind, spectral.tau)
    found = optimum(M, LAM, spectral, gap=1e-7, mu=MU)
    assert found.gap <= 1e-7
    assert found.lower_bound <= value + 1e-6
    assert found.value == pytest.approx(value, abs=1e-5)
    np.testing.assert_allclose(found.X, X, atol=3e-3)


@pytest.mark.parametrize("spectral", [NuclearBall(5.0), TracePSD(5.0)])
def test_without_l1_the_optimum_is_the_projection(rng, spectral):
    M = noisy(rng)
    w, V = np.linalg.eigh(M)
    if spectral.symmetric:
        expected = (V * project_capped(w, 5.0)) @ V.T
    else:
        expected = (V * np.sign(w) * project_capped(np.abs(w), 5.0)) @ V.T
    found = optimum(M, 0.0, spectral, gap=1e-9)
    assert found.steps == 1
    np.testing.assert_allclose(found.X, expected, atol=1e-10)
    np.testing.assert_allclose(
        optimum(M, 0.0, spectral, gap=1e-9, mu=MU).X, expected, atol=1e-10
    )


def test_a_loose_ball_leaves_soft_thresholding(rng):
    M = noisy(rng)
    soft = np.sign(M) * np.maximum(np.abs(M) - LAM, 0)
    found = optimum(M, LAM, NuclearBall(1e3), gap=1e-9)
    np.testing.assert_allclose(found.X, soft, atol=1e-9)
    shrunk = np.where(np.abs(M) <= MU + LAM, M / (1 + LAM / MU), M - LAM * np.sign(M))
    found = optimum(M, LAM, NuclearBall(1e3), gap=1e-12, mu=MU)
    np.testing.assert_allclose(found.X, shrunk, atol=1e-5)


@pytest.mark.parametrize("shape", [(9, 14), (14, 9), (10, 10)])
@pytest.mark.parametrize("tau", [0.5, 5.0, 1e3])
def test_projection_is_that_of_the_svd(rng, shape, tau):
    A = rng.standard_normal(shape)
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    expected = (U * project_capped(s, tau)) @ Vt
    np.testing.assert_allclose(project(A, NuclearBall(tau)), expected, atol=1e-12)


def test_projection_keeps_small_singular_values_that_squaring_would_lose(rng):
    U, V = (np.linalg.qr(rng.standard_normal((8, 8)))[0] for _ in range(2))
    s = np.array([1e6, 1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
    A = (U * s) @ V.T
    found = project(A, NuclearBall(float(s.sum()) - 1e-2))
    values = np.linalg.svd(found, compute_uv=False)
    np.testing.assert_allclose(values, project_capped(s, s.sum() - 1e-2), atol=1e-8)


def test_the_gap_is_honest_when_steps_run_out(rng):
    M = noisy(rng)
    exact = optimum(M, LAM, TracePSD(3.0), gap=1e-9)
    rough = optimum(M, LAM, TracePSD(3.0), gap=1e-9, max_steps=3)
    assert rough.steps == 3
    assert rough.gap > 1e-6
    assert rough.lower_bound <= exact.value + 1e-9
    assert rough.value >= exact.lower_bound - 1e-9


def test_bad_arguments_are_refused(rng):
    M = noisy(rng, 6, 8)
    with pytest.raises(ShapeError):
        optimum(M, LAM, TracePSD(1.0), gap=1e-3)
    with pytest.raises(InputError, match="lam"):
        optimum(M, -1.0, NuclearBall(1.0), gap=1e-3)
    with pytest.raises(InputError, match="gap"):
        optimum(M, LAM, NuclearBall(1.0), gap=0.0)
    with pytest.raises(InputError, match="mu"):
        optimum(M, LAM, NuclearBall(1.0), gap=1e-3, mu=-1.0)


def test_the_instance_of_section_5():
    M0, tau, size = instance(400, 3, 5)
    again, other = instance(400, 3, 5), instance(400, 3, 6)
    assert np.array_equal(M0, again.M0)
    assert not np.array_equal(M0, other.M0)
    signal = np.linalg.svd(M0, compute_uv=False)[:3]
    assert np.sum(signal) == pytest.approx(tau, rel=0.1)  # noise adds about 2 sqrt(d)
    assert np.sum(signal**2) == pytest.approx(size, rel=0.1)
    assert np.std(M0 - M0.T) == pytest.approx(np.sqrt(2), rel=0.02)  # N is not symmetric
    # 3 d entries, kept with probability 1/20, of mean square 38.5
    assert tau == pytest.approx(3 * 20 * 38.5, rel=0.5)


@pytest.mark.parametrize(("noise", "rank"), [("matrix", 50), ("vector", 2)])
def test_the_matrix_of_table_1(noise, rank):
    c, spread, support = 2.0, [], []
    for seed in range(40):
        M, y = table1_signal(50, c, np.random.default_rng(seed), noise)
        N = M - np.outer(y, y)
        assert y.any()
        assert np.array_equal(M, M.T)
        assert np.linalg.matrix_rank(N) == rank
        assert set(y) <= set(range(11))
        spread.append(np.mean(N[np.triu_indices(50, 1)] ** 2))
        support.append(np.count_nonzero(y))
    assert np.mean(spread) == pytest.approx(c**2 / 2, rel=0.1)
    assert np.mean(support) == pytest.approx(5, abs=1)


def test_a_signal_of_zero_is_drawn_again():
    # n = 2: y = 0 in 81 of 100 draws
    assert all(table1_signal(2, 1.0, np.random.default_rng(k)).y.any() for k in range(50))
