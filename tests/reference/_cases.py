"""Problems up to 30 x 20, each in three forms: the library's, CVXPY's and plain NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from reference import _cvx

import weakprox as wp

Matrix = np.ndarray
SPECTRAL = {
    "ball": wp.spectral.NuclearBall,
    "psd": wp.spectral.TracePSD,
    "norm": wp.spectral.NuclearNorm,
}


@dataclass(frozen=True)
class Term:
    """One part of G + R: the library's object, CVXPY's expression, NumPy's value."""

    ours: Any
    theirs: Callable[[Any], Any]
    value: Callable[[Matrix], float]


@dataclass
class Case:
    name: str
    kind: str
    shape: tuple[int, int]
    size: float
    loss: Term
    penalties: tuple[Term, ...]
    eps: float
    rank: int | None = None  # that of the optimum if None

    @cached_property
    def problem(self) -> wp.Problem:
        penalty = None
        for term in self.penalties:
            penalty = term.ours if penalty is None else penalty + term.ours
        return wp.Problem(self.loss.ours, penalty, SPECTRAL[self.kind](self.size))

    @cached_property
    def optimum(self) -> tuple[float, Matrix]:
        terms = (self.loss, *self.penalties)
        return _cvx.solve(
            self.shape, lambda X: sum(term.theirs(X) for term in terms), self.kind, self.size
        )

    def value(self, X: Matrix) -> float:
        """The objective at a feasible X."""
        total = sum(term.value(X) for term in (self.loss, *self.penalties))
        return total + (self.size * np.linalg.norm(X, "nuc") if self.kind == "norm" else 0.0)

    def excess(self, X: Matrix) -> float:
        """Relative distance from the set."""
        if self.kind == "norm":
            return 0.0
        least = np.linalg.eigvalsh((X + X.T) / 2)[0] if self.kind == "psd" else 0.0
        skew = np.abs(X - X.T).max() if self.kind == "psd" else 0.0
        over = np.linalg.norm(X, "nuc") - self.size
        return float(max(over, -least, skew, 0.0) / self.size)

    @property
    def rank_asked(self) -> int:
        s = np.linalg.svd(self.optimum[1], compute_uv=False)
        return self.rank or max(1, int((s > 1e-4 * s[0]).sum()))

    @cached_property
    def result(self) -> wp.Result:
        solver = wp.SVRGCG(rank=self.rank_asked)
        return wp.minimize(self.problem, solver, eps=self.eps, progress=False)


def signal(shape: tuple[int, int], psd: bool, rng: np.random.Generator) -> Matrix:
    """Rank two, sparse, Frobenius norm 6."""
    Y = rng.standard_normal((shape[0], 2)) * (rng.random((shape[0], 2)) < 0.6)
    Y[:2] += np.eye(2)
    Z = Y if psd else rng.standard_normal((shape[1], 2))
    return 6 * Y @ Z.T / np.linalg.norm(Y @ Z.T)


def denoise(X0: Matrix, psd: bool, rng: np.random.Generator) -> Term:
    N = 0.3 * rng.standard_normal(X0.shape)
    M = X0 + ((N + N.T) / 2 if psd else N)
    return Term(
        wp.losses.Denoising(M),
        _cvx.squared_distance(M),
        lambda X: 0.5 * float(((X - M) ** 2).sum()),
    )


def sense(X0: Matrix, n: int, rng: np.random.Generator) -> Term:
    A = rng.standard_normal((n, *X0.shape))
    b = (A * X0).sum((1, 2)) + 0.2 * rng.standard_normal(n)
    return Term(
        wp.losses.Sensing(A, b),
        _cvx.mean_squares(A, b),
        lambda X: float((((A * X).sum((1, 2)) - b) ** 2).mean()) / 2,
    )


def complete(X0: Matrix, share: float, rng: np.random.Generator) -> Term:
    rows, cols = np.nonzero(rng.random(X0.shape) < share)
    values = X0[rows, cols] + 0.1 * rng.standard_normal(len(rows))
    return Term(
        wp.losses.Completion(rows, cols, values, X0.shape),
        _cvx.observed(rows, cols, values),
        lambda X: 0.5 * float(((X[rows, cols] - values) ** 2).sum()),
    )


def l1(lam: float) -> Term:
    return Term(wp.penalties.L1(lam), _cvx.l1(lam), lambda X: lam * float(np.abs(X).sum()))


def elastic_net(lam1: float, lam2: float) -> Term:
    return Term(
        wp.penalties.ElasticNet(lam1, lam2),
        _cvx.elastic_net(lam1, lam2),
        lambda X: lam1 * float(np.abs(X).sum()) + lam2 * float((X**2).sum()),
    )


def group(lam: float, groups: str) -> Term:
    axis = 1 if groups == "rows" else 0
    return Term(
        wp.penalties.GroupL2(lam, groups),
        _cvx.group_l2(lam, axis),
        lambda X: lam * float(np.linalg.norm(X, axis=axis).sum()),
    )


def affine(shape: tuple[int, int], n: int, rng: np.random.Generator) -> Term:
    A = rng.standard_normal((n, *shape)) / np.sqrt(shape[0] * shape[1])
    b = 0.2 * rng.standard_normal(n)
    return Term(
        wp.penalties.MaxAffine(A, b),
        _cvx.max_affine(A, b),
        lambda X: float(((A * X).sum((1, 2)) - b).max()),
    )
