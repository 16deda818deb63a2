"""Checkpoints: the state of a run between two outer steps, and the file that keeps it."""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import numpy as np

from weakprox import solvers
from weakprox.arguments import number
from weakprox.certificates.factored import FactoredDual
from weakprox.certificates.split import FixedDual, SplitDual
from weakprox.distributed.blocked import Target
from weakprox.distributed.work import Move
from weakprox.errors import CheckpointWarning, InputError
from weakprox.linalg.arrays import Array, eps_of, is_array, namespace
from weakprox.linalg.lowrank import LowRank, Projection
from weakprox.linalg.whole import Whole
from weakprox.losses.measurements import DenseMeasurements
from weakprox.losses.moments import Moments
from weakprox.penalties.base import Smoothed
from weakprox.problem import Problem
from weakprox.result import COLUMNS, Counts, Result, Trace
from weakprox.run.slopes import Series
from weakprox.run.state import Call, Data, Origin, Tracker
from weakprox.solvers.base import Method
from weakprox.storage.atomic import checked_target
from weakprox.storage.checkpoint import WHOLE, DamagedError, Stored, load, previous, save
from weakprox.storage.table import FileError
from weakprox.storage.tree import Codec, fits, hints_of

EVERY = 60.0  # seconds between writes by default
STEEPEST = -1  # the last stage, to which files without a stage belong
NEAR, ROUNDED = 1e-9, 1e3  # relative difference of values of one point, in units of rounding
# Classes behind annotations that name none: dual points, samples, blocks on workers.
UNNAMED = (
    *(FactoredDual, FixedDual, SplitDual, Smoothed),
    *(DenseMeasurements, Moments, Move, Projection, Target, Whole),
)


def memory_of(solver: Any) -> Any:
    """Return the class of a solver's memory, by the annotation of `step`; Any if unknown."""
    try:
        return get_type_hints(solver.step).get("memory", Any)
    except (NameError, TypeError, AttributeError):  # annotations that cannot be read
        return Any


@cache
def stored_classes() -> frozenset[type]:
    """Return the classes that checkpoints of the library's solvers consist of.

    Those are the solvers, which may have been chosen for the user, their memories, and by
    the annotations of their fields all that these hold. A checkpoint holds no others.
    """
    found: set[type] = set()
    every = [getattr(solvers, name) for name in solvers.__all__]
    every = [one for one in every if issubclass(one, Method)]
    left: list[Any] = [*every, *map(memory_of, every), *UNNAMED]
    left += [Tracker, Counts, Call, Data, Origin]
    while left:
        kind = left.pop()
        left += get_args(kind)
        if not isinstance(kind, type) or kind in found:
            continue
        if is_dataclass(kind) or hasattr(kind, "_fields"):
            found.add(kind)
            left += hints_of(kind).values()
    return frozenset(found)


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run between two outer steps, and which run it is."""

    memory: Any  # the solver's own
    tracker: Tracker
    counts: Counts
    trace: Trace
    call: Call
    origin: Origin
    data: Data | None = None  # None: not computed yet
    restated: float | None = None  # strong convexity, if the declared one was wrong
    solver: Method | None = None  # that runs now, if a fallback took over
    first: Array | LowRank | None = None  # the user's first point
    stream: int | None = None  # position of a stream of samples
    stage: int = 0  # of a series of runs with slopes in place of constraints, or `STEEPEST`


NAMES = tuple(field.name for field in fields(Checkpoint))


def last_state(
    problem: Problem,
    call: Call,
    resume: Any,
    start: Any,
    keeper: Keeper | None,
    *besides: str,
    series: Series | None = None,
) -> Checkpoint | None:
    """Return the state to resume, of an earlier result or in a file; None to begin.

    Arguments of the call named in `besides` may differ.
    """
    last = resume.checkpoint if isinstance(resume, Result) else None
    if isinstance(resume, Result):
        if start is not None:
            raise InputError("start", "a matrix, together with resume", "only one of them")
        if resume.low_rank.shape != problem.shape or last is None:
            raise InputError("resume", "a result of another problem", "one of this problem")
        _check_call(call, last.call, "a result", "start", *besides)
        problem = _staged(problem, last, series)
        if last.data is None and not _is_answer_of(resume, problem):
            raise other_data()
    elif resume is not None and not isinstance(resume, bool):
        wanted = "a Result of minimize, or True; a file is given by checkpoint=path"
        raise InputError("resume", type(resume).__name__, wanted)
    elif resume:
        if keeper is None:
            raise InputError("resume", "True, without a file", "a checkpoint, too")
        last = keeper.reopened(problem, call, *besides)
        if last is not None:
            _staged(problem, last, series)
        return last
    if keeper is not None:
        keeper.refuse_existing()
    return last


def _staged(problem: Problem, last: Checkpoint, series: Series | None) -> Problem:
    """Return the problem of this state; raise if there is none, since the data are others."""
    if series is None:
        return problem
    if not STEEPEST <= last.stage < len(series.stages):
        raise other_data()
    return series.problem(last.stage)


def other_data() -> InputError:
    """Return the error of a run that is resumed with other data."""
    return InputError("resume", "a run of another problem: other data", "the same")


def _is_answer_of(result: Result, problem: Problem) -> bool:
    """Return True if f at the answer equals the result's value.

    A run that was proved before its first epoch ended has no other record of its data, since
    reading all of them would have taken a share of its time.
    """
    X, unit = result.low_rank, result.unit
    value = unit**2 * problem.value(LowRank(X.U, X.s / unit, X.Vt), problem.loss.everything())
    near = max(NEAR, ROUNDED * eps_of(problem.loss.reference))
    # if the answer fits all data, its value consists of rounding errors
    least = 0.5 * near**2 * problem.loss.smoothness * X.sqnorm
    return math.isclose(value, result.value, rel_tol=near, abs_tol=least)


class Keeper:
    """Writes the latest state to a file at intervals, and the last one at the end.

    A run does not fail because a state cannot be written: it warns, leaves the file as it
    is, and tries the next state. Only a state that can never be written, such as one with
    samples of an unknown kind, is an error, when the first state is written.

    A solver that was chosen automatically is stored too: the choice depends on the memory
    that is free, and may differ next time.
    """

    def __init__(
        self,
        path: Any,
        every: Any,
        problem: Problem,
        solver: Method,
        series: Series | None = None,
        *,
        automatic: bool,
    ) -> None:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise InputError("checkpoint", repr(path), "the name of a file")
        wanted = "seconds between writes, a number >= 0"
        self.every = EVERY if every is None else number("checkpoint_every", every, wanted)
        if self.every < 0.0:
            raise InputError("checkpoint_every", repr(every), wanted)
        self.path: Path = checked_target(path)
        self._whole = False  # whether to keep the file at `path`
        self._latest: Checkpoint | None = None
        self._tried = False
        self._written = -float("inf")
        more = {} if series is None else series.penalties()
        self._reads = codec_for(problem, solver, more)
        self._writes = codec_for(problem, None if automatic else solver, more)

    def refuse_existing(self) -> None:
        """Raise if the file exists, so that an earlier run is not overwritten."""
        if self.path.exists():
            wanted = "to resume from it, or another name"
            raise FileError(self.path, "a file that already exists", wanted)

    def reopened(self, problem: Problem, call: Call, *besides: str) -> Checkpoint | None:
        """Return the state in the file; None if there is no file yet.

        Raises `InputError` if the file is of another call, or cannot be read.
        """
        stored = self._stored()
        if stored is None:
            return None
        earlier, what = call_in(stored, self._reads), f"{self.path.name}, a checkpoint"
        _check_call(call, earlier, what, *besides)
        state = state_in(stored, self._reads, problem)
        self._tried = True  # such states can be written
        if stored.writer != version():
            _warn(
                f"{stored.path} was written by weakprox {stored.writer}, this is {version()}: "
                "the run continues, perhaps not to the same bits."
            )
        return state

    def _stored(self) -> Stored | None:
        if not self.path.exists():
            return None
        try:
            found = load(self.path)
        except DamagedError as bad:
            old = previous(self.path)
            if not old.is_file():
                raise
            try:
                found = load(old)
            except FileError as worse:
                given = f"{bad.given}, and {old.name} with {worse.given}"
                raise DamagedError(self.path, given, bad.wanted) from None
            _warn(f"{bad} The run continues from the checkpoint before, {old.name}.")
            return found
        self._whole = True
        return found

    def offer(self, state: Checkpoint) -> None:
        """Take a state, and write it if one is due."""
        self._latest = state
        if time.monotonic() - self._written >= self.every:
            self.flush()

    def flush(self) -> None:
        """Write the latest state, unless it is written already."""
        state, self._latest = self._latest, None
        if state is None:
            return
        try:
            entries = {name: getattr(state, name) for name in NAMES}
            rows = np.array(state.trace.rows, dtype=float).reshape(-1, len(COLUMNS))
            entries["trace"] = rows
            save(self.path, entries, self._writes, writer=version(), keep=self._whole)
            self._whole = True
        except (OSError, InputError) as problem:
            if isinstance(problem, InputError) and not self._tried:
                raise
            why = str(problem).rstrip(".")
            _warn(f"No checkpoint was written to {self.path}: {why}. The run continues.")
        self._tried = True
        self._written = time.monotonic()


def codec_for(
    problem: Problem, solver: Method | None, more: Mapping[str, object] = MappingProxyType({})
) -> Codec:
    """Return the classes that checkpoints of a run may hold, with the solver's `stores`.

    They may refer to the terms of the problem and to `more` objects by name.
    """
    given: dict[str, object] = {"penalty": problem.penalty, **more}
    if solver is not None:
        given["solver"] = solver
    if problem.observed is not None:  # of vectors in blocks
        given["pattern"] = problem.observed.pattern
    elif problem.elsewhere:  # a matrix on workers, which also store z
        given["centre"] = problem.of_loss.target
    own = () if solver is None else solver.stores
    return Codec.of((*stored_classes(), *own, *problem.of_loss.stores), given)


def version() -> str:
    """Return the version of weakprox; the package is above this module in the layers."""
    return str(sys.modules["weakprox"].__version__)


def call_in(stored: Stored, codec: Codec) -> Call:
    """Return the call that a file belongs to."""
    (found,) = stored.decode(codec, "call")
    if not isinstance(found, Call):
        raise DamagedError(stored.path, "no call", WHOLE)
    return found


def state_in(stored: Stored, codec: Codec, problem: Problem) -> Checkpoint:
    """Return the state in a file, checked as far as possible before it is used."""
    names = [name for name in NAMES if name != "stage" or name in stored]
    values = {"stage": STEEPEST} | dict(zip(names, stored.decode(codec, *names), strict=True))
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
    """Return the names of parts that do not suit this problem and solver."""
    going = state.solver or state.origin.solver
    if not isinstance(going, Method) or not isinstance(state.origin.solver, Method):
        return ["solver"]
    if not fits(state.memory, memory_of(type(going))):
        return ["memory"]
    memory = state.memory
    parts = {"first": state.first, "best point": state.tracker.best}
    parts |= {name: getattr(memory, name) for name in going.matrices}
    return [name for name, part in parts.items() if not _like_X(part, problem)]


def _like_X(part: Any, problem: Problem) -> bool:
    """Return True if it is missing, or a matrix of the shape and kind of X."""
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


def _check_call(call: Call, earlier: Call, what: str, *besides: str) -> None:
    """Raise unless an earlier call had the same arguments."""
    if call.automatic and call.automatic == earlier.automatic:
        call = replace(call, solver=earlier.solver)  # whichever was chosen then
    names = earlier.unlike(call, besides=("automatic", *besides))
    if names:
        words = {"solver": "solver or setting of it"}  # such as rank
        told = ", ".join(words.get(name, name.replace("_", " ")) for name in names)
        given = f"{what} of another {told}"
        raise InputError("resume", given, "the same call")


def _warn(message: str) -> None:
    warnings.warn(message, CheckpointWarning, stacklevel=2)
