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
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weakprox.linalg.arrays import Array, eps_of, like, namespace, to_numpy, wide
from weakprox.linalg.bounds import deflated_norm
from weakprox.linalg.fused import Step, Sums, passes_for
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.operators import Products
from weakprox.linalg.simplex import project_capped
from weakprox.linalg.subspace import Ritz, gram, ritz, whitened

DOUBLE = float(np.finfo(float).eps)
SKEW = 1e-6  # distance from orthonormal vectors beyond which nothing is concluded
POWERS = 10  # of a randomised bound at most; it ends as soon as it is small enough


@dataclass(frozen=True)
class FactoredDual:
    """Dual points of a step at the projection of z in the span of Ritz vectors of it.

    All its numbers are in float64, whatever z is. It reads z, which must not move on.
    """

    C: Array
    z: Array
    found: Ritz
    k: Step
    tau: float

    @cached_property
    def exact(self) -> Ritz:
        """The triplets in float64, made anew where they were not."""
        if self.found.exact:
            return self.found
        Q = whitened(wide(self.found.V))
        return ritz(passes_for(self.z).times(self.z, Q), Q, exact=True)

    @cached_property
    def X(self) -> LowRank:
        """The point of the ball next to z in that span."""
        found = self.exact
        p = np.asarray(project_capped(found.s, self.tau))
        return LowRank(found.U, like(p, found.U), found.V.T)

    @cached_property
    def sums(self) -> Sums:
        """All sums at X."""
        found: Sums = passes_for(self.z).look(self.C, self.z, self.X, self.k)
        return found

    def bound(self, rng: np.random.Generator) -> tuple[float, str]:
        """A number below min f, and what it rests on."""
        k, sums = self.k, self.sums
        conjugate = self.tau / k.gamma * self._norm(rng)
        smooth = 0.5 * (k.beta * sums.distance + k.curvature * sums.square)
        found = smooth + sums.along + sums.across - conjugate
        found -= sums.rest / (2 * (k.beta + k.curvature))
        # rounding of each sum: |u| is at most the sum of what it balances
        size = math.sqrt(sums.rest) + k.beta * math.sqrt(sums.distance)
        size += k.curvature * math.sqrt(sums.square)
        size += k.lam * math.sqrt(math.prod(self.z.shape))
        scale = smooth + k.lam * sums.absolute + conjugate + size * math.sqrt(sums.square)
        scale += size * math.sqrt(sums.rest) / (k.beta + k.curvature)
        return found - 64 * DOUBLE * scale, "high-probability"

    def _norm(self, rng: np.random.Generator) -> float:
        """Upper bound on |z - X|_2."""
        z, found = self.z, self.exact
        R = passes_for(z).transpose_times(z, found.U) - found.V * like(found.s, found.V)
        r = math.sqrt(float(np.linalg.norm(gram(R))))
        a = float(np.max(found.s - np.asarray(to_numpy(self.X.s))))
        kept = LowRank(_as(found.U, z), like(found.s, z), _as(found.V, z).T)
        t = deflated_norm(_operator(z), kept, rng, powers=POWERS, enough=0.9 * a)
        t *= 1 + 1e3 * eps_of(z)
        top, low, cross = a * a + r * r, t * t, r * t
        largest = 0.5 * (top + low) + math.hypot(0.5 * (top - low), cross)
        one = np.eye(len(found.s))
        off = sum(float(np.linalg.norm(gram(x) - one)) for x in (found.U, found.V))
        if not off <= SKEW:
            return math.inf  # these vectors prove nothing
        return math.sqrt(largest) + (off + 64 * DOUBLE) * (float(found.s[0]) + r + t)


def _operator(z: Array) -> Products:
    passes, shape = passes_for(z), (int(z.shape[0]), int(z.shape[1]))

    def right(Q: Array) -> Array:
        return _as(passes.quick_times(z, Q), z)

    def left(Q: Array) -> Array:
        return _as(passes.quick_transpose_times(z, Q), z)

    return Products(shape, right, left, z, z)


def _as(x: Array, reference: Array) -> Array:
    """X in the dtype of the reference."""
    return namespace(x).astype(x, reference.dtype)
