"""The theorems' parameters, worked out for a problem.

Numbering follows the compiled paper's text as used in the docs: Theorem 1 (stochastic),
the finite-sum theorem, Theorem 3 (nonsmooth). Two constant sets: "paper", as printed, and
"repaired", which closes a gap in Lemma 1 for the stochastic setting (the snapshot's error
is correlated with the iterates) by more inner samples and steps; see docs/theory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from weakprox.arguments import nonnegative, positive
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, inner, sqnorm, zeros
from weakprox.linalg.kernels import add_scaled
from weakprox.linalg.lowrank import LowRank
from weakprox.metering import Budget, Meter, MeteredLoss
from weakprox.penalties import Smoothed
from weakprox.problem import Constants, Problem
from weakprox.theory._complexity import Complexity, complexity
from weakprox.theory._parameters import SNAPSHOT, Parameters
from weakprox.theory.gradients import mean_gradient

__all__ = ["Complexity", "Parameters", "complexity", "parameters"]

ConstantSet = Literal["paper", "repaired", "practical"]
PILOT = 64  # samples for sigma and C0 where G is only sampled
LN8, LN16 = math.log(8.0), math.log(16.0)
MORE_EPOCHS = 2  # of a practical run, should its plan end before the gap proves eps


def parameters(
    problem: Problem,
    eps: float,
    *,
    constants: ConstantSet = "repaired",
    mu: float | None = None,
    C0: float | None = None,
    sigma: float | None = None,
    delta: float | None = None,
    delta2: float = 0.0,
    eta: float | None = None,
    start: Array | None = None,
    seed: int = 0,
    loss: Any = None,
) -> Parameters:
    """Parameters with which Algorithm 1 or 2 reaches eps in expectation.

    Parameters
    ----------
    problem : Problem
        The problem; G + R must be strongly convex.
    eps : float
        Accuracy in the value of f.
    constants : {"repaired", "paper", "practical"}
        "repaired" (default) also uses the smaller batches that convex terms allow,
        linear in beta/alpha. "paper" is as printed: there beta_G is the smoothness of
        the worst term, sup |A|_F^2 in Example 3, where the other sets use that of G.
        "practical" are the limits within which `SVRGCG(constants="practical")` chooses:
        its last mu, most steps and samples.
    mu, C0, sigma, delta, eta : float, optional
        Override what would be worked out: smoothing, bound on the initial gap, gradient
        noise, oracle accuracy delta1, step.
    delta2 : float
        What the rank asked for may cost in value (Definition 2 of the paper).
    start : array, optional
        First point, zero by default; C0 refers to it.
    seed : int
        For estimates where G is only sampled.
    loss : object
        The problem's loss, wrapped for counting (used by the solver).
    """
    eps = positive("eps", eps)
    if not isinstance(problem, Problem):
        raise InputError("problem", type(problem).__name__, "a weakprox.Problem")
    check_overrides(mu=mu, C0=C0, sigma=sigma, delta=delta, delta2=delta2, eta=eta)
    room = eps - 16.0 / 7.0 * delta2
    if delta2 < 0 or room <= 0:
        raise InputError("delta2", delta2, f"between 0 and 7/16 of eps = {eps:g}")
    if constants not in ("paper", "repaired", "practical"):
        raise InputError("constants", repr(constants), "'paper', 'repaired' or 'practical'")
    if loss is None:
        loss = MeteredLoss(problem.loss, Meter(Budget()))
    c = problem.constants()
    smoothing = c.theta > 0 and c.gamma > 0
    if mu is None:
        mu = 7.0 * room / (92.0 * c.gamma) if smoothing else 0.0
    elif smoothing:
        mu = positive("mu", mu)
    smooth = Smoothed.of(problem.penalty, mu, problem.shape)
    finite = bool(problem.loss.is_finite_sum)
    beta_G = max(c.beta_G, c.beta_term) if constants == "paper" else c.beta_G
    beta = beta_G + smooth.smoothness
    step = c.alpha / (2 * beta) if eta is None else positive("eta", eta)
    k_t = _inner_batch(problem, c, beta, step, constants, constants != "paper" and not finite)
    practical = constants == "practical"
    quiet = k_t == 0 or (finite and 2 * k_t >= problem.loss.n_terms)
    if practical and quiet and eta is None:
        step = c.alpha / beta  # without noise, half of the caution is enough
    if delta is None:
        delta = 7.0 * room / ((32.0 if smoothing else 16.0) * c.alpha)
    X = zeros(problem.shape, problem.loss.reference) if start is None else start
    before = loss.samples_drawn
    rng = np.random.default_rng([seed, 1])
    if sigma is None:
        sigma = 0.0 if finite else estimate_sigma(problem, loss, rng)
    if C0 is None:
        C0 = initial_gap(problem, smooth, loss, X, c.alpha, rng)
    if not math.isfinite(C0):
        given = "a first point where f is infinite (zero, if none was given)"
        raise InputError("start", given, "a feasible one")
    C0 = max(float(C0), np.finfo(float).tiny)
    repaired = constants != "paper" and not finite
    inner = (16.0 / 5.0 if repaired else 8.0 / 3.0) * beta / c.alpha * LN8
    if practical:  # an epoch must also make up for the smoothing that the next one loses
        inner *= (3.0 / 8.0 if quiet else 1.0) * LN16 / LN8
    ratio = math.log(12 / 5) if finite and not practical else math.log(2)
    S = math.ceil((math.log(2 * C0) - math.log(room)) / ratio + 1 - 1e-12)
    S += MORE_EPOCHS if practical and finite else 0
    return Parameters(
        eps=eps,
        mu=mu,
        delta=delta,
        delta2=delta2,
        alpha=c.alpha,
        beta_G=beta_G,
        beta_R=smooth.smoothness,
        beta=beta,
        beta_term=c.beta_term,
        sigma=sigma,
        C0=C0,
        inner=math.ceil(inner - 1e-9),
        eta=step,
        first_batch=0.0 if finite else SNAPSHOT * sigma**2 / (c.alpha * C0),
        k_t=k_t,
        S=max(2, S),
        finite_sum=finite,
        constants=constants,
        n_terms=problem.loss.n_terms if finite else 0,
        bias=smooth.bias,
        pilot=loss.samples_drawn - before,
    )


def _inner_batch(
    problem: Problem,
    c: Constants,
    beta: float,
    eta: float,
    constants: str,
    repaired: bool,
) -> int:
    """k_t = 16 L^2/(alpha beta eta), that is 32 (L/alpha)^2 at the default step.

    Where the terms are convex, co-coercivity replaces one L/alpha by 1.
    """
    if problem.loss.samples_cancel:
        return 0
    factor = 32.0 if repaired else 16.0
    squared = factor * c.beta_term**2 / (c.alpha * beta * eta)
    linear = factor * c.beta_term / (beta * eta)
    return max(1, math.ceil((squared if constants == "paper" else min(squared, linear)) - 1e-9))


def estimate_sigma(problem: Problem, loss: Any, rng: np.random.Generator) -> float:
    """Gradient noise: declared, or the largest sample deviation at some feasible points."""
    known = problem.loss.sigma
    if known is not None:
        return float(known)
    batch = loss.draw(rng, PILOT)
    ref = problem.loss.reference
    points = [zeros(problem.shape, ref)]
    if not problem.loss.samples_cancel:  # otherwise the noise is the same everywhere
        points += [
            problem.spectral.random_point(rng, problem.shape, 1, ref).dense() for _ in range(3)
        ]
    return math.sqrt(max(loss.spread(X, batch) for X in points))


def initial_gap(
    problem: Problem,
    smooth: Smoothed,
    loss: Any,
    X: Array,
    alpha: float,
    rng: np.random.Generator,
) -> float:
    """Bound on f_mu(X_1) - f_mu* from the gradient there (safe formulas).

    The Frank-Wolfe gap h(X) + <g, X> + h*(-g), and strong convexity with the proximal
    minimum: h(X) + |g|^2/(2 alpha) - min over V of alpha/2 |V - X + g/alpha|^2 + h(V),
    which is never more than |g|^2/(2 alpha) for h >= 0. Sampled gradients make it an
    estimate that errs upwards in the mean.
    """
    size = None if problem.loss.is_finite_sum else PILOT
    grad = mean_gradient(loss, X, rng, size)
    add_scaled(grad, 1.0, smooth.grad(X))
    h = problem.spectral.value(_factored(problem, X))
    linear, square = inner(grad, X), sqnorm(grad)
    grad *= -1.0
    wolfe = h + linear + problem.spectral.conjugate(grad, rng)
    grad *= 1.0 / alpha
    grad += X  # now the proximal target X - gradient/alpha
    rank = min(16, *problem.shape)
    prox = problem.spectral.weak_prox(grad, weight=alpha, rank=rank, certify=True, rng=rng)
    strong = h + square / (2 * alpha) - prox.lower
    return max(0.0, min(wolfe, strong))


def _factored(problem: Problem, X: Array) -> LowRank:
    """The first point as factors; the zero matrix needs no decomposition."""
    if sqnorm(X) == 0.0:
        return LowRank.zero(problem.shape, X)
    rng = np.random.default_rng(0)
    return problem.spectral.compress(X, min(problem.shape), rng)


def check_overrides(**settings: float | None) -> None:
    """Raise unless every setting is a number >= 0, or None."""
    for name, value in settings.items():
        if value is not None:
            nonnegative(name, value)


Schedule = float | int | Callable[..., float] | None


def scheduled(value: Schedule, default: float, *where: int) -> float:
    """A setting that may be a number, a callable of (epoch[, step]), or left to theory."""
    if value is None:
        return default
    return float(value(*where)) if callable(value) else float(value)
