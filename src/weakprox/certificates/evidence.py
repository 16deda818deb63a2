"""What proofs keep of dual points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import Step
from weakprox.protocols import DualRecord


@dataclass(frozen=True)
class Target(DualRecord):
    """The target z of a step in factors, its constants, and the point X0 next to z."""

    z: Array
    step: Step
    at: LowRank
    C: Array = None  # the data, read from the problem when a proof is made


@dataclass(frozen=True, eq=False)
class OnEntries(DualRecord):
    """A dual point on the observed entries, and an upper bound on the norm of its matrix."""

    q: Array
    norm: float

    @property
    def large(self) -> tuple[Any, ...]:
        return (self.q,)


@dataclass(frozen=True)
class OnCells(DualRecord):
    """A multiple of the dual point of all cells at a point, and its norm's upper bound."""

    length: float
    norm: float


def copied(array: Any) -> Any:
    """Return a copy in an array of the same kind."""
    if hasattr(array, "moves"):  # blocks on workers, recomputed from their moves
        return type(array)(array.source, list(array.moves))
    return array.clone() if hasattr(array, "clone") else array.copy()
