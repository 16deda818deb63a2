"""Sensing by importance: unbiased, less noisy on uneven data, the same on even data."""

import numpy as np
import pytest
import scipy.sparse
from registry import LEFT, MATRICES, MEASURED, NUMPY, RIGHT, SHAPE, SPARSE, TORCH, numbers

import weakprox as wp
from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Sensing
from weakprox.losses.measurements import Odds
from weakprox.penalties import ElasticNet
from weakprox.spectral import NuclearBall

N = len(MEASURED)
X = numbers(*SHAPE, seed=80)
UNEVEN = np.exp(1.5 * numbers(N, seed=81))  # sizes of the terms over some magnitudes
A = UNEVEN[:, None, None] * MATRICES
EVEN = MATRICES / np.linalg.norm(MATRICES, axis=(1, 2), keepdims=True)

FORMS = {
    "dense": lambda b: b.array(A),
    "rank-one": lambda b: (b.array(UNEVEN[:, None] * LEFT), b.array(RIGHT)),
    "sparse": lambda b: scipy.sparse.csr_array((UNEVEN[:, None, None] * SPARSE).reshape(N, -1)),
}


def build(form="dense", backend=NUMPY, **options):
    if form == "sparse":
        options["shape"] = SHAPE
    return Sensing(FORMS[form](backend), backend.array(MEASURED), **options)


@pytest.mark.parametrize(
    ("form", "backend"),
    [
        (form, backend)
        for form in FORMS
        for backend in (NUMPY, TORCH)
        if form != "sparse" or backend is NUMPY
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_value_and_gradient_are_unbiased(form, backend):
    loss = build(form, backend, sampling="importance")
    Xb, rng, repeats = backend.array(X), np.random.default_rng(0), 600
    truth = to_numpy(loss.grad(Xb, loss.everything()))
    batches = [loss.draw(rng, 8) for _ in range(repeats)]
    grads = np.stack([to_numpy(loss.grad(Xb, batch)) for batch in batches])
    error = grads.std(axis=0) / np.sqrt(repeats)
    assert (np.abs(grads.mean(axis=0) - truth) <= 5 * error + 1e-12).all()
    values = np.array([loss.value(Xb, batch) for batch in batches])
    exact = loss.value(Xb, loss.everything())
    assert abs(values.mean() - exact) <= 5 * values.std() / np.sqrt(repeats)


@pytest.mark.parametrize("form", FORMS)
def test_what_belongs_to_all_terms_is_unchanged(form):
    plain, loss = build(form), build(form, sampling="importance")
    assert loss.value(X, loss.everything()) == plain.value(X, plain.everything())
    assert (loss.grad(X, loss.everything()) == plain.grad(X, plain.everything())).all()
    assert (loss.smoothness, loss.strong_convexity) == (
        plain.smoothness,
        plain.strong_convexity,
    )


@pytest.mark.parametrize("form", FORMS)
def test_the_mean_size_takes_the_place_of_the_largest(form):
    loss = build(form, sampling="importance")
    sizes = to_numpy(loss.everything()[0].sqnorms())
    assert loss.term_smoothness == pytest.approx(sizes.mean())
    assert build(form).term_smoothness == pytest.approx(sizes.max())
    terms, _ = loss.draw(np.random.default_rng(1), 50)
    assert to_numpy(terms.sqnorms()) == pytest.approx(sizes.mean())  # every scaled term's
    assert build(form, sampling="importance", term_smoothness=9.0).term_smoothness == 9.0


def test_spread_is_the_variance_of_what_is_drawn_and_smaller():
    rng = np.random.default_rng(2)
    spreads = {}
    for sampling in ("uniform", "importance"):
        loss = build(sampling=sampling)
        batch = loss.draw(rng, 4000)
        grads = np.stack([loss.grad(X, loss.draw(rng, 1)) for _ in range(4000)])
        spreads[sampling] = ((grads - grads.mean(axis=0)) ** 2).sum() / 3999
        assert loss.spread(X, batch) == pytest.approx(spreads[sampling], rel=0.3)
    assert spreads["importance"] < 0.5 * spreads["uniform"]


def test_inner_batches_fall_as_the_sizes_do():
    batches = {}
    for sampling in ("uniform", "importance"):
        loss = build(sampling=sampling)
        problem = wp.Problem(loss, ElasticNet(0.1, 0.1), NuclearBall(2.0))
        p = wp.theory.parameters(problem, eps=0.1)
        batches[sampling] = p.k_t
        linear = 32 * loss.term_smoothness / p.alpha
        assert p.k_t == pytest.approx(linear, abs=1)
    sizes = (A**2).sum(axis=(1, 2))
    ratio = batches["uniform"] / batches["importance"]
    assert ratio == pytest.approx(sizes.max() / sizes.mean(), rel=0.01)


def test_a_run_by_importance_keeps_the_promise():
    problem = wp.Problem(build(sampling="importance"), ElasticNet(0.1, 2.0), NuclearBall(2.0))
    eps = 0.02 * problem.smooth_value(0 * X)
    options = {"eps": eps, "stop_when_certified": False, "progress": False}
    result = wp.minimize(problem, wp.SVRGCG(rank=5, inner=60, epochs=3, k_t=20), **options)
    assert result.counts.samples == 3 * 59 * 20
    assert result.certificate.lower_bound <= result.value
    assert result.gap <= eps


def test_terms_of_one_size_are_drawn_as_ever():
    plain, loss = Sensing(EVEN, MEASURED), Sensing(EVEN, MEASURED, sampling="importance")
    first, second = (g.draw(np.random.default_rng(3), 20) for g in (plain, loss))
    assert (first[0].A == second[0].A).all()
    assert (first[1] == second[1]).all()
    assert loss.term_smoothness == plain.term_smoothness
    solver = wp.SVRGCG(rank=2, inner=10, epochs=2, k_t=5)
    runs = [
        wp.minimize(wp.Problem(g, ElasticNet(0.1, 0.1), NuclearBall(1.0)), solver, eps=1e-3)
        for g in (plain, loss)
    ]
    assert (runs[0].X == runs[1].X).all()


def test_zero_terms_are_never_drawn():
    sizes = np.array([0.0, 2.0, 0.0, 0.0, 1.0, 3.0, 0.0])
    odds = Odds.of(sizes)
    u = np.concatenate([[0.0], np.random.default_rng(4).random(6000), [np.nextafter(1, 0)]])
    picked = np.searchsorted(odds.cumulated, u, side="right")
    share = np.bincount(picked, minlength=7) / len(u)
    assert share[[0, 2, 3, 6]].max() == 0.0
    assert share[[1, 4, 5]] == pytest.approx(sizes[[1, 4, 5]] / 6, abs=0.03)
    assert odds.factors[[1, 4, 5]] == pytest.approx(np.sqrt(6 / 7 / sizes[[1, 4, 5]]))
    assert Odds.of(np.zeros(4)) is None


def test_integers_and_single_precision():
    whole = np.round(3 * A).astype(np.int64)
    loss = Sensing(whole, MEASURED, sampling="importance")
    assert loss.grad(X, loss.draw(np.random.default_rng(0), 5)).dtype == np.float64
    single = Sensing(A.astype(np.float32), MEASURED, sampling="importance")
    terms, b = single.draw(np.random.default_rng(0), 5)
    assert terms.A.dtype == b.dtype == np.float32


def test_runs_of_another_sampling_are_not_gone_on_with():
    def problem(sampling):
        return wp.Problem(build(sampling=sampling), ElasticNet(0.1, 0.1), NuclearBall(2.0))

    solver = wp.SVRGCG(rank=2, inner=4, epochs=2, k_t=5)
    part = wp.minimize(problem("importance"), solver, eps=1e-3, max_svds=5)
    with pytest.raises(wp.InputError, match="another problem"):
        wp.minimize(problem("uniform"), solver, eps=1e-3, resume=part)


@pytest.mark.parametrize("sampling", ["weights", None, 3])
def test_bad_settings_are_refused(sampling):
    with pytest.raises(wp.InputError) as caught:
        build(sampling=sampling)
    assert caught.value.argument == "sampling"


def test_a_sampler_has_its_own_distribution():
    def sampler(rng, k):
        return A[rng.integers(0, N, k)], MEASURED[:k]

    with pytest.raises(wp.InputError, match="its own distribution"):
        Sensing(sampler=sampler, shape=SHAPE, sampling="importance")
