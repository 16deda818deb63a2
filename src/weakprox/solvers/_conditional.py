"""Constants, memory and checks that the projection-free and exact-oracle baselines share.

They all work on the smoothed problem f_mu = G + R_mu, most of them over a bounded set, and
all return their iterate. mu is chosen so that smoothing costs at most half of eps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from weakprox.arguments import optional_numbers
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, add_scaled, zeros
from weakprox.linalg.lowrank import blend_into
from weakprox.penalties import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate, spectral_capabilities
from weakprox.solvers.base import Method
from weakprox.solvers.tools import Tools
from weakprox.theory._theorems import estimate_sigma, initial_gap
from weakprox.theory.gradients import mean_gradient

STRETCH = 64  # iterations of one outer step, for methods that have no epochs
VERTEX = 0.01  # inexactness of vertices, as a share of what the step itself may cost
RANK_OF_PROOF = 8  # triplets a certificate looks at; these methods have no rank of their own


@dataclass(frozen=True)
class Ground:
    """Constants of the smoothed problem, as the baselines' theorems name them.

    Attributes
    ----------
    eps, mu, bias : float
        Accuracy asked for; smoothing; how far f_mu lies below f at most.
    alpha, beta_G, beta, beta_term : float
        Strong convexity; smoothness of G, of f_mu, and of its worst sampled term.
    sigma, diameter : float
        Gradient noise of one sample (0: full gradients are taken); size of the set.
    C0 : float
        Bound on the first error, where the method needs one.
    n_terms : int
        Terms of a finite sum, 0 for a sampler.
    """

    eps: float
    mu: float
    bias: float
    alpha: float
    beta_G: float
    beta: float
    beta_term: float
    sigma: float
    diameter: float
    n_terms: int
    C0: float = math.inf
    predicted_svds: int = 0

    @property
    def target(self) -> float:
        """Accuracy of the smoothed problem: eps less the bias.

        At least half of eps, so that runs end if the user's mu is too large.
        """
        return max(self.eps - self.bias, 0.5 * self.eps)

    def batch(self, size: float) -> int | None:
        """Return the size, rounded up; None for all terms at once."""
        whole = max(1, math.ceil(size - 1e-9))
        full = self.n_terms and (self.sigma == 0.0 or whole >= self.n_terms)
        return None if full else whole


def ground(
    problem: Problem,
    tools: Tools,
    *,
    mu: float | None,
    sigma: float | None = 0.0,
    bounded: bool = True,
) -> Ground:
    """Return the constants of a run; sigma=None estimates the noise from a pilot."""
    c = problem.constants(strongly_convex=False)
    if mu is None:
        mu = tools.eps / (2.0 * c.gamma) if c.theta > 0 and c.gamma > 0 else 0.0
    smooth = Smoothed.of(problem.penalty, mu, problem.shape)
    beta = c.beta_G + smooth.smoothness
    if not beta > 0.0:
        wanted = "a problem with some curvature: a linear one is solved by one vertex"
        raise InputError("smoothness", 0.0, wanted)
    if sigma is None:
        sigma = estimate_sigma(problem, tools.loss, tools.rng(0, 1))
    return Ground(
        eps=tools.eps,
        mu=mu,
        bias=smooth.bias,
        alpha=c.alpha,
        beta_G=c.beta_G,
        beta=beta,
        beta_term=c.beta_term + smooth.smoothness,
        sigma=float(sigma),
        diameter=float(problem.of_spectral.diameter or math.inf) if bounded else math.inf,
        n_terms=problem.loss.n_terms if problem.loss.is_finite_sum else 0,
    )


@dataclass(frozen=True)
class Memory:
    """State between outer steps: the iterate, how many are done, and the SVD's basis."""

    X: Array
    epoch: int
    parameters: Ground
    done: int = 0  # iterations, over all outer steps
    basis: Array | None = None
    rank: int = RANK_OF_PROOF


@dataclass(frozen=True)
class Baseline(Method):
    """Members that all baselines share; they return their iterate."""

    answer: ClassVar[Literal["iterate"]] = "iterate"

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        need_bounded(type(self).__name__, problem)

    def candidate(self, memory: Any) -> Candidate:
        """Return the iterate, a mean of feasible points: h is an indicator."""
        return Candidate(memory.X, None, 0.0, memory.epoch, 0)

    def dual(self, problem: Problem, memory: Any) -> Smoothed:
        """Return the smoothed penalty; its maximiser at X is the dual point of a proof."""
        return Smoothed.of(problem.penalty, memory.parameters.mu, problem.shape)


@dataclass(frozen=True)
class Smoothing(Baseline):
    """Baselines with one smoothing for the whole run."""

    mu: float | None = None

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        super().check(problem)
        self.check_mu(problem)

    def _bound(self, memory: Any) -> float:
        """Return the theorem's bound on E f_mu - f_mu* at the iterate."""
        raise NotImplementedError

    def finished(self, memory: Any) -> bool:
        """Whether the theorem's bound has come down to eps."""
        return bool(self._bound(memory) <= memory.parameters.target)

    def promised(self, memory: Any) -> float:
        """Return the theorem's bound on E f - f*; infinite if vertices are capped."""
        if getattr(self, "max_inner", None) is not None:
            return math.inf
        return self._bound(memory) + float(memory.parameters.bias)

    def check_mu(self, problem: Problem) -> None:
        """Raise unless mu is positive, if there is something to smooth."""
        optional_numbers(mu=self.mu)
        theta = problem.penalty.smoothability(problem.shape).theta
        if self.mu is not None and not self.mu > 0 and theta > 0:
            raise InputError("mu", repr(self.mu), "a number > 0")


def need_bounded(solver: str, problem: Problem) -> None:
    """Raise unless h is the indicator of a bounded set with a linear oracle."""
    term = problem.spectral
    offers = spectral_capabilities(term)
    if offers.extreme is None or offers.diameter is None:
        wanted = f"NuclearBall or TracePSD: {solver} needs a bounded set to minimise over"
        raise InputError("spectral", type(term).__name__, wanted)


def first_point(problem: Problem, X: Array | None) -> Array:
    """Return the user's first point, or zero."""
    return zeros(problem.shape, problem.loss.reference) if X is None else X


def smooth_gradient(
    tools: Tools, R: Smoothed, X: Array, rng: np.random.Generator, size: int | None
) -> Array:
    """Return the gradient of f_mu at X from fresh samples, or all terms if size is None."""
    G = mean_gradient(tools.loss, X, rng, size)
    add_scaled(G, 1.0, R.grad(X))
    return G


def frank_wolfe(
    tools: Tools,
    X: Array,
    G: Array,
    gamma: float,
    *,
    accuracy: float,
    start: Array | None,
    rng: np.random.Generator,
    at: tuple[int, int],
) -> Array | None:
    """Move X by gamma towards the vertex of the gradient G, and report the step `at`.

    Overwrites X and G; returns the basis of the vertex's SVD, for the next start.
    """
    vertex = tools.spectral.extreme(G, accuracy=accuracy, start=start, rng=rng)
    blend_into(X, vertex.V, gamma, scratch=G)
    tools.tick(Candidate(X, None, 0.0, *at, scratch=G))
    return vertex.basis


def with_initial_gap(
    p: Ground, problem: Problem, X: Array, C0: float | None, tools: Tools
) -> Ground:
    """Return the constants with the user's C0, or with a bound on the error at X."""
    if C0 is None:
        R, rng = Smoothed.of(problem.penalty, p.mu, problem.shape), tools.rng(0, 3)
        C0 = initial_gap(problem, R, tools.loss, X, p.alpha, rng)
    return replace(p, C0=max(float(C0), np.finfo(float).tiny))
