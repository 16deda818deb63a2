"""Proof for |X - C|^2/2 + h(X), C sparse, from leading triplets of C; X is never stored.

With Y = C - X, f* >= t <Y, C> - t^2/2 |Y|^2 - h*(t Y) for every t >= 0. If X has the triplets
of C with other values, the inner products follow from the factors, and h* needs an upper bound
on the norm of Y: the triplets are deflated, and a randomised bound is taken of the rest of C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.certificates.split import FixedDual
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import DOUBLE, inner
from weakprox.linalg.bounds import BELOW, chebyshev_bound, norm_bound
from weakprox.linalg.lowrank import LowRank, squared_norm
from weakprox.linalg.operators import products
from weakprox.linalg.tiled import Factored, Tile
from weakprox.passes import ValueForm
from weakprox.passes.ritz import Vector
from weakprox.penalties import Zero
from weakprox.protocols import Bound, OwnBound

# allowed error of inexact triplets and of the bound on the rest, as a share of the accuracy
SHARE = 0.8
CLOSE = 0.9  # triplets that X lacks are deflated if above this share of the norm of Y
ROUGH = 0.01  # and if their residuals are below this share
DEGREE = 200  # largest number of products of the bound on the rest
SKEW = 1e-9  # largest distance from orthonormal vectors that allows a conclusion
CLOSEST = 1 - 1e-7  # share of the required bound from which Chebyshev polynomials grow
VECTORS = 8  # random vectors of the bound on the rest


@dataclass(frozen=True, eq=False)
class ThresholdedDual(OwnBound):
    """The dual point C - X. C V = U diag(s), and the values of X are in `values`."""

    C: Factored
    U: Tile
    s: Vector
    V: Tile
    values: Vector  # descending, as many as s
    form: ValueForm
    aim: float  # accuracy to prove
    along: float = 0.0  # <Y, C>
    square: float = 0.0  # |Y|^2
    rounding: float = 0.0  # of bounds

    @classmethod
    def of(
        cls, C: Factored, U: Tile, s: Vector, V: Tile, values: Vector, form: ValueForm
    ) -> ThresholdedDual:
        """Return the dual point with its inner products, for no accuracy in particular."""
        across = inner(U * (s * values), U)  # <C, X>, C V being U s
        whole, square = C.sqnorm, squared_norm(U, values, V)
        unit = (64.0 + math.sqrt(sum(C.shape))) * DOUBLE
        distance = max(0.0, whole - 2.0 * across + square)
        numbers = whole - across, distance, unit * (whole + square)
        return cls(C, U, s, V, values, form, 0.0, *numbers)

    @property
    def point(self) -> LowRank:
        """X."""
        return LowRank(self.U, self.values, self.V.T).trimmed()

    @property
    def value(self) -> float:
        """G at X."""
        return 0.5 * self.square

    @property
    def least(self) -> float:
        """Norm of C - X within the span of the triplets."""
        return float(np.max(self.s - self.values))

    @property
    def estimate(self) -> float:
        """Estimate of the bound, from the residuals of the triplets."""
        _, R, _, beyond = self._deflated(self.enough)
        worst = float(decompositions.eigvalsh(R)[-1]) if len(R) else 0.0
        return self.at(max(math.sqrt(self.least**2 + 2.0 * worst), beyond))

    @property
    def enough(self) -> float:
        """Norm of Y that proves most of the accuracy."""
        size = float(self.values.sum())
        if not size > 0.0:
            return self.least * (1.0 + SHARE * self.aim / max(self.square, 1e-300))
        return self.least + SHARE * self.aim / size

    def proof(self, rng: np.random.Generator) -> Bound:
        return Bound(self.at(self.norm(rng)), "high-probability", self)

    def detached(self, *, copy: bool) -> tuple[FixedDual, LowRank]:
        """Return the point alone, which determines the rest: there is no penalty."""
        return FixedDual(Zero(), None), self.point

    def at(self, norm: float) -> float:
        """Lower bound on min f, given an upper bound on the norm of Y."""
        form, a, b = self.form, self.along, self.square
        if not math.isfinite(norm):
            return -math.inf
        if not b > 0.0 or norm <= 0.0:
            return -self.rounding
        most = form.lam / norm * (1 - 4 * DOUBLE)
        trials = [min(a / b, most)]
        if math.isfinite(form.tau):
            trials += [1.0, (a - form.tau * norm) / b]

        def value(t: float) -> float:
            excess = max(0.0, t * norm - form.lam) if math.isfinite(form.tau) else 0.0
            return t * a - 0.5 * t * t * b - (form.tau * excess if excess else 0.0)

        return max(value(max(t, 0.0)) for t in trials) - self.rounding

    def norm(self, rng: np.random.Generator) -> float:
        """Upper bound on the largest singular value of Y."""
        enough = self.enough
        count, R, size, _ = self._deflated(enough)
        ops, U, V = products(self.C), self.U[:, :count], self.V[:, :count]
        one = np.eye(count)
        off = max(float(np.abs(F.T @ F - one).max()) * count for F in (U, V))
        if not off <= SKEW:
            return math.inf

        tail, kept = 0.0, (self.s - self.values)[:count]
        if count < min(self.C.shape):
            worst = float(decompositions.eigvalsh(R)[-1]) if count else 0.0
            spare = enough**2 - float(kept.max(initial=0.0)) ** 2 - worst
            between = enough / math.sqrt(1.0 + worst / spare) if spare > 0.0 else enough
            # the part that is not deflated
            rest = float(self.s[min(count, len(self.s) - 1)]) / between
            limits: Any = {"degree": DEGREE, "vectors": VECTORS, "hopeful": True}
            limits |= {"enough": between, "below": min(max(rest, BELOW), CLOSEST)}
            tail, _ = chebyshev_bound(ops.times, ops.transpose_times, U, V, rng, **limits)
        found = norm_bound(kept, R, tail) if count else tail
        return found + (64.0 + math.sqrt(sum(self.C.shape))) * DOUBLE * size + 2 * off * found

    def _deflated(self, enough: float) -> tuple[int, Tile, float, float]:
        """Number of triplets to deflate, the squares of their residuals, and the norm of C.

        The last is about how large a singular value that is close to an inaccurate triplet
        can be.
        """
        inside = int((self.values > 0.0).sum())
        near = max(inside, int((self.s >= CLOSE * enough).sum()))
        U, V, s = self.U[:, :near], self.V[:, :near], self.s[:near]
        R = products(self.C).transpose_times(U) - V * s
        residuals = np.linalg.norm(R[:, inside:], axis=0)
        rough = residuals > ROUGH * enough
        count = inside + (int(np.argmax(rough)) if rough.any() else near - inside)
        beyond = float(np.hypot(s[inside:], residuals)[rough].max(initial=0.0))
        return count, R[:, :count].T @ R[:, :count], float(self.s[0]), beyond
