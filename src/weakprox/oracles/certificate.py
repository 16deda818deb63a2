"""A lower bound on the optimum from a dual point, and the gap to the value reached.

For any X, any y in the penalty's dual set and g = grad G(X), strong convexity of G, the
max form of R and w = aG + curvature give

    f* >= G(X) - <g, X> + aG/2 |X|^2 - phi(y) + min over V of <c, V> + w/2 |V|^2 + h(V),

c = g - aG X + K'y. The last minimum is one proximal step at A = -c/w, whose value the
weak proximal oracle bounds from below even where its SVD is truncated. Without strong
convexity, w = 0, it is -h*(-c), which only bounded sets keep finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weakprox.linalg.arrays import Array, eps_of, inner, norm, sqnorm
from weakprox.linalg.bounds import EXACT_BELOW
from weakprox.linalg.kernels import add_scaled, reflect
from weakprox.linalg.lowrank import LowRank
from weakprox.oracles.metering import gradient
from weakprox.problem import Problem
from weakprox.protocols import Dual, DualPoint, Penalty, Tolerance


@dataclass(frozen=True)
class FixedDual:
    """A dual point of the penalty, and the point at which G is linearised with it."""

    penalty: Penalty
    y: Dual
    at: LowRank | None = None

    def target(self, X: Array, G: Array, weight: float) -> float:
        """Overwrite G by X - (G + curvature X + K'y)/weight and return phi(y)."""
        add_scaled(G, 1.0, self.penalty.pull(self.y))
        reflect(G, 1.0 / weight, X, 1.0 - self.penalty.curvature / weight)
        return self.penalty.dual_value(self.y)


def lower_bound(
    problem: Problem,
    X: Array,
    dual: DualPoint,
    *,
    rank: int,
    rng: np.random.Generator,
    accuracy: float = 0.0,
    scratch: Array | None = None,
) -> tuple[float, str]:
    """A number below min f, and what it rests on; needs G as a finite sum.

    `accuracy` is what the decomposition's inexactness may cost the bound, in units of f;
    `scratch`, an array like X, may be overwritten.
    """
    loss = problem.loss
    batch = loss.everything()
    a = loss.strong_convexity
    w = a + problem.penalty.curvature
    A = gradient(loss, X, batch, scratch)
    value, linear, square = loss.value(X, batch), inner(A, X), sqnorm(X)
    if w == 0.0:
        return _without_curvature(problem, X, A, dual, value - linear, rng)
    phi = dual.target(X, A, w)  # A = X - (g + curvature X + K'y)/w = -c/w
    if min(X.shape) <= EXACT_BELOW:
        rank = min(X.shape)  # all values are computed anyway: none is left to a bound
    prox = problem.spectral.weak_prox(
        A, weight=w, rank=rank, tolerance=Tolerance(2 * accuracy / w), certify=True, rng=rng
    )
    size = sqnorm(A)
    bound = value - linear + 0.5 * a * square - phi + prox.lower - 0.5 * w * size
    # Rounding of each sum, generously: the bound must never be optimistic.
    scale = abs(value) + abs(linear) + a * square + abs(phi) + w * size
    return bound - 64 * eps_of(A) * scale, prox.rests_on


def _without_curvature(
    problem: Problem,
    X: Array,
    A: Array,
    dual: DualPoint,
    start: float,
    rng: np.random.Generator,
) -> tuple[float, str]:
    """The same where w = 0; A holds the gradient of G and `start` is G(X) - <g, X>."""
    # Rounding of X and of the gradient stays in A, however small their sum is; every
    # feasible V is at most `diameter` long, so that is what it can cost.
    carried = getattr(problem.spectral, "diameter", 0.0) * (norm(A) + norm(X))
    phi = dual.target(X, A, 1.0)
    A -= X  # now -c
    conjugate = problem.spectral.conjugate(A, rng)
    scale = abs(start) + abs(phi) + abs(conjugate) + carried
    rests_on = "exact" if min(X.shape) <= EXACT_BELOW else "high-probability"
    return start - phi - conjugate - 64 * eps_of(A) * scale, rests_on
