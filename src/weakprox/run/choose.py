"""The solver of a run: the one the user names, or the automatic choice."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from weakprox import solvers
from weakprox.arguments import integer
from weakprox.errors import InputError
from weakprox.linalg.arrays import itemsize, on_cpu
from weakprox.problem import Problem
from weakprox.resources.limits import room
from weakprox.solvers import (
    AdaptiveSVRGCG,
    DavisYin,
    DualAscent,
    LeanSplitting,
    SampleAverage,
)
from weakprox.solvers.base import ARRAYS, Method, array_bytes, as_method, thin_bytes

LEAN_FROM = 200  # size from which passes over memory cost more than Python does
SMALL = 64 << 20  # bytes that a run may take without asking the system
ASKED = "it was asked for"
FALLBACK = "DavisYin takes over if the solution is not low-rank"


@dataclass(frozen=True)
class Choice:
    """A solver, and the reason for it as a clause that may follow "because"."""

    solver: Method
    reason: str
    automatic: bool = True


def chosen_for(problem: Problem, solver: Any = None, rank: Any = None) -> Choice:
    """Return the solver that the arguments `solver` and `rank` of `minimize` ask for."""
    if rank is not None:
        rank = integer("rank", rank, 1)
    if solver is None or (isinstance(solver, str) and solver.lower() == "auto"):
        return choose(problem, rank)
    if isinstance(solver, str):
        solver = solver_named(solver, rank)
    elif isinstance(solver, type):
        solver = _made(solver, rank)
    elif rank is not None:
        raise InputError(
            "rank", f"{rank}, with a solver object", "none: the object has its own"
        )
    return Choice(as_method(solver), ASKED, automatic=False)


def solver_names() -> dict[str, type]:
    """Return the solver classes by the names that users may write."""
    every = {name.lower(): getattr(solvers, name) for name in solvers.__all__}
    return {name: kind for name, kind in every.items() if issubclass(kind, Method)}


def solver_class(name: str) -> type:
    """Return the solver of this name, such as "svrgcg" or "davis-yin", in any case."""
    known = solver_names()
    found = known.get(name.lower().replace("-", "").replace("_", ""))
    if found is None:
        raise InputError("solver", repr(name), f"one of auto, {', '.join(known)}")
    return found


def solver_named(name: str, rank: int | None = None) -> Method:
    """Return the solver of this name at its own settings, with this rank if one is given."""
    return as_method(_made(solver_class(name), rank))


def _made(kind: Any, rank: int | None) -> Any:
    """Return a solver of this class, with this rank if one is given."""
    if not hasattr(kind, "step") or not hasattr(kind, "__dataclass_fields__"):
        return as_method(kind)  # raises
    if rank is not None and "rank" not in {field.name for field in fields(kind)}:
        given = f"{rank}, with the solver {kind.__name__}"
        raise InputError("rank", given, "none: this solver does not limit the rank")
    try:
        return kind() if rank is None else kind(rank=rank)
    except TypeError as failure:
        given = f"{kind.__name__}, which needs settings ({failure})"
        raise InputError("solver", given, f"an object such as {kind.__name__}(...)") from None


def choose(problem: Problem, rank: int | None = None) -> Choice:
    """Return the solver that is expected to prove its accuracy soonest.

    Splittings and dual ascent use full gradients and hold several arrays of the size of X.
    If those do not fit in memory, the paper's method needs only a few.
    """
    name = type(problem.loss).__name__
    fits, arrays = _fits(problem)
    lean = LeanSplitting.applies(problem)
    small = f"DavisYin's {arrays} arrays the size of X do not fit in memory"
    if problem.elsewhere:
        why = f"the data of {name} are read in parts, and this method needs no more than that"
        return Choice(LeanSplitting(rank=rank), why)
    if lean and not on_cpu(problem.loss.reference):
        why = f"for {name} with an entrywise penalty it makes the fewest passes over memory"
        return Choice(
            LeanSplitting(rank=rank), f"{why}, which take most of the time on a device"
        )
    if lean and fits and itemsize(problem.loss.reference) == 4:
        why = f"the data are in float32, and for {name} with an entrywise penalty it proves its"
        return Choice(LeanSplitting(rank=rank), f"{why} bounds in float64. {FALLBACK}")
    if lean and fits and min(problem.shape) >= LEAN_FROM:
        why = f"for {name} with an entrywise penalty it needs only two arrays the size of X"
        why += " beside the data, and is fastest when the solution is low-rank"
        return Choice(LeanSplitting(rank=rank), f"{why}. {FALLBACK}")
    if lean and not fits:
        return Choice(LeanSplitting(rank=rank), f"{small}; this method holds one or two")
    if not fits:
        rule = AdaptiveSVRGCG(rank="estimate" if rank is None else rank)
        return Choice(rule, f"{small}; AdaptiveSVRGCG holds few")
    if not problem.loss.is_finite_sum:
        why = f"{name} is known through samples only, and this method draws as many as the"
        return Choice(
            SampleAverage(rank=rank), f"{why} accuracy needs and minimises their mean"
        )
    if DualAscent.applies(problem):
        why = f"{name} is a squared distance and the penalty has few pieces, so that the dual"
        return Choice(DualAscent(rank=rank), f"{why} problem is small and smooth")
    why = (
        f"{name} is a finite sum, for which the splitting usually proves its accuracy with few"
    )
    return Choice(DavisYin(rank=rank), f"{why} decompositions")


def chosen(problem: Problem, rank: int | None = None) -> Method:
    """Return the solver of `choose` alone."""
    return choose(problem, rank).solver


def _fits(problem: Problem) -> tuple[bool, int]:
    """Return whether DavisYin's arrays fit in memory, and how many those are."""
    reference = problem.loss.reference
    arrays = int(ARRAYS["DavisYin"].most)
    needed = arrays * array_bytes(problem) + thin_bytes(problem, ARRAYS["DavisYin"])
    return not on_cpu(reference) or needed <= SMALL or needed <= room(), arrays
