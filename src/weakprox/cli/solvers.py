"""Solvers by the names the command line knows."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Literal, cast

from weakprox.errors import InputError

if TYPE_CHECKING:
    from weakprox.protocols import Solver

CLASSES = {
    "davisyin": "DavisYin",
    "leansplitting": "LeanSplitting",
    "extragradient": "Extragradient",
    "svrgcg": "SVRGCG",
    "scg": "SCG",
    "scgs": "SCGS",
    "storc": "STORC",
    "svrf": "SVRF",
    "hcgm": "HCGM",
    "shcgm": "SHCGM",
    "fista": "FISTA",
}
NAMES = f"auto, {', '.join(list(CLASSES)[:-1])} or {list(CLASSES)[-1]}"
# Solvers of the library that no matrix file can be for, and why.
ELSEWHERE = {
    "dualascent": "is for the penalty MaxAffine, while this one is the l1 norm",
    "sampleaverage": "is for a loss known through samples, while a file is known whole",
}


def check_name(name: str, rank: int | None) -> None:
    """Raise on a name that is not known, or a rank that the solver has no use for."""
    from weakprox import solvers

    if name.lower() == "auto":
        return
    if name.lower() in ELSEWHERE:
        raise InputError("solver", f"{name!r}, which {ELSEWHERE[name.lower()]}", NAMES)
    if name.lower() not in CLASSES:
        raise InputError("solver", repr(name), NAMES)
    found = getattr(solvers, CLASSES[name.lower()])
    if rank is not None and "rank" not in {field.name for field in fields(found)}:
        given = f"{rank}, with the solver {name.lower()}"
        raise InputError("rank", given, "none: this solver's answer has the rank it has")


def solver_of(name: str, rank: int | None) -> Solver | Literal["auto"]:
    """The solver of this name, with the rank where it has one; "auto" is left as it is."""
    from weakprox import solvers

    check_name(name, rank)
    if name.lower() == "auto":
        return "auto"
    if name.lower() == "svrgcg":
        return solvers.SVRGCG(rank="estimate" if rank is None else rank)
    found = getattr(solvers, CLASSES[name.lower()])
    return cast("Solver", found() if rank is None else found(rank=rank))
