"""The penalty's own point of a result: exact zeros, feasible, with a bound of its own."""

import pickle

import numpy as np
import pytest

import weakprox as wp
from weakprox import losses, penalties, spectral
from weakprox.linalg import decompositions

RNG = np.random.default_rng(0)
U = np.where(RNG.random(30) < 0.3, 2.0, 0.0)
M = np.outer(U, U[:24]) + RNG.standard_normal((30, 24))
SQUARE = M[:24] + M[:24].T
SOFT = np.sign(M) * np.maximum(np.abs(M) - 0.8, 0.0)
NORM = float(np.linalg.svd(SOFT, compute_uv=False).sum())


def solved(penalty, h, A=M, **settings):
    problem = wp.Problem(losses.Denoising(A), penalty, h)
    return problem, wp.minimize(problem, progress=False, **({"tol": 1e-6} | settings))


CASES = {
    "ball": (penalties.L1(0.8), spectral.NuclearBall(0.4 * NORM), M),
    "norm": (penalties.L1(0.8), spectral.NuclearNorm(1.0), M),
    "psd": (penalties.L1(0.8), spectral.TracePSD(20.0), SQUARE),
    "signed": (penalties.SignedL1(0.5, 1.0), spectral.NuclearBall(0.4 * NORM), M),
    "elastic": (penalties.ElasticNet(0.5, 0.2), spectral.NuclearBall(0.4 * NORM), M),
    "rows": (penalties.GroupL2(6.0), spectral.NuclearBall(0.4 * NORM), M),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return solved(*CASES[request.param])


def test_value_distance_and_feasibility_are_those_of_the_point(case):
    problem, result = case
    point, (G, R) = result.sparse, (problem.loss, problem.penalty)
    Y = point.matrix.toarray()
    assert point.distance == pytest.approx(np.linalg.norm(Y - result.X), rel=1e-6, abs=1e-12)
    s = np.linalg.svd(Y, compute_uv=False)
    h = problem.spectral
    price = h.lam * s.sum() if isinstance(h, spectral.NuclearNorm) else 0.0
    assert point.value == pytest.approx(G.value(Y, G.everything()) + R.value(Y) + price)
    if not price:
        assert s.sum() <= h.tau * (1 + 1e-9)
    if h.symmetric:
        assert np.linalg.eigvalsh(Y).min() >= -1e-12 * s[0]
    assert point.violation <= 1e-9


def test_its_certificate_is_about_itself(case):
    problem, result = case
    point = result.sparse
    assert point.certificate.value == point.value
    assert point.certificate.lower_bound == result.certificate.lower_bound
    fine = wp.minimize(problem, tol=1e-7, progress=False)
    assert point.certificate.lower_bound <= fine.value
    assert point.value >= fine.certificate.lower_bound
    assert 0.0 <= point.gap <= 1e-3 * abs(point.value)
    # strong convexity: both points are near the optimum, so near each other
    assert point.distance <= np.sqrt(2 * result.gap) + np.sqrt(2 * point.gap)


def test_zeros_are_exact(case):
    _, result = case
    point = result.sparse.matrix
    assert point.nnz == np.count_nonzero(point.toarray())
    assert 0 < point.nnz < 0.9 * M.size
    assert point.nnz <= np.count_nonzero(result.X)


def test_without_a_ball_the_zeros_are_those_of_soft_thresholding():
    _, result = solved(penalties.L1(0.8), spectral.NuclearBall(2 * NORM), tol=1e-9)
    found = result.sparse.matrix.toarray()
    np.testing.assert_array_equal(found != 0.0, SOFT != 0.0)
    np.testing.assert_allclose(found, SOFT, atol=1e-4)


def test_other_losses_precisions_and_units():
    A = RNG.standard_normal((200, 6, 5))
    B = np.zeros((6, 5))
    B[1, 2] = 3.0
    problem = wp.Problem(
        losses.Sensing(A, np.tensordot(A, B, 2)), penalties.L1(0.1), spectral.NuclearBall(5.0)
    )
    assert wp.minimize(problem, tol=1e-8, progress=False).sparse.matrix.nnz == 1
    single = wp.Problem(losses.Denoising(M.astype(np.float32)), *CASES["ball"][:2])
    point = wp.minimize(single, tol=1e-4, progress=False).sparse
    assert point.matrix.nnz < 0.9 * M.size
    tiny = wp.Problem(
        losses.Denoising(1e-12 * M), penalties.L1(0.8e-12), spectral.NuclearBall(0.4e-12 * NORM)
    )
    small = wp.minimize(tiny, tol=1e-6, progress=False)
    assert small.unit != 1.0
    problem, result = solved(*CASES["ball"][:2])
    plain = result.sparse
    assert small.sparse.value == pytest.approx(1e-24 * plain.value, rel=1e-4)
    np.testing.assert_allclose(
        1e12 * small.sparse.matrix.toarray(), plain.matrix.toarray(), atol=1e-2
    )


def test_it_survives_a_pickle_once_computed():
    _, result = solved(*CASES["ball"])
    nonzeros = result.sparse.matrix.nnz
    assert pickle.loads(pickle.dumps(result)).sparse.matrix.nnz == nonzeros


def test_refusals():
    problem, plain = solved(None, spectral.NuclearBall(5.0))
    with pytest.raises(wp.ProofError, match="penalty of entries"):
        _ = plain.sparse
    problem, result = solved(*CASES["ball"])
    del problem
    with pytest.raises(wp.ProofError, match="no longer exists"):
        _ = result.sparse
    _, hasty = solved(*CASES["ball"], max_seconds=0.0)
    with pytest.raises(wp.ProofError):
        _ = hasty.sparse


def test_linear_losses_have_one():
    # nothing is measured, so that the smoothness of G is zero
    loss = losses.Sensing(np.zeros((2, 4, 3)), np.array([1.0, -1.0]))
    for h in (spectral.NuclearBall(2.0), spectral.NuclearNorm(0.5)):
        problem = wp.Problem(loss, penalties.L1(0.3), h)
        point = wp.minimize(problem, progress=False).sparse
        assert point.matrix.nnz == 0
        assert point.value == pytest.approx(0.5)
        assert point.gap <= 1e-12


@pytest.mark.parametrize("name", ["ball", "psd"])
def test_it_takes_one_decomposition(name, monkeypatch):
    _, result = solved(*CASES[name])
    calls, real = [], {name: getattr(decompositions, name) for name in ("svd", "eigh")}
    for each, routine in real.items():
        monkeypatch.setattr(
            decompositions, each, lambda A, f=routine: calls.append(A.shape) or f(A)
        )
    for each in ("svdvals", "eigvalsh"):
        monkeypatch.setattr(decompositions, each, None)
    assert result.sparse.violation <= 1e-9
    assert len(calls) == 1
