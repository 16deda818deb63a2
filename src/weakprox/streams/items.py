"""Items of a stream, checked; errors say which item is bad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.errors import SamplerError
from weakprox.linalg.arrays import Array, all_finite, is_array, is_floating, is_real, namespace


@dataclass(frozen=True)
class Batch:
    """Samples A of shape (k, m, d), perhaps with a number y for each."""

    A: Array
    y: Array | None = None

    @property
    def size(self) -> int:
        """Number of samples."""
        return int(self.A.shape[0])

    @property
    def given(self) -> Any:
        """The form in which a sampler returns them: the array, or the pair."""
        return self.A if self.y is None else (self.A, self.y)

    @property
    def empty(self) -> Batch:
        """A batch of the same kind without samples."""
        return Batch(self.A[:0], None if self.y is None else self.y[:0])

    def split(self, most: int | None) -> tuple[Batch, Batch | None]:
        """Split off at most so many samples; return them and the rest."""
        if most is None or most >= self.size:
            return self, None
        first, rest = (
            Batch(self.A[part], None if self.y is None else self.y[part])
            for part in (slice(0, most), slice(most, None))
        )
        return first, rest

    @classmethod
    def joined(cls, parts: list[Batch]) -> Batch:
        """Concatenate batches."""
        if len(parts) == 1:
            return parts[0]
        xp = namespace(parts[0].A)
        A = xp.concat([part.A for part in parts], axis=0)
        if parts[0].y is None:
            return cls(A)
        return cls(A, xp.concat([part.y for part in parts], axis=0))


def as_batch(item: Any, index: int, like: Batch | None) -> Batch:
    """Convert an item to a batch like the previous ones, or raise an error that names it."""
    pair = isinstance(item, tuple)
    if pair and len(item) != 2:
        raise _bad(index, f"a tuple of {len(item)}", "a matrix, a batch or a pair (A, y)")
    A = _array(item[0] if pair else item, index)
    if A.ndim not in (2, 3) or 0 in tuple(A.shape):
        raise _bad(index, f"shape {tuple(A.shape)}", "(m, d) or (k, m, d), no axis empty")
    single = A.ndim == 2
    A = A[None] if single else A
    y = _numbers(item[1], A, index, single=single) if pair else None
    found = Batch(A, y)
    if like is not None:
        _check_alike(found, like, index)
    if not all_finite(A) or not (y is None or all_finite(y)):
        raise _bad(index, "NaN or infinite entries", "finite numbers")
    return found


def _array(value: Any, index: int) -> Array:
    """An array of floats, or an error."""
    if not is_array(value) or not is_real(value):
        kind = f"dtype {value.dtype}" if is_array(value) else type(value).__name__
        raise _bad(index, kind, "an array of real numbers (NumPy or torch)")
    xp = namespace(value)
    return value if is_floating(value) else xp.astype(value, xp.float64)


def _numbers(value: Any, A: Array, index: int, *, single: bool) -> Array:
    """The measurement of each sample of A."""
    if not is_array(value):
        try:
            value = namespace(A).asarray(np.asarray(value, dtype=float), dtype=A.dtype)
        except (TypeError, ValueError):
            raise _bad(index, f"y of type {type(value).__name__}", "numbers") from None
    y = _array(value, index)
    y = namespace(y).reshape(y, (1,)) if single and y.ndim == 0 else y
    if tuple(y.shape) != (int(A.shape[0]),):
        raise _bad(index, f"y of shape {tuple(y.shape)}", f"({int(A.shape[0])},)")
    return y


def _check_alike(found: Batch, like: Batch, index: int) -> None:
    """Raise unless the item is of the same kind as the previous ones."""
    shape = tuple(int(n) for n in like.A.shape[1:])
    if tuple(found.A.shape[1:]) != shape:
        given = f"matrices of shape {tuple(int(n) for n in found.A.shape[1:])}"
        raise _bad(index, given, f"{shape}, like the items before")
    if (found.y is None) != (like.y is None):
        raise _bad(index, "a pair" if like.y is None else "no pair", "items of one kind")
    if namespace(found.A) is not namespace(like.A) or found.A.dtype != like.A.dtype:
        given = f"{type(found.A).__name__} of {found.A.dtype}"
        wanted = f"{type(like.A).__name__} of {like.A.dtype}, like the items before"
        raise _bad(index, given, wanted)


def _bad(index: int, given: str, wanted: str) -> SamplerError:
    return SamplerError(f"item {index} of the stream", given, wanted)
