"""Proximal points of a rank that nobody has to choose."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weakprox.linalg.arrays import Array
from weakprox.protocols import Tolerance, WeakProx
from weakprox.solvers.tools import Tools
from weakprox.spectral.singular import gram_is_cheaper

FIRST_RANK = 12
GROWTH = 4  # of the rank, where it turns out too small
SPARE = 3  # triplets kept beyond those in use, so that the next one need not be done twice


class Found(NamedTuple):
    """A proximal point, the rank to begin with next time, and whether the cap cut it."""

    prox: WeakProx
    rank: int
    cut: bool


def capped(rank: int, shape: tuple[int, int], cap: int | None) -> int:
    """The rank, at least 1 and at most what shape and user allow."""
    return max(1, min(rank, *shape, rank if cap is None else cap))


def adaptive_prox(
    tools: Tools,
    A: Array,
    *,
    weight: float,
    allowed: float,
    rank: int,
    cap: int | None,
    start: Array | None,
    rng: np.random.Generator,
) -> Found:
    """Proximal point of h at A.

    The rank grows until what is left out costs at most `allowed` (in units of f, by the
    oracle's own estimate), or until the cap. It falls slowly: ranks that go up and down
    would be paid for twice.
    """
    tolerance = Tolerance(2 * allowed / weight)
    shape, last = tools.problem.shape, (3 * rank) // 4
    while True:
        if gram_is_cheaper(shape, rank, start is not None):
            rank = capped(min(shape), shape, cap)  # a full decomposition costs the same
        prox = tools.spectral.weak_prox(
            A, weight=weight, rank=rank, tolerance=tolerance, start=start, rng=rng
        )
        enough = prox.V.rank < rank or prox.delta_estimate <= tolerance.delta1
        larger = capped(GROWTH * rank, shape, cap)
        if enough or larger <= rank:
            after = capped(max(prox.V.rank + SPARE, last), shape, cap)
            at_cap = cap is not None and prox.V.rank >= cap
            return Found(prox, after, at_cap and prox.delta_estimate > 0.0)
        rank, start = larger, prox.basis
