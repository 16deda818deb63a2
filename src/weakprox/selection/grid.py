"""Weights and radii to try, in ranges derived from the data and their noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.arguments import flag, integer, number
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import decompositions
from weakprox.linalg._thin_svd import thin_eigh, thin_svd
from weakprox.selection.noise import (
    Values,
    given_noise,
    matrix,
    noise_edge,
    noise_level,
    shrunk_values,
)
from weakprox.selection.search import Weights

LOWEST, HIGHEST = 0.2, 0.9  # radii, as shares of the leading singular values
RANGE = 16.0  # from the largest weight to the smallest but zero
FULL_BELOW = 600  # full decompositions up to this size


@dataclass(frozen=True)
class Grid:
    """Weights and radii to try."""

    lams: Values  # of shape (n,): weights of the penalty, falling
    taus: Values  # of shape (n, k): radii, rising along each row; row i belongs to lams[i]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.taus.shape[0]), int(self.taus.shape[1])

    def points(self) -> list[Weights]:
        """Weight and radius of each point, row by row."""
        lams = np.repeat(self.lams, self.shape[1])
        return list(map(Weights, lams.tolist(), self.taus.ravel().tolist()))


def default_grid(
    M: Any, noise: float | None = None, *, n_lams: int = 10, n_taus: int = 10, psd: bool = False
) -> Grid:
    r"""Weights and radii for a noisy matrix.

    Weights fall from :math:`\sigma\sqrt{2\log(md)}`, at which soft thresholding removes
    nearly all noise, to a sixteenth of it. The last weight is 0: low rank alone. Radii go
    from 20 % to 90 % of the sum of the leading singular values of the soft-thresholded
    matrix, as many as M has above the noise edge :math:`\sigma(\sqrt m+\sqrt d)`. The last
    radius is so large that it has no effect: sparsity alone.

    Parameters
    ----------
    M : array of shape (m, d)
        Signal plus noise.
    noise : float, optional
        Its standard deviation; estimated if not given.
    n_lams, n_taus : int
        Number of weights and of radii, at least two.
    psd : bool
        Whether radii bound the trace of a positive semidefinite matrix.
    """
    A = matrix("M", M)
    for name, count in (("n_lams", n_lams), ("n_taus", n_taus)):
        integer(name, count, least=2)
    if flag("psd", psd) and A.shape[0] != A.shape[1]:
        raise ShapeError("M", f"shape {A.shape}", "a square matrix, with psd")
    noise = noise_level(A) if noise is None else given_noise("noise", noise, A)
    largest = float(np.abs(A).max())
    if largest == 0.0:
        raise InputError("M", "a matrix of zeros", "one that contains a signal")
    top = min(largest, noise * math.sqrt(2.0 * math.log(max(2, A.size)))) or 0.1 * largest
    lams = np.append(np.geomspace(top, top / RANGE, n_lams - 1), 0.0)
    s = leading_values(A, noise_edge((A.shape[0], A.shape[1]), noise), psd=psd)
    count = max(1, shrunk_values(s, (A.shape[0], A.shape[1]), noise).size)
    shares = np.linspace(LOWEST, HIGHEST, n_taus - 1)
    rows = []
    for lam in lams:
        shrunk = np.sign(A) * np.maximum(np.abs(A) - lam, 0.0)
        signal = float(leading_values(shrunk, math.inf, psd=psd, first=count)[:count].sum())
        signal = signal or largest  # nothing is left: any radius is suitable
        # above every nuclear norm; with lam = 0 this would give M itself
        last = math.sqrt(min(A.shape)) * float(np.linalg.norm(shrunk)) if lam else signal
        rows.append(np.append(shares * signal, max(last, signal)))
    return Grid(lams, np.array(rows))


def leading_values(A: Values, edge: float, *, psd: bool = False, first: int = 16) -> Values:
    """Falling singular values (nonnegative eigenvalues) down to the edge, at least `first`."""
    smaller, rank = min(A.shape), first
    while smaller > FULL_BELOW and 8 * rank <= smaller:
        if psd:
            found = thin_eigh(A, rank, tol=1e-4, strict=False).values
        else:
            found = thin_svd(A, rank, tol=1e-4, strict=False).triplets.s
        if float(found[-1]) <= edge:
            return np.asarray(np.maximum(found, 0.0), dtype=float)
        rank *= 2
    if psd:
        found = np.maximum(decompositions.eigvalsh(0.5 * (A + A.T))[::-1], 0.0)
    else:
        found = decompositions.svdvals(A)
    return np.asarray(found, dtype=float)


def as_grid(lams: Any, taus: Any, *, rising: bool = True) -> Grid:
    """The user's weights and radii, checked and sorted."""
    weights = numbers("lams", lams, zero=True)
    order = np.argsort(-weights, kind="stable")
    try:
        radii = np.asarray(taus, dtype=float)
    except (TypeError, ValueError):
        raise InputError(
            "taus", repr(taus), "numbers, in a list or rows of equal length"
        ) from None
    if radii.ndim == 1:
        radii = np.tile(numbers("taus", radii, zero=not rising), (weights.size, 1))
    elif radii.ndim != 2 or radii.shape[0] != weights.size or radii.shape[1] == 0:
        wanted = f"a list of numbers, or an array of {weights.size} rows, one per lam"
        raise ShapeError("taus", radii.shape, wanted)
    else:
        radii = np.array([numbers("taus", row, zero=not rising) for row in radii])
    radii = np.sort(radii, axis=1)
    return Grid(weights[order], (radii if rising else radii[:, ::-1])[order])


def numbers(name: str, values: Any, *, zero: bool) -> Values:
    """Numbers above zero, or at least zero."""
    try:
        found = [number(name, value, "finite numbers") for value in values]
    except TypeError:
        raise InputError(name, repr(values), "a list of numbers") from None
    if not found:
        raise InputError(name, "none", "one number at least")
    if min(found) < 0.0 or (min(found) == 0.0 and not zero):
        raise InputError(name, min(found), "numbers >= 0" if zero else "numbers > 0")
    return np.array(found)
