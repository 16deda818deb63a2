"""Least squares of several responses on the same features."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from weakprox.arguments import flag
from weakprox.display import counted
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, is_numpy, like, namespace, sqnorm, to_numpy, wide
from weakprox.losses import inputs, measurements, quadratic
from weakprox.protocols import LossCapabilities, StatedLoss

GRAM = 2000  # features up to which the Gram matrix is formed in any case


class Regression:
    r"""Linear regression of several responses, :math:`G(B) = \tfrac1{2n} \|Y - X B\|_F^2`.

    The rows of X and Y are the terms of the sum. Gradients of all of them are products with
    the Gram matrix :math:`X^\top X / n`, which is formed once, unless there are more features
    than rows and more than 2000.

    Parameters
    ----------
    X : array of shape (n, p), or SciPy sparse
        Features.
    Y : array of shape (n, q)
        Responses.
    intercept : bool
        Whether G is the minimum over an intercept for each response: X and Y are centred. A
        sparse X stays sparse.
    """

    samples_cancel = False
    is_finite_sum = True
    sigma = None

    def __init__(self, X: Any, Y: Array, *, intercept: bool = False) -> None:
        self.intercept = flag("intercept", intercept)
        self._Y, size = inputs.as_sized("Y", Y, 2)
        if issparse(X):
            if not is_numpy(self._Y):
                raise InputError("Y", type(Y).__name__, "a NumPy array, with a sparse X")
            self._X = csr_array(X, dtype=self._Y.dtype)
            if not np.isfinite(self._X.data).all():
                raise InputError("X", "NaN or infinite entries", "finite numbers")
        else:
            X = inputs.as_sized("X", X, 2)[0]
            alike = namespace(X) is namespace(self._Y) and X.dtype == self._Y.dtype
            self._X = X if alike else like(to_numpy(X), self._Y)
        if self._X.shape[0] != self._Y.shape[0]:
            raise ShapeError("Y", counted(self._Y.shape[0], "row"), f"{self._X.shape[0]}, as X")
        self.n_terms, features = (int(k) for k in self._X.shape)
        self.shape = (features, int(self._Y.shape[1]))
        self.reference = like(np.zeros(self.shape), self._Y)
        self.feature_means, self.response_means = self._means()
        self._size = size

    def _means(self) -> tuple[Array, Array]:
        """Means of features and responses; zeros without an intercept."""
        share = 1.0 / self.n_terms if self.intercept else 0.0
        ones = namespace(self._Y).ones_like(self._Y[:, 0]) * share
        return self._X.T @ ones, self._Y.T @ ones

    def __repr__(self) -> str:
        p, q = self.shape
        sizes = {"row": self.n_terms, "feature": p, "response": q}
        return f"Regression({', '.join(counted(n, name) for name, n in sizes.items())})"

    @property
    def capabilities(self) -> LossCapabilities:
        """A quadratic with a known Hessian."""
        return LossCapabilities(
            origin=lambda: self.origin,
            prox=self.prox if min(self.n_terms, self.shape[0]) <= quadratic.LARGEST else None,
            infimum=0.0,
            in_float64=self.in_float64,
            in_unit=self.in_unit,
            size=lambda: self.size,
            data=self.data,
            stated=self._stated,
        )

    def _stated(self) -> StatedLoss:
        """The loss as proofs state it."""
        sparse = issparse(self._X)
        numbers, arrays = measurements.by_rows(self._X) if sparse else ({}, {"X": self._X})
        told = {"intercept": self.intercept, **numbers}
        return StatedLoss("Regression", told, lambda: {**arrays, "Y": self._Y})

    def data(self) -> tuple[Any, ...]:
        """Arrays that identify this loss, for checkpoints."""
        X = self._X
        parts = (X.data, X.indices, X.indptr) if issparse(X) else (X,)
        return (*parts, self._Y)

    def in_unit(self, unit: float) -> Regression:
        """The same loss divided by unit^2, as a function of B divided by the unit."""
        other = copy.copy(self)
        other._Y, other._size = self._Y / unit, self._size / unit
        other.response_means = self.response_means / unit
        other.__dict__.pop("origin", None)
        return other

    def in_float64(self) -> Regression:
        """The same loss computed in float64."""
        X = self._X.astype(np.float64) if issparse(self._X) else wide(self._X)
        return Regression(X, wide(self._Y), intercept=self.intercept)

    @property
    def size(self) -> float:
        """Approximate size of the entries of a B with responses like these."""
        square = float(np.mean(self._squares))
        return self._size / math.sqrt(square) if square > 0.0 else 0.0

    @property
    def chunk(self) -> int:
        """Number of rows held at once."""
        return inputs.chunk_of(8 * sum(self.shape))

    def everything(self) -> Any:
        """All rows."""
        return slice(None)

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        """Rows, with replacement."""
        return rng.integers(0, self.n_terms, size)

    def residuals(self, B: Array, batch: Any = slice(None)) -> Array:
        """Y - X B for some rows, less the intercepts."""
        X, Y = self._X[batch], self._Y[batch]
        return Y - self.response_means - X @ B + self.feature_means @ B

    def centred(self, V: Array) -> Array:
        """Product of the centred features and V."""
        return self._X @ V - self.feature_means @ V

    def value(self, B: Array, batch: Any) -> float:
        """Mean of half the squared residuals of rows."""
        R = self.residuals(B, batch)
        return 0.5 * sqnorm(R) / int(R.shape[0])

    def grad(self, B: Array, batch: Any) -> Array:
        """Mean of the gradients; a product with the Gram matrix for all rows."""
        whole = isinstance(batch, slice)
        if whole and self.gram is not None:
            return self.gram @ B + self.origin[1]
        return self._pushed(self.residuals(B, batch), batch) * -1.0

    def _pushed(self, R: Array, batch: Any) -> Array:
        """Mean of the outer products of centred features and residuals."""
        X, size = self._X[batch], int(R.shape[0])
        sums = namespace(R).sum(R, axis=0)
        return (X.T @ R - self.feature_means[:, None] * sums) / size

    def spread(self, B: Array, batch: Any) -> float:
        """Sample variance of one term's gradient at B."""
        R = self.residuals(B, batch)
        size = int(R.shape[0])
        squares = to_numpy(namespace(R).sum(R * R, axis=1))
        second = float(np.mean(squares * self._squares[batch]))
        return max(0.0, second - sqnorm(self.grad(B, batch))) * size / max(1, size - 1)

    @cached_property
    def _squares(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Squared lengths of the centred rows of X."""
        X, mean = self._X, np.asarray(to_numpy(self.feature_means), float)
        if issparse(X):
            own = np.asarray(X.multiply(X).sum(axis=1)).ravel() - 2.0 * (X @ mean)
            return np.asarray(np.maximum(own + mean @ mean, 0.0))
        return np.asarray(np.sum((np.asarray(to_numpy(X), float) - mean) ** 2, axis=1))

    @cached_property
    def gram(self) -> Array | None:
        """Mean of the outer products of centred features; None if it is larger than X."""
        p = self.shape[0]
        if p > max(GRAM, self.n_terms):
            return None
        return like(to_numpy(self._wide_gram), self.reference)

    @cached_property
    def _wide_gram(self) -> Any:
        """The Gram matrix in float64, so that its eigenvalues are bounds."""
        X, mean = self._X, wide(self.feature_means)
        if issparse(X):
            X = X.astype(np.float64)
            return (X.T @ X).toarray() / self.n_terms - np.outer(mean, mean)
        X = wide(X) - mean
        return X.T @ X / self.n_terms

    def prox(self) -> quadratic.QuadraticProx:
        """The proximal map, from the Gram matrix of the features or of the rows."""
        slope = self.origin[1]
        if self.shape[0] <= self.n_terms:
            return quadratic.of_hessian(self._wide_gram, slope)
        X = self._X.toarray() if issparse(self._X) else to_numpy(self._X)
        return quadratic.of_terms(X - to_numpy(self.feature_means), slope)

    @cached_property
    def origin(self) -> tuple[float, Array]:
        """Value and gradient at zero."""
        R = self._Y - self.response_means
        return 0.5 * sqnorm(R) / self.n_terms, self._pushed(R, slice(None)) * -1.0

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        """Largest and smallest eigenvalue of the Gram matrix."""
        p = self.shape[0]
        if self.gram is None:
            return float(np.sum(self._squares)) / self.n_terms, 0.0
        gram = to_numpy(self._wide_gram)
        rounding = 4 * p * np.finfo(float).eps
        largest = float(decompositions.eigvalsh(gram)[-1]) * (1.0 + rounding)
        free = self.n_terms - self.intercept
        smallest = measurements.smallest_eigenvalue(gram, self.n_terms) if free >= p else 0.0
        if issparse(self._X):  # the Gram matrix is a difference of two that may be large
            mean = np.asarray(self.feature_means, dtype=float)
            size = float(mean @ mean + np.trace(gram))
            lost = 4 * self.n_terms * np.finfo(float).eps * size
            largest, smallest = largest + lost, smallest - lost
        return largest, max(0.0, smallest)

    @property
    def smoothness(self) -> float:
        """Largest eigenvalue of the Gram matrix, or a bound."""
        return self._extremes[0]

    @property
    def strong_convexity(self) -> float:
        """Smallest eigenvalue of the Gram matrix."""
        return self._extremes[1]

    @property
    def term_smoothness(self) -> float:
        """Largest squared length of a row of X."""
        return float(self._squares.max())
