"""Measurement matrices in a file, read in chunks that are released one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array
from weakprox.losses.inputs import chunk_of, floating
from weakprox.resources.memory import let_go

Vector = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class DiskMeasurements:
    """A as an (n, m, d) memory map or zarr array; a selection of it is held in memory."""

    A: Any

    @property
    def count(self) -> int:
        """Number of measurements."""
        return int(self.A.shape[0])

    @property
    def bytes_each(self) -> int:
        """Bytes of one A_i, as floats."""
        width = self.A.dtype.itemsize if self.A.dtype.kind == "f" else 8
        return int(self.A.shape[1] * self.A.shape[2]) * width

    def _parts(self) -> Iterator[tuple[slice, Vector]]:
        """Rows of the flat matrix, chunk by chunk."""
        step = chunk_of(self.bytes_each)
        for i in range(0, self.count, step):
            rows = slice(i, min(self.count, i + step))
            yield rows, floating(self.A[rows]).reshape(rows.stop - i, -1)
            let_go(self.A)

    def flat(self) -> Array:
        """The whole matrix as n x md, in memory."""
        return floating(np.asarray(self.A)).reshape(self.count, -1)

    def apply(self, X: Array) -> Array:
        """One matrix-vector product for each chunk."""
        return np.concatenate([flat @ X.reshape(-1) for _, flat in self._parts()])

    def adjoint(self, weights: Array) -> Array:
        """One vector-matrix product for each chunk."""
        total = sum(weights[rows] @ flat for rows, flat in self._parts())
        return np.reshape(total, (int(self.A.shape[1]), int(self.A.shape[2])))

    def sqnorms(self) -> Array:
        """Row norms of the flat matrix."""
        return np.concatenate([np.vecdot(flat, flat) for _, flat in self._parts()])

    def take(self, indices: Any) -> Any:
        """The selected matrices, in memory."""
        from weakprox.losses.measurements import DenseMeasurements

        found = np.array(self.A[indices])
        let_go(self.A)
        return DenseMeasurements(found)

    def scaled(self, factors: Array) -> Any:
        """A new array in memory."""
        return self.take(slice(None)).scaled(factors)
