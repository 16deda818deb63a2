"""Solvers by the names the command line knows."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, cast

from weakprox.errors import InputError

if TYPE_CHECKING:
    from weakprox.problem import Problem
    from weakprox.protocols import Solver

CLASSES = {
    "davisyin": "DavisYin",
    "svrgcg": "SVRGCG",
    "scg": "SCG",
    "scgs": "SCGS",
    "storc": "STORC",
    "svrf": "SVRF",
    "hcgm": "HCGM",
    "shcgm": "SHCGM",
    "fista": "FISTA",
}


def check_name(name: str, rank: int | None) -> None:
    """Raise on a name that is not known, or a rank that the solver has no use for."""
    from weakprox import solvers

    if name.lower() == "auto":
        return
    if name.lower() not in CLASSES:
        raise InputError("solver", repr(name), f"auto, or one of {', '.join(CLASSES)}")
    found = getattr(solvers, CLASSES[name.lower()])
    if rank is not None and "rank" not in {field.name for field in fields(found)}:
        given = f"{rank}, with the solver {name.lower()}"
        raise InputError("rank", given, "none: this solver's answer has the rank it has")


def solver_of(name: str, rank: int | None, problem: Problem) -> Solver:
    """The solver of this name, with the rank where it has one."""
    from weakprox import solvers
    from weakprox.solvers.auto import chosen

    check_name(name, rank)
    if name.lower() == "auto":
        return chosen(problem, rank)
    if name.lower() == "davisyin":
        return solvers.DavisYin(rank=rank)
    if name.lower() == "svrgcg":
        return solvers.SVRGCG(rank="estimate" if rank is None else rank)
    return cast("Solver", getattr(solvers, CLASSES[name.lower()])())
