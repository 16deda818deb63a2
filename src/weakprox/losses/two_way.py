"""Least squares on row and column effects, by elimination of the longer side.

The normal equations of effects a of rows and b of columns with weights W on the entries are

    D_r a + W b = r,    W' a + D_c b = c,

D_r and D_c being the sums of W. With a = D_r^-1 (r - W b) there remain as many equations as the
shorter side has entries, whose matrix D_c - W' D_r^-1 W is factorised once. Each solve then
takes two products with W, which is an array if most of its entries are not zero. If all weights
are the same it is an array of booleans, of which blocks of rows are converted for a product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

Vector = np.ndarray[Any, np.dtype[np.float64]]
PIECE = 1 << 22  # entries of a dense block of rows of a sparse matrix
SMALL = 1 << 20  # number of entries up to which they are converted once
ROWS = 256  # rows of an array that are converted at once, and stay in cache
# share of entries from which W is stored as an array, which takes little more memory
FULL = 0.5
REPAID = 1 << 12  # largest number of multiplications per observation for the factorisation


@dataclass(frozen=True, eq=False)
class TwoWay:
    """Factorised normal equations of both effects; rows are the longer side of `W`."""

    W: Any  # CSR or an array, transposed if it has more columns than rows
    inverse: Vector  # of D_r, 0 for empty rows
    factor: Any
    turned: bool
    weight: float = 1.0  # of each entry of W

    @staticmethod
    def pays(shape: tuple[int, int], size: int) -> bool:
        """Return True if the factorisation is cheap relative to the solves of a run."""
        return math.prod(shape) * min(shape) <= REPAID * size

    @classmethod
    def of(cls, W: Any, weight: float = 1.0) -> TwoWay:
        """Factorise the equations of these weights: CSR, or booleans and one weight.

        Effects of a connected part of rows and columns are known up to a shift from one side
        to the other. Its square is added for each part, which makes the matrix definite and
        changes no solution.
        """
        turned, dense = W.shape[0] < W.shape[1], isinstance(W, np.ndarray)
        if turned:
            W = np.ascontiguousarray(W.T) if dense else csr_array(W.T)
        if dense:  # counts by products: sums of booleans are slow
            one = np.ones(W.shape[1])
            parts = (W[low : low + ROWS].astype(float) for low in range(0, len(W), ROWS))
            pairs = [(part @ one, np.ones(len(part)) @ part) for part in parts]
            sums = weight * np.concatenate([pair[0] for pair in pairs])
            others = weight * np.asarray(sum(pair[1] for pair in pairs))
        else:
            sums = weight * np.asarray(W.sum(axis=1), dtype=float)
            others = weight * np.asarray(W.sum(axis=0), dtype=float)
        inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0.0)
        S = np.diag(others)
        step = 2 * ROWS if dense else max(1, PIECE // W.shape[1])
        roots = weight * np.sqrt(inverse)[:, None]
        for low in range(0, W.shape[0], step):
            part = W[low : low + step]
            part = (part if dense else part.toarray()) * roots[low : low + step]
            S -= part.T @ part  # a symmetric product, at half of the cost
        label = np.zeros(W.shape[1])
        shared = S != 0.0  # pairs of columns with entries in one row
        if not shared[0].all():  # the first column does not share a row with all others
            from scipy.sparse.csgraph import connected_components  # slow to import

            label = connected_components(csr_array(shared), directed=False)[1]
        size = float(others.mean()) / len(others)
        S += size * (label[:, None] == label)
        if dense and W.size <= SMALL:
            W, weight = W * weight, 1.0
        elif not dense and W.nnz >= FULL * math.prod(W.shape):
            W = W.toarray()
        return cls(W, inverse, cho_factor(S, overwrite_a=True), turned, weight)

    def solved(self, rows: Vector, columns: Vector) -> tuple[Vector, Vector]:
        """Return the effects of rows and columns for these right-hand sides."""
        long, short = (columns, rows) if self.turned else (rows, columns)
        rest = short - self._transpose_times(self.inverse * long)
        # its check for NaN takes longer than the solve
        b = cho_solve(self.factor, rest, check_finite=False)
        a = self.inverse * (long - self._times(b))
        return (b, a) if self.turned else (a, b)

    def _times(self, x: Vector) -> Vector:
        """W x."""
        if self.W.dtype != bool:
            return np.asarray(self.W @ x)
        found = [part.astype(float) @ x for part in self._blocks()]
        return np.concatenate(found) * self.weight

    def _transpose_times(self, x: Vector) -> Vector:
        """W' x."""
        if self.W.dtype != bool:
            return np.asarray(x @ self.W)
        starts = range(0, len(x), ROWS)
        parts = zip(starts, self._blocks(), strict=True)
        found = sum(x[low : low + ROWS] @ part.astype(float) for low, part in parts)
        return np.asarray(found * self.weight)

    def _blocks(self) -> list[Any]:
        """Blocks of rows of W."""
        return [self.W[low : low + ROWS] for low in range(0, len(self.W), ROWS)]
