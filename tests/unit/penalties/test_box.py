"""Bounds on entries: proximal map, solutions of constrained problems, proofs and refusals."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1, Box
from weakprox.penalties.base import Smoothed
from weakprox.penalties.proximal import proximal_dual
from weakprox.spectral import NuclearBall, NuclearNorm

rng = np.random.default_rng(0)
M = rng.standard_normal((9, 3)) @ rng.standard_normal((3, 7))
ZERO = rng.random(M.shape) < 0.2
BOXES = {
    "box": (-0.5, 1.0),
    "nonnegative": (0.0, np.inf),
    "above": (-np.inf, 0.4),
    "positive": (0.3, np.inf),
    "negative": (-np.inf, -0.2),
    "fixed": (np.where(ZERO, 0.0, -np.inf), np.where(ZERO, 0.0, np.inf)),
    "columns": (-np.arange(1.0, 8.0), np.arange(1.0, 8.0) / 4),
}
SLOPE = 12.0


def best_value(low, high, h):
    X = cp.Variable(M.shape)
    low, high = (np.broadcast_to(end, M.shape) for end in (low, high))
    limits = [X[np.isfinite(low)] >= low[np.isfinite(low)]] if np.isfinite(low).any() else []
    if np.isfinite(high).any():
        limits.append(X[np.isfinite(high)] <= high[np.isfinite(high)])
    f = 0.5 * cp.sum_squares(X - M)
    if isinstance(h, NuclearNorm):
        f = f + h.lam * cp.normNuc(X)
    else:
        limits.append(cp.normNuc(X) <= h.tau)
    return cp.Problem(cp.Minimize(f), limits).solve(solver="CLARABEL")


@pytest.mark.parametrize("h", [NuclearNorm(0.5), NuclearBall(8.0)], ids=repr)
@pytest.mark.parametrize("name", BOXES)
def test_solves_the_constrained_problem(name, h):
    low, high = BOXES[name]
    problem = wp.Problem(Denoising(M), Box(low, high, SLOPE), h)
    result = wp.minimize(problem, tol=1e-6, proof=True)
    best = best_value(low, high, h)
    assert result.certified
    assert result.value == pytest.approx(best, rel=3e-6)
    assert result.certificate.lower_bound <= best * (1 + 1e-7)
    outside = np.maximum(np.maximum(low - result.X, result.X - high), 0.0)
    assert outside.max() <= 1e-3
    verdict = wp.verify(result.proof, problem)
    assert verdict
    assert not verdict.trusted


def test_the_proximal_map_moves_entries_into_the_box():
    penalty = Box(-0.5, 1.0, SLOPE)
    found = M - 0.7 * penalty.pull(proximal_dual(penalty, M, 0.7))
    np.testing.assert_allclose(found, np.clip(M, -0.5, 1.0), atol=1e-12)
    short = Box(-0.5, 1.0, 0.3)
    found = M - 0.7 * short.pull(proximal_dual(short, M, 0.7))
    far = np.sign(M) * (np.abs(M) - 0.21)
    wanted = np.where(M > 1.21, far, np.where(M < -0.71, far, np.clip(M, -0.5, 1.0)))
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("slope", [0.0, 0.5, 2.0])
def test_smoothed_distances_are_those_of_huber(slope):
    """s r^2/(2 mu) up to the distance mu, then s (r - mu/2)."""
    mu, X = 0.3, np.linspace(-2.0, 2.0, 41)[None]
    r = np.maximum(X - 1.0, 0.0) + np.maximum(-0.5 - X, 0.0)
    huber = np.where(r <= mu, r * r / (2 * mu), r - mu / 2)
    found = Smoothed.of(Box(-0.5, 1.0, slope), mu, X.shape).value(X)
    assert found == pytest.approx(slope * huber.sum(), rel=1e-12)


def test_bounds_and_sparsity_together():
    problem = wp.Problem(Denoising(M), Box(0.0, np.inf, SLOPE) + L1(0.3), NuclearNorm(0.5))
    signed = wp.Problem(Denoising(M), wp.penalties.SignedL1(0.3, SLOPE), NuclearNorm(0.5))
    result = wp.minimize(problem, tol=1e-6, proof=True)
    assert result.value == pytest.approx(wp.minimize(signed, tol=1e-6).value, rel=1e-5)
    assert wp.verify(result.proof, problem)


@pytest.mark.parametrize("make", [torch.asarray, lambda x: x.astype(np.float32)])
def test_other_arrays(make):
    problem = wp.Problem(Denoising(make(M)), Box(-0.5, 1.0, SLOPE), NuclearNorm(0.5))
    result = wp.minimize(problem, tol=1e-3)
    assert result.certified
    assert result.X.dtype == make(M).dtype
    assert result.value == pytest.approx(best_value(-0.5, 1.0, NuclearNorm(0.5)), rel=1.5e-3)


def test_units_do_not_matter():
    scale = 2.0**-300
    box = Box(-0.5 * scale, scale, SLOPE * scale)
    problem = wp.Problem(Denoising(scale * M), box, NuclearNorm(0.5 * scale))
    result = wp.minimize(problem, proof=True)
    assert result.certified
    assert wp.verify(result.proof, problem)


def test_penalties_can_be_told_apart():
    assert Box(0.0, 1.0, 2.0) == Box(0, 1, 2)
    assert Box(0.0, 1.0, 2.0) != Box(0.0, 2.0, 2.0)
    assert repr(Box(0.0, np.inf, 2.0)) == "Box(0, inf, slope=2.0)"
    assert (2.0 * Box(0.0, 1.0, 2.0)).slope == 4.0


@pytest.mark.parametrize(
    ("low", "high", "slope", "name"),
    [
        (1.0, 0.0, 1.0, "low"),
        (np.nan, 1.0, 1.0, "low"),
        (np.inf, np.inf, 1.0, "low"),
        (-np.inf, -np.inf, 1.0, "high"),
        ("a", 1.0, 1.0, "low"),
        (0.0, 1.0, -1.0, "slope"),
        (0.0, 1.0, np.inf, "slope"),
        (np.zeros((2, 3)), np.ones((3, 2)), 1.0, "low"),
        (np.zeros((2, 2, 2)), 1.0, 1.0, "low"),
    ],
)
def test_wrong_bounds_are_refused(low, high, slope, name):
    with pytest.raises(wp.WeakproxError, match=name):
        Box(low, high, slope)


def test_bounds_must_fit():
    with pytest.raises(wp.ShapeError, match="low"):
        wp.Problem(Denoising(M), Box(np.zeros((3, 7)), 1.0, 1.0), NuclearNorm(0.5))
