"""How far an answer is from the optimum where G is known only through samples.

Let X be feasible, g the gradient of G there, v an estimate of it with error e = g - v,
and alpha the strong convexity of G + R. Weak duality with v in place of g leaves
<e, X - V> for each V; giving up the share theta of the quadratic pays for it:

    f(X) - f* <= gap_theta + |e|^2 / (2 alpha theta),

gap_theta being the duality gap of the model with gradient v and strong convexity
(1 - theta) alpha. No value of G enters, and no constant but alpha.

|e| is bounded at a confidence, in the normal approximation: group means of samples are
taken to be normal, |e|^2 then is a weighted sum of chi-squares, and what the groups show
of its first two moments is fitted by a multiple of one chi-square (Satterthwaite). A few
groups show the second moment badly, so it is raised by what they may have missed; the
worst case, one degree of freedom, bounds every such sum at confidences of 0.8 and more
(Szekely & Bakirov 2003). Samples so rare and large that no group has seen one are beyond
any such statement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chndtrinc, fdtri

from weakprox.linalg.arrays import Array, eps_of, inner, itemsize, namespace, sqnorm, to_numpy
from weakprox.linalg.bounds import EXACT_BELOW
from weakprox.linalg.kernels import add_scaled
from weakprox.linalg.lowrank import LowRank
from weakprox.problem import Problem
from weakprox.protocols import Batch, DualPoint, Loss, Tolerance
from weakprox.storage.limits import room

GROUPS = 16  # groups whose means show the scatter; each costs one array of the size of X
LEAST_CONFIDENCE = 0.8  # below it, one degree of freedom is not the worst case
DOUBT = 8.0  # over the groups: relative error allowed for in the second moment
THETA = (0.02, 0.995)  # shares of the strong convexity that may pay for the error


@dataclass(frozen=True)
class Noise:
    """How the gradient of one sample scatters at a point, as groups of samples show it.

    Attributes
    ----------
    variance : float
        Trace of its covariance C.
    freedom : int
        Groups less one.
    concentration : float
        (tr C)^2 / tr(C^2), the number of directions that share the variance, at least 1;
        lowered by the doubt about it.
    """

    variance: float
    freedom: int
    concentration: float

    @classmethod
    def seen(cls, means: Sequence[Array], sizes: Sequence[int]) -> tuple[Array, Noise]:
        """The mean gradient over groups of these sizes, and the noise."""
        xp = namespace(means[0])
        stack = xp.stack(list(means))
        total, freedom = sum(sizes), len(sizes) - 1
        mean = stack[0] * (sizes[0] / total)
        for part, size in zip(stack[1:], sizes[1:], strict=True):
            add_scaled(mean, size / total, part)
        for i, size in enumerate(sizes):
            stack[i] -= mean
            stack[i] *= math.sqrt(size)
        flat = xp.reshape(stack, (len(sizes), -1))
        gram = np.asarray(to_numpy(flat @ flat.T), dtype=float)
        trace = float(np.trace(gram))
        if freedom < 1 or trace == 0.0:
            return mean, cls(0.0 if freedom else math.inf, freedom, 1.0)
        variance = trace / freedom
        gram /= trace  # so that squares of squares stay in range
        most = float(flat.shape[1])
        if freedom == 1:
            return mean, cls(variance, freedom, 1.0)
        # unbiased for tr(C^2) if the groups' means are normal
        second = float(np.sum(gram * gram)) - 1.0 / freedom
        second *= (1.0 + DOUBT / freedom) / ((freedom - 1) * (freedom + 2))
        shared = freedom**-2 / second if second > 0.0 else most
        return mean, cls(variance, freedom, min(max(shared, 1.0), most))

    def error(self, size: int, confidence: float) -> float:
        """What |e|^2 exceeds, for a mean of `size` samples, with probability 1 - confidence.

        The groups may be these very samples: mean and scatter are independent.
        """
        if self.variance in (0.0, math.inf):
            return self.variance
        nu = self.concentration
        return self.variance / size * float(fdtri(nu, nu * self.freedom, confidence))

    def distance(self, square: float, size: int, confidence: float) -> float:
        """Upper bound on |g - v|^2 for a fixed v, seen as `square` by `size` fresh samples.

        The mean of the samples is at that squared distance from v, g plus noise: a
        noncentral chi-square, whose noncentrality is bounded. Where many directions share
        the noise, its part in `square` is known well and drops out.
        """
        if self.variance in (0.0, math.inf):
            return max(square, self.variance)
        nu = self.concentration
        unit = self.variance * (1.0 + 2.0 / (nu * self.freedom)) / (nu * size)
        found = float(chndtrinc(square / unit, nu, 1.0 - confidence))
        return unit * found if math.isfinite(found) else math.inf


def groups_that_fit(reference: Array, entries: int) -> int:
    """How many arrays of the size of X may be held to compare them."""
    fit = int(room() // (4 * entries * itemsize(reference)))
    return max(2, min(GROUPS, fit))


def even_sizes(total: int, most: int) -> list[int]:
    """`total` samples in at most so many groups of about the same size."""
    count = max(1, min(most, total))
    return [total // count + (i < total % count) for i in range(count)]


def noise_at(
    problem: Problem, loss: Loss, X: Array, batches: Sequence[tuple[Batch, int]]
) -> tuple[Array, Noise]:
    """Mean gradient at X over batches of samples, and its noise as far as it matters.

    Batches beyond the number that can be compared at once join the smallest group. Where
    all points are symmetric, so is the part of an error that they can feel.
    """
    most = groups_that_fit(loss.reference, math.prod(loss.shape))
    means: list[Array] = []
    sizes: list[int] = []
    for batch, size in batches:
        g = loss.grad(X, batch)
        if len(means) < most:
            means.append(g)
            sizes.append(size)
            continue
        i = sizes.index(min(sizes))
        whole = sizes[i] + size
        means[i] = (sizes[i] / whole) * means[i] + (size / whole) * g
        sizes[i] = whole
    if problem.spectral.symmetric:
        means = [(g + g.T) / 2 for g in means]
    return Noise.seen(means, sizes)


@dataclass(frozen=True)
class Proof:
    """An answer and what samples show about it: f(X) - f* <= gap at a confidence.

    `sampling` is the part of the gap that only more samples make smaller.
    """

    X: LowRank
    gap: float
    sampling: float
    confidence: float


def sampled_gap(
    problem: Problem,
    X: LowRank,
    dual: DualPoint,
    gradient: Array,
    error: float,
    *,
    rng: np.random.Generator,
    enough: float = 0.0,
) -> tuple[float, float]:
    """Bound on f(X) - f*, and the part of it due to |g - gradient|^2 <= error.

    `dual` is a dual point of the penalty, `gradient` the estimate of grad G(X) (left as
    it is). The share theta is looked for until the bound is `enough`, three times at
    most: each costs one certified proximal step.
    """
    alpha = problem.loss.strong_convexity + problem.penalty.curvature
    if not math.isfinite(error):
        return math.inf, math.inf
    model = _Model.at(problem, X, dual, gradient, alpha or 1.0)
    if alpha == 0.0:  # nothing quadratic to pay with: only bounded sets limit |X - V|
        across = math.sqrt(error) * getattr(problem.spectral, "diameter", math.inf)
        return model.flat_gap(rng) + across, across
    paid = error / (2.0 * alpha)
    if paid == 0.0:
        return model.gap(alpha, rng), 0.0
    best, theta, tried = (math.inf, math.inf), 0.5, [0.0]
    while len(tried) < 4 and best[0] > enough:
        gap = model.gap((1.0 - theta) * alpha, rng)
        tried.append(theta)
        best = min(best, (gap + paid / theta, paid / theta))
        # the part that grows like 1/(1 - theta), at most all of it, against paid/theta
        far = math.sqrt(gap * (1.0 - theta))
        theta = math.sqrt(paid) / (math.sqrt(paid) + far)
        theta = min(max(theta, THETA[0]), THETA[1])
        if any(abs(theta - old) < 0.02 * (1.0 - old) for old in tried):
            break
    return best


def evaluated(
    problem: Problem,
    X: LowRank,
    dual: DualPoint,
    fresh: Sequence[tuple[Batch, int]],
    confidence: float,
    rng: np.random.Generator,
) -> Proof:
    """What batches of samples that nothing has seen show about X, whoever found it."""
    gradient, noise = noise_at(problem, problem.loss, X.dense(), fresh)
    error = noise.error(sum(size for _, size in fresh), confidence)
    return Proof(X, *sampled_gap(problem, X, dual, gradient, error, rng=rng), confidence)


@dataclass(frozen=True)
class _Model:
    """The model of f around X: near + h(X) + <pull, X - V> - h(V) less a quadratic."""

    problem: Problem
    X: Array
    rank: int
    near: float  # R(X) - curvature/2 |X|^2 - <K'y, X> + phi(y)
    h: float
    pull: Array  # gradient + curvature X + K'y
    scale: float  # sizes of the terms that were added up: their rounding

    @classmethod
    def at(
        cls, problem: Problem, X: LowRank, dual: DualPoint, gradient: Array, weight: float
    ) -> _Model:
        """The model with this gradient and dual point."""
        R, dense, pull = problem.penalty, X.dense(), gradient * 1.0
        phi = dual.target(dense, pull, weight)  # X - (gradient + curvature X + K'y)/weight
        pull -= dense
        pull *= -weight
        value, quadratic = R.value(dense), R.curvature * sqnorm(dense)
        along, pulled = inner(gradient, dense), inner(pull, dense)
        near = value + 0.5 * quadratic + along - pulled + phi
        scale = abs(value) + quadratic + abs(along) + abs(pulled) + abs(phi)
        least = min(problem.shape)
        rank = least if least <= EXACT_BELOW else min(2 * X.rank + 8, least)
        return cls(problem, dense, rank, near, problem.spectral.value(X), pull, scale)

    def gap(self, weight: float, rng: np.random.Generator) -> float:
        """Largest value of the model less weight/2 |X - V|^2, bounded from above."""
        A = self.X - self.pull / weight
        tolerance = Tolerance(0.01 * max(self.near, 0.0) / weight)
        prox = self.problem.spectral.weak_prox(
            A, weight=weight, rank=self.rank, tolerance=tolerance, certify=True, rng=rng
        )
        square = sqnorm(self.pull) / (2.0 * weight)
        rounding = self.scale + 4.0 * square + weight * sqnorm(A)
        return _sound(self.near + self.h + square - prox.lower, rounding, eps_of(A))

    def flat_gap(self, rng: np.random.Generator) -> float:
        """Largest value of the model itself."""
        along = inner(self.pull, self.X)
        flat = self.problem.spectral.conjugate(self.pull * -1.0, rng)
        rounding = self.scale + abs(along) + abs(flat)
        return _sound(self.near + self.h + along + flat, rounding, eps_of(self.X))


def _sound(gap: float, rounding: float, eps: float) -> float:
    """The gap and its rounding errors; infinite where it contradicts itself.

    A user's own term may not keep its word: no gap is negative, or no number.
    """
    gap += 64 * eps * rounding
    if not math.isfinite(gap) or gap < -1e-6 * rounding:
        return math.inf
    return max(0.0, gap)
