"""Copies that are independent, and errors on those that were left out."""

import numpy as np
import pytest
from selection._signals import sparse_low_rank

import weakprox as wp
from weakprox.selection import (
    Copies,
    HeldOut,
    default_grid,
    folded,
    held_out,
    regularization_path,
    thinned,
)
from weakprox.spectral import TracePSD

SIGNAL, M = sparse_low_rank(50, 40, density=0.2)
GRID = default_grid(M, 0.5, n_lams=4, n_taus=4)


def test_thinned_copies_average_to_the_matrix():
    copies = thinned(M, 0.5, 4, seed=3)
    np.testing.assert_allclose(copies.mean(), M, atol=1e-12)
    assert copies.means.shape == (4, 50, 40)
    again = thinned(M, 0.5, 4, seed=3)
    assert copies.means.tobytes() == again.means.tobytes()


def test_thinned_copies_are_independent_with_the_right_variance():
    """Over many noisy matrices, errors of two copies have no correlation."""
    rng = np.random.default_rng(0)
    signal = np.zeros((60, 60))
    products, squares = [], []
    for seed in range(40):
        copies = thinned(signal + 0.7 * rng.standard_normal((60, 60)), 0.7, 3, seed=seed)
        products.append(np.mean(copies.means[0] * copies.means[1]))
        squares.append(np.mean(copies.means[2] ** 2))
    spread = 3 * 0.49 / np.sqrt(40 * 3600)
    assert abs(np.mean(products)) < 4 * spread
    assert np.mean(squares) == pytest.approx(3 * 0.49, rel=0.02)


def test_data_of_the_same_seed_do_not_share_the_noise():
    """`default_rng(0)` is what everyone takes, so thinning must not take it as well."""
    noise = np.random.default_rng(0).standard_normal((60, 60))
    copies = thinned(noise, 1.0, 5, seed=0)
    for k in range(5):
        products = np.mean(copies.without(k) * copies.means[k])
        assert abs(products) < 5 * np.sqrt(5 * 1.25 / 3600)


def test_thinned_counts_are_counts_that_average_to_the_matrix():
    counts = np.random.default_rng(0).poisson(3.0, (30, 20)).astype(float)
    copies = thinned(counts, "poisson", 4, seed=1)
    np.testing.assert_allclose(copies.mean(), counts, atol=1e-12)
    assert (copies.means >= 0).all()
    np.testing.assert_array_equal(copies.means % 4, 0.0)
    assert thinned(counts, "poisson", 4, seed=1).means.tobytes() == copies.means.tobytes()


def test_thinned_counts_are_independent_with_the_right_variance():
    """Also where rates differ, which Gaussian thinning of one level does not allow."""
    rng = np.random.default_rng(0)
    rates = np.outer(np.linspace(0.1, 2.0, 60), np.linspace(0.1, 2.0, 60))
    products, squares = [], []
    for seed in range(40):
        copies = thinned(rng.poisson(rates), "poisson", 3, seed=seed)
        away = copies.means - rates
        products.append(np.mean(away[0] * away[1]))
        squares.append(np.mean(away[2] ** 2))
    spread = 3 * np.sqrt(np.mean(rates**2) / (40 * 3600))
    assert abs(np.mean(products)) < 4 * spread
    assert np.mean(squares) == pytest.approx(3 * np.mean(rates), rel=0.03)


def test_folds_are_means_of_disjoint_groups():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((11, 6, 5))
    copies = folded(samples, 3)
    assert sorted(copies.counts.tolist()) == [3.0, 4.0, 4.0]
    np.testing.assert_allclose(copies.mean(), samples.mean(axis=0), atol=1e-12)
    whole = copies.counts.sum() * copies.mean() - copies.counts[1] * copies.means[1]
    np.testing.assert_allclose(copies.without(1) * (11 - copies.counts[1]), whole, atol=1e-12)
    assert len(folded(samples, 50)) == 11


def test_errors_are_those_of_the_answers():
    copies = thinned(M, 0.5, 3)
    judged = held_out(copies, GRID, folds=2, tol=1e-3)
    errors = judged.errors(debias=False)
    assert errors.shape == (2, 4, 4)
    k, i, j = 1, 2, 1
    path = regularization_path(
        wp.losses.Denoising(copies.without(k)), copies.louder(k) * GRID.lams, GRID.taus
    )
    X = path.answers[i][j].dense()
    expected = np.mean((X - copies.means[k]) ** 2)
    assert errors[k, i, j] == pytest.approx(expected, rel=1e-6)
    scale = judged.scales()[i, j]
    assert scale > 1.0
    better = np.mean((scale * X - copies.means[k]) ** 2)
    assert judged.errors()[k, i, j] == pytest.approx(better, rel=1e-6)
    assert (judged.scales(debias=False) == 1.0).all()


def test_some_of_the_copies():
    copies = thinned(M, 0.5, 4)
    small = default_grid(M, 0.5, n_lams=2, n_taus=2)
    every = held_out(copies, small)
    parts = [held_out(copies, small, folds=2), held_out(copies, small, folds=[2, 3])]
    joined = HeldOut.joined(parts, folds=True)
    for name in ("along", "squares", "constants"):
        np.testing.assert_allclose(getattr(joined, name), getattr(every, name), rtol=1e-9)


def test_the_choice_is_nearly_that_of_an_oracle():
    copies = thinned(M, 0.5, 5)
    judged = held_out(copies, GRID)
    path = regularization_path(wp.losses.Denoising(M), GRID.lams, GRID.taus)
    scales = judged.scales()
    truth = np.array(
        [
            [
                np.sum((scales[i, j] * path.answers[i][j].dense() - SIGNAL) ** 2)
                for j in range(4)
            ]
            for i in range(4)
        ]
    )
    chosen = truth[path.best(judged.errors())[:2]]
    assert chosen <= 1.3 * truth.min()
    assert chosen < 0.5 * np.median(truth)


def test_symmetric_copies():
    rng = np.random.default_rng(0)
    u = np.where(rng.random(20) < 0.4, 2.0, 0.0)
    noisy = [np.outer(u, u) + (lambda e: e + e.T)(rng.standard_normal((20, 20))) for _ in "abc"]
    copies = Copies(np.array(noisy), np.ones(3))
    judged = held_out(copies, default_grid(copies.mean(), psd=True), spectral=TracePSD, folds=1)
    assert np.isfinite(judged.errors()).all()


def test_jobs_find_the_same():
    copies = thinned(M[:20, :15], 0.5, 2)
    small = default_grid(M[:20, :15], 0.5, n_lams=3, n_taus=3)
    one, two = held_out(copies, small), held_out(copies, small, n_jobs=2)
    np.testing.assert_allclose(one.along, two.along, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: thinned(M, -1.0), "noise"),
        (lambda: thinned(M, "gauss"), "noise"),
        (lambda: thinned(M, 1.0, 1), "copies"),
        (lambda: thinned(M, "poisson"), "M"),
        (lambda: thinned(-np.ones((2, 2)), "poisson"), "M"),
        (lambda: thinned(np.ones((2, 2)), "poisson", 1), "copies"),
        (lambda: folded(M), "samples"),
        (lambda: folded(M[None]), "samples"),
        (lambda: folded(np.full((3, 2, 2), np.nan)), "samples"),
        (lambda: folded(np.zeros((3, 2, 2)), 1), "folds"),
        (lambda: held_out(thinned(M, 1.0), GRID, folds=0), "folds"),
        (lambda: held_out(thinned(M, 1.0), GRID, folds=[]), "folds"),
        (lambda: held_out(thinned(M, 1.0), GRID, folds=[1, 1]), "folds"),
        (lambda: held_out(thinned(M, 1.0), GRID, folds=[0, 5]), "folds"),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(wp.InputError) as caught:
        call()
    assert caught.value.argument == argument


def test_refits_are_joined_by_points_or_by_copies():
    rng = np.random.default_rng(0)
    (along, squares), constants, refits = (
        rng.random((2, 4, 6, 1)),
        rng.random(4),
        rng.random((3, 4, 6, 1)),
    )
    whole = HeldOut(along, squares, constants, 9, refits)
    rest = HeldOut(along[3:], squares[3:], constants[3:], 9, refits[:, 3:])
    by_points = HeldOut.joined([whole.some([0, 1]), whole.some([2, 3, 4, 5])], folds=False)
    by_copies = HeldOut.joined([whole.first(3), rest], folds=True)
    for joined in (by_points, by_copies):
        for name in ("along", "squares", "constants", "refits"):
            np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
