"""The interface of passes over arrays of the size of the data, which modules implement."""

from __future__ import annotations

from typing import Protocol

from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.passes.reference import Step, Sums


class Passes(Protocol):
    """Arithmetic on the data C and the target z, which are of the same kind.

    `reference` states the formulas, and is the module that all others are tested against.
    """

    @property
    def COMPILED(self) -> bool:
        """Whether to prefer one pass at the factors of X to forming X in this process.

        Compiled passes and kernels store no blocks of X. Passes on workers do if numba is not
        available there, but only narrow blocks are sent.
        """

    @property
    def IN_FLOAT64(self) -> bool:
        """Whether quick products are summed in float64 as well."""

    def beside(self, C: Array, weights: Array, /) -> Array:
        """Return weights or bounds stored like C, as `Step.beside` needs them."""

    def first(self, C: Array, z: Array, k: Step, Q: Array | None = None, /) -> Array | None:
        """Set z to prox_{gamma R}(gamma beta C); return z Q if a block Q is given."""

    def look(self, C: Array, z: Array | None, X: LowRank, k: Step, /) -> Sums:
        """Return the sums over entries at X, in float64."""

    def advance(
        self,
        C: Array,
        z: Array,
        X: LowRank,
        k: Step,
        change: float,
        Q: Array | None = None,
        /,
    ) -> tuple[Sums, Array | None]:
        """Overwrite z by the next target; return estimates of the sums at X, and z Q."""

    def times(self, z: Array, V: Array, /) -> Array:
        """Return z V for a narrow block, summed in float64."""

    def transpose_times(self, z: Array, U: Array, /) -> Array:
        """Return z' U for a narrow block, summed in float64."""

    def quick_times(self, z: Array, V: Array, /) -> Array:
        """Return z V, summed in the fastest precision."""

    def quick_transpose_times(self, z: Array, U: Array, /) -> Array:
        """Return z' U, summed in the fastest precision."""

    def blend_into(self, X: Array, V: LowRank, step: float, scratch: Array | None, /) -> None:
        """Overwrite an array X by (1 - step) X + step V; `scratch` may be overwritten."""
