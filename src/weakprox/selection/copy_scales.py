"""Test whether noisy copies of a matrix have different scales, such as units or exposures."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.losses.moments import Moments
from weakprox.selection.noise import Values

REFERENCES = 200  # copies that the others are compared with
SWEEPS = 100  # largest number of sweeps of the least squares fit
STILL = 1e-10  # change of a scale at which it ends
FEWEST = 3  # least number of copies: the product of two does not show which one is larger
APART = 1.5  # ratio of scales from which they count as different
ROUNDS = 30  # rounds of reweighting by the noise estimated with the last weights
CERTAIN = 5.0  # standard errors by which the extremes must be away from the mean


def copy_scales(samples: Any) -> Values:
    """The scale of each copy, with mean 1, if copies are multiples of one matrix plus noise.

    Noise is independent between copies, so <M_k, M_l> is about c_k c_l |S|^2 for k != l. The
    scales c are fitted to these products by least squares. All are 1 if there are fewer than
    three copies, or if the products are not those of positive multiples.
    """
    n = len(samples)
    ones = np.ones(n)
    if n < FEWEST:
        return ones
    flat = samples.reshape(n, -1)
    G = np.asarray(flat @ flat[:REFERENCES].T, dtype=float)
    k = G.shape[1]
    G[np.arange(k), np.arange(k)] = 0.0
    mean = float(G[:k].sum()) / (k * (k - 1))  # of c_k c_l |S|^2
    if not mean > 0.0:
        return ones
    c = np.full(k, np.sqrt(mean))
    for _ in range(SWEEPS):
        last = c.copy()
        for i in range(k):
            squares = float(c @ c) - c[i] ** 2
            c[i] = float(G[i] @ c) / squares if squares > 0.0 else 0.0
        if np.abs(c - last).max() <= STILL * np.abs(c).max():
            break
    others = G[k:] @ c / float(c @ c)
    found = np.concatenate([c, others])
    if not found.min() > 0.0:
        return ones
    return np.asarray(found / found.mean())


def scales_differ(samples: Any, scales: Values) -> bool:
    """Return True if the extreme scales are far apart, by more than noise explains."""
    if not scales.max() > APART * scales.min():
        return False
    S, variances = _fitted(samples, scales)
    n, noise = len(scales), float(variances.mean())
    signal = float(S @ S) - noise * S.size / float(scales @ scales)
    if not signal > 0.0:
        return False
    error = np.sqrt(noise * signal + noise**2 * S.size / (n - 1)) / signal
    return bool(np.abs(scales - 1.0).max() > CERTAIN * error)


def rescaled_moments(samples: Any, scales: Values) -> Moments:
    """The matrix that the copies are multiples of, as the moments of equal copies.

    Copies are weighted by their scale over the variance of their noise (least squares). The
    scatter is that of equal copies whose mean has the same noise.
    """
    S, variances = _fitted(samples, scales)
    n, variance = len(scales), 0.0
    for _ in range(ROUNDS):
        if not variances.min() > 0.0:  # a copy without noise
            variance = 0.0
            break
        weights = scales / variances
        variance = 1.0 / float(weights @ scales)
        S = variance * (weights @ samples.reshape(n, -1).astype(float))
        variances = _squares(samples, scales, S) + variance * scales**2
    return Moments(S.reshape(samples.shape[1:]), n, variance * n * (n - 1) * S.size)


def _fitted(samples: Any, scales: Values) -> tuple[Values, Values]:
    """The matrix of least squared errors, as a vector, and the variances of the noise."""
    total = float(scales @ scales)
    S = np.asarray(scales @ samples.reshape(len(scales), -1).astype(float)) / total
    return S, _squares(samples, scales, S) / (1.0 - scales**2 / total)


def _squares(samples: Any, scales: Values, S: Values) -> Values:
    """Mean squared differences of copies from multiples of one matrix."""
    flat = samples.reshape(len(scales), -1)
    return np.array([np.mean((M - c * S) ** 2) for M, c in zip(flat, scales, strict=True)])
