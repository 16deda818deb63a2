"""Squared error on observed entries."""

from __future__ import annotations

import copy
import math
from typing import Any, Literal

import numpy as np
from scipy.sparse import coo_array, issparse

from weakprox.distributed import is_dask
from weakprox.distributed.entries import Entries
from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import Array, device_of, namespace, sqnorm, to_numpy, wide, zeros
from weakprox.losses.inputs import (
    as_array,
    as_shape,
    as_sized,
    check_size,
    constant,
    floating,
)
from weakprox.protocols import LossCapabilities


class Completion:
    r"""Observed entries only, :math:`G(X) = \tfrac12 \sum_{(i,j)} (x_{ij} - v_{ij})^2`.

    Parameters
    ----------
    rows, cols : integer arrays of shape (n,)
        Indices of the observed entries; repeated pairs count each time.
    values : array of shape (n,)
        Observed values. If any of the three is a dask array, the observations stay on its
        workers; X and its gradients do not.
    shape : (int, int)
        Shape of X.
    reduction : {"sum", "mean"}
        Sum of the half squared errors (default) or their mean over observations.
    sigma : float, optional
        Gradient noise of one term, estimated if not given.
    """

    samples_cancel = False
    is_finite_sum = True

    def __init__(
        self,
        rows: Any,
        cols: Any,
        values: Array,
        shape: tuple[int, int],
        *,
        reduction: Literal["sum", "mean"] = "sum",
        sigma: float | None = None,
    ) -> None:
        if reduction not in ("sum", "mean"):
            raise InputError("reduction", repr(reduction), "'sum' or 'mean'")
        self.shape = as_shape(shape)
        self._far: Entries | None = None  # observations that are stored on workers
        if any(is_dask(part) for part in (rows, cols, values)):
            counts = self._place(rows, cols, values)
        else:
            self._values, self.size = as_sized("values", values, 1)
            self.n_terms = int(self._values.shape[0])
            self._cells = self._flat_index(rows, cols)
            counts = np.bincount(self._cells, minlength=self.shape[0] * self.shape[1])
        # For the sum, the terms are n/2 (x - v)^2, so that their mean is G.
        self._scale = float(self.n_terms) if reduction == "sum" else 1.0
        per_entry = self._scale / self.n_terms
        self.smoothness = per_entry * float(counts.max())
        self.strong_convexity = per_entry * float(counts.min())
        self.term_smoothness = self._scale
        self.sigma = constant("sigma", sigma)
        self.reference = zeros(self.shape, self._values)

    @property
    def capabilities(self) -> LossCapabilities:
        """G is a sum of squares, so 0 is a lower bound."""
        return LossCapabilities(
            infimum=0.0,
            in_float64=self.in_float64,
            in_unit=self.in_unit,
            size=lambda: self.size,
            data=self.data,
        )

    def _place(self, rows: Any, cols: Any, values: Any) -> Any:
        """Keep the observations on dask's workers; return the number at each entry."""
        self._far = Entries(rows, cols, values, self.shape)
        self.n_terms = self._far.count
        most = float(np.finfo(self._far.dtype).max)
        self.size = check_size("values", self._far.largest, (self.n_terms,), most)
        self._cells, self._values = np.zeros(0, np.int64), np.zeros(0, self._far.dtype)
        return self._far.counts()

    def _flat_index(self, rows: Any, cols: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        flat = []
        for name, index, limit in (
            ("rows", rows, self.shape[0]),
            ("cols", cols, self.shape[1]),
        ):
            host = np.asarray(to_numpy(as_array(name, index, 1)))
            if not np.issubdtype(host.dtype, np.integer):
                raise InputError(name, f"dtype {host.dtype}", "integers")
            if host.shape[0] != self.n_terms:
                raise ShapeError(name, f"{host.shape[0]} entries", f"{self.n_terms}")
            if host.min() < 0 or host.max() >= limit:
                given = f"indices from {host.min()} to {host.max()}"
                raise InputError(name, given, f"0 to {limit - 1}")
            flat.append(host.astype(np.int64))
        return flat[0] * self.shape[1] + flat[1]

    @classmethod
    def from_dense(cls, M: Array, **options: Any) -> Completion:
        """Observed entries of a matrix that is NaN elsewhere."""
        M = floating(as_array("M", M, 2))
        rows, cols = np.nonzero(~np.isnan(to_numpy(M)))
        if rows.size == 0:
            raise InputError("M", "no observed entry", "at least one entry not NaN")
        return cls(rows, cols, M[rows, cols], tuple(M.shape), **options)

    @classmethod
    def from_sparse(cls, M: Any, **options: Any) -> Completion:
        """Stored entries of a SciPy sparse matrix, including explicit zeros."""
        if not issparse(M) or M.nnz == 0:
            raise InputError("M", type(M).__name__, "a sparse matrix with stored entries")
        coo = coo_array(M)
        return cls(coo.row, coo.col, coo.data, tuple(coo.shape), **options)

    def __repr__(self) -> str:
        share = self.n_terms / math.prod(self.shape)
        return f"Completion({self.n_terms} entries, {share:.1%} of {self.shape})"

    def in_unit(self, unit: float) -> Completion:
        """The same loss divided by unit^2, as a function of X divided by the unit."""
        other = copy.copy(self)
        other._values, other.size = self._values / unit, self.size / unit
        other._far = None if self._far is None else self._far / unit
        other.sigma = None if self.sigma is None else self.sigma / unit
        return other

    def in_float64(self) -> Completion | None:
        """The same loss computed in float64; None if observations are on workers."""
        if self._far is not None:
            return None
        other = copy.copy(self)
        other._values, other.reference = wide(self._values), wide(self.reference)
        return other

    @property
    def chunk(self) -> int:
        """Indices are small, so any batch fits."""
        return 1 << 62

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        """Positions in the list of observations, with replacement."""
        return rng.integers(0, self.n_terms, size)

    def data(self) -> tuple[Any, ...]:
        """Arrays that identify this loss, for checkpoints."""
        return (self._cells, self._values, *(() if self._far is None else (self._far,)))

    def everything(self) -> Any:
        """All observations."""
        return slice(None)

    def _residual(self, X: Array, batch: Any) -> Array:
        xp = namespace(X)
        cells = xp.asarray(self._cells[batch], device=device_of(X))
        return xp.take(xp.reshape(X, (-1,)), cells) - self._values[batch]

    def value(self, X: Array, batch: Any) -> float:
        """Mean of the terms."""
        if self._far is not None:
            return 0.5 * self._scale * self._far.squares(X, batch) / self._length(batch)
        r = self._residual(X, batch)
        return 0.5 * self._scale * sqnorm(r) / int(r.shape[0])

    def grad(self, X: Array, batch: Any) -> Array:
        """Mean of the terms' gradients, which is zero off the observed entries."""
        if self._far is not None:
            summed = self._far.pushed(X, batch) * (self._scale / self._length(batch))
            return np.asarray(summed, dtype=X.dtype)
        r = self._residual(X, batch)
        host = np.bincount(
            self._cells[batch],
            weights=to_numpy(r),
            minlength=self.shape[0] * self.shape[1],
        )
        xp = namespace(X)
        grad = host.reshape(self.shape) * (self._scale / int(r.shape[0]))
        return xp.asarray(grad, dtype=X.dtype, device=device_of(X))

    def _length(self, batch: Any) -> int:
        """Number of observations in a batch."""
        return self.n_terms if isinstance(batch, slice) else len(batch)

    def spread(self, X: Array, batch: Any) -> float:
        """Sample variance of one term's gradient at X."""
        size, far = self._length(batch), self._far
        squares = far.squares(X, batch) if far else sqnorm(self._residual(X, batch))
        second = self._scale**2 * squares / size
        centred = second - sqnorm(self.grad(X, batch))
        return max(0.0, centred) * size / max(1, size - 1)
