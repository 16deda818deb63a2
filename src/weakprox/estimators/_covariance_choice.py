"""Choosing lam and tau of a covariance by samples that the fit has not seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from weakprox.errors import InputError
from weakprox.estimators._common_variance import (
    common_problem,
    cut,
    scatter,
    with_own_variance,
)
from weakprox.result import Result
from weakprox.selection.noise import Values

FOLDS = 10
FEWEST = 4  # samples with which folds make sense; fewer get the first guesses
SHARES = (0.02, *(round(0.05 * k, 2) for k in range(1, 21)))  # of the trace
WEIGHTS = (0.0, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)  # lam in standard errors of a covariance
FIRST_SHARE, FIRST_WEIGHT = 0.6, 0.125
LEAP = 4  # shares at a time, at first
EQUAL, APART = 1e-4, 10.0  # of standard deviations: by rounding, and by units
ROUGH = 1e-2  # relative accuracy of the fits that are only compared

Solve = Callable[..., Result]


@dataclass(frozen=True)
class Fold:
    """Covariance of the samples kept, covariance of those left out, and how many were kept."""

    kept: Values
    unseen: Values
    count: int


def folds(Z: Values, *, centred: bool, standardized: bool, seed: int) -> list[Fold]:
    """Random parts of the rows, each left out once.

    The mean and the scale are those of the rows kept, as they would be for new samples.
    """
    order = np.random.default_rng(seed).permutation(len(Z))
    found = []
    for part in np.array_split(order, min(FOLDS, len(Z))):
        others, unseen = np.delete(Z, part, axis=0), Z[part]
        if not centred:
            unseen, others = unseen - others.mean(axis=0), others - others.mean(axis=0)
        scale = scale_of(others) if standardized else 1.0
        found.append(Fold(scatter(others / scale), scatter(unseen / scale), len(others)))
    return found


def scale_of(Z: Values) -> Values:
    """Standard deviations of centred columns, 1 for those that do not vary."""
    scale = np.sqrt(np.mean(Z * Z, axis=0))
    found: Values = np.where(scale > 0.0, scale, 1.0)
    return found


def units_differ(scale: Values) -> bool:
    """Whether standard deviations are all equal, or too different to be of one unit."""
    least, middle, most = float(scale.min()), float(np.median(scale)), float(scale.max())
    return most - least <= EQUAL * most or most > APART * middle


def standard_error(S: Values, count: int) -> float:
    """Typical standard error of an entry of S when variables are unrelated."""
    mean = float(np.trace(S)) / int(S.shape[0])
    return mean / math.sqrt(count)


@dataclass
class Search:
    """Errors on samples not seen, kept so that no pair is tried twice.

    Attributes
    ----------
    folds : list of Fold
        Data.
    solve : callable
        Solves a problem.
    diagonal, rank
        As in the model.
    errors : dict
        (share of the trace, weight in standard errors) to the mean over folds of the
        squared Frobenius distance between estimate and unseen covariance.
    """

    folds: list[Fold]
    solve: Solve
    diagonal: bool
    rank: int | None
    errors: dict[tuple[float, float], float] = field(default_factory=dict)

    def error(self, share: float, weight: float) -> float:
        """Mean over folds."""
        if (share, weight) not in self.errors:
            found = [self._error(fold, share, weight) for fold in self.folds]
            self.errors[share, weight] = float(np.mean(found))
        return self.errors[share, weight]

    def _error(self, fold: Fold, share: float, weight: float) -> float:
        S = fold.kept
        trace = float(np.trace(S))
        if trace <= 0.0:  # all samples kept are equal: nothing to estimate from
            return float(np.sum(fold.unseen**2))
        lam = weight * standard_error(S, fold.count)
        problem = common_problem(S, lam, share * trace, diagonal=self.diagonal)
        found = cut(self.solve(problem, tol=ROUGH), problem, self.rank)
        estimate = found.low_rank.dense()
        if self.diagonal:
            estimate, _ = with_own_variance(estimate, np.diag(S), fold.count)
        return float(np.sum((estimate - fold.unseen) ** 2))

    def best(self, share: float | None, weight: float | None) -> tuple[float, float]:
        """The pair of least error, shares and weights by turns; what is given stays."""
        shares = SHARES if share is None else (share,)
        weights = WEIGHTS if weight is None else (weight,)
        share = FIRST_SHARE if share is None else share
        weight = FIRST_WEIGHT if weight is None else weight
        leap = LEAP
        while True:
            before = share, weight
            share = _descend(shares, share, partial(self.error, weight=weight), leap)
            weight = _descend(weights, weight, partial(self.error, share), 1)
            if (share, weight) == before:
                return share, weight
            leap = 1


def _descend(
    values: tuple[float, ...], at: float, error: Callable[[float], float], leap: int
) -> float:
    """A value whose error neither neighbour beats, sought in ever smaller leaps."""
    i = values.index(at)
    while leap:
        beside = [k for k in (i, i - leap, i + leap) if 0 <= k < len(values)]
        better = min(beside, key=lambda k: error(values[k]))
        if better == i:
            leap //= 2
        i = better
    return values[i]


def automatic(name: str, value: Any, wanted: str = "a number") -> bool:
    """Whether the parameter is left to us."""
    if isinstance(value, str) and value != "auto":
        raise InputError(name, repr(value), f"{wanted} or 'auto'")
    return isinstance(value, str)
