"""Independent copies of a noisy matrix: some to fit, one at a time to score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.arguments import integer, one_of, seed_number
from weakprox.errors import InputError
from weakprox.linalg.arrays import to_numpy
from weakprox.selection.noise import Values, are_counts, given_noise, matrix, sample_stack
from weakprox.selection.search import Seed, stream

THINNING = 0x7EA5  # name of the random stream of copies, groups and probes


@dataclass(frozen=True, repr=False)
class Copies:
    """Independent noisy copies of one matrix: some to fit, the others to score."""

    means: Values  # of shape (k, m, d): the copies
    counts: Values  # of shape (k,): number of samples that each copy is the mean of

    def __repr__(self) -> str:
        k, m, d = self.means.shape
        return f"Copies({k} noisy copies of {m} x {d})"

    def __len__(self) -> int:
        return int(self.means.shape[0])

    def mean(self) -> Values:
        """The mean of all samples."""
        return np.average(self.means, axis=0, weights=self.counts)

    def without(self, k: int) -> Values:
        """The mean of all samples but those of copy k."""
        weights = np.where(np.arange(len(self)) == k, 0.0, self.counts)
        return np.tensordot(weights / weights.sum(), self.means, 1)

    def louder(self, k: int) -> float:
        """Factor by which the noise grows if copy k is left out."""
        return math.sqrt(self.counts.sum() / (self.counts.sum() - self.counts[k]))


def thinned(M: Any, noise: float | str, copies: int = 5, seed: Seed = 0) -> Copies:
    r"""Split one noisy matrix into independent copies whose mean it is.

    Gaussian noise: with :math:`w_k` standard normal, :math:`M + \sigma\sqrt K (w_k - \bar w)`
    are independent of each other, each with :math:`K` times the variance. Poisson counts: each
    count is distributed over the copies at random, and the copies are multiplied by
    :math:`K` (data thinning; Neufeld, Dharamshi, Gao & Witten, "Data thinning for
    convolution-closed distributions", 2024).

    Parameters
    ----------
    M : array of shape (m, d)
        Signal plus noise of the same variance in all entries; or counts.
    noise : float or "poisson"
        Standard deviation of Gaussian noise. If it is too small, the copies share noise and
        the answer chosen overfits. "poisson" needs no level, and rates may differ.
    copies : int
        Number of copies, at least two.
    seed : int, Generator or None
        Seed of the random numbers; None draws new ones.
    """
    A, count = matrix("M", M), integer("copies", copies, least=2)
    rng = stream(seed_number("seed", seed), THINNING)
    if isinstance(noise, str):
        one_of("noise", noise, ("poisson",))
        return Copies(_binomial(A, count, rng), np.ones(count))
    noise = given_noise("noise", noise, A)
    w = rng.standard_normal((count, *A.shape))
    w -= w.mean(axis=0)
    w *= noise * math.sqrt(count)
    w += A
    return Copies(w, np.ones(count))


def _binomial(A: Values, count: int, rng: np.random.Generator) -> Values:
    """Parts of counts, times their number: independent if the counts are Poisson's."""
    if not are_counts(A):
        raise InputError("M", "entries that are not counts", "integers, none negative")
    parts, left = np.empty((count, *A.shape)), A.astype(np.int64)
    for k in range(count - 1):
        part = rng.binomial(left, 1.0 / (count - k))
        parts[k], left = part, left - part
    parts[-1] = left
    parts *= count
    return parts


def folded(samples: Any, folds: int = 5, seed: Seed = 0) -> Copies:
    """Means of disjoint random groups of samples, at most as many as there are samples.

    Samples are two or more noisy copies of one matrix, of shape (n, m, d), read one by one.
    """
    n = sample_stack(samples)
    k = min(integer("folds", folds, least=2), n)
    group = np.arange(n) % k
    stream(seed_number("seed", seed), THINNING).shuffle(group)
    means = np.zeros((k, *samples.shape[1:]))
    counts = np.bincount(group, minlength=k).astype(float)
    for i in range(n):
        means[group[i]] += np.asarray(to_numpy(samples[i]), dtype=float) / counts[group[i]]
    if not np.isfinite(means).all():
        raise InputError("samples", "NaN or infinite entries", "finite numbers")
    return Copies(means, counts)
