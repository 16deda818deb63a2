"""Every loss keeps its word: gradient, constants, unbiased batches."""

import numpy as np
import pytest
from registry import DOUBLE, LOSSES, SAMPLED, SHAPE, SINGLE, cases, numbers

from weakprox.checks import check_gradient, check_unbiased


@pytest.mark.parametrize(("build", "backend"), cases(LOSSES))
def test_gradient_matches_the_value_and_the_declared_constants(build, backend):
    check_gradient(build(backend))


@pytest.mark.parametrize(("build", "backend"), cases(LOSSES, SINGLE))
def test_gradient_in_single_precision(build, backend):
    check_gradient(build(backend))


@pytest.mark.parametrize(("build", "backend"), cases(LOSSES))
def test_batches_are_unbiased(build, backend):
    check_unbiased(build(backend), draws=400)


@pytest.mark.parametrize(
    ("build", "backend"), cases({name: entry for name, (entry, _) in SAMPLED.items()})
)
def test_gradient_of_sampled_losses(build, backend):
    check_gradient(build(backend))


@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
@pytest.mark.parametrize("name", SAMPLED)
def test_samplers_average_to_the_expectation(name, backend):
    """Values and gradients of small batches average to those of the mean loss."""
    entry, listed = SAMPLED[name]
    loss, mean = entry.build(backend), LOSSES[listed].build(backend)
    X, W = backend.array(numbers(*SHAPE, seed=30)), backend.array(numbers(*SHAPE, seed=31))
    rng = np.random.default_rng(32)
    slopes, values = [], []
    for _ in range(400):
        batch = loss.draw(rng, 3)
        slopes.append(float((loss.grad(X, batch) * W).sum()))
        values.append(loss.value(X, batch))
    everything = mean.everything()
    for seen, target in (
        (slopes, float((mean.grad(X, everything) * W).sum())),
        (values, mean.value(X, everything)),
    ):
        error = np.std(seen, ddof=1) / np.sqrt(len(seen))
        assert error > 0
        assert abs(np.mean(seen) - target) <= 4.5 * error


@pytest.mark.parametrize(("build", "backend"), cases(LOSSES))
def test_arrays_stay_in_their_namespace(build, backend):
    loss = build(backend)
    X = backend.array(numbers(*SHAPE))
    assert backend.owns(loss.reference)
    assert backend.owns(loss.grad(X, loss.everything()))
    assert backend.owns(loss.grad(X, loss.draw(np.random.default_rng(0), 4)))
    assert type(loss.value(X, loss.everything())) is float


@pytest.mark.parametrize(("build", "backend"), cases(LOSSES))
def test_gradient_is_a_new_array(build, backend):
    """Solvers overwrite gradients, so they must not alias X or the data."""
    loss = build(backend)
    X = backend.array(numbers(*SHAPE))
    batch = loss.everything()
    first = loss.grad(X, batch)
    kept = first * 1.0
    first *= 0.0
    assert bool((loss.grad(X, batch) == kept).all())
    assert float(abs(X - backend.array(numbers(*SHAPE))).max()) == 0.0
