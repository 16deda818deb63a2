"""Runs in a chain: each begins where its neighbours ended."""

from __future__ import annotations

import math
from typing import Any

from weakprox._minimize import minimize
from weakprox.certificates.split import SplitDual
from weakprox.errors import InputError
from weakprox.linalg.arrays import itemsize
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import one_thread
from weakprox.metering import Budget
from weakprox.problem import Problem
from weakprox.protocols import Loss, Penalty, SpectralTerm
from weakprox.resources.limits import room
from weakprox.run.choose import choose
from weakprox.run.loop import Run
from weakprox.run.state import Settings
from weakprox.selection._lean import (
    Solved,
    applies,
    free_radius,
    lean_point,
    unconstrained,
)
from weakprox.solvers.warm import Warmth
from weakprox.spectral import NuclearBall, TracePSD

SHARE = 0.25  # of the memory that is left, what the points of a row may hold
INSIDE = 1e-6  # relative distance from the sphere that is not rounding
FAR = 1.5  # ratio of radii beyond which a neighbour is none


class Chain:
    """Solves neighbouring problems one after the other, row by row of a grid.

    Within a row a run begins where the last one ended. Where the row before is known too,
    it begins at the corner that the three neighbours suggest.
    """

    def __init__(
        self,
        loss: Loss,
        *,
        tol: float,
        seed: int,
        rank: int | None,
        certify: bool,
        columns: int,
    ) -> None:
        self.loss, self.columns = loss, columns
        self.tol, self.seed, self.rank, self.certify = tol, seed, rank, certify
        self.above: list[Warmth | None] = []  # of the row before
        self.row: list[Warmth | None] = []
        self.tau = math.nan  # radius of the last point,
        self.last: Solved | None = None  # and its answer, if that radius had no effect
        self.corner: Warmth | None = None  # of the row before, at the last column
        self.free: float | None = None  # radius from which on balls do nothing in this row
        self.count = 0  # points so far: names of random streams
        self.memory = room()

    def next_row(self) -> None:
        """Go on with another row of the grid."""
        self.above, self.row, self.corner = self.row, [], None
        self.free = self.last = None

    def solve(self, penalty: Penalty, ball: SpectralTerm, tau: float) -> Solved:
        """The next point of this row, with this radius."""
        if self.last is not None and not self.certify:
            # a ball that was not touched is not touched when it grows
            self.row.append(self.row[-1])
            return self.last._replace(svds=0)
        if self.count == 0:
            Problem(self.loss, penalty, ball)  # raises if the terms do not fit together
        past = self._past(penalty, tau)
        self.tau, self.count = tau, self.count + 1
        with one_thread(math.prod(self.loss.shape)):
            found = self._lean(penalty, ball, past) or self._whole(penalty, ball, past)
        self._keep(found.warmth)
        loose = inside(found.low_rank, ball, tau)
        found = self._cut(found, penalty, ball)
        self.last = found if loose else None
        return found

    def _cut(self, found: Solved, R: Penalty, ball: SpectralTerm) -> Solved:
        """The answer's leading triplets, as many as allowed, and what that costs."""
        X, most = found.low_rank, self.rank
        if most is None or X.rank <= most:
            return found
        X = LowRank(X.U[:, :most], X.s[:most], X.Vt[:most])
        value = Problem(self.loss, R, ball).value(X)
        return found._replace(
            low_rank=X, value=value, gap=max(0.0, found.gap + value - found.value)
        )

    def _lean(self, R: Penalty, ball: SpectralTerm, past: Warmth | None) -> Solved | None:
        """By the bare iteration, where the problem has the form for it and stays low-rank."""
        if self.certify:
            return None
        problem = Problem(self.loss, R, ball)
        if not applies(problem):
            return None
        tau = problem.of_spectral.tau
        if tau is not None and not ball.symmetric:
            if self.free is None:
                self.free = free_radius(problem)
            if tau >= self.free:
                return unconstrained(problem)
        return lean_point(problem, past, self.tol, self.seed + self.count)

    def _whole(self, R: Penalty, ball: SpectralTerm, past: Warmth | None) -> Solved:
        """By a run like any other."""
        problem = Problem(self.loss, R, ball)
        choice = choose(problem)
        if choice.solver.warm_starts:
            choice.solver.check(problem)
            settings = Settings(
                eps=0.0,
                tol=self.tol,
                seed=self.seed,
                budget=Budget(),
                reason=choice.reason,
                estimated=not self.certify,
            )
            result = Run(problem, choice.solver, settings, None, past).execute(None)
        else:
            result = minimize(
                problem, tol=self.tol, seed=self.seed, progress=False, proof=False
            )
        answer, warmth = result.low_rank, None
        # without its ball a problem is as good as solved: neighbours need no help
        if isinstance(result.dual, SplitDual) and not inside(answer, ball, self.tau):
            warmth = Warmth.of(problem, result.dual)
        return Solved(answer, result.value, result.gap, result.counts.svds, warmth)

    def _past(self, penalty: Penalty, tau: float) -> Warmth | None:
        """What the neighbours suggest for the next point; None to begin from nothing."""
        column = len(self.row)
        before = self.row[-1] if self.row else None
        if before is not None and not self.tau / FAR <= tau <= self.tau * FAR:
            before = None
        above = self.above[column] if column < len(self.above) else None
        above = None if above is None else above.scaled(penalty)
        across, self.corner = self.corner, above
        if before is None or above is None or across is None:
            return before or above
        return above.beside(before, across)

    def _keep(self, warmth: Warmth | None) -> None:
        """Remember the end of a run; of large matrices, that of the last one only."""
        bytes_each = 2 * itemsize(self.loss.reference) * math.prod(self.loss.shape)
        if bytes_each * (self.columns + 2) > SHARE * self.memory:
            self.above, self.row = [], [None] * len(self.row)
        self.row.append(warmth)


def inside(answer: LowRank, term: SpectralTerm, tau: float) -> bool:
    """Whether an answer lies within its ball, away from the sphere."""
    ball = isinstance(term, (NuclearBall, TracePSD))
    return ball and answer.nuclear_norm < (1.0 - INSIDE) * tau


def need_finite(loss: Any) -> None:
    """Raise unless the loss is a finite sum, whose values and gaps can be compared."""
    if not getattr(loss, "is_finite_sum", False):
        raise InputError("loss", repr(loss), "a finite sum; reduce samples to their mean")
