"""The paper's random matrices (Section 5, Table 1), noisy copies as losses, and optima."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import chdtri

from weakprox.arguments import nonnegative, positive
from weakprox.linalg import decompositions
from weakprox.linalg.simplex import project_capped
from weakprox.losses.denoising import Denoising
from weakprox.losses.moments import Moments
from weakprox.spectral import NuclearBall, TracePSD

Matrix = np.ndarray[Any, np.dtype[np.float64]]
SHARP = 1e-5  # singular values below this share of the largest are lost in A'A


class Instance(NamedTuple):
    """A noisy matrix of Section 5."""

    M0: Matrix  # YY' + N, the mean of the samples that a method may draw
    tau: float  # tr(YY'), the radius of the nuclear ball
    size: float  # |YY'|_F^2, the unit of the requested accuracy


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
    N ~ N(0, I_n). Read as a matrix, N has n^2 independent N(0, 1) entries. Taken literally it
    is a vector, and N + N' has entries N_i + N_j (what array languages make of a column plus a
    row): noise of the same variance per entry, but of rank two.
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
    chi-square, and are drawn from these. Methods that need a million samples can thus be
    measured. Experiments replace the measured time (`seconds_drawing`) by the time that drawing
    single samples would take (`seconds_per_sample`).
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


@dataclass(frozen=True)
class Optimum:
    """A feasible point with its value and a proved bound, both exact up to rounding."""

    X: Matrix
    value: float
    lower_bound: float
    steps: int  # projections done

    @property
    def gap(self) -> float:
        """Upper bound on the distance of the value from the optimum."""
        return max(0.0, self.value - self.lower_bound)


def optimum(
    M: Matrix,
    lam: float,
    spectral: NuclearBall | TracePSD,
    *,
    gap: float,
    mu: float = 0.0,
    max_steps: int = 10_000,
) -> Optimum:
    """Minimise 1/2 |X - M|^2 + lam |X|_1 over the set to a proved absolute gap.

    The dual: maximise, over matrices S with entries in [-lam, lam], the minimum over X in
    the set of 1/2 |X - M|^2 + <S, X>, which the projection X of M - S attains. It is smooth
    with constant 1, so accelerated ascent S <- clip(S^ + X) solves it; the momentum restarts
    whenever it points downhill. X gives a value, S a lower bound. Projections are full
    decompositions: slow at large sizes, but nothing is approximate. After `max_steps` of them
    the ascent ends. M must be symmetric for `TracePSD`. With a positive mu, |x| becomes the
    paper's Huber function: x^2 / (2 mu) up to |x| = mu, and |x| - mu/2 beyond.
    """
    positive("gap", gap)
    spectral.check((M.shape[0], M.shape[1]))
    weight = nonnegative("mu", mu) / lam if nonnegative("lam", lam) > 0 else 0.0

    def value(X: Matrix) -> float:
        size = np.abs(X)
        if mu > 0:
            size = np.where(size <= mu, size * size / (2 * mu), size - mu / 2)
        return 0.5 * float(np.sum((X - M) ** 2)) + lam * float(size.sum())

    def bound(S: Matrix, X: Matrix) -> float:
        quadratic = 0.5 * weight * float(np.sum(S * S))
        return 0.5 * float(np.sum((X - M) ** 2)) + float(np.sum(S * X)) - quadratic

    S = ahead = best_S = np.clip(M, -lam, lam)
    best_X, t, steps = M, 1.0, 0
    least, most = math.inf, -math.inf
    while steps < max_steps and least - most > gap:
        X = project(M - ahead, spectral)
        steps += 1
        now_value, now_bound = value(X), bound(ahead, X)
        if now_value < least:
            least, best_X = now_value, X
        if now_bound > most:
            most, best_S = now_bound, ahead
        # the step maximises <X, S> - |S - ahead|^2 / 2 - weight |S|^2 / 2 over the box
        S_next = np.clip((ahead + X) / (1 + weight), -lam, lam)
        if float(np.sum((ahead - S_next) * (S_next - S))) > 0:
            t = 1.0
        t_next = (1 + math.sqrt(1 + 4 * t * t)) / 2
        # clipped too: outside the box there is no lower bound
        ahead = np.clip(S_next + (t - 1) / t_next * (S_next - S), -lam, lam)
        S, t = S_next, t_next
    lower = bound(best_S, project(M - best_S, spectral))
    return Optimum(best_X, value(best_X), lower, steps)


def project(A: Matrix, spectral: NuclearBall | TracePSD) -> Matrix:
    """The nearest point of the set, from a full decomposition.

    For the nuclear ball the eigenvectors of the Gram matrix serve, several times cheaper
    than an SVD, as long as the values that are kept are not lost by squaring.
    """
    if spectral.symmetric:
        w, V = decompositions.eigh((A + A.T) / 2)
        values = np.asarray(project_capped(w, spectral.tau))
        kept = values > 0
        return np.asarray((V[:, kept] * values[kept]) @ V[:, kept].T)
    if A.shape[0] < A.shape[1]:
        return project(A.T, spectral).T
    w, V = decompositions.eigh(A.T @ A)
    s = np.sqrt(np.clip(w, 0.0, None))
    values = np.asarray(project_capped(s, spectral.tau))
    kept = values > 0
    if s[-1] - values[-1] > SHARP * s[-1]:  # the threshold, below which nothing is kept
        share = values[kept] / s[kept]
        return np.asarray(((A @ V[:, kept]) * share) @ V[:, kept].T)
    U, s, Vt = decompositions.svd(A)
    return np.asarray((U * np.asarray(project_capped(s, spectral.tau))) @ Vt)
