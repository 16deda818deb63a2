"""The memory a run takes, before it is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from weakprox import solvers
from weakprox.errors import InputError
from weakprox.problem import Problem
from weakprox.protocols import Solver
from weakprox.resources.limits import room, shown_bytes
from weakprox.resources.memory import budget, honours_budget, on_disk, resident
from weakprox.run.choose import choose, is_automatic
from weakprox.run.needs import Need, held_bytes, need_of
from weakprox.solvers.footprint import array_bytes, arrays_of


@dataclass(frozen=True)
class Plan:
    """What runs would hold in memory; `print` shows a table.

    Attributes
    ----------
    shape : (int, int)
        Of X.
    array : int
        Bytes of one array of that shape.
    needs : tuple of Need
        One for each solver.
    chosen, reason : str
        The solver that `minimize` would take, and why.
    process : int
        Most bytes that this process would hold then, with all it holds already.
    early : int
        The same for a run of at most 16 iterations.
    room : int
        Bytes that there is room for beyond what the process holds now.
    """

    shape: tuple[int, int]
    array: int
    needs: tuple[Need, ...]
    chosen: str
    reason: str
    process: int
    early: int
    room: int

    def __getitem__(self, solver: str) -> Need:
        """The needs of the solver of this name."""
        for need in self.needs:
            if need.solver == solver:
                return need
        listed = ", ".join(need.solver for need in self.needs)
        raise InputError("solver", repr(solver), f"one of {listed}")

    def __str__(self) -> str:
        """A table, in units of one array and in bytes."""
        m, d = self.shape
        lines = [
            f"One array of {m} x {d} takes {shown_bytes(self.array)}; there is room for "
            f"{shown_bytes(self.room)}.",
            f"{'solver':<21}{'data':>6}{'work':>14}{'proof':>7}{'disk':>6}"
            f"{'factors':>11}{'peak':>11}{'at most':>11}",
        ]
        for need in self.needs:
            work = f"{need.work:g}"
            if need.first != need.work:
                work = f"{need.first:g} to {work}"
            sizes = (shown_bytes(x) for x in (need.factors, need.peak, need.most))
            lines.append(
                f"{need.solver:<21}{round(need.data, 2):>6.3g}{work:>14}{need.proof:>7.3g}"
                f"{need.disk:>6.3g}"
                + "".join(f"{size:>11}" for size in sizes)
                + _remark(need, self.chosen)
            )
        lines.append(f"{self.chosen}: {self.reason}.")
        lines.append(
            f"The process would hold up to {shown_bytes(self.process)}, "
            f"{shown_bytes(self.early)} in the first 16 iterations."
        )
        return "\n".join(lines)


def _remark(need: Need, chosen: str) -> str:
    """What stands at the end of a solver's line."""
    if not need.fits:
        return "  does not fit"
    return "  <- would run" if need.solver == chosen else ""


@honours_budget
def plan(
    problem: Problem,
    solver: Solver | Literal["auto"] | None = None,
    *,
    max_memory: int | str | None = None,
) -> Plan:
    """Show what runs would hold in memory, without running any.

    Parameters
    ----------
    problem : Problem
        What would be solved.
    solver : Solver or "auto", optional
        Only this one; otherwise all that the problem suits, at their own settings.
    max_memory : int or str, optional
        The budget that `minimize` would be given.

    Returns
    -------
    Plan
        One `Need` for each solver, and the choice of `minimize`.
    """
    if not isinstance(problem, Problem):
        raise InputError("problem", type(problem).__name__, "a weakprox.Problem")
    reason = "it was asked for"
    if is_automatic(solver):
        choice = choose(problem)
        chosen, reason = choice.solver, choice.reason
        named = {type(chosen).__name__: chosen, **_applicable(problem)}
    else:
        assert solver is not None
        assert not isinstance(solver, str)
        solver.check(problem)
        if arrays_of(solver) is None:
            given = f"{type(solver).__name__}, which says nothing of its memory"
            raise InputError("solver", given, "one of the library, or one with `arrays`")
        chosen, named = solver, {type(solver).__name__: solver}
    needs = tuple(need_of(problem, method) for method in named.values())
    mine = needs[list(named).index(type(chosen).__name__)]
    here = resident() - held_bytes(problem)
    return Plan(
        shape=problem.shape,
        array=array_bytes(problem),
        needs=needs,
        chosen=type(chosen).__name__,
        reason=reason,
        process=here + mine.peak,
        early=here + mine.early,
        room=room(),
    )


def check_room(problem: Problem, solver: Any) -> None:
    """Raise before any work if the budget is too small for this solver."""
    most = budget()
    if most is None or arrays_of(solver) is None:  # a user's own may say nothing
        return
    target: Any = getattr(problem.loss, "target", None)
    if on_disk(target) and target.strides[0] < target.strides[1]:
        wanted = "rows one after the other (np.ascontiguousarray), or its transpose"
        raise InputError("M", "a file with columns one after the other", wanted)
    need = need_of(problem, solver)
    if not need.fits:
        least = resident() + need.peak - held_bytes(problem)
        given = f"{shown_bytes(most)}, of which the process holds {shown_bytes(resident())}"
        wanted = f"at least {shown_bytes(least)} for {type(solver).__name__}"
        raise InputError("max_memory", given, wanted)


def _applicable(problem: Problem) -> dict[str, Solver]:
    """Solvers of the library that the problem suits, at their own settings."""
    found = {}
    for name in solvers.__all__:
        made = getattr(solvers, name)
        if arrays_of(made) is None:
            continue
        method = made(rank="estimate") if "SVRGCG" in name else made()
        try:
            method.check(problem)
        except InputError:
            continue
        found[name] = method
    return found
