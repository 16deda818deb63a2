"""Conditional means, near rows and their weights: closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from weakprox.estimators._gaussian_columns import Filled, GaussianColumns, some_rows
from weakprox.estimators._nearest_rows import NearestRows
from weakprox.estimators.imputer import weighed
from weakprox.selection.search import Deadline


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)) @ rng.standard_normal((5, 5))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def gaps(X, share=0.3):
    return np.where(np.random.default_rng(1).random(X.shape) < share, np.nan, X)


def test_conditional_means_solve_the_normal_equations(table):
    S = np.cov(table.T) + 0.1 * np.eye(5)
    mean = np.arange(5.0)
    model, Z = GaussianColumns(mean, np.linalg.inv(S)), gaps(table)
    filled = model.complete(Z)
    for row, found in zip(Z, filled, strict=True):
        o, m = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        away = np.linalg.solve(S[np.ix_(o, o)], row[o] - mean[o]) if o.size else np.zeros(0)
        assert np.allclose(found[m], mean[m] + S[np.ix_(m, o)] @ away, atol=1e-5)
        assert np.allclose(found[o], row[o])


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_a_complete_table_gives_its_own_covariance(table, shrinkage):
    model = Filled.of(table, shrinkage, None, Deadline()).model
    S = table.T @ table / len(table)
    wanted = (1 - shrinkage) * S + shrinkage * np.diag(np.diag(S))
    assert np.allclose(np.linalg.inv(model.precision), wanted, atol=1e-6)
    assert np.allclose(model.mean, 0.0, atol=1e-12)


def test_a_fit_ends_at_its_own_conditional_means(table):
    Z = gaps(table)
    found = Filled.of(Z, 0.1, None, Deadline())
    again = Filled.of(Z, 0.1, found, Deadline())
    missing = np.isnan(Z)
    assert np.abs(found.model.complete(Z) - found.table)[missing].max() < 0.1
    assert np.abs(again.table - found.table)[missing].max() < 0.1
    assert np.allclose(found.table[~missing], Z[~missing])


def test_columns_are_not_related_if_correlations_are_shrunk_to_nothing(table):
    Z = gaps(table)
    found = Filled.of(Z, 1.0, None, Deadline())
    assert np.allclose(
        found.table[np.isnan(Z)], np.broadcast_to(found.model.mean, Z.shape)[np.isnan(Z)]
    )


def test_a_covariance_is_learnt_from_a_part_of_very_many_rows():
    rng = np.random.default_rng(0)
    assert np.array_equal(some_rows((50, 40), rng), np.arange(50))
    some = some_rows((10**6, 100), rng)
    assert 200 <= some.size < 10**6
    assert np.all(np.diff(some) > 0)


def test_near_rows_say_what_they_observed():
    centres = np.repeat([[0.0, 0.0, 0.0], [50.0, 50.0, 50.0]], 20, axis=0)
    table = centres + np.random.default_rng(0).standard_normal((40, 3))
    rows = NearestRows.of(table, np.ones((40, 3), dtype=bool), np.random.default_rng(0))
    guess = rows.smoothed(np.array([[50.0, 50.0, 60.0]]))
    near, apart = rows.nearest(np.array([[50.0, 50.0, 60.0]]))
    weights = np.exp(-apart[0] / rows.width)
    wanted = (weights @ table[near[0], 2] + 60.0) / (weights.sum() + 1.0)
    assert guess[0, 2] == pytest.approx(wanted)
    assert np.all(near >= 20)
    unseen = NearestRows(table, np.zeros((40, 3), dtype=bool), 1.0)
    assert np.array_equal(unseen.smoothed(table[:3]), table[:3])  # first guesses stay


def test_weights_of_models():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(1000)
    good, other = truth + 0.5 * rng.standard_normal((2, 1000))
    noise = rng.standard_normal(1000)
    weights, scores = weighed(np.stack([good, other, noise], axis=1), truth)
    assert np.argmax(scores) == len(scores) - 1
    assert weights[:2] == pytest.approx([4 / 9, 4 / 9], abs=0.05)  # the best in expectation
    assert min(weights) >= 0.0
    assert weights[2] < 0.05
    weights, _ = weighed(np.stack([truth, noise, noise], axis=1), truth)
    assert weights == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    weights, _ = weighed(-np.stack([truth, truth, truth], axis=1), truth)
    assert weights == [0.0, 0.0, 0.0]  # means of columns
