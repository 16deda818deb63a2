"""First points of FilledProximal: ridge regressions, and strong factors in the holes."""

import numpy as np
import pytest

import weakprox as wp
from weakprox.losses import Completion
from weakprox.losses.filled import Filled
from weakprox.solvers._ridge_sweeps import _regressed, strong_factors


def completed(shape, intercepts, noise=0.01):
    """Two strong factors with 30 % of the entries missing, and all entries without noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    X -= X.mean(axis=0)
    X -= X.mean(axis=1, keepdims=True)
    a = rng.standard_normal((shape[0], 1)) * (intercepts in ("rows", "both"))
    b = rng.standard_normal(shape[1]) * (intercepts in ("columns", "both"))
    rows, cols = np.nonzero(rng.random(shape) < 0.7)
    values = (X + a + b + noise * rng.standard_normal(shape))[rows, cols]
    return Filled.of(Completion(rows, cols, values, shape, intercepts=intercepts).observed()), X


@pytest.mark.parametrize("free", [False, True])
def test_rows_solve_ridge_regressions(free):
    rng = np.random.default_rng(1)
    seen = (rng.random((6, 9)) < 0.7).astype(float)
    Y, B, b = rng.standard_normal((6, 9)) * seen, rng.standard_normal((9, 2)), np.arange(9.0)
    A, a = _regressed(seen, Y, B, b, 0.5, free=free)
    for i in range(6):
        at = seen[i] > 0.0
        Z = np.column_stack([B[at], np.ones(at.sum())]) if free else B[at]
        ridge = np.diag([0.5, 0.5, 0.0][: Z.shape[1]])
        found = np.linalg.solve(Z.T @ Z + ridge, Z.T @ (Y[i, at] - b[at]))
        assert A[i] == pytest.approx(found[:2], rel=1e-6)
        assert a[i] == pytest.approx(found[2] if free else 0.0, rel=1e-6)


@pytest.mark.parametrize("intercepts", ["none", "rows", "columns", "both"])
@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_strong_factors_fill_the_holes(shape, intercepts):
    filled, X = completed(shape, intercepts)
    found = filled.point(strong_factors(filled, 0.3)).dense()
    for axis, by in ((1, filled.data.by_rows), (0, filled.data.by_columns)):
        if by:
            found -= found.mean(axis=axis, keepdims=True)
    assert np.linalg.norm(found - X) < 0.1 * np.linalg.norm(X)


def test_a_row_without_entries_and_a_weight_above_all_factors():
    filled, _ = completed((30, 20), "both")
    assert strong_factors(filled, 1e3) is None
    rows, cols = np.nonzero(np.random.default_rng(2).random((30, 20)) < 0.7)
    kept = (rows > 0) & (cols > 0)
    rows, cols = rows[kept], cols[kept]
    loss = Completion(rows, cols, np.cos(rows * cols), (30, 20), intercepts="both")
    assert np.isfinite(strong_factors(Filled.of(loss.observed()), 0.1).dense()).all()


def sparse_row(weight):
    rng = np.random.default_rng(3)
    M = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 20))
    seen = rng.random(M.shape) < 0.8
    seen[0] = np.arange(20) == 0
    rows, columns = np.nonzero(seen)
    loss = wp.losses.Completion(rows, columns, M[seen], M.shape)
    return wp.Problem(loss, None, wp.spectral.NuclearNorm(weight))


@pytest.mark.parametrize("weight", [1e-15, 1e-16, 1e-17])
def test_ridges_lost_in_rounding_do_no_harm(weight):
    result = wp.minimize(sparse_row(weight), "filled-proximal", max_seconds=2.0, progress=False)
    assert np.isfinite(result.value)


def test_the_first_point_respects_the_rank():
    problem = sparse_row(1e-3)
    result = wp.minimize(problem, "filled-proximal", rank=1, max_svds=0, progress=False)
    assert result.rank <= 1
