"""Sum of the losses of all cells of a matrix, with weights or losses other than the square."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from weakprox.errors import InputError, ShapeError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, namespace, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import inputs
from weakprox.losses.cells import Cells
from weakprox.losses.entry_losses import (
    entry_loss,
    entry_prox,
    is_squared,
    rescaled,
    threshold_of,
)
from weakprox.protocols import LossCapabilities, LossProx, StatedLoss


class Entrywise:
    r"""Losses of the cells of a matrix, :math:`G(X) = \sum_{ij} w_{ij}\, \ell(m_{ij}, x_{ij})`.

    `Denoising(M, loss=..., weights=...)` returns it. With `Huber`, large residuals enter
    linearly: :math:`\min_L G(L) + h(L)` is robust principal component analysis, with the
    outliers minimised over. NaN in M marks missing cells, with squared errors and `Huber`.
    """

    samples_cancel = True
    is_finite_sum = True
    n_terms = 1
    sigma = 0.0
    chunk = 1 << 62

    def __init__(self, M: Array, loss: Any = "squared", weights: Any = None) -> None:
        self.labels = inputs.labels_of(M)  # of rows and of columns, if M is a frame
        M = inputs.floating(inputs.as_array("M", M, 2))
        self.loss = entry_loss(loss)
        if self.loss.smoothness is None:
            wanted = "a loss of bounded curvature, or losses.Completion.from_dense(M, loss=...)"
            raise InputError("loss", repr(loss), wanted)
        self.shape: tuple[int, int] = (int(M.shape[0]), int(M.shape[1]))
        weights, low, high = _weights(weights, M)
        size, holes = _size(M)
        if math.isinf(size):
            raise InputError("M", "infinite entries", "finite numbers, or NaN where missing")
        if math.isnan(size):
            raise InputError("M", "no observed entry", "at least one entry not NaN")
        most = float(namespace(M).finfo(M.dtype).max)
        self.size = inputs.check_size("M", size, self.shape, most)
        if threshold_of(self.loss) is None:
            if holes:
                raise InputError("M", "NaN", f"all cells with {self.loss!r}, or Completion")
            M = self.loss.check(M)
        cells = Cells(M, self.loss, weights, holes, self.loss.smoothness * high)
        self._cells, self.reference = cells, M
        self.smoothness = self.term_smoothness = cells.smoothness
        quadratic = is_squared(self.loss) and not holes
        self.strong_convexity = low if quadratic else 0.0

    @property
    def capabilities(self) -> LossCapabilities:
        """G is a sum over cells, which passes compute from factors of X."""
        return LossCapabilities(
            grad_into=self.grad_into,
            prox=self.prox,
            infimum=0.0,
            in_float64=self.in_float64,
            in_unit=self.in_unit if threshold_of(self.loss) is not None else None,
            size=lambda: self.size,
            data=self.data,
            cells=self.cells,
            stated=self._stated,
            labels=self.labels,
        )

    def _stated(self) -> StatedLoss:
        """The loss as proofs state it: that of all cells that count, as observed entries."""
        cells = self._cells
        numbers: dict[str, Any] = {"reduction": "sum"}
        if cells.weights is not None:
            numbers["weights"] = True

        def data() -> dict[str, Any]:
            seen = cells.observed()
            rows, cols = np.nonzero(seen)
            found = {"rows": rows, "cols": cols, "values": arrays.to_numpy(cells.M)[seen]}
            if cells.weights is not None:
                found["weights"] = arrays.to_numpy(cells.weights)[seen]
            return found

        def dual(X: Array | LowRank) -> Any:
            return arrays.to_numpy(cells.dual(X))[cells.observed()]

        return StatedLoss("Completion", numbers, data, entry=self.loss, dual=dual)

    def cells(self) -> Cells:
        """The cells as passes use them."""
        return self._cells

    def __repr__(self) -> str:
        m, d = self.shape
        told = [f"one matrix, {m} x {d}"]
        if not is_squared(self.loss):
            told.append(repr(self.loss))
        if self._cells.weights is not None:
            told.append("weights")
        return f"Denoising({', '.join(told)})"

    def everything(self) -> None:
        """Return the batch of all cells."""

    def draw(self, rng: np.random.Generator, size: int) -> None:
        """Return the batch of all cells: there is one term."""

    def value(self, X: Array, batch: Any = None) -> float:
        """G(X)."""
        return self._cells.value(X)

    def grad(self, X: Array, batch: Any = None) -> Array:
        """Gradient at X."""
        return self.grad_into(X, batch, arrays.empty(self.shape, X))

    def grad_into(self, X: Array, batch: Any, out: Array) -> Array:
        """The gradient, written over `out`."""
        found = self._cells.dual(X, out)
        found *= -1.0
        return found

    def prox(self) -> LossProx:
        """The proximal map, cell by cell."""
        cells = self._cells

        def proximal(A: Array, weight: float) -> Array:
            found = arrays.empty(cells.shape, A)
            for rows in arrays.row_blocks(A):
                y, w = cells.read(rows)
                found[rows] = entry_prox(
                    cells.loss, y, 1.0 if w is None else w, A[rows], weight
                )
            return found

        return proximal

    def spread(self, X: Array, batch: Any = None) -> float:
        """Return 0: there is one term."""
        return 0.0

    def in_unit(self, unit: float) -> Entrywise:
        """The same loss divided by unit^2, as a function of X divided by the unit."""
        loss = rescaled(self.loss, unit)
        return self._with(self._cells.M / unit, loss, self.size / unit)

    def in_float64(self) -> Entrywise:
        """The same loss with the matrix in float64."""
        return self._with(wide(self._cells.M), self.loss, self.size)

    def _with(self, M: Array, loss: Any, size: float) -> Entrywise:
        other, cells = copy.copy(self), self._cells
        other.loss, other.size, other.reference = loss, size, M
        other._cells = Cells(M, loss, cells.weights, cells.holes, cells.smoothness)
        return other

    def data(self) -> tuple[Any, ...]:
        """Arrays that identify this loss, for checkpoints."""
        weights = self._cells.weights
        return (self._cells.M,) if weights is None else (self._cells.M, weights)


def _size(M: Array) -> tuple[float, bool]:
    """Return the size of the largest entry, NaN if there is none, and whether some are NaN."""
    xp = namespace(M)
    sizes, holes = [], False
    for rows in arrays.row_blocks(M):
        part = xp.abs(M[rows])
        size = float(xp.max(part))  # NaN if one is
        if math.isnan(size):
            holes, part = True, part[~xp.isnan(part)]
            size = float(xp.max(part)) if part.shape[0] else math.nan
        sizes.append(size)
    return max((size for size in sizes if not math.isnan(size)), default=math.nan), holes


def _weights(weights: Any, M: Array) -> tuple[Array | None, float, float]:
    """Return weights broadcast to the shape of M, the smallest and the largest of them."""
    if weights is None:
        return None, 1.0, 1.0
    xp, shape = namespace(M), tuple(int(n) for n in M.shape)
    given = np.asarray(arrays.to_numpy(weights) if arrays.is_array(weights) else weights)
    if given.dtype.kind not in "fiub":
        raise InputError("weights", f"dtype {given.dtype}", "numbers >= 0")
    given = given.astype(float)
    try:
        fits = np.broadcast_shapes(given.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        wanted = f"{shape}, or one that broadcasts to it"
        raise ShapeError("weights", f"shape {given.shape}", wanted)
    low, high = float(given.min()), float(given.max())
    if not (low >= 0.0 and 0.0 < high < np.inf):
        wanted = "finite numbers >= 0, at least one of them positive"
        raise InputError("weights", f"entries from {low:g} to {high:g}", wanted)
    found = xp.asarray(given, dtype=xp.float64, device=arrays.device_of(M))
    return xp.broadcast_to(found, shape), low, high
