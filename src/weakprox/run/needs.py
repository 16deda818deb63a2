"""What one solver would hold in memory for one problem."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from weakprox.linalg.arena import SHARE
from weakprox.linalg.by_rows import ASIDE_FROM
from weakprox.linalg.tiled import Tiled
from weakprox.problem import Problem
from weakprox.resources.limits import room
from weakprox.resources.memory import budget, on_disk
from weakprox.solvers.footprint import (
    array_bytes,
    arrays_of,
    left_for_arrays,
    library_bytes,
    thin_bytes,
)


@dataclass(frozen=True)
class Need:
    """What a solver holds at its peak; arrays are of the size of X.

    Attributes
    ----------
    solver : str
        Its name.
    data : float
        Arrays of data in memory.
    first, work : float
        Arrays it works on in its first 16 iterations, and in a longer run.
    proof : float
        Further arrays for a moment, while f is evaluated or a bound is proved.
    factors : int
        Bytes of thin factors, of the tiles in which passes are done, and of the compiler
        behind those (numba) where it is yet to be loaded.
    early, peak, most : int
        Bytes in all: in the first 16 iterations, of an ordinary long run, and where
        decompositions are full ones.
    disk : float
        Arrays kept in scratch files, for a budget that they do not fit in.
    fits : bool
        Whether the peak fits into the room there is.
    """

    solver: str
    data: float
    first: float
    work: float
    proof: float
    factors: int
    early: int
    peak: int
    most: int
    disk: float
    fits: bool


def need_of(problem: Problem, solver: Any) -> Need:
    """What one solver holds, with what does not fit put on disk where it can be."""
    arrays = arrays_of(solver)
    assert arrays is not None
    array, thin = array_bytes(problem), thin_bytes(problem, arrays)
    data, free = held_bytes(problem), room()
    pending, reading = getattr(problem.loss, "pending", (0, 0))
    operator = isinstance(getattr(problem.loss, "target", None), Tiled)
    aside = operator and arrays.tiles and array >= ASIDE_FROM  # the checkpoint's copy is
    work = 1.0 if aside else arrays.work
    if problem.elsewhere and arrays.tiles and not operator:
        work = 0.0  # on the workers, beside the data
    away = problem.elsewhere or on_disk(getattr(problem.loss, "target", None))  # not here yet
    pending += array if away and not arrays.tiles else 0
    held = work
    if arrays.tiles and budget() is not None:  # as `DiskArena` will do it, one by one
        left, held = left_for_arrays(), 0.0
        while held < work and array <= SHARE * (left - held * array):
            held += 1.0
    disk = work - held
    first = min(arrays.first, work)
    library = library_bytes(problem, arrays) if held else 0  # files are passed over without
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
    """Bytes of each array that can be reached, by the memory it lies in."""
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        if not on_disk(value):
            seen[id(value)] = value.nbytes
    elif isinstance(value, Tiled):
        seen[id(value)] = value.nbytes
    elif hasattr(value, "element_size") and hasattr(value, "data_ptr"):  # torch
        seen[int(value.data_ptr())] = value.element_size() * value.nelement()
    elif depth == 0:
        return
    elif isinstance(value, dict):
        for part in value.values():
            _gather(part, seen, depth - 1)
    elif isinstance(value, (tuple, list)):
        for part in value:
            _gather(part, seen, depth - 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            _gather(getattr(value, field.name), seen, depth - 1)


def held_bytes(problem: Problem) -> int:
    """Bytes of arrays in memory that the problem's terms hold now."""
    seen: dict[int, int] = {}
    for term in (problem.loss, problem.penalty, problem.spectral):
        _gather(vars(term) if hasattr(term, "__dict__") else {}, seen, 3)
    return sum(seen.values())
