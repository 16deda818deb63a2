"""One pair of products, A Q and A' Q, for dense arrays, sparse matrices and operators.

Arrays in files are multiplied tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array
from weakprox.linalg.pending import Pending
from weakprox.linalg.tiled import Factored, Tiled
from weakprox.resources.memory import on_disk

LARGE = 1 << 26  # bytes of a memory map from which its pages are released


@dataclass
class Products:
    """The two products, `right` A Q and `left` A' Q; `passes` counts calls of the methods."""

    shape: tuple[int, int]
    right: Callable[[Array], Array]
    left: Callable[[Array], Array]
    reference: Array  # sets the namespace, dtype and device of the factors
    source: Any
    exact: bool = True  # whether the products are computed in float64
    passes: int = field(default=0)

    def times(self, Q: Array) -> Array:
        """A Q."""
        self.passes += 1
        return self.right(Q)

    def transpose_times(self, Q: Array) -> Array:
        """A' Q."""
        self.passes += 1
        return self.left(Q)

    @property
    def is_dense(self) -> bool:
        """True if the entries themselves are available."""
        return arrays.is_array(self.source)


def products(A: Any) -> Products:
    """Wrap A (array, SciPy sparse matrix or LinearOperator) as a pair of products."""
    shape = (int(A.shape[0]), int(A.shape[1]))
    if isinstance(A, Pending):
        left = lambda Q: arrays.block_times(Q, A.array)  # noqa: E731
        return Products(shape, A.times, left, np.empty(0, A.dtype), A)
    if isinstance(A, LinearOperator):
        dtype = np.result_type(A.dtype if A.dtype is not None else float, np.float32)
        return Products(shape, A.matmat, A.rmatmat, np.empty(0, dtype=dtype), A)
    if issparse(A):
        if not np.issubdtype(A.dtype, np.floating):
            A = A.astype(float)
        transposed = A.T
        reference = np.empty(0, dtype=A.dtype)
        return Products(shape, lambda Q: A @ Q, lambda Q: transposed @ Q, reference, A)
    if isinstance(A, Factored):
        right, left = A.times, A.transpose_times
        operator = LinearOperator(shape, right, left, right, dtype=A.dtype, rmatmat=left)
        return Products(shape, right, left, np.empty(0, dtype=A.dtype), operator)
    if isinstance(A, Tiled) or (on_disk(A) and A.nbytes > LARGE):
        reference = np.empty(0, dtype=np.result_type(A.dtype, np.float32))
        by_rows = partial(arrays.times_by_rows, A), partial(arrays.transpose_times_by_rows, A)
        return Products(shape, *by_rows, reference, None)
    if not arrays.is_floating(A):
        A = arrays.namespace(A).astype(A, arrays.namespace(A).float64)
    return Products(
        shape, lambda Q: arrays.times_block(A, Q), lambda Q: arrays.block_times(Q, A), A, A
    )
