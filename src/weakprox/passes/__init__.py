"""Splitting steps whose low-rank point is never stored: each is one pass over two arrays.

With X = U diag(s) Vt in factors, C the centre of a squared distance and z the splitting's
target, everything an iteration needs is a sum over entries of functions of C, z and X, or
z itself. So X is made tile by tile, used and forgotten.
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

COMPILED_FROM = 2_000_000  # entries from which compiled passes are worth their loading


def passes_for(z: Array, *others: Array) -> ModuleType:
    """The fastest passes there are for such arrays: `first`, `look` and `advance`.

    Operators and arrays in files are read tile by tile, which `reference` does. Arrays that
    live elsewhere bring their own, as an attribute `passes`.
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
    """The compiled passes where numba is installed and has a folder for what it compiles."""
    try:
        from weakprox.passes import compiled as cpu
    except (ImportError, RuntimeError):  # the latter where no folder can be written to
        return reference
    return cpu
