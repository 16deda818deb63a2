"""The sparse point of a splitting step as an answer, where the solution is not low-rank."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakprox as wp
from weakprox.linalg.arrays import SHARED
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.simplex import ValueForm
from weakprox.penalties import L1, GroupL2, SignedL1
from weakprox.solvers import DavisYin, _sparse_point, _stored
from weakprox.spectral import NuclearBall, NuclearNorm
from weakprox.spectral.singular import values_lower

D = 410


def data(m=D, d=D, rank=2, seed=0):
    """A sparse low-rank matrix with noise, and the nuclear norm of the signal."""
    rng = np.random.default_rng([m, d, rank, seed])
    U = rng.integers(1, 11, (m, rank)) * (rng.random((m, rank)) < 0.1)
    V = rng.integers(1, 11, (d, rank)) * (rng.random((d, rank)) < 0.1)
    signal = (U @ V.T).astype(float)
    size = np.linalg.svd(signal, compute_uv=False).sum()
    return signal + rng.standard_normal((m, d)), size


def problem(penalty=None, spectral=None, **shape):
    M, size = data(**shape)
    spectral = NuclearBall(size) if spectral is None else spectral
    return wp.Problem(wp.losses.Denoising(M), penalty or L1(2.0), spectral)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Consider the sparse point of small problems, too."""
    monkeypatch.setattr(_stored, "LARGE", 400)


FORMS = {
    "ball": {},
    "norm": {"spectral": NuclearNorm(4.0)},
    "signed": {"penalty": SignedL1(2.0, 3.0)},
    "wide": {"m": 402, "d": 450},
}


@pytest.mark.parametrize("form", FORMS)
def test_fewer_steps_to_the_same_optimum(form, monkeypatch):
    one = problem(**FORMS[form])
    found = wp.minimize(one, DavisYin(), tol=1e-5, progress=False)
    monkeypatch.setattr(_stored, "HIGH", 2.0)  # switched off
    plain = wp.minimize(one, DavisYin(), tol=1e-5, progress=False)
    assert found.status.name == plain.status.name == "CERTIFIED"
    assert found.counts.full_gradients < plain.counts.full_gradients
    assert found.certificate.lower_bound <= plain.value
    assert (
        plain.certificate.lower_bound
        <= found.value
        <= found.certificate.lower_bound * (1 + 1e-5)
    )
    assert found.value == pytest.approx(one.value(found.X), rel=1e-12)
    assert found.violation <= 1e-12
    near_zero = [np.mean(np.abs(x.X) < 1e-6) for x in (found, plain)]
    assert near_zero[0] > 0.5 > near_zero[1]  # only the first is the sparse point


def test_a_rank_is_respected():
    found = wp.minimize(problem(), DavisYin(rank=300), tol=1e-5, progress=False, max_svds=40)
    assert found.low_rank.rank <= 300
    assert np.mean(np.abs(found.X) < 1e-6) < 0.5  # not the sparse point


def test_low_rank_solutions_stay_low_rank():
    M, size = data(rank=3)
    one = wp.Problem(wp.losses.Denoising(M), L1(2.0), NuclearBall(0.85 * size))
    found = wp.minimize(one, DavisYin(), tol=1e-4, progress=False)
    assert found.status.name == "CERTIFIED"
    assert found.low_rank.rank <= 10


def test_not_used_if_it_does_not_pay(monkeypatch):
    """The point is given up after one look if f is not much smaller there."""
    looks = []
    monkeypatch.setattr(_stored, "SMALLER", 0.0)
    norm = _sparse_point.nuclear_norm
    monkeypatch.setattr(_stored, "nuclear_norm", lambda Y: looks.append(1) or norm(Y))
    found = wp.minimize(problem(), DavisYin(), tol=1e-5, progress=False)
    assert len(looks) == 1
    assert found.status.name == "CERTIFIED"
    assert found.low_rank.rank < 200


def test_warm_starts_take_few_decompositions():
    """The answer comes with the dual points of its step."""
    M, size = data()
    one, two = (
        wp.Problem(wp.losses.Denoising(M), L1(lam), NuclearBall(size)) for lam in (2.0, 2.02)
    )
    options = {"tol": 1e-4, "progress": False}
    first = wp.minimize(one, DavisYin(), **options)
    assert first.low_rank.rank > 250
    cold = wp.minimize(two, DavisYin(), **options)
    warm = wp.minimize(two, DavisYin(), start=first, **options)
    assert warm.status.name == "CERTIFIED"
    assert warm.counts.svds < cold.counts.svds


def test_an_optimistic_estimate_is_corrected(monkeypatch):
    """If |Y|_* was underestimated, the point offered shows it, and the run continues."""
    offers = []
    kept = _stored.scaled
    monkeypatch.setattr(
        _stored, "nuclear_norm", lambda Y: 1e-3 + np.linalg.norm(Y, "nuc") * 0.99
    )
    monkeypatch.setattr(_stored, "scaled", lambda *a: offers.append(1) or kept(*a))
    found = wp.minimize(problem(), DavisYin(), tol=1e-4, progress=False)
    assert found.status.name == "CERTIFIED"
    assert 2 <= len(offers) <= 4


def test_proof_and_resume():
    """The proof is confirmed, and a run that was stopped gives the same answer."""
    one = problem()
    options = {"tol": 1e-4, "progress": False, "seed": 0}
    whole = wp.minimize(one, DavisYin(), proof=True, **options)
    assert wp.verify(whole.proof, one).valid
    stopped = wp.minimize(one, DavisYin(), max_svds=whole.counts.svds // 2, **options)
    assert stopped.status.name != "CERTIFIED"
    again = wp.minimize(one, DavisYin(), resume=stopped, **options)
    assert np.array_equal(again.X, whole.X)


@pytest.mark.parametrize("shape", [(60, 60), (70, 50), (50, 70)])
@pytest.mark.parametrize("form", [ValueForm(tau=90.0), ValueForm(lam=0.5)])
def test_scaled_keeps_small_values(shape, form):
    """Values a billion times smaller than the largest are kept, with orthonormal vectors."""
    rng = np.random.default_rng(3)
    U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0][:, :50] for n in shape)
    s = np.concatenate([[1e4, 5e3], np.geomspace(1.0, 1e-4, 48)])
    Y = (U * s) @ V.T
    X = LowRank(U[:, :4], s[:4], V[:, :4].T)
    found, size = _sparse_point.scaled(Y, X, form)
    share = min(1.0, form.tau / s.sum())
    assert size == pytest.approx(s.sum(), rel=1e-9)
    assert size == pytest.approx(_sparse_point.nuclear_norm(Y), rel=1e-6)
    assert np.abs(found.dense() - share * Y).max() <= 1e-9 * share
    assert float(found.s.sum()) <= form.tau
    assert np.all(np.diff(found.s) <= 0)
    for Q in (found.U.T, found.Vt):
        assert np.abs(Q @ Q.T - np.eye(len(Q))).max() <= 1e-5


@pytest.mark.parametrize("shape", [(40, 40), (55, 30), (30, 55)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_bound_the_proximal_step_from_below(shape, dtype):
    """Against the closed form, for a ball and for a norm."""
    rng = np.random.default_rng(4)
    A = rng.standard_normal(shape).astype(dtype)
    s = np.linalg.svd(A.astype(float), compute_uv=False)
    lam, tau, w = 2.0, 20.0, 1.7
    p = np.maximum(s - lam / w, 0.0)
    exact = 0.5 * w * np.sum((s - p) ** 2) + lam * p.sum()
    found = values_lower(A, w, ValueForm(lam=lam))
    slack = 1e-4 if dtype is np.float32 else 1e-10
    assert exact * (1 - slack) <= found <= exact
    low, high = 0.0, s[0]
    for _ in range(200):
        theta = 0.5 * (low + high)
        low, high = (theta, high) if np.maximum(s - theta, 0).sum() > tau else (low, theta)
    p = np.maximum(s - high, 0.0)
    exact = 0.5 * w * np.sum((s - p) ** 2)
    found = values_lower(A, w, ValueForm(tau=tau))
    assert exact * (1 - slack) <= found <= exact * (1 + 1e-12)


def test_groups_are_as_before():
    """Y of a group penalty has zero rows; whichever point is the answer, it is certified."""
    one = problem(penalty=GroupL2(40.0, "rows"))
    found = wp.minimize(one, DavisYin(), tol=1e-4, progress=False)
    assert found.status.name == "CERTIFIED"


def test_smaller_problems_keep_a_lower_rank_unless_the_run_is_long(monkeypatch):
    monkeypatch.setattr(_stored, "LARGE", 1000)
    one = problem()
    short = wp.minimize(one, DavisYin(), tol=1e-4, progress=False)
    assert short.counts.full_gradients <= _stored.LONG
    assert short.low_rank.rank <= 150
    monkeypatch.setattr(_stored, "LONG", 4)
    found = wp.minimize(one, DavisYin(), tol=1e-5, progress=False)
    assert found.status.name == "CERTIFIED"
    assert found.low_rank.rank > 250


def test_points_are_offered_with_their_values():
    """With h, which counts unless it is a ball."""
    rng, seen = np.random.default_rng(0), []
    Y, form = rng.standard_normal((7, 5)), ValueForm(lam=0.5)
    small = wp.Problem(wp.losses.Denoising(2.0 * Y), L1(0.1), NuclearNorm(0.5))
    spectral = SimpleNamespace(counted=lambda *_: None)
    tools = SimpleNamespace(spectral=spectral, arena=SHARED, tick=seen.append, loss=small.loss)
    V = small.spectral.random_point(rng, (7, 5), 2, Y)
    known = {"V": V, "y": 0.0 * Y, "z": Y, "gamma": 1.0, "bound": 0.25, "epoch": 1}
    splitting = SimpleNamespace(problem=small, tools=tools, _prox=V)
    state = SimpleNamespace(**known)
    gap, size = _stored.Stored._offered(splitting, state, Y, form, 3)
    assert size == pytest.approx(np.linalg.norm(Y, "nuc"))
    assert seen[0].value == pytest.approx(small.value(Y)) == pytest.approx(gap + 0.25)
