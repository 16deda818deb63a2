"""Errors of denoised matrices on unseen copies, and by Stein's estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from weakprox.arguments import (
    integer,
    is_auto,
    is_integer,
    nonnegative,
    number,
    positive,
    seed_number,
)
from weakprox.errors import InputError
from weakprox.linalg.threads import one_thread
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.protocols import Penalty, SpectralTerm
from weakprox.selection._lean import Solved
from weakprox.selection.copies import THINNING, Copies
from weakprox.selection.debias import Debias, along_triplets, refit_values, relaxed
from weakprox.selection.grid import Grid
from weakprox.selection.noise import Values, matrix
from weakprox.selection.path import walk
from weakprox.selection.search import Deadline, Search, Seed, Weights, stream
from weakprox.spectral import NuclearBall

# A copy, the mean of the others, and the answers of the path that is fitted to it.
Fold: TypeAlias = tuple[Values, Values, Iterator[tuple[int, int, Solved]]]
# relative accuracy of fits whose errors are only compared: differences of this size are small
# beside the noise of the copies. `denoise.CHOOSING` is for the choice of one candidate.
COMPARING = 3e-3
ROUNDING = 1e-13  # error, relative to the squared norm of a copy, that counts as zero
PROBE = 0.1  # length of the step along which answers are compared, in units of the noise


@dataclass(frozen=True)
class HeldOut:
    """Errors on unseen copies for every point of a grid, with or without undoing the shrinkage.

    An answer X and its refit R (see `selection.debias`) are compared with an unseen copy Z as
    c X + w R, where either w = 0 or c = 1 - w. Their products are enough for every c and w.
    """

    along: Values  # <X, Z>, of shape (folds, n, k)
    squares: Values  # |X|^2, likewise
    constants: Values  # |Z|^2, of shape (folds,)
    entries: int  # entries of a matrix
    refits: Values | None = None  # <R, Z>, |R|^2 and <R, X>, of shape (3, folds, n, k)

    def shares(self, debias: Debias = True) -> tuple[Values, Values]:
        """The shares c of the answers and w of their refits that are best on unseen copies.

        Without `debias` they are 1 and 0. With True, w is 0 and c at least 1. With "auto", a
        relaxed refit replaces the factor if its error is smaller.
        """
        ones, zeros = np.ones(self.along.shape[1:]), np.zeros(self.along.shape[1:])
        if not debias:
            return ones, zeros
        along, squares = self.along.sum(axis=0), self.squares.sum(axis=0)
        factor = np.divide(along, squares, out=ones, where=squares > 0.0)
        factor = np.asarray(np.maximum(factor, 1.0))
        if not is_auto(debias) or self.refits is None:
            return factor, zeros
        towards, length, across = self.refits.sum(axis=1)
        w = relaxed(towards - along - across + squares, length - 2.0 * across + squares)
        scaled = factor**2 * squares - 2.0 * factor * along
        moved = (1.0 - w) ** 2 * squares + 2.0 * w * (1.0 - w) * across + w**2 * length
        moved -= 2.0 * (1.0 - w) * along + 2.0 * w * towards
        better = moved < scaled - ROUNDING * self.constants.sum()
        return np.where(better, 1.0 - w, factor), np.where(better, w, 0.0)

    def scales(self, *, debias: Debias = True) -> Values:
        """The factor of the answers that is best on the unseen copies; or 1 for all."""
        return self.shares(debias)[0]

    def errors(self, *, debias: Debias = True) -> Values:
        """Mean squared error per entry, for every fold and point."""
        c, w = self.shares(debias)
        size = self.constants[:, None, None]
        total = c**2 * self.squares - 2.0 * c * self.along + size
        if self.refits is not None and w.any():
            towards, length, across = self.refits
            total += w**2 * length + 2.0 * c * w * across - 2.0 * w * towards
        return np.maximum(total, ROUNDING * size) / self.entries

    def first(self, folds: int) -> HeldOut:
        """The comparisons with the first copies only."""
        return replace(self._each(lambda part: part[:folds]), constants=self.constants[:folds])

    def flat(self) -> HeldOut:
        """These comparisons with the points along one axis."""
        return self._each(lambda part: part.reshape(len(part), -1, 1))

    def some(self, points: list[int]) -> HeldOut:
        """These points only, of those along the first axis."""
        return self._each(lambda part: part[:, points])

    def _each(self, change: Callable[[Values], Values]) -> HeldOut:
        refits = None if self.refits is None else np.stack([change(x) for x in self.refits])
        return replace(
            self, along=change(self.along), squares=change(self.squares), refits=refits
        )

    @staticmethod
    def joined(parts: list[HeldOut], *, folds: bool) -> HeldOut:
        """Comparisons of the same points with further copies, or of further points."""
        axis = 0 if folds else 1
        along = np.concatenate([part.along for part in parts], axis=axis)
        squares = np.concatenate([part.squares for part in parts], axis=axis)
        constants = parts[0].constants
        if folds:
            constants = np.concatenate([part.constants for part in parts])
        more = [part.refits for part in parts if part.refits is not None]
        refits = np.concatenate(more, axis=axis + 1) if len(more) == len(parts) else None
        return HeldOut(along, squares, constants, parts[0].entries, refits)


def held_out(
    copies: Copies,
    grid: Grid,
    *,
    folds: int | Sequence[int] | None = None,
    penalty: Callable[[float], Penalty] = L1,
    spectral: Callable[[float], SpectralTerm] = NuclearBall,
    tol: float = COMPARING,
    rank: int | None = None,
    seed: Seed = 0,
    n_jobs: int | None = None,
    max_seconds: float | None = None,
    progress: bool | Literal["auto"] = False,
    refit: bool = False,
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
    folds : int or sequence of int, optional
        Number of copies to leave out, one after the other, or their indices; all by default.
    penalty, spectral, rank, seed, progress
        As in `regularization_path`; there is no progress bar with `n_jobs`.
    tol : float
        Accuracy of the fits, relative to their values. Differences of the default's size are
        small beside the noise of the copies, so the errors of a grid keep their shape. They may
        change the order of candidates with almost equal errors; models, which choose one of
        them, fit to 1e-3.
    n_jobs : int, optional
        Number of folds to process in parallel by joblib, each with one thread of BLAS.
    max_seconds : float, optional
        Time limit. Points that are not reached with the first copy have the error NaN; further
        copies that are not completed are omitted.
    refit : bool
        Whether refits of the answers are compared as well, for ``debias="auto"``.
    """
    if not isinstance(copies, Copies):
        raise InputError("copies", type(copies).__name__, "copies from thinned or folded")
    if not isinstance(grid, Grid):
        raise InputError("grid", type(grid).__name__, "a Grid, such as that of default_grid")
    if n_jobs is not None and (not is_integer(n_jobs) or n_jobs == 0):
        raise InputError("n_jobs", repr(n_jobs), "an integer other than 0, or None")
    left_out = _chosen(folds, len(copies))
    deadline = Deadline.after(max_seconds)
    settings = {"tol": tol, "rank": rank, "deadline": deadline}
    settings["seed"] = seed_number("seed", seed)
    prepare = partial(_left_out, copies, grid, penalty, spectral, settings)
    limits: Any = {"deadline": deadline, "progress": progress, "n_jobs": n_jobs}
    compare = partial(_compared, refit)
    search: Search[Weights] = Search(left_out, compare, prepare=prepare, **limits)
    points = grid.points()
    with one_thread(copies.means[0].size):  # many short solves
        search.grid(points)
    count = len(search.losses[points[0]])
    found = np.full((5 if refit else 2, count, *grid.shape), np.nan)
    for place, point in zip(np.ndindex(grid.shape), points, strict=True):
        if point in search.losses:
            found[:, :, *place] = np.array(search.losses[point])[:, 1:].T
    constants = np.array([np.sum(copies.means[k] ** 2) for k in left_out[:count]])
    refits = found[2:] if refit else None
    return HeldOut(found[0], found[1], constants, copies.means[0].size, refits)


def _chosen(folds: int | Sequence[int] | None, copies: int) -> Sequence[int]:
    """Indices of the copies to leave out."""
    if folds is None:
        return range(copies)
    if not isinstance(folds, Sequence):
        return range(min(integer("folds", folds, least=1), copies))
    found = [integer("folds", k, 0, copies - 1) for k in folds]
    if not found or len(set(found)) < len(found):
        raise InputError("folds", found, "different copies, one at least")
    return found


def _left_out(
    copies: Copies,
    grid: Grid,
    penalty: Callable[[float], Penalty],
    spectral: Callable[[float], SpectralTerm],
    settings: dict[str, Any],
    k: int,
) -> Fold:
    louder = Grid(copies.louder(k) * grid.lams, grid.taus)
    A = copies.without(k)
    return copies.means[k], A, walk(Denoising(A), louder, penalty, spectral, **settings)


def _compared(
    refit: bool, fold: Fold, point: Weights, start: None
) -> tuple[tuple[float, ...], None]:
    """Error and products of the next point; the path provides the warm starts."""
    Z, A, steps = fold
    X = next(steps)[2].low_rank
    if refit:
        s, t, z = X.s, refit_values(X, A), along_triplets(X, Z)
        products = tuple(float(x) for x in (s @ z, s @ s, t @ z, t @ t, s @ t))
    else:
        products = X.inner(Z), X.sqnorm
    error = (products[1] - 2.0 * products[0] + float(np.sum(Z * Z))) / Z.size
    return (error, *products), None


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
    freedom = number("divergence", divergence, "a finite number")
    return float(np.sum((B - A) ** 2) - A.size * variance + 2.0 * variance * freedom)


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
    seed: Seed = 0,
) -> Values:
    r"""Stein's estimate for every point of a grid, divergences by Monte Carlo.

    The divergence is estimated by :math:`\langle w, X(M + h w) - X(M)\rangle / h` for random
    :math:`w` and a small :math:`h` (Ramani et al. 2008), averaged over `probes` directions.
    Each costs one more path. Errors of the answers, which have the accuracy `tol`, are divided
    by h. Other parameters are those of `held_out`; the estimates are summed over entries.
    """
    A, noise = matrix("M", M), positive("noise", noise)
    named_by = seed_number("seed", seed)
    settings: dict[str, Any] = {"tol": tol, "rank": rank, "seed": named_by}
    rng = stream(named_by, THINNING)
    symmetric = bool(np.array_equal(A, A.T)) and spectral(1.0).symmetric

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
