"""Proximal maps of losses: the gradient vanishes at their points."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array

from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Completion, Denoising, Huber, Regression, Sensing, quadratic
from weakprox.losses.entry_losses import (
    Logistic,
    Penalised,
    Poisson,
    Squared,
    _by_newton,
    entry_prox,
)

WEIGHTS = [1e-3, 0.3, 40.0]


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def observations(loss="squared", **options):
    seen = np.nonzero(numbers(9, 7, seed=3) > 0.3)
    values = np.abs(np.round(2 * numbers(len(seen[0]), seed=4)))
    values = (values > 1) * 1.0 if loss == "logistic" else values
    return Completion(*seen, values, (9, 7), loss=loss, **options)


def sparse_terms():
    A = random_array((20, 12), density=0.4, rng=np.random.default_rng(5))
    return Sensing(csr_array(A), numbers(20), shape=(4, 3))


M, WEIGHT = 2 * numbers(9, 7, seed=1), np.abs(numbers(9, 7, seed=2))
HOLES = np.where(numbers(9, 7, seed=6) > 0.5, np.nan, M)
CASES = {
    "regression": lambda: Regression(numbers(30, 6), numbers(30, 4, seed=1)),
    "regression, few rows": lambda: Regression(numbers(5, 8), numbers(5, 4, seed=1)),
    "regression, centred": lambda: Regression(
        3 + numbers(30, 6), 1 + numbers(30, 4, seed=1), intercept=True
    ),
    "regression, sparse": lambda: Regression(
        random_array((30, 6), density=0.4, rng=np.random.default_rng(2)),
        numbers(30, 4, seed=1),
        intercept=True,
    ),
    "regression, torch": lambda: Regression(
        torch.asarray(numbers(30, 6)), torch.asarray(numbers(30, 4, seed=1))
    ),
    "sensing": lambda: Sensing(numbers(40, 4, 3), numbers(40)),
    "sensing, few": lambda: Sensing(numbers(5, 4, 3), numbers(5)),
    "sensing, repeated": lambda: Sensing(np.repeat(numbers(3, 4, 3), 2, axis=0), numbers(6)),
    "sensing, rank one": lambda: Sensing((numbers(9, 4), numbers(9, 3, seed=1)), numbers(9)),
    "sensing, sparse": sparse_terms,
    "completion": observations,
    "completion, weights": lambda: observations(
        weights=1 + np.abs(numbers(observations().n_terms)), reduction="mean"
    ),
    "completion, Huber": lambda: observations(Huber(0.5)),
    "completion, logistic": lambda: observations("logistic"),
    "completion, Poisson": lambda: observations("poisson"),
    "matrix": lambda: Denoising(M),
    "samples": lambda: Denoising(samples=numbers(4, 9, 7)),
    "weights": lambda: Denoising(M, weights=WEIGHT),
    "Huber": lambda: Denoising(M, loss=Huber(0.7)),
    "Huber, holes": lambda: Denoising(HOLES, loss=Huber(0.7)),
    "weights, torch": lambda: Denoising(torch.asarray(M), weights=WEIGHT),
}


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("case", CASES)
def test_gradient_vanishes(case, weight):
    G = CASES[case]()
    A = (torch.asarray if "torch" in case else np.asarray)(numbers(*G.shape))
    X = G.capabilities.prox()(A, weight)
    assert type(X) is type(A)
    slope = to_numpy(G.grad(X, G.everything())) + weight * to_numpy(X - A)
    size = np.abs(to_numpy(G.grad(A, G.everything()))).max()
    assert np.abs(slope).max() <= 1e-11 * size


@pytest.mark.parametrize("rows", [12, 6], ids=["of_hessian", "of_terms"])
def test_maps_agree_with_a_linear_system(rows):
    X, Y, A = numbers(rows, 9), numbers(rows, 4, seed=1), numbers(9, 4, seed=2)
    found = Regression(X, Y).capabilities.prox()
    assert found.basis.shape == (9, min(rows, 9))
    wanted = np.linalg.solve(X.T @ X / rows + 0.2 * np.eye(9), X.T @ Y / rows + 0.2 * A)
    np.testing.assert_allclose(found(A, 0.2), wanted, atol=1e-12)


def test_large_quadratics_have_no_map(monkeypatch):
    monkeypatch.setattr(quadratic, "LARGEST", 3)
    assert Regression(numbers(5, 8), numbers(5, 4)).capabilities.prox is None
    assert Sensing(numbers(5, 4, 3), numbers(5)).capabilities.prox is None


@pytest.mark.parametrize(
    "G",
    [
        observations(intercepts="rows"),
        observations(scaling="counts"),
        Completion([0, 0], [1, 1], [1.0, 2.0], (2, 3)),
        Sensing(sampler=lambda rng, k: (rng.random((k, 2, 2)), np.zeros(k)), shape=(2, 2)),
    ],
    ids=["intercepts", "scaling", "repeated", "sampler"],
)
def test_losses_without_a_map(G):
    assert G.capabilities.prox is None


@pytest.mark.parametrize(
    "loss",
    [Squared(), Huber(1.0), Logistic(), Poisson(), Penalised("squared", l1=1.0, width=0.1)],
)
def test_far_points_of_entries(loss):
    """Newton's method alone cycles or overflows from such points."""
    rng = np.random.default_rng(0)
    y, a = rng.integers(0, 2, 500) * 1.0, 30 * rng.standard_normal(500)
    for weight in (1e-4, 0.0075, 1.0):
        x = entry_prox(loss, y, 1.0, a, weight)
        slope = loss.derivative(y, x) + weight * (x - a)
        size = np.abs(loss.curvature(y, x)) * np.abs(x) + weight * (np.abs(x) + np.abs(a)) + 1
        assert (np.abs(slope) <= 1e-12 * size).all()


class Counted(Logistic):
    """A logistic loss that counts the entries at which it is evaluated."""

    entries = 0

    def derivative(self, y, x):
        type(self).entries += x.size
        return super().derivative(y, x)


@pytest.mark.parametrize("weight", [0.01, 1.0])
def test_newton_steps_of_an_entry_are_few(weight):
    """Rounding errors must not start a bisection, and few entries need many steps."""
    rng = np.random.default_rng(1)
    y, a = rng.integers(0, 2, 5000) * 1.0, 3 * rng.standard_normal(5000)
    Counted.entries = 0
    entry_prox(Counted(), y, 1.0, a, weight)
    assert Counted.entries <= 12 * y.size


@pytest.mark.parametrize("loss", [Squared(), Huber(0.7)])
@pytest.mark.parametrize("weights", [1.0, np.linspace(0.1, 3.0, 400)], ids=["equal", "uneven"])
def test_formulas_agree_with_newton(loss, weights, monkeypatch):
    rng = np.random.default_rng(2)
    y, a = rng.standard_normal(400), 2 * rng.standard_normal(400)
    calls = []
    monkeypatch.setattr(type(loss), "derivative", lambda self, y, x: calls.append(1))
    found = entry_prox(loss, y, weights, a, 0.4)
    assert not calls
    monkeypatch.undo()
    wanted = _by_newton(loss, y, weights, a, 0.4)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [list, float])
def test_formulas_at_extreme_weights(kind):
    """The ratio of the weights overflows, and so would their sum."""

    def found(loss, w, a, weight):
        w = np.array([w]) if kind is list else w
        (x,) = entry_prox(loss, np.zeros(1), w, np.array([a]), weight)
        return x

    for loss in (Squared(), Huber(1.0)):
        assert found(loss, 1e10, 1.0, 1e-300) == pytest.approx(1e-310, rel=1e-9)
        assert found(loss, 1e-300, 1.0, 1e10) == 1.0
        assert found(loss, 1.5e308, 1.0, 1.5e308) == 0.5
        assert found(loss, 0.0, 1.0, 1e-300) == 1.0
    assert found(Squared(), 1e10, 1e308, 1e-300) == pytest.approx(1e-2, rel=1e-12)
    assert found(Huber(1e-3), 1e10, 1e308, 1e-300) == pytest.approx(9e307, rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "w", "a", "weight", "wanted"),
    [
        (Poisson(), 1e300, 30.0, 1e300, 3.2852170799893793),  # x + e^x = 30
        (Poisson(), 1.5e308, 30.0, 1.5e308, 3.2852170799893793),
        (Poisson(), 1e-300, 30.0, 1e-300, 3.2852170799893793),
        (Poisson(), 1.0, 1000.0, 1.0, 6.900830527610895),  # e^1000 overflows
        (Poisson(), 0.0, 1000.0, 1.0, 1000.0),
        (Poisson(), 1e10, 30.0, 1e-300, -705.5),
    ],
)
def test_newton_at_extreme_weights(loss, w, a, weight, wanted):
    (x,) = entry_prox(loss, np.zeros(1), np.array([w]), np.array([a]), weight)
    assert x == pytest.approx(wanted, rel=1e-2 if weight == 1e-300 and w == 1e10 else 1e-7)


@pytest.mark.parametrize("loss", [Squared(), Huber(1.0), Poisson()])
def test_proximal_maps_of_no_entries(loss):
    none = np.zeros(0)
    for w in (none, 2.0, np.float32(2.0)):
        assert entry_prox(loss, none, w, none, 0.5).shape == (0,)


@pytest.mark.parametrize(
    ("loss", "wanted"), [(Squared(), 1.0), (Huber(1.0), 1.0), (Poisson(), 0.0)]
)
def test_extreme_weights_in_float32(loss, wanted):
    """The minimiser is that of the loss; the ratio of the weights is infinite in float32."""
    y, a, w = (np.array([x], np.float32) for x in (1.0, 2.0, 1e20))
    (x,) = entry_prox(loss, y, w, a, 1e-20)
    assert x == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "poisson"])
def test_observations_in_float32_of_torch_with_weights(loss):
    """The weights are in float64."""
    kind = {"huber": Huber(1.0)}.get(loss, loss)
    G = observations(kind, weights=np.arange(1.0, 1.0 + len(observations()._values)))
    rows, columns = (torch.asarray(x) for x in np.nonzero(numbers(9, 7, seed=3) > 0.3))
    single = Completion(
        rows,
        columns,
        torch.asarray(G._values, dtype=torch.float32),
        (9, 7),
        loss=kind,
        weights=torch.arange(1.0, 1.0 + len(rows), dtype=torch.float64),
    )
    A = torch.asarray(M, dtype=torch.float32)
    found = single.capabilities.prox()(A, 0.5)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, G.capabilities.prox()(M, 0.5), rtol=1e-4, atol=1e-4)
