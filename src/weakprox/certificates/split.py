"""A lower bound on the optimum from a dual point, and the gap to the value attained.

For any X, any y in the penalty's dual set and g = grad G(X), strong convexity of G, the
max form of R and w = aG + curvature give

    f* >= G(X) - <g, X> + aG/2 |X|^2 - phi(y) + min over V of <c, V> + w/2 |V|^2 + h(V),

c = g - aG X + K'y. The last minimum is one proximal step at A = -c/w. The weak proximal oracle
bounds its value from below even if its SVD is truncated. Without strong convexity, w = 0, the
minimum is -h*(-c), which is finite only for bounded sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, eps_of, inner, norm, sqnorm
from weakprox.linalg.bounds import EXACT_BELOW, THOROUGH, factored_bound
from weakprox.linalg.lowrank import LowRank, dense
from weakprox.metering import tangent
from weakprox.penalties.proximal import proximal_dual
from weakprox.problem import Problem
from weakprox.protocols import Dual, DualPoint, DualRecord, Penalty, Tolerance, WeakProx
from weakprox.spectral.singular import values_lower

GRADIENT = 16  # roundings of the terms of a gradient, over four
FEW = 24  # triplets up to which a decomposition from its own basis is cheaper


@dataclass(frozen=True)
class FixedDual(DualRecord):
    """A dual point of the penalty, and the point at which G is linearised with it."""

    penalty: Penalty
    y: Dual
    at: LowRank | Array | None = None

    @property
    def large(self) -> tuple[Any, ...]:
        return (self.y,)

    def target(self, X: Array, G: Array, weight: float) -> float:
        """Overwrite G by X - (G + curvature X + K'y)/weight and return phi(y)."""
        arrays.add_scaled(G, 1.0, self.penalty.pull(self.y))
        arrays.reflect(G, 1.0 / weight, X, 1.0 - self.penalty.curvature / weight)
        return self.penalty.dual_value(self.y)


@dataclass(frozen=True)
class SplitDual(DualRecord):
    """The dual points of a splitting: w (A - V) for h, V proximal at A, and y for R.

    If y is not given, it is that of prox_{R/w} at 2V - A - (g + curvature V)/w.
    """

    penalty: Penalty
    A: Array
    weight: float
    prox: WeakProx
    y: Dual | None = None

    @property
    def at(self) -> LowRank:
        """The point at which G is linearised."""
        return self.prox.V

    @property
    def large(self) -> tuple[Any, ...]:
        return self.A, self.y

    @property
    def warm(self) -> SplitDual:
        return self

    def target(self, X: Array, G: Array, weight: float) -> float:
        """Overwrite G as in `FixedDual`; G must be the gradient at X."""
        y = self.y
        if y is None:
            y = reflected_dual(self.penalty, X, G, self.A, self.weight)
        return FixedDual(self.penalty, y).target(X, G, weight)


@dataclass(frozen=True)
class ValuesDual(FixedDual):
    """A dual point whose bound is computed from all singular values, without vectors.

    It comes from a step of a splitting, and `split` has the dual points of that step.
    """

    split: SplitDual | None = None

    @property
    def warm(self) -> SplitDual | None:
        return self.split


def inactive_prox(
    problem: Problem, prox: WeakProx, weight: float, length: float, accuracy: float
) -> WeakProx | None:
    """The proximal step with u = 0 as dual point of h, whose conjugate needs no proof.

    None unless h has almost no effect at V, such as a ball that contains A: `length`, the
    squared norm of A - V, must cost less than the accuracy.
    """
    if problem.of_spectral.form is None:  # if h is negative somewhere, h*(0) is not zero
        return None
    w = problem.loss.strong_convexity + problem.penalty.curvature
    if not problem.spectral.value(prox.V) + weight**2 * length / (2 * w) <= accuracy:
        return None
    return replace(prox, conjugate=0.0, shrink=0.0, rests_on="exact")


def factored_prox(
    problem: Problem, A: Array, prox: WeakProx, weight: float, along: float, accuracy: float
) -> WeakProx | None:
    """The proximal step with a conjugate that is proved by a Cholesky factorisation.

    `along` is <A - V, V>. None if h is not a function of singular values, if a decomposition is
    as cheap, or if the conjugate would cost more than the accuracy.
    """
    form, V = problem.of_spectral.form, prox.V
    if form is None or V.rank < FEW or min(A.shape) <= EXACT_BELOW:
        return None
    h, along = problem.spectral.value(V), weight * along
    if math.isfinite(form.tau):  # largest norm of u at which Young's inequality is tight enough
        level = form.lam + (along - h + accuracy) / form.tau
    else:
        level = form.lam * along / (h - accuracy) if h > accuracy else math.inf
    rounding = max(16, V.rank) * eps_of(A) * norm(A)  # of A - V
    if not math.isfinite(level) or not level / weight > rounding:
        return None
    D = LowRank(*(arrays.wide(x) for x in (V.U, V.s, V.Vt))).dense()
    D *= -1.0
    D += A
    found = factored_bound(D, [level / weight - rounding], symmetric=form.symmetric)
    if not math.isfinite(found):
        return None
    conjugate, shrink = form.conjugate(level)
    return replace(prox, conjugate=conjugate, shrink=shrink, rests_on="exact")


def split_bound(
    problem: Problem,
    split: SplitDual,
    *,
    rng: np.random.Generator,
    accuracy: float,
    arena: arrays.Arena,
    X: Array | None = None,
    used: list[WeakProx] | None = None,
) -> tuple[float, str]:
    """Lower bound on min f from the dual points of a splitting, and what it rests on.

    With u a dual point of h, each of the three terms of f is bounded below, which gives

        f* >= G(X) + c/2 |X|^2 + <K'y + u, X> - phi(y) - h*(u) - |q|^2/(2w),

    c the curvature of R, q = g + c X + K'y + u, which vanishes at a solution. No new
    decomposition is needed if that of the proximal step was complete. If it was truncated,
    the norm of u is proved by a factorisation. If that fails, the decomposition is repeated
    from its own basis, with a proof for the part it leaves out. If h has no effect at X (for
    example, a ball with X inside), u = 0 needs no proof. X is the proximal point as an array,
    if it is known. The proximal step that the bound rests on is appended to `used`.
    """
    loss, prox, R = problem.loss, split.prox, problem.penalty
    A, weight, V = split.A, split.weight, prox.V
    h, slope = problem.spectral.value(V), prox.shrink * weight
    if X is None:
        X = dense(V, arena.like(A))
    along, square = inner(A, X), V.sqnorm
    young = h + prox.conjugate - slope * (along - square)
    sizes = abs(h) + abs(prox.conjugate) + slope * (abs(along) + square)
    proved = None
    if not young <= accuracy:
        length = max(0.0, sqnorm(A) - 2.0 * along + square)
        proved = inactive_prox(problem, prox, weight, length, accuracy) or factored_prox(
            problem, A, prox, weight, along - square, accuracy
        )
    if proved is not None:
        prox = proved
    elif not young <= accuracy:
        rank, tolerance = min(V.rank + 2, *problem.shape), Tolerance(2 * accuracy / weight)
        how: Any = {"rank": rank, "tolerance": tolerance, "start": prox.basis, "rng": rng}
        prox = problem.spectral.weak_prox(A, weight=weight, certify=True, **how)
    if young < -64 * eps_of(A) * sizes * math.sqrt(V.most):
        return -math.inf, prox.rests_on  # no conjugate is that small: a term is inconsistent
    if used is not None:
        used.append(prox)
    if prox.V is not V:
        X = dense(prox.V, arena.like(A))
    value, g = tangent(loss, X, arena.like(A))
    whole = not (R.rowwise and R.separable)
    sums = np.zeros(len(_TERMS))
    slope = prox.shrink * weight
    for rows in [slice(None)] if whole else arrays.row_blocks(X):
        sums += _terms(R, X[rows], g[rows], A[rows], weight, slope, split.y)
    terms = dict(zip(_TERMS, sums, strict=True))
    w = loss.strong_convexity + R.curvature
    size, target = math.sqrt(terms["X"]), math.sqrt(terms["A"])
    entries = math.sqrt(terms["g"]) + math.sqrt(terms["s"]) + (R.curvature + slope) * size
    if problem.of_loss.centre is None and math.isfinite(loss.smoothness):
        # rounding errors of a gradient are relative to its largest terms, H X and grad G(0)
        entries += GRADIENT * (math.sqrt(terms["g"]) + 2.0 * loss.smoothness * size)
    far = math.sqrt(terms["q"]) + 4 * eps_of(A) * (entries + slope * target)
    bound = value + 0.5 * R.curvature * terms["X"] + terms["along"] + terms["across"]
    bound -= terms["phi"] + prox.conjugate + far**2 / (2 * w)
    scale = abs(value) + R.curvature * terms["X"] + abs(terms["along"]) + abs(terms["phi"])
    rounding = 64 * eps_of(A) * (scale + abs(prox.conjugate))
    return bound - rounding - 4 * eps_of(A) * slope * target * size, prox.rests_on


_TERMS = ("g", "s", "X", "A", "q", "along", "across", "phi")


def _terms(
    R: Penalty, X: Array, g: Array, A: Array, weight: float, slope: float, y: Dual | None
) -> Any:
    """Sums of `split_bound` over rows, in the order of `_TERMS`; g becomes q."""
    gradient = sqnorm(g)
    y = reflected_dual(R, X, g, A, weight) if y is None else y
    s, phi = R.pull(y), R.dual_value(y)
    u = slope * A
    u -= slope * X
    along, across = inner(s, X), inner(u, X)
    g += s
    g += u
    if R.curvature:
        g += R.curvature * X
    return np.array([gradient, sqnorm(s), sqnorm(X), sqnorm(A), sqnorm(g), along, across, phi])


def reflected_dual(R: Penalty, X: Array, g: Array, A: Array, weight: float) -> Dual:
    """Dual point of prox_{R/weight} at 2X - A - (g + curvature X)/weight."""
    step = 1.0 / weight
    target = g * -step
    target += (2.0 - step * R.curvature) * X
    target -= A
    return proximal_dual(R, target, step)


def lower_bound(
    problem: Problem,
    X: Array,
    dual: DualPoint,
    *,
    rank: int,
    rng: np.random.Generator,
    accuracy: float = 0.0,
    reached: float = math.inf,
    scratch: Array | None = None,
) -> tuple[float, str]:
    """Lower bound on min f, and what it rests on; G must be a finite sum.

    `accuracy` is the loss in the bound allowed for an inexact decomposition, in units of f.
    `reached` is a value of f, which limits the size of a minimiser if nothing else does.
    `scratch`, an array like X, may be overwritten.
    """
    loss = problem.loss
    a = loss.strong_convexity
    w = a + problem.penalty.curvature
    value, A = tangent(loss, X, scratch)
    linear, square = inner(A, X), sqnorm(X)
    if value == -math.inf:
        return value, "exact"  # no affine function below G was found
    sizes = abs(value) + abs(linear)
    if w == 0.0:
        # Rounding errors of X and of the gradient remain in A even if their sum is small. Every
        # minimiser has length at most `longest`, which limits their effect.
        radius, offers = problem.radius(reached), problem.of_spectral
        longest = offers.diameter
        if longest is None:
            longest = radius if math.isfinite(radius) else 0.0
        carried = longest * (norm(A) + norm(X))
        phi = dual.target(X, A, 1.0)
        A -= X  # now -c
        within = offers.conjugate_within
        if within is not None and math.isfinite(radius):
            conjugate = within(A, radius, rng)
        else:
            conjugate = problem.spectral.conjugate(A, rng)
        scale = sizes + abs(phi) + abs(conjugate) + carried
        rests_on = "exact" if min(X.shape) <= THOROUGH else "high-probability"
        return value - linear - phi - conjugate - 64 * eps_of(A) * scale, rests_on
    phi = dual.target(X, A, w)  # A = X - (g + curvature X + K'y)/w = -c/w
    form = problem.of_spectral.form
    if isinstance(dual, ValuesDual) and form is not None:
        lower, rests_on = values_lower(A, w, form), "exact"
    else:
        if min(X.shape) <= EXACT_BELOW:
            rank = min(X.shape)  # all values are computed anyway, so none needs a bound
        how: Any = {"tolerance": Tolerance(2 * accuracy / w), "certify": True, "rng": rng}
        prox = problem.spectral.weak_prox(A, weight=w, rank=rank, **how)
        lower, rests_on = prox.lower, prox.rests_on
    size = sqnorm(A)
    bound = value - linear + 0.5 * a * square - phi + lower - 0.5 * w * size
    # Generous allowance for the rounding errors of each sum: the bound must never be too large.
    scale = sizes + a * square + abs(phi) + w * size
    return bound - 64 * eps_of(A) * scale, rests_on
