"""The baselines' theorems: every proved bound holds for the smoothed f, at every stage.

Section 2 of the specification. Optima of f_mu come from the test's own proximal gradient
method (`_model`), so the library's constants, steps and answers are all on trial.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from theory._instances import denoising, sensing
from theory._runs import QUIET, smoothed_gap

import weakprox as wp
from weakprox.experiments.ablation import Arm
from weakprox.solvers import FISTA, HCGM, SCG, SCGS, SHCGM, STORC, SVRF, ProjectedSubgradient

BALL = denoising("ball", (6, 5), seed=0, l1=0.1)
PSD = denoising("psd", (5, 5), seed=1, l1=0.1, kind="psd")
PIECES = denoising("pieces", (5, 4), seed=2, pieces=5)
SENSED = sensing("sensed", (3, 2), seed=3, n=600, l1=0.05, l2=0.2)
SMOOTH = sensing("smooth", (3, 2), seed=4, n=600, l2=0.2)
GIVEN = [BALL, PSD, PIECES, SENSED, SMOOTH]
NOISY = denoising("noisy", (6, 5), seed=5, l1=0.1, noise=0.5)
DRAWN = sensing("drawn", (3, 2), seed=6, n=600, l1=0.05, l2=0.2, sampled=True)
SAMPLED = [NOISY, DRAWN]
EPS = 0.5


def name(case):
    return case.name


def diameter(case):
    return {"ball": 2.0, "psd": math.sqrt(2.0)}[case.kind] * case.size


def smoothing(case, eps=EPS):
    """mu = eps / (2 gamma): half of eps is left."""
    return eps / (2 * case.gamma) if case.theta else 0.0


def stages(case, solver, *, eps=EPS, seed=0, every=True, steps=None, epochs=math.inf):
    """{(epoch, step): X}, step 0 at epoch ends; and the result."""
    seen = {}

    def keep(look):
        seen[look.epoch, look.step] = look.X.copy()
        return look.epoch > epochs or (steps is not None and look.step >= steps)

    options = QUIET | ({"look_every": 1} if every else {})
    result = wp.minimize(case.problem, solver, eps=eps, seed=seed, callback=keep, **options)
    return seen, result


def gap(case, X, mu):
    """f_mu(X) - f_mu* >= 0 at a feasible point."""
    assert case.feasible(X)
    mu = mu or 1.0
    excess = case.smooth_value(X, mu) - case.smooth_optimum(mu)[0]
    assert excess >= -1e-8 * (1 + abs(case.smooth_optimum(mu)[0]))
    return excess


def mean_gaps(case, solver, seeds, keys, mu, *, eps=EPS, steps=None):
    """Mean gap of f_mu at the given stages, with its standard error."""
    table = []
    for seed in range(seeds):
        seen, result = stages(case, solver, eps=eps, seed=seed, steps=steps)
        assert result.parameters.mu == pytest.approx(mu)
        table.append([gap(case, seen[key], mu) for key in keys])
    table = np.array(table)
    return table.mean(0), table.std(0, ddof=1) / math.sqrt(seeds)


@pytest.mark.parametrize("case", GIVEN, ids=name)
def test_scg_with_full_gradients(case):
    mu = smoothing(case)
    scale = 4 * case.beta(mu) * diameter(case) ** 2
    seen, _ = stages(case, SCG(), steps=200)
    worst = max(gap(case, X, mu) * (k + 2) for (_, k), X in seen.items() if k)
    assert worst <= scale


@pytest.mark.parametrize("case", SAMPLED, ids=name)
def test_scg_with_samples(case):
    mu, ks = smoothing(case), [1, 2, 5, 10, 30]
    keys = [(1, k) for k in ks]
    mean, error = mean_gaps(case, SCG(sigma=case.sigma), 12, keys, mu, steps=30)
    bound = 4 * case.beta(mu) * diameter(case) ** 2 / (np.array(ks) + 2)
    assert np.all(mean + 2 * error <= bound)
    assert error.max() > 0


@pytest.mark.parametrize("case", GIVEN, ids=name)
def test_scgs_phases_halve_the_gap(case):
    """With the smallest C0 that is allowed."""
    mu = smoothing(case)
    C0 = smoothed_gap(case, mu or 1.0)
    seen, result = stages(case, SCGS(C0=C0), every=False)
    assert result.status is wp.Status.EXPECTED or result.certified
    phases = result.checkpoint.memory.epoch
    assert phases == math.ceil(math.log2(C0 / (EPS / 2 if mu else EPS)))
    assert phases >= 3
    for s in range(1, phases + 1):
        assert gap(case, seen[s, 0], mu) <= C0 * 2.0**-s


@pytest.mark.parametrize("case", SAMPLED, ids=name)
def test_scgs_phases_with_samples(case):
    mu = smoothing(case)
    C0 = smoothed_gap(case, mu)
    solver = SCGS(C0=C0, sigma=case.sigma)
    phases = math.ceil(math.log2(C0 / (EPS / 2)))
    keys = [(s, 0) for s in range(1, phases + 1)]
    mean, error = mean_gaps(case, solver, 5, keys, mu)
    assert np.all(mean + 2 * error <= C0 * 2.0 ** -np.arange(1.0, phases + 1))
    assert error.max() > 0


def sliding_bound(case, mu, k):
    size = case.beta(mu) * diameter(case) ** 2
    return 6 * size / (k + 2) ** 2 + 4.5 * size / ((k + 1) * (k + 2))


@pytest.mark.parametrize("case", GIVEN, ids=name)
def test_scgs_convex_version(case):
    mu = smoothing(case)
    seen, result = stages(case, SCGS(strongly_convex=False), steps=150)
    for (_, k), X in seen.items():
        if k:
            assert gap(case, X, mu) <= sliding_bound(case, mu, k)
    p, memory = result.parameters, result.checkpoint.memory
    promised = SCGS(strongly_convex=False).promised(memory)
    assert promised == pytest.approx(sliding_bound(case, mu, memory.done) + p.bias)


@pytest.mark.parametrize("case", SAMPLED, ids=name)
def test_scgs_convex_version_with_samples(case):
    mu, ks = smoothing(case), np.array([1, 3, 10, 25])
    solver = SCGS(strongly_convex=False, sigma=case.sigma)
    mean, error = mean_gaps(case, solver, 8, [(1, k) for k in ks], mu, steps=25)
    assert np.all(mean + 2 * error <= sliding_bound(case, mu, ks))


# ---------------------------------------------------------------- finite-sum methods

MANY = sensing("many", (2, 2), seed=7, n=16_000, l2=5.0, noise=1.0)


def halving(case, mu, t):
    """L D^2 / 2^(t+1), L the smoothness of the worst term."""
    rough = case.beta(mu) - case.beta_G
    return (case.term_smoothness + rough) * diameter(case) ** 2 * 0.5 ** (t + 1.0)


@pytest.mark.parametrize("case", GIVEN, ids=name)
@pytest.mark.parametrize(
    "solver",
    [STORC(case="stationary"), STORC(case="lipschitz"), STORC(case="strongly_convex"), SVRF()],
    ids=lambda s: getattr(s, "case", "svrf"),
)
def test_storc_and_svrf(case, solver):
    """Case "stationary" asks for a gradient that vanishes at the optimum: only samples
    that differ could tell, and here all of them are used or they cancel."""
    mu = smoothing(case)
    seen, _ = stages(case, solver, every=False, epochs=6)
    ends = [(t, X) for (t, k), X in seen.items() if k == 0]
    assert len(ends) >= 3
    for t, X in ends:
        assert gap(case, X, mu) <= halving(case, mu, t)


@pytest.mark.parametrize(
    "solver", [STORC(case="lipschitz", lipschitz=1e-3), SVRF()], ids=["storc", "svrf"]
)
def test_storc_and_svrf_with_batches_smaller_than_the_sum(solver):
    """The smallest batches that the text allows, and fewer: 700 N_t without the term in G."""
    keys, gaps = [(1, 0), (2, 0), (3, 0), (4, 0)], []
    eps = halving(MANY, 0.0, 4)
    for seed in range(4):
        seen, result = stages(MANY, solver, eps=eps * 1.02, seed=seed, every=False)
        assert result.counts.samples > 0
        gaps.append([gap(MANY, seen[key], 0.0) for key in keys])
    gaps = np.array(gaps)
    bound = halving(MANY, 0.0, np.array([1, 2, 3, 4]))
    error = gaps.std(0, ddof=1) / 2
    assert np.all(gaps.mean(0) + 2 * error <= bound)
    assert error.max() > 0


@pytest.mark.parametrize("case", GIVEN, ids=name)
def test_a_first_vertex_is_within_half_of_l_d_squared(case):
    """So that an eps above it ends STORC and SVRF before their first epoch."""
    mu = smoothing(case, 1e3)
    eps = 2.1 * halving(case, smoothing(case, 1e3), 0) + 1e3
    for solver in (STORC(), SVRF()):
        result = wp.minimize(case.problem, replace(solver, mu=mu or None), eps=eps, **QUIET)
        assert result.counts.svds == 1
        assert result.parameters.mu == mu
        assert gap(case, result.X, mu) <= halving(case, mu, 0)


# ------------------------------------------------------------------ homotopy methods


def homotopy_bound(case, steps, step, steepness, noise=lambda k: 0.0):
    """B_k = (1 - g) B_(k-1) + g D noise_k + g^2 D^2 (bG + K + t_k)/2, as it is proved."""
    D, bound, out = diameter(case), 0.0, []
    for k in range(1, steps + 1):
        g = step(k)
        t = steepness(k) if case.theta else 0.0
        cost = g * D * noise(k) + 0.5 * (g * D) ** 2 * (case.beta_G + 2 * case.l2 + t)
        bound = (1 - g) * bound + cost
        out.append(bound)
    return np.array(out)


@pytest.mark.parametrize("beta0", [None, 0.3, 10.0])
@pytest.mark.parametrize("case", GIVEN, ids=name)
def test_hcgm(case, beta0):
    """The recursion bounds f_mu(X_k) - f*, and with gamma mu added the true f."""
    seen, result = stages(case, HCGM(beta0=beta0), eps=1e-3, steps=128)
    X = [seen[(k + 63) // 64, k] for k in range(1, 129)]
    best = case.optimum[0]
    if beta0 is None:
        balance = case.gamma * case.theta
        beta0 = diameter(case) * math.sqrt(4 / 3 / balance) if balance else 1.0
    bound = homotopy_bound(case, 128, lambda k: 2 / (k + 1), lambda k: math.sqrt(k + 1) / beta0)
    memory = result.checkpoint.memory
    assert memory.done in (64, 128)
    ours = memory.bound
    assert bound[memory.done - 1] <= ours <= 1.02 * bound[memory.done - 1]
    mus = np.array([case.theta * beta0 / math.sqrt(k + 1) for k in range(1, 129)])
    if case.theta:
        assert result.parameters.mu == pytest.approx(mus[memory.done - 1])
    for k, Y in enumerate(X, start=1):
        mu = mus[k - 1] if case.theta else 1.0
        assert case.smooth_value(Y, mu) - best <= bound[k - 1] + 1e-6
        assert case.value(Y) - best <= bound[k - 1] + case.gamma * mus[k - 1] + 1e-6


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("case", SAMPLED, ids=name)
def test_shcgm(case, batch):
    D, best, steps, beta0 = diameter(case), case.optimum[0], 128, 2.0
    noise, rms = 0.0, []
    for k in range(1, steps + 1):
        rho = 4 / (k + 7) ** (2 / 3)
        drift = case.beta_G * D * 9 / (k + 7) if k > 1 else 0.0
        noise = math.hypot((1 - rho) * (noise + drift), rho * case.sigma / math.sqrt(batch))
        rms.append(noise)
    bound = homotopy_bound(
        case, steps, lambda k: 9 / (k + 8), lambda k: math.sqrt(k + 8) / beta0,
        lambda k: rms[k - 1],
    )  # fmt: skip
    solver = SHCGM(beta0=beta0, sigma=case.sigma, batch=batch)
    gaps = []
    for seed in range(6):
        seen, result = stages(case, solver, eps=1e-3, seed=seed, steps=steps)
        X = [seen[(k + 63) // 64, k] for k in range(1, steps + 1)]
        gaps.append([case.value(Y) - best for Y in X])
        memory = result.checkpoint.memory
        assert memory.noise == pytest.approx(rms[memory.done - 1])
        exact = bound[memory.done - 1]
        assert exact <= memory.bound <= 1.02 * exact
    mus = case.theta * beta0 / np.sqrt(np.arange(1, steps + 1) + 8.0)
    mean, error = np.mean(gaps, 0), np.std(gaps, 0, ddof=1) / math.sqrt(6)
    assert np.all(mean + 2 * error <= bound + case.gamma * mus)
    assert error.max() > 0


# --------------------------------------------------------- methods with exact projections


@pytest.mark.parametrize("momentum", [True, False])
@pytest.mark.parametrize("case", GIVEN, ids=name)
def test_fista(case, momentum):
    eps = 0.02
    mu = smoothing(case, eps)
    C0 = smoothed_gap(case, mu or 1.0)
    seen, _ = stages(case, FISTA(C0=C0, momentum=momentum), eps=eps, steps=192)
    q = case.alpha / case.beta(mu)
    for (_, k), X in seen.items():
        bound = 2 * C0 * (1 - math.sqrt(q)) ** k if momentum else C0 / q * (1 - q) ** k
        if k:
            assert gap(case, X, mu) <= bound + 1e-9


@pytest.mark.parametrize("momentum", [True, False])
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_fista_on_a_flat_problem(momentum, share):
    """No strong convexity: 2 L D^2/(k+1)^2 and L D^2/(2k), from the worst corner."""
    rng = np.random.default_rng(8)
    M = rng.standard_normal((6, 5))
    rows, cols = np.nonzero(rng.random((6, 5)) < 0.6)
    tau = share * float(np.linalg.norm(M, "nuc"))
    loss = wp.losses.Completion(rows, cols, M[rows, cols], (6, 5))
    problem = wp.Problem(loss, None, wp.spectral.NuclearBall(tau))
    U, _, Vt = np.linalg.svd(loss.grad(0 * M, loss.everything()))
    start = tau * np.outer(U[:, 0], Vt[0])  # uphill
    seen = {}

    def keep(look):
        seen[look.step] = look.value
        return look.step >= 120

    options = {"callback": keep, "look_every": 1, "stop_when_certified": False}
    solver = FISTA(momentum=momentum)
    wp.minimize(problem, solver, eps=1e-9, start=start, progress=False, **options)
    best = wp.minimize(problem, FISTA(), eps=1e-7, progress=False).certificate.lower_bound
    D = 2 * tau
    for k in range(1, 121):
        bound = 2 * D**2 / (k + 1) ** 2 if momentum else D**2 / (2 * k)
        assert -1e-9 <= seen[k] - best <= bound


@pytest.mark.parametrize("case", [BALL, PSD, PIECES, SENSED], ids=name)
def test_projected_subgradient(case):
    """The bound is evaluated with the norms of the subgradients on the way."""
    seen, result = stages(case, ProjectedSubgradient(), eps=1e-4, steps=192)
    memory, p = result.checkpoint.memory, result.parameters
    assert memory.done in (128, 192)
    best = case.optimum[0]
    means = [0 * seen[1, 1]] + [seen[(k + 63) // 64, k] for k in range(1, 193)]
    # the points from their means: x_k = ((k+1) m_k - (k-1) m_(k-1)) / 2
    x = [((k + 1) * means[k] - (k - 1) * means[k - 1]) / 2 for k in range(1, 193)]
    total = 0.0
    for k in range(1, 193):
        G = case.quad.grad(x[k - 1]) + case.smooth_grad_R(x[k - 1], p.mu)
        total += k / (k + 1) * float((G**2).sum())
        bound = 2 * total / (case.alpha * k * (k + 1))
        assert case.feasible(means[k], slack=1e-7)
        assert case.value(means[k]) - best <= bound + 1e-6
        if k == memory.done:
            assert ProjectedSubgradient().promised(memory) == pytest.approx(bound, rel=0.05)


# ------------------------------------------------------------ the arms of the ablation


def epoch_means(case, solver, seeds):
    best, gaps = case.optimum[0], []
    for seed in range(seeds):
        seen, result = stages(case, solver, seed=seed, every=False)
        epochs = result.parameters.epochs
        gaps.append([case.value(seen[s, 0]) - best for s in range(1, epochs + 1)])
    return np.mean(gaps, 0), np.std(gaps, 0), result.parameters


@pytest.mark.parametrize(
    "constants", ["paper", pytest.param("repaired", marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    "option", [{"oracle": "exact"}, {"variance_reduction": False}], ids=str
)
@pytest.mark.parametrize("case", [BALL, PSD, SENSED, NOISY, DRAWN], ids=name)
def test_the_arms_of_the_ablation_keep_the_bound(case, option, constants):
    mu = 7 * EPS / (92 * case.gamma)
    C0 = smoothed_gap(case, mu)
    solver = Arm(
        rank=min(case.shape), C0=C0, delta=0.0, answer="iterate", constants=constants, **option
    )
    seeds = 4 if case in SAMPLED else 1
    mean, spread, p = epoch_means(case, solver, seeds)
    rate = 0.5 if case in SAMPLED else 5 / 12
    bound = C0 * rate ** np.arange(1.0, p.S) + case.gamma * mu
    assert np.all(mean + 2 * spread / math.sqrt(seeds) <= bound)
    assert len(mean) >= 4
