"""Losses of one entry: derivatives by differences, conjugates by brute force."""

import numpy as np
import pytest
from refusals import refused

from weakprox.errors import InputError
from weakprox.losses import Completion, Huber, Penalised
from weakprox.losses.entry_losses import Logistic, Poisson, Squared, entry_loss

LOSSES = [
    *(Squared(), Huber(0.7), Logistic(), Poisson()),
    Penalised("squared", l1=0.4, width=0.3),
    Penalised(Huber(0.7), l1=0.3, ridge=0.2, width=0.2),
    Penalised("logistic", ridge=0.3),
    Penalised("poisson", l1=0.2, ridge=0.1, width=0.5),
]
GRID = np.linspace(-40.0, 40.0, 400_001)
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def observations(loss):
    kind = type(loss.loss if isinstance(loss, Penalised) else loss)
    return {Logistic: [0.0, 1.0], Poisson: [0.0, 1.0, 7.0]}.get(kind, [-2.0, 0.0, 1.5])


@by_loss
def test_derivatives_are_those_of_the_value(loss):
    x, step = np.linspace(-3.0, 3.0, 25) + 0.0123, 1e-5
    for y in observations(loss):
        value, slope, bend = (
            lambda z, f=f, y=y: f(np.full_like(z, y), z)
            for f in (loss.value, loss.derivative, loss.curvature)
        )
        assert slope(x) == pytest.approx(
            (value(x + step) - value(x - step)) / (2 * step), abs=1e-6
        )
        assert bend(x) == pytest.approx(
            (slope(x + step) - slope(x - step)) / (2 * step), abs=1e-4
        )
        assert value(x).min() >= 0.0
        if loss.smoothness is not None:
            assert bend(x).max() <= loss.smoothness


@by_loss
def test_the_conjugate_is_the_largest_difference(loss):
    for y in observations(loss):
        values = loss.value(np.full_like(GRID, y), GRID)
        for s in np.linspace(-0.65, 0.65, 14):
            found = float(loss.conjugate(np.array([y]), np.array([s]))[0])
            brute = float((s * GRID - values).max())
            if np.isfinite(found):
                assert found == pytest.approx(brute, abs=1e-5)
            else:  # the supremum grows with the grid
                assert brute > 0.01 * 40


@by_loss
def test_fenchel_holds_with_equality_at_the_derivative(loss):
    x = np.linspace(-2.5, 2.5, 21)
    for y in observations(loss):
        at = np.full_like(x, y)
        s = loss.derivative(at, x)
        assert loss.value(at, x) + loss.conjugate(at, s) == pytest.approx(s * x, abs=1e-12)


def test_conjugates_are_infinite_outside_of_their_domain():
    one = np.ones(1)
    assert np.isinf(Huber(0.5).conjugate(one, 0.51 * one))
    assert np.isinf(Logistic().conjugate(one, 0.01 * one))
    assert np.isinf(Logistic().conjugate(0 * one, 1.01 * one))
    assert np.isinf(Poisson().conjugate(2 * one, -2.01 * one))
    assert Poisson().conjugate(2 * one, -2 * one) == pytest.approx(2 - 2 * np.log(2))


def test_two_classes_are_zero_and_one():
    check = Logistic().check
    for low, high in ((0.0, 1.0), (-1.0, 1.0), (3.0, 8.0)):
        found = check(np.array([low, high, low]))
        assert found.tolist() == [0.0, 1.0, 0.0]
        assert not np.signbit(found).any()
    assert check(np.array([-1.0, -1.0])).tolist() == [0.0, 0.0]
    assert check(np.array([1.0])).tolist() == [1.0]


@pytest.mark.parametrize(
    ("argument", "values", "options"),
    [
        ("values", [0.0, 1.0, 2.0], {"loss": "logistic"}),
        ("values", [0.0, 1.0, -2.0], {"loss": "poisson"}),
        ("values", [0.0, np.nan, 1.0], {}),
        ("loss", [0.0, 1.0, 2.0], {"loss": "hinge"}),
        ("loss", [0.0, 1.0, 2.0], {"loss": Huber}),
        ("loss", [0.0, 1.0, 2.0], {"loss": object()}),
        ("weights", [0.0, 1.0, 2.0], {"weights": [1.0, 0.0, 1.0]}),
        ("weights", [0.0, 1.0, 2.0], {"weights": [1.0, 2.0]}),
        ("weights", [0.0, 1.0, 2.0], {"weights": [1.0, np.inf, 1.0]}),
        ("intercepts", [0.0, 1.0, 2.0], {"intercepts": "all"}),
        ("intercept_ridge", [0.0, 1.0, 2.0], {"intercept_ridge": -1.0}),
        ("scaling", [0.0, 1.0, 2.0], {"scaling": "size"}),
        ("scaling", [0.0, 1.0, 2.0], {"scaling": np.ones(4)}),
        ("scaling", [0.0, 1.0, 2.0], {"scaling": (np.ones(4), np.ones(4))}),
        ("scaling", [0.0, 1.0, 2.0], {"scaling": (np.ones(4), np.zeros(3))}),
        ("scaling", [0.0, 1.0, 2.0], {"scaling": ([1.0, "a", 2.0, 3.0], np.ones(3))}),
    ],
)
def test_mistakes_name_the_argument(argument, values, options):
    with pytest.raises(InputError) as caught:
        Completion([0, 1, 3], [0, 2, 1], np.array(values), (4, 3), **options)
    assert caught.value.argument == argument


@pytest.mark.parametrize("k", [0.0, -1.0, np.nan, "a"])
def test_the_threshold_is_positive(k):
    with pytest.raises(InputError, match="k"):
        Huber(k)


def test_names_and_objects():
    assert isinstance(entry_loss("poisson"), Poisson)
    own = Huber(2.0)
    assert entry_loss(own) is own


def test_settings_of_penalties_on_entries():
    refused(lambda: Penalised("squared"), "l1", "positive")
    refused(lambda: Penalised("squared", l1=-1.0), "l1")
    refused(lambda: Penalised("squared", ridge=np.nan), "ridge")
    refused(lambda: Penalised("squared", l1=1.0, width=0.0), "width")
    refused(lambda: Penalised("absolute", l1=1.0), "loss")
    refused(
        lambda: Completion([0], [0], [-1.0], (1, 1), loss=Penalised("poisson", 1.0)), "values"
    )
    assert Penalised("squared", l1=2.0, ridge=0.5, width=0.5).smoothness == 5.5
    assert Penalised("poisson", l1=2.0).smoothness is None
    x = np.linspace(-3.0, 3.0, 61)  # nearly the absolute value
    near = Penalised("squared", l1=2.0, width=1e-3).value(x, x)
    assert np.all((near <= 2 * np.abs(x)) & (near >= 2 * np.abs(x) - 1e-3))
