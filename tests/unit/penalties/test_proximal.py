"""Dual points of proximal maps: closed forms, CVXPY, warm starts and every namespace."""

from functools import cache
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from registry import NUMPY, NUMPY32, PENALTIES, SHAPE, TORCH, TORCH32, numbers

from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.simplex import quadratic_over_simplex
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine, Sum, Zero
from weakprox.penalties.proximal import proximal_dual

V = numbers(*SHAPE, seed=40)
STEPS = (0.05, 1.0, 7.0)
steps = pytest.mark.parametrize("step", STEPS)


def soft(x, c):
    return np.sign(x) * np.maximum(np.abs(x) - c, 0)


def shrunk(x, c, axis):
    norms = np.linalg.norm(x, axis=axis, keepdims=True)
    return x * np.maximum(1 - c / np.where(norms > 0, norms, 1.0), 0)


def prox(penalty, v, step, start=None):
    """The proximal point v - step K'y of the part of R without curvature."""
    return v - step * penalty.pull(proximal_dual(penalty, v, step, start))


def objective(penalty, X, v, step):
    """What the proximal point minimises."""
    smooth = penalty.value(X) - 0.5 * penalty.curvature * float((X**2).sum())
    return smooth + float(((X - v) ** 2).sum()) / (2 * step)


def by_cvxpy(terms, v, step):
    """Reference proximal point of a sum of CVXPY expressions."""
    X = cp.Variable(v.shape)
    total = sum(term(X) for term in terms) + cp.sum_squares(X - v) / (2 * step)
    task = cp.Problem(cp.Minimize(total))
    task.solve(solver=cp.CLARABEL)
    assert task.status == cp.OPTIMAL
    return np.asarray(X.value)


def pieces(A, b):
    return lambda X: cp.max(A.reshape(len(b), -1) @ cp.vec(X, order="C") - b)


CLOSED = {
    "zero": (Zero(), lambda v, t: v),
    "l1": (L1(0.7), lambda v, t: soft(v, 0.7 * t)),
    "l1 without weight": (L1(0.0), lambda v, t: v),
    "elastic net": (ElasticNet(0.7, 0.3), lambda v, t: soft(v, 0.7 * t)),
    "ridge": (ElasticNet(0.0, 0.3), lambda v, t: v),
    "rows": (GroupL2(0.8), lambda v, t: shrunk(v, 0.8 * t, 1)),
    "columns": (GroupL2(0.8, "columns"), lambda v, t: shrunk(v, 0.8 * t, 0)),
    "multiple": (2.5 * L1(0.2), lambda v, t: soft(v, 0.5 * t)),
    "sum of l1": (L1(0.2) + L1(0.3), lambda v, t: soft(v, 0.5 * t)),
    # sparse group lasso: first the entries, then the groups (Simon et al. 2013)
    "l1 and rows": (L1(0.3) + GroupL2(0.5), lambda v, t: shrunk(soft(v, 0.3 * t), 0.5 * t, 1)),
    "l1 and columns": (
        GroupL2(0.5, "columns") + L1(0.3),
        lambda v, t: shrunk(soft(v, 0.3 * t), 0.5 * t, 0),
    ),
    "three": (
        L1(0.3) + GroupL2(0.5) + ElasticNet(0.1, 0.2),
        lambda v, t: shrunk(soft(v, 0.4 * t), 0.5 * t, 1),
    ),
}


@steps
@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(name, step):
    penalty, true = CLOSED[name]
    for v in (V, 0 * V, 1e6 * V, 1e-6 * V, np.where(np.abs(V) > 1, V, 0.0)):
        found = prox(penalty, v, step)
        assert np.abs(found - true(v, step)).max() <= 1e-8 * np.abs(v).max()


@pytest.mark.parametrize("backend", [TORCH, NUMPY32, TORCH32], ids=lambda b: b.name)
@steps
@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_in_other_arrays(name, step, backend):
    penalty, true = CLOSED[name]
    found = prox(penalty, backend.array(V), step)
    assert backend.owns(found)
    small = 1e-8 if backend is TORCH else 1e-4
    assert np.abs(to_numpy(found) - true(V, step)).max() <= small * np.abs(V).max()


@steps
@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=lambda b: b.name)
@pytest.mark.parametrize("name", PENALTIES)
def test_every_penalty_gives_feasible_duals_and_a_minimum(name, backend, step):
    """y in Y, and no point around does better than v - step K'y."""
    penalty, v = PENALTIES[name].build(backend), backend.array(V)
    y = proximal_dual(penalty, v, step)
    for _ in range(30 if isinstance(penalty, Sum) else 0):  # sums continue from call to call
        y = proximal_dual(penalty, v, step, y)
    near = penalty.feasible(y)
    pairs = zip(y, near, strict=True) if isinstance(y, tuple) else [(y, near)]
    for given, kept in pairs:
        assert float(abs(given - kept).max()) <= 1e-12
    X = v - step * penalty.pull(y)
    assert backend.owns(X)
    best, rng = objective(penalty, X, v, step), np.random.default_rng(1)
    # Fenchel: the dual value of y is below all values, and meets that of X
    s = penalty.pull(y)
    dual = float((s * v).sum()) - penalty.dual_value(y) - step / 2 * float((s**2).sum())
    assert best == pytest.approx(dual, abs=1e-7 * (1 + abs(best)))
    for size in (1e-3, 0.1, 1.0):
        other = X + size * backend.array(rng.standard_normal(SHAPE))
        assert objective(penalty, other, v, step) >= dual - 1e-12 * (1 + abs(dual))


class WithoutClosedForm:
    """A penalty that is not separable and offers no proximal map of its own."""

    separable = False

    def __init__(self, penalty):
        self._penalty = penalty

    def __getattr__(self, name):
        if name == "proximal":
            raise AttributeError(name)
        return getattr(self._penalty, name)


@steps
@pytest.mark.parametrize("name", ["l1", "elastic net"])
def test_dual_ascent_finds_the_closed_forms(name, step):
    penalty, true = CLOSED[name]
    found = prox(WithoutClosedForm(penalty), V, step)
    assert found == pytest.approx(true(V, step), abs=1e-7)


SMALL = (4, 3)
A, B = numbers(5, *SMALL, seed=41), numbers(5, seed=42)
AFFINE = {
    "five pieces": (A, B),
    "one piece": (A[:1], B[:1]),
    "duplicates": (A[[0, 0, 1, 1, 1]], B[[0, 0, 1, 1, 1]]),
    "all the same": (A[[0, 0, 0]], B[[0, 0, 0]]),
    "a zero piece": (np.concatenate([A, 0 * A[:1]]), np.append(B, 0.0)),
    "all zero": (0 * A, B),
    "parallel pieces": (A[[0]] * np.arange(-2.0, 3.0)[:, None, None], B),
    "large": (1e3 * A, B),
    "small": (1e-3 * A, 1e-3 * B),
    "many pieces": (numbers(40, *SMALL, seed=43), numbers(40, seed=44)),
}


@steps
@pytest.mark.parametrize("name", AFFINE)
def test_max_affine_against_cvxpy(name, step):
    given, offsets = AFFINE[name]
    penalty, v = MaxAffine(given, offsets), numbers(*SMALL, seed=45)
    X, true = prox(penalty, v, step), by_cvxpy([pieces(given, offsets)], v, step)
    scale = np.abs(true).max()
    assert np.abs(X - true).max() <= 1e-4 * scale  # the value is flat around it:
    ours, theirs = (objective(penalty, Z, v, step) for Z in (X, true))
    assert ours <= theirs + 1e-8 * (1 + abs(theirs))


@pytest.mark.parametrize("order", ["l1 first", "max first"])
@pytest.mark.parametrize("other", [L1(0.3), GroupL2(0.4, "columns")], ids=["l1", "columns"])
def test_sums_with_max_affine_against_cvxpy(order, other):
    affine, v = MaxAffine(A, B), numbers(*SMALL, seed=46)
    penalty = Sum((other, affine) if order == "l1 first" else (affine, other))
    norm = {"L1": lambda X: 0.3 * cp.sum(cp.abs(X))}.get(
        type(other).__name__, lambda X: 0.4 * cp.sum(cp.norm(X, 2, axis=0))
    )
    for step in (0.05, 1.0):
        true = by_cvxpy([norm, pieces(A, B)], v, step)
        y = None
        for _ in range(4):  # each call continues from the last
            y = proximal_dual(penalty, v, step, y)
        X = v - step * penalty.pull(y)
        assert np.abs(X - true).max() <= 1e-5 * np.abs(true).max()


SUMS = {
    "two groups": (
        GroupL2(0.5) + GroupL2(0.4, "columns"),
        [lambda X: 0.5 * cp.sum(cp.norm(X, 2, axis=1)),
         lambda X: 0.4 * cp.sum(cp.norm(X, 2, axis=0))],
    ),
    "all kinds": (
        L1(0.1) + GroupL2(0.3) + GroupL2(0.2, "columns") + MaxAffine(A, B),
        [lambda X: 0.1 * cp.sum(cp.abs(X)),
         lambda X: 0.3 * cp.sum(cp.norm(X, 2, axis=1)),
         lambda X: 0.2 * cp.sum(cp.norm(X, 2, axis=0)),
         pieces(A, B)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_sums_against_cvxpy(name):
    penalty, terms = SUMS[name]
    v = numbers(*SMALL, seed=47)
    true, y = by_cvxpy(terms, v, 0.5), None
    for _ in range(6):
        y = proximal_dual(penalty, v, 0.5, y)
    assert np.abs(v - 0.5 * penalty.pull(y) - true).max() <= 1e-5


@cache
def far(name):
    """The proximal point after so many calls that another one changes nothing."""
    penalty, y = PENALTIES[name].build(NUMPY), None
    for _ in range(30):
        y = proximal_dual(penalty, V, 0.5, y)
    return penalty.pull(y)


@pytest.mark.parametrize("name", PENALTIES)
def test_warm_starts_come_nearer(name):
    """Going on from the last dual point never leads away from the proximal point."""
    penalty, y, errors = PENALTIES[name].build(NUMPY), None, []
    for _ in range(4):
        y = proximal_dual(penalty, V, 0.5, y)
        errors.append(float(np.linalg.norm(penalty.pull(y) - far(name))))
    floor = 1e-8 * np.linalg.norm(far(name))
    for before, after in pairwise(errors):
        assert after <= max(1.001 * before, floor)
    assert errors[-1] <= 1e-5 * (1 + np.linalg.norm(far(name)))


@pytest.mark.parametrize("name", PENALTIES)
def test_the_start_is_only_a_start(name):
    """A start from elsewhere (another matrix) leads to the same point."""
    penalty = PENALTIES[name].build(NUMPY)
    y = proximal_dual(penalty, -3.0 * V, 2.0)
    for _ in range(6):
        y = proximal_dual(penalty, V, 0.5, y)
    assert np.allclose(penalty.pull(y), far(name), rtol=0, atol=1e-5)


def test_the_start_is_left_as_it_is():
    penalty = MaxAffine(A, B) + L1(0.3)
    v = numbers(*SMALL, seed=48)
    start = proximal_dual(penalty, v, 0.5)
    copies = [part.copy() for part in start]
    proximal_dual(penalty, 2 * v, 0.7, start)
    for part, copy in zip(start, copies, strict=True):
        assert np.array_equal(part, copy)


# ------------------------------------------------------ the programme behind it


def gap(Q, c, p):
    slope = Q @ p - c
    return float(p @ slope - slope.min())


@pytest.mark.parametrize("start", [False, True])
def test_quadratic_programmes_end_at_their_optimum(start):
    rng = np.random.default_rng(3)
    for _ in range(60):
        n, k = int(rng.integers(1, 30)), int(rng.integers(1, 30))
        K = rng.standard_normal((n, k)) * 10.0 ** rng.uniform(-3, 3)
        Q, c = K @ K.T, rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 3)
        first = rng.dirichlet(np.ones(n)) if start else None
        p = quadratic_over_simplex(Q, c, first)
        assert p.min() >= 0.0
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        size = float(np.abs(Q).max() + np.abs(c).max())
        assert gap(Q, c, p) <= 1e-5 * size  # an inexact answer costs iterations, no proof


def test_quadratic_programmes_without_a_quadratic():
    c = np.array([0.3, 2.0, -1.0])
    assert np.array_equal(quadratic_over_simplex(np.zeros((3, 3)), c), [0.0, 1.0, 0.0])
    assert np.array_equal(quadratic_over_simplex(np.zeros((1, 1)), c[:1]), [1.0])
