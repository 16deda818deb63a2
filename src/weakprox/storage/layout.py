"""The memory layout of arrays: shape, strides and the entries, each stored once.

A product rounds differently for a transposed or reversed view than for a plain array. To
continue with identical bits, a resumed run needs its arrays in their original layout.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weakprox.resources.memory import on_disk, scratch

# types of entries, and their names in safetensors
KINDS = {"bool": "BOOL", "float16": "F16", "float32": "F32", "float64": "F64"}
KINDS |= {f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)}
KINDS |= {f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)}
MOST_AXES = 8
DISK = "disk"
LONGEST = 1 << 48  # number of entries that exceeds any memory

Numbers = np.ndarray[Any, np.dtype[Any]]


def is_torch(value: object) -> bool:
    """Return True if the value is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


@dataclass(frozen=True)
class Layout:
    """Shape, and strides counted in entries."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str = ""  # of a tensor; "disk" if an array does not fit in memory and is in a file

    @classmethod
    def of(cls, array: Any) -> Layout:
        if is_torch(array):
            return cls(tuple(array.shape), tuple(array.stride()), str(array.device))
        size, device = array.dtype.itemsize, DISK if on_disk(array) else ""
        found = cls(array.shape, tuple(step // size for step in array.strides), device)
        if found.sound and all(step % size == 0 for step in array.strides):
            return found
        shape = array.shape  # in row-major order
        return cls(shape, tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))))

    @property
    def axes(self) -> list[int]:
        """Axes with more than one entry and a nonzero stride, the largest stride first."""
        moving = [i for i, n in enumerate(self.shape) if n > 1 and self.strides[i] != 0]
        return sorted(moving, key=lambda i: (-abs(self.strides[i]), i))

    @property
    def stored(self) -> tuple[int, ...]:
        """Shape of the entries, each once."""
        return (0,) if 0 in self.shape else tuple(self.shape[i] for i in self.axes)

    @property
    def span(self) -> int:
        """Entries from the first to the last in memory."""
        if 0 in self.shape:
            return 0
        return 1 + sum((self.shape[i] - 1) * abs(self.strides[i]) for i in self.axes)

    @property
    def sound(self) -> bool:
        """True if no two indices share memory, and all numbers are plausible."""
        if len(self.shape) != len(self.strides) or len(self.shape) > MOST_AXES:
            return False
        limits = (*self.shape, *(abs(step) for step in self.strides), self.span)
        if min(self.shape, default=0) < 0 or max(limits) > LONGEST:
            return False
        if self.device and min(self.strides, default=0) < 0:
            return False  # torch has no such strides
        if self.device == DISK and self.span != math.prod(self.shape):
            return False  # scratch files hold entries without gaps
        inside = 0  # extent of the faster axes
        for i in reversed(self.axes):
            if abs(self.strides[i]) <= inside:
                return False
            inside += (self.shape[i] - 1) * abs(self.strides[i])
        return True

    def entries(self, array: Any) -> Numbers:
        """The array's entries, each once, in memory order; a view if possible."""
        host = array.detach().cpu().numpy() if is_torch(array) else np.asarray(array)
        if 0 in self.shape:
            return np.empty((0,), host.dtype)
        axes = self.axes
        picked: list[Any] = [0] * len(self.shape)
        for i in axes:
            picked[i] = slice(None, None, -1 if self.strides[i] < 0 else 1)
        kept = [i for i in range(len(self.shape)) if i in axes]
        part = host[tuple(picked)] if picked else host
        ordered = np.transpose(part, [kept.index(i) for i in axes])
        return np.ascontiguousarray(ordered).reshape(self.stored)

    def arranged(self, entries: Numbers) -> Any:
        """A new array of this layout with these entries."""
        dtype = entries.dtype.newbyteorder("=")
        if 0 in self.shape:
            flat = np.empty(0, dtype)
        else:
            disk = self.device == DISK
            flat = scratch((self.span,), dtype) if disk else np.zeros(self.span, dtype)
            steps = [abs(self.strides[i]) * dtype.itemsize for i in self.axes]
            as_strided(flat, self.stored, steps)[...] = entries
        if self.device not in ("", DISK):
            import torch

            host = torch.from_numpy(flat)
            # allocated by torch, with its alignment: rounding of some products depends on it
            own = torch.empty(flat.shape, dtype=host.dtype, device=self.device)
            own.copy_(host)
            return own.as_strided(self.shape, self.strides)
        if 0 in self.shape:
            return np.empty(self.shape, flat.dtype)
        if self.device == DISK:  # a view that keeps its file
            whole = flat.reshape(self.stored).transpose(np.argsort(self.axes))
            return whole.reshape(self.shape)
        back = [i for i in self.axes if self.strides[i] < 0]
        first = sum((self.shape[i] - 1) * -self.strides[i] for i in back)
        steps = [step * flat.dtype.itemsize for step in self.strides]
        view = as_strided(flat[first:], self.shape, steps)
        pairs = zip(self.shape, self.strides, strict=True)
        if any(n > 1 and step == 0 for n, step in pairs):
            view.flags.writeable = False  # as NumPy does for broadcast arrays
        return view
