"""Lower bounds of factored steps with weights of entries, against the optimum."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import torch
from factored_duals import check_resumed, check_run, closest

import weakprox as wp
from weakprox import checks
from weakprox.losses import Denoising
from weakprox.passes import SeparableForm, reference
from weakprox.penalties import L1, Box, ElasticNet, SignedL1
from weakprox.solvers import DavisYin, LeanSplitting
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SHAPE = (5, 4)


def drawn(rng, kind, fixed=False):
    """A random problem, and its optimum by an interior-point method."""
    m, d = (4, 4) if kind == "cone" else SHAPE
    C = rng.uniform(0.5, 3.0) * rng.standard_normal((m, d)) + rng.choice([-2.0, 0.0, 2.0])
    W = rng.choice([0.0, 0.2, 1.0, 30.0], (m, d)) * rng.random((m, d))
    shape = [(m, d), (1, d), (m, 1)][0 if kind == "cone" else rng.integers(3)]
    W = np.ascontiguousarray(W[: shape[0], : shape[1]])
    W = W.astype([np.float64, np.float32][rng.integers(2)])
    if kind == "cone":
        C, W = C + C.T, W + W.T
    up, down, lam2 = (rng.choice([0.0, 0.3]) for _ in range(3))
    lam, size = rng.uniform(0.1, 2.0), rng.uniform(0.5, 6.0)
    C = C.astype([np.float64, np.float32][rng.integers(2)])
    h = {"ball": NuclearBall, "norm": NuclearNorm, "cone": TracePSD}[kind](size)
    X = cp.Variable((m, d), symmetric=kind == "cone")
    whole = np.broadcast_to(W.astype(float), (m, d))
    f = 0.5 * cp.sum_squares(X - C.astype(float)) + lam2 * cp.sum_squares(X)
    f += up * cp.sum(cp.pos(X)) + down * cp.sum(cp.neg(X))
    f += lam * cp.sum(cp.multiply(whole, cp.abs(X)))
    limits = []
    if fixed:
        held = np.triu(rng.random((m, d)) < 0.2, 1)
        held = held | held.T if kind == "cone" else held
        W = np.where(held, np.inf, whole)
        limits.append(cp.multiply(1.0 * held, X) == 0)
    R = L1(lam, W) + SignedL1(up, down, lam2)
    problem = wp.Problem(Denoising(C), R, h)
    if kind == "norm":
        f += size * cp.normNuc(X)
    else:
        limits += [cp.normNuc(X) <= size] if kind == "ball" else [X >> 0, cp.trace(X) <= size]
    return problem, cp.Problem(cp.Minimize(f), limits).solve(solver="CLARABEL")


def weighted(step, C):
    assert step.weighted


@pytest.mark.portable
@pytest.mark.parametrize("kind", ["ball", "norm", "cone"])
def test_bounds_never_exceed_the_optimum(kind):
    assert closest(drawn, kind, weighted) <= 1e-3  # not merely weak


@pytest.mark.parametrize("fixed", [False, True], ids=["finite", "fixed"])
@pytest.mark.parametrize("kind", ["ball", "norm", "cone"])
def test_runs_prove_no_more_than_the_optimum(kind, fixed):
    rng = np.random.default_rng([8, len(kind), ord(kind[0])])
    for _ in range(6):
        problem, best = drawn(rng, kind, fixed)
        check_run(problem, best)


def low_rank_data(shape=(70, 50), dtype=float):
    rng = np.random.default_rng(4)
    M = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    return (M + 0.3 * rng.standard_normal(shape)).astype(dtype)


UNEVEN = np.random.default_rng(5).uniform(0.0, 2.0, (70, 50))


def test_resumed_runs_have_the_same_bits(tmp_path):
    given = wp.Problem(Denoising(low_rank_data()), L1(0.2, UNEVEN), NuclearBall(100.0))
    check_resumed(given, tmp_path / "c")


def test_weights_are_rounded_down_for_data_in_float32():
    """Dual points within the rounded slopes are within the slopes themselves."""
    M = low_rank_data(dtype=np.float32)
    given = wp.Problem(Denoising(M), L1(0.2, UNEVEN), NuclearBall(100.0))
    step = given.entrywise()
    assert step.beside.dtype == np.float32
    assert (step.beside <= UNEVEN).all()
    np.testing.assert_allclose(step.beside, UNEVEN, rtol=np.finfo(np.float32).eps)
    X = wp.LowRank(np.ones((70, 1)), np.array([100.0]), np.ones((1, 50)))
    sums = reference.look(M, None, X, step)
    exact = 0.2 * 100.0 * float(UNEVEN.sum())
    assert sums.price < exact
    lost = sums.rounding(step, float(np.finfo(np.float32).eps), M.shape)
    assert exact - sums.price <= lost


def test_weights_that_fit_are_not_copied():
    penalty = L1(0.2, UNEVEN)
    for given in (penalty, 3.0 * penalty, penalty.in_unit(2.0), penalty + ElasticNet(0.1, 0.2)):
        problem = wp.Problem(Denoising(low_rank_data()), given, NuclearBall(100.0))
        assert np.shares_memory(problem.entrywise().beside, penalty.weights)
        assert problem.beside_bytes == 0
    single = wp.Problem(Denoising(low_rank_data(dtype=np.float32)), penalty, NuclearBall(1.0))
    assert single.beside_bytes == 4 * UNEVEN.size
    lean = wp.plan(single, LeanSplitting())["LeanSplitting"]
    other = wp.plan(wp.Problem(single.loss, L1(0.2), NuclearBall(1.0)), LeanSplitting())
    assert lean.data == pytest.approx(other["LeanSplitting"].data + 3.0)  # 8 and 4 bytes


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e30, 1e-30])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_scale_of_weights_does_not_matter(scale, dtype):
    """Their squares, and their numbers in float32, overflow or vanish."""
    M = low_rank_data(dtype=dtype)
    given, same = (
        wp.Problem(Denoising(M), L1(0.2 / size, size * UNEVEN), NuclearBall(100.0))
        for size in (scale, 1.0)
    )
    found, wanted = (
        wp.minimize(one, LeanSplitting(), tol=1e-4, progress=False) for one in (given, same)
    )
    assert found.solver == wanted.solver == "LeanSplitting"
    assert found.certified
    assert found.value == pytest.approx(wanted.value, rel=1e-5)
    assert given.entrywise().steepness == pytest.approx(same.entrywise().steepness)


@pytest.mark.parametrize("stored", [np.float32, np.float64])
def test_weights_and_data_in_files(tmp_path, stored):
    for name, array in (("M", low_rank_data()), ("W", UNEVEN.astype(stored))):
        np.save(tmp_path / f"{name}.npy", array)
    M, W = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "MW")
    given = wp.Problem(Denoising(M), L1(0.2, W), NuclearBall(100.0))
    assert np.shares_memory(given.penalty.weights, W)
    step = given.entrywise()
    assert np.shares_memory(step.beside, W)
    found = wp.minimize(given, LeanSplitting(), tol=1e-5, progress=False)
    plain = wp.Problem(Denoising(np.array(M)), L1(0.2, np.array(W)), NuclearBall(100.0))
    best = wp.minimize(plain, DavisYin(), tol=1e-7, progress=False)
    assert found.solver == "LeanSplitting"
    assert found.certified
    assert found.certificate.lower_bound <= best.value <= found.value + best.gap


def test_operators_and_tensors_take_weights():
    M = low_rank_data()
    rows = wp.losses.Denoising(wp.LowRank(*np.linalg.svd(M, full_matrices=False)))
    best = wp.minimize(
        wp.Problem(Denoising(M), L1(0.2, UNEVEN), NuclearBall(100.0)), DavisYin(), tol=1e-7
    )
    for loss in (rows, Denoising(torch.tensor(M))):
        for weights in (UNEVEN, torch.tensor(UNEVEN)):
            given = wp.Problem(loss, L1(0.2, weights), NuclearBall(100.0))
            found = wp.minimize(given, LeanSplitting(), tol=1e-5, progress=False)
            assert found.solver == "LeanSplitting"
            assert found.certified
            assert found.certificate.lower_bound <= best.value <= found.value + best.gap


@pytest.mark.parametrize(
    ("penalty", "count"),
    [
        (L1(0.2, UNEVEN), 1),
        (L1(0.2, UNEVEN) + SignedL1(0.1, 0.3, 0.2), 1),
        (L1(0.2, UNEVEN) + 2.0 * L1(0.1, UNEVEN[:1]), 2),
        (L1(0.2, UNEVEN) + Box(0.0, np.inf, 1.0), 1),
        (L1(0.0, UNEVEN), 0),
        (L1(0.2, UNEVEN) + Box(0.1, np.inf, 1.0), None),
        (L1(0.2, np.full((70, 50), np.inf)), None),
    ],
    ids=repr,
)
def test_forms_of_weights(penalty, count):
    form = penalty.capabilities.form
    assert (None if form is None else len(form.weights)) == count


def test_slopes_that_begin_elsewhere_need_another_method():
    R = L1(0.2, UNEVEN) + Box(0.1, 1.0, 0.2)
    given = wp.Problem(Denoising(low_rank_data()), R, NuclearNorm(9.0))
    assert given.entrywise() is None
    assert wp.minimize(given, tol=1e-3, progress=False).certified


def test_targets_in_a_cone_are_symmetric_if_the_weights_are():
    M = low_rank_data((50, 50))
    loss, h = Denoising(M @ M.T), TracePSD(100.0)
    W = UNEVEN[:50]
    for weights in (W + W.T, np.full((1, 1), 3.0)):
        assert not wp.Problem(loss, L1(0.2, weights), h).mirrored
    for weights in (W, W[:1], W[:, :1]):
        assert wp.Problem(loss, L1(0.2, weights), h).mirrored
        assert not wp.Problem(loss, L1(0.2, weights), NuclearBall(9.0)).mirrored
    with pytest.raises(wp.ShapeError, match="weights"):
        wp.Problem(loss, L1(0.2, UNEVEN), h)


def test_a_declared_form_with_weights_is_checked():
    class Told(L1):
        @property
        def capabilities(self):
            form = SeparableForm(weights=((2.0 * self.lam, self.weights),))
            return replace(super().capabilities, form=form)

    checks.check_smoothing(L1(0.4, UNEVEN), np.zeros(UNEVEN.shape))
    with pytest.raises(wp.WeakproxError, match="form"):
        checks.check_smoothing(Told(0.4, UNEVEN), np.zeros(UNEVEN.shape))
