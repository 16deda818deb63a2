"""Constants that are wrong: noticed, corrected, and never a reason for a false proof."""

import pickle
from functools import cache

import numpy as np
import pytest
from registry import LOSSES, NUMPY, PENALTIES, numbers

import weakprox as wp
from weakprox.losses import Custom, Denoising, Sensing
from weakprox.losses import sensing as sensing_module
from weakprox.penalties import L1, ElasticNet
from weakprox.problem import Restated
from weakprox.result import COLUMNS
from weakprox.run import escalate
from weakprox.solvers import DavisYin
from weakprox.solvers._stored import CLEAR, FEW, LOOSE, MARGIN, Contradicted, Curvature
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SHAPE = (12, 10)
TOL = 1e-6


@cache
def measured(seed):
    rng = np.random.default_rng([90, seed])
    left = rng.standard_normal((SHAPE[0], 2)) * (rng.random((SHAPE[0], 2)) < 0.5)
    X0 = left @ rng.standard_normal((2, SHAPE[1]))
    A = rng.standard_normal((3 * X0.size // 2, *SHAPE))  # condition number about 60
    b = (A * X0).sum((1, 2)) + 0.5 * rng.standard_normal(len(A))
    tau = 0.9 * float(np.linalg.norm(X0, "nuc"))
    exact = Sensing(A, b)
    return A, b, tau, exact.smoothness, exact.strong_convexity


def sensing(seed, smooth=1.0, convex=1.0):
    """The problem with constants off by these factors."""
    A, b, tau, largest, least = measured(seed)
    loss = Sensing(A, b, smoothness=smooth * largest, strong_convexity=convex * least)
    return wp.Problem(loss, ElasticNet(0.05, 0.01), NuclearBall(tau))


@pytest.fixture(autouse=True)
def nothing_is_checked_quickly(monkeypatch):
    """Only gradients tell: as for measurements that are too many to be decomposed."""
    monkeypatch.setattr(sensing_module, "QUICK_FLOPS", 0.0)


@cache
def right(seed):
    return wp.minimize(sensing(seed), DavisYin(), tol=TOL, progress=False)


@cache
def optimum(seed):
    """Bracketed to 1e-10 by a run with the right constants."""
    result = wp.minimize(sensing(seed), DavisYin(), tol=1e-10, progress=False, max_svds=2000)
    assert result.status is wp.Status.CERTIFIED
    return result.value


WRONG = {
    "smoothness x100": (100.0, 1.0),
    "smoothness /100": (0.01, 1.0),
    "convexity /100": (1.0, 0.01),
    "convexity x10": (1.0, 10.0),
    "both up": (100.0, 10.0),
    "both down": (0.01, 0.01),
    "apart": (100.0, 0.01),
    "contradictory": (0.01, 100.0),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", WRONG)
def test_wrong_constants_cost_little_and_no_truth(name, seed):
    smooth, convex = WRONG[name]
    problem = sensing(seed, smooth, convex)
    result = wp.minimize(problem, DavisYin(), tol=TOL, progress=False, max_svds=2000)
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.lower_bound <= optimum(seed)
    assert result.value - optimum(seed) <= result.eps
    assert result.counts.svds <= 3 * right(seed).counts.svds


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("convex", [3.0, 10.0, 30.0])
def test_a_strong_convexity_that_is_too_large_proves_nothing_false(convex, seed):
    """Whatever happens before it is contradicted: the final bound is true."""
    result = wp.minimize(
        sensing(seed, 1.0, convex), DavisYin(), tol=TOL, progress=False, max_svds=500
    )
    assert result.certificate.lower_bound <= optimum(seed) * (1 + 1e-9)
    assert (result.gap <= result.eps) == (result.status is wp.Status.CERTIFIED)
    if convex > 5.0:  # less need not show along the way, and does no harm there
        assert result.checkpoint.restated < measured(seed)[4] * convex


# ------------------------------------------------------------------ restating


def same(a, b):
    assert np.array_equal(a.X, b.X)
    assert (a.value, a.status, a.eps) == (b.value, b.status, b.eps)
    assert a.counts == b.counts
    assert a.certificate == b.certificate
    for column in COLUMNS:
        if column != "seconds":
            assert np.array_equal(a.trace[column], b.trace[column], equal_nan=True)


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 9, 16, 17, 25, 33])
def test_resumed_after_a_contradiction_to_the_bit(cut):
    problem = sensing(0, 1.0, 10.0)
    options = {"tol": 1e-9, "progress": False}
    whole = wp.minimize(problem, DavisYin(), **options)
    assert whole.checkpoint.restated is not None
    assert whole.counts.svds > 33
    part = wp.minimize(problem, DavisYin(), **options, max_svds=cut)
    part = pickle.loads(pickle.dumps(part))
    same(wp.minimize(problem, DavisYin(), **options, resume=part), whole)


def test_restated_losses_are_the_same_but_for_one_constant():
    loss = LOSSES["sensing-dense"].build(NUMPY)
    other = Restated(loss, 0.25)
    assert other.strong_convexity == 0.25
    assert (other.smoothness, other.shape, repr(other)) == (
        loss.smoothness,
        loss.shape,
        repr(loss),
    )
    X = numbers(*loss.shape)
    assert np.array_equal(other.grad(X, other.everything()), loss.grad(X, loss.everything()))
    assert pickle.loads(pickle.dumps(other)).strong_convexity == 0.25
    assert not hasattr(other, "centre")
    assert hasattr(Restated(LOSSES["denoising-matrix"].build(NUMPY), 0.5), "centre")
    with pytest.raises(AttributeError):
        _ = other.no_such_thing


@pytest.fixture
def restated(monkeypatch):
    """What the loop has restated, in order."""
    found = []

    def restate(state, signal, begin):
        after = escalate.another_constant(state, signal, begin)
        found.extend([] if after is None else [signal.strong_convexity])
        return after

    others = [one for one in escalate.ESCALATIONS if one is not escalate.another_constant]
    monkeypatch.setattr(escalate, "ESCALATIONS", (restate, *others))
    return found


@pytest.mark.parametrize("spectral", [NuclearBall(2.0), NuclearNorm(0.3)], ids=["ball", "norm"])
@pytest.mark.parametrize("penalty", ["zero", "l1", "elastic-net", "max-affine", "sum"])
@pytest.mark.parametrize("loss", LOSSES)
def test_right_constants_are_never_contradicted(loss, penalty, spectral, restated):
    G, R = LOSSES[loss].build(NUMPY), PENALTIES[penalty].build(NUMPY)
    if not G.strong_convexity + R.curvature > 0.0:
        R = R + ElasticNet(0.0, 0.1)
    limit = 60 if R.separable else 12
    result = wp.minimize(
        wp.Problem(G, R, spectral), DavisYin(), tol=1e-9, progress=False, max_svds=limit
    )
    assert restated == []
    assert result.checkpoint.restated is None


def test_the_fixture_sees_contradictions(restated):
    wp.minimize(sensing(1, 1.0, 10.0), DavisYin(), tol=TOL, progress=False)
    assert restated
    assert min(restated) > 0.0


def test_not_quadratic(restated):
    """Curvature that falls along the way: 1 far out, declared 1, but .2 near zero."""
    M = 3.0 * numbers(6, 6, seed=91)

    def slope(X):
        return np.where(np.abs(X) < 1, 0.2 * X, X - 0.8 * np.sign(X))

    def value(X):
        near = 0.1 * X**2
        far = 0.5 * X**2 - 0.8 * np.abs(X) + 0.4
        return float((np.where(np.abs(X) < 1, near, far) - 0.05 * X * M).sum())

    def build(declared):
        loss = Custom(
            (6, 6),
            value=value,
            grad=lambda X: slope(X) - 0.05 * M,
            strong_convexity=declared,
            smoothness=1.0,
        )
        return wp.Problem(loss, L1(0.01), NuclearBall(20.0))

    best = wp.minimize(build(0.2), DavisYin(), tol=1e-9, progress=False)
    assert restated == []
    result = wp.minimize(build(1.0), DavisYin(), tol=1e-6, progress=False)
    assert restated
    assert result.certificate.lower_bound <= best.value * (1 + 1e-9 * np.sign(best.value))
    assert result.status is wp.Status.CERTIFIED


@pytest.mark.parametrize("term", [NuclearBall(8.0), TracePSD(8.0), NuclearNorm(0.5)], ids=str)
def test_custom_losses_with_hints_of_every_kind(term):
    rng = np.random.default_rng(92)
    W = rng.uniform(0.2, 2.0, (8, 8))
    W = (W + W.T) / 2
    M = rng.standard_normal((8, 8))
    M = 2 * (M + M.T)

    def build(smooth, convex):
        loss = Custom(
            (8, 8),
            value=lambda X: 0.5 * float((W * (X - M) ** 2).sum()),
            grad=lambda X: W * (X - M),
            strong_convexity=convex * float(W.min()),
            smoothness=smooth * float(W.max()),
            infimum=0.0,
        )
        return wp.Problem(loss, L1(0.1), term)

    best = wp.minimize(build(1.0, 1.0), tol=1e-10, progress=False)
    for smooth, convex in ((100.0, 1.0), (0.2, 1.0), (1.0, 0.01), (1.0, 5.0), (30.0, 5.0)):
        result = wp.minimize(build(smooth, convex), tol=1e-6, progress=False, max_svds=1000)
        assert result.certificate.lower_bound <= best.value * (1 + 1e-9)
        assert result.value - best.value <= result.eps
        assert result.status is wp.Status.CERTIFIED


# ------------------------------------------------------------- the watch itself


def line(constants):
    """A quadratic with these curvatures, along the axes in turn."""
    H = np.diag(np.asarray(constants, float))
    return H, [np.eye(len(constants))[:, [i]] for i in range(len(constants))]


def test_what_is_seen():
    H, axes = line([0.5, 1.0, 4.0])
    X = np.zeros((3, 1))
    seen = Curvature(X, H @ X)
    for axis in axes:
        X = X + axis
        seen = seen.then(X, H @ X)
    assert (seen.most, seen.seen) == (4.0, 3)
    assert 0.5 <= seen.least <= 0.5 + 1e-13  # less what rounding may have taken away
    assert seen.smoothness(4.0) == 4.0
    assert seen.smoothness(3.0) == MARGIN * 4.0  # contradicted
    assert seen.smoothness(4.0 / (1 + CLEAR / 2)) == 4.0 / (1 + CLEAR / 2)  # rounding
    assert seen.smoothness(1e6) == 1e6  # not enough seen to disbelieve it
    many = Curvature(X, H @ X, 0.5, 4.0, FEW)
    assert many.smoothness(1e6) == MARGIN * 4.0
    assert many.smoothness(LOOSE * MARGIN * 4.0) == LOOSE * MARGIN * 4.0
    seen.check(0.5)
    seen.check(0.5 * (1 + CLEAR / 2))
    with pytest.raises(Contradicted) as caught:
        seen.check(0.6)
    assert caught.value.strong_convexity == pytest.approx(0.25, rel=1e-12)


def test_a_move_between_axes_bounds_both_curvatures_from_inside():
    """<Hd, d>/|d|^2 and |Hd|^2/<Hd, d>: the second is nearer to the largest."""
    H, axes = line([1.0, 9.0])
    X = np.zeros((2, 1))
    seen = Curvature(X, H @ X).then(axes[0] + axes[1], H @ (axes[0] + axes[1]))
    assert seen.least == pytest.approx(5.0)
    assert seen.most == pytest.approx(8.2)


def test_rounding_of_large_gradients_is_allowed_for():
    """A gradient of size g is known to 32 roundings, which may hide some curvature."""
    H, axes = line([1.0, 1.0])
    X, large = axes[0], 1e6 * axes[1]
    seen = Curvature(0 * X, large).then(1e-4 * X, H @ (1e-4 * X) + large)
    hidden = 32 * np.finfo(float).eps * 1e6 / 1e-4
    assert seen.least == pytest.approx(1.0 + hidden, rel=1e-9)
    seen.check(1.0 + 0.5 * hidden)


def test_steps_of_rounding_say_nothing():
    H, axes = line([1.0, 1.0])
    X = 1e3 * (axes[0] + axes[1])
    seen = Curvature(X, H @ X).then(X, H @ X)
    assert seen.seen == 0
    near = X + 1e-5 * axes[0]
    noise = 1e-3 * axes[1]  # a gradient whose rounding is larger than the move
    seen = seen.then(near, H @ near + noise)
    assert (seen.seen, seen.least, seen.most) == (0, np.inf, 0.0)
    seen.check(1e9)
    assert seen.smoothness(2.0) == 2.0


def test_denoising_is_not_watched():
    """Its constants are what they are, so that no array is kept for that."""
    problem = wp.Problem(Denoising(numbers(6, 5)), L1(0.1), NuclearBall(2.0))
    result = wp.minimize(problem, DavisYin(), tol=1e-6, progress=False)
    assert result.checkpoint.memory.curvature is None
