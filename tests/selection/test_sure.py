"""Stein's estimate: divergences against finite differences, and errors against the truth."""

import numpy as np
import pytest
from selection._signals import sparse_low_rank

import weakprox as wp
from weakprox.linalg.simplex import project_capped
from weakprox.selection import Grid, sure, sure_over_grid


def project(A, tau):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    return (U * np.asarray(project_capped(s, tau))) @ Vt


def ball_divergence(s, tau, shape):
    r"""Divergence of the projection on a nuclear norm ball, from all singular values s of M.

    If :math:`p` of them stay positive as :math:`f_i = s_i - \theta`, it is

    .. math:: (p - 1) + |m - d| \sum_{i \le p} \frac{f_i}{s_i}
              + 2 \sum_{i \le p} \sum_{j \ne i} \frac{s_i f_i}{s_i^2 - s_j^2},

    an adaptation of Candès, Sing-Long & Trzasko, "Unbiased Risk Estimates for Singular Value
    Thresholding and Spectral Estimators", 2013, to a threshold that moves so that the sum
    stays tau.
    """
    m, d = shape
    if s.sum() <= tau:  # M itself
        return float(m * d)
    f = np.asarray(project_capped(s, tau), dtype=float)
    p = int((f > 0.0).sum())
    differences = s[:p, None] ** 2 - s[None, :] ** 2
    np.fill_diagonal(differences, np.inf)
    cross = (s[:p] * f[:p])[:, None] / differences
    return float(p - 1 + abs(m - d) * np.sum(f[:p] / s[:p]) + 2.0 * np.sum(cross))


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (6, 6)])
@pytest.mark.parametrize("share", [0.15, 0.5, 0.9, 1.5])
def test_closed_form_against_finite_differences(shape, share):
    A = np.random.default_rng(1).standard_normal(shape)
    s = np.linalg.svd(A, compute_uv=False)
    tau, h = share * s.sum(), 1e-6
    numeric = 0.0
    for i in range(shape[0]):
        for j in range(shape[1]):
            E = np.zeros(shape)
            E[i, j] = h
            numeric += (project(A + E, tau) - project(A - E, tau))[i, j] / (2 * h)
    assert ball_divergence(s, tau, shape) == pytest.approx(numeric, rel=1e-5)


def test_monte_carlo_agrees_with_the_closed_form():
    M = sparse_low_rank(40, 30)[1]
    s = np.linalg.svd(M, compute_uv=False)
    taus = np.array([[0.2, 0.4, 0.7]]) * s.sum()
    found = sure_over_grid(M, Grid(np.zeros(1), taus), 0.5, probes=6, tol=1e-6)
    exact = [sure(M, project(M, tau), 0.5, ball_divergence(s, tau, M.shape)) for tau in taus[0]]
    # the error of one probe is about sqrt(2 div), a few per cent of div
    np.testing.assert_allclose(found[0], exact, atol=0.1 * M.size * 0.25)


def test_it_is_unbiased():
    """On average over noise, the estimate is the error."""
    signal = sparse_low_rank(30, 25)[0]
    rng = np.random.default_rng(0)
    tau = 0.7 * np.linalg.norm(signal, "nuc")
    estimates, errors = [], []
    for _ in range(200):
        M = signal + 0.5 * rng.standard_normal(signal.shape)
        s = np.linalg.svd(M, compute_uv=False)
        X = project(M, tau)
        estimates.append(sure(M, X, 0.5, ball_divergence(s, tau, M.shape)))
        errors.append(np.sum((X - signal) ** 2))
    spread = np.std(np.subtract(estimates, errors)) / np.sqrt(200)
    assert abs(np.mean(estimates) - np.mean(errors)) < 4 * spread


def test_it_follows_the_true_error_over_a_grid():
    signal, M = sparse_low_rank(50, 40)
    grid = wp.selection.default_grid(M, 0.5, n_lams=4, n_taus=4)
    found = sure_over_grid(M, grid, 0.5)
    path = wp.selection.regularization_path(wp.losses.Denoising(M), grid.lams, grid.taus)
    truth = np.array([[np.sum((X.dense() - signal) ** 2) for X in row] for row in path.answers])
    assert np.corrcoef(found.ravel(), truth.ravel())[0, 1] > 0.98
    assert truth[path.best(found)[:2]] < 1.15 * truth.min()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: sure(np.eye(3), np.eye(2), 1.0, 1.0), "X"),
        (lambda: sure(np.eye(3), np.eye(3), -1.0, 1.0), "noise"),
        (lambda: sure_over_grid(np.eye(3), Grid(np.ones(1), np.ones((1, 1))), 0.0), "noise"),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(wp.InputError) as caught:
        call()
    assert caught.value.argument == argument


def test_probes_are_symmetric_only_if_all_answers_are():
    """M is symmetric but X is not bound to be: X = M has a divergence of one per entry."""
    A = np.random.default_rng(0).standard_normal((30, 30))
    A, grid = A + A.T, Grid(np.zeros(1), np.array([[1e4]]))
    found = sure_over_grid(A, grid, 1.0, tol=1e-8)  # -n + 2 n
    assert found[0, 0] == pytest.approx(A.size, rel=0.2)


def test_probes_are_those_of_the_terms_that_a_function_makes():
    A = np.random.default_rng(0).standard_normal((12, 12))
    A, grid = A @ A.T, Grid(np.zeros(1), np.array([[20.0]]))
    kinds = wp.spectral.TracePSD, lambda tau: wp.spectral.TracePSD(tau)
    one, other = (sure_over_grid(A, grid, 1.0, spectral=kind) for kind in kinds)
    np.testing.assert_array_equal(one, other)
