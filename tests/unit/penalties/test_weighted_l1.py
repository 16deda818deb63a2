"""Weights of the l1 norm: proximal map, solutions against CVXPY, proofs and refusals."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.linalg.simplex import ValueForm
from weakprox.losses import Completion, Denoising
from weakprox.penalties import L1, ElasticNet
from weakprox.penalties.fixed import _radius
from weakprox.penalties.proximal import proximal_dual
from weakprox.protocols import loss_capabilities
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

rng = np.random.default_rng(0)
M = rng.standard_normal((9, 9))
M = (M + M.T) / 2 + 3 * np.eye(9)
FREE = 1.0 - np.eye(9)


def best_value(weights, h):
    X = cp.Variable(M.shape, PSD=True) if isinstance(h, TracePSD) else cp.Variable(M.shape)
    f = 0.5 * cp.sum_squares(X - M) + 0.4 * cp.sum(cp.multiply(weights, cp.abs(X)))
    if isinstance(h, NuclearNorm):
        return cp.Problem(cp.Minimize(f + h.lam * cp.normNuc(X))).solve(solver="CLARABEL")
    size = cp.trace(X) if isinstance(h, TracePSD) else cp.normNuc(X)
    return cp.Problem(cp.Minimize(f), [size <= h.tau]).solve(solver="CLARABEL")


@pytest.mark.parametrize("h", [NuclearNorm(0.5), NuclearBall(15.0), TracePSD(15.0)], ids=repr)
@pytest.mark.parametrize("weights", [FREE, np.arange(9.0) * np.arange(9.0)[:, None] / 9])
def test_solves_and_proves(weights, h):
    problem = wp.Problem(Denoising(M), L1(0.4, weights), h)
    result = wp.minimize(problem, tol=1e-7, proof=True)
    best = best_value(weights, h)
    assert result.certified
    assert result.value == pytest.approx(best, rel=1e-6)
    assert result.certificate.lower_bound <= best * (1 + 1e-7)
    assert wp.verify(result.proof, problem)
    assert not wp.verify(result.proof, problem).trusted


def test_a_proof_of_other_weights_is_refused():
    problem = wp.Problem(Denoising(M), L1(0.4, FREE), NuclearNorm(0.5))
    other = wp.Problem(Denoising(M), L1(0.4, FREE + 1.0), NuclearNorm(0.5))
    proof = wp.minimize(problem, proof=True).proof
    with pytest.raises(wp.ProofError):
        wp.verify(proof, other)


def test_a_proof_does_not_depend_on_the_type_of_weights(tmp_path):
    weights = np.round(10.0 * np.abs(M)) / 8.0  # the same numbers in float32
    problem = wp.Problem(Denoising(M), L1(0.4, weights), NuclearNorm(0.5))
    wp.minimize(problem, proof=True).proof.save(tmp_path / "p.npz")
    other = L1(0.4, weights.astype(np.float32))
    assert other == problem.penalty
    assert other.weights.dtype == np.float32
    assert wp.verify(tmp_path / "p.npz", wp.Problem(problem.loss, other, problem.spectral))


def test_weights_in_a_sum_and_columns():
    columns = np.arange(9.0)
    problem = wp.Problem(
        Denoising(M), L1(0.4, columns) + ElasticNet(0.0, 0.1), NuclearNorm(0.5)
    )
    result = wp.minimize(problem, tol=1e-6, proof=True)
    X = cp.Variable(M.shape)
    f = 0.5 * cp.sum_squares(X - M) + 0.1 * cp.sum_squares(X) + 0.5 * cp.normNuc(X)
    f += 0.4 * cp.sum(cp.multiply(np.tile(columns, (9, 1)), cp.abs(X)))
    best = cp.Problem(cp.Minimize(f)).solve(solver="CLARABEL")
    assert result.value == pytest.approx(best, rel=1e-5)
    assert wp.verify(result.proof, problem)


def test_the_proximal_map_is_a_threshold_for_each_entry():
    penalty = L1(0.4, FREE)
    found = M - 0.5 * penalty.pull(proximal_dual(penalty, M, 0.5))
    wanted = np.sign(M) * np.maximum(np.abs(M) - 0.2 * FREE, 0.0)
    np.testing.assert_allclose(found, wanted, atol=1e-14)


def test_equal_weights_give_the_plain_penalty():
    plain = wp.minimize(wp.Problem(Denoising(M), L1(0.8), NuclearNorm(0.5)), tol=1e-8)
    other = wp.Problem(Denoising(M), L1(0.4, np.full((9, 9), 2.0)), NuclearNorm(0.5))
    assert wp.minimize(other, tol=1e-8).value == pytest.approx(plain.value, rel=1e-7)


@pytest.mark.parametrize("make", [torch.asarray, lambda x: x.astype(np.float32)])
def test_other_arrays(make):
    problem = wp.Problem(Denoising(make(M)), L1(0.4, FREE), NuclearNorm(0.5))
    result = wp.minimize(problem)
    assert result.certified
    assert result.X.dtype == make(M).dtype
    assert result.value == pytest.approx(best_value(FREE, NuclearNorm(0.5)), rel=2e-4)


def test_units_do_not_matter():
    scale = 2.0**-300
    problem = wp.Problem(Denoising(scale * M), L1(0.4 * scale, FREE), NuclearNorm(0.5 * scale))
    result = wp.minimize(problem, proof=True)
    assert result.certified
    assert wp.verify(result.proof, problem)


def test_penalties_can_be_told_apart():
    assert L1(0.4, FREE) == L1(0.4, FREE.copy())
    assert L1(0.4, FREE) != L1(0.4, 1.0 + FREE)
    assert L1(0.4, FREE) != L1(0.4)
    assert hash(L1(0.4, FREE)) == hash(L1(0.4, FREE.copy()))
    assert repr(L1(0.4)) == "L1(lam=0.4)"
    assert (2.0 * L1(0.4, FREE)).value(M) == pytest.approx(2 * L1(0.4, FREE).value(M))


@pytest.mark.parametrize(
    "weights",
    [-FREE, np.full((9, 9), -np.inf), np.full((9, 9), np.nan), "many", np.ones((2, 2, 2))],
)
def test_wrong_weights_are_refused(weights):
    with pytest.raises(wp.WeakproxError, match="weights"):
        L1(0.4, weights)


def test_weights_must_fit():
    with pytest.raises(wp.ShapeError, match="weights"):
        wp.Problem(Denoising(M), L1(0.4, np.ones((3, 9))), NuclearNorm(0.5))


# entries that are fixed at zero

HELD = np.where(np.abs(np.subtract.outer(range(9), range(9))) > 4, np.inf, FREE)
MASK = np.isinf(HELD)


def held_value(loss, h, lam=0.4, weights=HELD):
    """The optimum of the constrained problem; `loss` maps X to a convex expression."""
    X = cp.Variable(M.shape, PSD=True) if isinstance(h, TracePSD) else cp.Variable(M.shape)
    finite = np.where(np.isinf(weights), 0.0, weights)
    f = loss(X) + lam * cp.sum(cp.multiply(finite, cp.abs(X)))
    limits = [cp.multiply(np.isinf(weights) * 1.0, X) == 0]
    if isinstance(h, NuclearNorm):
        f = f + h.lam * cp.normNuc(X)
    else:
        limits.append((cp.trace(X) if isinstance(h, TracePSD) else cp.normNuc(X)) <= h.tau)
    return cp.Problem(cp.Minimize(f), limits).solve(solver="CLARABEL")


def squares(X):
    return 0.5 * cp.sum_squares(X - M)


@pytest.mark.parametrize("lam", [0.4, 0.0])
@pytest.mark.parametrize("h", [NuclearNorm(0.5), NuclearBall(9.0), TracePSD(9.0)], ids=repr)
def test_infinite_weights_fix_entries_at_zero(h, lam):
    problem = wp.Problem(Denoising(M), L1(lam, HELD), h)
    result = wp.minimize(problem, tol=1e-6, proof=True)
    best = held_value(squares, h, lam)
    assert result.certified
    assert result.value == pytest.approx(best, rel=3e-6)
    assert result.certificate.lower_bound <= best * (1 + 1e-7)
    assert np.abs(result.X[MASK]).max() < 1e-4
    assert wp.verify(result.proof, problem)
    if lam:
        assert not result.sparse.matrix.toarray()[MASK].any()


def test_infinite_weights_with_a_loss_that_is_no_distance():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((30, 9))
    Y = A @ np.where(MASK, 0.0, M) + rng.standard_normal((30, 9))
    problem = wp.Problem(wp.losses.Regression(A, Y), L1(0.1, HELD), NuclearNorm(0.3))
    result = wp.minimize(problem, tol=1e-5)
    zero = np.zeros((9, 9))
    everything = problem.loss.everything()
    count = 0.5 * np.sum(Y**2) / problem.loss.value(zero, everything)
    scaled = lambda X: 0.5 * cp.sum_squares(A @ X - Y) / count  # noqa: E731
    best = held_value(scaled, NuclearNorm(0.3), 0.1)
    assert result.certified
    assert result.value == pytest.approx(best, rel=2e-5)
    assert result.certificate.lower_bound <= best * (1 + 1e-6)


def test_infinite_weights_hold_entries_that_other_entries_pull():
    """No slope acts on the first entry at zero, but one does once the second has moved."""
    A, y = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[0.0], [4.0]])
    held = L1(1.0, np.array([[np.inf], [0.0]]))
    result = wp.minimize(
        wp.Problem(wp.losses.Regression(A, y), held, NuclearNorm(0.1)), tol=1e-9
    )
    assert result.X.ravel() == pytest.approx([0.0, 1.9], abs=1e-6)


@pytest.mark.parametrize("h", [NuclearNorm(0.5), TracePSD(9.0)], ids=repr)
def test_infinite_weights_in_a_sum(h):
    problem = wp.Problem(Denoising(M), L1(0.4, HELD) + ElasticNet(0.1, 0.2), h)
    result = wp.minimize(problem, tol=1e-6)
    more = lambda X: squares(X) + 0.1 * cp.sum(cp.abs(X)) + 0.2 * cp.sum_squares(X)  # noqa: E731
    assert result.value == pytest.approx(held_value(more, h), rel=3e-6)


@pytest.mark.parametrize("make", [torch.asarray, lambda x: x.astype(np.float32)])
def test_infinite_weights_with_other_arrays(make):
    problem = wp.Problem(Denoising(make(M)), L1(0.4, HELD), NuclearBall(9.0))
    result = wp.minimize(problem, tol=1e-4)
    assert result.value == pytest.approx(held_value(squares, NuclearBall(9.0)), rel=2e-4)


def test_the_penalty_itself_is_infinite_off_the_fixed_zeros():
    penalty = L1(0.4, HELD)
    kept = np.where(MASK, 0.0, M)
    assert penalty.value(M) == np.inf
    assert penalty.value(kept) == pytest.approx(L1(0.4, np.where(MASK, 0, FREE)).value(kept))
    assert L1(0.0, HELD).value(kept) == 0.0
    assert L1(0.0, HELD).value(M) == np.inf
    found = M - 0.5 * penalty.pull(proximal_dual(penalty, M, 0.5))
    wanted = np.sign(kept) * np.maximum(np.abs(kept) - 0.2 * np.where(MASK, 0, FREE), 0.0)
    np.testing.assert_allclose(found, wanted, atol=1e-14)
    y = 100.0 * M
    np.testing.assert_array_equal(penalty.feasible(y)[MASK], y[MASK])
    assert (np.abs(penalty.feasible(y)[~MASK]) <= 0.4).all()


def test_infinite_weights_without_a_known_slope_are_refused():
    with pytest.raises(wp.InputError, match="diagonal"):
        wp.Problem(Denoising(M), L1(0.4, np.full((9, 9), np.inf)), TracePSD(3.0))
    affine = wp.penalties.MaxAffine(np.ones((1, 9, 9)), np.zeros(1))
    with pytest.raises(wp.InputError, match="no known bound: MaxAffine"):
        wp.Problem(Denoising(M), L1(0.4, HELD) + affine, NuclearBall(3.0))


def test_a_solution_is_no_larger_than_its_value_at_zero_allows():
    """lam |X|_* <= f(X) <= f(0) bounds X if G is not strongly convex."""
    rows, columns = np.nonzero(np.eye(9))
    loss = Completion(rows, columns, np.diag(M), M.shape)
    radius = _radius(loss, loss_capabilities(loss), ValueForm(lam=0.1), 1.0)
    zero = loss.value(0.0 * M, loss.everything())
    assert radius == pytest.approx(zero / 0.1)


def test_everything_fixed_is_zero():
    problem = wp.Problem(Denoising(M), L1(0.4, np.inf), NuclearBall(3.0))
    result = wp.minimize(problem, tol=1e-6)
    assert result.value == pytest.approx(0.5 * np.sum(M**2), rel=1e-5)
    assert result.certificate.lower_bound <= 0.5 * np.sum(M**2) * (1 + 1e-9)
