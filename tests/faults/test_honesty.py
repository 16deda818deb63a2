"""Runs that once claimed more than they could prove; each of these was a real fault."""

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.errors import InputError
from weakprox.linalg import thin_svd
from weakprox.linalg.arrays import rough_sqnorm, sqnorm


def noisy(m, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, 2)) @ rng.standard_normal((2, d)) + 0.5 * (
        rng.standard_normal((m, d))
    )


def test_certified_speaks_of_the_iterate_if_that_is_the_answer():
    M = noisy(30, 20)
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(0.5), wp.spectral.NuclearBall(10.0)
    )
    result = wp.minimize(problem, wp.SVRGCG(rank=20, answer="iterate"), eps=20.0)
    assert result.status is wp.Status.CERTIFIED
    assert result.gap <= 20.0


def decoys():
    """Ten columns that a warm basis maps into itself hide one larger entry elsewhere."""
    M = np.zeros((101, 60))
    for k in range(10):
        M[10 * k : 10 * k + 10, k] = 0.95
    M[100, 50] = 2.8
    return M


def test_a_warm_basis_does_not_hide_larger_values():
    A = decoys()
    basis = np.eye(60)[:, :7]  # A maps it into itself: every residual is zero
    rng = np.random.default_rng(0)
    quick = {"accept": lambda *_: True, "strict": False}  # one sweep a call, as in a run
    for _ in range(12):
        found = thin_svd(A, 1, start=basis, method="block", rng=rng, **quick)
        basis = found.basis
    # 0.95 sqrt(10) = 3.004 in each of ten columns: two of three such values stay unseen
    assert found.next_value == pytest.approx(0.95 * np.sqrt(10), rel=1e-6)
    B = A.copy()
    B[100, 50] = 9.0
    for _ in range(12):
        found = thin_svd(B, 1, start=basis, method="block", rng=rng, **quick)
        basis = found.basis
    assert float(found.triplets.s[0]) == pytest.approx(9.0, rel=1e-6)


def test_structured_data_are_solved_from_warm_bases():
    problem = wp.Problem(
        wp.losses.Denoising(decoys()), wp.penalties.GroupL2(1.0), wp.spectral.NuclearBall(3.0)
    )
    result = wp.minimize(problem, wp.SVRGCG(rank=2), eps=1.0, max_svds=300)
    assert result.status is wp.Status.CERTIFIED


def test_sums_that_bounds_rest_on_are_exact_to_float64():
    for dtype in (np.float32, np.float64):
        X = np.full((2000, 2000), 1 / 3, dtype=dtype)
        exact = 4e6 * float(X[0, 0]) ** 2
        assert sqnorm(X) == pytest.approx(exact, rel=1e-14)
        assert sqnorm(torch.asarray(X)) == pytest.approx(exact, rel=1e-14)
        square, error = rough_sqnorm(X)
        assert abs(square - exact) <= error


def test_float32_sums_do_not_raise_a_bound_above_the_optimum():
    M = np.full((1000, 1000), 0.7, dtype=np.float32)
    v = np.linalg.qr(np.random.default_rng(0).standard_normal((1000, 1)))[0]
    M += (12 * v @ v.T).astype(np.float32)
    tau = float(np.linalg.norm(M.astype(float), "nuc"))  # M itself is feasible: f* = 0
    problem = wp.Problem(wp.losses.Denoising(M), None, wp.spectral.NuclearBall(tau))
    result = wp.minimize(problem, wp.SVRGCG(rank=1), eps=50.0)
    assert result.certificate.lower_bound <= 1e-3
    assert not (result.certified and result.value > 50.0)


def test_an_indicator_that_refuses_its_own_prox_proves_nothing():
    M = noisy(12, 8)

    def prox(A, weight):
        return A / np.linalg.norm(A) * min(1.0, np.linalg.norm(A)) * (1 + 1e-15)

    def inside(X):
        return 0.0 if np.linalg.norm(X) <= 1.0 - 1e-12 else float("inf")

    problem = wp.Problem(wp.losses.Denoising(M), None, wp.spectral.Exact(prox, inside))
    with np.errstate(all="ignore"):
        result = wp.minimize(problem, wp.SVRGCG(rank=8, C0=1.0), eps=1e-3, max_svds=5)
    assert result.certificate.lower_bound < np.inf
    assert result.status is not wp.Status.CERTIFIED


@pytest.mark.parametrize(
    "change",
    [{"M": -1.0}, {"rank": 3}, {"eps": 2.0}, {"seed": 1}],
    ids=["data", "solver", "eps", "seed"],
)
def test_resume_refuses_another_run(change):
    M = noisy(20, 15)

    def call(factor=1.0, rank=4, eps=1.0, seed=0, **options):
        problem = wp.Problem(
            wp.losses.Denoising(factor * M), wp.penalties.L1(0.5), wp.spectral.NuclearBall(9.0)
        )
        return wp.minimize(problem, wp.SVRGCG(rank=rank), eps=eps, seed=seed, **options)

    first = call(max_svds=1)
    other = {("factor" if key == "M" else key): value for key, value in change.items()}
    with pytest.raises(InputError, match="resume"):
        call(**other, resume=first)
    assert call(resume=first).certified


def test_vouching_for_the_rank_does_not_make_it_sufficient():
    M = np.diag([10.0] * 5 + [0.0] * 5)
    problem = wp.Problem(wp.losses.Denoising(M), None, wp.spectral.NuclearBall(50.0))
    result = wp.minimize(problem, wp.SVRGCG(rank=1, delta2=1e-9), eps=10.0)
    assert result.status is wp.Status.RANK_LIMITED


def test_float32_measurements_keep_true_constants():
    rng = np.random.default_rng(5)
    base = rng.standard_normal((400, 30))
    base[:, -1] = base[:, 0] + 1e-5 * rng.standard_normal(400)  # nearly dependent
    A = base.reshape(400, 6, 5).astype(np.float32)
    loss = wp.losses.Sensing(A, np.zeros(400, dtype=np.float32))
    exact = A.astype(float).reshape(400, -1)
    values = np.linalg.svd(exact, compute_uv=False) ** 2 / 400
    assert loss.strong_convexity <= values[-1]
    assert loss.smoothness >= values[0]


def test_float32_block_svd_converges():
    A = np.random.default_rng(0).standard_normal((200, 150)).astype(np.float32)
    found = thin_svd(A, 3, method="block")
    np.testing.assert_allclose(
        found.triplets.s, np.linalg.svd(A, compute_uv=False)[:3], rtol=1e-4
    )


def test_integer_matrices_decompose():
    A = np.random.default_rng(2).integers(0, 9, (200, 150))
    found = thin_svd(A, 2)
    np.testing.assert_allclose(found.triplets.s, np.linalg.svd(A, compute_uv=False)[:2])


def test_pilot_samples_count_against_the_limit():
    def draw(rng, k):
        A = rng.standard_normal((k, 6, 5))
        return A, A.sum(axis=(1, 2))

    problem = wp.Problem(
        wp.losses.Sensing(sampler=draw, shape=(6, 5)),
        wp.penalties.ElasticNet(0.1, 0.5),
        wp.spectral.NuclearBall(3.0),
    )
    result = wp.minimize(problem, wp.SVRGCG(rank=2), eps=1.0, max_samples=10)
    assert result.status is wp.Status.MAX_SAMPLES
    assert result.counts.samples >= 64


def test_a_run_stopped_at_once_returns_its_start():
    M = noisy(12, 8)
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(0.5), wp.spectral.NuclearBall(9.0)
    )
    start = M * (9.0 / np.linalg.norm(M, "nuc"))
    assert problem.smooth_value(start) < problem.smooth_value(0 * M) - 5
    result = wp.minimize(problem, wp.SVRGCG(rank=2), eps=1.0, start=start, max_seconds=0.0)
    assert result.status is wp.Status.MAX_SECONDS
    assert result.value <= problem.smooth_value(start) + 1e-9


def test_one_affine_piece_costs_no_smoothing():
    piece = wp.penalties.MaxAffine(noisy(12, 8)[None])
    problem = wp.Problem(
        wp.losses.Denoising(noisy(12, 8, 1)), piece, wp.spectral.NuclearBall(9)
    )
    assert wp.theory.parameters(problem, eps=0.1).beta == 1.0


def test_tensors_that_record_gradients_are_taken_without_them():
    M = torch.asarray(noisy(12, 8)).requires_grad_()
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(0.5), wp.spectral.NuclearBall(9.0)
    )
    assert not wp.minimize(problem, wp.SVRGCG(rank=2), eps=5.0).X.requires_grad
