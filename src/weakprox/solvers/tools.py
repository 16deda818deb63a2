"""What a run hands to a solver: metered oracles, random streams, and a tick."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weakprox.linalg.arrays import Array, sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.metering import MeteredLoss, MeteredSpectral
from weakprox.problem import Problem
from weakprox.protocols import Tick
from weakprox.resources.memory import SHARED, Arena
from weakprox.solvers.base import Method

SMALL = 1e-5  # smallest value of f, as a share of the size of its point, that `tol` refers to


@dataclass(frozen=True)
class Tools:
    """Oracles that count their calls, named random streams, and callbacks of the run.

    `tick` reports an inner step; `choose` returns the default solver of a problem. `eps` is
    the absolute accuracy to aim at; if `tol` is not 0, the aim is relative to f instead.
    """

    problem: Problem
    loss: MeteredLoss
    spectral: MeteredSpectral
    eps: float
    seed: int
    tick: Tick
    choose: Callable[[Problem, int | None], Method]
    arena: Arena = SHARED
    tol: float = 0.0

    def accuracy(self, value: float, guess: float = 0.0, size: float = 0.0) -> float:
        """Return the accuracy to aim at if f has this value, or this guess while unknown.

        With `tol`, it is relative to max(|value|, SMALL size), where size is smoothness/2
        |X|^2 at the point with that value: the optimum may be zero.
        """
        if not self.tol:
            return self.eps
        value = value if math.isfinite(value) else guess
        return self.tol * max(abs(value), SMALL * size) if math.isfinite(value) else self.eps

    def rng(self, *stream: int) -> np.random.Generator:
        """Return the random stream of this name; it yields the same numbers every time."""
        return np.random.default_rng([self.seed, *stream])

    def compressed(self, X: Array | LowRank, rank: int | None = None) -> LowRank:
        """Return a feasible point as factors, of full rank unless a rank is given."""
        if isinstance(X, LowRank):
            return X
        if sqnorm(X) == 0.0:
            return LowRank.zero(self.problem.shape, X)
        wanted = min(self.problem.shape) if rank is None else rank
        return self.problem.spectral.compress(X, wanted, self.rng(0))
