"""Weights of the l1 norm: proximal map, solutions against CVXPY, proofs and refusals."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1, ElasticNet
from weakprox.penalties.proximal import proximal_dual
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
    [-FREE, np.full((9, 9), np.inf), np.full((9, 9), np.nan), "many", np.ones((2, 2, 2))],
)
def test_wrong_weights_are_refused(weights):
    with pytest.raises(wp.WeakproxError, match="weights"):
        L1(0.4, weights)


def test_weights_must_fit():
    with pytest.raises(wp.ShapeError, match="weights"):
        wp.Problem(Denoising(M), L1(0.4, np.ones((3, 9))), NuclearNorm(0.5))
