"""What the projection-free and exact-oracle baselines share: constants, memory, manners.

They all work on the smoothed problem f_mu = G + R_mu over a bounded set, and all return
their iterate. mu is chosen so that smoothing costs at most half of eps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, zeros
from weakprox.linalg.kernels import add_scaled
from weakprox.penalties import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate, spectral_capabilities
from weakprox.solvers.base import Method
from weakprox.solvers.tools import Tools
from weakprox.theory._theorems import check_overrides, estimate_sigma
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
        """Accuracy to solve the smoothed problem to: what smoothing leaves of eps.

        Half of eps where a mu of the user's leaves less, so that runs come to an end.
        """
        return max(self.eps - self.bias, 0.5 * self.eps)

    def batch(self, size: float) -> int | None:
        """A batch of this size or the next larger; None for all terms at once."""
        whole = max(1, math.ceil(size - 1e-9))
        full = self.n_terms and (self.sigma == 0.0 or whole >= self.n_terms)
        return None if full else whole


def ground(
    problem: Problem,
    tools: Tools,
    *,
    mu: float | None,
    sigma: float | None = 0.0,
    strongly_convex: bool = False,
    bounded: bool = True,
) -> Ground:
    """Constants for a run; sigma=None asks for an estimate where terms are drawn."""
    c = problem.constants(strongly_convex=strongly_convex)
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
    """Common part of the baselines: they return their iterate."""

    answer: ClassVar[Literal["iterate"]] = "iterate"

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        need_bounded(type(self).__name__, problem)

    def candidate(self, memory: Any) -> Candidate:
        """The iterate; h is an indicator, and the iterate a mean of feasible points."""
        return Candidate(memory.X, None, 0.0, memory.epoch, 0)

    def dual(self, problem: Problem, memory: Any) -> Smoothed:
        """The smoothed penalty: its maximiser at X is the dual point to certify with."""
        return Smoothed.of(problem.penalty, memory.parameters.mu, problem.shape)


@dataclass(frozen=True)
class Smoothing(Baseline):
    """Those that smooth the penalty once and for all."""

    mu: float | None = None

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        super().check(problem)
        self.check_mu(problem)

    def check_mu(self, problem: Problem) -> None:
        """Raise unless mu is positive, where there is something to smooth."""
        check_overrides(mu=self.mu)
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


def need_finite_sum(solver: str, problem: Problem, instead: str) -> None:
    """Raise unless full gradients can be had."""
    if not problem.loss.is_finite_sum:
        wanted = f"a finite sum: {solver} takes full gradients; for a sampler use {instead}"
        raise InputError("loss", repr(problem.loss), wanted)


def checked_count(name: str, count: object) -> None:
    """Raise unless the setting is a whole number >= 1 or None."""
    whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
    if count is not None and not (whole and count >= 1):  # type: ignore[operator]
        raise InputError(name, repr(count), "an integer >= 1, or None")


def first_point(problem: Problem, X: Array | None) -> Array:
    """The user's first point, or zero."""
    return zeros(problem.shape, problem.loss.reference) if X is None else X


def smooth_gradient(
    tools: Tools, R: Smoothed, X: Array, rng: np.random.Generator, size: int | None
) -> Array:
    """Gradient of f_mu at X from fresh samples, or from all terms if size is None."""
    G = mean_gradient(tools.loss, X, rng, size)
    add_scaled(G, 1.0, R.grad(X))
    return G


def one_vertex(problem: Problem, memory: Memory, R: Smoothed, tools: Tools) -> Memory:
    """Memory at the vertex that the gradient at the first point leads to."""
    rng = tools.rng(0, 2)
    G = smooth_gradient(tools, R, memory.X, rng, None)
    found = tools.spectral.extreme(G, rng=rng)
    return replace(memory, X=found.V.dense(), basis=found.basis)
