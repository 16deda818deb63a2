"""Small problems with everything about them known: G, R, h, their constants and optima.

Objectives, smoothings and proximal maps are written out here from the formulas, so the
library is compared with the mathematics and not with itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import cvxpy as cp
import numpy as np
from reference import _cvx

import weakprox as wp

Matrix = np.ndarray


@dataclass
class Quadratic:
    """G(X) = <X, Q X>/2 - <q, X> + c on flattened matrices; Q = None is the identity."""

    Q: Matrix | None
    q: Matrix
    c: float

    def apply(self, x: Matrix) -> Matrix:
        return x if self.Q is None else self.Q @ x

    def value(self, X: Matrix) -> float:
        x = X.ravel()
        return float(0.5 * x @ self.apply(x) - self.q @ x + self.c)

    def grad(self, X: Matrix) -> Matrix:
        return (self.apply(X.ravel()) - self.q).reshape(X.shape)

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue."""
        if self.Q is None:
            return 1.0, 1.0
        values = np.linalg.eigvalsh(self.Q)
        return float(values[0]), float(values[-1])

    def root(self, extra: float) -> Matrix:
        """C with C C' = Q + extra I."""
        size = len(self.q)
        Q = np.eye(size) if self.Q is None else self.Q
        return np.linalg.cholesky(Q + extra * np.eye(size))


def project_simplex_cap(values: Matrix, tau: float) -> Matrix:
    """Projection on {p >= 0, sum p <= tau} by trying every support size."""
    p = np.maximum(values, 0.0)
    if p.sum() <= tau:
        return p
    u = np.sort(p)[::-1]
    shifts = (np.cumsum(u) - tau) / np.arange(1, len(u) + 1)
    last = np.nonzero(u > shifts)[0][-1]
    return np.maximum(p - shifts[last], 0.0)


def prox(A: Matrix, weight: float, kind: str, size: float) -> Matrix:
    """Exact minimiser of weight/2 |X-A|^2 + h(X) by a full decomposition."""
    if kind == "psd":
        w, U = np.linalg.eigh((A + A.T) / 2)
        return (U * project_simplex_cap(w, size)) @ U.T
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    if kind == "ball":
        return (U * project_simplex_cap(s, size)) @ Vt
    return (U * np.maximum(s - size / weight, 0.0)) @ Vt


def nuclear(X: Matrix) -> float:
    return float(np.linalg.norm(X, "nuc"))


SPECTRAL = {
    "ball": wp.spectral.NuclearBall,
    "psd": wp.spectral.TracePSD,
    "norm": wp.spectral.NuclearNorm,
}


@dataclass
class Instance:
    """f = G + l1 |X|_1 + l2 |X|^2 + max_i (<A_i, X> - b_i) + h, with at most one of l1, A."""

    name: str
    shape: tuple[int, int]
    quad: Quadratic
    loss: object
    kind: str
    size: float
    l1: float = 0.0
    l2: float = 0.0
    pieces: tuple[Matrix, Matrix] | None = None
    term_smoothness: float = 1.0
    sigma: float = 0.0
    spread_at: Callable[[Matrix], float] | None = None
    _optima: dict[float, tuple[float, Matrix]] = field(default_factory=dict)

    @cached_property
    def problem(self) -> wp.Problem:
        if self.pieces is not None:
            penalty = wp.penalties.MaxAffine(*self.pieces)
        elif self.l2:
            penalty = wp.penalties.ElasticNet(self.l1, self.l2)
        else:
            penalty = wp.penalties.L1(self.l1) if self.l1 else None
        return wp.Problem(self.loss, penalty, SPECTRAL[self.kind](self.size))

    @cached_property
    def alpha(self) -> float:
        return self.quad.extremes[0] + 2 * self.l2

    @cached_property
    def beta_G(self) -> float:
        return self.quad.extremes[1]

    @cached_property
    def theta(self) -> float:
        if self.pieces is None:
            return self.l1
        flat = self.pieces[0].reshape(len(self.pieces[1]), -1)
        return min(np.linalg.norm(flat, 2) ** 2 / 2, float((flat**2).sum(1).max()))

    @cached_property
    def gamma(self) -> float:
        if self.pieces is None:
            return 0.5 * self.l1 * self.shape[0] * self.shape[1]
        return float(np.log(len(self.pieces[1])))

    def beta(self, mu: float) -> float:
        rough = self.theta / mu if self.theta else 0.0
        return self.beta_G + 2 * self.l2 + rough

    def _affine(self, X: Matrix) -> Matrix:
        A, b = self.pieces
        return A.reshape(len(b), -1) @ X.ravel() - b

    def h(self, X: Matrix) -> float:
        return self.size * nuclear(X) if self.kind == "norm" else 0.0

    def value(self, X: Matrix) -> float:
        """f(X) for a feasible X."""
        rough = self.l1 * float(np.abs(X).sum())
        if self.pieces is not None:
            rough = float(self._affine(X).max())
        return self.quad.value(X) + rough + self.l2 * float((X**2).sum()) + self.h(X)

    def smooth_value(self, X: Matrix, mu: float) -> float:
        """f_mu(X): Huber for l1, mu log mean exp for the maximum."""
        rough = 0.0
        if self.pieces is not None:
            z = self._affine(X)
            rough = z.max() + mu * float(np.log(np.mean(np.exp((z - z.max()) / mu))))
        elif self.l1:
            size = np.abs(X)
            huber = np.where(size <= mu, size**2 / (2 * mu), size - mu / 2)
            rough = self.l1 * float(huber.sum())
        return self.quad.value(X) + rough + self.l2 * float((X**2).sum()) + self.h(X)

    def smooth_grad_R(self, X: Matrix, mu: float) -> Matrix:
        rough = np.zeros(self.shape)
        if self.pieces is not None:
            z = self._affine(X) / mu
            p = np.exp(z - z.max())
            rough = np.tensordot(p / p.sum(), self.pieces[0], 1)
        elif self.l1:
            rough = self.l1 * np.clip(X / mu, -1.0, 1.0)
        return rough + 2 * self.l2 * X

    def feasible(self, X: Matrix, slack: float = 1e-9) -> bool:
        if self.kind == "norm":
            return True
        if self.kind == "psd" and np.linalg.eigvalsh((X + X.T) / 2)[0] < -slack * self.size:
            return False
        return nuclear(X) <= self.size * (1 + slack)

    def smooth_optimum(self, mu: float) -> tuple[float, Matrix]:
        """Minimum of f_mu by accelerated proximal gradients, to rounding."""
        if mu not in self._optima:
            L = self.beta(mu)
            root = np.sqrt(L / self.alpha)
            momentum = (root - 1) / (root + 1)
            X = Y = np.zeros(self.shape)
            for _ in range(int(40 * root) + 40):
                grad = self.quad.grad(Y) + self.smooth_grad_R(Y, mu)
                new = prox(Y - grad / L, L, self.kind, self.size)
                X, Y = new, new + momentum * (new - X)
            self._optima[mu] = (self.smooth_value(X, mu), X)
        return self._optima[mu]

    @cached_property
    def optimum(self) -> tuple[float, Matrix]:
        """Minimum of f itself: as above if nothing is nonsmooth, else by CVXPY."""
        if not self.theta:
            return self.smooth_optimum(1.0)
        root = self.quad.root(2 * self.l2)

        def objective(X: cp.Variable) -> cp.Expression:
            x = _cvx.row(X)
            total = 0.5 * cp.sum_squares(root.T @ x) - self.quad.q @ x + self.quad.c
            if self.pieces is not None:
                return total + _cvx.max_affine(*self.pieces)(X)
            return total + self.l1 * cp.sum(cp.abs(X))

        return _cvx.solve(self.shape, objective, self.kind, self.size)

    def rank_of_optimum(self) -> int:
        s = np.linalg.svd(self.optimum[1], compute_uv=False)
        return int((s > 1e-4 * s[0]).sum())
