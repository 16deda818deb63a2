"""A matrix in host memory or in a file, for computations on a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array
from weakprox.losses import inputs
from weakprox.resources.memory import as_bytes

SHARE = 0.8  # share of the free memory of a device
ARRAYS = 3  # arrays of the size of M that must fit if the matrix is to stay on the device


def on_device(name: str, M: Any, device: Any, memory: Any) -> tuple[Array, Any]:
    """M on the device; if it does not fit in this many bytes there, M itself and its tiles."""
    try:
        import torch

        from weakprox.passes.streamed import Streamed
    except ImportError:
        wanted = 'torch; install it with: pip install "weakprox[torch]"'
        raise InputError("device", repr(device), wanted) from None
    try:
        place = torch.device(device)
        if place.type not in ("cpu", "cuda"):
            raise RuntimeError
        torch.empty(0, device=place)
    except (RuntimeError, TypeError, AssertionError):
        wanted = 'a torch device of this machine, such as "cuda" or "cuda:0"'
        raise InputError("device", repr(device), wanted) from None
    given = None if memory is None else as_bytes("device_memory", memory)
    host = inputs.as_array(name, M, 2)
    if isinstance(host, torch.Tensor) and host.device.type != "cpu":
        raise InputError("device", f"{device!r}, with {name} on {host.device}", "None")
    if host.dtype not in (np.float32, np.float64, torch.float32, torch.float64):
        raise InputError(name, f"dtype {host.dtype}", "float32 or float64, with a device")
    free = math.inf if place.type == "cpu" else SHARE * torch.cuda.mem_get_info(place)[0]
    most = int(min(free, math.inf if given is None else given, 1 << 62))
    if ARRAYS * math.prod(host.shape) * host.dtype.itemsize <= most:
        tensor = host if isinstance(host, torch.Tensor) else torch.from_numpy(np.array(host))
        return tensor.to(place), None
    return host, Streamed(host, place, most)
