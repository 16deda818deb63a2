"""Proximal maps of penalties through their duals, with or without a closed form.

The prox of g R at v is v - g K'y, where y maximises <y, K v> - phi(y) - g/2 |K'y|^2 over Y.
Any y in Y gives valid bounds, so an inexact y costs iterations but never invalidates a proof.
"""

from __future__ import annotations

from typing import Any

from weakprox.linalg.arrays import Array, norm
from weakprox.protocols import Dual, Penalty, penalty_capabilities

ACCURACY = 1e-9  # relative change of K'y at which an inner iteration stops
INNER = 100  # limit on inner iterations; the next call continues from their result


def proximal_dual(penalty: Penalty, v: Array, step: float, start: Dual | None = None) -> Dual:
    """Dual point of prox_{step R} at v (without curvature), exact if R is separable."""
    if penalty.separable:
        return penalty.ascend(None, v, 1.0 / step)
    own = penalty_capabilities(penalty).proximal
    if own is not None:
        return own(v, step, start)
    # Projected dual ascent by the penalty's own Euclidean steps, without momentum.
    # `ascend(y, X, t)` moves along K X with a step that makes `pull` t-Lipschitz, so that
    # t = 1/step matches the curvature of step/2 |K'y|^2. Dual points may be tuples, so only
    # the matrices K'y are combined here.
    t = 1.0 / step
    y: Any = penalty.ascend(None, v, t, geometry="euclidean") if start is None else start
    pulled = penalty.pull(y)
    for _ in range(INNER):
        y = penalty.ascend(y, v - step * pulled, t, geometry="euclidean")
        before, pulled = pulled, penalty.pull(y)
        if norm(pulled - before) <= ACCURACY * norm(pulled):
            break
    return y
