"""Anderson acceleration of a fixed-point iteration z <- z + F(z).

Walker & Ni, "Anderson acceleration for fixed-point iterations", SIAM Journal on Numerical
Analysis 49(4), 2011.
The next point is the combination of the last ones whose moves nearly cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, rough_inner, row_blocks
from weakprox.resources.memory import Arena

RIDGE = 1e-10  # relative regularisation for moves that hardly differ
WILDEST = 1e4  # combinations with larger weights are noise


@dataclass(frozen=True)
class History:
    """The last moves F and their end points z + F, oldest first."""

    moves: tuple[Array, ...] = ()
    ends: tuple[Array, ...] = ()

    def extended(self, z: Array, move: Array, most: int, arena: Arena) -> tuple[History, Array]:
        """The history with this move from z, and the next point.

        That point may be part of the history, so it must not be overwritten.
        There are three passes in blocks of rows: for z + F, for inner products of differences
        of moves, and for the combination of end points.
        """
        end = arena.like(z)
        for rows in row_blocks(z):
            end[rows] = z[rows] + move[rows]
        if most == 0:
            return self, end
        moves, ends = (*self.moves, move)[-most - 1 :], (*self.ends, end)[-most - 1 :]
        history = History(moves, ends)
        if len(moves) < 2:
            return history, end
        weights = _weights(moves)
        if weights is None:
            return History(moves[-1:], ends[-1:]), end
        # end - sum of w_i (end_{i+1} - end_i), collected by end points
        shares = np.concatenate([weights, [0.0]]) - np.concatenate([[0.0], weights])
        shares[-1] += 1.0
        point = arena.like(end)
        for rows in row_blocks(end):
            part = point[rows]
            part[...] = float(shares[0]) * ends[0][rows]
            for share, other in zip(shares[1:], ends[1:], strict=True):
                part += float(share) * other[rows]
        return history, point


def _weights(moves: tuple[Array, ...]) -> Any:
    """Weights with which the differences of moves best approximate the last move."""
    size = len(moves) - 1
    gram, right = np.zeros((size, size)), np.zeros(size)
    for rows in row_blocks(moves[-1]):
        last = moves[-1][rows]
        steps = [later[rows] - sooner[rows] for sooner, later in pairwise(moves)]
        for i, a in enumerate(steps):
            right[i] += rough_inner(a, last)
            for j in range(i + 1):
                gram[i, j] += rough_inner(a, steps[j])
    gram = gram + np.tril(gram, -1).T
    gram += RIDGE * float(np.trace(gram)) * np.eye(size)
    try:
        weights = np.linalg.solve(gram, right)
    except np.linalg.LinAlgError:
        return None
    fine = np.all(np.isfinite(weights)) and float(np.abs(weights).max()) <= WILDEST
    return weights if fine else None
