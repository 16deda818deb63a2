"""Which weights and radii are tried."""

import numpy as np
import pytest
from selection._signals import sparse_low_rank

import weakprox as wp
from weakprox.selection import Grid, default_grid
from weakprox.selection.grid import as_grid, leading_values

SIGNAL, M = sparse_low_rank(60, 50)


def soft(A, lam):
    return np.sign(A) * np.maximum(np.abs(A) - lam, 0.0)


def test_range_of_weights():
    grid = default_grid(M, 0.5)
    top = 0.5 * np.sqrt(2 * np.log(M.size))
    assert grid.shape == (10, 10)
    assert grid.lams[0] == pytest.approx(top)
    assert grid.lams[-2] == pytest.approx(top / 16)
    assert grid.lams[-1] == 0.0
    assert (np.diff(grid.lams) < 0).all()


def test_range_of_radii():
    grid = default_grid(M, 0.5)
    assert (np.diff(grid.taus, axis=1) > 0).all()
    for lam, row in zip(grid.lams[:-1], grid.taus[:-1], strict=True):
        assert row[-1] >= np.linalg.norm(soft(M, lam), "nuc")  # no effect
    truth = np.linalg.norm(SIGNAL, "nuc")
    assert grid.taus[-2, 0] < 0.5 * truth
    assert 0.7 * truth < grid.taus[-2, -2] < 1.3 * truth
    # M itself is no answer
    assert grid.taus[-1, -1] < np.linalg.norm(M, "nuc")


def test_weights_do_not_exceed_the_largest_entry():
    assert default_grid(M, 100.0).lams[0] == np.abs(M).max()


def test_noise_is_estimated_if_not_given():
    found, given = default_grid(M), default_grid(M, 0.5)
    np.testing.assert_allclose(found.lams, given.lams, rtol=0.1)


def test_no_noise_and_no_signal():
    assert (default_grid(SIGNAL, 0.0).taus > 0).all()
    assert (default_grid(np.random.default_rng(0).standard_normal((30, 20))).taus > 0).all()


def test_psd_radii_bound_the_trace():
    S = SIGNAL.T @ SIGNAL + 0.1 * (M[:50] + M[:50].T)
    grid = default_grid(S, 0.1, psd=True)
    assert 0.6 * np.trace(S) < grid.taus[-1, -2] < 1.2 * np.trace(S)


def test_leading_values_of_large_matrices():
    rng = np.random.default_rng(0)
    A = 10 * rng.standard_normal((620, 4)) @ rng.standard_normal((4, 610))
    A += rng.standard_normal((620, 610))
    full = np.linalg.svd(A, compute_uv=False)
    thin = leading_values(A, 60.0)
    assert thin.size < 100
    np.testing.assert_allclose(thin[:4], full[:4], rtol=1e-3)
    S = A[:610] @ A[:610].T
    values = leading_values(S, np.inf, psd=True, first=4)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(S)[::-1][:4], rtol=1e-3)


def test_leading_values_of_small_matrices_are_all_of_them():
    """In any units; negative eigenvalues of a semidefinite signal are noise."""
    A = 1e-3 * (M[:50] + M[:50].T)
    values = np.linalg.eigvalsh(A)[::-1]
    np.testing.assert_allclose(leading_values(A, 0.0, psd=True), np.maximum(values, 0.0))


def test_a_grid_given_is_put_in_order():
    grid = as_grid([0.1, 0.3, 0.2], [[3.0, 1.0], [30.0, 10.0], [20.0, 2.0]])
    assert isinstance(grid, Grid)
    assert grid.lams.tolist() == [0.3, 0.2, 0.1]
    assert grid.taus.tolist() == [[10.0, 30.0], [2.0, 20.0], [1.0, 3.0]]


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"M": np.zeros((3, 4))}, "M"),
        ({"M": M[0]}, "M"),
        ({"noise": -1.0}, "noise"),
        ({"n_lams": 1}, "n_lams"),
        ({"n_taus": 2.5}, "n_taus"),
    ],
)
def test_bad_input(settings, argument):
    with pytest.raises(wp.InputError) as caught:
        default_grid(**{"M": M, **settings})
    assert caught.value.argument == argument
