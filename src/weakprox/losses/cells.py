"""Losses of all cells of a stored matrix, as a function of X in factors.

    G(X) = sum over cells of  w_ij l(m_ij, x_ij)

Cells are visited in blocks of rows that stay in cache. X, the dual point q = -w l'(m, x) and
the target X + q/L of a proximal step are formed for one block at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from weakprox.linalg.arrays import (
    DOUBLE,
    Array,
    empty,
    in_file,
    inner,
    is_numpy,
    namespace,
    rough_inner,
    row_blocks,
    to_numpy,
    total,
    wide,
    zeros,
)
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.entry_losses import EntryLoss, Squared, threshold_of
from weakprox.passes import compiling

Product = Callable[[Array, Array], float]


class Sums(NamedTuple):
    """Sums over the cells at a point X with the dual point q."""

    value: float  # G(X)
    along: float  # <q, X>
    square: float  # sum of q^2 / w

    def dual(self, t: float) -> float:
        """The dual function at t q, exact for squared and Huber losses, otherwise estimated."""
        return t * (self.value + self.along + 0.5 * self.square) - 0.5 * t * t * self.square

    def best(self, slope: float) -> float:
        """The t in [0, 1] with the largest dual(t) - t slope."""
        if not self.square > 0.0:
            return 1.0
        t = (self.value + self.along + 0.5 * self.square - slope) / self.square
        return min(1.0, max(0.0, t))


@dataclass(frozen=True, eq=False)
class Cells:
    """A matrix with the loss of its cells, and weights that multiply losses.

    With `holes`, NaN in the matrix marks missing cells. Computations are in float64.
    """

    M: Array
    loss: EntryLoss
    weights: Array | None = None
    holes: bool = False
    smoothness: float = 1.0  # of G

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of X."""
        m, d = self.M.shape
        return int(m), int(d)

    @property
    def reference(self) -> Array:
        """An empty array of the kind of the factors, in float64."""
        return wide(self.M[:0])

    @property
    def residual(self) -> bool:
        """True if the loss depends on the residual m - x only, and is quadratic near zero."""
        return self.threshold is not None

    @property
    def threshold(self) -> float | None:
        """The residual beyond which such a loss is linear; None for other losses."""
        return threshold_of(self.loss)

    def squared(self) -> Cells:
        """The same cells with the squared loss."""
        return replace(self, loss=Squared())

    def transposed(self) -> Cells:
        """The cells of the transposed matrix."""
        weights = None if self.weights is None else self.weights.T
        return replace(self, M=self.M.T, weights=weights)

    def observed(self) -> Any:
        """Whether each cell counts: those that are NaN or have the weight 0 do not."""
        seen = ~np.isnan(to_numpy(self.M))
        return seen if self.weights is None else seen & (to_numpy(self.weights) > 0.0)

    def read(self, rows: slice) -> tuple[Array, Array | None]:
        """Observations and weights of a block of rows; missing cells have the weight 0."""
        y = wide(self.M[rows])
        w = None if self.weights is None else wide(self.weights[rows])
        if self.holes:
            xp = namespace(y)
            missing = xp.isnan(y)
            y = xp.where(missing, 0.0, y)
            seen = xp.where(missing, 0.0, 1.0)
            w = seen if w is None else w * seen
        return y, w

    def _slopes(self, y: Array, x: Array) -> tuple[Array, Array | None]:
        """Negative derivatives, and residuals if the value of the loss follows from them."""
        k = self.threshold
        if k is None:
            return -1.0 * self.loss.derivative(y, x), None
        r = y - x
        if k == math.inf:
            return r, r
        return np.clip(r, -k, k) if is_numpy(r) else namespace(r).clip(r, -k, k), r

    def _visited(self, X: LowRank | Array, product: Product) -> Iterator[tuple[Any, ...]]:
        """Yield rows, x, q and the sums of each block."""
        point = _point(X)
        for rows in row_blocks(self.M, self.weights):
            x = point(rows)
            y, w = self.read(rows)
            slope, r = self._slopes(y, x)
            q = slope if w is None else w * slope
            square = product(q, slope)
            if r is not None:
                value = product(q, r) - 0.5 * square
            else:
                terms = self.loss.value(y, x)
                value = total(terms if w is None else w * terms)
            yield rows, x, q, Sums(value, product(q, x), square)

    def stepped(self, X: LowRank, block: Array, steep: float) -> tuple[Array, Array, Sums]:
        """Return T B, T' T B and the sums at X, for the target T = X + q/steep and a block B.

        One pass over the matrix. Sums are computed with less precision; no proof uses them.
        """
        kernels = self._kernels()
        if kernels is not None:
            left, right, k = X.U * X.s, X.Vt, self.threshold
            Z, W, found = kernels.stepped(self.M, left, right, block, k, steep)
            return Z, W, Sums(*found.tolist())
        m, d = self.shape
        width = int(block.shape[1])
        Z, W = empty((m, width), block), zeros((d, width), block)
        found = []
        for rows, x, q, sums in self._visited(X, rough_inner):
            x += q if steep == 1.0 else q * (1.0 / steep)  # the target
            part = x @ block
            Z[rows] = part
            W += x.T @ part
            found.append(sums)
        return Z, W, _added(found)

    def _kernels(self) -> Any:
        """The compiled pass, or None if it does not support these cells or is not faster."""
        M = self.M
        plain = self.residual and self.weights is None and is_numpy(M)
        if not plain or math.prod(self.shape) < compiling.COMPILED_FROM or in_file(M):
            return None
        if not M.flags.c_contiguous or not compiling.current(compiling.CELLS):
            return None
        return compiling.module(compiling.CELLS)

    def value(self, X: LowRank | Array) -> float:
        """G(X)."""
        return math.fsum(sums.value for *_, sums in self._visited(X, inner))

    def sums(self, X: LowRank) -> Sums:
        """All sums at X."""
        return _added([sums for *_, sums in self._visited(X, inner)])

    def dual(self, X: LowRank | Array, out: Array | None = None) -> Array:
        """The dual point q of X, the negative gradient, as an array."""
        out = empty(self.shape, self.reference) if out is None else out
        for rows, _, q, _ in self._visited(X, rough_inner):
            out[rows] = namespace(out).astype(q, out.dtype, copy=False)
        return out

    def squares(self, X: LowRank) -> tuple[Array, float, Sums]:
        """Return q'q, the squared norm of q, and the sums at X."""
        d = self.shape[1]
        G, size, found = zeros((d, d), self.reference), 0.0, []
        for _, _, q, sums in self._visited(X, inner):
            G += q.T @ q
            size += inner(q, q)
            found.append(sums)
        return G, size, _added(found)

    def dual_value(self, X: LowRank, t: float) -> tuple[float, float]:
        """Return min over X' of G(X') + <t q, X'>, q being that of X, and its rounding."""
        point, found, sizes = _point(X), [], []
        for rows in row_blocks(self.M, self.weights):
            y, w = self.read(rows)
            slope = self._slopes(y, point(rows))[0]
            terms = self.loss.conjugate(y, -t * slope)
            terms = terms if w is None else w * terms
            found.append(-total(terms))
            sizes.append(total(namespace(terms).abs(terms)))
        return math.fsum(found), 64 * DOUBLE * math.fsum(sizes)

    def rounding(self, X: LowRank, unit: float) -> float:
        """Bound on the change of G if each entry of X changes by this share of it."""
        most = 0.0
        for _, x, q, _ in self._visited(X, rough_inner):
            moved = unit * namespace(x).abs(x)
            most += inner(moved, namespace(q).abs(q)) + self.smoothness * inner(moved, moved)
        return most * (1 + 1e-3)


def _point(X: LowRank | Array) -> Callable[[slice], Array]:
    """Return the function from a block of rows to those rows of X."""
    if not isinstance(X, LowRank):
        return lambda rows: wide(X[rows])
    left, right = wide(X.U) * wide(X.s), wide(X.Vt)
    return lambda rows: left[rows] @ right


def _added(parts: list[Sums]) -> Sums:
    return Sums(*(math.fsum(column) for column in zip(*parts, strict=True)))
