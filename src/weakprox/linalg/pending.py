"""An array that is computed together with its first product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array

# `fill(Q)` computes the array; for a block Q, it also returns the product with it and what
# `arrays.rough_sqnorm` returns
Fill: TypeAlias = Callable[[Array | None], tuple[Array, tuple[float, float]] | None]


class Pending:
    """A NumPy array that is computed when it is first needed.

    If that is for a product with a narrow block, one pass computes each part of the array,
    the sum of its squares and its product while the part is in cache. This saves two passes.

    Parameters
    ----------
    out : array
        Where the array will be.
    fill : callable
        Computes it. The arrays that it reads must not change before.
    """

    def __init__(self, out: np.ndarray[Any, Any], fill: Fill) -> None:
        self.shape, self.dtype = out.shape, out.dtype
        self._out = out
        self._fill: Fill | None = fill  # None once the array is computed: it holds others
        self._square: tuple[float, float] | None = None

    @property
    def array(self) -> Array:
        """The array, computed now if it has not been before."""
        if self._fill is not None:
            self._fill(None)
            self._fill = None
        return self._out

    def times(self, Q: Array) -> Array:
        """The product with a narrow block."""
        Q = Q.astype(self.dtype, copy=False)
        found = None if self._fill is None else self._fill(Q)
        if found is None:
            return arrays.times_block(self.array, Q)
        self._fill = None
        product, self._square = found
        return product

    def rough_sqnorm(self) -> tuple[float, float]:
        """As `arrays.rough_sqnorm`, known if the array was computed with a product."""
        return self._square or arrays.rough_sqnorm(self.array)


def formed(A: Any) -> Any:
    """The array that A is, also if it was `Pending`."""
    return A.array if isinstance(A, Pending) else A
