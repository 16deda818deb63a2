"""Splitting steps that never store the low-rank point: each is one pass over two arrays.

Let X = U diag(s) Vt be given in factors, C the centre of a squared distance and z the target
of the splitting. An iteration needs z and sums over entries of functions of C, z and X. So X
is computed tile by tile, used and discarded.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

from weakprox.linalg.arrays import Array, is_numpy
from weakprox.linalg.tiled import Tiled
from weakprox.passes import reference
from weakprox.passes.formulas import SeparableForm, Step, Sums, ValueForm
from weakprox.resources.memory import on_disk

__all__ = ["SeparableForm", "Step", "Sums", "ValueForm", "passes_for"]

COMPILED_FROM = 2_000_000  # entries from which compiled passes repay their loading time


def passes_for(z: Array, *others: Array) -> ModuleType:
    """The fastest passes for such arrays, with `first`, `look` and `advance`.

    Operators and arrays in files are read tile by tile by `reference`. Arrays stored
    elsewhere provide their own passes as an attribute `passes`.
    """
    own: ModuleType | None = getattr(z, "passes", None)
    if own is not None:
        return own
    if any(isinstance(x, Tiled) or on_disk(x) for x in (z, *others)):
        return reference
    if is_numpy(z):
        large = z.size >= COMPILED_FROM
        return _compiled() if large and all(_plain(x) for x in (z, *others)) else reference
    if not getattr(z, "is_cuda", False) or z.element_size() != 4 or not z.is_contiguous():
        return reference
    try:
        from weakprox.passes import cuda
    except ImportError:  # torch without Triton
        return reference
    return cuda


def _plain(x: Array) -> bool:
    return is_numpy(x) and bool(x.flags.c_contiguous) and x.dtype in ("f4", "f8")


@cache
def _compiled() -> ModuleType:
    """The compiled passes if numba can be loaded and has a cache folder, else `reference`."""
    try:
        from weakprox.passes import compiled as cpu
    except (ImportError, RuntimeError):  # the latter if no folder is writable
        return reference
    return cpu
