"""The solver of a run: the one the user names, or the automatic choice."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from weakprox import solvers
from weakprox.arguments import integer
from weakprox.errors import InputError
from weakprox.hints import suggestion
from weakprox.linalg.arrays import on_cpu
from weakprox.problem import Problem
from weakprox.resources.memory import room, shown_bytes
from weakprox.solvers import (
    ADMM,
    AdaptiveSVRGCG,
    DavisYin,
    DenseProximal,
    DualAscent,
    FactoredProximal,
    FilledProximal,
    LeanSplitting,
    SampleAverage,
    Thresholding,
)
from weakprox.solvers.base import ARRAYS, Method, array_bytes, as_method, thin_bytes

LEAN_FROM = 200  # size from which passes over memory cost more than Python does
SMALL = 64 << 20  # bytes that a run may use without a check of the available memory
ASKED = "it was requested"


@dataclass(frozen=True)
class Choice:
    """A solver, and the reason for it as a clause that may follow "because"."""

    solver: Method
    reason: str
    automatic: bool = True


def chosen_for(problem: Problem, solver: Any = None, rank: Any = None) -> Choice:
    """Return the solver that the arguments `solver` and `rank` of `minimize` select."""
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
        given = f"{name!r}{suggestion(name, known)}"
        raise InputError("solver", given, f"one of auto, {', '.join(known)}")
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
    name, reference = type(problem.loss).__name__, problem.loss.reference
    if problem.sparse_target is not None:
        why = "without a penalty the solution follows from leading singular triplets of a "
        return Choice(Thresholding(rank=rank), why + "sparse matrix, which stays sparse")
    if problem.observed is not None:
        if FilledProximal.pays(problem) and _holds(problem, "FilledProximal"):
            why = f"{name} has squared errors of most entries, and decompositions of an array "
            why += "with filled holes cost less than products with a sparse matrix"
            return Choice(FilledProximal(rank=rank), why)
        why = f"{name} depends on observed entries only, and this method keeps X in factors"
        return Choice(FactoredProximal(rank=rank), why)
    if problem.cells is not None:
        why = "Denoising with weights or a robust loss is a sum over cells, which this "
        return Choice(DenseProximal(rank=rank), why + "method reads once in each step")
    if problem.elsewhere:
        why = f"the data of {name} are read in parts, which this method supports"
        return Choice(LeanSplitting(rank=rank), why)
    short, lean = _short_of(problem), LeanSplitting.applies(problem)
    why = f"for {name} with a separable penalty it "
    if lean and not on_cpu(reference):
        why += "makes the fewest passes over memory, which take most of the time on a device"
        return Choice(LeanSplitting(rank=rank), why)
    if lean and short:
        return Choice(LeanSplitting(rank=rank), f"{short}; this method holds one or two arrays")
    if lean and reference.dtype.itemsize == 4:
        why += "proves its bounds in float64, although the data are in float32. "
        why += "DavisYin takes over if the solution is not low-rank"
        return Choice(LeanSplitting(rank=rank), why)
    if lean and min(problem.shape) >= LEAN_FROM:
        why += "needs only two arrays the size of X beside the data and is fastest when the "
        why += "solution is low-rank. DavisYin takes over otherwise"
        return Choice(LeanSplitting(rank=rank), why)
    if short:
        few = AdaptiveSVRGCG(rank="estimate" if rank is None else rank)
        return Choice(few, f"{short}; AdaptiveSVRGCG holds few arrays")
    if not problem.loss.is_finite_sum:
        why = f"{name} is known through samples only, and this method draws as many as the "
        return Choice(
            SampleAverage(rank=rank), why + "accuracy requires and minimises their mean"
        )
    if DualAscent.applies(problem):
        why = f"{name} is a squared distance and the penalty has few pieces, so that the dual "
        return Choice(DualAscent(rank=rank), why + "problem is small and smooth")
    if ADMM.pays(problem):
        why = f"the curvature of {name} varies strongly between directions, so that proximal "
        why += "steps need fewer decompositions than gradient steps"
        return Choice(ADMM(rank=rank), why)
    why = f"{name} is a finite sum, for which the splitting usually needs few decompositions "
    return Choice(DavisYin(rank=rank), why + "to prove its accuracy")


def if_slow(problem: Problem, solver: Method, memory: Any) -> Method | None:
    """Return the method to continue with if the gap of this one falls slowly; None if none.

    Proximal maps of G need few iterations where gradient steps need thousands, and otherwise
    cost more.
    """
    if isinstance(solver, DavisYin) and memory.slow and ADMM.applies(problem):
        return ADMM(rank=solver.rank)
    return None


def if_stalled(problem: Problem, solver: Method) -> Method | None:
    """Return the method to continue with if the gap of this one has stalled; None if none."""
    if isinstance(solver, FactoredProximal | FilledProximal | DenseProximal):
        other = ADMM if ADMM.applies(problem) else DavisYin
        return other(rank=solver.rank)
    return DavisYin(rank=solver.rank) if isinstance(solver, ADMM) else None


def chosen(problem: Problem, rank: int | None = None) -> Method:
    """Return the solver of `choose` alone."""
    return choose(problem, rank).solver


def _holds(problem: Problem, name: str) -> bool:
    """Return whether there is room for the arrays of this solver."""
    arrays = ARRAYS[name]
    needed = int(arrays.peak * 8 * math.prod(problem.shape)) + thin_bytes(problem, arrays)
    return needed <= SMALL or needed <= room()


def _short_of(problem: Problem) -> str:
    """Return how DavisYin's arrays exceed the memory available; "" if they fit."""
    arrays = ARRAYS["DavisYin"]
    needed = int(arrays.most) * array_bytes(problem) + thin_bytes(problem, arrays)
    if needed <= SMALL or not on_cpu(problem.loss.reference) or needed <= room():
        return ""
    size = f"{arrays.most:g} arrays the size of X ({shown_bytes(needed)})"
    return (
        f"DavisYin would need {size}, more than the {shown_bytes(room())} of memory available"
    )
