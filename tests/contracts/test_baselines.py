"""Every baseline with every penalty, on both bounded sets: runs are honest throughout."""

import numpy as np
import pytest
from registry import (
    ANY_SHAPE,
    EXACT,
    LOSSES,
    NUMPY,
    NUMPY32,
    PENALTIES,
    SAMPLED,
    SPECTRAL,
    TORCH,
    TORCH32,
    numbers,
)

import weakprox as wp
from weakprox.experiments.ablation import Arm
from weakprox.losses import Denoising
from weakprox.penalties import ElasticNet, MaxAffine, Sum
from weakprox.solvers import FISTA, HCGM, SCG, SCGS, SHCGM, STORC, SVRF, ProjectedSubgradient
from weakprox.spectral import NuclearBall, TracePSD

SYM = numbers(6, 6) + numbers(6, 6).T
EPS = 1e-3
SOLVERS = {
    "scg": SCG(),
    "scgs": SCGS(),
    "scgs-convex": SCGS(strongly_convex=False),
    "scgs-capped": SCGS(max_inner=2),
    "storc": STORC(),
    "storc-stationary": STORC(case="stationary"),
    "svrf": SVRF(),
    "hcgm": HCGM(),
    "shcgm": SHCGM(),
    "fista": FISTA(),
    "plain": FISTA(momentum=False),
    "subgradient": ProjectedSubgradient(),
    "exact": Arm(rank=2, oracle="exact", answer="iterate"),
    "fresh": Arm(rank=2, variance_reduction=False),
}
TAKES_SAMPLERS = {"scg", "scgs", "scgs-convex", "scgs-capped", "shcgm", "subgradient"}
TAKES_SAMPLERS |= {"exact", "fresh"}
NEEDS_CURVATURE = {"scgs", "scgs-capped", "subgradient", "exact", "fresh"}
by_solver = pytest.mark.parametrize("solver", SOLVERS)
LIMIT = 8
BOUNDED = ["ball-tight", "ball-loose", "psd-tight", "psd-loose"]
COMBINED = [
    *((penalty, h, NUMPY) for penalty in ANY_SHAPE for h in ("ball-tight", "psd-tight")),
    *((penalty, h, TORCH) for penalty in ("l1", "max-affine", "sum") for h in BOUNDED),
    *(("elastic-net", h, NUMPY) for h in {**SPECTRAL, **EXACT}),
]


def honest(problem, solver, *, rounding=1e-9):
    """A short run: feasible throughout, no bound above a value, limits kept."""
    worst = []

    def callback(look):
        X = problem.spectral.compress(look.X, min(problem.shape), np.random.default_rng(0))
        worst.append(problem.spectral.violation(X))
        assert np.isfinite(look.value)

    result = wp.minimize(
        problem, solver, eps=EPS, callback=callback, look_every=1, max_svds=LIMIT,
        max_samples=5000, progress=False, evaluation_samples=16,
    )  # fmt: skip
    assert not worst or max(worst) <= rounding
    assert result.violation <= rounding
    assert np.isfinite(result.value)
    assert result.counts.svds <= LIMIT
    if result.sampled:
        assert result.counts.samples <= 5000 + 1500  # pilot draws for constants come first
        assert result.certificate.rests_on == "sampled"
        assert result.gap > EPS
        assert result.status in (wp.Status.MAX_SVDS, wp.Status.MAX_SAMPLES)
        return result
    assert result.counts.svds == LIMIT or result.status is wp.Status.CERTIFIED
    bound = result.certificate.lower_bound
    assert bound <= result.value
    assert (result.trace["value"] >= bound - rounding * (1 + abs(bound))).all()
    if result.status is wp.Status.CERTIFIED:
        assert result.gap <= EPS
    else:
        assert result.status is wp.Status.MAX_SVDS
    return result


@by_solver
@pytest.mark.parametrize("penalty", ["l1", "sum-with-max"])
@pytest.mark.parametrize("loss", [*LOSSES, *SAMPLED])
def test_losses_with_penalties(solver, loss, penalty):
    entry = LOSSES[loss] if loss in LOSSES else SAMPLED[loss][0]
    G, R = entry.build(NUMPY), PENALTIES[penalty].build(NUMPY)
    problem, method = wp.Problem(G, R, NuclearBall(2.0)), SOLVERS[solver]
    if loss in SAMPLED and solver not in TAKES_SAMPLERS:
        with pytest.raises(wp.InputError, match="a finite sum") as caught:
            honest(problem, method)
        assert caught.value.argument == "loss"
    elif G.strong_convexity + R.curvature == 0 and solver in NEEDS_CURVATURE:
        with pytest.raises(wp.ConvexityError, match="ElasticNet"):
            honest(problem, method)
    else:
        honest(problem, method)


@by_solver
@pytest.mark.parametrize(("penalty", "spectral", "backend"), COMBINED)
def test_penalties_with_spectral_terms(solver, penalty, spectral, backend):
    R = PENALTIES[penalty].build(backend)
    if any(isinstance(part, MaxAffine) for part in getattr(R, "parts", (R,))):
        R = Sum((MaxAffine(backend.array(numbers(4, 6, 6))), ElasticNet(0.1, 0.1)))
    h = {**SPECTRAL, **EXACT}[spectral].build(backend)
    problem = wp.Problem(Denoising(backend.array(SYM)), R, h)
    anywhere = solver in ("fista", "plain", "exact", "fresh")
    if isinstance(h, (NuclearBall, TracePSD)) or anywhere:
        result = honest(problem, SOLVERS[solver])
        assert backend.owns(result.X)
        if solver == "fresh" and spectral not in EXACT:
            assert result.rank <= 2
    else:
        with pytest.raises(wp.InputError, match="bounded set") as caught:
            honest(problem, SOLVERS[solver])
        assert caught.value.argument == "spectral"


@by_solver
@pytest.mark.parametrize("backend", [NUMPY32, TORCH32], ids=lambda b: b.name)
@pytest.mark.parametrize("term", [NuclearBall(2.0), TracePSD(2.0)], ids=["ball", "psd"])
def test_single_precision(solver, term, backend):
    loss = Denoising(backend.array(SYM))
    problem = wp.Problem(loss, ElasticNet(0.1, 0.1), term)
    result = honest(problem, SOLVERS[solver], rounding=1e-5)
    assert backend.owns(result.X)
