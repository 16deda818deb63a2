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
from typing import Any, ClassVar

import numpy as np

from weakprox.certificates.evidence import Target, copied
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.simplex import ValueForm, rounded_on_host
from weakprox.linalg.tiled import Tiled
from weakprox.passes.engine import Engine
from weakprox.passes.reference import Step, Sums
from weakprox.passes.ritz import Ritz, Vector
from weakprox.protocols import Bound, OwnBound

DOUBLE = float(np.finfo(float).eps)
# Relative distances from the least possible norm: those that a factorisation may prove, the
# one at which to stop, and the least one that is attempted.
LEVELS, CLOSE, LEAST = (1e-6, 1e-5, 1e-4), 1e-5, 1e-6
NEGLIGIBLE = 1e-3  # share of the requested gap that sums may be wrong by
WITHIN = 0.95  # share of the requested gap that a proof aims at
SKEW = 1e-6  # largest distance from orthonormal vectors that allows a conclusion


@dataclass(frozen=True)
class FactoredDual(OwnBound):
    """Dual points of a step at the proximal point of z in the span of its Ritz vectors.

    All numbers are in float64, whatever the dtype of z. It reads z, which must not change.
    `point` is that proximal point in the dtype of z, with `rank` triplets (all if None).
    """

    cheap: ClassVar[bool] = False

    engine: Engine
    found: Ritz
    k: Step
    form: ValueForm
    rank: int | None = None
    # the same triplets and some more that X lacks: they make the rest of z smaller
    more: Ritz | None = None
    # estimates of the largest value of z beside the triplets, and beside those of `more`
    beside: tuple[float, float] = (0.0, 0.0)
    thorough: bool = False  # whether a Cholesky factorisation is affordable
    aim: float = 0.0  # sufficient gap; if 0, the bound is as large as possible

    exact: Ritz = field(init=False)  # the triplets in float64, recomputed if necessary
    values: Vector = field(init=False)  # of the proximal point of z in that span
    sums: Sums = field(init=False)  # all sums at that point
    kept: Vector = field(init=False)  # the singular values of `point`
    point: LowRank = field(init=False)
    smooth: float = field(init=False)  # G + R at `point`
    value: float = field(init=False)  # f there
    rounding: float = field(init=False)  # of the value, and of the dense solution
    halves: tuple[float, float] = field(init=False)  # of the gap if |z - X|_2 is smallest

    def __post_init__(self) -> None:
        """Read z at once, since a `cached_property` blocks other runs in Python 3.11."""
        exact = self.found if self.found.exact else self.engine.in_float64(self.found)
        k, form, eps, shape = self.k, self.form, self.engine.eps, self.engine.z.shape
        values = form.prox(exact.s, k.gamma)
        kept = rounded_on_host(values[: self.rank], form.tau, self.engine.z)
        sums = self.engine.look(exact, values, k, NEGLIGIBLE * self.aim)
        smooth, lost, halves = sums.value(k), sums.rounding(k, eps, shape), sums.halves(k)
        value = smooth + form.lam * float(kept.sum())
        point = self.engine.rounded(exact, kept)
        rounding = eps * abs(value) + lost
        vars(self).update(exact=exact, values=values, sums=sums, kept=kept, point=point)
        vars(self).update(smooth=smooth, value=value, rounding=rounding, halves=halves)

    def smooth_at(self, X: LowRank) -> tuple[float, float] | None:
        """G + R at `point` and its rounding error, if none of its factors was rounded."""
        longer = np.pad(self.kept, (0, len(self.values) - len(self.kept)))
        same = X is self.point and self.engine.eps == DOUBLE
        known = same and np.array_equal(longer, self.values)
        return (self.smooth, self.rounding) if known else None

    @property
    def large(self) -> tuple[Any, ...]:
        return (self.engine.z,)

    def detached(self, *, copy: bool) -> tuple[Target, LowRank]:
        """Return the target, and the proximal point in float64."""
        engine, exact = self.engine, self.engine.own(self.exact)
        z = engine.z if isinstance(engine.C, Tiled) else engine.kept()
        if copy and z is engine.z:
            z = copied(z)
        X = LowRank(exact.U, self.values, exact.V.T)
        # proofs read bounds from the penalty; the array would keep memory that is not counted
        return Target(z, self.k.bare if self.k.bounded else self.k, X), X

    def proof(self, rng: np.random.Generator) -> Bound:
        squares = self.engine.squares(self.exact, rng)
        norm = self._norm(squares, rng)
        lower = self._bound(norm, squares) if math.isfinite(norm) else -math.inf
        return Bound(lower, "high-probability", self)

    def _bound(self, norm: float, squares: Vector) -> float:
        """The lower bound, given one on |z - X|_2 or on its largest eigenvalue from above."""
        k, sums, rounding = self.k, self.sums, 64
        conjugate, shrink = self.form.conjugate(norm / k.gamma)
        smooth = 0.5 * (k.beta * sums.distance + k.curvature * sums.square)
        # rounding of each sum: |u| is at most the sum of the terms that it balances
        size = math.sqrt(sums.rest) + k.beta * math.sqrt(sums.distance)
        size += k.curvature * math.sqrt(sums.square) + k.reach(self.engine.z.shape)
        scale = smooth + sums.penalty + conjugate + size * math.sqrt(sums.square)
        scale += size * math.sqrt(sums.rest) / (k.beta + k.curvature)
        scale += sums.offset(k, self.engine.z.shape)  # of the conjugate of R, a part of `along`
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
        return found - rounding * DOUBLE * scale - 1.5 * k.beta * sums.error

    def _norm(self, squares: Vector, rng: np.random.Generator) -> float:
        """Upper bound on |z - X|_2, or on its largest eigenvalue."""
        found, values = self.exact, self.values
        shift = max(0.0, float(np.max(found.s - values)))
        enough, levels = shift * (1 + CLOSE), [shift * (1 + excess) for excess in LEVELS]
        if self.aim:
            aimed = self._sufficient(shift, squares)
            # if no bound suffices, the estimate of the gap was wrong: skip an expensive one
            enough, levels = max(enough, aimed), [aimed] if aimed else []
        best = self._norm_within(found, values, squares, enough, rng, self.beside[0])
        if best > enough and self.more is not None and self.more.exact:
            squares = self.engine.squares(self.more, rng)
            longer = np.pad(values, (0, len(self.more.s) - len(values)))
            within = self._norm_within(self.more, longer, squares, enough, rng, self.beside[1])
            best = min(best, within)
        if best > enough and self.thorough and levels:
            best = min(best, self.engine.factored_norm(found, values, levels))
        return best

    def _sufficient(self, shift: float, squares: Vector) -> float:
        """A norm, as large as possible, with which the gap is small enough; or 0."""
        tau, left = self.form.tau, WITHIN * self.aim - self.rounding - sum(self.halves)
        price = (tau if math.isfinite(tau) else float(self.kept.sum())) / self.k.gamma
        beyond = left / price if price > 0.0 else 0.0
        if math.isinf(tau):  # the bound decreases only about linearly
            goal = self.value + self.rounding - WITHIN * self.aim
            while beyond > LEAST * shift and not self._bound(shift + beyond, squares) >= goal:
                beyond *= 0.5
        return shift + beyond if beyond > LEAST * shift else 0.0

    def _norm_within(
        self,
        found: Ritz,
        values: Vector,
        squares: Vector,
        enough: float,
        rng: np.random.Generator,
        beside: float,
    ) -> float:
        """The same bound from these vectors and their squares; it need not be below `enough`.

        The sufficient tail follows from the condition that the norm of the two-by-two
        matrix is at most `enough`.
        """
        engine = self.engine
        r = math.sqrt(float(np.linalg.norm(squares[0])))
        one = np.eye(len(found.s))
        off = sum(float(np.linalg.norm(square - one)) for square in squares[1:3])
        if not off <= SKEW:
            return math.inf  # these vectors prove nothing
        a = max(0.0, float(np.max(found.s - values)))
        size = float(np.abs(found.s).max()) + r
        within = enough - (off + 64 * DOUBLE) * (size + enough)
        if engine.symmetric:
            rest = within - r * r / (within - a) if within > a else 0.0
        else:
            beyond = within * within - a * a
            rest = within * math.sqrt(1.0 - r * r / beyond) if beyond > r * r else 0.0
        once = 1 + 1e3 * engine.eps
        t = engine.tail(found, rng, max(0.0, rest) / once or 0.9 * a, beside) * once
        size += t
        if engine.symmetric:
            largest = 0.5 * (a + t) + math.hypot(0.5 * (a - t), r)
        else:
            top, low, cross = a * a + r * r, t * t, r * t
            largest = math.sqrt(0.5 * (top + low) + math.hypot(0.5 * (top - low), cross))
        return largest + (off + 64 * DOUBLE) * size
