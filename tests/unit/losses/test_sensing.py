"""Sensing: all forms of A give the same loss, with constants from exact eigenvalues."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from registry import DOUBLE, LEFT, MATRICES, MEASURED, RIGHT, SHAPE, SPARSE, numbers

from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Sensing, inputs, measurements

X = numbers(*SHAPE, seed=80)
N = len(MEASURED)
PAIRS = LEFT[:, :, None] * RIGHT[:, None, :]

FORMS = {
    "dense": (lambda b: b.array(MATRICES), MATRICES, {}),
    "rank-one": (lambda b: (b.array(LEFT), b.array(RIGHT)), PAIRS, {}),
    "sparse": (
        lambda b: scipy.sparse.coo_array(SPARSE.reshape(N, -1)),
        SPARSE,
        {"shape": SHAPE},
    ),
}
by_form = pytest.mark.parametrize(
    ("form", "backend"),
    [
        pytest.param(form, backend, id=f"{form}-{backend.name}")
        for form in FORMS
        for backend in DOUBLE
        if not (form == "sparse" and backend.is_torch)
    ],
)


def build(form, backend, **options):
    A, full, more = FORMS[form]
    return Sensing(A(backend), backend.array(MEASURED), **more, **options), full


@by_form
def test_value_gradient_and_spread(form, backend):
    loss, A = build(form, backend)
    r = (A * X).sum(axis=(1, 2)) - MEASURED
    grads = r[:, None, None] * A
    batch, Xb = loss.everything(), backend.array(X)
    assert loss.shape == SHAPE
    assert loss.value(Xb, batch) == pytest.approx(0.5 * (r**2).mean())
    assert to_numpy(loss.grad(Xb, batch)) == pytest.approx(grads.mean(axis=0))
    spread = ((grads - grads.mean(axis=0)) ** 2).sum() / (N - 1)
    assert loss.spread(Xb, batch) == pytest.approx(spread)


@by_form
def test_constants_against_exact_eigenvalues(form, backend):
    loss, A = build(form, backend)
    flat = A.reshape(N, -1)
    values = np.linalg.eigvalsh(flat.T @ flat / N)
    assert loss.smoothness == pytest.approx(values[-1])
    assert loss.smoothness >= values[-1]
    assert loss.strong_convexity == pytest.approx(values[0], abs=1e-9)
    assert loss.strong_convexity <= values[0]
    assert loss.term_smoothness == pytest.approx((flat**2).sum(axis=1).max())


def test_fewer_measurements_than_entries_are_not_strongly_convex():
    loss = Sensing(MATRICES[:20], MEASURED[:20])
    flat = MATRICES[:20].reshape(20, -1)
    assert loss.strong_convexity == 0.0
    assert loss.smoothness == pytest.approx(np.linalg.norm(flat, 2) ** 2 / 20)


@by_form
def test_large_grams_are_bounded_from_above(form, backend, monkeypatch):
    """Where the Gram matrix is not formed, the randomised bound takes over."""
    monkeypatch.setattr(measurements, "EIGEN_BELOW", 10)
    loss, A = build(form, backend)
    true = np.linalg.norm(A.reshape(N, -1), 2) ** 2 / N
    assert true <= loss.smoothness <= 3 * true
    assert loss.strong_convexity == 0.0  # nothing is proved, so nothing is claimed


@by_form
def test_given_constants_count(form, backend):
    loss, _ = build(
        form, backend, smoothness=9.0, term_smoothness=99.0, strong_convexity=0.01, sigma=4.0
    )
    assert (loss.smoothness, loss.term_smoothness) == (9.0, 99.0)
    assert (loss.strong_convexity, loss.sigma) == (0.01, 4.0)


@by_form
def test_chunks_change_nothing(form, backend, monkeypatch):
    loss, _ = build(form, backend)
    Xb, batch = backend.array(X), loss.everything()
    value, grad, spread = loss.value(Xb, batch), loss.grad(Xb, batch), loss.spread(Xb, batch)
    largest = loss.term_smoothness
    monkeypatch.setattr(inputs, "CHUNK_BYTES", 7 * 8 * SHAPE[0] * SHAPE[1])
    monkeypatch.setattr(measurements, "FLAT_ENTRIES", 8 * SHAPE[0] * SHAPE[1] * 7)
    again, _ = build(form, backend)
    assert again.value(Xb, batch) == pytest.approx(value)
    assert to_numpy(again.grad(Xb, batch)) == pytest.approx(to_numpy(grad))
    assert again.spread(Xb, batch) == pytest.approx(spread)
    assert again.term_smoothness == pytest.approx(largest)
    assert again.smoothness == pytest.approx(loss.smoothness)


@by_form
def test_draws_are_terms(form, backend):
    loss, A = build(form, backend)
    picked = np.random.default_rng(3).integers(0, N, 5)
    batch = loss.draw(np.random.default_rng(3), 5)
    r = (A[picked] * X).sum(axis=(1, 2)) - MEASURED[picked]
    assert loss.value(backend.array(X), batch) == pytest.approx(0.5 * (r**2).mean())


def test_rank_one_gradients_never_form_the_matrices():
    n, m, d = 60, 100, 110
    U, V = numbers(n, m), numbers(n, d, seed=1)
    loss = Sensing((U, V), np.ones(n))
    Z = np.zeros((m, d))
    tracemalloc.start()
    loss.grad(Z, loss.everything())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * m * d / 10


def test_memory_map_is_never_copied_whole(monkeypatch):
    from registry import memmap_of

    data = memmap_of(np.ones((200, 30, 40)))
    monkeypatch.setattr(inputs, "CHUNK_BYTES", 1 << 17)
    tracemalloc.start()
    loss = Sensing(data, np.zeros(200))
    loss.grad(np.zeros((30, 40)), loss.everything())
    loss.value(np.zeros((30, 40)), loss.everything())
    _ = loss.term_smoothness
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < data.nbytes / 2


def test_sampler_constants_are_estimates():
    """Unit Gaussian sensing: E vec(A) vec(A)' = I, |A|^2 about m d."""

    def sampler(rng, k):
        A = rng.standard_normal((k, 4, 3))
        return A, A.sum(axis=(1, 2))

    loss = Sensing(sampler=sampler, shape=(4, 3))
    assert 1.0 <= loss.smoothness <= 4.0
    assert 12.0 <= loss.term_smoothness <= 60.0
    assert loss.strong_convexity == 0.0  # only a given value counts
    assert loss.pilot_samples > 0  # and they are accounted for
    assert not loss.is_finite_sum


def test_b_takes_the_kind_of_A():
    loss = Sensing(MATRICES.astype(np.float32), MEASURED)
    assert loss.reference.dtype == np.float32
    assert loss.grad(X.astype(np.float32), loss.everything()).dtype == np.float32
    mixed = Sensing(DOUBLE[1].array(MATRICES), MEASURED)
    assert DOUBLE[1].owns(mixed.grad(DOUBLE[1].array(X), mixed.everything()))


def test_integer_measurements_are_never_converted_whole(tmp_path, monkeypatch):
    """0/1 designs on disk stay on disk: floats exist for one chunk at a time only."""
    monkeypatch.setattr(inputs, "CHUNK_BYTES", 2 << 20)
    rng = np.random.default_rng(3)
    path = tmp_path / "A.npy"
    stored = np.lib.format.open_memmap(path, mode="w+", dtype=np.int8, shape=(3000, 40, 30))
    stored[:] = rng.integers(0, 2, stored.shape, dtype=np.int8)
    stored.flush()
    A = np.load(path, mmap_mode="r")
    b = rng.standard_normal(3000)
    X = rng.standard_normal((40, 30))
    tracemalloc.start()
    loss = Sensing(A, b)
    grad = loss.grad(X, loss.everything())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    flat = np.asarray(A, dtype=float).reshape(3000, -1)
    expected = ((flat @ X.ravel() - b) @ flat / 3000).reshape(40, 30)
    np.testing.assert_allclose(grad, expected, rtol=1e-9, atol=1e-9)
    assert peak < flat.nbytes / 3
