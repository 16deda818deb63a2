"""SampleAverage with every sampled loss, penalty and spectral term: runs are honest."""

import math
import pickle
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from registry import (
    EXACT,
    LOSSES,
    NOISY,
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
from weakprox.losses import Custom, Denoising, Sensing
from weakprox.losses.empirical import Empirical
from weakprox.losses.inputs import CHUNK_BYTES
from weakprox.metering import Budget, Meter, StopRun
from weakprox.penalties import L1, ElasticNet
from weakprox.result import COLUMNS
from weakprox.solvers import DavisYin, sample_average
from weakprox.solvers.base import Tools
from weakprox.solvers.sample_average import SampleAverage, Sampling, Watch
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

EPS = 0.5
SYM = numbers(6, 6) + numbers(6, 6).T
LIMITS = {"max_svds": 400, "max_samples": 20_000, "evaluation_samples": 16}
SEPARABLE = [name for name, entry in PENALTIES.items() if entry.build(NUMPY).separable]
ENDS = (wp.Status.CONFIDENT, wp.Status.MAX_SVDS, wp.Status.MAX_SAMPLES)


def solve(problem, solver=None, **options):
    options = {"eps": EPS, "progress": False, **LIMITS, **options}
    return wp.minimize(problem, solver or SampleAverage(), **options)


def honest(problem, *, rounding=1e-9, **options):
    """A run: feasible throughout, limits kept, nothing claimed that is not shown."""
    worst = []

    def callback(look):
        X = problem.spectral.compress(look.X, min(problem.shape), np.random.default_rng(0))
        worst.append(problem.spectral.violation(X))
        assert np.isfinite(look.value)

    result = solve(problem, callback=callback, look_every=1, **options)
    assert max(worst) <= rounding
    assert result.violation <= rounding
    assert result.counts.svds <= LIMITS["max_svds"]
    assert result.counts.samples <= LIMITS["max_samples"] + 600  # pilots for constants first
    assert result.status in ENDS
    assert result.certified == (result.status is wp.Status.CONFIDENT)
    proof = result.certificate
    assert proof.rests_on == "sampled"
    assert proof.confidence == 0.95
    assert 0.0 <= proof.sampling_error <= proof.gap
    assert len(result.trace) > 0
    return result


def expected(loss):
    """The loss's expectation, as the finite sum that it draws from."""
    return LOSSES[SAMPLED[loss][1]].build(NUMPY)


def excess(problem, result):
    """The answer's distance from the optimum of the problem with the exact mean."""
    options = {"eps": 1e-6, "max_svds": 4000, "progress": False}
    best = wp.minimize(problem, **options)
    return problem.value(result.low_rank) - best.value


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", SAMPLED)
def test_losses_with_penalties(loss, penalty):
    G, R = SAMPLED[loss][0].build(NUMPY), PENALTIES[penalty].build(NUMPY)
    if not G.strong_convexity + R.curvature > 0:
        with pytest.raises(wp.ConvexityError, match="ElasticNet"):
            honest(wp.Problem(G, R, NuclearNorm(2.0)))
        R = R + ElasticNet(0.0, 0.5)
    result = honest(wp.Problem(G, R, NuclearBall(2.0)))
    if result.certified and R.separable:
        assert excess(wp.Problem(expected(loss), R, NuclearBall(2.0)), result) <= result.gap


@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=lambda b: b.name)
@pytest.mark.parametrize("spectral", {**SPECTRAL, **EXACT})
@pytest.mark.parametrize("penalty", ["l1", "elastic-net", "group-columns"])
def test_penalties_with_spectral_terms(penalty, spectral, backend):
    def sampler(rng, k):
        return backend.array(SYM + 0.3 * rng.standard_normal((k, 6, 6)))

    h = {**SPECTRAL, **EXACT}[spectral].build(backend)
    loss = Denoising(sampler=sampler, shape=(6, 6))
    result = honest(wp.Problem(loss, PENALTIES[penalty].build(backend), h))
    assert result.status is wp.Status.CONFIDENT
    assert backend.owns(result.X)


@pytest.mark.parametrize("backend", [NUMPY32, TORCH32], ids=lambda b: b.name)
@pytest.mark.parametrize("build", [denoising_sampler, sensing_sampler])
def test_single_precision(build, backend):
    problem = wp.Problem(build(backend), ElasticNet(0.1, 0.5), NuclearBall(2.0))
    result = honest(problem, rounding=1e-5)
    assert result.status is wp.Status.CONFIDENT
    assert backend.owns(result.X)


def test_the_answer_is_the_one_that_was_certified():
    problem = wp.Problem(denoising_sampler(NUMPY), L1(0.3), NuclearBall(3.0))
    result = solve(problem, SampleAverage(confidence=0.9))
    proof = result.checkpoint.memory.proof
    assert np.array_equal(proof.X.dense(), result.X)
    assert result.certificate.confidence == 0.9
    assert result.gap == pytest.approx(proof.gap)
    assert "90 % confidence" in str(result.certificate)
    assert result.counts.samples == result.parameters.samples


def test_a_higher_confidence_takes_more_samples():
    problem = wp.Problem(denoising_sampler(NUMPY), L1(0.3), NuclearBall(3.0))
    few, many = (
        solve(problem, SampleAverage(confidence=c), eps=0.05, max_samples=10**6)
        for c in (0.8, 0.999)
    )
    assert few.counts.samples < many.counts.samples


def test_a_rank_is_a_cap():
    problem = wp.Problem(denoising_sampler(NUMPY), None, NuclearBall(6.0))
    assert solve(problem, SampleAverage(rank=2)).rank <= 2
    assert solve(problem).rank > 2


def test_a_declared_sigma_is_not_trusted():
    """A thousandth of the true deviation is declared: the samples say what it is."""

    def sampler(rng, k):
        return numbers(*SHAPE) + 2.0 * rng.standard_normal((k, *SHAPE))

    loss = Denoising(sampler=sampler, shape=SHAPE, sigma=2e-3 * math.sqrt(35))
    result = solve(wp.Problem(loss, None, NuclearBall(50.0)))
    assert result.status is wp.Status.CONFIDENT
    assert result.parameters.variance == pytest.approx(140, rel=0.3)
    assert result.counts.samples >= 140 / (2 * EPS)


@pytest.mark.parametrize("cancel", [True, False])
def test_a_strong_convexity_that_gradients_contradict_is_refused(cancel):
    """Thirty times the true one is declared: proofs that rest on it would be wrong."""
    M = NOISY.mean(0)
    loss = Custom(
        SHAPE,
        value=lambda X, b: 0.5 * float((b[0] * (X - b[1]) ** 2).mean(0).sum()),
        grad=lambda X, b: (b[0] * (X - b[1])).mean(0),
        sampler=lambda rng, k: (
            np.ones((k, 1, 1)) if cancel else rng.uniform(0.5, 1.5, (k, 1, 1)),
            M + 0.5 * rng.standard_normal((k, *SHAPE)),
        ),
        strong_convexity=30.0,
        smoothness=30.0,
        term_smoothness=30.0,
        samples_cancel=cancel,
    )
    with pytest.raises(wp.InputError, match="gradients contradict") as caught:
        honest(wp.Problem(loss, L1(0.2), NuclearNorm(0.05)))
    assert caught.value.argument == "strong_convexity"
    # a bounded set needs none: the run continues without it
    result = honest(wp.Problem(loss, L1(0.2), NuclearBall(3.0)))
    assert result.checkpoint.restated == 0.0
    exact = wp.Problem(Denoising(M), L1(0.2), NuclearBall(3.0))
    assert excess(exact, result) <= result.gap


def test_few_samples_that_bend_less_than_their_expectation(monkeypatch):
    """The engine is not warned: it notices, and continues with what the samples have."""

    def sampler(rng, k):
        A = rng.standard_normal((k, *SHAPE))
        return A, np.tensordot(A, numbers(*SHAPE), 2)

    flat = Empirical.flattest.func
    monkeypatch.setattr(Empirical, "flattest", property(lambda self: (99.0, flat(self)[1])))
    loss = Sensing(sampler=sampler, shape=SHAPE, smoothness=1.0, strong_convexity=1.0)
    seen = []
    then = SampleAverage.step

    def step(self, problem, memory, tools):
        after = then(self, problem, memory, tools)
        seen.append(after.convexity)
        return after

    monkeypatch.setattr(SampleAverage, "step", step)
    result = honest(wp.Problem(loss, L1(0.1), NuclearBall(3.0)), eps=1.0)
    assert result.status is wp.Status.CONFIDENT
    assert any(found is not None and found < 1.0 for found in seen)
    assert result.parameters.alpha == 1.0  # the expectation's is not in doubt


def test_samples_that_cancel_by_the_users_word():
    M = NOISY.mean(0)
    loss = Custom(
        SHAPE,
        value=lambda X, batch: 0.5 * float(((X - batch.mean(0)) ** 2).sum()),
        grad=lambda X, batch: X - batch.mean(0),
        sampler=lambda rng, k: M + 0.5 * rng.standard_normal((k, *SHAPE)),
        strong_convexity=1.0,
        smoothness=1.0,
        term_smoothness=1.0,
        samples_cancel=True,
    )
    result = honest(wp.Problem(loss, L1(0.2), NuclearBall(3.0)))
    assert result.status is wp.Status.CONFIDENT
    assert result.counts.samples == result.parameters.samples  # none were spent on tests


@pytest.mark.parametrize(("rarest", "samples"), [(0.01, 400), (0.1, 40), (0.5, 8)])
def test_a_sampler_without_noise_needs_no_more_than_the_least(rarest, samples):
    loss = Denoising(sampler=lambda rng, k: np.stack([numbers(*SHAPE)] * k), shape=SHAPE)
    problem = wp.Problem(loss, L1(0.2), NuclearBall(3.0))
    result = honest(problem, solver=SampleAverage(rarest=rarest), eps=1e-6)
    assert result.status is wp.Status.CONFIDENT
    assert result.counts.samples == result.certificate.samples == samples
    assert result.certificate.rarest == rarest
    assert result.certificate.sampling_error <= 1e-20


# -------------------------------------------------------------------------- rare values


def shifted(share, size=10.0):
    """Samples without scatter but for a shift that few of them have, and their mean."""
    M = numbers(*SHAPE)

    def sampler(rng, k):
        return M + size * (rng.random((k, 1, 1)) < share) * np.ones(SHAPE)

    return sampler, M + size * share


def off(result, mean):
    """The answer's distance from the optimum where nothing but the mean matters."""
    return 0.5 * float(np.sum((result.X - mean) ** 2))


ROOM = NuclearBall(1e3)  # the ball is not active


def test_shifts_that_one_draw_in_a_hundred_has_are_seen():
    sampler, mean = shifted(0.01)
    problem = wp.Problem(Denoising(sampler=sampler, shape=SHAPE), None, ROOM)
    results = [solve(problem, eps=5.0, seed=seed) for seed in range(20)]
    assert all(result.certificate.samples >= 400 for result in results)
    assert sum(off(result, mean) > result.gap for result in results) <= 1


def test_a_loss_that_shows_no_single_samples_is_looked_at_in_small_batches():
    sampler, mean = shifted(0.01)
    loss = Custom(
        SHAPE,
        value=lambda X, b: 0.5 * float(((X - b) ** 2).mean(0).sum()),
        grad=lambda X, b: X - b.mean(0),
        sampler=sampler,
        strong_convexity=1.0,
        smoothness=1.0,
        term_smoothness=1.0,
        samples_cancel=True,
    )
    problem = wp.Problem(loss, None, ROOM)
    results = [solve(problem, eps=20.0, seed=seed) for seed in range(10)]
    assert sum(off(result, mean) > result.gap for result in results) <= 1


def test_evaluation_samples_contradict_a_proof_from_too_few():
    """Eight samples miss the shift nearly always; the evaluation samples do not."""
    sampler, mean = shifted(0.02)
    problem = wp.Problem(Denoising(sampler=sampler, shape=SHAPE), None, ROOM)
    few = SampleAverage(rarest=0.5)
    ends = {2: [], 400: []}
    for size, results in ends.items():
        for seed in range(10):
            results.append(solve(problem, few, eps=0.1, seed=seed, evaluation_samples=size))
    wrong = {n: sum(off(r, mean) > r.gap for r in results) for n, results in ends.items()}
    assert wrong[2] >= 5
    assert wrong[400] == 0
    unseen = [r for r in ends[400] if r.counts.samples == 8]
    assert len(unseen) >= 5
    assert all(r.status is wp.Status.FINISHED for r in unseen)


def test_evaluation_samples_that_agree_change_nothing():
    problem = wp.Problem(denoising_sampler(NUMPY), L1(0.3), NuclearBall(3.0))
    for seed in range(5):
        result = solve(problem, seed=seed, evaluation_samples=400)
        assert result.status is wp.Status.CONFIDENT
        assert result.gap == pytest.approx(result.checkpoint.memory.proof.gap)


def test_evaluation_samples_prove_what_the_runs_own_are_too_few_for():
    problem = wp.Problem(denoising_sampler(NUMPY), L1(0.3), NuclearBall(3.0))
    result = solve(problem, eps=5.0, max_samples=100, evaluation_samples=400)
    assert result.checkpoint.memory.proof.gap == math.inf
    assert result.certificate.proves
    assert result.certificate.samples == 400


@pytest.mark.parametrize("samples", [399, 400])
def test_too_few_evaluation_samples_prove_nothing(samples):
    problem = wp.Problem(denoising_sampler(NUMPY), L1(0.3), NuclearBall(3.0))
    options = {"eps": 5.0, "evaluation_samples": samples, "progress": False}
    result = wp.minimize(problem, wp.SVRGCG(rank=5), **options)
    assert result.certificate.proves == (samples == 400)
    assert (result.status is wp.Status.CONFIDENT) == (samples == 400)


def test_what_is_assumed_is_said():
    result = solve(build("cancel"), SampleAverage(rarest=0.02))
    text = result.explain()
    assert "fewer than one draw in 50 and in none" in text
    assert f"in none of {result.certificate.samples} samples" in text
    assert f"rests on {result.certificate.samples} samples" in str(result.certificate)
    assert "too rare to be seen" in result.status.advice


# ------------------------------------------------------------------ limits and resuming


def build(kind, backend=NUMPY):
    if kind == "cancel":
        return wp.Problem(denoising_sampler(backend), L1(0.05), NuclearBall(2.0))
    return wp.Problem(sensing_sampler(backend), ElasticNet(0.05, 0.5), NuclearBall(2.0))


def same(a, b):
    assert bool((a.X == b.X).all())
    assert (a.value, a.status, a.iterate_value) == (b.value, b.status, b.iterate_value)
    assert a.counts == b.counts
    assert a.certificate == b.certificate
    for name in COLUMNS:
        if name != "seconds":
            assert np.array_equal(a.trace[name], b.trace[name], equal_nan=True)


@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=lambda b: b.name)
@pytest.mark.parametrize("kind", ["cancel", "vary"])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.9])
def test_resumed_runs_end_as_if_nothing_had_happened(kind, share, backend):
    problem = build(kind, backend)
    options = {"eps": 0.05 if kind == "cancel" else EPS, "max_samples": None}
    whole = solve(problem, **options)
    assert whole.status is wp.Status.CONFIDENT
    part = solve(problem, **{**options, "max_svds": int(share * whole.counts.svds)})
    assert part.status is wp.Status.MAX_SVDS
    same(solve(problem, **options, resume=pickle.loads(pickle.dumps(part))), whole)


def test_after_ctrl_c_and_after_a_callback():
    problem = build("vary")
    whole = solve(problem, max_samples=None)

    def interrupt(look):
        if look.epoch == 2:
            raise KeyboardInterrupt

    part = solve(problem, max_samples=None, callback=interrupt)
    assert part.status is wp.Status.INTERRUPTED
    same(solve(problem, max_samples=None, resume=part), whole)
    part = solve(problem, max_samples=None, callback=lambda look: look.epoch == 3)
    assert part.status is wp.Status.CALLBACK
    same(solve(problem, max_samples=None, resume=part), whole)


@pytest.mark.parametrize("kind", ["cancel", "vary"])
@pytest.mark.parametrize("most", [0, 7, 30, 150, 1300])
def test_samples_are_limited_and_all_used(kind, most):
    problem = build(kind)
    result = solve(problem, eps=1e-3, max_samples=most)
    assert result.status is wp.Status.MAX_SAMPLES
    before = getattr(problem.loss, "pilot_samples", 0)
    assert result.counts.samples - before <= most
    if most >= 30:
        assert result.counts.samples - before == most
        assert result.gap > 1e-3
        assert (result.gap < math.inf) == (most > 1000)  # what they show, if they are enough
        assert result.counts.svds > 0


def test_time_is_limited():
    result = solve(build("cancel"), eps=1e-2, max_seconds=0.0)
    assert result.status is wp.Status.MAX_SECONDS
    assert not result.certified


@pytest.mark.parametrize("kind", ["cancel", "vary"])
def test_samples_that_do_not_fit_end_the_run(kind, monkeypatch):
    monkeypatch.setattr("weakprox.solvers.sample_average.room", lambda: 100_000)
    result = solve(build(kind), eps=0.05, max_samples=None)
    if kind == "cancel":
        assert result.status is wp.Status.CONFIDENT  # they are reduced to their mean
        return
    assert result.status is wp.Status.MAX_MEMORY
    assert not result.certified
    assert "SVRGCG" in result.status.advice


def test_a_start_is_used():
    problem = build("cancel")
    start = solve(problem, eps=0.05, max_samples=None).X
    with pytest.raises(wp.InputError, match="outside the set"):
        solve(problem, start=10 * start)
    assert solve(problem, start=start, eps=0.05, max_samples=None).certified


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("loss", LOSSES)
def test_finite_sums_are_refused(loss):
    problem = wp.Problem(LOSSES[loss].build(NUMPY), ElasticNet(0.1, 0.1), NuclearBall(2.0))
    with pytest.raises(wp.InputError, match="use DavisYin") as caught:
        solve(problem)
    assert caught.value.argument == "loss"


@pytest.mark.parametrize("confidence", [0.5, 1.0, -1, math.nan, "high", None, True])
def test_confidences_that_mean_nothing_are_refused(confidence):
    with pytest.raises(wp.InputError, match=r"from 0\.8 to below 1") as caught:
        solve(build("cancel"), SampleAverage(confidence=confidence))
    assert caught.value.argument == "confidence"


@pytest.mark.parametrize("rarest", [0.0, 0.6, -1, math.nan, "never", None, True])
def test_shares_that_mean_nothing_are_refused(rarest):
    with pytest.raises(wp.InputError, match=r"from 1e-09 to 0\.5") as caught:
        solve(build("cancel"), SampleAverage(rarest=rarest))
    assert caught.value.argument == "rarest"


@pytest.mark.parametrize("rank", [0, 2.5, "many"])
def test_ranks_that_cannot_be_are_refused(rank):
    with pytest.raises(wp.InputError, match="rank"):
        solve(build("cancel"), SampleAverage(rank=rank))


def test_a_sampler_that_breaks_down_says_so():
    calls = []

    def sampler(rng, k):
        calls.append(k)
        if len(calls) > 12:
            raise RuntimeError("no more")
        return rng.standard_normal((k, *SHAPE))

    loss = Denoising(sampler=sampler, shape=SHAPE)
    with pytest.raises(wp.SamplerError, match="no more"):
        solve(wp.Problem(loss, None, NuclearBall(2.0)), eps=1e-3)


@pytest.mark.parametrize("h", [NuclearBall(2.0), TracePSD(2.0), NuclearNorm(0.5)])
def test_other_solvers_get_certificates_from_evaluation_samples(h):
    def sampler(rng, k):
        A = rng.standard_normal((k, 6, 6))
        return A, np.tensordot(A, SYM, 2) + 0.1 * rng.standard_normal(k)

    loss = Sensing(sampler=sampler, shape=(6, 6), smoothness=1.0, strong_convexity=1.0)
    problem = wp.Problem(loss, L1(0.1), h)
    options = {"eps": 30.0, "max_svds": 200, "evaluation_samples": 4000, "progress": False}
    result = wp.minimize(problem, wp.SVRGCG(rank=6), **options)
    exact = wp.Problem(Denoising(SYM), L1(0.1), h)
    best = wp.minimize(exact, eps=1e-6, progress=False)
    assert exact.value(result.low_rank) - best.value <= result.gap < math.inf
    assert result.status is wp.Status.CONFIDENT
    assert result.certificate.sampling_error > 0.0


def test_a_loss_without_strong_convexity_on_a_bounded_set():
    """The diameter limits what the sampling error may cost; without one nothing does."""
    truth = np.zeros(SHAPE)
    truth[0, 0] = 0.4

    def sampler(rng, k):
        A = rng.standard_normal((k, *SHAPE)) / 5
        return A, np.tensordot(A, truth, 2) + 0.05 * rng.standard_normal(k)

    loss = Sensing(sampler=sampler, shape=SHAPE, smoothness=0.04, strong_convexity=0.0)
    result = solve(wp.Problem(loss, L1(0.002), NuclearBall(0.5)), eps=0.01)
    assert result.solver == "SampleAverage"
    assert result.status is wp.Status.CONFIDENT
    assert result.parameters.alpha == 0.0
    # E f at X: half the noise, half of |X - truth|^2 / 25, and the penalty
    X = result.X
    value = 0.5 * (0.05**2 + np.sum((X - truth) ** 2) / 25) + 0.002 * np.abs(X).sum()
    least = 0.5 * 0.05**2  # that f is never below
    assert value - (0.5 * 0.05**2 + 0.002 * 0.4) <= result.gap <= 0.01
    assert result.value == pytest.approx(value, abs=1e-3)
    assert value >= least
    with pytest.raises(wp.ConvexityError):
        solve(wp.Problem(loss, L1(0.002), NuclearNorm(0.5)), eps=0.01)


def tools_for(problem, **limits):
    """What a run gives its solver."""
    meter = Meter(Budget(**limits))
    choose = lambda problem, rank: DavisYin(rank=rank)  # noqa: E731
    return Tools(problem, meter, 0.05, 0, lambda candidate: None, choose)


def test_the_engine_is_asked_for_what_the_sampling_error_leaves():
    problem = wp.Problem(denoising_sampler(NUMPY), None, NuclearBall(2.0))
    for alpha, retries in ((2.0, 0), (2.0, 1), (0.0, 0)):
        plan = Sampling(1.0, alpha, 0.95, 0.01, diameter=0.15)
        memory = SimpleNamespace(parameters=plan, error=0.36, retries=retries)
        watch = Watch(problem, problem, DavisYin(), memory, tools_for(problem))
        assert watch.paid == pytest.approx(0.09)
        gap, theta = 4**retries * watch.target, 0.3  # the best share: sqrt(paid/goal)
        whole = gap / (1 - theta) + watch.paid / theta if alpha else gap + watch.paid
        assert whole == pytest.approx(watch.goal)


def test_samples_kept_count_in_the_limit_on_memory(monkeypatch):
    problem = wp.Problem(sensing_sampler(NUMPY), None, NuclearBall(2.0))
    each = CHUNK_BYTES // problem.loss.chunk
    assert each > 0
    monkeypatch.setattr(sample_average, "room", lambda: 100 * each)
    tools = tools_for(problem)
    assert sum(size for _, size in sample_average.more(tools, 90, 10)) == 10
    with pytest.raises(StopRun) as stopped:
        sample_average.more(tools, 91, 10)
    assert stopped.value.status is wp.Status.MAX_MEMORY


def test_the_error_after_a_failed_test_is_what_the_next_one_expects():
    problem = wp.Problem(sensing_sampler(NUMPY), ElasticNet(0.1, 0.2), NuclearBall(2.0))
    solver, tools = SampleAverage(), tools_for(problem)
    memory = first = solver.start(problem, None, tools)
    while memory.have == first.have:
        memory = solver.step(problem, memory, tools)
    assert not memory.done
    assert memory.error == solver._test(memory).error


@dataclass(frozen=True)
class Kept:
    below: float


@pytest.mark.parametrize(
    ("gap", "worth", "below"),
    [(0.4, True, 0.2), (0.0, True, -math.inf), (-0.1, True, -math.inf), (0.6, False, 0.5)],
)
def test_estimates_of_the_gap_are_checked_once(gap, worth, below, monkeypatch):
    """A check that fails waits for half of the estimate; one of zero cannot fall further."""
    monkeypatch.setattr(sample_average, "FAILED", 0.5)
    watch = SimpleNamespace(target=1.0, memory=Kept(0.5))
    assert Watch._worth_checking(watch, SimpleNamespace(gap=gap)) is worth
    assert watch.memory.below == below
