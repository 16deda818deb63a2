"""Data of any size, solved as if it were of size one.

With X = u X', every term of f in the library has a twin with f(X) = u^2 f'(X'): G and the
quadratic parts of R keep their constants, other weights and radii are divided by u. Where
the entries of the data are very large or small, so that powers might leave the range of
their dtype, `minimize` takes a u that makes them about one, and multiplies back at the end.
u is a power of two, so that not a bit changes. Ordinary data are left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weakprox.errors import InputError
from weakprox.linalg.arrays import itemsize
from weakprox.linalg.lowrank import LowRank
from weakprox.problem import Problem
from weakprox.result import COLUMNS, Result, Trace

SMALLEST = 2.0**-480  # squares of smaller data vanish
# Settings of solvers that speak of the problem in its own units.
IN_UNITS = ("mu", "C0", "sigma", "delta", "delta2", "lipschitz", "beta0")
VALUES = ("value", "value_low_rank", "lower_bound", "delta")  # columns of a trace


def unit_of(problem: Problem, solver: Any) -> float:
    """A power of two that data of extreme size are best measured in; 1 for all others.

    1 as well where a term of the user's own, or a setting of the solver, cannot be told
    about another unit.
    """
    terms = (problem.loss, problem.penalty, problem.spectral)
    if not all(_known(term) for term in terms):
        return 1.0
    if any(getattr(solver, name, None) for name in IN_UNITS):
        return 1.0
    # data that are zero leave it to the other terms how large X may become
    sizes = (("loss", "size"), ("penalty", "size"), ("spectral", "tau"))
    found = [getattr(getattr(problem, term), name, 0.0) for term, name in sizes]
    size = next((float(one) for one in found if one), 0.0)
    # 2^16 in float32, 2^32 in float64: fourth powers and differences from one keep digits
    ordinary = 2.0 ** (4 * itemsize(problem.loss.reference))
    if size == 0.0 or 1.0 / ordinary <= size <= ordinary:
        return 1.0
    if size < SMALLEST:
        wanted = f"at least {SMALLEST:.0e}, or their squares vanish: rescale the data"
        raise InputError("problem", f"data of size {size:.1e}", wanted)
    return math.ldexp(1.0, math.frexp(size)[1])


def _known(term: Any) -> bool:
    """Whether the term can be put in another unit, and all of its parts can."""
    # of these very classes: a subclass may have changed what they say
    own = "in_unit" in vars(type(term))
    return own and all(_known(part) for part in getattr(term, "parts", ()))


def problem_in(problem: Problem, unit: float) -> Problem:
    """The problem whose solution, times the unit, is that of the given one."""
    if unit == 1.0:
        return problem
    terms: list[Any] = [problem.loss, problem.penalty, problem.spectral]
    return Problem(*(term.in_unit(unit) for term in terms))


def start_in(start: Any, unit: float) -> Any:
    """A first point; of a result also what else it tells, if it has the same unit."""
    if isinstance(start, Result):
        if start.unit != unit:
            start = replace(start, dual=None)  # of the array alone then
        return replace(start, low_rank=_scaled(start.low_rank, 1.0 / unit))
    return start / unit if unit != 1.0 and hasattr(start, "shape") else start


def callback_in(callback: Any, unit: float) -> Callable[[Any], bool | None] | None:
    """The user's callback, for looks at a problem in this unit."""
    if callback is None or unit == 1.0 or not callable(callback):
        return callback  # type: ignore[no-any-return]

    def translated(look: Any) -> bool | None:
        f = unit**2
        V = None if look.V is None else _scaled(look.V, unit)
        values = {name: f * getattr(look, name) for name in VALUES[:3]}
        X = _scaled(look.X, unit) if isinstance(look.X, LowRank) else look.X * unit
        return callback(replace(look, X=X, V=V, **values))  # type: ignore[no-any-return]

    return translated


def result_from(result: Result, unit: float) -> Result:
    """The result in the user's units again, but for what later runs go on from."""
    if unit == 1.0:
        return result
    f, proof = unit**2, result.certificate
    columns = [COLUMNS.index(name) for name in VALUES]
    rows = []
    for row in result.trace.rows:
        seen = list(row)
        for i in columns:
            seen[i] *= f
        rows.append(tuple(seen))
    return replace(
        result,
        low_rank=_scaled(result.low_rank, unit),
        value=f * result.value,
        eps=f * result.eps,
        iterate_value=f * result.iterate_value,
        certificate=replace(
            proof,
            value=f * proof.value,
            lower_bound=f * proof.lower_bound,
            sampling_error=f * proof.sampling_error,
            rounding=f * proof.rounding,
        ),
        trace=Trace(rows),
        unit=unit,
    )


def _scaled(X: LowRank, factor: float) -> LowRank:
    return LowRank(X.U, X.s * factor, X.Vt)
