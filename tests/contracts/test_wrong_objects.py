"""The checks themselves: each must notice a term that does not keep its word."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from registry import MATRICES, MEASURED, NOISY, SHAPE, numbers

from weakprox.checks import (
    CheckError,
    check_conjugate,
    check_gradient,
    check_smoothing,
    check_unbiased,
    check_weak_prox,
)
from weakprox.linalg import LowRank
from weakprox.losses import Denoising, Sensing, sensing
from weakprox.passes import SeparableForm, ValueForm
from weakprox.penalties import L1
from weakprox.protocols import Smoothability
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD


def changed(term, **members):
    """The term with some members replaced, as a subclass of its class."""
    return type("Wrong", (type(term),), members)


def test_wrong_gradient():
    wrong = changed(Denoising(NOISY[0]), grad=lambda self, X, batch: 1.001 * (X - batch.mean))
    with pytest.raises(CheckError, match="the gradient says"):
        check_gradient(wrong(NOISY[0]))


def test_understated_smoothness():
    honest = Sensing(MATRICES, MEASURED)
    small = 0.3 * honest.strong_convexity
    with pytest.raises(CheckError, match="smoothness"):
        check_gradient(Sensing(MATRICES, MEASURED, smoothness=small, strong_convexity=0.0))


def test_overstated_strong_convexity(monkeypatch):
    monkeypatch.setattr(sensing, "QUICK_FLOPS", 0.0)  # it would be corrected
    honest = Sensing(MATRICES, MEASURED)
    large = 1.01 * honest.smoothness
    wrong = Sensing(MATRICES, MEASURED, strong_convexity=large, smoothness=2 * large)
    with pytest.raises(CheckError, match="strong_convexity"):
        check_gradient(wrong)


def test_biased_draw():
    def draw(self, rng, size):
        return self._reduce([self._terms[rng.integers(0, 5, size)]])

    wrong = changed(Denoising(samples=NOISY), draw=draw)
    with pytest.raises(CheckError, match="batches average"):
        check_unbiased(wrong(samples=NOISY), draws=500)


class WrongL1(L1):
    """An L1 whose smoothing constants are multiplied by the given factors."""

    factors = (1.0, 1.0)

    def smoothability(self, shape):
        c = super().smoothability(shape)
        return Smoothability(c.theta * self.factors[0], c.gamma * self.factors[1], c.K)


@pytest.mark.parametrize(
    ("factors", "message"),
    [((0.5, 1.0), "quadratic upper bound|moved|above"), ((1.0, 0.4), "gamma mu")],
)
def test_wrong_smoothing_constants(factors, message):
    wrong = type("Wrong", (WrongL1,), {"factors": factors})(0.7)
    with pytest.raises(CheckError, match=message):
        check_smoothing(wrong, np.zeros(SHAPE))


def test_paper_gamma_without_lam_is_caught():
    """T9: the printed gamma m d / 2 is too small for lam > 1."""

    class Printed(L1):
        def smoothability(self, shape):
            return Smoothability(self.lam, 0.5 * shape[0] * shape[1], 0.0)

    with pytest.raises(CheckError, match="gamma mu"):
        check_smoothing(Printed(2.0), np.zeros(SHAPE))


def test_dual_points_outside_the_set():
    class Loose(L1):
        def ascend(self, y, X, t, *, geometry="paper"):
            return 1.01 * super().ascend(y, X, t, geometry=geometry)

    with pytest.raises(CheckError, match=r"allowed|above"):
        check_smoothing(Loose(0.7), np.zeros(SHAPE))


def test_wrong_quadratic():
    class Steep(L1):
        curvature = 0.5

        def value(self, X):
            return super().value(X)

    wrong = Steep.__new__(Steep)
    object.__setattr__(wrong, "lam", 0.7)
    with pytest.raises(CheckError):
        check_smoothing(wrong, np.zeros(SHAPE))


@dataclass(frozen=True)
class Tampered:
    """A spectral term whose oracle answers are changed by a function."""

    honest: object
    change: object

    def __getattr__(self, name):
        return getattr(self.honest, name)

    def weak_prox(self, A, **options):
        return self.change(self.honest.weak_prox(A, **options))


def scaled(factor):
    def change(found):
        V = found.V
        return replace(found, V=LowRank(V.U, V.s * factor, V.Vt))

    return change


A = numbers(6, 6, seed=60) + numbers(6, 6, seed=60).T
TERMS = [NuclearBall(6.0), TracePSD(6.0), NuclearNorm(0.5)]
NAMES = ["ball", "psd", "norm"]


@pytest.mark.parametrize("term", TERMS[:2], ids=NAMES[:2])
def test_infeasible_answer(term):
    with pytest.raises(CheckError, match="not feasible"):
        check_weak_prox(Tampered(term, scaled(1.1)), A, rank=2)


@pytest.mark.parametrize("term", TERMS, ids=NAMES)
def test_answer_that_is_not_minimal(term):
    with pytest.raises(CheckError, match=r"above (psi|the conjugate)"):
        check_weak_prox(Tampered(term, scaled(0.7)), A, rank=2)


@pytest.mark.parametrize("term", TERMS, ids=NAMES)
def test_rank_above_the_one_asked_for(term):
    full = term.weak_prox(A, weight=1.0, rank=6)
    with pytest.raises(CheckError, match="above the requested 1"):
        check_weak_prox(Tampered(term, lambda found: replace(found, V=full.V)), A, rank=1)


@pytest.mark.parametrize("term", TERMS, ids=NAMES)
def test_lower_bound_that_is_none(term):
    with pytest.raises(CheckError, match="lower bound"):
        check_weak_prox(
            Tampered(term, lambda found: replace(found, lower=found.lower + 1.0)), A, rank=6
        )


@pytest.mark.parametrize("term", TERMS, ids=NAMES)
def test_understated_delta(term):
    """A truncated oracle that claims to be exact."""
    with pytest.raises(CheckError, match=r"above (psi|the conjugate)"):
        check_weak_prox(
            Tampered(term, lambda found: replace(found, delta=0.0)), A, rank=1, trials=200
        )


@pytest.mark.parametrize("term", TERMS[:2], ids=NAMES[:2])
def test_understated_conjugate(term):
    class Small(Tampered):
        def conjugate(self, U, rng):
            return 0.1 * self.honest.conjugate(U, rng)

    with pytest.raises(CheckError, match="conjugate"):
        check_conjugate(Small(term, None), A, trials=200)


class Declaring:
    """A term with one of its capabilities replaced."""

    def __init__(self, term, **declared):
        self._term, self._declared = term, declared

    @property
    def capabilities(self):
        return replace(self._term.capabilities, **self._declared)

    def __getattr__(self, name):
        return getattr(self._term, name)


def test_centre_of_another_loss():
    wrong = Declaring(Denoising(NOISY[0]), centre=lambda batch: 1.01 * NOISY[0])
    with pytest.raises(CheckError, match="to the centre"):
        check_gradient(wrong)


@pytest.mark.parametrize("form", [SeparableForm(0.7, 0.6), SeparableForm(0.7, 0.7, rows=0.1)])
def test_form_of_another_penalty(form):
    check_smoothing(Declaring(L1(0.7), form=SeparableForm(0.7, 0.7)), np.zeros(SHAPE))
    with pytest.raises(CheckError, match="its form says"):
        check_smoothing(Declaring(L1(0.7), form=form), np.zeros(SHAPE))


def test_proximal_dual_points_outside_the_set():
    def proximal(v, step, start):
        return 0.8 * np.sign(v)

    with pytest.raises(CheckError, match="outside of Y"):
        check_smoothing(Declaring(L1(0.7), proximal=proximal), np.zeros(SHAPE))


@pytest.mark.parametrize("form", [ValueForm(2.0, 0.1), ValueForm(1.5)])
def test_form_of_another_spectral_term(form):
    check_weak_prox(Declaring(NuclearBall(2.0), form=ValueForm(2.0)), numbers(*SHAPE), rank=2)
    with pytest.raises(CheckError, match="its form says"):
        check_weak_prox(Declaring(NuclearBall(2.0), form=form), numbers(*SHAPE), rank=2)
