"""Sweeps of ridge regressions: their equations, their fixed points and first points."""

import numpy as np
import pytest

import weakprox as wp
from weakprox.losses import Completion
from weakprox.losses.filled import Filled
from weakprox.solvers._ridge_sweeps import RidgeSweeps, Side, _leading, _solved
from weakprox.solvers.filled_proximal import Steps


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


def first_point(filled, cut):
    return RidgeSweeps(filled, cut).first_point()


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kinds", [9, 3])
def test_rows_solve_ridge_regressions(free, kinds):
    rng = np.random.default_rng(1)
    seen = (rng.random((kinds, 7)) < 0.7)[np.arange(9) % kinds]
    R = rng.standard_normal((9, 7)) * seen
    A, B = rng.standard_normal((9, 2)), rng.standard_normal((7, 2))
    side = Side.of(seen, free=free)
    assert (side.kind is None) == (kinds == 9)
    after, step, Z = side.regressed(R, A, B, 0.5)
    assert Z.shape == (7, 2 + free)
    for i in range(9):
        at = seen[i]
        ridge = np.diag([0.5, 0.5, 0.0][: Z.shape[1]])
        own = np.concatenate([A[i], [0.0] * free])
        right = Z[at].T @ R[i, at] - ridge @ own
        found = np.linalg.solve(Z[at].T @ Z[at] + ridge, right)
        assert step[i] == pytest.approx(found, rel=1e-4)
        assert after[i] == pytest.approx(A[i] + step[i, :2])


def late(shape, intercepts):
    """A panel whose rows lack up to nine tenths of their entries, at the end."""
    rng = np.random.default_rng(4)
    Y = 3.0 * rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    Y += rng.standard_normal(shape) + rng.standard_normal((shape[0], 1))
    first = rng.integers(shape[1] // 10, 2 * shape[1], shape[0])
    rows, cols = np.nonzero(np.arange(shape[1]) < first[:, None])
    loss = Completion(rows, cols, Y[rows, cols], shape, intercepts=intercepts)
    return wp.Problem(loss, None, wp.spectral.NuclearNorm(8.0))


@pytest.mark.parametrize("intercepts", ["none", "rows", "columns", "both"])
@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_sweeps_leave_a_solution_as_it_is(shape, intercepts):
    problem = late(shape, intercepts)
    result = wp.minimize(problem, "filled-proximal", tol=1e-11, progress=False)
    steps = Steps.of(problem, None)
    V = steps.filled.point(result.low_rank)
    fill, _ = steps.filled.after(X := V.dense())
    roots, strong = np.sqrt(V.s), steps.sweeps.strong(V.s + 8.0)
    A, B = ((F * roots)[:, :strong] for F in (V.U, V.Vt.T))
    left, right, *_ = steps.sweeps.swept(A, B, steps.filled.residual(X, fill))
    assert strong >= 2
    assert np.linalg.norm(left - A) < 1e-4 * np.linalg.norm(A)
    assert np.linalg.norm(right - B) < 1e-4 * np.linalg.norm(B)


def test_sweeps_save_steps_where_rows_lack_most_entries(monkeypatch):
    problem = late((120, 60), "both")
    assert Steps.of(problem, None).sweeps.needed
    swept = wp.minimize(problem, "filled-proximal", tol=1e-6, progress=False)
    monkeypatch.setattr(RidgeSweeps, "needed", False)
    plain = wp.minimize(problem, "filled-proximal", tol=1e-6, progress=False)
    assert swept.certified
    assert plain.certified
    assert swept.value == pytest.approx(plain.value, rel=2e-6)
    assert 2 * swept.counts.svds < plain.counts.svds


def test_sweeps_are_left_out_where_all_rows_have_most_entries():
    assert not RidgeSweeps(completed((60, 40), "both")[0], 1.0).needed


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
@pytest.mark.parametrize("few", [np.s_[0, 2:], np.s_[2:, 0]], ids=["row", "column"])
def test_one_row_or_column_with_few_entries_asks_for_sweeps(shape, few):
    seen = np.ones(shape, bool)
    seen[few] = False
    rows, cols = np.nonzero(seen)
    data = Completion(rows, cols, np.cos(rows * cols), shape).observed()
    assert RidgeSweeps(Filled.of(data), 1.0).needed


@pytest.mark.parametrize("intercepts", ["none", "rows", "columns", "both"])
@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_strong_factors_fill_the_holes(shape, intercepts):
    filled, X = completed(shape, intercepts)
    found = filled.point(first_point(filled, 0.3)).dense()
    for axis, by in ((1, filled.data.by_rows), (0, filled.data.by_columns)):
        if by:
            found -= found.mean(axis=axis, keepdims=True)
    assert np.linalg.norm(found - X) < 0.1 * np.linalg.norm(X)


def test_factors_that_holes_make_are_dropped_from_the_first_point():
    """Zeros in the holes leave more factors than there are."""
    filled, _ = completed((200, 60), "none")
    with_holes = np.linalg.svd(filled.values, compute_uv=False)
    assert (with_holes > 2.0).sum() > 10
    assert first_point(filled, 1.0).rank == 2


@pytest.mark.parametrize("kind", [None, np.array([1, 0, 1])])
def test_small_systems_are_solved_at_once(kind):
    rng = np.random.default_rng(6)
    count = 3 if kind is None else 2
    F = rng.standard_normal((count, 4, 5))
    G = (F @ F.transpose(0, 2, 1)).astype(np.float32)
    right = rng.standard_normal((4, 3)).astype(np.float32)
    wanted = [
        np.linalg.solve(G[i], right[:, n])
        for n, i in enumerate([0, 1, 2] if kind is None else kind)
    ]
    found = _solved(np.tril(G).transpose(1, 2, 0).copy(), right.copy(), kind)
    np.testing.assert_allclose(found.T, wanted, rtol=1e-2)
    assert not np.isfinite(
        _solved(np.zeros((2, 2, 1), np.float32), np.ones((2, 1), np.float32), None)
    ).all()


def test_a_row_without_entries_and_a_weight_above_all_factors():
    filled, _ = completed((30, 20), "both")
    assert first_point(filled, 1e3) is None
    rows, cols = np.nonzero(np.random.default_rng(2).random((30, 20)) < 0.7)
    kept = (rows > 0) & (cols > 0)
    rows, cols = rows[kept], cols[kept]
    loss = Completion(rows, cols, np.cos(rows * cols), (30, 20), intercepts="both")
    assert np.isfinite(first_point(Filled.of(loss.observed()), 0.1).dense()).all()


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


@pytest.mark.parametrize("unit", [1e-45, 1e-40, 1e40])
def test_leading_vectors_of_arrays_beyond_the_range_of_float32(unit):
    Y = np.random.default_rng(7).standard_normal((30, 12))
    s = _leading(Y)[1]
    found, values = _leading(unit * Y)
    np.testing.assert_allclose(values / unit, s, rtol=1e-4)
    assert np.isfinite(found).all()
