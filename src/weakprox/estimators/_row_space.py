"""Rows with missing entries and perhaps outliers, completed by a row space that was learnt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.linalg.lowrank import LowRank

Values = np.ndarray[Any, np.dtype[np.float64]]
CHUNK = 256  # rows completed at a time: each needs a small matrix
STEPS = 60  # largest number of steps of the splitting
STILL = 1e-4  # relative change at which the splitting ends
RELAXATION = 1.6  # over-relaxation, the usual one
# largest number of reweighted fits, and the relative change at which they end
FITS, STEADY = 200, 1e-8


@dataclass(frozen=True)
class RowSpace:
    r"""The answer :math:`X = A B^\top`, :math:`B = V S^{1/2}`, as a model of single rows.

    :math:`\|X\|_* = \min \tfrac12 (\|A\|_F^2 + \|B\|_F^2)` over all such factors. So at the
    optimum each row a of A solves, for that row's observed entries z,

    .. math::
        \min_a \sum_j H_k(z_j - (B a)_j) + \tfrac{c}{2} \|a\|^2
        + \lambda \|B a\|_1 + \tfrac{\rho}{2} \|B a\|^2

    with c the weight of the nuclear norm or the multiplier of a bound on it, and :math:`H_k`
    the Huber loss: half the square if k is infinite, else :math:`\lambda = \rho = 0`. New rows
    are completed by the same problem, and rows of the training data get the values of the fit.
    """

    B: Values  # columns x rank
    multiplier: float
    lam: float = 0.0
    ridge: float = 0.0
    k: float = math.inf

    @classmethod
    def of(cls, X: LowRank, multiplier: float, **weights: float) -> RowSpace:
        """Take the model from the low-rank answer in factors."""
        s = np.asarray(X.s, dtype=float)
        B = np.asarray(X.Vt, dtype=float)[s > 0.0].T * np.sqrt(s[s > 0.0])
        return cls(B, multiplier, **weights)

    def complete(self, Z: Values) -> Values:
        """All entries of the low-rank part of rows in which NaN marks missing ones."""
        found, some = np.zeros(Z.shape), self._squares if math.isinf(self.k) else self._robust
        for first in range(0, len(Z), CHUNK) if self.B.shape[1] else ():
            part = slice(first, first + CHUNK)
            found[part] = some(Z[part])
        return found

    def _squares(self, Z: Values) -> Values:
        """Complete a few rows, by alternating directions if lam is not zero."""
        B, size = self.B, np.sum(self.B**2, axis=0)  # B'B is diagonal
        seen = ~np.isnan(Z)
        known = np.where(seen, Z, 0.0) @ B
        H = np.empty((len(Z), len(size), len(size)))
        for row, product in zip(seen, H, strict=True):
            most = 2 * np.count_nonzero(row) > len(row)
            part = B[~row if most else row]  # the smaller number of them
            product[...] = np.diag(size) - part.T @ part if most else part.T @ part
        H += np.diag(self.ridge * size + self.multiplier)
        if self.lam == 0.0:
            return np.linalg.solve(H, known[..., None])[..., 0] @ B.T
        # a penalty of the splitting that weighs as much as the multiplier on average
        step = self.multiplier / float(size.mean())
        inverse = np.linalg.inv(H + np.diag(step * size))
        X, split, dual = np.zeros(Z.shape), np.zeros(Z.shape), np.zeros(Z.shape)
        for _ in range(STEPS):
            a = inverse @ (known + step * ((split - dual) @ B))[..., None]
            last, X = X, a[..., 0] @ B.T
            ahead = RELAXATION * X + (1.0 - RELAXATION) * split + dual
            split = np.sign(ahead) * np.maximum(np.abs(ahead) - self.lam / step, 0.0)
            dual = ahead - split
            if float(np.abs(X - last).max()) <= STILL * float(np.abs(X).max()):
                break
        return X

    def _robust(self, Z: Values) -> Values:
        """Complete a few rows, by iteratively reweighted least squares."""
        B, r = self.B, self.B.shape[1]
        pairs = (B[:, :, None] * B[:, None, :]).reshape(len(B), r * r)
        seen = ~np.isnan(Z)
        z = np.where(seen, Z, 0.0)
        weights, X = seen.astype(float), np.full(Z.shape, np.inf)
        for _ in range(FITS):
            H = (weights @ pairs).reshape(-1, r, r) + self.multiplier * np.eye(r)
            a = np.linalg.solve(H, ((weights * z) @ B)[..., None])[..., 0]
            last, X = X, a @ B.T
            size = np.abs(z - X)
            weights = seen * (self.k / np.maximum(size, self.k))
            if np.abs(X - last).max() <= STEADY * np.abs(X).max():
                break
        return X
