"""The instances of the benchmark, drawn here, and as `weakprox` problems.

Three kinds, all over the nuclear ball |X|_* <= tau:

E1: 1/2 |X - M|^2 + lam |X|_1, the paper's random matrices;
E2: 1/2 |X - M|^2 + the largest of n affine functions of X (Example 2);
E3: the mean of 1/2 (<A_i, X> - b_i)^2, + lam1 |X|_1 + lam2 |X|^2 (Example 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import weakprox as wp

Matrix = np.ndarray
LAM = 2.0


@dataclass(frozen=True)
class E1:
    """Denoising with an l1 norm: M = Y Y' + N with sparse Y, tau a share of tr(Y Y').

    `size` is |Y Y'|_F^2, the paper's unit of accuracy.
    """

    name: str
    M: Matrix
    tau: float
    lam: float = LAM
    size: float = 0.0
    kind = "E1"

    @property
    def shape(self) -> tuple[int, int]:
        """Of X."""
        return self.M.shape[0], self.M.shape[1]

    def problem(self, **options: Any) -> wp.Problem:
        """As a user of weakprox writes it."""
        del options  # this loss has no constants to get wrong
        loss = wp.losses.Denoising(self.M)
        return wp.Problem(loss, wp.penalties.L1(self.lam), wp.spectral.NuclearBall(self.tau))


@dataclass(frozen=True)
class E2:
    """Denoising with the largest of some affine functions <A_i, X> - b_i."""

    name: str
    M: Matrix
    A: Matrix
    b: Matrix
    tau: float
    kind = "E2"

    @property
    def shape(self) -> tuple[int, int]:
        """Of X."""
        return self.M.shape[0], self.M.shape[1]

    def problem(self, **options: Any) -> wp.Problem:
        """As a user of weakprox writes it."""
        del options
        penalty = wp.penalties.MaxAffine(self.A, self.b)
        return wp.Problem(
            wp.losses.Denoising(self.M), penalty, wp.spectral.NuclearBall(self.tau)
        )


@dataclass(frozen=True)
class E3:
    """Sensing with an elastic net: n measurements <A_i, X> = b_i, with noise."""

    name: str
    A: Matrix
    b: Matrix
    tau: float
    lam1: float
    lam2: float
    kind = "E3"

    @property
    def shape(self) -> tuple[int, int]:
        """Of X."""
        return self.A.shape[1], self.A.shape[2]

    def problem(self, **options: Any) -> wp.Problem:
        """As a user of weakprox writes it; options are constants of the loss."""
        loss = wp.losses.Sensing(self.A, self.b, **options)
        penalty = wp.penalties.ElasticNet(self.lam1, self.lam2)
        return wp.Problem(loss, penalty, wp.spectral.NuclearBall(self.tau))


Instance = E1 | E2 | E3


def e1(d: int, r: int, factor: float, seed: int | list[int] = 0) -> E1:
    """Entries of Y are 0 with probability 1 - 1/sqrt(d), else uniform on 1..10."""
    seeds = [seed] if isinstance(seed, int) else list(seed)
    rng = np.random.default_rng([*seeds, d, r])
    kept = rng.random((d, r)) < 1 / np.sqrt(d)
    Y = np.where(kept, rng.integers(1, 11, (d, r)), 0).astype(float)
    signal = Y @ Y.T
    M = signal + rng.standard_normal((d, d))
    name = f"E1, d = {d}, r = {r}, tau factor {factor:g}" + _seed(seed)
    return E1(name, M, factor * float(np.trace(signal)), size=float(np.sum(signal**2)))


def e2(m: int = 100, d: int = 80, pieces: int = 200, factor: float = 0.9, seed: int = 0) -> E2:
    """A rank-5 signal with N(0, 1) factors, noise N(0, 1), pieces and offsets N(0, 1).

    tau is a share of the signal's nuclear norm. The issue that asks for this instance
    fixes shape and pieces; the signal and tau are this benchmark's choice.
    """
    rng = np.random.default_rng([seed, m, d, pieces])
    signal = rng.standard_normal((m, 5)) @ rng.standard_normal((5, d))
    M = signal + rng.standard_normal((m, d))
    A = rng.standard_normal((pieces, m, d))
    b = rng.standard_normal(pieces)
    tau = factor * float(np.linalg.svd(signal, compute_uv=False).sum())
    return E2(f"E2, {m} x {d}, {pieces} pieces" + _seed(seed), M, A, b, tau)


def e3(lam1: float = 0.05, lam2: float = 0.05, d: int = 40, n: int = 4000, seed: int = 0) -> E3:
    """X0 = U V' of rank 3, 30 % of the factors' entries N(0, 1), the others zero."""
    rng = np.random.default_rng([seed, d, n])
    factors = [np.where(rng.random((d, 3)) < 0.3, rng.standard_normal((d, 3)), 0) for _ in "UV"]
    X0 = factors[0] @ factors[1].T
    A = rng.standard_normal((n, d, d))
    b = A.reshape(n, -1) @ X0.ravel() + 0.5 * rng.standard_normal(n)
    tau = 0.9 * float(np.linalg.svd(X0, compute_uv=False).sum())
    name = f"E3, {d} x {d}, n = {n}, lam2 = {lam2:g}" + _seed(seed)
    return E3(name, A, b, tau, lam1, lam2)


def _seed(seed: int | list[int]) -> str:
    return "" if seed == 0 else f", seed {seed}"
