"""Solutions for a whole grid of weights and radii, and the choice of one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weakprox._minimize import minimize
from weakprox.errors import InputError, ShapeError
from weakprox.linalg.lowrank import LowRank
from weakprox.problem import Problem
from weakprox.protocols import Loss, Penalty, SpectralTerm
from weakprox.result import Result
from weakprox.selection.noise import Values

Counts = np.ndarray[Any, np.dtype[np.int64]]


class Point(NamedTuple):
    """A place on a grid: row and column, and the weight and radius there."""

    row: int
    column: int
    lam: float
    tau: float


@dataclass(frozen=True)
class Path:
    """Solutions over a grid of (lam, tau).

    Attributes
    ----------
    lams : array of shape (n,)
        Weights, falling.
    taus : array of shape (n, k)
        Radii, rising along each row (falling where they are prices of `NuclearNorm`).
    values, gaps : arrays of shape (n, k)
        f at the answers, and how far above the optimum they are: proved where `certified`,
        else the solver's own estimate.
    ranks, nonzeros, svds : integer arrays of shape (n, k)
        Of the answers, and how many decompositions each one took.
    answers : tuple of tuples of LowRank
        `answers[i][j]` belongs to `lams[i]` and `taus[i, j]`.
    certified : bool
        Whether the gaps are proofs.
    seconds : float
        Time for all of it.
    loss, penalty, spectral
        The loss, and what makes a penalty of a weight and a spectral term of a radius.
    """

    lams: Values
    taus: Values
    values: Values
    gaps: Values
    ranks: Counts
    nonzeros: Counts
    svds: Counts
    answers: tuple[tuple[LowRank, ...], ...]
    certified: bool
    seconds: float
    loss: Loss
    penalty: Callable[[float], Penalty]
    spectral: Callable[[float], SpectralTerm]

    def best(self, scores: Any, *, one_standard_error: bool = False) -> Point:
        """The point of the grid with the smallest score.

        Parameters
        ----------
        scores : array of shape (n, k) or (folds, n, k)
            Errors on data that were held out: smaller is better. With folds, their mean
            counts.
        one_standard_error : bool
            Take the simplest answer (smallest rank, then fewest nonzeros) that is not worse
            than the best by more than one standard error. The error is that of the
            difference between the two, fold by fold, since folds share their noise.

        Returns
        -------
        Point
        """
        found = np.asarray(scores, dtype=float)
        if found.ndim not in (2, 3) or found.shape[-2:] != self.taus.shape:
            wanted = f"an array of shape {self.taus.shape}, or (folds, ...) of them"
            raise ShapeError("scores", found.shape, wanted)
        folds = found.reshape(-1, *self.taus.shape)
        mean = folds.mean(axis=0)
        if not np.isfinite(mean).any():
            raise InputError("scores", "no finite number", "one at least")
        row, column = np.unravel_index(int(np.nanargmin(mean)), mean.shape)
        if one_standard_error:
            if folds.shape[0] < 2:
                raise InputError("scores", "one fold", "two or more, for a standard error")
            away = folds - folds[:, row, column][:, None, None]
            error = away.std(axis=0, ddof=1) / np.sqrt(folds.shape[0])
            near = away.mean(axis=0) <= error
            near[row, column] = True
            simple = [
                (self.ranks[i, j], self.nonzeros[i, j], mean[i, j], i, j)
                for i, j in zip(*np.nonzero(near), strict=True)
            ]
            row, column = min(simple)[-2:]
        i, j = int(row), int(column)
        return Point(i, j, float(self.lams[i]), float(self.taus[i, j]))

    def problem(self, row: int, column: int) -> Problem:
        """The problem that one point of the grid stands for."""
        lam, tau = float(self.lams[row]), float(self.taus[row, column])
        return Problem(self.loss, self.penalty(lam), self.spectral(tau))

    def solve(self, row: int, column: int, **settings: Any) -> Result:
        """A result of its own for one point, certified; keywords go to `minimize`."""
        return minimize(self.problem(row, column), **settings)
