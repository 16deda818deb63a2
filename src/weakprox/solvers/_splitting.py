"""One Davis-Yin step, fused: everything that is read once per iteration is read together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weakprox.linalg.arrays import Array, rough_inner, row_blocks
from weakprox.penalties.proximal import proximal_dual
from weakprox.protocols import Dual, Penalty


@dataclass(frozen=True)
class Split:
    """What a step gives: its move Y - X, R(X), the halves of the gap, and a dual point.

    `near` is R(X) - <s, X> + phi and `length` the squared size of the move. The dual point
    is None where the penalty is separable: it is cheaper to compute again than to store.
    """

    move: Array
    value: float
    near: float
    length: float
    y: Dual | None


def split(
    penalty: Penalty, X: Array, z: Array, gradient: Array, gamma: float, start: Dual | None
) -> Split:
    """Y = prox_{gamma R}(2X - z - gamma (gradient + curvature X)), and what follows from it.

    Penalties that act on rows are visited in blocks of rows that stay in cache. The
    gradient's array becomes the move.
    """
    if not (penalty.rowwise and penalty.separable):
        return _part(penalty, X, z, gradient, gamma, start)
    value = near = length = 0.0
    for rows in row_blocks(X):
        part = _part(penalty, X[rows], z[rows], gradient[rows], gamma, None)
        value, near, length = value + part.value, near + part.near, length + part.length
    return Split(gradient, value, near, length, None)


def _part(penalty: Penalty, X: Array, z: Array, G: Array, gamma: float, start: Any) -> Split:
    """The same for some rows."""
    reflected(penalty, X, z, G, gamma)
    y = proximal_dual(penalty, G, gamma, start)
    s = penalty.pull(y)
    value = penalty.value(X)
    near = value - rough_inner(s, X) + penalty.dual_value(y)
    if penalty.curvature:
        near -= 0.5 * penalty.curvature * rough_inner(X, X)
    G -= gamma * s
    G -= X
    return Split(G, value, near, rough_inner(G, G), None if penalty.separable else y)


def reflected(penalty: Penalty, X: Array, z: Array, G: Array, gamma: float) -> None:
    """Overwrite the gradient G by 2X - z - gamma (G + curvature X)."""
    G *= -gamma
    G += (2.0 - gamma * penalty.curvature) * X
    G -= z
