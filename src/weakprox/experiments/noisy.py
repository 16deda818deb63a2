"""Noisy copies of a matrix whose samples cost nothing to draw, for counting them."""

from __future__ import annotations

import math
import time

import numpy as np
from scipy.special import chdtri

from weakprox.experiments.instances import Matrix
from weakprox.losses.denoising import Denoising
from weakprox.losses.moments import Moments


class NoisyCopies(Denoising):
    """Samples M + noise N, N with independent N(0, 1) entries.

    All that a batch of k of them tells this loss is its mean and its scatter, which are
    independent and of known distribution, M + noise N / sqrt(k) and noise^2 times a
    chi-square: they are drawn as such, so that methods which ask for a million samples can
    be measured. What drawing the samples one by one would cost is added by the clock of
    the experiment (`seconds_per_sample`), instead of what this took (`seconds_drawing`).
    """

    def __init__(self, M: Matrix, noise: float) -> None:
        self._M, self._noise = M, noise
        self.seconds_drawing, self._batches = 0.0, 0
        sigma = noise * float(np.sqrt(M.size))
        super().__init__(sampler=self._one_by_one, shape=M.shape, sigma=sigma)

    def __repr__(self) -> str:
        return f"NoisyCopies({self.shape[0]} x {self.shape[1]}, noise {self._noise:g})"

    def _one_by_one(self, rng: np.random.Generator, k: int) -> Matrix:
        return self._M + self._noise * rng.standard_normal((k, *self._M.shape))

    def draw(self, rng: np.random.Generator, size: int) -> Moments:
        """Mean and scatter of `size` samples, from their own distribution."""
        begun = time.perf_counter()
        mean = self._M + self._noise / np.sqrt(size) * rng.standard_normal(self._M.shape)
        freedom = self._M.size * (size - 1)
        scatter = self._noise**2 * float(rng.chisquare(freedom)) if freedom else 0.0
        if self._batches > 0:  # the first one is the loop's own, for evaluation: no time
            self.seconds_drawing += time.perf_counter() - begun
        self._batches += 1
        return Moments(mean, size, scatter, self._median_reach(size))

    def _median_reach(self, size: int) -> float:
        """Median of the largest of `size` distances, each noise times a chi."""
        if size == 1:
            return 0.0
        beyond = -math.expm1(math.log(0.5) / size)
        return self._noise * math.sqrt(float(chdtri(self._M.size, beyond)))


class FiniteCopies(Denoising):
    """A finite sum of n such samples, known to the loss through their mean alone."""

    def __init__(self, M: Matrix, noise: float, n: int, rng: np.random.Generator) -> None:
        super().__init__(M + noise / np.sqrt(n) * rng.standard_normal(M.shape))
        self.n_terms = n

    def __repr__(self) -> str:
        return f"FiniteCopies({self.n_terms} samples, {self.shape[0]} x {self.shape[1]})"


def seconds_per_sample(shape: tuple[int, int], repeats: int = 20) -> float:
    """Median time to draw one sample and add it to a sum, measured here and now."""
    rng, total, times = np.random.default_rng(0), np.zeros(shape), []
    for _ in range(repeats):
        begun = time.perf_counter()
        total += rng.standard_normal(shape)
        times.append(time.perf_counter() - begun)
    return float(np.median(times))
