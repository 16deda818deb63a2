"""Paths over the weight of the nuclear norm for observed entries."""

import numpy as np
import pytest

import weakprox as wp
from weakprox import InputError, LowRank
from weakprox.losses import Completion
from weakprox.selection import observed_path
from weakprox.selection._observed_path import filled_point, held_out_entries, zero_weight
from weakprox.selection.search import Deadline
from weakprox.spectral import NuclearNorm


def planted(seed=0, shape=(50, 40), rank=2, noise=0.5, share=0.5, **options):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    rows, cols = np.nonzero(rng.random(shape) < share)
    values = 3.0 + L[rows, cols] + noise * rng.standard_normal(len(rows))
    return L, Completion(rows, cols, values, shape, intercepts="both", **options)


def test_the_first_weight_is_the_least_at_which_x_is_zero():
    _, loss = planted(intercept_ridge=1.0)
    data = loss.observed()
    q = data.dual(0.0 * data.values, data.fitted(0.0 * data.values))
    S = np.zeros(loss.shape)
    S[data.pattern.rows, data.pattern.columns] = q
    top = zero_weight(loss)
    assert top == pytest.approx(np.linalg.norm(S, 2), rel=1e-3)
    assert top >= np.linalg.norm(S, 2)
    assert "_by_columns" not in vars(data.pattern)  # lists that take as much as the data
    at, below = (
        wp.minimize(wp.Problem(loss, None, NuclearNorm(f * top)), progress=False)
        for f in (1.0, 0.9)
    )
    assert at.rank == 0
    assert below.rank > 0


def test_there_is_no_first_weight_if_intercepts_explain_everything():
    rows, cols = np.nonzero(np.ones((6, 5)))
    loss = Completion(rows, cols, 0.3 + rows + 0.1 * cols, (6, 5), intercepts="both")
    assert zero_weight(loss) == 0.0


def test_a_path_finds_a_weight_that_predicts_and_its_problem_is_solved():
    L, loss = planted()
    path = observed_path(loss, seed=1)
    assert np.allclose(path.lams[1:] / path.lams[:-1], 0.5**0.5)
    assert path.lams[0] == pytest.approx(zero_weight(loss, 1))
    assert path.ranks[0, 0] == 0
    best = int(np.argmin(path.errors[0]))
    assert path.lam == path.lams[best]
    assert 0 < best < len(path.lams) - 1
    assert path.errors[0, best] < 0.25 * path.errors[0, 0]
    result = path.solve(tol=1e-3, progress=False)
    assert result.certified
    everywhere = loss.predict(result.low_rank, *np.divmod(np.arange(L.size), L.shape[1]))
    assert np.mean((everywhere - 3.0 - L.ravel()) ** 2) < 0.2 * np.var(L)


def test_folds_give_a_standard_error_and_a_simpler_answer():
    _, loss = planted(noise=1.5)
    plain, simple = (observed_path(loss, cv=4, one_standard_error=x) for x in (False, True))
    assert plain.errors.shape == (4, len(plain.lams))
    assert simple.lam >= plain.lam
    keys = {"params", "param_lam", "mean_test_score", "std_test_score", "rank_test_score"}
    assert keys | {f"split{k}_test_score" for k in range(4)} == set(plain.cv_results)
    assert plain.cv_results["rank_test_score"][list(plain.lams).index(plain.lam)] == 1


def test_held_out_observations_are_left_out_of_fits():
    _, loss = planted()
    parts = held_out_entries(loss, 3, seed=0)
    hidden = np.stack([part.hidden for part in parts])
    assert np.array_equal(hidden.sum(axis=0), np.ones(loss.n_terms))
    kept = parts[0].kept()
    assert kept.n_terms == loss.n_terms - hidden[0].sum()
    data, whole = kept.observed(), loss.observed()
    assert np.array_equal(data.values, whole.values[~hidden[0]])
    assert np.array_equal(data.pattern.rows, whole.pattern.rows[~hidden[0]])


def test_shrinkage_is_undone_by_the_factor_that_predicts_best():
    L, loss = planted(noise=0.1)
    part = held_out_entries(loss, 0.2, seed=0)[0]
    U, s, Vt = np.linalg.svd(L, full_matrices=False)
    X = LowRank(U[:, :2], 0.5 * s[:2], Vt[:2])
    effects = part.kept().observed().zero()._replace(mean=3.0)
    plain, one = part.error(part.kept(), X, effects)
    better, factor = part.error(part.kept(), X, effects, debias=True)
    assert one == 1.0
    assert factor == pytest.approx(2.0, abs=0.05)
    assert better < 0.1 * plain


def test_a_part_of_a_loss_keeps_weights_and_scalings():
    rng = np.random.default_rng(3)
    rows, cols, values = rng.integers(0, 9, 60), rng.integers(0, 7, 60), rng.random(60)
    weights, scaling = rng.random(60) + 0.5, (np.arange(1.0, 10.0), np.arange(1.0, 8.0))
    options = {"intercepts": "rows", "scaling": scaling, "reduction": "mean"}
    keep = rng.random(60) < 0.6
    whole = Completion(rows, cols, values, (9, 7), weights=weights, **options)
    order = np.lexsort((cols, rows))  # that of the observations
    chosen = np.zeros(60, bool)
    chosen[keep] = True
    part = whole.part(chosen[order], intercept_ridge=0.5)
    told = [x[order][chosen[order]] for x in (rows, cols, values, weights)]
    again = Completion(*told[:3], (9, 7), weights=told[3], intercept_ridge=0.5, **options)
    X = rng.standard_normal((9, 7))
    assert part.value(X, slice(None)) == pytest.approx(again.value(X, slice(None)), rel=1e-12)
    assert np.allclose(part.grad(X, slice(None)), again.grad(X, slice(None)))


def test_a_first_point_in_factors_is_never_made_dense():
    rng, shape = np.random.default_rng(0), (60_000, 50_000)
    rows, cols = rng.integers(0, shape[0], 2000), rng.integers(0, shape[1], 2000)
    loss = Completion(rows, cols, rng.standard_normal(2000), shape)
    first = LowRank.zero(shape, np.empty(0))
    problem = wp.Problem(loss, None, NuclearNorm(2.0 * zero_weight(loss)))
    assert wp.minimize(problem, start=first, tol=0.1, progress=False).certified


def test_first_points_in_factors_are_checked():
    _, loss = planted()
    problem = wp.Problem(loss, None, wp.spectral.NuclearBall(1.0))
    U, s, Vt = np.linalg.svd(np.ones(loss.shape), full_matrices=False)
    for factors, words in (
        (LowRank(U, s, Vt), "outside the set"),
        (LowRank(U, s * np.nan, Vt), "NaN"),
        (LowRank(U[:-1], s, Vt), "shape"),
    ):
        with pytest.raises(InputError, match=words):
            wp.minimize(problem, start=factors, progress=False)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"cv": 1}, "cv"),
        ({"cv": 1.2}, "cv"),
        ({"lams": [1.0, -1.0]}, "lams"),
        ({"patience": 0}, "patience"),
        ({"one_standard_error": "yes"}, "one_standard_error"),
        ({"tol": 0.0}, "tol"),
    ],
)
def test_settings_are_checked(settings, argument):
    with pytest.raises(InputError, match=argument):
        observed_path(planted()[1], **settings)


def test_points_of_a_path_on_an_array_are_nearly_optimal():
    problem = wp.Problem(planted(shape=(60, 50))[1], None, NuclearNorm(3.0))
    X, effects = filled_point(problem, None, tol=1e-6, rank=None, deadline=Deadline())
    data, best = problem.observed, wp.minimize(problem, tol=1e-8)
    value = data.value(data.entries(X), effects) + 3.0 * X.s.sum()
    assert value == pytest.approx(best.value, rel=1e-5)
