"""Mixtures of normal distributions that start from the clusters of a graph."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from weakprox.estimators import _mixtures
from weakprox.estimators._mixtures import Mixture, clouds, coordinates, neighbor_densities


def two_clouds(n=60, d=3):
    rng = np.random.default_rng(0)
    labels = np.arange(2 * n) // n
    return rng.standard_normal((2 * n, d)) * [1.0, 2.0, 0.5] + 6.0 * labels[:, None], labels


@pytest.mark.parametrize("kind", ["spherical", "tied", "full"])
def test_densities_are_those_of_normal_distributions(kind):
    X, labels = two_clouds()
    parts = [X[labels == k] for k in range(2)]
    scatter = [np.cov(part.T, bias=True) for part in parts]
    if kind == "tied":
        scatter = [np.mean(scatter, axis=0)] * 2
    if kind == "spherical":
        scatter = [np.eye(3) * np.trace(C) / 3 for C in scatter]
    pairs = zip(parts, scatter, strict=True)
    single = [
        multivariate_normal(p.mean(axis=0), C + _mixtures.FLOOR * np.eye(3)).pdf(X)
        for p, C in pairs
    ]
    found = Mixture.of(X, np.eye(2)[labels], kind).log_density(X)
    assert found == pytest.approx(np.log(np.mean(single, axis=0)))


def test_kernels_are_as_wide_as_neighbours_are_far():
    X = two_clouds(n=20)[0]
    X[0] = 12.0  # one kernel is wide
    off = X[:, None] - X
    reach = np.sort(np.linalg.norm(off, axis=2), axis=1)[:, 10]  # the first is the sample

    def logs(factor):
        widths = factor * reach**2 / 3
        pairs = zip(X, widths, strict=True)
        each = np.stack(
            [multivariate_normal(x, width * np.eye(3)).logpdf(X) for x, width in pairs], axis=1
        )
        np.fill_diagonal(each, -np.inf)
        return logsumexp(each, axis=1) - np.log(39)

    best = max((logs(factor) for factor in np.geomspace(0.02, 7.0, 100)), key=np.mean)
    assert neighbor_densities(X).mean() == pytest.approx(best.mean(), abs=0.01)


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_units_do_not_matter(unit):
    X, labels = two_clouds()
    wrong = labels.copy()
    wrong[[3, 70]] = 1 - wrong[[3, 70]]
    kind, found = clouds(unit * X, wrong, 0)
    assert kind is not None
    np.testing.assert_array_equal(found, labels)


def test_nothing_changes_without_clouds():
    labels = np.arange(40) % 2
    assert clouds(np.ones((40, 3)), labels, 0)[0] is None
    few = np.where(np.arange(40) < _mixtures.FEWEST - 1, 1, 0)
    X = np.random.default_rng(0).standard_normal((40, 3)) + 9.0 * few[:, None]
    assert clouds(X, few, 0)[0] is None


def test_coordinates_are_few_and_of_unit_variance():
    X = np.random.default_rng(0).standard_normal((60, 100)) + 5.0
    found = coordinates(X)
    assert found.shape == (60, 60 // _mixtures.EACH)
    assert np.mean(found**2) == pytest.approx(1.0)
    assert found.mean(axis=0) == pytest.approx(0.0, abs=1e-12)
