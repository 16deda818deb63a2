"""Solvers by name on the command line; the names are those of `weakprox.minimize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from weakprox.errors import InputError

if TYPE_CHECKING:
    from weakprox.solvers.base import Method

# Solvers of the library that do not suit a matrix file, and why.
ELSEWHERE = {
    "dualascent": "is for the penalty MaxAffine, while this one is the l1 norm",
    "sampleaverage": "is for a loss known through samples, while a file is known whole",
}


def solver_of(name: str, rank: int | None) -> Method | Literal["auto"]:
    """Return the solver of this name, with the rank if it has one; "auto" is left as it is."""
    from weakprox.run.choose import solver_class, solver_named

    if name.lower() == "auto":
        return "auto"
    found = solver_class(name).__name__
    if found.lower() in ELSEWHERE:
        given = f"{name!r}, which {ELSEWHERE[found.lower()]}"
        raise InputError("solver", given, "another one, such as auto or davisyin")
    return solver_named(name, rank)
