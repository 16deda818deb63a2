"""Proof of a splitting's gap without storing X or a gradient.

Like `split.split_bound`, for G = beta/2 |X - C|^2, R in separable form and h a function of
singular values. The conjugate of h needs the norm of u = (z - X)/gamma. With z V = U s in
float64, X = U p V' and z = U s V' + E, E V = 0, that norm is at most the square root of the
largest eigenvalue of

    a^2 + r^2   r t
    r t         t^2,      a = max (s - p), r = |E'U|, t = |(I - UU') E|:

This is of second order in the residual r; t is bounded by products with random vectors. If z is
symmetric and V s V' its part in the span of Ritz vectors, the largest eigenvalue of u is at
most that of (a, r; r, t), r = |(I - VV') z V| and t = |(I - VV') z (I - VV')|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from weakprox.linalg.simplex import ValueForm
from weakprox.passes.engine import Engine
from weakprox.passes.reference import Step, Sums
from weakprox.passes.ritz import Ritz, Vector

DOUBLE = float(np.finfo(float).eps)
LEVELS = (1e-6, 1e-5, 1e-4)  # relative distances from it that a factorisation may prove
CLOSE = 1e-5  # relative distance from the least possible norm at which to stop
SKEW = 1e-6  # largest distance from orthonormal vectors that allows a conclusion


@dataclass(frozen=True)
class FactoredDual:
    """Dual points of a step at the proximal point of z in the span of its Ritz vectors.

    All numbers are in float64, whatever the dtype of z. It reads z, which must not change.
    """

    engine: Engine
    found: Ritz
    k: Step
    form: ValueForm
    # the same triplets and some more that X lacks: they make the rest of z smaller
    more: Ritz | None = None
    thorough: bool = False  # whether a Cholesky factorisation is affordable

    exact: Ritz = field(init=False)  # the triplets in float64, recomputed if necessary
    values: Vector = field(init=False)  # of the proximal point of z in that span
    sums: Sums = field(init=False)  # all sums at that point

    def __post_init__(self) -> None:
        """Read z at once, since a `cached_property` blocks other runs in Python 3.11."""
        exact = self.found if self.found.exact else self.engine.in_float64(self.found)
        values = self.form.prox(exact.s, self.k.gamma)
        sums = self.engine.look(exact, values, self.k)
        vars(self).update(exact=exact, values=values, sums=sums)

    def bound(self, rng: np.random.Generator) -> tuple[float, str]:
        """Return a lower bound on min f, and what it rests on."""
        k, sums, rounding = self.k, self.sums, 64
        squares = self.engine.squares(self.exact, rng)
        norm = self._norm(squares, rng) / k.gamma
        if not math.isfinite(norm):
            return -math.inf, "high-probability"
        conjugate, shrink = self.form.conjugate(norm)
        smooth = 0.5 * (k.beta * sums.distance + k.curvature * sums.square)
        # rounding of each sum: |u| is at most the sum of the terms that it balances
        size = math.sqrt(sums.rest) + k.beta * math.sqrt(sums.distance)
        size += k.curvature * math.sqrt(sums.square) + k.reach(self.engine.z.shape)
        scale = smooth + sums.penalty + conjugate + size * math.sqrt(sums.square)
        scale += size * math.sqrt(sums.rest) / (k.beta + k.curvature)
        across = sums.across
        if math.isnan(across):
            # from the squares of U and V, and V'R; the vectors need not be orthogonal
            p, (U, V, between) = self.values, squares[1:]
            target = p @ (np.diagonal(between) + self.exact.s * np.diagonal(V))  # <z, X>
            across = float(target - p @ (U * V) @ p) / k.gamma
            scale += float(self.values.sum() * np.abs(self.exact.s).max()) / k.gamma
            rounding += sum(self.engine.z.shape)  # devices sum long chains
        # u may have to be shrunk into the domain of h*, which changes the remainder
        rest = (math.sqrt(sums.rest) + (1.0 - shrink) * size) ** 2
        found = smooth + sums.along + shrink * across - conjugate
        found -= rest / (2 * (k.beta + k.curvature))
        return found - rounding * DOUBLE * scale, "high-probability"

    def _norm(self, squares: Vector, rng: np.random.Generator) -> float:
        """Upper bound on |z - X|_2, or on its largest eigenvalue."""
        found, values = self.exact, self.values
        shift = max(0.0, float(np.max(found.s - values)))
        best = self._norm_within(found, values, squares, rng)
        if best > shift * (1 + CLOSE) and self.more is not None and self.more.exact:
            squares = self.engine.squares(self.more, rng)
            longer = np.pad(values, (0, len(self.more.s) - len(values)))
            best = min(best, self._norm_within(self.more, longer, squares, rng))
        if best > shift * (1 + CLOSE) and self.thorough:
            levels = [shift * (1 + excess) for excess in LEVELS]
            best = min(best, self.engine.factored_norm(found, values, levels))
        return best

    def _norm_within(
        self, found: Ritz, values: Vector, squares: Vector, rng: np.random.Generator
    ) -> float:
        """The same bound from these vectors and their squares."""
        engine = self.engine
        r = math.sqrt(float(np.linalg.norm(squares[0])))
        one = np.eye(len(found.s))
        off = sum(float(np.linalg.norm(square - one)) for square in squares[1:3])
        if not off <= SKEW:
            return math.inf  # these vectors prove nothing
        a = max(0.0, float(np.max(found.s - values)))
        t = engine.tail(found, rng, 0.9 * a) * (1 + 1e3 * engine.eps)
        size = float(np.abs(found.s).max()) + r + t
        if engine.symmetric:
            largest = 0.5 * (a + t) + math.hypot(0.5 * (a - t), r)
        else:
            top, low, cross = a * a + r * r, t * t, r * t
            largest = math.sqrt(0.5 * (top + low) + math.hypot(0.5 * (top - low), cross))
        return largest + (off + 64 * DOUBLE) * size
