"""Bounds from samples: they hold as often as they say, and are exact where nothing varies."""

import math
from dataclasses import replace

import numpy as np
import pytest
from registry import MATRICES, MEASURED, NUMPY, NUMPY32, PENALTIES, SHAPE, SPECTRAL, numbers
from scipy.stats import binom, f

import weakprox as wp
from weakprox.certificates import sampled
from weakprox.certificates.sampled import (
    SEEN,
    Noise,
    Proof,
    contradicted,
    evaluated,
    even_sizes,
    groups_that_fit,
    least_samples,
    noise_at,
    sampled_gap,
)
from weakprox.certificates.split import FixedDual, lower_bound
from weakprox.losses import Custom, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet
from weakprox.penalties.base import Smoothed
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SPECTRA = {
    "one direction": [1.0],
    "two": [1.0, 0.3],
    "falling": list(0.8 ** np.arange(30)),
    "one large": [1.0] + [0.02] * 100,
    "many": [1.0] * 150,
}
CHANCE = 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)


def groups(rng, spectrum, sizes):
    """Means of samples with that covariance, and zero mean, in groups of these sizes."""
    scale = np.sqrt(spectrum / np.array(sizes)[:, None])
    return list((scale * rng.standard_normal(scale.shape))[:, None, :])


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("sizes", [[1] * 8, [3] * 16, [1] * 8 + [5] * 8], ids=str)
def test_errors_are_bounded_as_often_as_stated(name, sizes):
    rng, spectrum = np.random.default_rng(len(sizes)), np.array(SPECTRA[name])
    k, wrong_error, wrong_distance = sum(sizes), 0, 0
    for _ in range(600):
        mean, noise = Noise.seen(groups(rng, spectrum, sizes), sizes)
        wrong_error += float(np.sum(mean**2)) > noise.error(k, 0.95)
        off = np.sqrt(spectrum / k) * rng.standard_normal(mean.shape)  # another mean's error
        seen = float(np.sum((mean - off) ** 2))
        wrong_distance += float(np.sum(off**2)) > noise.distance(seen, k, 0.95)
    assert wrong_error / 600 <= CHANCE
    assert wrong_distance / 600 <= CHANCE


@pytest.mark.parametrize("name", SPECTRA)
def test_moments_are_what_they_should_be(name):
    rng, spectrum = np.random.default_rng(5), np.array(SPECTRA[name])
    sizes = [1] * 4 + [3] * 12
    found = [Noise.seen(groups(rng, spectrum, sizes), sizes)[1] for _ in range(300)]
    variance = np.mean([noise.variance for noise in found])
    assert variance == pytest.approx(spectrum.sum(), rel=0.1)
    shared = spectrum.sum() ** 2 / (spectrum**2).sum()
    middle = np.median([noise.concentration for noise in found])
    assert 1.0 <= middle <= 1.1 * shared  # lowered by the doubt
    assert middle >= 0.45 * shared
    assert all(noise.freedom == 15 for noise in found)


def test_the_bound_is_close_where_many_directions_share_the_noise():
    rng, sizes = np.random.default_rng(0), [1] * 8
    _, noise = Noise.seen(groups(rng, np.ones(20_000), sizes), sizes)
    assert noise.error(8, 0.95) == pytest.approx(20_000 / 8, rel=0.05)
    assert noise.distance(2 * 20_000 / 8, 8, 0.95) == pytest.approx(20_000 / 8, rel=0.1)


def test_what_few_groups_show():
    one, two = np.ones((2, 3)), np.zeros((2, 3))
    mean, noise = Noise.seen([one], [4])
    assert np.array_equal(mean, one)
    assert noise.error(4, 0.95) == math.inf  # nothing can be said of the scatter
    assert noise.distance(1.0, 4, 0.95) == math.inf
    mean, noise = Noise.seen([one, two], [1, 3])
    assert mean == pytest.approx(0.25 * one)
    assert noise.variance == pytest.approx(6 * (0.75**2 + 3 * 0.25**2))
    assert noise.concentration == 1.0
    _, same = Noise.seen([one, one, one], [1, 2, 3])
    assert same.error(6, 0.95) == 0.0
    assert same.distance(2.0, 6, 0.95) == pytest.approx(2.0)


@pytest.mark.parametrize("share", [0.01, 0.012, 0.015, 0.02, 0.03, 0.05, 0.1, 0.5])
def test_rare_values_are_bounded_as_often_as_stated(share):
    """One direction, nothing but a shift: its mean is off by |count - k share| of k."""
    k = 400
    wrong = {True: 0.0, False: 0.0}
    for n in range(k + 1):
        part = n / k
        reach = max(part, 1 - part) if 0 < n < k else 0.0
        for known in wrong:
            noise = Noise(part * (1 - part), 15, 1.0, reach if known else 0.0)
            missed = (part - share) ** 2 > noise.error(k, 0.95)
            wrong[known] += missed * float(binom.pmf(n, k, share))
    assert wrong[True] <= 0.025
    if share == 0.01:  # the scatter alone is no bound
        assert wrong[False] >= 0.08


def test_the_part_of_rare_values():
    plain, far = Noise(4.0, 15, 1.0), Noise(4.0, 15, 1.0, reach=6.0)
    rare = 6.0 * math.log(20) / 100
    assert far.rare(100, 0.95) == pytest.approx(rare)
    alone = math.sqrt(plain.error(100, 0.95))
    assert far.error(100, 0.95) == pytest.approx((alone + rare) ** 2)  # the same direction
    apart = math.sqrt(plain.distance(0.2, 100, 0.95))
    assert far.distance(0.2, 100, 0.95) == pytest.approx((apart + rare) ** 2)
    wide = Noise(4.0, 15, 1e4, reach=6.0)  # many directions: nearly orthogonal
    seen = Noise(4.0, 15, 1e4).error(100, 0.95)
    assert seen + rare**2 < wide.error(100, 0.95) < seen + rare**2 + 0.2 * rare
    assert Noise(0.0, 15, 1.0, reach=6.0).error(100, 0.95) == pytest.approx(rare**2)


@pytest.mark.parametrize("noise", [Noise(4.0, 15, 3.0, 6.0), Noise(1e-9, 15, 1.0)])
@pytest.mark.parametrize("allowed", [1e-4, 0.3, 50.0])
def test_the_samples_needed_are_the_fewest(noise, allowed):
    need = noise.needed(allowed, 0.95)
    assert noise.error(need, 0.95) <= allowed
    assert need == 1 or noise.error(need - 1, 0.95) > allowed
    assert noise.needed(noise.error(need, 0.95), 0.95) == need  # as much as is allowed


def test_the_reach_is_that_of_single_samples():
    X = numbers(*SHAPE)
    copies = Denoising(sampler=lambda rng, k: rng.standard_normal((k, *SHAPE)), shape=SHAPE)

    def measured(rng, k):
        A = rng.standard_normal((k, *SHAPE))
        return A, rng.standard_normal(k)

    sensed = Sensing(sampler=measured, shape=SHAPE, smoothness=1.0, strong_convexity=1.0)
    for loss, slack in ((copies, 1.5), (sensed, 1.0 + 1e-9)):
        problem = wp.Problem(loss, None, NuclearBall(1.0))
        batches = [(loss.draw(np.random.default_rng(seed), 20), 20) for seed in range(20)]
        mean, noise = noise_at(problem, loss, X, batches)
        if loss is copies:
            draws = [np.random.default_rng(s).standard_normal((20, *SHAPE)) for s in range(20)]
            singles = X - np.concatenate(draws)
        else:
            A = np.concatenate([batch[0].A for batch, _ in batches])
            b = np.concatenate([batch[1] for batch, _ in batches])
            singles = (np.tensordot(A, X, 2) - b)[:, None, None] * A
        exact = np.sqrt(np.sum((singles - mean) ** 2, axis=(1, 2))).max()
        assert (1 - 1e-9) * exact <= noise.reach <= slack * exact


def test_the_reach_of_a_loss_that_shows_no_single_samples():
    loss = Custom(
        SHAPE,
        value=lambda X, b: 0.5 * float(((X - b) ** 2).mean(0).sum()),
        grad=lambda X, b: X - b.mean(0),
        sampler=lambda rng, k: rng.standard_normal((k, *SHAPE)),
        strong_convexity=1.0,
    )
    problem, X = wp.Problem(loss, None, NuclearBall(1.0)), numbers(*SHAPE)
    batches = [(loss.draw(np.random.default_rng(seed), 5), 5) for seed in range(30)]
    mean, noise = noise_at(problem, loss, X, batches)
    apart = [np.linalg.norm(X - batch.mean(0) - mean) for batch, _ in batches]
    assert noise.reach == pytest.approx(5 * max(apart))


def proofs(samples=400, *, error=0.04, reach=2.0, moved=0.0, further=2.0):
    """A proof, and what other samples show: a moved mean, or values further away."""
    X = near(
        wp.Problem(Denoising(SQUARE), None, NuclearBall(4.0)),
        SQUARE,
        np.random.default_rng(0),
        0.1,
    )
    noise, gradient = Noise(4.0, 15, 1.0, reach), np.ones((6, 6))
    one = Proof(X, 1.0, 0.5, 0.95, samples, 0.01, gradient, error, noise)
    other = replace(one, gradient=gradient + moved / 6, noise=replace(noise, reach=further))
    return one, other


def test_fresh_samples_contradict_a_proof():
    assert not contradicted(*proofs())
    assert not contradicted(*proofs(moved=0.4))  # of 0.2 and of noise about 0.1
    assert contradicted(*proofs(moved=0.8))
    assert not contradicted(*proofs(further=10.0))
    assert contradicted(*proofs(further=30.0))
    assert not contradicted(*proofs(reach=30.0, further=30.0))
    nothing = {"error": 0.0, "reach": 0.0}
    assert contradicted(*proofs(**nothing, further=1e-3))
    assert not contradicted(*proofs(**nothing, further=1e-14))  # rounding


def test_group_sizes(monkeypatch):
    assert even_sizes(10, 4) == [3, 3, 2, 2]
    assert even_sizes(3, 16) == [1, 1, 1]
    assert groups_that_fit(np.zeros(1), 100) == 16
    assert groups_that_fit(np.zeros(1), 1 << 50) == 2
    monkeypatch.setattr(sampled, "room", lambda: 4 * 100 * 8 * 5)  # five arrays and spare ones
    assert groups_that_fit(np.zeros(1), 100) == 5
    assert groups_that_fit(np.zeros(1, np.float32), 100) == 10


def test_more_batches_than_groups_are_joined():
    sampler = Denoising(sampler=lambda rng, k: rng.standard_normal((k, *SHAPE)), shape=SHAPE)
    problem = wp.Problem(sampler, None, NuclearBall(1.0))
    rng, X = np.random.default_rng(3), numbers(*SHAPE)
    batches = [(sampler.draw(rng, size), size) for size in (1, 2) * 20]
    mean, noise = noise_at(problem, sampler, X, batches)
    whole = sampler.merged([batch for batch, _ in batches])
    assert mean == pytest.approx(X - whole.mean)
    assert noise.freedom == 15
    assert noise.variance == pytest.approx(math.prod(SHAPE), rel=0.4)


def test_only_the_symmetric_part_counts_where_points_are_symmetric():
    sampler = Denoising(sampler=lambda rng, k: rng.standard_normal((k, 9, 9)), shape=(9, 9))
    rng = np.random.default_rng(3)
    batches = [(sampler.draw(rng, 1), 1) for _ in range(16)]
    X = np.eye(9)
    noises = [
        noise_at(wp.Problem(sampler, None, h), sampler, X, batches)[1].variance
        for h in (TracePSD(1.0), NuclearBall(1.0))
    ]
    assert noises[0] == pytest.approx(45, rel=0.2)  # 9 variances of 1, 36 pairs of 1/2, twice
    assert noises[1] == pytest.approx(81, rel=0.2)


def near(problem, X, rng, size):
    """A feasible point of full rank somewhere around X, as factors."""
    moved = X + size * rng.standard_normal(X.shape)
    found = problem.spectral.weak_prox(moved, weight=1.0, rank=min(X.shape), certify=True)
    return found.V


SQUARE = numbers(6, 6, seed=3) + numbers(6, 6, seed=3).T


@pytest.mark.parametrize("spectral", SPECTRAL)
@pytest.mark.parametrize("penalty", ["zero", "l1", "elastic-net", "group-rows"])
def test_the_bound_holds_whatever_the_error(penalty, spectral):
    R, h = PENALTIES[penalty].build(NUMPY), SPECTRAL[spectral].build(NUMPY)
    problem = wp.Problem(Denoising(SQUARE), R, h)
    best = wp.minimize(problem, eps=1e-9, max_svds=2000, progress=False)
    rng = np.random.default_rng(7)
    for size in (1e-3, 0.1, 1.0):
        for noise in (0.0, 0.01, 0.3, 3.0):
            X = near(problem, best.X, rng, size)
            e = noise * rng.standard_normal(SQUARE.shape)
            dual = FixedDual(R, R.ascend(None, X.dense(), 1.0 / size))
            gradient = problem.loss.grad(X.dense(), problem.loss.everything()) - e
            gap, part = sampled_gap(problem, X, dual, gradient, float(np.sum(e**2)), rng=rng)
            true = problem.value(X) - best.certificate.lower_bound
            assert true <= gap + 1e-8
            assert 0.0 <= part <= gap
            assert part >= 0.5 * float(np.sum(e**2)) / (1.0 + 1e-9 + R.curvature)


def test_without_an_error_it_is_the_gap_of_the_certificate():
    problem = wp.Problem(Denoising(SQUARE), ElasticNet(0.3, 0.2), NuclearBall(4.0))
    rng, dual = np.random.default_rng(0), Smoothed.of(problem.penalty, 0.1, (6, 6))
    X = near(problem, SQUARE, rng, 0.5)
    gradient = problem.loss.grad(X.dense(), problem.loss.everything())
    kept = gradient.copy()
    gap, part = sampled_gap(problem, X, dual, gradient, 0.0, rng=rng)
    bound, _ = lower_bound(problem, X.dense(), dual, rank=6, rng=rng)
    assert gap == pytest.approx(problem.value(X) - bound, rel=1e-9)
    assert part == 0.0
    assert np.array_equal(kept, gradient)


def test_at_the_optimum_only_the_error_is_left():
    problem = wp.Problem(Denoising(SQUARE), L1(0.3), NuclearBall(4.0))
    best = wp.minimize(problem, eps=1e-10, progress=False)
    X, rng = best.low_rank, np.random.default_rng(0)
    gradient = problem.loss.grad(X.dense(), problem.loss.everything())
    gap, part = sampled_gap(problem, X, best.dual, gradient, 2.0, rng=rng)
    assert 1.0 <= part <= gap <= 1.01
    rough, _ = sampled_gap(problem, X, best.dual, gradient, 2.0, rng=rng, enough=5.0)
    assert gap < rough <= 5.0  # the first share that will do


def test_without_strong_convexity_bounded_sets_help():
    A = MATRICES[:20]
    for h, finite in ((NuclearBall(2.0), True), (NuclearNorm(0.5), False)):
        problem = wp.Problem(Sensing(A, MEASURED[:20]), L1(0.1), h)
        rng, X = np.random.default_rng(0), near(problem, numbers(*SHAPE), np.random, 0.1)
        dual = FixedDual(problem.penalty, problem.penalty.ascend(None, X.dense(), 10.0))
        gradient = problem.loss.grad(X.dense(), problem.loss.everything())
        gap, part = sampled_gap(problem, X, dual, gradient, 0.01, rng=rng)
        assert (gap < math.inf) == finite
        if finite:
            assert part == pytest.approx(0.1 * h.diameter)
            bound, _ = lower_bound(problem, X.dense(), dual, rank=5, rng=rng)
            assert gap - part == pytest.approx(problem.value(X) - bound, rel=1e-6)


def test_samples_that_were_looked_at_count_as_seen():
    """They chose X, so their mean proves nothing, but a rare large one widens the bound."""
    rng, far = np.random.default_rng(4), [1.0]

    def sampler(rng, k):
        return far[0] * rng.standard_normal((k, *SHAPE))

    loss = Denoising(sampler=sampler, shape=SHAPE)
    problem = wp.Problem(loss, L1(0.3), NuclearBall(4.0))
    fresh = [(loss.draw(rng, 200), 200) for _ in range(20)]
    X = near(problem, numbers(*SHAPE), rng, 0.1)
    dual = FixedDual(problem.penalty, problem.penalty.ascend(None, X.dense(), 10.0))
    proofs = []
    for far[0], size in ((1.0, None), (0.01, 5), (50.0, 5)):
        looked = None if size is None else loss.draw(rng, size)
        proofs.append(evaluated(problem, X, dual, fresh, 0.95, rng, looked=looked))
    alone, near_ones, far_ones = proofs
    assert near_ones.noise.reach == alone.noise.reach
    assert far_ones.noise.reach > 10.0 * alone.noise.reach
    assert math.isfinite(alone.gap)
    assert far_ones.error > near_ones.error == alone.error
    assert far_ones.gap > 1.01 * alone.gap
    few = evaluated(problem, X, dual, fresh[:1], 0.95, rng, rarest=1e-3)
    assert few.gap == math.inf  # too few to have seen the rarest


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1e9])
def test_terms_that_do_not_keep_their_word_prove_nothing(wrong, monkeypatch):
    problem = wp.Problem(Denoising(SQUARE), L1(0.3), NuclearBall(4.0))
    rng, X = np.random.default_rng(0), near(problem, SQUARE, np.random.default_rng(1), 0.1)
    dual = FixedDual(problem.penalty, problem.penalty.ascend(None, X.dense(), 10.0))
    gradient = problem.loss.grad(X.dense(), problem.loss.everything())
    assert sampled_gap(problem, X, dual, gradient, math.inf, rng=rng)[0] == math.inf

    honest = NuclearBall.weak_prox

    def broken(self, A, **options):
        from dataclasses import replace

        return replace(honest(self, A, **options), lower=wrong)

    monkeypatch.setattr(NuclearBall, "weak_prox", broken)
    assert sampled_gap(problem, X, dual, gradient, 1.0, rng=rng)[0] == math.inf


def test_single_precision_is_never_optimistic():
    M = NUMPY32.array(SQUARE)
    problem, exact = (
        wp.Problem(Denoising(matrix), L1(0.3), NuclearBall(4.0)) for matrix in (M, SQUARE)
    )
    best = wp.minimize(exact, eps=1e-10, progress=False)
    X, rng = near(problem, M, np.random.default_rng(1), 1e-3), np.random.default_rng(0)
    dual = FixedDual(problem.penalty, problem.penalty.ascend(None, X.dense(), 10.0))
    gradient = problem.loss.grad(X.dense(), problem.loss.everything())
    gap, _ = sampled_gap(problem, X, dual, gradient, 1e-6, rng=rng)
    assert gap >= problem.value(X) - best.value - 1e-5


def test_errors_are_proportional_to_the_variance():
    for variance in (0.25, 1.0, 4.0):
        noise, unit = Noise(variance, 15, 3.0), Noise(0.5, 15, 3.0)
        assert noise.error(100, 0.95) == pytest.approx(2 * variance * unit.error(100, 0.95))


def test_samples_that_show_all_but_rare_values():
    for rarest in (0.5, 0.3, 0.03, 0.01):
        assert rarest * least_samples(rarest) >= SEEN > rarest * (least_samples(rarest) - 1)


def apart():
    """A problem, a point away from its optimum, a dual point, and the gradient there."""
    problem = wp.Problem(Denoising(SQUARE), L1(0.3), NuclearBall(4.0))
    X = near(problem, SQUARE, np.random.default_rng(1), 0.5)
    dual = FixedDual(problem.penalty, problem.penalty.ascend(None, X.dense(), 1.0))
    return problem, X, dual, problem.loss.grad(X.dense(), problem.loss.everything())


def test_shares_are_tried_until_the_whole_bound_is_enough():
    """Not only its part due to the error."""
    rng, (problem, X, dual, gradient) = np.random.default_rng(0), apart()
    best, _ = sampled_gap(problem, X, dual, gradient, 1e-4, rng=rng)
    rough, part = sampled_gap(problem, X, dual, gradient, 1e-4, rng=rng, enough=1e9)
    assert part < best < rough
    enough = best * (1 + 1e-9)
    assert sampled_gap(problem, X, dual, gradient, 1e-4, rng=rng, enough=enough)[0] == best


def test_at_most_three_shares_are_tried(monkeypatch):
    (problem, X, dual, gradient), honest, steps = apart(), NuclearBall.weak_prox, []

    def counted(self, A, **options):
        steps.append(options["weight"])
        return honest(self, A, **options)

    monkeypatch.setattr(NuclearBall, "weak_prox", counted)
    sampled_gap(problem, X, dual, gradient, 100.0, rng=np.random.default_rng(0))
    assert len(steps) == 3


class Lifted(FixedDual):
    """A dual point whose value is too large by a constant."""

    def target(self, X, G, weight):
        return super().target(X, G, weight) + 1e8


def test_every_term_has_its_share_of_the_rounding():
    rng, (problem, X, dual, gradient) = np.random.default_rng(0), apart()
    plain, _ = sampled_gap(problem, X, dual, gradient, 0.0, rng=rng)
    lifted, _ = sampled_gap(problem, X, Lifted(dual.penalty, dual.y), gradient, 0.0, rng=rng)
    assert lifted - 1e8 >= plain + 32 * np.finfo(float).eps * 1e8


class Raised(NuclearBall):
    """The ball's indicator plus a constant."""

    def value(self, X):
        return super().value(X) + 3.0

    def conjugate(self, A, rng):
        return super().conjugate(A, rng) - 3.0


def test_a_constant_does_not_change_a_gap_without_strong_convexity():
    found = []
    for h in (NuclearBall(2.0), Raised(2.0)):
        problem = wp.Problem(Sensing(MATRICES[:20], MEASURED[:20]), L1(0.1), h)
        X = near(problem, numbers(*SHAPE), np.random.default_rng(0), 0.1)
        dual = FixedDual(problem.penalty, problem.penalty.ascend(None, X.dense(), 10.0))
        gradient = problem.loss.grad(X.dense(), problem.loss.everything())
        rng = np.random.default_rng(0)
        found.append(sampled_gap(problem, X, dual, gradient, 0.01, rng=rng)[0])
    assert found[1] == pytest.approx(found[0], rel=1e-9)


@pytest.mark.parametrize(("one", "two", "level"), [(1.0, 30.0, 0.95), (12.0, 200.0, 0.999)])
def test_quantiles_are_those_of_an_f_distribution(one, two, level):
    assert sampled._quantile(one, two, level) == pytest.approx(f.ppf(level, one, two))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_gap_of_a_flat_model_is_that_of_the_best_vertex(sign):
    """<S, X - V> is largest at V = 0 if S is positive definite."""
    root = numbers(5, 5, seed=3)
    S = sign * (root @ root.T + np.eye(5))
    problem = wp.Problem(Denoising(S), None, TracePSD(2.0))
    X = problem.spectral.random_point(np.random.default_rng(0), (5, 5), 2, S)
    dual = FixedDual(problem.penalty, 0.0 * S)
    model = sampled._Model.at(problem, X, dual, S, 1.0)
    best = X.inner(S) + 2.0 * max(0.0, -float(np.linalg.eigvalsh(S)[0]))
    assert model.flat_gap(np.random.default_rng(1)) == pytest.approx(best, rel=1e-9)


def test_few_batches_are_drawn_if_a_loss_knows_its_furthest_sample():
    far = Sensing(MATRICES, MEASURED)
    near = Custom(
        SHAPE,
        value=lambda X: 0.5 * float((X * X).sum()),
        grad=lambda X: X,
        strong_convexity=1.0,
        smoothness=1.0,
    )
    assert sampled.batches_for(far) == sampled.GROUPS
    assert sampled.batches_for(near) == sampled.FINE != sampled.GROUPS
