"""Runs that are written down and resumed end at the same bits, in any number of pieces."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from soak.kill_cases import CASES, denoising, sampled

import weakprox as wp
from weakprox.losses import Custom
from weakprox.penalties import L1
from weakprox.result import COLUMNS
from weakprox.run import choose
from weakprox.run.checkpoint import Keeper
from weakprox.solvers import ADMM, HCGM, DavisYin, LeanSplitting
from weakprox.spectral import NuclearBall, NuclearNorm
from weakprox.streams import Stream

FAST = [name for name in CASES if name not in ("SampleAverage", "SVRGCG from a point")]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.safetensors"


def same(a, b):
    for mine, theirs in zip(a.factors, b.factors, strict=True):
        assert mine.shape == theirs.shape
        assert bool((mine == theirs).all())
    assert (a.value, a.status, a.iterate_value) == (b.value, b.status, b.iterate_value)
    assert a.counts == b.counts
    for name in COLUMNS:
        if name != "seconds":
            assert np.array_equal(a.trace[name], b.trace[name], equal_nan=True)
    assert a.certificate == b.certificate


def in_pieces(build, file, step=3, **more):
    """The run, ended by its callback at ever later looks and begun anew each time."""
    pieces = 0
    while True:
        pieces += 1
        looks = 0

        def enough(look):
            nonlocal looks
            looks += 1
            return looks > step * pieces  # noqa: B023

        problem, solver, options = build()
        result = wp.minimize(
            problem, solver, callback=enough, checkpoint=file, resume=True, progress=False,
            **{"checkpoint_every": 0, **options, **more},
        )  # fmt: skip
        if result.status is not wp.Status.CALLBACK:
            return result, pieces


@pytest.mark.parametrize("name", FAST)
def test_every_solver(name, file):
    problem, solver, options = CASES[name]()
    whole = wp.minimize(problem, solver, progress=False, **options)
    parts, pieces = in_pieces(CASES[name], file)
    assert pieces > 1
    same(parts, whole)


def test_a_finished_run_ends_there_again(file):
    build = CASES["DavisYin, PSD"]
    first, _ = in_pieces(build, file, step=1000)
    again, pieces = in_pieces(build, file, step=1000)
    assert pieces == 1
    same(again, first)
    assert again.solver == "DavisYin"


def test_the_end_is_written_however_long_one_waits_between_writes(file):
    """Only the first state and the last one: the file is there, and up to date."""
    problem = denoising()
    part = wp.minimize(
        problem, HCGM(), eps=1e-4, max_svds=300, checkpoint=file, checkpoint_every=1e6
    )
    assert part.status is wp.Status.MAX_SVDS
    rest = wp.minimize(
        denoising(), HCGM(), eps=1e-4, max_svds=301, checkpoint=file, resume=True
    )
    assert rest.counts.svds == 301
    assert len(rest.trace) >= len(part.trace.epochs()) > 3
    assert rest.trace["svds"][-1] > part.checkpoint.counts.svds


def test_a_result_continues_into_a_file(file):
    options = {"tol": 1e-14, "progress": False}
    whole = wp.minimize(denoising(), DavisYin(), max_svds=100, **options)
    part = wp.minimize(denoising(), DavisYin(), max_svds=40, **options)
    more = wp.minimize(
        denoising(), DavisYin(), max_svds=70, resume=part, checkpoint=file, **options
    )
    assert more.counts.svds == 70
    rest = wp.minimize(
        denoising(), DavisYin(), max_svds=100, checkpoint=file, resume=True, **options
    )
    same(rest, whole)


def test_an_automatic_choice_is_kept_whatever_memory_there_is(file, monkeypatch):
    options = {"tol": 1e-14, "progress": False, "checkpoint": file, "resume": True}
    whole = wp.minimize(denoising(), tol=1e-14, max_svds=90, progress=False)
    wp.minimize(denoising(), max_svds=40, **options)
    other = choose.Choice(LeanSplitting(), "there is less memory now")
    monkeypatch.setattr(choose, "choose", lambda *given: other)
    rest = wp.minimize(denoising(), max_svds=90, **options)
    same(rest, whole)
    assert rest.reason == whole.reason
    with pytest.raises(wp.InputError, match="another solver or setting of it;"):
        wp.minimize(denoising(), rank=3, max_svds=90, **options)


def test_tol_of_methods_that_plan_is_not_worked_out_anew(file, monkeypatch):
    """What a rough run has found once, a resumed run takes over."""
    options = {"tol": 1e-3, "progress": False, "checkpoint": file, "resume": True}
    whole = wp.minimize(sampled(), tol=1e-3, progress=False)
    part = wp.minimize(sampled(), max_svds=1, **options)
    assert part.status is wp.Status.MAX_SVDS
    monkeypatch.setattr(sys.modules["weakprox._minimize"], "_planned", None)
    same(wp.minimize(sampled(), **options), whole)


class Endless:
    """Samples by number, so that a stream over them can be opened again."""

    def __init__(self, shape, scale=0.5):
        self.shape, self.scale = shape, scale

    def __iter__(self):
        number = 0
        while True:
            rng = np.random.default_rng([5, number])
            yield 2.0 + self.scale * rng.standard_normal(self.shape)
            number += 1


def streamed():
    stream = Stream(Endless((6, 5)))
    loss = wp.losses.Denoising(sampler=stream, shape=(6, 5))
    return wp.Problem(loss, L1(0.1), NuclearBall(8.0)), stream


def custom_stream():
    """Constants are estimated from the stream as well."""
    stream = Stream(Endless((6, 5)))
    loss = Custom(
        (6, 5),
        value=lambda X, batch: 0.5 * float(((X - batch) ** 2).sum()) / len(batch),
        grad=lambda X, batch: X - batch.mean(0),
        sampler=stream,
        strong_convexity=1.0,
    )
    return wp.Problem(loss, L1(0.1), NuclearBall(8.0)), stream


@pytest.mark.parametrize("build", [streamed, custom_stream])
@pytest.mark.parametrize("solver", [wp.SVRGCG(3, inner=4), None], ids=["SVRGCG", "auto"])
def test_streams_continue_at_their_place(build, solver, file):
    options = {"eps": 0.3, "evaluation_samples": 8}
    problem, stream = build()
    whole = wp.minimize(problem, solver, progress=False, **options)
    parts, _ = in_pieces(lambda: (build()[0], solver, options), file)
    same(parts, whole)
    # in the same process, too, where the stream has moved on meanwhile
    problem, stream = build()
    part = wp.minimize(problem, solver, callback=lambda look: True, progress=False, **options)
    stream(None, 5)
    same(wp.minimize(problem, solver, resume=part, progress=False, **options), whole)


def test_solvers_of_ones_own_name_their_classes(file):
    from dataclasses import dataclass
    from typing import Any

    from weakprox.penalties.base import Smoothed
    from weakprox.protocols import Candidate

    @dataclass(frozen=True)
    class Mine:
        X: Any
        V: Any
        epoch: int
        rank: int = 3
        parameters: Any = None

    @dataclass(frozen=True)
    class Gradient:
        answer = "low_rank"
        relative = True
        stores = (Mine,)

        def check(self, problem):
            pass

        def start(self, problem, X, tools):
            return Mine(np.zeros(problem.shape), None, 0)

        def step(self, problem, memory, tools):
            G = tools.loss.grad(memory.X, tools.loss.everything())
            prox = tools.spectral.weak_prox(memory.X - 0.1 * G, weight=10.0, rank=3)
            return Mine(prox.V.dense(), prox.V, memory.epoch + 1)

        def finished(self, memory):
            return memory.epoch >= 30

        def candidate(self, memory):
            return Candidate(memory.X, memory.V, 0.0, memory.epoch, 0)

        def promised(self, memory):
            return float("inf")

        def dual(self, problem, memory):
            return Smoothed.of(problem.penalty, 0.1, problem.shape)

    whole = wp.minimize(denoising(), Gradient(), tol=1e-9, progress=False)
    parts, pieces = in_pieces(lambda: (denoising(), Gradient(), {"tol": 1e-9}), file)
    assert pieces > 1
    same(parts, whole)
    how = {"tol": 1e-9, "checkpoint": file.with_name("a")}
    wp.minimize(denoising(), Gradient(), max_svds=5, **how)
    Gradient.matrices = ("X", "V", "epoch")  # the last one is none
    with pytest.raises(wp.InputError, match="epoch of another kind"):
        wp.minimize(denoising(), Gradient(), resume=True, **how)
    Gradient.matrices = ("X", "V")
    same(wp.minimize(denoising(), Gradient(), resume=True, **how), whole)
    Gradient.stores = ()
    with pytest.raises(wp.InputError, match="stores"):
        wp.minimize(denoising(), Gradient(), tol=1e-9, checkpoint=file.with_name("b"))


@pytest.mark.parametrize(
    ("solver", "name"), [(DavisYin(), "z"), (LeanSplitting(), "z"), (ADMM(), "u")], ids=str
)
def test_matrices_of_another_shape_are_refused(solver, name, file, monkeypatch):
    """A point to continue from that broadcasts would give wrong iterates."""
    write = Keeper.offer

    def offer(keeper, state):
        memory = state.memory
        if memory is not None and getattr(memory, name) is not None:
            memory = replace(memory, **{name: np.zeros((1, 1))})
        write(keeper, replace(state, memory=memory))

    problem = (
        denoising() if name == "z" else wp.Problem(denoising().loss, None, NuclearNorm(1.0))
    )
    options = {"tol": 1e-12, "progress": False, "checkpoint": file}
    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "offer", offer)
        wp.minimize(problem, solver, max_svds=20, **options)
    with pytest.raises(wp.InputError, match=f"{name} of another kind"):
        wp.minimize(problem, solver, resume=True, **options)
