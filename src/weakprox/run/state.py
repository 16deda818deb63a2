"""The state of a run, and its identity: the call that asked for it, and the data.

A `State` is frozen. Whatever moves a run on returns a new one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

import numpy as np

from weakprox.certificates.evidence import Evidence
from weakprox.linalg.arena import Arena
from weakprox.linalg.arrays import Array, gaussian, to_numpy, zeros
from weakprox.linalg.kernels import dense
from weakprox.linalg.lowrank import LowRank
from weakprox.metering import Budget, Meter, MeteredLoss, MeteredSpectral
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.result import Look, Trace
from weakprox.solvers.base import Method
from weakprox.solvers.tools import Tools
from weakprox.storage.layout import is_torch

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in names of functions and of unnamed objects
READ = 1 << 28  # bytes up to which an array is read whole; of larger ones some rows are
ROWS = 64  # blocks of rows then


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
        return cls(named(problem), named(solver), start=told, **asked)

    def unlike(self, other: Call, *, besides: tuple[str, ...] = ()) -> list[str]:
        """Return the names of the arguments that differ."""
        names = [field.name for field in fields(self) if field.name not in besides]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


@dataclass(frozen=True)
class Settings:
    """How to run, as the user asked for it.

    Attributes
    ----------
    eps, tol : float
        Absolute accuracy, or relative accuracy (0 for none).
    reason : str
        Why this solver was chosen.
    scale_samples : int
        Samples drawn to find the size of f that `tol` is relative to.
    call : Call, optional
        The user's call, if it differs from what these settings say.
    proof : bool, optional
        Whether to keep what a proof needs; None: if it is small.
    estimated : bool
        Whether to accept the method's own estimate of its gap without a proof. The
        certificate of the result is then that estimate.
    started : float, optional
        Time (`time.perf_counter`) from which `max_seconds` counts; None: from now.
    """

    eps: float
    tol: float
    seed: int
    budget: Budget
    callback: Callable[[Look], bool | None] | None = None
    progress: bool | Literal["auto"] = False
    look_every: int | None = None
    stop_when_certified: bool = True
    evaluation_samples: int = 2
    reason: str = ""
    scale_samples: int = 0
    call: Call | None = None
    proof: bool | None = None
    estimated: bool = False
    started: float | None = None


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


@dataclass(frozen=True)
class Origin:
    """What was worked out when a run began; a resumed run does not repeat it."""

    solver: Method  # that began
    reason: str  # for choosing it
    eps: float  # as given, or what tol came to
    scale_samples: int
    stream: int | None = None  # position of a stream of samples


@dataclass(frozen=True)
class Fixed:
    """What stays the same during a run."""

    settings: Settings
    origin: Origin
    meter: Meter
    trace: Trace
    reference: Array  # an array like the answer
    sampled: bool
    proves: bool  # whether proofs are tried while the method runs


@dataclass(frozen=True)
class State:
    """A run between two inner steps.

    Attributes
    ----------
    fixed : Fixed
        What does not change.
    problem, batch
        The problem as the solver sees it, and all its terms or the evaluation samples.
    solver, memory
        The method, and its own state; None before the first step.
    tools : Tools
        Oracles of the problem; `tools.eps` and `tools.tol` are the accuracy to aim at.
    first : Array, optional
        The user's first point.
    restated : float, optional
        Strong convexity of G, if gradients contradicted the declared one.
    tracker : Tracker
        Best value and best bound so far.
    latest : Candidate, optional
        The last candidate, if the iterate in it is whole.
    evidence : Evidence, optional
        What the bound rests on, if it was kept.
    value : float
        f at the last look.
    """

    fixed: Fixed
    problem: Problem
    solver: Method
    tools: Tools
    batch: Any = None
    memory: Any = None
    first: Array | None = None
    restated: float | None = None
    tracker: Tracker = field(default_factory=Tracker)
    latest: Candidate | None = None
    evidence: Evidence | None = None
    value: float = math.inf

    def on(self, problem: Problem, eps: float | None = None, tol: float | None = None) -> State:
        """Return the state with oracles of another problem, and perhaps another aim."""
        meter, tools = self.fixed.meter, self.tools
        tools = replace(
            tools,
            problem=problem,
            loss=MeteredLoss(problem.loss, meter),
            spectral=MeteredSpectral(problem.spectral, meter),
            eps=tools.eps if eps is None else eps,
            tol=tools.tol if tol is None else tol,
        )
        return replace(self, problem=problem, tools=tools)

    def restated_to(self, strong_convexity: float) -> State:
        """Return the state with another strong convexity of G than the loss declares."""
        problem = self.problem.restated(strong_convexity)
        return replace(self.on(problem), restated=strong_convexity)


@dataclass(frozen=True, eq=False)
class Data:
    """f at a fixed matrix of rank one, and a digest of the data where one was wanted."""

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
    arrays: tuple[Any, ...] = getattr(problem.loss, "data", tuple)() if read else ()
    return Data(problem.smooth_value(X, batch), digest(*arrays) if read else "")


def stream_of(loss: Any) -> Any:
    """Return the loss's source of samples if it has a position to return to, else None."""
    source = getattr(loss, "sampler", None) or getattr(loss, "_sampler", None)
    return source if hasattr(source, "tell") and hasattr(source, "seek") else None


def settle(loss: Any, *, streamed: bool) -> None:
    """Make a loss compute its constants now, at the same place in every run.

    What it keeps of that may change the bits of its gradients (`Sensing` keeps a Gram
    matrix), and a resumed run does not start its solver. A stream of samples advances by
    the samples that are drawn for them.
    """
    names = ["smoothness", "strong_convexity"] if loss.is_finite_sum or streamed else []
    for name in [*names, *(["term_smoothness"] if streamed else [])]:
        getattr(loss, name)


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
    else:  # not in this process: its name has to do
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
