"""The memory that runs take, computed before any of them starts."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from weakprox import solvers
from weakprox.arguments import by_name
from weakprox.display import table
from weakprox.errors import InputError
from weakprox.hints import needs_problem
from weakprox.linalg.arrays import ASIDE_FROM, is_numpy
from weakprox.linalg.tiled import Tiled
from weakprox.passes import compiling
from weakprox.passes.blocks import BlockPattern
from weakprox.problem import Problem
from weakprox.resources.memory import (
    SHARE,
    budget,
    honours_budget,
    on_disk,
    resident,
    room,
    shown_bytes,
)
from weakprox.run.choose import chosen_for
from weakprox.solvers.base import Method, array_bytes, thin_bytes


@dataclass(frozen=True)
class Need:
    """Memory that a solver holds at its peak: arrays of the size of X, and bytes."""

    solver: str  # its name
    data: float  # arrays of data in memory
    first: float  # arrays it works on in its first 16 iterations,
    work: float  # and in a longer run
    proof: float  # further arrays temporarily, while f is evaluated or a bound is proved
    factors: int  # bytes of thin factors, vectors, tiles, and numba if it is yet to be loaded
    early: int  # bytes in total: in the first 16 iterations,
    peak: int  # of an ordinary long run,
    most: int  # and with full decompositions
    disk: float  # arrays in scratch files, for a budget that they do not fit in
    fits: bool  # whether the peak fits into the available memory


def need_of(problem: Problem, solver: Method) -> Need:
    """Return what one solver holds; arrays that do not fit go to disk if possible."""
    arrays = solver.arrays
    assert arrays is not None
    array, thin = array_bytes(problem), thin_bytes(problem, arrays)
    data, free = held_bytes(problem), room()
    waiting = problem.of_loss.pending
    pending, reading = (0, 0) if waiting is None else waiting()
    if arrays.tiles:
        pending += problem.beside_bytes
    operator = isinstance(problem.of_loss.target, Tiled)
    aside = operator and arrays.tiles and array >= ASIDE_FROM  # the checkpoint's copy is
    work = min(1.0, arrays.work) if aside else arrays.work
    if problem.elsewhere and arrays.tiles and not operator:
        work = 0.0  # on the workers, beside the data
    away = problem.elsewhere or on_disk(problem.of_loss.target)  # not here yet
    pending += array if away and not (arrays.tiles or arrays.vectors) else 0
    held = work
    if arrays.tiles and budget() is not None:  # as `DiskArena` will do it, one by one
        left, held = left_for_arrays(), 0.0
        while held < work and array <= SHARE * (left - held * array):
            held += 1.0
    disk = work - held
    entries = None if problem.observed is None else problem.observed.pattern
    if arrays.vectors and isinstance(entries, BlockPattern):
        disk = entries.file_bytes(1 + arrays.vectors) / array
    first = min(arrays.first, work)
    size = math.prod(problem.shape)
    if arrays.vectors:
        compiled = compiling.chosen(kind=compiling.ENTRIES)
    else:  # passes over files are not compiled
        large = size >= compiling.COMPILED_FROM and arrays.tiles and held
        compiled = bool(large) and compiling.chosen(size)
    compiled = compiled and is_numpy(problem.loss.reference)
    library = _compiler_bytes() if compiled else 0
    early, peak = (
        max(int((taken + arrays.proof) * array) + thin + library + pending, reading)
        for taken in (min(first, held), held)
    )
    most = peak if arrays.wide is None else int(arrays.wide * array) + thin + pending
    return Need(
        solver=type(solver).__name__,
        data=(data + pending) / array,
        first=first,
        work=work,
        proof=arrays.proof,
        factors=thin + library,
        early=data + early,
        peak=data + peak,
        most=data + most,
        disk=disk,
        fits=peak <= free,
    )


def _gather(value: Any, seen: dict[int, int], depth: int) -> None:
    """Collect the bytes of each array that can be reached, by the memory it lies in."""
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        if not on_disk(value):
            seen[id(value)] = value.nbytes
    elif isinstance(value, Tiled):
        seen[id(value)] = value.nbytes
    elif hasattr(value, "element_size") and hasattr(value, "data_ptr"):  # torch
        seen[int(value.data_ptr())] = value.element_size() * value.nelement()
    elif depth:
        parts: Any = value if isinstance(value, (tuple, list)) else ()
        if isinstance(value, dict):
            parts = value.values()
        elif is_dataclass(value) and not isinstance(value, type):
            parts = [getattr(value, field.name) for field in fields(value)]
        for part in parts:
            _gather(part, seen, depth - 1)


def held_bytes(problem: Problem) -> int:
    """Return the bytes of arrays in memory that the problem's terms hold now."""
    seen: dict[int, int] = {}
    for term in (problem.loss, problem.penalty, problem.spectral):
        _gather(vars(term) if hasattr(term, "__dict__") else {}, seen, 3)
    return sum(seen.values())


def _compiler_bytes() -> int:
    """Return the bytes of numba, if it is installed and not loaded yet."""
    absent = "numba" in sys.modules or find_spec("numba") is None
    return 0 if absent else compiling.COMPILER


def left_for_arrays() -> int:
    """Return the bytes that arrays may take; the compiler may still be loaded."""
    return max(0, room() - _compiler_bytes())


@dataclass(frozen=True, repr=False)
class Plan:
    """Memory that runs would hold; `print` shows a table.

    Attributes
    ----------
    shape : (int, int)
        Of X.
    array : int
        Bytes of one array of that shape.
    needs : tuple of Need
        One for each solver.
    chosen, reason : str
        The solver that `minimize` would choose, and why.
    process : int
        Peak memory of this process in that run, in bytes, including what it holds already.
    early : int
        The same for a run of at most 16 iterations.
    room : int
        Bytes that can be allocated in addition to those that the process holds now.
    """

    shape: tuple[int, int]
    array: int
    needs: tuple[Need, ...]
    chosen: str
    reason: str
    process: int
    early: int
    room: int

    def __repr__(self) -> str:
        return str(self)

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
                + ("" if need.fits else "  does not fit")
                + ("  <- would run" if need.fits and need.solver == self.chosen else "")
            )
        lines.append(f"{self.chosen}: {self.reason}.")
        lines.append(
            f"The process would hold up to {shown_bytes(self.process)}, "
            f"{shown_bytes(self.early)} in the first 16 iterations."
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        m, d = self.shape
        rows = []
        for need in self.needs:
            word = "" if need.fits else "does not fit"
            if need.fits and need.solver == self.chosen:
                word = "would run"
            sizes = shown_bytes(need.peak), shown_bytes(need.most)
            rows.append((need.solver, f"{need.work:g}", *sizes, word))
        notes = [
            f"{self.chosen}: {self.reason}.",
            f"One array takes {shown_bytes(self.array)}. The process would hold up to "
            f"{shown_bytes(self.process)}; there is room for {shown_bytes(self.room)} more.",
        ]
        headers = ("solver", "arrays the size of X", "memory", "at most", "")
        return table(f"Memory of runs on {m} x {d}", headers, rows, notes)


@by_name("the terms joined as wp.Problem(loss, penalty, spectral)")
@honours_budget
def plan(
    problem: Problem,
    solver: Method | type | str | None = None,
    *,
    max_memory: int | str | None = None,
) -> Plan:
    """Return the memory that runs would need, without running any.

    Parameters
    ----------
    problem : Problem
        The problem.
    solver : Method, class or str, optional
        A single solver, as in `minimize`; by default (or for "auto") all solvers that apply to
        the problem, with their default settings.
    max_memory : int or str, optional
        The budget, as in `minimize`.

    Returns
    -------
    Plan
        One `Need` for each solver, and the choice of `minimize`.
    """
    if not isinstance(problem, Problem):
        raise needs_problem(problem)
    choice = chosen_for(problem, solver)
    chosen, named = choice.solver, {type(choice.solver).__name__: choice.solver}
    if choice.automatic:
        named |= _applicable(problem)
    else:
        chosen.check(problem)
        if chosen.arrays is None:
            given = f"{type(chosen).__name__}, which does not declare its memory"
            raise InputError(
                "solver", given, "a solver of the library, or one that declares `arrays`"
            )
    needs = tuple(need_of(problem, method) for method in named.values())
    mine = needs[list(named).index(type(chosen).__name__)]
    here = resident() - held_bytes(problem)
    return Plan(
        shape=problem.shape,
        array=array_bytes(problem),
        needs=needs,
        chosen=type(chosen).__name__,
        reason=choice.reason,
        process=here + mine.peak,
        early=here + mine.early,
        room=room(),
    )


def check_room(problem: Problem, solver: Method) -> None:
    """Raise before any work if the budget is too small for this solver."""
    most = budget()
    if most is None or solver.arrays is None:
        return
    target: Any = problem.of_loss.target
    if on_disk(target) and target.strides[0] < target.strides[1]:
        wanted = "rows one after the other (np.ascontiguousarray), or its transpose"
        raise InputError("M", "a file with columns one after the other", wanted)
    need = need_of(problem, solver)
    if not need.fits:
        least = resident() + need.peak - held_bytes(problem)
        given = f"{shown_bytes(most)}, of which the process holds {shown_bytes(resident())}"
        wanted = f"at least {shown_bytes(least)} for {type(solver).__name__}"
        raise InputError("max_memory", given, wanted)


def _applicable(problem: Problem) -> dict[str, Method]:
    """Return the library's solvers that apply to the problem, with their default settings."""
    found = {}
    for name in solvers.__all__:
        kind = getattr(solvers, name)
        if not issubclass(kind, Method) or kind().arrays is None:
            continue
        with suppress(InputError):
            kind().check(problem)
            found[name] = kind()
    return found
