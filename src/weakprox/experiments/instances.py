"""The paper's random matrices: Section 5 (figures) and Table 1."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

Matrix = np.ndarray[Any, np.dtype[np.float64]]


class Instance(NamedTuple):
    """A noisy matrix of Section 5.

    Attributes
    ----------
    M0 : array of shape (d, d)
        YY' + N, the mean of the samples that a method may draw.
    tau : float
        tr(YY'), the radius of the nuclear ball.
    size : float
        |YY'|_F^2, the unit of the accuracy asked for.
    """

    M0: Matrix
    tau: float
    size: float


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
