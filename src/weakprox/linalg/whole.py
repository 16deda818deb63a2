"""A matrix of any rank as an array, of which only the singular values are computed.

Where a ball contains the target of a proximal step, the step returns the target itself. Its
nuclear norm proves that it is feasible, and its vectors are often not needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from weakprox.errors import DecompositionError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import DOUBLE, Array, sqnorm, to_numpy
from weakprox.linalg.bounds import TINY
from weakprox.linalg.gram_svd import gram_error, gram_svd, squared
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import all_threads


@dataclass(frozen=True, repr=False)
class Whole(LowRank):
    """X as an array in float64; its factors are computed when they are first read.

    `size` is an upper bound on the nuclear norm. The array must not be overwritten.
    """

    U: ClassVar[Any]  # type: ignore[misc]
    s: ClassVar[Any]  # type: ignore[misc]
    Vt: ClassVar[Any]  # type: ignore[misc]

    X: Array
    size: float

    if TYPE_CHECKING:

        def __init__(self, X: Array, size: float) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name not in ("U", "s", "Vt") or "X" not in vars(self):
            raise AttributeError(name)
        found = _factors(self.X)
        vars(self).update(U=found.U, s=found.s, Vt=found.Vt)
        return vars(self)[name]

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def reference(self) -> Array:
        return self.X

    @property
    def most(self) -> int:
        return min(self.shape)

    @property
    def nuclear_norm(self) -> float:
        return self.size

    @property
    def sqnorm(self) -> float:
        known = vars(self)
        if "_sqnorm" not in known:
            known["_sqnorm"] = sqnorm(self.X)
        square: float = known["_sqnorm"]
        return square

    def scaled(self, factor: float) -> Whole:
        exact = math.frexp(factor)[0] == 0.5  # a power of two
        # the roundings of entries add at most the root of the rank times the norm of X
        roundings = 0 if exact else 2 + self.most
        return Whole(self.X * factor, self.size * factor * (1 + roundings * DOUBLE))

    def dense(self, out: Array | None = None) -> Array:
        if out is None:
            return self.X * 1.0
        out[...] = self.X
        return out


def whole_within(A: Array, tau: float) -> Whole | None:
    """A itself, in float64, if its nuclear norm is proved to be at most tau; else None."""
    B = A.T if A.shape[0] < A.shape[1] else A
    try:
        with all_threads(int(B.shape[1])):
            squares = to_numpy(decompositions.eigvalsh(squared(B)))[::-1]
    except DecompositionError:  # squares overflow or underflow
        return None
    squares = np.maximum(np.asarray(squares, dtype=float), 0.0)
    if not squares[0] > TINY:  # zero, or squares of small numbers have underflowed
        return None
    largest = np.sqrt(squares + gram_error(int(B.shape[0]), squares))
    size = float(largest.sum()) * (1 + (16 + len(squares)) * DOUBLE)
    return Whole(A, size) if size <= tau else None


def _factors(X: Array) -> LowRank:
    """All triplets of X."""
    least = min(X.shape)
    found = gram_svd(X, len, least, level=lambda _: 0.0)
    if found is not None:
        return found.triplets
    with all_threads(least):
        U, s, Vt = decompositions.svd(X)
    return LowRank(U, s, Vt).significant()
