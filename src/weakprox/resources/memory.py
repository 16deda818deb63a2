"""Memory that the process holds and may allocate, its budget, and arrays in files."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from weakprox.arguments import is_integer
from weakprox.errors import InputError

P = ParamSpec("P")
T = TypeVar("T")

SHARE = 0.8  # share of the available memory; the rest is for computations
UNKNOWN = 4 << 30  # assumed if the system does not report it
HOARDED = 1 << 25  # size of arrays, in bytes, from which freed memory is returned to the system
CGROUP = Path("/sys/fs/cgroup")
MODES = ("r", "r+", "w+")  # modes of maps whose pages can be read again from the file
# Decimal and binary units, as for disks and for memory.
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
UNITS |= {unit + "i": 1024 ** (i + 1) for i, unit in enumerate("kmgt")}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)

_most: ContextVar[int | None] = ContextVar("most", default=None)


def as_bytes(argument: str, value: Any) -> int:
    """Bytes from an integer or from text such as "4GB" or "512 MiB"."""
    wanted = 'bytes as an integer, or text such as "4GB" or "512 MiB"'
    if isinstance(value, str):
        found = SIZE.fullmatch(value)
        if found is None:
            raise InputError(argument, repr(value), wanted)
        return int(float(found[1]) * UNITS[(found[2] or "").lower()])
    if not is_integer(value) or value < 1:
        raise InputError(argument, repr(value), wanted)
    return int(value)


def budget() -> int | None:
    """Bytes that this process may hold in total, None if no limit is set."""
    return _most.get()


@contextmanager
def limited(most: int | None) -> Iterator[None]:
    """Set the budget within this block; a smaller outer budget stays in force."""
    outer = _most.get()
    known = [limit for limit in (most, outer) if limit is not None]
    token = _most.set(min(known, default=None))
    try:
        yield
    finally:
        _most.reset(token)


def honours_budget(call: Callable[P, T]) -> Callable[P, T]:
    """Use the function's argument `max_memory` as the budget while it runs."""

    @wraps(call)
    def within(*args: P.args, **options: P.kwargs) -> T:
        given = options.get("max_memory")
        with limited(None if given is None else as_bytes("max_memory", given)):
            return call(*args, **options)

    return within


def resident() -> int:
    """Bytes of memory that this process holds now; its peak if only that is known."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return peak()


def peak() -> int:
    """Largest number of bytes held by this process so far; 0 if the system does not report it.

    Mapped pages of files are included. (For a child process, `getrusage` may report the
    peak of its parent.)
    """
    known = _told("/proc/self/status", "VmHWM:")
    if known is not None:
        return known
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def give_back(size: int) -> None:
    """Return freed memory to the system, after work on arrays of this many bytes.

    The C library of Linux keeps freed arrays of up to 32 MiB, unless the last one that was
    allocated is among them.
    """
    if size >= HOARDED and (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Any:
    """The function of glibc that does so; None in other systems."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def mapping(x: Any) -> mmap.mmap | None:
    """The memory map that holds an array's entries, or None if they are in memory."""
    shared = False
    while isinstance(x, np.ndarray):
        shared = shared or (isinstance(x, np.memmap) and x.mode in MODES)
        x = x.base
    return x if shared and isinstance(x, mmap.mmap) else None


def on_disk(x: Any) -> bool:
    """Return True if the entries are stored in a file."""
    return mapping(x) is not None


def let_go(x: Any) -> None:
    """Release the pages of a map from memory; data written to them stay in the file.

    Otherwise they would count as memory of this process until the system needs it. On
    systems other than Linux nothing is done.
    """
    found = mapping(x)
    if found is not None and hasattr(mmap, "MADV_DONTNEED"):
        found.madvise(mmap.MADV_DONTNEED)


def scratch(
    shape: tuple[int, ...], dtype: Any, folder: str | None = None
) -> np.ndarray[Any, np.dtype[Any]]:
    """An array in an unnamed file, which is deleted with the last reference to it.

    The file is in the folder, by default the directory for temporary files (TMPDIR). Its disk
    space is allocated at once, since a disk that fills up later would end the process.
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    try:
        with tempfile.TemporaryFile(prefix="weakprox-", dir=folder) as handle:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle.fileno(), 0, size)
            else:
                handle.truncate(size)
            found = np.memmap(handle, dtype=dtype, mode="r+", shape=shape)
    except OSError as failure:
        given = f"a matrix of {size} bytes to keep in {folder or tempfile.gettempdir()}"
        other = "TMPDIR" if folder is None else "folder"
        wanted = f"room for it there ({failure.strerror}), or another {other}"
        raise InputError("max_memory", given, wanted) from None
    return found


def room() -> int:
    """Bytes that may be allocated: most of the available memory, within the budget."""
    known = [free for free in (_system(), _container()) if free is not None]
    free = int(SHARE * min(known, default=UNKNOWN))
    most = budget()
    return free if most is None else max(0, min(free, most - resident()))


def _system() -> int | None:
    """Available memory as estimated by the kernel, or the total memory."""
    known = _told("/proc/meminfo", "MemAvailable:")
    if known is not None:
        return known
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _told(path: str, name: str) -> int | None:
    """Bytes that a file of the kernel lists under a name, in kibibytes; None if it does not."""
    try:
        for line in Path(path).read_text(encoding="ascii").splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _container() -> int | None:
    """Memory left within a container's limit, if there is one."""
    try:
        most = int((CGROUP / "memory.max").read_text(encoding="ascii"))
        used = int((CGROUP / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such files, or "max": no limit
        return None
    return max(0, most - used)


def shown_bytes(size: float) -> str:
    """Format a number of bytes with a suitable unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.3g} PiB"
