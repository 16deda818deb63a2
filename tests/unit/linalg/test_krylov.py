"""Krylov spaces: accurate Ritz pairs, and no product made twice."""

from __future__ import annotations

import numpy as np
import pytest

from weakprox.linalg.krylov import KrylovSpace


def symmetric(size, seed=0):
    M = np.random.default_rng(seed).standard_normal((size, size))
    return M + M.T


def space_of(A, rng, **settings):
    """A space of A, and the list of the widths of all blocks that A was multiplied with."""
    multiplied = []

    def times(B):
        multiplied.append(B.shape[1])
        return A @ B

    settings = {"most": len(A), "block": 8, **settings}
    return KrylovSpace(times, len(A), rng=rng, **settings), multiplied


def test_ritz_pairs_have_the_residuals_that_are_reported(rng):
    A = symmetric(120)
    space, _ = space_of(A, rng)
    space.extend(80)
    values, W, residuals = space.ritz()
    V = space.vectors(W)
    assert np.abs(V.T @ V - np.eye(80)).max() < 1e-13
    assert np.linalg.norm(A @ V - V * values, axis=0) == pytest.approx(residuals, abs=1e-12)
    assert np.all(np.diff(np.abs(values)) <= 0)


def test_leading_values_converge_first(rng):
    A = symmetric(120)
    exact = np.linalg.eigvalsh(A)
    exact = exact[np.argsort(-np.abs(exact))]
    space, _ = space_of(A, rng)
    space.extend(96)
    assert space.ritz()[0][:5] == pytest.approx(exact[:5], rel=1e-4)
    space.extend(120)
    assert space.complete
    values, _, residuals = space.ritz()
    assert values == pytest.approx(exact, abs=1e-10)
    assert not residuals.any()


def test_extending_multiplies_new_vectors_only(rng):
    space, multiplied = space_of(symmetric(200), rng)
    space.extend(64)
    space.ritz()
    assert sum(multiplied) == space.width == 64
    space.extend(100)
    assert sum(multiplied) == space.width == 104
    space.extend(50)
    assert sum(multiplied) == 104


def test_at_most_as_many_vectors_as_allowed(rng):
    space, multiplied = space_of(symmetric(200), rng, most=30)
    space.extend(1000)
    assert space.complete
    assert sum(multiplied) == 32  # whole blocks


def test_finds_the_rest_of_a_matrix_beyond_an_invariant_space(rng):
    A = np.diag(np.repeat([3.0, 2.0, 1.0, 0.0], [20, 10, 5, 15]))
    space, _ = space_of(A, rng, block=4)
    space.extend(50)
    values, W, _ = space.ritz()
    assert values == pytest.approx(np.diag(A), abs=1e-12)
    V = space.vectors(W)
    assert np.abs(V.T @ V - np.eye(50)).max() < 1e-12


def test_the_basis_stays_orthonormal_where_values_are_nearly_equal():
    """Some directions of a block are then much smaller than others."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((300, 300)))[0]
    exact = np.concatenate([1.0 + 0.1 * rng.random(100), 0.02 * rng.random(200)])
    A = (Q * exact) @ Q.T
    space, _ = space_of(0.5 * (A + A.T), rng)
    space.extend(208)
    V = space.vectors(np.eye(208))
    assert np.abs(V.T @ V - np.eye(208)).max() < 1e-10
    assert space.ritz()[0][:100] == pytest.approx(np.sort(exact)[:-101:-1], rel=1e-6)
