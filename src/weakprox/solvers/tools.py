"""What the loop hands to a solver: metered oracles, random streams, and a tick."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weakprox.linalg.arrays import Array, sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.oracles.metering import MeteredLoss, MeteredSpectral
from weakprox.problem import Problem
from weakprox.protocols import Tick


@dataclass(frozen=True)
class Tools:
    """Oracles that count, streams that are named, and the loop's ear."""

    problem: Problem
    loss: MeteredLoss
    spectral: MeteredSpectral
    eps: float
    seed: int
    tick: Tick

    def rng(self, *stream: int) -> np.random.Generator:
        """The random stream of this name: the same numbers whenever it is opened."""
        return np.random.default_rng([self.seed, *stream])

    def compressed(self, X: Array, rank: int | None = None) -> LowRank:
        """A dense feasible point as factors, of full rank unless a rank is given."""
        if sqnorm(X) == 0.0:
            return LowRank.zero(self.problem.shape, X)
        wanted = min(self.problem.shape) if rank is None else rank
        return self.problem.spectral.compress(X, wanted, self.rng(0))
