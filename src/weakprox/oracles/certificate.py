"""A lower bound on the optimum from a dual point, and the gap to the value reached.

For any X, any y in the penalty's dual set and g = grad G(X), strong convexity of G, the
max form of R and w = aG + curvature give

    f* >= G(X) - <g, X> + aG/2 |X|^2 - phi(y) + min over V of <c, V> + w/2 |V|^2 + h(V),

c = g - aG X + K'y. The last minimum is one proximal step at A = -c/w, whose value the
weak proximal oracle bounds from below even where its SVD is truncated.
"""

from __future__ import annotations

import numpy as np

from weakprox.linalg.arrays import Array, eps_of, inner, row_blocks, sqnorm
from weakprox.problem import Problem
from weakprox.protocols import Dual
from weakprox.result import Certificate


def lower_bound(
    problem: Problem,
    X: Array,
    y: Dual,
    *,
    rank: int,
    rng: np.random.Generator,
    start: Array | None = None,
) -> tuple[float, str]:
    """A number below min f, and what it rests on; needs G as a finite sum."""
    loss, penalty = problem.loss, problem.penalty
    batch = loss.everything()
    a = loss.strong_convexity
    w = a + penalty.curvature
    g = loss.grad(X, batch)
    pulled = penalty.pull(y)
    value, linear, square = loss.value(X, batch), inner(g, X), sqnorm(X)
    A = g
    for rows in row_blocks(X):
        A[rows] = (a * X[rows] - g[rows] - pulled[rows]) / w
    del pulled
    prox = problem.spectral.weak_prox(
        A, weight=w, rank=rank, certify=True, rng=rng, start=start
    )
    size = sqnorm(A)
    phi = penalty.dual_value(y)
    bound = value - linear + 0.5 * a * square - phi + prox.lower - 0.5 * w * size
    # Rounding of each sum, generously: the bound must never be optimistic.
    scale = abs(value) + abs(linear) + a * square + abs(phi) + w * size
    return bound - 64 * eps_of(A) * scale, prox.rests_on


def certify(
    problem: Problem,
    value: float,
    points: list[tuple[Array, Dual]],
    *,
    rank: int,
    rng: np.random.Generator,
) -> Certificate:
    """The best certificate the given primal-dual points yield."""
    best = (-float("inf"), "exact")
    for X, y in points:
        best = max(best, lower_bound(problem, X, y, rank=rank, rng=rng))
    return Certificate(value=value, lower_bound=best[0], rests_on=best[1])
