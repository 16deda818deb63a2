"""Data in float32: what that cannot prove is proved in float64; answers are in float32."""

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.losses import Completion, Custom, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine
from weakprox.solvers import DavisYin, _precision
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

D = 60


def matrices():
    rng = np.random.default_rng(0)
    U, V = (rng.standard_normal((D, 4)) * (rng.random((D, 4)) < 0.4) for _ in "UV")
    L = U @ V.T
    noise = 0.1 * rng.standard_normal((D, D))
    return rng, L, L + noise, U @ U.T + noise + noise.T, np.linalg.norm(L, "nuc")


def cases(dtype, wrap=np.asarray):
    rng, L, M, S, nuclear = matrices()

    def data(x):
        return wrap(np.asarray(x, dtype=dtype))

    ball, e = NuclearBall(0.7 * nuclear), 15
    i, j = np.nonzero(rng.random((D, D)) < 0.5)
    A, part = rng.standard_normal((600, e, e)), L[:e, :e]
    U, V = rng.standard_normal((2, 600, e))
    b = np.einsum("kij,ij->k", A, part) + 0.1 * rng.standard_normal(600)
    small = NuclearBall(0.8 * np.linalg.norm(part, "nuc"))
    pieces = MaxAffine(data(rng.standard_normal((3, D, D))), data(np.zeros(3)))
    samples = data(M + rng.standard_normal((5, D, D)))
    return {
        "group": wp.Problem(Denoising(data(M)), GroupL2(0.2), ball),
        "psd": wp.Problem(Denoising(data(S)), L1(0.1), TracePSD(0.5 * np.trace(S))),
        "penalty": wp.Problem(Denoising(data(M)), L1(0.05), NuclearNorm(2.0)),
        "pieces": wp.Problem(Denoising(data(M)), pieces, ball),
        "sum": wp.Problem(Denoising(data(M)), L1(0.05) + pieces, ball),
        "nothing": wp.Problem(Denoising(data(M)), wp.penalties.Zero(), ball),
        "wide": wp.Problem(Denoising(data(M)), L1(0.05), NuclearBall(1.2 * nuclear)),
        "samples": wp.Problem(Denoising(samples=samples), GroupL2(0.1), ball),
        "holes": wp.Problem(
            Completion(i, j, data(M[i, j]), (D, D)), ElasticNet(0.05, 0.05), ball
        ),
        "sensing": wp.Problem(Sensing(data(A), data(b)), L1(0.01), small),
        "rank-one": wp.Problem(Sensing((data(U), data(V)), data(b)), L1(0.01), small),
    }


NAMES = [*cases(np.float32)]


@pytest.mark.parametrize("wrap", [np.asarray, torch.asarray], ids=["numpy", "torch"])
@pytest.mark.parametrize("name", NAMES)
def test_every_form_is_certified(name, wrap):
    problem = cases(np.float32, wrap)[name]
    exact = wp.minimize(cases(np.float64)[name], tol=1e-7, progress=False)
    result = wp.minimize(problem, tol=2e-5, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert "float64" in result.reason
    assert result.X.dtype == problem.loss.reference.dtype
    assert type(result.X) is type(wrap(np.zeros(1)))
    assert result.violation <= 1e-5
    # the two problems are the same but for the rounding of the data
    slack = 1e-5 * abs(exact.value)
    assert result.certificate.lower_bound <= exact.value + slack
    assert result.value >= exact.certificate.lower_bound - slack
    assert result.value == pytest.approx(value_of(name, result), rel=1e-6)
    assert result.eps == pytest.approx(2e-5 * abs(result.value))


def value_of(name, result):
    """F at the very X that came back, by the problem in float64."""
    X = np.asarray(result.X, dtype=float)
    problem, half = cases(np.float64)[name], 0.0
    if isinstance(problem.spectral, NuclearNorm):
        half = problem.spectral.lam * np.linalg.norm(X, "nuc")
    return problem.smooth_value(X) + half


@pytest.mark.parametrize("name", ["wide", "penalty", "pieces"])
def test_such_runs_are_resumed_to_the_bit(name, tmp_path):
    problem = cases(np.float32)[name]

    def run(most=None, **options):
        return wp.minimize(problem, tol=2e-5, max_svds=most, progress=False, **options)

    whole = run()
    assert whole.status is wp.Status.CERTIFIED
    svds = whole.counts.svds
    for most in range(3, svds, max(2, svds // 8)):  # before the change and after it
        where = tmp_path / f"{most}.safetensors"
        part = run(most, checkpoint=where)
        assert part.X.dtype == np.float32
        for again in (run(resume=part), run(checkpoint=where, resume=True)):
            assert again.status is wp.Status.CERTIFIED
            np.testing.assert_array_equal(again.X, whole.X)
            for name in ("value", "certificate", "reason", "iterate_value"):
                assert getattr(again, name) == getattr(whole, name)
            assert again.counts.svds == whole.counts.svds


def test_it_needs_room(monkeypatch):
    monkeypatch.setattr(_precision, "affordable", lambda *_: False)
    result = wp.minimize(cases(np.float32)["penalty"], tol=1e-5, progress=False)
    assert result.status is wp.Status.FINISHED
    assert "float64" not in result.reason


def test_room_is_counted_in_float64():
    problem = cases(np.float32)["penalty"]
    assert _precision.affordable(problem, DavisYin())
    arrays = _precision.arrays_of(DavisYin()).most
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_precision, "room", lambda: int(arrays * 8 * D * D))
        assert not _precision.affordable(problem, DavisYin())
    assert not _precision.affordable(problem, object())  # of which nothing is known


class Own(GroupL2):
    """A penalty of the user's, of which nobody knows whether it can."""


def own_terms():
    _, _, M, _, nuclear = matrices()
    M = M.astype(np.float32)
    ball = NuclearBall(0.7 * nuclear)
    loss = Denoising(M)
    return {
        "penalty": wp.Problem(loss, Own(0.2), ball),
        "within a sum": wp.Problem(loss, Own(0.2) + L1(0.1), ball),
        "spectral": wp.Problem(loss, L1(0.1), Exact(lambda A, weight: A, lambda X: 0.0)),
        "loss": wp.Problem(
            Custom(
                M.shape,
                value=lambda X: 0.5 * float(np.sum((X - M) ** 2)),
                grad=lambda X: X - M,
                strong_convexity=1.0,
                smoothness=1.0,
                like=M,
            ),
            GroupL2(0.2),
            ball,
        ),
    }


@pytest.mark.parametrize("name", ["penalty", "within a sum", "spectral", "loss"])
def test_terms_of_the_users_stay_as_they_are(name):
    assert _precision.in_float64(own_terms()[name]) is None


def test_nothing_changes_for_float64():
    result = wp.minimize(cases(np.float64)["penalty"], tol=1e-5, progress=False)
    assert "float64" not in result.reason
    assert result.X.dtype == np.float64
