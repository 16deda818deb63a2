"""Completion: naive formulas, repeated entries, exact constants."""

import copy
import pickle
import tracemalloc
import weakref

import numpy as np
import pytest
import scipy.sparse
from registry import COLS, DOUBLE, HOLES, OBSERVED, ROWS, SHAPE, numbers

import weakprox as wp
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import LowRank
from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Completion, Huber
from weakprox.losses import observed as observations
from weakprox.losses.entry_losses import entry_loss
from weakprox.passes import compiling
from weakprox.penalties import MaxAffine
from weakprox.spectral import NuclearBall

X = numbers(*SHAPE, seed=90)
by_backend = pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
by_reduction = pytest.mark.parametrize(("reduction", "scale"), [("sum", 1.0), ("mean", 1 / 50)])


def naive_grad(X, rows, cols, values):
    G = np.zeros_like(X)
    for i, j, v in zip(rows, cols, values, strict=True):
        G[i, j] += X[i, j] - v
    return G


@by_backend
@by_reduction
def test_value_and_gradient(backend, reduction, scale):
    loss = Completion(ROWS, COLS, backend.array(OBSERVED), SHAPE, reduction=reduction)
    Xb, batch = backend.array(X), loss.everything()
    r = X[ROWS, COLS] - OBSERVED
    assert loss.n_terms == 50
    assert loss.value(Xb, batch) == pytest.approx(scale * 0.5 * (r**2).sum())
    assert to_numpy(loss.grad(Xb, batch)) == pytest.approx(
        scale * naive_grad(X, ROWS, COLS, OBSERVED)
    )


@by_reduction
def test_constants_count_repeated_entries(reduction, scale):
    loss = Completion(ROWS, COLS, OBSERVED, SHAPE, reduction=reduction)
    counts = np.zeros(SHAPE)
    np.add.at(counts, (ROWS, COLS), 1)
    assert counts.max() > 1  # the instance has repeats
    assert loss.smoothness == pytest.approx(scale * counts.max())
    assert loss.strong_convexity == pytest.approx(scale * counts.min())
    assert loss.term_smoothness == pytest.approx(50 * scale)


@by_reduction
def test_spread_is_the_variance_of_the_terms(reduction, scale):
    loss = Completion(ROWS, COLS, OBSERVED, SHAPE, reduction=reduction)
    grads = np.zeros((50, *SHAPE))
    for k, (i, j) in enumerate(zip(ROWS, COLS, strict=True)):
        grads[k, i, j] = 50 * scale * (X[i, j] - OBSERVED[k])
    wanted = ((grads - grads.mean(axis=0)) ** 2).sum() / 49
    assert loss.spread(X, loss.everything()) == pytest.approx(wanted)


def test_every_entry_observed_is_denoising():
    rows, cols = np.divmod(np.arange(35), 5)
    loss = Completion(rows, cols, numbers(*SHAPE).ravel(), SHAPE)
    assert loss.strong_convexity == loss.smoothness == 1.0
    assert loss.grad(X, loss.everything()) == pytest.approx(X - numbers(*SHAPE))


@by_backend
def test_from_dense_skips_what_is_missing(backend):
    loss = Completion.from_dense(backend.array(HOLES))
    seen = ~np.isnan(HOLES)
    assert loss.n_terms == seen.sum()
    G = to_numpy(loss.grad(backend.array(X), loss.everything()))
    assert G[seen] == pytest.approx((X - HOLES)[seen])
    assert (G[~seen] == 0).all()
    assert backend.owns(loss.reference)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_from_sparse_takes_stored_entries(dtype):
    M = scipy.sparse.coo_array(
        (np.array([1, 0, 3], dtype=dtype), ([0, 2, 6], [1, 2, 4])), shape=SHAPE
    )
    loss = Completion.from_sparse(M)
    assert loss.n_terms == 3  # the stored zero is an observation
    assert loss.value(np.zeros(SHAPE), loss.everything()) == pytest.approx(5.0)
    wanted = np.float32 if dtype == np.float32 else np.float64
    assert loss.reference.dtype == wanted


def test_options_reach_the_constructor():
    loss = Completion.from_dense(HOLES, reduction="mean", sigma=2.0)
    assert loss.sigma == 2.0
    assert loss.smoothness == pytest.approx(1 / loss.n_terms)


@by_backend
def test_draws_are_terms(backend):
    """Terms are in the order of rows, then of columns."""
    loss = Completion(ROWS, COLS, backend.array(OBSERVED), SHAPE)
    order = np.lexsort((COLS, ROWS))
    rows, cols, seen = ROWS[order], COLS[order], OBSERVED[order]
    batch = loss.draw(np.random.default_rng(4), 6)
    r = X[rows[batch], cols[batch]] - seen[batch]
    assert loss.value(backend.array(X), batch) == pytest.approx(50 * 0.5 * (r**2).mean())
    assert to_numpy(loss.grad(backend.array(X), batch)) == pytest.approx(
        50 / 6 * naive_grad(X, rows[batch], cols[batch], seen[batch])
    )


# weights, scalings, intercepts and other losses, against dense formulas

W = np.random.default_rng(7).uniform(0.5, 2.0, 50)
SCALES = np.linspace(0.5, 2.0, SHAPE[0]), np.linspace(1.5, 0.7, SHAPE[1])
by_loss = pytest.mark.parametrize("kind", ["squared", "logistic", "poisson", Huber(0.4)])
by_intercepts = pytest.mark.parametrize(
    ("intercepts", "ridge"), [("none", 0.0), ("rows", 0.0), ("columns", 0.3), ("both", 0.0)]
)


def observed(kind):
    """Values that suit the loss."""
    if kind == "logistic":
        return (OBSERVED > 0).astype(float)
    return np.round(np.exp(OBSERVED)) if kind == "poisson" else OBSERVED


def fitted(kind, intercepts, ridge, **options):
    options = {"intercepts": intercepts, "intercept_ridge": ridge, **options}
    return Completion(ROWS, COLS, observed(kind), SHAPE, loss=kind, **options)


def dense_value(kind, X, mean, a, b, ridge, weights):
    """G before the minimum over intercepts, by its definition."""
    L = X / np.outer(*SCALES) + mean + a[:, None] + b
    terms = entry_loss(kind).value(observed(kind), L[ROWS, COLS])
    return float((weights * terms).sum() + ridge / 2 * ((a**2).sum() + (b**2).sum()))


@by_loss
@by_intercepts
@by_reduction
def test_intercepts_are_the_best_ones(kind, intercepts, ridge, reduction, scale):
    loss = fitted(kind, intercepts, ridge, weights=W, scaling=SCALES, reduction=reduction)
    effects, weights = loss.effects(X), W * scale
    best = loss.value(X, loss.everything())
    a, b = effects.rows, effects.columns
    assert best == pytest.approx(dense_value(kind, X, effects.mean, a, b, ridge, weights))
    assert (a == 0).all() == (intercepts in ("none", "columns"))
    rng = np.random.default_rng(1)
    for size in (1e-3, 0.1) if intercepts != "none" else ():
        da = size * rng.standard_normal(SHAPE[0]) * (intercepts in ("rows", "both"))
        db = size * rng.standard_normal(SHAPE[1]) * (intercepts in ("columns", "both"))
        dm = size * rng.standard_normal()
        moved = dense_value(kind, X, effects.mean + dm, a + da, b + db, ridge, weights)
        assert moved >= best - 1e-12 * abs(best)


@by_loss
@by_intercepts
def test_gradients_are_those_of_the_value(kind, intercepts, ridge):
    loss = fitted(kind, intercepts, ridge, weights=W, scaling=SCALES)
    batch, step, D = loss.everything(), 1e-5, numbers(*SHAPE, seed=91)
    ahead, behind = (loss.value(X + sign * step * D, batch) for sign in (1, -1))
    slope = float((loss.grad(X, batch) * D).sum())
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-6)
    if kind != "poisson":  # whose curvature has no bound
        bend = (ahead + behind - 2 * loss.value(X, batch)) / step**2
        assert bend <= 1.01 * loss.smoothness * (D**2).sum() + 1e-3


@by_intercepts
def test_factors_give_what_the_matrix_gives(intercepts, ridge):
    loss = fitted("squared", intercepts, ridge, weights=W, scaling="counts")
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    low = LowRank(U, s, Vt)
    data = loss.observed()
    x = data.entries(low)
    assert x == pytest.approx(loss.entries(X))
    assert data.value(x, data.fitted(x)) == pytest.approx(loss.value(X, loss.everything()))
    rows, cols = np.array([0, 6, 3]), np.array([4, 0, 2])
    assert loss.predict(low, rows, cols) == pytest.approx(loss.predict(X, rows, cols))


def test_repeated_observations_count_each_time():
    once = Completion([0, 1], [0, 1], [2.0, 1.0], (3, 2), weights=[2.0, 1.0])
    twice = Completion([1, 0, 0], [1, 0, 0], [1.0, 2.0, 2.0], (3, 2))
    x = numbers(3, 2)
    assert once.value(x, once.everything()) == pytest.approx(twice.value(x, twice.everything()))
    assert once.smoothness == twice.smoothness == 2.0


def test_an_empty_row_predicts_the_mean_and_its_column():
    loss = Completion([0, 0, 2], [0, 1, 1], [1.0, 3.0, 5.0], (3, 3), intercepts="both")
    effects = loss.effects(np.zeros((3, 3)))
    found = loss.predict(np.zeros((3, 3)), [0, 2, 1, 1], [0, 1, 0, 2])
    assert found[:2] == pytest.approx([1.0, 5.0])
    assert found[2] == pytest.approx(effects.mean + effects.columns[0])
    assert found[3] == pytest.approx(effects.mean)


def test_masked_arrays_and_observed_zeros():
    M = np.ma.masked_invalid(HOLES)
    loss, other = Completion.from_dense(M), Completion.from_dense(HOLES)
    assert loss.value(X, loss.everything()) == other.value(X, other.everything())
    S = scipy.sparse.csr_array(np.nan_to_num(HOLES))
    zeros = Completion.from_sparse(S, zeros="observed")
    assert zeros.n_terms == X.size
    wanted = ((X - np.nan_to_num(HOLES)) ** 2).sum() / 2
    assert zeros.value(X, zeros.everything()) == pytest.approx(wanted)
    with pytest.raises(InputError, match="zeros"):
        Completion.from_sparse(scipy.sparse.eye_array(100_000), zeros="observed")


def test_wrong_points_and_positions_are_refused():
    loss = Completion(ROWS, COLS, OBSERVED, SHAPE, intercepts="both")
    with pytest.raises(ShapeError, match="X"):
        loss.effects(X.T)
    for rows, cols in (([-1], [0]), ([0], [5]), ([0.5], [0]), ([0, 1], [0])):
        with pytest.raises(InputError, match=r"rows|cols"):
            loss.predict(X, rows, cols)
    with pytest.raises(InputError, match="with intercepts"):
        loss.draw(np.random.default_rng(0), 3)


@pytest.mark.parametrize("kind", ["squared", Huber(0.4)])
def test_another_unit(kind):
    loss = fitted(kind, "both", 0.3, weights=W, scaling=SCALES)
    other = loss.in_unit(4.0)
    found = 16.0 * other.value(X / 4.0, other.everything())
    assert found == pytest.approx(loss.value(X, loss.everything()))


def test_intercepts_of_very_unequal_counts_are_fitted():
    """Damping by the largest curvature must not keep Newton's method from converging."""
    rng = np.random.default_rng(0)
    means = np.exp(2.0 * rng.standard_normal((60, 1)) + 2.0 * rng.standard_normal(40))
    rows, cols = np.divmod(np.arange(means.size), 40)
    y = rng.poisson(means).ravel().astype(float)
    loss = Completion(rows, cols, y, means.shape, loss="poisson", intercepts="both")
    data = loss.observed()
    x = 0.1 * rng.standard_normal(y.size)
    q = data.dual(x, data.fitted(x, data.fitted(0.0 * x)))
    for sums in (data.pattern.row_sums, data.pattern.column_sums):
        assert np.abs(sums(q)).max() <= 1e-9 * sums(np.abs(q)).max()


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("rank", [3, 12])
def test_predictions_at_some_positions_are_those_of_the_product(share, rank, monkeypatch):
    """By a product of all entries, or by pieces of the factors."""
    monkeypatch.setattr("weakprox.losses.observed.PIECE", 40)
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((30, 20)) < share)
    loss = Completion(rows, cols, rng.standard_normal(len(rows)), (30, 20), intercepts="both")
    Q, P = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for n in (30, 20))
    X, (i, j) = LowRank(Q, np.linspace(2.0, 1.0, rank), P.T), rng.integers(0, 20, (2, 50))
    effects = loss.effects(X)
    whole = X.dense() + effects.mean + effects.rows[:, None] + effects.columns
    assert np.allclose(loss.observed().predicted(X, effects, i, j), whole[i, j])


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("shape", [(600, 12), (12, 30)])
def test_most_entries_are_picked_from_blocks_of_products(shape, repeats):
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random(shape) < 0.7)
    if repeats:
        rows, cols = np.append(rows, rows[:5]), np.append(cols, cols[:5])
    data = Completion(rows, cols, np.ones(len(rows)), shape).observed()
    U, V = rng.standard_normal((shape[0], 10)), rng.standard_normal((shape[1], 10))
    wanted = (U @ V.T)[data.pattern.rows, data.pattern.columns]
    assert data.is_full()
    assert data.sampled(U, V) == pytest.approx(wanted)
    for compiled in (False, True):
        with compiling.passes(compiled):
            sums = data.pattern.column_sums(wanted)
            assert sums == pytest.approx(np.bincount(data.pattern.columns, wanted))


def test_observations_in_order_are_copied():
    """The caller may change the arrays afterwards."""
    rows, cols = np.repeat(np.arange(4), 3).astype(np.int32), np.tile(np.arange(3), 4)
    values, cols = np.ones(12), cols.astype(np.int32)
    loss = Completion(rows, cols, values, (4, 3))
    rows[:], cols[:], values[:] = 0, 0, 5.0
    assert loss.value(np.zeros((4, 3)), loss.everything()) == 6.0
    assert loss.observed().pattern.columns.tolist() == [0, 1, 2] * 4


def test_columns_are_sorted_on_first_use():
    loss = Completion(ROWS, COLS, OBSERVED, SHAPE)
    P = loss.observed().pattern
    assert "_by_columns" not in vars(P)
    B = numbers(SHAPE[0], 2, seed=3)
    S = scipy.sparse.coo_array((OBSERVED, (ROWS, COLS)), shape=SHAPE)
    assert P.transpose_times(loss.observed().values, B) == pytest.approx(S.T @ B)
    assert P.columns[P.by_column].tolist() == sorted(COLS)


def test_intercepts_at_the_last_value_are_kept(monkeypatch):
    loss = Completion(ROWS, COLS, OBSERVED, SHAPE, intercepts="both")
    V = LowRank(numbers(SHAPE[0], 1, seed=4), np.ones(1), numbers(1, SHAPE[1], seed=5))
    data, other = loss.observed(), V.leading(1)
    assert data.valued(V) == pytest.approx(loss.value(V.dense(), loss.everything()))
    wanted = loss.effects(other)
    monkeypatch.setattr(type(data), "fitted", None)
    assert loss.effects(V).rows == pytest.approx(wanted.rows)
    with pytest.raises(TypeError):
        loss.effects(other)


def test_the_last_point_is_neither_kept_alive_nor_copied():
    loss = Completion(ROWS, COLS, OBSERVED, SHAPE, intercepts="both")
    V = LowRank(numbers(SHAPE[0], 1, seed=4), np.ones(1), numbers(1, SHAPE[1], seed=5))
    loss.effects(V)  # makes what every fit needs
    alone = len(pickle.dumps(loss))
    loss.observed().valued(V)
    assert len(pickle.dumps(loss)) <= alone
    for other in (copy.copy(loss.observed()), pickle.loads(pickle.dumps(loss)).observed()):
        assert other.effects(V).rows == pytest.approx(loss.effects(V).rows)
    alive = weakref.ref(V)
    del V
    assert alive() is None


FAR = np.array([[263.0, -378.0, 887.0]])


def separated(**options):
    """Classes of three columns, each of which has an intercept of its own."""
    rows, cols = np.zeros(5, dtype=int), np.array([0, 0, 1, 2, 2])
    y = np.array([0.0, 1.0, 1.0, 1.0, 0.0])
    return Completion(rows, cols, y, (1, 3), loss="logistic", **options)


@pytest.mark.parametrize("kind", ["columns", "both"])
@pytest.mark.parametrize("factor", [1.0, -1.0, 10.0])
def test_intercepts_are_found_far_from_the_data(kind, factor):
    # column intercepts undo any X of one row, so G is the same everywhere
    loss = separated(intercepts=kind)
    assert loss.value(factor * FAR, slice(None)) == pytest.approx(4 * np.log(2.0), rel=1e-9)


def test_the_bound_holds_where_intercepts_are_hard_to_find():
    # G is constant, so the optimum is the least of the penalty over the ball
    A = np.array([[[-3410.0, 4908.0, -11507.0]]])
    for kind in ("columns", "both"):
        problem = wp.Problem(separated(intercepts=kind), MaxAffine(A), NuclearBall(1000.0))
        result = wp.minimize(problem, progress=False)
        optimum = 4 * np.log(2.0) - 1000.0 * np.linalg.norm(A)
        assert result.certificate.lower_bound <= optimum + 1e-12 * abs(optimum)
        assert result.value >= optimum - 1e-12 * abs(optimum)


def test_the_affine_function_below_g_stays_below_with_bad_intercepts(monkeypatch):
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((6, 5)) < 0.8)
    y = np.where(rng.random(len(rows)) < 0.5, 1.0, 0.0)
    loss = Completion(rows, cols, y, (6, 5), loss="logistic", intercepts="both")
    X, others = rng.standard_normal((6, 5)), 3.0 * rng.standard_normal((20, 6, 5))
    values = [loss.value(V, slice(None)) for V in others]
    best, _ = loss.tangent(X)
    assert best == pytest.approx(loss.value(X, slice(None)), rel=1e-12)
    monkeypatch.setattr("weakprox.losses.observed.NEWTON", 2)  # far from the best intercepts
    assert loss.value(X, slice(None)) > best + 1e-6
    value, slope = loss.tangent(X)
    assert np.isfinite(value)
    for V, at in zip(others, values, strict=True):
        assert value + float(np.sum(slope * (V - X))) <= at + 1e-9


@pytest.mark.parametrize("intercepts", ["none", "rows", "columns", "both"])
def test_a_mask_gives_the_loss_of_its_entries(intercepts):
    rng = np.random.default_rng(0)
    mask = rng.random((30, 20)) < 0.7
    values = rng.standard_normal(mask.sum())
    listed = Completion(*np.nonzero(mask), values, mask.shape, intercepts=intercepts)
    found = Completion.of_mask(mask, values, intercepts)
    assert found.observed().values is values
    kept = rng.random(len(values)) < 0.9
    X = LowRank(np.eye(30, 9), np.arange(9.0, 0.0, -1.0), np.eye(9, 20))
    for mine, theirs in ((found, listed), (found.part(kept), listed.part(kept))):
        assert mine.observed().pattern.listed is None
        assert mine.n_terms == theirs.n_terms
        assert mine.smoothness == theirs.smoothness
        a, b = mine.observed(), theirs.observed()
        assert np.array_equal(a.values, b.values)
        assert np.allclose(a.entries(X), b.entries(X))
        assert a.valued(X) == pytest.approx(b.value(b.entries(X), b.effects(X)))
        for one, other in zip(a.effects(X), b.fitted(b.entries(X)), strict=True):
            assert np.allclose(one, other)
        assert np.array_equal(a.pattern.columns, b.pattern.columns)
    few = rng.random(len(values)) < 0.2
    assert np.array_equal(found.part(few).observed().values, values[few])
    assert found.part(few).observed().pattern.listed is not None


def test_masks_that_do_not_fit_are_refused():
    mask = np.ones((3, 2), dtype=bool)
    with pytest.raises(ShapeError, match="one for each True entry"):
        Completion.of_mask(mask, np.ones(5))
    with pytest.raises(InputError, match="booleans of two axes"):
        Completion.of_mask(mask.astype(int), np.ones(6))
    few = np.zeros((9, 9), dtype=bool)
    few[0, 1] = True
    assert Completion.of_mask(few, np.ones(1)).observed().pattern.listed is not None


def test_values_of_points_need_one_vector_of_residuals(monkeypatch):
    """Beside the residuals there are blocks of rows only, unless X is small."""
    rng = np.random.default_rng(0)
    mask = rng.random((4000, 60)) < 0.7
    loss = Completion.of_mask(mask, rng.standard_normal(mask.sum()), "both")
    X = LowRank(np.eye(4000, 9), np.arange(9.0, 0.0, -1.0), np.eye(9, 60))
    small = loss.observed().valued(X)
    monkeypatch.setattr(observations, "SMALL", 0)
    tracemalloc.start()
    assert loss.observed().valued(LowRank(X.U, X.s, X.Vt)) == pytest.approx(small, rel=1e-13)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 12 * loss.n_terms


@pytest.mark.parametrize("ordered", [True, False])
def test_predictions_in_blocks_of_rows(ordered, monkeypatch):
    monkeypatch.setattr(observations, "ROWS", 7)
    rng = np.random.default_rng(0)
    mask = rng.random((40, 30)) < 0.7
    loss = Completion.of_mask(mask, rng.standard_normal(mask.sum()), "both")
    X = LowRank(*np.linalg.svd(rng.standard_normal((40, 30)), full_matrices=False))
    rows, columns = np.nonzero(rng.random((40, 30)) < 0.5)
    if not ordered:
        order = rng.permutation(len(rows))
        rows, columns = rows[order], columns[order]
    a = loss.effects(X)
    wanted = X.dense() + a.mean + a.rows[:, None] + a.columns
    assert np.allclose(loss.predict(X, rows, columns), wanted[rows, columns])
