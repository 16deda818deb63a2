"""Losses of all cells: solutions and bounds against CVXPY, weights, gaps and refusals."""

from __future__ import annotations

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import torch

import weakprox as wp
from weakprox.certificates import cells as certificate
from weakprox.certificates.cells import CellsDual
from weakprox.linalg.arrays import DOUBLE
from weakprox.linalg.decompositions import eigh_error
from weakprox.losses import Denoising, Huber
from weakprox.losses.cells import Cells
from weakprox.losses.entry_losses import Logistic
from weakprox.passes import ValueForm
from weakprox.spectral import NuclearBall, NuclearNorm

rng = np.random.default_rng(0)
M = rng.standard_normal((14, 9)) @ np.diag(np.arange(9.0)) / 3
M[rng.random(M.shape) < 0.1] += 8.0
GAPS = np.where(rng.random(M.shape) < 0.2, np.nan, M)
WEIGHTS = np.where(rng.random(M.shape) < 0.1, 0.0, rng.uniform(0.2, 3.0, M.shape))
K = 0.5


def best_value(A, k, w, h):
    """The optimum by an interior-point method."""
    X = cp.Variable(A.shape)
    w = np.broadcast_to(1.0 if w is None else w, A.shape) * ~np.isnan(A)
    r = X - np.nan_to_num(A)
    f = 0.5 * cp.sum(cp.multiply(w, cp.huber(r, k) if k else cp.square(r)))
    if isinstance(h, NuclearNorm):
        problem = cp.Problem(cp.Minimize(f + h.lam * cp.normNuc(X)))
    else:
        problem = cp.Problem(cp.Minimize(f), [cp.normNuc(X) <= h.tau])
    return problem.solve(solver="CLARABEL")


@pytest.mark.parametrize("h", [NuclearNorm(2.0), NuclearBall(12.0)], ids=repr)
@pytest.mark.parametrize(
    ("A", "w"),
    [(M, None), (GAPS, None), (M, WEIGHTS), (GAPS, np.arange(9.0)), (M.T.copy(), None)],
    ids=["plain", "gaps", "weights", "columns", "wide"],
)
def test_solves_and_proves(A, w, h):
    problem = wp.Problem(Denoising(A, loss=Huber(K), weights=w), None, h)
    result = wp.minimize(problem, tol=1e-7, proof=True)
    best = best_value(A, K, w, h)
    assert result.solver == "DenseProximal"
    assert result.certified
    assert result.value == pytest.approx(best, rel=2e-7)
    assert result.certificate.lower_bound <= best * (1 + 1e-8)
    assert wp.verify(result.proof, problem)


def test_weights_alone():
    problem = wp.Problem(Denoising(M, weights=WEIGHTS), None, NuclearNorm(2.0))
    result = wp.minimize(problem, tol=1e-7)
    assert result.value == pytest.approx(best_value(M, 0, WEIGHTS, NuclearNorm(2.0)), rel=2e-7)
    assert problem.loss.strong_convexity == 0.0
    assert Denoising(M, weights=WEIGHTS + 1.0).strong_convexity == 1.0
    assert type(Denoising(M, loss="squared")) is Denoising


def test_equal_weights_are_a_multiple_of_the_plain_problem():
    one = wp.minimize(wp.Problem(Denoising(M), None, NuclearNorm(2.0)), tol=1e-9)
    three = wp.Problem(Denoising(M, weights=3.0), None, NuclearNorm(6.0))
    assert wp.minimize(three, tol=1e-9).value == pytest.approx(3 * one.value, rel=1e-8)


def test_logistic_loss_of_all_cells():
    signs = (M > 0).astype(float)
    problem = wp.Problem(Denoising(signs, loss="logistic"), None, NuclearNorm(1.0))
    result = wp.minimize(problem, tol=1e-6, proof=True)
    dense = wp.losses.Completion.from_dense(signs, loss="logistic")
    other = wp.minimize(wp.Problem(dense, None, NuclearNorm(1.0)), tol=1e-6)
    assert result.certified
    assert result.solver == "DenseProximal"
    assert result.value == pytest.approx(other.value, rel=3e-6)
    assert wp.verify(result.proof, problem)


def test_frames_keep_their_labels():
    frame = pd.DataFrame(M, columns=[f"c{j}" for j in range(9)])
    result = wp.minimize(wp.Problem(Denoising(frame, loss=Huber(K)), None, NuclearNorm(2.0)))
    assert result.labels == (None, list(frame.columns))


@pytest.mark.parametrize("make", [torch.asarray, lambda x: x.astype(np.float32)])
def test_other_arrays(make):
    result = wp.minimize(wp.Problem(Denoising(make(M), loss=Huber(K)), None, NuclearNorm(2.0)))
    assert result.certified
    assert type(result.X) is type(make(M))
    assert result.X.dtype == make(M).dtype
    assert result.value == pytest.approx(best_value(M, K, None, NuclearNorm(2.0)), rel=1e-4)


def test_penalties_and_other_terms_are_left_to_other_methods():
    problem = wp.Problem(Denoising(M, loss=Huber(K)), wp.penalties.L1(0.1), NuclearNorm(2.0))
    result = wp.minimize(problem, tol=1e-5, proof=True)
    assert result.certified
    assert result.solver != "DenseProximal"
    assert wp.verify(result.proof, problem)
    with pytest.raises(wp.InputError, match="problem"):
        wp.minimize(problem, "dense-proximal")


def test_a_rank_limits_the_answer():
    problem = wp.Problem(Denoising(M, loss=Huber(K)), None, NuclearNorm(0.5))
    result = wp.minimize(problem, rank=2, max_svds=40)
    assert result.low_rank.rank <= 2


def test_resumed_runs_end_the_same(tmp_path):
    problem = wp.Problem(Denoising(M, loss=Huber(0.05)), None, NuclearNorm(0.3))
    whole = wp.minimize(problem, tol=1e-10)
    file = tmp_path / "run.safetensors"
    wp.minimize(problem, tol=1e-10, max_svds=30, checkpoint=file, checkpoint_every=0)
    resumed = wp.minimize(problem, tol=1e-10, checkpoint=file, resume=True)
    assert resumed.value == whole.value
    np.testing.assert_array_equal(resumed.X, whole.X)


def test_units_do_not_matter():
    def solved(scale):
        loss = Denoising(scale * M, loss=Huber(scale * K))
        return wp.minimize(wp.Problem(loss, None, NuclearNorm(2.0 * scale)))

    one, tiny = solved(1.0), solved(2.0**-300)
    assert tiny.certified
    np.testing.assert_allclose(tiny.X * 2.0**300, one.X, atol=1e-9)


def test_bounds_need_no_gram_matrix(monkeypatch):
    monkeypatch.setattr("weakprox.certificates.cells.GRAM", 3)
    problem = wp.Problem(Denoising(M, loss=Huber(K)), None, NuclearNorm(2.0))
    result = wp.minimize(problem, tol=1e-6)
    assert result.certified
    assert result.certificate.rests_on == "high-probability"
    # the Gram matrix of the shorter side decides
    monkeypatch.setattr("weakprox.certificates.cells.GRAM", 10)
    assert min(M.shape) < 10 < max(M.shape)
    assert wp.minimize(problem, tol=1e-4).certificate.rests_on == "exact"


@pytest.mark.parametrize("shape", [(40, 3), (3, 40)])
def test_norms_come_from_the_gram_matrix_of_the_shorter_side(shape, monkeypatch):
    sizes = []

    def seen(G):
        sizes.append(G.shape)
        return np.linalg.eigvalsh(G)

    monkeypatch.setattr(certificate, "eigvalsh", seen)
    A = np.random.default_rng(0).standard_normal(shape)
    dual = CellsDual(Cells(A, Huber(K)), ValueForm(lam=1.0), wp.LowRank.zero(shape, A))
    norm, _, _ = dual._norm(np.random.default_rng(0))
    assert sizes == [(3, 3)]
    assert norm == pytest.approx(np.linalg.norm(np.clip(A, -K, K), 2), rel=1e-9)


def test_norms_allow_for_the_error_of_the_eigenvalue_routine(monkeypatch):
    A = np.random.default_rng(0).standard_normal((40, 3))
    less = 1 - 0.9 * eigh_error(3) * DOUBLE
    monkeypatch.setattr(certificate, "eigvalsh", lambda G: less * np.linalg.eigvalsh(G))
    dual = CellsDual(Cells(A, Huber(9.0)), ValueForm(lam=50.0), wp.LowRank.zero(A.shape, A))
    found = dual.proof(np.random.default_rng(0)).dual
    assert found.length == 1.0
    assert found.norm >= np.linalg.norm(A, 2)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_where_entries_are_far_from_zero(seed):
    """The dual function is <q, M> - |q|^2/2, whose rounding is a share of |q| |M|."""
    rng = np.random.default_rng(seed)
    A = 1e8 + rng.standard_normal((4, 3))
    X = wp.LowRank(np.full((4, 1), 0.5), np.array([1e8 * 12**0.5]), np.full((1, 3), 3**-0.5))
    cells = Cells(A, Huber(2.0))
    found = CellsDual(cells, ValueForm(lam=1e3), X).proof(rng)
    q = [Fraction(x) for x in cells.dual(X).ravel()]
    exact = sum(x * Fraction(m) - x * x / 2 for x, m in zip(q, A.ravel(), strict=True))
    assert found.dual.length == 1.0
    assert exact - Fraction(1e-4) < found.lower <= exact


class Outside(Logistic):
    """Slopes that rounding has taken out of the domain of the conjugate."""

    def derivative(self, y, x):
        return super().derivative(y, x) * (1 + 1e-13)


def test_dual_points_that_rounding_took_out_of_the_domain_are_shortened():
    """Slopes in the first row are 1 and -1, where the domain ends; other cells prove log 2."""
    y = (np.random.default_rng(0).random((6, 4)) < 0.5).astype(float)
    at = np.zeros_like(y)
    at[0] = 50.0 * (1.0 - 2.0 * y[0])
    X = wp.LowRank(*np.linalg.svd(at, full_matrices=False))
    dual = CellsDual(Cells(y, Outside()), ValueForm(lam=10.0), X)
    found = dual.proof(np.random.default_rng(0))
    assert 0.0 < 1.0 - found.dual.length < 1e-8
    assert found.lower == pytest.approx(20 * np.log(2.0), abs=1e-6)


def test_sums_tell_the_dual_function():
    X = wp.LowRank(*np.linalg.svd(0.3 * np.nan_to_num(GAPS), full_matrices=False))
    w = np.broadcast_to(np.arange(9.0), M.shape)
    for loss in (Huber(K), Logistic()):
        cells = Cells(GAPS, loss, w, True, 8.0)
        sums = cells.sums(X)
        assert cells.dual_value(X, 1.0)[0] == pytest.approx(sums.dual(1.0), rel=1e-9)
        assert cells.value(X) == pytest.approx(sums.value)
    cells = Cells(GAPS, Huber(K), w, True, 8.0)
    assert cells.dual_value(X, 0.7)[0] == pytest.approx(cells.sums(X).dual(0.7))
    q = cells.dual(X)
    G, size, _ = cells.squares(X)
    np.testing.assert_allclose(G, q.T @ q)
    assert size == pytest.approx((q * q).sum())


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"M": M, "loss": "poisson"}, "loss"),
        ({"M": M, "loss": 3}, "loss"),
        ({"M": M, "weights": -np.ones(9)}, "weights"),
        ({"M": M, "weights": np.zeros(9)}, "weights"),
        ({"M": M, "weights": np.ones(8)}, "weights"),
        ({"M": M, "weights": np.array(["a"] * 9)}, "weights"),
        ({"M": np.full((3, 2), np.nan), "loss": Huber(1.0)}, "M"),
        ({"M": np.full((3, 2), np.inf), "loss": Huber(1.0)}, "M"),
        ({"M": GAPS, "loss": "logistic"}, "M"),
        ({"samples": np.ones((2, 3, 2)), "loss": Huber(1.0)}, "M"),
        ({"loss": Huber(1.0)}, "M"),
    ],
)
def test_wrong_input_is_refused(settings, name):
    with pytest.raises(wp.WeakproxError, match=name):
        Denoising(**settings)
