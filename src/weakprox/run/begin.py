"""Where a run begins: at an earlier state, beside a neighbour's answer, or at a point."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.certificates.split import SplitDual
from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import (
    Array,
    all_finite,
    eps_of,
    is_array,
    is_real,
    namespace,
    norm,
    zeros,
)
from weakprox.linalg.foreign import refuse_foreign
from weakprox.problem import Problem
from weakprox.result import Result
from weakprox.run.checkpoint import Checkpoint
from weakprox.run.identity import Call
from weakprox.run.keeper import Keeper, check_call
from weakprox.solvers.warm import Warmth


def last_state(
    problem: Problem, call: Call, resume: Any, start: Any, keeper: Keeper | None
) -> Checkpoint | None:
    """The state to go on from, of an earlier result or in a file; None to begin."""
    if isinstance(resume, Result):
        if start is not None:
            raise InputError("start", "a matrix, together with resume", "only one of them")
        if resume.low_rank.shape != problem.shape or resume.checkpoint is None:
            raise InputError("resume", "a result of another problem", "one of this problem")
        last: Checkpoint = resume.checkpoint
        check_call(call, last.call, "a result", "start")
    elif resume is not None and not isinstance(resume, bool):
        raise InputError("resume", type(resume).__name__, "a Result of minimize, or True")
    elif resume:
        if keeper is None:
            raise InputError("resume", "True, without a file", "a checkpoint, too")
        return keeper.reopened(problem, call)
    if keeper is not None:
        keeper.refuse_existing()
    return last if isinstance(resume, Result) else None


def warmth(problem: Problem, solver: Any, start: Any) -> Warmth | None:
    """What an earlier result tells this run beyond its answer, if anything."""
    if not isinstance(start, Result) or not hasattr(solver, "warm"):
        return None
    if not isinstance(start.dual, SplitDual) or start.low_rank.shape != problem.shape:
        return None
    kind, wanted = start.low_rank.U, problem.loss.reference
    if namespace(kind) is not namespace(wanted) or kind.dtype != wanted.dtype:
        return None
    return Warmth.of(problem, start.dual).scaled(problem.penalty)


def first_point(problem: Problem, start: Any) -> Array | None:
    """The first point, copied and checked for shape, kind and feasibility."""
    if start is None:
        return None
    if isinstance(start, Result):
        if problem.spectral.violation(start.low_rank) > 0.0:
            return None  # of a larger set: nothing to begin at
        start = start.X
    refuse_foreign("start", start)
    if not is_array(start) or tuple(start.shape) != problem.shape:
        given = getattr(start, "shape", type(start).__name__)
        raise ShapeError("start", given, f"an array of shape {problem.shape}")
    X = zeros(problem.shape, problem.loss.reference)
    if namespace(start) is not namespace(X) or not is_real(start):
        given = f"{type(start).__name__} of {start.dtype}"
        raise InputError("start", given, f"real numbers in a {type(X).__name__}")
    X[:] = start[:]
    if not all_finite(X):
        raise InputError("start", "NaN or infinite entries", "finite numbers")
    factors = problem.spectral.compress(X, min(problem.shape), np.random.default_rng(0))
    # a full-rank factorisation loses nothing but what the set does not allow
    lost = norm(X - factors.dense()) / max(norm(X), np.finfo(float).tiny)
    if lost > 1e-9 + 1e3 * eps_of(X) or not np.isfinite(problem.spectral.value(factors)):
        excess = max(problem.spectral.violation(factors), lost)
        raise InputError("start", f"a point outside the set by {excess:.1e}", "feasible")
    return X
