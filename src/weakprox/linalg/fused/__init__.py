"""Splitting steps whose low-rank point is never stored: each is one pass over two arrays.

With X = U diag(s) Vt in factors, C the centre of a squared distance and z the splitting's
target, everything an iteration needs is a sum over entries of functions of C, z and X, or
z itself. So X is made tile by tile, used and forgotten.
"""

from __future__ import annotations

from types import ModuleType

from weakprox.linalg.arrays import Array, is_numpy
from weakprox.linalg.fused import reference
from weakprox.linalg.fused.formulas import Step, Sums

__all__ = ["Step", "Sums", "passes_for"]


def passes_for(z: Array) -> ModuleType:
    """The fastest passes there are for such arrays: `first`, `look` and `advance`."""
    if is_numpy(z) or not getattr(z, "is_cuda", False) or z.element_size() != 4:
        return reference
    if not z.is_contiguous():
        return reference
    try:
        from weakprox.linalg.fused import cuda
    except ImportError:  # torch without Triton
        return reference
    return cuda
