"""What the loop hands to a solver: metered oracles, random streams, and a tick."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from weakprox.linalg.arena import SHARED, Arena, DiskArena
from weakprox.linalg.arrays import Array, sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.metering import MeteredLoss, MeteredSpectral
from weakprox.problem import Problem
from weakprox.protocols import Solver, Tick
from weakprox.resources.memory import budget
from weakprox.solvers.footprint import left_for_arrays

SMALL = 1e-5  # share of the size of a point that its value counts as, if it is smaller


def accuracy(eps: float, tol: float, value: float, size: float = 0.0) -> float:
    """The accuracy asked for, in units of f: eps, or relative to a value once there is one.

    Relative to max(|value|, SMALL * size), size = smoothness/2 |X|^2 at the point X with that
    value: the optimum may be zero, and no gap but zero is small relative to that.
    """
    return tol * max(abs(value), SMALL * size) if tol and math.isfinite(value) else eps


def accuracy_at(
    problem: Problem, eps: float, tol: float, value: float, X: LowRank | None
) -> float:
    """`accuracy` at the point X; its size is computed only where it can matter."""
    if not tol or X is None or not math.isfinite(value):
        return accuracy(eps, tol, value)
    half = 0.5 * problem.loss.smoothness
    longest = getattr(problem.spectral, "tau", problem.radius(value))
    if SMALL * half * longest * longest <= abs(value):  # infinite if it overflows
        return accuracy(eps, tol, value)
    return accuracy(eps, tol, value, half * X.sqnorm)


def arena_for_a_run() -> Arena:
    """That of all runs, or one of its own that uses files, where memory is limited."""
    return SHARED if budget() is None else DiskArena(left_for_arrays)


@dataclass(frozen=True)
class Tools:
    """Oracles that count, named random streams, and callbacks of the loop.

    `tick` reports an inner step; `choose` returns the default solver of a problem.
    """

    problem: Problem
    loss: MeteredLoss
    spectral: MeteredSpectral
    eps: float
    seed: int
    tick: Tick
    choose: Callable[[Problem, int | None], Solver]
    arena: Arena = field(default_factory=arena_for_a_run)
    tol: float = 0.0

    def accuracy(self, value: float, guess: float = 0.0, size: float = 0.0) -> float:
        """What is asked for when the best value is this, at a point of this size.

        The guess stands for the value while there is none.
        """
        return accuracy(self.eps, self.tol, value if math.isfinite(value) else guess, size)

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
