"""What the loop hands to a solver: metered oracles, random streams, and a tick."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from weakprox.linalg.arena import SHARED, Arena, DiskArena
from weakprox.linalg.arrays import Array, sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.memory import budget
from weakprox.oracles.metering import MeteredLoss, MeteredSpectral
from weakprox.problem import Problem
from weakprox.protocols import Tick
from weakprox.solvers.footprint import left_for_arrays


def accuracy(eps: float, tol: float, value: float) -> float:
    """The accuracy asked for, in units of f: eps, or relative to a value once there is one."""
    return tol * abs(value) if tol and math.isfinite(value) else eps


def arena_for_a_run() -> Arena:
    """That of all runs, or one of its own that uses files, where memory is limited."""
    return SHARED if budget() is None else DiskArena(left_for_arrays)


@dataclass(frozen=True)
class Tools:
    """Oracles that count, streams that are named, and the loop's ear."""

    problem: Problem
    loss: MeteredLoss
    spectral: MeteredSpectral
    eps: float
    seed: int
    tick: Tick
    arena: Arena = field(default_factory=arena_for_a_run)
    tol: float = 0.0

    def accuracy(self, value: float, guess: float = 0.0) -> float:
        """What is asked for when the best value is this: eps, or tol times its size.

        The guess stands for the value while there is none.
        """
        return accuracy(self.eps, self.tol, value if math.isfinite(value) else guess)

    def rng(self, *stream: int) -> np.random.Generator:
        """The random stream of this name: the same numbers whenever it is opened."""
        return np.random.default_rng([self.seed, *stream])

    def compressed(self, X: Array | LowRank, rank: int | None = None) -> LowRank:
        """A feasible point as factors, of full rank unless a rank is given."""
        if isinstance(X, LowRank):
            return X
        if sqnorm(X) == 0.0:
            return LowRank.zero(self.problem.shape, X)
        wanted = min(self.problem.shape) if rank is None else rank
        return self.problem.spectral.compress(X, wanted, self.rng(0))
