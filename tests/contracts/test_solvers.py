"""Every loss with every penalty, every penalty with every spectral term: runs are honest."""

import numpy as np
import pytest
from registry import (
    ANY_SHAPE,
    EXACT,
    LOSSES,
    NUMPY,
    PENALTIES,
    SAMPLED,
    SPECTRAL,
    TORCH,
    numbers,
)

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import ElasticNet, MaxAffine, Sum
from weakprox.spectral import NuclearBall

EVERY_LOSS = {**LOSSES, **{name: entry for name, (entry, _) in SAMPLED.items()}}
SYM = numbers(6, 6) + numbers(6, 6).T
SOLVERS = {"svrgcg": lambda: wp.SVRGCG(rank=2, inner=4, epochs=2, k_s=6, k_t=3)}
by_solver = pytest.mark.parametrize("solver", SOLVERS)


def honest(problem, solver, *, exact=False):
    """A short run: feasible throughout, no bound above a value, no promise not kept."""
    worst = []

    def callback(look):
        size = min(problem.shape)
        X = problem.spectral.compress(look.X, size, np.random.default_rng(0))
        worst.append(problem.spectral.violation(X))
        assert np.isfinite(look.value)

    result = wp.minimize(
        problem, solver, eps=1e-3, callback=callback, stop_when_certified=False, look_every=1
    )
    assert max(worst) <= 1e-9
    assert result.violation <= 1e-9
    assert exact or result.rank <= 2
    assert result.counts.svds == 8
    if result.sampled:
        assert result.status is wp.Status.FINISHED
        return result
    bound = result.certificate.lower_bound
    assert bound <= result.value
    assert (result.trace["value"] >= bound - 1e-9).all()
    if result.status is wp.Status.CERTIFIED:
        assert result.gap <= 1e-3
    else:
        assert result.status is wp.Status.FINISHED
    return result


@by_solver
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_losses_with_penalties(solver, loss, penalty):
    terms = EVERY_LOSS[loss].build(NUMPY), PENALTIES[penalty].build(NUMPY)
    problem = wp.Problem(*terms, NuclearBall(2.0))
    if terms[0].strong_convexity + terms[1].curvature > 0:
        honest(problem, SOLVERS[solver]())
    else:
        with pytest.raises(wp.ConvexityError, match="ElasticNet"):
            honest(problem, SOLVERS[solver]())
        mended = wp.Problem(terms[0], terms[1] + ElasticNet(0.0, 0.1), NuclearBall(2.0))
        honest(mended, SOLVERS[solver]())


@by_solver
@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=lambda b: b.name)
@pytest.mark.parametrize("spectral", {**SPECTRAL, **EXACT})
@pytest.mark.parametrize("penalty", ANY_SHAPE)
def test_penalties_with_spectral_terms(solver, penalty, spectral, backend):
    R = PENALTIES[penalty].build(backend)
    if any(isinstance(part, MaxAffine) for part in getattr(R, "parts", (R,))):
        R = Sum((MaxAffine(backend.array(numbers(4, 6, 6))), ElasticNet(0.1, 0.1)))
    h = {**SPECTRAL, **EXACT}[spectral].build(backend)
    problem = wp.Problem(Denoising(backend.array(SYM)), R, h)
    result = honest(problem, SOLVERS[solver](), exact=spectral in EXACT)
    assert backend.owns(result.X)
