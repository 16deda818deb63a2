"""Rows completed with the row space held fixed: what `transform` does to rows it meets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[Any]]
CHUNK = 256  # rows at a time: each needs a small matrix of its own
STEPS = 60  # of the splitting at most
STILL = 1e-4  # change, relative to the largest entry, at which it ends
BEYOND = 1.6  # over-relaxation, the usual one


@dataclass(frozen=True)
class RowSpace:
    r"""The answer :math:`X = A B^\top`, :math:`B = V S^{1/2}`, as a model of single rows.

    :math:`\|X\|_* = \min \tfrac12 (\|A\|_F^2 + \|B\|_F^2)` over all such factors. So at the
    optimum each row a of A solves, for that row's observed entries,

    .. math::
        \min_a \tfrac12 \|x_o - B_o a\|^2 + \tfrac{c}{2} \|a\|^2
        + \lambda \|B a\|_1 + \tfrac{\rho}{2} \|B a\|^2

    with c the price that the bound on the nuclear norm amounts to. New rows are completed
    by the same, and rows that the model was fitted to get back what the fit found.
    """

    B: Vector  # columns x rank
    price: float
    lam: float
    ridge: float

    @classmethod
    def of(cls, Z: Vector, X: Any, lam: float, ridge: float) -> RowSpace:
        """From data with NaN where nothing was observed, and the low-rank answer."""
        B = X.Vt.T * np.sqrt(X.s)
        dense = X.dense()
        pull = float(np.nansum((Z - dense) * dense))
        pull -= ridge * X.sqnorm + lam * float(np.abs(dense).sum())
        # at least a little, for rows with fewer entries than the rank
        price = max(pull / max(X.nuclear_norm, np.finfo(float).tiny), 1e-9)
        return cls(B[:, X.s > 0], price, lam, ridge)

    def complete(self, Z: Vector) -> Vector:
        """All entries of rows with NaN where nothing is known."""
        filled = np.empty(Z.shape)
        for first in range(0, len(Z), CHUNK):
            part = slice(first, first + CHUNK)
            filled[part] = self._some(Z[part])
        return filled

    def _some(self, Z: Vector) -> Vector:
        """The same for a few rows, by alternating directions where lam is not zero."""
        B, size = self.B, np.sum(self.B**2, axis=0)  # B'B is diagonal
        seen = ~np.isnan(Z)
        known = np.where(seen, Z, 0.0) @ B
        H = np.stack([B[row].T @ B[row] for row in seen])
        H += np.diag(self.ridge * size + self.price)
        if self.lam == 0.0 or B.shape[1] == 0:
            return np.linalg.solve(H, known[..., None])[..., 0] @ B.T
        # A penalty of the splitting that weighs as much as the price does on average.
        step = self.price / float(size.mean())
        inverse = np.linalg.inv(H + np.diag(step * size))
        X, split, dual = np.zeros(Z.shape), np.zeros(Z.shape), np.zeros(Z.shape)
        for _ in range(STEPS):
            a = inverse @ (known + step * ((split - dual) @ B))[..., None]
            last, X = X, a[..., 0] @ B.T
            ahead = BEYOND * X + (1.0 - BEYOND) * split + dual
            split = np.sign(ahead) * np.maximum(np.abs(ahead) - self.lam / step, 0.0)
            dual = ahead - split
            if float(np.abs(X - last).max()) <= STILL * float(np.abs(X).max()):
                break
        return X
