"""The theorems' parameters for a given problem, and Table 2 for given constants.

Numbering follows the compiled paper's text as used in the docs: Theorem 1 (stochastic),
the finite-sum theorem, Theorem 3 (nonsmooth). Two constant sets: "paper", as printed, and
"repaired", which closes a gap in Lemma 1 for the stochastic setting (the snapshot's error
is correlated with the iterates) by more inner samples and steps; see docs/theory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from weakprox.arguments import (
    nonnegative,
    number,
    one_of,
    optional_numbers,
    positive,
    seed_number,
)
from weakprox.display import counted, table
from weakprox.errors import InputError
from weakprox.hints import needs_problem
from weakprox.linalg.arrays import Array, add_scaled, inner, sqnorm, zeros
from weakprox.metering import Budget, Meter, MeteredLoss
from weakprox.penalties import Smoothed
from weakprox.problem import Constants, Problem
from weakprox.theory.gradients import mean_gradient

ConstantSet = Literal["paper", "repaired", "practical"]
PILOT = 64  # samples for sigma and C0 where G is only sampled
LN8, LN16 = math.log(8.0), math.log(16.0)
MORE_EPOCHS = 2  # further epochs of a practical run, if the planned ones do not prove eps
SNAPSHOT = 32.0  # k_s = SNAPSHOT sigma^2 / (alpha C0) 2^(s - 1), Theorem 1
FRESH = 15.0 / 7.0  # the same for every step without variance reduction, see `k_fresh`


# The meaning of each symbol, in the order in which they are shown.
MEANINGS = {
    "eps": "accuracy in the value that the run is to reach",
    "alpha": "strong convexity of G + R",
    "beta_G": "smoothness of G",
    "beta_term": "smoothness of the worst sampled term",
    "beta_R": "smoothness of R after smoothing",
    "beta": "smoothness of G and the smoothed R together",
    "sigma": "standard deviation of one term's gradient, over the whole matrix",
    "C0": "bound on the initial gap",
    "mu": "smoothing of R; 0 if nothing is smoothed",
    "bias": "largest distance of the smoothed f below f",
    "delta": "allowed error of the weak proximal oracle",
    "delta2": "allowed increase of f due to the rank",
    "eta": "step size",
    "S": "the theorem bounds the iterate after S - 1 epochs",
    "T": "steps of an epoch, plus one",
    "k_s": "samples of the first epoch's snapshot, doubled in each epoch if G is sampled",
    "k_t": "samples of an inner step; 0 where samples cancel",
}


@dataclass(frozen=True)
class Parameters:
    """The parameters with which Algorithm 1 or 2 reaches eps in expectation."""

    eps: float  # accuracy
    mu: float  # smoothing, 0 if nothing is smoothed
    delta: float  # the oracle's delta1
    delta2: float
    alpha: float  # constants of the smoothed problem; with the paper's constants beta_G is
    beta_G: float  # beta_term, the smoothness of the worst sampled term
    beta_R: float
    beta: float
    beta_term: float
    sigma: float
    C0: float  # bound on the initial gap
    inner: int  # steps per epoch, T - 1
    eta: float  # step, alpha / (2 beta); alpha / beta for "practical" runs without inner noise
    first_batch: float  # unrounded snapshot samples of the first epoch, 0 for a finite sum
    k_t: int  # inner samples per step, 0 where samples cancel
    S: int  # the theorem bounds X_S, so S - 1 epochs are run
    finite_sum: bool  # Algorithm 2 rather than Algorithm 1
    constants: str  # the constant set; `bound` is infinite for "practical"
    n_terms: int = field(default=0, repr=False)
    bias: float = 0.0  # gamma mu, how far the smoothed f lies below f
    pilot: int = 0  # samples spent on estimating sigma and C0

    @property
    def T(self) -> int:
        """The paper's T, inner steps plus one."""
        return self.inner + 1

    @property
    def epochs(self) -> int:
        """Epochs to run."""
        return self.S - 1

    def k_s(self, epoch: int) -> int:
        """Snapshot samples of an epoch (from 1); all terms for a finite sum."""
        if self.finite_sum:
            return self.n_terms
        return max(1, math.ceil(self.first_batch * 2.0 ** (epoch - 1)))

    def k_fresh(self, epoch: int) -> int:
        """Samples of every step of an epoch (from 1) without variance reduction.

        With k fresh samples a step, Lemma 1 has sigma^2/k in place of Lemma 2's variance.
        An epoch then gives h_{s+1} <= h_s/16 + 15/16 sigma^2/(alpha k) and terms in delta,
        since (1 - eta)^(T-1) <= 1/16. With k = 15/7 sigma^2/(alpha C0) 2^(s-1) that is
        half of C0 2^-(s-1), as the theorem states.
        """
        if self.finite_sum:
            return self.n_terms
        share = FRESH / SNAPSHOT
        return max(1, math.ceil(share * self.first_batch * 2.0 ** (epoch - 1)))

    @property
    def contraction(self) -> float:
        """Share of the error that one inner step removes: an epoch leaves an eighth."""
        return min(1.0, math.log(8.0) / self.inner)

    @property
    def predicted_svds(self) -> int:
        """Calls of the weak proximal oracle."""
        return self.epochs * self.inner

    @property
    def predicted_samples(self) -> int:
        """Samples drawn: pilot, snapshots and inner batches."""
        inner = self.epochs * (self.inner - 1) * self.k_t
        if self.finite_sum:
            return 0 if self.k_t >= self.n_terms else inner
        return self.pilot + inner + sum(self.k_s(s) for s in range(1, self.epochs + 1))

    @property
    def predicted_gradients(self) -> int:
        """Gradients of single terms: an inner sample costs two."""
        snapshots = sum(self.k_s(s) for s in range(1, self.epochs + 1))
        if self.finite_sum and self.k_t >= self.n_terms:
            return snapshots + self.epochs * (self.inner - 1) * self.n_terms
        return snapshots + 2 * self.epochs * (self.inner - 1) * self.k_t

    def bound(self, epoch: int) -> float:
        """The theorem's bound on E f(X_s) - f*, s counted from 1."""
        if self.constants == "practical":
            return math.inf
        rate = 5.0 / 12.0 if self.finite_sum else 0.5
        oracle = 8.0 / 7.0 * self.alpha * self.delta + 16.0 / 7.0 * self.delta2
        return self.C0 * rate ** (epoch - 1) + oracle + 23.0 / 7.0 * self.bias

    @property
    def letters(self) -> dict[str, tuple[float, str]]:
        """The value and the meaning of each letter, by its name."""
        found = {name: getattr(self, name) for name in MEANINGS}
        found["k_s"] = self.k_s(1)
        return {name: (value, MEANINGS[name]) for name, value in found.items()}

    def _repr_html_(self) -> str:
        """A table of the letters, their values and their meaning, for notebooks."""
        rows = [(name, *both) for name, both in self.letters.items()]
        kind = "finite sum (Algorithm 2)" if self.finite_sum else "sampled (Algorithm 1)"
        note = f"Predicted: {counted(self.predicted_svds, 'SVD')}, "
        note += f"{counted(self.predicted_samples, 'sample')}, "
        note += f"{counted(self.predicted_gradients, 'gradient')} of single terms."
        title = f"Parameters of SVRGCG, {kind}, {self.constants} constants"
        return table(title, ("letter", "value", "meaning"), rows, [note])

    def __str__(self) -> str:
        kind = "finite sum (Algorithm 2)" if self.finite_sum else "sampled (Algorithm 1)"
        growth = "" if self.finite_sum else " in the first epoch, doubling"
        return "\n".join(
            [
                f"SVRGCG, {kind}, {self.constants} constants, eps = {self.eps:.4g}",
                f"  alpha {self.alpha:.4g}, beta {self.beta:.4g} = G {self.beta_G:.4g} + "
                f"R {self.beta_R:.4g}, worst term {self.beta_term:.4g}, "
                f"sigma {self.sigma:.4g}, C0 {self.C0:.4g}",
                f"  mu {self.mu:.4g}, delta {self.delta:.4g}, eta {self.eta:.4g}",
                f"  {counted(self.epochs, 'epoch')} (S = {self.S}) of {self.inner} steps "
                f"(T = {self.T}); k_s = {self.k_s(1)}{growth}; k_t = {self.k_t}",
                f"  predicted: {counted(self.predicted_svds, 'SVD')}, {self.predicted_samples} "
                f"samples, {counted(self.predicted_gradients, 'gradient')}",
            ]
        )


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
    seed: int | np.random.Generator | None = 0,
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
        "practical" gives the limits of `AdaptiveSVRGCG`: its last mu, and the largest numbers
        of steps and samples.
    mu, C0, sigma, delta, eta : float, optional
        Values to use instead of the theorems': smoothing, bound on the initial gap, gradient
        noise, oracle accuracy delta1, step size.
    delta2 : float
        Allowed increase of the value due to the requested rank (Definition 2 of the paper).
    start : array, optional
        First point, zero by default; C0 refers to it.
    seed : int, Generator or None
        For estimates if G is known through samples only.
    loss : object
        The problem's loss, wrapped for counting (used by the solver).
    """
    eps = positive("eps", eps)
    if not isinstance(problem, Problem):
        raise needs_problem(problem)
    optional_numbers(mu=mu, C0=C0, sigma=sigma, delta=delta, eta=eta)
    delta2 = nonnegative("delta2", delta2)
    room = eps - 16.0 / 7.0 * delta2
    if room <= 0:
        raise InputError("delta2", delta2, f"between 0 and 7/16 of eps = {eps:g}")
    one_of("constants", constants, ("paper", "repaired", "practical"))
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
    repaired, practical = constants != "paper" and not finite, constants == "practical"
    k_t = _inner_batch(problem, c, beta, step, constants, repaired)
    quiet = k_t == 0 or (finite and 2 * k_t >= problem.loss.n_terms)
    if practical and quiet and eta is None:
        step = c.alpha / beta  # twice as long without noise
    if delta is None:
        delta = 7.0 * room / ((32.0 if smoothing else 16.0) * c.alpha)
    X = zeros(problem.shape, problem.loss.reference) if start is None else start
    before = loss.samples_drawn
    rng = np.random.default_rng([seed_number("seed", seed), 1])
    if sigma is None:
        sigma = 0.0 if finite else estimate_sigma(problem, loss, rng)
    if C0 is None:
        C0 = initial_gap(problem, smooth, loss, X, c.alpha, rng)
    if not math.isfinite(C0):
        given = "a first point where f is infinite (zero, if none was given)"
        raise InputError("start", given, "a feasible one")
    C0 = max(float(C0), np.finfo(float).tiny)
    inner = (16.0 / 5.0 if repaired else 8.0 / 3.0) * beta / c.alpha * LN8
    if practical:  # an epoch also has to compensate for the next one's smaller mu
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
    problem: Problem, c: Constants, beta: float, eta: float, constants: str, repaired: bool
) -> int:
    """k_t = 16 L^2/(alpha beta eta), that is 32 (L/alpha)^2 at the default step.

    If the terms are convex, co-coercivity replaces one L/alpha by 1.
    """
    if problem.loss.samples_cancel:
        return 0
    factor = 32.0 if repaired else 16.0
    squared = factor * c.beta_term**2 / (c.alpha * beta * eta)
    linear = factor * c.beta_term / (beta * eta)
    return max(1, math.ceil((squared if constants == "paper" else min(squared, linear)) - 1e-9))


def estimate_sigma(problem: Problem, loss: Any, rng: np.random.Generator) -> float:
    """Return the declared noise, or the largest deviation at some feasible points."""
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
    """Return a bound on f_mu(X_1) - f_mu* from the gradient there.

    The Frank-Wolfe gap h(X) + <g, X> + h*(-g), and strong convexity with the proximal
    minimum: h(X) + |g|^2/(2 alpha) - min over V of alpha/2 |V - X + g/alpha|^2 + h(V),
    which is never more than |g|^2/(2 alpha) for h >= 0. With sampled gradients it is an
    estimate, too large in the mean.
    """
    size = None if problem.loss.is_finite_sum else PILOT
    grad = mean_gradient(loss, X, rng, size)
    add_scaled(grad, 1.0, smooth.grad(X))
    h = problem.spectral.value(problem.factored(X, np.random.default_rng(0)))
    linear, square = inner(grad, X), sqnorm(grad)
    grad *= -1.0
    wolfe = h + linear + problem.spectral.conjugate(grad, rng)
    grad *= 1.0 / alpha
    grad += X  # now the proximal target X - gradient/alpha
    rank = min(16, *problem.shape)
    prox = problem.spectral.weak_prox(grad, weight=alpha, rank=rank, certify=True, rng=rng)
    strong = h + square / (2 * alpha) - prox.lower
    return max(0.0, min(wolfe, strong))


@dataclass(frozen=True)
class Complexity:
    """Leading terms for one method; constants and lower-order terms are left out."""

    method: str  # SFW, SCGS, Algorithm 1 (G sampled), STORC or Algorithm 2 (finite sum)
    exact_gradients: float  # passes over all terms
    stochastic_gradients: float  # gradients of single terms
    svd_rank: int  # of each decomposition
    svds: float

    def __str__(self) -> str:
        return (
            f"{self.method:<12} {self.exact_gradients:>10.3g} "
            f"{self.stochastic_gradients:>10.3g} {self.svd_rank:>5} {self.svds:>10.3g}"
        )


def complexity(p: Parameters, *, tau: float, rank: int) -> tuple[Complexity, ...]:
    """Evaluate the rows of the paper's Table 2.

    Parameters
    ----------
    p : Parameters
        Constants of a problem, from `weakprox.theory.parameters`.
    tau : float
        Radius of the nuclear-norm ball, or bound on the trace.
    rank : int
        Rank of the optimum, which is that of the SVDs of Algorithms 1 and 2.
    """
    if not isinstance(p, Parameters):
        raise InputError(
            "p", type(p).__name__, "the return value of weakprox.theory.parameters"
        )
    tau = number("tau", tau, "a number > 0")
    rounds = max(1.0, math.log(p.C0 / p.eps))  # the table's ln(1/eps), free of units
    condition = p.beta / p.alpha
    linear = p.beta * tau**2 / p.eps  # SVDs of methods that solve linear subproblems
    optimal = p.sigma**2 / (p.alpha * p.eps)
    reduced = p.beta_term**2 * p.beta / p.alpha**3 * rounds
    return (
        Complexity("SFW", 0, p.sigma**2 * p.beta * tau**4 / p.eps**3, 1, linear),
        Complexity("SCGS", 0, optimal, 1, linear),
        Complexity("Algorithm 1", 0, optimal, rank, condition * rounds),
        Complexity("STORC", rounds, condition**2 * rounds, 1, linear),
        Complexity("Algorithm 2", rounds, reduced, rank, condition * rounds),
    )
