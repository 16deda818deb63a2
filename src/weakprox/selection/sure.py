"""Stein's unbiased estimate of the error of a denoised matrix, without held-out data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weakprox.arguments import integer, nonnegative, positive
from weakprox.errors import InputError
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.protocols import Penalty, SpectralTerm
from weakprox.selection.grid import Grid
from weakprox.selection.held_out import THINNING
from weakprox.selection.noise import Values, matrix
from weakprox.selection.path import walk
from weakprox.selection.search import stream
from weakprox.spectral import NuclearBall

PROBE = 0.1  # length of the step along which answers are compared, in units of the noise


def sure(M: Any, X: Any, noise: float, divergence: float) -> float:
    r"""Unbiased estimate of :math:`\|X - \mathbb{E} M\|_F^2`.

    :math:`-md\,\sigma^2 + \|X - M\|_F^2 + 2\sigma^2\,\mathrm{div}` for an answer :math:`X`
    that depends on :math:`M` in a weakly differentiable way (Stein 1981).

    Parameters
    ----------
    M : array of shape (m, d)
        The noisy matrix.
    X : array of shape (m, d)
        The estimate.
    noise : float
        Standard deviation of its entries.
    divergence : float
        Sum over entries of the derivative of that entry of X by that entry of M.

    Returns
    -------
    float
    """
    A, B = matrix("M", M), matrix("X", X)
    if A.shape != B.shape:
        raise InputError("X", f"shape {B.shape}", f"shape {A.shape}, that of M")
    variance = nonnegative("noise", noise) ** 2
    return float(np.sum((B - A) ** 2) - A.size * variance + 2.0 * variance * divergence)


def sure_over_grid(
    M: Any,
    grid: Grid,
    noise: float,
    *,
    penalty: Callable[[float], Penalty] = L1,
    spectral: Callable[[float], SpectralTerm] = NuclearBall,
    probes: int = 1,
    tol: float = 1e-4,
    rank: int | None = None,
    seed: int = 0,
) -> Values:
    r"""Stein's estimate for every point of a grid, divergences by Monte Carlo.

    The divergence is estimated by :math:`\langle w, X(M + h w) - X(M)\rangle / h` for random
    :math:`w` and a small :math:`h` (Ramani et al. 2008), averaged over `probes` directions.
    Each costs one more path. Errors of the answers, of accuracy `tol`, are divided by h. Other
    parameters are those of `held_out`; the estimates are summed over entries.
    """
    A, noise = matrix("M", M), positive("noise", noise)
    settings: dict[str, Any] = {"tol": tol, "rank": rank, "seed": seed}
    rng = stream(seed, THINNING)
    symmetric = bool(np.array_equal(A, A.T)) and getattr(spectral, "symmetric", False)

    def answers(B: Values) -> list[Any]:
        steps = walk(Denoising(B), grid, penalty, spectral, **settings)
        return [found.low_rank for _, _, found in steps]

    plain = answers(A)
    divergence = np.zeros(len(plain))
    for _ in range(integer("probes", probes, least=1)):
        w = np.asarray(rng.standard_normal(A.shape))
        if symmetric:
            w = (w + w.T) / 2.0
        h = PROBE * noise
        moved = answers(A + h * w)
        divergence += [
            (there.inner(w) - here.inner(w)) / h
            for here, there in zip(plain, moved, strict=True)
        ]
    divergence /= probes
    size = float(np.sum(A * A))
    found = [
        X.sqnorm - 2.0 * X.inner(A) + size - A.size * noise**2 + 2.0 * noise**2 * div
        for X, div in zip(plain, divergence, strict=True)
    ]
    return np.array(found).reshape(grid.shape)
