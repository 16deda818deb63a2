"""Passes that multiply by the symmetric part of z, for cones and penalties like `GroupL2`.

If R changes when X is transposed, steps do not keep z symmetric. Its projection to a cone of
symmetric matrices is that of (z + z')/2, so only products differ; each reads z twice.
"""

from __future__ import annotations

from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.passes.interface import Passes
from weakprox.passes.reference import Step, Sums


class Mirrored:
    """Other passes, with products of the symmetric part of z in place of those of z."""

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self.COMPILED, self.IN_FLOAT64 = passes.COMPILED, passes.IN_FLOAT64
        self.beside, self.look = passes.beside, passes.look
        self.blend_into = passes.blend_into

    def first(self, C: Array, z: Array, k: Step, Q: Array | None = None, /) -> Array | None:
        return self._completed(self._passes.first(C, z, k, Q), z, Q)

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
        sums, product = self._passes.advance(C, z, X, k, change, Q)
        return sums, self._completed(product, z, Q)

    def times(self, z: Array, V: Array, /) -> Array:
        return 0.5 * (self._passes.times(z, V) + self._passes.transpose_times(z, V))

    def quick_times(self, z: Array, V: Array, /) -> Array:
        product = self._passes.quick_times(z, V)
        return 0.5 * (product + self._passes.quick_transpose_times(z, V))

    transpose_times, quick_transpose_times = times, quick_times

    def _completed(self, product: Array | None, z: Array, Q: Array | None) -> Array | None:
        """The product with the symmetric part, from z Q."""
        if product is None or Q is None:
            return None
        return 0.5 * (product + self._passes.quick_transpose_times(z, Q))
