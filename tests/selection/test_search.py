"""The search: paths, warm starts, rules of choice and time limits, on made-up losses."""

import numpy as np
import pytest

from weakprox import InputError
from weakprox.selection.search import (
    Deadline,
    Scores,
    Search,
    Weights,
    clearly_positive,
    deviations,
    least,
    limit,
    near,
)

LOSSES = {1: 5.0, 2: 3.0, 3: 4.0, 4: 3.0, 5: 9.0}


class Recorder:
    """A trial whose loss is known, and which notes what it was started from."""

    def __init__(self):
        self.calls = []

    def __call__(self, fold, candidate, start):
        self.calls.append((fold, candidate, start))
        return LOSSES[candidate] + fold, (fold, candidate)


def test_a_grid_is_tried_fold_by_fold_from_the_last_answer():
    trial = Recorder()
    search = Search([0, 10], trial)
    search.grid([1, 2, 3])
    assert trial.calls == [
        (0, 1, None), (0, 2, (0, 1)), (0, 3, (0, 2)),
        (10, 1, None), (10, 2, (10, 1)), (10, 3, (10, 2)),
    ]  # fmt: skip
    assert search.scores().losses.tolist() == [[5.0, 3.0, 4.0], [15.0, 13.0, 14.0]]


def test_the_data_of_a_fold_are_prepared_once():
    made = []

    def prepare(fold):
        made.append(fold)
        return fold

    search = Search([0, 10], Recorder(), prepare=prepare)
    search.best_of([1, 2])
    search.best_of([3, 2])
    assert made == [0, 10]


@pytest.mark.parametrize(("start", "origin"), [(None, None), ("before", 3), ("best", 2)])
def test_where_trials_start(start, origin):
    trial = Recorder()
    search = Search([0], trial)
    assert search.best_of([1, 2, 3, 5], start=start) == 2
    assert trial.calls[-1] == (0, 5, None if origin is None else (0, origin))
    assert list(search.answers) == [2]


def test_nothing_is_tried_twice_and_ties_follow_the_order():
    trial = Recorder()
    search = Search([0, 1], trial)
    assert search.best_of([1, 2, 3]) == 2
    assert search.best_of([2, 4]) == 2
    assert search.best_of([2, 4], last_of_equals=True) == 4
    assert [candidate for _, candidate, _ in trial.calls] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_patience_ends_a_line():
    trial = Recorder()
    assert Search([0], trial).best_of([2, 1, 3, 5, 4], patience=2) == 2
    assert len(trial.calls) == 3


def test_until_ends_a_line():
    search = Search([0], Recorder())
    assert search.best_of([1, 2, 3, 4, 5], until=lambda tried: 3 in tried) == 2
    assert list(search.losses) == [1, 2, 3]


@pytest.mark.parametrize(("at", "leap", "tried"), [(1, 2, {1, 2, 3, 5}), (4, 1, {3, 4, 5})])
def test_along_a_line_neither_neighbour_is_better(at, leap, tried):
    trial = Recorder()
    search = Search([0], trial)
    found = search.along([1, 2, 3, 4, 5], at, leap)
    assert set(search.losses) - {4} == tried - {4}
    assert LOSSES[found] == 3.0
    assert all(origin is None or LOSSES[origin[1]] <= 5.0 for _, _, origin in trial.calls)


def test_the_limit_of_a_geometric_series():
    assert limit([9.0, 5.0, 3.0]) == pytest.approx(1.0)
    assert limit([5.0, 3.0]) == limit([5.0, 4.0, 2.0]) == -np.inf
    assert limit([5.0, 3.0, 3.5]) == 3.5


def test_candidates_with_finite_losses():
    kept = Scores([1, 2, 3], np.array([[1.0, np.inf, 3.0], [2.0, 4.0, 5.0]])).finite()
    assert kept.candidates == [1, 3]
    assert kept.losses.tolist() == [[1.0, 3.0], [2.0, 5.0]]


def test_a_candidate_that_is_clearly_worse_is_given_up():
    """1 and 5 are worse by the same on all folds; 3 is better on one of the first two."""
    trial = Recorder()

    def uneven(fold, candidate, start):
        loss, answer = trial(fold, candidate, start)
        return loss - 3.0 * (candidate == 3 and fold == 1), answer

    search = Search([0, 1, 2, 3], uneven, first=2)
    assert search.best_of([2, 1, 3, 5]) == 2
    tried = [candidate for _, candidate, _ in trial.calls]
    assert [tried.count(candidate) for candidate in (1, 2, 3, 5)] == [2, 4, 4, 2]
    assert search.losses[1] == [5.0, 6.0, np.inf, np.inf]
    assert list(search.answers) == [2]
    patient = Search([0, 1, 2, 3], uneven)
    assert patient.best_of([2, 1, 3, 5]) == 2
    assert patient.losses[3] == search.losses[3]


def test_several_losses():
    def trial(fold, candidate, start):
        return (candidate, -candidate), None

    search = Search([0], trial)
    assert search.best_of([1, 2, 3]) == 1
    assert search.mean(3, 1) == -3.0
    assert search.scores(1).losses.tolist() == [[-1.0, -2.0, -3.0]]


class Clock:
    """A deadline that passes after so many questions."""

    def __init__(self, questions):
        self.questions = questions

    @property
    def passed(self):
        self.questions -= 1
        return self.questions < 0


@pytest.mark.parametrize(
    ("questions", "folds", "tried"), [(0, 1, 1), (1, 1, 2), (2, 1, 3), (3, 1, 3), (5, 2, 3)]
)
def test_a_grid_that_runs_out_of_time(questions, folds, tried):
    """Folds that are not complete do not count, except the first."""
    search = Search([0, 10], Recorder(), deadline=Clock(questions))
    search.grid([1, 2, 3])
    assert search.scores().losses.shape == (folds, tried)


@pytest.mark.parametrize(("questions", "tried"), [(3, 2), (4, 2), (5, 2), (6, 4)])
def test_a_second_grid_that_runs_out_of_time(questions, tried):
    """Its candidates count if they were tried on all folds of the first."""
    search = Search([0, 10], Recorder(), deadline=Clock(questions))
    search.grid([1, 2])
    search.grid([3, 4])
    assert search.scores().losses.shape == (2, tried)


def test_a_line_that_runs_out_of_time():
    late = Deadline.after(0.0)
    search = Search([0, 10], Recorder(), deadline=late)
    assert search.best_of([1, 2]) == 1
    assert search.scores().losses.tolist() == [[5.0]]
    assert search.best_of([3, 2]) == 3  # the first, if none can be tried


def test_deadlines():
    assert Deadline().left is None
    assert not Deadline().passed
    assert Deadline().share() == Deadline()
    soon = Deadline.after(1000.0)
    assert 0 < soon.share(0.5).left < 501.0 < soon.left
    assert Deadline.after(0.0).passed


def test_jobs_find_the_same():
    losses = LOSSES

    def trial(fold, candidate, start):  # within: other processes cannot import this file
        return losses[candidate] + fold, (fold, candidate)

    one, two = Search([0, 10, 20], trial), Search([0, 10, 20], trial, n_jobs=2)
    for search in (one, two):
        search.grid([1, 2, 3])
    assert np.array_equal(one.scores().losses, two.scores().losses)


def test_one_standard_error_takes_the_simplest_of_the_good():
    losses = np.array([[1.0, 1.1, 1.2], [3.0, 3.1, 9.9]])
    assert least(losses) == 0
    # always worse by 0.1: the standard error of the difference is zero
    assert least(losses, [2, 1, 1]) == 0
    losses[1, 1] = 2.95
    assert least(losses, [2, 1, 1]) == 1
    with pytest.raises(InputError, match="one fold"):
        least(losses[:1], [2, 1, 1])
    with pytest.raises(InputError, match="no finite"):
        least([[np.nan]])
    assert least([[np.nan, 2.0]]) == 1


def test_repeated_splits_do_not_shrink_the_standard_error():
    rng = np.random.default_rng(0)
    once = np.stack([np.zeros(5), rng.standard_normal(5)], axis=1)
    once[:, 1] += 0.1 - once[:, 1].mean()  # worse by 0.1, less than a standard error
    often = np.concatenate([once] * 16)
    assert near(once).tolist() == [True, True]
    assert near(often).tolist() == [True, False]  # as if there were 80 folds
    assert near(often, repeats=16).tolist() == [True, True]
    assert least(often, [1, 0], repeats=16) == 1
    assert near(once, errors=0.0).tolist() == [True, False]


def test_tables_are_named_as_in_scikit_learn():
    found = Scores([Weights(0.1, 2.0), Weights(0.2, 3.0)], np.array([[1.0, 2.0], [3.0, 1.0]]))
    table = found.table(more=[7, 8])
    assert table["param_lam"].tolist() == [0.1, 0.2]
    assert table["param_tau"].tolist() == [2.0, 3.0]
    assert table["mean_test_score"].tolist() == [-2.0, -1.5]
    assert table["std_test_score"].tolist() == [1.0, 0.5]
    assert table["rank_test_score"].tolist() == [2, 1]
    assert table["split1_test_score"].tolist() == [-3.0, -1.0]
    assert table["more"] == [7, 8]
    assert found.best() == Weights(0.2, 3.0)
    assert found.best(lambda each: each.tau) == Weights(0.1, 2.0)


def test_what_leaves_no_doubt_is_ten_standard_errors_from_zero():
    """Sixteen folds of which half are 1 above the mean and half 1 below."""
    spread = np.tile([1.0, -1.0], 8)[:, None] * np.sqrt(15 / 16)  # variance 1, error 1/4
    away = spread + np.array([2.4, 2.6, -2.6])
    assert clearly_positive(away).tolist() == [False, True, False]
    away[0, 0] = np.inf
    assert clearly_positive(away)[0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200, 1.7e308])
def test_deviations_of_numbers_of_any_size(size):
    values = np.array([[1.0, 0.0, np.nan], [0.5, 0.0, 1.0], [-0.25, 0.0, 1.0]])
    np.testing.assert_allclose(
        deviations(size * values, 1) / size, values.std(axis=0, ddof=1), rtol=1e-14
    )
    np.testing.assert_array_equal(deviations(0.0 * values[:, :2]), [0.0, 0.0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_rules_of_choice_do_not_depend_on_the_unit(size):
    rng = np.random.default_rng(0)
    losses = 1.0 + 0.1 * rng.random((5, 6)) + 0.02 * np.arange(6)
    np.testing.assert_array_equal(near(size * losses), near(losses))
    assert least(size * losses, range(6, 0, -1)) == least(losses, range(6, 0, -1))
    away = losses - losses[:, [0]]
    np.testing.assert_array_equal(clearly_positive(size * away), clearly_positive(away))
    assert 1 < near(losses).sum() < 6
