"""Lower bounds of factored steps with bounds that differ between entries."""

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
from weakprox.penalties import L1, Box, ElasticNet, GroupL2
from weakprox.solvers import DavisYin, LeanSplitting
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SHAPE = (5, 4)


def drawn(rng, kind):
    """A random problem, and its optimum by an interior-point method."""
    m, d = (4, 4) if kind == "cone" else SHAPE
    C = rng.uniform(0.5, 3.0) * rng.standard_normal((m, d)) + rng.choice([-2.0, 0.0, 2.0])
    low, high = np.sort(rng.uniform(-2.0, 2.0, (2, m, d)), axis=0)
    high = np.where(rng.random((m, d)) < 0.2, low, high)  # fixed entries
    if kind != "cone" and rng.random() < 0.3:
        low, high = low.min(axis=0, keepdims=True), high.max(axis=1, keepdims=True)
    some = low[0, 0]
    low = np.where(rng.random(low.shape) < 0.3, -np.inf, low)
    high = np.where(rng.random(high.shape) < 0.3, np.inf, high)
    low[0, 0] = some
    if kind == "cone":
        C, low, high = C + C.T, np.minimum(low, low.T), np.maximum(high, high.T)
    slope, lam2 = rng.uniform(0.1, 5.0), rng.choice([0.0, 0.3])
    size = rng.uniform(0.5, 6.0)
    C = C.astype([np.float64, np.float32][rng.integers(2)])
    h = {"ball": NuclearBall, "norm": NuclearNorm, "cone": TracePSD}[kind](size)
    problem = wp.Problem(Denoising(C), Box(low, high, slope) + ElasticNet(0.0, lam2), h)
    X = cp.Variable((m, d), symmetric=kind == "cone")
    f = 0.5 * cp.sum_squares(X - C.astype(float)) + lam2 * cp.sum_squares(X)
    for sign, end in ((1.0, high), (-1.0, low)):
        end = np.broadcast_to(end, (m, d))
        bounded = 1.0 * np.isfinite(end)
        past = sign * (X - np.where(np.isfinite(end), end, 0.0))
        f += slope * cp.sum(cp.multiply(bounded, cp.pos(past)))
    limits = []
    if kind == "norm":
        f += size * cp.normNuc(X)
    else:
        limits = [cp.normNuc(X) <= size] if kind == "ball" else [X >> 0, cp.trace(X) <= size]
    return problem, cp.Problem(cp.Minimize(f), limits).solve(solver="CLARABEL")


def bounded(step, C):
    assert step.bounded
    assert step.beside.dtype == C.dtype


@pytest.mark.portable
@pytest.mark.parametrize("kind", ["ball", "norm", "cone"])
def test_bounds_never_exceed_the_optimum(kind):
    assert closest(drawn, kind, bounded) <= 1e-3  # not merely weak


@pytest.mark.parametrize("kind", ["ball", "norm", "cone"])
def test_runs_prove_no_more_than_the_optimum(kind):
    rng = np.random.default_rng([8, len(kind), ord(kind[0])])
    for _ in range(10):
        problem, best = drawn(rng, kind)
        check_run(problem, best)


def low_rank_data(dtype=float):
    """Entries between 1 and 5, of rank 2, and noise."""
    rng = np.random.default_rng(4)
    A, B = rng.uniform(0.1, 0.9, 70), 1.0 + 4.0 * rng.random((2, 50))
    M = np.outer(A, B[0]) + np.outer(1.0 - A, B[1])
    return (M + 0.3 * rng.standard_normal((70, 50))).astype(dtype)


def ranges():
    """Bounds near the data, some of them infinite."""
    rng, M = np.random.default_rng(6), low_rank_data()
    low, high = M - rng.random(M.shape), M + rng.random(M.shape)
    free = rng.random((2, *M.shape)) < 0.2
    return np.where(free[0], -np.inf, low), np.where(free[1], np.inf, high)


LOW, HIGH = ranges()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "spectral", [NuclearNorm(8.0), NuclearBall(150.0)], ids=["norm", "ball"]
)
def test_constraints_of_single_entries_run_in_factors(dtype, spectral):
    low, high = np.minimum(LOW, 0.0), np.maximum(HIGH, 0.0)  # a ball needs a zero within
    given = wp.Problem(Denoising(low_rank_data(dtype)), Box(low, high), spectral)
    found = wp.minimize(given, LeanSplitting(), tol=1e-3, progress=False, proof=True)
    best = wp.minimize(given, DavisYin(), tol=1e-6, progress=False)
    assert found.certified
    room = 1e-6 * abs(best.value)
    assert found.certificate.lower_bound <= best.value + room
    assert best.certificate.lower_bound <= found.value + room
    assert wp.verify(found.proof, given)


def test_resumed_runs_have_the_same_bits(tmp_path):
    given = wp.Problem(Denoising(low_rank_data()), Box(LOW, HIGH, 0.5), NuclearBall(150.0))
    check_resumed(given, tmp_path / "c")


def test_bounds_are_rounded_outwards_for_data_in_float32():
    """The penalty of the rounded bounds is not larger, so that lower bounds hold."""
    M, box = low_rank_data(np.float32), Box(LOW, HIGH, 1e3)
    given = wp.Problem(Denoising(M), box, NuclearBall(100.0))
    step, most = given.entrywise(), np.finfo(np.float32).max
    low, high = np.split(step.beside, 2, axis=1)
    assert low.dtype == np.float32
    assert (low <= np.where(np.isinf(LOW), -most, LOW)).all()
    assert (high >= np.where(np.isinf(HIGH), most, HIGH)).all()
    for mine, end in ((low, LOW), (high, HIGH)):
        finite = np.isfinite(end)
        np.testing.assert_allclose(mine[finite], end[finite], rtol=np.finfo(np.float32).eps)
    X = wp.LowRank(np.ones((70, 1)), np.array([100.0]), np.ones((1, 50)))
    sums = reference.look(M, None, X, step)
    exact = box.value(X.dense())
    lost = sums.rounding(step, float(np.finfo(np.float32).eps), M.shape)
    assert 0.0 < exact - sums.price <= lost
    assert exact - sums.price <= 1e3 * step.widened <= 1e-3 * exact
    exactly = Box(low.astype(float), np.where(high == most, np.inf, high), 1e3)
    assert wp.Problem(Denoising(M), exactly, NuclearBall(1.0)).entrywise().widened == 0.0


def test_bounds_cost_two_arrays_in_memory():
    M = low_rank_data(np.float32)
    for low, high, size in (
        (LOW[:1], 9.0, 2 * M[:1].nbytes),  # one row stands for all
        (LOW[:, :1], 9.0, 2 * M.nbytes),
        (LOW, HIGH, 2 * M.nbytes),
    ):
        given = wp.Problem(Denoising(M), Box(low, high, 1.0), NuclearBall(1.0))
        assert given.beside_bytes == size == given.entrywise().beside.nbytes
    plain = wp.Problem(Denoising(M), Box(1.0, 9.0, 1.0), NuclearBall(1.0))
    assert plain.beside_bytes == 0
    lean, other = (wp.plan(one, LeanSplitting())["LeanSplitting"] for one in (given, plain))
    assert lean.data == pytest.approx(other.data + 6.0, abs=0.1)  # 8 and 4 bytes


def test_bounds_beside_a_file_are_not_stored_again(tmp_path):
    np.save(tmp_path / "M.npy", low_rank_data())
    M = np.load(tmp_path / "M.npy", mmap_mode="r")
    given = wp.Problem(Denoising(M), Box(LOW, HIGH, 0.5), NuclearBall(150.0))
    assert given.beside_bytes == 0
    assert not isinstance(given.entrywise().beside, np.ndarray)
    found = wp.minimize(given, LeanSplitting(), tol=1e-5, progress=False)
    plain = wp.Problem(Denoising(np.array(M)), given.penalty, given.spectral)
    same = wp.minimize(plain, LeanSplitting(), tol=1e-5, progress=False)
    assert found.solver == "LeanSplitting"
    assert found.certified
    assert found.value == pytest.approx(same.value, rel=1e-5)


@pytest.mark.parametrize("stored", [np.float32, np.float64])
def test_bounds_in_files_are_not_copied(tmp_path, stored):
    for name, array in (("M", low_rank_data()), ("L", LOW), ("H", HIGH)):
        np.save(tmp_path / f"{name}.npy", array.astype(array.dtype if name == "M" else stored))
    M, low, high = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "MLH")
    box = Box(low, high, 0.5)
    assert np.shares_memory(box.low, low)
    assert np.shares_memory(box.high, high)
    given = wp.Problem(Denoising(M), box, NuclearBall(150.0))
    found = wp.minimize(given, LeanSplitting(), tol=1e-5, progress=False, proof=True)
    same = Box(low.astype(float), high.astype(float), 0.5)
    plain = wp.Problem(Denoising(np.array(M)), same, NuclearBall(150.0))
    best = wp.minimize(plain, DavisYin(), tol=1e-7, progress=False)
    assert repr(box) == repr(same)
    assert found.solver == "LeanSplitting"
    assert found.certified
    assert found.certificate.lower_bound <= best.value <= found.value + best.gap
    assert wp.verify(found.proof, given)


def test_another_unit_does_not_round_bounds_in_float32():
    box = Box(LOW.astype(np.float32), np.inf, 2.0)
    assert box.low.dtype == np.float32
    np.testing.assert_array_equal(box.in_unit(3.0).low, box.low.astype(float) / 3.0)


def test_operators_and_tensors_take_bounds():
    M, box = low_rank_data(), Box(LOW, HIGH, 0.5)
    rows = Denoising(wp.LowRank(*np.linalg.svd(M, full_matrices=False)))
    best = wp.minimize(wp.Problem(Denoising(M), box, NuclearBall(150.0)), DavisYin(), tol=1e-7)
    for loss in (rows, Denoising(torch.tensor(M))):
        given = wp.Problem(loss, box, NuclearBall(150.0))
        found = wp.minimize(given, LeanSplitting(), tol=1e-5, progress=False)
        assert found.solver == "LeanSplitting"
        assert found.certified
        assert found.certificate.lower_bound <= best.value <= found.value + best.gap


def test_the_automatic_choice_runs_in_factors():
    M = low_rank_data(np.float32)
    given = wp.Problem(Denoising(M), Box(LOW, HIGH, 0.5), NuclearBall(150.0))
    found = wp.minimize(given, tol=1e-3, progress=False)
    assert found.solver == "LeanSplitting"
    assert found.certified


@pytest.mark.parametrize(
    ("penalty", "form"),
    [
        (Box(LOW, HIGH, 2.0), SeparableForm(2.0, 2.0)),
        (Box(LOW[:1], np.inf, 2.0), SeparableForm(0.0, 2.0)),
        (Box(-np.inf, HIGH, 2.0), SeparableForm(2.0, 0.0)),
        (Box(LOW, HIGH, 2.0) + ElasticNet(0.0, 1.0), SeparableForm(2.0, 2.0)),
        (L1(0.0) + Box(LOW, HIGH, 2.0), SeparableForm(2.0, 2.0)),
    ],
    ids=repr,
)
def test_forms_of_bounds(penalty, form):
    found = penalty.capabilities.form
    assert found == form
    assert found.bounds is not None


@pytest.mark.parametrize(
    "other",
    [L1(0.3), L1(0.3, np.ones((70, 50))), Box(0.0, HIGH, 1.0), Box(0.1, 1.0, 0.2)],
    ids=repr,
)
def test_sums_with_other_slopes_have_no_form(other):
    for penalty in (Box(LOW, HIGH, 2.0) + other, other + Box(LOW, HIGH, 2.0)):
        assert penalty.capabilities.form is None


def test_free_entries_have_a_form_without_bounds():
    free = Box(np.full((70, 1), -np.inf), np.full((1, 50), np.inf), 2.0)
    assert free.capabilities.form == SeparableForm()
    assert free.capabilities.form.bounds is None
    assert Box(LOW, HIGH).capabilities.form is None


@pytest.mark.parametrize("other", [GroupL2(0.3), GroupL2(0.3, "columns")])
def test_sums_with_groups_need_another_method(other):
    given = wp.Problem(
        Denoising(low_rank_data()), Box(LOW, HIGH, 2.0) + other, NuclearNorm(9.0)
    )
    assert given.entrywise() is None
    assert wp.minimize(given, tol=1e-3, progress=False).certified


def test_targets_in_a_cone_are_symmetric_if_the_bounds_are():
    M = low_rank_data()[:50]
    loss, h, low = Denoising(M @ M.T), TracePSD(100.0), LOW[:50]
    both = np.maximum(low, low.T)
    assert not wp.Problem(loss, Box(both, np.inf, 1.0), h).mirrored
    for end in (low, low[:1]):
        assert wp.Problem(loss, Box(end, np.inf, 1.0), h).mirrored
    with pytest.raises(wp.ShapeError, match="low"):
        wp.Problem(loss, Box(LOW, np.inf, 1.0), h)


def test_a_declared_form_with_bounds_is_checked():
    class Told(Box):
        @property
        def capabilities(self):
            form = SeparableForm(self.slope, self.slope, bounds=(self.low, self.high + 0.5))
            return replace(super().capabilities, form=form)

    checks.check_smoothing(Box(LOW, HIGH, 0.4), np.zeros(LOW.shape))
    with pytest.raises(wp.WeakproxError, match="form"):
        checks.check_smoothing(Told(LOW, HIGH, 0.4), np.zeros(LOW.shape))
