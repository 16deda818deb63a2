"""Thin SVD of a proximal target, with bounds on the values it leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from weakprox.linalg.arrays import Array, eps_of, rough_sqnorm, sqnorm, to_numpy
from weakprox.linalg.bounds import EXACT_BELOW, deflated_norm, raised
from weakprox.linalg.gram_svd import gram_svd
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thin_svd import Accept, Method, ThinSVD, Vector, thin_svd
from weakprox.spectral.duality import Spectrum

RestsOn = Literal["exact", "high-probability"]

# When a full decomposition through the Gram matrix is faster than a block method: with a
# basis to start from, without one, and for a large share of the triplets
# (benchmarks/thin_svd.py).
GRAM_BELOW = 96
GRAM_BELOW_COLD = 350
GRAM_SHARE = 0.15


def gram_is_cheaper(shape: tuple[int, int], rank: int, warm: bool) -> bool:
    """Whether a full decomposition is the cheaper way to compute `rank` triplets."""
    least = min(shape)
    return least <= (GRAM_BELOW if warm else GRAM_BELOW_COLD) or rank >= GRAM_SHARE * least


def norm_with_error(A: Array, certify: bool) -> tuple[float, float]:
    """Squared norm of A and a bound on its rounding; accurate if a proof needs it."""
    if certify:
        square = sqnorm(A)
        return square, 64 * eps_of(A) * square
    return rough_sqnorm(A)


def leading(svd: ThinSVD, count: int) -> ThinSVD:
    """Truncate a decomposition to its leading triplets."""
    top = svd.triplets
    if count >= int(top.s.shape[0]):
        return svd
    kept = LowRank(top.U[:, :count], top.s[:count], top.Vt[:count, :])
    after = float(top.s[count])
    return replace(svd, triplets=kept, residuals=svd.residuals[:count], next_value=after)


def decompose(
    A: Array,
    rank: int,
    accept: Accept,
    start: Array | None,
    certify: bool,
    rng: np.random.Generator | None,
    active: Callable[[Vector], int],
    level: Callable[[Vector], float],
) -> tuple[ThinSVD, Spectrum, RestsOn]:
    """Leading triplets of A and bounds on its spectrum.

    Without `certify` the values that are not kept are bounded by the Frobenius norm of the
    remainder: always valid, never tight. With `certify`, a full decomposition (small A) or
    a randomised bound (large A) is computed until the bound is below `level`. Only the
    `active` triplets are kept then, since the residuals of the others need not be accurate
    and would weaken the bounds.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    small = certify and min(A.shape) <= EXACT_BELOW
    svd = None
    if small or gram_is_cheaper((int(A.shape[0]), int(A.shape[1])), rank, start is not None):
        svd = gram_svd(A, active, rank)
    if svd is None:
        method: Method = "lapack" if small else "auto"
        svd = thin_svd(
            A,
            rank,
            start=start,
            tol=1e-13,
            method=method,
            rng=rng,
            strict=False,
            accept=accept,
        )
    ritz = np.asarray(to_numpy(svd.triplets.s), dtype=float)
    total, slack = norm_with_error(A, certify)
    energy = max(0.0, total - float(ritz @ ritz)) + slack
    if svd.exact:
        squared = svd.square_error  # nonzero only for Gram matrices
        error = svd.value_error  # nonzero only for LAPACK
        upper = np.sqrt((ritz + error) ** 2 + squared) * (1 + 16 * eps_of(A))
        tail = math.sqrt((svd.next_value + error) ** 2 + squared) * (1 + 16 * eps_of(A))
        tail += 16 * eps_of(A) * math.sqrt(total)
        return svd, Spectrum(ritz, upper, tail, energy, total, slack), "exact"
    if certify:
        svd = leading(svd, max(1, active(ritz)))
        ritz = ritz[: svd.triplets.s.shape[0]]
        energy = max(0.0, total - float(ritz @ ritz)) + slack
    residual = float(np.linalg.norm(to_numpy(svd.residuals)))
    rests_on: RestsOn = "exact"
    deflated = math.sqrt(energy)
    if certify:
        bound = deflated_norm(A, svd.triplets, rng, enough=0.98 * level(ritz))
        if bound < deflated:
            deflated, rests_on = bound, "high-probability"
    upper = np.asarray(to_numpy(raised(svd.triplets.s, residual, deflated)), dtype=float)
    tail = math.hypot(deflated, residual)
    return svd, Spectrum(ritz, upper, tail, energy, total, slack), rests_on
