"""Baselines resume to the bit, repeat to the bit, and keep their limits exactly."""

import pickle

import numpy as np
import pytest
from registry import MATRICES, MEASURED, NUMPY, SHAPE, TORCH, denoising_sampler, numbers

import weakprox as wp
from weakprox.experiments.ablation import Arm
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import L1, ElasticNet
from weakprox.result import COLUMNS
from weakprox.solvers import FISTA, HCGM, SCG, SCGS, SHCGM, STORC, SVRF, ProjectedSubgradient
from weakprox.spectral import NuclearBall, TracePSD

M = numbers(*SHAPE)
SYM = numbers(6, 6) + numbers(6, 6).T


def build(kind, backend=NUMPY):
    if kind == "matrix":
        return wp.Problem(Denoising(backend.array(M)), L1(0.05), NuclearBall(2.0))
    if kind == "psd":
        return wp.Problem(Denoising(backend.array(SYM)), L1(0.05), TracePSD(4.0))
    if kind == "sampler":
        return wp.Problem(denoising_sampler(backend), L1(0.05), NuclearBall(2.0))
    loss = Sensing(backend.array(MATRICES), backend.array(MEASURED))
    return wp.Problem(loss, ElasticNet(0.02, 0.2), NuclearBall(2.0))


SOLVERS = {
    "scg": SCG(),
    "scg-samples": SCG(sigma=1.0),
    "scgs": SCGS(),
    "scgs-samples": SCGS(sigma=0.3),
    "scgs-convex": SCGS(strongly_convex=False, sigma=0.3),
    "scgs-capped": SCGS(max_inner=2),
    "storc": STORC(),
    "storc-lipschitz": STORC(case="lipschitz"),
    "svrf": SVRF(),
    "hcgm": HCGM(),
    "shcgm": SHCGM(sigma=1.0),
    "fista": FISTA(),
    "plain": FISTA(momentum=False),
    "subgradient": ProjectedSubgradient(),
    "subgradient-samples": ProjectedSubgradient(batch=2),
    "exact": Arm(rank=3, oracle="exact"),
    "fresh": Arm(rank=3, variance_reduction=False),
}
SAMPLING = {"scg-samples", "scgs-samples", "scgs-convex", "shcgm", "subgradient-samples"}
PAIRS = [
    *((name, kind) for name in SOLVERS for kind in ("matrix", "psd", "sensing")),
    *((name, "sampler") for name in (*sorted(SAMPLING), "fresh")),
]
every_pair = pytest.mark.parametrize(("name", "kind"), PAIRS)
LIMIT = 150  # in the middle of the third stretch of those that have stretches


def run(problem, solver, **options):
    """A run that ends by a callback at a fixed number of decompositions."""

    def enough(look):
        return look.counts.svds >= LIMIT

    options = {"callback": enough, "eps": 0.02, "seed": 7, **options}
    return wp.minimize(
        problem, solver, stop_when_certified=False, progress=False, look_every=20,
        evaluation_samples=8, **options,
    )  # fmt: skip


def same(a, b):
    assert bool((a.X == b.X).all())
    assert (a.value, a.status, a.iterate_value) == (b.value, b.status, b.iterate_value)
    assert a.counts == b.counts
    for column in COLUMNS:
        if column != "seconds":
            assert np.array_equal(a.trace[column], b.trace[column], equal_nan=True)
    assert a.certificate == b.certificate


@every_pair
def test_resumed_runs_end_alike(name, kind):
    problem, solver = build(kind), SOLVERS[name]
    whole = run(problem, solver)
    part = run(problem, solver, max_svds=min(100, int(0.7 * whole.counts.svds)))
    assert 0 < part.counts.svds < whole.counts.svds
    again = run(problem, solver, resume=pickle.loads(pickle.dumps(part)))
    same(again, whole)


@pytest.mark.parametrize("name", SOLVERS)
def test_torch(name):
    problem, solver = build("sensing", TORCH), SOLVERS[name]
    whole = run(problem, solver)
    part = run(problem, solver, max_svds=min(100, int(0.7 * whole.counts.svds)))
    same(run(problem, solver, resume=part), whole)


@pytest.mark.parametrize(("name", "kind"), [pair for pair in PAIRS if pair[1] != "psd"])
def test_same_seed_same_bits_and_limits_are_kept(name, kind):
    problem, solver = build(kind), SOLVERS[name]
    limits = {"max_svds": 70, "callback": None, "eps": 1e-4}
    first, second = (run(problem, solver, **limits) for _ in range(2))
    same(first, second)
    assert first.counts.svds == 70
    assert first.status in (wp.Status.MAX_SVDS, wp.Status.CERTIFIED)
    assert first.violation <= 1e-9
    if kind == "sampler" or (name in SAMPLING and kind == "sensing"):
        other = run(problem, solver, **limits | {"seed": 8})
        assert (other.X != first.X).any()


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_hardly_any_decompositions(name, limit):
    result = run(build("matrix"), SOLVERS[name], max_svds=limit, callback=None, eps=1e-4)
    assert result.status is wp.Status.MAX_SVDS
    assert result.counts.svds == limit
    assert np.isfinite(result.value)
    assert result.violation <= 1e-9


@pytest.mark.parametrize("name", sorted(SAMPLING))
@pytest.mark.parametrize("kind", ["sampler", "sensing"])
def test_samples_stay_within_their_limit(name, kind):
    limit = 20 if (name, kind) == ("scgs-convex", "sensing") else 137  # then all terms
    solver = SOLVERS[name]
    if name == "scgs-samples":
        solver = SCGS(sigma=0.3, C0=3.0)  # no pilot draws
    result = run(build(kind), solver, max_samples=limit, callback=None, eps=1e-4)
    assert result.status is wp.Status.MAX_SAMPLES
    assert 0 < result.counts.samples <= limit


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("at", [1, 90])
def test_ctrl_c_returns_the_last_whole_point(name, at):
    """Raised inside an oracle; whatever was half done is dropped."""
    calls = 0

    class Interrupting(NuclearBall):
        def count(self):
            nonlocal calls
            calls += 1
            if calls == at:
                raise KeyboardInterrupt

        def extreme(self, G, **options):
            self.count()
            return super().extreme(G, **options)

        def weak_prox(self, A, **options):
            if not options.get("certify"):
                self.count()
            return super().weak_prox(A, **options)

    problem = wp.Problem(Denoising(M), L1(0.05), Interrupting(2.0))
    options = {"callback": None, "eps": 1e-5}
    result = run(problem, SOLVERS[name], **options)
    assert result.status is wp.Status.INTERRUPTED
    assert result.counts.svds == at - 1
    assert result.violation <= 1e-9
    assert np.isfinite(result.value)
    if result.checkpoint is not None:  # interrupted after the first point was found
        whole = run(problem, SOLVERS[name], max_svds=130, **options)
        same(run(problem, SOLVERS[name], resume=result, max_svds=130, **options), whole)


def test_a_run_of_another_baseline_is_not_resumed():
    problem = build("matrix")
    part = run(problem, SCG(), max_svds=20)
    with pytest.raises(wp.InputError, match="resume"):
        run(problem, HCGM(), resume=part)
    with pytest.raises(wp.InputError, match="resume"):
        run(problem, SCG(mu=0.1), resume=part)


def test_a_short_run_from_a_first_point_is_resumed_from_there():
    problem = build("matrix")
    rough = wp.minimize(problem, tol=0.1, progress=False)
    for start in (rough.X, rough):
        once = wp.minimize(problem, start=start, tol=1e-3, progress=False)
        assert once.certified
        again = wp.minimize(problem, resume=once, tol=1e-3, progress=False)
        np.testing.assert_array_equal(once.X, again.X)
