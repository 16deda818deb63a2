"""Runs in several threads of one process: each ends at the bits it has when run alone."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.linalg import threads
from weakprox.losses import Completion, Custom, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine
from weakprox.solvers import DavisYin, Extragradient, LeanSplitting
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

MANY = 8  # threads of Python


@pytest.fixture(autouse=True)
def _fast_switching():
    """Threads that hand over often meet each other's half-done work."""
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(old)


@pytest.fixture
def _two_kinds(monkeypatch):
    """BLAS with two threads, and runs of both kinds among small problems."""
    every = threads._controller().lib_controllers
    old = [library.num_threads for library in every]
    change = [library._get_symbol("openblas_set_num_threads") for library in every]
    for setter in filter(None, change):
        setter(2)
    monkeypatch.setattr(threads, "LARGE", 400)
    monkeypatch.setattr(threads, "FULL", 10)
    yield
    for setter, number in zip(change, old, strict=True):
        if setter is not None:
            setter(number)


def problems(seed=0):
    """Eight problems with methods for them, made anew at each call."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((24, 20))
    S = (M[:20] + M[:20].T) / 2
    ball = NuclearBall(8.0)
    A = rng.standard_normal((60, 6, 5))
    pieces = MaxAffine(rng.standard_normal((4, 24, 20)), rng.standard_normal(4))
    weights = rng.uniform(0.5, 2.0, M.shape)
    own = Custom(
        M.shape,
        value=lambda X: 0.5 * float((weights * (X - M) ** 2).sum()),
        grad=lambda X: weights * (X - M),
        strong_convexity=0.5,
        smoothness=2.0,
    )
    rows, cols = np.nonzero(rng.random(M.shape) < 0.5)
    return [
        (wp.Problem(Denoising(M), L1(0.3), ball), None, 1e-8),
        (wp.Problem(Denoising(S), GroupL2(0.5), TracePSD(6.0)), DavisYin(), 1e-8),
        (wp.Problem(Denoising(M), pieces, ball), None, 1e-6),
        (
            wp.Problem(Sensing(A, A.sum((1, 2))), L1(0.1), NuclearBall(3.0)),
            None,
            1e-6,
        ),
        (wp.Problem(own, L1(0.3), ball), Extragradient(), 1e-4),
        (
            wp.Problem(
                Completion(rows, cols, M[rows, cols], M.shape), ElasticNet(0.1, 0.2), ball
            ),
            wp.solvers.AdaptiveSVRGCG(rank=6),
            1e-3,
        ),
        (wp.Problem(Denoising(M), L1(0.3), NuclearNorm(1.5)), None, 1e-8),
        (
            wp.Problem(Denoising(torch.from_numpy(M)), L1(0.3), ball),
            LeanSplitting(),
            1e-4,
        ),
    ]


def solved(case):
    """All that a run says about its answer, to the bit."""
    problem, solver, tol = case
    accuracy = {"eps": tol} if isinstance(solver, wp.solvers.AdaptiveSVRGCG) else {"tol": tol}
    result = wp.minimize(problem, solver, seed=5, max_svds=60, progress=False, **accuracy)
    X = np.asarray(result.X)
    return X.tobytes(), result.value, result.certificate.lower_bound, result.status


def at_once(cases):
    """Each case in a thread of its own, all beginning together."""
    ready = threading.Barrier(len(cases))

    def work(case):
        ready.wait(300)
        return solved(case)

    with ThreadPoolExecutor(len(cases)) as pool:
        return list(pool.map(work, cases))


def test_different_problems_at_once():
    alone = [solved(case) for case in problems()]
    for _ in range(2):
        assert at_once(problems()) == alone


def test_one_problem_shared_by_all():
    """What a problem finds out on first use is found by several runs at a time."""
    for i in (0, 3, 5):
        alone = solved(problems()[i])
        assert at_once([problems()[i]] * 1) == [alone]
        shared = problems()[i]
        assert at_once([shared] * MANY) == [alone] * MANY


@pytest.mark.usefixtures("_two_kinds")
def test_large_and_small_ones_at_once():
    """The number of BLAS threads is one for all, so runs that need different ones alternate."""
    alone = [solved(case) for case in problems()]
    assert at_once(problems()) == alone
    assert threads._runs == 0
    assert threads._before == {}


@pytest.mark.usefixtures("_two_kinds")
def test_every_section_has_its_own_number_of_threads():
    library = max(threads._controller().lib_controllers, key=lambda lib: lib.num_threads)
    if library.num_threads < 2:
        pytest.fail("a BLAS whose threads cannot be set")
    wrong = []

    def work(entries):
        wanted = 1 if entries < threads.LARGE else 2
        for _ in range(40):
            with threads.one_thread(entries):
                for _ in range(3):
                    if library.num_threads != wanted:
                        wrong.append((entries, library.num_threads))
                    with threads.all_threads(threads.FULL):
                        if library.num_threads != 2:
                            wrong.append(("all", library.num_threads))
                    threads.pause()

    workers = [threading.Thread(target=work, args=(n,)) for n in (10, 10, 1000, 1000)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers)
    assert wrong == []


@pytest.mark.usefixtures("_two_kinds")
def test_a_run_within_a_callback_of_another():
    inner, outer = problems()[0], problems()[6]
    alone, seen = solved(inner), []

    def callback(look):
        if len(seen) < 2:
            seen.append(solved(inner))

    problem, solver, tol = outer
    result = wp.minimize(problem, solver, tol=tol, progress=False, callback=callback)
    assert seen == [alone] * len(seen)
    assert len(seen) > 0
    assert result.certified
    assert threads._runs == 0


def test_an_error_in_one_run_leaves_the_others_alone():
    alone = solved(problems()[0])

    def broken(X):
        raise ArithmeticError("mine")

    def fails(_):
        with pytest.raises(ArithmeticError, match="mine"):
            Custom((3, 3), value=lambda X: 0.0, grad=broken)

    with ThreadPoolExecutor(MANY) as pool:
        jobs = [pool.submit(solved, problems()[0]) for _ in range(4)]
        others = [pool.submit(fails, i) for i in range(4)]
        assert [job.result() for job in jobs] == [alone] * 4
        assert [job.result() for job in others] == [None] * 4
