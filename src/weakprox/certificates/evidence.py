"""The evidence of a lower bound, stored so that a proof can be written later."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from weakprox.certificates.factored import FactoredDual
from weakprox.certificates.split import FixedDual, SplitDual
from weakprox.certificates.thresholded import ThresholdedDual
from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.tiled import Tiled
from weakprox.passes import Step
from weakprox.problem import Problem
from weakprox.protocols import DualPoint
from weakprox.resources.memory import budget

KEPT_BYTES = 1 << 28  # limit on the arrays that a result keeps by default


@dataclass(frozen=True)
class Target:
    """The target z of a step in factors: data C, constants, and the point X0 next to z."""

    C: Array
    z: Array
    step: Step
    at: LowRank


@dataclass(frozen=True)
class Evidence:
    """A dual point, and the point at which G is linearised with it."""

    problem: Problem  # in the unit and precision of the run
    dual: DualPoint | Target  # the dual point, or the data from which it is computed
    at: LowRank | Array | None  # where G is linearised; None if the dual point has it
    lower: float  # the lower bound found with it
    moving: bool = True  # whether the solver may overwrite one of its arrays in its next step

    def wanted(self, proof: bool | None) -> bool:
        """Return whether to keep it; None keeps it if it is small and memory is not limited."""
        if proof is None:
            return budget() is None and self.nbytes <= KEPT_BYTES
        return proof

    @property
    def cheap(self) -> bool:
        """Whether a copy costs little compared with the decomposition of the bound."""
        return not isinstance(self.dual, FactoredDual)

    @property
    def nbytes(self) -> int:
        """Bytes of the large arrays in it."""
        dual, at = self.dual, self.at
        held: list[Any] = [None if isinstance(at, LowRank) else at]
        if isinstance(dual, FactoredDual):
            held.append(dual.engine.z)
        elif isinstance(dual, SplitDual):
            held += [dual.A, dual.y]
        elif isinstance(dual, FixedDual):
            held.append(dual.y)
        return sum(_bytes(array) for array in held)

    def detached(self, *, copy: bool) -> Evidence:
        """Return the evidence in arrays that nothing overwrites.

        With `copy` all large arrays are copied, otherwise only those of an engine, which
        later runs reuse.
        """
        dual, at = self.dual, self.at
        if isinstance(dual, ThresholdedDual):  # the point says it all: there is no penalty
            return replace(
                self, dual=FixedDual(self.problem.penalty, None), at=dual.point, moving=False
            )
        if isinstance(dual, FactoredDual):
            engine, exact = dual.engine, dual.engine.own(dual.exact)
            z = engine.z if isinstance(engine.C, Tiled) else engine.kept()
            if copy and z is engine.z:
                z = _copied(z)
            at = LowRank(exact.U, dual.values, exact.V.T)
            C = centre_of(self.problem)
            return replace(self, dual=Target(C, z, dual.k, at), at=at, moving=False)
        if copy and at is not None and not isinstance(at, LowRank):
            at = _copied(at)
        return replace(self, at=at, moving=False)


def centre_of(problem: Problem) -> Array:
    """Return the centre of the loss; an engine may hold a copy of it."""
    return problem.centre()


def _bytes(array: Any) -> int:
    if isinstance(array, (tuple, list)):
        return sum(_bytes(part) for part in array)
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        return 0
    return math.prod(map(int, array.shape)) * int(array.dtype.itemsize)


def _copied(array: Any) -> Any:
    """Return a copy in an array of the same kind."""
    if hasattr(array, "moves"):  # blocks on workers, recomputed from their moves
        return type(array)(array.source, list(array.moves))
    return array.clone() if hasattr(array, "clone") else array.copy()
