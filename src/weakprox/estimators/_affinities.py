"""Sparse graphs of samples: nearest neighbours, and coefficients of self-expression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array
from sklearn.neighbors import NearestNeighbors

from weakprox.arguments import is_auto
from weakprox.linalg.lowrank import LowRank
from weakprox.selection.noise import Values

NEAREST = 10  # largest number of neighbours per sample
KEPT = 20  # largest number of affinities of coefficients per sample
FEWEST = 2  # least number of neighbours or affinities per sample
SPARE = 2  # factor by which more are stored, for subsamples that lack some of them
DIRECT = 0.3  # weight of coefficients relative to cosines
CHUNK = 512  # samples whose affinities to all others are in memory at once


class Affinities(Protocol):
    """Affinities of samples, to be computed for any part of them."""

    def kept(self, size: int, count: int) -> int:
        """Affinities to keep per sample, for `count` clusters of `size` samples."""

    def affinity(self, members: Any, kept: int) -> Any:
        """Symmetric affinities of some samples, a sparse array."""


def at_most(most: int, size: int, count: int) -> int:
    """The smaller of `most` and the mean number of samples in a cluster."""
    return min(max(FEWEST, min(most, size // count)), size - 1)


@dataclass(frozen=True)
class Ranked:
    """The samples nearest to each sample, nearest first, and their affinities."""

    nearest: Values
    weights: Values

    @classmethod
    def of(cls, affinities: Callable[[slice], Values], size: int, most: int) -> Ranked:
        """Rank the rows of a matrix of affinities, which is computed some rows at a time."""
        most = min(most, size - 1)
        nearest, weights = np.empty((size, most), dtype=int), np.empty((size, most))
        for first in range(0, size, CHUNK):
            some = slice(first, min(first + CHUNK, size))
            A = affinities(some)
            A[np.arange(len(A)), np.arange(some.start, some.stop)] = -1.0  # excluding its own
            near = np.argpartition(-A, most - 1, axis=1)[:, :most]
            near = np.take_along_axis(
                near, np.argsort(-np.take_along_axis(A, near, axis=1), axis=1), axis=1
            )
            nearest[some], weights[some] = near, np.take_along_axis(A, near, axis=1)
        return cls(nearest, weights)

    def among(self, members: Any, kept: int) -> Any:
        """Affinities to the `kept` nearest of some samples, relative to the largest."""
        place = np.full(len(self.nearest), -1)
        place[members] = np.arange(len(members))
        near, weights = place[self.nearest[members]], self.weights[members]
        inside = near >= 0
        taken = inside & (np.cumsum(inside, axis=1) <= kept) & (weights > 0.0)
        row = np.nonzero(taken)[0]
        largest = np.max(np.where(taken, weights, 0.0), axis=1, initial=0.0)
        shape = (len(members), len(members))
        return csr_array((weights[taken] / largest[row], (row, near[taken])), shape=shape)


@dataclass(frozen=True)
class Neighbors:
    """Nearest neighbours: affinity 1 if both are neighbours of each other, 1/2 if one is."""

    ranked: Ranked

    @classmethod
    def of(cls, points: Values) -> Neighbors:
        """The neighbours of the rows of a matrix."""
        most = min(SPARE * NEAREST, len(points) - 1)
        near = NearestNeighbors(n_neighbors=most).fit(points).kneighbors(return_distance=False)
        return cls(Ranked(near, np.ones(near.shape)))

    def kept(self, size: int, count: int) -> int:
        """Number of neighbours, at most ten."""
        return at_most(NEAREST, size, count)

    def affinity(self, members: Any, kept: int) -> Any:
        """Symmetric."""
        A = self.ranked.among(members, kept)
        return 0.5 * (A + A.T)


@dataclass(frozen=True)
class Coefficients:
    """The graph of C = U S V': cosines and, with a smaller weight, sizes of coefficients.

    The cosines are those between rows of U S^(1/2), to a power. Column j of C expresses sample
    j as a combination of the others.
    """

    cosines: Ranked
    sizes: Ranked
    n_neighbors: int | str | None = "auto"

    @classmethod
    def of(
        cls, C: LowRank, power: float, n_neighbors: int | str | None = "auto"
    ) -> Coefficients:
        """The graph of C."""
        size = C.shape[0]
        most = size if n_neighbors is None else KEPT
        if not is_auto(n_neighbors) and n_neighbors is not None:
            most = int(n_neighbors)
        U, s, V = (np.asarray(part, dtype=float) for part in (C.U, C.s, C.Vt.T))
        rows = U * np.sqrt(s)
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(length > 0.0, length, 1.0)
        how: Any = {"size": size, "most": SPARE * max(most, NEAREST)}
        cosines = Ranked.of(
            lambda some: np.minimum(np.abs(rows[some] @ rows.T), 1.0) ** power, **how
        )
        return cls(
            cosines,
            Ranked.of(lambda some: np.abs((V[some] * s) @ U.T), **how),
            n_neighbors,
        )

    def kept(self, size: int, count: int) -> int:
        """Number of affinities: at most twenty, or as requested."""
        if self.n_neighbors is None:
            return size - 1
        if is_auto(self.n_neighbors):
            return at_most(KEPT, size, count)
        return min(int(self.n_neighbors), size - 1)

    def affinity(self, members: Any, kept: int) -> Any:
        """Symmetric sum of both."""
        A = self.cosines.among(members, kept) + DIRECT * self.sizes.among(members, kept)
        return 0.5 * (A + A.T)
