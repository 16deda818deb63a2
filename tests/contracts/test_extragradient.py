"""Extragradient with every penalty, spectral term and kind of array: runs are honest."""

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from reference import _cvx
from reference._cases import (
    SPECTRAL as KINDS,
)
from reference._cases import (
    affine,
    denoise,
    elastic_net,
    group,
    l1,
    sense,
    signal,
)
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
    numbers,
)

import weakprox as wp
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine, Sum
from weakprox.result import COLUMNS
from weakprox.solvers import Extragradient, extragradient
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SYM = numbers(6, 6) + numbers(6, 6).T
EPS, LIMIT = 1e-4, 24
SMALL = 1e-6  # relative accuracy granted to CVXPY


def honest(problem, *, rounding=1e-9, **options):
    """A short run: feasible throughout, no bound above a value, limits kept."""
    worst = []

    def callback(look):
        X = problem.spectral.compress(look.X, min(problem.shape), np.random.default_rng(0))
        worst.append(problem.spectral.violation(X))
        assert np.isfinite(look.value)

    options = {"eps": EPS, "max_svds": LIMIT, "look_every": 1, **options}
    result = wp.minimize(problem, Extragradient(), callback=callback, progress=False, **options)
    assert max(worst) <= rounding
    assert result.violation <= rounding
    assert result.counts.svds <= LIMIT
    bound = result.certificate.lower_bound
    assert bound <= result.value
    assert (result.trace["value"] >= bound - rounding * (1 + abs(bound))).all()
    if result.status is wp.Status.CERTIFIED:
        assert result.gap <= options["eps"]
    else:
        assert result.status is wp.Status.MAX_SVDS
    return result


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_with_penalties(loss, penalty):
    G, R = LOSSES[loss].build(NUMPY), PENALTIES[penalty].build(NUMPY)
    honest(wp.Problem(G, R, NuclearBall(2.0)))  # a bounded set needs no strong convexity


@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=lambda b: b.name)
@pytest.mark.parametrize("spectral", {**SPECTRAL, **EXACT})
@pytest.mark.parametrize("penalty", ANY_SHAPE)
def test_penalties_with_spectral_terms(penalty, spectral, backend):
    R = PENALTIES[penalty].build(backend)
    if any(isinstance(part, MaxAffine) for part in getattr(R, "parts", (R,))):
        R = Sum((MaxAffine(backend.array(numbers(4, 6, 6))), ElasticNet(0.1, 0.1)))
    h = {**SPECTRAL, **EXACT}[spectral].build(backend)
    problem = wp.Problem(Denoising(backend.array(SYM)), R, h)
    assert backend.owns(honest(problem).X)


@pytest.mark.parametrize("backend", [NUMPY32, TORCH32], ids=lambda b: b.name)
@pytest.mark.parametrize(
    "term", [NuclearBall(2.0), TracePSD(2.0), NuclearNorm(0.8)], ids=["ball", "psd", "norm"]
)
def test_single_precision(term, backend):
    R = MaxAffine(backend.array(numbers(4, 6, 6))) + GroupL2(0.1)
    problem = wp.Problem(Denoising(backend.array(SYM)), R, term)
    assert backend.owns(honest(problem, rounding=1e-5).X)


@cache
def case(penalty, kind, loss="matrix"):
    """(problem, optimum by CVXPY, |f(0)|)."""
    rng = np.random.default_rng([len(penalty), ord(penalty[-1]), ord(kind[0])])
    psd = kind == "psd"
    X0 = signal((6, 6) if psd else (7, 5), psd, rng)
    G = denoise(X0, psd, rng) if loss == "matrix" else sense(X0, 4 * X0.size, rng)
    terms = {
        "l1": (l1(0.15),),
        "elastic-net": (elastic_net(0.1, 0.1),),
        "rows": (group(0.4, "rows"),),
        "columns": (group(0.4, "columns"),),
        "max-affine": (affine(X0.shape, 12, rng),),
        "sum": (l1(0.1), group(0.2, "rows"), affine(X0.shape, 6, rng)),
    }[penalty]
    R = terms[0].ours
    for term in terms[1:]:
        R = R + term.ours
    size = 0.8 if kind == "norm" else 0.7 * float(np.linalg.norm(X0, "nuc"))
    parts = (G, *terms)
    best, _ = _cvx.solve(X0.shape, lambda X: sum(t.theirs(X) for t in parts), kind, size)
    return wp.Problem(G.ours, R, KINDS[kind](size)), best, sum(t.value(0 * X0) for t in parts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("penalty", "loss"),
    [(p, "matrix") for p in ("l1", "elastic-net", "rows", "columns", "max-affine", "sum")]
    + [("l1", "sensing"), ("sum", "sensing")],
)
def test_value_and_bound_bracket_the_reference(penalty, kind, loss):
    problem, best, first = case(penalty, kind, loss)
    eps, slack = 1e-5 * abs(first), SMALL * (1 + abs(best))
    result = wp.minimize(problem, Extragradient(), eps=eps, progress=False, max_svds=2000)
    assert result.status is wp.Status.CERTIFIED
    assert best - slack <= result.value <= best + eps + slack
    assert best - eps - slack <= result.certificate.lower_bound <= best + slack


@pytest.mark.parametrize("kind", ["ball", "psd"])
def test_without_strong_convexity_on_a_bounded_set(kind):
    rng = np.random.default_rng(8)
    X0 = signal((6, 6), kind == "psd", rng)
    G, R = sense(X0, 20, rng), l1(0.05)  # fewer measurements than entries
    size = 0.7 * float(np.linalg.norm(X0, "nuc"))
    best, _ = _cvx.solve(X0.shape, lambda X: G.theirs(X) + R.theirs(X), kind, size)
    problem = wp.Problem(G.ours, R.ours, KINDS[kind](size))
    assert problem.loss.strong_convexity + problem.penalty.curvature == 0.0
    eps = 3e-3 * G.value(0 * X0)
    result = wp.minimize(problem, Extragradient(), eps=eps, progress=False, max_svds=3000)
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.lower_bound <= best + SMALL
    assert best - SMALL <= result.value <= best + eps + SMALL


@pytest.mark.parametrize("cap", [1, 2])
def test_a_rank_below_the_optimum_is_never_certified_wrongly(cap):
    problem, best, first = case("l1", "ball")
    eps = 1e-6 * first
    result = wp.minimize(problem, Extragradient(rank=cap), eps=eps, progress=False)
    assert result.rank <= cap
    assert result.certificate.lower_bound <= best + SMALL * (1 + best)
    assert result.value >= best - SMALL * (1 + best)
    assert result.status is wp.Status.RANK_LIMITED
    assert result.gap > eps


def build(kind, backend=NUMPY):
    pieces = MaxAffine(backend.array(numbers(4, *SHAPE, seed=3))) + L1(0.1)
    if kind == "matrix":
        return wp.Problem(Denoising(backend.array(numbers(*SHAPE))), pieces, NuclearBall(4.0))
    if kind == "psd":
        return wp.Problem(Denoising(backend.array(SYM)), L1(0.3), TracePSD(4.0))
    if kind == "flat":
        loss = Sensing(backend.array(MATRICES[:9]), backend.array(MEASURED[:9]))
        return wp.Problem(loss, L1(0.02), NuclearBall(2.0))
    loss = Sensing(backend.array(MATRICES), backend.array(MEASURED))
    return wp.Problem(loss, pieces + ElasticNet(0.02, 0.01), NuclearNorm(0.2))


def run(problem, solver=None, **options):
    options = {"eps": 1e-13, "max_svds": 110, "stop_when_certified": False, **options}
    solver = Extragradient() if solver is None else solver
    return wp.minimize(problem, solver, progress=False, **options)


def same(a, b):
    assert bool((a.X == b.X).all())
    assert (a.value, a.status, a.iterate_value) == (b.value, b.status, b.iterate_value)
    assert a.counts == b.counts
    for column in COLUMNS:
        if column != "seconds":
            assert np.array_equal(a.trace[column], b.trace[column], equal_nan=True)
    assert a.certificate == b.certificate


@pytest.mark.parametrize("kind", ["matrix", "psd", "flat", "sensing"])
@pytest.mark.parametrize("rank", [None, 2])
def test_resumed_from_disk(kind, rank):
    problem, solver = build(kind), Extragradient(rank)
    whole = run(problem, solver)
    assert whole.checkpoint.memory.epoch >= 2
    result = None
    for limit in (20, 50, 80, 110):
        result = run(problem, solver, max_svds=limit, resume=result)
        result = pickle.loads(pickle.dumps(result))
    same(result, whole)


def test_resumed_torch_with_certified_stopping():
    problem, options = build("sensing", TORCH), {"eps": 1e-2, "stop_when_certified": True}
    whole = run(problem, max_svds=4000, **options)
    assert whole.status is wp.Status.CERTIFIED
    part = run(problem, max_svds=whole.counts.svds // 2, **options)
    same(run(problem, max_svds=4000, resume=part, **options), whole)


def test_what_no_step_improves_ends_by_itself(monkeypatch):
    monkeypatch.setattr(extragradient.Extragradient, "patience", 40)
    problem = build("psd")
    result = run(problem, eps=1e-17, max_svds=20000, stop_when_certified=True)
    assert result.status is wp.Status.FINISHED
    memory = result.checkpoint.memory
    assert memory.done - memory.progress >= 40
    assert 1e-17 < result.gap <= 1e-9 * (1 + result.value)


def test_a_start_is_an_answer():
    problem = build("psd")
    good = run(problem, eps=1e-9, max_svds=2000, stop_when_certified=True)
    again = wp.minimize(
        problem, Extragradient(), eps=1e-9, start=good.X, max_svds=0, progress=False
    )
    assert again.value <= good.value + 1e-9


@pytest.mark.parametrize("rank", [0, 1.5, True, "estimate"])
def test_bad_ranks_are_refused(rank):
    with pytest.raises(wp.InputError) as caught:
        run(build("matrix"), Extragradient(rank=rank))
    assert caught.value.argument == "rank"


@pytest.mark.parametrize("loss", SAMPLED)
def test_samplers_are_refused(loss):
    problem = wp.Problem(SAMPLED[loss][0].build(NUMPY), ElasticNet(0.1, 0.1), NuclearBall(2.0))
    with pytest.raises(wp.InputError, match=r"a finite sum.*SVRGCG") as caught:
        run(problem)
    assert caught.value.argument == "loss"


def test_without_curvature_and_bounds_it_is_refused():
    loss, pieces = Sensing(MATRICES[:9], MEASURED[:9]), MaxAffine(MATRICES[9:11])
    run(wp.Problem(loss, L1(0.1), NuclearNorm(0.5)))
    with pytest.raises(wp.ConvexityError, match="lower bound"):
        run(wp.Problem(loss, pieces, NuclearNorm(0.5)))


@pytest.mark.parametrize(
    ("near", "far", "factor"), [(1, 1, 1), (9, 1, 3), (1, 9, 1 / 3), (1, 0, 4)]
)
def test_the_balance_follows_the_halves_of_the_gap(near, far, factor):
    problem = build("matrix")
    state = run(problem, max_svds=40).checkpoint.memory
    state = replace(state, trial=replace(state.trial, near=float(near), far=float(far)))
    after = extragradient._balanced(state, problem)
    assert after.balance == pytest.approx(factor * state.balance)
    assert after.changes == state.changes + (factor != 1)


class Targets(NuclearBall):
    """A ball that keeps the targets it is asked for and the points it gives."""

    log = None

    def weak_prox(self, A, **options):
        found = super().weak_prox(A, **options)
        if self.log is not None and not options.get("certify"):
            self.log.append((A.copy(), found.V.dense()))
        return found


def test_the_first_steps_are_those_of_the_extragradient_method():
    """Trial (Z, w) with the slopes at (X, y), then a step from (X, y) with those at (Z, w)."""
    M, R = numbers(9, 7, seed=3), ElasticNet(0.3, 0.1)
    ball = Targets(2.0)
    object.__setattr__(ball, "log", [])
    wp.minimize(
        wp.Problem(Denoising(M), R, ball),
        Extragradient(),
        eps=1e-9,
        max_svds=12,
        progress=False,
    )
    beta = 1.0 + R.curvature
    balance, X = beta, np.zeros((9, 7))
    length = 1.0 / (beta + balance)
    y = R.ascend(None, X, balance, geometry="euclidean")

    def slope(X, y):
        return X - M + R.curvature * X + R.pull(y)

    for (trial, Z), (proper, after) in zip(ball.log[:8:2], ball.log[1:8:2], strict=True):
        assert trial == pytest.approx(X - length * slope(X, y), abs=1e-12)
        w = R.ascend(y, X, balance, geometry="euclidean")
        assert proper == pytest.approx(X - length * slope(Z, w), abs=1e-12)
        X, y = after, R.ascend(y, Z, balance, geometry="euclidean")
    assert np.abs(y).max() == pytest.approx(0.3)
