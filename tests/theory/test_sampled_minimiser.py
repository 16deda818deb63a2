"""How far the minimiser of a mean over k samples is from the optimum.

With e the error of the mean gradient at X*, f - f* <= |e|^2/(2 a) where samples cancel,
so sigma^2/(2 a k) in the mean. In sensing the curvature is sampled too: there it holds
with the smallest eigenvalue of 2 H_k - H + c I in place of a, H and H_k being the Hessians
of G and of the mean, and it fails with a itself.
"""

from __future__ import annotations

import numpy as np
import pytest

import weakprox as wp

SHAPE, SEEDS = (3, 2), 40
MD = 6
PENALTY = wp.penalties.ElasticNet(0.05, 0.01)
C = 2 * 0.01  # the quadratic of R
BALL = wp.spectral.NuclearBall(2.0)
X0 = np.outer([1.0, 0.0, -1.0], [1.0, 0.5])
N = 4000


def solved(loss):
    result = wp.minimize(wp.Problem(loss, PENALTY, BALL), tol=1e-7, progress=False)
    return result.X


@pytest.fixture(scope="module")
def population():
    """Measurements that are the whole distribution, f of it, X* and the noise there."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((N, *SHAPE))
    b = np.tensordot(A, X0, 2) + 0.5 * rng.standard_normal(N)
    best = solved(wp.losses.Sensing(A, b))
    return A, b, best


def value(A, b, X):
    residual = np.tensordot(A, X, 2) - b
    return 0.5 * float(residual @ residual) / len(b) + PENALTY.value(X)


def gradients(A, b, X):
    return (np.tensordot(A, X, 2) - b)[:, None] * A.reshape(len(b), -1)


def hessian(A):
    flat = A.reshape(len(A), -1)
    return flat.T @ flat / len(A)


def sampled(population, k):
    """Excess of the minimiser, |e|^2 at X*, and the eigenvalue, seed by seed."""
    A, b, best = population
    mean, H, least = gradients(A, b, best).mean(axis=0), hessian(A), value(A, b, best)
    rows = []
    for seed in range(SEEDS):
        kept = np.random.default_rng([1, seed]).integers(0, N, k)
        X = solved(wp.losses.Sensing(A[kept], b[kept]))
        e = gradients(A[kept], b[kept], best).mean(axis=0) - mean
        slope = np.linalg.eigvalsh(2 * hessian(A[kept]) - H + C * np.eye(MD))[0]
        rows.append((value(A, b, X) - least, float(e @ e), slope))
    return np.array(rows).T


def test_with_the_sampled_curvature_the_bound_holds_in_every_run(population):
    excess, square, slope = sampled(population, 200)
    assert np.all(slope > 0)
    assert np.all(excess <= square / (2 * slope) * (1 + 1e-6) + 1e-9)


def test_with_the_strong_convexity_of_f_it_fails_for_few_samples(population):
    A, b, best = population
    alpha = np.linalg.eigvalsh(hessian(A))[0] + C
    variance = float(gradients(A, b, best).var(axis=0).sum())
    excess, _, slope = sampled(population, 8)
    assert np.all(slope < 0)  # so few samples do not show the curvature
    claimed = variance / (2 * alpha * 8)
    assert excess.mean() - 3 * excess.std() / np.sqrt(SEEDS) > claimed


def test_where_samples_cancel_it_holds_in_every_run():
    rng = np.random.default_rng(2)
    alpha, noise = 1 + C, 0.7
    best = solved(wp.losses.Denoising(X0))

    def f(X):
        return 0.5 * float(((X - X0) ** 2).sum()) + PENALTY.value(X)

    for _ in range(SEEDS):
        e = noise / np.sqrt(8) * rng.standard_normal(SHAPE)
        X = solved(wp.losses.Denoising(X0 + e))
        assert f(X) - f(best) <= float((e**2).sum()) / (2 * alpha) + 1e-9
