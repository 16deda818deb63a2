"""DavisYin with every loss, penalty and spectral term it takes: runs are honest."""

import numpy as np
import pytest
from registry import (
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
from weakprox.losses import Denoising
from weakprox.penalties import L1, ElasticNet, GroupL2
from weakprox.solvers import DavisYin
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SYM = numbers(6, 6) + numbers(6, 6).T
EPS, LIMIT = 1e-4, 24


def fits(penalty, shape):
    try:
        penalty.check(shape)
    except wp.ShapeError:
        return False
    return True


FLEXIBLE = [name for name, entry in PENALTIES.items() if fits(entry.build(NUMPY), SYM.shape)]


def honest(problem, *, rounding=1e-9, **options):
    """A short run: feasible throughout, no bound above a value, limits kept."""
    worst = []

    def callback(look):
        X = problem.spectral.compress(look.X, min(problem.shape), np.random.default_rng(0))
        worst.append(problem.spectral.violation(X))
        assert np.isfinite(look.value)
        assert look.value_low_rank == pytest.approx(look.value, rel=max(1e-9, rounding))

    options = {"eps": EPS, "max_svds": LIMIT, "look_every": 1, **options}
    result = wp.minimize(problem, DavisYin(), callback=callback, progress=False, **options)
    assert max(worst) <= rounding
    assert result.violation <= rounding
    assert result.counts.svds <= LIMIT
    bound = result.certificate.lower_bound
    assert bound <= result.value
    assert (result.trace["value"] >= bound - rounding * (1 + abs(bound))).all()
    if result.status is wp.Status.CERTIFIED:
        assert result.gap <= EPS
    else:
        assert result.status is wp.Status.MAX_SVDS
    return result


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_with_penalties(loss, penalty):
    G, R = LOSSES[loss].build(NUMPY), PENALTIES[penalty].build(NUMPY)
    honest(wp.Problem(G, R, NuclearBall(2.0)))


@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=lambda b: b.name)
@pytest.mark.parametrize("spectral", {**SPECTRAL, **EXACT})
@pytest.mark.parametrize("penalty", FLEXIBLE)
def test_penalties_with_spectral_terms(penalty, spectral, backend):
    h = {**SPECTRAL, **EXACT}[spectral].build(backend)
    problem = wp.Problem(Denoising(backend.array(SYM)), PENALTIES[penalty].build(backend), h)
    assert backend.owns(honest(problem).X)


@pytest.mark.parametrize("backend", [NUMPY32, TORCH32], ids=lambda b: b.name)
@pytest.mark.parametrize(
    "term", [NuclearBall(2.0), TracePSD(2.0), NuclearNorm(0.8)], ids=["ball", "psd", "norm"]
)
@pytest.mark.parametrize("penalty", [ElasticNet(0.1, 0.1), GroupL2(0.3)], ids=["net", "rows"])
def test_single_precision(term, backend, penalty):
    problem = wp.Problem(Denoising(backend.array(SYM)), penalty, term)
    assert backend.owns(honest(problem, rounding=1e-5).X)


@pytest.mark.parametrize("loss", SAMPLED)
def test_samplers_are_refused(loss):
    problem = wp.Problem(SAMPLED[loss][0].build(NUMPY), ElasticNet(0.1, 0.1), NuclearBall(2.0))
    with pytest.raises(wp.InputError, match=r"a finite sum.*SVRGCG") as caught:
        wp.minimize(problem, DavisYin(), eps=EPS)
    assert caught.value.argument == "loss"


def test_high_accuracy_is_proved_where_the_optimum_is_low_rank():
    """Decompositions must become as accurate as the gap; a floor on them once stopped it."""
    rng = np.random.default_rng(4)
    Y = np.where(rng.random((120, 4)) < 120**-0.5, rng.integers(1, 11, (120, 4)), 0.0)
    signal = Y @ Y.T
    M = signal + rng.standard_normal(signal.shape)
    problem = wp.Problem(Denoising(M), L1(2.0), NuclearBall(0.9 * float(np.trace(signal))))
    result = wp.minimize(problem, tol=1e-8, max_svds=200, progress=False)
    assert result.certified
    assert result.rank <= 8
