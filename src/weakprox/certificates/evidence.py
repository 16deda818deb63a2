"""What a run and a proof ask of dual points, and what a proof keeps of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import Step


class DualRecord:
    """Base of the dual points of the library; the defaults are right for those of a user."""

    cheap: ClassVar[bool] = True  # a copy costs little beside the decomposition of the bound

    @property
    def large(self) -> tuple[Any, ...]:
        """The large arrays in it."""
        return ()

    @property
    def warm(self) -> Any:
        """The `SplitDual` from which a neighbouring problem can start, if there is one."""
        return None

    def smooth_at(self, X: LowRank) -> tuple[float, float] | None:
        """G + R at X and its rounding error, if the dual point was computed from this X."""
        return None

    def detached(self, *, copy: bool) -> tuple[DualRecord, LowRank] | None:
        """Return a dual point for a proof and its point, in arrays that nothing overwrites.

        None if the dual point itself is in such arrays. With `copy` all large arrays are
        copied, otherwise only those of an engine, which later runs reuse.
        """
        return None


@dataclass(frozen=True)
class Bound:
    """A lower bound on min f, what it rests on, and the dual point that proves it."""

    lower: float
    rests_on: str
    dual: Any
    at: LowRank | Array | None = None  # where G is linearised; None if the dual point has it


class OwnBound(DualRecord, ABC):
    """A dual point that computes its own bound, of its own problem."""

    @abstractmethod
    def proof(self, rng: np.random.Generator) -> Bound:
        """Return the bound."""


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
