"""The paper's random matrices (Section 5, Table 1), and noisy copies of them as losses."""

from __future__ import annotations

import math
import time
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import chdtri

from weakprox.losses.denoising import Denoising
from weakprox.losses.moments import Moments

Matrix = np.ndarray[Any, np.dtype[np.float64]]


class Instance(NamedTuple):
    """A noisy matrix of Section 5."""

    M0: Matrix  # YY' + N, the mean of the samples that a method may draw
    tau: float  # tr(YY'), the radius of the nuclear ball
    size: float  # |YY'|_F^2, the unit of the accuracy asked for


class Signal(NamedTuple):
    """A noisy matrix of Table 1: M = yy' + (c/2)(N + N'), and the y behind it."""

    M: Matrix
    y: Matrix


def instance(d: int, r: int, seed: int | list[int]) -> Instance:
    """YY' + N, where entries of Y are 0 with probability 1 - 1/sqrt(d), else U{1..10}.

    N has independent N(0, 1) entries: it is not symmetric.
    """
    rng = np.random.default_rng([*([seed] if isinstance(seed, int) else seed), d, r])
    kept = rng.random((d, r)) < 1 / np.sqrt(d)
    Y = np.where(kept, rng.integers(1, 11, (d, r)), 0).astype(float)
    clean = Y @ Y.T
    M0 = clean + rng.standard_normal((d, d))
    return Instance(M0, float(np.trace(clean)), float(np.sum(clean**2)))


def table1_signal(
    n: int, c: float, rng: np.random.Generator, noise: Literal["matrix", "vector"] = "matrix"
) -> Signal:
    """Sparse y (entries 0 with probability 0.9, else U{1..10}) and the noisy yy'.

    A draw y = 0, which has no relative error, is drawn again. The paper writes
    N ~ N(0, I_n). Read as a matrix, N has n^2 independent N(0, 1) entries. Read to the
    letter it is a vector, and N + N' has entries N_i + N_j (what array languages make of a
    column plus a row): noise of the same variance per entry, but of rank two.
    """
    y = np.zeros(n)
    while not y.any():
        y = np.where(rng.random(n) < 0.1, rng.integers(1, 11, n), 0).astype(float)
    N = rng.standard_normal((n, n if noise == "matrix" else 1))
    return Signal(np.outer(y, y) + 0.5 * c * (N + N.T), y)


class NoisyCopies(Denoising):
    """Samples M + noise N, N with independent N(0, 1) entries.

    The loss uses only the mean and the scatter of a batch of k samples. They are
    independent, with the distributions of M + noise N / sqrt(k) and of noise^2 times a
    chi-square, and are drawn from these. Methods that ask for a million samples can thus be
    measured. Experiments replace the time this took (`seconds_drawing`) by the time that
    drawing single samples would take (`seconds_per_sample`).
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
        """Draw mean and scatter of `size` samples."""
        begun = time.perf_counter()
        mean = self._M + self._noise / np.sqrt(size) * rng.standard_normal(self._M.shape)
        freedom = self._M.size * (size - 1)
        scatter = self._noise**2 * float(rng.chisquare(freedom)) if freedom else 0.0
        if self._batches > 0:  # the first batch evaluates f, off the clock
            self.seconds_drawing += time.perf_counter() - begun
        self._batches += 1
        # the median of the largest of `size` distances, each noise times a chi
        beyond = -math.expm1(math.log(0.5) / size)
        far = self._noise * math.sqrt(float(chdtri(self._M.size, beyond)))
        return Moments(mean, size, scatter, far if size > 1 else 0.0)


class FiniteCopies(Denoising):
    """A finite sum of n such samples, of which only the mean is kept."""

    def __init__(self, M: Matrix, noise: float, n: int, rng: np.random.Generator) -> None:
        super().__init__(M + noise / np.sqrt(n) * rng.standard_normal(M.shape))
        self.n_terms = n

    def __repr__(self) -> str:
        return f"FiniteCopies({self.n_terms} samples, {self.shape[0]} x {self.shape[1]})"


def seconds_per_sample(shape: tuple[int, int], repeats: int = 20) -> float:
    """Measure the median time to draw one sample and add it to a sum."""
    rng, total, times = np.random.default_rng(0), np.zeros(shape), []
    for _ in range(repeats):
        begun = time.perf_counter()
        total += rng.standard_normal(shape)
        times.append(time.perf_counter() - begun)
    return float(np.median(times))
