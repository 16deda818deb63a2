"""The long runs behind the references: splittings as fixed points, extrapolated.

Douglas-Rachford splitting moves a point w by relax (X - Z), Z and X proximal points of the
two parts; Anderson's extrapolation combines the last moves so that they cancel best. It is
not one of the peers: nobody is timed here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import scipy.linalg
from instances import E1, E3
from projections import Full, Matrix, soft

RELAX = 1.5
RIDGE = 1e-12  # relative, in the extrapolation's small system


def extrapolated(move: Callable[[Matrix], Matrix], w: Matrix, memory: int) -> None:
    """Apply w <- w + move(w) for ever, extrapolated; anew whenever the moves grow."""
    points: list[Matrix] = []
    moves: list[Matrix] = []
    last = np.inf
    while True:
        g = move(w)
        size = float(np.linalg.norm(g))
        if size > 2 * last:
            points, moves = [], []
        points, moves = [*points, w][-memory - 1 :], [*moves, g][-memory - 1 :]
        last = min(last, size) if len(moves) > 1 else size
        w = w + g
        if len(moves) > 1:
            dg = np.stack([(b - a).ravel() for a, b in pairwise(moves)])
            dw = np.stack([(b - a).ravel() for a, b in pairwise(points)])
            gram = dg @ dg.T
            gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram)
            c = np.linalg.solve(gram, dg @ g.ravel())
            w = w - (c @ (dw + dg)).reshape(w.shape)


def denoising(one: E1, project: Callable, see: Callable, rho: float, memory: int) -> None:
    """E1: the ball, and quadratic + l1 norm."""

    def move(w: Matrix) -> Matrix:
        Z = project(w)
        see(Z, lambda: (one.M - Z - rho * (w - Z),))
        X = soft((one.M + rho * (2 * Z - w)) / (1 + rho), one.lam / (1 + rho))
        return RELAX * (X - Z)

    extrapolated(move, soft(one.M, one.lam), memory)


def sensing(one: E3, see: Callable, rho: float, memory: int) -> None:
    """E3: the l1 norm and the ball, each with its copy, and the quadratic."""
    n = one.b.size
    flat = one.A.reshape(n, -1)
    H, c = flat.T @ flat / n, flat.T @ one.b / n
    H[np.diag_indices_from(H)] += 2 * one.lam2 + 2 * rho
    factor, project = scipy.linalg.cho_factor(H), Full(one.tau)

    def move(w: Matrix) -> Matrix:
        Z = np.stack([soft(w[0], one.lam1 / rho), project(w[1])])
        see(Z[1], lambda: (rho * (w[0] - Z[0]), rho * (w[1] - Z[1])))
        right = c + rho * np.sum(2 * Z - w, axis=0).ravel()
        X = scipy.linalg.cho_solve(factor, right).reshape(one.shape)
        return RELAX * (X - Z)

    extrapolated(move, np.zeros((2, *one.shape)), memory)
