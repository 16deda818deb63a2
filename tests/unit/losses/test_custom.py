"""Custom losses: three forms, estimated constants, and what is taken at the user's word."""

import numpy as np
import pytest
from registry import (
    DOUBLE,
    NOISY,
    NUMPY,
    SHAPE,
    WEIGHTS,
    custom_deterministic,
    custom_terms,
    numbers,
)

from weakprox.losses import Custom

X = numbers(*SHAPE, seed=100)


def quadratic(H, **options):
    """1/2 <X, H X> with a symmetric H acting on rows."""
    return Custom(
        SHAPE,
        value=lambda A: 0.5 * float((A * (H @ A)).sum()),
        grad=lambda A: H @ A,
        **options,
    )


def test_smoothness_by_power_iteration():
    H = np.diag([5.0, 1.0, 0.5, 0.25, 0.1, 0.1, 0.1])
    loss = quadratic(H)
    assert 5.0 <= loss.smoothness <= 5.3
    assert loss.term_smoothness >= loss.smoothness


def test_term_smoothness_looks_at_single_terms():
    loss = custom_terms(NUMPY)
    assert loss.smoothness == pytest.approx(1.05 * WEIGHTS.mean(), rel=1e-3)
    assert 1.3 <= loss.term_smoothness <= 1.05 * WEIGHTS.max() + 1e-9


def test_given_constants_count():
    loss = quadratic(
        np.eye(7), smoothness=2.0, term_smoothness=3.0, strong_convexity=1.0, sigma=4.0
    )
    assert (loss.smoothness, loss.term_smoothness) == (2.0, 3.0)
    assert loss.strong_convexity == 1.0


def test_kinds():
    deterministic = custom_deterministic(NUMPY)
    finite, sampled = custom_terms(NUMPY), custom_terms(NUMPY, sampled=True)
    assert deterministic.is_finite_sum
    assert deterministic.n_terms == 1
    assert deterministic.samples_cancel
    assert deterministic.sigma == 0.0
    assert finite.is_finite_sum
    assert finite.n_terms == len(NOISY)
    assert not finite.samples_cancel
    assert not sampled.is_finite_sum


def test_spread_estimates_the_variance_of_one_term():
    loss = custom_terms(NUMPY)
    grads = WEIGHTS[:, None, None] * (X - NOISY)
    true = ((grads - grads.mean(axis=0)) ** 2).sum() / (len(grads) - 1)
    seen = loss.spread(X, loss.everything())
    assert 0.5 * true <= seen <= 2.0 * true
    assert custom_deterministic(NUMPY).spread(X, None) == 0.0


def test_samples_that_cancel_may_be_declared():
    loss = Custom(
        SHAPE,
        value=lambda A, i: 0.5 * float(((A - NOISY[i]) ** 2).sum()) / len(i),
        grad=lambda A, i: A - NOISY[i].mean(axis=0),
        n_terms=len(NOISY),
        strong_convexity=1.0,
        samples_cancel=True,
    )
    assert loss.samples_cancel


@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_callables_see_the_namespace_asked_for(backend):
    seen = []

    def grad(A):
        seen.append(backend.owns(A))
        return A * 1.0

    loss = Custom(
        SHAPE,
        value=lambda A: 0.5 * float((A * A).sum()),
        grad=grad,
        like=backend.array(np.zeros((1, 1))),
    )
    assert loss.smoothness == pytest.approx(1.05)
    assert seen
    assert all(seen)
