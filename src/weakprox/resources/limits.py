"""Memory available for the contents of a file."""

from __future__ import annotations

import os
from pathlib import Path

from weakprox.resources.memory import budget, resident

SHARE = 0.8  # of the available memory; the rest is for computations
UNKNOWN = 4 << 30  # assumed if the system does not report it
CGROUP = Path("/sys/fs/cgroup")


def room() -> int:
    """Bytes that may be allocated: most of the available memory, within the budget."""
    known = [free for free in (_system(), _container()) if free is not None]
    free = int(SHARE * min(known, default=UNKNOWN))
    most = budget()
    return free if most is None else max(0, min(free, most - resident()))


def _system() -> int | None:
    """Available memory as estimated by the kernel, or the total memory."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
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
