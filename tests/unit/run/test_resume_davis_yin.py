"""DavisYin resumes to the bit, repeats to the bit, and keeps its limits exactly."""

import pickle

import numpy as np
import pytest
from registry import MATRICES, MEASURED, NUMPY, SHAPE, TORCH, numbers

import weakprox as wp
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import L1, ElasticNet
from weakprox.result import COLUMNS
from weakprox.solvers import DavisYin
from weakprox.solvers._gap_driven import PATIENCE, STRETCH
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SYM = numbers(6, 6) + numbers(6, 6).T
LARGE = numbers(60, 4) @ numbers(4, 55) + 0.1 * numbers(60, 55)  # not by full SVDs
SOLVERS = {
    "plain": DavisYin(),
    "no-memory": DavisYin(memory=0),
    "long-memory": DavisYin(memory=5),
    "capped": DavisYin(rank=1),
}
KINDS = ("matrix", "psd", "norm", "sensing", "large")


def build(kind, backend=NUMPY):
    if kind == "matrix":
        return wp.Problem(Denoising(backend.array(numbers(*SHAPE))), L1(0.3), NuclearBall(4.0))
    if kind == "psd":
        return wp.Problem(Denoising(backend.array(SYM)), L1(0.3), TracePSD(4.0))
    if kind == "norm":
        return wp.Problem(Denoising(backend.array(SYM)), L1(0.3), NuclearNorm(0.4))
    if kind == "large":
        return wp.Problem(Denoising(backend.array(LARGE)), L1(0.05), NuclearBall(100.0))
    loss = Sensing(backend.array(MATRICES), backend.array(MEASURED))
    return wp.Problem(loss, ElasticNet(0.02, 0.01), NuclearBall(2.0))


def run(problem, solver=None, **options):
    options = {"eps": 1e-13, "max_svds": 70, "stop_when_certified": False, **options}
    solver = DavisYin() if solver is None else solver
    return wp.minimize(problem, solver, progress=False, **options)


def same(a, b):
    assert bool((a.X == b.X).all())
    assert (a.value, a.status, a.iterate_value) == (b.value, b.status, b.iterate_value)
    assert a.counts == b.counts
    for column in COLUMNS:
        if column != "seconds":
            assert np.array_equal(a.trace[column], b.trace[column], equal_nan=True)
    assert a.certificate == b.certificate


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_resumed_at_every_step_end(kind, name):
    """Cut once in every stretch, each piece from disk; the end is that of one run."""
    problem, solver = build(kind), SOLVERS[name]
    whole = run(problem, solver)
    assert whole.counts.svds == 70
    result, ends = None, []
    for limit in (10, 20, 35, 50, 60, 70):
        result = run(problem, solver, max_svds=limit, resume=result)
        ends.append(result.checkpoint.memory.done)
        result = pickle.loads(pickle.dumps(result))
    same(result, whole)
    assert ends == sorted(ends)
    assert ends[-1] % STRETCH == 0
    assert len(set(ends)) >= 4 or kind == "large"


@pytest.mark.parametrize("kind", ["matrix", "sensing"])
def test_resumed_with_certified_stopping(kind):
    problem, options = build(kind), {"eps": 1e-9, "stop_when_certified": True}
    whole = run(problem, max_svds=None, **options)
    assert whole.status is wp.Status.CERTIFIED
    assert whole.counts.svds > STRETCH
    for limit in range(1, whole.counts.svds, 7):
        part = run(problem, max_svds=limit, **options)
        if part.status is wp.Status.CERTIFIED:  # the answer's own proof may be a tighter one
            assert part.gap <= options["eps"]
            assert limit > whole.counts.svds - 8
            continue
        assert part.status is wp.Status.MAX_SVDS
        same(run(problem, max_svds=None, resume=part, **options), whole)
    same(run(problem, max_svds=None, resume=whole, **options), whole)


def test_resumed_torch():
    problem = build("sensing", TORCH)
    whole, part = run(problem), run(problem, max_svds=37)
    same(run(problem, resume=part), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bits(kind):
    problem = build(kind)
    same(run(problem, seed=3), run(problem, seed=3))


@pytest.mark.parametrize("kind", ["matrix", "psd", "large"])
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 16, 17, 33])
def test_decompositions_stay_within_their_limit(kind, limit):
    result = run(build(kind), max_svds=limit)
    assert result.status is wp.Status.MAX_SVDS
    assert result.counts.svds == limit
    assert np.isfinite(result.value)
    assert result.violation <= 1e-9


def test_no_time_at_all():
    result = run(build("matrix"), max_seconds=0.0)
    assert result.status is wp.Status.MAX_SECONDS
    assert np.isfinite(result.value)


@pytest.mark.parametrize("at", [1, 5, 16, 17, 40])
def test_ctrl_c_returns_a_point_to_resume_from(at):
    calls = 0

    class Interrupting(NuclearBall):
        def weak_prox(self, A, **options):
            nonlocal calls
            if not options.get("certify"):
                calls += 1
                if calls == at:
                    raise KeyboardInterrupt
            return super().weak_prox(A, **options)

    problem = wp.Problem(Denoising(numbers(*SHAPE)), L1(0.3), Interrupting(4.0))
    part = run(problem)
    assert part.status is wp.Status.INTERRUPTED
    assert part.counts.svds == at - 1
    assert part.violation <= 1e-9
    assert part.certificate.lower_bound <= part.value
    calls = at + 1
    same(run(problem, resume=part), run(problem))


def test_a_callback_ends_the_run_and_it_can_be_resumed():
    problem = build("matrix")
    part = run(problem, callback=lambda look: look.counts.svds >= 21)
    assert part.status is wp.Status.CALLBACK
    assert 21 <= part.counts.svds < 40
    same(run(problem, resume=part), run(problem))


def test_another_memory_or_rank_is_another_run():
    problem = build("matrix")
    part = run(problem, max_svds=20)
    for other in (DavisYin(memory=1), DavisYin(rank=2), wp.SVRGCG(rank=2)):
        with pytest.raises(wp.InputError, match="resume"):
            run(problem, other, resume=part)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("matrix", "plain", marks=pytest.mark.long),
        ("psd", "capped"),
        ("norm", "capped"),
        ("sensing", "plain"),
    ],
)
def test_what_rounding_forbids_ends_by_itself(kind, name):
    """An estimate below zero once counted as progress, for ever."""
    problem, solver = build(kind), SOLVERS[name]
    eps = 1e-17 * problem.smooth_value(np.zeros(problem.shape))
    result = run(problem, solver, eps=eps, max_svds=4000, stop_when_certified=True)
    ends = wp.Status.RANK_LIMITED if name == "capped" else wp.Status.FINISHED
    assert result.status is ends
    assert result.counts.svds < 4000
    memory = result.checkpoint.memory
    assert memory.done - memory.progress >= PATIENCE
    assert result.gap > eps
    if name == "plain":
        assert result.gap <= 1e-11 * (1 + result.value)
    same(run(problem, solver, eps=eps, stop_when_certified=True, resume=result), result)
