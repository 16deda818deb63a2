"""The compiled pass over all cells against the one in NumPy."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import weakprox as wp
from weakprox.linalg import LowRank
from weakprox.losses.cells import Cells
from weakprox.losses.entry_losses import Huber, Squared, entry_loss
from weakprox.passes import compiling

pytest.importorskip("numba")


def given(loss, dtype=float, holes=False, shape=(90, 40)):
    rng = np.random.default_rng(0)
    M = rng.standard_normal(shape).astype(dtype)
    if holes:
        M[rng.random(shape) < 0.2] = np.nan
    U, V = rng.standard_normal((shape[0], 3)), rng.standard_normal((3, shape[1]))
    block = rng.standard_normal((shape[1], 5))
    return Cells(M, loss, holes=holes), LowRank(U, np.array([2.0, 1.0, 0.3]), V), block


@pytest.fixture
def compiled(monkeypatch):
    """Compile also for small matrices."""
    monkeypatch.setattr(compiling, "COMPILED_FROM", 0)
    monkeypatch.setenv("WEAKPROX_COMPILE", "always")


@pytest.mark.parametrize("loss", [Huber(0.7), Squared()])
@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("holes", [False, True])
def test_the_same_products_and_sums(loss, dtype, holes, compiled, monkeypatch):
    cells, X, block = given(loss, dtype, holes)
    assert cells._kernels() is not None
    fast = cells.stepped(X, block, 1.3)
    monkeypatch.setenv("WEAKPROX_COMPILE", "never")
    assert cells._kernels() is None
    plain = cells.stepped(X, block, 1.3)
    for one, two in zip(fast, plain, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-11)


def test_same_bits_on_any_number_of_threads(compiled, monkeypatch):
    monkeypatch.setattr("weakprox.linalg.threads.cores", lambda: 3)
    cells, X, block = given(Huber(0.7), holes=True)
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            found.append(cells.stepped(X, block, 1.0))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_other_cells_are_left_to_numpy(compiled):
    cells, *_ = given(Huber(0.7))
    assert Cells(cells.M, Huber(0.7), weights=np.ones(cells.shape))._kernels() is None
    assert Cells(cells.M, entry_loss("logistic"))._kernels() is None
    assert Cells(cells.M[:, ::2], Huber(0.7))._kernels() is None


def test_runs_end_at_the_same_value(compiled, monkeypatch):
    rng = np.random.default_rng(1)
    M = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))
    M[rng.random(M.shape) < 0.1] += 8.0
    loss = wp.losses.Denoising(M, loss=Huber(0.2))
    problem = wp.Problem(loss, None, wp.spectral.NuclearNorm(1.5))
    fast = wp.minimize(problem, tol=1e-7)
    monkeypatch.setenv("WEAKPROX_COMPILE", "never")
    plain = wp.minimize(problem, tol=1e-7)
    assert fast.certified
    assert fast.value == pytest.approx(plain.value, rel=2e-7)
    assert fast.certificate.lower_bound <= plain.value
