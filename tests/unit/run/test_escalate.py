"""Escalations return a new state, and the given one stays as it was."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from registry import SHAPE, numbers

import weakprox as wp
from weakprox.losses import Completion, Custom, Denoising, Huber, Sensing
from weakprox.penalties import L1, GroupL2
from weakprox.protocols import Candidate
from weakprox.run import escalate
from weakprox.solvers import ADMM
from weakprox.solvers._gap_driven import TooWide
from weakprox.solvers.base import Method
from weakprox.spectral import NuclearBall, NuclearNorm

RNG = np.random.default_rng(0)
M = numbers(*SHAPE)


def wide():
    full = RNG.standard_normal((200, 200))
    return wp.Problem(Denoising(full), L1(0.01), NuclearBall(1e6)), {}


def contradicted():
    loss = Custom(
        SHAPE,
        value=lambda X: 0.5 * float(np.sum((X - M) ** 2)),
        grad=lambda X: X - M,
        smoothness=30.0,
        strong_convexity=20.0,
    )
    return wp.Problem(loss, L1(0.2), NuclearBall(2.0)), {"tol": 1e-6}


def single():
    data = RNG.standard_normal((40, 30)).astype(np.float32)
    problem = wp.Problem(Denoising(data), GroupL2(0.3), NuclearBall(20.0))
    return problem, {"eps": 1e-3, "solver": "davis-yin"}


def robust(dtype="float64"):
    """Few observations with large errors: steps of DavisYin make little progress."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 30)) / 2
    rows, cols = np.nonzero(rng.random(signal.shape) < 0.5)
    values = (signal[rows, cols] + 0.01 * rng.standard_normal(rows.size)).astype(dtype)
    loss = Completion(rows, cols, values, signal.shape, loss=Huber(0.01))
    return wp.Problem(loss, L1(3e-5), NuclearNorm(3e-4)), {"tol": 1e-5}


def interpolated():
    """Fewer measurements than unknowns, of uneven curvature."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((20, 6, 5))
    loss = Sensing(A, rng.standard_normal(20))
    return wp.Problem(loss, None, NuclearBall(1.0)), {"tol": 1e-9}


def stalled(_, memory):
    """Stand-in for a method whose gap stalls after its first stretch."""
    return memory.done > 0


CASES = {
    "another_method": (wide, "solver"),
    "another_constant": (contradicted, "restated"),
    "more_digits": (single, "problem"),
    "quicker_method": (robust, "solver"),
    "last_method": (interpolated, "solver"),
}


@pytest.fixture
def seen(monkeypatch):
    """States before and after each escalation, by its name."""
    found = {}

    def watched(state, signal, begin):
        copy = replace(state)
        for escalation in escalate.ESCALATIONS:
            after = escalation(state, signal, begin)
            if after is not None:
                found[escalation.__name__] = (state, copy, after)
                return after
        return None

    monkeypatch.setattr(escalate, "escalated", watched)
    return found


@pytest.mark.parametrize("name", CASES)
def test_each_escalation_returns_a_new_state(name, seen, monkeypatch):
    if name == "last_method":
        monkeypatch.setattr(ADMM, "finished", stalled)
    build, changed = CASES[name]
    problem, options = build()
    result = wp.minimize(problem, progress=False, **options)
    assert result.status is wp.Status.CERTIFIED
    assert list(seen) == [name]
    before, copy, after = seen[name]
    assert vars(before) == vars(copy)
    assert getattr(after, changed) is not getattr(before, changed)
    assert after.memory is not before.memory
    assert after.latest is None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_methods_that_are_chosen_change_if_the_gap_falls_slowly(dtype, seen):
    problem, options = robust(dtype)
    result = wp.minimize(problem, progress=False, **options)
    assert result.certified
    assert result.solver == "ADMM"
    assert "took over from DavisYin" in result.reason
    before, _, after = seen["quicker_method"]
    assert before.memory.done == 128
    # it continues at the same dual point of the penalty
    y = before.memory.dual.y
    pull = before.problem.penalty.pull(y) if y is not None else None
    assert pull is None or np.allclose(after.memory.s, pull)
    assert result.counts.svds < 600  # DavisYin alone needs more
    own = wp.minimize(problem, "davis-yin", max_svds=600, progress=False, **options)
    assert own.solver == "DavisYin"
    assert not own.certified


def test_a_stalled_method_that_was_requested_stays(seen, monkeypatch):
    monkeypatch.setattr(ADMM, "finished", stalled)
    problem, options = interpolated()
    result = wp.minimize(problem, "admm", progress=False, **options)
    assert (result.solver, result.status) == ("ADMM", wp.Status.FINISHED)
    assert not seen


@pytest.mark.parametrize("rank", [None, 2])
def test_a_stalled_method_with_a_rank_that_is_too_small_stays(rank, seen, monkeypatch):
    monkeypatch.setattr(ADMM, "finished", stalled)
    problem, options = interpolated()
    result = wp.minimize(problem, rank=rank, progress=False, **options)
    assert bool(seen) is (rank is None)
    assert result.certified is (rank is None)


@pytest.mark.parametrize("name", ["quicker_method", "last_method"])
def test_the_bound_of_the_method_before_is_kept(name, seen, monkeypatch):
    if name == "last_method":
        monkeypatch.setattr(ADMM, "finished", stalled)
    build, _ = CASES[name]
    problem, options = build()
    counts = []

    def look(view):
        counts.append(view.counts.svds)
        return bool(seen)  # ends the run at the first look after the change

    wp.minimize(problem, progress=False, callback=look, look_every=1, **options)
    most = seen[name][0].memory.done
    gaps = [
        wp.minimize(problem, progress=False, max_svds=k, **options).gap
        for k in (most, counts[-1])
    ]
    assert gaps[1] <= 1.001 * gaps[0]


@pytest.mark.parametrize("name", ["quicker_method", "last_method"])
def test_runs_resume_after_a_change_of_method(name, tmp_path, seen, monkeypatch):
    if name == "last_method":
        monkeypatch.setattr(ADMM, "finished", stalled)
    build, _ = CASES[name]
    problem, options = build()
    whole = wp.minimize(problem, progress=False, **options)
    assert list(seen) == [name]
    file = tmp_path / "run.safetensors"
    most = whole.counts.svds - 1
    wp.minimize(problem, progress=False, checkpoint=file, max_svds=most, **options)
    again = wp.minimize(problem, progress=False, checkpoint=file, resume=True, **options)
    assert again.value == whole.value
    assert np.array_equal(again.X, whole.X)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_fallback_continues_where_the_first_method_ended(dtype, seen, monkeypatch):
    """At the same z and gamma, in float64."""
    signals = []
    real = TooWide.__init__

    def watched(self, target=None, gamma=0.0, basis=None, **how):
        signals.append((np.array(target, dtype=float), gamma))
        real(self, target, gamma, basis, **how)

    monkeypatch.setattr(TooWide, "__init__", watched)
    data = RNG.standard_normal((200, 200)).astype(dtype)
    problem = wp.Problem(Denoising(data), L1(0.01), NuclearBall(300.0))
    result = wp.minimize(problem, "lean-splitting", progress=False)
    assert result.certified
    assert result.solver == "DavisYin"
    ((target, gamma),) = signals
    memory = seen["another_method"][2].memory
    assert memory.gamma == gamma
    assert memory.z.dtype == np.float64
    np.testing.assert_array_equal(memory.z, target)


@pytest.mark.parametrize(("tol", "doubled"), [(1e-5, True), (1e-2, False)])
def test_accuracies_beyond_float32_are_worked_towards_in_float64_at_once(tol, doubled, seen):
    problem, _ = single()
    result = wp.minimize(problem, "davis-yin", tol=tol, progress=False)
    assert result.certified
    assert not seen
    assert ("float64" in result.reason) is doubled
    assert result.X.dtype == np.float32


def test_the_list_is_complete():
    assert [one.__name__ for one in escalate.ESCALATIONS] == list(CASES)


@dataclass(frozen=True)
class Memory:
    X: np.ndarray
    epoch: int = 0
    rank: int = 2
    parameters: object = None


@dataclass(frozen=True)
class Descent(Method):
    """Gradient descent that returns its iterate, for a set that does not matter."""

    relative = True
    answer = "iterate"

    def check(self, problem):
        pass

    def start(self, problem, X, tools):
        return Memory(np.zeros(problem.shape))

    def step(self, problem, memory, tools):
        G = tools.loss.grad(memory.X, tools.loss.everything())
        return Memory(memory.X - 0.5 * G, memory.epoch + 1)

    def finished(self, memory):
        return memory.epoch >= 100

    def candidate(self, memory):
        return Candidate(memory.X, None, 0.0, memory.epoch, 0)

    def dual(self, problem, memory):
        return problem.smoothed(0.1)


def test_iterates_are_judged_relative_to_their_size_if_f_vanishes():
    problem = wp.Problem(Denoising(M), None, NuclearBall(100.0))
    result = wp.minimize(problem, Descent(), tol=1e-2, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.counts.full_gradients < 40  # it ended when that was proved
    assert result.eps == pytest.approx(1e-2 * 1e-5 * 0.5 * np.sum(result.X**2))


def test_the_share_of_the_accuracy_leaves_room_for_rounding_to_float32():
    assert escalate.share_of(1e-4) > 0.99
    assert escalate.share_of(1e-6) == pytest.approx(0.7)
    assert escalate.share_of(1e-8) == escalate.LEAST_SHARE
    assert escalate.share_of(0.0) == escalate.SHARE
