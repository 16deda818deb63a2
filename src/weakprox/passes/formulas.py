"""Formulas of a splitting step, independent of the arithmetic that computes them.

G = beta/2 |X - C|^2, R in separable form, h a function of singular values. With
X = prox_{gamma h}(z), a step takes the target t = 2X - z - gamma (beta (X - C) + curvature X)
to Y = prox_{gamma R}(t) and moves z by Y - X. s = (t - Y)/gamma is a dual point of R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weakprox.linalg.arrays import Array, namespace, total, wide
from weakprox.linalg.simplex import project_capped

DOUBLE = 2.0**-52
TERMS = 6  # fields of Sums that are sums over entries; the last follows from factors
Vector = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class SeparableForm:
    """R(X) = sum above x_+ + below x_- + rows |row| + columns |column| (Euclidean norms).

    The penalty's quadratic is not part of it but its `curvature`. The proximal map has a
    closed form unless both rows and columns have a weight: entries are thresholded, groups
    are scaled.
    """

    above: float = 0.0
    below: float = 0.0
    rows: float = 0.0
    columns: float = 0.0

    def __add__(self, other: SeparableForm) -> SeparableForm:
        """The form of a sum of penalties."""
        return SeparableForm(
            self.above + other.above,
            self.below + other.below,
            self.rows + other.rows,
            self.columns + other.columns,
        )

    @property
    def closed(self) -> bool:
        """Whether the proximal map has a closed form."""
        return not (self.rows and self.columns)


@dataclass(frozen=True)
class ValueForm:
    """h as a function of the singular values s: lam sum(s) if sum(s) <= tau.

    If `symmetric`, the values are eigenvalues of a symmetric X, which must not be negative.
    """

    tau: float = math.inf
    lam: float = 0.0
    symmetric: bool = False

    def prox(self, values: Vector, step: float) -> Vector:
        """Values of prox_{step h} at a matrix with these values, in descending order."""
        kept = np.maximum(values - step * self.lam, 0.0)
        return kept if math.isinf(self.tau) else np.asarray(project_capped(kept, self.tau))

    def conjugate(self, norm: float) -> tuple[float, float]:
        """h*(shrink u) for a u of this spectral norm, and the largest shrink <= 1 allowed.

        For symmetric X, the norm is the largest eigenvalue of u, or 0.
        """
        if math.isfinite(self.tau):
            return self.tau * max(0.0, norm - self.lam), 1.0
        return 0.0, 1.0 if norm <= self.lam else self.lam / norm * (1 - 4 * DOUBLE)


class Step(NamedTuple):
    """Constants of a step: its size gamma, those of G, the curvature and form of R."""

    gamma: float
    beta: float
    curvature: float
    above: float
    below: float
    rows: float = 0.0
    columns: float = 0.0

    @classmethod
    def l1(cls, gamma: float, beta: float, curvature: float, lam: float) -> Step:
        """The constants for R = lam |X|_1 + curvature/2 |X|^2."""
        return cls(gamma, beta, curvature, lam, lam)

    @property
    def grouped(self) -> bool:
        """Whether R has a part that acts on whole rows or columns."""
        return bool(self.rows or self.columns)

    @property
    def groups(self) -> int:
        """Code of the groups for kernels: 0 for none, 1 for rows, 2 for columns."""
        return 1 if self.rows else 2 if self.columns else 0

    @property
    def weight(self) -> float:
        """Weight of the groups."""
        return self.rows or self.columns

    def reach(self, shape: Any) -> float:
        """Bound on the Frobenius norm of s."""
        m, n = (int(size) for size in shape)
        entries = max(self.above, self.below) * math.sqrt(m * n)
        return entries + self.rows * math.sqrt(m) + self.columns * math.sqrt(n)


class Sums(NamedTuple):
    """Sums over all entries at X, in float64, with u = (z - X)/gamma."""

    distance: float  # (X - C)^2
    price: float  # above x_+ + below x_-
    along: float  # s X
    across: float  # u X; NaN if it is computed from the triplets of z instead
    rest: float  # (beta (X - C) + curvature X + s + u)^2, zero at a solution
    square: float  # X^2, from the factors
    groups: float = 0.0  # weighted norms of rows or columns of X, from the factors

    @property
    def penalty(self) -> float:
        """R(X) without its curvature."""
        return self.price + self.groups

    @classmethod
    def of(cls, terms: Any, groups: float = 0.0) -> Sums:
        """Sums from those over entries, in their order, and the groups."""
        return cls._make([*(float(x) for x in terms), groups])

    def value(self, k: Step) -> float:
        """G(X) + R(X)."""
        smooth = k.beta * self.distance + k.curvature * self.square
        return 0.5 * smooth + self.penalty

    def rounding(self, k: Step, eps: float) -> float:
        """Bound on the increase of the value if each entry of X is rounded, eps the dtype's.

        It is zero in float64, the precision of these sums.
        """
        if eps <= DOUBLE:
            return 0.0
        slope = k.beta * math.sqrt(self.distance * self.square)
        terms = slope + self.penalty + k.curvature * self.square
        return 0.5 * eps * (1.0 + eps) * terms + 0.125 * k.beta * eps * eps * self.square

    def halves(self, k: Step) -> tuple[float, float]:
        """The two halves of the step's gap: R(X) - <s, X>, and that of the smooth part."""
        near = max(0.0, self.penalty - self.along)
        return near, self.rest / (2 * (k.beta + k.curvature))


def group_norms(X: Any, k: Step) -> float:
    """Weighted sum of the norms of the rows or columns of X, from its factors in float64."""
    if not k.grouped:
        return 0.0
    left, right = wide(X.U) * wide(X.s), wide(X.Vt)
    if k.rows:
        squares = ((left @ (right @ right.T)) * left).sum(1)
    else:
        squares = (((left.T @ left) @ right) * right).sum(0)
    xp = namespace(squares)
    return k.weight * total(xp.sqrt(xp.clip(squares, 0.0, None)))


def cut(norms: Array, k: Step, length: int) -> Array:
    """Share of each group that its penalty removes, given the norms after thresholding.

    `length` is the number of entries in a group. Shares are reduced by the rounding errors
    of such norms, so that s is a dual point in spite of them.
    """
    xp = namespace(norms)
    level = k.gamma * k.weight * (1.0 - (length + 16) * 0.5 * DOUBLE)
    return xp.where(norms > level, level / xp.clip(norms, level, None), xp.ones_like(norms))


def target(C: Any, z: Any, X: Any, k: Step) -> Any:
    """The target t of a step, for arrays or tiles."""
    return (2.0 - k.gamma * (k.beta + k.curvature)) * X + (k.gamma * k.beta) * C - z


def thresholded(t: Any, k: Step, clip: Any) -> tuple[Any, Any]:
    """The dual point of the entrywise part of R at t, and the remainder of t."""
    y = clip(t * (1.0 / k.gamma), -k.below, k.above)
    return y, t - k.gamma * y


def split(C: Any, z: Any, X: Any, k: Step, clip: Any, cuts: Any = 0.0) -> tuple[Any, Any]:
    """The dual point s and the move Y - X of a step, given the cuts of groups."""
    t = target(C, z, X, k)
    y, left = thresholded(t, k, clip)
    s = y + (cuts * left) * (1.0 / k.gamma)
    return s, t - k.gamma * s - X
