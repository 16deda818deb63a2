"""Proof of a splitting's gap where neither X nor a gradient is ever stored.

As `certificate.split_bound`, for G = beta/2 |X - C|^2, R = lam |X|_1 + curvature/2 |X|^2 and
the nuclear ball. The ball's conjugate needs the norm of u = (z - X)/gamma. With z V = U s in
float64, X = U p V' and z = U s V' + E, E V = 0, that norm is at most the square root of the
largest eigenvalue of

    a^2 + r^2   r t
    r t         t^2,      a = max (s - p), r = |E'U|, t = |(I - UU') E|:

of second order in the residual r; t is bounded by random vectors as everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from weakprox.linalg.arrays import eps_of, wide
from weakprox.linalg.simplex import project_capped
from weakprox.passes import Step, Sums, passes_for
from weakprox.passes.engine import Engine
from weakprox.passes.ritz import Ritz, Vector, ritz, whitened

DOUBLE = float(np.finfo(float).eps)
SKEW = 1e-6  # distance from orthonormal vectors beyond which nothing is concluded


@dataclass(frozen=True)
class FactoredDual:
    """Dual points of a step at the projection of z in the span of Ritz vectors of it.

    All its numbers are in float64, whatever z is. It reads z, which must not move on.
    """

    engine: Engine
    found: Ritz
    k: Step
    tau: float

    exact: Ritz = field(init=False)  # the triplets in float64, made anew where they were not
    values: Vector = field(init=False)  # of the point of the ball next to z in that span
    sums: Sums = field(init=False)  # all of them, at that point

    def __post_init__(self) -> None:
        """Read z, at once: a `cached_property` locks out other runs in Python 3.11."""
        exact, z = self.found, self.engine.z
        if not exact.exact:
            Q = whitened(wide(exact.V))
            exact = ritz(passes_for(z).times(z, Q), Q, exact=True)
        values = np.asarray(project_capped(exact.s, self.tau))
        object.__setattr__(self, "exact", exact)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "sums", self.engine.look(exact, values, self.k))

    def bound(self, rng: np.random.Generator) -> tuple[float, str]:
        """A number below min f, and what it rests on."""
        k, sums, rounding = self.k, self.sums, 64
        squares = self.engine.squares(self.exact, rng)
        conjugate = self.tau / k.gamma * self._norm(squares, rng)
        if not math.isfinite(conjugate):
            return -math.inf, "high-probability"
        smooth = 0.5 * (k.beta * sums.distance + k.curvature * sums.square)
        # rounding of each sum: |u| is at most the sum of what it balances
        size = math.sqrt(sums.rest) + k.beta * math.sqrt(sums.distance)
        size += k.curvature * math.sqrt(sums.square)
        size += k.lam * math.sqrt(math.prod(self.engine.z.shape))
        scale = smooth + k.lam * sums.absolute + conjugate + size * math.sqrt(sums.square)
        scale += size * math.sqrt(sums.rest) / (k.beta + k.curvature)
        across = sums.across
        if math.isnan(across):
            across = self._across(squares)
            scale += float(self.values.sum() * self.exact.s[0]) / k.gamma
            rounding += sum(self.engine.z.shape)  # devices add up long chains
        found = smooth + sums.along + across - conjugate
        found -= sums.rest / (2 * (k.beta + k.curvature))
        return found - rounding * DOUBLE * scale, "high-probability"

    def _across(self, squares: Vector) -> float:
        """<u, X> from the squares of U and V, and V'R; whatever the angles are."""
        p, (U, V, between) = self.values, squares[1:]
        target = p @ (np.diagonal(between) + self.exact.s * np.diagonal(V))  # <z, X>
        return float(target - p @ (U * V) @ p) / self.k.gamma

    def _norm(self, squares: Vector, rng: np.random.Generator) -> float:
        """Upper bound on |z - X|_2."""
        engine, found = self.engine, self.exact
        r = math.sqrt(float(np.linalg.norm(squares[0])))
        one = np.eye(len(found.s))
        off = sum(float(np.linalg.norm(square - one)) for square in squares[1:3])
        if not off <= SKEW:
            return math.inf  # these vectors prove nothing
        a = float(np.max(found.s - self.values))
        t = engine.tail(found, rng, 0.9 * a) * (1 + 1e3 * eps_of(engine.z))
        top, low, cross = a * a + r * r, t * t, r * t
        largest = 0.5 * (top + low) + math.hypot(0.5 * (top - low), cross)
        return math.sqrt(largest) + (off + 64 * DOUBLE) * (float(found.s[0]) + r + t)
