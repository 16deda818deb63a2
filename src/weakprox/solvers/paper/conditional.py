"""Conditional gradient methods of the paper's experiments, and what all baselines share.

The baselines work on the smoothed problem f_mu = G + R_mu, most of them over a bounded set,
and return their iterate. mu is chosen so that smoothing costs at most half of eps.

- SCG: Hazan & Luo, "Variance-Reduced and Projection-Free Stochastic Optimization", ICML 2016,
  where it is called SFW; the first competitor in Garber & Kaplan's experiments.
- SVRF: the same paper; G must be a finite sum.
- HCGM: Yurtsever, Fercoq, Locatello & Cevher, "A Conditional Gradient Framework for Composite
  Convex Minimization", ICML 2018, with full gradients and decreasing smoothing.
- SHCGM: Locatello, Yurtsever, Fercoq & Cevher, "Stochastic Frank-Wolfe for Composite Convex
  Minimization", NeurIPS 2019, with one sample per step and a running mean of gradients. The
  bounds of both are computed by the recursions in their proofs, which is tighter than the
  closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from weakprox.arguments import integer, optional_numbers, positive
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, add_scaled, zeros
from weakprox.passes import blend_into
from weakprox.penalties.base import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.solvers.base import Method, Tools, first_point, undeclared
from weakprox.theory._theorems import estimate_sigma, initial_gap
from weakprox.theory.gradients import Snapshot, mean_gradient

STRETCH = 64  # iterations of one outer step, for methods that have no epochs
VERTEX = 0.01  # inexactness of vertices, as a share of the allowed error of the step
RANK_OF_PROOF = 8  # number of triplets for a certificate, since these methods have no rank


@dataclass(frozen=True)
class Ground:
    """Constants of the smoothed problem, as the baselines' theorems name them."""

    eps: float  # requested accuracy
    mu: float  # smoothing
    bias: float  # largest distance of f_mu below f
    alpha: float  # strong convexity
    beta_G: float  # smoothness of G,
    beta: float  # of f_mu,
    beta_term: float  # and of its worst sampled term
    sigma: float  # gradient noise of one sample (0: full gradients are taken)
    diameter: float  # of the set
    n_terms: int  # of a finite sum, 0 for a sampler
    C0: float = math.inf  # bound on the first error, if the method needs one
    predicted_svds: int = 0

    @property
    def target(self) -> float:
        """Accuracy of the smoothed problem: eps minus the bias.

        At least half of eps, so that runs end if the user's mu is too large.
        """
        return max(self.eps - self.bias, 0.5 * self.eps)

    def batch(self, size: float) -> int | None:
        """Return the size, rounded up; None for all terms at once."""
        whole = max(1, math.ceil(size - 1e-9))
        full = self.n_terms and (self.sigma == 0.0 or whole >= self.n_terms)
        return None if full else whole


def ground(
    problem: Problem, tools: Tools, *, mu: float | None, sigma: float | None = 0.0
) -> Ground:
    """Return the constants of a run; sigma=None estimates the noise from a pilot."""
    c = problem.constants(strongly_convex=False)
    if mu is None:
        mu = tools.eps / (2.0 * c.gamma) if c.theta > 0 and c.gamma > 0 else 0.0
    smooth = problem.smoothed(mu)
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
        diameter=float(problem.of_spectral.diameter or math.inf),
        n_terms=problem.loss.n_terms if problem.loss.is_finite_sum else 0,
    )


@dataclass(frozen=True)
class Memory:
    """State between outer steps: the iterate, the number of steps, and the SVD's basis."""

    X: Array
    epoch: int
    parameters: Ground
    done: int = 0  # iterations, over all outer steps
    basis: Array | None = None
    rank: int = RANK_OF_PROOF
    h: float = 0.0  # at X
    other: Array | None = None  # second sequence of the method, if it has one


@dataclass(frozen=True)
class Baseline(Method):
    """Members that all baselines share; they return their iterate."""

    answer: ClassVar[Literal["iterate"]] = "iterate"
    narrow: ClassVar[bool] = True

    def check(self, problem: Problem) -> None:
        """Raise unless h is the indicator of a bounded set with a linear oracle."""
        if lacking := undeclared(problem, "spectral.extreme", "spectral.diameter"):
            name = type(self).__name__
            wanted = f"NuclearBall or TracePSD: {name} needs a bounded set to minimise over"
            given = type(problem.spectral).__name__
            raise InputError("spectral", given, "; ".join([wanted, *lacking]))

    def candidate(self, memory: Any) -> Candidate:
        """Return the iterate."""
        return Candidate(memory.X, None, memory.h, memory.epoch, 0)

    def predicted_svds(self, memory: Any) -> int:
        return int(memory.parameters.predicted_svds)

    def finished(self, memory: Any) -> bool:
        """Return True if the bound is at most eps."""
        return bool(self.promised(memory) <= memory.parameters.eps)

    def dual(self, problem: Problem, memory: Any) -> Smoothed:
        """Return the smoothed penalty; its maximiser at X is the dual point of a proof."""
        return problem.smoothed(memory.parameters.mu)


@dataclass(frozen=True)
class Smoothing(Baseline):
    """Baselines with one smoothing for the whole run."""

    units: ClassVar[tuple[str, ...]] = ("mu",)

    mu: float | None = None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        self.check_mu(problem)

    @property
    def capped(self) -> bool:
        """Whether vertices of a step are capped, so that the theorem does not apply."""
        return False

    def _bound(self, memory: Any) -> float:
        """Return the theorem's bound on E f_mu - f_mu* at the iterate."""
        raise NotImplementedError

    def finished(self, memory: Any) -> bool:
        return bool(self._bound(memory) <= memory.parameters.target)

    def promised(self, memory: Any) -> float:
        """Return the theorem's bound on E f - f*; infinite if vertices are capped."""
        if self.capped:
            return math.inf
        return self._bound(memory) + float(memory.parameters.bias)

    def check_mu(self, problem: Problem) -> None:
        """Raise unless mu is positive, if there is something to smooth."""
        optional_numbers(mu=self.mu)
        theta = problem.penalty.smoothability(problem.shape).theta
        if self.mu is not None and not self.mu > 0 and theta > 0:
            raise InputError("mu", repr(self.mu), "a number > 0")


def smooth_gradient(
    tools: Tools, R: Smoothed, X: Array, rng: np.random.Generator, size: int | None
) -> Array:
    """Return the gradient of f_mu at X from fresh samples, or all terms if size is None."""
    G = mean_gradient(tools.loss, X, rng, size)
    add_scaled(G, 1.0, R.grad(X))
    return G


Direction = Callable[[Array, int, np.random.Generator], tuple[Array, float, float]]
Kept = TypeVar("Kept", bound=Memory)


def frank_wolfe(
    memory: Kept, tools: Tools, steps: range, direction: Direction, *stream: int
) -> Kept:
    """Take the steps k, each towards a vertex of the set.

    `direction(X, k, rng)` returns the gradient, which is overwritten, the length of the step
    and the accuracy of the vertex. `stream` begins the names of the random streams.
    """
    X, basis, epoch = memory.X * 1.0, memory.basis, memory.epoch + 1
    for k in steps:
        rng = tools.rng(*stream, k)
        G, gamma, accuracy = direction(X, k, rng)
        vertex = tools.spectral.extreme(G, accuracy=accuracy, start=basis, rng=rng)
        blend_into(X, vertex.V, gamma, scratch=G)
        tools.tick(Candidate(X, None, 0.0, epoch, k, scratch=G))
        basis = vertex.basis
    return replace(memory, X=X, epoch=epoch, done=memory.done + len(steps), basis=basis)


def with_initial_gap(
    p: Ground, problem: Problem, X: Array, C0: float | None, tools: Tools
) -> Ground:
    """Return the constants with the user's C0, or with a bound on the error at X."""
    if C0 is None:
        R, rng = problem.smoothed(p.mu), tools.rng(0, 3)
        C0 = initial_gap(problem, R, tools.loss, X, p.alpha, rng)
    return replace(p, C0=max(float(C0), np.finfo(float).tiny))


@dataclass(frozen=True)
class SCG(Smoothing):
    r"""Step :math:`2/(k+1)` towards the vertex selected by a mini-batch gradient.

    Batches of :math:`m_k = \lceil (\sigma (k+1) / (L D))^2 \rceil` samples make
    :math:`\mathbb{E} f_\mu(X_k) - f_\mu^* \le 4 L D^2 / (k+2)`, with L the smoothness of
    f_mu and D the diameter of the set (1 % more, for vertices that are found to a
    hundredth of what the bound allows them to miss). Strong convexity is not needed and
    not used. If G is a finite sum and no sigma is given, full gradients are taken.

    Parameters
    ----------
    mu : float, optional
        Smoothing; eps / (2 gamma) if not given, so that it costs half of eps.
    sigma : float, optional
        Gradient noise of one sample.
    """

    units: ClassVar[tuple[str, ...]] = ("mu", "sigma")

    sigma: float | None = None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        optional_numbers(sigma=self.sigma)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        sigma = 0.0 if self.sigma is None and problem.loss.is_finite_sum else self.sigma
        p = ground(problem, tools, mu=self.mu, sigma=sigma)
        needed = _scale(p) / p.target - 2 if p.target > 0 else math.inf
        if math.isfinite(needed):
            p = replace(p, predicted_svds=max(1, math.ceil(needed)))
        return Memory(first_point(problem, X), 0, p)

    def finished(self, memory: Memory) -> bool:
        return 0 < memory.parameters.predicted_svds <= memory.done

    def _bound(self, memory: Memory) -> float:
        return _scale(memory.parameters) / (memory.done + 2)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        p, R = memory.parameters, self.dual(problem, memory)
        last = min(memory.done + STRETCH, p.predicted_svds or math.inf)

        def direction(X: Array, k: int, rng: np.random.Generator) -> tuple[Array, float, float]:
            size = p.batch((p.sigma * (k + 1) / (p.beta * p.diameter)) ** 2)
            gamma = 2 / (k + 1)
            accuracy = VERTEX * gamma * p.beta * p.diameter**2
            return smooth_gradient(tools, R, X, rng, size), gamma, accuracy

        return frank_wolfe(memory, tools, range(memory.done + 1, int(last) + 1), direction)


def _scale(p: Ground) -> float:
    """The bound times k + 2."""
    return 4 * (1 + VERTEX) * p.beta * p.diameter**2


@dataclass(frozen=True)
class VarianceReduced(Smoothing):
    """Common part of STORC and SVRF: epochs t that halve the bound L D^2 / 2^(t+1)."""

    def check(self, problem: Problem) -> None:
        super().check(problem)
        problem.check_finite_sum(type(self).__name__, "SCG or SCGS")

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Return the constants, and the vertex w_0 selected by the first gradient."""
        p = ground(problem, tools, mu=self.mu)
        memory, rng = Memory(first_point(problem, X), 0, p), tools.rng(0, 2)
        G = smooth_gradient(tools, self.dual(problem, memory), memory.X, rng, None)
        vertex = tools.spectral.extreme(G, rng=rng)
        return replace(memory, X=vertex.V.dense(), basis=vertex.basis)

    def _bound(self, memory: Memory) -> float:
        """Return L D^2 / 2^(t+1), the bound on E f_mu(w_t) - f_mu* of a run without a cap."""
        p = memory.parameters
        return (1 + VERTEX) * p.beta_term * p.diameter**2 * 0.5 ** (memory.epoch + 1)


@dataclass(frozen=True)
class SVRF(VarianceReduced):
    r"""Frank-Wolfe with variance-reduced gradients.

    Epoch t takes :math:`N_t = 2^{t+3} - 2` steps of length 2/(k+1) with 96 (k+1) samples
    each and ends with :math:`\mathbb{E} f_\mu(w_t) - f_\mu^* \le L D^2 / 2^{t+1}`.

    Parameters
    ----------
    mu : float, optional
        Smoothing; eps / (2 gamma) if not given, so that it costs half of eps.
    """

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """One epoch: full gradient, then N_t Frank-Wolfe steps."""
        R, t = self.dual(problem, memory), memory.epoch + 1
        snapshot = Snapshot.take(tools.loss, memory.X, tools.rng(t), None)
        miss = VERTEX * memory.parameters.beta_term * memory.parameters.diameter**2

        def direction(X: Array, k: int, rng: np.random.Generator) -> tuple[Array, float, float]:
            G = snapshot.at(tools.loss, X, rng, 96 * (k + 1), first=k == 1)
            add_scaled(G, 1.0, R.grad(X))
            gamma = 2 / (k + 1)
            return G, gamma, gamma * miss

        return frank_wolfe(memory, tools, range(1, 2 ** (t + 3) - 1), direction, t)


@dataclass(frozen=True)
class HomotopyMemory(Memory):
    """The memory of the baselines, whose `other` is a mean of gradients, and bounds."""

    bound: float = math.inf  # on E f_mu(X_k) - f*, with the mu of the step that made X_k
    noise: float = 0.0  # on the root mean square error of the running mean


@dataclass(frozen=True)
class Homotopy(Baseline):
    """Common part; the smoothing at step k is mu = theta beta0 / sqrt(k + SHIFT)."""

    units: ClassVar[tuple[str, ...]] = ("beta0",)

    beta0: float | None = None

    STEP: ClassVar[int]  # steps are STEP / (k - 1 + STEP)
    FACTOR: ClassVar[float]  # of D^2 / beta0 in the bound
    SHIFT: ClassVar[int]

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if self.beta0 is not None:
            positive("beta0", self.beta0)

    def promised(self, memory: HomotopyMemory) -> float:
        """Return the bound on E f(X_k) - f*: that of the recursion, plus the bias."""
        return memory.bound + memory.parameters.bias

    def _smoothed(self, problem: Problem, k: int) -> Smoothed:
        """Return the penalty as step k smooths it, with smoothness sqrt(k + SHIFT) / beta0.

        The default beta0 balances the two parts of the bound: FACTOR D^2 / beta0, for the
        curvature of the smoothed penalty, and gamma theta beta0, for its bias.
        """
        c = problem.penalty.smoothability(problem.shape)
        beta0, width = self.beta0, c.gamma * c.theta
        if beta0 is None:
            D = float(problem.of_spectral.diameter or math.inf)
            beta0 = D * math.sqrt(self.FACTOR / width) if width > 0 else 1.0
        mu = c.theta / (math.sqrt(k + self.SHIFT) / beta0) if c.theta > 0 else 0.0
        return Smoothed(problem.penalty, mu, c)

    def step(self, problem: Problem, memory: HomotopyMemory, tools: Tools) -> HomotopyMemory:
        p, bound, noise = memory.parameters, memory.bound, memory.noise
        mean = None if memory.other is None else memory.other * 1.0

        def direction(X: Array, k: int, rng: np.random.Generator) -> tuple[Array, float, float]:
            nonlocal bound, noise
            gamma, R = self.STEP / (k - 1 + self.STEP), self._smoothed(problem, k)
            noise = self._noise(noise, p, k)
            away = 0.5 * (gamma * p.diameter) ** 2 * (p.beta_G + R.smoothness)
            bound = _less(gamma, bound) + gamma * p.diameter * noise + (1 + VERTEX) * away
            return self._gradient(tools, R, X, mean, k, rng), gamma, VERTEX * away / gamma

        steps = range(memory.done + 1, memory.done + STRETCH + 1)
        memory = frank_wolfe(memory, tools, steps, direction)
        R = self._smoothed(problem, memory.done)
        p = replace(p, mu=R.mu, bias=R.bias)
        return replace(memory, other=mean, bound=bound, noise=noise, parameters=p)

    def _noise(self, before: float, p: Ground, k: int) -> float:
        """Return the bound on the error of the gradient of step k."""
        return 0.0

    def _gradient(
        self, tools: Tools, R: Smoothed, X: Array, mean: Array | None, k: int, rng: Any
    ) -> Array:
        """Return the full gradient of f_mu."""
        return smooth_gradient(tools, R, X, rng, None)


@dataclass(frozen=True)
class HCGM(Homotopy):
    r"""Frank-Wolfe on a penalty whose smoothing is :math:`\beta_0/\sqrt{k+1}` at step k.

    Full gradients, steps 2/(k+1), error :math:`O(1/\sqrt k)` on the problem itself: no accuracy
    has to be chosen in advance. Strong convexity is not needed and not used.

    Parameters
    ----------
    beta0 : float, optional
        First smoothing; the value that makes the bound smallest if not given.
    """

    STEP, FACTOR, SHIFT = 2, 4 / 3, 1

    def check(self, problem: Problem) -> None:
        super().check(problem)
        problem.check_finite_sum("HCGM", "SHCGM")

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> HomotopyMemory:
        p = ground(problem, tools, mu=self._smoothed(problem, 1).mu)
        return HomotopyMemory(first_point(problem, X), 0, p)


@dataclass(frozen=True)
class SHCGM(Homotopy):
    r"""HCGM with one sample per step.

    Step 9/(k+8), smoothing :math:`\beta_0/\sqrt{k+8}`, and a running mean of stochastic
    gradients with weight :math:`4/(k+7)^{2/3}`: error :math:`O(k^{-1/3})`.

    Parameters
    ----------
    beta0 : float, optional
        First smoothing; the value that makes the bound smallest if not given.
    sigma : float, optional
        Gradient noise of one sample; used for the bound only.
    batch : int
        Samples per step.
    """

    units: ClassVar[tuple[str, ...]] = ("beta0", "sigma")

    sigma: float | None = None
    batch: int = 1

    STEP, FACTOR, SHIFT = 9, 81 / 17, 8

    def check(self, problem: Problem) -> None:
        super().check(problem)
        optional_numbers(sigma=self.sigma)
        integer("batch", self.batch, 1)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> HomotopyMemory:
        p = ground(problem, tools, mu=self._smoothed(problem, 1).mu, sigma=self.sigma)
        mean = zeros(problem.shape, problem.loss.reference)
        return HomotopyMemory(first_point(problem, X), 0, p, other=mean)

    def _gradient(
        self, tools: Tools, R: Smoothed, X: Array, mean: Array | None, k: int, rng: Any
    ) -> Array:
        """Return the gradient with a running mean for G, which is updated."""
        assert mean is not None
        rho = _weight(k)
        mean *= 1 - rho
        add_scaled(mean, rho, mean_gradient(tools.loss, X, rng, int(self.batch)))
        return mean + R.grad(X)

    def _noise(self, before: float, p: Ground, k: int) -> float:
        drift = p.beta_G * p.diameter * 9 / (k + 7) if k > 1 else 0.0
        fresh = _weight(k) * p.sigma / math.sqrt(self.batch)
        return math.hypot(_less(_weight(k), before + drift), fresh)


def _weight(k: int) -> float:
    """Weight of the samples of step k in the running mean of SHCGM."""
    return float(4 / (k + 7) ** (2 / 3))


def _less(share: float, value: float) -> float:
    """Return (1 - share) value, and 0 for share 1 even if the value is infinite."""
    return (1.0 - share) * value if share < 1.0 else 0.0
