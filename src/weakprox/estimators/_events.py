"""Events between pairs of nodes, and their weighted graph."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from weakprox.errors import InputError, ShapeError
from weakprox.estimators._graphs import Vector, checked_pairs
from weakprox.losses.inputs import as_shape


@dataclass(frozen=True)
class Events:
    """Pairs of nodes, each with a time."""

    pairs: Vector  # (count, 2)
    times: Vector
    shape: tuple[int, int]
    kind: str  # "undirected", "directed" or "bipartite"

    @classmethod
    def read(cls, pairs: Any, times: Any, shape: Any, kind: str) -> Events:
        """Check what the user gave; "auto" is directed, or bipartite for two sizes."""
        found = np.asarray(pairs)
        if found.ndim != 2 or found.shape[1] != 2 or not len(found):
            given = f"shape {found.shape}"
            raise ShapeError(
                "X", given, "(events, 2), row and column of each event, with times"
            )
        if not np.issubdtype(found.dtype, np.integer):
            if not (np.issubdtype(found.dtype, np.number) and np.all(found == np.rint(found))):
                raise InputError("X", f"dtype {found.dtype}", "integers, with times")
            found = found.astype(np.int64)
        when = np.asarray(times)
        if when.shape != (len(found),):
            raise ShapeError("times", f"shape {when.shape}", f"({len(found)},), one per event")
        if not np.issubdtype(when.dtype, np.number) or not np.isfinite(when).all():
            given = f"dtype {when.dtype}, or NaN or infinite times"
            raise InputError("times", given, "finite numbers, such as days since a date")
        if shape is None:
            most = found.max(axis=0) + 1
            sizes = (int(most[0]), int(most[1]))
            sizes = sizes if kind == "bipartite" else (max(sizes), max(sizes))
        else:
            sizes = as_shape(shape)
        square = sizes[0] == sizes[1]
        if kind in ("directed", "undirected") and not square:
            raise ShapeError("shape", sizes, "a square matrix, or kind='bipartite'")
        if kind == "auto":
            kind = "directed" if square else "bipartite"
        ends = checked_pairs(found, sizes)
        return cls(ends, when.astype(float), sizes, kind)

    @property
    def repeated(self) -> bool:
        """Return True if some pair has more than one event."""
        return len(np.unique(self.pairs, axis=0)) < len(self.pairs)

    @property
    def span(self) -> float:
        """Time from the first event to the last."""
        return float(self.times.max() - self.times.min())

    def matrix(self, half_life: float = math.inf) -> csr_array:
        """Sums of 2^(-age/half_life); the age is the time up to the last event."""
        age = self.times.max() - self.times
        weights = np.ones(len(age)) if math.isinf(half_life) else np.exp2(-age / half_life)
        A = csr_array((weights, tuple(self.pairs.T)), shape=self.shape)
        return csr_array(A + A.T) if self.kind == "undirected" else A

    def parted(self, share: float) -> tuple[Events, Events]:
        """The earlier events and the last share of them; equal times stay together."""
        late = self.times > np.quantile(self.times, 1.0 - share)
        return self._only(~late), self._only(late)

    def _only(self, part: Vector) -> Events:
        return replace(self, pairs=self.pairs[part], times=self.times[part])

    def distinct(self) -> Vector:
        """Pairs with an event, once each; those of an undirected graph have i < j, no loops."""
        ends = np.sort(self.pairs, axis=1) if self.kind == "undirected" else self.pairs
        if self.kind != "bipartite":
            ends = ends[ends[:, 0] != ends[:, 1]]
        return np.unique(ends, axis=0)
