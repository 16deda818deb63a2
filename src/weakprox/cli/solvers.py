"""Solvers by the names the command line knows."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, cast

from weakprox.errors import InputError

if TYPE_CHECKING:
    from weakprox.protocols import Solver

CLASSES = {
    "svrgcg": "SVRGCG",
    "scg": "SCG",
    "scgs": "SCGS",
    "storc": "STORC",
    "svrf": "SVRF",
    "hcgm": "HCGM",
    "shcgm": "SHCGM",
    "fista": "FISTA",
}


def solver_of(name: str, rank: int | None) -> Solver:
    """The solver of this name, with the rank where it has one."""
    from weakprox import solvers

    found = getattr(solvers, CLASSES.get(name.lower(), ""), None)
    if found is None:
        known = [short for short, full in CLASSES.items() if hasattr(solvers, full)]
        raise InputError("solver", repr(name), f"one of {', '.join(known)}")
    if "rank" in {field.name for field in fields(found)}:
        return cast("Solver", found(rank="estimate" if rank is None else rank))
    if rank is not None:
        given = f"{rank}, with the solver {name.lower()}"
        raise InputError("rank", given, "none: this solver's answer has the rank it has")
    return cast("Solver", found())
