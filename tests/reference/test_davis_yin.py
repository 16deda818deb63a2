"""DavisYin is within eps of CVXPY for every separable penalty, loss and spectral term."""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import torch
from reference import _cvx
from reference._cases import (
    SPECTRAL,
    Term,
    complete,
    denoise,
    elastic_net,
    group,
    l1,
    sense,
    signal,
)
from registry import box

import weakprox as wp
from weakprox.solvers import DavisYin

SMALL = 1e-6  # relative accuracy granted to CVXPY
LIMIT = 0.4  # of the entries, for the one term that is not spectral
NOTHING = Term(None, lambda X: 0.0, lambda X: 0.0)


def copies(X0, psd, rng):
    """The same loss from noisy copies, whose mean is what counts."""
    N = 0.5 * rng.standard_normal((9, *X0.shape))
    M = X0 + ((N + N.transpose(0, 2, 1)) / 2 if psd else N)
    mean = M.mean(0)
    return Term(
        wp.losses.Denoising(samples=M),
        _cvx.squared_distance(mean),
        lambda X: 0.5 * float(((X - mean) ** 2).sum()),
    )


def weighted(X0, psd, rng):
    """A loss of the user's, with a condition number of ten."""
    M = X0 + 0.3 * rng.standard_normal(X0.shape)
    W = rng.uniform(0.2, 2.0, X0.shape)

    def value(X):
        return 0.5 * float((W * (X - M) ** 2).sum())

    ours = wp.losses.Custom(
        X0.shape,
        value=value,
        grad=lambda X: W * (X - M),
        strong_convexity=float(W.min()),
        smoothness=float(W.max()),
    )
    return Term(ours, lambda X: 0.5 * cp.sum(cp.multiply(W, cp.square(X - M))), value)


LOSSES = {
    "matrix": denoise,
    "copies": copies,
    "sensing": lambda X0, psd, rng: sense(X0, 4 * X0.size, rng),
    "completion": lambda X0, psd, rng: complete(X0, 0.6, rng),
    "custom": weighted,
}
PENALTIES = {
    "none": NOTHING,
    "l1": l1(0.15),
    "elastic-net": elastic_net(0.1, 0.1),
    "rows": group(0.4, "rows"),
    "columns": group(0.4, "columns"),
}
GRID = [
    (loss, penalty, kind)
    for loss in LOSSES
    for penalty in PENALTIES
    for kind in ("ball", "psd", "norm", "box")
    if loss != "completion" or penalty == "elastic-net"  # strong convexity comes from there
]
every_case = pytest.mark.parametrize(("loss", "penalty", "kind"), GRID)


@cache
def case(loss, penalty, kind):
    """(problem, optimum by CVXPY, value in plain NumPy, |f(0)|, distance from the set)."""
    rng = np.random.default_rng([ord(loss[0]), ord(penalty[0]), ord(kind[0])])
    psd = kind == "psd"
    X0 = signal((6, 6) if psd else (7, 5), psd, rng)
    G, R = LOSSES[loss](X0, psd, rng), PENALTIES[penalty]
    size = 0.8 if kind == "norm" else 0.7 * float(np.linalg.norm(X0, "nuc"))
    h = box(LIMIT) if kind == "box" else SPECTRAL[kind](size)
    problem = wp.Problem(G.ours, R.ours, h)

    def objective(X):
        return G.theirs(X) + R.theirs(X)

    if kind == "box":
        X = cp.Variable(X0.shape)
        task = cp.Problem(cp.Minimize(objective(X)), [cp.abs(X) <= LIMIT])
        task.solve(solver=cp.CLARABEL)
        best = float(task.value)
    else:
        best, _ = _cvx.solve(X0.shape, objective, kind, size)

    def value(X):
        nuclear = size * np.linalg.norm(X, "nuc") if kind == "norm" else 0.0
        return G.value(X) + R.value(X) + nuclear

    def excess(X):
        if kind == "norm":
            return 0.0
        if kind == "box":
            return float(np.abs(X).max()) / LIMIT - 1
        least = -float(np.linalg.eigvalsh((X + X.T) / 2)[0]) if psd else 0.0
        skew = float(np.abs(X - X.T).max()) if psd else 0.0
        return max(np.linalg.norm(X, "nuc") - size, least, skew) / size

    return problem, best, value, value(0 * X0), excess


@every_case
def test_value_and_bound_bracket_the_reference(loss, penalty, kind):
    problem, best, value, first, excess = case(loss, penalty, kind)
    eps = 1e-6 * first
    result = wp.minimize(problem, DavisYin(), eps=eps, progress=False, max_svds=1000)
    slack = SMALL * (1 + abs(best))
    assert result.status is wp.Status.CERTIFIED
    assert best - slack <= result.value <= best + eps + slack
    assert best - eps - slack <= result.certificate.lower_bound <= best + slack
    assert result.certificate.lower_bound <= result.value
    assert result.gap <= eps
    assert result.value == pytest.approx(value(result.X), rel=1e-9)
    assert excess(result.X) <= 1e-9
    assert result.counts.svds <= 200


def converted(dtype, kind, penalty):
    """The denoising case in another namespace or precision."""
    problem, best, *_ = case("matrix", penalty, kind)
    M = problem.loss.target
    M = torch.asarray(M, dtype=dtype) if isinstance(dtype, torch.dtype) else M.astype(dtype)
    return wp.Problem(wp.losses.Denoising(M), problem.penalty, problem.spectral), best


OTHERS = [
    (dtype, kind)
    for dtype in (torch.float64, torch.float32, np.float32)
    for kind in ("ball", "psd", "norm", "box")
    if kind != "box" or dtype is torch.float64  # this box is exact to 1e-9
]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("dtype", "kind"), OTHERS)
def test_other_arrays(dtype, kind, penalty):
    problem, best = converted(dtype, kind, penalty)
    _, _, _, first, _ = case("matrix", penalty, kind)
    single = dtype is not torch.float64
    eps = (1e-3 if single else 1e-6) * first  # float32 proofs allow for their rounding
    result = wp.minimize(problem, DavisYin(), eps=eps, progress=False, max_svds=1000)
    slack = (1e-5 if single else SMALL) * (1 + abs(best))
    assert result.status is wp.Status.CERTIFIED
    assert best - slack <= result.value <= best + eps + slack
    assert result.certificate.lower_bound <= best + slack
    assert result.X.dtype == dtype


@pytest.mark.parametrize("kind", ["ball", "psd", "norm"])
@pytest.mark.parametrize("cap", [1, 2, 3])
def test_a_rank_below_the_optimum_is_never_certified_wrongly(kind, cap):
    problem, best, value, first, _ = case("sensing", "l1", kind)
    for share in (1e-6, 1e-2, 0.3):
        eps = share * first
        result = wp.minimize(problem, DavisYin(rank=cap), eps=eps, progress=False, max_svds=400)
        assert result.rank <= cap
        assert result.certificate.lower_bound <= best + SMALL * (1 + abs(best))
        if result.status is wp.Status.CERTIFIED:
            assert value(result.X) - best <= eps + SMALL * (1 + abs(best))
        else:
            assert result.status in (wp.Status.RANK_LIMITED, wp.Status.MAX_SVDS)
            assert result.gap > eps
