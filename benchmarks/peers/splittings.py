"""Methods a user could write in an afternoon, on E1; and one each on E2 and E3.

Every method calls `see(X, dual)` with feasible points as it goes, `dual` a function that
makes the dual point for those who want it. `see` stops the method's clock while it judges,
and raises when enough has been seen. Formulas and tuned settings are those of the
project's earlier measurements of peers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.linalg
from instances import E1, E2, E3
from projections import Full, Matrix, soft

See = Callable[..., None]


def admm(one: E1, project: Callable, see: See, rho: float, *, rough: bool = False) -> None:
    """Over-relaxed ADMM: quadratic and l1 norm in one block, the ball in the other.

    `rough` lets a partial SVD end early, in proportion to the step last made.
    """
    M, lam, relax = one.M, one.lam, 1.8
    X = soft(M, lam)
    Z = project(X, 1e-2 * np.linalg.norm(X)) if rough else project(X)
    U = (X - Z) / rho
    while True:
        see(Z, lambda: (M - Z - rho * U,))
        X = soft((M + rho * (Z - U)) / (1 + rho), lam / (1 + rho))
        X = relax * X + (1 - relax) * Z
        A = X + U
        Z = project(A, max(1e-9, 0.05 * np.linalg.norm(X - Z))) if rough else project(A)
        U = A - Z


def dykstra(one: E1, project: Callable, see: See) -> None:
    """Dykstra's splitting: ascent of the dual with step one, from clip(M)."""
    S = np.clip(one.M, -one.lam, one.lam)
    while True:
        X = project(one.M - S)
        see(X, lambda: (S,))
        S = np.clip(S + X, -one.lam, one.lam)


def accelerated_dual(one: E1, project: Callable, see: See, *, rough: bool = False) -> None:
    """The same ascent with Nesterov's momentum, restarted when it points downhill."""
    S = ahead = np.clip(one.M, -one.lam, one.lam)
    t, moved = 1.0, math.inf
    while True:
        target = one.M - ahead
        X = project(target, max(1e-9, 0.05 * moved)) if rough else project(target)
        see(X, lambda: (ahead,))
        new = np.clip(ahead + X, -one.lam, one.lam)
        moved = float(np.linalg.norm(new - ahead))
        if np.vdot(ahead - new, new - S) > 0:
            t = 1.0
        later = (1 + math.sqrt(1 + 4 * t * t)) / 2
        ahead = np.clip(new + (t - 1) / later * (new - S), -one.lam, one.lam)
        S, t = new, later


def affine_dual(one: E2, see: See) -> None:
    """Accelerated ascent over the simplex of weights on the pieces of E2, full SVDs."""
    flat = one.A.reshape(one.b.size, -1)
    step = 1.0 / np.linalg.norm(flat @ flat.T, 2)
    project = Full(one.tau)
    p = ahead = np.full(one.b.size, 1.0 / one.b.size)
    t = 1.0
    while True:
        X = project(one.M - (ahead @ flat).reshape(one.shape))
        see(X, lambda: (ahead,))
        new = _simplex(ahead + step * (flat @ X.ravel() - one.b))
        if np.vdot(ahead - new, new - p) > 0:
            t = 1.0
        later = (1 + math.sqrt(1 + 4 * t * t)) / 2
        ahead = _simplex(new + (t - 1) / later * (new - p))
        p, t = new, later


def consensus_admm(one: E3, see: See, rho: float) -> None:
    """ADMM with three blocks on E3: the quadratic (one Cholesky), l1 norm and ball.

    The penalty changes by two whenever one residual is ten times the other.
    """
    n = one.b.size
    flat = one.A.reshape(n, -1)
    H, c = flat.T @ flat / n, flat.T @ one.b / n
    H[np.diag_indices_from(H)] += 2 * one.lam2
    project = Full(one.tau)
    Z = [np.zeros(one.shape) for _ in range(2)]
    U = [np.zeros(one.shape) for _ in range(2)]
    k, factor = 0, None
    while True:
        if factor is None:
            factor = scipy.linalg.cho_factor(H + 2 * rho * np.eye(H.shape[0]))
        right = c + rho * (Z[0] - U[0] + Z[1] - U[1]).ravel()
        X = scipy.linalg.cho_solve(factor, right).reshape(one.shape)
        old = Z
        Z = [soft(X + U[0], one.lam1 / rho), project(X + U[1])]
        U = [U[i] + X - Z[i] for i in range(2)]
        see(Z[1], lambda: (rho * U[0], rho * U[1]))
        k += 1
        if k % 25 == 0 and k <= 500:
            apart = math.hypot(*(float(np.linalg.norm(X - z)) for z in Z))
            moved = rho * float(np.linalg.norm(sum(Z) - sum(old)))
            change = 2.0 if apart > 10 * moved else 0.5 if moved > 10 * apart else 1.0
            if change != 1.0:
                rho, factor = rho * change, None
                U = [u / change for u in U]


def _simplex(v: Matrix) -> Matrix:
    """Nearest point with entries >= 0 that sum to one."""
    s = np.sort(v)[::-1]
    theta = (np.cumsum(s) - 1.0) / np.arange(1, s.size + 1)
    return np.maximum(v - theta[np.flatnonzero(s > theta)[-1]], 0.0)
