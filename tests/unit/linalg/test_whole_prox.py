"""Proximal points by one full decomposition: those of the terms, and when there is none."""

import numpy as np
import pytest

from weakprox.linalg.whole_prox import whole_prox
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SHAPES = [(9, 9), (14, 6), (6, 14)]


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("h", [NuclearBall(2.0), NuclearBall(1e3), NuclearNorm(1.5)], ids=str)
def test_points_are_those_of_the_terms(h, shape):
    A = numbers(*shape)
    V, basis = whole_prox(A, h.capabilities.form, 0.8)
    wanted = h.weak_prox(A, weight=0.8, rank=min(shape), certify=True).V
    np.testing.assert_allclose(V.dense(), wanted.dense(), atol=1e-12)
    assert h.violation(V) <= 1e-12
    assert basis.shape[0] == shape[1]
    leading = np.linalg.svd(A)[2][
        : V.rank
    ].T  # its span contains the right vectors of the point
    inside = np.linalg.lstsq(basis, leading)[0]
    np.testing.assert_allclose(basis @ inside, leading, atol=1e-9)


def test_points_of_the_cone():
    A, h = numbers(8, 8), TracePSD(1.5)
    V, _ = whole_prox(A, h.capabilities.form, 0.8)
    wanted = h.weak_prox(A, weight=0.8, rank=8, certify=True).V
    np.testing.assert_allclose(V.dense(), wanted.dense(), atol=1e-12)
    assert h.violation(V) <= 1e-12


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_point_may_be_zero(shape):
    V, basis = whole_prox(numbers(*shape), NuclearNorm(1e3).capabilities.form, 1.0)
    assert V.rank == 0
    assert V.shape == shape
    assert basis.shape[0] == shape[1]


def test_values_that_squaring_loses_are_refused():
    U, W = (np.linalg.qr(numbers(6, 6, seed=s))[0] for s in (1, 2))
    A = (U * np.geomspace(1.0, 1e-9, 6)) @ W
    assert whole_prox(A, NuclearNorm(1e-12).capabilities.form, 1.0) is None
