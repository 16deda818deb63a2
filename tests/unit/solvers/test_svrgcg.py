"""SVRGCG: the algorithm box replayed by hand, its settings, and its two answers."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from registry import MATRICES, MEASURED, NOISY, SHAPE, numbers

import weakprox as wp
from weakprox.linalg.arrays import SHARED
from weakprox.linalg.simplex import project_capped
from weakprox.losses import Denoising, Sensing
from weakprox.metering import Budget, Meter
from weakprox.penalties import L1, ElasticNet
from weakprox.solvers.base import Tools
from weakprox.solvers.paper import adaptive_svrgcg
from weakprox.spectral import NuclearBall
from weakprox.theory.gradients import Measured

M = numbers(*SHAPE)
TAU, LAM = 2.0, 0.2
SPARSE = wp.Problem(Denoising(M), L1(LAM), NuclearBall(TAU))
SENSING = wp.Problem(Sensing(MATRICES, MEASURED), ElasticNet(0.1, 0.2), NuclearBall(TAU))


def run(
    problem=SPARSE, *, eps=1.0, callback=None, seed=0, start=None, evaluate=256, **settings
):
    solver = wp.SVRGCG(**{"rank": 3, **settings})
    return wp.minimize(
        problem, solver, eps=eps, seed=seed, stop_when_certified=False, look_every=1,
        callback=callback, start=start, evaluation_samples=evaluate,
    )  # fmt: skip


def project(A, rank):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    return (U[:, :rank] * project_capped(s[:rank], TAU)) @ Vt[:rank]


def test_iterates_of_example_1_replayed_by_hand():
    """A = X - (X - M + lam clip(X/mu)) / (2 b eta), V = P_tau^r(A), X <- X + eta (V - X)."""
    seen = []
    result = run(callback=lambda look: seen.append(look.X.copy()), eps=4.0)
    p = result.parameters
    X, replayed = np.zeros(SHAPE), []
    for _ in range(p.epochs):
        for _ in range(p.inner):
            gradient = X - M + LAM * np.clip(X / p.mu, -1, 1)
            V = project(X - gradient / (2 * p.beta * p.eta), 3)
            X = (1 - p.eta) * X + p.eta * V
            replayed.append(X)
        replayed.append(X)  # the look at the epoch's end
    assert len(seen) == len(replayed)
    assert np.allclose(seen, replayed, atol=1e-10)


def test_iterates_of_algorithm_2_replayed_by_hand():
    """Inner batches are drawn from the stream (seed, epoch), in order."""
    seen = []
    result = run(
        SENSING,
        callback=lambda look: seen.append(look.X.copy()),
        k_t=4,
        inner=3,
        epochs=2,
        seed=5,
    )
    p, X = result.parameters, np.zeros(SHAPE)

    def grad(Z, picked):
        r = (MATRICES[picked] * Z).sum(axis=(1, 2)) - MEASURED[picked]
        return (r[:, None, None] * MATRICES[picked]).mean(axis=0)

    replayed = []
    for epoch in (1, 2):
        rng, snapshot = np.random.default_rng([5, epoch]), X
        full = grad(snapshot, np.arange(len(MEASURED)))
        for t in range(3):
            g = full
            if t > 0:  # at the snapshot itself the samples cancel and none are drawn
                picked = rng.integers(0, len(MEASURED), 4)
                g = full + grad(X, picked) - grad(snapshot, picked)
            g = g + 0.1 * np.clip(X / p.mu, -1, 1) + 0.4 * X
            V = project(X - g / (2 * p.beta * p.eta), 3)
            X = (1 - p.eta) * X + p.eta * V
            replayed.append(X)
        replayed.append(X)
    assert np.allclose(seen, replayed, atol=1e-10)
    assert result.counts.samples == 2 * 2 * 4
    assert result.counts.full_gradients == 3  # one for C0, one per epoch
    assert result.counts.gradients == 3 * len(MEASURED) + 2 * 16


def test_default_step_lands_on_the_batch_mean():
    """Spec item 13: A = Mbar - lam clip(X/mu), whatever X is."""
    targets = []

    class Spy(NuclearBall):
        def weak_prox(self, A, **options):
            if not options.get("certify"):
                targets.append(A.copy())
            return super().weak_prox(A, **options)

    result = run(wp.Problem(Denoising(samples=NOISY), L1(LAM), Spy(TAU)), eps=4.0)
    assert targets[0] == pytest.approx(NOISY.mean(axis=0))
    distance = np.abs(np.array(targets) - NOISY.mean(axis=0)).max()
    assert distance <= LAM * (1 + 1e-9)
    assert len(targets) == result.counts.svds


def test_numbers_override_the_theory():
    result = run(inner=4, epochs=2, eta=0.3, mu=0.5, delta=1e-3, C0=7.0)
    assert result.counts.svds == 8
    p = result.parameters
    assert (p.mu, p.eta, p.delta, p.C0) == (0.5, 0.3, 1e-3, 7.0)
    assert result.status in (wp.Status.FINISHED, wp.Status.CERTIFIED)


def test_no_promise_for_settings_no_theorem_covers():
    def sampler(rng, k):
        return M + 0.1 * rng.standard_normal((k, *SHAPE))

    problem = wp.Problem(Denoising(sampler=sampler, shape=SHAPE), L1(LAM), NuclearBall(TAU))
    few = {"rank": 5, "eps": 2.0, "evaluate": 2}  # too few to certify what is not promised
    assert run(problem, **few).status is wp.Status.EXPECTED
    for settings in ({"epochs": 1}, {"eta": 0.01}, {"inner": 2}, {"k_s": 3}, {"mu": 1e3}):
        found = run(problem, **few, **settings)
        assert found.status is wp.Status.FINISHED
        assert not found.status.reached


def test_callables_see_epoch_and_step():
    calls = {"eta": [], "k_s": [], "k_t": [], "inner": []}

    def spy(name, answer):
        def schedule(*where):
            calls[name].append(where)
            return answer(*where)

        return schedule

    def sampler(rng, k):
        picked = rng.integers(0, len(MEASURED), k)
        return MATRICES[picked], MEASURED[picked]

    loss = Sensing(
        sampler=sampler, shape=SHAPE, smoothness=3.0, term_smoothness=60.0, sigma=9.0
    )
    problem = wp.Problem(loss, ElasticNet(0.1, 0.2), NuclearBall(TAU))
    result = run(
        problem,
        epochs=2,
        C0=5.0,
        eta=spy("eta", lambda s, t: 0.1 / t),
        k_s=spy("k_s", lambda s: 10 * s),
        k_t=spy("k_t", lambda s, t: s + t),
        inner=spy("inner", lambda s: 1 + s),
    )
    assert calls["inner"] == calls["k_s"] == [(1,), (2,)]
    assert calls["eta"] == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)]
    assert calls["k_t"] == calls["eta"]
    assert result.counts.svds == 5
    # snapshots 10 + 20, inner draws from the second step on: 1+2, 2+2, 2+3
    assert result.counts.samples == 30 + 3 + 4 + 5


def test_a_callable_step_outside_its_range_is_an_error():
    with pytest.raises(wp.InputError, match="epoch 1, step 3"):
        run(eta=lambda s, t: 0.5 * t)


@pytest.mark.parametrize("constants", ["paper", "repaired"])
def test_constant_sets(constants):
    def sampler(rng, k):
        return M + 0.1 * rng.standard_normal((k, *SHAPE))

    problem = wp.Problem(Denoising(sampler=sampler, shape=SHAPE), None, NuclearBall(TAU))
    result = run(problem, constants=constants, rank=5, eps=0.5)
    assert result.parameters.constants == constants
    assert result.parameters.inner == {"paper": 6, "repaired": 7}[constants]


def test_low_rank_answer_and_iterate():
    low, iterate = run(answer="low_rank", rank=2), run(answer="iterate", rank=2)
    assert low.rank <= 2
    assert iterate.rank > 2
    assert iterate.value == pytest.approx(iterate.iterate_value)
    assert low.iterate_value == pytest.approx(iterate.iterate_value)
    assert iterate.violation <= 1e-9


def test_iterate_is_the_last_one():
    seen = []
    result = run(answer="iterate", callback=lambda look: seen.append(look.X.copy()))
    assert pytest.approx(seen[-1], abs=1e-10) == result.X


def test_h_is_carried_as_an_upper_bound():
    """For a penalty h the trace's value is never below f at the iterate."""
    problem = wp.Problem(Denoising(M), None, wp.spectral.NuclearNorm(0.4))
    looks = []

    def callback(look):
        looks.append((look.value, look.X.copy()))

    run(problem, callback=callback, eps=1e-3)
    run(problem, callback=callback, eps=1e-3, start=20 * np.eye(*SHAPE))
    for value, X in looks:
        true = 0.5 * ((X - M) ** 2).sum() + 0.4 * np.linalg.norm(X, "nuc")
        assert value >= true - 1e-9


def test_a_rank_that_is_too_small_is_not_called_done():
    def sampler(rng, k):
        return np.eye(6) * 2 + 0.01 * rng.standard_normal((k, 6, 6))

    problem = wp.Problem(Denoising(sampler=sampler, shape=(6, 6)), None, NuclearBall(6.0))
    small = wp.minimize(problem, wp.SVRGCG(1), eps=0.1)
    enough = wp.minimize(problem, wp.SVRGCG(6), eps=0.1, evaluation_samples=2)
    assert small.status is wp.Status.RANK_LIMITED
    assert enough.status is wp.Status.EXPECTED  # too few evaluation samples to certify it
    assert enough.value < small.value - 1.0


def test_settings_are_frozen_and_comparable():
    assert wp.SVRGCG(3, mu=0.1) == wp.SVRGCG(3, mu=0.1)
    with pytest.raises(AttributeError):
        wp.SVRGCG(3).rank = 4


@pytest.mark.parametrize(("gap", "target", "wanted"), [(3.0, 0.1, 200), (0.2, 4.0, 100)])
def test_inner_samples_suffice_for_half_of_the_gap(gap, target, wanted):
    """Or for the target, if that is larger: 8 variances over alpha times it."""
    sizes, gradient = [], np.ones((2, 2))

    def difference(loss, X, rng, size):
        sizes.append(size)
        return Measured(np.zeros((2, 2)), 25.0, size)

    epoch = SimpleNamespace(
        p=SimpleNamespace(alpha=0.5, k_t=1000, finite_sum=True),
        tools=SimpleNamespace(loss=None),
        snapshot=SimpleNamespace(difference=difference, gradient=gradient),
        first_gap=1.0,
        gap=gap,
        target=target,
        inner_samples=10,
        X=None,
        rng=None,
    )
    found = adaptive_svrgcg.Epoch._reduced_gradient(epoch)
    assert found.tolist() == gradient.tolist()
    assert sizes == [10, wanted - 10]
    assert epoch.inner_samples == wanted


def test_the_error_of_the_oracle_is_a_mean_that_forgets():
    """As much in each step as the theorem contracts."""
    seen = []
    tools = Tools(SPARSE, Meter(Budget()), 1.0, 0, seen.append, lambda *_: None)
    solver = wp.SVRGCG(rank=1)
    before = solver.start(SPARSE, None, tools)
    after = solver.step(SPARSE, before, tools)
    assert after.epoch < after.parameters.epochs  # the last one measures again
    delta = before.delta
    for candidate in seen:
        share = after.parameters.contraction
        delta = (1.0 - share) * delta + share * candidate.delta_estimate
    assert after.delta == pytest.approx(delta)
    assert delta > 0.0


@pytest.mark.parametrize(
    ("delta", "excess"), [(0.3, 0.0), (0.4, 0.0), (1.1, 8 / 7 * 0.5 * 0.7)]
)
def test_an_oracle_within_half_of_delta_costs_nothing(delta, excess):
    """The other half is what omitted triplets may cost, by the factor of the theorem."""
    memory = SimpleNamespace(parameters=SimpleNamespace(alpha=0.5, delta=0.8), delta=delta)
    assert wp.SVRGCG().oracle_excess(memory) == pytest.approx(excess)


def test_a_run_holds_few_arrays_beside_the_data():
    """The iterate, its checkpoint, and a target, whose array serves the proof, too."""
    d = 800
    M = np.random.default_rng(0).standard_normal((d, d))
    problem = wp.Problem(Denoising(M), L1(0.5), NuclearBall(50.0))

    def run():
        solver = wp.SVRGCG(rank=2, mu=0.1, inner=4, epochs=3)
        wp.minimize(problem, solver, eps=1e-3, stop_when_certified=False, progress=False)

    run()  # loads libraries
    SHARED.trim(0)
    tracemalloc.start()
    try:
        run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4.1 * M.nbytes
