"""Data in float32: what that cannot prove is proved in float64; answers are in float32."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import weakprox as wp
from weakprox.linalg.simplex import rounded_on_host
from weakprox.losses import Completion, Custom, Denoising, Sensing
from weakprox.losses import sensing as sensing_module
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine
from weakprox.run import escalate
from weakprox.solvers import DavisYin
from weakprox.solvers.base import Method
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
    exact = wp.minimize(cases(np.float64)[name], tol=1e-8, progress=False)
    result = wp.minimize(problem, tol=5e-6, progress=False)
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
    assert result.eps == pytest.approx(5e-6 * abs(result.value))


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
    monkeypatch.setattr(escalate, "affordable", lambda *_: False)
    result = wp.minimize(cases(np.float32)["penalty"], DavisYin(), tol=1e-5, progress=False)
    assert result.status is wp.Status.FINISHED
    assert "float64" not in result.reason


def test_room_is_counted_in_float64():
    problem = cases(np.float32)["penalty"]
    assert escalate.affordable(problem, DavisYin())
    arrays = DavisYin().arrays.most
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weakprox.solvers.base.room", lambda: int(arrays * 8 * D * D))
        assert not escalate.affordable(problem, DavisYin())
    assert not escalate.affordable(problem, Method())  # of which nothing is known


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
    assert escalate.in_float64(own_terms()[name]) is None


def test_nothing_changes_for_float64():
    result = wp.minimize(cases(np.float64)["penalty"], tol=1e-5, progress=False)
    assert "float64" not in result.reason
    assert result.X.dtype == np.float64


def test_rounding_takes_no_more_than_it_must():
    """What is taken off the answer, a proof at the boundary of the set lacks."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        p = rng.random(int(rng.integers(1, 300)))
        tau = float(p.sum())
        for like in (np.float32(0), np.float64(0)):
            values = rounded_on_host(p, tau, np.asarray(like))
            assert max(float(values.sum()), float(values.sum(dtype=float))) <= tau
            assert float(values.sum(dtype=float)) >= tau * (1 - 3 * np.finfo(like.dtype).eps)


@pytest.mark.parametrize("seed", range(4))
def test_the_value_is_that_of_the_very_matrix(seed):
    """Where f is small beside its terms, even the rounding of U s V' to float32 shows."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((38, 3)) @ rng.standard_normal((3, 15))
    M = (M + 0.2 * rng.standard_normal(M.shape)).astype(np.float32)
    A = (0.1 * rng.standard_normal((3, *M.shape))).astype(np.float32)
    ball = NuclearBall(1.3 * float(np.linalg.norm(M, "nuc")))

    def problem(dtype, b):
        return wp.Problem(
            Denoising(M.astype(dtype)), MaxAffine(A.astype(dtype), b.astype(dtype)), ball
        )

    zero = wp.minimize(problem(float, np.zeros(3)), tol=1e-9, progress=False).value
    b = np.full(3, zero - 0.02, np.float32)
    for tol in (1e-4, 1e-5):
        result = wp.minimize(problem(np.float32, b), tol=tol, progress=False)
        there = problem(float, b).smooth_value(result.X.astype(float))
        assert result.value == pytest.approx(there, rel=1e-9)
        proved = there - result.certificate.lower_bound <= result.eps
        assert proved is (result.status is wp.Status.CERTIFIED)


def test_constants_stay_restated(monkeypatch):
    """A strong convexity that was declared too large and found out about, and the change."""
    monkeypatch.setattr(sensing_module, "QUICK_FLOPS", 0.0)  # so that only gradients tell
    rng = np.random.default_rng(0)
    e, q = 10, 300
    A = rng.standard_normal((q, e, e)) * np.linspace(0.05, 1, e)[None, :, None]
    L = rng.standard_normal((e, 2)) @ rng.standard_normal((2, e))
    b = np.einsum("kij,ij->k", A, L) + 0.1 * rng.standard_normal(q)
    true = Sensing(A, b)
    too_much = 100 * true.strong_convexity
    loss = Sensing(
        A.astype(np.float32), b.astype(np.float32),
        strong_convexity=too_much, smoothness=1.01 * true.smoothness,
    )  # fmt: skip
    problem = wp.Problem(loss, L1(0.001), NuclearNorm(0.01))

    def run(**options):
        return wp.minimize(problem, tol=1e-5, progress=False, **options)

    whole = run()
    assert whole.status is wp.Status.CERTIFIED
    assert "float64" in whole.reason
    part = run(max_svds=whole.counts.svds - 8)
    assert part.checkpoint.restated < 0.1 * too_much
    again = run(resume=part)
    assert again.counts.svds == whole.counts.svds
    np.testing.assert_array_equal(again.X, whole.X)


def test_a_file_of_a_run_in_float64_resumes_in_torch(tmp_path):
    problem = cases(np.float32, torch.asarray)["sum"]
    whole = wp.minimize(problem, tol=2e-5, progress=False)
    where = tmp_path / "run.safetensors"
    most = whole.counts.svds - 2
    wp.minimize(problem, tol=2e-5, max_svds=most, checkpoint=where, progress=False)
    # nothing but what the file says is there to answer with
    again = wp.minimize(
        problem, tol=2e-5, max_seconds=0.0, checkpoint=where, resume=True, progress=False
    )
    assert again.X.dtype == torch.float32
    assert again.value == pytest.approx(whole.value, rel=1e-3)


def test_callbacks_see_the_dtype_of_the_data():
    seen = set()

    def look(one):
        seen.update({one.X.dtype, one.V.U.dtype, one.V.s.dtype})

    problem = cases(np.float32, torch.asarray)["group"]
    result = wp.minimize(problem, tol=2e-5, callback=look, progress=False)
    assert "float64" in result.reason
    assert seen == {torch.float32}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_operator_that_was_gathered_resumes_from_a_file(dtype, tmp_path):
    S = sp.random_array((120, 100), density=0.05, rng=np.random.default_rng(0), dtype=dtype)
    problem = wp.Problem(Denoising(sp.csr_array(S)), L1(0.01), NuclearBall(60.0))

    def run(**options):
        return wp.minimize(problem, tol=1e-5, progress=False, **options)

    whole = run()
    assert (whole.solver, whole.status) == ("DavisYin", wp.Status.CERTIFIED)
    for most in range(1, whole.counts.svds):
        where = tmp_path / f"{most}.safetensors"
        run(max_svds=most, checkpoint=where)
        again = run(checkpoint=where, resume=True)
        np.testing.assert_array_equal(again.X, whole.X)


@pytest.mark.parametrize("share", [0.15, 0.25])
def test_low_rank_answers_need_no_float64(share):
    rng = np.random.default_rng(300)
    U, V = (rng.standard_normal((300, 5)) * (rng.random((300, 5)) < 0.3) for _ in "UV")
    M = (U @ V.T + 0.05 * rng.standard_normal((300, 300))).astype(np.float32)
    ball = NuclearBall(share * float(np.linalg.norm(M, "nuc")))
    result = wp.minimize(wp.Problem(Denoising(M), L1(0.05), ball), tol=1e-6, progress=False)
    assert (result.solver, result.status) == ("LeanSplitting", wp.Status.CERTIFIED)


@pytest.mark.parametrize("seed", range(300, 306))
def test_the_accuracy_leaves_room_for_rounding_the_answer(seed):
    """The value of the answer in float32 is some units of rounding larger."""
    rng = np.random.default_rng(seed)
    U, V = (rng.standard_normal((300, 5)) * (rng.random((300, 5)) < 0.3) for _ in "UV")
    M = (U @ V.T + 0.05 * rng.standard_normal((300, 300))).astype(np.float32)
    ball = NuclearBall(0.3 * float(np.linalg.norm(M, "nuc")))
    result = wp.minimize(wp.Problem(Denoising(M), L1(0.05), ball), tol=1e-6, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.rounding > 0.0
