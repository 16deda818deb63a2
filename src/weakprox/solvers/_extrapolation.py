"""Anderson acceleration of a fixed-point iteration z <- z + F(z).

Walker & Ni, "Anderson acceleration for fixed-point iterations", SIAM Journal on Numerical
Analysis 49(4), 2011:
the next point is the combination of the last ones whose moves nearly cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from weakprox.linalg.arrays import Array, inner
from weakprox.linalg.kernels import add_scaled

RIDGE = 1e-10  # relative, against moves that hardly differ
WILDEST = 1e4  # combinations with larger weights are noise


@dataclass(frozen=True)
class History:
    """The last points z and their moves F, oldest first."""

    points: tuple[Array, ...] = ()
    moves: tuple[Array, ...] = ()

    def extended(self, z: Array, move: Array, most: int) -> tuple[History, Array]:
        """The history with this point, and the next point to go to (a new array)."""
        plain = z + move
        if most == 0:
            return self, plain
        points, moves = (*self.points, z), (*self.moves, move)
        points, moves = points[-most - 1 :], moves[-most - 1 :]
        history = History(points, moves)
        if len(moves) < 2:
            return history, plain
        steps = [later - sooner for sooner, later in pairwise(moves)]
        gram = np.array([[inner(a, b) for b in steps] for a in steps])
        right = np.array([inner(a, move) for a in steps])
        gram += RIDGE * float(np.trace(gram)) * np.eye(len(steps))
        try:
            weights = np.linalg.solve(gram, right)
        except np.linalg.LinAlgError:
            return History(points[-1:], moves[-1:]), plain
        if not np.all(np.isfinite(weights)) or float(np.abs(weights).max()) > WILDEST:
            return History(points[-1:], moves[-1:]), plain
        for i, weight in enumerate(weights):
            add_scaled(plain, -float(weight), steps[i])
            add_scaled(plain, -float(weight), points[i + 1] - points[i])
        return history, plain
