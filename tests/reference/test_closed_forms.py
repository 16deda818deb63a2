"""Problems whose optimum can be written down (item 17 of the checklist)."""

from __future__ import annotations

import numpy as np
import pytest

import weakprox as wp


def soft(x, lam):
    return np.sign(x) * np.maximum(np.abs(x) - lam, 0.0)


def capped(values, tau):
    """Projection on {p >= 0, sum p <= tau}, by bisection on the shift."""
    if np.maximum(values, 0).sum() <= tau:
        return np.maximum(values, 0)
    low, high = 0.0, values.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if np.maximum(values - middle, 0).sum() > tau else (low, middle)
        )
    return np.maximum(values - high, 0)


def noisy(shape, seed):
    rng = np.random.default_rng(seed)
    low = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    return low + 0.1 * rng.standard_normal(shape)


def check(M, penalty, spectral, target, value, eps, *, rank=None, full_eps=None):
    """Within eps of the closed form, below it by proof, and as near as that implies."""
    problem = wp.Problem(wp.losses.Denoising(M), penalty, spectral)
    rank = rank or max(1, np.linalg.matrix_rank(target, tol=1e-9))
    result = wp.minimize(problem, wp.SVRGCG(rank=int(rank)), eps=eps, progress=False)
    slack = 1e-9 * (1 + abs(value))
    assert value - slack <= result.value <= value + eps
    assert result.certificate.lower_bound <= value + slack
    assert result.status is wp.Status.CERTIFIED
    assert float(((result.X - target) ** 2).sum()) <= 2 * eps + slack
    # the whole of the theorem's work, no early stop (at a larger eps where it is long)
    full_eps = full_eps or eps
    full = wp.minimize(
        problem,
        wp.SVRGCG(rank=min(M.shape), answer="iterate"),
        eps=full_eps,
        stop_when_certified=False,
        progress=False,
    )
    assert value - slack <= full.value <= value + full_eps
    return result


@pytest.mark.parametrize("shape", [(12, 12), (20, 9), (9, 20)])
@pytest.mark.parametrize("tau", [1.0, 6.0, 1e3])
def test_no_penalty_is_the_projection_on_the_ball(shape, tau):
    M = noisy(shape, 0)
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    target = (U * capped(s, tau)) @ Vt
    value = 0.5 * float(((target - M) ** 2).sum())
    check(M, None, wp.spectral.NuclearBall(tau), target, value, 1e-3)


@pytest.mark.parametrize("tau", [1.0, 20.0])
def test_no_penalty_is_the_projection_on_the_psd_set(tau):
    M = noisy((10, 10), 1)
    M = M + M.T  # indefinite
    w, U = np.linalg.eigh(M)
    assert w[0] < -1
    target = (U * capped(w, tau)) @ U.T
    value = 0.5 * float(((target - M) ** 2).sum())
    check(M, None, wp.spectral.TracePSD(tau), target, value, 1e-3)


@pytest.mark.parametrize("lam", [0.5, 3.0, 100.0])
def test_no_penalty_is_soft_thresholding_of_the_spectrum(lam):
    M = noisy((10, 8), 2)
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    target = (U * soft(s, lam)) @ Vt
    value = 0.5 * float(((target - M) ** 2).sum()) + lam * float(soft(s, lam).sum())
    check(M, None, wp.spectral.NuclearNorm(lam), target, value, 1e-3)


@pytest.mark.parametrize("room", [1.0, 1.3])
def test_soft_threshold_where_it_fits_the_ball(room):
    M = noisy((9, 7), 3)
    lam = 0.4
    target = soft(M, lam)
    tau = room * np.linalg.norm(target, "nuc")
    value = 0.5 * float(((target - M) ** 2).sum()) + lam * float(np.abs(target).sum())
    spectral = wp.spectral.NuclearBall(tau)
    check(M, wp.penalties.L1(lam), spectral, target, value, 0.2, rank=7, full_eps=3.0)


@pytest.mark.parametrize("spectral", [wp.spectral.NuclearBall(3.0), wp.spectral.TracePSD(3.0)])
def test_zero_where_no_entry_exceeds_lam(spectral):
    M = noisy((6, 6), 4)
    M = M + M.T
    lam = float(np.abs(M).max())
    value = 0.5 * float((M**2).sum())
    target = np.zeros((6, 6))
    eps = 0.2 * value
    check(M, wp.penalties.L1(lam), spectral, target, value, eps, rank=2, full_eps=4 * eps)


@pytest.mark.parametrize("tau", [2.0, 5.0, 50.0])
@pytest.mark.parametrize("kind", [wp.spectral.NuclearBall, wp.spectral.TracePSD])
def test_diagonal_matrix_is_a_vector_problem(kind, tau):
    m = np.array([5.0, 4.0, 2.5, 1.0, 0.3, 0.0, 0.2, 3.0])
    lam = 0.4
    p = capped(soft(m, lam), tau)
    value = 0.5 * float(((p - m) ** 2).sum()) + lam * float(p.sum())
    spectral = kind(tau)
    check(
        np.diag(m), wp.penalties.L1(lam), spectral, np.diag(p), value, 0.1, rank=8, full_eps=3.0
    )
