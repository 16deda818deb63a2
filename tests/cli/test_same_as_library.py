"""`weakprox estimate` without settings gives the matrix of `SparseLowRank()`."""

import numpy as np
import pytest

import weakprox as wp

TRUTH = np.random.default_rng(7)


def patterns(shape, rank, noise, seed):
    """Sparse patterns of low rank plus noise."""
    rng = np.random.default_rng(seed)
    m, d = shape
    left = rng.integers(1, 8, (m, rank)) * (rng.random((m, rank)) < 0.3)
    right = rng.integers(1, 8, (d, rank)) * (rng.random((d, rank)) < 0.3)
    return left @ right.T + noise * rng.standard_normal(shape)


def digits():
    """A real matrix: images of digits, a row each."""
    from sklearn.datasets import load_digits

    return load_digits().data[:40]


def iris():
    from sklearn.datasets import load_iris

    X = load_iris().data
    return X - X.mean(axis=0)


MATRICES = {
    "small": lambda: patterns((24, 18), 2, 1.0, 3),
    "tall": lambda: patterns((60, 12), 2, 1.0, 4),
    "wide": lambda: patterns((15, 50), 3, 1.0, 5),
    "little noise": lambda: patterns((30, 30), 2, 0.1, 6),
    "much noise": lambda: patterns((30, 30), 2, 8.0, 7),
    "rank one": lambda: patterns((40, 20), 1, 1.0, 8),
    "single precision": lambda: patterns((20, 15), 2, 1.0, 9).astype(np.float32),
    "noise alone": lambda: np.random.default_rng(10).standard_normal((12, 10)),
    "digits": digits,
    "iris": iris,
}


MORE = (
    "tall",
    "much noise",
    "rank one",
    "wide",
    "noise alone",
)  # show little beyond the others


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.long] * (x in MORE)) for x in MATRICES]
)
def test_the_same_answer(name, folder, weakprox):
    M = MATRICES[name]()
    np.save("in.npy", M)
    done = weakprox("estimate", "in.npy", "-o", "out.npy", "--quiet")
    assert done.exit_code == 0, done.stderr
    model = wp.SparseLowRank(random_state=0).fit(M)
    found = np.load("out.npy")
    assert found.dtype == model.matrix_.dtype
    size = max(1.0, float(np.abs(model.matrix_).max()))
    np.testing.assert_allclose(found, model.matrix_, atol=1e-6 * size)


def test_a_rank_and_one_weight(folder, weakprox, matrix):
    weakprox("estimate", "m.npy", "-o", "out.npy", "--rank", 1, "--lam", 2, "--quiet")
    model = wp.SparseLowRank(2.0, rank=1, random_state=0).fit(matrix)
    np.testing.assert_allclose(np.load("out.npy"), model.matrix_, atol=1e-6)
