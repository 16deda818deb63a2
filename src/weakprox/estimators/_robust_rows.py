"""Robust rows: a fixed row space fitted to rows with outliers and gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.linalg.lowrank import LowRank

Values = np.ndarray[Any, np.dtype[np.float64]]
CHUNK = 1 << 21  # numbers in the normal equations that are held at once
STEPS = 200  # reweighted fits at most
STILL = 1e-8  # relative change of the rows at which they end


@dataclass(frozen=True)
class RobustRows:
    r"""The answer :math:`L = A B^\top`, :math:`B = V S^{1/2}`, as a model of single rows.

    :math:`\|L\|_* = \min \tfrac12 (\|A\|_F^2 + \|B\|_F^2)` over all such factors. So each row a
    of A solves, for the observed entries z of that row,

    .. math:: \min_a \sum_j H_k(z_j - (B a)_j) + \tfrac{\lambda}{2} \|a\|^2,

    :math:`H_k` being the Huber loss. New rows are fitted by the same problem, with iteratively
    reweighted least squares.
    """

    B: Values  # columns x rank
    lam: float
    k: float

    @classmethod
    def of(cls, L: LowRank, lam: float, k: float) -> RobustRows:
        """From the low-rank answer, in factors."""
        s = np.asarray(L.s, dtype=float)
        kept = s > 0.0
        return cls(np.asarray(L.Vt, dtype=float)[kept].T * np.sqrt(s[kept]), lam, k)

    def fitted(self, Z: Values) -> Values:
        """The low-rank part of rows with NaN where nothing is known."""
        d, r = self.B.shape
        found = np.zeros(Z.shape)
        if not r:
            return found
        step = max(1, CHUNK // max(d, r * r))
        for first in range(0, len(Z), step):
            rows = slice(first, first + step)
            found[rows] = self._some(Z[rows])
        return found

    def _some(self, Z: Values) -> Values:
        B, r = self.B, self.B.shape[1]
        pairs = (B[:, :, None] * B[:, None, :]).reshape(len(B), r * r)
        seen = ~np.isnan(Z)
        z = np.where(seen, Z, 0.0)
        weights, X = seen.astype(float), np.full(Z.shape, np.inf)
        for _ in range(STEPS):
            H = (weights @ pairs).reshape(-1, r, r) + self.lam * np.eye(r)
            a = np.linalg.solve(H, ((weights * z) @ B)[..., None])[..., 0]
            last, X = X, a @ B.T
            size = np.abs(z - X)
            weights = seen * (self.k / np.maximum(size, self.k))
            if np.abs(X - last).max() <= STILL * np.abs(X).max():
                break
        return X
