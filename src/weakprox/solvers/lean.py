"""Davis-Yin splitting that holds two arrays, the data and its target, and nothing else.

The low-rank point stays in factors; each iteration is one pass that reads both arrays,
makes the next target in place and multiplies it with the block of the next decomposition,
and two more products. Where arrays are large or on an accelerator this is what counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from weakprox.certificates.split import FixedDual
from weakprox.distributed.blocked import Target
from weakprox.errors import InputError
from weakprox.linalg.arrays import (
    Array,
    contiguous,
    eps_of,
    gaussian,
    itemsize,
    namespace,
    on_cpu,
    to_numpy,
)
from weakprox.linalg.by_rows import copied
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.simplex import project_capped
from weakprox.linalg.tiled import Tiled
from weakprox.passes.engine import Engine, engine_for
from weakprox.passes.ritz import Ritz, refined
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.resources.limits import room
from weakprox.solvers._gap_driven import STRETCH, GapDriven, Plan, TooWide
from weakprox.solvers._lean_point import SHARPLY, candidate, judged, provable
from weakprox.solvers._prox import capped
from weakprox.solvers.base import ARRAYS, ON_DEVICE, array_bytes
from weakprox.solvers.davis_yin import DavisYin, balanced
from weakprox.solvers.tools import Tools
from weakprox.spectral import NuclearBall
from weakprox.spectral.checks import rounded_on_host

FIRST_WIDTH = 16  # of the block, in which the rank must fit with SPARE to spare
SPARE = 2
POWERS = 4  # power steps of a decomposition at most
COLD = 2  # power steps from a random block
WIDER = 2  # times, where the rank does not fit
THIN, WIDEST = 64, 0.1  # columns, and share of all of them, up to which a block is thin
SMALL_STEP = 0.1  # times the smoothness
SLOW = 0.1  # factor by which a stretch of iterations must bring the gap down
NOT_LOW = 1 << 30  # more than any rank


@dataclass(frozen=True)
class Memory:
    """Everything the next iterations read; z is copied at the start of an outer step."""

    V: LowRank
    values: Any  # of V, on the host
    z: Array | Target | None
    ritz: Ritz | None
    gamma: float
    change: float
    width: int
    powers: int
    epoch: int
    done: int
    rank: int
    parameters: Plan
    cut: bool = False
    value: float = math.inf
    last: float = math.inf
    gap: float = math.inf  # of the last step, by its own estimate
    least: float = math.inf  # of all
    ratio: float = SHARPLY
    progress: int = 0


@dataclass(frozen=True)
class LeanSplitting(GapDriven):
    """Splitting in two arrays for squared distances, l1 or elastic net, nuclear balls.

    The default on CUDA devices and where `DavisYin`'s arrays do not fit.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the answer.
    """

    rank: int | None = None

    elsewhere: ClassVar[bool] = True  # can work where data and X are not in this process

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Whether the problem has the form this method needs."""
        ball = type(problem.spectral) is NuclearBall
        return ball and problem.entrywise() is not None and problem.loss.is_finite_sum

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        self.check_rank(problem)
        if not self.applies(problem):
            wanted = "a squared distance, L1 or ElasticNet, and NuclearBall (or DavisYin)"
            raise InputError("problem", repr(problem), wanted)

    @property
    def fallback(self) -> DavisYin:
        """The method for proximal points that are not low-rank: full decompositions."""
        return DavisYin(rank=self.rank, first_rank=NOT_LOW)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Constants only; a first point of the user's gives its row space."""
        beta = problem.loss.smoothness + problem.penalty.curvature
        plan = Plan(tools.eps, problem.strong_convexity(), beta)
        width = capped(FIRST_WIDTH, problem.shape, None)
        given, values = LowRank.zero(problem.shape, problem.loss.reference), np.zeros(1)
        if X is not None:
            given = tools.compressed(X, width)
            values = to_numpy(given.s)
        return Memory(
            V=given,
            values=values,
            z=None,
            ritz=None,
            gamma=1.0 / plan.beta,
            change=1.0,
            width=width,
            powers=1,
            epoch=0,
            done=0,
            rank=1,
            parameters=plan,
        )

    def candidate(self, memory: Memory) -> Candidate:
        """The last proximal point."""
        return candidate(memory)

    def dual(self, problem: Problem, memory: Memory) -> Any:
        """That of the last target that is still there, or one at the answer, from scratch."""
        if memory.z is not None and memory.ritz is not None:
            found = refined(memory.z, memory.ritz.V, powers=COLD)
            state = replace(memory, ritz=found)
            C = problem.loss.centre(problem.loss.everything())  # type: ignore[attr-defined]
            engine = Engine(contiguous(C), memory.z)
            return provable(problem, state, engine, memory.done)[1]
        y = problem.penalty.ascend(None, memory.V.dense(), 1.0 / memory.gamma)
        return FixedDual(problem.penalty, y)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """A stretch of iterations."""
        C = contiguous(tools.loss.centre(tools.loss.everything(), counted=False))
        with engine_for(C, tools.arena, memory.width) as engine:
            state = memory
            if memory.z is not None and memory.ritz is not None:
                copied(memory.z, engine.z)  # the checkpoint keeps its own
                state = replace(memory, ritz=engine.adopt(memory.ritz))
            for k in range(memory.done + 1, memory.done + STRETCH + 1):
                state = self._iteration(problem, state, engine, tools, k)
            if self._is_slow(state, memory, engine.z) and self.affordable(problem):
                raise TooWide  # acceleration, or float64, is worth its arrays here
            assert state.ritz is not None
            state = replace(state, z=engine.kept(), ritz=engine.own(state.ritz))
        return replace(state, epoch=memory.epoch + 1, done=memory.done + STRETCH)

    @staticmethod
    def _is_slow(state: Memory, before: Memory, z: Array) -> bool:
        """Whether a stretch has brought the gap down too little.

        In float32 that is hardly at all: beginning anew in float64 takes longer than to go on.
        """
        if itemsize(z) == 4:
            return state.progress <= before.done
        return state.least > SLOW * before.least

    def _iteration(
        self, problem: Problem, state: Memory, engine: Engine, tools: Tools, k: int
    ) -> Memory:
        """Project z, prove if it is time to, and move z on."""
        z = engine.z
        step = problem.entrywise(state.gamma)
        assert step is not None
        if state.ritz is None:
            block, powers = _block(state, problem, tools.rng(k)), max(COLD, state.powers)
            tools.spectral.counted(state.width, 2 * powers)
            state = replace(state, ritz=engine.begin(step, block, powers))
        state = self._projected(problem, state, z, tools, k)
        size = 0.5 * problem.loss.smoothness * float(state.values @ state.values)
        wanted = tools.accuracy(state.value, size=size)
        dual = None
        if state.gap * state.ratio <= 1.5 * wanted:  # then prove it, before z moves
            if state.gamma * state.parameters.beta < SMALL_STEP:
                # residuals count relative to gamma in a proof
                assert state.ritz is not None
                state = replace(state, ritz=refined(z, state.ritz.V))
            state, dual = provable(problem, state, engine, k)
            tools.tick(candidate(state, k, state.gap, dual))
            if state.gap <= wanted:  # and yet the proof did not succeed
                state = replace(state, powers=min(POWERS, state.powers + 1))
        assert state.ritz is not None
        known, near = None if dual is None else state.V, state.ritz
        tools.spectral.counted(int(near.V.shape[1]), 2 * state.powers)
        V, sums, found = engine.advance(
            known, state.values, step, state.change, near, state.powers
        )
        tools.loss.counted(1)
        closer, farther = sums.halves(step)
        gamma = state.gamma * state.change
        # a change shows one step later than it is made: wait for it
        later = 1.0
        if state.change == 1.0:
            later = balanced(closer, farther, gamma * state.parameters.beta)
        if dual is None:
            # estimates must not pass for the best value there is
            state = judged(state, sums, step, k, doubt=64 * eps_of(z))
        state = replace(state, V=V, gamma=gamma, change=later, ritz=found)
        if dual is None:
            tools.tick(candidate(state, k))
        return state

    @staticmethod
    def affordable(problem: Problem) -> bool:
        """Whether there is room for methods that hold many arrays."""
        if problem.elsewhere and not isinstance(problem.loss.target, Tiled):  # type: ignore[attr-defined]
            return False
        reference = problem.loss.reference
        # of float64: in float32 they could not prove much
        needed = ARRAYS["DavisYin"].most * array_bytes(problem) * 8 / itemsize(reference)
        return needed <= (room() if on_cpu(reference) else ON_DEVICE)

    def _projected(
        self, problem: Problem, state: Memory, z: Array, tools: Tools, k: int
    ) -> Memory:
        """The proximal point of z, from a block that is wide enough for it."""
        tau: float = problem.spectral.tau  # type: ignore[attr-defined]
        found, powers = state.ritz, max(COLD, state.powers)
        assert found is not None
        while True:
            p = np.asarray(project_capped(found.s, tau))
            kept = max(1, int((p > max(problem.shape) * eps_of(z) * p[0]).sum()))
            width = len(found.s)
            if kept <= width - SPARE or width >= min(problem.shape):
                break
            width = min(WIDER * width, *problem.shape)
            thin = max(THIN, WIDEST * min(problem.shape))
            if width > thin and self.affordable(problem):
                raise TooWide
            more = gaussian(tools.rng(k, width), (problem.shape[1], width), z)
            have = namespace(z).astype(found.V, z.dtype)
            block = namespace(z).concat([have, more[:, have.shape[1] :]], axis=1)
            tools.spectral.counted(width, 2 * powers)
            found = refined(z, block, None, powers)
        cap = kept if self.rank is None else min(kept, self.rank)
        if cap < kept:
            p = np.asarray(project_capped(found.s[:cap], tau))
        values = rounded_on_host(p[:cap], tau, z)
        return replace(state, values=values, ritz=found, rank=cap, cut=cap < kept)


def _block(state: Memory, problem: Problem, rng: np.random.Generator) -> Array:
    """A random block, led by the row space of the user's first point."""
    Q = gaussian(rng, (problem.shape[1], state.width), problem.loss.reference)
    keep = min(np.count_nonzero(state.values), max(1, state.width - SPARE))
    if keep:
        Q[:, :keep] = state.V.Vt[:keep].T * math.sqrt(problem.shape[1])
    return Q
