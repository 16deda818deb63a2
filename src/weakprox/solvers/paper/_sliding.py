"""Conditional gradient sliding: the loop that SCGS and STORC share.

Lan & Zhou, "Conditional Gradient Sliding for Convex Optimization", SIAM J. Optim. 2016:
an accelerated gradient method whose projections are solved by Frank-Wolfe steps, up to
a Wolfe gap that is its own certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from weakprox.linalg.arrays import Array, inner, sqnorm
from weakprox.linalg.kernels import add_scaled, blend_into
from weakprox.protocols import Candidate
from weakprox.solvers.tools import Tools


@dataclass(frozen=True)
class Rule:
    """Step gamma_k, weight beta_k of the proximal term, accuracy eta_k of its solution."""

    gamma: Callable[[int], float]
    beta: Callable[[int], float]
    eta: Callable[[int], float]


@dataclass(frozen=True)
class Sliding:
    """The two sequences of the accelerated method, and the last vertex's SVD basis."""

    x: Array
    y: Array
    basis: Array | None = None


Gradient = Callable[[Array, int, np.random.Generator], Array]


def slide(
    state: Sliding,
    steps: Iterable[int],
    rule: Rule,
    gradient: Gradient,
    tools: Tools,
    *,
    epoch: int,
    cap: int | None = None,
) -> Sliding:
    """Outer steps k of `steps`; `gradient(z, k, rng)` is that of f_mu, perhaps noisy."""
    x, y, basis = state.x, state.y * 1.0, state.basis
    for k in steps:
        rng, gamma = tools.rng(epoch, k), rule.gamma(k)
        z = y * (1 - gamma)
        add_scaled(z, gamma, x)
        G = gradient(z, k, rng)
        x, basis = prox_by_vertices(G, x, rule.beta(k), rule.eta(k), cap, tools, basis, rng)
        y *= 1 - gamma
        add_scaled(y, gamma, x)
        tools.tick(Candidate(y, None, 0.0, epoch, k, scratch=z))
    return Sliding(x, y, basis)


def prox_by_vertices(
    G: Array,
    centre: Array,
    weight: float,
    accuracy: float,
    cap: int | None,
    tools: Tools,
    basis: Array | None,
    rng: np.random.Generator,
) -> tuple[Array, Array | None]:
    """CndG: minimise <G, u> + weight/2 |u - centre|^2 over the set by Frank-Wolfe.

    Ends when the Wolfe gap is at most `accuracy`, or after `cap` vertices. G is lost.
    """
    add_scaled(G, -weight, centre)  # so that the gradient at u is G + weight u
    u, spent = centre * 1.0, 0
    H, slack = G * 1.0, 0.1 * accuracy  # what the vertices may miss of the gap
    while cap is None or spent < cap:
        H[:] = G[:]
        add_scaled(H, weight, u)
        vertex = tools.spectral.extreme(H, accuracy=slack, start=basis, rng=rng)
        V, basis, spent = vertex.V, vertex.basis, spent + 1
        gap = inner(H, u) - V.inner(H) + slack
        if gap <= accuracy:
            break
        distance = sqnorm(u) - 2 * V.inner(u) + V.sqnorm
        step = min(1.0, (gap - slack) / (weight * distance)) if distance > 0 else 1.0
        blend_into(u, V, step, scratch=H)
    return u, basis
