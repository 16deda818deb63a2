"""The solver that `minimize` takes when none is named, and why."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from typing import Any

from weakprox.errors import InputError
from weakprox.linalg.arrays import itemsize, on_cpu
from weakprox.problem import Problem
from weakprox.protocols import Solver
from weakprox.resources.limits import room
from weakprox.solvers.davis_yin import DavisYin
from weakprox.solvers.dual_ascent import DualAscent
from weakprox.solvers.footprint import ARRAYS, array_bytes, thin_bytes
from weakprox.solvers.lean import LeanSplitting
from weakprox.solvers.paper.adaptive_svrgcg import AdaptiveSVRGCG
from weakprox.solvers.sample_average import SampleAverage

LEAN_FROM = 200  # size from which passes over memory cost more than Python does
SMALL = 64 << 20  # bytes that are there without asking the system


@dataclass(frozen=True)
class Choice:
    """A solver, and the reason for it in a sentence."""

    solver: Solver
    reason: str


def choose(problem: Problem, rank: int | None = None) -> Choice:
    """The solver that is expected to prove its accuracy soonest.

    Splittings and dual ascent work on full gradients and need some arrays of the size of
    X; where those do not fit, the paper's method makes do with few.
    """
    name = type(problem.loss).__name__
    fits, arrays = _fits(problem)
    lean = LeanSplitting.applies(problem)
    if problem.elsewhere:
        return Choice(
            LeanSplitting(rank=rank),
            f"the data of {name} are read in parts, and this method needs no more than that",
        )
    if lean and not on_cpu(problem.loss.reference):
        return Choice(
            LeanSplitting(rank=rank),
            f"on this device passes over memory are the cost, and for {name} with an entrywise "
            "penalty the splitting can do with two arrays",
        )
    if lean and fits and itemsize(problem.loss.reference) == 4:
        return Choice(
            LeanSplitting(rank=rank),
            f"the data are in float32, and for {name} with an entrywise penalty this splitting "
            "proves in float64 all the same; another method goes on if its points are not "
            "low-rank",
        )
    if lean and fits and min(problem.shape) >= LEAN_FROM:
        return Choice(
            LeanSplitting(rank=rank),
            f"for {name} with an entrywise penalty the splitting can do with two arrays, which "
            "is fastest for large ones whose proximal points are low-rank; another method "
            "goes on if they are not",
        )
    if lean and not fits:
        return Choice(
            LeanSplitting(rank=rank),
            f"{arrays} arrays of the size of X, which the faster methods hold, do not fit in "
            "memory; this one holds one beside the data",
        )
    if not fits:
        return Choice(
            AdaptiveSVRGCG(rank="estimate" if rank is None else rank),
            f"{arrays} arrays of the size of X, which the faster methods hold, do not fit in "
            "memory; AdaptiveSVRGCG holds few",
        )
    if not problem.loss.is_finite_sum:
        return Choice(
            SampleAverage(rank=rank),
            f"{name} is known through samples only: as many are drawn as the accuracy needs, "
            "and their mean is solved",
        )
    if DualAscent.applies(problem):
        return Choice(
            DualAscent(rank=rank),
            f"{name} is a squared distance and the penalty has few pieces, so that the dual "
            "problem is small and smooth",
        )
    return Choice(
        DavisYin(rank=rank),
        f"{name} is a finite sum, for which the splitting usually proves its accuracy with few "
        "decompositions",
    )


def is_automatic(solver: Any) -> bool:
    """Whether the choice is ours; raises if it is neither that nor a solver object."""
    if solver is None or (isinstance(solver, str) and solver == "auto"):
        return True
    if isinstance(solver, type) or not is_dataclass(solver) or not hasattr(solver, "step"):
        given = solver.__name__ if isinstance(solver, type) else repr(solver)
        raise InputError("solver", given, "a solver object such as SVRGCG(rank=10)")
    return False


def chosen(problem: Problem, rank: int | None = None) -> Solver:
    """Only the solver of `choose`."""
    return choose(problem, rank).solver


def _fits(problem: Problem) -> tuple[bool, int]:
    """Whether the arrays of the faster methods fit in memory, and how many those are."""
    reference = problem.loss.reference
    arrays = int(ARRAYS["DavisYin"].most)
    needed = arrays * array_bytes(problem) + thin_bytes(problem, ARRAYS["DavisYin"])
    return not on_cpu(reference) or needed <= SMALL or needed <= room(), arrays
