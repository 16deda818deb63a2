"""Completion: naive formulas, repeated entries, exact constants."""

import numpy as np
import pytest
import scipy.sparse
from registry import COLS, DOUBLE, HOLES, OBSERVED, ROWS, SHAPE, numbers

from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Completion

X = numbers(*SHAPE, seed=90)
by_backend = pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
by_reduction = pytest.mark.parametrize(("reduction", "scale"), [("sum", 1.0), ("mean", 1 / 50)])


def naive_grad(X, rows, cols, values):
    G = np.zeros_like(X)
    for i, j, v in zip(rows, cols, values, strict=True):
        G[i, j] += X[i, j] - v
    return G


@by_backend
@by_reduction
def test_value_and_gradient(backend, reduction, scale):
    loss = Completion(ROWS, COLS, backend.array(OBSERVED), SHAPE, reduction=reduction)
    Xb, batch = backend.array(X), loss.everything()
    r = X[ROWS, COLS] - OBSERVED
    assert loss.n_terms == 50
    assert loss.value(Xb, batch) == pytest.approx(scale * 0.5 * (r**2).sum())
    assert to_numpy(loss.grad(Xb, batch)) == pytest.approx(
        scale * naive_grad(X, ROWS, COLS, OBSERVED)
    )


@by_reduction
def test_constants_count_repeated_entries(reduction, scale):
    loss = Completion(ROWS, COLS, OBSERVED, SHAPE, reduction=reduction)
    counts = np.zeros(SHAPE)
    np.add.at(counts, (ROWS, COLS), 1)
    assert counts.max() > 1  # the instance has repeats
    assert loss.smoothness == pytest.approx(scale * counts.max())
    assert loss.strong_convexity == pytest.approx(scale * counts.min())
    assert loss.term_smoothness == pytest.approx(50 * scale)


@by_reduction
def test_spread_is_the_variance_of_the_terms(reduction, scale):
    loss = Completion(ROWS, COLS, OBSERVED, SHAPE, reduction=reduction)
    grads = np.zeros((50, *SHAPE))
    for k, (i, j) in enumerate(zip(ROWS, COLS, strict=True)):
        grads[k, i, j] = 50 * scale * (X[i, j] - OBSERVED[k])
    wanted = ((grads - grads.mean(axis=0)) ** 2).sum() / 49
    assert loss.spread(X, loss.everything()) == pytest.approx(wanted)


def test_every_entry_observed_is_denoising():
    rows, cols = np.divmod(np.arange(35), 5)
    loss = Completion(rows, cols, numbers(*SHAPE).ravel(), SHAPE)
    assert loss.strong_convexity == loss.smoothness == 1.0
    assert loss.grad(X, loss.everything()) == pytest.approx(X - numbers(*SHAPE))


@by_backend
def test_from_dense_skips_what_is_missing(backend):
    loss = Completion.from_dense(backend.array(HOLES))
    seen = ~np.isnan(HOLES)
    assert loss.n_terms == seen.sum()
    G = to_numpy(loss.grad(backend.array(X), loss.everything()))
    assert G[seen] == pytest.approx((X - HOLES)[seen])
    assert (G[~seen] == 0).all()
    assert backend.owns(loss.reference)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_from_sparse_takes_stored_entries(dtype):
    M = scipy.sparse.coo_array(
        (np.array([1, 0, 3], dtype=dtype), ([0, 2, 6], [1, 2, 4])), shape=SHAPE
    )
    loss = Completion.from_sparse(M)
    assert loss.n_terms == 3  # the stored zero is an observation
    assert loss.value(np.zeros(SHAPE), loss.everything()) == pytest.approx(5.0)
    wanted = np.float32 if dtype == np.float32 else np.float64
    assert loss.reference.dtype == wanted


def test_options_reach_the_constructor():
    loss = Completion.from_dense(HOLES, reduction="mean", sigma=2.0)
    assert loss.sigma == 2.0
    assert loss.smoothness == pytest.approx(1 / loss.n_terms)


@by_backend
def test_draws_are_terms(backend):
    """Terms are in the order of rows, then of columns."""
    loss = Completion(ROWS, COLS, backend.array(OBSERVED), SHAPE)
    order = np.lexsort((COLS, ROWS))
    rows, cols, seen = ROWS[order], COLS[order], OBSERVED[order]
    batch = loss.draw(np.random.default_rng(4), 6)
    r = X[rows[batch], cols[batch]] - seen[batch]
    assert loss.value(backend.array(X), batch) == pytest.approx(50 * 0.5 * (r**2).mean())
    assert to_numpy(loss.grad(backend.array(X), batch)) == pytest.approx(
        50 / 6 * naive_grad(X, rows[batch], cols[batch], seen[batch])
    )
