"""What the benchmark believes: its own value, feasibility and lower bounds.

A judge of an instance computes f(X) anew, from the data; takes a point that is outside
the ball by more than rounding into it before judging; and bounds the optimum from below
with an exact decomposition. No number of any solver is used.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from instances import E1, E2, E3, Instance
from projections import Matrix, into_ball, threshold

ROUNDING = 1e-9  # relative excess over tau that is taken for rounding
SAFETY = 1e-13  # relative allowance for rounding in lower bounds


class Judge:
    """Value, feasibility and lower bounds of one instance."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.tau = instance, instance.tau

    def value(self, X: Matrix) -> float:
        """f(X) without the ball."""
        raise NotImplementedError

    def excess(self, X: Matrix) -> float:
        """Relative excess of the nuclear norm over tau, from a full decomposition."""
        return float(np.linalg.svd(X, compute_uv=False).sum()) / self.tau - 1.0

    def feasible_value(self, X: Matrix) -> float:
        """Value at X, or at X scaled into the ball if it is outside; infinite for NaN."""
        if not np.all(np.isfinite(X)):
            return np.inf
        inside = X if self.excess(X) <= ROUNDING else into_ball(X, self.tau)
        return self.value(inside)

    def bound(self, *dual: Matrix) -> float:
        """A lower bound on the optimum, from any dual point (made feasible here)."""
        raise NotImplementedError


class Denoised(Judge):
    """E1, and what E2 shares with it."""

    instance: E1

    def value(self, X: Matrix) -> float:
        """1/2 |X - M|^2 + lam |X|_1."""
        gap = X - self.instance.M
        return 0.5 * float(np.vdot(gap, gap)) + self.instance.lam * float(np.abs(X).sum())

    def bound(self, *dual: Matrix) -> float:
        """Minimum over the ball of 1/2 |X - M|^2 + <S, X>, for |S_ij| <= lam."""
        lam = self.instance.lam
        return self.linear_bound(np.clip(dual[0], -lam, lam))

    def linear_bound(self, S: Matrix) -> float:
        """1/2 |M|^2 - 1/2 sum of (s_i - theta)_+^2 - theta tau, s the values of M - S.

        Holds for every theta >= 0, and is the minimum for the best one.
        """
        M = self.instance.M
        s = np.linalg.svd(M - S, compute_uv=False)
        theta = threshold(s, self.tau)
        left = np.maximum(s - theta, 0.0)
        half = 0.5 * float(np.vdot(M, M))
        return half - 0.5 * float(left @ left) - theta * self.tau - SAFETY * half


class Affine(Denoised):
    """E2."""

    instance: E2

    @cached_property
    def flat(self) -> Matrix:
        """The pieces as rows."""
        return self.instance.A.reshape(self.instance.A.shape[0], -1)

    def value(self, X: Matrix) -> float:
        """1/2 |X - M|^2 + the largest piece."""
        gap = X - self.instance.M
        return 0.5 * float(np.vdot(gap, gap)) + float(self.pieces(X).max())

    def pieces(self, X: Matrix) -> Matrix:
        """All <A_i, X> - b_i."""
        return self.flat @ X.ravel() - self.instance.b

    def bound(self, *dual: Matrix) -> float:
        """Minimum over the ball with weights p on the pieces, p in the simplex."""
        p = np.maximum(dual[0], 0.0)
        p = p / p.sum()
        S = (p @ self.flat).reshape(self.instance.shape)
        return self.linear_bound(S) - float(p @ self.instance.b)


class Sensed(Judge):
    """E3: the quadratic part is 1/2 x'Hx - c'x + constant."""

    instance: E3

    def __init__(self, instance: E3) -> None:
        super().__init__(instance)
        n = instance.b.size
        flat = instance.A.reshape(n, -1)
        self.H = flat.T @ flat / n + 2 * instance.lam2 * np.eye(flat.shape[1])
        self.c = flat.T @ instance.b / n
        self.constant = 0.5 * float(instance.b @ instance.b) / n

    @cached_property
    def factor(self) -> Any:
        """Cholesky factor of H."""
        return scipy.linalg.cho_factor(self.H)

    def value(self, X: Matrix) -> float:
        """Mean half squared residual + lam1 |X|_1 + lam2 |X|^2, from the data."""
        one, n = self.instance, self.instance.b.size
        residual = one.A.reshape(n, -1) @ X.ravel() - one.b
        penalty = one.lam1 * float(np.abs(X).sum()) + one.lam2 * float(np.vdot(X, X))
        return 0.5 * float(residual @ residual) / n + penalty

    def bound(self, *dual: Matrix) -> float:
        """Minimum over all X of the quadratic + <S + u, X> - tau |u|_2, |S_ij| <= lam1.

        |u|_2, the largest singular value, times tau is the most that <u, X> can be in the
        ball, so that this bounds f there from below for every u.
        """
        S = np.clip(dual[0], -self.instance.lam1, self.instance.lam1)
        u = dual[1]
        q = self.c - (S + u).ravel()
        least = self.constant - 0.5 * float(q @ scipy.linalg.cho_solve(self.factor, q))
        return least - self.tau * float(np.linalg.norm(u, 2)) - SAFETY * self.constant


def judge_of(instance: Instance) -> Judge:
    """The judge for an instance's kind."""
    return {"E1": Denoised, "E2": Affine, "E3": Sensed}[instance.kind](instance)
