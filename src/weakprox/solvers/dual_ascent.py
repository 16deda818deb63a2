"""Projected Barzilai-Borwein ascent on the dual of a penalty with few pieces.

If G = L/2 |X - C|^2, minimising over X for a fixed dual point y of the penalty is one
proximal step, and the dual function of y is smooth. For the largest of n affine functions
y is a vector of length n for any size of X. A few gradient steps with the step size
of Barzilai & Borwein, "Two-Point Step Size Gradient Methods", IMA Journal of Numerical
Analysis 8(1), 1988, and a nonmonotone safeguard reach high accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from weakprox.certificates.split import SplitDual
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, namespace, rough_inner, row_blocks, wide
from weakprox.linalg.lowrank import dense
from weakprox.problem import Problem
from weakprox.solvers._gap_driven import (
    FIRST_RANK,
    GapDriven,
    GapMemory,
    GapParameters,
    adaptive_prox,
    capped,
    judged,
    start_at,
)
from weakprox.solvers.base import Tools, undeclared

REMEMBERED = 5  # dual values; a step is undone if the next one is below all of them
SHORTER = 0.25  # factor for a step that was undone
LONGER = 4.0  # factor for a step along which the dual function has no curvature
FAR = 1e3  # first trial step, relative to the shortest safe one


@dataclass(frozen=True, kw_only=True)
class Memory(GapMemory):
    """State of the iteration."""

    step: float = 0.0  # size of the next step
    base: Array | None = None  # last accepted dual point,
    slope: Any = None  # its gradient,
    values: tuple[float, ...] = ()  # and the last dual values


@dataclass(frozen=True)
class DualAscent(GapDriven):
    """Dual method for G = L/2 |X - C|^2 and `MaxAffine`: few decompositions, no tuning.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the decompositions; by default as large as the proximal points need.
    """

    rank: int | None = None

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Return True if the dual function has a closed form, in few variables."""
        simple = problem.loss.is_finite_sum and problem.of_loss.centre is not None
        return bool(simple and problem.of_penalty.pieces is not None)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        problem.check_finite_sum("DualAscent", "SampleAverage")
        uses = {
            "loss.centre": "Denoising; DavisYin accepts other losses",
            "penalty.pieces": "MaxAffine; DavisYin accepts all penalties",
        }
        for need, instead in uses.items():
            if lacking := undeclared(problem, need):
                role = need.partition(".")[0]
                wanted = "; ".join([instead, *lacking])
                raise InputError(role, repr(getattr(problem, role)), wanted)
        problem.strong_convexity()

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Uniform weights, or those of the largest piece at the first point."""
        alpha, beta = problem.strong_convexity(), problem.loss.smoothness
        parameters = GapParameters(tools.eps, alpha, beta)
        first, R = start_at(problem, X), problem.penalty
        given, h = self.first(problem, X, first, tools)
        y = R.ascend(None, first, 0.0, geometry="euclidean")
        rank = capped(FIRST_RANK, problem.shape, self.rank)
        return Memory(X=first, V=given, h=h, y=y, rank=rank, parameters=parameters)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        R, loss = problem.penalty, problem.loss
        weight = loss.smoothness + R.curvature
        pieces_of = problem.of_penalty.pieces
        assert pieces_of is not None

        def iteration(state: Memory, k: int) -> Memory:
            C, s = tools.loss.centre(tools.loss.everything(), counted=True), R.pull(state.y)
            A = tools.arena.like(state.X)
            for rows in row_blocks(A):
                A[rows] = (loss.smoothness / weight) * C[rows] - s[rows] / weight
            guess = 0.5 * weight * rough_inner(A, A) if math.isinf(state.value) else 0.0
            prox, state = adaptive_prox(
                tools, A, state, weight=weight, guess=guess, cap=self.rank, rng=tools.rng(k)
            )
            X, h = dense(prox.V, tools.arena.like(A)), problem.spectral.value(prox.V)
            pieces = pieces_of(X)
            worst, mean = float(namespace(pieces).max(pieces)), float(state.y @ pieces)
            value = problem.smooth_value(X) + h
            bound = value - max(0.0, worst - mean) - 0.5 * weight * prox.delta_estimate
            state = replace(state, X=X, V=prox.V, h=h, last=value)
            state = judged(state, value, bound, SplitDual(R, A, weight, prox, state.y), k)
            return _moved(state, R, pieces, bound, weight)

        return self.stretch(memory, tools, iteration)


def _moved(state: Memory, R: Any, pieces: Array, bound: float, weight: float) -> Memory:
    """Take a projected gradient step with a size from the last two dual points."""
    y, length = state.y, state.step
    safe = weight / R.sqnorm if R.sqnorm > 0.0 else 1.0  # arbitrary if there is no curvature
    if state.base is not None and state.values and bound < min(state.values):
        shorter = SHORTER * length  # the step was too long: undo it
        back = R.feasible(state.base + shorter * state.slope)
        return replace(state, y=back, step=shorter)
    if state.base is None:  # curvature of the dual function along a feasible direction
        trial = R.feasible(y + FAR * safe * pieces) - y
        bent = float(wide(trial) @ (R.gram @ wide(trial))) / weight
        length = float(trial @ trial) / bent if bent > 0 else safe
    else:
        moved, bent = y - state.base, -float((y - state.base) @ (pieces - state.slope))
        length = float(moved @ moved) / bent if bent > 0 else LONGER * length
    length = min(length, 1e12 * safe)
    values = (*state.values, bound)[-REMEMBERED:]
    new = R.feasible(y + length * pieces)
    return replace(state, y=new, step=length, base=y, slope=pieces, values=values)
