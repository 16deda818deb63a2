"""BLAS gets back the threads it had, whatever happens in between."""

import os
import threading
import warnings

import numpy as np
import pytest

from weakprox.linalg import threads
from weakprox.linalg.arrays import block_times, each_block, row_blocks, times_block
from weakprox.linalg.lowrank import LowRank, blend_into
from weakprox.linalg.threads import FULL, LARGE, all_threads, can_share, one_thread, share

LIBRARIES = []  # those whose number of threads can be changed: some are built without any


@pytest.fixture(params=[1, 2, 3])
def before(request):
    """The number of threads that was set before, by somebody else."""
    every = threads._controller().lib_controllers
    old = [library.num_threads for library in every]
    ours(every, 3)
    LIBRARIES[:] = [library for library in every if library.num_threads == 3]
    ours(every, request.param)
    yield request.param
    left = now(), threads._runs, dict(threads._before)
    for library, number in zip(every, old, strict=True):
        ours([library], number)
    assert left == ({request.param}, 0, {})


def ours(libraries, number):
    """Set it past threadpoolctl, which lets only one thread of Python do so."""
    for library in libraries:
        change = library._get_symbol("openblas_set_num_threads")
        if change is not None:
            change(number)


def now():
    """The numbers of threads of the BLAS libraries at work."""
    assert LIBRARIES  # NumPy has one
    return {int(library.num_threads) for library in LIBRARIES}


def test_one_thread_within(before):
    with one_thread(100):
        assert now() == {1}
    assert now() == {before}


def test_large_matrices_keep_their_threads(before):
    with one_thread(LARGE):
        assert now() == {before}


def test_nests(before):
    with one_thread(100):
        with one_thread(100):
            assert now() == {1}
            with one_thread(LARGE):
                assert now() == {1}
        assert now() == {1}  # the outer one still wants it
    assert now() == {before}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_restored_after_exceptions(before, error):
    with pytest.raises(error), one_thread(100), all_threads(FULL):
        raise error
    assert now() == {before}
    with pytest.raises(error), one_thread(100), one_thread(100):
        raise error
    assert now() == {before}


def test_large_decompositions_borrow_threads(before):
    with one_thread(100):
        with all_threads(FULL):
            assert now() == {before}
        assert now() == {1}
        with all_threads(FULL - 1):
            assert now() == {1}
        with pytest.raises(ValueError, match="within"), all_threads(FULL):
            raise ValueError("within")
        assert now() == {1}


def test_outside_nothing_is_touched(before):
    with all_threads(FULL):
        assert now() == {before}


def test_several_threads_of_python(before):
    """Overlapping runs: one thread while any of them lasts, the old number after all."""
    wrong, ready = [], threading.Barrier(6)

    def work(seed):
        rng = np.random.default_rng(seed)
        ready.wait()
        for _ in range(30):
            try:
                with one_thread(100):
                    if rng.random() < 0.3:
                        raise ArithmeticError
                    if rng.random() < 0.3:
                        with all_threads(FULL), one_thread(100):
                            np.linalg.svd(rng.standard_normal((20, 20)))
                    else:
                        np.linalg.svd(rng.standard_normal((20, 20)))
            except ArithmeticError:
                continue
            except Exception as failure:
                wrong.append(failure)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
    assert threads._runs == 0
    assert now() == {before}


def test_a_run_that_outlives_another_keeps_its_single_thread(before):
    inside, leave, seen = threading.Event(), threading.Event(), []

    def long():
        with one_thread(100):
            inside.set()
            leave.wait(60)
            seen.append(now())

    worker = threading.Thread(target=long)
    with one_thread(100):
        worker.start()
        assert inside.wait(60)
    assert now() == {1}  # the other run has not ended
    leave.set()
    worker.join()
    assert seen == [{1}]
    assert now() == {before}


def test_started_elsewhere_it_still_holds(before):
    """Runs in another thread of Python than the first one are no different."""
    seen = []

    def work():
        with one_thread(100):
            seen.append(now())
            with all_threads(FULL):
                seen.append(now())
            seen.append(now())
        seen.append(now())

    with one_thread(100):
        pass  # this thread has been first
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert seen == [{1}, {before}, {1}, {before}]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_does_not_wait_for_threads_that_are_not_there(monkeypatch):
    """Another thread is in a section when the process forks; its child has no such thread."""
    inside, done = threading.Event(), threading.Event()

    def hold():
        with one_thread(1):
            inside.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads, on purpose
        child = os.fork()
    if child == 0:
        fine = threads._runs == 0 and threads._kind_here() is None
        with one_thread(10**9):  # of the other kind
            fine = fine and threads._kind_here() == "all"
        os._exit(0 if fine else 1)
    done.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def shared(before, monkeypatch):
    """Within a run: passes of any size are shared, by as many threads as BLAS had before."""
    monkeypatch.setattr(threads, "SHARED_FROM", 1)
    monkeypatch.setattr(threads, "cores", lambda: 3)
    threads._helpers.cache_clear()
    with one_thread(100):
        assert can_share() == (before > 1)
        yield before
    threads._helpers.cache_clear()


@pytest.mark.parametrize("shape", [(40, 30), (5, 3), (1, 7)])
def test_shared_products(shared, shape):
    rng = np.random.default_rng(0)
    A = rng.standard_normal(shape)
    Q, P = rng.standard_normal((shape[1], 2)), rng.standard_normal((shape[0], 2))
    for matrix in (A, A.astype(np.float32), np.asfortranarray(A)):
        eps = 100 * np.finfo(matrix.dtype).eps
        kind = matrix.dtype.type
        for found, true in (
            (times_block(matrix, Q.astype(kind)), A @ Q),
            (block_times(P.astype(kind), matrix), A.T @ P),
        ):
            assert found.dtype == kind
            np.testing.assert_allclose(found, true, rtol=0, atol=eps)


def test_bits_do_not_depend_on_how_many_threads_share_a_product(shared):
    rng = np.random.default_rng(1)
    A, Q = rng.standard_normal((300, 200)), rng.standard_normal((200, 5))
    if shared > 1:
        found = times_block(A, Q)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threads, "cores", lambda: 1)
            np.testing.assert_array_equal(found, times_block(A, Q))


def test_shared_blocks_of_rows(shared, monkeypatch):
    monkeypatch.setattr("weakprox.linalg.arrays.BLOCK_BYTES", 64)
    X = np.zeros((50, 4))
    rows, used = [], set()

    def work(block):
        rows.append((block.start, block.stop))
        used.add(threading.get_ident())
        X[block] += 1.0

    each_block(work, X)
    assert sorted(rows) == [(b.start, b.stop) for b in row_blocks(X)]
    assert np.all(X == 1.0)
    assert (used == {threading.get_ident()}) == (shared == 1)
    V = LowRank(np.ones((50, 1)), np.array([2.0]), np.ones((1, 4)))
    for scratch in (None, np.empty((50, 4))):
        target = np.arange(200.0).reshape(50, 4)
        blend_into(target, V, 0.25, scratch)
        np.testing.assert_allclose(target, 0.75 * np.arange(200.0).reshape(50, 4) + 0.5)


def test_shared_work_keeps_settings_and_passes_on_exceptions(shared):
    with np.errstate(divide="raise"):
        for fail in range(3):  # in the caller, or in a helper

            def work(low, high, fail=fail):
                np.ones(1) / (0.0 if low <= fail < high else 1.0)

            with pytest.raises(FloatingPointError):
                share(range(4), work)
