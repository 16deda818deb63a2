"""Resumed runs end bit-identical to uninterrupted ones, wherever they were cut."""

import pickle

import numpy as np
import pytest
from registry import MATRICES, MEASURED, NUMPY, SHAPE, TORCH, denoising_sampler, numbers

import weakprox as wp
from weakprox.losses import Completion, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet
from weakprox.result import COLUMNS
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

M = numbers(*SHAPE)
SYM = numbers(6, 6) + numbers(6, 6).T


def build(kind, backend=NUMPY):
    ball = NuclearBall(2.0)
    if kind == "matrix":
        return wp.Problem(Denoising(backend.array(M)), L1(0.05), ball)
    if kind == "psd":
        return wp.Problem(Denoising(backend.array(SYM)), L1(0.05), TracePSD(4.0))
    if kind == "sampler":
        return wp.Problem(denoising_sampler(backend), L1(0.05), ball)
    loss = Sensing(backend.array(MATRICES), backend.array(MEASURED))
    return wp.Problem(loss, ElasticNet(0.02, 0.2), ball)


KINDS = ("matrix", "psd", "sampler", "sensing")


def same(a, b):
    assert bool((a.X == b.X).all())
    assert (a.value, a.status, a.iterate_value) == (b.value, b.status, b.iterate_value)
    assert a.counts == b.counts
    for name in COLUMNS:
        if name != "seconds":
            assert np.array_equal(a.trace[name], b.trace[name], equal_nan=True)
    assert a.certificate == b.certificate


def run(problem, answer="low_rank", k_t=None, inner=None, **options):
    solver = wp.SVRGCG(rank=3, answer=answer, k_t=k_t, inner=inner)
    return wp.minimize(
        problem, solver, **{"eps": 0.2, "seed": 7, "stop_when_certified": False, **options}
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", ["low_rank", "iterate"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_after_a_limit(kind, answer, share):
    problem, k_t = build(kind), 9 if kind == "sensing" else None
    whole = run(problem, answer, k_t)
    assert whole.parameters.epochs >= 2
    part = run(problem, answer, k_t, max_svds=int(share * whole.counts.svds))
    assert part.counts.svds < whole.counts.svds
    same(run(problem, answer, k_t, resume=part), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_callback_and_in_several_pieces(kind):
    problem = build(kind)
    whole, pieces, result = run(problem), 0, None
    while result is None or result.status is wp.Status.CALLBACK:
        begun = 0 if result is None else result.checkpoint.memory.epoch
        result = run(problem, resume=result, callback=lambda look, e=begun: look.epoch > e + 1)
        pieces += 1
    assert pieces >= 2
    same(result, whole)
    assert (np.diff(result.trace["seconds"]) >= 0).all()  # the clock continues, too


def test_after_ctrl_c():
    problem = build("sampler")
    whole = run(problem)

    def callback(look):
        if look.epoch == 2 and look.step:
            raise KeyboardInterrupt

    part = run(problem, callback=callback)
    assert part.status is wp.Status.INTERRUPTED
    same(run(problem, resume=part), whole)


def test_with_certified_stopping():
    problem = build("matrix")
    options = {"eps": 2e-3, "inner": 1, "stop_when_certified": True}
    whole = run(problem, **options)
    assert whole.status is wp.Status.CERTIFIED
    assert whole.checkpoint.memory.epoch >= 2
    part = run(problem, max_svds=whole.counts.svds // 2, **options)
    same(run(problem, resume=part, **options), whole)


def test_from_disk():
    """A result survives pickling, checkpoint included."""
    problem = build("sensing")
    whole = run(problem)
    part = run(problem, max_svds=whole.counts.svds // 2)
    same(run(problem, resume=pickle.loads(pickle.dumps(part))), whole)


def test_torch():
    problem = build("sampler", TORCH)
    whole = run(problem)
    part = run(problem, max_svds=whole.counts.svds // 2)
    same(run(problem, resume=part), whole)


def test_resuming_a_finished_run_does_nothing_more():
    problem = build("matrix")
    whole = run(problem)
    same(run(problem, resume=whole), whole)


def test_what_resume_refuses():
    problem, other = build("matrix"), build("psd")
    part = run(problem, max_svds=5)
    with pytest.raises(wp.InputError, match="another problem") as caught:
        run(other, resume=part)
    assert caught.value.argument == "resume"
    with pytest.raises(wp.InputError, match="only one"):
        run(problem, resume=part, start=np.zeros(SHAPE))
    with pytest.raises(wp.InputError, match="Result"):
        run(problem, resume=3)


ROWS, COLS = np.nonzero(np.random.default_rng(1).random(SHAPE) < 0.7)
PROVED = {
    "matrix": lambda A: wp.Problem(Denoising(A), L1(0.05), NuclearBall(2.0)),
    "entries": lambda A: wp.Problem(
        Completion(ROWS, COLS, A[ROWS, COLS], SHAPE), None, NuclearNorm(0.5)
    ),
}


@pytest.mark.parametrize("kind", PROVED)
@pytest.mark.parametrize(
    ("dtype", "unit"), [(np.float64, 1.0), (np.float64, 2.0**200), (np.float32, 1.0)]
)
def test_other_data_are_refused_after_a_proof_in_the_first_epoch(kind, dtype, unit):
    """Such runs do not read their data once more to identify them."""
    A = (unit * M).astype(dtype)
    result = wp.minimize(PROVED[kind](A), seed=0, tol=1e-3)
    assert result.certified
    assert result.checkpoint.data is None
    same(wp.minimize(PROVED[kind](A.copy()), seed=0, tol=1e-3, resume=result), result)
    other = A.copy()
    other[ROWS[0], COLS[0]] *= 1.1
    with pytest.raises(wp.InputError, match="other data"):
        wp.minimize(PROVED[kind](other), seed=0, tol=1e-3, resume=result)


def test_an_answer_next_to_the_data_can_be_resumed():
    """Its value is mostly rounding errors, which differ when it is computed again."""
    A = np.random.default_rng(2).standard_normal((17, 15)).astype(np.float32)
    ball = NuclearBall((1 - 1e-6) * float(np.linalg.norm(A, "nuc")))
    options = {"seed": 0, "tol": 1e-3}
    result = wp.minimize(wp.Problem(Denoising(A), None, ball), **options)
    assert result.certified
    assert result.checkpoint.data is None
    same(wp.minimize(wp.Problem(Denoising(A), None, ball), **options, resume=result), result)
    other = wp.Problem(Denoising(1.001 * A), None, ball)
    with pytest.raises(wp.InputError, match="other data"):
        wp.minimize(other, **options, resume=result)
