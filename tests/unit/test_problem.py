"""Problem: values, constants, symmetry, and terms written elsewhere."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from registry import MATRICES, MEASURED, NOISY, SHAPE, numbers

import weakprox as wp
from weakprox.losses import Completion, Denoising, Sensing
from weakprox.losses.empirical import Empirical
from weakprox.penalties import L1, ElasticNet, Zero
from weakprox.problem import SMALL_TARGET
from weakprox.resources.memory import limited
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

M = numbers(*SHAPE)
POINT = NuclearBall(2.0).random_point(np.random.default_rng(0), SHAPE, 2, M)


def test_value_is_the_sum_of_the_terms():
    problem = wp.Problem(Denoising(M), L1(0.5), NuclearNorm(0.3))
    X = POINT.dense()
    wanted = 0.5 * ((X - M) ** 2).sum() + 0.5 * np.abs(X).sum() + 0.3 * 2.0
    assert problem.value(POINT) == pytest.approx(wanted)
    assert problem.smooth_value(X) == pytest.approx(wanted - 0.6)


def test_values_of_factors_are_those_of_the_matrix():
    """X is made dense unless memory is limited."""
    problem = wp.Problem(Denoising(M), L1(0.5), NuclearNorm(0.3))
    wanted = pytest.approx(problem.smooth_value(POINT.dense()))
    assert problem.smooth_value(POINT) == wanted
    assert not problem.by_passes
    with limited(1 << 40):
        assert problem.by_passes
        assert problem.smooth_value(POINT) == wanted


@pytest.mark.parametrize(
    "problem",
    [
        wp.Problem(Denoising(M), L1(0.5), NuclearNorm(0.3)),
        wp.Problem(Denoising(M), None, NuclearBall(2.0)),
        wp.Problem(Denoising(M), None, NuclearBall(1.0)),
        wp.Problem(Completion([0, 1], [1, 0], [1.0, 2.0], SHAPE), None, NuclearNorm(0.3)),
    ],
    ids=["norm", "ball", "outside", "completion"],
)
def test_value_takes_arrays(problem):
    wanted = pytest.approx(problem.value(POINT))
    assert problem.value(POINT.dense()) == wanted
    assert problem.value(pd.DataFrame(POINT.dense())) == wanted


def test_value_of_an_array_outside_the_cone_is_infinite():
    problem = wp.Problem(Denoising(np.eye(3)), None, TracePSD(3.0))
    assert problem.value(np.eye(3)) == 0.0
    assert problem.value(-np.eye(3)) == np.inf


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.full(SHAPE, np.nan), "NaN"),
        (M[1:], "shape"),
        ([[1.0]], "list"),
        ("M", "str"),
    ],
    ids=["NaN", "shape", "list", "text"],
)
def test_value_of_something_else_is_refused(X, words):
    problem = wp.Problem(Denoising(M), None, NuclearNorm(0.3))
    with pytest.raises(wp.InputError, match=words) as caught:
        problem.value(X)
    assert "result.low_rank" in str(caught.value)


def test_value_outside_the_set_is_infinite():
    assert wp.Problem(Denoising(M), None, NuclearBall(1.0)).value(POINT) == np.inf


def test_sampled_values_need_a_batch():
    loss = Denoising(sampler=lambda rng, k: NOISY[:k], shape=SHAPE)
    problem = wp.Problem(loss, None, NuclearBall(2.0))
    with pytest.raises(wp.InputError, match="batch"):
        problem.value(POINT)
    assert np.isfinite(problem.value(POINT, loss.draw(np.random.default_rng(0), 4)))


def test_constants():
    found = wp.Problem(Denoising(M), ElasticNet(0.5, 0.2), NuclearBall(1.0)).constants()
    assert found.alpha == pytest.approx(1.4)
    assert (found.beta_G, found.beta_term, found.theta) == (1.0, 1.0, 0.5)
    assert pytest.approx(0.4) == found.K
    sensing = Sensing(MATRICES, MEASURED)
    found = wp.Problem(sensing, L1(1.0), NuclearBall(1.0)).constants()
    assert found.alpha == sensing.strong_convexity
    assert found.beta_term == sensing.term_smoothness > found.beta_G


def test_no_penalty():
    problem = wp.Problem(Denoising(M), None, NuclearBall(1.0))
    assert problem.penalty == Zero()
    assert "Zero" in repr(problem)
    assert "NuclearBall" in repr(problem)


def test_missing_strong_convexity_names_the_remedy():
    problem = wp.Problem(Completion([0], [0], [1.0], SHAPE), L1(1.0), NuclearBall(1.0))
    with pytest.raises(wp.ConvexityError, match="ElasticNet") as caught:
        problem.constants()
    assert "Completion" in str(caught.value)
    mended = wp.Problem(problem.loss, L1(1.0) + ElasticNet(0.0, 0.1), NuclearBall(1.0))
    assert mended.constants().alpha == pytest.approx(0.2)


def test_symmetry_is_asked_of_M_only_where_it_matters():
    square = numbers(5, 5)
    wp.Problem(Denoising(square), None, NuclearBall(1.0))
    wp.Problem(Denoising(square + square.T), None, TracePSD(1.0))
    nearly = square + square.T
    nearly[0, 1] *= 1 + 1e-15
    wp.Problem(Denoising(nearly), None, TracePSD(1.0))
    with pytest.raises(wp.InputError, match=r"\(M \+ M.T\) / 2") as caught:
        wp.Problem(Denoising(square), None, TracePSD(1.0))
    assert caught.value.argument == "M"


class OwnLoss:
    """1/2 |X - C|^2 written from scratch, as the docs invite users to."""

    shape = SHAPE
    smoothness = term_smoothness = strong_convexity = 1.0
    samples_cancel = True
    is_finite_sum = True
    n_terms = 1
    sigma = 0.0
    chunk = 1
    reference = M

    def everything(self):
        return None

    def draw(self, rng, size):
        return None

    def value(self, X, batch):
        return 0.5 * float(((X - M) ** 2).sum())

    def grad(self, X, batch):
        return X - M

    def spread(self, X, batch):
        return 0.0


def test_terms_written_elsewhere_work():
    mine, theirs = (
        wp.minimize(wp.Problem(loss, L1(0.1), NuclearBall(2.0)), wp.SVRGCG(3), eps=0.1, seed=1)
        for loss in (OwnLoss(), Denoising(M))
    )
    assert np.array_equal(mine.X, theirs.X)


def test_what_is_missing_is_named():
    class Half(OwnLoss):
        grad = property()

    class NoGrad:
        shape = SHAPE

    with pytest.raises(wp.InputError, match="grad") as caught:
        wp.Problem(NoGrad(), None, NuclearBall(1.0))
    assert caught.value.argument == "loss"


def test_small_sparse_targets_are_left_to_dense_methods():
    """Up to the size from which sparse products pay; see `problem.SMALL_TARGET`."""
    for size in (SMALL_TARGET, SMALL_TARGET + 1):
        loss = Denoising(scipy.sparse.eye_array(size, 2 * size, format="csr"))
        problem = wp.Problem(loss, None, NuclearNorm(0.5))
        assert (problem.sparse_target is None) == (size == SMALL_TARGET)


class Inherits(Denoising):
    """A loss that may compute another function than the one whose record it inherits."""


@pytest.mark.parametrize("kind", [Denoising, Inherits])
def test_passes_serve_only_losses_that_declare_themselves_also_if_wrapped(kind):
    loss = kind(samples=np.stack([M, M + 1.0]))
    pair = loss.draw(np.random.default_rng(0), 4)
    terms = L1(0.1), NuclearBall(1.0)
    for problem in (
        wp.Problem(loss, *terms),
        wp.Problem(Empirical(loss, [(pair, 4)]), *terms),
        wp.Problem(loss, *terms).restated(0.5),
    ):
        assert problem.of_loss.own == (kind is Denoising)
        assert (problem.entrywise() is not None) == (kind is Denoising)


def test_a_loss_names_the_rows_and_columns_of_its_results():
    class Named(Denoising):
        @property
        def capabilities(self):
            return replace(super().capabilities, labels=(None, ["a", "b"]))

    result = wp.minimize(wp.Problem(Named(np.eye(3, 2)), None, NuclearBall(1.0)))
    assert result.labels == (None, ["a", "b"])


class Old(NuclearBall):
    """A spectral term as in version 0.1, whose members were looked up by name."""

    capabilities = None
    diameter = 6.0


def test_members_of_version_0_1_still_count_with_a_warning():
    with pytest.warns(DeprecationWarning, match="declare diameter, extreme of Old in its"):
        problem = wp.Problem(Denoising(M), None, Old(3.0))
    assert problem.of_spectral.diameter == 6.0
    assert problem.of_spectral.extreme is not None
