"""Penalties declare constraints on entries, which serves those of a user as well."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1, Box, SignedL1, Sum
from weakprox.protocols import Constraint, PenaltyCapabilities
from weakprox.spectral import NuclearBall, NuclearNorm

M = np.random.default_rng(161).standard_normal((12, 9))
BOX, NORM = Box(-0.4, 0.5), NuclearNorm(0.6)
FIXED = np.where(np.eye(12, 9) > 0.0, np.inf, 1.0)


class Own(L1):
    """A penalty of a user that declares its slopes."""

    @property
    def capabilities(self):
        return PenaltyCapabilities(form=L1(self.lam).capabilities.form, infimum=0.0)


class Inherits(L1):
    """A penalty that may compute another function."""


class Positive(Box):
    """Entries that are at least zero, with a penalty of another class in their place."""

    @property
    def capabilities(self):
        sides = self.low, self.high
        constraint = Constraint(lambda slope: SignedL1(0.0, slope), bounds=sides)
        return replace(Box(0.0, np.inf).capabilities, constraint=constraint)


@dataclass(frozen=True)
class Both(Sum):
    """A sum of a user, which declares its parts."""

    @property
    def capabilities(self):
        return PenaltyCapabilities(parts=self.parts, infimum=0.0)


def solved(penalty):
    return wp.minimize(wp.Problem(Denoising(M), penalty, NORM), tol=1e-6)


def slopes(penalty):
    return [part.slope for part in wp.Problem(Denoising(M), penalty, NORM).penalty.parts[1:]]


def test_declared_slopes_beside_bounds():
    assert slopes(Own(0.3) + BOX) == slopes(L1(0.3) + BOX)
    mine, theirs = solved(Own(0.3) + BOX), solved(L1(0.3) + BOX)
    assert mine.certified
    np.testing.assert_allclose(mine.value, theirs.value, rtol=1e-5)


def test_declared_slopes_beside_fixed_entries():
    fixed = L1(0.2, FIXED)
    (mine,), (theirs,) = (
        [part.weights for part in wp.Problem(Denoising(M), one + fixed, NORM).penalty.parts[1:]]
        for one in (Own(0.3), L1(0.3))
    )
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    "other", [Inherits(0.3), SignedL1(0.1, 0.2) + Box(1.0, 2.0, slope=3.0)], ids=repr
)
def test_other_penalties_need_slopes_that_begin_at_zero(other):
    with pytest.raises(wp.InputError, match="no known bound"):
        wp.Problem(Denoising(M), other + BOX, NORM)


@pytest.mark.parametrize("spectral", [NuclearNorm(0.6), NuclearBall(3.0)], ids=repr)
def test_a_box_with_a_slope_beside_fixed_entries(spectral):
    """The slope in place of infinite weights is steep enough: a larger one changes nothing."""
    box = Box(-0.2, 0.3, slope=0.7)
    problem = wp.Problem(Denoising(M), box + L1(0.2, FIXED), spectral)
    found = wp.minimize(problem, tol=1e-7)
    steeper = L1(0.2, np.where(np.isinf(FIXED), 1e4, 1.0))
    exact = wp.minimize(wp.Problem(Denoising(M), box + steeper, spectral), tol=1e-7)
    assert found.certified
    np.testing.assert_allclose(found.value, exact.value, rtol=1e-6)
    assert np.abs(found.X[np.isinf(FIXED)]).max() < 1e-3


def test_a_constraint_of_a_user():
    problem = wp.Problem(Denoising(M), Positive(0.0, np.inf), NORM)
    assert problem.penalty == SignedL1(0.0, problem.penalty.below)
    mine, theirs = solved(Positive(0.0, np.inf)), solved(Box(0.0, np.inf))
    assert mine.certified
    assert mine.X.min() > -1e-6
    np.testing.assert_allclose(mine.value, theirs.value, rtol=1e-5)


def test_constraints_within_a_sum_of_a_user():
    found = wp.Problem(Denoising(M), Both((L1(0.3), BOX)), NORM).penalty
    assert found == wp.Problem(Denoising(M), L1(0.3) + BOX, NORM).penalty
    assert (Both((L1(0.3), BOX)) + L1(0.1)).parts == (L1(0.3), BOX, L1(0.1))


@pytest.mark.parametrize("array", [False, True])
def test_infinite_weights_beside_bounds_that_exclude_zero_are_refused(array):
    """The other slopes would not bound the multipliers of the fixed entries."""
    ends = (np.full(M.shape, 5.0), np.full(M.shape, 9.0)) if array else (5.0, 9.0)
    penalty = L1(0.1, FIXED) + Box(*ends, slope=3.0)
    with pytest.raises(wp.InputError, match="no known bound"):
        wp.Problem(Denoising(M), penalty, NuclearBall(60.0))
