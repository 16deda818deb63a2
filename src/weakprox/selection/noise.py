"""Noise levels, estimated from a spectrum, from entries, or from repeated samples."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from weakprox.arguments import nonnegative, one_of
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import is_array, to_numpy
from weakprox.losses.moments import Moments

Values = np.ndarray[Any, np.dtype[np.float64]]
Method = Literal["auto", "spectrum", "entries"]

GAUSSIAN = 1.4826  # standard deviations in a median absolute deviation
POISSON = (0.25, 2.5)  # ratios of variance and mean that are compatible with Poisson counts
MOST = 1000  # rows and columns from which a spectrum is computed
LOWEST = 0.25  # share of singular values, the smallest ones, that show whether there is a bulk
SQUARE = 0.5  # ratio of sides up to which they do: those of square matrices fluctuate strongly
SURE = 2.0  # standard errors by which they must differ from pure noise
BISECTIONS = 52  # bisection steps for an angle of the law of noise, one for each binary digit
# extent of the extrapolation of a spectrum without a bulk (`benchmarks/data/levels.py`)
BEYOND = 2.0


def noise_level(M: Any, method: Method = "auto") -> float:
    r"""Standard deviation of Gaussian noise in the entries of a matrix.

    Parameters
    ----------
    M : array of shape (m, d)
        Signal plus noise.
    method : {"auto", "spectrum", "entries"}
        "spectrum" compares the median singular value with that of pure noise (Gavish &
        Donoho, "The Optimal Hard Threshold for Singular Values is 4/sqrt(3)", 2014), which is
        valid if the signal's rank is below half of the smaller side. "entries" uses the median
        absolute deviation of the entries, which is valid if the signal affects less than half
        of them. Each is too large if its assumption fails, so "auto" uses the smaller one. If
        the smallest singular values show less noise than the median one, the signal fills the
        spectrum; "auto" then extrapolates the decrease of the estimates towards the smallest
        singular values, since even these contain signal. A median absolute deviation that is
        zero or a rounding error, as in data that are mostly zeros, is ignored. Rows and
        columns of zeros have no noise and are left out of the spectrum; the level is the root
        mean square over all entries.

    Returns
    -------
    float
        Zero for a matrix without noise, such as one of low rank.
    """
    A = matrix("M", M)
    one_of("method", method, ("auto", "spectrum", "entries"))
    from_entries = 0.0
    if method != "spectrum":
        from_entries = _shown(A, GAUSSIAN * float(np.median(np.abs(A - np.median(A)))))
    if method == "entries":
        return from_entries
    from_spectrum = _shown(A, _from_spectrum(A, continued=method == "auto"))
    return min(from_spectrum, from_entries) if from_entries > 0.0 else from_spectrum


def sample_moments(samples: Any) -> Moments:
    """Mean and scatter of noisy copies, which are read one by one and not kept."""
    one_by_one = range(int(samples.shape[0]))
    chunks = (np.asarray(to_numpy(samples[k]), dtype=float)[None] for k in one_by_one)
    return Moments.of(chunks, np.zeros(samples.shape[1:]), 1.0)


def mean_noise(seen: Moments) -> float:
    """Standard deviation of the noise in the entries of a mean, also of one matrix."""
    if seen.size == 1:
        return noise_level(seen.mean)
    level = math.sqrt(seen.scatter / ((seen.size - 1) * seen.mean.size * seen.size))
    return _shown(seen.mean, level)


def given_noise(name: str, noise: Any, A: Values) -> float:
    """A noise level that a user states: zero, or one that the data can show."""
    level = nonnegative(name, noise)
    if level and not _shown(A, level):
        wanted = f"0, or more than the rounding error of the data, {rounding(A):.2g}"
        raise InputError(name, level, wanted)
    return level


def sample_stack(samples: Any) -> int:
    """The number of samples in an array of shape (n, m, d), at least two."""
    if not is_array(samples) or samples.ndim != 3:
        given = getattr(samples, "shape", type(samples).__name__)
        raise ShapeError("samples", given, "an array of shape (n, m, d)")
    if samples.shape[0] < 2:
        raise ShapeError("samples", f"{samples.shape[0]} of them", "at least two")
    return int(samples.shape[0])


def matrix(name: str, M: Any) -> Values:
    """A finite matrix as a NumPy array of doubles, or a typed error."""
    if not is_array(M) or M.ndim != 2 or 0 in M.shape:
        given = getattr(M, "shape", type(M).__name__)
        raise ShapeError(name, given, "an array of shape (m, d), not empty")
    host = to_numpy(M)
    if host.dtype.kind not in "fiub":
        raise InputError(name, f"dtype {host.dtype}", "real numbers")
    A: Values = np.asarray(host, dtype=float)
    if not np.isfinite(A).all():
        raise InputError(name, "NaN or infinite entries", "finite numbers")
    return A


def are_counts(A: Values) -> bool:
    """Return True if all entries are nonnegative integers."""
    return bool(A.min() >= 0.0 and np.array_equal(A, np.rint(A)))


def is_poisson(A: Values) -> bool:
    """Return True for a matrix of counts whose variance is about their mean.

    The variance is that of the spectrum, which is too small by up to a half if the counts
    are uneven. Counts that vary much more than Poisson's (or much less, such as the grey
    values of a picture) do not qualify.
    """
    if not A.any() or not are_counts(A):
        return False
    ratio = _from_spectrum(A) ** 2 / float(A.mean())
    return POISSON[0] <= ratio <= POISSON[1]


def resolution(A: Values) -> float:
    """The smallest noise that data of this precision can show.

    It is that of rounding to the smallest difference between two entries, or to the
    floating-point precision.
    """
    values = np.unique(A)
    step = float(np.diff(values).min()) if values.size > 1 else 0.0
    return max(rounding(A), step / math.sqrt(12.0))  # of a uniform error within one step


def rounding(A: Values) -> float:
    """Rounding error of sums of the entries of a row or column."""
    error: float = max(A.shape) * np.finfo(float).eps * float(np.abs(A).max())
    return error


def _shown(A: Values, level: float) -> float:
    """The noise level, or zero if it is a rounding error."""
    return level if level > rounding(A) else 0.0


def _from_spectrum(A: Values, *, continued: bool = False) -> float:
    """Noise level by the median singular value, zero if that is a rounding error.

    With `continued`, less if the smallest singular values show that there is no bulk of noise.
    """
    entries = A.size
    A = A[A.any(axis=1)][:, A.any(axis=0)]
    if A.size == 0:
        return 0.0
    share = A.size / entries  # of entries with noise
    rng = np.random.default_rng(0)  # a part of a large matrix has the same noise
    for axis in (0, 1):
        if A.shape[axis] > MOST:
            A = np.take(A, rng.choice(A.shape[axis], MOST, replace=False), axis=axis)
    s = decompositions.svdvals(A)
    law = max(A.shape) * float(mp_quantile(min(A.shape) / max(A.shape)))  # of pure noise
    level = float(np.median(s)) * math.sqrt(share / law)
    if not np.median(s) > max(A.shape) * np.finfo(float).eps * s[0]:
        return 0.0  # singular values that are rounding errors of the largest show no noise
    return level * math.sqrt(_continuation(s, max(A.shape))) if continued else level


def _continuation(s: Values, longer: int) -> float:
    """Factor of the variance from the median singular value if the signal has full rank.

    Every group of singular values gives an estimate of the variance. If the rank of the signal
    is low, those of the lower half agree. Otherwise the estimates fall towards the smallest
    singular values, which contain the least signal, but contain some too: the decrease from the
    second quarter to the lowest is extrapolated geometrically.
    """
    size = len(s)
    ratio, few = size / longer, max(1, int(LOWEST * size))
    if ratio > SQUARE or few < 2:  # one value does not form a group
        return 1.0
    law = mp_quantile(ratio, (np.arange(2 * few) + 0.5) / size)
    rising = s[::-1][: 2 * few] ** 2
    lowest, second = (
        float(np.sum(rising[part])) / float(np.sum(law[part]))
        for part in (slice(few), slice(few, None))
    )
    error = math.sqrt(2.0 / (few * longer))  # of the variance of as many entries of noise
    if lowest >= (1.0 - SURE * error) * second:
        return 1.0
    continued = lowest * math.pow(lowest / second, BEYOND)
    return min(1.0, continued * float(mp_quantile(ratio)) / float(np.median(s)) ** 2)


def mp_quantile(ratio: float, shares: Any = 0.5) -> Any:
    """Quantiles of the Marchenko-Pastur law for this ratio of sides, at most 1.

    At an angle from 0 to pi, the eigenvalue is 1 + ratio - 2 root cos(angle), and the mass
    below it has a closed form, which is inverted by bisection.
    """
    root, shares = math.sqrt(ratio), np.asarray(shares, dtype=float)
    low, high = np.zeros(shares.shape), np.full(shares.shape, math.pi)
    for _ in range(BISECTIONS):
        angle = 0.5 * (low + high)
        half = np.arctan2((1.0 + root) * np.sin(angle / 2), (1.0 - root) * np.cos(angle / 2))
        mass = (1.0 + ratio) * angle + 2.0 * root * np.sin(angle) - 2.0 * (1.0 - ratio) * half
        below = mass < 2.0 * math.pi * ratio * shares
        low, high = np.where(below, angle, low), np.where(below, high, angle)
    return 1.0 + ratio - 2.0 * root * np.cos(angle)


def noise_edge(shape: tuple[int, int], noise: float) -> float:
    """Approximate largest singular value of pure noise: noise (sqrt m + sqrt d)."""
    return noise * (math.sqrt(shape[0]) + math.sqrt(shape[1]))


def shrunk_values(s: Values, shape: tuple[int, int], noise: float) -> Values:
    """Singular values above the noise edge, shrunk by the effect of the noise.

    The optimal shrinkage in Frobenius norm (Gavish & Donoho, "Optimal Shrinkage of Singular
    Values", 2017). Their sum estimates the nuclear norm of the detectable signal.
    """
    s = np.asarray(s, dtype=float)
    s = s[s > noise_edge(shape, noise)]
    total, product = sum(shape) * noise**2, 4.0 * shape[0] * shape[1] * noise**4
    return np.sqrt(np.maximum((s * s - total) ** 2 - product, 0.0)) / s
