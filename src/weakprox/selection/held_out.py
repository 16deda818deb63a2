"""Errors on copies that a fit has not seen, for every point of a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.progress import Progress
from weakprox.protocols import Penalty, SpectralTerm
from weakprox.selection.grid import Grid
from weakprox.selection.noise import Values
from weakprox.selection.thinning import Copies, whole
from weakprox.selection.walk import walk
from weakprox.spectral import NuclearBall

Products = tuple[Values, Values]


@dataclass(frozen=True)
class HeldOut:
    """What is needed to judge every point of a grid, with or without rescaling.

    An answer X is multiplied by a factor c before it is compared with a copy Z that it has
    not seen, |c X - Z|^2 = c^2 |X|^2 - 2 c <X, Z> + |Z|^2.

    Attributes
    ----------
    along, squares : arrays of shape (folds, n, k)
        <X, Z> and |X|^2.
    constants : array of shape (folds,)
        |Z|^2.
    entries : int
        Entries of a matrix.
    """

    along: Values
    squares: Values
    constants: Values
    entries: int

    def scales(self, *, debias: bool = True) -> Values:
        """The factor that is best on the unseen copies, at least 1; or 1 for all."""
        if not debias:
            return np.ones(self.along.shape[1:])
        along, squares = self.along.sum(axis=0), self.squares.sum(axis=0)
        best = np.divide(along, squares, out=np.ones_like(along), where=squares > 0.0)
        found: Values = np.maximum(best, 1.0)
        return found

    def errors(self, *, debias: bool = True) -> Values:
        """Mean squared error per entry, for every fold and point."""
        c = self.scales(debias=debias)
        total = c**2 * self.squares - 2.0 * c * self.along + self.constants[:, None, None]
        found: Values = total / self.entries
        return found


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
    progress: bool | Literal["auto"] = False,
) -> HeldOut:
    """Fit on all copies but one, a whole path at a time, and compare with that one.

    Weights refer to the noise of the mean of all copies. With fewer of them the noise is
    larger, and the weights are raised as much.

    Parameters
    ----------
    copies : Copies
        From `thinned` or `folded`.
    grid : Grid
        Weights and radii.
    folds : int, optional
        How many copies to leave out, one after the other; all by default.
    penalty, spectral : callable
        What a weight and a radius stand for, as in `regularization_path`.
    tol : float
        Accuracy of the answers, relative to f.
    rank : int, optional
        Largest rank of the answers.
    seed : int
        Fixes every random choice of the solver.
    n_jobs : int, optional
        Folds at a time, by joblib; each of them then uses one thread of BLAS.
    progress : bool or "auto"
        A progress bar on stderr, where folds are done one by one.

    Returns
    -------
    HeldOut
    """
    count = len(copies) if folds is None else min(whole("folds", folds, least=1), len(copies))
    settings = {"tol": tol, "rank": rank, "seed": seed}
    tasks = [(copies, k, grid, penalty, spectral, settings) for k in range(count)]
    if n_jobs in (None, 1):
        with Progress(progress, counted=True) as display:
            bar = display.add("held-out errors", count * grid.taus.size)
            done = [_fold(*task, step=partial(display.advance, bar)) for task in tasks]
    else:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config(backend="loky", inner_max_num_threads=1):
            done = Parallel(n_jobs=n_jobs)(delayed(_fold)(*task) for task in tasks)
    along, squares = (np.array(part) for part in zip(*done, strict=True))
    constants = np.array([np.sum(Z * Z) for Z in copies.means[:count]])
    return HeldOut(along, squares, constants, copies.means[0].size)


def _fold(
    copies: Copies,
    k: int,
    grid: Grid,
    penalty: Any,
    spectral: Any,
    settings: dict[str, Any],
    step: Callable[[], None] | None = None,
) -> Products:
    """<X, Z> and |X|^2 over the grid, X fitted without copy k and Z that copy."""
    along, squares = np.zeros(grid.shape), np.zeros(grid.shape)
    louder = Grid(copies.louder(k) * grid.lams, grid.taus)
    Z = copies.means[k]
    for i, j, found in walk(
        Denoising(copies.without(k)), louder, penalty, spectral, **settings
    ):
        X = found.low_rank
        along[i, j], squares[i, j] = X.inner(Z), X.sqnorm
        if step is not None:
            step()
    return along, squares
