"""Alternating directions: the optimum, proofs, few decompositions, the choice, resumed runs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from reference import _cvx

import weakprox as wp
from weakprox.errors import InputError
from weakprox.losses import Completion, Custom, Denoising, Huber, Regression, Sensing
from weakprox.penalties import L1, Box, ElasticNet, GroupL2, MaxAffine
from weakprox.protocols import LossCapabilities
from weakprox.solvers import ADMM, DavisYin
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def features(n, p, condition):
    U, V = np.linalg.qr(numbers(n, p))[0], np.linalg.qr(numbers(p, p, seed=1))[0]
    return np.sqrt(n) * (U * np.geomspace(1.0, 1.0 / condition, p)) @ V


def regression(condition=1e3, n=60, p=12, q=8):
    X, B = features(n, p, condition), numbers(p, 2) @ numbers(2, q, seed=1)
    return Regression(X, X @ B + 0.1 * numbers(n, q, seed=2))


def sensing(count=20, n=6):
    A, T = numbers(count, n, n), numbers(n, 2)
    return Sensing(A, np.einsum("kij,ij->k", A, T @ T.T) + 0.1 * numbers(count, seed=3))


PIECES = 0.1 * numbers(2, 12, 8)
PENALTIES = {
    "none": None,
    "l1": L1(0.02),
    "elastic": ElasticNet(0.02, 1e-4),
    "rows": GroupL2(0.05),
    "sum": L1(0.01) + GroupL2(0.02),
    "box": Box(-1.0, 1.0, slope=1.0),
    "pieces": MaxAffine(np.concatenate([PIECES, -PIECES]), np.zeros(4)),
}
SPECTRAL = {"ball": NuclearBall(4.0), "norm": NuclearNorm(0.05)}


@pytest.mark.parametrize("spectral", SPECTRAL)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_optimum_of_regressions(penalty, spectral):
    G, R, h = regression(), PENALTIES[penalty], SPECTRAL[spectral]
    result = wp.minimize(wp.Problem(G, R, h), ADMM(), tol=1e-5, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.violation <= 1e-9
    if penalty in ("none", "l1", "elastic", "rows"):
        cp = _cvx.cp
        B = cp.Variable(G.shape)
        f = cp.sum_squares(G._Y - G._X @ B) / (2 * G.n_terms)
        if penalty == "l1":
            f += 0.02 * cp.sum(cp.abs(B))
        if penalty == "elastic":
            f += 0.02 * cp.sum(cp.abs(B)) + 1e-4 * cp.sum_squares(B)
        if penalty == "rows":
            f += 0.05 * cp.sum(cp.norm(B, axis=1))
        nuclear = cp.normNuc(B)
        limits = [nuclear <= 4.0] if spectral == "ball" else []
        f += 0.05 * nuclear if spectral == "norm" else 0.0
        best = cp.Problem(cp.Minimize(f), limits).solve(solver="CLARABEL")
    else:
        best = wp.minimize(wp.Problem(G, R, h), DavisYin(), tol=1e-6, progress=False).value
    allowed = 1e-6 * abs(best)
    assert result.certificate.lower_bound <= best + allowed
    assert best - allowed <= result.value <= best + 1.1e-5 * abs(best)


SEEN = np.nonzero(numbers(6, 6) > 0)
COMPLETED = Completion(*SEEN, numbers(len(SEEN[0])), (6, 6))
SYMMETRIC = numbers(6, 6) + numbers(6, 6).T


@pytest.mark.parametrize("penalty", [None, L1(0.1)], ids=["none", "l1"])
@pytest.mark.parametrize(
    "G",
    [sensing(), COMPLETED, Denoising(SYMMETRIC, loss=Huber(0.5))],
    ids=["sensing", "completion", "Huber"],
)
def test_cones(G, penalty):
    problem = wp.Problem(G, penalty, TracePSD(3.0))
    result = wp.minimize(problem, ADMM(), tol=1e-5, progress=False)
    other = wp.minimize(problem, DavisYin(), tol=1e-5, progress=False)
    assert result.status is other.status is wp.Status.CERTIFIED
    assert result.certificate.lower_bound <= other.value
    assert other.certificate.lower_bound <= result.value


@pytest.mark.parametrize("penalty", [None, L1(0.02), GroupL2(0.02)], ids=str)
@pytest.mark.parametrize("condition", [1e2, 1e4])
def test_decompositions_do_not_grow_with_the_condition(condition, penalty):
    problem = wp.Problem(regression(condition, 80, 30, 20), penalty, NuclearNorm(0.01))
    result = wp.minimize(problem, progress=False)
    assert result.solver == "ADMM"
    assert result.status is wp.Status.CERTIFIED
    gradients = wp.minimize(problem, DavisYin(), progress=False)
    assert result.counts.svds < 0.3 * gradients.counts.svds
    assert result.certificate.lower_bound <= gradients.value


def test_choice():
    def chosen(loss, penalty=None, spectral=NuclearBall(1.0)):  # noqa: B008
        return wp.plan(wp.Problem(loss, penalty, spectral)).chosen

    assert chosen(regression(1e3)) == "ADMM"
    assert chosen(regression(1e3), L1(1.0)) == "ADMM"
    assert chosen(regression(2.0)) == "DavisYin"  # even curvature
    assert chosen(regression(1e3), ElasticNet(1.0, 1.0)) == "DavisYin"
    assert chosen(sensing()) == "ADMM"  # fewer measurements than unknowns
    assert chosen(COMPLETED, None, TracePSD(1.0)) == "ADMM"
    assert chosen(COMPLETED, L1(1.0), TracePSD(1.0)) == "DavisYin"


def test_reason_is_told():
    result = wp.minimize(wp.Problem(regression(), None, NuclearBall(4.0)), progress=False)
    assert "proximal steps need fewer decompositions" in result.explain()


@pytest.mark.parametrize("penalty", [None, L1(0.3), GroupL2(0.5)], ids=repr)
def test_squared_distances(penalty):
    problem = wp.Problem(Denoising(numbers(12, 9)), penalty, NuclearBall(4.0))
    plain = wp.minimize(problem, DavisYin(), tol=1e-8, progress=False)
    result = wp.minimize(problem, "admm", tol=1e-6, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.lower_bound <= plain.value
    assert result.value == pytest.approx(plain.value, rel=2e-6)


def test_losses_without_a_map_are_refused():
    loss = Custom((4, 3), value=lambda X: 0.5 * np.sum(X * X), grad=lambda X: X, smoothness=1.0)
    problem = wp.Problem(loss, L1(1.0), NuclearBall(1.0))
    with pytest.raises(InputError, match="proximal map"):
        wp.minimize(problem, "admm", progress=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_torch(dtype):
    X, Y = features(60, 12, 1e2), numbers(60, 8, seed=2)
    G = Regression(torch.asarray(X, dtype=dtype), torch.asarray(Y, dtype=dtype))
    plain = wp.minimize(wp.Problem(Regression(X, Y), None, NuclearNorm(0.01)), progress=False)
    result = wp.minimize(wp.Problem(G, None, NuclearNorm(0.01)), progress=False)
    assert result.solver == plain.solver == "ADMM"
    assert result.status is wp.Status.CERTIFIED
    assert result.X.dtype == dtype
    assert result.value == pytest.approx(plain.value, rel=2.1e-4)


@pytest.mark.parametrize("penalty", [None, L1(0.02)], ids=str)
def test_resumed_runs_are_identical(penalty, tmp_path):
    problem = wp.Problem(regression(), penalty, NuclearNorm(0.01))
    file, options = tmp_path / "run.safetensors", {"tol": 1e-7, "progress": False}
    whole = wp.minimize(problem, ADMM(), **options)
    assert whole.counts.svds > 32  # two stretches
    wp.minimize(problem, ADMM(), max_svds=20, checkpoint=file, **options)
    again = wp.minimize(problem, ADMM(), checkpoint=file, resume=True, **options)
    assert again.value == whole.value
    assert np.array_equal(again.X, whole.X)


@pytest.mark.parametrize("penalty", [None, L1(0.02)], ids=str)
def test_proof_files(penalty, tmp_path):
    problem = wp.Problem(regression(), penalty, NuclearNorm(0.05))
    result = wp.minimize(problem, progress=False)
    result.proof.save(tmp_path / "proof.npz")
    assert wp.verify(tmp_path / "proof.npz", problem)


def test_a_cap_on_the_rank_is_kept():
    problem = wp.Problem(regression(), L1(1e-3), NuclearNorm(1e-3))
    result = wp.minimize(problem, ADMM(rank=1), max_svds=200, progress=False)
    assert result.low_rank.rank == 1
    assert result.status is not wp.Status.CERTIFIED


def test_warm_starts_take_fewer_iterations():
    G = regression(1e3, 80, 30, 20)
    first = wp.minimize(wp.Problem(G, None, NuclearNorm(0.011)), ADMM(), progress=False)
    second = wp.Problem(G, None, NuclearNorm(0.01))
    cold = wp.minimize(second, ADMM(), progress=False)
    warm = wp.minimize(second, ADMM(), start=first.X, progress=False)
    assert warm.counts.svds < cold.counts.svds


def test_a_loss_of_the_user_may_declare_the_map():
    D = np.geomspace(1e-4, 1.0, 6)[:, None]  # curvature of rows
    C = numbers(6, 4)

    class Own(Custom):
        @property
        def capabilities(self):
            def prox():
                return lambda A, weight: (D * C + weight * A) / (D + weight)

            declared = LossCapabilities(infimum=0.0, prox=prox)
            return replace(super().capabilities, infimum=declared.infimum, prox=declared.prox)

    G = Own(
        value=lambda X: 0.5 * float(np.sum(D * (X - C) ** 2)),
        grad=lambda X: D * (X - C),
        shape=(6, 4),
        smoothness=1.0,
        strong_convexity=1e-4,
    )
    result = wp.minimize(wp.Problem(G, None, NuclearBall(1.0)), progress=False)
    assert result.solver == "ADMM"
    assert result.status is wp.Status.CERTIFIED


def test_errors_of_decompositions_do_not_slow_the_iteration():
    """Shares of a gap that these errors make large would: it took 83 decompositions."""
    n = 262
    X = numbers(2 * n, n) * np.logspace(0, -1, n)
    signal = X @ (numbers(n, n // 2) @ numbers(n // 2, n, seed=1)) / np.sqrt(n / 2)
    slope = X.T @ signal / len(X)
    R, h = (
        L1(0.5 * float(abs(slope).max())),
        NuclearNorm(0.05 * float(np.linalg.norm(slope, 2))),
    )
    G = Regression(X, signal + 3.0 * numbers(2 * n, n, seed=2))
    result = wp.minimize(wp.Problem(G, R, h), ADMM(), progress=False)
    assert result.certified
    assert result.counts.svds < 50
