"""Refits that undo shrinkage: nearest points, and shares that unseen data like best."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from selection._signals import sparse_low_rank

from weakprox.errors import InputError
from weakprox.linalg.lowrank import LowRank
from weakprox.selection._held_out import held_out
from weakprox.selection.copies import thinned
from weakprox.selection.debias import debiasing, refit_values, undone_by
from weakprox.selection.grid import as_grid

SIGNAL, M = sparse_low_rank(20, 16, density=0.5)
SIGNAL, M = 3.0 * SIGNAL, M + 2.0 * SIGNAL
TAUS = [0.4 * np.linalg.norm(SIGNAL, "nuc"), 0.7 * np.linalg.norm(SIGNAL, "nuc")]


def low_rank(rank, shape=(20, 16), seed=1):
    rng = np.random.default_rng(seed)
    U, s, Vt = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    return LowRank(U[:, :rank], s[:rank], Vt[:rank])


def triplets(X):
    """The rank-one matrices of the singular vectors, one in each column."""
    return np.stack([np.outer(u, v).ravel() for u, v in zip(X.U.T, X.Vt, strict=True)], axis=1)


def test_the_refit_is_nearest_to_the_data():
    X = low_rank(4)
    free = np.linalg.lstsq(triplets(X), M.ravel(), rcond=None)[0]
    assert (free < 0.0).any()  # so that the bound matters
    np.testing.assert_allclose(refit_values(X, M), np.maximum(free, 0.0), atol=1e-10)
    np.testing.assert_array_equal(refit_values(LowRank.zero((20, 16), M), M), [0.0])


@pytest.mark.parametrize("lam", [0.0, 0.2])
def test_shares_are_the_best_on_unseen_copies(lam):
    copies, grid = thinned(M, 0.5, 3), as_grid([lam], TAUS)
    found = held_out(copies, grid, refit=True, tol=1e-8)
    c, w = found.shares("auto")
    plain, scaled, chosen = (found.errors(debias=d).mean(axis=0) for d in (False, True, "auto"))
    assert (chosen <= scaled).all()
    assert (scaled <= plain).all()
    assert (w > 0.0).any()
    np.testing.assert_array_equal(c + w == 1.0, w > 0.0)
    if lam:
        return
    for j, tau in enumerate(grid.taus[0]):  # without an l1 norm, answers have closed forms
        pairs = []
        for k in range(3):
            U, s, Vt = np.linalg.svd(copies.without(k), full_matrices=False)
            cut = brentq(lambda t, s=s, tau=tau: np.maximum(s - t, 0.0).sum() - tau, 0.0, s[0])
            X, R = ((U * v) @ Vt for v in (np.maximum(s - cut, 0.0), s * (s > cut)))
            pairs.append((X, R, copies.means[k]))

        def error(w, pairs=pairs):
            return np.mean([np.mean((X + w * (R - X) - Z) ** 2) for X, R, Z in pairs])

        best = minimize_scalar(error, bounds=(0.0, 1.0), method="bounded")
        assert chosen[0, j] == pytest.approx(min(best.fun, scaled[0, j]), rel=1e-3)


def test_without_refits_auto_is_the_factor():
    found = held_out(thinned(M, 0.5, 3), as_grid([0.2], [15.0]))
    np.testing.assert_array_equal(found.errors(debias="auto"), found.errors(debias=True))


def test_settings():
    assert [debiasing("debias", each) for each in (True, False, "auto")] == [
        True,
        False,
        "auto",
    ]
    for wrong in ("refit", 1.5, None):
        with pytest.raises(InputError, match="debias"):
            debiasing("debias", wrong)
    said = [undone_by(*shares) for shares in ((1.0, 0.0), (1.2, 0.0), (0.4, 0.6))]
    assert said == ["none", "scale", "refit"]
