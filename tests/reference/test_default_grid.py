"""Every loss, penalty and spectral term by the default solver: CVXPY lies in between."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from reference import _cvx
from reference._cases import SPECTRAL, Term, affine, elastic_net, group, l1
from registry import box

import weakprox as wp
from weakprox.losses import Completion, Custom, Denoising, Sensing

SMALL = 1e-6  # relative accuracy granted to CVXPY
TOL = 1e-5
LIMIT = 0.4  # of the entries, for the one term that is not spectral


def denoise(X0, sym, rng):
    N = 0.3 * rng.standard_normal(X0.shape)
    M = X0 + ((N + N.T) / 2 if sym else N)
    return Term(Denoising(M), _cvx.squared_distance(M), lambda X: ((X - M) ** 2).sum() / 2)


def copies(X0, sym, rng):
    N = 0.5 * rng.standard_normal((5, *X0.shape))
    M = X0 + ((N + N.transpose(0, 2, 1)) / 2 if sym else N)
    mean = M.mean(0)
    return Term(
        Denoising(samples=M),
        _cvx.squared_distance(mean),
        lambda X: ((X - mean) ** 2).sum() / 2,
    )


def sensing(form):
    def build(X0, sym, rng):
        m, d = X0.shape
        n = 2 * m * d
        left, right = rng.standard_normal((n, m)), rng.standard_normal((n, d))
        A = np.einsum("ni,nj->nij", left, right)
        if form != "rank-one":
            A = rng.standard_normal((n, m, d))
        if form == "sparse":
            A = np.where(np.abs(A) > 0.8, A, 0.0)
        b = (A * X0).sum((1, 2)) + 0.2 * rng.standard_normal(n)
        given = {
            "dense": A,
            "rank-one": (left, right),
            "sparse": scipy.sparse.csr_array(A.reshape(n, -1)),
        }[form]
        return Term(
            Sensing(given, b, shape=X0.shape),
            _cvx.mean_squares(A, b),
            lambda X: (((A * X).sum((1, 2)) - b) ** 2).mean() / 2,
        )

    return build


def completion(form):
    def build(X0, sym, rng):
        rows, cols = np.nonzero(rng.random(X0.shape) < 0.7)
        values = X0[rows, cols] + 0.1 * rng.standard_normal(len(rows))
        share = 1 / len(rows) if form == "mean" else 1.0
        if form == "holes":
            holes = np.full(X0.shape, np.nan)
            holes[rows, cols] = values
            ours = Completion.from_dense(holes)
        else:
            ours = Completion(rows, cols, values, X0.shape, reduction=form)
        observed = _cvx.observed(rows, cols, values)
        return Term(
            ours,
            lambda X: share * observed(X),
            lambda X: share * ((X[rows, cols] - values) ** 2).sum() / 2,
        )

    return build


def custom(terms):
    def build(X0, sym, rng):
        M = X0 + 0.3 * rng.standard_normal(X0.shape)
        W = rng.uniform(0.2, 2.0, X0.shape)

        def value(X, i=None):
            return float((W * (X - M) ** 2).sum()) / 2

        ours = Custom(
            X0.shape,
            value=value,
            grad=lambda X, i=None: W * (X - M),
            n_terms=3 if terms else None,
            strong_convexity=float(W.min()),
            smoothness=float(W.max()),
        )
        return Term(ours, lambda X: cp.sum(cp.multiply(W, cp.square(X - M))) / 2, value)

    return build


LOSSES = {
    "matrix": denoise,
    "copies": copies,
    "sensing-dense": sensing("dense"),
    "sensing-rank-one": sensing("rank-one"),
    "sensing-sparse": sensing("sparse"),
    "completion-sum": completion("sum"),
    "completion-mean": completion("mean"),
    "completion-holes": completion("holes"),
    "custom": custom(False),
    "custom-terms": custom(True),
}
NOTHING = Term(None, lambda X: 0.0, lambda X: 0.0)


def plus(*parts):
    ours = parts[0].ours
    for part in parts[1:]:
        ours = ours + part.ours
    return Term(
        ours,
        lambda X: sum(part.theirs(X) for part in parts),
        lambda X: sum(part.value(X) for part in parts),
    )


def times(factor, part):
    return Term(
        factor * part.ours,
        lambda X: factor * part.theirs(X),
        lambda X: factor * part.value(X),
    )


PENALTIES = {
    "none": lambda shape, rng: NOTHING,
    "l1": lambda shape, rng: l1(0.15),
    "elastic-net": lambda shape, rng: elastic_net(0.1, 0.1),
    "rows": lambda shape, rng: group(0.3, "rows"),
    "columns": lambda shape, rng: group(0.3, "columns"),
    "max-affine": lambda shape, rng: affine(shape, 6, rng),
    "one-piece": lambda shape, rng: affine(shape, 1, rng),
    "l1-and-rows": lambda shape, rng: plus(l1(0.1), group(0.2, "rows")),
    "l1-and-max": lambda shape, rng: plus(l1(0.1), affine(shape, 4, rng)),
    "multiple": lambda shape, rng: times(2.5, elastic_net(0.04, 0.04)),
    "multiple-of-sum": lambda shape, rng: times(
        0.5, plus(group(0.3, "columns"), elastic_net(0.1, 0.1))
    ),
}
KINDS = ("ball", "psd", "norm", "box")
GRID = [(G, R, h) for G in LOSSES for R in PENALTIES for h in KINDS]


def build(loss, penalty, kind):
    """(problem, CVXPY's objective, NumPy's value, size of h); convex enough by a ridge."""
    rng = np.random.default_rng([ord(c) for c in loss + penalty + kind])
    sym = kind == "psd"
    shape = (4, 4) if sym else (5, 4)
    left = rng.standard_normal((shape[0], 2))
    X0 = left @ (left if sym else rng.standard_normal((shape[1], 2))).T
    G, R = LOSSES[loss](X0, sym, rng), PENALTIES[penalty](shape, rng)
    if not G.ours.strong_convexity + getattr(R.ours, "curvature", 0.0) > 0.0:
        ridge = elastic_net(0.0, 0.1)
        R = ridge if R is NOTHING else plus(R, ridge)
    size = 0.3 if kind == "norm" else 0.7 * float(np.linalg.norm(X0, "nuc"))
    h = box(LIMIT) if kind == "box" else SPECTRAL[kind](size)
    problem = wp.Problem(G.ours, R.ours, h)

    def value(X):
        nuclear = size * np.linalg.norm(X, "nuc") if kind == "norm" else 0.0
        return float(G.value(X) + R.value(X) + nuclear)

    return problem, lambda X: G.theirs(X) + R.theirs(X), value, size


def reference(shape, objective, kind, size):
    """CVXPY's optimum."""
    if kind != "box":
        return _cvx.solve(shape, objective, kind, size)[0]
    X = cp.Variable(shape)
    task = cp.Problem(cp.Minimize(objective(X)), [cp.abs(X) <= LIMIT])
    task.solve(solver=cp.CLARABEL)
    assert task.status == cp.OPTIMAL
    return float(task.value)


def excess(X, kind, size):
    if kind == "norm":
        return 0.0
    if kind == "box":
        return float(np.abs(X).max()) / LIMIT - 1
    least = -float(np.linalg.eigvalsh((X + X.T) / 2)[0]) if kind == "psd" else 0.0
    skew = float(np.abs(X - X.T).max()) if kind == "psd" else 0.0
    return max(float(np.linalg.norm(X, "nuc")) - size, least, skew) / size


@pytest.mark.parametrize(("loss", "penalty", "kind"), GRID)
def test_bound_optimum_value(loss, penalty, kind):
    problem, objective, value, size = build(loss, penalty, kind)
    best = reference(problem.shape, objective, kind, size)
    result = wp.minimize(problem, tol=TOL, progress=False, max_svds=500)
    slack = SMALL * (1 + abs(best))
    assert result.certificate.lower_bound <= best + slack
    assert best <= result.value + slack
    assert result.value == pytest.approx(value(np.asarray(result.X)), rel=1e-9, abs=1e-12)
    assert excess(result.X, kind, size) <= 1e-9
    assert result.eps == TOL * abs(result.value)
    assert result.status is wp.Status.CERTIFIED
    assert result.value <= best + result.eps + slack
    assert result.certificate.lower_bound <= result.value


def test_the_grid_is_whole():
    assert len(GRID) == len(set(GRID)) == 10 * 11 * 4
