"""The user's own functions going wrong: at the first call, or in mid-run."""

import numpy as np
import pytest
from registry import SHAPE, numbers

import weakprox as wp
from weakprox.losses import Custom, Denoising
from weakprox.penalties import L1
from weakprox.spectral import Exact, NuclearBall

M = numbers(*SHAPE)
LOSS, BALL = Denoising(M), NuclearBall(2.0)
NAN, INF = np.nan, np.inf


def minimise(problem, **options):
    return wp.minimize(problem, wp.SVRGCG(2), **{"eps": 0.5, **options})


class Late:
    """A function that goes wrong after some calls."""

    def __init__(self, good, bad, after):
        self.good, self.bad, self.left = good, bad, after

    def __call__(self, *arguments):
        self.left -= 1
        return self.good(*arguments) if self.left >= 0 else self.bad


@pytest.mark.parametrize("bad", [M * NAN, M.T, None], ids=["nan", "shape", "none"])
def test_gradients_that_go_wrong_in_mid_run(bad):
    loss = Custom(
        SHAPE,
        value=lambda X: 0.5 * float(((X - M) ** 2).sum()),
        grad=Late(lambda X: X - M, bad, after=4),
        strong_convexity=1.0,
        smoothness=1.0,
    )
    with pytest.raises(wp.InputError, match="grad: got"):
        minimise(wp.Problem(loss, L1(0.1), BALL), eps=1e-3)


@pytest.mark.parametrize("bad", [NAN, "text", None])
def test_values_that_go_wrong_in_mid_run(bad):
    def value(X):
        return 0.5 * float(((X - M) ** 2).sum())

    loss = Custom(
        SHAPE,
        value=Late(value, bad, 3),
        grad=lambda X: X - M,
        strong_convexity=1.0,
        smoothness=1.0,
    )
    with pytest.raises(wp.InputError, match="value: got"):
        minimise(wp.Problem(loss, L1(0.1), BALL), eps=1e-3)
    prox = Exact(lambda A, w: A.clip(-1, 1), Late(lambda X: 0.0, bad, 3))
    with pytest.raises(wp.InputError, match="value_of: got"):
        minimise(wp.Problem(LOSS, L1(0.1), prox), eps=1e-3)


@pytest.mark.parametrize("bad", [NAN, "text", None])
def test_conjugates_that_are_no_numbers(bad):
    loss = Custom(SHAPE, value=lambda X: 0.0, grad=lambda X: 0.0 * X, smoothness=1.0)
    h = Exact(lambda A, w: A.clip(-1, 1), lambda X: 0.0, lambda U: bad)
    with pytest.raises(wp.InputError, match="conjugate_of: got"):
        wp.minimize(wp.Problem(loss, None, h), "davis-yin")


def test_a_value_that_is_no_number_certifies_nothing():
    class Broken(Denoising):
        def value(self, X, batch):
            return NAN

    with pytest.raises(wp.InputError, match="NaN as the value"):
        minimise(wp.Problem(Broken(M), None, BALL))
    assert np.isnan(wp.Certificate(NAN, 1.0, "exact").gap)


def test_zero_outside_the_domain_asks_for_a_start():
    ones = Exact(
        prox=lambda A, weight: np.ones_like(A),
        value_of=lambda X: 0.0 if np.allclose(X, 1.0) else INF,
    )
    problem = wp.Problem(Denoising(M), None, ones)
    with pytest.raises(wp.InputError, match=r"start: got .* feasible"):
        minimise(problem)
    found = minimise(problem, start=np.ones(SHAPE))
    assert np.allclose(found.X, 1.0)
