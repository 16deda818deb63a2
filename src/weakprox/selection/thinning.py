"""Independent noisy copies: made of one matrix by thinning, or of samples by folds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.arguments import nonnegative
from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import is_array, to_numpy
from weakprox.selection.noise import Values, matrix

OURS = 0x7EA5  # the name of a stream that nobody else uses


@dataclass(frozen=True)
class Copies:
    """Independent noisy copies of one matrix, to fit on some and to judge by the others.

    Attributes
    ----------
    means : array of shape (k, m, d)
        The copies.
    counts : array of shape (k,)
        How many samples each one is the mean of: the noise falls accordingly.
    """

    means: Values
    counts: Values

    def __len__(self) -> int:
        return int(self.means.shape[0])

    def mean(self) -> Values:
        """The mean of all samples."""
        found: Values = np.average(self.means, axis=0, weights=self.counts)
        return found

    def without(self, k: int) -> Values:
        """The mean of all samples but those of copy k."""
        kept = np.delete(np.arange(len(self)), k)
        found: Values = np.average(self.means[kept], axis=0, weights=self.counts[kept])
        return found

    def louder(self, k: int) -> float:
        """By how much the noise grows if copy k is left out."""
        return math.sqrt(self.counts.sum() / (self.counts.sum() - self.counts[k]))


def thinned(M: Any, noise: float, copies: int = 5, seed: int = 0) -> Copies:
    r"""Split one matrix with Gaussian noise into independent copies whose mean it is.

    With :math:`w_k` standard normal, :math:`M + \sigma\sqrt K (w_k - \bar w)` are independent
    of each other, each with :math:`K` times the variance (data thinning; Neufeld, Dharamshi,
    Gao & Witten, "Data thinning for convolution-closed distributions", 2024).

    Parameters
    ----------
    M : array of shape (m, d)
        Signal plus noise, the same in all entries.
    noise : float
        Its standard deviation. If it is stated too small, the copies share noise, and too
        rich an answer will be chosen.
    copies : int
        How many, two at least.
    seed : int
        Fixes the random numbers.

    Returns
    -------
    Copies
    """
    A, noise = matrix("M", M), nonnegative("noise", noise)
    count = whole("copies", copies, least=2)
    w = stream(seed).standard_normal((count, *A.shape))
    w -= w.mean(axis=0)
    w *= noise * math.sqrt(count)
    w += A
    return Copies(w, np.ones(count))


def folded(samples: Any, folds: int = 5, seed: int = 0) -> Copies:
    """Means of disjoint random groups of samples.

    Parameters
    ----------
    samples : array or memory map of shape (n, m, d)
        Noisy copies of one matrix, two at least; read one by one.
    folds : int
        How many groups, two at least; no more than there are samples.
    seed : int
        Fixes who is in which group.

    Returns
    -------
    Copies
    """
    if not is_array(samples) or samples.ndim != 3:
        given = getattr(samples, "shape", type(samples).__name__)
        raise ShapeError("samples", given, "an array of shape (n, m, d)")
    n = int(samples.shape[0])
    if n < 2:
        raise ShapeError("samples", f"{n} of them", "two at least")
    k = min(whole("folds", folds, least=2), n)
    group = np.arange(n) % k
    stream(seed).shuffle(group)
    means = np.zeros((k, *samples.shape[1:]))
    counts = np.bincount(group, minlength=k).astype(float)
    for i in range(n):
        means[group[i]] += np.asarray(to_numpy(samples[i]), dtype=float) / counts[group[i]]
    if not np.isfinite(means).all():
        raise InputError("samples", "NaN or infinite entries", "finite numbers")
    return Copies(means, counts)


def stream(seed: int) -> np.random.Generator:
    """Random numbers of our own: data made by `default_rng(seed)` must not share them."""
    return np.random.default_rng([seed, OURS])


def whole(name: str, value: Any, *, least: int) -> int:
    """The value as an integer, or a typed error."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise InputError(name, repr(value), f"an integer >= {least}")
    return int(value)
