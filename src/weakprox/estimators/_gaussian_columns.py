"""Missing entries as conditional means, under a shrunken covariance of the columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.selection.search import Deadline

Vector = np.ndarray[Any, np.dtype[Any]]
STEPS = 30  # largest number of EM steps
CHANGE = 3e-3  # change of the missing entries, in standard deviations, at which EM ends
INNER = 3  # conjugate gradient steps within an EM step; the next one continues from there
MOST = 200  # conjugate gradient steps of a completion
EXACT = 1e-6  # relative residual of a completion
FLOOR = 1e-9  # least variance of a column, relative to its own
# limit on rows times squared columns; of more rows, only a part is used for the covariance
WORK = 3e8
CHUNK = 256  # rows completed at a time: their arrays stay in the cache


@dataclass(frozen=True)
class GaussianColumns:
    r"""Mean and inverse covariance P of the columns.

    Given its observed entries o, the missing entries m of a row have the conditional mean
    :math:`\mu_m - P_{mm}^{-1} P_{mo} (x_o - \mu_o)`, the minimiser of
    :math:`\tfrac12 (x - \mu)^\top P (x - \mu)` over them. All rows are solved for together
    by conjugate gradients, whose products have the matrix P in common.
    """

    mean: Vector
    precision: Vector

    def complete(self, Z: Vector) -> Vector:
        """All entries of rows in which NaN marks missing ones."""
        missing = np.isnan(Z)
        away = np.where(missing, 0.0, Z - self.mean)
        return _minimised(self.precision, away, missing, MOST, EXACT) + self.mean


@dataclass(frozen=True)
class Filled:
    """A fit to a table: the model, the table filled by it, and the summed variances."""

    model: GaussianColumns
    table: Vector
    variances: Vector  # of the missing entries, summed over each column

    @classmethod
    def of(
        cls, Z: Vector, shrinkage: float, start: Filled | None, deadline: Deadline
    ) -> Filled:
        """Fit to standardised columns with NaN for missing entries.

        The covariance is found by expectation and maximisation (EM). Correlations are
        multiplied by 1 - `shrinkage` in each step, since with few rows they are partly due to
        chance. The conditional covariance of missing entries is replaced by the diagonal matrix
        of their variances given all other columns, 1 / P_jj, which costs no decomposition for
        each row and predicts as well.
        """
        missing = np.isnan(Z)
        count = missing.sum(axis=0)
        table = np.where(missing, 0.0, Z) if start is None else start.table
        variances = count.astype(float) if start is None else start.variances
        size = max(1.0, math.sqrt(float(count.sum())))
        for _ in range(STEPS):
            mean = table.mean(axis=0)
            away = table - mean
            covariance = away.T @ away
            scale = np.diag(covariance) + variances
            covariance *= 1.0 - shrinkage
            np.fill_diagonal(covariance, scale)
            covariance /= len(Z)
            covariance += FLOOR * np.eye(len(scale))
            P = np.linalg.inv(covariance)
            away = _minimised(P, away, missing, INNER, CHANGE)
            change = float(np.linalg.norm(away + mean - table)) / size
            table, variances = away + mean, count / np.diag(P)
            if change <= CHANGE or deadline.passed:
                break
        return cls(GaussianColumns(mean, P), table, variances)


def some_rows(shape: tuple[int, ...], rng: np.random.Generator) -> Vector:
    """Indices of the rows used for the covariance: all, unless they are too many."""
    rows, columns = shape
    most = max(2 * columns, int(WORK / columns**2))
    return np.arange(rows) if rows <= most else np.sort(rng.permutation(rows)[:most])


def _minimised(P: Vector, X: Vector, free: Vector, steps: int, tol: float) -> Vector:
    """Minimise x'Px / 2 over the free entries of each row, by conjugate gradients."""
    found = np.empty(X.shape)
    for first in range(0, len(X), CHUNK):
        some = slice(first, first + CHUNK)
        found[some] = _some_minimised(P, X[some], free[some], steps, tol)
    return found


def _some_minimised(P: Vector, X: Vector, free: Vector, steps: int, tol: float) -> Vector:
    """Do the same for a few rows."""
    tiny = np.finfo(float).tiny
    inverse = 1.0 / np.diag(P)
    X, residual = X.copy(), X @ -P
    residual *= free
    way = residual * inverse
    size = _inner(residual, way)
    enough = tol**2 * size
    for _ in range(steps):
        if np.all(size <= enough):
            break
        product = way @ P
        product *= free
        length = size / np.maximum(_inner(way, product), tiny)
        product *= length[:, None]
        residual -= product
        X += np.multiply(way, length[:, None], out=product)
        ahead = np.multiply(residual, inverse, out=product)
        last, size = size, _inner(residual, ahead)
        way *= (size / np.maximum(last, tiny))[:, None]
        way += ahead
    return X


def _inner(X: Vector, Y: Vector) -> Vector:
    """Inner products of the rows."""
    return np.asarray(np.einsum("ij,ij->i", X, Y))
