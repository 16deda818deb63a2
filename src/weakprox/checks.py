"""Checks of custom terms against the properties that they declare.

Each function raises `CheckError` with the numbers that disagree, and returns None if the
check passes. The library's own tests run them on every built-in term.
"""

from __future__ import annotations

import math

import numpy as np

from weakprox.errors import WeakproxError
from weakprox.linalg.arrays import Array, eps_of, gaussian, inner, norm, sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import SeparableForm
from weakprox.penalties import L1, Box, GroupL2
from weakprox.penalties.base import Smoothed
from weakprox.protocols import (
    Loss,
    Penalty,
    SpectralTerm,
    Tolerance,
    loss_capabilities,
    penalty_capabilities,
    spectral_capabilities,
)

__all__ = [
    "CheckError",
    "check_conjugate",
    "check_gradient",
    "check_smoothing",
    "check_unbiased",
    "check_weak_prox",
]


class CheckError(WeakproxError, AssertionError):
    """A term does not have a property that it declares."""


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise CheckError(message)


def _rounding(like: Array, usual: float) -> float:
    """Relative rounding error to allow: `usual`, or more in single precision."""
    return max(usual, 256 * eps_of(like))


def check_gradient(loss: Loss, *, seed: int = 0, tol: float = 1e-5) -> None:
    """Check the gradient by central differences, its change by the smoothness, and a centre."""
    rng = np.random.default_rng(seed)
    batch = loss.everything() if loss.is_finite_sum else loss.draw(rng, 8)
    X = gaussian(rng, loss.shape, loss.reference)
    D = gaussian(rng, loss.shape, loss.reference)
    D = D / norm(D)
    h = max(1e-4, eps_of(D) ** (1 / 3))
    tol = max(tol, 3 * math.sqrt(eps_of(D)))  # the limit of single precision
    slope = (loss.value(X + h * D, batch) - loss.value(X - h * D, batch)) / (2 * h)
    claimed = inner(loss.grad(X, batch), D)
    scale = 1.0 + abs(slope)
    said = f"directional derivative {slope:.8g}, but the gradient says {claimed:.8g}"
    _require(abs(slope - claimed) <= tol * scale, said)
    if not loss.is_finite_sum:
        return  # a batch may be less smooth than the mean that it estimates
    rounding = 64 * eps_of(D) * norm(loss.grad(X, batch))
    change = norm(loss.grad(X + D, batch) - loss.grad(X, batch))
    said = f"gradient moved by {change:.6g} over distance 1, smoothness {loss.smoothness:.6g}"
    _require(change <= loss.smoothness * (1 + 1e-6) + rounding, said)
    moved = inner(loss.grad(X + D, batch) - loss.grad(X, batch), D)
    said = f"curvature {moved:.6g} below strong_convexity {loss.strong_convexity:.6g}"
    _require(moved >= loss.strong_convexity * (1 - 1e-6) - tol * scale, said)
    centre = loss_capabilities(loss).centre
    if centre is not None:
        found, C = loss.grad(X, batch), centre(batch)
        apart = norm(found - loss.smoothness * (X - C))
        said = f"gradient off by {apart:.6g} from that of a squared distance to the centre"
        _require(apart <= tol * (norm(found) + loss.smoothness * (norm(X) + norm(C))), said)


def check_unbiased(
    loss: Loss, *, seed: int = 0, draws: int = 2000, size: int = 3, deviations: float = 5.0
) -> None:
    """Check that small batches of a finite sum average to its full gradient."""
    rng = np.random.default_rng(seed)
    X = gaussian(rng, loss.shape, loss.reference)
    W = gaussian(rng, loss.shape, loss.reference)
    target = inner(loss.grad(X, loss.everything()), W)
    seen = np.array([inner(loss.grad(X, loss.draw(rng, size)), W) for _ in range(draws)])
    error = float(seen.std(ddof=1)) / np.sqrt(draws)
    said = f"batches average to {seen.mean():.6g} +- {error:.2g}, full gradient {target:.6g}"
    _require(abs(seen.mean() - target) <= deviations * error + 1e-9 * (1 + abs(target)), said)


def check_smoothing(
    penalty: Penalty, like: Array, *, mus: tuple[float, ...] = (1.0, 0.1, 1e-3), seed: int = 0
) -> None:
    """Check that R - gamma mu <= R_mu <= R, and that the gradient of R_mu is bR-Lipschitz.

    A `form` must have the same values, and dual points of `proximal` must lie in Y.
    """
    rng = np.random.default_rng(seed)
    shape = (int(like.shape[0]), int(like.shape[1]))
    rounding, offers = _rounding(like, 1e-9), penalty_capabilities(penalty)
    for mu in mus:
        smooth = Smoothed.of(penalty, mu, shape)
        for spread in (0.1 * mu, mu, 1.0, 30.0):
            X = spread * gaussian(rng, shape, like)
            D = spread * gaussian(rng, shape, like)
            sharp, soft = penalty.value(X), smooth.value(X)
            slack = rounding * (1 + abs(sharp))
            _require(soft <= sharp + slack, f"R_mu {soft:.8g} above R {sharp:.8g}, mu {mu}")
            said = f"R {sharp:.8g} above R_mu + gamma mu {soft + smooth.bias:.8g}, mu {mu}"
            _require(sharp <= soft + smooth.bias + slack, said)
            if offers.form is not None:
                told = _formed(offers.form, X) + 0.5 * penalty.curvature * sqnorm(X)
                said = f"R {sharp:.8g}, but its form says {told:.8g}"
                _require(abs(told - sharp) <= slack, said)
            if offers.proximal is not None:
                y = offers.proximal(X, mu, None)
                pulled = penalty.pull(y)
                apart = norm(penalty.pull(penalty.feasible(y)) - pulled)
                said = f"a dual point of `proximal` is {apart:.6g} outside of Y"
                _require(apart <= rounding * (1 + norm(pulled)), said)
            G0, G1 = smooth.grad(X), smooth.grad(X + D)
            limit = smooth.smoothness * norm(D)
            said = f"gradient of R_mu moved {norm(G1 - G0):.6g}, allowed {limit:.6g}"
            _require(
                norm(G1 - G0) <= limit * (1 + rounding) + 1e-3 * rounding * (1 + norm(G0)), said
            )
            # convexity and the descent lemma bracket the value between the tangents
            ahead = smooth.value(X + D)
            tangent = soft + inner(G0, D)
            roundoff = rounding * (1 + abs(ahead) + abs(tangent))
            said = f"R_mu {ahead:.8g} below its tangent {tangent:.8g}"
            _require(tangent - roundoff <= ahead, said)
            said = f"R_mu {ahead:.8g} above its quadratic upper bound"
            _require(ahead <= tangent + 0.5 * smooth.smoothness * sqnorm(D) + roundoff, said)


def _formed(form: SeparableForm, X: Array) -> float:
    """R(X) by its form, without the curvature."""
    groups = GroupL2(form.rows), GroupL2(form.columns, "columns")
    low, high = form.bounds or (form.low, form.high)
    sides = Box(-math.inf, high, form.above), Box(low, math.inf, form.below)
    entries = sum(side.value(X) for side in sides)
    entries += sum(L1(*pair).value(X) for pair in form.weights)
    return entries + sum(part.value(X) for part in groups)


def check_weak_prox(
    spectral: SpectralTerm,
    A: Array,
    *,
    rank: int,
    weight: float = 1.0,
    delta1: float = 0.0,
    trials: int = 50,
    seed: int = 0,
    certify: bool = False,
) -> None:
    """Check psi(V) <= psi(X) + delta1 for feasible X of rank <= r, + delta for any rank.

    A `form` must have the same values.
    """
    rng = np.random.default_rng(seed)
    shape = (int(A.shape[0]), int(A.shape[1]))
    found = spectral.weak_prox(
        A, weight=weight, rank=rank, tolerance=Tolerance(delta1), certify=certify, rng=rng
    )
    _require(found.V.rank <= rank, f"rank {found.V.rank} above the requested {rank}")
    rounding = max(1e-9, 64 * eps_of(found.V.s))  # of the lengths of float32 vectors
    _require(spectral.violation(found.V) <= rounding, "the oracle's point is not feasible")

    def psi(X: Array, h: float) -> float:
        return sqnorm(X - A) + 2 * h / weight

    mine = psi(found.V.dense(), spectral.value(found.V))
    slack, form = _rounding(A, 1e-8) * (1 + abs(mine)), spectral_capabilities(spectral).form
    said = f"lower bound {found.lower:.8g} above an attained value {0.5 * weight * mine:.8g}"
    _require(0.5 * weight * mine >= found.lower - slack * weight, said)

    def compare(X: LowRank, allowed: float) -> None:
        h = spectral.value(X)
        theirs = psi(X.dense(), h)
        if form is not None:
            size = X.nuclear_norm
            told = form.lam * size if size <= form.tau * (1 + rounding) else math.inf
            said = f"h(X) = {h:.8g}, but its form says {told:.8g}"
            _require(told == h or abs(told - h) <= slack * weight, said)
        said = f"psi(V) {mine:.8g} above psi(X) {theirs:.8g} + {allowed:.3g}, rank {X.rank}"
        _require(mine <= theirs + allowed + slack, said)
        said = f"lower bound {found.lower:.8g} above a feasible value"
        _require(found.lower <= 0.5 * weight * theirs + slack * weight, said)
        linear = found.shrink * weight * (X.inner(A) - X.inner(found.V)) - spectral.value(X)
        said = f"<u, X> - h(X) = {linear:.8g} above the conjugate {found.conjugate:.8g} at u"
        _require(linear <= found.conjugate + slack * weight, said)

    # Random points are seldom descent directions. If V is wrong, multiples of V, solutions
    # for rescaled targets and the solution of full rank are.
    for factor in (0.5, 0.9, 1.1, 2.0):
        compare(LowRank(found.V.U, factor * found.V.s, found.V.Vt), delta1)
        other = spectral.weak_prox(
            factor * A, weight=weight, rank=rank, tolerance=Tolerance(delta1), rng=rng
        )
        compare(other.V, delta1)
    compare(spectral.weak_prox(A, weight=weight, rank=min(shape), rng=rng).V, found.delta)
    for trial in range(trials):
        size = 1 + trial % rank if trial % 2 else min(shape)
        near = trial % 4 < 2  # half of the points are close to V, the hardest case
        X = spectral.random_point(rng, shape, size, A)
        if near:
            blend = 0.9 ** (1 + trial)
            mixed = found.V.plus(X, mine=1 - blend, theirs=blend)
            X = spectral.compress(mixed.dense(), size, rng)
        compare(X, delta1 if size <= rank else found.delta)


def check_conjugate(
    spectral: SpectralTerm, U: Array, *, trials: int = 50, seed: int = 0
) -> None:
    """Check that <U, X> - h(X) does not exceed the conjugate's bound."""
    rng = np.random.default_rng(seed)
    bound = spectral.conjugate(U, rng)
    rounding = _rounding(U, 1e-9)
    shape = (int(U.shape[0]), int(U.shape[1]))
    for trial in range(trials):
        X = spectral.random_point(rng, shape, 1 + trial % min(shape), U)
        reached = X.inner(U) - spectral.value(X)
        said = f"<U, X> - h(X) = {reached:.8g} above the conjugate's bound {bound:.8g}"
        _require(reached <= bound * (1 + rounding) + rounding, said)
