"""Near-exact optima of denoising problems, with proof, to measure other methods against.

The problem min 1/2 |X - M|^2 + lam |X|_1 over a set C has the dual: maximise, over
matrices S with entries in [-lam, lam], the minimum over X in C of
1/2 |X - M|^2 + <S, X>, which the projection X of M - S on C attains. It is smooth with
constant 1, so accelerated ascent S <- clip(S^ + X) with restarts solves it; X gives a
value, S a lower bound. Smoothing the l1 norm (Huber) takes mu / (2 lam) |S|^2 off.

Projections are full decompositions: slow at large sizes, but nothing is approximate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weakprox.arguments import nonnegative, positive
from weakprox.experiments.instances import Matrix
from weakprox.linalg import decompositions
from weakprox.linalg.simplex import project_capped
from weakprox.spectral import NuclearBall, TracePSD

SHARP = 1e-5  # singular values below this share of the largest are lost in A'A


@dataclass(frozen=True)
class Optimum:
    """A feasible point with its value and a proved bound, both exact up to rounding."""

    X: Matrix
    value: float
    lower_bound: float
    steps: int  # projections done

    @property
    def gap(self) -> float:
        """The value is at most this far above the optimum."""
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

    Accelerated dual ascent from M, clipped to [-lam, lam]; the momentum
    restarts whenever it points downhill. After `max_steps` projections it gives up, and the
    gap says how far it came. M must be symmetric for `TracePSD`. With a positive mu, |x|
    becomes the paper's Huber function: x^2 / (2 mu) up to |x| = mu, and |x| - mu/2 beyond.
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
    if isinstance(spectral, TracePSD):
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
