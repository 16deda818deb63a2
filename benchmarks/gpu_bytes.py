"""Bytes that a call moves between a device and its memory, counted as they are requested.

Every operation of torch and every launch of our kernels is seen; arrays of the size of the
data count, each time that one is read or written, and narrow blocks do not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from weakprox.passes import cuda, device_engine


class Traffic(TorchDispatchMode):
    """Bytes of tensors with at least `least` entries that torch's operations touch."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least, self.bytes = least, 0

    def add(self, *arrays: object) -> None:
        """Count arrays, each once."""
        for x in arrays:
            if isinstance(x, torch.Tensor) and x.numel() >= self.least:
                self.bytes += x.numel() * x.element_size()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = tree_leaves((args, kwargs or {}))
        found = func(*args, **(kwargs or {}))
        before = {x.data_ptr() for x in given if isinstance(x, torch.Tensor)}
        made = [x for x in tree_leaves(found) if isinstance(x, torch.Tensor)]
        written = func._schema.is_mutable
        if written or not made or any(x.data_ptr() not in before for x in made):
            allocates = "empty" in func.__name__  # makes room and touches none of it
            self.add(*([] if allocates else [*given, *made]))  # a view moves nothing
        return found


def bytes_moved(call: Callable[[], object], entries: int) -> int:
    """Of a call on data with so many entries; its launches are not taken from recordings."""
    traffic = Traffic(entries)

    def counted(function: Callable, arrays: Callable) -> Callable:
        def launch(*args, **options):
            traffic.add(*arrays(*args, **options))
            with torch._C._DisableTorchDispatch():
                return function(*args, **options)

        return launch

    launches = {
        # reads the data and, but for the first time, the target, which it overwrites
        "_pass": lambda C, z, *_, begin, **__: (C, z) if begin else (C, z, z),
        "enqueue_look": lambda C, z, *_: (C, z),
        "_product": lambda kernel, shape, z, *_: (z,),
    }
    with ExitStack() as stack:
        stack.enter_context(patch.object(device_engine, "_records", lambda _: False))
        for name, arrays in launches.items():
            plain = getattr(cuda, name)
            stack.enter_context(patch.object(cuda, name, counted(plain, arrays)))
        stack.enter_context(traffic)
        call()
    return traffic.bytes
