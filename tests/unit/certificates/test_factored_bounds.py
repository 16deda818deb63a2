"""Lower bounds of factored steps with bounds on entries, against the optimum."""

import cvxpy as cp
import numpy as np
import pytest
from factored_duals import check_resumed, check_run, closest

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.passes import SeparableForm, reference
from weakprox.penalties import L1, Box, ElasticNet, GroupL2, SignedL1
from weakprox.protocols import PenaltyCapabilities
from weakprox.solvers import DavisYin, LeanSplitting
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SHAPE = (5, 4)


def drawn(rng, kind):
    """A random problem, and its optimum by an interior-point method."""
    m, d = (4, 4) if kind == "cone" else SHAPE
    C = rng.uniform(0.5, 3.0) * rng.standard_normal((m, d)) + rng.choice([-2.0, 0.0, 2.0])
    C = C + C.T if kind == "cone" else C
    low, high = np.sort(rng.uniform(-2.0, 2.0, 2))
    low, high = ((low, high), (low, np.inf), (-np.inf, high), (low, low))[rng.integers(4)]
    slope, lam2 = rng.uniform(0.1, 5.0), rng.choice([0.0, 0.3])
    size = rng.uniform(0.5, 6.0)
    C = C.astype([np.float64, np.float32][rng.integers(2)])
    h = {"ball": NuclearBall, "norm": NuclearNorm, "cone": TracePSD}[kind](size)
    problem = wp.Problem(Denoising(C), Box(low, high, slope) + ElasticNet(0.0, lam2), h)
    X = cp.Variable((m, d), symmetric=kind == "cone")
    f = 0.5 * cp.sum_squares(X - C.astype(float)) + lam2 * cp.sum_squares(X)
    if np.isfinite(high):
        f += slope * cp.sum(cp.pos(X - high))
    if np.isfinite(low):
        f += slope * cp.sum(cp.pos(low - X))
    limits = []
    if kind == "norm":
        f += size * cp.normNuc(X)
    else:
        limits = [cp.normNuc(X) <= size] if kind == "ball" else [X >> 0, cp.trace(X) <= size]
    return problem, cp.Problem(cp.Minimize(f), limits).solve(solver="CLARABEL")


@pytest.mark.portable
@pytest.mark.parametrize("kind", ["ball", "norm", "cone"])
def test_bounds_never_exceed_the_optimum(kind):
    assert closest(drawn, kind) <= 1e-3  # not merely weak


@pytest.mark.parametrize("kind", ["ball", "norm", "cone"])
def test_runs_prove_no_more_than_the_optimum(kind):
    rng = np.random.default_rng([8, len(kind), ord(kind[0])])
    for _ in range(10):
        problem, best = drawn(rng, kind)
        check_run(problem, best)


def test_rounding_of_entries_near_their_bounds_is_allowed_for():
    """Entries at a bound have no price, but rounding may give them one."""
    x = 1.0 + 2.0**-24 + 2.0**-40  # rounded up by about half an eps
    X, moved = np.full((30, 20), x), float(np.float32(x)) - x
    low_rank = wp.LowRank(np.ones((30, 1)), np.ones(1), X[:1].copy())
    problem = wp.Problem(Denoising(X), Box(-np.inf, x, 1e3), NuclearBall(1e3))
    step, eps = problem.entrywise(), float(np.finfo(np.float32).eps)
    sums = reference.look(X, None, low_rank, step)
    assert sums.value(step) == 0.0
    lost = X.size * (1e3 * moved + 0.5 * moved**2)
    assert lost <= sums.rounding(step, eps, X.shape) <= 1.1 * lost


def low_rank_data(shape=(70, 50), dtype=float):
    """Entries between 1 and 5, of rank 2, and noise."""
    rng = np.random.default_rng(4)
    A, B = rng.uniform(0.1, 0.9, shape[0]), 1.0 + 4.0 * rng.random((2, shape[1]))
    M = np.outer(A, B[0]) + np.outer(1.0 - A, B[1])
    return (M + 0.3 * rng.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("box", [Box(1.5, 4.0, 0.5), Box(-np.inf, 4.0, 0.5)], ids=repr)
def test_resumed_runs_have_the_same_bits(box, tmp_path):
    given = wp.Problem(Denoising(low_rank_data()), box, NuclearBall(150.0))
    check_resumed(given, tmp_path / "c")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bounds_without_a_slope_run_in_factors(dtype):
    given = wp.Problem(Denoising(low_rank_data(dtype=dtype)), Box(0.5, 6.0), NuclearNorm(8.0))
    assert given.entrywise().shifted
    found = wp.minimize(given, LeanSplitting(), tol=1e-3, progress=False, proof=True)
    best = wp.minimize(given, DavisYin(), tol=1e-6, progress=False)
    assert found.solver == "LeanSplitting"
    assert found.certified
    assert found.certificate.lower_bound <= best.value + 1e-6 * abs(best.value)
    assert wp.verify(found.proof, given)


@pytest.mark.parametrize(
    "box",
    [
        Box(0.5, 1e12, 1.0),
        Box(-1e12, 5.0, 1.0),
        Box(np.full((70, 1), 0.5), np.full((1, 50), 1e12), 1.0),
        Box(-1e12, np.full((1, 50), 5.0), 1.0),
    ],
    ids=repr,
)
def test_bounds_that_are_never_reached_cost_no_accuracy(box):
    """Their sizes would exceed the gap by orders of magnitude, times the rounding error."""
    given = wp.Problem(Denoising(low_rank_data()), box, NuclearNorm(8.0))
    found = wp.minimize(given, LeanSplitting(), tol=1e-6, progress=False)
    best = wp.minimize(given, DavisYin(), tol=1e-8, progress=False)
    assert found.solver == "LeanSplitting"
    assert found.certified
    assert found.certificate.lower_bound <= best.value <= found.value + best.gap


@pytest.mark.portable
def test_the_allowance_for_roundings_covers_all_terms_of_the_conjugate():
    rng = np.random.default_rng(9)
    for _ in range(200):
        m, n = 6, 5
        C, z = (rng.choice([1.0, 5.0]) * rng.standard_normal((m, n)) for _ in "Cz")
        low, high = np.sort(rng.uniform(-3.0, 3.0, (2, m, n)), axis=0)
        if rng.random() < 0.5:  # one range for all entries
            low, high = np.full((m, n), low[0, 0]), np.full((m, n), high[0, 0])
            box = Box(low[0, 0], high[0, 0], 2.0)
        else:
            high = np.where(rng.random((m, n)) < 0.2, 1e6, high)
            box = Box(low, high, 2.0)
        step = wp.Problem(Denoising(C), box, NuclearNorm(1.0)).entrywise(rng.uniform(0.3, 1.5))
        X = wp.LowRank(*np.linalg.svd(rng.standard_normal((m, n)), full_matrices=False))
        sums, t = reference.look(C, z, X, step), reference.target(C, z, X.dense(), step)
        s = np.clip((t - np.clip(t, low, high)) / step.gamma, -2.0, 2.0)
        terms = np.where(s > 0.0, s * high, s * low)
        assert sums.along == pytest.approx(np.sum(s * X.dense()) - terms.sum(), rel=1e-9)
        assert np.abs(terms).sum() <= (1.0 + 1e-9) * sums.offset(step, (m, n))
        assert sums.offset(step, (m, n)) <= step.offset((m, n))


@pytest.mark.parametrize(
    ("penalty", "form"),
    [
        (Box(0.2, 1.0, 2.0), SeparableForm(2.0, 2.0, low=0.2, high=1.0)),
        (Box(0.2, np.inf, 2.0), SeparableForm(0.0, 2.0, low=0.2, high=0.2)),
        (Box(-np.inf, -3.0, 2.0), SeparableForm(2.0, 0.0, low=-3.0, high=-3.0)),
        (Box(-np.inf, np.inf, 2.0), SeparableForm()),
        (Box(0.0, np.inf, 2.0) + L1(1.0), SeparableForm(1.0, 3.0)),
        (Box(0.2, np.inf, 2.0) + Box(-np.inf, 1.0, 3.0), SeparableForm(3.0, 2.0, 0, 0, 0.2, 1)),
        (ElasticNet(0.0, 1.0) + Box(0.2, 1.0, 2.0), SeparableForm(2.0, 2.0, low=0.2, high=1.0)),
        (Box(0.0, np.inf, 2.0) + GroupL2(1.0), SeparableForm(0.0, 2.0, rows=1.0)),
        (Box(0.2, 1.0, 2.0) + L1(1.0), None),
        (Box(1.0, np.inf, 2.0) + Box(-np.inf, 0.5, 3.0), None),
        (Box(0.2, 1.0, 2.0) + Box(0.1, 1.0, 2.0) + SignedL1(0.0, 0.0), None),
        (Box(np.zeros((1, 4)), 1.0, 2.0), SeparableForm(2.0, 2.0)),
        (Box(0.2, 1.0), None),
    ],
    ids=repr,
)
def test_forms_of_boxes(penalty, form):
    assert penalty.capabilities.form == form


class Declaring(L1):
    """A penalty of the user's with another form."""

    @property
    def capabilities(self):
        return PenaltyCapabilities(form=self.told)


@pytest.mark.parametrize(
    "form",
    [
        SeparableForm(1.0, 1.0, rows=1.0, columns=1.0),
        SeparableForm(1.0, 1.0, rows=1.0, low=0.1, high=0.2),
        SeparableForm(1.0, 1.0, low=-np.inf),
        SeparableForm(1.0, 1.0, high=np.nan),
        SeparableForm(1.0, 1.0, low=0.5, high=0.2),
    ],
)
def test_forms_without_a_closed_map(form):
    for told, applies in ((form, False), (SeparableForm(1.0, 1.0, low=0.1, high=0.2), True)):
        Declaring.told = told
        given = wp.Problem(Denoising(np.eye(4)), Declaring(1.0), NuclearNorm(1.0))
        assert (given.entrywise() is not None) is applies


def test_boxes_beside_groups_need_another_method():
    M = low_rank_data((12, 9))
    given = wp.Problem(Denoising(M), Box(0.2, 1.0, 2.0) + GroupL2(0.1), NuclearNorm(1.0))
    assert not LeanSplitting.applies(given)
    assert wp.minimize(given, tol=1e-3, progress=False).certified
