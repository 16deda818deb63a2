"""Errors of denoised matrices: on copies that a fit has not seen, and by Stein's estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from weakprox.arguments import integer, nonnegative, positive
from weakprox.errors import InputError
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.protocols import Penalty, SpectralTerm
from weakprox.selection._lean import Solved
from weakprox.selection.copies import THINNING, Copies
from weakprox.selection.grid import Grid
from weakprox.selection.noise import Values, matrix
from weakprox.selection.path import walk
from weakprox.selection.search import Deadline, Search, stream
from weakprox.spectral import NuclearBall

# A copy, and the answers of the path that is fitted without it.
Fold: TypeAlias = tuple[Values, Iterator[tuple[int, int, Solved]]]
ROUNDING = 1e-13  # error, relative to the squared norm of a copy, that counts as zero
PROBE = 0.1  # length of the step along which answers are compared, in units of the noise


@dataclass(frozen=True)
class HeldOut:
    """Errors on unseen copies for every point of a grid, with or without rescaling.

    An answer X is multiplied by a factor c before it is compared with an unseen copy Z:
    |c X - Z|^2 = c^2 |X|^2 - 2 c <X, Z> + |Z|^2.
    """

    along: Values  # <X, Z>, of shape (folds, n, k)
    squares: Values  # |X|^2, likewise
    constants: Values  # |Z|^2, of shape (folds,)
    entries: int  # of a matrix

    def scales(self, *, debias: bool = True) -> Values:
        """The factor that is best on the unseen copies, at least 1; or 1 for all."""
        if not debias:
            return np.ones(self.along.shape[1:])
        along, squares = self.along.sum(axis=0), self.squares.sum(axis=0)
        best = np.divide(along, squares, out=np.ones_like(along), where=squares > 0.0)
        return np.asarray(np.maximum(best, 1.0))

    def first(self, folds: int) -> HeldOut:
        """The comparisons with the first copies only."""
        along, squares = self.along[:folds], self.squares[:folds]
        return HeldOut(along, squares, self.constants[:folds], self.entries)

    def errors(self, *, debias: bool = True) -> Values:
        """Mean squared error per entry, for every fold and point."""
        c = self.scales(debias=debias)
        size = self.constants[:, None, None]
        total = c**2 * self.squares - 2.0 * c * self.along + size
        return np.maximum(total, ROUNDING * size) / self.entries


def held_out(
    copies: Copies,
    grid: Grid,
    *,
    folds: int | None = None,
    penalty: Callable[[float], Penalty] = L1,
    spectral: Callable[[float], SpectralTerm] = NuclearBall,
    tol: float = 1e-3,
    rank: int | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    max_seconds: float | None = None,
    progress: bool | Literal["auto"] = False,
) -> HeldOut:
    """Fit on all copies but one, a whole path at a time, and compare with that one.

    Weights refer to the noise of the mean of all copies. The mean of fewer copies has more
    noise, and the weights are raised by the same factor.

    Parameters
    ----------
    copies : Copies
        From `thinned` or `folded`.
    grid : Grid
        Weights and radii.
    folds : int, optional
        Number of copies to leave out, one after the other; all by default.
    penalty, spectral, tol, rank, seed, progress
        As in `regularization_path`; there is no progress bar with `n_jobs`.
    n_jobs : int, optional
        Folds to work on at a time, by joblib, each with one thread of BLAS.
    max_seconds : float, optional
        Time limit. The points of the first copy that are not reached have errors NaN;
        further copies that are not completed are left out.
    """
    count = len(copies) if folds is None else integer("folds", folds, least=1)
    count = min(count, len(copies))
    deadline = Deadline.after(max_seconds)
    settings = {"tol": tol, "rank": rank, "seed": seed, "deadline": deadline}
    prepare = partial(_left_out, copies, grid, penalty, spectral, settings)
    limits: Any = {"deadline": deadline, "progress": progress, "n_jobs": n_jobs}

    def describe(k: int, at: tuple[int, int], found: Any) -> str:
        Z, (product, square) = copies.means[k], found
        error = (square - 2.0 * product + float(np.sum(Z * Z))) / Z.size
        weights = f"lam {grid.lams[at[0]]:.3g}  tau {grid.taus[at]:.3g}"
        return f"{weights}  score {-error:.4g}"

    limits["describe"] = describe
    search: Search[tuple[int, int]] = Search(range(count), _compared, prepare=prepare, **limits)
    search.grid(list(np.ndindex(grid.shape)))
    count = len(search.losses[0, 0])
    found = np.full((2, count, *grid.shape), np.nan)
    for (i, j), losses in search.losses.items():
        found[:, :, i, j] = np.array(losses).T
    constants = np.array([np.sum(Z * Z) for Z in copies.means[:count]])
    return HeldOut(found[0], found[1], constants, copies.means[0].size)


def _left_out(
    copies: Copies,
    grid: Grid,
    penalty: Callable[[float], Penalty],
    spectral: Callable[[float], SpectralTerm],
    settings: dict[str, Any],
    k: int,
) -> Fold:
    louder = Grid(copies.louder(k) * grid.lams, grid.taus)
    loss = Denoising(copies.without(k))
    return copies.means[k], walk(loss, louder, penalty, spectral, **settings)


def _compared(fold: Fold, at: tuple[int, int], start: None) -> tuple[Any, None]:
    """<X, Z> and |X|^2 of the next point; the path itself provides the warm starts."""
    Z, steps = fold
    X = next(steps)[2].low_rank
    return (X.inner(Z), X.sqnorm), None


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
