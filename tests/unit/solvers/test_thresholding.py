"""Denoising of sparse matrices in factors: the closed form, its proof, and nothing dense."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, random_array

import weakprox as wp
from weakprox.certificates.thresholded import ThresholdedDual
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import LowRankPlusSparse
from weakprox.linalg.simplex import project_capped
from weakprox.linalg.tiled import SparseTiles
from weakprox.losses import Denoising
from weakprox.passes import ValueForm
from weakprox.penalties import L1
from weakprox.solvers import Thresholding
from weakprox.spectral import NuclearBall, NuclearNorm

SHAPE = (260, 190)


def sparse(dtype=float):
    """A sparse matrix with a few large singular values."""
    rng = np.random.default_rng(0)
    S = random_array(SHAPE, density=0.02, rng=rng, format="csr")
    left, right = (random_array((n, 6), density=0.15, rng=rng) for n in SHAPE)
    return csr_array(S + 2.0 * left @ right.T).astype(dtype)


def with_factors():
    rng = np.random.default_rng(1)
    U, Vt = rng.standard_normal((SHAPE[0], 2)), rng.standard_normal((2, SHAPE[1]))
    return LowRankPlusSparse(U, np.array([0.05, 0.02]), Vt, sparse())


def optimum(C, spectral):
    """Solution and value by a full decomposition."""
    U, s, Vt = np.linalg.svd(C, full_matrices=False)
    if isinstance(spectral, NuclearNorm):
        p = np.maximum(s - spectral.lam, 0.0)
        value = 0.5 * np.sum((s - p) ** 2) + spectral.lam * p.sum()
    else:
        p = np.asarray(project_capped(s, spectral.tau))
        value = 0.5 * np.sum((s - p) ** 2)
    return (U * p) @ Vt, float(value)


@pytest.fixture
def nothing_dense(monkeypatch):
    def refuse(*args, **named):
        raise AssertionError("made dense")

    for kind in (SparseTiles, LowRankPlusSparse):
        monkeypatch.setattr(kind, "__getitem__", refuse)
        monkeypatch.setattr(kind, "dense", refuse)
    for name in ("toarray", "todense"):
        monkeypatch.setattr(csr_array, name, refuse)


@pytest.mark.parametrize("spectral", [NuclearNorm(4.0), NuclearBall(9.0)], ids=repr)
@pytest.mark.parametrize("make", [sparse, with_factors])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_the_closed_form_is_found_and_proved(make, spectral, tol, request):
    C = make()
    dense = C.dense() if isinstance(C, LowRankPlusSparse) else C.toarray()
    X, value = optimum(dense, spectral)
    request.getfixturevalue("nothing_dense")
    result = wp.minimize(wp.Problem(Denoising(C), None, spectral), tol=tol)
    assert result.solver == "Thresholding"
    assert result.status is wp.Status.CERTIFIED
    assert 0 < result.rank < 30
    assert result.value == pytest.approx(value, rel=tol)
    assert result.certificate.lower_bound <= value * (1 + 1e-12)
    assert result.violation == 0.0
    assert np.abs(result.X - X).max() < 10 * np.sqrt(tol)


def test_a_triplet_that_is_missing_costs_the_proof():
    C, form = sparse(), ValueForm(lam=4.0)
    U, s, Vt = np.linalg.svd(C.toarray(), full_matrices=False)
    _, value = optimum(C.toarray(), NuclearNorm(4.0))

    def bound(kept):
        p = form.prox(s[kept], 1.0)
        dual = ThresholdedDual.of(SparseTiles(C), U[:, kept], s[kept], Vt[kept].T, p, form)
        return replace(dual, aim=1e-6 * value).proof(np.random.default_rng(0)).lower

    assert bound(np.arange(20)) == pytest.approx(value, rel=1e-6)
    assert bound(np.arange(1, 20)) < (1 - 1e-3) * value


def test_memory_grows_with_the_entries():
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, 40, 4000), rng.integers(0, 30, 4000)
    stretched = coo_array((rng.random(4000), (1500 * rows, 1500 * cols)), (60_000, 45_000))
    result = wp.minimize(wp.Problem(Denoising(stretched), None, NuclearNorm(20.0)))
    block = coo_array((stretched.data, (rows, cols))).toarray()
    assert result.status is wp.Status.CERTIFIED
    assert result.value == pytest.approx(optimum(block, NuclearNorm(20.0))[1], rel=1e-4)


def test_entries_given_twice_are_added():
    C = sparse()
    twice = csr_array(
        (
            np.repeat(0.5 * C.data, 2),
            np.repeat(C.indices, 2),
            2 * C.indptr,
        ),
        shape=C.shape,
    )
    one, two = (
        wp.minimize(wp.Problem(Denoising(M), None, NuclearNorm(4.0)), tol=1e-8)
        for M in (C, twice)
    )
    assert two.value == pytest.approx(one.value, rel=1e-12)
    assert twice.nnz == 2 * C.nnz  # the user's matrix is left as it was


def test_data_of_other_types_and_sizes():
    reference = wp.minimize(wp.Problem(Denoising(sparse()), None, NuclearBall(9.0)), tol=1e-8)
    single = wp.minimize(wp.Problem(Denoising(sparse(np.float32)), None, NuclearBall(9.0)))
    assert single.low_rank.U.dtype == np.float32
    assert single.status is wp.Status.CERTIFIED
    assert single.value == pytest.approx(reference.value, rel=1e-4)
    tiny = wp.Problem(Denoising(sparse() * 2.0**-100), None, NuclearBall(9.0 * 2.0**-100))
    found = wp.minimize(tiny, tol=1e-8)
    assert found.solver == "Thresholding"
    assert found.value * 2.0**200 == pytest.approx(reference.value, rel=1e-8)


def test_another_method_takes_over_if_the_rank_is_large():
    C = sparse()
    result = wp.minimize(wp.Problem(Denoising(C), None, NuclearNorm(0.2)), tol=1e-8)
    assert result.solver == "DavisYin"
    assert result.value == pytest.approx(optimum(C.toarray(), NuclearNorm(0.2))[1], rel=1e-8)


def test_a_rank_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("weakprox.solvers.thresholding.room", lambda: 1000)
    with pytest.raises(InputError, match="does not fit in memory"):
        wp.minimize(wp.Problem(Denoising(sparse()), None, NuclearNorm(0.2)))


def test_starts_from_an_answer_and_caps_the_rank(nothing_dense):
    problem = wp.Problem(Denoising(sparse()), None, NuclearNorm(4.0))
    first = wp.minimize(problem, tol=1e-8)
    again = wp.minimize(problem, tol=1e-3, start=first)
    assert again.counts.rank_one_svds < first.counts.rank_one_svds  # no more than are wanted
    assert again.value == pytest.approx(first.value, rel=1e-3)
    capped = wp.minimize(problem, tol=1e-8, rank=2)
    assert capped.rank == 2
    assert capped.status is not wp.Status.CERTIFIED
    assert capped.certificate.lower_bound <= first.value * (1 + 1e-9)
    other = wp.Problem(Denoising(sparse().T), None, NuclearNorm(4.0))
    with pytest.raises(ShapeError, match="start"):
        wp.minimize(other, start=first.low_rank)


def test_filters_lead_from_rough_vectors_to_a_proof(monkeypatch):
    problem = wp.Problem(Denoising(sparse()), None, NuclearNorm(4.0))
    exact = wp.minimize(problem, tol=1e-8)
    rng = np.random.default_rng(0)
    _, s, Vt = np.linalg.svd(sparse().toarray(), full_matrices=False)
    rough = np.linalg.qr(Vt[:20].T + 0.05 * rng.standard_normal((SHAPE[1], 20)))[0]
    start = wp.LowRank(np.eye(SHAPE[0])[:, :20], s[:20], rough.T)

    def refuse(*args, **named):
        raise AssertionError("decomposed from nothing")

    monkeypatch.setattr("weakprox.solvers.thresholding.thin_svd", refuse)
    found = wp.minimize(problem, tol=1e-3, start=start)
    assert found.status is wp.Status.CERTIFIED
    assert found.value == pytest.approx(exact.value, rel=1e-3)
    assert 1 <= found.counts.svds <= 5


def test_the_proof_and_the_checkpoint(tmp_path):
    problem = wp.Problem(Denoising(sparse()), None, NuclearBall(9.0))
    result = wp.minimize(problem, tol=1e-6, proof=True, checkpoint=tmp_path / "run")
    proof = result.proof
    assert proof.lower_bound == pytest.approx(result.certificate.lower_bound, rel=1e-6)


def test_other_problems_are_refused():
    for problem in (
        wp.Problem(Denoising(sparse()), L1(0.1), NuclearBall(1.0)),
        wp.Problem(Denoising(sparse().toarray()), None, NuclearBall(1.0)),
    ):
        with pytest.raises(InputError, match="sparse"):
            wp.minimize(problem, Thresholding())


def proof_of(C, form, count, aim=0.0):
    """The dual point from the leading triplets of a dense matrix."""
    U, s, Vt = np.linalg.svd(C, full_matrices=False)
    kept = U[:, :count], s[:count], Vt[:count].T, form.prox(s[:count], 1.0)
    return replace(ThresholdedDual.of(SparseTiles(csr_array(C)), *kept, form), aim=aim)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_the_parts_of_a_proof_do_not_depend_on_units(unit):
    """The norm `enough` gives away the same share of the accuracy, whatever the size of X."""
    C, lam = unit * sparse().toarray(), 4.0 * unit
    dual = proof_of(C, ValueForm(lam=lam), 20, aim=1e-5 * unit**2)
    X = dual.point.dense()
    assert dual.value == pytest.approx(0.5 * np.sum((C - X) ** 2), rel=1e-12, abs=0.0)
    lost = dual.value + lam * dual.values.sum() - dual.at(dual.enough)
    assert lost == pytest.approx(0.8 * dual.aim, rel=1e-3, abs=0.0)


def test_a_matrix_inside_the_ball_is_not_bounded_above_zero():
    """X = C leaves no dual point, and the optimum is 0: rounding may only lower the bound."""
    one, form = np.eye(2), ValueForm(tau=20.0)
    values = np.array([4.0, 3.0])
    C = SparseTiles(csr_array(np.diag(values)))
    dual = ThresholdedDual.of(C, one, values, one, values, form)
    assert dual.square == 0.0
    assert -1e-12 < dual.proof(np.random.default_rng(0)).lower < 0.0


def test_rounding_of_the_largest_value_is_allowed_for():
    """The norm of Y is much less than that of C, whose products round."""
    dual = proof_of(np.diag([1e6, 3.0]), ValueForm(lam=1.5), 2)
    allowed = 64 * np.finfo(float).eps * 1e6
    assert allowed <= dual.norm(np.random.default_rng(0)) - 1.5 < 2 * allowed
