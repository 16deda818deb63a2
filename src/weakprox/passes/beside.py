"""Weights and bounds of entries, as arrays that passes read beside the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weakprox.linalg.arrays import Array, in_file, largest, like, norm, row_blocks, wide
from weakprox.linalg.tiled import Tiled

if TYPE_CHECKING:
    from weakprox.passes.reference import SeparableForm

HUGE = 1e18  # size of weights from which they are scaled


def of_form(form: SeparableForm, C: Array, passes_for: Callable[..., Any]) -> dict[str, Any]:
    """The fields of a `Step` that follow from the arrays of a form."""
    read = _of_weights if form.bounds is None else _of_bounds
    return read(form, C, passes_for)


def _of_weights(
    form: SeparableForm, C: Array, passes_for: Callable[..., Any]
) -> dict[str, Any]:
    """The factor of weights, the norm of their product, and the weights beside C."""
    factor, weights = form.weights[0]
    if len(form.weights) > 1:  # their sum
        factor = 1.0
        weights = sum(number * wide(one) for number, one in form.weights)
    most = largest(weights)
    if most and not 1.0 / HUGE < most < HUGE:
        # float32 and squares would overflow, or lose small numbers
        factor, weights = factor * most, wide(weights) / most
    spread = math.prod(C.shape) / weights.size  # how often each of them occurs
    steepness = factor * math.sqrt(spread) * norm(weights)
    beside = passes_for(C).beside(C, weights)
    return {"factor": factor, "steepness": steepness, "beside": beside}


def _of_bounds(form: SeparableForm, C: Array, passes_for: Callable[..., Any]) -> dict[str, Any]:
    """The bounds beside C, and sums of their sizes, distances from zero and roundings."""
    assert form.bounds is not None
    shape = (int(C.shape[0]), int(C.shape[1]))
    both = Bounds(form.bounds, shape, _itemsize(C))
    extent = inner = widened = 0.0
    for rows in row_blocks(both):
        low, high = halves(both[rows])
        sizes = []
        for end, stored in zip(both.ends, (low, high), strict=True):
            given = np.asarray(end[rows], dtype=float)
            none = np.abs(given) >= both.most
            sizes.append(np.where(none, 0.0, np.abs(given)))
            widened += float(np.abs(np.where(none, 0.0, stored - given)).sum())
        extent += float(np.maximum(*sizes).sum())
        inner += float(np.clip(np.maximum(low, -high), 0.0, None).sum(dtype=float))
    sums = {"extent": extent, "inner": inner, "widened": widened}
    return {"bounded": True, "beside": passes_for(C).beside(C, both), **sums}


def beside(C: Array, given: Any) -> Any:
    """Weights on the host, or `Bounds`, as an array that is read beside C.

    Weights have at most its precision. Both are not stored again if C is read from a file or
    computed on demand. Bounds that are the same in all rows are one row, if C is in memory.
    """
    shape, bounds = (int(C.shape[0]), int(C.shape[1])), isinstance(given, Bounds)
    if isinstance(C, Tiled) or in_file(C):
        return given if bounds or given.shape == shape else np.broadcast_to(given, shape)
    narrow = given.stored() if bounds else narrowed(given, shape, _itemsize(C))
    return narrow if isinstance(C, np.ndarray) else like(narrow, C)


def _itemsize(C: Array) -> int:
    """Bytes of an entry in passes over C."""
    return 4 if C.dtype.itemsize == 4 else 8


class Bounds(Tiled):
    """Lower and upper bounds that broadcast to a shape, as one matrix of twice the width.

    They are rounded outwards to float32 if entries take four bytes: the penalty can then only
    become smaller. Infinite bounds become the largest number, which has no product with zero
    that is not a number, and which no entry exceeds.
    """

    def __init__(self, ends: tuple[Any, Any], shape: tuple[int, int], itemsize: int) -> None:
        self.ends = tuple(np.broadcast_to(end, shape) for end in ends)
        self.shape = shape[0], 2 * shape[1]
        self.dtype = np.dtype(np.float32 if itemsize == 4 else np.float64)
        self._alike = all(end.shape[0] == 1 for end in ends)
        self._held = sum(int(end.nbytes) for end in ends)

    @property
    def most(self) -> float:
        """The number that stands for infinity."""
        return float(np.finfo(np.float32 if self.dtype.itemsize == 4 else np.float64).max)

    def __getitem__(self, rows: slice) -> np.ndarray[Any, Any]:
        given = tuple(end[rows] for end in self.ends)
        found = np.empty((len(given[0]), self.shape[1]), self.dtype)
        for half, end, far in zip(halves(found), given, (-self.most, self.most), strict=True):
            with np.errstate(over="ignore"):
                half[...] = end
            within = half > end if far < 0.0 else half < end
            np.nextafter(half, far, out=half, where=within)
            np.clip(half, -self.most, self.most, out=half)
        return found

    def stored(self) -> np.ndarray[Any, Any]:
        """The whole matrix as an array, or one row if all are the same."""
        return self[:1] if self._alike else self.dense()

    def check_finite(self) -> bool:
        return True

    @property
    def nbytes(self) -> int:
        return self._held


def halves(both: Any) -> tuple[Any, Any]:
    """The lower and the upper bounds."""
    n = both.shape[1] // 2
    return both[:, :n], both[:, n:]


def narrowed(weights: Any, shape: tuple[int, int], itemsize: int) -> np.ndarray[Any, Any]:
    """Weights in memory, rounded down to float32 if entries take four bytes.

    They may be of float32 in any case. They are not copied if they need not be.
    """
    narrow = weights.dtype.itemsize > itemsize
    whole = weights.shape == shape and weights.flags.c_contiguous
    if whole and not narrow and not in_file(weights):
        return np.asarray(weights)
    found = np.empty(shape, np.float32 if narrow else weights.dtype)
    spread = np.broadcast_to(weights, shape)
    for rows in row_blocks(found, weights if weights.shape == shape else None):
        part, given = found[rows], spread[rows]
        with np.errstate(over="ignore"):
            part[...] = given
        if narrow:
            np.nextafter(part, np.float32(0.0), out=part, where=part > given)
    found.flags.writeable = False
    return found
