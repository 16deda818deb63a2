"""Messages about wrong arguments, with the correct call."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any

from weakprox.display import counted
from weakprox.errors import ArgumentError, InputError

# Members that a term must have, and two of each kind that no other kind has.
MEMBERS = {
    "loss": [
        "shape",
        "smoothness",
        "term_smoothness",
        "strong_convexity",
        "reference",
        "is_finite_sum",
        "draw",
        "value",
        "grad",
    ],
    "penalty": [
        "curvature",
        "smoothability",
        "value",
        "pull",
        "dual_value",
        "ascend",
        "rowwise",
        "check",
    ],
    "spectral": ["value", "violation", "weak_prox", "conjugate", "compress", "check"],
}
FINITE = ["n_terms", "everything"]  # members of a loss that is a finite sum
MARKS = {
    "loss": ("draw", "grad"),
    "penalty": ("ascend", "pull"),
    "spectral": ("weak_prox", "compress"),
}
EXAMPLES = {
    "loss": "a loss, such as losses.Denoising(M)",
    "penalty": "a penalty, such as penalties.L1({}), or None",
    "spectral": "a spectral term, such as spectral.NuclearBall({})",
}
THREE_LINES = """a weakprox.Problem:
    ball = wp.spectral.NuclearBall(tau)
    problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(lam), ball)
    result = wp.minimize(problem)
`wp.SparseLowRank().fit(M)` chooses lam and tau itself"""
# What other libraries call some arguments.
SYNONYMS = {
    "alpha": "lam",
    "atol": "eps",
    "init": "start",
    "lambda_": "lam",
    "max_iter": "max_svds",
    "max_time": "max_seconds",
    "method": "solver",
    "n_components": "rank",
    "random_state": "seed",
    "rtol": "tol",
    "seed": "random_state",
    "timeout": "max_seconds",
    "tolerance": "tol",
    "verbose": "progress",
    "warm_start": "start",
    "x0": "start",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like this one; "" if none is."""
    plain = {option.lower(): option for option in known}
    found = get_close_matches(name.lower(), plain, n=1, cutoff=0.6)
    return plain[found[0]] if found else ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ' (did you mean "name"?)' for the nearest of the known names, or nothing."""
    found = nearest(name, known)
    return f' (did you mean "{found}"?)' if found else ""


def is_matrix(value: object) -> bool:
    """Return True for data: an array, a sparse matrix or a frame, with two axes."""
    if isinstance(value, type):
        return False
    shape = getattr(value, "shape", None)
    data = any(hasattr(value, name) for name in ("dtype", "to_numpy", "__array__"))
    return data and isinstance(shape, tuple) and len(shape) == 2 and role_of(value) is None


def role_of(term: object) -> str | None:
    """Return "loss", "penalty" or "spectral", by the members that the term has."""
    known = _members(term)
    return next((role for role, marks in MARKS.items() if known.issuperset(marks)), None)


def shown_kind(value: Any) -> str:
    """Return what a value is, in a few words, without its contents."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if is_matrix(value):
        m, d = value.shape
        return f"a matrix ({type(value).__name__} of {m} x {d})"
    if isinstance(value, (bool, int, float)):
        return f"the number {value!r}"
    return "None" if value is None else type(value).__name__


def check_terms(loss: Any, penalty: Any, spectral: Any) -> None:
    """Raise unless the three are a loss, a penalty or None, and a spectral term."""
    given = {"loss": loss, "penalty": penalty, "spectral": spectral}
    roles = {name: role_of(term) for name, term in given.items()}
    for name, term in given.items():
        if name == "penalty" and term is None:
            continue
        if isinstance(term, type):
            wanted = f"an instance: {term.__name__}(...)"
            raise InputError(name, shown_kind(term), wanted)
        if isinstance(term, (list, tuple)) and term and {*map(role_of, term)} == {"penalty"}:
            wanted = f"their sum: {' + '.join(map(repr, term))}"
            raise InputError(name, f"a {type(term).__name__} of penalties", wanted)
        if roles[name] not in (None, name):
            told = _as_role(type(term).__name__, roles[name])
            raise InputError(name, told, _right_order(given, roles))
        if missing := _missing(name, term):
            raise InputError(name, shown_kind(term), _wanted(name, term, missing))


def needs_problem(given: object) -> InputError:
    """Return the error for a `minimize` or `plan` of something that is not a Problem."""
    role = role_of(given)
    if role is not None:
        wanted = (
            "a weakprox.Problem, which joins all terms: wp.Problem(loss, penalty, spectral)"
        )
        return InputError("problem", _as_role(shown_kind(given), role), wanted)
    if hasattr(given, "certificate"):
        wanted = "the problem; minimize(problem, resume=result) continues its run, and "
        wanted += "minimize(problem, start=result) starts another one from it"
        return InputError("problem", shown_kind(given), wanted)
    return InputError("problem", shown_kind(given), THREE_LINES)


def misfit(
    call: Any,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    options: dict[str, Any],
    hint: str,
) -> ArgumentError | None:
    """Return the error that says how the arguments differ from the signature, if they do."""
    try:
        signature.bind(*args, **options)
    except TypeError as failure:
        reason = str(failure)
    else:
        return None
    name = call.__qualname__.removesuffix(".__init__")
    own = call.__name__ == "__init__"
    known = [p.name for p in signature.parameters.values()][1 if own else 0 :]
    unknown = [option for option in options if option not in known]
    if unknown:
        other = SYNONYMS.get(unknown[0], "")
        found = suggestion(other if other in known else unknown[0], known)
        wanted = f"one of {', '.join(known)}"
        return ArgumentError(name, f"the unknown argument {unknown[0]!r}{found}", wanted)
    places = [
        p.name
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ][1 if own else 0 :]
    more = f", {hint}" if hint else ""
    if "too many" in reason:
        wanted = f"{name}({', '.join(places)}){more}; other arguments by name"
        return ArgumentError(
            name, f"{counted(len(args) - own, 'argument')} by position", wanted
        )
    if reason.startswith("multiple values"):
        twice = reason.removeprefix("multiple values for argument ")
        wanted = f"{name}({', '.join(places)}){more}; each argument once"
        return ArgumentError(name, f"{twice} both by position and by name", wanted)
    absent = reason.removeprefix("missing a required argument: ")
    named = [
        f"{p.name}=..."
        for p in signature.parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.default is p.empty
    ]
    wanted = f"{name}({', '.join(places + named)}){more}"
    return ArgumentError(name, f"no argument {absent}", wanted)


def _missing(name: str, term: Any) -> list[str]:
    """Return the members that a term in this role must have and lacks."""
    known = _members(term)
    missing = [member for member in MEMBERS[name] if member not in known]
    if name == "loss" and not missing and term.is_finite_sum:
        missing = [member for member in FINITE if member not in known]
    return missing


def _members(term: object) -> frozenset[str]:
    """Return the names of all members, looked up without computing properties."""
    kind = term if isinstance(term, type) else type(term)
    return _names(kind) | set(getattr(term, "__dict__", {}))


@cache
def _names(kind: type) -> frozenset[str]:
    """Return the names of the members of a class; listing them takes long."""
    return frozenset(dir(kind))


def _as_role(kind: str, role: str | None) -> str:
    return f"{kind}, a spectral term" if role == "spectral" else f"{kind}, a {role}"


def _right_order(given: dict[str, Any], roles: dict[str, str | None]) -> str:
    """Return the call with the terms in their places, as far as these are known."""
    placed = {role: given[name] for name, role in roles.items() if role is not None}
    shown = [repr(placed[name]) if name in placed else name for name in MEMBERS]
    if "penalty" not in placed and given["penalty"] is None:
        shown[1] = "None"
    return f"the order loss, penalty, spectral: Problem({', '.join(shown)})"


def _wanted(name: str, term: Any, missing: list[str]) -> str:
    if name == "loss" and is_matrix(term):
        return "a loss of it: Problem(losses.Denoising(M), penalty, spectral)"
    if isinstance(term, (int, float)) or term is None:
        return EXAMPLES[name].format("1.0" if term is None else repr(term))
    needed = f", or an object with {', '.join(missing)} (see docs/extend.md)"
    return EXAMPLES[name].format("1.0") + needed
