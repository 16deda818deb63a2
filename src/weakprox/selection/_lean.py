"""Factored steps for a sequence of small, nearly solved problems, without a whole run.

On a path a point takes an iteration or two, and the rest of a run of `minimize` (looks, traces,
proofs, checkpoints) would cost several times as much. The iteration is that of
`solvers.LeanSplitting`. It stops if an answer turns out not to be low-rank, and its gap
is an estimate: singular values that its block does not show count as small.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from weakprox.linalg.arrays import is_numpy
from weakprox.linalg.gram_svd import gram_svd
from weakprox.linalg.lowrank import LowRank
from weakprox.metering import Budget, Meter
from weakprox.passes import Step, reference
from weakprox.passes.engine import Engine
from weakprox.problem import Problem
from weakprox.run.choose import chosen
from weakprox.solvers._factored import Factored
from weakprox.solvers._gap_driven import TooWide
from weakprox.solvers.base import Tools, Warmth
from weakprox.solvers.davis_yin import LeanSplitting, Memory, balance

SPARE = 8  # columns of the block beyond the rank, of which
FRESH = 2  # are random, to find what the others miss
INEXACT = 0.1  # allowed error of a decomposition, as a share of the accuracy,
SWEEPS = 12  # and largest number of power steps
TINY = 1e-300
MOST = 40  # number of iterations after which a method with more memory is faster


class Solved(NamedTuple):
    """A point of a path: its answer, what is known about it, and data for the next point."""

    low_rank: LowRank
    value: float
    gap: float
    svds: int
    warmth: Warmth | None = None


def applies(problem: Problem) -> bool:
    """Return True if these steps can solve the problem: dense NumPy data in float64."""
    if not LeanSplitting.applies(problem) or problem.elsewhere:
        return False
    reference = problem.loss.reference
    return is_numpy(reference) and reference.dtype == np.float64


def _shrunk(problem: Problem) -> np.ndarray[Any, Any]:
    """The minimiser of G + R."""
    step, C = problem.entrywise(), problem.centre()
    assert step is not None
    X: np.ndarray[Any, Any] = np.empty_like(C)
    # prox of R/(beta + curvature) at beta C/(beta + curvature)
    reference.first(C, X, step._replace(gamma=1.0 / (step.beta + step.curvature)))
    return X


def free_radius(problem: Problem) -> float:
    """A radius from which a ball has no effect."""
    X = _shrunk(problem)
    return math.sqrt(min(X.shape)) * float(np.linalg.norm(X))


def unconstrained(problem: Problem) -> Solved | None:
    """The solution if h has no effect."""
    X = _shrunk(problem)
    found = gram_svd(X, lambda s: int((s > 1e-6 * s[0]).sum()), min(X.shape))
    if found is None:
        return None
    return Solved(found.triplets, sum(problem.smooth_values(X)), 0.0, 1)


def lean_point(problem: Problem, past: Warmth | None, tol: float, seed: Any) -> Solved | None:
    """Iterate from the end of neighbouring runs; None if another method is needed."""
    C: np.ndarray[Any, Any] = problem.centre()
    meter = Meter(Budget())
    tools = Tools(problem, meter, 0.0, seed, lambda candidate: None, chosen, tol=tol)
    how: Any = {"symmetric": problem.spectral.symmetric, "mirrored": problem.mirrored}
    engine = Engine(C, tools.arena.like(C), **how)
    steps = Factored(problem, engine, tools, thin=lambda: True)
    state = LeanSplitting().start(problem, None, tools)
    step, R = problem.entrywise(), problem.penalty
    assert step is not None
    if past is not None:
        gamma, X = past.step(state.parameters.beta), past.point
        # X - gamma times the gradient and the dual point, in place: fresh memory is slow
        z = _minus_gradient(step, C, X, engine.z)
        z -= past.pull
        z *= gamma
        z += X
        block = block_of(past, tools.rng(0))
        assert block is not None
        state = replace(state, gamma=gamma, ritz=engine.ritz(block))
    bound, value, k = -math.inf, 0.5 * step.beta * float(np.vdot(C, C)), 0
    while k < MOST:
        k += 1
        gamma = state.gamma
        try:
            state, lost = _projected(steps, state, k, INEXACT * tol * abs(value) * gamma)
        except TooWide:
            return None
        state, near, far = steps.advance(state, k, None)
        value = state.last or 0.0
        bound = max(bound, value - near - far - lost / gamma)
        if value - bound <= tol * abs(value):
            break
        state = balance(steps, state, near, far)
    else:
        return None
    assert state.V is not None
    assert state.ritz is not None
    V, X = state.V, state.V.dense()
    # z has moved by Y - X, so that (X - z)/gamma - grad G - curvature X is the dual point
    pull = X - engine.z
    pull *= 1.0 / (gamma * state.change)
    pull += _minus_gradient(step, C, X, engine.z)  # z is not needed any more
    pull = R.pull(R.feasible(pull)) if R.separable else pull
    size = R.value(X) - 0.5 * R.curvature * float(np.vdot(X, X))
    warmth = Warmth(X, pull, size, 1.0 / gamma, V.rank, state.ritz.V)  # of the last target
    return Solved(V, value, max(0.0, value - bound), meter.counts.svds, warmth)


def _minus_gradient(step: Step, C: Any, X: Any, out: Any) -> Any:
    """Overwrite `out` by minus the gradient at X of G and of the quadratic part of R."""
    np.subtract(C, X, out=out)
    out *= step.beta
    if step.curvature:
        out -= step.curvature * X
    return out


def _projected(steps: Factored, state: Memory, k: int, allowed: float) -> tuple[Memory, float]:
    """The proximal point of z, and the error due to its inexact triplets, times gamma.

    The error is estimated to second order: a residual r moves a singular value by about |r|^2
    over its distance from those left out. Power steps are repeated until it is small enough.
    """
    for sweep in range(SWEEPS):
        state = steps.project(state, k)
        found, z, r = state.ritz, steps.engine.z, len(state.values)
        assert found is not None
        s = found.s[:r]
        if found.residuals is None:
            away = z.T @ found.U[:, :r] - found.V[:, :r] * s
            squares = np.einsum("ij,ij->j", away, away)
        else:
            squares = found.residuals[:r] ** 2
        after = max(0.0, float(found.s[r])) if r < len(found.s) else 0.0
        apart = np.maximum(s - after, s - state.values + TINY)
        lost = float(state.values @ (squares / apart))
        if lost <= allowed or sweep == SWEEPS - 1:
            break
        state = replace(state, ritz=steps.engine.ritz(found.V))
    return state, lost


def block_of(past: Warmth, rng: np.random.Generator) -> np.ndarray[Any, Any] | None:
    """The neighbours' block, truncated to the required width, and some random columns."""
    if past.basis is None:
        return None
    V = past.basis[:, : past.rank + SPARE - FRESH]
    return np.hstack([V, rng.standard_normal((len(V), FRESH)) / math.sqrt(len(V))])
