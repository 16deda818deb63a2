"""`minimize` takes a solver by object, class or name, and any seed, rank and time limit."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from registry import SHAPE, numbers

import weakprox as wp
from weakprox import solvers
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.penalties.base import Smoothed
from weakprox.protocols import Candidate
from weakprox.solvers.base import REQUIRED, Method, as_method
from weakprox.spectral import NuclearBall

M = numbers(*SHAPE)
PROBLEM = wp.Problem(Denoising(M), L1(0.2), NuclearBall(2.0))


def solve(solver=None, **options):
    return wp.minimize(PROBLEM, solver, progress=False, **{"eps": 0.1, **options})


@pytest.mark.parametrize(
    "solver", ["svrgcg", "SVRGCG", "Svrg-CG", "svrg_cg", wp.SVRGCG, wp.SVRGCG(rank="estimate")]
)
def test_a_solver_is_an_object_a_class_or_a_name(solver):
    result = solve(solver)
    assert result.solver == "SVRGCG"
    assert result.reason == "it was requested"
    assert np.array_equal(result.X, solve(wp.SVRGCG()).X)


@pytest.mark.parametrize("name", [n for n in solvers.__all__ if n != "Look"])
def test_every_solver_has_a_name(name):
    others = {"DualAscent", "SampleAverage", "Thresholding"}
    others |= {"FactoredProximal", "FilledProximal", "DenseProximal"}
    if name in others:  # for other problems
        wanted = r"MaxAffine|a sampler|observed|most entries|weights|sparse"
        with pytest.raises(wp.InputError, match=wanted):
            solve(name.lower())
    else:
        assert solve(name.lower(), max_svds=2).solver == name


@pytest.mark.parametrize("solver", ["auto", "AUTO", None])
def test_the_automatic_choice(solver):
    assert solve(solver).solver == "DavisYin"


@pytest.mark.parametrize("solver", ["davis-yin", "svrgcg", solvers.DavisYin, wp.SVRGCG, None])
def test_a_rank_goes_with_a_name_or_a_class(solver):
    assert solve(solver, rank=1, eps=0.5).rank == 1
    assert solve(solver, rank=99, eps=0.5).status is wp.Status.CERTIFIED  # a cap


def test_a_rank_of_a_solver_that_has_none():
    for solver in ("fista", solvers.FISTA):
        with pytest.raises(wp.InputError, match="does not limit the rank") as caught:
            solve(solver, rank=2)
        assert caught.value.argument == "rank"


@pytest.mark.parametrize("solver", [wp.SVRGCG(99), solvers.DavisYin(99)], ids=["cg", "split"])
def test_a_rank_larger_than_possible_is_a_cap(solver):
    full = type(solver)(min(SHAPE))
    assert np.array_equal(solve(solver).X, solve(full).X)


def test_seeds():
    problem = wp.Problem(
        Denoising(sampler=lambda rng, k: M + rng.standard_normal((k, *SHAPE)), shape=SHAPE),
        L1(0.2),
        NuclearBall(2.0),
    )

    def found(seed, **options):
        return wp.minimize(
            problem, wp.SVRGCG(2), eps=0.5, seed=seed, max_svds=3, progress=False, **options
        )

    one, two = found(None), found(None)
    assert one.seed != two.seed
    assert not np.array_equal(one.X, two.X)
    assert np.array_equal(found(one.seed).X, one.X)
    drawn = found(np.random.default_rng(3))
    assert np.array_equal(found(np.random.default_rng(3)).X, drawn.X)
    assert np.array_equal(found(drawn.seed).X, drawn.X)
    rng = np.random.default_rng(3)
    assert (found(rng).seed, found(rng).seed == drawn.seed) == (drawn.seed, False)


def test_a_fresh_seed_is_resumed_with_its_own(tmp_path):
    whole = solve(wp.SVRGCG(3, inner=3), eps=1e-4, seed=None, stop_when_certified=False)
    again = {"eps": 1e-4, "stop_when_certified": False}
    file = tmp_path / "run"
    part = solve(wp.SVRGCG(3, inner=3), seed=whole.seed, max_svds=5, checkpoint=file, **again)
    assert part.status is wp.Status.MAX_SVDS
    for options in ({"resume": part}, {"resume": True, "checkpoint": file}):
        rest = solve(wp.SVRGCG(3, inner=3), seed=None, **options, **again)
        assert rest.seed == whole.seed
        assert np.array_equal(rest.X, whole.X)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True, [3]])
def test_bad_seeds(seed):
    with pytest.raises(wp.InputError, match=r"numpy Generator|integer >= 0") as caught:
        solve(seed=seed)
    assert caught.value.argument == "seed"


def test_the_time_limit_covers_the_rough_run(monkeypatch):
    """A method that plans for an accuracy spends the limit on finding the size of f."""
    now = [0.0]
    grad = Denoising.grad

    def slow(self, *args, **options):
        now[0] += 1.0
        return grad(self, *args, **options)

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Denoising, "grad", slow)
    result = solve(solvers.FISTA(), eps=None, tol=1e-12, max_seconds=30.0)
    assert result.status is wp.Status.MAX_SECONDS
    assert now[0] <= 40.0


def test_numbers_that_are_accepted_are_named():
    with pytest.raises(wp.InputError, match="a finite number >= 0"):
        solve(max_seconds=-1.0)
    with pytest.raises(wp.InputError, match="a finite number > 0"):
        solve(eps=0.0)
    assert solve(max_seconds=0.0).status is wp.Status.MAX_SECONDS


@dataclass(frozen=True)
class Mine:
    X: Any
    V: Any
    epoch: int
    rank: int = 2
    parameters: Any = None


@dataclass(frozen=True)
class Plain:
    """A solver with the required members only, which knows nothing of `Method`."""

    step_size: float = 0.5

    def check(self, problem):
        pass

    def start(self, problem, X, tools):
        return Mine(np.zeros(problem.shape), None, 0)

    def step(self, problem, memory, tools):
        G = tools.loss.grad(memory.X, tools.loss.everything())
        G += Smoothed.of(problem.penalty, 0.01, problem.shape).grad(memory.X)
        A = memory.X - self.step_size / 20 * G
        prox = tools.spectral.weak_prox(A, weight=20 / self.step_size, rank=3)
        return Mine(prox.V.dense(), prox.V, memory.epoch + 1)

    def finished(self, memory):
        return memory.epoch >= 300

    def candidate(self, memory):
        return Candidate(memory.X, memory.V, 0.0, memory.epoch, 0)

    def dual(self, problem, memory):
        return Smoothed.of(problem.penalty, 0.01, problem.shape)


def test_a_solver_without_the_base_class_gets_its_defaults():
    given = Plain()
    result = solve(given, tol=1e-2, eps=None)
    assert result.status is wp.Status.CERTIFIED
    assert result.solver == "Plain"
    assert not isinstance(given, Method)
    method = as_method(given)
    assert isinstance(method, Plain)
    assert repr(method) == repr(given)
    assert (method.answer, method.relative, method.arrays) == ("low_rank", False, None)
    assert as_method(method) is method


@pytest.mark.parametrize("name", REQUIRED)
def test_a_solver_that_lacks_a_member_is_refused_by_its_name(name):
    members = {key: value for key, value in vars(Plain).items() if key != name}
    lame = type("Lame", (), members)()
    with pytest.raises(wp.InputError, match=rf"Lame.*{name}|solver object") as caught:
        solve(lame)
    assert caught.value.argument == "solver"
    if name != "step":
        assert f"no {name}" in str(caught.value)
        assert "docs/extend.md" in str(caught.value)


def test_what_a_hand_over_says():
    """The reason of the first solver is not given under the name of the second."""
    rng = np.random.default_rng(0)
    full = wp.Problem(Denoising(rng.standard_normal((200, 200))), L1(0.01), NuclearBall(1e6))
    result = wp.minimize(full, progress=False)
    assert result.solver == "DavisYin"
    told = result.explain().splitlines()[0]
    assert told.startswith("Solver:      DavisYin: it took over from LeanSplitting")
    assert "LeanSplitting came first because for Denoising" in told
    named = wp.minimize(full, "lean-splitting", progress=False)
    assert named.explain().splitlines()[0].endswith("came first because it was requested.")


@pytest.mark.parametrize("name", REQUIRED)
def test_a_member_that_is_only_declared_counts_as_missing(name):
    """`Method` declares the required members, but defines none of them."""
    inherited = type("Partial", (solvers.DavisYin,), {name: vars(Method)[name]})
    with pytest.raises(wp.InputError, match=f"has no {name}"):
        as_method(inherited())
