"""AdaptiveSVRGCG: few steps, honest answers, the same bits when resumed."""

import math
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from reference import _cvx
from reference._cases import SPECTRAL as KINDS
from reference._cases import affine, complete, denoise, elastic_net, group, l1, sense, signal
from registry import (
    ANY_SHAPE,
    EXACT,
    LOSSES,
    MATRICES,
    MEASURED,
    NUMPY,
    NUMPY32,
    PENALTIES,
    SAMPLED,
    SHAPE,
    SPECTRAL,
    TORCH,
    TORCH32,
    denoising_sampler,
    numbers,
    sensing_sampler,
)

import weakprox as wp
from weakprox.experiments.instances import instance
from weakprox.losses import Custom, Denoising, Sensing
from weakprox.metering import Budget, Meter, MeteredLoss
from weakprox.penalties import L1, ElasticNet, MaxAffine, Sum
from weakprox.penalties.base import Smoothed
from weakprox.result import COLUMNS
from weakprox.solvers.paper.adaptive_svrgcg import Epoch, Line, Rank
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD
from weakprox.theory.gradients import Measured, Pool

EVERY_LOSS = {**LOSSES, **{name: entry for name, (entry, _) in SAMPLED.items()}}
SYM = numbers(6, 6) + numbers(6, 6).T
SMALL = 1e-6  # relative accuracy granted to CVXPY


def practical(rank=2, **options):
    return wp.solvers.AdaptiveSVRGCG(rank=rank, **options)


def honest(problem, *, rounding=1e-9, exact=False):
    """A short run: feasible throughout, no bound above a value, nothing promised."""
    worst = []

    def callback(look):
        X = problem.spectral.compress(look.X, min(problem.shape), np.random.default_rng(0))
        worst.append(problem.spectral.violation(X))
        assert np.isfinite(look.value)

    solver = practical(inner=4, epochs=2, k_s=6, k_t=3)
    options = {"eps": 1e-3, "stop_when_certified": False, "look_every": 1}
    result = wp.minimize(problem, solver, callback=callback, progress=False, **options)
    assert max(worst) <= rounding
    assert result.violation <= rounding
    assert exact or result.rank <= 2
    assert 8 <= result.counts.svds <= 12  # four more at most, to cut the iterate
    if not result.sampled:
        assert result.certificate.lower_bound <= result.value
        slack = rounding * (1 + abs(result.value))
        assert (result.trace["value"] >= result.certificate.lower_bound - slack).all()
    if result.status is wp.Status.FINISHED:
        assert not result.status.reached
    else:  # proved, or at a stated confidence where G is sampled
        assert result.status is not wp.Status.EXPECTED
        assert result.gap <= 1e-3
    return result


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_losses_with_penalties(loss, penalty):
    G, R = EVERY_LOSS[loss].build(NUMPY), PENALTIES[penalty].build(NUMPY)
    if not G.strong_convexity + R.curvature > 0:
        R = R + ElasticNet(0.0, 0.1)
    honest(wp.Problem(G, R, NuclearBall(2.0)))


@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=lambda b: b.name)
@pytest.mark.parametrize("spectral", {**SPECTRAL, **EXACT})
@pytest.mark.parametrize("penalty", ANY_SHAPE)
def test_penalties_with_spectral_terms(penalty, spectral, backend):
    R = PENALTIES[penalty].build(backend)
    if any(isinstance(part, MaxAffine) for part in getattr(R, "parts", (R,))):
        R = Sum((MaxAffine(backend.array(numbers(4, 6, 6))), ElasticNet(0.1, 0.1)))
    h = {**SPECTRAL, **EXACT}[spectral].build(backend)
    problem = wp.Problem(Denoising(backend.array(SYM)), R, h)
    assert backend.owns(honest(problem, exact=spectral in EXACT).X)


@pytest.mark.parametrize("backend", [NUMPY32, TORCH32], ids=lambda b: b.name)
@pytest.mark.parametrize("term", [NuclearBall(2.0), TracePSD(2.0), NuclearNorm(0.8)])
def test_single_precision(term, backend):
    problem = wp.Problem(Denoising(backend.array(SYM)), L1(0.1), term)
    assert backend.owns(honest(problem, rounding=1e-5).X)


def weighted(X0, psd, rng):
    """Not quadratic: a line search must not trust three values alone."""
    M = X0 + 0.3 * rng.standard_normal(X0.shape)
    return Custom(
        X0.shape,
        value=lambda X: float((0.5 * (X - M) ** 2 + np.logaddexp(0, 3 * X)).sum()),
        grad=lambda X: X - M + 3 / (1 + np.exp(-3 * X)),
        strong_convexity=1.0,
        smoothness=1.0 + 9 / 4,
    )


CASES = {
    "matrix": lambda X0, psd, rng: (denoise(X0, psd, rng), [l1(0.15)]),
    "rows": lambda X0, psd, rng: (denoise(X0, psd, rng), [group(0.4, "rows")]),
    "max-affine": lambda X0, psd, rng: (denoise(X0, psd, rng), [affine(X0.shape, 12, rng)]),
    "sum": lambda X0, psd, rng: (denoise(X0, psd, rng), [l1(0.1), group(0.2, "columns")]),
    "sensing": lambda X0, psd, rng: (sense(X0, 4 * X0.size, rng), [l1(0.1)]),
    "many": lambda X0, psd, rng: (sense(X0, 20000, rng), [elastic_net(0.1, 0.1)]),
    "completion": lambda X0, psd, rng: (complete(X0, 0.6, rng), [elastic_net(0.1, 0.1)]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_value_and_bound_bracket_the_reference(name, kind):
    rng = np.random.default_rng([len(name), ord(name[-1]), ord(kind[0])])
    psd = kind == "psd"
    X0 = signal((6, 6) if psd else (7, 5), psd, rng)
    G, terms = CASES[name](X0, psd, rng)
    size = 0.8 if kind == "norm" else 0.7 * float(np.linalg.norm(X0, "nuc"))
    parts = (G, *terms)
    best, _ = _cvx.solve(X0.shape, lambda X: sum(t.theirs(X) for t in parts), kind, size)
    R = terms[0].ours if len(terms) == 1 else terms[0].ours + terms[1].ours
    problem = wp.Problem(G.ours, R, KINDS[kind](size))
    eps, slack = 1e-3 * abs(sum(t.value(0 * X0) for t in parts)), SMALL * (1 + abs(best))
    result = wp.minimize(problem, practical("estimate"), eps=eps, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert best - slack <= result.value <= best + eps + slack
    assert best - eps - slack <= result.certificate.lower_bound <= best + slack
    theory = wp.theory.parameters(problem, eps)
    assert 10 * result.counts.svds < theory.predicted_svds


def test_a_loss_that_is_not_quadratic():
    rng = np.random.default_rng(4)
    X0 = signal((7, 5), False, rng)
    problem = wp.Problem(weighted(X0, False, rng), L1(0.1), NuclearBall(5.0))
    eps = 1e-4 * problem.smooth_value(0 * X0)
    result = wp.minimize(problem, practical("estimate"), eps=eps, progress=False)
    better = wp.minimize(problem, eps=1e-3 * eps, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert better.value - 1e-3 * eps <= result.value <= better.value + eps
    assert result.certificate.lower_bound <= better.value


@pytest.mark.parametrize(
    ("r", "share", "most"), [(1, 1e-3, 300), (10, 1e-3, 20), (10, 1e-4, 40)]
)
def test_the_papers_instances_need_few_decompositions(r, share, most):
    M0, tau, size = instance(100, r, 1)
    problem = wp.Problem(Denoising(M0), L1(2.0), NuclearBall(tau))
    result = wp.minimize(problem, practical("estimate"), eps=share * size, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.counts.svds <= most
    theory = wp.theory.parameters(problem, share * size).predicted_svds
    assert 100 * result.counts.svds < theory


def test_a_rank_too_small_ends_and_says_so():
    M0, tau, size = instance(60, 3, 0)
    problem = wp.Problem(Denoising(M0), L1(2.0), NuclearBall(tau))
    result = wp.minimize(problem, practical(1), eps=1e-3 * size, progress=False, max_svds=5000)
    assert result.status is wp.Status.FINISHED
    assert result.rank == 1
    assert result.gap > result.eps
    assert result.checkpoint.memory.rank == 1


def test_the_rank_is_raised_and_lowered_but_not_to_and_fro():
    rank = Rank(8, 30)
    rank.follow(8, 2.0, 1.0)
    assert rank.now == 16
    rank.follow(16, 2.0, 1.0)
    assert rank.now == 26
    rank.follow(26, 2.0, 1.0)
    assert rank.now == 30
    rank.follow(30, 2.0, 1.0)
    assert rank.now == 30
    for _ in range(20):
        rank.follow(9, 0.0, 1.0)
    assert rank.now == 30  # raised in this epoch: stays
    later = Rank(rank.now, 30)
    for _ in range(4):
        later.follow(9, 0.0, 1.0)
    later.follow(29, 0.0, 1.0)
    assert later.now == 30
    for _ in range(5):
        later.follow(9, 0.0, 1.0)
    assert later.now == 11


def test_estimated_ranks_follow_the_optimum():
    M0, tau, size = instance(100, 10, 1)
    problem = wp.Problem(Denoising(M0), L1(2.0), NuclearBall(0.9 * tau))
    result = wp.minimize(problem, practical("estimate"), eps=1e-4 * size, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert 10 <= result.checkpoint.memory.rank <= 40


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_line_searches_are_never_worse_than_the_fixed_step(seed, factor):
    rng = np.random.default_rng(seed)
    X, D, M = rng.standard_normal((3, 9, 8))
    R = Smoothed.of(L1(0.5), 10.0 ** -rng.integers(0, 4), (9, 8))
    slope = float(((X - M + R.grad(X)) * D).sum())
    D = -np.sign(slope) * D  # downhill
    line = Line(R, X, D, -abs(slope), factor)

    def value(eta):
        bend = R.value(X + eta * D) - R.value(X) - eta * line.pull
        return line.slope * eta + factor * (0.5 * line.square * eta**2 + bend)

    least = min(1.0, 0.5 * abs(slope) / (factor * (1 + R.smoothness) * line.square))
    eta = line.minimum(1.0, least)
    grid = np.linspace(0, 1, 2001)
    best = min(value(e) for e in grid)
    assert least <= eta <= 1
    assert value(eta) <= value(least) + 1e-12
    assert value(eta) - best <= 0.05 * abs(best) + 1e-9


def test_measured_means_and_variances():
    rng = np.random.default_rng(0)
    found = Measured.of(lambda k: rng.normal(2.0, 3.0, (k, 4, 5)).mean(axis=0), 8000)
    assert found.size == 8000
    assert found.mean == pytest.approx(np.full((4, 5), 2.0), abs=0.2)
    variances = [
        Measured.of(lambda k: rng.normal(2.0, 3.0, (k, 4, 5)).mean(axis=0), 24).variance
        for _ in range(100)
    ]
    assert np.mean(variances) == pytest.approx(9 * 20, rel=0.1)
    both = found.joined(Measured(found.mean + 1.0, found.variance, 24000))
    assert both.mean == pytest.approx(found.mean + 0.75)
    pool = Pool(np.zeros((2, 2)), 10).joined(Pool(np.ones((2, 2)), 30))
    assert pool.size == 40
    assert pool.centre == pytest.approx(np.full((2, 2), 0.75))


def noisy(d=40):
    """The paper's instance behind noise, and the same without."""
    M0, tau, size = instance(d, 2, 3)

    def sampler(rng, k):
        return M0 + 5 * rng.standard_normal((k, d, d))

    loss = Denoising(sampler=sampler, shape=(d, d), sigma=5.0 * d)
    ball = NuclearBall(0.9 * tau)
    return wp.Problem(loss, L1(2.0), ball), wp.Problem(Denoising(M0), L1(2.0), ball), size


def test_samples_are_pooled_and_fewer():
    problem, exact, size = noisy()
    eps = 0.01 * size
    best = wp.minimize(exact, eps=1e-3 * eps, progress=False).value
    repaired = wp.theory.parameters(problem, eps)
    for seed in range(5):
        result = wp.minimize(problem, practical("estimate"), eps=eps, seed=seed, progress=False)
        assert result.status is not wp.Status.EXPECTED
        assert exact.value(result.low_rank) <= best + eps
        assert 4 * result.counts.samples < repaired.predicted_samples
        assert 10 * result.counts.svds < repaired.predicted_svds
        pool = result.checkpoint.memory.course.pool
        assert pool.size == result.counts.samples - result.parameters.pilot


def test_inner_batches_follow_the_measured_variance():
    rng = np.random.default_rng(0)
    X0 = signal((7, 5), False, rng)

    def sampler(rng, k):
        A = rng.standard_normal((k, 7, 5))
        return A, (A * X0).sum((1, 2)) + 0.1 * rng.standard_normal(k)

    known = {"strong_convexity": 0.9, "smoothness": 1.0, "term_smoothness": 37.0}
    loss = Sensing(sampler=sampler, shape=(7, 5), **known)
    problem = wp.Problem(loss, L1(0.05), NuclearBall(8.0))
    eps = 0.05 * 0.5 * float((X0**2).sum())
    theory = wp.theory.parameters(problem, eps)
    result = wp.minimize(problem, practical(3), eps=eps, progress=False)
    assert result.status is not wp.Status.EXPECTED
    assert 4 * result.counts.samples < theory.predicted_samples
    truth = wp.Problem(Denoising(X0), L1(0.05), NuclearBall(8.0))  # E <A, D>^2 = |D|^2
    best = wp.minimize(truth, eps=1e-3 * eps, progress=False).value
    assert truth.value(result.low_rank) <= best + eps


def test_full_gradients_where_they_cost_no_more():
    loss = Sensing(MATRICES, MEASURED)
    problem = wp.Problem(loss, ElasticNet(0.1, 0.5), NuclearBall(2.0))
    assert 2 * wp.theory.parameters(problem, 1e-2).k_t >= loss.n_terms
    result = wp.minimize(problem, practical("estimate"), eps=1e-2, progress=False)
    assert result.counts.samples == 0
    assert result.status is wp.Status.CERTIFIED


def test_theory_knows_the_limits():
    M0, tau, size = instance(60, 3, 0)
    problem = wp.Problem(Denoising(M0), L1(2.0), NuclearBall(tau))
    p = wp.theory.parameters(problem, 1e-2 * size, constants="practical")
    assert p.eta == pytest.approx(p.alpha / p.beta)
    assert p.inner == math.ceil(p.beta / p.alpha * math.log(16) - 1e-9)
    assert p.bound(p.S) == math.inf
    repaired = wp.theory.parameters(problem, 1e-2 * size)
    assert (p.mu, p.delta, p.k_t) == (repaired.mu, repaired.delta, repaired.k_t)


def test_settings_of_the_users_are_kept():
    problem = wp.Problem(Denoising(numbers(*SHAPE)), L1(0.1), NuclearBall(2.0))
    seen = []

    def eta(epoch, step):
        seen.append((epoch, step))
        return 0.25

    options = {"eps": 1e-3, "stop_when_certified": False, "progress": False}
    wp.minimize(problem, practical(3, eta=eta, inner=3, epochs=2), **options)
    assert seen == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
    with pytest.raises(wp.InputError, match="eta"):
        wp.minimize(problem, practical(3, eta=lambda s, t: 2.0), **options)


@pytest.mark.parametrize(
    ("k_t", "samples", "full"), [(3, 18, 3), (lambda s, t: s + t, 27, 3), (60, 0, 9)]
)
def test_steps_after_a_snapshot_draw_what_the_user_says(k_t, samples, full):
    """Three steps of two epochs; as many samples as terms are replaced by a full gradient."""
    problem = wp.Problem(Sensing(MATRICES, MEASURED), ElasticNet(0.1, 0.2), NuclearBall(2.0))
    assert problem.loss.n_terms == 60
    options = {"eps": 0.5, "stop_when_certified": False, "progress": False}
    solver = practical(3, k_t=k_t, inner=4, epochs=2)
    counts = wp.minimize(problem, solver, **options).counts
    assert (counts.samples, counts.full_gradients) == (samples, full)


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_pooled_samples_leave_an_eighth_of_the_accuracy(epochs):
    """k samples cost sigma^2/(2 alpha k) in the mean; the accuracy is C0 2^-epochs."""
    problem, sigma, C0 = (
        wp.Problem(denoising_sampler(NUMPY), L1(0.1), NuclearBall(2.0)),
        3.0,
        8.0,
    )
    solver = practical(2, sigma=sigma, C0=C0, epochs=epochs)
    options = {"eps": 1e-3, "stop_when_certified": False, "progress": False}
    k = wp.minimize(problem, solver, **options).counts.samples
    assert sigma**2 / (2 * k) == pytest.approx(C0 * 2.0**-epochs / 8)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"rank": 0}, "rank"),
        ({"rank": "auto"}, "rank"),
        ({"answer": "best"}, "answer"),
        ({"eta": 1.5}, "eta"),
    ],
)
def test_bad_settings_are_refused(options, argument):
    problem = wp.Problem(Denoising(numbers(*SHAPE)), L1(0.1), NuclearBall(2.0))
    solver = practical(**options)
    with pytest.raises(wp.InputError) as caught:
        wp.minimize(problem, solver, eps=1e-2)
    assert caught.value.argument == argument


def test_an_indicator_that_refuses_its_own_prox_ends():
    def prox(A, weight):
        return A * min(1.0, 1.0 / np.linalg.norm(A)) * (1 + 1e-15)

    def inside(X):
        return 0.0 if np.linalg.norm(X) <= 1.0 - 1e-12 else math.inf

    problem = wp.Problem(Denoising(numbers(*SHAPE)), L1(0.1), Exact(prox, inside))
    with np.errstate(all="ignore"):
        solver = practical(3, C0=10.0)  # not to be found where the bound is infinite
        result = wp.minimize(problem, solver, eps=1e-3, max_svds=400, progress=False)
    assert result.status in (wp.Status.FINISHED, wp.Status.MAX_SVDS)
    assert result.certificate is None or result.gap > 1e-3


def build(kind, backend=NUMPY):
    ball = NuclearBall(2.0)
    if kind == "matrix":
        return wp.Problem(Denoising(backend.array(numbers(*SHAPE))), L1(0.05), ball)
    if kind == "psd":
        return wp.Problem(Denoising(backend.array(SYM)), L1(0.05), TracePSD(4.0))
    if kind == "sampler":
        return wp.Problem(denoising_sampler(backend), L1(0.05), ball)
    if kind == "measured":
        return wp.Problem(sensing_sampler(backend), ElasticNet(0.02, 0.5), ball)
    loss = Sensing(
        backend.array(MATRICES),
        backend.array(MEASURED),
        term_smoothness=0.1,  # so that inner samples are taken
    )
    return wp.Problem(loss, ElasticNet(0.02, 0.2), ball)


def run(problem, rank="estimate", **options):
    options = {"eps": 0.02, "seed": 7, "stop_when_certified": False, **options}
    return wp.minimize(problem, practical(rank), progress=False, **options)


def same(a, b):
    assert bool((a.X == b.X).all())
    assert (a.value, a.status, a.iterate_value) == (b.value, b.status, b.iterate_value)
    assert a.counts == b.counts
    for name in COLUMNS:
        if name != "seconds":
            assert np.array_equal(a.trace[name], b.trace[name], equal_nan=True)
    assert a.certificate == b.certificate


@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=lambda b: b.name)
@pytest.mark.parametrize("kind", ["matrix", "psd", "sampler", "measured", "sensing"])
@pytest.mark.parametrize("rank", [3, "estimate"])
def test_resumed_from_disk(kind, rank, backend):
    problem = build(kind, backend)
    whole = run(problem, rank)
    assert whole.checkpoint.memory.epoch >= 2
    result = None
    for share in (0.2, 0.5, 0.9, 1.0):
        limit = math.ceil(share * whole.counts.svds)
        result = run(problem, rank, max_svds=limit, resume=result)
        result = pickle.loads(pickle.dumps(result))
    same(run(problem, rank, resume=result), whole)


def test_resumed_with_certified_stopping():
    problem, options = build("matrix"), {"eps": 1e-4, "stop_when_certified": True}
    whole = run(problem, **options)
    assert whole.status is wp.Status.CERTIFIED
    part = run(problem, max_svds=whole.counts.svds // 2, **options)
    same(run(problem, resume=part, **options), whole)


def test_a_step_that_falls_less_than_its_model_is_shortened():
    """G(x) = 10 + (1 - 10 x)_+^2 / 20 is flat beyond 1/10, which its value at 1 hides."""

    def value(X):
        return 10.0 + 0.05 * max(0.0, 1.0 - 10.0 * float(X[0, 0])) ** 2

    def grad(X):
        return -np.maximum(0.0, 1.0 - 10.0 * X)

    loss = Custom((1, 1), value=value, grad=grad, smoothness=10.0)
    problem = wp.Problem(loss, None, NuclearBall(1.0))
    X, D = np.zeros((1, 1)), np.ones((1, 1))
    line = Line(Smoothed.of(problem.penalty, 0.0, (1, 1)), X, D, -1.0, 1.0)
    tools = SimpleNamespace(loss=MeteredLoss(loss, Meter(Budget())))
    epoch = SimpleNamespace(problem=problem, tools=tools, judged=True, X=X, G=value(X))
    epoch._loss = value
    eta, fell = Epoch._searched(epoch, line, -1.0, value(D), 0.01, False)
    assert eta == pytest.approx(0.1)
    assert fell == pytest.approx(0.05)
    assert pytest.approx(10.0) == epoch.G
