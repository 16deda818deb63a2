"""Everything needed to go on from an outer step's end as if nothing had happened."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from weakprox.linalg.arrays import Array, is_array, namespace
from weakprox.linalg.lowrank import LowRank
from weakprox.problem import Problem
from weakprox.protocols import Solver
from weakprox.result import COLUMNS, Counts, Trace
from weakprox.run.identity import Call, Data
from weakprox.run.look import Seen
from weakprox.run.stored import STORED
from weakprox.storage.checkpoint import WHOLE, DamagedError, Stored, save
from weakprox.storage.tree import Codec, fits, hints_of


@dataclass(frozen=True)
class Origin:
    """What was worked out once, when the run began, and is not to be worked out anew."""

    solver: Solver  # that began
    reason: str
    eps: float  # as given, or what tol came to
    scale_samples: int
    stream: int | None = None  # where a stream of samples stood


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run between two outer steps, and which run it is."""

    memory: Any  # the solver's own
    seen: Seen
    counts: Counts
    trace: Trace
    call: Call
    origin: Origin
    data: Data | None = None  # None: not looked at yet
    restated: float | None = None  # strong convexity, where the declared one was wrong
    solver: Solver | None = None  # that goes on, where the first one gave up
    first: Array | None = None  # point of the user's to begin at
    stream: int | None = None  # where a stream of samples stands


NAMES = tuple(field.name for field in fields(Checkpoint))


def codec_for(problem: Problem, solver: Solver | None) -> Codec:
    """What checkpoints of a run may hold; a solver of the user's own names its classes."""
    given: dict[str, object] = {"penalty": problem.penalty}
    if solver is not None:
        given["solver"] = solver
    if problem.elsewhere:  # a matrix on workers, beside which z lives
        given["centre"] = problem.loss.target  # type: ignore[attr-defined]
    own = (Seen, Counts, Call, Data, Origin)
    return Codec.of((*STORED, *own, *getattr(solver, "stores", ())), given)


def write(path: Path, state: Checkpoint, codec: Codec, *, keep: bool) -> None:
    """Replace the file by one of this state."""
    entries = {name: getattr(state, name) for name in NAMES}
    entries["trace"] = np.array(state.trace.rows, dtype=float).reshape(-1, len(COLUMNS))
    save(path, entries, codec, writer=version(), keep=keep)


def version() -> str:
    """That of this weakprox, whose package stands above us and is not imported here."""
    return str(sys.modules["weakprox"].__version__)


def call_in(stored: Stored, codec: Codec) -> Call:
    """Which call a file is a part of."""
    (found,) = stored.decode(codec, "call")
    if not isinstance(found, Call):
        raise DamagedError(stored.path, "no call", WHOLE)
    return found


def state_in(stored: Stored, codec: Codec, problem: Problem) -> Checkpoint:
    """The state in a file, checked as far as it can be before it is used."""
    values = dict(zip(NAMES, stored.decode(codec, *NAMES), strict=True))
    rows = values["trace"]
    if not isinstance(rows, np.ndarray) or rows.shape[1:] != (len(COLUMNS),):
        raise DamagedError(stored.path, "no trace", WHOLE)
    values["trace"] = Trace([tuple(row) for row in rows.astype(float).tolist()])
    hints = hints_of(Checkpoint)
    wrong = [name for name in NAMES if not fits(values[name], hints[name])]
    state = Checkpoint(**values)
    wrong = wrong or _unfit(state, problem)
    if wrong:
        raise DamagedError(stored.path, f"a {wrong[0]} of another kind", WHOLE)
    return state


def _unfit(state: Checkpoint, problem: Problem) -> list[str]:
    """Names of parts that are not what this problem and solver have."""
    going = state.solver or state.origin.solver
    if not hasattr(going, "step") or not hasattr(state.origin.solver, "step"):
        return ["solver"]
    try:
        kind = get_type_hints(type(going).step).get("memory", Any)
    except (NameError, TypeError, AttributeError):  # not annotated in a way we can read
        kind = Any
    if not fits(state.memory, kind):
        return ["memory"]
    memory = state.memory
    parts = {"first": state.first, "best point": state.seen.best}
    parts |= {name: getattr(memory, name, None) for name in ("X", "V", "z")}
    return [name for name, part in parts.items() if not _like_X(part, problem)]


def _like_X(part: Any, problem: Problem) -> bool:
    """Whether it is missing, or a matrix of the shape and kind of X."""
    if part is None:
        return True
    if isinstance(part, LowRank):
        size = [tuple(array.shape) for array in (part.U, part.s, part.Vt)]
        (m, d), r = problem.shape, int(part.s.shape[0]) if part.s.ndim == 1 else -1
        return size == [(m, r), (r,), (r, d)] and _alike(part.U, problem)
    return is_array(part) and tuple(part.shape) == problem.shape and _alike(part, problem)


def _alike(array: Any, problem: Problem) -> bool:
    reference = problem.loss.reference
    same = namespace(array) is namespace(reference)
    return same and bool(namespace(array).isdtype(array.dtype, "real floating"))
