"""Chebyshev filters: more accurate vectors, and Ritz triplets from Gram matrices."""

from __future__ import annotations

import numpy as np
import pytest

from weakprox.linalg.filtered import DEGREE, filtered, ritz
from weakprox.linalg.operators import products

VALUES = np.concatenate([np.linspace(1.0, 0.6, 20), np.linspace(0.5, 0.0, 60)])


def with_values(s, rows=120, seed=0):
    """A matrix with these singular values, and its right singular vectors."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((rows, len(s))))[0]
    V = np.linalg.qr(rng.standard_normal((len(s), len(s))))[0]
    return (U * s) @ V.T, V


def residuals(A, found):
    return np.linalg.norm(A.T @ found.U - found.Vt.T * found.s, axis=0)


def test_a_filter_makes_vectors_more_accurate(rng):
    A, V = with_values(VALUES)
    rough = V[:, :25] + 0.1 * rng.standard_normal((80, 25))
    ops = products(A)
    before = ritz(ops, rough)
    after = ritz(ops, filtered(ops, rough, float(VALUES[25]), 1.0))
    assert np.median(residuals(A, after)[:20] / residuals(A, before)[:20]) < 0.1
    assert np.abs(after.s[:20] - VALUES[:20]).max() < np.abs(before.s[:20] - VALUES[:20]).max()


def test_a_filter_takes_few_products_and_stays_in_range(rng):
    A, _ = with_values(VALUES)
    ops = products(A)
    filtered(ops, rng.standard_normal((80, 3)), 0.5, 1.0)
    assert ops.passes == 2 * DEGREE
    largest = np.abs(filtered(ops, rng.standard_normal((80, 3)), 1e-6, 1.0)).max()
    assert 1.0 < largest < 1e16  # a polynomial of degree 4 would reach 1e48


def test_quick_triplets_are_those_of_the_slow_way(rng):
    A, V = with_values(VALUES)
    rough = V[:, :25] + 0.05 * rng.standard_normal((80, 25))
    slow, quick = (ritz(products(A), rough, quick=quick) for quick in (False, True))
    assert quick.s == pytest.approx(slow.s, rel=1e-12)
    assert np.abs(quick.dense() - slow.dense()).max() < 1e-12
    for F in (quick.U, quick.Vt.T):
        assert np.abs(F.T @ F - np.eye(25)).max() < 1e-12
    assert np.abs(A @ quick.Vt.T - quick.U * quick.s).max() < 1e-12


@pytest.mark.parametrize("case", ["dependent", "zero column", "small values"])
def test_the_slow_way_is_taken_if_the_quick_one_is_not_accurate(case, rng):
    A, V = with_values(VALUES if case != "small values" else 10.0 ** -np.arange(80.0))
    block = V[:, :10].copy()
    if case == "dependent":
        block[:, 9] = block[:, 8] + 1e-9 * block[:, 9]
    if case == "zero column":
        block[:, 9] = 0.0
    slow, quick = (ritz(products(A), block, quick=quick) for quick in (False, True))
    assert np.array_equal(quick.s, slow.s)
