"""Bounds on f(X) - f* if G is known only through samples.

Let X be feasible, g the gradient of G there, v an estimate of it with error e = g - v,
and alpha the strong convexity of G + R. Weak duality with v in place of g leaves the term
<e, X - V> for each V, which the share theta of the quadratic bounds:

    f(X) - f* <= gap_theta + |e|^2 / (2 alpha theta),

gap_theta being the duality gap of the model with gradient v and strong convexity
(1 - theta) alpha. No value of G enters, and no constant but alpha.

|e| is bounded at a confidence, as the sum of two parts (docs/theory.md derives them).

- The scatter of the samples. Group means of samples are assumed to be normal, so that |e|^2
  is a weighted sum of chi-squares. A multiple of one chi-square is fitted to its first two
  moments as estimated from the groups (Satterthwaite). A few groups estimate the second
  moment badly, so it is raised by an allowance; the worst case, one degree of freedom,
  bounds every such sum at confidences of 0.8 and more (Szekely & Bakirov 2003).
- Rare values. Values beyond the largest one seen have probability at most ln(1/delta)/k
  (any law, k samples, confidence 1 - delta). They are assumed to be no larger on average
  than the largest one seen, so they move the mean by at most ln(1/delta) reach / k.

No bound is given with fewer than `least_samples` samples: any value with a share of at least
`rarest` of all draws must have been observed. The remaining assumption concerns rarer values
that were not observed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, eps_of, inner, norm, sqnorm
from weakprox.linalg.bounds import EXACT_BELOW
from weakprox.linalg.lowrank import LowRank
from weakprox.problem import Problem
from weakprox.protocols import Batch, DualPoint, Loss, Tolerance, loss_capabilities
from weakprox.resources.memory import room

GROUPS = 16  # groups whose means show the scatter; each costs one array of the size of X
FINE = 64  # batches searched for rare values if the loss does not show single samples
RAREST = 0.01  # values of at least this share of the draws must have been seen
SEEN = 4.0  # times 1/rarest samples miss such a value in e^-4 = 2 % of cases
# lowest confidence: below it, one degree of freedom is not the worst case
LEAST_CONFIDENCE = 0.8
DOUBT = 8.0  # over the groups: relative error allowed in the second moment
THETA = (0.02, 0.995)  # range of the share of strong convexity that bounds the error
CHECK = 0.999  # confidence at which fresh samples contradict a proof
WIDER = 2.0  # growth of the bound on |e|^2 by newly seen values that contradicts a proof


@dataclass(frozen=True)
class Noise:
    """Scatter of the gradient of one sample at a point, estimated from groups of samples."""

    variance: float  # trace of its covariance C
    freedom: int  # number of groups minus one
    # (tr C)^2 / tr(C^2), the number of directions that share the variance, at least 1;
    # lowered by the uncertainty of the estimate
    concentration: float
    # largest distance of one sample's gradient to their mean; of one batch, times its size,
    # if single samples are not accessible
    reach: float = 0.0

    @classmethod
    def seen(cls, means: Sequence[Array], sizes: Sequence[int]) -> tuple[Array, Noise]:
        """Return the mean gradient over groups of these sizes, and the noise without reach."""
        total, freedom = sum(sizes), len(sizes) - 1
        mean = means[0] * (sizes[0] / total)
        for part, size in zip(means[1:], sizes[1:], strict=True):
            arrays.add_scaled(mean, size / total, part)
        gram, most = _gram(means, sizes, mean), float(math.prod(mean.shape))
        trace = float(np.trace(gram))
        if freedom < 1 or trace == 0.0:
            return mean, cls(0.0 if freedom else math.inf, freedom, 1.0)
        variance = trace / freedom
        if freedom == 1:
            return mean, cls(variance, freedom, 1.0)
        gram /= trace  # so that squares of squares stay in range
        # unbiased for tr(C^2) if the groups' means are normal
        second = float(np.sum(gram * gram)) - 1.0 / freedom
        second *= (1.0 + DOUBT / freedom) / ((freedom - 1) * (freedom + 2))
        shared = freedom**-2 / second if second > 0.0 else most
        return mean, cls(variance, freedom, min(max(shared, 1.0), most))

    def error(self, size: int, confidence: float) -> float:
        """Return an upper bound on |e|^2 for a mean of `size` samples, at this confidence.

        The groups may consist of the same samples: mean and scatter are independent.
        """
        if not math.isfinite(self.variance):
            return math.inf
        if self.variance == 0.0:
            return self.rare(size, confidence) ** 2
        nu = self.concentration
        seen = self.variance / size * _quantile(nu, nu * self.freedom, confidence)
        return self._with_rare(seen, self.variance / size, size, confidence)

    def distance(self, square: float, size: int, confidence: float) -> float:
        """Return an upper bound on |g - v|^2 for a fixed v, from `size` fresh samples.

        `square` is the squared distance of the samples' mean, g plus noise, from v: a
        noncentral chi-square, whose noncentrality is bounded. If many directions share the
        noise, its part of `square` is known well and is subtracted.
        """
        if not math.isfinite(self.variance):
            return math.inf
        if self.variance == 0.0:
            return (math.sqrt(square) + self.rare(size, confidence)) ** 2
        nu = self.concentration
        unit = self.variance * (1.0 + 2.0 / (nu * self.freedom)) / (nu * size)
        from scipy.special import chndtrinc  # slow to import

        # the noncentrality for which `square` is this quantile
        found = float(chndtrinc(square / unit, nu, 1.0 - confidence))
        if not math.isfinite(found):
            return math.inf
        return self._with_rare(unit * found, unit * found, size, confidence)

    def rare(self, size: int, confidence: float) -> float:
        """Bound the effect on a mean of values beyond the reach, if not much larger."""
        return self.reach * math.log(1.0 / (1.0 - confidence)) / size

    def _with_rare(self, seen: float, typical: float, size: int, confidence: float) -> float:
        """Return a bound on |b + r|^2 for |b|^2 <= seen and |r| the part of rare values.

        b is normal with expected square `typical`. Its part along the direction of r has at
        most the share 1/sqrt(concentration) of the variance, and its own quantile.
        """
        rare = self.rare(size, confidence)
        along = _quantile(1.0, self.freedom, confidence) * typical
        along = math.sqrt(along / math.sqrt(self.concentration))
        return seen + rare * rare + 2.0 * rare * min(along, math.sqrt(seen))

    def needed(self, allowed: float, confidence: float) -> int:
        """Return the smallest number of samples for which `error` is at most `allowed`."""
        most = 1
        while self.error(most, confidence) > allowed and most < 1 << 62:
            most *= 2
        sizes = range(most // 2 + 1, most)
        enough = lambda size: not self.error(size, confidence) > allowed  # noqa: E731
        return sizes.start + bisect_left(sizes, True, key=enough)


def _gram(means: Sequence[Array], sizes: Sequence[int], mean: Array) -> Any:
    """Return inner products of the groups' deviations, by blocks of rows to save memory."""
    xp, gram = arrays.namespace(mean), np.zeros((len(sizes), len(sizes)))
    for rows in arrays.row_blocks(mean):
        apart = xp.stack([part[rows] for part in means])
        for i, size in enumerate(sizes):
            apart[i] -= mean[rows]
            apart[i] *= math.sqrt(size)
        flat = xp.reshape(apart, (len(sizes), -1))
        gram += np.asarray(arrays.to_numpy(flat @ flat.T), dtype=float)
    return gram


def least_samples(rarest: float) -> int:
    """Return the samples needed to see every value of at least this share of the draws."""
    return math.ceil(SEEN / rarest)


def groups_that_fit(reference: Array, entries: int) -> int:
    """Return the number of groups that fit in memory, one array of the size of X each."""
    fit = int(room() // (4 * entries * reference.dtype.itemsize))
    return max(2, min(GROUPS, fit))


def even_sizes(total: int, most: int) -> list[int]:
    """Split `total` samples into at most `most` groups of about the same size."""
    count = max(1, min(most, total))
    return [total // count + (i < total % count) for i in range(count)]


def batches_for(loss: Loss) -> int:
    """Return the number of batches to draw, which is small if the loss has `furthest`."""
    return FINE if loss_capabilities(loss).furthest is None else GROUPS


def noise_at(
    problem: Problem, loss: Any, X: Array, batches: Sequence[tuple[Batch, int]]
) -> tuple[Array, Noise]:
    """Return the mean gradient at X over batches of samples, and its noise.

    Batches beyond the number of groups that fit in memory join the smallest group. If all
    feasible points are symmetric, only the symmetric part of the noise counts. Distances of
    single samples come from `loss.furthest(X, batch, gradient)` if the loss has it.
    """
    most = groups_that_fit(loss.reference, math.prod(loss.shape))
    means: list[Array] = []
    sizes: list[int] = []
    for batch, size in batches:
        g = loss.grad(X, batch)
        if len(means) < most:
            means.append(g)
            sizes.append(size)
        else:
            i = sizes.index(min(sizes))
            kept, sizes[i] = sizes[i], sizes[i] + size
            means[i] = (kept / sizes[i]) * means[i] + (size / sizes[i]) * g
    mean, noise = Noise.seen(means, sizes)
    furthest = loss_capabilities(loss).furthest
    if furthest is not None:
        reach = max(float(furthest(X, batch, mean)) for batch, _ in batches)
    else:
        reach = max(size * norm(loss.grad(X, batch) - mean) for batch, size in batches)
    if problem.spectral.symmetric:
        mean, noise = Noise.seen([(g + g.T) / 2 for g in means], sizes)
    return mean, replace(noise, reach=reach)


@dataclass(frozen=True)
class Proof:
    """An answer and a bound on its error: f(X) - f* <= gap at a confidence."""

    X: LowRank
    gap: float
    sampling: float  # the part of the gap that only more samples reduce
    confidence: float
    samples: int = 0
    rarest: float = RAREST  # share of the draws; rarer values may not have been seen
    gradient: Array | None = None  # the estimate of grad G(X)
    error: float = math.inf  # bound on its squared error
    noise: Noise | None = None


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
    """Return a bound on f(X) - f*, and the part of it due to |g - gradient|^2 <= error.

    `dual` is a dual point of the penalty, `gradient` the estimate of grad G(X), which is not
    changed. At most three values of theta are tried, until the bound is `enough`; each
    costs one certified proximal step.
    """
    alpha = problem.loss.strong_convexity + problem.penalty.curvature
    if not math.isfinite(error):
        return math.inf, math.inf
    model = _Model.at(problem, X, dual, gradient, alpha or 1.0)
    if alpha == 0.0:  # without a quadratic only a bounded set limits |X - V|
        diameter = problem.of_spectral.diameter
        across = math.sqrt(error) * (math.inf if diameter is None else diameter)
        return model.flat_gap(rng) + across, across
    paid = error / (2.0 * alpha)
    if paid == 0.0:
        return model.gap(alpha, rng), 0.0
    best, theta, tried = (math.inf, math.inf), 0.5, [0.0]
    while len(tried) < 4 and best[0] > enough:
        gap = model.gap((1.0 - theta) * alpha, rng)
        tried.append(theta)
        best = min(best, (gap + paid / theta, paid / theta))
        # balance paid/theta with the gap as if all of it grew like 1/(1 - theta)
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
    *,
    rarest: float = RAREST,
    looked: Batch | None = None,
) -> Proof:
    """Return the proof that batches of fresh samples give for X.

    The samples in `looked` influenced the choice of X, so only the distances of single ones
    are used. The gap is infinite if the fresh samples are too few for `rarest`.
    """
    samples = sum(size for _, size in fresh)
    gap = sampling = error = math.inf
    loss: Any = problem.loss
    gradient, noise = noise_at(problem, loss, X.dense(), fresh)
    furthest = problem.of_loss.furthest
    if looked is not None and furthest is not None:
        reach = float(furthest(X.dense(), looked, gradient))
        noise = replace(noise, reach=max(noise.reach, reach))
    if samples >= least_samples(rarest):
        error = noise.error(samples, confidence)
        gap, sampling = sampled_gap(problem, X, dual, gradient, error, rng=rng)
    return Proof(X, gap, sampling, confidence, samples, rarest, gradient, error, noise)


def contradicted(proof: Proof, other: Proof) -> bool:
    """Return True if samples that the proof has not used contradict its error bound.

    They do if their mean gradient is too far from the proof's, given its noise, or if they
    contain values so large that the bound would be considerably larger.
    """
    assert proof.gradient is not None
    assert proof.noise is not None
    assert other.gradient is not None
    assert other.noise is not None
    apart = norm(other.gradient - proof.gradient)
    allowed = math.sqrt(proof.error) + math.sqrt(proof.noise.error(other.samples, CHECK))
    size = norm(proof.gradient) + norm(proof.X.dense())
    rounding = 64 * eps_of(proof.gradient) * size
    grown = other.noise.reach - proof.noise.reach
    if apart > allowed + rounding or grown <= rounding:
        return apart > allowed + rounding
    more = math.sqrt(proof.error)
    more += replace(proof.noise, reach=grown).rare(proof.samples, proof.confidence)
    return more * more > WIDER * proof.error


@dataclass(frozen=True)
class _Model:
    """A model of f around X: near + h(X) + <pull, X - V> - h(V) less a quadratic."""

    problem: Problem
    X: Array
    rank: int
    near: float  # R(X) - curvature/2 |X|^2 - <K'y, X> + phi(y)
    h: float
    pull: Array  # gradient + curvature X + K'y
    scale: float  # sum of the terms' sizes, for rounding errors

    @classmethod
    def at(
        cls, problem: Problem, X: LowRank, dual: DualPoint, gradient: Array, weight: float
    ) -> _Model:
        """Return the model with this gradient and dual point."""
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
        """Return an upper bound on the largest value of the model less weight/2 |X - V|^2."""
        A = self.X - self.pull / weight
        tolerance = Tolerance(0.01 * max(self.near, 0.0) / weight)
        how: Any = {"rank": self.rank, "tolerance": tolerance, "certify": True, "rng": rng}
        prox = self.problem.spectral.weak_prox(A, weight=weight, **how)
        square = sqnorm(self.pull) / (2.0 * weight)
        rounding = self.scale + 4.0 * square + weight * sqnorm(A)
        return _sound(self.near + self.h + square - prox.lower, rounding, eps_of(A))

    def flat_gap(self, rng: np.random.Generator) -> float:
        """Return an upper bound on the largest value of the model itself."""
        along = inner(self.pull, self.X)
        flat = self.problem.spectral.conjugate(self.pull * -1.0, rng)
        rounding = self.scale + abs(along) + abs(flat)
        return _sound(self.near + self.h + along + flat, rounding, eps_of(self.X))


def _sound(gap: float, rounding: float, eps: float) -> float:
    """The gap with its rounding errors; infinite if a faulty term made it negative or NaN."""
    gap += 64 * eps * rounding
    if not math.isfinite(gap) or gap < -1e-6 * rounding:
        return math.inf
    return max(0.0, gap)


def _quantile(one: float, two: float, level: float) -> float:
    """Quantile of an F distribution with these degrees of freedom."""
    from scipy.special import fdtri  # slow to import

    return float(fdtri(one, two, level))
