"""Which run a checkpoint is a part of: the call, and the data behind it."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from weakprox.linalg.arena import Arena
from weakprox.linalg.arrays import Array, gaussian, to_numpy, zeros
from weakprox.linalg.kernels import dense
from weakprox.linalg.lowrank import LowRank
from weakprox.problem import Problem
from weakprox.storage.layout import is_torch

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in names of functions and of unnamed objects
READ = 1 << 28  # bytes of an array that are read whole; of larger ones some rows are
ROWS = 64  # blocks of rows then


@dataclass(frozen=True)
class Call:
    """What was asked for, in words and numbers; `start` is a digest of the first point."""

    problem: str
    solver: str
    automatic: str  # what the automatic choice was asked for; "" if the solver was named
    eps: float
    tol: float
    seed: int
    evaluation_samples: int
    start: str = ""

    @classmethod
    def of(cls, problem: Any, solver: Any, start: Any = None, **asked: Any) -> Call:
        """The call with these arguments."""
        told = "" if start is None else digest(start)
        return cls(named(problem), named(solver), start=told, **asked)

    def unlike(self, other: Call, *, besides: tuple[str, ...] = ()) -> list[str]:
        """Names of what differs."""
        names = [field.name for field in fields(self) if field.name not in besides]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


@dataclass(frozen=True, eq=False)
class Data:
    """F at a fixed matrix of rank one, and a digest of the data where one was wanted."""

    value: float
    digest: str = ""

    def __eq__(self, other: object) -> bool:
        """Whether both are of the same data; values differ by rounding between machines."""
        if not isinstance(other, Data):
            return NotImplemented
        near = math.isclose(self.value, other.value, rel_tol=1e-9)
        known = self.digest and other.digest
        return near and (not known or self.digest == other.digest)


def data_of(problem: Problem, batch: Any, arena: Arena, *, read: bool) -> Data:
    """What tells the data behind a problem from others; to read them takes some time."""
    rng = np.random.default_rng(11)
    u = gaussian(rng, (problem.shape[0], 1), problem.loss.reference)
    v = gaussian(rng, (1, problem.shape[1]), problem.loss.reference)
    X: Array | LowRank = LowRank(u, zeros((1,), u) + 1.0, v)
    if not problem.by_passes:
        X = dense(X, arena.like(u, problem.shape))
    arrays: tuple[Any, ...] = getattr(problem.loss, "data", tuple)() if read else ()
    return Data(problem.smooth_value(X, batch), digest(*arrays) if read else "")


def stream_of(loss: Any) -> Any:
    """The loss's source of samples, if it has a position that can be gone back to."""
    source = getattr(loss, "sampler", None) or getattr(loss, "_sampler", None)
    return source if hasattr(source, "tell") and hasattr(source, "seek") else None


def settle(loss: Any, *, streamed: bool) -> None:
    """Have a loss work out its constants now, in every run at the same place.

    What it keeps of that may change the bits of its gradients (`Sensing` keeps a Gram
    matrix), and a resumed run does not start its solver. A stream of samples moves on by
    those that are drawn for them.
    """
    names = ["smoothness", "strong_convexity"] if loss.is_finite_sum or streamed else []
    for name in [*names, *(["term_smoothness"] if streamed else [])]:
        getattr(loss, name)


def named(thing: Any) -> str:
    """Its text, without addresses that are others in every process."""
    return ADDRESS.sub("", repr(thing))


def digest(*things: Any) -> str:
    """A short text that tells arrays apart, also within tuples, results and dataclasses."""
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
    else:  # too far away to be read here: what it is called will do
        found.update(named(thing)[:1000].encode())


def _parts(array: Any) -> Any:
    """The array in blocks; of one that is very large, evenly spread ones."""
    if array.ndim == 0:
        return [array[None]]
    rows = int(array.shape[0])
    size = math.prod(array.shape) * int(array.dtype.itemsize)
    step = max(1, (READ // ROWS) * rows // max(1, size))
    starts = range(0, rows, step)
    if size > READ:
        starts = [i * (rows - 1) // (ROWS - 1) for i in range(ROWS)]  # type: ignore[assignment]
    return (array[first : first + step] for first in starts)
