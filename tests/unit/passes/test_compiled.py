"""Compiled passes give what the reference gives, on any number of threads, to the bit."""

import os
import signal
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from weakprox import passes as fused
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import Step, compiling, passes_for, reference
from weakprox.passes import compiled as cpu
from weakprox.passes.beside import Bounds

STEPS = [
    Step(1.0, 1.0, 0.0, 0.7, 0.7),
    Step(0.3, 1.0, 0.4, 0.2, 0.2),
    Step(1.7, 0.9, 0.0, 0.0, 0.0),
    Step(0.8, 1.0, 0.1, above=0.3, below=0.9),
    Step(0.8, 1.0, 0.1, above=0.3, below=0.1, rows=1.4),
    Step(1.2, 0.9, 0.0, above=0.2, below=0.3, columns=1.7),
    Step(1.0, 1.0, 0.0, above=0.0, below=0.0, rows=2.5),
    Step(0.9, 1.0, 0.2, above=0.8, below=0.5, low=-0.3, high=0.4),
    Step(1.1, 0.9, 0.0, above=2.0, below=1.5, low=0.2, high=0.7),
    Step(1.0, 1.0, 0.0, above=40.0, below=40.0, low=-0.5, high=0.5),
    Step(0.6, 1.0, 0.0, above=0.0, below=3.0, low=-0.4, high=-0.4),
    Step(0.9, 1.0, 0.0, above=0.0, below=0.0, factor=0.6),
    Step(0.7, 0.9, 0.2, above=0.3, below=0.1, factor=0.4),
    Step(0.9, 1.0, 0.2, above=0.8, below=0.5, bounded=True),
    Step(1.1, 0.9, 0.0, above=40.0, below=40.0, bounded=True),
    Step(0.8, 1.0, 0.1, above=0.7, below=0.6, bounded=True, extent=1.0),
]
# only in float64, since another dtype takes several seconds to compile
WEIGHTED_GROUPS = [
    Step(0.8, 1.0, 0.1, above=0.3, below=0.1, rows=1.4, factor=0.6),
    Step(1.2, 0.9, 0.0, above=0.2, below=0.3, columns=1.7, factor=0.4),
]
SHAPES = [(37, 23, 3, 4), (1, 7, 1, 1), (9, 1, 1, 1), (213, 1000, 17, 33)]


def given(m, n, r, w, dtype):
    rng = np.random.default_rng([m, n])
    C, z = (rng.standard_normal((m, n)).astype(dtype) for _ in "Cz")
    r = min(m, n, r)
    U, V = (np.linalg.qr(rng.standard_normal((size, r)))[0].astype(dtype) for size in (m, n))
    X = LowRank(U, (9 * rng.random(r)).astype(dtype), V.T)
    return C, z, X, rng.standard_normal((n, w)), rng.standard_normal((m, w))


def filled(k, shape, dtype=np.float64):
    """The step with weights if it has a factor for them; some are zero, some are steep.

    Or with bounds, some of which are infinite, some of them equal; one row, if they have an
    extent.
    """
    rng = np.random.default_rng([7, *shape])
    if k.bounded:
        rows = (1, shape[1]) if k.extent else shape
        low = rng.choice([-np.inf, -0.5, 0.1], rows)
        high = np.maximum(low, rng.choice([np.inf, 0.7, 0.1], rows))
        both = Bounds((low, high), shape, np.dtype(dtype).itemsize).stored()
        both.flags.writeable = False  # as `beside` returns it
        return k._replace(beside=both)
    if not k.factor:
        return k
    weights = rng.choice([0.0, 0.3, 1.0, 50.0], shape) * rng.random(shape)
    weights = weights.astype(dtype)
    return k._replace(beside=weights, steepness=k.factor * float(np.linalg.norm(weights)))


def close(found, wanted, tol):
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(found, wanted, rtol=tol, atol=tol * np.abs(wanted).max())


@pytest.mark.parametrize("k", WEIGHTED_GROUPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_beside_groups(shape, k):
    test_as_the_reference(shape, k, np.float64, 1e-12)


@pytest.mark.parametrize("k", STEPS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_as_the_reference(shape, k, dtype, tol):
    C, z, X, Q, P = given(*shape, dtype)
    k = filled(k, C.shape, dtype)
    close(cpu.look(C, z, X, k), reference.look(C, z, X, k), 1e-12)
    close(cpu.look(C, None, X, k)[:2], reference.look(C, None, X, k)[:2], 1e-12)
    one, other = z.copy(), z.copy()
    sums, product = cpu.advance(C, one, X, k, 0.8, Q)
    expected, wanted = reference.advance(C, other, X, k, 0.8, Q)
    close(one, other, tol)
    close(product, wanted, 10 * tol)
    close(sums, expected, tol)
    assert product.dtype == dtype
    before, apart = z.copy(), np.empty_like(z)
    again, _ = cpu.advance_from(z, C, apart, X, k, 0.8, Q)
    close(apart, one, 1e-15 if dtype is np.float64 else 3e-7)  # no more than rounding
    np.testing.assert_array_equal(z, before)
    close(again, sums, 1e-12)  # regrouped where arrays overlap
    close(cpu.first(C, one, k, Q), reference.first(C, other, k, Q), 10 * tol)
    close(one, other, tol)
    assert cpu.advance(C, one, X, k, 1.0)[1] is None
    close(cpu.times(z, Q), reference.times(z, Q), 1e-12)
    close(cpu.transpose_times(z, P), reference.transpose_times(z, P), 1e-12)
    close(cpu.quick_times(z, Q), reference.quick_times(z, Q), 10 * tol)
    close(cpu.quick_transpose_times(z, P), reference.quick_transpose_times(z, P), 10 * tol)


def test_weights_of_less_precision_than_the_data():
    C, z, X, Q, _ = given(*SHAPES[0], np.float64)
    k = filled(STEPS[-4], C.shape, np.float32)
    one, other = z.copy(), z.copy()
    close(cpu.look(C, z, X, k), reference.look(C, z, X, k), 1e-12)
    close(
        cpu.advance(C, one, X, k, 0.8, Q)[0], reference.advance(C, other, X, k, 0.8)[0], 1e-12
    )
    close(one, other, 1e-12)


@pytest.mark.portable
@pytest.mark.parametrize("shape", [(400_000, 3), (3, 200_000), (1000, 400)])
def test_roundings_of_equal_entries_do_not_add_up(shape):
    """Proofs allow for 64 of them; a chain of additions would make thousands."""
    (m, n), k = shape, Step(1.0, 1.0, 0.0, 0.7, 0.7)
    for c in (0.1, 0.3, 0.7):
        C = np.full(shape, c)
        X = LowRank(np.full((m, 1), c), np.ones(1), np.full((1, n), -c))
        far = float(-c * c) - c
        sums = cpu.look(C, C, X, k)
        wanted = (far * far * m * n, k.above * c * c * m * n)
        np.testing.assert_allclose(sums[:2], wanted, rtol=48 * np.finfo(float).eps)
        np.testing.assert_allclose(sums.square, (c * c) ** 2 * m * n, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_same_bits_on_any_number_of_threads(dtype, monkeypatch):
    monkeypatch.setattr("weakprox.linalg.threads.cores", lambda: 3)
    monkeypatch.setattr(cpu, "TILE_BYTES", 8 * 100 * 8)  # several tiles for each thread
    C, z, X, Q, P = given(101, 100, 5, 6, dtype)
    k, found = STEPS[1], []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            after = z.copy()
            sums, product = cpu.advance(C, after, X, k, 0.8, Q)
            looked = cpu.look(C, z, X, k)
            found.append((after, product, sums, looked, cpu.transpose_times(z, P)))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_failure_in_a_thread_is_raised_here(monkeypatch):
    monkeypatch.setattr("weakprox.linalg.threads.cores", lambda: 2)

    def work(low, high, unit):
        if low > 0:
            raise MemoryError("no room for the tile")

    with threadpool_limits(2, user_api="blas"), pytest.raises(MemoryError, match="no room"):
        cpu._share(10, 1, work)


def test_caller_waits_for_threads_also_after_its_own_failure(monkeypatch):
    """They write to its arrays."""
    monkeypatch.setattr("weakprox.linalg.threads.cores", lambda: 2)
    done = []

    def work(low, high, unit):
        if low == 0:
            raise KeyboardInterrupt
        time.sleep(0.2)
        done.append(low)

    with threadpool_limits(2, user_api="blas"), pytest.raises(KeyboardInterrupt):
        cpu._share(10, 1, work)
    assert done == [5]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_has_threads_of_its_own(monkeypatch):
    monkeypatch.setattr("weakprox.linalg.threads.cores", lambda: 2)
    with threadpool_limits(2, user_api="blas"):
        cpu._share(2, 1, lambda *_: None)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends a child that waits for the threads of its parent
            cpu._share(2, 1, lambda *_: None)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_taken_for_large_plain_arrays_only(monkeypatch):
    monkeypatch.setattr(compiling, "COMPILED_FROM", 100)
    z = np.zeros((10, 10))
    assert passes_for(z, z) is cpu
    assert passes_for(z[:, :5]) is reference
    assert passes_for(z, np.zeros((20, 10))[::2]) is reference
    assert passes_for(np.zeros((9, 9))) is reference


def test_reference_takes_over_where_compiled_code_cannot_be_kept(monkeypatch):
    from numba.core import caching

    monkeypatch.setattr(compiling, "COMPILED_FROM", 100)
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])  # no folder is writable
    monkeypatch.delitem(__import__("sys").modules, "weakprox.passes.compiled")
    monkeypatch.delattr(fused, "compiled")
    compiling.module.cache_clear()
    try:
        assert passes_for(np.zeros((20, 20))) is reference
    finally:
        compiling.module.cache_clear()


def test_reference_takes_over_without_numba(monkeypatch):
    monkeypatch.setattr(compiling, "COMPILED_FROM", 100)
    monkeypatch.setitem(__import__("sys").modules, "weakprox.passes.compiled", None)
    compiling.module.cache_clear()
    try:
        with monkeypatch.context() as hidden:
            hidden.delattr(fused, "compiled")
            assert passes_for(np.zeros((20, 20))) is reference
    finally:
        compiling.module.cache_clear()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_a_blend_in_one_pass(shape, dtype, tol):
    z, V = given(*shape, dtype)[1:3]
    wanted = 0.7 * z + 0.3 * V.dense()
    cpu.blend_into(z, V, 0.3)
    close(z, wanted, tol)


def test_large_points_are_blended_by_compiled_passes(monkeypatch):
    calls = []
    monkeypatch.setattr(compiling, "COMPILED_FROM", 0)
    monkeypatch.setattr(cpu, "blend_into", lambda *args: calls.append(args))
    z, V = given(37, 23, 3, 4, np.float64)[1:3]
    with compiling.passes(True):
        fused.blend_into(z, V, 0.3)
    assert len(calls) == 1
