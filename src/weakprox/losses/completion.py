"""Squared error on observed entries."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from scipy.sparse import coo_array, issparse

from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import Array, device_of, namespace, sqnorm, to_numpy, zeros
from weakprox.losses.inputs import as_array, as_real, as_shape, constant, floating


class Completion:
    r"""Observed entries only, :math:`G(X) = \tfrac12 \sum_{(i,j)} (x_{ij} - v_{ij})^2`.

    Parameters
    ----------
    rows, cols : integer arrays of shape (n,)
        Where entries were observed; repeated pairs count each time.
    values : array of shape (n,)
        What was observed.
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
        self._values = as_real("values", values, 1)
        self.n_terms = int(self._values.shape[0])
        self._cells = self._flat_index(rows, cols)
        counts = np.bincount(self._cells, minlength=self.shape[0] * self.shape[1])
        # The terms are n/2 (x - v)^2 for the sum, so that their mean is G.
        self._scale = float(self.n_terms) if reduction == "sum" else 1.0
        per_entry = self._scale / self.n_terms
        self.smoothness = per_entry * float(counts.max())
        self.strong_convexity = per_entry * float(counts.min())
        self.term_smoothness = self._scale
        self.sigma = constant("sigma", sigma)
        self.reference = zeros(self.shape, self._values)

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
        """Observed entries of a matrix with NaN where nothing was observed."""
        M = floating(as_array("M", M, 2))
        rows, cols = np.nonzero(~np.isnan(to_numpy(M)))
        if rows.size == 0:
            raise InputError("M", "no observed entry", "at least one entry not NaN")
        return cls(rows, cols, M[rows, cols], tuple(M.shape), **options)

    @classmethod
    def from_sparse(cls, M: Any, **options: Any) -> Completion:
        """Stored entries of a SciPy sparse matrix, zeros stored explicitly included."""
        if not issparse(M) or M.nnz == 0:
            raise InputError("M", type(M).__name__, "a sparse matrix with stored entries")
        coo = coo_array(M)
        return cls(coo.row, coo.col, coo.data, tuple(coo.shape), **options)

    def __repr__(self) -> str:
        share = self.n_terms / math.prod(self.shape)
        return f"Completion({self.n_terms} entries, {share:.1%} of {self.shape})"

    @property
    def chunk(self) -> int:
        """Indices are small: any batch fits."""
        return 1 << 62

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        """Positions in the list of observations, with replacement."""
        return rng.integers(0, self.n_terms, size)

    def everything(self) -> Any:
        """All observations."""
        return slice(None)

    def _residual(self, X: Array, batch: Any) -> Array:
        xp = namespace(X)
        cells = xp.asarray(self._cells[batch], device=device_of(X))
        return xp.take(xp.reshape(X, (-1,)), cells) - self._values[batch]

    def value(self, X: Array, batch: Any) -> float:
        """Mean of the terms."""
        r = self._residual(X, batch)
        return 0.5 * self._scale * sqnorm(r) / int(r.shape[0])

    def grad(self, X: Array, batch: Any) -> Array:
        """Mean of the terms' gradients: zero off the observed entries."""
        r = self._residual(X, batch)
        host = np.bincount(
            self._cells[batch],
            weights=to_numpy(r),
            minlength=self.shape[0] * self.shape[1],
        )
        xp = namespace(X)
        grad = host.reshape(self.shape) * (self._scale / int(r.shape[0]))
        return xp.asarray(grad, dtype=X.dtype, device=device_of(X))

    def spread(self, X: Array, batch: Any) -> float:
        """Sample variance of one term's gradient at X."""
        r = self._residual(X, batch)
        size = int(r.shape[0])
        second = self._scale**2 * sqnorm(r) / size
        centred = second - sqnorm(self.grad(X, batch))
        return max(0.0, centred) * size / max(1, size - 1)
