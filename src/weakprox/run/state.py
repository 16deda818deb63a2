"""The state of a run, and its identity: the call that started it, and the data.

A `State` is frozen. Every transition returns a new one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

import numpy as np

from weakprox.certificates.evidence import copied
from weakprox.linalg.arrays import Arena, Array, gaussian, to_numpy, zeros
from weakprox.linalg.lowrank import LowRank, dense
from weakprox.metering import Budget, Meter
from weakprox.problem import Problem
from weakprox.protocols import Candidate, DualPoint, DualRecord
from weakprox.result import Look, Trace
from weakprox.solvers.base import Method, Tools
from weakprox.storage.layout import is_torch

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in names of functions and of unnamed objects
READ = 1 << 28  # bytes up to which an array is read whole; of larger ones some rows are
ROWS = 64  # blocks of rows then
KEPT_BYTES = 1 << 28  # limit on the arrays of the evidence that a result keeps by default


@dataclass(frozen=True)
class Call:
    """The arguments of a call, as text and numbers; `start` is a digest of the first point."""

    problem: str
    solver: str
    automatic: str  # arguments of the automatic choice; "" if the user chose the solver
    eps: float
    tol: float
    seed: int
    evaluation_samples: int
    start: str = ""

    @classmethod
    def of(cls, problem: Any, solver: Any, start: Any = None, **asked: Any) -> Call:
        """Return the call with these arguments."""
        told = "" if start is None else digest(start)
        method = named(solver)
        return cls(named(problem), method, start=told, **asked)

    def unlike(self, other: Call, *, besides: tuple[str, ...] = ()) -> list[str]:
        """Return the names of the arguments that differ."""
        names = [field.name for field in fields(self) if field.name not in besides]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


@dataclass(frozen=True)
class Settings:
    """Settings of a run, as the user gave them."""

    eps: float  # absolute accuracy
    tol: float  # relative accuracy; 0 for none
    seed: int
    budget: Budget
    callback: Callable[[Look], bool | None] | None = None
    progress: bool | Literal["auto"] = False
    look_every: int | None = None
    stop_when_certified: bool = True
    evaluation_samples: int = 2
    reason: str = ""  # for choosing the solver
    scale_samples: int = 0  # drawn to find the size of f that tol is relative to
    unit: float = 1.0  # factor by which the X of the run is multiplied to give the user's X
    call: Call | None = None  # the user's call, if these settings do not determine it
    proof: bool | None = None  # whether to keep what a proof needs; None: if it is small
    estimated: bool = False  # accept the method's own estimate of its gap without a proof


@dataclass(frozen=True)
class Kept:
    """Evidence as a result keeps it: without the problem, whose data it would hold.

    It is not pickled, since without the problem it proves nothing.
    """

    dual: DualPoint | DualRecord
    at: LowRank | Array | None
    lower: float
    single: bool  # whether the run was in float32
    strong_convexity: float  # of G, declared or restated

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(None), ()


@dataclass(frozen=True)
class Evidence:
    """A dual point, and the point at which G is linearised with it."""

    problem: Problem  # in the unit and precision of the run
    # the dual point, or data from which it is computed
    dual: DualPoint | DualRecord
    at: LowRank | Array | None  # where G is linearised; None if the dual point has it
    lower: float  # the lower bound found with it
    moving: bool = True  # whether the solver may overwrite one of its arrays in its next step

    def wanted(self, proof: bool | None) -> bool:
        """Return whether to keep it; None keeps it if it is small."""
        if proof is not None:
            return proof
        whole = 8 * math.prod(self.problem.shape)  # at most three of its arrays are like X
        return 3 * whole <= KEPT_BYTES or self.nbytes <= KEPT_BYTES

    @property
    def nbytes(self) -> int:
        """Bytes of the large arrays in it."""
        held = () if isinstance(self.at, LowRank) else (self.at,)
        return sum(_bytes(array) for array in (*held, *self._record.large))

    @property
    def cheap(self) -> bool:
        """True if a copy costs little compared with the decomposition of the bound."""
        return self._record.cheap

    @property
    def _record(self) -> DualRecord:
        return self.dual if isinstance(self.dual, DualRecord) else DualRecord()

    def detached(self, *, copy: bool) -> Evidence:
        """Return the evidence in arrays that nothing overwrites."""
        found, at = self._record.detached(copy=copy), self.at
        if found is not None:
            return replace(self, dual=found[0], at=found[1], moving=False)
        whole = at is not None and not isinstance(at, LowRank)
        return replace(self, at=copied(at) if copy and whole else at, moving=False)


@dataclass(frozen=True)
class Tracker:
    """The best point, the best bound, and the schedule of looks and proofs."""

    best: LowRank | None = None
    best_value: float = math.inf
    size: float = 0.0  # |X|^2 of an iterate that is the answer; of a low-rank point see `best`
    lower: float = -math.inf
    rests_on: str = "exact"
    steps: int = 0
    next_look: int = 1
    next_proof: int = 1
    prove_below: float = math.inf  # estimates above this have failed to be proved
    attempts: int = 0  # proofs tried because of an estimate
    powers: int = 0  # of the candidate of the last of them


@dataclass(frozen=True)
class Origin:
    """The quantities determined at the start of a run, which a resumed run does not repeat."""

    solver: Method  # that began
    reason: str  # for choosing it
    eps: float  # as given, or computed from tol
    scale_samples: int
    stream: int | None = None  # position of a stream of samples
    compiled: bool | None = None  # whether passes are compiled; None if there are few entries


@dataclass(frozen=True)
class Fixed:
    """The parts of a run that do not change."""

    settings: Settings
    origin: Origin
    meter: Meter
    trace: Trace
    reference: Array  # an array like the answer
    sampled: bool
    proves: bool  # whether proofs are tried while the method runs


@dataclass(frozen=True)
class State:
    """A run between two inner steps; `tools.eps` and `tools.tol` are the accuracy to reach."""

    fixed: Fixed
    problem: Problem  # as the solver sees it: perhaps gathered, in float64 or restated
    solver: Method
    tools: Tools  # oracles of the problem
    batch: Any = None  # all terms, or the evaluation samples
    memory: Any = None  # the solver's state; None before the first step
    first: Array | LowRank | None = None  # the user's first point
    restated: float | None = None  # strong convexity, if the declared one was contradicted
    tracker: Tracker = field(default_factory=Tracker)
    latest: Candidate | None = None  # the last one, if the iterate in it is complete
    evidence: Evidence | None = None  # of the best bound, if it was kept
    value: float = math.inf  # f at the last look

    def on(self, problem: Problem, **changes: Any) -> State:
        """Return the state with oracles of another problem, and these changes of `tools`."""
        tools = replace(self.tools, problem=problem, **changes)
        return replace(self, problem=problem, tools=tools)


@dataclass(frozen=True, eq=False)
class Data:
    """f at a fixed matrix of rank one, and a digest of the data if requested."""

    value: float
    digest: str = ""

    def __eq__(self, other: object) -> bool:
        """Return True if both describe the same data; values may differ by rounding."""
        if not isinstance(other, Data):
            return NotImplemented
        near = math.isclose(self.value, other.value, rel_tol=1e-9)
        known = self.digest and other.digest
        return near and (not known or self.digest == other.digest)


def data_of(problem: Problem, batch: Any, arena: Arena, *, read: bool) -> Data:
    """Return what identifies the data of a problem; `read` adds a digest, which takes time."""
    rng = np.random.default_rng(11)
    u = gaussian(rng, (problem.shape[0], 1), problem.loss.reference)
    v = gaussian(rng, (1, problem.shape[1]), problem.loss.reference)
    X: Array | LowRank = LowRank(u, zeros((1,), u) + 1.0, v)
    if not problem.by_passes:
        X = dense(X, arena.like(u, problem.shape))
    listed = problem.of_loss.data if read else None
    arrays: tuple[Any, ...] = () if listed is None else listed()
    return Data(problem.smooth_value(X, batch), digest(*arrays) if read else "")


def named(thing: Any) -> str:
    """Return the object's text without addresses, which differ between processes."""
    return ADDRESS.sub("", repr(thing))


def digest(*things: Any) -> str:
    """Return a digest of arrays, also within tuples, results and dataclasses."""
    found = hashlib.blake2b(digest_size=16)
    for thing in things:
        _feed(found, thing)
    return found.hexdigest()


def _feed(found: Any, thing: Any) -> None:
    if isinstance(thing, np.ndarray) or is_torch(thing):
        found.update(f"{tuple(thing.shape)} {thing.dtype}".encode())
        for part in _parts(thing):
            found.update(np.ascontiguousarray(to_numpy(part)).reshape(-1).view(np.uint8).data)
    elif isinstance(thing, (tuple, list)):
        for one in thing:
            _feed(found, one)
    elif hasattr(thing, "indptr") and hasattr(thing, "indices"):  # SciPy's sparse matrices
        _feed(found, (thing.data, thing.indices, thing.indptr))
    elif is_dataclass(thing) and not isinstance(thing, type):
        _feed(found, [getattr(thing, field.name) for field in fields(thing)])
    else:  # not in this process: use its name
        found.update(named(thing)[:1000].encode())


def _parts(array: Any) -> Any:
    """Return the array in blocks; of a very large one, evenly spaced blocks."""
    if array.ndim == 0:
        return [array[None]]
    rows = int(array.shape[0])
    size = math.prod(array.shape) * int(array.dtype.itemsize)
    step = max(1, (READ // ROWS) * rows // max(1, size))
    starts: Any = range(0, rows, step)
    if size > READ:
        starts = [i * (rows - 1) // (ROWS - 1) for i in range(ROWS)]
    return (array[first : first + step] for first in starts)


def _bytes(array: Any) -> int:
    if isinstance(array, (tuple, list)):
        return sum(_bytes(part) for part in array)
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        return 0
    return math.prod(map(int, array.shape)) * int(array.dtype.itemsize)
