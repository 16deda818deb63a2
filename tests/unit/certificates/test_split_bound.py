"""Bounds from the dual points of a splitting lie below the optimum, from wherever they come.

A value that any run has reached is an upper bound on the optimum, and a tight one after a
certified run; closed forms are the optimum itself.
"""

from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from registry import ALL, EXACT, LOSSES, NUMPY, NUMPY32, PENALTIES, SHAPE, SPECTRAL, numbers

import weakprox as wp
from weakprox.certificates import split
from weakprox.certificates.split import SplitDual, split_bound
from weakprox.experiments.instances import instance
from weakprox.linalg.arrays import Arena, eps_of, to_numpy
from weakprox.losses import Completion, Custom, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine
from weakprox.penalties.proximal import proximal_dual
from weakprox.protocols import Candidate
from weakprox.solvers import DavisYin
from weakprox.solvers.base import Method
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

TERMS = {**SPECTRAL, **EXACT}
SQUARE = (6, 6)


def square_loss(kind):
    """Losses on square matrices, for the spectral term that needs them."""
    M = numbers(*SQUARE, seed=60)
    if kind == "denoising":
        return Denoising(M + M.T)
    if kind == "sensing":
        return Sensing(numbers(60, *SQUARE, seed=61), numbers(60, seed=62))
    rows, cols = np.divmod(np.arange(36), 6)
    if kind == "completion":
        return Completion(rows[:30], cols[:30], numbers(30, seed=63), SQUARE)
    return Custom(
        SQUARE,
        value=lambda X: float((X**4 / 40 + 0.5 * (X - M) ** 2).sum()),
        grad=lambda X: X**3 / 10 + X - M,
        strong_convexity=1.0,
        smoothness=10.0,
    )


def fitted(penalty, shape):
    """The registered penalty, with pieces of this shape where it has some."""
    R = PENALTIES[penalty].build(NUMPY)
    try:
        R.check(shape)
    except wp.ShapeError:
        pieces = MaxAffine(numbers(6, *shape, seed=64), numbers(6, seed=65))
        R = pieces if isinstance(R, MaxAffine) else pieces + ElasticNet(0.2, 0.1)
    return R


@cache
def problem_of(loss, penalty, spectral):
    h = TERMS[spectral].build(NUMPY)
    G = LOSSES[loss].build(NUMPY) if loss in LOSSES else square_loss(loss)
    R = fitted(penalty, G.shape)
    if not G.strong_convexity + R.curvature > 0.0:
        R = R + ElasticNet(0.0, 0.1)
    return wp.Problem(G, R, h)


def bounds(problem, rng, duals):
    for dual in duals:
        for accuracy in (0.0, np.inf):
            yield split_bound(problem, dual, rng=rng, accuracy=accuracy, arena=Arena())


def arbitrary(problem, rng, count):
    """Dual points of any A, any weight and rank, and penalty duals of any origin."""
    for _ in range(count):
        A = 10.0 ** rng.uniform(-2, 1.5) * rng.standard_normal(problem.shape)
        if problem.spectral.symmetric and rng.random() < 0.5:
            A = A + A.T
        weight = float(10.0 ** rng.uniform(-2, 2))
        rank = int(rng.integers(1, min(problem.shape) + 1))
        certify = bool(rng.random() < 0.5)
        prox = problem.spectral.weak_prox(A, weight=weight, rank=rank, certify=certify, rng=rng)
        y = None
        if not problem.penalty.separable or rng.random() < 0.5:
            v = rng.standard_normal(problem.shape)
            y = proximal_dual(problem.penalty, v, float(10.0 ** rng.uniform(-1, 1)))
        yield SplitDual(problem.penalty, A, weight, prox, y)


def watched(problem, limit):
    """A run of the splitting: its result, and dual points that it came across."""
    seen = []

    class Watched(DavisYin):
        def candidate(self, memory):
            if memory.dual is not None:
                seen.append(memory.dual)
            return super().candidate(memory)

    options = {"eps": 1e-300, "max_svds": limit, "stop_when_certified": False}
    result = wp.minimize(problem, Watched(), progress=False, **options)
    return result, seen[:: max(1, len(seen) // 4)] + seen[-1:]


def visited(problem, limit):
    return watched(problem, limit)[1]


def check_bounds(problem, rng, *, rounding=1e-12):
    """All bounds are below the best value that a run has found, and not all are far below."""
    result, duals = watched(problem, 40 if problem.penalty.separable else 8)
    found = [b for b, _ in bounds(problem, rng, [*duals, *arbitrary(problem, rng, 3)])]
    assert len(found) >= 10
    assert not np.isnan(found).any()
    best = min(result.value, float(result.trace["value"].min()))
    assert max(found) <= best + rounding * (1 + abs(best))
    assert max(found) >= best - (1 + abs(best))  # and some are of use


@pytest.mark.parametrize("spectral", ["ball-tight", "norm", "exact-box"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_below_the_optimum(loss, penalty, spectral):
    problem = problem_of(loss, penalty, spectral)
    check_bounds(problem, np.random.default_rng(1))


@pytest.mark.parametrize("spectral", ["psd-tight", "psd-loose", "ball-loose", "norm-heavy"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["denoising", "sensing", "completion", "custom"])
def test_below_the_optimum_on_square_matrices(loss, penalty, spectral):
    problem = problem_of(loss, penalty, spectral)
    check_bounds(problem, np.random.default_rng(2))


def soft(x, c):
    return np.sign(x) * np.maximum(np.abs(x) - c, 0)


def test_closed_forms_from_anywhere():
    """Optima that no solver was asked for."""
    M, rng = numbers(*SHAPE, seed=66), np.random.default_rng(3)
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    norms = np.linalg.norm(M, axis=1, keepdims=True)
    cases = [
        (L1(0.3), NuclearBall(1e3), soft(M, 0.3)),
        (None, NuclearNorm(0.7), (U * soft(s, 0.7)) @ Vt),
        (ElasticNet(0.3, 0.2), NuclearBall(1e3), soft(M, 0.3) / 1.4),
        (GroupL2(0.5), NuclearBall(1e3), M * np.maximum(1 - 0.5 / norms, 0)),
    ]
    for R, h, X in cases:
        problem = wp.Problem(Denoising(M), R, h)
        compressed = h.compress(X, 5, rng)
        optimum = problem.smooth_value(X) + h.value(compressed)
        found = [b for b, _ in bounds(problem, rng, arbitrary(problem, rng, 40))]
        assert max(found) <= optimum * (1 + 1e-13)
        tight = [b for b, _ in bounds(problem, rng, visited(problem, 100))]
        assert optimum * (1 - 1e-4) <= max(tight) <= optimum * (1 + 1e-13)


# ------------------------------------------------------------- high accuracy


def paper(d=40, r=3, share=0.9, seed=4):
    given = instance(d, r, seed)
    return wp.Problem(Denoising(given.M0), L1(1.0), NuclearBall(share * given.tau))


def sensing(seed=5):
    rng = np.random.default_rng(seed)
    X0 = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 7))
    A = rng.standard_normal((200, 8, 7))
    b = (A * X0).sum((1, 2)) + 0.5 * rng.standard_normal(200)
    tau = 0.9 * float(np.linalg.norm(X0, "nuc"))
    return wp.Problem(Sensing(A, b), ElasticNet(0.05, 0.05), NuclearBall(tau))


ACCURATE = {
    "paper tight": lambda: paper(),
    "paper loose": lambda: paper(share=1.0),
    "paper rank one": lambda: paper(r=1, share=1.0),
    "paper dense": lambda: wp.Problem(
        Denoising(numbers(40, 30, seed=67)), L1(0.01), NuclearBall(100.0)
    ),
    "psd": lambda: wp.Problem(
        Denoising(numbers(20, 20, seed=68) + numbers(20, 20, seed=68).T),
        L1(0.2),
        TracePSD(15.0),
    ),
    "norm": lambda: wp.Problem(Denoising(numbers(20, 15, seed=69)), L1(0.2), NuclearNorm(1.5)),
    "sensing": sensing,
    "rows": lambda: wp.Problem(
        Denoising(numbers(20, 15, seed=70)), GroupL2(0.5), NuclearBall(20.0)
    ),
}


@pytest.mark.parametrize("tol", [1e-9, 1e-10, 1e-11, 1e-12, 1e-14])
@pytest.mark.parametrize("name", ACCURATE)
def test_no_bound_above_a_value_at_high_accuracy(name, tol):
    """The rounding of projected values once was left out of the conjugate of h."""
    problem = ACCURATE[name]()
    result = wp.minimize(problem, DavisYin(), tol=tol, progress=False, max_svds=250)
    value, lower = result.value, result.certificate.lower_bound
    assert lower <= value  # in raw numbers
    assert (result.gap <= result.eps) == (result.status is wp.Status.CERTIFIED)
    best = min(value, float(np.nanmin(result.trace["value"])))
    assert lower <= best + 1e-12 * abs(best)
    if tol <= 1e-14:  # below the rounding of any such sum: nothing may claim to prove it
        assert result.status is not wp.Status.CERTIFIED or result.gap <= tol * abs(value)
    assert result.gap <= 1e-7 * abs(value)


@pytest.mark.parametrize("name", ACCURATE)
def test_every_bound_of_a_long_run_is_below_every_value(name):
    """Dual points that a run to rounding comes across, its last ones included."""
    problem, rng = ACCURATE[name](), np.random.default_rng(6)
    duals = visited(problem, 150)
    duals = duals if ALL else [*duals[:-10:4], *duals[-10:]]
    result = wp.minimize(problem, DavisYin(), tol=1e-13, progress=False, max_svds=300)
    for dual in duals:
        for accuracy in (0.0, 1e-12 * abs(result.value), np.inf):
            bound, _ = split_bound(problem, dual, rng=rng, accuracy=accuracy, arena=Arena())
            assert bound <= result.value * (1 + np.sign(result.value) * 1e-14)


# ------------------------------------------- what a proximal step says of h*


def conjugate_of(h, U):
    """h*(U) itself, by a full decomposition in float64."""
    U = to_numpy(U).astype(float)
    if isinstance(h, NuclearBall):
        return h.tau * np.linalg.norm(U, 2)
    if isinstance(h, TracePSD):
        return h.tau * max(0.0, float(np.linalg.eigvalsh((U + U.T) / 2)[-1]))
    if isinstance(h, NuclearNorm):
        return 0.0 if np.linalg.norm(U, 2) <= h.lam * (1 + 1e-13) else np.inf
    return float(h.conjugate_of(U))


def matrices(rng, shape):
    """Of any scale, spectrum and rank."""
    A = rng.standard_normal(shape)
    kind = rng.integers(0, 6)
    if kind == 1:
        A = np.outer(A[:, 0], A[0])
    elif kind == 2:
        U, _, Vt = np.linalg.svd(A, full_matrices=False)
        A = (U * np.geomspace(1, 1e-12, min(shape))) @ Vt
    elif kind == 3:
        A = np.eye(*shape)
    elif kind == 4:
        A = np.where(rng.random(shape) < 0.3, A, 0.0)
    elif kind == 5:
        A = -A @ A.T if shape[0] == shape[1] else A
    return 10.0 ** rng.uniform(-6, 6) * A


@pytest.mark.parametrize("certify", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", ["ball", "psd", "norm", "exact"])
def test_conjugate_and_shrink_bound_what_they_say(kind, dtype, certify):
    """h*(shrink w (A - V)) <= conjugate for any A: full or thin, certified or not."""
    rng = np.random.default_rng(7)
    for trial in range(80):
        m = int(rng.integers(2, 25))
        shape = (m, m) if kind == "psd" else (m, int(rng.integers(2, 25)))
        given = matrices(rng, shape)
        size = float(np.abs(given).max()) or 1.0
        scale = float(size * 10.0 ** rng.uniform(-2, 2))
        torched = isinstance(dtype, torch.dtype)
        A = torch.asarray(given, dtype=dtype) if torched else given.astype(dtype)
        weight = float(10.0 ** rng.uniform(-3, 3))
        h = {
            "ball": NuclearBall(scale),
            "psd": TracePSD(scale),
            "norm": NuclearNorm(weight * scale),
            "exact": Exact(
                prox=lambda A, weight, c=scale: A.clip(-c, c),
                value_of=lambda X: 0.0,
                conjugate_of=lambda U, c=scale: c * float(abs(U).sum()),
            ),
        }[kind]
        rank = int(rng.integers(1, min(shape) + 1))
        prox = h.weak_prox(A, weight=weight, rank=rank, certify=certify, rng=rng)
        assert 0.0 <= prox.shrink <= 1.0
        V = to_numpy(prox.V.dense()).astype(float)
        U = prox.shrink * weight * (to_numpy(A).astype(float) - V)
        true = conjugate_of(h, U)
        rounding = 4 * eps_of(A) * weight * scale * (size if kind == "norm" else 1.0)
        if kind == "exact":  # tight by Fenchel up to the rounding of its own sums
            total = weight * scale * float(np.abs(to_numpy(A)).sum())
            rounding = 64 * eps_of(A) * total
        assert true <= prox.conjugate + rounding, (trial, shape, rank)
        full = rank == min(shape)
        if full and kind in ("ball", "norm") and dtype is np.float64:  # and it is of use
            young = h.value(prox.V) + prox.conjugate - float((U * V).sum())
            # squares of values carry m roundings, and that of the tail is rooted
            assert young <= 2 * np.sqrt(m * eps_of(A)) * weight * scale * m * size


@pytest.mark.parametrize("certify", [False, True])
@pytest.mark.parametrize("kind", ["ball", "psd", "norm"])
def test_thin_decompositions_of_large_matrices(kind, certify):
    """Block methods, whose values are bounds from below: still nothing is too low."""
    rng = np.random.default_rng(8)
    for trial in range(3):
        M = rng.standard_normal((320, 5)) @ rng.standard_normal((5, 320))
        M = (M + M.T if kind == "psd" else M) + 2.0 * rng.standard_normal((320, 320))
        M = (M + M.T) / 2 if kind == "psd" else M
        s = np.linalg.svd(M, compute_uv=False)
        h = {
            "ball": NuclearBall(float(0.5 * s[:5].sum())),
            "psd": TracePSD(float(0.5 * s[:5].sum())),
            "norm": NuclearNorm(float(3.0 * s[5])),
        }[kind]
        start = rng.standard_normal((320, 12)) if trial else None
        for rank in (1, 4, 12):
            prox = h.weak_prox(M, weight=2.0, rank=rank, start=start, certify=certify, rng=rng)
            U = prox.shrink * 2.0 * (M - prox.V.dense())
            assert conjugate_of(h, U) <= prox.conjugate * (1 + 1e-12)


def test_float32_problems_stay_below_the_optimum_of_their_data():
    for name, entry in (("ball", NuclearBall(2.0)), ("norm", NuclearNorm(0.8))):
        M = numbers(*SHAPE, seed=71).astype(np.float32)
        single = wp.Problem(Denoising(M), L1(0.25), entry)
        double = wp.Problem(Denoising(M.astype(float)), L1(0.25), entry)
        best = wp.minimize(double, tol=1e-10, progress=False).value
        rng = np.random.default_rng(9)
        for dual in visited(single, 40):
            bound, _ = split_bound(single, dual, rng=rng, accuracy=0.0, arena=Arena())
            assert bound <= best * (1 + 1e-9), name
        assert NUMPY32.owns(dual.A)


@pytest.mark.parametrize("h", [NuclearBall(150.0), NuclearNorm(12.0), TracePSD(80.0)], ids=repr)
def test_bounds_by_a_factorisation_lie_below_the_optimum(h, monkeypatch):
    """For proximal points that lack some of the triplets, as those of a few power steps do."""
    monkeypatch.setattr(split, "EXACT_BELOW", 0)
    monkeypatch.setattr(split, "FEW", 1)
    rng = np.random.default_rng(8)
    M = 2.0 * rng.standard_normal((40, 40))
    M = M + M.T
    problem = wp.Problem(Denoising(M), L1(0.5), h)
    best = wp.minimize(problem, tol=1e-9, progress=False)
    assert best.certified
    weight, proved = 1.0, 0
    y = proximal_dual(problem.penalty, M, 1.0)
    A = M - problem.penalty.pull(y)
    full = h.weak_prox(A, weight=weight, rank=40)
    for rank in (full.V.rank, full.V.rank - 1, 3):
        prox = h.weak_prox(A, weight=weight, rank=rank, rng=rng)
        prox = replace(prox, conjugate=float("inf"), shrink=1.0)
        for accuracy in (1e-6, 1e-2, 1.0, 1e3):
            along = prox.V.inner(A) - prox.V.sqnorm
            found = split.factored_prox(problem, A, prox, weight, along, accuracy)
            if found is None:
                continue
            proved += 1
            assert found.rests_on == "exact"
            dual = SplitDual(problem.penalty, A, weight, found)
            how = {"rng": rng, "accuracy": accuracy, "arena": Arena()}
            bound, _ = split_bound(problem, dual, **how)
            assert bound <= best.value
            young = h.value(found.V) + found.conjugate
            young -= found.shrink * weight * (found.V.inner(A) - found.V.sqnorm)
            assert young <= accuracy * (1 + 1e-4) + 1e-9 * abs(found.conjugate)
    assert proved >= 4
    for prox, proves in ((full, True), (h.weak_prox(A, weight=weight, rank=3), False)):
        along = prox.V.inner(A) - prox.V.sqnorm
        found = split.factored_prox(problem, A, prox, weight, along, 1e-3)
        assert (found is not None) == proves


def test_a_factorisation_leaves_room_for_the_rounding_of_each_triplet(monkeypatch):
    """A - V is a sum of as many terms as V has triplets, each rounded by a share of |A|."""
    monkeypatch.setattr(split, "EXACT_BELOW", 0)
    levels = []
    monkeypatch.setattr(split, "factored_bound", lambda D, x, **_: levels.extend(x) or x[0])
    A, tau = 1e3 * numbers(40, 35, seed=3), 1e5
    problem = wp.Problem(Denoising(A), None, NuclearBall(tau))
    prox = problem.spectral.weak_prox(A, weight=1.0, rank=35)
    along = prox.V.inner(A) - prox.V.sqnorm
    found = split.factored_prox(problem, A, prox, 1.0, along, 1.0)
    rounding = prox.V.rank * np.finfo(float).eps * np.linalg.norm(A)
    assert prox.V.rank > split.FEW
    assert 0.9 * rounding <= found.conjugate / tau - levels[0] <= 1.1 * rounding


@pytest.mark.parametrize("less", [1e-9, 0.1, 10.0])
def test_a_conjugate_below_what_young_allows_proves_nothing(less):
    """h(V) + h*(u) >= <u, V>; a smaller conjugate is that of a broken term."""
    A, h = numbers(*SHAPE, seed=5), NuclearBall(2.0)
    problem, how = wp.Problem(Denoising(A), L1(0.1), h), {"accuracy": 1e-3, "arena": Arena()}
    prox = h.weak_prox(A, weight=1.0, rank=min(SHAPE))
    broken = replace(prox, conjugate=prox.conjugate - less)
    for x, finite in ((prox, True), (broken, False)):
        dual = SplitDual(problem.penalty, A, 1.0, x)
        bound, _ = split_bound(problem, dual, rng=np.random.default_rng(0), **how)
        assert bound < np.inf
        assert (bound > -np.inf) == finite


@pytest.mark.parametrize("share", [0.9, 0.999, 1.0, 1.001, 1.5])
def test_a_ball_that_holds_the_point_needs_no_second_decomposition(share):
    """Its dual point is zero, and the bound is then the least value of G + R."""
    rng = np.random.default_rng(9)
    M = 3.0 * rng.standard_normal((12, 9))
    R = L1(0.5) + ElasticNet(0.0, 0.1)
    least = np.sign(M) * np.maximum(np.abs(M) - 0.5, 0.0) / 1.2
    tau = share * float(np.linalg.svd(least, compute_uv=False).sum())
    problem = wp.Problem(Denoising(M), R, NuclearBall(tau))
    prox = problem.spectral.weak_prox(least, weight=1.0, rank=9)
    value = problem.value(prox.V)
    best = wp.minimize(problem, tol=1e-9, progress=False)
    rough = replace(prox, conjugate=np.inf)  # as if the decomposition had been too rough
    y = proximal_dual(R, M, 1.0)
    used = []
    for accuracy in (1e-6, 1e-3 * value, 10.0 * value):
        how = {"rng": rng, "accuracy": accuracy, "arena": Arena(), "used": used}
        bound, _ = split_bound(problem, SplitDual(R, least, 1.0, rough, y), **how)
        assert bound <= best.value
        if share >= 1.0:
            assert bound == pytest.approx(value, rel=1e-12)
    assert used[-1].shrink == 0.0  # any dual point is good enough for the last accuracy
    assert (used[0].shrink == 0.0) == (share >= 1.0)


@pytest.mark.parametrize("name", EXACT)
def test_only_functions_of_singular_values_have_zero_as_a_dual_point(name):
    """The conjugate of another h is not known at zero: it may be negative somewhere."""
    problem = problem_of("denoising", "l1", name)
    A = np.zeros(problem.shape)
    prox = problem.spectral.weak_prox(A, weight=1.0, rank=1)
    assert split.inactive_prox(problem, prox, 1.0, 0.0, np.inf) is None


@dataclass(frozen=True)
class Averaged(Method):
    """Steps whose iterate is an average of proximal points, with the dual points of a step."""

    relative = True

    def check(self, problem):
        pass

    def start(self, problem, X, tools):
        return SimpleNamespace(
            X=np.zeros(problem.shape), V=None, epoch=0, rank=9, dual=None, parameters=None
        )

    def step(self, problem, memory, tools):
        A = memory.X - tools.loss.grad(memory.X, tools.loss.everything())
        prox = tools.spectral.weak_prox(A, weight=1.0, rank=9, rng=tools.rng(memory.epoch))
        X = 0.1 * memory.X + 0.9 * prox.V.dense()
        dual = SplitDual(problem.penalty, A, 1.0, prox)
        epoch = memory.epoch + 1
        return SimpleNamespace(X=X, V=prox.V, epoch=epoch, rank=9, dual=dual, parameters=None)

    def finished(self, memory):
        return memory.epoch >= 20

    def candidate(self, memory):
        estimate = 10.0**-memory.epoch  # too small, so that every step is tried
        found = Candidate(memory.X, memory.V, 0.0, memory.epoch, 0, gap=estimate)
        return replace(found, dual=memory.dual)

    def dual(self, problem, memory):
        return memory.dual


@pytest.mark.parametrize("tol", [0.5, 0.1, 0.01])
def test_an_iterate_is_not_taken_for_the_proximal_point(tol):
    """The conjugate is that of a dual point at V, not at the iterate."""
    problem = wp.Problem(
        Denoising(3.0 * np.random.default_rng(0).standard_normal((12, 9))),
        L1(2.0),
        NuclearBall(80.0),
    )
    best = wp.minimize(problem, DavisYin(), tol=1e-9)
    found = wp.minimize(problem, Averaged(), tol=tol)
    assert found.certificate.lower_bound <= best.value


@dataclass(frozen=True)
class Rewarded(NuclearBall):
    """The indicator of a ball minus a number, with bounds that follow its own value."""

    reward: float = 0.0

    def value(self, X):
        return super().value(X) - self.reward

    def weak_prox(self, A, **how):
        found = super().weak_prox(A, **how)
        return replace(found, lower=found.lower - self.reward, conjugate=np.inf)

    def conjugate(self, U, rng):
        return super().conjugate(U, rng) + self.reward


def test_a_subclass_does_not_inherit_zero_as_a_dual_point():
    """What its class declares of singular values may be false for a subclass."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((60, 50))
    Q = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    H = (Q * np.linspace(0.05, 1.0, 60)) @ Q.T
    loss = Custom(
        M.shape,
        value=lambda X: 0.5 * float(np.sum((X - M) * (H @ (X - M)))),
        grad=lambda X: H @ (X - M),
        strong_convexity=0.05,
        smoothness=1.0,
    )
    best = wp.minimize(wp.Problem(loss, L1(0.05), NuclearBall(1e4)), tol=1e-7)
    problem = wp.Problem(loss, L1(0.05), Rewarded(1e4, 10.0))
    for tol in (0.1, 0.2, 0.5):
        found = wp.minimize(problem, DavisYin(), tol=tol)
        assert found.certified
        assert found.certificate.lower_bound <= best.value - 10.0


@pytest.mark.parametrize("h", [NuclearBall(1e4 + 3.5), NuclearNorm(1.0)])
def test_float32_steps_count_what_they_drop(h):
    """Values just above the cut-off, beside a large one, belong to the proximal point.

    A step that drops them must not report the conjugate of the step that keeps them.
    """
    rng = np.random.default_rng(0)
    m, s = 4000, np.array([1e4 + 1.0, 1.9, 1.8, 1.7, 1.6, 1.5, 0.6, 0.4])
    U, V = (np.linalg.qr(rng.standard_normal((size, s.size)))[0] for size in (m, 12))
    A = ((U * s) @ V.T).astype(np.float32)
    prox = h.weak_prox(A, weight=1.0, rank=8, rng=rng)
    widest = np.linalg.norm(A.astype(float) - prox.V.dense().astype(float), 2)
    if isinstance(h, NuclearBall):
        assert h.tau * widest <= prox.conjugate * (1 + 1e-6)
    else:
        assert prox.shrink * widest <= h.lam * (1 + 1e-6)
    assert prox.V.rank == 6


@pytest.mark.parametrize("seed", [20, 22, 25, 33, 38, 39])
def test_bounds_of_exact_fits_allow_for_the_rounding_of_gradients(seed):
    """The optimum is 0. Terms of the gradient nearly cancel, so it is mostly rounding error."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3))
    X = (rng.standard_normal((n, n)) + 2 * np.eye(n)).astype(np.float32)
    Y = (20 * rng.standard_normal((n, n))).astype(np.float32)
    problem = wp.Problem(wp.losses.Regression(X, Y), None, NuclearBall(1e4))
    result = wp.minimize(problem, "davis-yin", tol=1e-3, max_svds=60, progress=False)
    assert result.certificate.lower_bound <= 0.0
