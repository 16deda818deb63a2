"""Bounds on entries: proximal map, solutions of constrained problems, proofs and refusals."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1, Box, ElasticNet
from weakprox.penalties.base import Smoothed
from weakprox.penalties.proximal import proximal_dual
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

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


@pytest.mark.filterwarnings("error")
def test_bounds_beyond_the_range_of_float32():
    X = M.astype(np.float32)
    far = Box(-0.5, np.where(M > 0.0, 1e300, 0.5), SLOPE)
    free = Box(-0.5, np.where(M > 0.0, np.inf, 0.5), SLOPE)
    y = far.ascend(None, X, 0.7)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, free.ascend(None, X, 0.7))
    result = wp.minimize(wp.Problem(Denoising(X), far, NuclearNorm(0.5)), "DavisYin", tol=1e-3)
    assert result.certified


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
        ("0", 1.0, 1.0, "low: got str"),
        (0j, 1.0, 1.0, "low: got complex"),
        (None, 1.0, 1.0, "low: got None"),
        (np.ma.masked_less([[0.0, -1.0]], 0.0), 1.0, 1.0, "low: got a masked array"),
        (0.0, 1.0, -1.0, "slope"),
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


# bounds without a slope


def bounded_value(loss, h, shape, low, high):
    """The optimum of the problem with the constraint."""
    X = cp.Variable(shape)
    limits = [low <= X, high >= X]
    f = loss(X)
    if isinstance(h, NuclearNorm):
        f = f + h.lam * cp.normNuc(X)
    else:
        limits.append(cp.normNuc(X) <= h.tau)
    return cp.Problem(cp.Minimize(f), limits).solve(solver="CLARABEL")


DATA = 3.0 * np.random.default_rng(5).standard_normal((6, 5))


@pytest.mark.parametrize(
    ("h", "low", "high"),
    [
        (NuclearNorm(1.0), 0.0, 1.0),
        (NuclearNorm(1.0), 1.0, 2.0),
        (NuclearNorm(4.0), -3.0, -0.5),
        (NuclearBall(2.0), 0.0, 1.0),
        (NuclearBall(8.0), -0.5, 0.5),
    ],
    ids=repr,
)
def test_bounds_without_a_slope_are_a_constraint(h, low, high):
    problem = wp.Problem(wp.losses.Denoising(DATA), Box(low, high), h)
    result = wp.minimize(problem, tol=1e-6, proof=True, progress=False)
    best = bounded_value(lambda X: 0.5 * cp.sum_squares(X - DATA), h, DATA.shape, low, high)
    assert result.certified
    assert result.value == pytest.approx(best, rel=3e-6)
    assert result.certificate.lower_bound <= best * (1 + 1e-7)
    assert low - 1e-4 <= result.X.min()
    assert result.X.max() <= high + 1e-4
    assert wp.verify(result.proof, problem)


@pytest.mark.parametrize("h", [NuclearNorm(0.3), NuclearBall(3.0)], ids=repr)
def test_bounds_of_coefficients_that_are_pulled_out_of_them(h):
    """The slope at zero is not enough: other coefficients move, too."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((4, 6)) + 2.0
    Y = A @ DATA[:6, :3]
    problem = wp.Problem(wp.losses.Regression(A, Y), Box(0.0, 0.5), h)
    result = wp.minimize(problem, tol=1e-5, progress=False)
    scale = problem.loss.value(np.zeros((6, 3)), problem.loss.everything()) / np.sum(Y**2)
    best = bounded_value(lambda X: scale * cp.sum_squares(A @ X - Y), h, (6, 3), 0.0, 0.5)
    assert result.certified
    assert result.value == pytest.approx(best, rel=3e-5)
    assert result.certificate.lower_bound <= best * (1 + 1e-6)


def test_bounds_beside_squares_and_other_bounds():
    """Squares pull an entry from its bound: by twice their weight times the bound."""
    both = Box(1.0, np.inf) + Box(-np.inf, 50.0) + ElasticNet(0.0, 40.0)
    with pytest.raises(wp.InputError, match="slope"):  # their nearest points to zero differ
        wp.Problem(wp.losses.Denoising(DATA), both, NuclearNorm(1.0))
    penalty = Box(1.0, np.inf) + ElasticNet(0.0, 40.0)
    problem = wp.Problem(wp.losses.Denoising(DATA), penalty, NuclearNorm(1.0))
    result = wp.minimize(problem, tol=1e-8, progress=False)
    assert result.X.min() == pytest.approx(1.0, abs=1e-4)


def test_a_box_without_a_slope_is_infinite_outside():
    box = Box(0.0, 1.0)
    assert repr(box) == "Box(0, 1)"
    assert box.value(np.array([[0.0, 1.0]])) == 0.0
    assert box.value(np.array([[0.0, 1.1]])) == np.inf
    problem = wp.Problem(wp.losses.Denoising(DATA), box, NuclearNorm(1.0))
    assert np.isfinite(problem.penalty.slope)
    assert problem.penalty.slope >= 1.0 + np.abs(np.clip(DATA, 0.0, 1.0) - DATA).max()


@pytest.mark.parametrize(
    ("box", "h"),
    [(Box(1.0, 2.0), NuclearBall(3.0)), (Box(0.0, 1.0), TracePSD(3.0))],
    ids=repr,
)
def test_bounds_without_a_known_slope_are_refused(box, h):
    with pytest.raises(wp.InputError, match="finite slope") as caught:
        wp.Problem(wp.losses.Denoising(np.eye(4)), box, h)
    assert caught.value.argument == "slope"
    wp.Problem(wp.losses.Denoising(np.eye(4)), Box(box.low, box.high, 5.0), h)


@pytest.mark.parametrize("penalty", [Box(0.0, 1.0), L1(1.0, np.inf)], ids=repr)
def test_a_loss_of_unbounded_curvature_has_no_known_slope(penalty):
    rows, cols = np.indices((4, 3)).reshape(2, -1)
    loss = wp.losses.Completion(rows, cols, np.arange(12.0), (4, 3), loss="poisson")
    with pytest.raises(wp.InputError, match=r"no known bound: .* curvature is unbounded"):
        wp.Problem(loss, penalty, NuclearBall(3.0))
