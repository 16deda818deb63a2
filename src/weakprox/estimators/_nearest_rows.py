"""Missing entries as means over the nearest rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[Any]]
NEIGHBOURS = 11  # nearest rows; for a row of the table, one of them is the row itself
ROWS = 5000  # largest number of rows to choose from
CHUNK = 256  # rows processed at a time


@dataclass(frozen=True)
class NearestRows:
    """Rows of a filled table, their observed entries, and the width of the weights.

    A missing entry becomes the mean of the observed entries of the nearest rows, with weights
    that fall with the squared distance, and of its own first guess with the weight 1. So a
    guess hardly changes if no row with that entry is near.
    """

    table: Vector
    seen: Vector
    width: float

    @classmethod
    def of(cls, table: Vector, seen: Vector, rng: np.random.Generator) -> NearestRows:
        """Use a filled table, or a random part of it."""
        if len(table) > ROWS:
            some = np.sort(rng.permutation(len(table))[:ROWS])
            table, seen = table[some], seen[some]
        plain = cls(table, seen, 1.0)
        some = table[:: -(-len(table) // CHUNK)]  # not the first ones: tables may be sorted
        sample = plain.nearest(some)[1]
        apart = sample[sample > 1e-9 * max(float(sample.max()), 1e-300)]
        return cls(table, seen, float(np.median(apart)) if apart.size else 1.0)

    def nearest(self, X: Vector) -> tuple[Vector, Vector]:
        """Indices of the nearest rows, and their squared distances."""
        apart = np.sum(X**2, axis=1)[:, None] + np.sum(self.table**2, axis=1)
        apart -= 2.0 * X @ self.table.T
        count = min(NEIGHBOURS, len(self.table))
        near = np.argpartition(apart, count - 1, axis=1)[:, :count]
        return near, np.maximum(np.take_along_axis(apart, near, axis=1), 0.0)

    def smoothed(self, X: Vector) -> Vector:
        """Improved guesses for all entries of rows that contain first guesses."""
        found = np.empty(X.shape)
        for first in range(0, len(X), CHUNK):
            some = slice(first, first + CHUNK)
            near, apart = self.nearest(X[some])
            weights = np.exp(-apart / self.width)[:, :, None] * self.seen[near]
            total = np.einsum("nkd,nkd->nd", weights, self.table[near])
            found[some] = (total + X[some]) / (weights.sum(axis=1) + 1.0)
        return found
