"""Proximal maps of penalties through their duals, for those without a closed form too.

prox of g R at v is v - g K'y, y the maximiser over Y of <y, K v> - phi(y) - g/2 |K'y|^2.
Any y in Y leads to valid bounds, so an inexact one costs iterations and never a proof.
"""

from __future__ import annotations

from typing import Any

from weakprox.linalg.arrays import Array, norm
from weakprox.protocols import Dual, Penalty, penalty_capabilities

ACCURACY = 1e-9  # relative change of K'y at which an inner iteration ends
INNER = 100  # inner iterations at most; the next call goes on from there


def proximal_dual(penalty: Penalty, v: Array, step: float, start: Dual | None = None) -> Dual:
    """The dual point of prox_{step R} at v (curvature left out), exact where separable."""
    if penalty.separable:
        return penalty.ascend(None, v, 1.0 / step)
    own = penalty_capabilities(penalty).proximal
    if own is not None:
        return own(v, step, start)
    return _by_ascent(penalty, v, step, start)


def _by_ascent(penalty: Penalty, v: Array, step: float, start: Dual | None) -> Dual:
    """Accelerated ascent through the penalty's own Euclidean dual steps.

    `ascend(y, X, t)` moves along K X with a step that makes `pull` t-Lipschitz, so that
    t = 1/step fits the curvature step |K'y|^2. Momentum is in X, where it is a matrix:
    dual points of sums are tuples that nothing here can add.
    """
    t = 1.0 / step
    y: Any = penalty.ascend(None, v, t, geometry="euclidean") if start is None else start
    pulled = penalty.pull(y)
    for _ in range(INNER):
        y = penalty.ascend(y, v - step * pulled, t, geometry="euclidean")
        before, pulled = pulled, penalty.pull(y)
        if norm(pulled - before) <= ACCURACY * norm(pulled):
            break
    return y
