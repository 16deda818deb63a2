"""Counting what crosses between host and device, where there is no device.

torch on the CPU stands in for it: every call by which entries of a tensor reach Python, or
Python's numbers a tensor, is counted with its size. Kernels are stood in for by the
reference passes, whose own reads do not count; what a kernel returns is one read.
"""

import sys
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from unittest.mock import patch

import array_api_compat.torch as compat
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from weakprox import passes as fused
from weakprox.linalg import arrays
from weakprox.passes import reference

SUMS = 6  # numbers that a pass returns to the host

# What an iteration of LeanSplitting may do, besides its passes: read two small squares of the
# decomposition at once, and the sums of the pass; write what turns the blocks, and the values
# of the projection.
READS_PER_ITERATION, WRITES_PER_ITERATION = 2, 2
# Where singular values that are kept differ by orders of magnitude, the small ones are found
# anew from one more small square; where blocks are badly conditioned, there are two more.
READS_WHEN_GRADED, WRITES_WHEN_GRADED = 5, 5

MAKERS = ("asarray", "as_tensor", "tensor", "from_numpy")


@dataclass
class Traffic:
    """Sizes of everything that crossed, in entries, and how many passes were made."""

    reads: list[int] = field(default_factory=list)  # device to host
    writes: list[int] = field(default_factory=list)  # host to device
    marks: list[tuple[int, int]] = field(default_factory=list)  # how many, at each pass
    calls: Counter = field(default_factory=Counter)  # of passes, by name
    before: list[Counter] = field(default_factory=list)  # the same, at each pass
    quiet: int = 0  # depth of calls that are made on the device, or counted already

    @property
    def advances(self):
        return len(self.marks)

    @property
    def per_iteration(self):
        """Reads and writes from the end of one pass to the end of the next."""
        steps = zip(self.marks, self.marks[1:], strict=False)
        return [(b[0] - a[0], b[1] - a[1]) for a, b in steps]

    def read(self, size):
        if not self.quiet:
            self.reads.append(int(size))

    def write(self, size):
        if not self.quiet:
            self.writes.append(int(size))

    @contextmanager
    def uncounted(self):
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def silent(self, function):
        """The function as a kernel: nothing that it does crosses."""

        def call(*args, **options):
            with self.uncounted():
                return function(*args, **options)

        return call


class Scalars(TorchDispatchMode):
    """item(), float(), bool() and the like all end in one operator; so do copies."""

    def __init__(self, traffic):
        super().__init__()
        self.traffic = traffic

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._local_scalar_dense.default:
            self.traffic.read(1)
        elif func is torch.ops.aten._to_copy.default and (kwargs or {}).get("device"):
            self.traffic.read(found.numel())  # from one device to another
        return found


def _methods(traffic):
    """Tensor methods that hand entries to the host."""
    plain = {name: getattr(torch.Tensor, name) for name in ("cpu", "numpy", "tolist")}

    def cpu(self):
        traffic.read(self.numel())
        host = self.detach()
        host.on_host = True  # what numpy() then shows has been counted
        return host

    def numpy(self, *args, **options):
        if not getattr(self, "on_host", False):
            traffic.read(self.numel())
        return plain["numpy"](self, *args, **options)

    def tolist(self):
        traffic.read(self.numel())
        return plain["tolist"](self)

    return {"cpu": cpu, "numpy": numpy, "tolist": tolist}


def _maker(traffic, plain):
    """A function that makes tensors, of anything."""

    def make(values, *args, **options):
        found = traffic.silent(plain)(values, *args, **options)
        if not isinstance(values, torch.Tensor):
            traffic.write(found.numel())
        return found

    return make


def _kernels(traffic):
    """The passes of a device: one read each for those that return sums."""

    def advance(*args, **options):
        traffic.read(SUMS)
        traffic.marks.append((len(traffic.reads), len(traffic.writes)))
        traffic.before.append(traffic.calls.copy())
        return traffic.silent(reference.advance)(*args, **options)

    def look(*args, **options):
        traffic.calls["look"] += 1
        traffic.read(SUMS)
        return traffic.silent(reference.look)(*args, **options)

    def named(name):
        function = traffic.silent(getattr(reference, name))

        def call(*args, **options):
            traffic.calls[name.removeprefix("quick_")] += 1
            return function(*args, **options)

        return call

    names = ("first", "times", "transpose_times", "quick_times", "quick_transpose_times")
    plain = {name: named(name) for name in names}
    return SimpleNamespace(advance=advance, look=look, IN_FLOAT64=True, **plain)


@contextmanager
def counted():
    """Everything within runs as if torch's tensors were on a device."""
    traffic = Traffic()
    kernels = _kernels(traffic)
    ours = {
        "on_cpu": lambda x: not isinstance(x, torch.Tensor),
        "passes_for": lambda *given: kernels,
        "gaussian": traffic.silent(arrays.gaussian),  # made on the device there
    }
    known = {
        "on_cpu": arrays.on_cpu,
        "passes_for": fused.passes_for,
        "gaussian": arrays.gaussian,
    }
    modules = [m for name, m in sys.modules.items() if name.startswith("weakprox")]
    with ExitStack() as stack:
        for module in modules:
            for name, function in ours.items():
                if vars(module).get(name) is known[name]:
                    stack.enter_context(patch.object(module, name, function))
        for name, method in _methods(traffic).items():
            stack.enter_context(patch.object(torch.Tensor, name, method))
        for module in (torch, compat):
            for name in MAKERS:
                make = _maker(traffic, getattr(module, name))
                stack.enter_context(patch.object(module, name, make))
        stack.enter_context(Scalars(traffic))
        yield traffic
