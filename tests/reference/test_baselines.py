"""Every baseline meets its eps, and its certificate brackets the interior-point optimum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from reference._cases import (
    Case,
    affine,
    complete,
    denoise,
    elastic_net,
    group,
    l1,
    sense,
    signal,
)

import weakprox as wp
from weakprox.certificates.split import lower_bound
from weakprox.experiments.ablation import Arm
from weakprox.penalties.base import Smoothed
from weakprox.solvers import FISTA, HCGM, SCG, SCGS, SHCGM, STORC, SVRF, ProjectedSubgradient

SMALL = 1e-5  # relative accuracy granted to CVXPY


def build(name, kind, shape, make, share=0.8):
    rng = np.random.default_rng(sum(map(ord, name)))
    X0 = signal(shape, kind == "psd", rng)
    loss, *penalties = make(X0, kind == "psd", rng)
    size = float(share * np.linalg.norm(X0, "nuc"))
    return Case(name, kind, shape, size, loss, tuple(penalties), 0.0)


def sparse(X0, psd, rng):
    return denoise(X0, psd, rng), l1(0.15)


CASES = [
    build("l1 ball", "ball", (12, 10), sparse),
    build("l1 psd", "psd", (10, 10), sparse),
    build(
        "rows", "ball", (9, 8), lambda X0, psd, rng: (denoise(X0, psd, rng), group(0.3, "rows"))
    ),
    build(
        "pieces",
        "ball",
        (8, 6),
        lambda X0, psd, rng: (denoise(X0, psd, rng), affine(X0.shape, 6, rng)),
    ),
    build("nothing", "psd", (8, 8), lambda X0, psd, rng: (denoise(X0, psd, rng),)),
    build(
        "sensing",
        "ball",
        (8, 6),
        lambda X0, psd, rng: (sense(X0, 4 * X0.size, rng), elastic_net(0.1, 0.1)),
    ),
    build(
        "completion",
        "ball",
        (10, 8),
        lambda X0, psd, rng: (complete(X0, 0.6, rng), elastic_net(0.05, 0.1)),
    ),
]
FLAT = [  # convex, not strongly
    build("flat ball", "ball", (9, 8), lambda X0, psd, rng: (complete(X0, 0.6, rng), l1(0.05))),
    build("flat psd", "psd", (8, 8), lambda X0, psd, rng: (complete(X0, 0.6, rng), l1(0.05))),
    build("flat smooth", "ball", (8, 6), lambda X0, psd, rng: (complete(X0, 0.7, rng),)),
    build(
        "flat sensing",
        "ball",
        (8, 6),
        lambda X0, psd, rng: (sense(X0, 30, rng), group(0.1, "rows")),
    ),
]


@dataclass(frozen=True)
class Method:
    """A solver, the share of f* it is asked for, and whether it needs strong convexity."""

    solver: object
    share: float
    strong: bool = False


METHODS = {
    "scg": Method(SCG(), 0.1),
    "scgs": Method(SCGS(), 0.1, strong=True),
    "scgs-convex": Method(SCGS(strongly_convex=False), 0.1),
    "storc": Method(STORC(), 0.1),
    "storc-lipschitz": Method(STORC(case="lipschitz"), 0.1),
    "svrf": Method(SVRF(), 0.1),
    "hcgm": Method(HCGM(), 0.1),
    "shcgm": Method(SHCGM(batch=64), 0.3),
    "fista": Method(FISTA(), 1e-3),
    "plain": Method(FISTA(momentum=False), 3e-3),
    "subgradient": Method(ProjectedSubgradient(), 0.02, strong=True),
    "exact": Method(Arm(rank=2, oracle="exact"), 0.02, strong=True),
    "fresh": Method(Arm(rank=6, variance_reduction=False), 0.02, strong=True),
}
PAIRS = [
    pytest.param(case, method, id=f"{case.name}-{name}")
    for case in (*CASES, *FLAT)
    for name, method in METHODS.items()
    if case in CASES or not method.strong
]


def check(case, result, eps):
    """Within eps, never below the optimum, feasible, and the bound below the optimum."""
    best, _ = case.optimum
    slack = SMALL * (1 + abs(best))
    assert best - slack <= result.value <= best + eps + slack
    assert result.certificate.lower_bound <= best + slack
    assert result.value == pytest.approx(case.value(result.X), rel=1e-9)
    assert case.excess(result.X) <= 1e-9
    if result.status is wp.Status.CERTIFIED:
        assert result.gap <= eps


@pytest.mark.parametrize(("case", "method"), PAIRS)
def test_value_is_within_eps_of_the_reference(case, method):
    eps = method.share * max(abs(case.optimum[0]), 1.0)
    result = wp.minimize(case.problem, method.solver, eps=eps, progress=False)
    assert result.status in (wp.Status.CERTIFIED, wp.Status.EXPECTED)
    check(case, result, eps)


WHOLE = [SCG(), SCGS(), SCGS(strongly_convex=False), STORC(), SVRF(), HCGM(), FISTA(),
         FISTA(momentum=False), ProjectedSubgradient(),
         Arm(rank=8, oracle="exact", answer="iterate"),
         Arm(rank=8, variance_reduction=False, answer="iterate")]  # fmt: skip
LOOSE = {"HCGM": 8.0, "SVRF": 8.0, "ProjectedSubgradient": 4.0, "STORC": 2.0}


@pytest.mark.parametrize("solver", WHOLE, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=lambda c: c.name)
def test_the_theorems_work_without_early_stop_is_enough(case, solver):
    """stop_when_certified=False: the promise alone must end the run, and be kept."""
    eps = LOOSE.get(type(solver).__name__, 1.0)
    result = wp.minimize(
        case.problem, solver, eps=eps, stop_when_certified=False, progress=False
    )
    assert result.status in (wp.Status.EXPECTED, wp.Status.CERTIFIED)
    assert solver.promised(result.checkpoint.memory) <= eps * (1 + 1e-9)
    assert solver.finished(result.checkpoint.memory)
    check(case, result, eps)


@pytest.mark.parametrize("case", FLAT, ids=lambda c: c.name)
def test_bounds_without_strong_convexity(case):
    """Valid from any point, and tight at the optimum of the smoothed problem."""
    best, X = case.optimum
    problem, rng = case.problem, np.random.default_rng(3)
    assert problem.constants(strongly_convex=False).alpha == 0.0
    for mu in (1.0, 1e-2, 1e-5):
        dual = Smoothed.of(problem.penalty, mu, problem.shape)
        for spread in (0.0, 1e-3, 0.1, 10.0):
            at = X + spread * rng.standard_normal(case.shape)
            at = (at + at.T) / 2 if case.kind == "psd" else at
            found, rests_on = lower_bound(problem, at, dual, rank=3, rng=rng)
            assert found <= best + SMALL * (1 + abs(best))
            assert rests_on == "exact"
    result = wp.minimize(problem, FISTA(), eps=2e-3 * (1 + abs(best)), progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.lower_bound >= best - 2e-3 * (1 + abs(best))


def test_a_bound_does_not_depend_on_the_rank_where_all_values_are_known():
    """An optimum of high rank once could not be certified by any baseline."""
    rng = np.random.default_rng(4)
    M = rng.standard_normal((40, 36))
    tau = 0.7 * float(np.linalg.norm(M, "nuc"))
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(0.05), wp.spectral.NuclearBall(tau)
    )
    result = wp.minimize(problem, FISTA(), eps=0.01, progress=False)
    assert result.rank > 2 * 8 + 8
    assert result.status is wp.Status.CERTIFIED
