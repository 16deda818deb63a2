"""Proximal points with an adaptive rank."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weakprox.linalg.arrays import Array
from weakprox.protocols import Tolerance, WeakProx
from weakprox.solvers.tools import Tools
from weakprox.spectral.singular import gram_is_cheaper

FIRST_RANK = 12
GROWTH = 4  # factor for the rank if it is too small
SPARE = 3  # extra triplets, so that the next decomposition need not be repeated


class Found(NamedTuple):
    """A proximal point, the rank to start with next time, and whether the cap truncated it."""

    prox: WeakProx
    rank: int
    cut: bool


def capped(rank: int, shape: tuple[int, int], cap: int | None) -> int:
    """Limit the rank to at least 1 and at most the shape and the user's cap."""
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

    The rank grows until the truncation costs at most `allowed` (in units of f, by the
    oracle's own estimate), or until it reaches the cap. It decreases slowly, since a rank
    that is too small costs a second decomposition.
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
